package redaction

import (
	"bytes"
	"context"
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
)

// Provider returns a provider that redacts what a model is sent and what it writes. Instructions, of role system, are the
// application's and remain.
func Provider(r *redact.Redactor, p llm.Provider) llm.Provider {
	if r == nil || p == nil {
		return p
	}
	return provider{p, r}
}

type provider struct {
	next llm.Provider
	r    *redact.Redactor
}

func (p provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	req.Messages = p.messages(req.Messages)
	pieces := &pieces{text: p.r.Stream(), thought: p.r.Stream(), show: onDelta}
	var receive func(llm.Delta)
	if onDelta != nil {
		receive = pieces.receive
	}
	res, err := p.next.Generate(ctx, req, receive)
	if onDelta != nil {
		pieces.end()
	}
	res.Content, res.Thought, res.ToolCalls = p.r.Text(res.Content), p.r.Text(res.Thought), Calls(p.r, res.ToolCalls)
	if res.Opaque != nil && !bytes.Equal(p.r.JSON(res.Opaque.Data), res.Opaque.Data) {
		res.Opaque = nil // a provider accepts no changed parts
	}
	return res, Error(p.r, err)
}

// messages redacts messages that were stored before the redactor was configured.
func (p provider) messages(in []llm.Message) []llm.Message {
	out := make([]llm.Message, len(in))
	for i, m := range in {
		if m.Role != event.RoleSystem {
			m.Content, m.ToolCalls = p.r.Text(m.Content), Calls(p.r, m.ToolCalls)
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

// Error redacts the message of a failed model call. Other errors are those of contexts.
func Error(r *redact.Redactor, err error) error {
	failed, ok := errors.AsType[*llm.Error](err)
	if r == nil || !ok {
		return err
	}
	clean := *failed
	clean.Message = r.Text(failed.Message)
	if clean.Cause != nil {
		clean.Cause = Text(r, clean.Cause)
	}
	return &clean
}

// Text returns an error whose text is redacted, and which still is the error that it was.
func Text(r *redact.Redactor, err error) error {
	if err == nil {
		return nil
	}
	if clean := r.Text(err.Error()); clean != err.Error() {
		return &redactedError{clean, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redactedError) As(target any) bool   { return errors.As(e.err, target) }

// pieces are those of a reply, in which the text follows the thoughts.
type pieces struct {
	text, thought *redact.Stream
	show          func(llm.Delta)
}

func (p *pieces) receive(d llm.Delta) {
	switch {
	case d.Thought != "":
		d.Thought = p.thought.Write(d.Thought)
	case d.Text != "":
		p.flush(llm.Delta{Thought: p.thought.Flush()})
		d.Text = p.text.Write(d.Text)
	}
	p.show(d) // even if it is empty now: the reply has begun
}

func (p *pieces) end() {
	p.flush(llm.Delta{Thought: p.thought.Flush()})
	p.flush(llm.Delta{Text: p.text.Flush()})
}

func (p *pieces) flush(d llm.Delta) {
	if d != (llm.Delta{}) {
		p.show(d)
	}
}
