package tests

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// turnstile stops threads at their gaps: a worker reports each gap, and gets no response at the gap
// at which its thread must stop.
type turnstile struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	threads map[string]*passenger

	// closed is nil once all threads pass.
	closed chan struct{}
}

// passenger is a thread that passes gaps.
type passenger struct {
	// seen are its gaps so far; stop is the number of the gap at which it stops next, stride the
	// number of gaps between stops.
	seen         map[string]bool
	stop, stride int

	stopped, left bool

	// stops counts its stops.
	stops int

	// published counts reports other than gaps, by call.
	published map[string]int
}

func newTurnstile(t *testing.T) *turnstile {
	t.Helper()
	g := &turnstile{t: t, threads: map[string]*passenger{}, closed: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(g.hear))
	t.Cleanup(g.Close)
	return g
}

// admit adds a thread, which stops at the gap first, counted from 0, and then at each stride-th.
func (g *turnstile) admit(thread string, first, stride int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.threads[thread] = &passenger{seen: map[string]bool{}, stop: first, stride: stride, published: map[string]int{}}
}

// leave means that a thread has no more gaps.
func (g *turnstile) leave(thread string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.threads[thread].left = true
}

func (g *turnstile) hear(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was killed meanwhile
	}
	var got killing.Report
	if !assert.NoError(g.t, json.Unmarshal(body, &got)) {
		return
	}
	if g.stops(got) {
		select {
		case <-r.Context().Done():
		case <-g.closed:
		}
	}
}

// stops records a report, and reports whether it gets no response for now. A thread stops in all of
// its concurrent work.
func (g *turnstile) stops(got killing.Report) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, known := g.threads[got.What]
	if !assert.True(g.t, known, "thread %s", got.What) {
		return false
	}
	if call, ok := strings.CutPrefix(got.Key, publishedKey); ok {
		p.published[call]++
		return p.stopped
	}
	number, seen := len(p.seen), p.seen[got.Key]
	p.seen[got.Key] = true
	if !p.stopped && !seen && number >= p.stop {
		p.stopped = true
		p.stops++
	}
	return p.stopped
}

// awaitAll waits until all threads have stopped or left, and returns how many have stopped. Until
// then, each may have to wait several times until steps of a dead worker count as lost.
func (g *turnstile) awaitAll(t *testing.T) (stopped int) {
	t.Helper()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		stopped = 0
		for _, p := range g.threads {
			if p.stopped {
				stopped++
			} else if !p.left {
				return false
			}
		}
		return true
	}, 2*testenv.Patience, testenv.Tick)
	return stopped
}

// pass lets all threads continue to their next stop, after the reporting worker died.
func (g *turnstile) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		if p.stopped {
			p.stopped, p.stop = false, p.stop+p.stride
		}
	}
}

// open lets all further reports pass.
func (g *turnstile) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		p.stop = math.MaxInt
	}
	close(g.closed)
}

// stopped is the total number of stops.
func (g *turnstile) stopped() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		n += p.stops
	}
	return n
}

// gaps is the minimum number of gaps of the threads.
func (g *turnstile) gaps() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	least := math.MaxInt
	for _, p := range g.threads {
		least = min(least, len(p.seen))
	}
	return least
}

// published counts the publications of a thread's calls.
func (g *turnstile) published(thread string) map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.threads[thread].published)
}
