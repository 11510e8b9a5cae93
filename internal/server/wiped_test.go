package server_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
)

// TestIDBeyondHead: a viewer that has seen more than the store has is told so, and starts over.
func TestIDBeyondHead(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 20 * time.Millisecond })
	w.open("t1")
	w.put("t1", said("go"), replied("m1", "gone"), record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m1"}))
	for _, view := range []string{"agent", "env", "world"} {
		t.Run(view, func(t *testing.T) {
			whole := w.watch("t1", "?view="+view, "")
			var all []seen
			for range 3 {
				all = append(all, whole.mustNext())
			}
			for _, id := range []string{"4", "900", "4.2", "7:1795208152616598", "900:3"} {
				for _, query := range []string{"?view=" + view, "?from=now&view=" + view} {
					v := w.watch("t1", query, id)
					gap := v.mustNext()
					assert.Contains(t, gap.data, "does not have the event that the id names", id)
					var rest []seen
					for range all {
						rest = append(rest, v.mustNext())
					}
					assert.Equal(t, kindsOf(t, all), kindsOf(t, rest), "everything follows: %s", id)
					again := w.watch("t1", query, gap.id)
					assert.Equal(t, rest[0].data, again.mustNext().data, "cut behind the gap, it starts over as well")
					resumed := w.watch("t1", query, rest[0].id)
					assert.Equal(t, rest[1].data, resumed.mustNext().data, "the ids behind it are places again")
				}
				page := w.call("GET", "/v1/threads/t1/events?limit=2&view="+view+"&cursor="+id, nil)
				events := page.body["events"].([]any)
				require.Len(t, events, 2)
				first, err := json.Marshal(events[0])
				require.NoError(t, err)
				assert.Contains(t, string(first), "does not have the event that the id names")
				next := w.call("GET", "/v1/threads/t1/events?limit=9&view="+view+"&cursor="+page.body["next"].(string), nil)
				assert.NotEmpty(t, next.body["events"])
			}
			at := w.call("GET", "/v1/threads/t1/events?view="+view+"&cursor=3", nil)
			assert.Empty(t, at.body["events"], "the head itself is a place")
		})
	}
	t.Run("of a closed thread", func(t *testing.T) {
		w.append("t1", closedBatch())
		got := w.watch("t1", "", "12").rest()
		require.Len(t, got, 5)
		assert.Contains(t, got[0].data, `"type":"gap"`)
		assert.Equal(t, 204, w.call("GET", "/v1/threads/t1/events", nil, "Accept", "text/event-stream", "Last-Event-ID", "4").status)
	})
}

// kindsOf are the types of events, whatever the view.
func kindsOf(t *testing.T, events []seen) (kinds []string) {
	for _, e := range events {
		var typed struct{ Type string }
		require.NoError(t, json.Unmarshal([]byte(e.data), &typed))
		kinds = append(kinds, typed.Type)
	}
	return kinds
}
