package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// wrote is what a step has stored.
func wrote(ids ...string) (w written) {
	for _, id := range ids {
		w.Records = append(w.Records, record(id, "acme.custom", "e", nil))
	}
	return w
}

// TestMissing: single records are missing wherever they are, but what was stored together was stored.
func TestMissing(t *testing.T) {
	result := wrote("a", "r")
	result.result = true
	titled := wrote("title")
	titled.Title = "T"
	finished := store.ToolLog{ToolCallID: "task", FinishedAt: &noon}
	log := written{Rebuilt: activities.Rebuilt{Logs: []store.ToolLog{finished}, LogsBefore: "task.ended"}}
	both := wrote("x")
	both.Logs = []store.ToolLog{finished}
	for name, tt := range map[string]struct {
		all   []written
		has   []string
		title string
		logs  map[string]store.ToolLog
		want  [][]string
	}{
		"nothing":                               {all: []written{wrote("a", "b")}, has: []string{"a", "b"}},
		"the newest":                            {all: []written{wrote("a", "b"), wrote("c")}, has: []string{"a"}, want: [][]string{{"b"}, {"c"}}},
		"one before what is there":              {all: []written{wrote("a", "b"), wrote("c")}, has: []string{"a", "c"}, want: [][]string{{"b"}}},
		"a result":                              {all: []written{result}, want: [][]string{{"a", "r"}}},
		"not what was erased of a result":       {all: []written{result}, has: []string{"r"}},
		"a title":                               {all: []written{titled}, want: [][]string{{"title"}}},
		"not if the thread has another one":     {all: []written{titled}, title: "U"},
		"a log without records":                 {all: []written{log}, want: [][]string{nil}},
		"one that never finished":               {all: []written{log}, logs: map[string]store.ToolLog{"task": {}}, want: [][]string{nil}},
		"not one that finished":                 {all: []written{log}, logs: map[string]store.ToolLog{"task": finished}},
		"the log of records that are not there": {all: []written{both}, logs: map[string]store.ToolLog{"task": finished}, want: [][]string{{"x"}}},
		"not a log of records that are there":   {all: []written{both}, has: []string{"x"}},
		"a row is written again each time":      {all: []written{{row: &step.Row{Number: 1}}}, want: [][]string{nil}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).stores(wrote(tt.has...).Records...)
			f.row.Title = tt.title
			for id, log := range tt.logs {
				f.shelf.logs[id] = log
			}
			got, err := f.missing(t.Context(), tt.all)
			require.NoError(t, err)
			require.Equal(t, tt.want, idsOf(got))
		})
	}
	t.Run("not a log that retention has removed since", func(t *testing.T) {
		f := newFixture(t).stores(wrote("task.ended").Records...)
		all := []written{log, wrote("task.ended")}
		got, err := f.missing(t.Context(), all)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Len(t, all[0].Logs, 1, "what was written stays as it is")
	})
	t.Run("an error of the store is none of these", func(t *testing.T) {
		f := newFixture(t)
		f.shelf.err = errors.New("no")
		_, err := f.missing(t.Context(), []written{wrote("a")})
		require.Error(t, err)
		f.shelf.logs["task"] = finished
		_, err = f.missingLogs(t.Context(), []store.ToolLog{finished})
		require.Error(t, err)
	})
	t.Run("ids are read in parts", func(t *testing.T) {
		var ids []string
		for i := range 2*idsPerRead + 1 {
			ids = append(ids, fmt.Sprint(i))
		}
		has, err := newFixture(t).stores(wrote(ids...).Records...).present(t.Context(), []written{wrote(ids...)})
		require.NoError(t, err)
		require.Len(t, has, len(ids))
	})
}

