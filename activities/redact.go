package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

// redactedProvider returns a provider that redacts what a model is sent and what it writes. Instructions, of role system, are the
// application's and remain.
func redactedProvider(r *redact.Redactor, p llm.Provider) llm.Provider {
	if r == nil || p == nil {
		return p
	}
	return redactingProvider{p, r}
}

type redactingProvider struct {
	next llm.Provider
	r    *redact.Redactor
}

func (p redactingProvider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	req.Messages = p.messages(req.Messages)
	shown := &redactedPieces{text: p.r.Stream(), thought: p.r.Stream(), show: onDelta}
	var receive func(llm.Delta)
	if onDelta != nil {
		receive = shown.receive
	}
	res, err := p.generate(ctx, req, receive)
	if onDelta != nil {
		shown.end()
	}
	res.Content, res.Thought, res.ToolCalls = p.r.Text(res.Content), p.r.Text(res.Thought), redaction.Calls(p.r, res.ToolCalls)
	if res.Opaque != nil && !bytes.Equal(p.r.JSON(res.Opaque.Data), res.Opaque.Data) {
		res.Opaque = nil // a provider accepts no changed parts
	}
	return res, redactedError(p.r, err)
}

// generate calls the provider, and redacts its panic.
func (p redactingProvider) generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	defer func() {
		if problem := recover(); problem != nil {
			panic(p.r.Text(fmt.Sprint(problem)))
		}
	}()
	return p.next.Generate(ctx, req, onDelta)
}

// messages redacts messages that were stored before the redactor was configured.
func (p redactingProvider) messages(in []llm.Message) []llm.Message {
	out := make([]llm.Message, len(in))
	for i, m := range in {
		if m.Role != event.RoleSystem {
			m.Content, m.ToolCalls = p.r.Text(m.Content), redaction.Calls(p.r, m.ToolCalls)
			parts := make([]string, len(m.Parts))
			for j, part := range m.Parts {
				parts[j] = p.r.Text(part)
			}
			m.Parts = parts[:len(m.Parts):len(m.Parts)]
		}
		out[i] = m
	}
	return out
}

// redactedError redacts the error of a failed model call.
func redactedError(r *redact.Redactor, err error) error {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return redaction.Text(r, err)
	}
	clean := *failed
	clean.Message, clean.Code = r.Text(failed.Message), r.Text(failed.Code)
	if clean.Cause != nil {
		clean.Cause = redaction.Text(r, clean.Cause)
	}
	return &clean
}

// redactedPieces are those of a reply, in which the text follows the thoughts.
type redactedPieces struct {
	text, thought *redact.Stream
	show          func(llm.Delta)
}

// receive shows a piece, even if nothing of it can be shown yet: the reply has begun. A shown piece is either text or a thought.
func (p *redactedPieces) receive(d llm.Delta) {
	if d.Thought != "" || d.Text == "" {
		p.show(llm.Delta{Thought: p.thought.Write(d.Thought)})
	}
	if d.Text != "" {
		p.flush(llm.Delta{Thought: p.thought.Flush()})
		p.show(llm.Delta{Text: p.text.Write(d.Text)})
	}
}

func (p *redactedPieces) end() {
	p.flush(llm.Delta{Thought: p.thought.Flush()})
	p.flush(llm.Delta{Text: p.text.Flush()})
}

func (p *redactedPieces) flush(d llm.Delta) {
	if d != (llm.Delta{}) {
		p.show(d)
	}
}

// redactedResult redacts what a tool returns: its result, its error, and its questions, except for their addresses.
func redactedResult(r *redact.Redactor, res tool.Result, err error) (tool.Result, error) {
	if r == nil {
		return res, err
	}
	res.Output, res.Details = r.Text(res.Output), r.Map(res.Details)
	need, asks := errors.AsType[*tool.InputRequired](err)
	if !asks {
		return res, redaction.Text(r, err)
	}
	clean := &tool.InputRequired{State: r.Text(need.State), Questions: make([]event.InputQuestion, len(need.Questions))}
	for i, q := range need.Questions {
		q.Message, q.Schema = r.Text(q.Message), r.JSON(q.Schema)
		clean.Questions[i] = q
	}
	return res, clean
}
