package world

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/event"
)

// Handler handles the events of a subscription. See [Sync] and [Async].
type Handler[E any] struct {
	call  func(context.Context, E) error
	async bool

	// keep selects events. Nil = all.
	keep func(E) bool
}

// Sync returns a handler that delivery waits for. It is called for the events of a chat one after
// another, and concurrently for different chats.
func Sync[E any](f func(E)) Handler[E] {
	return Handler[E]{call: func(_ context.Context, e E) error {
		f(e)
		return nil
	}}
}

// Async returns a handler with a queue of its own, which delays no other handler. It is called for
// one event after another. Its context ends when it is unsubscribed.
func Async[E any](f func(context.Context, E) error) Handler[E] {
	return Handler[E]{call: f, async: true}
}

// only returns the handler for those of its events that keep selects.
func (h Handler[E]) only(keep func(E) bool) Handler[E] {
	before := h.keep
	h.keep = func(e E) bool { return keep(e) && (before == nil || before(e)) }
	return h
}

// SubscribeToMessages calls a handler with each message of started chats. unsubscribe ends the
// subscription and drops queued events. Errors and panics of a handler are logged and do not affect
// other handlers.
func (w *World) SubscribeToMessages(h Handler[Message]) (unsubscribe func()) {
	return w.messages.add(h)
}

// SubscribeToSSE is like [World.SubscribeToMessages], for pieces of replies.
func (w *World) SubscribeToSSE(h Handler[SSE]) (unsubscribe func()) { return w.pieces.add(h) }

// Subscribe is like [World.SubscribeToMessages], for events of all types, including messages and
// pieces.
func (w *World) Subscribe(h Handler[Event]) (unsubscribe func()) { return w.events.add(h) }

// AgentHandler handles the messages for an agent. It is called like a handler of [Async].
type AgentHandler func(ctx context.Context, agentID string, m Message) error

// SubscribeAgentToMessages calls a handler with the messages that an agent may have to answer: those
// of users, agents and the system, but not those of tools. The thread answers them.
func (w *World) SubscribeAgentToMessages(agentID string, f AgentHandler) (unsubscribe func()) {
	return w.messages.add(f.of(agentID).only(isSaid))
}

// SubscribeAgentToToolMessages calls a handler with the tool messages for an agent: decisions on its
// calls, and results. Empty agentID = any agent. The thread applies them.
func (w *World) SubscribeAgentToToolMessages(agentID string, f AgentHandler) (unsubscribe func()) {
	return w.messages.add(f.of(agentID).only(isOfTool(agentID)))
}

func (f AgentHandler) of(agentID string) Handler[Message] {
	return Async(func(ctx context.Context, m Message) error { return f(ctx, agentID, m) })
}

func isSaid(m Message) bool { return m.Role != event.RoleTool }

func isOfTool(agentID string) func(Message) bool {
	return func(m Message) bool {
		return m.Role == event.RoleTool && (agentID == "" || strings.EqualFold(m.AgentID, agentID))
	}
}

// SubscribeWorldToMessages has no effect: an idle thread generates its own title.
func (w *World) SubscribeWorldToMessages() (unsubscribe func()) { return func() {} }

// EnableStreaming delivers chunks to the subscribers of this world. This is the default.
func (w *World) EnableStreaming() { w.silent.Store(false) }

// DisableStreaming omits chunks: subscribers receive the start, the end and the message of each
// reply. Other viewers still receive chunks.
func (w *World) DisableStreaming() { w.silent.Store(true) }

// IsStreamingEnabled reports whether chunks are delivered.
func (w *World) IsStreamingEnabled() bool { return !w.silent.Load() }

// emit delivers an event to its subscribers.
func (w *World) emit(e Event) {
	switch data := e.Data.(type) {
	case Message:
		w.messages.deliver(data)
	case SSE:
		if data.Type == event.WorldSSEChunk && w.silent.Load() {
			return
		}
		w.pieces.deliver(data)
	}
	w.events.deliver(e)
}

// subscribers are handlers of one kind of event.
type subscribers[E any] struct {
	// failed is called with the errors of handlers.
	failed func(E, error)

	mu   sync.Mutex
	list []*subscription[E]
}

func (s *subscribers[E]) add(h Handler[E]) (unsubscribe func()) { return s.begin(h).end }

func (s *subscribers[E]) begin(h Handler[E]) *subscription[E] {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // end and finish call it
	sub := &subscription[E]{Handler: h, ctx: ctx, cancel: cancel, failed: s.failed}
	sub.leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = slices.DeleteFunc(s.list, func(other *subscription[E]) bool { return other == sub })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, sub)
	return sub
}

func (s *subscribers[E]) deliver(e E) {
	s.mu.Lock()
	list := slices.Clone(s.list) // a handler may unsubscribe
	s.mu.Unlock()
	for _, sub := range list {
		sub.take(e)
	}
}

// subscription is a handler that is subscribed until ctx ends.
type subscription[E any] struct {
	Handler[E]
	ctx    context.Context
	cancel context.CancelFunc
	leave  func() // removes it from the subscribers
	failed func(E, error)

	mu      sync.Mutex
	waiting []E
	running bool          // drain is running
	drained chan struct{} // if set, drain closes it at its end
}

// end ends the subscription and drops queued events.
func (s *subscription[E]) end() {
	s.cancel()
	s.leave()
}

// finish ends the subscription after its queued events, or at the end of ctx.
func (s *subscription[E]) finish(ctx context.Context) {
	s.leave()
	defer s.cancel()
	drained := make(chan struct{})
	s.mu.Lock()
	if s.running {
		s.drained = drained
	} else {
		close(drained)
	}
	s.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

func (s *subscription[E]) take(e E) {
	if s.keep != nil && !s.keep(e) {
		return
	}
	if !s.async {
		s.handle(e)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, e)
	if !s.running {
		s.running = true
		go s.drain()
	}
}

func (s *subscription[E]) drain() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.running = false
			if s.drained != nil {
				close(s.drained)
				s.drained = nil
			}
			s.mu.Unlock()
			return
		}
		e := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		s.handle(e)
	}
}

// handle calls the handler, unless it was unsubscribed.
func (s *subscription[E]) handle(e E) {
	if s.ctx.Err() != nil {
		return
	}
	defer func() {
		if problem := recover(); problem != nil {
			s.failed(e, fmt.Errorf("the handler panicked: %v\n%s", problem, debug.Stack()))
		}
	}()
	if err := s.call(s.ctx, e); err != nil {
		s.failed(e, err)
	}
}
