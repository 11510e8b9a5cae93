package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Ref names a thread for an activity.
type Ref struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`
}

// LoadStep is the input of load_event: the content of an event that only the store has.
type LoadStep struct {
	Thread  Ref    `json:"thread"`
	EventID string `json:"eventId"`
}

// LoadReply is the content of an event.
type LoadReply struct {
	Payload  json.RawMessage `json:"payload,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// ModelStep is the input of call_model: references, never a transcript.
type ModelStep struct {
	Thread Ref `json:"thread"`

	// Agent "" is the default agent.
	Agent   string `json:"agent,omitempty"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// MessageID is the id that the reply will have; a reply that is stored under it
	// already is returned without a call of the model.
	MessageID string `json:"messageId"`
	ReplyTo   string `json:"replyTo,omitempty"`
	Step      int    `json:"step"`

	// Tools are the only ones that the agent may call, as far as it has them. Nil = all.
	Tools *[]string `json:"tools,omitempty"`

	// Root is the event from outside whose turn it is, if that is not EventID.
	Root string `json:"root,omitempty"`

	// Ends, if set, is the id of the record that announces the end of the turn: to be stored
	// with a reply that asks for nothing and addresses nobody. Joined are the events that
	// joined the turn.
	Ends   string   `json:"ends,omitempty"`
	Joined []string `json:"joined,omitempty"`

	// Outage says how the model calls before this one have failed.
	Outage *Outage `json:"outage,omitempty"`

	// Instructions and Model are what a hook has added for this call.
	Instructions string `json:"instructions,omitempty"`
	Model        string `json:"model,omitempty"`

	// Agents are those that take part in the thread: what they have said to each other
	// is not for all of them. Answers is the agent whose message is answered, if it is one.
	Agents  []string `json:"agents,omitempty"`
	Answers string   `json:"answers,omitempty"`

	// OpenCalls are calls of other runs, which have no result yet.
	OpenCalls []string `json:"openCalls,omitempty"`

	// Pending are the agent's calls in other runs that wait for approval, by their digests:
	// the same call is not made twice.
	Pending map[string]string `json:"pending,omitempty"`

	// WorkingDirectory is the thread's, if it has one of its own.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Gated says that hooks may see the reply: the thread itself then writes what ends
	// the run and who has to approve. Quiet keeps the reply from viewers until then, and
	// asks for all its text. Inline are hooks to be asked about it at once: there are no
	// others.
	Gated  bool        `json:"hold,omitempty"`
	Quiet  bool        `json:"quiet,omitempty"`
	Inline []hook.Spec `json:"inline,omitempty"`

	// Undecided are the types of the events in the reply on which hooks decide once it is
	// stored: see [event.Record.WithUndecided].
	Undecided []string `json:"undecided,omitempty"`

	// Parent is the thread for which the agent works, if it is a sub-agent: its viewers
	// see what is said as progress of the call.
	Parent *Parent `json:"parent,omitempty"`

	// Observe is the environment event that the agent handles, if it is one.
	Observe *Observe `json:"observe,omitempty"`

	Flush Flush `json:"flush"`
}

// Observe is an environment event that an agent is shown.
type Observe struct {
	EventID string `json:"eventId"`
	Type    string `json:"type"`

	// Query is what the agent is asked, behind what has happened.
	Query string `json:"query,omitempty"`

	// Replaced says that hooks have changed the event: their decision has what holds.
	Replaced bool `json:"replaced,omitempty"`

	// Held counts the events that a rule has held back before this one, since Since.
	// HeldIDs are the last of them.
	Held    int        `json:"held,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	HeldIDs []string   `json:"heldIds,omitempty"`
}

// ModelReply is the result of call_model: the reply, and a plan for each tool call.
type ModelReply struct {
	// Agent is the agent that answered, by its registered name.
	Agent string `json:"agent"`
	Model string `json:"model"`

	// Message is the stored reply; content over MaxCarriedContent is cut here.
	Message event.Message `json:"message"`
	Calls   []PlannedCall `json:"calls,omitempty"`
	Usage   event.Usage   `json:"usage"`

	// MessageDecision and OnCalls are what inline hooks have made of it, if they were asked.
	// Held says that the thread itself writes what ends the run and who has to approve.
	MessageDecision *Decision `json:"onMessage,omitempty"`
	CallsDecision   *Decision `json:"onCalls,omitempty"`
	Gated           bool      `json:"held,omitempty"`

	// Ended says that the end of the turn has been announced.
	Ended bool `json:"ended,omitempty"`

	// Outage is set in place of a reply when the model has not answered.
	Outage *Outage `json:"outage,omitempty"`

	// MaxSteps is the agent's limit as of now, OnWaiting what it does with messages while its
	// calls wait.
	MaxSteps  int             `json:"maxSteps"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`

	// Titles says that a thread without a title is given one.
	Titles bool `json:"titles,omitempty"`
}

// MaxCarriedContent is how much of a message's text, in bytes, enters history.
const MaxCarriedContent = 16 << 10

