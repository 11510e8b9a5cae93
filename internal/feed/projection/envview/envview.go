// Package envview is the view of a thread as environment events: the published ones, and those
// derived from everything else.
package envview

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
)

// Projection is the projection of threads to environment events.
type Projection = projection.Projection[event.EnvEvent]

// New returns the projection.
func New(f *feed.Feed, s projection.Store) Projection {
	return Projection{Feed: f, New: func(v projection.Viewer) projection.Projector[event.EnvEvent] {
		return &projector{projection.Past{Store: s, Key: v.Key}}
	}}
}
