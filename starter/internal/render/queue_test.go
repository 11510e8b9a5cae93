package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
)

func readQueue(t *testing.T) signals.Queue {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "queue.json"))
	require.NoError(t, err)
	var q signals.Queue
	require.NoError(t, json.Unmarshal(raw, &q))
	return q
}

func TestQueueTable(t *testing.T) {
	q, utc := readQueue(t), QueueOptions{Location: time.UTC}
	var items strings.Builder
	for _, id := range []string{"01M7XBPW70NJPAQV4B498RBTD9", "e4", "e5", "e6"} {
		item, ok := q.Find(id)
		require.True(t, ok)
		items.WriteString(Item(item, utc) + "\n")
	}
	for name, got := range map[string]string{
		"queue":       Queue(q, utc),
		"queue.all":   Queue(q, QueueOptions{Location: time.UTC, Ended: true, Width: 20}),
		"queue.items": items.String(),
	} {
		t.Run("S2-16 S2-36 S2-37 "+name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	q.Processing.Payload = json.RawMessage("\"a\u202eb\u009bc\"")
	for _, text := range []string{Queue(q, utc), Item(*q.Processing, utc)} {
		require.Contains(t, text, `"a\u202eb\u009bc"`, "what others write cannot control the terminal")
	}
	require.Empty(t, Queue(signals.Queue{Ended: q.Ended}, utc))
	require.Contains(t, Queue(q, QueueOptions{}), q.Processing.CreatedAt.Local().Format(time.DateTime), "local time by default")
}
