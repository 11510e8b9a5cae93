package threadmill

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// faulty is a store that does not answer while down is set, and tells how often it was
// asked then.
type faulty struct {
	teststore.Store
	down   atomic.Bool
	asked  atomic.Int64
	looked atomic.Int64 // for a record by its id
}

var errDown = errors.New("the store is down")

func (s *faulty) fail() error {
	if s.down.Load() {
		s.asked.Add(1)
		return errDown
	}
	return nil
}

func (s *faulty) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Store.Records(ctx, key, q)
}

func (s *faulty) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	s.looked.Add(1)
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Store.RecordsByID(ctx, key, ids...)
}

// fakeTurn ends when its test says so.
type fakeTurn chan signals.TurnResult

func (c fakeTurn) Result(ctx context.Context) (signals.TurnResult, error) {
	select {
	case r := <-c:
		return r, nil
	case <-ctx.Done():
		return signals.TurnResult{}, ctx.Err()
	}
}

// stage is a run of event "e1" without Temporal.
type stage struct {
	t      *testing.T
	ctx    context.Context
	store  *faulty
	stream *memory.Stream
	turn   fakeTurn
	run    *Turn
}

func newStage(t *testing.T, known bool) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	db, err := sqlite.Open(ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := &stage{t: t, ctx: ctx, store: &faulty{Store: db}, stream: memory.New(memory.Config{}), turn: make(fakeTurn, 1)}
	r := &Runtime{cfg: Config{Store: s.store, Stream: s.stream, Logger: slog.New(slog.DiscardHandler)}}
	r.feed, err = feed.New(feed.Config{Store: s.store, Stream: s.stream, Grace: time.Millisecond})
	require.NoError(t, err)
	threads, err := threadclient.New(threadclient.Config{Temporal: mocks.NewClient(t)})
	require.NoError(t, err)
	f := &follower{
		runtime: r, threads: threads, asks: s.turn.Result, known: known,
		message: event.NewMessage{ThreadID: "t1"}, post: signals.Post{ID: "e1"},
	}
	require.NoError(t, f.open(ctx))
	s.run = f.turn
	go f.follow(ctx)
	return s
}

func (s *stage) key() store.Key {
	return store.Key{Namespace: signals.DefaultNamespace, ThreadID: "t1"}
}

// put stores a message of a turn, and lets the live log speak of it or not.
func (s *stage) put(id, trace string, told bool) {
	s.t.Helper()
	rec := event.NewRecord(id, event.TypeMessage, trace, "", time.Now(), event.Message{ID: id, SenderType: event.CreatedByUser, Content: id})
	done, err := s.store.Append(s.ctx, s.key(), store.Batch{Records: []event.Record{rec}})
	require.NoError(s.t, err)
	if told {
		require.NoError(s.t, s.stream.Publish(s.ctx, stream.Key(s.key()), stream.Entry{Stored: done.Head}))
	}
}

// end stores the end of a turn.
func (s *stage) end(id string, e event.TurnEnded) {
	s.t.Helper()
	rec := event.NewRecord(id, event.TypeTurnEnded, e.EventID, e.EventID, time.Now(), e).In(e.EventID)
	done, err := s.store.Append(s.ctx, s.key(), store.Batch{Records: []event.Record{rec}})
	require.NoError(s.t, err)
	require.NoError(s.t, s.stream.Publish(s.ctx, stream.Key(s.key()), stream.Entry{Stored: done.Head}))
}

func (s *stage) ends(last string) {
	s.turn <- signals.TurnResult{EventID: "e1", Status: signals.TurnCompleted, LastRecord: last}
}

// said are the ids of the messages among the run's events.
func (s *stage) said() []string {
	s.t.Helper()
	var out []string
	for e, err := range s.run.Events() {
		require.NoError(s.t, err)
		out = append(out, e.MessageID)
	}
	return out
}

