package world_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/world"
)

// threads stands in for the threads of Temporal: what it is sent it stores, as they do.
type threads struct {
	t      *fixture
	mu     sync.Mutex
	opens  []signals.Start
	posts  []event.NewMessage
	says   []signals.Decide
	agents []string

	openErr, stateErr error
	outcome           signals.DecideOutcome
}

func (f *threads) Open(_ context.Context, id string, start signals.Start, _ *signals.Post) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens = append(f.opens, start)
	if f.openErr != nil {
		return f.openErr
	}
	f.t.put(id, store.ThreadUpdate{Agents: start.Agents}, record("opened", event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: start.Agents}))
	return nil
}

func (f *threads) Post(_ context.Context, id string, p signals.Post) (signals.PostResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := threadclient.Prepare(id, &p); err != nil {
		return signals.PostResult{}, err
	}
	read, err := p.Read(id)
	if err != nil {
		return signals.PostResult{}, err
	}
	m := *read.Message
	f.posts = append(f.posts, m)
	out := event.Message{ID: p.ID, ThreadID: id, SenderID: m.SenderID, SenderType: m.SenderType, Role: m.SenderType.Role(), Content: m.Content}
	if m.SenderType == event.CreatedByAgent {
		out.AgentID = m.SenderID
	}
	f.t.put(id, store.ThreadUpdate{}, record(p.ID, event.TypeMessage, out))
	return signals.PostResult{EventID: p.ID, Status: signals.PostQueued}, nil
}

func (f *threads) Decide(_ context.Context, id string, d signals.Decide) (signals.DecideResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says = append(f.says, d)
	if f.outcome != "" {
		out := signals.DecideResult{Result: f.outcome}
		return out, out.Err(id, d.ToolCallID)
	}
	f.t.put(id, store.ThreadUpdate{}, record(d.ToolCallID+".decision", event.TypeApproval, event.Approval{
		ToolCallID: d.ToolCallID, ToolName: "shell_cmd", Agent: "bot", Decision: d.Decision, Scope: d.Scope, By: d.By,
		DecidedAt: time.Unix(1700000000, 0).UTC(), WorkingDirectory: "/desk",
	}))
	return signals.DecideResult{Result: signals.DecideAccepted}, nil
}

func (f *threads) State(context.Context, string) (signals.State, error) {
	return signals.State{Agents: f.agents}, f.stateErr
}

// fixture is a world with what it stands on.
type fixture struct {
	*testing.T
	ctx     context.Context
	threads *threads
	store   teststore.Store
	stream  stream.Stream
	world   *world.World
	log     *testenv.Buffer
}

func newFixture(t *testing.T, change ...func(*world.Config)) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	db, err := sqlite.Open(ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { _ = live.Close() })
	b := &fixture{T: t, ctx: ctx, store: db, stream: live, log: &testenv.Buffer{}}
	b.threads = &threads{t: b}
	cfg := world.Config{
		Client: b.threads, Store: db, Stream: live, Namespace: "acme", Agents: agent.Fixed{{Name: "bot"}, {Name: "user-support"}},
		Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	b.world, err = world.New(cfg)
	require.NoError(t, err)
	t.Cleanup(b.world.Stop)
	return b
}

// start starts chat t1 with its agents.
func (b *fixture) start(agents ...string) {
	b.Helper()
	require.NoError(b, b.world.Start(b.ctx, world.Chat{ID: "t1", Agents: agents}))
}

// put stores records, and says so.
func (b *fixture) put(id string, row store.ThreadUpdate, records ...event.Record) {
	key := store.Key{Namespace: "acme", ThreadID: id}
	out, err := b.store.Append(b.ctx, key, store.Batch{Records: records, Thread: &row})
	if err == nil {
		err = b.stream.Publish(b.ctx, key, stream.Entry{Stored: out.Head, Records: out.Records})
	}
	if err != nil {
		panic(err)
	}
}

// piece publishes a live piece of chat t1.
func (b *fixture) piece(content string) {
	b.Helper()
	key := stream.Key{Namespace: "acme", ThreadID: "t1"}
	require.NoError(b, b.stream.Publish(b.ctx, key, stream.Entry{Begins: true, Event: &event.AgentEvent{
		Type: event.EventStream, Content: content, MessageID: "m9", Attempt: 1, Agent: "bot",
	}}))
}

func record(id, typ string, payload any) event.Record {
	return event.NewRecord(id, typ, "trace", "", time.Unix(1700000000, 0), payload)
}

// asks stores a request for the approval of call c1.
func (b *fixture) asks() {
	b.put("t1", store.ThreadUpdate{}, record("c1.request", event.TypeApprovalRequest, event.ApprovalRequest{
		ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"ls","env":{"list":[1,{"deep":true}]}}`, Agent: "bot", MessageID: "m1", WorkingDirectory: "/desk",
	}))
}

// watch subscribes to all that a kind of subscription delivers.
func watch[E any](b *fixture, subscribe func(world.Handler[E]) func()) <-chan E {
	out := make(chan E, 1000)
	b.Cleanup(subscribe(world.Sync(func(e E) { out <- e })))
	return out
}

// next waits for the next event.
func next[E any](b *fixture, from <-chan E) E {
	b.Helper()
	select {
	case e := <-from:
		return e
	case <-b.ctx.Done():
		require.FailNow(b, "nothing comes")
		panic("unreachable")
	}
}

// await waits until the log has a text.
func (b *fixture) await(text string) {
	b.Helper()
	require.Eventually(b, func() bool { return strings.Contains(b.log.String(), text) }, testenv.Patience, time.Millisecond, "the log has no %q", text)
}
