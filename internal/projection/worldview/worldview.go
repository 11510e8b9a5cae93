// Package worldview is the view of a thread as the events of a world of agents, and as its
// messages as they stand now. A request for approval is a message there, with a call that the
// decision answers.
package worldview

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/store"
)

// Store is what the view looks up in a [store.Store].
type Store interface {
	store.Reader
	ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error)
}

// Projection is that of threads as the events of a world.
type Projection = projection.Projection[event.WorldEvent]

// New makes the projection.
func New(f *feed.Feed, s Store) Projection {
	return Projection{Feed: f, New: func(v projection.Viewer) projection.Projector[event.WorldEvent] { return newProjector(s, v) }}
}
