package threadmill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

const (
	// storedWithin is the time in which the last records of a turn are stored.
	storedWithin = time.Minute

	// droppedStoredWithin is the same for a message that was removed from the queue. Its last
	// record may have to wait for a step of another turn, which may take long.
	droppedStoredWithin = 2 * time.Second

	// firstPause and lastPause bound the pauses between queries of a store that fails or does not
	// yet have a record.
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// follower follows a turn from its post to its end.
type follower struct {
	runtime *Runtime
	options SendOptions
	threads *threadclient.Client
	message event.NewMessage
	post    signals.Post

	// fresh means that the thread is new.
	fresh bool

	turn   *Turn
	reader *feed.Reader
	views  []feed.View

	// asks returns the result of the turn if the feed does not tell it. known means that the thread had the event before.
	asks  func(ctx context.Context) (signals.TurnResult, error)
	known bool

	// ended is the record of the end of the turn, once it was among the events.
	ended *event.Record

	// traceID is the trace of the turn: the id of its event until the event joins another turn.
	traceID string

	// begun means that the message was among the events.
	begun bool
}

func (f *follower) key() store.Key {
	return store.Key{Namespace: f.threads.Namespace(), ThreadID: f.message.ThreadID}
}

// start opens the feed, so that no event is missed, posts the message and begins to follow it.
func (f *follower) start(ctx context.Context) (*Turn, error) {
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	posted, err := f.begin(ctx)
	if err != nil {
		f.reader.Close()
		return nil, err
	}
	f.known = posted.Status == signals.PostDuplicate
	f.asks = func(ctx context.Context) (signals.TurnResult, error) {
		return f.threads.Turn(ctx, f.message.ThreadID, f.post)
	}
	go f.follow(ctx)
	return f.turn, nil
}

// open opens the feed of the turn's events.
func (f *follower) open(ctx context.Context) error {
	for _, c := range []Callbacks{f.runtime.cfg.Callbacks, f.options.Callbacks} {
		f.views = append(f.views, c.views(f.runtime.cfg.Logger)(f.key()))
	}
	f.traceID = f.post.ID
	f.turn = &Turn{
		threadID: f.message.ThreadID, eventID: f.post.ID, sender: f.message.SenderID, threads: f.threads,
		events: newEventLog(), ended: make(chan struct{}),
	}
	var err error
	f.reader, err = f.read(ctx)
	return err
}

// read opens the feed at its end or, for an event that the thread already has, at that event.
func (f *follower) read(ctx context.Context) (*feed.Reader, error) {
	reader, err := f.runtime.feed.Open(ctx, f.key(), feed.From{Now: true, Whole: !f.options.Stream})
	if err != nil || f.options.EventID == "" {
		return reader, err
	}
	known, err := f.runtime.cfg.Store.RecordsByID(ctx, f.key(), f.post.ID)
	if err == nil && (len(known) == 0 || known[0].Seq > reader.Start().Seq) {
		return reader, nil
	}
	reader.Close()
	if err != nil {
		return nil, fmt.Errorf("looking for event %q in thread %q: %w", f.post.ID, f.message.ThreadID, err)
	}
	return f.runtime.feed.Open(ctx, f.key(), feed.From{Cursor: feed.Cursor{Seq: known[0].Seq - 1}, Whole: !f.options.Stream})
}

// begin posts the message and opens the thread if necessary.
func (f *follower) begin(ctx context.Context) (signals.PostResult, error) {
	if !f.fresh {
		posted, err := f.threads.Post(ctx, f.message.ThreadID, f.post)
		if !errors.Is(err, signals.ErrThreadNotFound) {
			return posted, err
		}
	}
	return f.threads.PostOrOpen(ctx, f.message.ThreadID, f.options.Start, f.post)
}

// follow delivers the events of the turn until it has ended. The last one tells the result. A thread that had the event before is
// asked, since the feed has all ends of an event that was retried.
func (f *follower) follow(ctx context.Context) {
	defer f.reader.Close()
	defer close(f.turn.ended)
	if f.known {
		f.followKnown(ctx)
		return
	}
	running := func() error { return f.threads.Running(ctx, f.message.ThreadID) }
	err := f.reader.Follow(ctx, func(item feed.Item) bool { f.take(ctx, item); return f.ended != nil }, running)
	if err != nil {
		f.turn.events.close(err) // the turn goes on
	} else if f.turn.result, err = f.runtime.feed.Outcome(ctx, f.key(), f.post.ID, *f.ended); err == nil {
		f.turn.events.close(nil)
		return
	}
	f.turn.result, f.turn.err = f.result(ctx)
	f.turn.events.close(f.turn.err)
}

// result asks the thread for the result.
func (f *follower) result(ctx context.Context) (signals.TurnResult, error) {
	out, err := f.asks(ctx)
	if over := ctx.Err(); err != nil && over != nil {
		// Temporal has another error for it.
		err = fmt.Errorf("waiting for the turn of event %q in thread %q: %w", f.post.ID, f.message.ThreadID, over)
	}
	return out, err
}

// followKnown follows the turn of an event that the thread had before.
func (f *follower) followKnown(ctx context.Context) {
	turning, stop := context.WithCancel(ctx)
	defer stop()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer stop()
		f.turn.result, f.turn.err = f.result(ctx)
	})
	err := f.deliver(ctx, turning)
	if err != nil {
		f.turn.events.close(err)
	}
	waiting.Wait()
	if err == nil && f.turn.err == nil {
		err = f.finish(ctx)
	}
	f.turn.events.close(errors.Join(f.turn.err, err))
}

