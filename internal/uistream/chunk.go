package uistream

import "encoding/json"

// Chunk is one part of a UI message stream.
type Chunk struct {
	Type            string          `json:"type"`
	ID              string          `json:"id,omitempty"`
	MessageID       string          `json:"messageId,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	ToolName        string          `json:"toolName,omitempty"`
	Dynamic         bool            `json:"dynamic,omitempty"`
	Input           json.RawMessage `json:"input,omitempty"`
	Output          json.RawMessage `json:"output,omitempty"`
	ErrorText       string          `json:"errorText,omitempty"`
	ApprovalID      string          `json:"approvalId,omitempty"`
	Reason          string          `json:"reason,omitempty"`
	FinishReason    string          `json:"finishReason,omitempty"`
	Transient       bool            `json:"transient,omitempty"`
	Data            any             `json:"data,omitempty"`
	MessageMetadata *UIMetadata     `json:"messageMetadata,omitempty"`

	// Reply is the reply that a tool call belongs to. The AI SDK does not have it.
	Reply string `json:"-"`
}

// UIMetadata is the metadata of a message.
type UIMetadata struct {
	ThreadID  string `json:"threadId,omitempty" doc:"The thread"`
	EventID   string `json:"eventId,omitempty" doc:"The event of the turn"`
	Sender    string `json:"sender,omitempty" doc:"Who wrote a message of role user"`
	CreatedAt string `json:"createdAt,omitempty" format:"date-time" doc:"When a message of role user was stored"`
	Turn      string `json:"turn,omitempty" enum:"completed,failed,interrupted,expired,held,unanswered" doc:"How the turn ended"`
	Place     string `json:"place,omitempty" doc:"The event after which a continuation of the message begins. Send it back unchanged"`
}

// UIMessage is a message of the AI SDK.
type UIMessage struct {
	ID       string      `json:"id" doc:"Of a message of role user, the id of the posted message"`
	Role     string      `json:"role" enum:"system,user,assistant" doc:"Who speaks. A turn of agents is one assistant message"`
	Metadata *UIMetadata `json:"metadata,omitempty" doc:"threadId, eventId of the turn, sender, createdAt, turn: how it ended, and place: where a continuation begins"`
	Parts    []*UIPart   `json:"parts" nullable:"false" doc:"The parts, in order"`
}

// UIPart is a part of a message.
type UIPart struct {
	Type       string          `json:"type" doc:"text, reasoning, step-start, dynamic-tool, tool-<name> or data-<name>"`
	ID         string          `json:"id,omitempty" doc:"Of a data part"`
	Text       string          `json:"text,omitempty" doc:"Of text and reasoning"`
	State      string          `json:"state,omitempty" doc:"Of text and reasoning: streaming or done. Of a tool: its state"`
	ToolName   string          `json:"toolName,omitempty" doc:"Of a dynamic tool"`
	ToolCallID string          `json:"toolCallId,omitempty" doc:"Of a tool"`
	Input      json.RawMessage `json:"input,omitempty" doc:"Of a tool: the arguments"`
	Output     json.RawMessage `json:"output,omitempty" doc:"Of a tool: the result"`
	ErrorText  string          `json:"errorText,omitempty" doc:"Of a tool that failed"`
	Approval   *UIApproval     `json:"approval,omitempty" doc:"Of a tool: the request for a decision, and the decision"`
	Data       any             `json:"data,omitempty" doc:"Of a data part"`
}

// UIApproval is the approval of a tool part.
type UIApproval struct {
	ID       string `json:"id" doc:"The tool call"`
	Approved *bool  `json:"approved,omitempty" doc:"The decision, once there is one"`
	Reason   string `json:"reason,omitempty" doc:"Why"`
}
