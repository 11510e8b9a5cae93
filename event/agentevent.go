package event

import (
	"context"
	"encoding/json"
	"time"
)

// AgentEvent is the one type on the wire to viewers. The first seven types and
// their fields are the base protocol; the others extend it. Unset fields are left
// out; [AgentEvent.MarshalJSON] keeps those that a type must have.
type AgentEvent struct {
	Type AgentEventType

	// EventID is the event whose turn this is part of: the id under which it was posted. A
	// message that joined another turn has the id of that turn's event.
	EventID string

	// CreatedAt is when it was stored; live events have none.
	CreatedAt time.Time

	// Content of thought and stream: a piece of text.
	Content string

	// ToolName, and ToolArgs of tool_call: the raw JSON arguments.
	ToolName string
	ToolArgs string

	// Data of tool_progress: any JSON, passed through untouched.
	Data json.RawMessage

	// Output and IsError of tool_result.
	Output  string
	IsError bool

	// Error of error, for people.
	Error string

	// MessageID is the message that the event belongs to: of thought, stream and reset the
	// one that is being produced, in this Attempt, from 1; of tool calls and their results the
	// reply that asks for them; of final the reply that ended the agent's run, of error the one
	// that failed.
	MessageID string
	Attempt   int

	// Agent and ToolCallID tell parallel replies and calls apart.
	Agent      string
	ToolCallID string

	// Message of message: it supersedes the pieces with its id.
	Message *Message

	// Approval of approval_request and approval.
	ApprovalRequest *ApprovalRequest
	Approval        *Approval

	// ClientCall of client_call.
	ClientCall *ClientCall

	// Status of status.
	Status *StatusChange

	// Detail of gap says what was lost.
	Detail string
}

// AgentEventType discriminates an [AgentEvent].
type AgentEventType string

// The types of agent event: the seven of the base protocol, then the extensions.
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

// EndsTurn reports whether e announces the end of a turn. It comes once for each turn, after
// everything else of it.
func (e AgentEvent) EndsTurn() bool {
	return e.Type == EventStatus && e.Status != nil && e.Status.Status == StatusTurnEnded
}

// agentEventJSON is the superset of all fields on the wire. Pointers mark fields
// that some type must show even when they are empty.
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

// MarshalJSON writes the fields that the type has, and no others.
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

// UnmarshalJSON reads any agent event; fields that it does not know are ignored,
// so that an older client survives a newer server.
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

// ToolEvent is what a tool yields while it runs. It never goes over the wire: the
// agent adapts it to an [AgentEvent] first.
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

// ExecutionContext is what one run of an agent shares with its tools and its
// sub-agents: the trace, and the signal that stops them.
type ExecutionContext struct {
	ctx     context.Context
	traceID string
}

// NewExecutionContext makes the context of a run that ends when ctx does.
func NewExecutionContext(ctx context.Context, traceID string) ExecutionContext {
	return ExecutionContext{ctx: ctx, traceID: traceID}
}

// TraceID is the same in the agent, its tools, its sub-agents and the logs of one run.
func (x ExecutionContext) TraceID() string { return x.traceID }

// Signal is closed when the run must stop.
func (x ExecutionContext) Signal() <-chan struct{} { return x.ctx.Done() }

// Context carries the same signal, for calls that take a context.
func (x ExecutionContext) Context() context.Context { return x.ctx }

// AgentEvent returns its argument.
func (ExecutionContext) AgentEvent(e AgentEvent) AgentEvent { return e }

// ToolEvent returns its argument.
func (ExecutionContext) ToolEvent(e ToolEvent) ToolEvent { return e }

// AdaptToolEvent turns a tool's event into the agent's: progress becomes
// tool_progress, result becomes tool_result, and every other field is kept.
func (ExecutionContext) AdaptToolEvent(e ToolEvent) AgentEvent {
	out := AgentEvent{Type: EventToolResult, ToolName: e.ToolName, Data: e.Data, Output: e.Output, IsError: e.IsError}
	if e.Type == ToolProgress {
		out.Type = EventToolProgress
	}
	return out
}
