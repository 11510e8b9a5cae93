package server

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// slotCount bounds the responses that are made at once, and so the memory that they take until they
	// are encoded: some MiB for each slot.
	slotCount = 16

	// pageSlots are the slots of a page of what is stored, bulkySlots those of what has no such limit.
	pageSlots  = 1
	bulkySlots = 4

	// comparisons bounds the configurations that are compared at once: each takes all agents into memory, twice.
	comparisons = 2

	// queueLength is the number of requests of one principal that wait or are in progress.
	queueLength = 256
)

// slotsOf are the patterns whose responses take slots.
var slotsOf = map[string]int64{
	"GET /v1/threads":                              pageSlots,
	"GET /v1/threads/{id}":                         pageSlots,
	"GET /v1/thread-counts":                        pageSlots,
	"GET /v1/approvals":                            bulkySlots,
	"GET /v1/threads/{id}/messages":                pageSlots,
	"GET /v1/threads/{id}/events":                  pageSlots,
	"GET /v1/events":                               pageSlots,
	"GET /v1/threads/{id}/records":                 bulkySlots,
	"GET /v1/threads/{id}/export":                  pageSlots,
	"POST /v1/person-exports":                      pageSlots,
	"GET /v1/erasures":                             pageSlots,
	"GET /v1/person-erasures":                      pageSlots,
	"GET /v1/threads/{id}/decisions":               pageSlots,
	"GET /v1/threads/{id}/grants":                  pageSlots,
	"GET /v1/threads/{id}/world/messages":          pageSlots,
	"GET /v1/chat/{id}/messages":                   bulkySlots,
	"GET /v1/ag-ui/{id}/messages":                  bulkySlots,
	"POST /v1/ag-ui/connect":                       bulkySlots,
	"GET /v1/agents":                               bulkySlots,
	"GET /v1/agents/{name}":                        pageSlots,
	"GET /v1/agents/{name}/versions":               pageSlots,
	"GET /v1/agents/changes":                       pageSlots,
	"GET /v1/schedules/{id}/versions":              pageSlots,
	"GET /v1/threads/{id}/model-calls/{messageId}": bulkySlots,
	"GET /v1/threads/{id}/tool-calls":              bulkySlots,
	"GET /v1/knowledge":                            pageSlots,
	"GET /v1/knowledge/documents":                  pageSlots,
	"GET /v1/knowledge/documents/{id}":             pageSlots,
	"GET /v1/knowledge/documents/{id}/chunks":      pageSlots,
	"GET /v1/knowledge/search":                     pageSlots,
	"GET /v1/entities":                             pageSlots,
	"GET /v1/entities/{id}":                        pageSlots,
	"GET /v1/entities/{id}/mentions":               pageSlots,
	"GET /v1/entity-merges":                        pageSlots,
	"POST /v1/markdown":                            bulkySlots,
}

// slots are those of a server. Responses take slots for the memory that they need, and reads, with the requests of MCP clients, a place for
// the time that they need: a process that also runs threads would do nothing but read for those who read much, and posts would wait.
type slots struct {
	within                          time.Duration
	pages, reads, asks, comparisons *gate
}

// asksPerRead is the number of requests that wait for threads, for each read: they wait for workers, who have other work.
const asksPerRead = 8

func newSlots(within time.Duration) *slots {
	reads := max(2, int64(runtime.GOMAXPROCS(0)/2)) // the rest is for threads and posts; one key does not take all
	return &slots{within, newGate(slotCount), newGate(reads), newGate(reads * asksPerRead), newGate(comparisons)}
}

// taken is what a request has taken.
type taken struct {
	slots *slots

	mu sync.Mutex

	// all gives all of it back, and read the place among the reads, if it has one. asks means that it has a place among those who ask.
	all  []func()
	read func()
	asks bool
}

type takenKey struct{}

// takenBy returns what a request has taken, or nil.
func takenBy(ctx context.Context) *taken {
	t, _ := ctx.Value(takenKey{}).(*taken)
	return t
}

// takenByOrigin is takenBy for the request of an MCP client in which this one is made. A read has its place, which ends with a request that is
// no read, or that waits.
func takenByOrigin(ctx context.Context) *taken {
	if r, ok := ctx.Value(originKey{}).(*http.Request); ok {
		return takenBy(r.Context())
	}
	return nil
}

// bounded reports whether requests to a pattern may have to wait.
func bounded(pattern string) bool {
	return slotsOf[pattern] > 0 || pattern == comparePattern || pattern == mcpPattern || strings.HasPrefix(pattern, http.MethodGet+" /v1/")
}

