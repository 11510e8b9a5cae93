package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// world simulates Temporal and the API with one thread.
type world struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every change

	ids      []string
	events   []event.AgentEvent
	messages []map[string]any
	seq      int
	offset   int

	listings []url.Values // queries for threads of the API

	down      bool // neither Temporal nor the API responds
	turns     int  // requests for turns
	refused   int  // streams rejected while down
	mute      bool // the stream delivers nothing
	settle    time.Duration
	state     signals.State
	waiting   []event.ApprovalRequest
	approvals approvalsFake
	decisions map[string]signals.Decide
	changes   []signals.ThreadChange
	controls  []signals.Control
	posts     []signals.Post
	opened    []signals.Start
	query     threadclient.ListQuery
	listed    []threadclient.Summary
	queue     signals.Queue
	ended     []event.Item // as the API returns them
	queueEdit []string
	tasks     []event.Task
	taskEnds  []any
	schedules schedulesFake
	refuses   bool // rejects posts
	polled    bool // by a worker
}

// posted are the posts so far, controlled the controls.
func (w *world) posted() []signals.Post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

func (w *world) controlled() []signals.Control {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.controls)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, polled: true, settle: testenv.Patience, changed: make(chan struct{}), decisions: map[string]signals.Decide{}}
	w.state = signals.State{ThreadID: "t1", Status: signals.ThreadIdle, Agents: []string{"demo"}}
	srv := httptest.NewServer(w)
	w.url = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return w
}

// change changes the world and notifies all waiters.
func (w *world) change(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until ok, or until ctx ends.
func (w *world) await(ctx context.Context, ok func() bool) error {
	for {
		w.mu.Lock()
		met, changed := ok(), w.changed
		w.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// record adds a stored event, chunk a live one.
func (w *world) record(e event.AgentEvent) {
	w.change(func() {
		w.seq++
		w.ids = append(w.ids, strconv.Itoa(w.seq))
		w.events = append(w.events, e)
		if e.Type == event.EventMessage {
			raw, err := json.Marshal(e.Message)
			require.NoError(w.t, err)
			var m map[string]any
			require.NoError(w.t, json.Unmarshal(raw, &m))
			m["seq"], m["createdAt"] = w.seq, "2026-01-02T03:04:05Z"
			w.keep(m)
		}
	})
}

func (w *world) chunk(e event.AgentEvent) {
	w.change(func() {
		w.offset++
		w.ids = append(w.ids, fmt.Sprintf("%d:%d", w.seq, w.offset))
		w.events = append(w.events, e)
	})
}

func (w *world) say(id, sender string, kind event.CreatedBy, text string) *event.Message {
	m := &event.Message{ID: id, SenderID: sender, SenderType: kind, Role: kind.Role(), Content: text}
	w.record(event.AgentEvent{Type: event.EventMessage, Message: m})
	return m
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	down, messages := w.down, w.messages
	w.mu.Unlock()
	switch {
	case down:
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.change(func() { w.refused++ })
		}
		http.Error(rw, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/v1/server":
		w.mu.Lock()
		polled := w.polled
		w.mu.Unlock()
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"worker": map[string]any{"taskQueue": "common", "polled": polled, "since": time.Now()}}))
	case r.URL.Path == "/v1/threads":
		w.serveThreads(rw, r)
	case r.URL.Path == "/v1/thread-counts":
		w.change(func() { w.listings = append(w.listings, r.URL.Query()) })
		assertNoError(w.t, json.NewEncoder(rw).Encode(store.ThreadCounts{Open: 12, Closed: 3, Waiting: 4, Idle: 8}))
	case r.URL.Path == "/v1/agents":
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"agents": []map[string]any{{"name": "demo", "default": true}, {"name": "other"}}}))
	case strings.HasPrefix(r.URL.Path, "/v1/agents/"):
		w.serveAgent(rw, strings.TrimPrefix(r.URL.Path, "/v1/agents/"))
	case strings.HasSuffix(r.URL.Path, "/queue"):
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"ended": w.ended}))
	case strings.Contains(r.URL.Path, "/grants"):
		w.serveGrants(rw, r)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"messages": messages}))
	case strings.HasSuffix(r.URL.Path, "/events") && r.Header.Get("Accept") != "text/event-stream":
		w.serveEventPage(rw, r)
	case strings.HasSuffix(r.URL.Path, "/events"):
		w.serveEvents(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

// serveThreads serves two pages of threads, with one of another namespace, or as many as asked for.
func (w *world) serveThreads(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.change(func() { w.listings = append(w.listings, q) })
	row := func(id, activity string) map[string]any {
		return map[string]any{
			"id": id, "namespace": "default", "status": "open", "activity": activity, "title": "About " + id, "preview": "hello " + id, "createdAt": "2026-01-02T03:04:05Z",
		}
	}
	pages := map[string][]any{
		"": {row("t0", "failing"), map[string]any{"id": "elsewhere", "namespace": "other", "activity": "failing"}, row("t1", "unanswered")}, "2": {row("t2", "failing"), row("t3", "unanswered")},
	}
	threads := slices.DeleteFunc(pages[q.Get("cursor")], func(one any) bool {
		return q.Get("activity") != "" && one.(map[string]any)["activity"] != q.Get("activity")
	})
	limit, err := strconv.Atoi(q.Get("limit"))
	assertNoError(w.t, err)
	page := map[string]any{"threads": threads[:min(limit, len(threads))]}
	if q.Get("cursor") == "" {
		page["next"] = "2"
	}
	assertNoError(w.t, json.NewEncoder(rw).Encode(page))
}

// serveAgent knows all agents except "nobody".
func (w *world) serveAgent(rw http.ResponseWriter, name string) {
	name, _, _ = strings.Cut(name, "/")
	if slices.Contains([]string{"oter", "dmo", "dmeo", "othe"}, name) {
		rw.WriteHeader(http.StatusNotFound)
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"detail": fmt.Sprintf("no agent %q", name)}))
		return
	}
	if name != "nobody" {
		assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"name": name, "source": "configured"}))
		return
	}
	rw.WriteHeader(http.StatusNotFound)
	assertNoError(w.t, json.NewEncoder(rw).Encode(map[string]any{"detail": `unknown agent: "nobody"; known are [demo]`}))
}

