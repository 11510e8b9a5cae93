package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Reply is a reply of the script: for which requests it is, and what the model then does.
type Reply struct {
	// Model is the name of the model that is asked, without the provider. Empty = any.
	Model string

	// Asked is a part of the last message: of a person, or of the result of a tool. Empty = any.
	Asked string

	// Event is the type of the environment event that the agent is to process. Empty = any, and messages.
	Event string

	// Always keeps the reply in the script after its use.
	Always bool

	// Thought and Text are streamed word by word, and then the tools are called.
	Thought string
	Text    string
	Calls   []ToolCall

	// Err fails the call after Thought and Text have been streamed. Return an [*llm.Error], whose
	// fields say whether it is retried: the retry gets the next reply.
	Err error

	// Hold holds the reply back before its first word, and HoldEnd after its last one.
	Hold, HoldEnd *Gate

	// Func derives Thought, Text, Calls and Err from the request, in place of those above.
	Func func(req llm.Request) Reply
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Tool string

	// Arguments is sent as JSON, except a string, which is sent unchanged: valid or not.
	Arguments any
}

// Say returns a reply with a text.
func Say(text string) Reply { return Reply{Text: text} }

// Call returns a reply that calls a tool. Further calls of the same reply follow with [Reply.And].
func Call(tool string, arguments any) Reply {
	return Reply{Calls: []ToolCall{{tool, arguments}}}
}

// And returns the reply with one more call.
func (r Reply) And(tool string, arguments any) Reply {
	r.Calls = append(r.Calls[:len(r.Calls):len(r.Calls)], ToolCall{tool, arguments})
	return r
}

// Answer returns a reply to any number of requests, which is derived from the request.
func Answer(f func(req llm.Request) Reply) Reply { return Reply{Func: f, Always: true} }

// For returns the reply for requests to a model: by convention, the model has the name of its agent.
func (r Reply) For(model string) Reply {
	r.Model = model
	return r
}

// On returns the reply for requests whose last message contains a text.
func (r Reply) On(asked string) Reply {
	r.Asked = asked
	return r
}

// OnEvent returns the reply for requests to process an environment event of a type.
func (r Reply) OnEvent(typ string) Reply {
	r.Event = typ
	return r
}

// BreakOff returns the reply whose stream breaks off after its text, before its calls. The call is retried.
func (r Reply) BreakOff() Reply {
	r.Err = &llm.Error{Provider: provider, Message: "the stream broke off", Retryable: true}
	return r
}

const provider = "scripted"

// Fail returns a call that fails with an error.
func Fail(err error) Reply { return Reply{Err: err} }

// RateLimited returns a call that the provider rejects with status 429. It is retried after a time.
func RateLimited(retryAfter time.Duration) Reply {
	return Fail(&llm.Error{Provider: provider, StatusCode: 429, Message: "rate limited", Retryable: true, RetryAfter: retryAfter})
}

// Overloaded returns a call that the provider rejects with status 503. It is retried.
func Overloaded() Reply {
	return Fail(&llm.Error{Provider: provider, StatusCode: 503, Message: "overloaded", Retryable: true})
}

// ContextOverflow returns a call whose request is too long for the model. It is not retried.
func ContextOverflow() Reply {
	return Fail(&llm.Error{Provider: provider, StatusCode: 400, Message: "the context is too long", ContextOverflow: true})
}

// processEvent precedes the type of an event in the message that asks an agent to process it.
const processEvent = "Process event: "

func (r Reply) fits(req llm.Request) bool {
	last := lastOf(req)
	return (r.Model == "" || r.Model == req.Model) && strings.Contains(last.Content, r.Asked) &&
		(r.Event == "" || last.Content == processEvent+r.Event)
}

// lastOf is the last message that the model is asked to answer.
func lastOf(req llm.Request) llm.Message {
	if len(req.Messages) == 0 {
		return llm.Message{}
	}
	return req.Messages[len(req.Messages)-1]
}

// ReadPayload reads the payload of the environment event that an agent is to process, for a reply that
// is derived from it: what the agent was told of the event precedes the request to process it.
func ReadPayload(req llm.Request, payload any) error {
	if n := len(req.Messages); n > 1 {
		told := struct {
			Payload any `json:"payload"`
		}{payload}
		if err := json.Unmarshal([]byte(req.Messages[n-2].Content), &told); err == nil {
			return nil
		}
	}
	return &llm.Error{Provider: provider, Code: CodeMismatch, Message: "the model was asked to process an event that it was told nothing of"}
}

// String describes the reply in one line: for which requests it is, and what it does.
func (r Reply) String() string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"for", r.Model}, {"on", r.Asked}, {"on event", r.Event}} {
		if p.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.name, brief(p.value)))
		}
	}
	var does []string
	if r.Text != "" {
		does = append(does, fmt.Sprintf("say %q", brief(r.Text)))
	}
	for _, c := range r.Calls {
		does = append(does, "call "+c.Tool+" "+brief(c.arguments()))
	}
	if r.Err != nil {
		does = append(does, "fail: "+r.Err.Error())
	}
	if r.Func != nil {
		does = append(does, "answer by a function")
	}
	if len(does) == 0 {
		does = append(does, "say nothing")
	}
	return strings.Join(append(parts, strings.Join(does, ", ")), " ")
}

func (c ToolCall) arguments() string {
	if raw, ok := c.Arguments.(string); ok {
		return raw
	}
	if c.Arguments == nil {
		return "{}"
	}
	raw, err := json.Marshal(c.Arguments)
	if err != nil {
		return fmt.Sprintf("!(%v)", err) // which no tool accepts
	}
	return string(raw)
}

func (c ToolCall) event() event.ToolCall {
	return event.ToolCall{Function: event.Function{Name: c.Tool, Arguments: c.arguments()}}
}

// brief shortens a text for an error.
func brief(s string) string {
	const most = 120
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
