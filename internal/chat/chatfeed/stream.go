package chatfeed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Encoder encodes an answer for one client: see packages aisdk and agui.
type Encoder interface {
	Begin() []any
	Assume(*chat.Message)
	Sync(*chat.Message) []any
	Correct(*chat.Message) []any
	Progress(event.AgentEvent) []any
	Place(string) []any
	Pause(m *chat.Message, place string) []any
	End(*chat.Message) []any
	Fail(problem string) []any
}

// Completer is an [Encoder] that completes what the client has of earlier answers when a turn begins.
type Completer interface {
	Complete(ctx context.Context) ([]any, error)
}

// ErrGone means that the client has disconnected.
var ErrGone = errors.New("the client has gone")

// Stream writes one answer. It reads what is stored, writes how that differs from what the client has, and then
// what follows.
type Stream struct {
	Answer
	feed    *Feed
	key     store.Key
	encoder Encoder
	indexed bool
	reader  *feed.Reader
	out     Writer

	chat   chat.Chat
	ready  bool // whether what follows is written
	closed bool // the thread is

	// busy is where all that is stored waits, while the thread says that an agent is at work.
	busy *feed.Item

	// head is the newest record when the stream began: what happened before is no news.
	head int64

	// until is when the stream of a thread that has stored nothing ends.
	until time.Time
}

// Writer writes server-sent events to a client. Its methods return false when the client has disconnected.
type Writer interface {
	// Data writes an event. Without flush, the caller is about to write more.
	Data(data []byte, flush bool) bool
	Heartbeat() bool
}

// Open opens the stream of an answer; close it after use. An indexed one has the same for each reader: what follows from records, and
// nothing live.
func (f *Feed) Open(ctx context.Context, threadID string, at Answer, indexed bool, e Encoder) (*Stream, error) {
	s := &Stream{Answer: at, feed: f, key: f.key(threadID), encoder: e, indexed: indexed}
	return s, s.open(ctx)
}

// Close frees what the stream holds.
func (s *Stream) Close() { s.reader.Close() }

// open opens the reader at the beginning of the turn.
func (s *Stream) open(ctx context.Context) error {
	f := s.feed
	stored, err := f.Store.Thread(ctx, s.key)
	if errors.Is(err, store.ErrNotFound) {
		err = nil // its first message waits for a worker
		s.until = time.Now().Add(f.WaitLimit)
	}
	if err != nil {
		return err
	}
	s.head = stored.Head
	s.reader, err = f.Events.Open(ctx, s.key, feed.From{
		Cursor: s.From, Head: s.head, Finite: stored.Status == store.ThreadClosed, Starts: true, Records: []string{feed.EveryType},
		Fresh: s.From.Offset > 0, // the turn began after that
	})
	return err
}

// Follow writes the answer to a client until the answer ends, or waits for a person or the client. The error is [ErrGone] if the client
// has disconnected.
func (s *Stream) Follow(ctx context.Context, out Writer) error {
	s.out = out
	if err := s.write(s.encoder.Begin()); err != nil {
		return err
	}
	s.ready = s.indexed && s.After.IsZero()
	for {
		item, err := s.reader.Next(ctx)
		switch {
		case errors.Is(err, feed.ErrIdle) && s.closed:
			return nil // the last events of a closing thread have arrived by then
		case errors.Is(err, feed.ErrIdle) && !s.until.IsZero() && time.Now().After(s.until):
			return s.write(s.encoder.Fail("no worker has taken the message yet: it is kept, and is answered when there is one"))
		case errors.Is(err, feed.ErrIdle):
			if m := s.message(); s.ready && m != nil && m.Over() {
				return s.write(append(s.encoder.Correct(m), s.encoder.End(m)...)) // what the client has decided is not stored in the thread
			}
			if s.busy != nil {
				if over, err := s.show(ctx, *s.busy, s.message()); over || err != nil {
					return err
				}
			}
			if !s.out.Heartbeat() {
				return ErrGone
			}
			continue
		case errors.Is(err, store.ErrUnavailable):
			if !s.out.Heartbeat() || feed.Sleep(ctx, feed.StoreRetry) != nil {
				return ErrGone
			}
			continue
		case errors.Is(err, io.EOF):
			return s.last()
		case err != nil:
			return err
		}
		s.closed, s.until = s.closed || item.Closes(), time.Time{}
		if over, err := s.take(ctx, item); over || err != nil {
			return err
		}
	}
}

// message returns the answer, or nil while there is none.
func (s *Stream) message() *chat.Message { return s.chat.Answer(s.MessageID) }

// take adds an item, and writes what it changes. It reports whether the stream is over.
func (s *Stream) take(ctx context.Context, item feed.Item) (over bool, err error) {
	e := item.Event
	if s.indexed && item.Record == nil {
		return false, nil
	}
	if began := s.EventID != ""; !began {
		joined := s.begins(e)
		if c, is := s.encoder.(Completer); is && s.EventID != "" {
			out, err := c.Complete(ctx)
			if err == nil {
				err = s.write(out)
			}
			if err != nil {
				return false, err
			}
		}
		if joined {
			return false, s.restart(ctx)
		}
	}
	if !s.ready && !s.After.IsZero() && item.Cursor.Seq > s.After.Seq {
		s.assumeAll()
	}
	if e.EventID == s.EventID && e.EventID != "" {
		e.MessageID = item.MessageID()
		s.chat.Apply(e)
		if e.Type == event.EventApproval || e.Type == event.EventToolResult || e.Type == event.EventInputReceived {
			if item.Cursor.Seq > s.Before {
				s.Settled = slices.DeleteFunc(s.Settled, func(id string) bool { return id == e.ToolCallID })
			}
		}
	}
	caughtUp := reaches(item.Cursor, feed.Cursor{Seq: s.head})
	if !s.ready && !s.After.IsZero() && (caughtUp || reaches(item.Cursor, s.After)) { // a client may name any place
		s.assumeAll()
	}
	s.ready = s.ready || s.After.IsZero() && caughtUp
	m := s.message()
	if !s.ready || m == nil {
		return false, nil
	}
	return s.show(ctx, item, m)
}

