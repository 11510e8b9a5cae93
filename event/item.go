package event

import (
	"encoding/json"
	"time"
)

// Status is where an item stands in its thread's queue.
type Status string

// The statuses of a queue item.
const (
	Pending     Status = "pending"
	Processing  Status = "processing"
	Completed   Status = "completed"
	Failed      Status = "failed"
	Expired     Status = "expired"
	Overwritten Status = "overwritten"
)

// Item is an event in a thread's queue.
type Item struct {
	// ID identifies the event; posting the same id twice has the effect of once.
	ID       string `json:"id"`
	ThreadID string `json:"threadId"`
	Type     string `json:"type"`

	// Payload of a "message" is a [NewMessage]; of other types, any JSON.
	Payload json.RawMessage `json:"payload"`
	Status  Status          `json:"status"`

	// Priority: higher first, ties in order of arrival. Default 0.
	Priority int `json:"priority,omitempty"`

	// TTL in milliseconds from CreatedAt; an item that is still pending then is
	// expired and never processed. 0 = no limit.
	TTL int64 `json:"ttl,omitempty"`

	// TraceID is shared by everything that follows from one trigger.
	TraceID       string    `json:"traceId"`
	ParentEventID string    `json:"parentEventId,omitempty"`
	Namespace     string    `json:"namespace"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`

	// Attempt counts how often a failed item was retried by hand.
	Attempt int `json:"attempt,omitempty"`

	// Error says why the item failed.
	Error string `json:"error,omitempty"`
}

// Record is an event as stored.
type Record struct {
	// ID is unique in the thread. The workflow derives it, so that a retry of the
	// activity that stores the record finds it there.
	ID string `json:"id"`

	// Seq is the place in the thread, from 1, without gaps. The store gives it.
	Seq  int64  `json:"seq"`
	Type string `json:"type"`

	// Payload of a "message" is a [Message]; for the other types see the payload
	// types of this package.
	Payload json.RawMessage `json:"payload"`

	TraceID       string    `json:"traceId,omitempty"`
	ParentEventID string    `json:"parentEventId,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
}

// NewRecord makes a record with the JSON form of payload. It panics if payload
// has no JSON form, which is a mistake in the program.
func NewRecord(id, typ, traceID, parent string, at time.Time, payload any) Record {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("event: payload of record " + id + " has no JSON form: " + err.Error())
	}
	return Record{ID: id, Type: typ, Payload: raw, TraceID: traceID, ParentEventID: parent, CreatedAt: at.UTC()}
}

// LLMCall is the payload of an "llm_call" record: one successful call of a model.
type LLMCall struct {
	Agent     string `json:"agent"`
	Model     string `json:"model"`
	MessageID string `json:"messageId"`
	Step      int    `json:"step"`
	Attempt   int    `json:"attempt"`
	Usage     Usage  `json:"usage"`

	// Messages is how many messages the model was shown.
	Messages int `json:"messages"`

	// FinishReason is the provider's word for why the reply ended.
	FinishReason string `json:"finishReason,omitempty"`

	// DurationMS is the time from request to last token, in milliseconds.
	DurationMS int64 `json:"durationMs"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens     int `json:"inputTokens"`
	OutputTokens    int `json:"outputTokens"`
	ReasoningTokens int `json:"reasoningTokens,omitempty"`
	CachedTokens    int `json:"cachedTokens,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:     u.InputTokens + v.InputTokens,
		OutputTokens:    u.OutputTokens + v.OutputTokens,
		ReasoningTokens: u.ReasoningTokens + v.ReasoningTokens,
		CachedTokens:    u.CachedTokens + v.CachedTokens,
	}
}

// ApprovalRequest is the payload of an "approval_request" record.
type ApprovalRequest struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// Arguments are the raw JSON arguments of the stored call.
	Arguments string `json:"arguments"`
	Agent     string `json:"agent"`

	// Reason says why a person is asked.
	Reason      string    `json:"reason,omitempty"`
	RequestedAt time.Time `json:"requestedAt"`
}

// Approval is the payload of an "approval" record: a person's decision.
type Approval struct {
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Agent      string    `json:"agent"`
	Decision   Decision  `json:"decision"`
	Scope      Scope     `json:"scope"`
	Reason     string    `json:"reason,omitempty"`
	By         string    `json:"by"`
	DecidedAt  time.Time `json:"decidedAt"`
}

// Decision is what a person decided on a tool call.
type Decision string

// The decisions.
const (
	Approve Decision = "approve"
	Deny    Decision = "deny"
)

// Scope is how far an approval reaches.
type Scope string

// The scopes.
const (
	Once    Scope = "once"
	Session Scope = "session"
)

// StatusChange is the payload of a "status" record.
type StatusChange struct {
	// Status is one of the Status… words below.
	Status string   `json:"status"`
	Agents []string `json:"agents,omitempty"`
	Detail string   `json:"detail,omitempty"`
	By     string   `json:"by,omitempty"`
}

// What a "status" record can say.
const (
	StatusOpened      = "opened"
	StatusInterrupted = "interrupted"
	StatusClosed      = "closed"
	StatusRetried     = "retried"

	// StatusRetrying is live only: a model did not answer, and is asked again.
	StatusRetrying = "retrying"
)

// Final is the payload of a "final" record: an agent has finished its reply.
type Final struct {
	Agent     string `json:"agent"`
	MessageID string `json:"messageId,omitempty"`
}

// Failure is the payload of an "error" record: a turn failed.
type Failure struct {
	Agent   string `json:"agent,omitempty"`
	EventID string `json:"eventId"`
	Error   string `json:"error"`

	// Retryable says that retrying the event may help without any change.
	Retryable bool `json:"retryable"`
}

// Rejected is the payload of a "rejected" record: a signal that changed nothing.
type Rejected struct {
	Signal  string `json:"signal"`
	Problem string `json:"problem"`

	// Input is the start of what was sent, at most 1 KiB.
	Input string `json:"input,omitempty"`
}
