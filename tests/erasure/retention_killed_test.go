package erasure

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/retention"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/process"
)

const keeping = `version: 1
agents: [{name: assistant, model: demo/demo, tools: [current_time]}]
retention: {closedThreads: 50h, idleThreads: 500h, toolLogs: 700h, every: 24h}
`

// TestRetentionKilled kills a devserver with SIGKILL in the middle of a pass of retention. The pass goes on where it was: each thread is
// closed or erased once, and the receipt of the pass agrees with those of its erasures.
func TestRetentionKilled(t *testing.T) {
	t.Parallel()
	d := process.New(t, process.Options{Binary: process.Build(t), Config: keeping})
	d.Start()
	const each = 6
	var due, idle []string
	for i := range each {
		due, idle = append(due, fmt.Sprintf("closed-%d", i)), append(idle, fmt.Sprintf("idle-%d", i))
	}
	for _, id := range append(due, idle...) {
		d.Open(id, "hello")
	}
	for _, id := range append(due, idle...) {
		d.AwaitTurns(id, 1)
	}
	closed := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			var row struct{ Status string }
			require.Eventually(t, func() bool {
				return d.Try(t.Context(), http.MethodGet, "/v1/threads/"+id, nil, &row) == http.StatusOK && row.Status == "closed"
			}, process.Patience, process.Tick, id)
		}
	}
	for _, id := range due {
		require.Equal(t, http.StatusAccepted, d.Try(t.Context(), http.MethodDelete, "/v1/threads/"+id, nil, nil))
	}
	closed(due...)
	keeps := func() (out retention.Due) {
		require.Equal(t, http.StatusOK, d.Try(t.Context(), http.MethodGet, "/v1/retention", nil, &out))
		return out
	}
	require.Eventually(t, func() bool { return keeps().Last != nil }, process.Patience, process.Tick, "the first pass finds nothing")
	require.Zero(t, keeps().Last.Erased)
	d.Kill()
	file := filepath.Join(d.Data, "threadmill.db")
	ages(t, file, 100*time.Hour, due...)
	ages(t, file, 600*time.Hour, idle...)

	receipt := func(id string) (out signals.Erasure, ok bool) {
		status := d.Try(t.Context(), http.MethodGet, "/v1/erasures/"+id, nil, &out)
		return out, status == http.StatusOK && !out.FinishedAt.IsZero()
	}
	erased := func() (n int) {
		for _, id := range due {
			if _, ok := receipt(id); ok {
				n++
			}
		}
		return n
	}
	d.Start() // whose limits begin the next pass
	require.Eventually(t, func() bool { return erased() > 0 }, process.Patience, process.Tick, "the pass has begun")
	d.Kill()
	d.Start()
	require.Less(t, erased(), each, "the pass was over before the devserver died")

	require.Eventually(t, func() bool { last := keeps().Last; return last.Erased+last.Failed > 0 }, process.Patience, process.Tick, "the pass is over")
	last := *keeps().Last
	require.Equal(t, each, last.Erased)
	require.Equal(t, each, last.Closed)
	require.Zero(t, last.Failed)
	var contents signals.ErasedCounts
	for _, id := range due {
		got, ok := receipt(id)
		require.True(t, ok, id)
		require.Equal(t, "retention", got.By)
		require.Zero(t, got.Left)
		require.Zero(t, got.Late)
		require.Positive(t, got.Erased.Records)
		contents = contents.Add(got.Erased)
	}
	require.Equal(t, contents, last.Contents)
	closed(idle...)
}