func assertNoError(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

func (w *world) serveEvents(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	n := len(w.ids)
	over := n > 0 && r.Header.Get("Last-Event-ID") == w.ids[n-1] && w.events[n-1].Status != nil && w.events[n-1].Status.Status == event.StatusClosed
	w.mu.Unlock()
	if over {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	if http.NewResponseController(rw).Flush() != nil {
		return // the program has ended meanwhile
	}
	next := 0
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		w.mu.Lock()
		for i, id := range w.ids {
			if id == last {
				next = i + 1
			}
		}
		w.mu.Unlock()
	}
	for {
		err := w.await(r.Context(), func() bool { return w.down || !w.mute && len(w.ids) > next })
		if err != nil {
			return
		}
		w.mu.Lock()
		down := w.down
		ids, events := w.ids, w.events
		w.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		for ; next < len(ids); next++ {
			data, err := json.Marshal(events[next])
			assertNoError(w.t, err)
			fmt.Fprintf(rw, "id: %s\ndata: %s\n\n", ids[next], data)
		}
		if http.NewResponseController(rw).Flush() != nil {
			return
		}
	}
}

func (w *world) Open(_ context.Context, id string, start signals.Start, first *signals.Post) error {
	if id == "taken" {
		return fmt.Errorf("opening: %w", signals.ErrThreadExists)
	}
	w.change(func() {
		w.opened = append(w.opened, start)
		if first != nil {
			w.posts = append(w.posts, *first)
		}
	})
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusOpened, Agents: []string{"demo"}}})
	return nil
}