// begins notes that the turn of the answer has begun. It reports whether the message has joined a turn, of which the stream
// needs the beginning.
func (s *Stream) begins(e event.AgentEvent) (joined bool) {
	if s.EventID != "" || !(e.Type == event.EventMessage && e.MessageID == s.MessageID || e.EndsTurn() && e.EventID == s.MessageID) {
		return false
	}
	s.EventID = e.EventID
	return s.EventID != s.MessageID
}

// restart reads the turn from its beginning.
func (s *Stream) restart(ctx context.Context) error {
	first, err := s.feed.Record(ctx, s.key.ThreadID, s.EventID)
	if err != nil || first == nil {
		return err
	}
	s.reader.Close()
	s.From = feed.Cursor{Seq: first.Seq - 1}
	return s.open(ctx)
}

// assumeAll notes that the client has everything so far.
func (s *Stream) assumeAll() {
	if m := s.message(); m != nil {
		s.encoder.Assume(m)
	}
	s.After = feed.Cursor{}
	s.ready = s.indexed
}

// reaches reports whether a cursor is at another one, or behind it.
func reaches(c, at feed.Cursor) bool {
	return c.Seq > at.Seq || c.Seq == at.Seq && c.Part == 0 && c.Offset >= at.Offset
}

// show writes how the answer has changed.
func (s *Stream) show(ctx context.Context, item feed.Item, m *chat.Message) (over bool, err error) {
	out := s.encoder.Sync(m)
	settled := len(s.Settled) == 0
	if settled {
		out = append(out, s.encoder.Correct(m)...)
	}
	if item.Event.EventID == s.EventID {
		out = append(out, s.encoder.Progress(item.Event)...)
	}
	caughtUp := item.Cursor.Seq >= max(s.Before, s.head) && !s.reader.Buffered()
	s.busy = nil
	switch {
	case m.Over() && settled:
		return true, s.write(append(out, s.encoder.End(m)...))
	case caughtUp && settled && s.chat.Waits(s.EventID):
		if err := s.write(out); err != nil {
			return true, err
		}
		if out = nil; s.rests(ctx, item.Cursor) {
			return true, s.write(s.encoder.Pause(m, item.Cursor.String()))
		}
		s.busy = &feed.Item{Cursor: item.Cursor}
	}
	if slices.Contains(asking, item.Event.Type) {
		out = append(out, s.encoder.Place(item.Cursor.String())...)
	}
	return false, s.write(out)
}

// rests reports whether the turn does nothing of which records will tell: an agent that has only begun has none yet, and a
// decision is stored after the thread has taken it. The store may also be a moment ahead of the thread.
func (s *Stream) rests(ctx context.Context, at feed.Cursor) bool {
	f, thread := s.feed, s.key.ThreadID
	for pause := 25 * time.Millisecond; pause < time.Second; pause *= 2 {
		state, err := f.Threads.State(ctx, thread)
		if err != nil {
			return true // what is stored says so
		}
		waiting, err := f.Threads.Approvals(ctx, thread)
		if err != nil || s.waitsIn(waiting) && s.restsIn(state.Turn) {
			return true
		}
		stored, err := f.Store.Thread(ctx, s.key)
		if err != nil || stored.Head > at.Seq || feed.Sleep(ctx, pause) != nil {
			return false
		}
	}
	return false
}

// waitsIn reports whether the thread says of all calls that wait that they do.
func (s *Stream) waitsIn(waiting signals.Approvals) bool {
	return !slices.ContainsFunc(s.chat.Waiting(s.EventID), func(c *chat.Call) bool {
		return !slices.ContainsFunc(waiting.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == c.ID }) &&
			!slices.ContainsFunc(waiting.ClientCalls, func(q event.ClientCall) bool { return q.ToolCallID == c.ID }) &&
			!slices.ContainsFunc(waiting.Inputs, func(q event.InputRequest) bool { return q.ToolCallID == c.ID })
	})
}

// restsIn reports whether the thread says that no agent of the turn is at work. It may be at work on another turn.
func (s *Stream) restsIn(turn *signals.TurnState) bool {
	if turn == nil || turn.RecordsOf() != s.EventID {
		return true
	}
	unsettled := 0
	for _, r := range turn.Runs {
		if r.Doing == signals.DoingModel || r.Doing == signals.DoingHooks {
			return false
		}
		unsettled += len(r.Tools)
	}
	return unsettled == s.chat.Unsettled(s.EventID)
}

// asking are the events after which a client may answer, and then has to say where it is.
var asking = []event.AgentEventType{event.EventApprovalRequest, event.EventClientCall, event.EventInputRequest}

// last ends the stream of a closed thread.
func (s *Stream) last() error {
	if m := s.message(); m != nil {
		return s.write(append(s.encoder.Sync(m), s.encoder.End(m)...))
	}
	return nil
}

func (s *Stream) write(events []any) error {
	skipped := min(s.Skip, len(events))
	s.Skip -= skipped
	return Write(s.out, events[skipped:])
}

// Write writes events to a client.
func Write(out Writer, events []any) error {
	for i, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if !out.Data(data, i == len(events)-1) {
			return ErrGone
		}
	}
	return nil
}
