package killing

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// World is a world whose worker the test kills. Temporal, the store's file, the provider and foreign hook
// workflows outlive it.
type World struct {
	check.Review

	// Worker is how its workers begin.
	Worker Worker

	process *proc.Run

	mu      sync.Mutex
	reports []Report

	// held are reports without a response until their worker dies.
	held []*hold
}

// hold withholds the response to the first report that matches.
type hold struct {
	matches func(Report) bool
	reached chan struct{}
}

// New builds a world without a worker. Its workers are of these kinds: see [Main].
func New(t *testing.T, o harness.Options, kinds ...string) *World {
	t.Helper()
	shares := Worker{Store: filepath.Join(t.TempDir(), "shared.db"), Kinds: kinds}
	if o.Postgres {
		shares.Store, shares.Schema = testenv.Postgres(t), testenv.Name("killed")
	}
	store, err := shares.open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	o.Postgres, o.NoWorker, o.Configure = false, true, func(c *threadmill.Config) { c.Store = store }
	h := harness.New(t, o)
	h.Store = teststore.Of(store)
	stop, err := foreign.Work(h.Temporal, check.ForeignQueue(h.TaskQueue))
	require.NoError(t, err)
	t.Cleanup(stop)

	w := &World{Review: check.Review{Harness: h, Hook: "barrier"}}
	heard := http.NewServeMux()
	// Another test may still use this port to look for a stopped server.
	heard.HandleFunc("POST /reports", w.hear)
	reports := httptest.NewServer(heard)
	t.Cleanup(reports.Close)
	w.Worker = shares
	w.Worker.Temporal, w.Worker.Queue, w.Worker.Provider, w.Worker.Reports = h.Server.Addr(), h.TaskQueue, h.Provider.URL, reports.URL+"/reports"
	return w
}

// Start starts the worker.
func (w *World) Start() {
	w.T.Helper()
	w.StartAs(w.Worker)
}

// StartAs starts a different worker.
func (w *World) StartAs(v Worker) {
	w.T.Helper()
	w.process = v.Start(w.T)
}

// StartBehindProxy starts a worker that gets no more responses from Temporal after it has sent a
// text. The channel is closed then.
func (w *World) StartBehindProxy(text string) <-chan struct{} {
	w.T.Helper()
	p := proc.NewProxy(w.T, w.Worker.Temporal)
	behind := w.Worker
	behind.Temporal = p.Addr
	w.StartAs(behind)
	return p.HoldAnswerTo(text)
}

// PostMessage posts a message under an id.
func (w *World) PostMessage(thread, id, content string) {
	w.T.Helper()
	_, err := w.Threads.PostSignal(w.Ctx(), thread, check.Message(thread, id, content))
	require.NoError(w.T, err)
}

// Ends waits for the end of a turn, and until all of it is stored.
func (w *World) Ends(thread, eventID string) signals.TurnResult {
	w.T.Helper()
	out := w.Await(thread, eventID)
	check.Settle(w.Harness, thread)
	return out
}

// Kill sends the worker SIGKILL, and waits for its end.
func (w *World) Kill() { w.process.Kill() }

func (w *World) hear(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was killed meanwhile
	}
	var got Report
	if !assert.NoError(w.T, json.Unmarshal(body, &got)) {
		return
	}
	w.mu.Lock()
	w.reports = append(w.reports, got)
	var reached chan struct{}
	if i := slices.IndexFunc(w.held, func(h *hold) bool { return h.matches(got) }); i >= 0 {
		reached = w.held[i].reached
		w.held = slices.Delete(w.held, i, i+1)
	}
	w.mu.Unlock()
	if reached != nil {
		close(reached)
		<-r.Context().Done()
	}
}

// Hold withholds the response to the next report of this kind, with any key if it is empty, until
// the worker is killed. The channel is closed when the report has arrived.
func (w *World) Hold(what, key string) <-chan struct{} {
	return w.HoldFirst(func(r Report) bool { return r.What == what && (key == "" || r.Key == key) })
}

// HoldFirst withholds the response to the first report that matches, as [World.Hold] does. matches sees the reports one
// after the other.
func (w *World) HoldFirst(matches func(Report) bool) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &hold{matches, make(chan struct{})}
	w.held = append(w.held, h)
	return h.reached
}

// Asked counts the reports of this kind.
func (w *World) Asked(what, key string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.reports {
		if r == (Report{what, key}) {
			n++
		}
	}
	return n
}

// Reported counts all reports.
func (w *World) Reported() int { return len(w.Reports()) }

// Reports returns all reports, in order.
func (w *World) Reports() []Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports)
}