func (w *world) known(id string) error {
	switch id {
	case "silent":
		return fmt.Errorf("post to thread %q: %w", id, serviceerror.NewDeadlineExceeded("context deadline exceeded"))
	case "gone":
		return fmt.Errorf("post to thread %q: %w", id, signals.ErrThreadNotFound)
	case "closed":
		return fmt.Errorf("post to thread %q: %w", id, signals.ErrThreadClosed)
	}
	return nil
}

func (w *world) PostOrOpen(_ context.Context, _ string, start signals.Start, p signals.Post) (signals.PostResult, error) {
	w.change(func() { w.posts, w.opened = append(w.posts, p), append(w.opened, start) })
	return signals.PostResult{EventID: p.ID, Status: signals.PostQueued}, nil
}

func (w *world) Post(_ context.Context, id string, p signals.Post) (signals.PostResult, error) {
	if err := w.known(id); err != nil {
		return signals.PostResult{}, err
	}
	if w.refuses || p.OnBusy == event.OnBusyReject {
		return signals.PostResult{}, fmt.Errorf("post to thread %q: %w: a turn runs", id, signals.ErrRefused)
	}
	status := signals.PostQueued
	if slices.ContainsFunc(w.posts, func(before signals.Post) bool { return before.ID == p.ID }) {
		status = signals.PostDuplicate
	}
	w.change(func() { w.posts = append(w.posts, p) })
	return signals.PostResult{EventID: p.ID, Status: status}, nil
}

// Turn replies by the first word of the message: tool, wait, fail, redact; any other message is
// repeated, word by word.
func (w *world) Turn(ctx context.Context, id string, p signals.Post) (signals.TurnResult, error) {
	result := signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted}
	if err := w.known(id); err != nil {
		return result, err
	}
	if w.refuses {
		return result, fmt.Errorf("post to thread %q: %w: no", id, signals.ErrRefused)
	}
	var m event.NewMessage
	require.NoError(w.t, json.Unmarshal(p.Payload, &m))
	var again bool
	w.change(func() {
		w.turns++
		again = len(w.posts) > 0 && w.posts[len(w.posts)-1].ID == p.ID
	})
	if !again {
		w.change(func() { w.posts = append(w.posts, p) })
		w.say(p.ID, m.SenderID, event.CreatedByUser, m.Content)
	}
	word, rest, _ := strings.Cut(m.Content, " ")
	switch word {
	case "fail":
		result.Status, result.Error = signals.TurnFailed, "the model is "+rest
		w.record(event.AgentEvent{Type: event.EventError, Error: result.Error})
		return result, nil
	case "tool":
		w.tool(ctx, "call_"+rest)
	case "wait":
		return w.halfReply(ctx, p.ID, result)
	case "muse":
		w.chunk(event.AgentEvent{Type: event.EventThought, Agent: "demo", MessageID: "re-" + p.ID, Attempt: 1, Content: "hm"})
		w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusTurnEnded, Turn: "completed"}})
		return result, nil
	case "redact":
		result.Message = w.redact(p.ID, m)
		return result, nil
	}
	result.Message = w.reply(p.ID, "you said: "+m.Content)
	if word == "both" {
		result.Replies = []event.Message{{ID: "m1", SenderID: "alice", SenderType: event.CreatedByAgent, Content: "yes"}, *result.Message}
	}
	return result, nil
}

func (w *world) reply(eventID, text string) *event.Message {
	for _, word := range strings.SplitAfter(text, " ") {
		w.chunk(event.AgentEvent{Type: event.EventStream, Agent: "demo", MessageID: "re-" + eventID, Attempt: 1, Content: word})
	}
	m := w.say("re-"+eventID, "demo", event.CreatedByAgent, text)
	w.record(event.AgentEvent{Type: event.EventFinal})
	return m
}

