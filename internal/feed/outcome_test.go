package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
)

// TestEndsTurnOf: the record tells the end, also if a view hides its event from viewers.
func TestEndsTurnOf(t *testing.T) {
	rec := event.NewRecord("e1.turn_ended", event.TypeTurnEnded, "e1", "e1", time.Now(), event.TurnEnded{EventID: "e1", Joined: []string{"e2"}})
	hidden := feed.Item{Record: &rec}
	for id, ends := range map[string]bool{"e1": true, "e2": true, "e3": false} {
		require.Equal(t, ends, hidden.EndsTurnOf(id), id)
	}
	live := feed.Item{Event: event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusTurnEnded}}}
	require.False(t, live.EndsTurnOf("e1"))
}
