package gate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// startedOf is the first event of a history, whose input is a text.
func startedOf(typ, id string) *history.HistoryEvent {
	input, err := converter.GetDefaultDataConverter().ToPayloads("a text")
	if err != nil {
		panic(err)
	}
	return &history.HistoryEvent{EventId: 1, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: typ}, WorkflowId: id, Input: input, TaskQueue: &taskqueue.TaskQueue{Name: "q"},
		},
	}}
}

// completed is a history of a workflow that did nothing and ended.
func completed(typ, id string) *history.History {
	return &history.History{Events: []*history.HistoryEvent{
		startedOf(typ, id),
		{EventId: 2, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, Attributes: &history.HistoryEvent_WorkflowTaskScheduledEventAttributes{
			WorkflowTaskScheduledEventAttributes: &history.WorkflowTaskScheduledEventAttributes{},
		}},
		{EventId: 3, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, Attributes: &history.HistoryEvent_WorkflowTaskStartedEventAttributes{
			WorkflowTaskStartedEventAttributes: &history.WorkflowTaskStartedEventAttributes{ScheduledEventId: 2},
		}},
		{EventId: 4, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, Attributes: &history.HistoryEvent_WorkflowTaskCompletedEventAttributes{
			WorkflowTaskCompletedEventAttributes: &history.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 2, StartedEventId: 3},
		}},
		{EventId: 5, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, Attributes: &history.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &history.WorkflowExecutionCompletedEventAttributes{WorkflowTaskCompletedEventId: 4},
		}},
	}}
}

// program is a replayer with workflows that replay the same history in different ways.
func program(t *testing.T) worker.WorkflowReplayer {
	t.Helper()
	r, err := worker.NewWorkflowReplayerWithOptions(Options(client.Options{}))
	require.NoError(t, err)
	for name, run := range map[string]any{
		"same":  func(workflow.Context, string) error { return nil },
		"other": func(ctx workflow.Context, _ string) error { return workflow.Sleep(ctx, time.Hour) },
		"panic": func(workflow.Context, string) error { panic("no such case") },
		"typed": func(workflow.Context, int) error { return nil },
	} {
		r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: name})
	}
	return r
}

// TestReplay: for each way in which a history cannot be replayed, the advice fits the error that the SDK has for it.
func TestReplay(t *testing.T) {
	tests := map[string]struct{ error, advice string }{
		"same":    {},
		"other":   {nondeterministic, "put the change behind workflow.GetVersion"},
		"panic":   {"no such case", "the workflow panics with this history"},
		"typed":   {"unable to decode", "give this program the data converter of the workers"},
		"missing": {"unable to find workflow type: missing", "register it with Config.RegisterWith"},
	}
	r := program(t)
	for typ, want := range tests {
		t.Run(typ, func(t *testing.T) {
			var got []Result
			g := Gate{Replayer: r, Each: func(r Result) { got = append(got, r) }}
			g.replay(completed(typ, "w"), Result{Workflow: "w", Run: "r", Why: "newest"})
			require.Len(t, got, 1)
			require.Contains(t, got[0].Error, want.error)
			require.Contains(t, got[0].Advice, want.advice)
			if want.error == "" {
				require.Empty(t, got[0].Error+got[0].Advice)
			}
			got[0].Error, got[0].Advice = "", ""
			require.Equal(t, Result{Workflow: "w", Run: "r", Why: "newest", Type: typ, Events: 5}, got[0])
		})
	}
	t.Run("a history without events fails, and the replayer does not see it", func(t *testing.T) {
		var got Result
		Gate{Each: func(r Result) { got = r }}.replay(&history.History{}, Result{Workflow: "w"})
		require.Equal(t, Result{Workflow: "w", Error: "the history has no events", Advice: "export it again"}, got)
	})
}

