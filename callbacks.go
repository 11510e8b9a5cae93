package threadmill

import (
	"context"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// Callbacks see model output and tool calls on their way to viewers: those of [Runtime.Send] and
// those of the HTTP API's event streams. A viewer sees the value that a callback returns; nil
// changes nothing.
//
// Callbacks have no effect on the thread: neither on the store, GET /messages, the context of
// models, the arguments of tools and the results of turns, nor on approval requests, which show the
// arguments that will run. Use a hook to change these.
//
// Each viewer calls them once, in order; several viewers call them concurrently. A slow callback
// delays its viewer. If a callback panics, the panic is logged and the event stays unchanged. A
// viewer that resumes may see events again, so results should depend on arguments only.
type Callbacks struct {
	// OnToken is called for each piece of a reply and of the thoughts before it, and at the end
	// of a reply for an empty one with IsComplete.
	OnToken func(ctx context.Context, t TokenStream) *TokenStream

	// OnContent is called for each piece of a reply, after OnToken, and at the end for the whole
	// reply with IsComplete; a second time if hooks have replaced the reply.
	OnContent func(ctx context.Context, c ContentStream) *ContentStream

	// OnToolCall is called for each tool call of an agent.
	OnToolCall func(ctx context.Context, c ToolCallStream) *ToolCallStream
}

// TokenStream is a piece of a model's reply or thoughts.
type TokenStream struct {
	// Token is the piece. A replacement of the empty one at the end is ignored.
	Token string

	// IsComplete is true for the last piece of a message, exactly once. A message that fails or
	// is interrupted before its first piece completes at the end of its agent's run.
	IsComplete bool

	ThreadID  string
	AgentName string

	// MessageID identifies the reply. Attempt counts from 1; when it increases, the model was
	// called again and earlier pieces are void.
	MessageID string
	Attempt   int

	// Thought is true for reasoning.
	Thought bool
}

// ContentStream is a piece of a reply or, with IsComplete, the whole reply.
type ContentStream struct {
	Content    string
	IsComplete bool

	ThreadID  string
	AgentName string

	// MessageID and Attempt are those of [TokenStream]. A whole reply has no Attempt.
	MessageID string
	Attempt   int
}

// ToolCallStream is a tool call of an agent.
type ToolCallStream struct {
	ToolName string

	// ToolArgs are the raw JSON arguments.
	ToolArgs   string
	ToolCallID string

	ThreadID  string
	AgentName string
}

// views returns the maker of a [feed.View] for each reader.
func (c Callbacks) views(log *slog.Logger) func(store.Key) feed.View {
	return func(key store.Key) feed.View {
		if c.OnToken == nil && c.OnContent == nil && c.OnToolCall == nil {
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent { return e }
		}
		v := &callbackView{callbacks: c, threadID: key.ThreadID, log: log, open: map[string]TokenStream{}, calls: map[string]shownCall{}}
		return v.see
	}
}

// callbackView is what one viewer sees through callbacks.
type callbackView struct {
	callbacks Callbacks
	threadID  string
	log       *slog.Logger

	// open are the messages of which pieces were shown and that are not complete.
	open map[string]TokenStream

	// calls were shown with their message, and have yet to be shown on their own.
	calls map[string]shownCall
}

type shownCall struct {
	agent        string
	asked, shown event.Function
}

func (v *callbackView) see(ctx context.Context, e event.AgentEvent) event.AgentEvent {
	switch e.Type {
	case event.EventThought, event.EventStream:
		return v.piece(ctx, e)
	case event.EventMessage:
		if e.Message != nil && e.Message.SenderType == event.CreatedByAgent {
			return v.message(ctx, e)
		}
	case event.EventToolCall:
		shown := v.call(ctx, e.Agent, e.ToolCallID, event.Function{Name: e.ToolName, Arguments: e.ToolArgs})
		e.ToolName, e.ToolArgs = shown.Name, shown.Arguments
		delete(v.calls, e.ToolCallID)
	case event.EventFinal, event.EventError:
		v.end(ctx, e.Agent)
	default:
	}
	return e
}

func (v *callbackView) piece(ctx context.Context, e event.AgentEvent) event.AgentEvent {
	if e.Content == "" {
		return e // it only announces the reply
	}
	t := TokenStream{ThreadID: v.threadID, AgentName: e.Agent, MessageID: e.MessageID, Attempt: e.Attempt, Thought: e.Type == event.EventThought}
	v.open[e.MessageID] = t
	t.Token = e.Content
	if out := safely(ctx, v, "OnToken", v.callbacks.OnToken, t); out != nil {
		e.Content = out.Token
	}
	if t.Thought {
		return e
	}
	c := ContentStream{Content: e.Content, ThreadID: v.threadID, AgentName: e.Agent, MessageID: e.MessageID, Attempt: e.Attempt}
	if out := safely(ctx, v, "OnContent", v.callbacks.OnContent, c); out != nil {
		e.Content = out.Content
	}
	return e
}

// complete ends the tokens of a message.
func (v *callbackView) complete(ctx context.Context, messageID string) {
	t, ok := v.open[messageID]
	if !ok {
		return
	}
	delete(v.open, messageID)
	t.IsComplete, t.Thought = true, false
	safely(ctx, v, "OnToken", v.callbacks.OnToken, t)
}

// end closes what an agent has left open.
func (v *callbackView) end(ctx context.Context, agent string) {
	for _, id := range slices.Sorted(maps.Keys(v.open)) {
		if v.open[id].AgentName == agent {
			v.complete(ctx, id)
		}
	}
	maps.DeleteFunc(v.calls, func(_ string, c shownCall) bool { return c.agent == agent })
}

func (v *callbackView) message(ctx context.Context, e event.AgentEvent) event.AgentEvent {
	v.complete(ctx, e.MessageID)
	m := *e.Message
	if m.Content != "" {
		c := ContentStream{Content: m.Content, IsComplete: true, ThreadID: v.threadID, AgentName: e.Agent, MessageID: m.ID}
		if out := safely(ctx, v, "OnContent", v.callbacks.OnContent, c); out != nil {
			m.Content = out.Content
		}
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i, c := range m.ToolCalls {
		m.ToolCalls[i].Function = v.call(ctx, e.Agent, c.ID, c.Function)
	}
	e.Message = &m
	return e
}

// call returns what viewers see of a call, which they are shown twice: with its message
// and on its own.
func (v *callbackView) call(ctx context.Context, agent, id string, f event.Function) event.Function {
	if known, ok := v.calls[id]; ok && known.asked == f {
		return known.shown
	}
	shown := f
	c := ToolCallStream{ToolName: f.Name, ToolArgs: f.Arguments, ToolCallID: id, ThreadID: v.threadID, AgentName: agent}
	if out := safely(ctx, v, "OnToolCall", v.callbacks.OnToolCall, c); out != nil {
		shown = event.Function{Name: out.ToolName, Arguments: out.ToolArgs}
	}
	v.calls[id] = shownCall{agent, f, shown}
	return shown
}

// safely calls a callback; one that panics has changed nothing.
func safely[T any](ctx context.Context, v *callbackView, name string, f func(context.Context, T) *T, data T) (out *T) {
	if f == nil {
		return nil
	}
	defer isolate(ctx, v.log, name, v.threadID, func() { out = nil })
	return f(ctx, data)
}

// isolate is deferred: it logs a panic of a callback and goes on after it.
func isolate(ctx context.Context, log *slog.Logger, name, threadID string, after func()) {
	if recover() != nil {
		log.ErrorContext(ctx, "callback panicked", "callback", name, "thread", threadID, "stack", string(debug.Stack()))
		after()
	}
}
