package hook

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Hook sees the events that its filter matches. One of Func, Inline and Workflow is
// required.
type Hook struct {
	// Name is unique among hooks and processors: letters, digits, - and _.
	Name   string
	Filter Filter

	Func     Func
	Inline   InlineFunc
	Workflow *Workflow

	// OnFailure says what a failure means, after the last attempt. Default [Closed].
	OnFailure FailureMode

	// Timeout bounds one attempt. Default: 30 seconds for a Func, no limit for a
	// Workflow. At most a day, and a year for a Workflow. An inline hook has none.
	Timeout time.Duration

	// MaxAttempts is how often it is tried in all, at most 100. Default 3. A Workflow is
	// started once by default; its activities have retries of their own.
	MaxAttempts int

	// HoldOutput keeps an agent's reply from those who watch, its tokens included,
	// until the hooks have decided on it.
	HoldOutput bool
}

// Func sees an event. It returns nil to let it pass, or the event that holds in its
// place; or it calls respond. [DepsOf] tells more about the event. It must stop when ctx
// ends.
type Func func(ctx context.Context, e event.Event, respond Respond) (event.Event, error)

// InlineFunc is a [Func] within the thread's workflow: deterministic, fast, without I/O.
type InlineFunc func(c Context, e event.Event, respond Respond) (event.Event, error)

// Workflow is a hook workflow in any language: it is given a [Request], and returns a
// [Verdict].
type Workflow struct {
	// Type of the workflow.
	Type string

	// TaskQueue on which its worker listens. Default: that of the threads.
	TaskQueue string
}

// Filter selects events. An empty field selects all; fields that do not apply to an
// event do not select it unless they are empty.
type Filter struct {
	// Types of events; one that ends in * matches what begins like it. Empty = all but
	// "llm_call".
	Types []string `json:"types,omitempty"`

	// CreatedBy of messages: user, agent, tool, system. Tool calls and model calls are
	// created by agents.
	CreatedBy []event.CreatedBy `json:"createdBy,omitempty"`

	// Agents that made the reply or the calls; of a tool's result, that asked for it.
	Agents []string `json:"agents,omitempty"`

	// Tools that are called, or whose result it is. One of several calls is enough.
	Tools []string `json:"tools,omitempty"`

	// Namespaces of Threadmill.
	Namespaces []string `json:"namespaces,omitempty"`
}

// FailureMode says what the failure of a hook or processor means for its event.
type FailureMode string

// The failure modes.
const (
	// Closed fails the event, for all to see. It can be retried.
	Closed FailureMode = "closed"
	// Open goes on without the hook. The failure is recorded.
	Open FailureMode = "open"
)

// Defaults and bounds of hooks and processors.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxAttempts = 3

	maxTimeout         = 24 * time.Hour
	maxWorkflowTimeout = 365 * 24 * time.Hour // it may wait for a person
	maxAttempts        = 100
)

// OnMessage makes a hook for messages.
func OnMessage(name string, f func(ctx context.Context, m event.MessageEvent, respond Respond) (event.Event, error)) Hook {
	return on(name, event.TypeMessage, f)
}

// OnToolCall makes a hook for tool calls, before they run. It may return the event with
// other arguments or with fewer calls: those that are left out never run, and have a
// result that says so.
func OnToolCall(name string, f func(ctx context.Context, c event.ToolCallEvent, respond Respond) (event.Event, error)) Hook {
	return on(name, event.TypeToolCall, f)
}

// OnLLMCall makes a hook for model calls, before they are made.
func OnLLMCall(name string, f func(ctx context.Context, c event.LLMCallEvent, respond Respond) (event.Event, error)) Hook {
	return on(name, event.TypeLLMCall, f)
}

// OnCustom makes a hook for events of a type of your own, or, with a * behind it, of
// several.
func OnCustom(name, typ string, f func(ctx context.Context, e event.CustomEvent, respond Respond) (event.Event, error)) Hook {
	return on(name, typ, f)
}