// TestWrite: what is missing is written in order and in parts, its log with the last of them, and rows after all records.
func TestWrite(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for i := range recordsPerPage + 1 {
		ids = append(ids, fmt.Sprint(i))
	}
	large := wrote(ids...)
	large.Title, large.Logs = "T", []store.ToolLog{{ToolCallID: "c1"}, {ToolCallID: "c2"}}
	logs := written{Rebuilt: activities.Rebuilt{Logs: []store.ToolLog{{ToolCallID: "c3"}}}}
	rows := []written{{row: &step.Row{Number: 1, Title: "A", Status: store.ThreadOpen}}, {}, {row: &step.Row{Number: 2, Status: store.ThreadClosed, Agents: []string{"a"}, Parent: "p"}}}
	require.NoError(t, f.write(t.Context(), rows, []written{large, logs, wrote("last"), {}}))
	type part struct {
		records int
		log     string
		title   bool
		status  string
		number  int64
	}
	var got []part
	for _, b := range f.shelf.appended {
		p := part{records: len(b.Records)}
		if b.ToolFinish != nil {
			p.log = b.ToolFinish.ToolCallID
		}
		if b.Thread != nil {
			p.title, p.status, p.number = b.Thread.Title != nil, b.Thread.Status, b.Thread.Number
		}
		got = append(got, p)
	}
	require.Equal(t, []part{
		{records: recordsPerPage, title: true},
		{records: 1, title: true, log: "c1"},
		{log: "c2"},
		{log: "c3"},
		{records: 1},
		{title: true, status: store.ThreadOpen, number: 1},
		{status: store.ThreadClosed, number: 2},
	}, got)
	require.Equal(t, "p", f.shelf.appended[6].Thread.Parent)
	t.Run("it ends with an error", func(t *testing.T) {
		f.shelf.err = errors.New("no")
		require.Error(t, f.write(t.Context(), rows, []written{wrote("a")}))
		require.Error(t, f.write(t.Context(), rows, nil))
	})
}

func TestClosing(t *testing.T) {
	row := func(status string) written { return written{row: &step.Row{Status: status}} }
	for _, tt := range []struct {
		all  []written
		want bool
	}{
		{nil, false},
		{[]written{wrote("a")}, false},
		{[]written{row(store.ThreadOpen)}, false},
		{[]written{row(store.ThreadClosed)}, true},
		{[]written{row(store.ThreadOpen), row(store.ThreadClosed), wrote("a"), row("")}, true},
		{[]written{row(store.ThreadClosed), row(store.ThreadOpen)}, false},
	} {
		require.Equal(t, tt.want, closing(tt.all))
	}
}

// TestOlderStore: the report says how many records are missing, and what the history does not have of them.
func TestOlderStore(t *testing.T) {
	run := func(f *fixture, steps ...recordedStep) *fixture {
		f.last.steps = steps
		return f
	}
	t.Run("none", func(t *testing.T) {
		f := run(newFixture(t).stores(wrote("a").Records...).runs(knows()), stores(nil, "a"))
		require.NoError(t, f.olderStore(t.Context()))
		require.Empty(t, f.found)
		require.False(t, f.older)
	})
	t.Run("some, of which something is lost", func(t *testing.T) {
		f := run(newFixture(t).stores(wrote("a").Records...).runs(knows()), stores(nil, "a", "b"), ran("c", step.ToolReply{Status: "succeeded", Result: "x", Truncated: true}))
		require.NoError(t, f.olderStore(t.Context()))
		require.Len(t, f.found, 2)
		require.Equal(t, repair.Difference{
			Kind: repair.Records, In: repair.Store, Count: 2, State: repair.Mended,
			Detail: "the store is older: it lacks 2 records that the workflow wrote", Action: "write them again from the history",
		}, f.found[0])
		require.Equal(t, []any{repair.Lost, repair.Unmendable}, []any{f.found[1].Kind, f.found[1].State})
		require.Contains(t, f.found[1].Detail, "the result of call c after its first")
		require.True(t, f.older)
		require.Len(t, f.shelf.records["t"], 3)
	})
	t.Run("no record, but the thread's row", func(t *testing.T) {
		f := run(newFixture(t).runs(knows()), stores(&step.Row{Number: 1, Status: store.ThreadOpen}))
		require.NoError(t, f.olderStore(t.Context()))
		require.Equal(t, "the store is older: it lacks the last change of the thread itself", f.found[0].Detail)
		require.Equal(t, store.ThreadOpen, f.shelf.threads["t"].Status)
	})
	t.Run("no record, but that it was closed", func(t *testing.T) {
		f := newFixture(t).stores(wrote("a").Records...).runs(knows())
		f.shelf.threads["t"] = store.Thread{ID: "t", Status: store.ThreadOpen}
		run(f, stores(&step.Row{Number: 1, Status: store.ThreadClosed}, "a"))
		require.NoError(t, f.olderStore(t.Context()))
		require.Len(t, f.found, 1)
		require.Equal(t, store.ThreadClosed, f.shelf.threads["t"].Status)
		f.found = nil
		require.NoError(t, f.olderStore(t.Context()))
		require.Empty(t, f.found)
	})
}

