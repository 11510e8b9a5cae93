package reconcile

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/workflows"
)

// TestProcessed: the last events of a history are processed, wherever it ends.
func TestProcessed(t *testing.T) {
	const (
		started   = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
		signaled  = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
		closed    = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
		scheduled = enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
		begun     = enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED
		done      = enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	)
	for name, tt := range map[string]struct{ has, added []enumspb.EventType }{
		"after a signal":             {[]enumspb.EventType{started, signaled}, []enumspb.EventType{scheduled, begun, done, scheduled, begun}},
		"with a task that waits":     {[]enumspb.EventType{started, scheduled}, []enumspb.EventType{begun, done, scheduled, begun}},
		"in a task":                  {[]enumspb.EventType{started, scheduled, begun}, []enumspb.EventType{done, scheduled, begun}},
		"what has ended is complete": {[]enumspb.EventType{started, closed}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &historypb.History{}
			for i, typ := range tt.has {
				h.Events = append(h.Events, &historypb.HistoryEvent{EventId: int64(i) + 1, EventType: typ})
			}
			out := processed(h)
			require.Len(t, h.GetEvents(), len(tt.has), "the history itself stays as it was read")
			var types []enumspb.EventType
			last := map[enumspb.EventType]int64{}
			for i, e := range out.GetEvents() {
				require.Equal(t, int64(i)+1, e.GetEventId())
				types = append(types, e.GetEventType())
				last[e.GetEventType()] = e.GetEventId()
				if e.GetEventType() == begun && i >= len(tt.has) {
					require.Equal(t, last[scheduled], e.GetWorkflowTaskStartedEventAttributes().GetScheduledEventId())
				}
				if e.GetEventType() == done {
					require.Equal(t, last[begun], e.GetWorkflowTaskCompletedEventAttributes().GetStartedEventId())
				}
			}
			require.Equal(t, slices.Concat(tt.has, tt.added), types)
		})
	}
}

// TestEnds: these are all the events that Temporal has for the end of a run.
func TestEnds(t *testing.T) {
	var got []string
	for value, name := range enumspb.EventType_name {
		if ends(enumspb.EventType(value)) {
			got = append(got, strings.TrimPrefix(name, "EVENT_TYPE_WORKFLOW_EXECUTION_"))
		}
	}
	require.ElementsMatch(t, []string{"COMPLETED", "FAILED", "TIMED_OUT", "CANCELED", "TERMINATED", "CONTINUED_AS_NEW"}, got)
}

// TestParts: the records that each step is given to store are found, and there is a place for each result.
func TestParts(t *testing.T) {
	f := step.Flush{Records: []event.Record{{ID: "r"}}}
	run := step.Run{Flush: f}
	for _, tt := range []struct{ input, reply any }{
		{step.Model{Run: run}, &step.ModelReply{}},
		{step.Tool{Run: run}, &step.ToolReply{}},
		{step.Plan{Run: run}, &step.PlanReply{}},
		{step.Title{Flush: f}, &step.TitleReply{}},
		{step.End{Flush: f}, &step.EndReply{}},
		{step.Event{Flush: f}, new(any)},
		{step.Record{Flush: f}, nil},
		{step.Hook{Flush: f}, nil},
	} {
		flush, reply := parts(tt.input)
		require.Equal(t, &f, flush, "%T", tt.input)
		require.Equal(t, tt.reply, reply, "%T", tt.input)
	}
	flush, reply := parts(step.Delegate{})
	require.Nil(t, flush)
	require.Equal(t, &step.DelegateReply{}, reply)
	flush, reply = parts(step.Task{})
	require.Nil(t, flush)
	require.Equal(t, &step.TaskReply{}, reply)
	flush, reply = parts("something else")
	require.Nil(t, flush)
	require.Nil(t, reply)
}

