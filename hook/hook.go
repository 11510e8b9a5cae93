package hook

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Hook intercepts the events that match its filter. One of Func, Inline and Workflow is required.
type Hook struct {
	// Name is unique among hooks and processors. It consists of letters, digits, - and _.
	Name   string
	Filter Filter

	Func     Func
	Inline   InlineFunc
	Workflow *Workflow

	// OnFailure is the failure mode after the last attempt. Default [FailClosed].
	OnFailure FailureMode

	// Timeout is the limit of one attempt. Default 30 seconds for a Func, no limit for a Workflow.
	// At most a day for a Func and a year for a Workflow. It does not apply to an inline hook.
	Timeout time.Duration

	// MaxAttempts is the maximum number of attempts, at most 100. Default 3 for a Func, 1 for a
	// Workflow, whose activities have their own retries.
	MaxAttempts int

	// HoldOutput hides an agent's reply and its tokens from viewers until the hooks have decided on
	// it.
	HoldOutput bool

	// redact is that of the set's Config.
	redact func(Answer, error) (Answer, error)
}

// Func decides on an event. [DepsOf] returns its dependencies. It must return when ctx is done.
type Func func(ctx context.Context, e event.Event) (Result, error)

// InlineFunc is a [Func] that runs in the thread's workflow. It must be deterministic, fast and
// without I/O.
type InlineFunc func(c Context, e event.Event) (Result, error)

// Workflow is a hook workflow in any language. Its input is a [Request] and its result a [Verdict].
type Workflow struct {
	// Type is the workflow type.
	Type string

	// TaskQueue is the task queue of its worker. Default: the task queue of threads.
	TaskQueue string
}

// Filter selects events. An empty field selects all events; a field that is set does not select
// events to which it does not apply.
type Filter struct {
	// Types are types of events. A type that ends in * matches all types with that prefix. Empty =
	// all except "llm_call".
	Types []string `json:"types,omitempty"`

	// CreatedBy are the creators of messages: user, agent, tool, system. Tool calls and model calls
	// are created by agents.
	CreatedBy []event.CreatedBy `json:"createdBy,omitempty"`

	// Agents are the agents that made the reply or the tool calls or, for a tool result, the call.
	Agents []string `json:"agents,omitempty"`

	// Tools are the tools that are called or that returned the result; "server__*" stands for all tools
	// of an MCP server. One of several calls is enough.
	Tools []string `json:"tools,omitempty"`

	// Namespaces are Threadmill namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
}

// FailureMode is the effect of a failed hook or processor on its event.
type FailureMode string

// The failure modes.
const (
	// FailClosed fails the event visibly. It can be retried.
	FailClosed FailureMode = "closed"
	// FailOpen continues without the hook. The failure is recorded.
	FailOpen FailureMode = "open"
)

// Defaults and limits of hooks and processors.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxAttempts = 3

	maxTimeout         = 24 * time.Hour
	maxWorkflowTimeout = 365 * 24 * time.Hour // it may wait for a person
	maxAttempts        = 100
)

// OnMessage returns a hook for messages.
func OnMessage(name string, f func(ctx context.Context, m event.MessageEvent) (Result, error)) Hook {
	return on(name, event.TypeMessage, f)
}

// OnToolCall returns a hook for tool calls, before they run. It may replace the event by one with
// other arguments or with fewer calls. Removed calls never run, and get a result that says so; refused calls
// ([event.ToolCallEvent.Refuse]) get one with a reason.
func OnToolCall(name string, f func(ctx context.Context, c event.ToolCallEvent) (Result, error)) Hook {
	return on(name, event.TypeToolCall, f)
}

// OnLLMCall returns a hook for model calls, before they are made.
func OnLLMCall(name string, f func(ctx context.Context, c event.LLMCallEvent) (Result, error)) Hook {
	return on(name, event.TypeLLMCall, f)
}

// OnCustom returns a hook for custom events of a type or, if typ ends in *, of all types with that
// prefix.
func OnCustom(name, typ string, f func(ctx context.Context, e event.CustomEvent) (Result, error)) Hook {
	return on(name, typ, f)
}

// OnEnv returns a hook for environment events of a type or, if typ ends in *, of all types with
// that prefix.
func OnEnv(name, typ string, f func(ctx context.Context, e event.EnvEvent) (Result, error)) Hook {
	return on(name, typ, f)
}

func on[E event.Event](name, typ string, f func(context.Context, E) (Result, error)) Hook {
	h := Hook{Name: name, Filter: Filter{Types: []string{typ}}}
	if f == nil {
		return h // invalid: Validate reports it
	}
	h.Func = func(ctx context.Context, e event.Event) (Result, error) {
		typed, ok := e.(E)
		if !ok {
			// An earlier hook replaced the event by one of another type.
			return Pass(), nil
		}
		return f(ctx, typed)
	}
	return h
}

// OnEvent returns a hook for all events except model calls.
func OnEvent(name string, f Func) Hook { return Hook{Name: name, Func: f} }

// Inline returns a hook that runs in the thread's workflow, for all events except model calls.
func Inline(name string, f InlineFunc) Hook { return Hook{Name: name, Inline: f} }

// InWorkflow returns a hook that is a workflow, for all events except model calls.
func InWorkflow(name string, w Workflow) Hook { return Hook{Name: name, Workflow: &w} }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name %q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", name)
	}
	return nil
}

// Validate reports the first field that is missing or invalid.
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

// validate rejects filters that can never match.
func (f Filter) validate() error {
	for _, typ := range f.Types {
		if typ == "" {
			return errors.New("Filter.Types: a type must not be empty; leave Types empty for all events")
		}
		if neverSeen(typ) {
			return fmt.Errorf("Filter.Types: %q events are created by the thread itself and never seen by hooks", typ)
		}
	}
	for _, by := range f.CreatedBy {
		if !by.Valid() {
			return fmt.Errorf("Filter.CreatedBy: %q is not one of user, agent, tool, system", by)
		}
	}
	return nil
}

// neverSeen reports whether hooks and processors never handle a type.
func neverSeen(typ string) bool {
	return event.Reserved(typ) && typ != event.TypeToolCall && typ != event.TypeLLMCall
}

func checkBounds(mode FailureMode, timeout, longest time.Duration, attempts int) error {
	switch {
	case mode != "" && mode != FailClosed && mode != FailOpen:
		return fmt.Errorf("OnFailure is %q, must be closed or open", mode)
	case timeout < 0 || timeout > longest:
		return fmt.Errorf("its Timeout is %s, must be positive and at most %s (or 0 for the default)", timeout, longest)
	case attempts < 0 || attempts > maxAttempts:
		return fmt.Errorf("MaxAttempts is %d, must be 1 to %d (or 0 for the default)", attempts, maxAttempts)
	}
	return nil
}