// Carry returns the message as history carries it: metadata and tool calls stay in
// the store, and long content is cut.
func Carry(m event.Message) event.Message {
	m.Metadata, m.ToolCalls = nil, nil
	if len(m.Content) > MaxCarriedContent {
		m.Content, m.Truncated = cutText(m.Content, MaxCarriedContent), true
	}
	return m
}

// CarryText returns a text as history carries it, and whether it was cut.
func CarryText(text string) (carried string, truncated bool) {
	if len(text) <= MaxCarriedContent {
		return text, false
	}
	return cutText(text, MaxCarriedContent), true
}

// CarryArguments returns a call's arguments as history carries them.
func CarryArguments(arguments string) string {
	if len(arguments) <= MaxCarriedContent {
		return arguments
	}
	return fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", cutText(arguments, MaxCarriedContent), len(arguments))
}

// TaskPlan is a background task that a call starts.
type TaskPlan struct {
	// Tool does the work.
	Tool     string        `json:"tool"`
	Title    string        `json:"title,omitempty"`
	Deadline time.Duration `json:"deadline"`
	Detached bool          `json:"detached,omitempty"`
}

// TaskStep is the input of the workflow of a background task, and of its activity.
type TaskStep struct {
	Thread Ref        `json:"thread"`
	Task   event.Task `json:"task"`

	// EventID is the turn's, MessageID the reply that holds the call, TraceID the turn's. Root
	// is as in [ModelStep].
	EventID   string `json:"eventId"`
	Root      string `json:"root,omitempty"`
	MessageID string `json:"messageId"`

	// Tools are the only ones that may be called. Nil = all that the agent has.
	Tools *[]string `json:"tools,omitempty"`

	// Edited, Guard and DecisionID are as in [ToolStep].
	Edited           bool   `json:"edited,omitempty"`
	Guard            *Guard `json:"guard,omitempty"`
	DecisionID       string `json:"decisionId,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`
}

// TaskReply is the result of run_task.
type TaskReply struct {
	// Pending: the work goes on outside, and is completed from there.
	Pending bool `json:"pending,omitempty"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`

	// Cancelled: its workflow was cancelled. By says who completed it from outside.
	Cancelled bool   `json:"cancelled,omitempty"`
	By        string `json:"by,omitempty"`
}

// TaskReport is the payload of signal "task_report": how a task has ended.
type TaskReport struct {
	TaskID string `json:"taskId"`
	TaskReply

	// Task is for a thread that does not know it: one that was opened anew meanwhile.
	Task *event.Task `json:"task,omitempty"`
}

// EventStep is the input of handle_event: the function of a rule handles an event.
type EventStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root and Ends are as in [ModelStep]: Ends is stored once the function has succeeded.
	Root string `json:"root,omitempty"`
	Ends string `json:"ends,omitempty"`

	Rule        string        `json:"rule"`
	Timeout     time.Duration `json:"timeout"`
	MaxAttempts int           `json:"maxAttempts"`

	Flush Flush `json:"flush"`
}

// ToolStep is the input of run_tool.
type ToolStep struct {
	Thread  Ref    `json:"thread"`
	Agent   string `json:"agent"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root is as in [ModelStep].
	Root string `json:"root,omitempty"`

	// MessageID is the reply that holds the call.
	MessageID  string `json:"messageId"`
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// Unfit is the plan's.
	Unfit bool `json:"unfit,omitempty"`

	// Tools are the only ones that the agent may call, as far as it has them. Nil = all.
	Tools *[]string `json:"tools,omitempty"`

	// Edited says that a hook has changed the calls: what runs is in its decision, which
	// may be among the records to be stored.
	Edited bool `json:"edited,omitempty"`

	// Guard is the plan's, if the call runs because it was approved. DecisionID is the
	// record of that, which may be among those to be stored, too.
	Guard            *Guard `json:"guard,omitempty"`
	DecisionID       string `json:"decisionId,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Inline are hooks to be asked about the result at once: there are no others.
	Inline []hook.Spec `json:"inline,omitempty"`

	// Undecided says that hooks decide on the result once it is stored.
	Undecided bool `json:"undecided,omitempty"`

	Flush Flush `json:"flush"`
}

