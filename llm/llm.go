package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Provider calls a language model. Implementations are safe for concurrent use.
type Provider interface {
	// Generate runs one model call. Each piece of the reply is passed to onDelta, in
	// order and from the calling goroutine, before Generate returns. It stops soon
	// after ctx ends, with ctx's error; the response then holds what had arrived.
	// Other failures are a *[Error].
	//
	// A nil onDelta asks for the whole reply at once. The response is the same.
	Generate(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)
}

// Request is one call of a model.
type Request struct {
	// Model is the provider's own name of the model, without the provider's prefix.
	Model    string
	Messages []Message
	Tools    []Tool

	// Temperature nil means the provider's default.
	Temperature *float64

	// MaxOutputTokens 0 means the provider's default.
	MaxOutputTokens int

	// ReasoningEffort is passed on when set: low, medium, high or the provider's own word.
	ReasoningEffort string
}

// Message is one message of the context that a model is shown. It carries only
// what providers know; ids, thread and custom fields stay behind.
type Message struct {
	// Role is system, user, assistant or tool.
	Role    string
	Content string

	// Parts are the texts that a user's Content is made of, a line each, for providers
	// that take messages in parts. Others show the Content.
	Parts []string

	// Name tells participants of one role apart, where the provider can show it.
	Name string

	// ToolCalls of an assistant message; each must be answered by a tool message.
	ToolCalls []event.ToolCall

	// ToolCallID of a tool message; IsError says that the call failed.
	ToolCallID string
	IsError    bool
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string
	Description string

	// Parameters is the JSON Schema of the arguments, an object.
	Parameters json.RawMessage
}

// Delta is a piece of a reply: text, or reasoning, never both.
type Delta struct {
	Text    string
	Thought string
}

// Response types.
const (
	TypeText      = "text"
	TypeToolCalls = "tool_calls"
)

// Response is a model's whole reply.
type Response struct {
	// Type is "text" or, when the reply asks for tools, "tool_calls".
	Type string

	// Content is clean text: markup for tool calls that a model wrote into its text
	// has become ToolCalls. The Delta.Text pieces joined are the Content.
	Content   string
	Thought   string
	ToolCalls []event.ToolCall
	Usage     event.Usage

	// Model is the model that answered, as the provider names it.
	Model string

	// FinishReason is the provider's own word.
	FinishReason string
}

// Error is a failed model call.
type Error struct {
	// Provider and StatusCode (0: no answer came) say who failed and how.
	Provider   string
	StatusCode int

	// Code is the provider's own code, if it gave one.
	Code    string
	Message string

	// Retryable says that the same call may succeed later.
	Retryable bool

	// RetryAfter is how long the provider asks to wait. 0: it did not say.
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

// RetryableStatus reports whether an HTTP status of a provider means that the same
// request may succeed later: 408, 409, 429 and all of 5xx.
func RetryableStatus(code int) bool {
	return code == 408 || code == 409 || code == 429 || code >= 500
}
