// Package envview is the view of a thread as environment events: those that were published to
// it, and those that are derived from everything else.
package envview

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
)

// Projection is that of threads as environment events.
type Projection = projection.Projection[event.EnvEvent]

// New makes the projection.
func New(f *feed.Feed, s projection.Store) Projection {
	return Projection{Feed: f, New: func(v projection.Viewer) projection.Projector[event.EnvEvent] {
		return &projector{projection.Past{Store: s, Key: v.Key}}
	}}
}