func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"[TMPRL1100] unable to decode":     "the workflow emits other commands",
		"payload with unknown encoding":    "the payloads cannot be read",
		"something that nobody has seen":   "a worker of this program would be stuck",
		"unable to find workflow type: hi": "this program does not have the workflow",
	} {
		require.Contains(t, advice(errors.New(text)), want, text)
	}
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b c", oneLine(errors.New(" a\n\tb  c\n")))
	exact := strings.Repeat("x", maxError)
	require.Equal(t, exact, oneLine(errors.New(exact)))
	require.Equal(t, exact+"…", oneLine(errors.New(exact+"y")))
	t.Run("no half of a character", func(t *testing.T) {
		got := oneLine(errors.New(strings.Repeat("x", maxError-1) + "ä"))
		require.True(t, utf8.ValidString(got))
		require.Equal(t, strings.Repeat("x", maxError-1)+"…", got)
	})
}

func TestFiles(t *testing.T) {
	write := func(t *testing.T, folder, name string, h *history.History) string {
		t.Helper()
		raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
		require.NoError(t, err)
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		return path
	}
	run := func(ctx context.Context, t *testing.T, folder string) (got []Result, err error) {
		t.Helper()
		err = Gate{Replayer: program(t), Each: func(r Result) { got = append(got, r) }}.Files(ctx, folder)
		return got, err
	}
	t.Run("by name, each with the id of its workflow or of its file", func(t *testing.T) {
		folder := t.TempDir()
		b, a := write(t, folder, "b.json", completed("same", "")), write(t, folder, "a.json", completed("missing", "thread/acme/t1"))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("not a history"), 0o600))
		got, err := run(t.Context(), t, folder)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Equal(t, []string{"thread/acme/t1", a}, []string{got[0].Workflow, got[0].Why})
		require.NotEmpty(t, got[0].Error, "one that fails does not hide the next")
		require.Equal(t, Result{Workflow: "b", Type: "same", Why: b, Events: 5}, got[1])
	})
	t.Run("a folder without histories is an error", func(t *testing.T) {
		_, err := run(t.Context(), t, t.TempDir())
		require.ErrorContains(t, err, "has no .json files")
	})
	t.Run("an unreadable file is an error that names it", func(t *testing.T) {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "broken.json"), []byte("{"), 0o600))
		_, err := run(t.Context(), t, folder)
		require.ErrorContains(t, err, "broken.json")
	})
	t.Run("it ends with its context", func(t *testing.T) {
		folder := t.TempDir()
		write(t, folder, "a.json", completed("same", "w"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got, err := run(ctx, t, folder)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, got)
	})
}

// TestOptions: a replayer has the converters of a client, and those of its interceptors that workers have.
func TestOptions(t *testing.T) {
	both := &struct {
		interceptor.ClientInterceptorBase
		interceptor.WorkerInterceptorBase
	}{}
	failures := temporal.GetDefaultFailureConverter()
	got := Options(client.Options{
		DataConverter: converter.GetDefaultDataConverter(), FailureConverter: failures,
		Interceptors: []interceptor.ClientInterceptor{&interceptor.ClientInterceptorBase{}, both},
	})
	require.Equal(t, []interceptor.WorkerInterceptor{both}, got.Interceptors)
	require.Equal(t, converter.GetDefaultDataConverter(), got.DataConverter)
	require.Equal(t, failures, got.FailureConverter)
	require.True(t, got.DisableDeadlockDetection, "a pause of the machine is no failure of a history")
}

func TestReport(t *testing.T) {
	fine, bad := Result{Workflow: "fine", Why: "newest"}, Result{Workflow: "bad", Why: "longest", Error: "no"}
	pinned := Result{Workflow: "pinned", Why: "newest", Error: "no", Build: "1"}
	r := NewReport()
	require.Equal(t, "no history replayed", r.Summary())
	for _, one := range []Result{fine, bad, pinned, {Why: "a/x.json"}, {Why: "b/y.json"}, {Why: "newest", Build: "1"}} {
		r.Add(one)
	}
	require.Equal(t, &Report{
		Replayed: 6, By: map[string]int{"newest": 3, "longest": 1, "files": 2}, Failed: []Result{bad}, Pinned: []Result{pinned},
	}, r, "what is pinned to its build does not fail; that it is complete says the caller alone")
	require.Equal(t, "6 histories replayed (1 longest, 2 files, 3 newest): 1 cannot be, 1 more stay on their builds", r.Summary())
}
