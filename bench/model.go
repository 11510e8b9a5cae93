package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/tool"
)

// The tools do the same; the quick one is declared as quick.
const (
	plainTool = "note"
	quickTool = "peek"
)

// shape is a kind of turn.
type shape struct {
	name string

	// tool that the model calls once before it replies, if any.
	tool string

	about string

	// text returns the n-th message. Nil: the message names the tool, or is to be repeated.
	text func(n int) string
}

var shapes = []shape{
	{name: "plain", about: "message, reply"},
	{name: "tool", tool: plainTool, about: "message, tool call, reply"},
	{name: "quick", tool: quickTool, about: "the same with a tool that is declared as quick"},
}

func shapeNames() []string {
	var out []string
	for _, s := range shapes {
		out = append(out, s.name)
	}
	return out
}

func shapeHelp() string {
	var out []string
	for _, s := range shapes {
		out = append(out, s.name+" ("+s.about+")")
	}
	return strings.Join(out, "; ")
}

func shapeOf(name string) shape {
	for _, s := range shapes {
		if s.name == name {
			return s
		}
	}
	panic("no shape " + name)
}

// message returns the message that causes a turn of this shape.
func (s shape) message(n int) string {
	if s.text != nil {
		return s.text(n)
	}
	if s.tool == "" {
		return fmt.Sprintf("say %d", n)
	}
	return fmt.Sprintf("use %s for %d", s.tool, n)
}

// words is the end of every reply, one token each.
const words = " is what you said, and here are a few words more"

// reply returns the model's last reply.
func reply(message string) string { return message + words }

// model is the model of both sides: it replies without delay, streams word by word, and calls the
// tool that the message names.
type model struct{ calls atomic.Int64 }

var _ llm.Provider = (*model)(nil)

func (m *model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	last, said := req.Messages[len(req.Messages)-1], ""
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == event.RoleUser {
			said = req.Messages[i].Content
			break
		}
	}
	if name, asks := strings.CutPrefix(said, "use "); asks && last.Role != event.RoleTool {
		name, _, _ = strings.Cut(name, " ")
		call := event.ToolCall{ID: fmt.Sprintf("call_%d", m.calls.Add(1))}
		call.Function.Name, call.Function.Arguments = name, `{"text":"hello"}`
		return llm.Response{Type: llm.TypeToolCalls, ToolCalls: []event.ToolCall{call}, Model: req.Model, FinishReason: "tool_calls"}, ctx.Err()
	}
	text := reply(said)
	if onDelta != nil {
		for word := range strings.SplitAfterSeq(text, " ") {
			onDelta(llm.Delta{Text: word})
		}
	}
	return llm.Response{Type: llm.TypeText, Content: text, Model: req.Model, FinishReason: "stop"}, ctx.Err()
}

type noteInput struct {
	Text string `json:"text"`
}

func note(_ context.Context, _ tool.Call, in noteInput) (string, error) {
	return "noted: " + in.Text, nil
}

func tools() []tool.Tool {
	return []tool.Tool{
		tool.MustFunc(plainTool, "Notes a text.", note),
		tool.MustFunc(quickTool, "Notes a text at once.", note, tool.Quick()),
	}
}
