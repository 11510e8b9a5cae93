package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Provider calls a language model. Implementations are safe for concurrent use.
type Provider interface {
	// Generate runs one model call. It passes each piece of the response to onDelta, in order and
	// from the calling goroutine, before it returns. It stops soon after ctx ends, with ctx's error
	// and the part of the response that had arrived. Any other error is an *[Error].
	//
	// If onDelta is nil, the response is not streamed. It is the same.
	//
	// A provider that cannot do what a request asks for, such as a [ResponseFormat], returns an
	// [*Error] that is not retryable instead of ignoring it.
	Generate(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)
}

// Request is the request of one model call.
type Request struct {
	// The provider's name of the model.
	//
	// It has no prefix "provider/".
	Model string `json:"model"`

	// The conversation, the oldest message first.
	Messages []Message `json:"messages" nullable:"false"`

	// The tools that the model could call.
	Tools []Tool `json:"tools,omitempty"`

	// The sampling temperature. Missing: the provider's default.
	Temperature *float64 `json:"temperature,omitempty"`

	// The limit of the response. Missing: the provider's default.
	//
	// 0 = the provider's default.
	MaxOutputTokens int `json:"maxOutputTokens,omitempty"`

	// As the provider names it. Missing: the provider's default.
	//
	// The provider receives it unchanged: low, medium, high or a value of its own.
	ReasoningEffort string `json:"reasoningEffort,omitempty"`

	// Whether the model calls tools: none, required, or "tool:" with the name of the tool that it must call. Missing: the model decides.
	ToolChoice ToolChoice `json:"toolChoice,omitempty"`

	// The form that the text of the reply must have. Missing: any text.
	ResponseFormat *ResponseFormat `json:"responseFormat,omitempty"`

	// MaxReplyBytes is the maximum size of the response: its text, thoughts, tool calls and opaque
	// parts. Providers count a piece as at least [MinPieceBytes], and fail with [CodeReplyTooLarge].
	// 0 = [DefaultMaxReplyBytes].
	MaxReplyBytes int `json:"-"`
}

// Limits of responses.
const (
	// DefaultMaxReplyBytes exceeds what the models of today can write.
	DefaultMaxReplyBytes = 2 << 20

	// MinPieceBytes bounds the number of pieces of a response of limited size.
	MinPieceBytes = 8
)

// Message is a message of the transcript that a model sees. It contains only the fields that
// providers accept: no ids, thread or custom fields.
type Message struct {
	// Who speaks.
	Role string `json:"role" enum:"system,user,assistant,tool"`

	// The text.
	Content string `json:"content"`

	// The texts that content consists of, for providers that accept messages in parts.
	//
	// The parts of a user's message, one line of Content each. Other providers use Content.
	Parts []string `json:"parts,omitempty"`

	// The participant, among those with the same role.
	//
	// It distinguishes participants, if the provider supports it.
	Name string `json:"name,omitempty"`

	// The calls of an assistant message.
	//
	// A tool message must answer each of them.
	ToolCalls []event.ToolCall `json:"toolCalls,omitempty"`

	// The call that a tool message answers.
	ToolCallID string `json:"toolCallId,omitempty"`

	// Whether the call failed.
	IsError bool `json:"isError,omitempty"`

	// Shared reports that further requests begin with the same messages up to this one, so that
	// providers that are told what to cache keep them.
	Shared bool `json:"-"`

	// Opaque are the parts of an assistant message that only its model can read. A driver sends
	// them back if they have its own origin, and otherwise ignores them.
	Opaque *event.Opaque `json:"-"`
}

// Tool describes a tool to a model.
type Tool struct {
	// The name of the tool.
	Name string `json:"name"`

	// What the tool does.
	Description string `json:"description"`

	// The JSON Schema of the arguments.
	//
	// Its type is object.
	Parameters json.RawMessage `json:"parameters"`
}

// Delta is a piece of a response: either text or reasoning. An empty one reports that the response
// has begun otherwise, such as with a tool call.
type Delta struct {
	Text    string
	Thought string
}

