package event

import (
	"encoding/json"
	"time"
)

// WorldEvent is something that happens in a thread as clients of a world of agents are told
// it: those that call a thread a chat. It is made of records and of live pieces, and not
// stored itself. Its JSON names are those of that protocol.
type WorldEvent struct {
	ID        string         `json:"id"`
	Type      WorldEventType `json:"type" enum:"message,sse,tool-start,tool-progress,tool-result,tool-error,tool-execution,crud,system,activity"`
	Timestamp time.Time      `json:"timestamp" doc:"When it was stored; of a live event, when it is sent"`
	ChatID    string         `json:"chatId" doc:"The thread"`

	// Data is a [WorldMessage], [WorldSSE], [WorldTool], [WorldToolExecution], [WorldCRUD],
	// [WorldSystem] or [WorldActivity], as Type says.
	Data any        `json:"data" doc:"Depends on the type"`
	Meta *WorldMeta `json:"meta,omitempty" doc:"Where it belongs; live events have none"`
}

// WorldEventType says what a [WorldEvent] is about.
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

// WorldMeta is what is known of a [WorldEvent] beside its data.
type WorldMeta struct {
	TraceID string `json:"traceId,omitempty"`

	// ThreadRootID is the event that all of the turn follows from, ReplyToMessageID the
	// message that this one answers.
	ThreadRootID     string `json:"threadRootId,omitempty"`
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`

	// Agents have to do with it, and so have the calls.
	Agents      []string `json:"agents,omitempty"`
	ToolCallIDs []string `json:"toolCallIds,omitempty"`
}

// WorldMessage is a message. One with an id that has come before supersedes that one.
type WorldMessage struct {
	Sender  string `json:"sender"`
	Content string `json:"content"`

	// Role is user, assistant, tool or system: by who the sender is known to be, never by
	// the sender's name.
	Role      string    `json:"role"`
	Timestamp time.Time `json:"timestamp"`
	MessageID string    `json:"messageId"`
	ChatID    string    `json:"chatId"`

	// AgentName and AgentID are the agent that wrote it, or whose call it is about.
	AgentName string `json:"agentName,omitempty"`
	AgentID   string `json:"agentId,omitempty"`

	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ReplyToMessageID string     `json:"replyToMessageId,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`

	// ToolCallStatus says how calls stand, by their ids.
	ToolCallStatus map[string]ToolCallStatus `json:"toolCallStatus,omitempty"`
}

// ToolCallStatus says how a tool call stands.
type ToolCallStatus struct {
	// Complete: it has been decided on, or has its result.
	Complete bool `json:"complete"`

	// Result is what was decided, if anything was.
	Result *ToolCallDecision `json:"result"`
}

// ToolCallDecision is what was decided on a tool call.
type ToolCallDecision struct {
	Decision  Decision  `json:"decision"`
	Scope     Scope     `json:"scope"`
	Timestamp time.Time `json:"timestamp"`
}

// RequestApproval is the name of the call by which clients of a world are asked to approve
// another: see [ApprovalCallID]. Its arguments are a [RequestApprovalArgs].
const RequestApproval = "client.requestApproval"

// RequestApprovalArgs are the arguments of a call of [RequestApproval].
type RequestApprovalArgs struct {
	OriginalToolCall OriginalToolCall `json:"originalToolCall"`
	Message          string           `json:"message"`
	Options          []string         `json:"options"`
}

