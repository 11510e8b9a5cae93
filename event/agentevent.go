package event

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// AgentEvent is what viewers receive over the wire. The first seven types and their fields are the
// base protocol; the others extend it. [AgentEvent.MarshalJSON] omits the fields that a type does
// not have.
type AgentEvent struct {
	// The kind of the event, which says what fields it has.
	Type AgentEventType `json:"type" enum:"thought,tool_call,tool_progress,tool_result,stream,final,error,message,approval_request,approval,client_call,input_request,input_received,environment,status,retrieval,reset,gap"`

	// The event whose turn this is part of: the id under which it was posted. A message that joined a turn has the id
	// of that turn's event.
	EventID string `json:"eventId,omitempty"`

	// When it was stored. Live events have none.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// Of thought and stream: a piece of text.
	Content string `json:"content,omitempty"`

	// The tool that is called.
	ToolName string `json:"toolName,omitempty"`

	// Of tool_call: the raw JSON arguments.
	ToolArgs string `json:"toolArgs,omitempty"`

	// Of tool_progress: any JSON.
	Data json.RawMessage `json:"data,omitempty"`

	// Of tool_result.
	Output string `json:"output,omitempty"`

	// Of tool_result.
	IsError bool `json:"isError,omitempty"`

	// Of error.
	Error string `json:"error,omitempty"`

	// Of error: the kind of the failure of a model call, if it is known.
	Class string `json:"class,omitempty" enum:"context_overflow,reply_too_large,rate_limit,server_error,unreachable,refused"`

	// The message that the event belongs to. Of thought, stream and reset: the one that the piece is part of; a message
	// event with this id supersedes its pieces. Of tool calls, results and approvals: the reply that asks for them. Of
	// final: the reply that ended the run of the agent; of error: the one that failed.
	MessageID string `json:"messageId,omitempty"`

	// Of thought, stream and reset: which attempt to produce the message, from 1. A reset begins one: pieces of earlier
	// attempts are void.
	Attempt int `json:"attempt,omitempty"`

	// The agent whose run it belongs to.
	Agent string `json:"agent,omitempty"`

	// A tool_call or tool_result with a known id supersedes that one: a hook has changed it.
	ToolCallID string `json:"toolCallId,omitempty"`

	// A message with a known id supersedes that one: a hook has changed it.
	Message *Message `json:"message,omitempty"`

	// Of approval_request: a call waits for a decision, at the first request, in a new round or at a reminder.
	Request *ApprovalRequest `json:"request,omitempty"`

	// Of approval: the decision on a call. While missing is not 0 the call still waits.
	Approval *Approval `json:"approval,omitempty"`

	// Of client_call: a call waits for a connected client to run it.
	ClientCall *ClientCall `json:"call,omitempty"`

	// Of input_request: a call waits for a person's input.
	Input *InputRequest `json:"input,omitempty"`

	// Of input_received: the input, with which the call continues.
	Received *InputReceived `json:"received,omitempty"`

	// Of environment: the event. One with a known id supersedes that one: a hook has changed it.
	Env *EnvEvent `json:"event,omitempty"`

	// Of status. turn_ended announces the end of a turn, once, after its last record: turn says how it ended. When its
	// status is intercepted, detail says what hooks did.
	Status *StatusChange `json:"status,omitempty"`

	// Of retrieval: the passages of documents that the agent was given for the message that it answers.
	Retrieval *Retrieval `json:"retrieval,omitempty"`

	// Of gap: what was lost.
	Detail string `json:"detail,omitempty"`
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
	EventInputRequest    AgentEventType = "input_request"
	EventInputReceived   AgentEventType = "input_received"
	EventEnvironment     AgentEventType = "environment"
	EventStatus          AgentEventType = "status"
	EventRetrieval       AgentEventType = "retrieval"
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

// MarshalJSON writes the fields that the type has, and no others.
func (e AgentEvent) MarshalJSON() ([]byte, error) {
	type fields AgentEvent
	// These hide the fields of the same names. The pointers are for those that a type must
	// have, even empty.
	out := struct {
		Type      AgentEventType  `json:"type"`
		EventID   string          `json:"eventId,omitempty"`
		CreatedAt time.Time       `json:"createdAt,omitzero"`
		Content   *string         `json:"content,omitempty"`
		ToolName  *string         `json:"toolName,omitempty"`
		ToolArgs  *string         `json:"toolArgs,omitempty"`
		Data      json.RawMessage `json:"data,omitempty"`
		Output    *string         `json:"output,omitempty"`
		IsError   bool            `json:"isError,omitempty"`
		Error     *string         `json:"error,omitempty"`
		fields
	}{Type: e.Type, EventID: e.EventID, CreatedAt: e.CreatedAt, fields: fields{Agent: e.Agent, MessageID: e.MessageID}}
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
		out.Error, out.Class = &e.Error, e.Class
	case EventMessage:
		out.Message = e.Message
	case EventApprovalRequest:
		out.Request = e.Request
	case EventApproval:
		out.Approval = e.Approval
	case EventClientCall:
		out.ClientCall = e.ClientCall
	case EventInputRequest:
		out.Input = e.Input
	case EventInputReceived:
		out.Received = e.Received
	case EventEnvironment:
		out.Env = e.Env
	case EventStatus:
		out.Status = e.Status
	case EventRetrieval:
		out.Retrieval = e.Retrieval
	case EventReset:
		out.Attempt = e.Attempt
	case EventGap:
		out.Detail = e.Detail
	}
	return json.Marshal(out)
}

// PagedEvent is a stored [AgentEvent] on a page, with its place.
type PagedEvent struct {
	// On a page, the place of the event: what cursor, lastEventId and Last-Event-ID take. On a stream it is the id of
	// the server-sent event instead.
	ID string `json:"id"`
	AgentEvent
}

// MarshalJSON writes the id before the fields of the event.
func (e PagedEvent) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(e.AgentEvent)
	if err != nil {
		return nil, err
	}
	id, err := json.Marshal(e.ID)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"id":`), id, []byte(","), data[1:]), nil
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