// serve serves a request once it has what it takes.
func (s *slots) serve(w http.ResponseWriter, r *http.Request, pattern string, to route, next http.Handler) {
	if !bounded(pattern) {
		takenByOrigin(r.Context()).stopReading()
		next.ServeHTTP(w, r)
		return
	}
	t := &taken{slots: s}
	defer t.release()
	if err := t.enter(r.Context(), pattern); err != nil {
		w.Header().Set("Retry-After", "1")
		to.refuse(w, statusOf(err), err.Error())
		return
	}
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), takenKey{}, t)))
}

func (t *taken) enter(ctx context.Context, pattern string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, t.slots.within)
	defer cancel()
	slots := slotsOf[pattern]
	// The place comes first for all, or those with a place would wait for those with slots.
	if (slots > 0 || pattern == mcpPattern) && !takenByOrigin(ctx).reads() {
		t.read, err = t.take(ctx, t.slots.reads, 1)
	}
	if err == nil && slots > 0 {
		_, err = t.take(ctx, t.slots.pages, slots)
	}
	if err == nil && pattern == comparePattern {
		_, err = t.take(ctx, t.slots.comparisons, 1)
	}
	return err
}

func (t *taken) take(ctx context.Context, g *gate, part int64) (leave func(), err error) {
	leave, err = g.enter(ctx, part)
	if err == nil {
		t.all = append(t.all, leave)
	}
	return leave, err
}

// reads reports whether a request has a place among the reads.
func (t *taken) reads() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read != nil
}

// stopReading gives the place among the reads back.
func (t *taken) stopReading() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read != nil {
		t.read()
		t.read = nil
	}
}

func (t *taken) release() {
	t.stopReading()
	for _, leave := range t.all {
		leave()
	}
}

// releaseSlots gives back what a request has taken, because it becomes a stream.
func releaseSlots(ctx context.Context) {
	takenByOrigin(ctx).stopReading()
	if t := takenBy(ctx); t != nil {
		t.release()
	}
}

// awaitsOthers gives back what a request has taken that is about to wait for a thread or a model, and takes a place among those that do.
// The error is a problem document.
func awaitsOthers(ctx context.Context) error {
	takenByOrigin(ctx).stopReading()
	t := takenBy(ctx)
	if t == nil || t.asks {
		return nil
	}
	t.release()
	within, cancel := context.WithTimeout(ctx, t.slots.within)
	defer cancel()
	if _, err := t.take(within, t.slots.asks, 1); err != nil {
		return later(statusOf(err), "1", err.Error())
	}
	t.asks = true
	return nil
}

func statusOf(err error) int {
	if errors.Is(err, errShare) {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

var (
	errBusy  = errors.New("too many requests are in progress; retry")
	errShare = errors.New("too many requests of this client are in progress; retry when some have ended")
)

// gate bounds what is in progress at once. Each principal has at most half of it, and a queue of its own, so that those who ask for much
// wait for themselves.
type gate struct {
	size int64
	all  *semaphore.Weighted

	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the requests of one principal that wait or are in progress.
type queue struct {
	share *semaphore.Weighted
	count int
}

func newGate(size int64) *gate {
	return &gate{size: size, all: semaphore.NewWeighted(size), queues: map[string]*queue{}}
}

// enter waits for the request to have its part, until ctx ends. leave may be called more than once.
func (g *gate) enter(ctx context.Context, part int64) (leave func(), err error) {
	of := shareOf(ctx)
	q := g.join(of)
	if q == nil {
		return nil, errShare
	}
	if q.share.Acquire(ctx, part) != nil {
		g.quit(of, q)
		return nil, errShare
	}
	if g.all.Acquire(ctx, part) != nil {
		q.share.Release(part)
		g.quit(of, q)
		return nil, errBusy
	}
	return sync.OnceFunc(func() {
		g.all.Release(part)
		q.share.Release(part)
		g.quit(of, q)
	}), nil
}

// join adds a request to the queue of its principal. It returns nil if the queue is full.
func (g *gate) join(of string) *queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[of]
	if q == nil {
		share := max(1, g.size/2)
		if of == "" {
			share = g.size
		}
		q = &queue{share: semaphore.NewWeighted(share)}
		g.queues[of] = q
	}
	if q.count >= queueLength {
		return nil
	}
	q.count++
	return q
}

func (g *gate) quit(of string, q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.count--; q.count == 0 {
		delete(g.queues, of)
	}
}
