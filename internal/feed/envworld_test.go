package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// marking is a stream whose publishers mark where an attempt begins, as activities do.
type marking struct {
	stream.Stream
	mu    sync.Mutex
	begun map[string]int
}

func newMarking() stream.Stream {
	return &marking{Stream: memory.New(memory.Config{}), begun: map[string]int{}}
}

func (m *marking) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	m.mu.Lock()
	if e.Event != nil && (e.Event.Type == event.EventStream || e.Event.Type == event.EventThought) {
		e.Begins = e.Event.Attempt > m.begun[e.Event.MessageID]
		m.begun[e.Event.MessageID] = max(e.Event.Attempt, m.begun[e.Event.MessageID])
	}
	m.mu.Unlock()
	return m.Stream.Publish(ctx, key, e)
}

func (w *world) openEnv(from feed.EnvFrom) *feed.EnvReader {
	w.t.Helper()
	r, err := w.feed.OpenEnv(w.ctx, w.key, from)
	require.NoError(w.t, err)
	w.t.Cleanup(r.Close)
	return r
}

func (w *world) nextEnv(r *feed.EnvReader) feed.EnvItem {
	w.t.Helper()
	return next[feed.EnvItem](w, r)
}

// madeReader reads items of a view.
type madeReader[T any] interface {
	Next(ctx context.Context) (T, error)
}

// next reads one item, however long that takes.
func next[T any](w *world, r madeReader[T]) T {
	w.t.Helper()
	for {
		item, err := r.Next(w.ctx)
		if errors.Is(err, feed.ErrIdle) {
			continue
		}
		require.NoError(w.t, err)
		return item
	}
}

// rest reads a finite reader to its end.
func rest[T any](w *world, r madeReader[T]) []T {
	w.t.Helper()
	var out []T
	for {
		item, err := r.Next(w.ctx)
		switch {
		case errors.Is(err, feed.ErrIdle):
			continue
		case errors.Is(err, io.EOF):
			return out
		}
		require.NoError(w.t, err)
		out = append(out, item)
	}
}

// restEnv reads a finite reader to its end.
func (w *world) restEnv(at feed.EnvCursor) []feed.EnvItem {
	w.t.Helper()
	r := w.openEnv(feed.EnvFrom{Cursor: at, Finite: true})
	defer r.Close()
	return rest[feed.EnvItem](w, r)
}

func (w *world) envUntilClosed(r *feed.EnvReader) []feed.EnvItem {
	w.t.Helper()
	var out []feed.EnvItem
	for len(out) == 0 || !out[len(out)-1].Closed {
		out = append(out, w.nextEnv(r))
	}
	return out
}

// envPages reads all pages of a size.
func (w *world) envPages(limit int) []feed.EnvItem {
	w.t.Helper()
	var out []feed.EnvItem
	var at feed.EnvCursor
	for next := &at; next != nil; {
		items, more, err := w.feed.EnvPage(w.ctx, w.key, *next, limit)
		require.NoError(w.t, err)
		require.LessOrEqual(w.t, len(items), limit)
		out, next = append(out, items...), more
	}
	return out
}

// payload is what the tests look at of a payload.
type payload struct {
	Type, Content, MessageID, ToolCallID, ToolName, Output, Error, SessionID string
	Attempt                                                                  int
}

func payloadOf(item feed.EnvItem) (p payload) {
	if err := json.Unmarshal(item.Event.Payload, &p); err != nil {
		panic(err)
	}
	return p
}

// tell makes sequences readable: the type, and what it is about.
func tell(items []feed.EnvItem) []string {
	var out []string
	for _, item := range items {
		p := payloadOf(item)
		text := item.Event.Type
		for _, part := range []string{p.MessageID, p.ToolCallID, p.Content, p.Output, p.Error, p.SessionID} {
			if part != "" {
				text += " " + part
			}
		}
		out = append(out, text)
	}
	return out
}

// same makes sequences comparable: events have the same id and say the same whenever they
// are read.
func same(items []feed.EnvItem) []string {
	var out []string
	for _, item := range items {
		out = append(out, fmt.Sprintf("%s %s %s", item.Event.ID, item.Event.Type, item.Event.Payload))
	}
	return out
}

// performEnv runs a script while a reader watches, and returns what it saw.
func performEnv(w *world, s script) []feed.EnvItem {
	r := w.openEnv(feed.EnvFrom{})
	done := make(chan []feed.EnvItem, 1)
	go func() {
		defer close(done) // also when the reader fails
		done <- w.envUntilClosed(r)
	}()
	for _, step := range s {
		step(w)
	}
	return <-done
}

// thought is a piece of reasoning.
func thought(after int64, message, text string) stream.Entry {
	e := piece(after, message, 1, text)
	e.Event.Type = event.EventThought
	return e
}

func withCalls(id, content string, calls ...string) event.Record {
	m := reply(id, content)
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: c, Function: event.Function{Name: "shell_cmd", Arguments: "{}"}})
	}
	return record(event.TypeMessage, m)
}

func callOf(message string, attempt int) event.Record {
	return record(event.TypeLLMCall, event.LLMCall{Agent: "bot", MessageID: message, Attempt: attempt})
}

func envRecord(e event.EnvEvent) event.Record {
	return event.NewRecord(e.ID, event.TypeEnv, e.ID, "", time.Unix(1700000000, 0), e)
}

var fileChanged = event.EnvEvent{
	ID: "file-1", Type: "file.changed", Timestamp: 1600000000000, Payload: json.RawMessage(`{"path":"a.go","n":12345678901234567890}`),
	Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceEnv, Extra: map[string]json.RawMessage{"repo": json.RawMessage(`"x"`)}},
}