// tool requests approval of a tool call and waits for the decision.
func (w *world) tool(ctx context.Context, id string) {
	req := event.ApprovalRequest{ToolCallID: id, ToolName: "shell_cmd", Arguments: `{"command":"ls"}`, Agent: "demo"}
	w.record(event.AgentEvent{Type: event.EventToolCall, ToolName: req.ToolName, ToolArgs: req.Arguments, ToolCallID: id, Agent: "demo"})
	w.record(event.AgentEvent{Type: event.EventApprovalRequest, Request: &req})
	if w.await(ctx, func() bool { return w.decisions[id].By != "" }) != nil {
		return
	}
	w.mu.Lock()
	d := w.decisions[id]
	w.mu.Unlock()
	w.record(event.AgentEvent{Type: event.EventApproval, Approval: &event.Approval{
		ToolCallID: id, ToolName: req.ToolName, Decision: d.Decision, Scope: d.Scope, Reason: d.Reason, By: d.By,
	}})
	w.record(event.AgentEvent{Type: event.EventToolResult, ToolName: req.ToolName, ToolCallID: id, Output: "done", IsError: d.Decision == event.DecisionDeny})
}

// halfReply sends half a sentence, and the rest once the world is up again or an interrupt has
// arrived.
func (w *world) halfReply(ctx context.Context, eventID string, result signals.TurnResult) (signals.TurnResult, error) {
	w.mu.Lock()
	begun := w.offset > 0
	w.mu.Unlock()
	if !begun {
		w.chunk(event.AgentEvent{Type: event.EventStream, Agent: "demo", MessageID: "re-" + eventID, Attempt: 1, Content: "one "})
	}
	if err := w.await(ctx, func() bool { return w.down != begun || len(w.controls) > 0 }); err != nil {
		return result, err
	}
	w.mu.Lock()
	down, stopped := w.down, len(w.controls) > 0
	w.mu.Unlock()
	switch {
	case stopped:
		result.Status = signals.TurnInterrupted
		w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusInterrupted, By: "ann"}})
		return result, nil
	case down:
		return result, serviceerror.NewUnavailable("down")
	}
	w.chunk(event.AgentEvent{Type: event.EventStream, Agent: "demo", MessageID: "re-" + eventID, Attempt: 1, Content: "two"})
	result.Message = w.say("re-"+eventID, "demo", event.CreatedByAgent, "one two")
	w.record(event.AgentEvent{Type: event.EventFinal})
	return result, nil
}

func (w *world) Update(_ context.Context, id string, c signals.ThreadChange) (signals.State, error) {
	if err := w.known(id); err != nil {
		return signals.State{}, err
	}
	w.change(func() { w.changes = append(w.changes, c) })
	return signals.State{ThreadID: id, Title: c.Title, Agents: c.Agents, Metadata: c.Metadata, Status: signals.ThreadIdle}, nil
}

func (w *world) Control(_ context.Context, id string, c signals.Control) error {
	if err := w.known(id); err != nil {
		return err
	}
	w.change(func() { w.controls = append(w.controls, c) })
	return nil
}

