package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// threads stands in for the threads of Temporal: each call is noted, and answered
// by the function of its name or else plainly.
type threads struct {
	mu    sync.Mutex
	known map[string]bool // whether it is open
	posts []signals.Post
	ctls  []signals.Control
	opens []signals.Start

	open       func() error
	postUpdate func() error
	turn       func(ctx context.Context, p signals.Post) (signals.TurnResult, error)
	state      func(ctx context.Context) error
	ofTurn     *signals.TurnState // that the state tells of
	approvals  approvalsFake
	changes    []signals.ThreadChange
	queue      queueFake
	events     eventsFake
	tasks      tasksFake
	schedules  schedulesFake
	limit      int            // the turn limit of every thread
	calls      map[string]int // and the LLM calls of their agents
	duplicate  bool           // what is posted was posted before

	startsErasing, erases error // the errors of beginning an erasure, and of waiting for it

	posted   func(id string, p signals.Post) // what follows from a message
	idle     bool                            // no worker polls
	lastPoll time.Time
}

func (f *threads) Workers(context.Context, string) (threadclient.Workers, error) {
	return threadclient.Workers{TaskQueue: "threadmill", Polled: !f.idle, LastPoll: f.lastPoll}, nil
}

func (f *threads) check(id string) error {
	if err := signals.ValidateID("threadId", id); err != nil {
		return err
	}
	open, there := f.known[id]
	switch {
	case !there:
		return fmt.Errorf("to thread %q: %w", id, signals.ErrThreadNotFound)
	case !open:
		return fmt.Errorf("to thread %q: %w", id, signals.ErrThreadClosed)
	}
	return nil
}

func (f *threads) Open(_ context.Context, id string, start signals.Start, first *signals.Post) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return f.open()
	}
	if f.known[id] {
		return signals.ErrThreadExists
	}
	start.First = first
	f.known[id] = true
	f.opens = append(f.opens, start)
	if f.posted != nil && first != nil {
		f.posted(id, *first)
	}
	return nil
}

