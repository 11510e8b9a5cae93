package server

import (
	"context"
	"errors"
	"net/http"
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
	queueLength = 64
)

// slotsOf are the patterns whose responses take slots.
var slotsOf = map[string]int64{
	"GET /v1/threads":                              pageSlots,
	"GET /v1/threads/{id}/messages":                pageSlots,
	"GET /v1/threads/{id}/events":                  pageSlots,
	"GET /v1/events":                               pageSlots,
	"GET /v1/threads/{id}/records":                 bulkySlots,
	"GET /v1/threads/{id}/export":                  pageSlots,
	"POST /v1/person-exports":                      pageSlots,
	"GET /v1/erasures":                             pageSlots,
	"GET /v1/person-erasures":                      pageSlots,
	"GET /v1/threads/{id}/decisions":               pageSlots,
	"GET /v1/threads/{id}/world/messages":          pageSlots,
	"GET /v1/chat/{id}/messages":                   bulkySlots,
	"GET /v1/ag-ui/{id}/messages":                  bulkySlots,
	"POST /v1/ag-ui/connect":                       bulkySlots,
	"GET /v1/agents":                               bulkySlots,
	"GET /v1/agents/{name}/versions":               pageSlots,
	"GET /v1/agents/changes":                       pageSlots,
	"GET /v1/schedules/{id}/versions":              pageSlots,
	"GET /v1/threads/{id}/model-calls/{messageId}": bulkySlots,
	"GET /v1/threads/{id}/tool-calls":              bulkySlots,
	"GET /v1/knowledge/documents":                  pageSlots,
	"GET /v1/knowledge/documents/{id}/chunks":      pageSlots,
	"GET /v1/knowledge/search":                     pageSlots,
	"GET /v1/entities":                             pageSlots,
	"GET /v1/entities/{id}":                        pageSlots,
	"GET /v1/entities/{id}/mentions":               pageSlots,
	"GET /v1/entity-merges":                        pageSlots,
	"POST /v1/markdown":                            bulkySlots,
}

// slots are those of a server.
type slots struct{ pages, comparisons *gate }

func newSlots(within time.Duration) *slots {
	return &slots{pages: newGate(slotCount, within), comparisons: newGate(comparisons, within)}
}

// of returns the gate of a pattern, and how much of it a request takes.
func (s *slots) of(pattern string) (*gate, int64) {
	if pattern == comparePattern {
		return s.comparisons, 1
	}
	return s.pages, slotsOf[pattern]
}

type slotKey struct{}

// serve serves a request once it has its slots.
func (s *slots) serve(w http.ResponseWriter, r *http.Request, pattern string, to route, next http.Handler) {
	g, count := s.of(pattern)
	if count == 0 {
		next.ServeHTTP(w, r)
		return
	}
	leave, err := g.enter(r.Context(), count)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		status := http.StatusServiceUnavailable
		if errors.Is(err, errShare) {
			status = http.StatusTooManyRequests
		}
		to.refuse(w, status, err.Error())
		return
	}
	defer leave()
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, leave)))
}

// releaseSlots gives the slots of a request back, because it becomes a stream.
func releaseSlots(ctx context.Context) {
	if leave, ok := ctx.Value(slotKey{}).(func()); ok {
		leave()
	}
}

var (
	errBusy  = errors.New("too many requests are in progress; retry")
	errShare = errors.New("too many requests of this client are in progress; retry when some have ended")
)

// gate bounds what is in progress at once. Each principal has at most half of it, and a queue of its own, so that those who ask for much
// wait for themselves.
type gate struct {
	size   int64
	within time.Duration
	all    *semaphore.Weighted

	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the requests of one principal that wait or are in progress.
type queue struct {
	share *semaphore.Weighted
	count int
}

func newGate(size int64, within time.Duration) *gate {
	return &gate{size: size, within: within, all: semaphore.NewWeighted(size), queues: map[string]*queue{}}
}

// enter waits for the request to have its part, until it has waited for too long. leave may be called more than once.
func (g *gate) enter(ctx context.Context, part int64) (leave func(), err error) {
	of := shareOf(ctx)
	q := g.join(of)
	if q == nil {
		return nil, errShare
	}
	ctx, cancel := context.WithTimeout(ctx, g.within)
	defer cancel()
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
		share := g.size / 2
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
