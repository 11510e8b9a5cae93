package rule

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Rule routes environment events. It has at most one of Function, Processor and Agent, or a
// Function followed by an Agent. With none of them, the event is only stored.
type Rule struct {
	// Name is unique among the rules. Default: the first of Events. A rule with the name of one of
	// the [Defaults] replaces it.
	Name string

	// Events are the types that the rule matches: "file.changed", "background_task.*", or "*" for
	// every type. At least one.
	Events []string

	// Where are conditions on the event. All of them must hold.
	Where []Condition

	// Priority decides which of the matching rules handles the event: the highest and, of equals,
	// the one registered first. Default 0.
	Priority int

	// Disabled rules match nothing.
	Disabled bool

	// Debounce delays events until none has arrived for this duration, but at most ten times as
	// long; then the last one is handled. Throttle handles one event, and then the last of those
	// that arrive within this duration. Each is at most a day; 0 = none.
	Debounce time.Duration
	Throttle time.Duration

	// Log writes the event to the worker's log.
	Log bool

	// Function handles the event. If Agent is set too, the agent runs afterwards.
	Function Func

	// Timeout is the limit of one attempt of the function. Default 30 seconds, at most a day.
	// MaxAttempts is the maximum number of attempts. Default 3, at most 100.
	Timeout     time.Duration
	MaxAttempts int

	// Processor is the name of a registered processor that handles the event, regardless of its
	// event type.
	Processor string

	// Agent handles the event with an agent.
	Agent *Agent

	// message turns a user_query into a message. Only the default rule sets it.
	message bool
}

// Func handles an event. It may be called again with the same event when it fails or its worker is
// lost; Context.Key is then the same. After the last failed attempt the event is recorded as failed
// and can be retried; the thread continues with the next events.
type Func func(ctx context.Context, c Context, e event.EnvEvent) error

// Context describes the call of a function.
type Context struct {
	Rule      string
	Namespace string
	ThreadID  string
	TraceID   string

	// Attempt counts from 1.
	Attempt int
}

// Key returns the idempotency key of a call. It is the same in every attempt.
func (c Context) Key(e event.EnvEvent) string {
	return c.Namespace + "/" + c.ThreadID + "/" + e.ID + "/" + c.Rule
}

// Agent is an agent that handles events. It sees the event as three messages in its thread, the
// last of which is the result of get_event_info, and is asked to process it.
type Agent struct {
	// The agent. Default: the one that the event names, or else the first of the thread.
	//
	// The event names it in its metadata, as trigger_agent_name or trigger_agent_id. Without agents, the thread has the
	// default agent.
	Name string `json:"name,omitempty"`

	// How to handle the event.
	//
	// It is added to the agent's instructions while the agent handles the event, as SystemPrompt is.
	Prompt string `json:"prompt,omitempty"`

	// The role of the agent.
	SystemPrompt string `json:"systemPrompt,omitempty"`
}

// Condition is a condition on one field of an event. Exactly one of the tests is set. For a missing
// field, only Not and Exists can hold.
type Condition struct {
	// A dotted path into the event, such as payload.branch.
	//
	// Other examples are metadata.source, type and payload.commits.0.author.
	Field string `json:"field"`

	// The field has this value.
	Equals any `json:"equals,omitempty"`

	// The field does not have this value.
	Not any `json:"not,omitempty"`

	// The field has one of these values.
	In []any `json:"in,omitempty"`

	// The field is a number above this.
	Above *float64 `json:"above,omitempty"`

	// The field is a number below this.
	Below *float64 `json:"below,omitempty"`

	// The field is a text that begins with this.
	Prefix string `json:"prefix,omitempty"`

	// The field is a text or a list that contains this.
	//
	// It also searches in arrays.
	Contains any `json:"contains,omitempty"`

	// Whether the field exists and is not null.
	Exists *bool `json:"exists,omitempty"`
}

// Spec is the serializable description of a rule that a thread uses.
type Spec struct {
	Name        string        `json:"name"`
	Events      []string      `json:"events"`
	Where       []Condition   `json:"where,omitempty"`
	Priority    int           `json:"priority,omitempty"`
	Debounce    time.Duration `json:"debounce,omitempty"`
	Throttle    time.Duration `json:"throttle,omitempty"`
	Log         bool          `json:"log,omitempty"`
	Function    bool          `json:"function,omitempty"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	MaxAttempts int           `json:"maxAttempts,omitempty"`
	Processor   string        `json:"processor,omitempty"`
	Agent       *Agent        `json:"agent,omitempty"`
	Message     bool          `json:"message,omitempty"`

	// Default marks the default rules.
	Default bool `json:"default,omitempty"`
}
