package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

// CheckedProvider returns a provider with bounds for what a model says of its reply, which redacts what a model is sent and what it writes.
// Instructions, of role system, and the names of tools are the application's and remain.
func CheckedProvider(r *redact.Redactor, p llm.Provider) llm.Provider {
	if p == nil {
		return nil
	}
	return checkingProvider{p, r}
}

type checkingProvider struct {
	next llm.Provider
	r    *redact.Redactor
}

func (p checkingProvider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if p.r == nil {
		res, err := p.next.Generate(ctx, req, onDelta)
		return res.Bounded(), err
	}
	req.Messages = p.messages(req)
	shown := &redactedPieces{text: p.r.Stream(), thought: p.r.Stream(), show: onDelta}
	var receive func(llm.Delta)
	if onDelta != nil {
		receive = shown.receive
	}
	res, err := p.generate(ctx, req, receive)
	if onDelta != nil {
		shown.end()
	}
	res.Content, res.Thought, res.ToolCalls = p.r.Text(res.Content), p.r.Text(res.Thought), p.calls(res.ToolCalls, req.Tools)
	res.Model, res.Tier, res.FinishReason = p.r.Text(res.Model), p.r.Text(res.Tier), p.r.Text(res.FinishReason)
	if res.Opaque != nil && !bytes.Equal(p.r.JSON(res.Opaque.Data), res.Opaque.Data) {
		res.Opaque = nil // a provider accepts no changed parts
	}
	return res.Bounded(), modelError(p.r, err)
}

// generate calls the provider, and redacts its panic.
func (p checkingProvider) generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	defer func() {
		if problem := recover(); problem != nil {
			panic(p.r.Text(fmt.Sprint(problem)))
		}
	}()
	return p.next.Generate(ctx, req, onDelta)
}

// messages redacts messages that were stored before the redactor was configured.
func (p checkingProvider) messages(req llm.Request) []llm.Message {
	out := make([]llm.Message, len(req.Messages))
	for i, m := range req.Messages {
		if m.Role != event.RoleSystem {
			m.Content, m.ToolCalls = p.r.Text(m.Content), p.calls(m.ToolCalls, req.Tools)
			if m.Role == event.RoleTool {
				m.Name = p.toolName(m.Name, req.Tools)
			}
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

// calls redacts tool calls. A name that no tool has is the model's text.
func (p checkingProvider) calls(calls []event.ToolCall, tools []llm.Tool) []event.ToolCall {
	out := redaction.Calls(p.r, calls)
	for i := range out {
		out[i].Function.Name = p.toolName(out[i].Function.Name, tools)
	}
	return out
}

func (p checkingProvider) toolName(name string, tools []llm.Tool) string {
	clean := p.r.Text(name)
	if clean == name || slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == name }) {
		return name
	}
	return clean
}

// modelError redacts the error of a failed model call.
func modelError(r *redact.Redactor, err error) error {
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
