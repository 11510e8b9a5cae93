package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

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

	// asks is whether the call needs a person's approval.
	asks bool

	about string

	// text returns the n-th message. Nil: the message names the tool, or is to be repeated.
	text func(n int) string
}

var shapes = []shape{
	{name: "plain", about: "message, reply"},
	{name: "tool", tool: plainTool, about: "message, tool call, reply"},
	{name: "quick", tool: quickTool, about: "the same with a tool that is declared as quick"},
	{name: "approval", tool: plainTool, asks: true, about: "message, tool call, approval request, decision, reply"},
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

// message returns the n-th message, which causes a turn of this shape.
func (s shape) message(n int, by way) string {
	var text string
	switch {
	case s.text != nil:
		text = s.text(n)
	case s.tool == "":
		text = fmt.Sprintf("say %d", n)
	default:
		text = fmt.Sprintf("use %s for %d", s.tool, n)
	}
	if by == byHTTP {
		text += atLength
	}
	return text
}

// words is the end of every short reply, one token each.
const words = " is what you said, and here are a few words more"

// slowly is in messages whose reply has a pause before each token, as those of models have.
const (
	slowly = " slowly"
	slow   = 20 * time.Millisecond
)

// atLength is the end of a message whose reply has longReply tokens.
const (
	atLength  = " at length"
	longReply = 50
)

// reply returns the model's last reply.
func reply(message string) string {
	if !strings.HasSuffix(message, atLength) {
		return message + words
	}
	return message + strings.Repeat(" more", max(0, longReply-len(strings.Fields(message))))
}

// model is the model of both sides: it replies without delay unless it is asked for, streams word by word, and calls the
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
			if strings.Contains(said, slowly) {
				if err := pause(ctx, slow); err != nil {
					return llm.Response{}, err
				}
			}
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