// ToolReply is the result of run_tool. Whoever reads the history sees what ran and what came
// of it; the decisions of the workflow go by neither text.
type ToolReply struct {
	ToolCallID string `json:"toolCallId"`

	// Arguments are those that the tool ran with, Result is what it returned, as they are
	// stored. Each is cut at MaxCarriedContent; Truncated says that one of them was.
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`

	// Decision is what inline hooks have made of the result, if they were asked.
	Decision *Decision `json:"decision,omitempty"`

	// Status is the tool log's: succeeded, failed, interrupted, unknown, denied.
	Status string `json:"status"`

	// Ask is set when the call has not run, because its approval does not hold: people are
	// asked about it as it is planned now.
	Ask *PlannedCall `json:"ask,omitempty"`
}

// MaxWholeContent is how much of a message's text, in bytes, enters history when hooks
// hold it back.
const MaxWholeContent = 128 << 10

// CarryWhole returns a message as history carries it until hooks let it out. Content above MaxWholeContent is
// cut, and says so.
func CarryWhole(m event.Message) event.Message {
	if len(m.Content) > MaxWholeContent {
		m.Content, m.Truncated = cutText(m.Content, MaxWholeContent), true
	}
	return m
}

// PlanStep is the input of plan_calls: it plans calls that hooks have changed or made,
// and stores who has to approve.
type PlanStep struct {
	Thread  Ref    `json:"thread"`
	Agent   string `json:"agent"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root is as in [ModelStep].
	Root string `json:"root,omitempty"`

	// MessageID is the reply that holds the calls, Only those of them that are to run.
	MessageID string   `json:"messageId"`
	Only      []string `json:"only"`

	// Again says that people were asked about the calls already: the step asks nobody.
	// Decisions are the records by which they may run, by the id of the call.
	Again            bool              `json:"again,omitempty"`
	Decisions        map[string]string `json:"decisions,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`

	// Tools are the only ones that the agent may call, as far as it has them. Nil = all.
	Tools *[]string `json:"tools,omitempty"`

	// Pending is as in [ModelStep].
	Pending map[string]string `json:"pending,omitempty"`
	Flush   Flush             `json:"flush"`
}

// PlanReply is the result of plan_calls.
type PlanReply struct {
	// Agent is the agent that made the calls, by its registered name.
	Agent     string          `json:"agent"`
	Model     string          `json:"model"`
	MaxSteps  int             `json:"maxSteps"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Calls     []PlannedCall   `json:"calls"`
}

// HookStep is the input of a hook workflow, and of each run_hooks activity of it.
type HookStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`

	// EventID is the record that the hooks see, EventType its type.
	EventID       string `json:"eventId"`
	EventType     string `json:"eventType"`
	ParentEventID string `json:"parentEventId,omitempty"`
	Agent         string `json:"agent,omitempty"`

	// Event is what they see in place of the record, if there is any.
	Event json.RawMessage `json:"event,omitempty"`

	// Replaced says that hooks have changed the environment event: what they see is in that
	// decision.
	Replaced bool `json:"replaced,omitempty"`

	// Hooks to ask, in their order. Attempt is that of the first one.
	Hooks   []hook.Spec `json:"hooks"`
	Attempt int         `json:"attempt,omitempty"`

	Flush Flush `json:"flush"`
}

// HookReply is the result of run_hooks.
type HookReply struct {
	// Done is what the hooks made of the event, in order, as far as they came.
	Done []event.HookOutcome `json:"done,omitempty"`

	// Event is what holds now: as it was loaded or changed.
	Event json.RawMessage `json:"event,omitempty"`

	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Failed says why the hook after those of Done has failed.
	Failed string `json:"failed,omitempty"`
}

// Decision is the result of a hook workflow: what the hooks and processors that were
// asked have made of an event.
type Decision struct {
	Outcome event.Outcome `json:"outcome"`

	// By is the hook that settled it: whose response, production or failure it was.
	By    string              `json:"by,omitempty"`
	Hooks []event.HookOutcome `json:"hooks,omitempty"`

	// Event holds in place of the one that was seen, if Outcome is replaced.
	Event     json.RawMessage `json:"event,omitempty"`
	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Error says why the event fails, if Outcome is failed.
	Error string `json:"error,omitempty"`

	// NoDefault leaves the built-in processing out, though nothing took its place.
	NoDefault bool `json:"noDefault,omitempty"`

	// Silent: inline hooks let it pass, which is not worth a record.
	Silent bool `json:"silent,omitempty"`

	// Unmatched: no hook or processor matches the event.
	Unmatched bool `json:"-"`
}

// HookDecided is the payload of signal "hook_decided".
type HookDecided struct {
	EventID  string   `json:"eventId"`
	Decision Decision `json:"decision"`
}

// RecordStep is the input of record: it stores what nothing else will.
type RecordStep struct {
	Thread Ref   `json:"thread"`
	Flush  Flush `json:"flush"`
}

// NotifyStep is the input of notify: it tells running steps to stop at once.
type NotifyStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	Reason  string `json:"reason,omitempty"`
}

// Types of the application errors of activities. The workflow goes by these, never
// by messages.
const (
	// ErrTypeModel: the model's provider refused, or failed too often.
	ErrTypeModel = "model"
	// ErrTypeConfig: an agent, model or tool is not configured as the step needs it.
	ErrTypeConfig = "config"
	// ErrTypeRetry: a failure that running again may mend.
	ErrTypeRetry = "retry"
	// ErrTypeRule: the function of a rule failed.
	ErrTypeRule = "rule"
)

// foreign is the event from outside whose turn it is, where that is not its own item's.
func (t *Turn) foreign() string {
	if root := t.root(); root != t.Item.ID {
		return root
	}
	return ""
}

// Of is the event whose turn a step is part of.
func Of(root, eventID string) string { return cmp.Or(root, eventID) }
