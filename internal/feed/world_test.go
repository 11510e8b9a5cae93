package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// world is a thread with its store and its live log.
type world struct {
	t      testing.TB
	ctx    context.Context
	key    store.Key
	store  *countingStore
	stream stream.Stream
	feed   *feed.Feed
	ids    int
}

type countingStore struct {
	store.Store
	reads atomic.Int64
	other atomic.Pointer[store.Store] // in place of Store, if set
}

// swap puts another store in the place of the one that there was.
func (s *countingStore) swap(other store.Store) { s.other.Store(&other) }

func (s *countingStore) current() store.Store {
	if other := s.other.Load(); other != nil {
		return *other
	}
	return s.Store
}

func (s *countingStore) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	return s.current().Append(ctx, key, b)
}

func (s *countingStore) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	s.reads.Add(1)
	return s.current().Records(ctx, key, q)
}

func (s *countingStore) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	s.reads.Add(1)
	return s.current().Thread(ctx, key)
}

type options struct {
	heartbeat, grace time.Duration
	stream           func() stream.Stream
}

func newWorld(t testing.TB, o options) *world {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	db, err := sqlite.Open(ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, ctx: ctx, key: store.Key{Namespace: "default", ThreadID: "t1"}, store: &countingStore{Store: db}}
	if o.stream == nil {
		o.stream = func() stream.Stream { return memory.New(memory.Config{}) }
	}
	w.stream = o.stream()
	t.Cleanup(func() { _ = w.stream.Close() })
	if o.heartbeat == 0 {
		o.heartbeat = 2 * patience // none while the test runs
	}
	if o.grace == 0 {
		o.grace = patience / 2
	}
	w.feed, err = feed.New(feed.Config{Store: w.store, Stream: w.stream, HeartbeatInterval: o.heartbeat, Grace: o.grace})
	require.NoError(t, err)
	return w
}

// append stores records without a word to the log, and returns the head.
func (w *world) append(records ...event.Record) int64 {
	for i := range records {
		w.ids++
		var m event.Message
		switch {
		case records[i].ID != "":
		case records[i].Type == event.TypeMessage && json.Unmarshal(records[i].Payload, &m) == nil && m.ID != "":
			records[i].ID = m.ID // as threads have it
		default:
			records[i].ID = fmt.Sprintf("r%d", w.ids)
		}
	}
	out, err := w.store.Append(w.ctx, w.key, store.Batch{Records: records})
	require.NoError(w.t, err)
	return out.Head
}

func (w *world) publish(e stream.Entry) {
	require.NoError(w.t, w.stream.Publish(w.ctx, stream.Key(w.key), e))
}

func (w *world) word(seq int64) { w.publish(stream.Entry{Stored: seq}) }

// store appends records and says so.
func (w *world) storeAll(records ...event.Record) int64 {
	head := w.append(records...)
	w.word(head)
	return head
}

func (w *world) piece(after int64, message string, attempt int, text string) {
	w.publish(piece(after, message, attempt, text))
}

func piece(after int64, message string, attempt int, text string) stream.Entry {
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventStream, Content: text, MessageID: message, Attempt: attempt, Agent: "bot",
	}}
}

func progress(after int64, call, data string) stream.Entry {
	raw, _ := json.Marshal(data)
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventToolProgress, ToolName: "shell_cmd", ToolCallID: call, Data: raw, Agent: "bot",
	}}
}

func reset(after int64, message string, attempt int) stream.Entry {
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventReset, MessageID: message, Attempt: attempt, Agent: "bot",
	}}
}

func record(typ string, payload any) event.Record {
	return event.NewRecord("", typ, "trace", "", time.Unix(1700000000, 0), payload)
}

// undated is the JSON form of an event of such a record without the time, which all have.
func undated(raw []byte) string {
	return strings.ReplaceAll(string(raw), `,"createdAt":"2023-11-14T22:13:20Z"`, "")
}

func message(id, content string) event.Record {
	return record(event.TypeMessage, event.Message{
		ID: id, ThreadID: "t1", SenderID: "bot", AgentID: "bot", SenderType: event.Agent, Role: event.RoleAssistant, Content: content,
	})
}

func said(content string) event.Record {
	return record(event.TypeMessage, event.Message{
		ID: "said " + content, ThreadID: "t1", SenderID: "ann", SenderType: event.User, Role: event.RoleUser, Content: content,
	})
}

func result(call, output string) event.Record {
	return record(event.TypeMessage, event.Message{
		ID: "m-" + call, ThreadID: "t1", SenderID: "shell_cmd", SenderType: event.Tool, Role: event.RoleTool,
		Content: output, ToolCallID: call, ToolName: "shell_cmd", AgentID: "bot",
	})
}

