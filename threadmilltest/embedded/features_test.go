package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func countRequest(query string) *workflowservice.CountWorkflowExecutionsRequest {
	return &workflowservice.CountWorkflowExecutionsRequest{Query: query}
}

// TestFeatures runs the features of a server that Threadmill needs.
func TestFeatures(t *testing.T) {
	srv := startServer(t, Config{DynamicConfig: map[string]any{"limit.historyCount.suggestContinueAsNew": 5}})
	c := dial(t, srv)
	startWorker(t, c)

	t.Run("update with start, mutable side effect, metadata", func(t *testing.T) {
		start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: "counter", TaskQueue: queue, StaticSummary: "a counter",
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, counter)
		require.Equal(t, 3, add(t, c, start, 3))
		handle, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: "counter", UpdateName: "add", Args: []any{20}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		var total int
		require.NoError(t, handle.Get(t.Context(), &total))
		require.Equal(t, 10, total)

		seen, err := c.DescribeWorkflow(t.Context(), "counter", "")
		require.NoError(t, err)
		summary, err := seen.GetStaticSummary()
		require.NoError(t, err)
		require.Equal(t, "a counter", summary)
		require.Equal(t, "counting up to ten", currentDetails(t, c, "counter"))

		require.NoError(t, c.SignalWorkflow(t.Context(), "counter", "", "done", nil))
		require.NoError(t, c.GetWorkflow(t.Context(), "counter", "").Get(t.Context(), &total))
		require.Equal(t, 10, total)
	})

	t.Run("eager start", func(t *testing.T) {
		runGreet(t, c, client.StartWorkflowOptions{ID: "eager", EnableEagerStart: true})
		started := history(t, c, "eager")[0].GetWorkflowExecutionStartedEventAttributes()
		require.True(t, started.GetEagerExecutionAccepted())
	})

	t.Run("update waits for a late worker", func(t *testing.T) {
		late := dial(t, srv)
		start := late.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: "late", TaskQueue: "late-queue",
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, counter)
		// Longer than the server's long poll, so that the client must poll again.
		started := make(chan struct{})
		timer := time.AfterFunc(2500*time.Millisecond, func() {
			defer close(started)
			startWorkerOn(t, late, "late-queue")
		})
		defer func() {
			if !timer.Stop() {
				<-started // the worker answers before its stop is set to follow the test
			}
		}()
		require.Equal(t, 4, add(t, late, start, 4))
	})

	t.Run("a worker that stops loses no task on its way", func(t *testing.T) {
		seen, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: srv.Namespace()})
		require.NoError(t, err)
		require.True(t, seen.GetNamespaceInfo().GetCapabilities().GetWorkerPollCompleteOnShutdown(), "its polls are ended for it")
	})

	t.Run("many queries of visibility at once", func(t *testing.T) {
		conn, err := grpc.NewClient(srv.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		plain := workflowservice.NewWorkflowServiceClient(conn) // the client of the SDK repeats what is refused
		var asking errgroup.Group
		for range 50 {
			asking.Go(func() error {
				_, err := plain.CountWorkflowExecutions(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: srv.Namespace()})
				return err
			})
		}
		require.NoError(t, asking.Wait())
	})

	t.Run("dynamic config override", func(t *testing.T) {
		runGreet(t, c, client.StartWorkflowOptions{ID: "long"})
		suggested := slices.ContainsFunc(history(t, c, "long"), func(e *historypb.HistoryEvent) bool {
			return e.GetWorkflowTaskStartedEventAttributes().GetSuggestContinueAsNew()
		})
		require.True(t, suggested)
	})
}

func add(t *testing.T, c client.Client, start client.WithStartWorkflowOperation, n int) int {
	t.Helper()
	handle, err := c.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName: "add", Args: []any{n}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	require.NoError(t, err)
	var total int
	require.NoError(t, handle.Get(t.Context(), &total))
	return total
}

func currentDetails(t *testing.T, c client.Client, id string) string {
	t.Helper()
	value, err := c.QueryWorkflow(t.Context(), id, "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

func history(t *testing.T, c client.Client, id string) []*historypb.HistoryEvent {
	t.Helper()
	var events []*historypb.HistoryEvent
	it := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		event, err := it.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// BenchmarkTurn measures the round trip of a workflow with one activity.
func BenchmarkTurn(b *testing.B) {
	slow := map[string]any{}
	for key, value := range tuning {
		if value == pollRPS {
			slow[key] = 20
		}
	}
	for name, cfg := range map[string]Config{
		"memory":               {},
		"disk":                 {DataDir: b.TempDir()},
		"memory, server's RPS": {DynamicConfig: slow},
	} {
		b.Run(name, func(b *testing.B) { benchmarkTurn(b, cfg) })
	}
}

func benchmarkTurn(b *testing.B, cfg Config) {
	srv := startServer(b, cfg)
	c := dial(b, srv)
	startWorker(b, c)
	runGreet(b, c, client.StartWorkflowOptions{})
	for b.Loop() {
		runGreet(b, c, client.StartWorkflowOptions{})
	}
}
