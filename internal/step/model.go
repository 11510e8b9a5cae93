package step

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Model is the input of call_model. It contains references and no transcript.
type Model struct {
	// Run has the id of the reply. If a reply with this id is already stored, the activity
	// returns it without calling the model.
	Run
	ReplyTo string `json:"replyTo,omitempty"`
	Step    int    `json:"step"`

	// Ends, if set, is the id of the record that announces the end of the turn. The activity stores
	// it with a reply that has no tool calls and addresses nobody. HandledBy is the rule that then
	// has handled the turn's environment event.
	Ends      string `json:"ends,omitempty"`
	HandledBy string `json:"handledBy,omitempty"`

	// Replies are the ids of the final messages of the turn, if this reply ends it and is not the only one.
	Replies []string `json:"replies,omitempty"`

	// Joined are the events that joined the turn.
	Joined []string `json:"joined,omitempty"`

	// Outage describes the failed attempts at this model call.
	Outage *event.Retry `json:"outage,omitempty"`

	// Route is the route of the call, if an activity on another task queue has returned it.
	Route *Route `json:"route,omitempty"`

	// Instructions and Model are changes of hooks for this call.
	Instructions string `json:"instructions,omitempty"`
	Model        string `json:"model,omitempty"`

	// Agents are the agents of the thread, which determine the messages that the agent sees.
	// Answers is the agent whose message is answered, if any.
	Agents  []string `json:"agents,omitempty"`
	Answers string   `json:"answers,omitempty"`

	// OpenCalls are calls of other runs that have no result yet.
	OpenCalls []string `json:"openCalls,omitempty"`

	// Pending maps the digests of the agent's calls in other runs that wait for approval to their
	// ids, so that the same call is not requested twice.
	Pending map[string]string `json:"pending,omitempty"`

	// Gated means that hooks decide on the reply, so the thread records the end of the run and the
	// approval requests. Quiet means that viewers do not see the reply until then, and that the
	// result contains its full text. Inline are inline hooks for the activity to run; if set, no
	// other hooks match.
	Gated  bool        `json:"gated,omitempty"`
	Quiet  bool        `json:"quiet,omitempty"`
	Inline []hook.Spec `json:"inline,omitempty"`

	// Undecided are the types of the events in the reply that hooks decide on after it is stored:
	// see [event.Record.WithUndecided].
	Undecided []string `json:"undecided,omitempty"`

	// Parent is the parent thread, if the agent is a sub-agent. Its viewers see the reply as
	// progress of the call.
	Parent *Parent `json:"parent,omitempty"`

	// Observe is the environment event that the agent handles, if any.
	Observe *Observe `json:"observe,omitempty"`
}

// Route says where a model call runs, when an activity on another task queue has chosen the model.
type Route struct {
	// Model is the chosen model, "provider/model".
	Model string `json:"model"`

	// TaskQueue is the task queue of the model's provider. Empty = the thread's.
	TaskQueue string `json:"taskQueue,omitempty"`
}

// Observe is an environment event that an agent handles.
type Observe struct {
	EventID string `json:"eventId"`
	Type    string `json:"type"`

	// Query is the question that follows the description of the event.
	Query string `json:"query,omitempty"`

	// Replaced means that hooks changed the event. The record of their decision contains the
	// changed event.
	Replaced bool `json:"replaced,omitempty"`

	// Held is the number of events that the rule debounced or throttled before this one, since
	// Since. HeldIDs are the ids of the last of them.
	Held    int        `json:"held,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	HeldIDs []string   `json:"heldIds,omitempty"`
}

// ModelReply is the result of call_model: the reply, and a plan for each tool call.
type ModelReply struct {
	// Agent is the registered name of the agent that replied.
	Agent string `json:"agent"`
	Model string `json:"model"`

	// Message is the stored reply. Content over MaxCarriedContent is cut.
	Message event.Message `json:"message"`
	Calls   []PlannedCall `json:"calls,omitempty"`
	Usage   event.Usage   `json:"usage"`

	// MessageDecision and CallsDecision are the decisions of the inline hooks, if they ran. Gated
	// means that the thread records the end of the run and the approval requests.
	MessageDecision *HookDecision `json:"messageDecision,omitempty"`
	CallsDecision   *HookDecision `json:"callsDecision,omitempty"`
	Gated           bool          `json:"gated,omitempty"`

	// EndStored means that the activity has stored the end of the turn.
	EndStored bool `json:"endStored,omitempty"`

	// Route is set instead of a reply when another task queue makes the call.
	Route *Route `json:"route,omitempty"`

	// Outage is set instead of a reply when the model is unavailable.
	Outage *event.Retry `json:"outage,omitempty"`

	// MaxSteps is the agent's current limit of model calls. OnWaiting is its setting for messages
	// while its calls wait.
	MaxSteps  int             `json:"maxSteps"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Underway

	// Titles means that a title is to be generated for a thread without one.
	Titles bool `json:"titles,omitempty"`
}

// Failure returns "": a model that fails is an error.
func (r *ModelReply) Failure() string { return "" }