// OriginalToolCall is a call that is to be approved.
type OriginalToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// Args are a JSON object, or the text that the model wrote in place of one.
	Args             json.RawMessage `json:"args"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// ApprovalOptions are what can be answered to a request for approval.
func ApprovalOptions() []string { return []string{"deny", "approve_once", "approve_session"} }

// WorldSSE is a piece of a reply, its start or its end.
type WorldSSE struct {
	AgentName string       `json:"agentName"`
	Type      WorldSSEType `json:"type"`

	// Content of a chunk.
	Content   string `json:"content,omitempty"`
	MessageID string `json:"messageId"`

	// Usage, of the end, is what the reply has cost.
	Usage  *Usage `json:"usage,omitempty"`
	ChatID string `json:"chatId,omitempty"`
}

// WorldSSEType says what a [WorldSSE] is.
type WorldSSEType string

// The types of a [WorldSSE]. A start makes void what has come of the message before.
const (
	WorldSSEStart WorldSSEType = "start"
	WorldSSEChunk WorldSSEType = "chunk"
	WorldSSEEnd   WorldSSEType = "end"
)

// WorldTool is what a tool does: its start, its progress, its result or its error.
type WorldTool struct {
	AgentName     string         `json:"agentName"`
	Type          WorldEventType `json:"type"`
	MessageID     string         `json:"messageId,omitempty"`
	ToolExecution WorldToolCall  `json:"toolExecution"`
	ChatID        string         `json:"chatId,omitempty"`
}

// WorldToolCall is the call that a [WorldTool] is about.
type WorldToolCall struct {
	ToolName   string `json:"toolName"`
	ToolCallID string `json:"toolCallId"`

	// Input of a start are the arguments, Progress is any JSON.
	Input    json.RawMessage `json:"input,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Result   string          `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// WorldToolExecution says that a call has run that was approved.
type WorldToolExecution struct {
	AgentID  string `json:"agentId"`
	ToolName string `json:"toolName"`

	// Command is the argument of that name, or the tool's name.
	Command    string          `json:"command"`
	Parameters json.RawMessage `json:"parameters"`
	Directory  string          `json:"directory"`

	// ExitCode is that of the result, or 1 if it is an error, or 0.
	ExitCode int    `json:"exitCode"`
	ChatID   string `json:"chatId"`
}

// WorldCRUD says that something was created, updated or deleted.
type WorldCRUD struct {
	Operation WorldOperation `json:"operation"`

	// EntityType is chat, agent, message or a word of the publisher's.
	EntityType string `json:"entityType"`
	EntityID   string `json:"entityId"`

	// EntityData is what it is now, or those fields of it that have changed.
	EntityData any       `json:"entityData,omitempty"`
	Timestamp  time.Time `json:"timestamp"`
	ChatID     string    `json:"chatId,omitempty"`
}

// WorldOperation is what a [WorldCRUD] tells of.
type WorldOperation string

// The operations.
const (
	WorldCreate WorldOperation = "create"
	WorldUpdate WorldOperation = "update"
	WorldDelete WorldOperation = "delete"
)

// The types of entity that a thread makes events of.
const (
	EntityChat    = "chat"
	EntityMessage = "message"
)

// WorldMessageStatus is the EntityData of a message whose calls stand in another way now.
type WorldMessageStatus struct {
	MessageID string `json:"messageId"`

	// ToolCallStatus has only the calls that have changed.
	ToolCallStatus map[string]ToolCallStatus `json:"toolCallStatus"`
}

// WorldChat is the EntityData of a thread.
type WorldChat struct {
	Status string   `json:"status"`
	Agents []string `json:"agents,omitempty"`
	Detail string   `json:"detail,omitempty"`
	By     string   `json:"by,omitempty"`
}

// WorldSystem is what people are told by nobody in particular.
type WorldSystem struct {
	Content   string    `json:"content"`
	MessageID string    `json:"messageId"`
	Timestamp time.Time `json:"timestamp"`
	ChatID    string    `json:"chatId,omitempty"`
}

// WorldActivity says what goes on in a world.
type WorldActivity struct {
	// Type is response-end, approval, client-call, a status of the thread, or the type of
	// an environment event.
	Type string `json:"type"`

	// Source is who does it.
	Source    string    `json:"source,omitempty"`
	MessageID string    `json:"messageId,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	ChatID    string    `json:"chatId,omitempty"`
}