// TestWritings: earlier runs are read until the store has something of one, and people are told if one cannot be.
func TestWritings(t *testing.T) {
	begun := func(f *fixture, previous string, ids ...string) *fixture {
		f.last.previous, f.last.began, f.last.steps = previous, noon, []recordedStep{stores(nil, ids...)}
		return f
	}
	t.Run("the first run is the last that is read", func(t *testing.T) {
		all, lost, err := begun(newFixture(t).runs(knows()), "", "a").writings(t.Context())
		require.NoError(t, err)
		require.Empty(t, lost)
		require.Equal(t, [][]string{{"a"}}, idsOf(all))
	})
	t.Run("so is one of which the store has anything", func(t *testing.T) {
		all, lost, err := begun(newFixture(t).stores(wrote("a").Records...).runs(knows()), "before", "a", "b").writings(t.Context())
		require.NoError(t, err)
		require.Empty(t, lost)
		require.Equal(t, [][]string{{"a", "b"}}, idsOf(all))
	})
	t.Run("retention has removed it", func(t *testing.T) {
		all, lost, err := begun(newFixture(t).runs(knows()), "before", "a").writings(t.Context())
		require.NoError(t, err)
		require.Equal(t, "what the thread wrote before 2026-03-01T12:00:00Z: Temporal's retention has removed the workflow run", lost)
		require.Len(t, all, 1)
	})
	t.Run("it cannot be replayed", func(t *testing.T) {
		f := begun(newFixture(t).runs(knows()), "before", "a")
		f.temporal.runs["before"] = []*historypb.HistoryEvent{{EventId: 1}}
		_, lost, err := f.writings(t.Context())
		require.NoError(t, err)
		require.Contains(t, lost, "what the thread wrote before 2026-03-01T12:00:00Z: replaying the history")
	})
	t.Run("it cannot be read", func(t *testing.T) {
		f := begun(newFixture(t).runs(knows()), "before", "a")
		f.temporal.runs["before"], f.temporal.errs["before"] = []*historypb.HistoryEvent{{EventId: 1}}, errors.New("no")
		_, _, err := f.writings(t.Context())
		require.Error(t, err)
	})
	t.Run("what is lost matters only if records are missing", func(t *testing.T) {
		f := begun(newFixture(t).stores().runs(knows()), "before")
		require.NoError(t, f.olderStore(t.Context()))
		require.Empty(t, f.found)
		begun(f, "before", "a")
		require.NoError(t, f.olderStore(t.Context()))
		require.Len(t, f.found, 2)
		require.Contains(t, f.found[1].Detail, "Temporal's retention")
	})
}