func TestFollow(t *testing.T) {
	t.Run("S2-21 the events of the run only, and all of them", func(t *testing.T) {
		s := newStage(t, true)
		s.put("e0", "e0", true)
		s.put("e1", "e1", true)
		s.put("e2", "e2", true)
		s.put("e1.0.1", "e1", true)
		s.ends("")
		require.Equal(t, []string{"e1", "e1.0.1"}, s.said())
	})
	t.Run("S2-21 also those of which the live log does not speak", func(t *testing.T) {
		s := newStage(t, true)
		s.put("e1", "e1", false)
		s.put("e1.0.1", "e1", false)
		s.ends("")
		require.Equal(t, []string{"e1", "e1.0.1"}, s.said())
	})
	t.Run("S2-20 S2-21 the run ends when its last record is stored", func(t *testing.T) {
		s := newStage(t, true)
		s.put("e1", "e1", true)
		s.ends("e1.error")
		require.Eventually(t, func() bool { return s.store.looked.Load() > 1 }, testenv.Patience, time.Millisecond)
		s.put("e1.error", "e1", true)
		s.put("e2", "e2", true)
		require.Equal(t, []string{"e1", "e1.error"}, s.said())
		_, err := s.run.Wait(s.ctx)
		require.NoError(t, err)
	})
	t.Run("S2-21 a store that does not answer for a while loses nothing", func(t *testing.T) {
		s := newStage(t, true)
		s.store.down.Store(true)
		s.put("e1", "e1", true)
		require.Eventually(t, func() bool { return s.store.asked.Load() > 1 }, testenv.Patience, time.Millisecond)
		s.ends("e1.0.1")
		before := s.store.asked.Load()
		require.Eventually(t, func() bool { return s.store.asked.Load() > before+1 }, testenv.Patience, time.Millisecond)
		s.put("e1.0.1", "e1", true)
		s.store.down.Store(false)
		require.Equal(t, []string{"e1", "e1.0.1"}, s.said())
	})
	t.Run("S2-20 S2-21 the last event of a new turn is its end, and tells the result", func(t *testing.T) {
		s := newStage(t, false)
		s.put("e1", "e1", true)
		s.put("e1.0.1", "e1", true)
		s.end("e1.turn_ended", event.TurnEnded{EventID: "e1", Status: string(signals.TurnCompleted), Replies: []string{"e1.0.1"}})
		s.put("e2", "e2", true)
		require.Equal(t, []string{"e1", "e1.0.1", ""}, s.said())
		out, err := s.run.Wait(s.ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "e1.0.1", out.Message.ID)
		require.Empty(t, out.Replies)
	})
	t.Run("S2-20 a message that joins a turn ends with it", func(t *testing.T) {
		s := newStage(t, false)
		s.put("e1", "e0", true)
		s.put("e0.0.1", "e0", true)
		s.put("e0.1.1", "e0", true)
		s.end("e0.turn_ended", event.TurnEnded{EventID: "e0", Joined: []string{"e1"}, Status: string(signals.TurnFailed), Error: "no", Class: "refused", Replies: []string{"e0.0.1", "e0.1.1"}})
		out, err := s.run.Wait(s.ctx)
		var failed *TurnError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "e1", out.EventID)
		require.Equal(t, "refused", out.Class)
		require.Equal(t, "refused", failed.Class)
		require.Equal(t, "e0.1.1", out.Message.ID)
		require.Len(t, out.Replies, 2)
	})
	t.Run("S2-20 the thread tells the result of a new turn that nobody can watch", func(t *testing.T) {
		s := newStage(t, false)
		s.put("e1", "e1", true)
		require.NoError(t, s.stream.Close())
		s.ends("")
		out, err := s.run.Wait(s.ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
	})
	t.Run("S2-20 the result comes also when nobody can watch any more", func(t *testing.T) {
		s := newStage(t, true)
		s.put("e1", "e1", true)
		for e, err := range s.run.Events() {
			require.NoError(t, err)
			require.Equal(t, "e1", e.MessageID)
			break
		}
		require.NoError(t, s.stream.Close())
		var last error
		for _, last = range s.run.Events() {
		}
		require.ErrorIs(t, last, stream.ErrClosed, "the iterator ends before the run does, and says so")
		s.ends("")
		out, err := s.run.Wait(s.ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
	})
}
