package feedtest

import (
	"context"
	"sync"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// marking is a stream whose publishers mark the first piece of an attempt, as activities do.
type marking struct {
	stream.Stream
	mu    sync.Mutex
	begun map[string]int
}

// NewMarking returns a stream in memory whose publishers mark the first piece of an attempt.
func NewMarking() stream.Stream {
	return &marking{Stream: memory.New(memory.Config{}), begun: map[string]int{}}
}

func (m *marking) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	m.mu.Lock()
	if e.Event != nil && (e.Event.Type == event.EventStream || e.Event.Type == event.EventThought) {
		e.Begins = e.Event.Attempt > m.begun[e.Event.MessageID]
		m.begun[e.Event.MessageID] = max(e.Event.Attempt, m.begun[e.Event.MessageID])
	}
	m.mu.Unlock()
	return m.Stream.Publish(ctx, key, e)
}