// TestBegunActivities: a step that a worker has begun has surely stored its start after a while, or if the store is older.
func TestBegunActivities(t *testing.T) {
	scheduled, started := enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, enumspb.PENDING_ACTIVITY_STATE_STARTED
	desc := &workflowservice.DescribeWorkflowExecutionResponse{}
	for _, p := range []struct {
		id, typ string
		state   enumspb.PendingActivityState
		attempt int32
		ago     time.Duration
	}{
		{"long", step.ActivityRunTool, started, 1, silent + time.Second},
		{"just", step.ActivityRunTool, started, 1, 0},
		{"waits", step.ActivityRunTool, scheduled, 1, time.Hour},
		{"retried", step.ActivityRunTool, scheduled, 2, time.Hour},
		{"model", step.ActivityCallModel, started, 1, time.Hour},
	} {
		desc.PendingActivities = append(desc.PendingActivities, &workflowpb.PendingActivityInfo{
			ActivityId: p.id, ActivityType: &commonpb.ActivityType{Name: p.typ}, State: p.state, Attempt: p.attempt, LastStartedTime: timestamppb.New(time.Now().Add(-p.ago)),
		})
	}
	require.Equal(t, map[string]bool{"long": true, "retried": true}, begunActivities(desc, step.ActivityRunTool, false))
	require.Equal(t, map[string]bool{"long": true, "retried": true, "just": true}, begunActivities(desc, step.ActivityRunTool, true))
}

// TestStartedTools: the start of a tool that may have run is written again, so that it does not run twice.
func TestStartedTools(t *testing.T) {
	pending := func(id, typ string) *workflowpb.PendingActivityInfo {
		return &workflowpb.PendingActivityInfo{
			ActivityId: id, ActivityType: &commonpb.ActivityType{Name: typ}, State: enumspb.PENDING_ACTIVITY_STATE_STARTED, LastStartedTime: timestamppb.New(noon),
		}
	}
	fixture := func(t *testing.T) *fixture {
		t.Helper()
		state := knows()
		state.Tasks.Running = []event.Task{
			{ID: "t~t1", ToolCallID: "task", Tool: "build", StartedAt: noon}, {ID: "t~t2", ToolCallID: "gone"}, {ID: "t~t3", ToolCallID: "sub", SubAgent: "clerk"},
		}
		f := newFixture(t).stores().runs(state)
		f.temporal.add(signals.TaskWorkflowID("acme", "t~t1"), enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING).PendingActivities = []*workflowpb.PendingActivityInfo{pending("1", step.ActivityRunTask)}
		f.desc.PendingActivities = []*workflowpb.PendingActivityInfo{pending("7", step.ActivityRunTool)}
		f.history = &historypb.History{Events: []*historypb.HistoryEvent{{EventTime: timestamppb.New(noon), Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityId: "7", Input: encode(t, step.Tool{ToolCallID: "call", ToolName: "sh"})},
		}}}}
		return f
	}
	t.Run("of turns and of tasks", func(t *testing.T) {
		f := fixture(t)
		require.NoError(t, f.startedTools(t.Context(), false))
		require.Len(t, f.found, 1)
		require.Equal(t, "the store is older: it lacks the starts of the calls call, task", f.found[0].Detail)
		require.Len(t, f.shelf.appended, 2)
		start := f.shelf.appended[0].ToolStart
		require.Equal(t, []any{"call", "sh", store.ToolStarted, noon}, []any{start.ToolCallID, start.ToolName, start.Status, start.StartedAt})
	})
	t.Run("not those that the store has", func(t *testing.T) {
		f := fixture(t)
		f.shelf.logs["call"], f.shelf.logs["task"] = store.ToolLog{}, store.ToolLog{}
		require.NoError(t, f.startedTools(t.Context(), false))
		require.Empty(t, f.found)
	})
	t.Run("not of a workflow that has ended", func(t *testing.T) {
		f := fixture(t)
		f.info.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		require.NoError(t, f.startedTools(t.Context(), false))
		require.Empty(t, f.found)
	})
	t.Run("an input that cannot be read stops it: the tool might run twice", func(t *testing.T) {
		f := fixture(t)
		f.history.Events[0].GetActivityTaskScheduledEventAttributes().Input = encode(t, "not a tool")
		require.ErrorContains(t, f.startedTools(t.Context(), false), "reading the input of activity 7")
	})
}