// OnEnv makes a hook for environment events of a type or, with a * behind it, of several.
func OnEnv(name, typ string, f func(ctx context.Context, e event.EnvEvent, respond Respond) (event.Event, error)) Hook {
	return on(name, typ, f)
}

func on[E event.Event](name, typ string, f func(context.Context, E, Respond) (event.Event, error)) Hook {
	h := Hook{Name: name, Filter: Filter{Types: []string{typ}}}
	if f == nil {
		return h // which does not validate
	}
	h.Func = func(ctx context.Context, e event.Event, respond Respond) (event.Event, error) {
		typed, ok := e.(E)
		if !ok {
			// Another hook has made an event of another type of it.
			return nil, nil
		}
		return f(ctx, typed, respond)
	}
	return h
}

// OnEvent makes a hook for all events but model calls.
func OnEvent(name string, f Func) Hook { return Hook{Name: name, Func: f} }

// Inline makes a hook that runs within the thread's workflow, for all events but model
// calls.
func Inline(name string, f InlineFunc) Hook { return Hook{Name: name, Inline: f} }

// InWorkflow makes a hook of a workflow, for all events but model calls.
func InWorkflow(name, workflowType, taskQueue string) Hook {
	return Hook{Name: name, Workflow: &Workflow{Type: workflowType, TaskQueue: taskQueue}}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name %q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", name)
	}
	return nil
}

// Validate reports the first field that is missing or out of bounds.
func (h Hook) Validate() error {
	if err := checkName(h.Name); err != nil {
		return fmt.Errorf("hook %w", err)
	}
	ways := 0
	for _, set := range []bool{h.Func != nil, h.Inline != nil, h.Workflow != nil} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("hook %q: exactly one of Func, Inline and Workflow is required", h.Name)
	case h.Workflow != nil && h.Workflow.Type == "":
		return fmt.Errorf("hook %q: Workflow.Type is required", h.Name)
	case h.Inline != nil && (h.Timeout != 0 || h.MaxAttempts != 0):
		return fmt.Errorf("hook %q: an inline hook has neither Timeout nor MaxAttempts", h.Name)
	}
	if err := h.Filter.validate(); err != nil {
		return fmt.Errorf("hook %q: %w", h.Name, err)
	}
	longest := maxTimeout
	if h.Workflow != nil {
		longest = maxWorkflowTimeout
	}
	if err := checkBounds(h.OnFailure, h.Timeout, longest, h.MaxAttempts); err != nil {
		return fmt.Errorf("hook %q: %w", h.Name, err)
	}
	return nil
}

// validate refuses what could never match: that is a mistake.
func (f Filter) validate() error {
	for _, typ := range f.Types {
		if typ == "" {
			return errors.New("Filter.Types: a type must not be empty; leave Types empty for all events")
		}
		if neverSeen(typ) {
			return fmt.Errorf("Filter.Types: %q events are made by the thread itself and never seen by hooks", typ)
		}
	}
	for _, by := range f.CreatedBy {
		if !by.Valid() {
			return fmt.Errorf("Filter.CreatedBy: %q is not one of user, agent, tool, system", by)
		}
	}
	return nil
}

// neverSeen reports types that neither hooks nor processors are asked about.
func neverSeen(typ string) bool {
	return event.Reserved(typ) && typ != event.TypeToolCall && typ != event.TypeLLMCall
}

func checkBounds(mode FailureMode, timeout, longest time.Duration, attempts int) error {
	switch {
	case mode != "" && mode != Closed && mode != Open:
		return fmt.Errorf("OnFailure is %q, must be closed or open", mode)
	case timeout < 0 || timeout > longest:
		return fmt.Errorf("its Timeout is %s, must be positive and at most %s (or 0 for the default)", timeout, longest)
	case attempts < 0 || attempts > maxAttempts:
		return fmt.Errorf("MaxAttempts is %d, must be 1 to %d (or 0 for the default)", attempts, maxAttempts)
	}
	return nil
}
