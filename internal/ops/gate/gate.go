// Package gate replays histories with the workflows of a program, before the program gets threads: what it cannot replay
// would get stuck on it.
package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Result says whether a history can be replayed.
type Result struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run,omitempty"`
	Type     string `json:"type"`
	Why      string `json:"why"` // why it was chosen
	Events   int    `json:"events"`

	// Build is the build of the workers to which the run is pinned.
	Build string `json:"build,omitempty"`

	Error  string `json:"error,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// Pinned reports whether the run stays on its build, so that no other one replays it.
func (r Result) Pinned() bool { return r.Build != "" }

// Options returns the options of a replayer that reads and runs workflows as the workers of a client with these options do: with
// its converters, and with those of its interceptors that the SDK adds to each worker.
func Options(o client.Options) worker.WorkflowReplayerOptions {
	out := worker.WorkflowReplayerOptions{
		DataConverter: o.DataConverter, FailureConverter: o.FailureConverter, ContextPropagators: o.ContextPropagators,
		// A busy machine may pause for longer than the limit of a second.
		DisableDeadlockDetection: true,
	}
	for _, i := range o.Interceptors {
		if w, ok := i.(interceptor.WorkerInterceptor); ok {
			out.Interceptors = append(out.Interceptors, w)
		}
	}
	return out
}

// Gate replays histories.
type Gate struct {
	// Replayer has the workflows of the program.
	Replayer worker.WorkflowReplayer

	// From is a build whose threads are to run with this program: they do not count as pinned. Empty = none.
	From string

	// Each is called after each history.
	Each func(Result)
}

// Files replays the histories of a folder: its .json files, in the form in which "temporal workflow show --output json"
// prints them.
func (g Gate) Files(ctx context.Context, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return fmt.Errorf("reading histories: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no .json files: write them with temporal workflow show --workflow-id ID --output json", folder)
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		g.replay(h, Result{Workflow: startedID(h, file), Why: file})
	}
	return nil
}

func read(path string) (*history.History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return client.HistoryFromJSON(f, client.HistoryJSONOptions{})
}

// startedID returns the id of the workflow of a history. Those of old servers do not have it.
func startedID(h *history.History, file string) string {
	if len(h.GetEvents()) > 0 {
		if id := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId(); id != "" {
			return id
		}
	}
	return strings.TrimSuffix(filepath.Base(file), ".json")
}

// replay replays a history, and completes its result.
func (g Gate) replay(h *history.History, r Result) {
	r.Events = len(h.GetEvents())
	if r.Events == 0 {
		r.Error, r.Advice = "the history has no events", "export it again"
		g.Each(r)
		return
	}
	r.Type = h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
	run := r.Run
	if run == "" {
		run = "replay"
	}
	err := g.Replayer.ReplayWorkflowHistoryWithOptions(quiet{}, h, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: r.Workflow, RunID: run},
	})
	if err != nil {
		r.Error, r.Advice = oneLine(err), advice(err)
	}
	g.Each(r)
}

// maxError is the length of an error, which may quote commands and events with their payloads.
const maxError = 600

func oneLine(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return s
}

// nondeterministic is the code with which the SDK marks such errors.
const nondeterministic = "TMPRL1100"

func advice(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, nondeterministic):
		return "the workflow emits other commands than before: put the change behind workflow.GetVersion, or run this program as a build of its own (--build), on which only new runs begin"
	case strings.Contains(text, "unable to find workflow type"):
		return "this program does not have the workflow: register it with Config.RegisterWith"
	case strings.Contains(text, "unable to decode"), strings.Contains(text, "encoding"):
		return "the payloads cannot be read: give this program the data converter of the workers (Config.ClientOptions of package app)"
	case isPanic(err):
		return "the workflow panics with this history"
	}
	return "a worker of this program would be stuck at this point"
}

// isPanic reports whether a workflow has panicked: the SDK's error for it is not exported, and has the stack.
func isPanic(err error) bool {
	_, ok := errors.AsType[interface {
		error
		StackTrace() string
	}](err)
	return ok
}

// Report counts results.
type Report struct {
	// Complete reports whether all of the chosen histories were replayed.
	Complete bool `json:"complete"`

	Replayed int            `json:"replayed"`
	By       map[string]int `json:"by"` // by the reason for which they were chosen; a folder counts as one
	Failed   []Result       `json:"failed"`

	// Pinned failed too, and stay on the builds to which they are pinned.
	Pinned []Result `json:"pinned"`

	// Moved are the workflows that were moved to the build of the program.
	Moved []string `json:"moved,omitempty"`
}

// NewReport returns a report without results.
func NewReport() *Report {
	return &Report{By: map[string]int{}, Failed: []Result{}, Pinned: []Result{}}
}

// Add adds a result.
func (r *Report) Add(one Result) {
	r.Replayed++
	why := one.Why
	if strings.HasSuffix(why, ".json") {
		why = "files"
	}
	r.By[why]++
	switch {
	case one.Error == "":
	case one.Pinned():
		r.Pinned = append(r.Pinned, one)
	default:
		r.Failed = append(r.Failed, one)
	}
}

// Summary says in a line what was replayed.
func (r *Report) Summary() string {
	if r.Replayed == 0 {
		return "no history replayed"
	}
	var parts []string
	for why, n := range r.By {
		parts = append(parts, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d histories replayed (%s): %d cannot be, %d more stay on their builds", r.Replayed, strings.Join(parts, ", "), len(r.Failed), len(r.Pinned))
}

// quiet drops the log of workflows.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