func (w *world) State(ctx context.Context, id string) (signals.State, error) {
	if id == "slow" {
		<-ctx.Done()
		return signals.State{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.known(id)
}

func (w *world) Workers(_ context.Context, id string) (threadclient.Workers, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return threadclient.Workers{TaskQueue: "queue of " + id, Polled: w.polled}, nil
}

func (w *world) List(_ context.Context, q threadclient.ListQuery) ([]threadclient.Summary, error) {
	w.query = q
	if w.listed != nil {
		return w.listed, nil
	}
	return []threadclient.Summary{
		{ThreadID: "t2", Status: "open", Title: "Two\nlines", Agents: []string{"demo", "other"}, StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)},
		{ThreadID: "t1", Status: "closed", StartTime: time.Date(2026, 1, 1, 3, 4, 5, 0, time.Local)},
	}, nil
}

// terminal is a terminal with a program on it.
type terminal struct {
	keys, program *os.File // its two ends

	mu       sync.Mutex
	emulator *vt.Emulator
}

const (
	columns = 100
	rows    = 200
)

func (w *world) terminal() *terminal {
	w.t.Setenv("TERM", "xterm-256color")
	keys, program, err := pty.Open()
	require.NoError(w.t, err)
	require.NoError(w.t, pty.Setsize(keys, &pty.Winsize{Cols: columns, Rows: rows}))
	it := &terminal{keys: keys, program: program, emulator: vt.NewEmulator(columns, rows)}
	go func() { _, _ = io.Copy(it, keys) }()
	go func() { _, _ = io.Copy(keys, it.emulator) }() // its answers to questions
	w.t.Cleanup(func() {
		assertNoError(w.t, program.Close())
		assertNoError(w.t, keys.Close())
		assertNoError(w.t, it.emulator.InputPipe().(io.Closer).Close()) // Emulator.Close races with its Read
	})
	return it
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.emulator.Write(p)
}

// String returns what a person sees.
func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return trimmed(t.emulator.String())
}

// trimmed returns text without spaces before the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// program is a run of the command line.
type program struct {
	t   *testing.T
	out interface {
		io.Writer
		fmt.Stringer
	}
	err        *testenv.Buffer
	onTerminal bool
	in         io.WriteCloser
	interrupts chan os.Signal
	exit       chan int
}

// start runs the command line in the world, as ann.
func (w *world) start(onTerminal bool, args ...string) *program {
	w.t.Setenv("USER", "ann")
	r, in := io.Pipe()
	p := &program{t: w.t, out: &testenv.Buffer{}, err: &testenv.Buffer{}, onTerminal: onTerminal, in: in, interrupts: make(chan os.Signal), exit: make(chan int, 1)}
	a := &app{
		stdin: r, stdout: term.New(p.out, false), stderr: term.New(p.err, false), settle: w.settle, mindEvery: testenv.Tick,
		dial:       func(context.Context, connection) (threads, func(), error) { return w, func() {}, nil },
		interrupts: func() (<-chan os.Signal, func()) { return p.interrupts, func() {} },
	}
	if onTerminal {
		it := w.terminal()
		p.out, p.in = it, it.keys
		a.stdin, a.stdout, a.keys, a.screen = it.program, term.New(it.program, false), it.program, it.program
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*testenv.Patience)
	w.t.Cleanup(func() {
		cancel()
		assertNoError(w.t, r.Close())
	})
	go func() { p.exit <- a.run(ctx, append([]string{"--api", w.url}, args...)) }()
	if onTerminal {
		p.shows("›") // before that, the terminal itself takes the keys
	}
	return p
}

func (p *program) types(text string) {
	p.t.Helper()
	if p.onTerminal {
		text = strings.ReplaceAll(text, "\n", "\r") // Enter
	}
	_, err := io.WriteString(p.in, text)
	require.NoError(p.t, err)
}

func (p *program) shows(text string) {
	p.t.Helper()
	if p.onTerminal {
		text = trimmed(text)
	}
	require.Eventually(p.t, func() bool { return strings.Contains(p.out.String(), text) }, testenv.Patience, testenv.Tick,
		"want %q in:\n%s", text, p.out)
}

func (p *program) exits(code int) {
	p.t.Helper()
	select {
	case got := <-p.exit:
		require.Equal(p.t, code, got, "stderr: %s\nstdout: %s", p.err, p.out)
		if it, ok := p.out.(*terminal); ok { // the shell goes on
			_, err := io.WriteString(it.program, "$ ")
			require.NoError(p.t, err)
			require.Eventually(p.t, func() bool { return strings.HasSuffix("\n"+p.out.String(), "\n$") }, testenv.Patience, testenv.Tick, "%s", p.out)
		}
	case <-time.After(testenv.Patience):
		require.Fail(p.t, "it does not end", "stdout: %s", p.out)
	}
}
