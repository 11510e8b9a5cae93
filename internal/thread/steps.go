package thread

import (
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// Ref names a thread for an activity.
type Ref struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`
}

// Flush is what the workflow hands to the next activity to store before it acts.
type Flush struct {
	Records []event.Record `json:"records,omitempty"`
	Row     *Row           `json:"row,omitempty"`
}

// Row changes the thread's row in the store.
type Row struct {
	Title    string          `json:"title,omitempty"`
	Status   string          `json:"status,omitempty"`
	Agents   []string        `json:"agents,omitempty"`
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
	Flush     Flush  `json:"flush"`
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

	// MaxSteps is the agent's limit as of now.
	MaxSteps int `json:"maxSteps"`
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

// CarryArguments returns a call's arguments as history carries them.
func CarryArguments(arguments string) string {
	if len(arguments) <= MaxCarriedContent {
		return arguments
	}
	return fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", cutText(arguments, MaxCarriedContent), len(arguments))
}

// PlannedCall tells the workflow how a tool call is to be run. What runs is the
// stored call; this names it.
type PlannedCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// NeedsApproval asks a person first, showing Arguments and Reason. Arguments over
	// MaxCarriedContent are cut, and say so: the approval_request record has them whole.
	NeedsApproval bool   `json:"needsApproval,omitempty"`
	Arguments     string `json:"arguments,omitempty"`
	Reason        string `json:"reason,omitempty"`

	// Unfit says that the call cannot run, for want of the tool or for arguments that
	// do not fit it. It never runs, whatever changes meanwhile: nobody was asked about
	// it. Its result is the model's error.
	Unfit bool `json:"unfit,omitempty"`

	// Quick runs the call as a local activity.
	Quick bool `json:"quick,omitempty"`
}

// ToolStep is the input of run_tool.
type ToolStep struct {
	Thread  Ref    `json:"thread"`
	Agent   string `json:"agent"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// MessageID is the reply that holds the call.
	MessageID  string `json:"messageId"`
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// Unfit is the plan's.
	Unfit bool  `json:"unfit,omitempty"`
	Flush Flush `json:"flush"`
}

// ToolReply is the result of run_tool. The output stays in the store.
type ToolReply struct {
	ToolCallID string `json:"toolCallId"`

	// Status is the tool log's: succeeded, failed, interrupted, unknown.
	Status string `json:"status"`
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
)
