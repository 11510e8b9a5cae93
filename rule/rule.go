package rule

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Rule routes environment events. It has at most one of Function, Processor and Agent, or
// a Function before an Agent. With none of them, the event is stored, and that is all.
type Rule struct {
	// Name is unique among the rules. Default: the first of Events. A rule that is called
	// like one of the [Defaults] replaces it.
	Name string

	// Events are the types that it matches: "file.changed", "background_task.*", or "*"
	// for every type. At least one.
	Events []string

	// Where are conditions on the event, all of which must hold.
	Where []Condition

	// Priority: of the rules that match, the highest handles the event; of equals, the
	// one that was registered first. Default 0.
	Priority int

	// Disabled rules match nothing.
	Disabled bool

	// Debounce holds events back until none has come for this long, but for ten times as
	// long at most; then the last of them is handled. Throttle handles one event, and then
	// the last of those that have come within this time. Either is at most a day; 0 = none.
	Debounce time.Duration
	Throttle time.Duration

	// Log writes the event to the worker's log.
	Log bool

	// Function handles the event. If Agent is set too, that comes after it.
	Function Func

	// Timeout bounds one attempt of the function. Default 30 seconds, at most a day.
	// MaxAttempts is how often it is tried in all. Default 3, at most 100.
	Timeout     time.Duration
	MaxAttempts int

	// Processor is the name of a processor of the application that handles the event,
	// whatever type it declares.
	Processor string

	// Agent wakes an agent.
	Agent *Agent

	// message makes a message of a user_query. It is for the default rule.
	message bool
}

// Func handles an event. It may be called again with the same event, when it fails or its
// worker is lost: Context.Key is the same then. What fails after the last attempt is
// recorded, and can be retried; the thread goes on with the events that follow.
type Func func(ctx context.Context, c Context, e event.EnvEvent) error

// Context is what a function is told beside the event.
type Context struct {
	Rule      string
	Namespace string
	ThreadID  string
	TraceID   string

	// Attempt counts from 1.
	Attempt int
}

// Key is the idempotency key of a call: the same in every attempt.
func (c Context) Key(e event.EnvEvent) string {
	return c.Namespace + "/" + c.ThreadID + "/" + e.ID + "/" + c.Rule
}

// Agent is an agent that handles events. It sees what has happened as three messages in
// its thread, the last of which is the result of get_event_info, and is asked to process
// the event.
type Agent struct {
	// Name of the agent. Default: the one in the event's metadata (trigger_agent_name or
	// trigger_agent_id) if it takes part in the thread, else the thread's first, or the
	// default agent.
	Name string `json:"name,omitempty"`

	// Prompt says what to do with the event, and SystemPrompt whom the agent is to be.
	// Both are added to its instructions while it handles the event.
	Prompt       string `json:"prompt,omitempty"`
	SystemPrompt string `json:"systemPrompt,omitempty"`
}

// Condition is a condition on one field of an event. Exactly one of the tests is set. Of
// a field that is not there, only Not and Exists can hold.
type Condition struct {
	// Field is a path with dots into the event: "payload.branch", "metadata.source",
	// "type", "payload.commits.0.author".
	Field string `json:"field"`

	// Equals and Not compare with any JSON value, In with several.
	Equals any   `json:"equals,omitempty"`
	Not    any   `json:"not,omitempty"`
	In     []any `json:"in,omitempty"`

	// Above and Below compare numbers.
	Above *float64 `json:"above,omitempty"`
	Below *float64 `json:"below,omitempty"`

	// Prefix and Contains look into text; Contains also into lists.
	Prefix   string `json:"prefix,omitempty"`
	Contains any    `json:"contains,omitempty"`

	// Exists says whether the field is there at all, and is not null.
	Exists *bool `json:"exists,omitempty"`
}

// Spec is a rule as plain data: what a thread knows of it.
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

	// Default marks the rules that there are unless others come before them.
	Default bool `json:"default,omitempty"`
}
