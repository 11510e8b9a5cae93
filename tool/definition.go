package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Defaults and limits of a [Definition].
const (
	DefaultTimeout     = 2 * time.Minute
	DefaultMaxAttempts = 3

	// DefaultDeadline is the default deadline of background tasks.
	DefaultDeadline = 24 * time.Hour

	maxTimeout  = 24 * time.Hour
	maxDeadline = 365 * 24 * time.Hour
	maxAttempts = 100
)

// TaskQueueForm describes the names that [ValidTaskQueue] accepts.
const TaskQueueForm = "must be 1 to 200 letters, digits and any of _-./"

var queueForm = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,200}$`)

// ValidTaskQueue reports whether a task queue may have this name.
func ValidTaskQueue(name string) bool { return queueForm.MatchString(name) }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// WithDefaults returns d with the defaults of zero fields. A quick tool becomes idempotent, and is
// no longer quick if it has a task queue. A tool that is not idempotent has one attempt.
func (d Definition) WithDefaults() Definition {
	if d.Deadline == 0 {
		d.Deadline = DefaultDeadline
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
		if d.Background {
			d.Timeout = min(d.Deadline, maxTimeout)
		}
	}
	if d.Quick {
		d.Idempotent, d.Quick = true, d.TaskQueue == ""
	}
	switch {
	case !d.Idempotent:
		d.MaxAttempts = 1
	case d.MaxAttempts == 0:
		d.MaxAttempts = DefaultMaxAttempts
	}
	if len(d.Parameters) == 0 {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return d
}

// Validate reports the first field that is missing or invalid.
func (d Definition) Validate() error {
	switch {
	case !nameForm.MatchString(d.Name):
		return fmt.Errorf("tool name %q: use 1 to 64 letters, digits, _ and -", d.Name)
	case d.Timeout < 0 || d.Timeout > maxTimeout:
		return fmt.Errorf("tool %q: timeout is %s, must be positive and at most %s (or 0 for the default, %s)",
			d.Name, d.Timeout, maxTimeout, DefaultTimeout)
	case d.Deadline < 0 || d.Deadline > maxDeadline:
		return fmt.Errorf("tool %q: deadline is %s, must be positive and at most %s (or 0 for the default, %s)",
			d.Name, d.Deadline, maxDeadline, DefaultDeadline)
	case d.Background && d.Quick:
		return fmt.Errorf("tool %q: background and quick exclude each other: a quick tool is not worth a task", d.Name)
	case d.Client && (d.Background || d.Quick):
		return fmt.Errorf("tool %q: client excludes background and quick: it does not run here", d.Name)
	case d.Client && d.TaskQueue != "":
		return fmt.Errorf("tool %q: client excludes taskQueue: no worker runs it", d.Name)
	case !ValidTaskQueue(d.TaskQueue) && d.TaskQueue != "":
		return fmt.Errorf("tool %q: taskQueue is %q, %s", d.Name, d.TaskQueue, TaskQueueForm)
	case d.MaxAttempts < 0 || d.MaxAttempts > maxAttempts:
		return fmt.Errorf("tool %q: maxAttempts is %d, must be 1 to %d (or 0 for the default, %d)",
			d.Name, d.MaxAttempts, maxAttempts, DefaultMaxAttempts)
	}
	if p := bytes.TrimSpace(d.Parameters); len(p) > 0 && (p[0] != '{' || !json.Valid(p)) {
		return fmt.Errorf("tool %q: parameters must be a JSON Schema, a JSON object", d.Name)
	}
	return nil
}
