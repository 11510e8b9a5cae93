package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Ref is a reference to a thread.
type Ref = event.ThreadKey

// LoadStep is the input of load_event, which loads the content of an event that only the store has.
type LoadStep struct {
	Thread  Ref    `json:"thread"`
	EventID string `json:"eventId"`
}

// LoadReply is the result of load_event.
type LoadReply struct {
	Payload  json.RawMessage `json:"payload,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// RunStep contains the inputs that the steps of a run have in common.
type RunStep struct {
	Thread Ref `json:"thread"`

	// Agent is the name of the agent, "" for the default agent.
	Agent   string `json:"agent,omitempty"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root is the posted event that the turn belongs to, if it is not EventID.
	Root string `json:"root,omitempty"`

	// MessageID is the id of the reply, or of the reply that contains the calls.
	MessageID string `json:"messageId"`

	// Tools restricts the tools that the agent may call. Nil = no restriction.
	Tools *[]string `json:"tools,omitempty"`

	// WorkingDirectory is the thread's working directory, if it has one.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	Flush Flush `json:"flush"`
}

// ModelStep is the input of call_model. It contains references and no transcript.
type ModelStep struct {
	// RunStep has the id of the reply. If a reply with this id is already stored, the activity
	// returns it without calling the model.
	RunStep
	ReplyTo string `json:"replyTo,omitempty"`
	Step    int    `json:"step"`

	// Ends, if set, is the id of the record that announces the end of the turn. The activity stores
	// it with a reply that has no tool calls and addresses nobody. HandledBy is the rule that then
	// has handled the turn's environment event.
	Ends      string `json:"ends,omitempty"`
	HandledBy string `json:"handledBy,omitempty"`

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
	// see
	// [event.Record.WithUndecided].
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

	// Titles means that a title is to be generated for a thread without one.
	Titles bool `json:"titles,omitempty"`
}

// MaxCarriedContent is the maximum length of a message's text in history, in bytes.
const MaxCarriedContent = 16 << 10

// Carry returns the message for history: without metadata and tool calls, and with long content
// cut. The store has all of it.
func Carry(m event.Message) event.Message {
	m.Metadata, m.ToolCalls = nil, nil
	if len(m.Content) > MaxCarriedContent {
		m.Content, m.Truncated = cutText(m.Content, MaxCarriedContent), true
	}
	return m
}

// CarryText returns a text for history, and whether it was cut.
func CarryText(text string) (carried string, truncated bool) {
	if len(text) <= MaxCarriedContent {
		return text, false
	}
	return cutText(text, MaxCarriedContent), true
}

// CarryArguments returns a call's arguments for history, cut to limit bytes.
func CarryArguments(arguments string, limit int) string {
	if len(arguments) <= limit {
		return arguments
	}
	return fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", cutText(arguments, limit), len(arguments))
}

// TaskPlan is the background task that a call starts.
type TaskPlan struct {
	// Tool is the tool that does the work.
	Tool     string        `json:"tool"`
	Title    string        `json:"title,omitempty"`
	Deadline time.Duration `json:"deadline"`
	Detached bool          `json:"detached,omitempty"`

	// TaskQueue is the task queue of the activity that runs the tool. Empty = the thread's.
	TaskQueue string `json:"taskQueue,omitempty"`
}

