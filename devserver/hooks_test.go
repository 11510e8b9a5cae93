package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
)

const guardedYAML = `
agents: [{name: assistant, model: demo/demo}]
hooks:
  - name: guard
    workflow: {type: BlockPrompt, taskQueue: guards}
    filter: {types: [message], createdBy: [user]}
  - name: absent
    workflow: {type: NobodyRunsIt, taskQueue: nowhere}
    filter: {types: [order.*]}
    timeout: 1s
`

// blockPrompt is a hook workflow as in any other language: it uses JSON, and nothing of Threadmill.
func blockPrompt(_ workflow.Context, request map[string]any) (map[string]any, error) {
	event, _ := request["event"].(map[string]any)
	message, _ := event["message"].(map[string]any)
	content, _ := message["content"].(string)
	if !strings.Contains(content, "password") {
		return nil, nil
	}
	answer := map[string]any{"content": "Ask me without passwords.", "senderType": "system", "senderId": "guard"}
	return map[string]any{"responses": []any{answer}}, nil
}

// TestHookWorkflowByConfiguration: S0-15, S0-23. Without any Go, the file names a hook workflow,
// which runs on a separate worker.
func TestHookWorkflowByConfiguration(t *testing.T) {
	clean(t)
	require.NoError(t, os.WriteFile(defaultConfig, []byte(guardedYAML), 0o600))
	r := start(t, "--memory")
	require.Equal(t, "guard (BlockPrompt on task queue guards), absent (NobodyRunsIt on task queue nowhere); each needs a worker there", r.row("Hooks"))
	address, _, _ := strings.Cut(r.row("Temporal"), ",")
	temporal, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer temporal.Close()

	status, body := r.do(http.MethodPost, "/v1/threads", `{"id":"t1","message":"my password is 1234"}`)
	require.Equal(t, http.StatusCreated, status, body)

	t.Run("without its worker, an operator sees what the thread waits for", func(t *testing.T) {
		const thread = "thread/default/t1"
		var deciding []signals.Deciding
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			deciding = decidingOn(t.Context(), now, temporal, thread)
			require.Len(now, deciding, 1)
			guard, err := temporal.DescribeWorkflowExecution(t.Context(), deciding[0].WorkflowID+"/guard", "")
			require.NoError(now, err, "it has yet to be started")
			require.Equal(now, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, guard.GetWorkflowExecutionInfo().GetStatus())
			require.Equal(now, "guards", guard.GetWorkflowExecutionInfo().GetTaskQueue())
		}, testenv.Patience, testenv.Tick)
		require.Equal(t, []string{"guard"}, deciding[0].Hooks)
		require.Equal(t, "message", deciding[0].EventType)
		require.Contains(t, detailsOf(t.Context(), t, temporal, thread), "- waits for hooks: guard on message `"+deciding[0].EventID+"`")
		require.Equal(t, []string{"my password is 1234"}, r.contents("t1"), "nothing happens to the message meanwhile")
	})

	t.Run("an operator can end the wait", func(t *testing.T) {
		const thread = "thread/default/t2"
		status, body := r.do(http.MethodPost, "/v1/threads", `{"id":"t2","message":"hello"}`)
		require.Equal(t, http.StatusCreated, status, body)
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			require.Len(now, decidingOn(t.Context(), now, temporal, thread), 1)
		}, testenv.Patience, testenv.Tick)
		status, body = r.do(http.MethodPost, "/v1/threads/t2/interrupt", `{"by":"ann"}`)
		require.Equal(t, http.StatusAccepted, status, body)
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			require.Contains(now, detailsOf(t.Context(), now, temporal, thread), "**idle**")
		}, testenv.Patience, testenv.Tick)
	})

	w := worker.New(temporal, "guards", worker.Options{})
	w.RegisterWorkflowWithOptions(blockPrompt, workflow.RegisterOptions{Name: "BlockPrompt"})
	require.NoError(t, w.Start())
	defer w.Stop()

	t.Run("S0-15: with it, the workflow answers in place of the model", func(t *testing.T) {
		require.Eventually(t, func() bool { return len(r.contents("t1")) > 1 }, testenv.Patience, testenv.Tick)
		require.Equal(t, []string{"my password is 1234", "Ask me without passwords."}, r.contents("t1"))
	})
	t.Run("S0-11: what it lets pass goes to the model", func(t *testing.T) {
		status, body := r.do(http.MethodPost, "/v1/threads/t1/messages?wait=true", `{"content":"hello there"}`)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, `"senderId":"assistant"`)
		require.Contains(t, body, "hello there")
	})
	t.Run("once it has decided, the thread no longer waits for it", func(t *testing.T) {
		const thread = "thread/default/t1"
		// The reply is shown before the thread knows of it.
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			require.Contains(now, detailsOf(t.Context(), now, temporal, thread), "**idle**")
		}, testenv.Patience, testenv.Tick)
		status, body := r.do(http.MethodPost, "/v1/threads/t1/messages", `{"content":"count 10000 every 40ms"}`)
		require.Equal(t, http.StatusAccepted, status, body)
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			require.Contains(now, detailsOf(t.Context(), now, temporal, thread), "step 0, model")
		}, testenv.Patience, testenv.Tick)
		require.NotContains(t, detailsOf(t.Context(), t, temporal, thread), "waits for hooks")
		require.Empty(t, decidingOn(t.Context(), t, temporal, thread))
		require.NoError(t, temporal.SignalWorkflow(t.Context(), thread, "", signals.SignalControl, map[string]any{"action": "interrupt", "by": "ann"}))
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			require.Contains(now, detailsOf(t.Context(), now, temporal, thread), "**idle**")
		}, testenv.Patience, testenv.Tick)
	})
	t.Run("S0-23: an event fails visibly when a hook's worker is not there in time", func(t *testing.T) {
		status, body := r.do(http.MethodPost, "/v1/threads/t1/queue", `{"id":"o1","type":"order.placed","payload":{"item":"kettle"}}`)
		require.Equal(t, http.StatusAccepted, status, body)
		require.EventuallyWithT(t, func(now *assert.CollectT) {
			_, body := r.do(http.MethodGet, "/v1/threads/t1/queue/o1", "")
			require.Contains(now, body, `"status":"failed"`)
			require.Contains(now, body, `"error":"hook absent failed: it took longer than its limit of 1s (workflow `)
		}, testenv.Patience, testenv.Tick)
	})
	require.Equal(t, program.ExitOK, r.stop())
}

