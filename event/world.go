package event

import (
	"encoding/json"
	"time"
)

// WorldEvent is an event for clients of a world of agents, which call a thread a chat. It is
// derived from records and the live stream and is not stored. Its JSON names are those of that
// protocol.
type WorldEvent struct {
	// The id of the event.
	ID string `json:"id"`

	// The kind of the event, which says what data is.
	Type WorldEventType `json:"type" enum:"message,sse,tool-start,tool-progress,tool-result,tool-error,tool-execution,crud,system,activity"`

	// When it was stored; of a live event, when it is sent.
	Timestamp time.Time `json:"timestamp"`

	// The thread.
	ChatID string `json:"chatId"`

	// Depends on the type.
	//
	// It is a [WorldMessage], [WorldSSE], [WorldTool], [WorldToolExecution], [WorldCRUD], [WorldSystem] or
	// [WorldActivity], as Type says.
	Data any `json:"data"`

	// Where it belongs; live events have none.
	Meta *WorldMeta `json:"meta,omitempty"`
}

// WorldEventType is the type of a [WorldEvent].
type WorldEventType string

// The types of a [WorldEvent].
const (
	WorldMessageEvent       WorldEventType = "message"
	WorldSSEEvent           WorldEventType = "sse"
	WorldToolStart          WorldEventType = "tool-start"
	WorldToolProgress       WorldEventType = "tool-progress"
	WorldToolResult         WorldEventType = "tool-result"
	WorldToolError          WorldEventType = "tool-error"
	WorldToolExecutionEvent WorldEventType = "tool-execution"
	WorldCRUDEvent          WorldEventType = "crud"
	WorldSystemEvent        WorldEventType = "system"
	WorldActivityEvent      WorldEventType = "activity"
)

// WorldMeta is the context of a [WorldEvent].
type WorldMeta struct {
	// Shared by everything that follows from one event.
	TraceID string `json:"traceId,omitempty"`

	// The event that started the turn.
	ThreadRootID string `json:"threadRootId,omitempty"`

	// The message that this one answers.
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`

	// The agents that the event is about.
	Agents []string `json:"agents,omitempty"`

	// The tool calls that the event is about.
	ToolCallIDs []string `json:"toolCallIds,omitempty"`
}

// WorldMessage is a message. It supersedes an earlier one with the same id.
type WorldMessage struct {
	// Who sent the message.
	Sender string `json:"sender"`

	// The text.
	Content string `json:"content"`

	// Depends on the kind of the sender, never on the sender's name.
	Role string `json:"role" enum:"user,assistant,tool,system"`

	// When the message was stored.
	Timestamp time.Time `json:"timestamp"`

	// A message with a known id supersedes that one.
	MessageID string `json:"messageId"`

	// The thread.
	ChatID string `json:"chatId"`

	// The agent that wrote the message or made the call.
	AgentName string `json:"agentName,omitempty"`

	// The same agent's id.
	AgentID string `json:"agentId,omitempty"`

	// Of a tool's result: the call.
	ToolCallID string `json:"tool_call_id,omitempty"`

	// The message that this one answers.
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`

	// The tool calls of an agent's reply.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`

	// The status of tool calls, by their ids.
	ToolCallStatus map[string]ToolCallStatus `json:"toolCallStatus,omitempty"`
}

// ToolCallStatus is the status of a tool call.
type ToolCallStatus struct {
	// The call was decided on, or has its result.
	Complete bool `json:"complete"`

	// The decision, if there is one.
	Result *ToolCallDecision `json:"result"`
}

// ToolCallDecision is a decision on a tool call.
type ToolCallDecision struct {
	// What was decided.
	Decision Decision `json:"decision" enum:"approve,deny,expired,revoked"`

	// The calls that the decision covers.
	Scope Scope `json:"scope" enum:"once,session,pattern"`

	// When.
	Timestamp time.Time `json:"timestamp"`
}

// RequestApproval is the name of the call that asks clients of a world to approve another call: see
// [ApprovalCallID]. Its arguments are a [RequestApprovalArgs].
const RequestApproval = "client.requestApproval"

// RequestApprovalArgs are the arguments of a call of [RequestApproval].
type RequestApprovalArgs struct {
	OriginalToolCall OriginalToolCall `json:"originalToolCall"`
	Message          string           `json:"message"`
	Options          []string         `json:"options"`
}