// TaskStep is the input of the workflow of a background task, and of its activity.
type TaskStep struct {
	Thread Ref        `json:"thread"`
	Task   event.Task `json:"task"`

	// EventID is the event of the turn, and MessageID the reply that contains the call. Root has
	// the meaning of [RunStep.Root].
	EventID   string `json:"eventId"`
	Root      string `json:"root,omitempty"`
	MessageID string `json:"messageId"`

	// Tools restricts the tools that may be called. Nil = no restriction.
	Tools *[]string `json:"tools,omitempty"`

	// User, Edited, Guard and DecisionID have the meaning of those in [ToolStep].
	User             string `json:"user,omitempty"`
	Edited           bool   `json:"edited,omitempty"`
	Guard            *Guard `json:"guard,omitempty"`
	DecisionID       string `json:"decisionId,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// TaskQueue is copied from the plan.
	TaskQueue string `json:"taskQueue,omitempty"`
}

// TaskReply is the result of run_task.
type TaskReply struct {
	// Pending means that the task continues outside and is completed from there.
	Pending bool `json:"pending,omitempty"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`

	// Cancelled means that the task's workflow was cancelled. By is the person or client that
	// completed the task from outside.
	Cancelled bool   `json:"cancelled,omitempty"`
	By        string `json:"by,omitempty"`
}

// TaskReport is the payload of signal "task_report", which reports the end of a task.
type TaskReport struct {
	TaskID string `json:"taskId"`
	TaskReply

	// Task is set for a thread that may not know the task because it was opened again.
	Task *event.Task `json:"task,omitempty"`
}

// EventStep is the input of handle_event, which runs the function of a rule, and of ingest, which has no rule.
type EventStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root and Ends have the meaning of those in [ModelStep]. Ends is stored after the function has
	// succeeded.
	Root string `json:"root,omitempty"`
	Ends string `json:"ends,omitempty"`

	Rule        string        `json:"rule"`
	Timeout     time.Duration `json:"timeout"`
	MaxAttempts int           `json:"maxAttempts"`

	// By is the person or the agent that caused the event, if it is known.
	By string `json:"by,omitempty"`

	Flush Flush `json:"flush"`
}

// ToolStep is the input of run_tool.
type ToolStep struct {
	RunStep
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// User is the person for whom the call runs. Empty if there is none.
	User string `json:"user,omitempty"`

	// Invalid is copied from the plan.
	Invalid bool `json:"invalid,omitempty"`

	// Edited means that a hook changed the calls. The record of its decision contains the call to
	// run; it may be part of Flush.
	Edited bool `json:"edited,omitempty"`

	// Guard is copied from the plan of an approved call. DecisionID is the record of the approval,
	// which may be part of Flush.
	Guard      *Guard `json:"guard,omitempty"`
	DecisionID string `json:"decisionId,omitempty"`

	// Answered is the round of the last request for input that was answered, 0 if none was. The
	// record of the answer may be part of Flush.
	Answered int `json:"answered,omitempty"`

	// Inline are inline hooks for the activity to run on the result; if set, no other hooks match.
	Inline []hook.Spec `json:"inline,omitempty"`

	// Undecided means that hooks decide on the result after it is stored.
	Undecided bool `json:"undecided,omitempty"`
}

// ToolReply is the result of run_tool. Arguments and Result are only for readers of the history;
// the workflow does not depend on them.
type ToolReply struct {
	ToolCallID string `json:"toolCallId"`

	// Arguments are the arguments that the tool ran with, and Result its stored result. Each is cut
	// to MaxCarriedContent; Truncated reports whether one was cut.
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`

	// Decision is the decision of the inline hooks on the result, if they ran.
	Decision *HookDecision `json:"decision,omitempty"`

	// Status is the status in the tool log: succeeded, failed, interrupted, unknown or denied.
	Status string `json:"status"`

	// Approval is the call's new plan if the call did not run because its approval is no longer valid.
	Approval *PlannedCall `json:"approval,omitempty"`

	// Input is set instead of a result if the tool needs input of a person before it can continue.
	Input *event.InputRequest `json:"input,omitempty"`
}

// MaxWholeContent is the maximum length in history of a message's text that hooks hold back, in
// bytes.
const MaxWholeContent = 128 << 10

// CarryWhole returns a message for history that hooks hold back. Content over MaxWholeContent is
// cut, and Truncated set.
func CarryWhole(m event.Message) event.Message {
	if len(m.Content) > MaxWholeContent {
		m.Content, m.Truncated = cutText(m.Content, MaxWholeContent), true
	}
	return m
}

// PlanStep is the input of plan_calls, which plans calls that hooks changed or created and stores
// their approval requests.
type PlanStep struct {
	RunStep

	// Only are the ids of the calls to plan.
	Only []string `json:"only"`

	// Again means that the calls' approval requests are already stored, so the step stores none.
	// Decisions maps the ids of calls to the records of their approvals.
	Again     bool              `json:"again,omitempty"`
	Decisions map[string]string `json:"decisions,omitempty"`

	// Pending has the meaning of [ModelStep.Pending].
	Pending map[string]string `json:"pending,omitempty"`
}

