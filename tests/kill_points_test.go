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
)

// turnstile stops threads at their gaps: a worker reports each, and has no answer from the
// gap on for which it is the thread's turn to stop.
type turnstile struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	threads map[string]*passenger

	// closed is nil once all pass.
	closed chan struct{}
}

// passenger is a thread on its way.
type passenger struct {
	// seen are the gaps that it has come to; stop is the number of the one at which it
	// stops next, stride how many there are to the one after that.
	seen         map[string]bool
	stop, stride int

	stopped, left bool

	// stops counts how often it has stopped.
	stops int

	// published counts reports on what is no gap, by call.
	published map[string]int
}

func newTurnstile(t *testing.T) *turnstile {
	t.Helper()
	g := &turnstile{t: t, threads: map[string]*passenger{}, closed: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(g.hear))
	t.Cleanup(g.Close)
	return g
}

// admit lets a thread in, which stops at the gap first, counted from 0, and then at each
// stride-th.
func (g *turnstile) admit(thread string, first, stride int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.threads[thread] = &passenger{seen: map[string]bool{}, stop: first, stride: stride, published: map[string]int{}}
}

// leave says that a thread comes to no more gaps.
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
	var got report
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

// stops takes note of a report, and says whether it has no answer for now. A thread that
// stops does so in all that it does at the same time.
func (g *turnstile) stops(got report) bool {
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

// awaitAll waits until all threads have stopped or left, and returns how many have stopped.
// Until then each may have to wait for steps of a dead worker to be missed, several times.
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
	}, 2*waitLong, waitTick)
	return stopped
}

// pass lets all threads go on to their next stop, now that whoever reported is dead.
func (g *turnstile) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		if p.stopped {
			p.stopped, p.stop = false, p.stop+p.stride
		}
	}
}

// open lets all pass that still comes.
func (g *turnstile) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		p.stop = math.MaxInt
	}
	close(g.closed)
}

// stopped is how often threads have stopped in all.
func (g *turnstile) stopped() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.threads {
		n += p.stops
	}
	return n
}

// gaps is how many gaps each thread has come to, at least.
func (g *turnstile) gaps() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	least := math.MaxInt
	for _, p := range g.threads {
		least = min(least, len(p.seen))
	}
	return least
}

// published counts what the calls of a thread have published.
func (g *turnstile) published(thread string) map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.threads[thread].published)
}
