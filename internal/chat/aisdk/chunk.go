package aisdk

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
	Approved        *bool           `json:"approved,omitempty"`
	Reason          string          `json:"reason,omitempty"`
	FinishReason    string          `json:"finishReason,omitempty"`
	SourceID        string          `json:"sourceId,omitempty"`
	MediaType       string          `json:"mediaType,omitempty"`
	Title           string          `json:"title,omitempty"`
	Filename        string          `json:"filename,omitempty"`
	Transient       bool            `json:"transient,omitempty"`
	Data            any             `json:"data,omitempty"`
	MessageMetadata *UIMetadata     `json:"messageMetadata,omitempty"`

	ProviderMetadata map[string]any `json:"providerMetadata,omitempty"`
}

// Source is what a source says beyond the fields of the AI SDK, as the field threadmill of its providerMetadata.
type Source struct {
	Number   int    `json:"number" doc:"The number by which the reply cites the passage, as [1]"`
	Document string `json:"document" doc:"The id of the document"`
	Index    int    `json:"index" doc:"The place of the passage in its document, from 0"`
	Section  string `json:"section,omitempty" doc:"The headings above the passage"`
	Page     int    `json:"page,omitempty" doc:"The page on which it begins, from 1"`
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
	Type       string          `json:"type" doc:"text, reasoning, step-start, source-document, dynamic-tool, tool-<name> or data-<name>"`
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

	SourceID         string         `json:"sourceId,omitempty" doc:"Of a source-document: the id of the passage"`
	MediaType        string         `json:"mediaType,omitempty" doc:"Of a source-document: text/plain"`
	Title            string         `json:"title,omitempty" doc:"Of a source-document: the title of the document, or its source"`
	Filename         string         `json:"filename,omitempty" doc:"Of a source-document: the URL or the path of the document"`
	ProviderMetadata map[string]any `json:"providerMetadata,omitempty" doc:"Of a source-document: threadmill has its number, document, index, section and page"`
}

// UIApproval is the approval of a tool part.
type UIApproval struct {
	ID       string `json:"id" doc:"The tool call"`
	Approved *bool  `json:"approved,omitempty" doc:"The decision, once there is one"`
	Reason   string `json:"reason,omitempty" doc:"Why"`
}
