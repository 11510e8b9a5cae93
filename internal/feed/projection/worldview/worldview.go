// Package worldview is the view of a thread as the events of a world of agents, and as its messages
// in their current form. An approval request is a message there, with a call that the decision
// answers.
package worldview

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// Store is the part of a [store.Store] that the view reads.
type Store interface {
	transcript.Reader
	ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error)
}

// Projection is the projection of threads to events of a world.
type Projection = projection.Projection[event.WorldEvent]

// New returns the projection.
func New(f *feed.Feed, s Store) Projection {
	return Projection{Feed: f, New: func(v projection.Viewer) projection.Projector[event.WorldEvent] { return newProjector(s, v) }}
}
