package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// killing is a world whose worker is a separate process, which the test kills. Temporal, the
// store's file, the provider and foreign hook workflows outlive it.
type killing struct {
	review
	worker *proc.Self
	victim victim

	mu      sync.Mutex
	reports []report

	// held are reports without a response until their worker dies.
	held map[report]chan struct{}
}

// newKilling builds the world without a worker.
func newKilling(t *testing.T, o harness.Options, change func(*victim)) *killing {
	t.Helper()
	shares := victim{Store: filepath.Join(t.TempDir(), "shared.db")}
	if o.Postgres {
		shares = victim{Store: testenv.Postgres(t), Schema: testenv.Name("killed")}
	}
	store, err := shares.open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	o.Postgres, o.NoWorker, o.Configure = false, true, func(c *threadmill.Config) { c.Store = store }
	w := harness.New(t, o)
	w.Store = store
	stop, err := foreign.Work(w.Temporal, foreignQueue(w.TaskQueue))
	require.NoError(t, err)
	t.Cleanup(stop)

	k := &killing{review: review{w, "barrier"}, held: map[report]chan struct{}{}}
	heard := http.NewServeMux()
	// Another test may still use this port to look for a stopped server.
	heard.HandleFunc("POST /reports", k.hear)
	reports := httptest.NewServer(heard)
	t.Cleanup(reports.Close)
	k.victim = shares
	k.victim.Temporal, k.victim.Queue, k.victim.Provider, k.victim.Reports = w.Server.Addr(), w.TaskQueue, w.Provider.URL, reports.URL+"/reports"
	change(&k.victim)
	k.worker = proc.NewSelf(t, victimRuns)
	return k
}

// start starts the worker, or a different one.
func (k *killing) start(v victim) {
	k.T.Helper()
	k.worker.Start(v.env())
}

func (k *killing) hear(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was killed meanwhile
	}
	var got report
	if !assert.NoError(k.T, json.Unmarshal(body, &got)) {
		return
	}
	k.mu.Lock()
	k.reports = append(k.reports, got)
	reached := k.held[got]
	if reached == nil {
		got.Key = ""
		reached = k.held[got]
	}
	delete(k.held, got)
	k.mu.Unlock()
	if reached != nil {
		close(reached)
		<-r.Context().Done()
	}
}

// hold withholds the response to the next report of this kind, with any key if it is empty, until
// the worker is killed. The channel is closed when the report has arrived.
func (k *killing) hold(what, key string) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	reached := make(chan struct{})
	k.held[report{what, key}] = reached
	return reached
}

// asked counts the reports of this kind.
func (k *killing) asked(what, key string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.reports {
		if r == (report{what, key}) {
			n++
		}
	}
	return n
}
