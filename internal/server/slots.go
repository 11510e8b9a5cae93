package server

import (
	"context"
	"net/http"
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
	"GET /v1/agents":                               pageSlots,
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
type slots struct {
	all    *semaphore.Weighted
	within time.Duration
}

func newSlots(within time.Duration) *slots {
	return &slots{all: semaphore.NewWeighted(slotCount), within: within}
}

type slotKey struct{}

// serve serves a request once it has its slots.
func (s *slots) serve(w http.ResponseWriter, r *http.Request, count int64, to route, next http.Handler) {
	if count == 0 {
		next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.within)
	defer cancel()
	if s.all.Acquire(ctx, count) != nil {
		w.Header().Set("Retry-After", "1")
		to.refuse(w, http.StatusServiceUnavailable, "too many pages are being made; retry")
		return
	}
	held := &slot{slots: s, count: count}
	defer held.release()
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, held)))
}

// slot is what a request holds. It is used by one goroutine.
type slot struct {
	slots *slots
	count int64
}

func (s *slot) release() {
	s.slots.all.Release(s.count)
	s.count = 0
}

// releaseSlots gives the slots of a request back, because it becomes a stream.
func releaseSlots(ctx context.Context) {
	if held, ok := ctx.Value(slotKey{}).(*slot); ok {
		held.release()
	}
}
