package event

import (
	"context"
	"encoding/json"
	"time"
)

// AgentEvent is what viewers receive over the wire. The first seven types and their fields are the
// base protocol; the others extend it. [AgentEvent.MarshalJSON] omits the fields that a type does
// not have.
type AgentEvent struct {
	Type AgentEventType

	// EventID is the id of the posted event whose turn this is part of. For a message that joined
	// another turn, it is the id of that turn's event.
	EventID string

	// CreatedAt is when the record was stored. Live events have none.
	CreatedAt time.Time

	// Content is the text fragment of a thought or stream event.
	Content string

	// ToolName is the name of the tool, ToolArgs the raw JSON arguments of a tool_call.
	ToolName string
	ToolArgs string

	// Data is the JSON of a tool_progress event, passed through unchanged.
	Data json.RawMessage

	// Output and IsError are set on a tool_result.
	Output  string
	IsError bool

	// Error is the human-readable message of an error event.
	Error string

	// MessageID is the message that the event belongs to. For thought, stream and reset it is the
	// message being generated; for tool calls and results, the reply that contains the call; for
	// final, the reply that ended the agent's run; for error, the reply that failed. Attempt counts
	// the attempts at generating it, from 1.
	MessageID string
	Attempt   int

	// Agent and ToolCallID distinguish parallel replies and tool calls.
	Agent      string
	ToolCallID string

	// Message is set on a message event. It supersedes the fragments with the same message id.
	Message *Message

	// ApprovalRequest is set on an approval_request event, Approval on an approval event.
	ApprovalRequest *ApprovalRequest
	Approval        *Approval

	// ClientCall is set on a client_call event.
	ClientCall *ClientCall

	// Status is set on a status event.
	Status *StatusChange

	// Detail describes what a gap event lost.
	Detail string
}

// AgentEventType discriminates an [AgentEvent].
type AgentEventType string

// The types of agent event: the seven types of the base protocol, then the extensions.
const (
	EventThought      AgentEventType = "thought"
	EventToolCall     AgentEventType = "tool_call"
	EventToolProgress AgentEventType = "tool_progress"
	EventToolResult   AgentEventType = "tool_result"
	EventStream       AgentEventType = "stream"
	EventFinal        AgentEventType = "final"
	EventError        AgentEventType = "error"

	EventMessage         AgentEventType = "message"
	EventApprovalRequest AgentEventType = "approval_request"
	EventApproval        AgentEventType = "approval"
	EventClientCall      AgentEventType = "client_call"
	EventStatus          AgentEventType = "status"
	EventReset           AgentEventType = "reset"
	EventGap             AgentEventType = "gap"
)

// BaseEventTypes are the seven types of the base protocol.
var BaseEventTypes = []AgentEventType{
	EventThought, EventToolCall, EventToolProgress, EventToolResult, EventStream, EventFinal, EventError,
}

// Terminal reports whether e ends an agent's run.
func (e AgentEvent) Terminal() bool { return e.Type == EventFinal || e.Type == EventError }

// EndsTurn reports whether e announces the end of a turn. Each turn has exactly one such event, its
// last.
func (e AgentEvent) EndsTurn() bool {
	return e.Type == EventStatus && e.Status != nil && e.Status.Status == StatusTurnEnded
}

// agentEventJSON has all fields on the wire. Pointers mark fields that some type writes even if
// they are empty.
type agentEventJSON struct {
	Type       AgentEventType   `json:"type"`
	EventID    string           `json:"eventId,omitempty"`
	CreatedAt  time.Time        `json:"createdAt,omitzero"`
	Content    *string          `json:"content,omitempty"`
	ToolName   *string          `json:"toolName,omitempty"`
	ToolArgs   *string          `json:"toolArgs,omitempty"`
	Data       json.RawMessage  `json:"data,omitempty"`
	Output     *string          `json:"output,omitempty"`
	IsError    bool             `json:"isError,omitempty"`
	Error      *string          `json:"error,omitempty"`
	MessageID  string           `json:"messageId,omitempty"`
	Attempt    int              `json:"attempt,omitempty"`
	Agent      string           `json:"agent,omitempty"`
	ToolCallID string           `json:"toolCallId,omitempty"`
	Message    *Message         `json:"message,omitempty"`
	Request    *ApprovalRequest `json:"request,omitempty"`
	Approval   *Approval        `json:"approval,omitempty"`
	Call       *ClientCall      `json:"call,omitempty"`
	Status     *StatusChange    `json:"status,omitempty"`
	Detail     string           `json:"detail,omitempty"`
}