func calls(ids ...string) event.Record {
	p := event.ToolCallEvent{ThreadID: "t1", AgentName: "bot"}
	for _, id := range ids {
		p.ToolCalls = append(p.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "shell_cmd", Arguments: "{}"}})
	}
	return record(event.TypeToolCall, p)
}

func llmCall() event.Record { return record(event.TypeLLMCall, event.LLMCall{Agent: "bot"}) }

func closed() event.Record {
	return record(event.TypeStatus, event.StatusChange{Status: event.StatusClosed})
}

func isClosed(i feed.Item) bool {
	return i.Event.Type == event.EventStatus && i.Event.Status.Status == event.StatusClosed
}

func (w *world) open(from feed.From) *feed.Reader {
	w.t.Helper()
	r, err := w.feed.Open(w.ctx, w.key, from)
	require.NoError(w.t, err)
	w.t.Cleanup(r.Close)
	return r
}

// next returns the next item, over heartbeats.
func (w *world) next(r *feed.Reader) feed.Item {
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

// rest reads a finite reader to its end, over heartbeats.
func (w *world) rest(from feed.From) []feed.Item {
	w.t.Helper()
	from.Finite = true
	r := w.open(from)
	defer r.Close()
	var out []feed.Item
	for {
		item, err := r.Next(w.ctx)
		if errors.Is(err, feed.ErrIdle) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(w.t, err)
		out = append(out, item)
	}
}

// untilClosed reads until the thread's end.
func (w *world) untilClosed(r *feed.Reader) []feed.Item {
	w.t.Helper()
	var out []feed.Item
	for len(out) == 0 || !isClosed(out[len(out)-1]) {
		out = append(out, w.next(r))
	}
	return out
}

// show makes sequences comparable and failures readable.
func show(items []feed.Item) []string {
	out := make([]string, len(items))
	for i, item := range items {
		raw, err := json.Marshal(item.Event)
		if err != nil {
			panic(err)
		}
		out[i] = string(raw)
	}
	return out
}

// script is what a run of several agents does to the store and the log, step by step.
type script []func(w *world)

// runs interleaves the scripts of agents at random.
func runs(rng *rand.Rand, agents int) script {
	parts := make([]script, agents)
	for i := range parts {
		parts[i] = agentRun(rng, fmt.Sprintf("a%d", i))
	}
	out := script{func(w *world) { w.storeAll(said("hello")) }}
	for len(parts) > 0 {
		i := rng.IntN(len(parts))
		out = append(out, parts[i][0])
		if parts[i] = parts[i][1:]; len(parts[i]) == 0 {
			parts = append(parts[:i], parts[i+1:]...)
		}
	}
	return append(out, func(w *world) { w.storeAll(closed()) })
}

// agentRun is one agent's turn: a reply with tool calls, their runs, another reply.
func agentRun(rng *rand.Rand, agent string) script {
	known, stored := int64(1), int64(1)
	var s script
	say := func(e func(after int64) stream.Entry) {
		s = append(s, func(w *world) { w.publish(e(known)) })
	}
	put := func(records func() []event.Record) {
		s = append(s,
			func(w *world) { stored = w.append(records()...) },
			func(w *world) { w.word(stored); known = stored })
	}
	reply := func(id string) string {
		attempts, text := 1+rng.IntN(2), ""
		for attempt := 1; attempt <= attempts; attempt++ {
			text = ""
			if attempt > 1 {
				say(func(after int64) stream.Entry { return reset(after, id, attempt) })
			}
			for i := range 1 + rng.IntN(5) {
				token := fmt.Sprintf("%s/%d.%d ", id, attempt, i)
				text += token
				say(func(after int64) stream.Entry { return piece(after, id, attempt, token) })
				if attempt > 1 && rng.IntN(3) == 0 {
					say(func(after int64) stream.Entry { return piece(after, id, attempt-1, "stale") })
				}
			}
		}
		return text
	}
	first := reply(agent + "-m1")
	var ids []string
	for i := range 1 + rng.IntN(3) {
		ids = append(ids, fmt.Sprintf("%s-c%d", agent, i))
	}
	put(func() []event.Record { return []event.Record{llmCall(), message(agent+"-m1", first), calls(ids...)} })
	for _, id := range ids {
		for i := range rng.IntN(3) {
			say(func(after int64) stream.Entry { return progress(after, id, fmt.Sprint(i)) })
		}
		put(func() []event.Record { return []event.Record{result(id, "done")} })
	}
	second := reply(agent + "-m2")
	put(func() []event.Record {
		return []event.Record{llmCall(), message(agent+"-m2", second), record(event.TypeFinal, event.Final{Agent: agent, MessageID: agent + "-m2"})}
	})
	return s
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
