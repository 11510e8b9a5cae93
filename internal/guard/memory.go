package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultMemory is the default of [Limits].RequestMemory and of [Limits].ResponseMemory.
	defaultMemory = 128 << 20

	// stalledAfter is the time without progress after which a client can be disconnected to make room.
	stalledAfter = time.Second

	// roomWithin is the time for which a request waits for room.
	roomWithin = 5 * time.Second
)

// memory bounds the bytes that clients make a process hold. When it is full, the clients that have
// made no progress for the longest time are disconnected.
type memory struct {
	max int64

	mu      sync.Mutex
	held    int64
	holders map[*holder]struct{}
	freed   chan struct{} // closed and replaced when bytes are released
}

func newMemory(limit int64) *memory {
	return &memory{max: limit, holders: map[*holder]struct{}{}, freed: make(chan struct{})}
}

// holder is what one client makes the process hold.
type holder struct {
	memory *memory
	bytes  int64
	cut    func() // disconnects the client

	blocked time.Time // the client's last progress while the process waits for it; else zero
	isCut   bool
}

func (m *memory) holder(cut func()) *holder { return &holder{memory: m, cut: cut} }

// reserve waits for room for more bytes, and reports whether there is any.
func (h *holder) reserve(ctx context.Context, bytes int) bool {
	m := h.memory
	more := min(int64(bytes), m.max)
	var timeout <-chan time.Time
	for {
		m.mu.Lock()
		if m.held+more <= m.max {
			h.add(more)
			m.mu.Unlock()
			return true
		}
		wait := m.makeRoom(time.Now())
		freed := m.freed
		m.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(roomWithin)
			defer timer.Stop()
			timeout = timer.C
		}
		stalls := time.NewTimer(wait)
		select {
		case <-freed:
		case <-stalls.C:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
		stalls.Stop()
	}
}

// stalled adds bytes that a blocked client holds, without waiting: they are in memory already. It does
// nothing once over is true.
func (h *holder) stalled(bytes int64, since time.Time, over *atomic.Bool) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if over.Load() {
		return
	}
	h.blocked = since
	h.add(bytes)
	if m.held > m.max {
		m.makeRoom(time.Now())
	}
}

// add changes what a holder holds. The memory is locked.
func (h *holder) add(bytes int64) {
	h.bytes += bytes
	h.memory.held += bytes
	h.memory.holders[h] = struct{}{}
}

// makeRoom disconnects the client that has been stalled for the longest time. It returns when to try
// again. The memory is locked.
func (m *memory) makeRoom(now time.Time) (wait time.Duration) {
	var oldest *holder
	for h := range m.holders {
		if !h.isCut && !h.blocked.IsZero() && (oldest == nil || h.blocked.Before(oldest.blocked)) {
			oldest = h
		}
	}
	if oldest == nil {
		return stalledAfter
	}
	if wait = stalledAfter - now.Sub(oldest.blocked); wait > 0 {
		return wait
	}
	oldest.isCut = true
	oldest.cut()
	return stalledAfter
}

// wait notes that the process waits for the client from now on, or no longer.
func (h *holder) wait(blocked bool) {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.blocked = time.Time{}
	if blocked {
		h.blocked = time.Now()
	}
}

// progress notes that a client that the process waits for has read something.
func (h *holder) progress() {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if !h.blocked.IsZero() {
		h.blocked = time.Now()
	}
}

// release gives bytes back: all if it is negative.
func (h *holder) release(bytes int64) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes < 0 || bytes > h.bytes {
		bytes = h.bytes
	}
	if bytes == 0 {
		return
	}
	h.bytes -= bytes
	m.held -= bytes
	if h.bytes == 0 {
		delete(m.holders, h)
	}
	close(m.freed)
	m.freed = make(chan struct{})
}