// MarshalJSON writes only the fields of the event's type.
func (e AgentEvent) MarshalJSON() ([]byte, error) {
	out := agentEventJSON{Type: e.Type, EventID: e.EventID, CreatedAt: e.CreatedAt, Agent: e.Agent, MessageID: e.MessageID}
	switch e.Type {
	case EventFinal:
	case EventThought, EventStream:
		out.Content, out.Attempt = &e.Content, e.Attempt
	case EventToolCall:
		out.ToolName, out.ToolArgs, out.ToolCallID = &e.ToolName, &e.ToolArgs, e.ToolCallID
	case EventToolProgress:
		out.ToolName, out.Data, out.ToolCallID = &e.ToolName, e.Data, e.ToolCallID
		if len(e.Data) == 0 {
			out.Data = json.RawMessage("null")
		}
	case EventToolResult:
		out.ToolName, out.Output, out.IsError, out.ToolCallID = &e.ToolName, &e.Output, e.IsError, e.ToolCallID
	case EventError:
		out.Error = &e.Error
	case EventMessage:
		out.Message = e.Message
	case EventApprovalRequest:
		out.Request = e.ApprovalRequest
	case EventApproval:
		out.Approval = e.Approval
	case EventClientCall:
		out.Call = e.ClientCall
	case EventStatus:
		out.Status = e.Status
	case EventReset:
		out.Attempt = e.Attempt
	case EventGap:
		out.Detail = e.Detail
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an agent event of any type. It ignores unknown fields, so older clients can
// read events from newer servers.
func (e *AgentEvent) UnmarshalJSON(data []byte) error {
	var in agentEventJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	*e = AgentEvent{
		Type: in.Type, EventID: in.EventID, CreatedAt: in.CreatedAt, Content: text(in.Content), ToolName: text(in.ToolName), ToolArgs: text(in.ToolArgs),
		Data: in.Data, Output: text(in.Output), IsError: in.IsError, Error: text(in.Error),
		MessageID: in.MessageID, Attempt: in.Attempt, Agent: in.Agent, ToolCallID: in.ToolCallID,
		Message: in.Message, ApprovalRequest: in.Request, Approval: in.Approval, ClientCall: in.Call, Status: in.Status, Detail: in.Detail,
	}
	return nil
}

// ToolEvent is an event that a tool emits while it runs. It is never sent to viewers: the agent
// converts it to an [AgentEvent] first.
type ToolEvent struct {
	// Type is "progress" or "result".
	Type     ToolEventType   `json:"type"`
	ToolName string          `json:"toolName"`
	Data     json.RawMessage `json:"data,omitempty"`
	Output   string          `json:"output,omitempty"`
	IsError  bool            `json:"isError,omitempty"`
}

// ToolEventType discriminates a [ToolEvent].
type ToolEventType string

// The types of tool event.
const (
	ToolProgress ToolEventType = "progress"
	ToolResult   ToolEventType = "result"
)

// ExecutionContext is shared by one run of an agent, its tools and its sub-agents. It carries the
// trace id and the cancellation signal.
type ExecutionContext struct {
	ctx     context.Context
	traceID string
}

// NewExecutionContext returns the context of a run that stops when ctx is done.
func NewExecutionContext(ctx context.Context, traceID string) ExecutionContext {
	return ExecutionContext{ctx: ctx, traceID: traceID}
}

// TraceID returns the trace id, which is the same in the agent, its tools, its sub-agents and the
// logs of a run.
func (x ExecutionContext) TraceID() string { return x.traceID }

// Signal returns a channel that is closed when the run must stop.
func (x ExecutionContext) Signal() <-chan struct{} { return x.ctx.Done() }

// Context returns a context that is cancelled when the run must stop.
func (x ExecutionContext) Context() context.Context { return x.ctx }

// AgentEvent returns its argument.
func (ExecutionContext) AgentEvent(e AgentEvent) AgentEvent { return e }

// ToolEvent returns its argument.
func (ExecutionContext) ToolEvent(e ToolEvent) ToolEvent { return e }

// AdaptToolEvent converts a tool event to an agent event: progress becomes tool_progress, result
// becomes tool_result, and the other fields are copied.
func (ExecutionContext) AdaptToolEvent(e ToolEvent) AgentEvent {
	out := AgentEvent{Type: EventToolResult, ToolName: e.ToolName, Data: e.Data, Output: e.Output, IsError: e.IsError}
	if e.Type == ToolProgress {
		out.Type = EventToolProgress
	}
	return out
}