// PlanReply is the result of plan_calls.
type PlanReply struct {
	// Agent is the registered name of the agent that made the calls.
	Agent     string          `json:"agent"`
	Model     string          `json:"model"`
	MaxSteps  int             `json:"maxSteps"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Calls     []PlannedCall   `json:"calls"`
}

// HookStep is the input of a hook workflow and of its run_hooks activities.
type HookStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`

	// EventID is the record of the event, EventType its type.
	EventID       string `json:"eventId"`
	EventType     string `json:"eventType"`
	ParentEventID string `json:"parentEventId,omitempty"`
	Agent         string `json:"agent,omitempty"`

	// Event is the event itself, if it has no record.
	Event json.RawMessage `json:"event,omitempty"`

	// Replaced means that hooks changed the environment event. The record of their decision
	// contains the changed event.
	Replaced bool `json:"replaced,omitempty"`

	// Hooks are the hooks to run, in order. Attempt is the attempt at the first one.
	Hooks   []hook.Spec `json:"hooks"`
	Attempt int         `json:"attempt,omitempty"`

	Flush Flush `json:"flush"`
}

// HookReply is the result of run_hooks.
type HookReply struct {
	// Done are the outcomes of the hooks that ran, in order.
	Done []event.HookOutcome `json:"done,omitempty"`

	// Event is the event after those hooks.
	Event json.RawMessage `json:"event,omitempty"`

	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Failed is the error of the hook after those in Done.
	Failed string `json:"failed,omitempty"`
}

// HookDecision is the result of a hook workflow: the decision of hooks and processors on an event.
type HookDecision struct {
	Outcome event.Outcome `json:"outcome"`

	// By is the hook that responded, produced events, dropped the event or failed.
	By    string              `json:"by,omitempty"`
	Hooks []event.HookOutcome `json:"hooks,omitempty"`

	// Event replaces the original event, if Outcome is replaced.
	Event     json.RawMessage `json:"event,omitempty"`
	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Error says why the event fails, if Outcome is failed.
	Error string `json:"error,omitempty"`

	// NoDefault skips default processing although nothing replaces it.
	NoDefault bool `json:"noDefault,omitempty"`

	// Silent means that only inline hooks ran and passed the event, which needs no record.
	Silent bool `json:"silent,omitempty"`

	// Unmatched means that no hook or processor matches the event.
	Unmatched bool `json:"-"`
}

// HookDecided is the payload of signal "hook_decided".
type HookDecided struct {
	EventID  string       `json:"eventId"`
	Decision HookDecision `json:"decision"`
}

// RecordStep is the input of record, which stores records when no other activity does.
type RecordStep struct {
	Thread Ref   `json:"thread"`
	Flush  Flush `json:"flush"`
}

// NotifyStep is the input of notify, which tells running steps to stop immediately.
type NotifyStep struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	Reason  string `json:"reason,omitempty"`
}

// Types of the application errors of activities. The workflow depends on these types and never on
// messages.
const (
	// ErrTypeModel means that the model provider rejected the request or failed too often. See
	// [ModelErrorType].
	ErrTypeModel = "model"
	// ErrTypeConfig means that an agent, model or tool is not configured as the step requires.
	ErrTypeConfig = "config"
	// ErrTypeRetry means that a retry may succeed.
	ErrTypeRetry = "retry"
	// ErrTypeLost means that the step's worker was killed. See package recovery.
	ErrTypeLost = "lost"
	// ErrTypeRule means that the function of a rule failed.
	ErrTypeRule = "rule"
)

// ModelErrorType returns the type of the error of a failed model call, such as
// "model.context_overflow". class is its class, if it is known.
func ModelErrorType(class string) string {
	if class == "" {
		return ErrTypeModel
	}
	return ErrTypeModel + "." + class
}

// ModelErrorClass returns the class from a type of [ModelErrorType], or "".
func ModelErrorClass(errorType string) string {
	class, ok := strings.CutPrefix(errorType, ErrTypeModel+".")
	if !ok {
		return ""
	}
	return class
}