// OriginalToolCall is a call that needs approval.
type OriginalToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// Args is a JSON object, or the text that the model wrote instead.
	Args             json.RawMessage `json:"args"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// ApprovalOptions returns the possible answers to an approval request.
func ApprovalOptions() []string { return []string{"deny", "approve_once", "approve_session"} }

// WorldSSE is a fragment of a reply, its start, its reset or its end.
type WorldSSE struct {
	AgentName string       `json:"agentName"`
	Type      WorldSSEType `json:"type"`

	// Content is the text of a chunk.
	Content   string `json:"content,omitempty"`
	MessageID string `json:"messageId"`

	// Usage is the token usage of the reply, on its end.
	Usage  *Usage `json:"usage,omitempty"`
	ChatID string `json:"chatId,omitempty"`
}

// WorldSSEType is the type of a [WorldSSE].
type WorldSSEType string

// The types of a [WorldSSE]. A message has one start and one end. A reset invalidates its earlier chunks.
const (
	WorldSSEStart WorldSSEType = "start"
	WorldSSEChunk WorldSSEType = "chunk"
	WorldSSEReset WorldSSEType = "reset"
	WorldSSEEnd   WorldSSEType = "end"
)

// WorldTool is the start, the progress, the result or the error of a tool call.
type WorldTool struct {
	AgentName     string         `json:"agentName"`
	Type          WorldEventType `json:"type"`
	MessageID     string         `json:"messageId,omitempty"`
	ToolExecution WorldToolCall  `json:"toolExecution"`
	ChatID        string         `json:"chatId,omitempty"`
}

// WorldToolCall is the tool call of a [WorldTool].
type WorldToolCall struct {
	ToolName   string `json:"toolName"`
	ToolCallID string `json:"toolCallId"`

	// Input contains the arguments, on a start. Progress is any JSON.
	Input    json.RawMessage `json:"input,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Result   string          `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// WorldToolExecution reports that an approved call ran.
type WorldToolExecution struct {
	AgentID  string `json:"agentId"`
	ToolName string `json:"toolName"`

	// Command is the argument "command", or the tool's name.
	Command    string          `json:"command"`
	Parameters json.RawMessage `json:"parameters"`
	Directory  string          `json:"directory"`

	// ExitCode is the exit code in the result; otherwise 1 for an error and 0 for success.
	ExitCode int    `json:"exitCode"`
	ChatID   string `json:"chatId"`
}

// WorldCRUD reports that an entity was created, updated or deleted.
type WorldCRUD struct {
	Operation WorldOperation `json:"operation"`

	// EntityType is chat, agent, message or a type that the publisher defines.
	EntityType string `json:"entityType"`
	EntityID   string `json:"entityId"`

	// EntityData is the entity, or those of its fields that changed.
	EntityData any       `json:"entityData,omitempty"`
	Timestamp  time.Time `json:"timestamp"`
	ChatID     string    `json:"chatId,omitempty"`
}

// WorldOperation is the operation of a [WorldCRUD].
type WorldOperation string

// The operations.
const (
	WorldCreate WorldOperation = "create"
	WorldUpdate WorldOperation = "update"
	WorldDelete WorldOperation = "delete"
)

// The entity types that a thread uses.
const (
	EntityChat    = "chat"
	EntityMessage = "message"
)

// WorldMessageStatus is the EntityData of a message whose tool calls changed their status.
type WorldMessageStatus struct {
	MessageID string `json:"messageId"`

	// ToolCallStatus contains only the calls that changed.
	ToolCallStatus map[string]ToolCallStatus `json:"toolCallStatus"`
}

// WorldChat is the EntityData of a thread.
type WorldChat struct {
	Status string   `json:"status"`
	Agents []string `json:"agents,omitempty"`
	Detail string   `json:"detail,omitempty"`
	By     string   `json:"by,omitempty"`
}

// WorldSystem is a message from the system to users.
type WorldSystem struct {
	Content   string    `json:"content"`
	MessageID string    `json:"messageId"`
	Timestamp time.Time `json:"timestamp"`
	ChatID    string    `json:"chatId,omitempty"`
}

// WorldActivity reports an activity in a world.
type WorldActivity struct {
	// Type is response-end, approval, client-call, a status of the thread, or the type of an
	// environment event.
	Type string `json:"type"`

	// Source is the participant that caused the activity.
	Source    string    `json:"source,omitempty"`
	MessageID string    `json:"messageId,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	ChatID    string    `json:"chatId,omitempty"`
}