// stores is a step that received records to store.
func stores(row *step.Row, ids ...string) recordedStep {
	f := &step.Flush{Row: row}
	for _, id := range ids {
		f.Records = append(f.Records, event.Record{ID: id})
	}
	return recordedStep{at: noon, flush: f}
}

// ran is a call of a tool that returned a result.
func ran(call string, reply step.ToolReply) recordedStep {
	reply.ToolCallID = call
	return recordedStep{at: noon, input: step.Tool{ToolCallID: call, ToolName: "sh"}, reply: &reply, done: true}
}

func idsOf(all []written) (out [][]string) {
	for _, w := range all {
		var ids []string
		for _, rec := range w.Records {
			ids = append(ids, rec.ID)
		}
		out = append(out, ids)
	}
	return out
}

// TestWritten: what a run has stored is told once and in order, and what is pending at its end is not.
func TestWritten(t *testing.T) {
	row := func(n int64) *step.Row { return &step.Row{Number: n} }
	written := func(state *thread.State, steps ...recordedStep) []written {
		return (&run{state: state, steps: steps}).written(activities.History{})
	}
	t.Run("records that several steps received are stored by the first", func(t *testing.T) {
		got := written(knows(), stores(nil, "a", "b"), stores(nil, "b", "c"), stores(nil, "c"))
		require.Equal(t, [][]string{{"a", "b"}, {"c"}}, idsOf(got))
		require.False(t, got[0].result)
	})
	t.Run("without what is pending", func(t *testing.T) {
		state := knows()
		state.Outbox.Pending = []event.Record{{ID: "b"}}
		require.Equal(t, [][]string{{"a"}}, idsOf(written(state, stores(nil, "a", "b"), stores(nil, "b"))))
	})
	t.Run("a result has its place between them", func(t *testing.T) {
		got := written(knows(), stores(nil, "a"), ran("c", step.ToolReply{Status: "succeeded", Result: "out"}), stores(nil, "b"))
		require.Equal(t, [][]string{{"a"}, {recordid.Result("c")}, {"b"}}, idsOf(got))
		require.True(t, got[1].result)
		require.Len(t, got[1].Logs, 1)
	})
	t.Run("a step that still runs has none", func(t *testing.T) {
		require.Empty(t, written(knows(), recordedStep{at: noon, input: step.Tool{ToolCallID: "c"}}))
	})
	t.Run("each row once, if it is newer", func(t *testing.T) {
		got := written(knows(), stores(row(1)), stores(row(1)), stores(row(3), "a"), stores(row(2)))
		require.Len(t, got, 2)
		require.Equal(t, int64(1), got[0].row.Number)
		require.Equal(t, int64(3), got[1].row.Number)
	})
	t.Run("not the row that is pending", func(t *testing.T) {
		state := knows()
		state.Outbox.Row = row(2)
		got := written(state, stores(row(1)), stores(row(2)))
		require.Len(t, got, 1)
		require.Equal(t, int64(1), got[0].row.Number)
	})
}

// TestTell: arguments of a call are those with which it ran as the model asked. What a person edited, or was cut, is none.
func TestTell(t *testing.T) {
	decided := ran("decided", step.ToolReply{Status: "succeeded", Arguments: `{}`})
	decided.input = step.Tool{ToolCallID: "decided", DecisionID: "d"}
	running := ran("running", step.ToolReply{Status: "succeeded", Arguments: `{}`})
	running.done = false
	h := activities.History{Arguments: map[string]string{}, Answered: map[string]bool{}}
	(&run{steps: []recordedStep{
		stores(nil, "r"), ran("whole", step.ToolReply{Status: "succeeded", Arguments: `{"a":1}`}), ran("cut", step.ToolReply{Status: "failed", Arguments: `{"a`, Truncated: true}),
		ran("asks", step.ToolReply{Arguments: `{"b":2}`}), decided, running, ran("none", step.ToolReply{Status: "denied"}),
	}}).tell(h)
	require.Equal(t, map[string]string{"whole": `{"a":1}`, "asks": `{"b":2}`}, h.Arguments)
	require.Equal(t, map[string]bool{
		"r": true, recordid.Result("whole"): true, recordid.Result("cut"): true, recordid.Result("decided"): true, recordid.Result("none"): true,
	}, h.Answered, "one that asks for input has no result yet")
}

