package driver

import (
	"cmp"
	"context"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Call is one call of a model.
type Call struct {
	Request  llm.Request
	Names    *ToolNames
	Exchange *Exchange
	Reply    *Reply

	// Stream reports whether the caller wants pieces.
	Stream bool
}

// Generate makes a call. send sends the request and adds what arrives to the reply. said returns what
// the server says in an error of send, or nil.
func (e *Endpoint) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta),
	send func(context.Context, *Call) error, said func(*Exchange, error) *Said,
) (llm.Response, error) {
	if err := req.Check(); err != nil {
		return llm.Response{Type: llm.TypeText}, &llm.Error{Provider: e.Name, Message: "the request is not valid: " + err.Error()}
	}
	if len(req.Tools) == 0 {
		req.ToolChoice = llm.ToolsAuto // providers reject a choice without tools
	}
	limit := cmp.Or(req.MaxReplyBytes, llm.DefaultMaxReplyBytes)
	inner, x, done := newExchange(ctx, e.Name, limit)
	defer done()
	c := &Call{Request: req, Names: NewToolNames(req.Tools), Exchange: x, Reply: newReply(x, onDelta), Stream: onDelta != nil}
	err := send(inner, c)
	if err == nil && c.Reply.over {
		err = context.Cause(inner)
	}
	resp := c.Reply.response()
	if err != nil {
		resp.Type, resp.ToolCalls, resp.Opaque = llm.TypeText, nil, nil
		if refusal, ok := err.(*llm.Error); ok { //nolint:errorlint // the driver made it
			return resp, refusal
		}
		return resp, e.Classify(ctx, inner, x, err, said(x, err))
	}
	c.Names.Restore(resp.ToolCalls)
	llm.AssignIDs(resp.ToolCalls, req.Messages)
	return resp, nil
}

// Reply collects the pieces of a reply and passes them to onDelta.
type Reply struct {
	Calls        []event.ToolCall
	Usage        event.Usage
	Model, Tier  string
	FinishReason string
	Opaque       *event.Opaque

	exchange      *Exchange
	onDelta       func(llm.Delta)
	cleaner       llm.Cleaner
	text, thought strings.Builder

	// size is the size of what has arrived. over means that it exceeds the limit.
	size int
	over bool

	// begun means that onDelta was called.
	begun bool

	// said means that a text has arrived that is not blank.
	said bool
}

func newReply(x *Exchange, onDelta func(llm.Delta)) *Reply {
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	return &Reply{exchange: x, onDelta: onDelta}
}

// Count adds the sizes of pieces to that of the reply. If the reply exceeds its limit, Count ends the
// exchange and returns false. [Reply.Think] and [Reply.Say] count what they add.
func (r *Reply) Count(sizes ...int) bool {
	r.begin()
	return r.count(sizes...)
}

// begin tells the caller once that the reply has begun.
func (r *Reply) begin() {
	if !r.begun {
		r.begun = true
		r.onDelta(llm.Delta{})
	}
}

func (r *Reply) count(sizes ...int) bool {
	for _, n := range sizes {
		r.size += max(n, llm.MinPieceBytes)
	}
	if !r.over && r.size > r.exchange.limit {
		r.over = true
		_ = r.exchange.exceeded("the reply", r.exchange.limit)
	}
	return !r.over
}

// Silent reports whether neither text nor thoughts have arrived.
func (r *Reply) Silent() bool { return r.text.Len() == 0 && r.thought.Len() == 0 }

// Answered reports whether a text or a call has arrived. Thoughts alone are no answer.
func (r *Reply) Answered() bool { return r.said || len(r.Calls) > 0 }

// Think adds a piece of reasoning.
func (r *Reply) Think(s string) {
	if s != "" && r.count(len(s)) {
		r.begun = true
		r.thought.WriteString(s)
		r.onDelta(llm.Delta{Thought: s})
	}
}

// Say adds a piece of text.
func (r *Reply) Say(s string) {
	if s != "" && r.count(len(s)) {
		r.said = r.said || !Blank(s)
		r.say(r.cleaner.Feed(s))
		r.begin() // with markup that the cleaner holds back
	}
}

func (r *Reply) say(clean string) {
	if clean != "" {
		r.begun = true
		r.text.WriteString(clean)
		r.onDelta(llm.Delta{Text: clean})
	}
}

func (r *Reply) response() llm.Response {
	rest, written := r.cleaner.Close()
	r.say(rest)
	resp := llm.Response{
		Type: llm.TypeText, Content: r.text.String(), Thought: r.thought.String(), ToolCalls: append(r.Calls, written...),
		Usage: r.Usage, Model: r.Model, Tier: r.Tier, FinishReason: r.FinishReason, Opaque: r.Opaque,
	}
	if len(resp.ToolCalls) > 0 {
		resp.Type = llm.TypeToolCalls
	}
	return resp
}
