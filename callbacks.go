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

// Callbacks see what agents say and which tools they call while it is on its way to
// viewers: those of a [Run], and those of the HTTP API's event streams. What a callback
// returns is what viewers see in its place; nil changes nothing.
//
// They have no part in what happens: what is stored, what models are shown, and which
// tools run with which arguments stays as it is, and so do the results of turns, GET
// /messages, and requests for approval, whose arguments are those that will run. To
// change these, use a hook.
//
// Callbacks are called once for each viewer, in order, and may be called by several
// viewers at the same time. One that takes its time keeps its viewer waiting; one that
// panics is logged, and the event goes on as it was. A viewer that resumes is shown
// some events again, so what a callback returns should depend on what it is given alone.
type Callbacks struct {
	// OnToken gets each piece of a reply and of the thoughts before it, and at the end of
	// a reply an empty one with IsComplete.
	OnToken func(ctx context.Context, t TokenStream) *TokenStream

	// OnContent gets each piece of a reply, as OnToken has left it, and at the end the
	// whole reply with IsComplete: once more if hooks have put another in its place.
	OnContent func(ctx context.Context, c ContentStream) *ContentStream

	// OnToolCall gets each tool call that an agent asks for.
	OnToolCall func(ctx context.Context, c ToolCallStream) *ToolCallStream
}

// TokenStream is a piece of what a model says or thinks.
type TokenStream struct {
	// Token is the piece. What replaces the empty one at the end is shown to nobody.
	Token string

	// IsComplete is true exactly once for a message of which there were pieces, on the
	// last. A message that fails, or is cut off before it said anything, completes when
	// its agent's part in the turn ends.
	IsComplete bool

	ThreadID  string
	AgentName string

	// MessageID tells replies apart. When Attempt grows, what came before is void: the
	// model is asked again. It counts from 1.
	MessageID string
	Attempt   int

	// Thought says that the piece is part of the model's reasoning.
	Thought bool
}

// ContentStream is a piece of a reply, or, with IsComplete, the whole of it.
type ContentStream struct {
	Content    string
	IsComplete bool

	ThreadID  string
	AgentName string

	// MessageID and Attempt are as in [TokenStream]; a whole reply has no Attempt.
	MessageID string
	Attempt   int
}

// ToolCallStream is a tool call that an agent asks for.
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
