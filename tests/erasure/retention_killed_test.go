package erasure

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/internal/testenv"
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
	k := keeper{process.New(t, process.Options{Binary: process.Build(t), Config: keeping}), t}
	k.Start()
	require.Eventually(t, func() bool { return k.due().Last != nil }, testenv.Patience, testenv.Tick, "the first pass finds nothing")
	for n := range 5 {
		if k.killed(n) {
			return
		}
		t.Log("the pass was over before the devserver died; the next one is killed")
	}
	require.Fail(t, "no pass could be killed")
}

// keeper is a devserver that deletes by age.
type keeper struct {
	*process.Devserver
	t *testing.T
}

// killed kills a pass that has closed and erased some threads, and checks its end. It returns false if the pass was over before.
func (k keeper) killed(n int) bool {
	t := k.t
	t.Helper()
	const each = 6
	var old, idle []string
	for i := range each {
		old, idle = append(old, fmt.Sprintf("closed-%d-%d", n, i)), append(idle, fmt.Sprintf("idle-%d-%d", n, i))
	}
	all := slices.Concat(old, idle)
	for _, id := range all {
		k.Open(id, "hello")
	}
	for _, id := range all {
		k.AwaitTurns(id, 1)
	}
	for _, id := range old {
		require.Equal(t, http.StatusAccepted, k.Try(t.Context(), http.MethodDelete, "/v1/threads/"+id, nil, nil))
	}
	k.awaitClosed(old)
	k.awaitEnded(old)
	before := k.due().Last.StartedAt
	k.Kill()
	file := filepath.Join(k.Data, "threadmill.db")
	ages(t, file, 100*time.Hour, old...)
	ages(t, file, 600*time.Hour, idle...)

	k.Start() // whose limits begin the next pass
	require.Eventually(t, func() bool { return k.erased(old) > 0 }, testenv.Patience, testenv.Tick, "the pass has begun")
	k.Kill()
	k.Start()
	inTime := k.erased(old) < each

	require.Eventually(t, func() bool { return !k.due().Last.StartedAt.Equal(before) }, testenv.Patience, testenv.Tick, "the pass is over")
	last := *k.due().Last
	if last.Erased == 0 {
		return false // the limits of the second start came late, and began a further pass
	}
	require.Equal(t, each, last.Erased, "%+v", last)
	require.Equal(t, each, last.Closed)
	require.Zero(t, last.Failed)
	var contents signals.ErasedCounts
	for _, id := range old {
		got, ok := k.receipt(id)
		require.True(t, ok, id)
		require.Equal(t, "retention", got.By)
		require.Zero(t, got.Left)
		require.Zero(t, got.Late)
		require.Positive(t, got.Erased.Records)
		contents = contents.Add(got.Erased)
	}
	require.Equal(t, contents, last.Contents)
	k.awaitClosed(idle)
	return inTime
}

func (k keeper) due() (out retention.Due) {
	require.Equal(k.t, http.StatusOK, k.Try(k.t.Context(), http.MethodGet, "/v1/retention", nil, &out))
	return out
}

func (k keeper) receipt(id string) (out signals.Erasure, ok bool) {
	status := k.Try(k.t.Context(), http.MethodGet, "/v1/erasures/"+id, nil, &out)
	return out, status == http.StatusOK && !out.FinishedAt.IsZero()
}

func (k keeper) erased(ids []string) (n int) {
	for _, id := range ids {
		if _, ok := k.receipt(id); ok {
			n++
		}
	}
	return n
}

func (k keeper) awaitClosed(ids []string) {
	k.t.Helper()
	for _, id := range ids {
		var row struct{ Status string }
		require.Eventually(k.t, func() bool {
			return k.Try(k.t.Context(), http.MethodGet, "/v1/threads/"+id, nil, &row) == http.StatusOK && row.Status == "closed"
		}, testenv.Patience, testenv.Tick, id)
	}
}

// awaitEnded waits for the ends of the workflows of closed threads: one that stores its last records again after a kill is not old.
func (k keeper) awaitEnded(ids []string) {
	k.t.Helper()
	c, err := client.Dial(client.Options{HostPort: k.Temporal, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(k.t, err)
	defer c.Close()
	for _, id := range ids {
		require.Eventually(k.t, func() bool {
			d, err := c.DescribeWorkflowExecution(k.t.Context(), signals.WorkflowID(signals.DefaultNamespace, id), "")
			return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		}, testenv.Patience, testenv.Tick, id)
	}
}