// finish delivers the remaining events of a turn that has ended.
func (f *follower) finish(ctx context.Context) error {
	dropped, patience := f.dropped(ctx), storedWithin
	if dropped {
		patience = droppedStoredWithin
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	head, err := f.stored(within)
	if dropped && err != nil && ctx.Err() == nil {
		return nil
	}
	if err == nil {
		f.reader.End(head)
		err = f.deliver(ctx, within)
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		err = context.Cause(within)
	}
	return fmt.Errorf("reading the last events of a turn: %w", err)
}

// dropped reports whether the message was removed from the queue before its turn.
func (f *follower) dropped(ctx context.Context) bool {
	status := f.turn.result.Status
	if f.begun || status == signals.TurnExpired || status == signals.TurnUnanswered || status == signals.TurnUnhandled {
		return false
	}
	known, err := f.runtime.cfg.Store.RecordsByID(ctx, f.key(), f.post.ID)
	return err == nil && len(known) == 0
}

// stored waits until the store has all records of the turn, and returns the sequence number of the
// last one or of a later one.
func (f *follower) stored(ctx context.Context) (int64, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		head, err := f.lookUp(ctx)
		if err != nil {
			f.runtime.cfg.Logger.Warn("looking for the end of a turn", "thread", f.message.ThreadID, "event", f.post.ID, "error", err)
		} else if head > 0 {
			return head, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, fmt.Errorf("waiting for the records of event %q: %w", f.post.ID, err)
		}
	}
}

// lookUp returns 0 until the last record is stored.
func (f *follower) lookUp(ctx context.Context) (int64, error) {
	s, key := f.runtime.cfg.Store, f.key()
	if id := f.turn.result.LastRecord; id != "" {
		last, err := s.RecordsByID(ctx, key, id)
		if err != nil || len(last) == 0 {
			return 0, err
		}
		return last[0].Seq, nil
	}
	t, err := s.Thread(ctx, key)
	return t.Head, err
}

// deliver delivers the events of the turn until waiting ends, and then returns nil, or until the feed
// ends, and then returns io.EOF.
func (f *follower) deliver(ctx, waiting context.Context) error {
	err := f.reader.Follow(waiting, func(item feed.Item) bool { f.take(ctx, item); return false }, func() error { return nil })
	if errors.Is(err, io.EOF) || errors.Is(err, stream.ErrClosed) {
		return err
	}
	return nil
}

// take delivers an event if it belongs to the turn.
func (f *follower) take(ctx context.Context, item feed.Item) {
	e := item.Event
	if e.Type == event.EventMessage && e.MessageID == f.post.ID {
		// A message that has joined another turn belongs to that turn from now on.
		f.traceID, f.begun = item.TraceID, true
	}
	if item.TraceID != f.traceID && e.Type != event.EventGap {
		return
	}
	for _, view := range f.views {
		e = view(ctx, e)
	}
	f.turn.events.add(e)
	if item.EndsTurnOf(f.post.ID) {
		f.ended = item.Record
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventLog keeps the events of a turn for its iterators.
type eventLog struct {
	mu     sync.Mutex
	events []event.AgentEvent
	closed bool
	err    error
	more   chan struct{} // closed when a field above changes
}

func newEventLog() *eventLog { return &eventLog{more: make(chan struct{})} }

func (l *eventLog) add(e event.AgentEvent) {
	l.change(func() { l.events = append(l.events, e) })
}

// close ends the log. Further calls have no effect.
func (l *eventLog) close(err error) {
	l.change(func() {
		if !l.closed {
			l.closed, l.err = true, err
		}
	})
}

func (l *eventLog) change(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
	close(l.more)
	l.more = make(chan struct{})
}

// at waits for the event with an index. ok is false if the log ends before it.
func (l *eventLog) at(i int) (e event.AgentEvent, ok bool, err error) {
	for {
		l.mu.Lock()
		more := l.more
		switch {
		case i < len(l.events):
			e, ok = l.events[i], true
		case l.closed:
			err = l.err
		}
		done := ok || l.closed
		l.mu.Unlock()
		if done {
			return e, ok, err
		}
		<-more
	}
}

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