func TestReplayFails(t *testing.T) {
	f := newFixture(t)
	f.cfg.Workflows = &workflows.Workflows{NameStep: workflows.Unregistered}
	t.Run("a broken history is an error, also if the SDK panics", func(t *testing.T) {
		_, err := f.replay(&historypb.History{Events: []*historypb.HistoryEvent{{EventId: 1, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}}})
		require.ErrorContains(t, err, "replaying the history: ")
	})
	t.Run("so is one without a thread", func(t *testing.T) {
		h := historyFrom(t, "closed")
		h.Events = h.GetEvents()[:1]
		h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().Name = "other"
		_, err := f.replay(h)
		require.ErrorContains(t, err, "unable to find workflow type: other")
	})
}

// historyFrom reads a history that is stored for the tests of replays.
func historyFrom(t *testing.T, name string) *historypb.History {
	t.Helper()
	file, err := os.Open("../../../tests/testdata/histories/v0.1/" + name + ".json")
	require.NoError(t, err)
	defer file.Close()
	h, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}

// TestOlderStoreMended: a store that lost all of a thread, or what was newest, has it again after a repair, and a second repair finds
// nothing.
func TestOlderStoreMended(t *testing.T) {
	for name, status := range map[string]enumspb.WorkflowExecutionStatus{"closed": enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "tools": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			h := historyFrom(t, name)
			f.cfg.Workflows = &workflows.Workflows{NameStep: workflows.Unregistered}
			id := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
			namespace, threadID, err := signals.ParseWorkflowID(id)
			require.NoError(t, err)
			f.key = store.Key{Namespace: namespace, ThreadID: threadID}
			f.temporal.add(id, status, h.GetEvents()...)
			compare := func() []repair.Difference {
				t.Helper()
				f.found = nil
				require.NoError(t, f.compare(t.Context()))
				return f.found
			}
			f.apply = false
			found := compare()
			require.NotEmpty(t, found)
			require.Equal(t, repair.Found, found[0].State, found)
			require.Empty(t, f.shelf.appended, "without apply, nothing is written")
			f.apply = true
			require.Equal(t, repair.Mended, compare()[0].State)
			all := slices.Clone(f.shelf.records[threadID])
			require.Len(t, all, found[0].Count)
			require.Equal(t, map[string]string{"closed": store.ThreadClosed, "tools": store.ThreadOpen}[name], f.shelf.threads[threadID].Status)
			require.Empty(t, compare())

			kept := 0 // those of the first half of the batches, since a store has all or none of a batch
			for _, b := range f.shelf.appended[:len(f.shelf.appended)/2] {
				kept += len(b.Records)
			}
			require.NotZero(t, kept)
			f.shelf.records[threadID] = slices.Clone(all[:kept])
			found = compare()
			require.Equal(t, []repair.State{repair.Mended}, []repair.State{found[0].State})
			require.Equal(t, len(all)-kept, found[0].Count)
			require.Len(t, f.shelf.records[threadID], len(all))
			require.Empty(t, compare())
		})
	}
}

func TestChangedRow(t *testing.T) {
	row := store.Thread{Title: "T", Agents: []string{"a"}, Metadata: json.RawMessage(`{}`), Head: 1}
	same := row
	same.Head, same.UpdatedAt = 2, noon
	require.False(t, changed(row, same), "new records change nothing that the workflow knows")
	for _, change := range []func(*store.Thread){
		func(r *store.Thread) { r.Title = "U" }, func(r *store.Thread) { r.Agents = nil }, func(r *store.Thread) { r.Metadata = nil },
	} {
		other := row
		change(&other)
		require.True(t, changed(row, other))
	}
}
