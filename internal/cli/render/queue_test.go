package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
)

func TestQueueTable(t *testing.T) {
	q, utc := read[signals.Queue](t, "queue.json"), TableOptions{Location: time.UTC}
	var items strings.Builder
	for _, id := range []string{"01M7XBPW70NJPAQV4B498RBTD9", "e4", "e5", "e6"} {
		item, ok := q.Find(id)
		require.True(t, ok)
		items.WriteString(Item(item, utc) + "\n")
	}
	for name, got := range map[string]string{
		"queue":       Queue(q, utc),
		"queue.all":   Queue(q, TableOptions{Location: time.UTC, Ended: true, Width: 20}),
		"queue.items": items.String(),
	} {
		t.Run("S2-16 S2-36 S2-37 "+name, func(t *testing.T) {
			golden(t, name, got)
		})
	}
	q.Processing.Payload = json.RawMessage("\"a\u202eb\u009bc\"")
	for _, text := range []string{Queue(q, utc), Item(*q.Processing, utc)} {
		require.Contains(t, text, `"a\u202eb\u009bc"`, "what others write cannot control the terminal")
	}
	require.Empty(t, Queue(signals.Queue{Ended: q.Ended}, utc))
	require.Contains(t, Queue(q, TableOptions{}), q.Processing.CreatedAt.Local().Format(time.DateTime), "local time by default")
}