func decidingOn(ctx context.Context, t require.TestingT, c client.Client, thread string) []signals.Deciding {
	answer, err := c.QueryWorkflow(ctx, thread, "", signals.QueryState)
	require.NoError(t, err)
	var state signals.State
	require.NoError(t, answer.Get(&state))
	if state.Turn == nil {
		return nil
	}
	return state.Turn.Deciding
}

// detailsOf returns the workflow's current details, as in Temporal's Web UI.
func detailsOf(ctx context.Context, t require.TestingT, c client.Client, thread string) string {
	answer, err := c.QueryWorkflow(ctx, thread, "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var about sdkpb.WorkflowMetadata
	require.NoError(t, answer.Get(&about))
	return about.GetCurrentDetails()
}

// TestHooksWithMistakes: with an invalid hook, nothing starts.
func TestHooksWithMistakes(t *testing.T) {
	clean(t)
	require.NoError(t, os.WriteFile(defaultConfig, []byte(strings.Replace(guardedYAML, "guards", signals.DefaultTaskQueue, 1)), 0o600))
	stderr := &testenv.Buffer{}
	require.Equal(t, program.ExitUsage, execute(t.Context(), io.Discard, stderr, slices.Concat(anyPort, []string{"--memory"})...))
	require.Contains(t, stderr.String(), `threadmill.yaml:5:46: hooks[0].workflow.taskQueue: "threadmill" is where the threads themselves run`)
}