func (f *threads) Post(_ context.Context, id string, p signals.Post) (signals.PostResult, error) {
	if f.postUpdate != nil {
		return signals.PostResult{}, f.postUpdate()
	}
	if err := threadclient.Prepare(id, &p); err != nil {
		return signals.PostResult{EventID: p.ID}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts = append(f.posts, p)
	if f.duplicate {
		return signals.PostResult{EventID: p.ID, Status: signals.PostDuplicate}, f.check(id)
	}
	if f.posted != nil {
		f.posted(id, p)
	}
	return signals.PostResult{EventID: p.ID, Status: signals.PostQueued}, f.check(id)
}

func (f *threads) Running(_ context.Context, id string) error { return f.check(id) }

func (f *threads) Turn(ctx context.Context, id string, p signals.Post) (signals.TurnResult, error) {
	if err := f.check(id); err != nil {
		return signals.TurnResult{}, err
	}
	return f.turn(ctx, p)
}

func (f *threads) Update(_ context.Context, id string, c signals.ThreadChange) (signals.State, error) {
	f.changes = append(f.changes, c)
	st := signals.State{ThreadID: id, Namespace: "default", Title: c.Title, Agents: c.Agents, Metadata: c.Metadata, Status: signals.ThreadIdle}
	st.TurnLimit, st.LLMCalls = f.limit, f.calls
	return st, f.check(id)
}

func (f *threads) StartErase(context.Context, string, string) error { return f.startsErasing }

func (f *threads) Erase(_ context.Context, id, by string) (signals.Erasure, error) {
	if f.erases != nil {
		return signals.Erasure{}, f.erases
	}
	return signals.Erasure{ThreadID: id, Threads: []string{id}, By: by, Remains: []signals.ErasureRemain{}}, nil
}

func (f *threads) StartErasePerson(context.Context, string, string) error { return f.startsErasing }

func (f *threads) ErasePerson(_ context.Context, id, by string) (signals.PersonErasure, error) {
	if f.erases != nil {
		return signals.PersonErasure{}, f.erases
	}
	return signals.PersonErasure{ID: id, By: by, Erased: []string{}, Forgot: []string{}, Remains: []signals.ErasureRemain{}}, nil
}

func (f *threads) Control(_ context.Context, id string, c signals.Control) error {
	f.ctls = append(f.ctls, c)
	return f.check(id)
}

func (f *threads) State(ctx context.Context, id string) (signals.State, error) {
	if f.state != nil {
		return signals.State{}, f.state(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st := signals.State{Namespace: "default", ThreadID: id, Status: signals.ThreadIdle, Agents: []string{"bot"}, Turn: f.ofTurn, TurnLimit: f.limit, LLMCalls: f.calls}
	if open, there := f.known[id]; there && !open {
		st.Status = signals.ThreadClosed
		return st, nil
	}
	return st, f.check(id)
}

// world is a server with what it stands on.
type world struct {
	t       testing.TB
	ctx     context.Context
	threads *threads
	store   teststore.Store
	stream  stream.Stream
	library *library.Library
	ingests ingestsFake
	url     string
	ids     int
}

// backend is what the API requires.
func (w *world) backend() backend.Backend {
	return backend.Backend{Store: w.store, Stream: w.stream, Library: w.library}
}

func newWorld(t testing.TB, change ...func(*server.Config)) *world {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	db, err := sqlite.Open(ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { _ = live.Close() })
	w := &world{t: t, ctx: ctx, threads: &threads{known: map[string]bool{}}, store: db, stream: live}
	w.library = library.New(library.Config{Store: db, Start: w.ingests.start})
	cfg := server.Config{
		Threads: w.threads, Backend: w.backend(), Closing: ctx,
	}
	cfg.Agents = agent.Fixed{{Name: "bot"}}
	cfg.Repair = func(ctx context.Context, _ repair.RepairRequest) (repair.Comparison, error) {
		_, err := cfg.Store.Threads(ctx, signals.DefaultNamespace, store.ThreadPage{})
		return repair.Comparison{Threads: []repair.DifferingThread{}}, err
	}
	cfg.Due = func(ctx context.Context) (retention.Due, error) {
		_, err := cfg.Store.Threads(ctx, signals.DefaultNamespace, store.ThreadPage{})
		return retention.Due{}, err
	}
	for _, c := range change {
		c(&cfg)
	}
	handler, err := server.New(cfg)
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		// As the programs do: what a client does not read is not kept in the kernel either.
		require.NoError(t, c.(*net.TCPConn).SetWriteBuffer(256<<10))
		return ctx
	}
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(cancel) // the streams end first, or Close waits for them
	w.url = srv.URL
	return w
}

// answer is what the server says.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// call sends a request; body is sent as it is if it is a string.
func (w *world) call(method, path string, body any, header ...string) answer {
	w.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		require.NoError(w.t, err)
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, reader)
	require.NoError(w.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	out := answer{status: res.StatusCode, header: res.Header, text: string(raw)}
	if content := res.Header.Get("Content-Type"); strings.Contains(content, "json") && !strings.HasSuffix(content, "jsonl") {
		require.NoError(w.t, json.Unmarshal(raw, &out.body), out.text)
	}
	return out
}

// ok asserts the status of an answer.
func (a answer) ok(t testing.TB, status int) answer {
	t.Helper()
	require.Equal(t, status, a.status, a.text)
	return a
}

// refused asserts a problem document with a detail.
func (a answer) refused(t testing.TB, status int, detail string) answer {
	t.Helper()
	a.problem(t, status)
	require.Contains(t, a.body["detail"], detail)
	return a
}

// problem asserts a problem document, and returns the locations that it names.
func (a answer) problem(t testing.TB, status int) []string {
	t.Helper()
	require.Equal(t, status, a.status, a.text)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.EqualValues(t, status, a.body["status"])
	require.NotEmpty(t, a.body["title"])
	require.NotEmpty(t, a.body["detail"])
	require.NotContains(t, a.text, "goroutine")
	var out []string
	list, _ := a.body["errors"].([]any)
	for _, e := range list {
		location, _ := e.(map[string]any)["location"].(string)
		out = append(out, location)
	}
	return out
}

// open makes a thread, as a person would have.
func (w *world) open(id string) {
	w.t.Helper()
	require.Equal(w.t, http.StatusCreated, w.call("POST", "/v1/threads", map[string]any{"id": id}).status)
}

func (w *world) append(thread string, batch store.Batch) int64 {
	w.t.Helper()
	for i := range batch.Records {
		w.ids++
		if batch.Records[i].ID == "" {
			batch.Records[i].ID = fmt.Sprintf("r%d", w.ids)
		}
	}
	key := store.Key{Namespace: "default", ThreadID: thread}
	out, err := w.store.Append(w.ctx, key, batch)
	require.NoError(w.t, err)
	require.NoError(w.t, w.stream.Publish(w.ctx, key, stream.Entry{Stored: out.Head, Records: out.Records}))
	return out.Head
}

func (w *world) put(thread string, records ...event.Record) int64 {
	w.t.Helper()
	return w.append(thread, store.Batch{Records: records})
}

func (w *world) publish(thread string, after int64, e event.AgentEvent) {
	w.t.Helper()
	key := stream.Key{Namespace: "default", ThreadID: thread}
	require.NoError(w.t, w.stream.Publish(w.ctx, key, stream.Entry{After: after, Event: &e}))
}

func record(typ string, payload any) event.Record {
	return event.NewRecord("", typ, "trace", "", time.Unix(1700000000, 0), payload)
}

// undated is the JSON form of an event of such a record without the time, which all have.
func undated(text string) string {
	return strings.ReplaceAll(text, `,"createdAt":"2023-11-14T22:13:20Z"`, "")
}

func said(content string) event.Record {
	return record(event.TypeMessage, event.Message{
		ID: "m-" + content, ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: content,
	})
}

func replied(id, content string) event.Record {
	return record(event.TypeMessage, event.Message{
		ID: id, ThreadID: "t1", SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: content,
	})
}

func closedBatch() store.Batch {
	return store.Batch{
		Records: []event.Record{record(event.TypeStatus, event.StatusChange{Status: event.StatusClosed})},
		Thread:  &store.ThreadUpdate{Status: store.ThreadClosed},
	}
}