// The types of a [Response].
const (
	TypeText      = "text"
	TypeToolCalls = "tool_calls"
)

// Response is the complete response of a model.
type Response struct {
	// Type is [TypeText] or, if the response contains tool calls, [TypeToolCalls].
	Type string

	// Content is the text without markup for tool calls, which becomes ToolCalls. It is the
	// concatenation of all Delta.Text.
	Content   string
	Thought   string
	ToolCalls []event.ToolCall
	Usage     event.Usage

	// Model is the provider's name of the model that responded. Empty if the provider does not tell.
	Model string

	// Tier is the service tier of the call, as the provider names it. Empty if it does not tell.
	Tier string

	// FinishReason is one of the Finish constants, or the provider's own word: see [Response.Bounded].
	FinishReason string

	// Opaque are the parts of the reply that only its model can read.
	Opaque *event.Opaque
}

// maxWord is the maximum size of Response.Model, Tier and FinishReason, in bytes.
const maxWord = 128

// Bounded returns a response whose Model, Tier and FinishReason have at most 128 bytes, and whose counts of tokens are 0 to 1<<31 - 1:
// sums of them, and what stores keep, must not overflow with what a provider claims. No part of the tokens written to the cache
// exceeds the whole.
func (r Response) Bounded() Response {
	for _, word := range []*string{&r.Model, &r.Tier, &r.FinishReason} {
		if len(*word) > maxWord {
			*word = (*word)[:maxWord-len("…")] + "…"
		}
		*word = strings.ToValidUTF8(*word, "")
	}
	u := &r.Usage
	for _, count := range []*int{&u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.CacheWriteHourTokens} {
		*count = min(max(*count, 0), math.MaxInt32)
	}
	u.CacheWriteTokens = min(u.CacheWriteTokens, u.InputTokens)
	u.CacheWriteHourTokens = min(u.CacheWriteHourTokens, u.CacheWriteTokens)
	return r
}

// Reasons why a reply ended.
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool_calls"

	// FinishLength: the reply reached the limit of its tokens.
	FinishLength = "length"
)

// Error is a failed model call.
type Error struct {
	// Provider is the name of the provider, and StatusCode the HTTP status. 0 = no response.
	Provider   string
	StatusCode int

	// Code is the provider's error code, if any.
	Code    string
	Message string

	// ContextOverflow reports that the request does not fit into the model's context.
	ContextOverflow bool

	// Slow reports that no part of the reply has arrived within [Fallback].FirstToken.
	Slow bool

	// Retryable reports whether a retry of the same call may succeed.
	Retryable bool

	// RetryAfter is the delay that the provider requires before a retry. 0 = unspecified.
	RetryAfter time.Duration

	Cause error
}

func (e *Error) Error() string {
	if e.StatusCode == 0 {
		return fmt.Sprintf("%s: %s", e.Provider, e.Message)
	}
	return fmt.Sprintf("%s answered %d: %s", e.Provider, e.StatusCode, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// CodeRefusal is the Code of an [Error] of a model that refuses to answer.
const CodeRefusal = "refusal"

// CodeReplyTooLarge is the Code of an [Error] of a model whose response exceeds
// [Request].MaxReplyBytes.
const CodeReplyTooLarge = "reply_too_large"

// NewReplyTooLarge returns the error of a model whose response exceeds a limit in bytes. what names
// the part of the response that the limit applies to.
func NewReplyTooLarge(provider, what string, limit int) *Error {
	return &Error{Provider: provider, Code: CodeReplyTooLarge, Message: fmt.Sprintf("%s is larger than %d bytes (limits.maxReplyBytes of the agent)", what, limit)}
}

// RetryableStatus reports whether a retry of a request may succeed after a response with this HTTP
// status: 408, 409, 429 and all 5xx.
func RetryableStatus(code int) bool {
	return code == 408 || code == 409 || code == 429 || code >= 500
}
