package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// rowIs changes the row of thread t, as the store has it and as it was read.
func (f *fixture) rowIs(change func(*store.Thread)) *fixture {
	change(&f.row)
	f.shelf.threads["t"] = f.row
	return f
}

func kindsOf(found []repair.Difference) (out []repair.Kind) {
	for _, d := range found {
		out = append(out, d.Kind)
	}
	return out
}

// TestWithoutWorkflow: an open thread is started again with what the store has. Nothing starts a thread that is closed, was erased, or
// whose parent starts it.
func TestWithoutWorkflow(t *testing.T) {
	open := func(t *testing.T) *fixture {
		t.Helper()
		return newFixture(t).stores(says("e1", "e1"), ended("e1", signals.TurnCompleted), says("e2", "e2")).rowIs(func(r *store.Thread) {
			r.Status, r.Title, r.Agents, r.Metadata = store.ThreadOpen, "T", []string{"a"}, json.RawMessage(`{"k":1}`)
		})
	}
	t.Run("open", func(t *testing.T) {
		f := open(t)
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.Workflow}, kindsOf(f.found))
		require.Equal(t, "Temporal is older: it has no workflow of this open thread, which has 2 events, 1 of them with turns that have not ended", f.found[0].Detail)
		require.Equal(t, []signals.Start{{Title: "T", Agents: []string{"a"}, Metadata: json.RawMessage(`{"k":1}`)}}, f.temporal.started)
		require.Len(t, f.temporal.restored, 1)
		require.Equal(t, []string{"e1"}, f.temporal.restored[0].Known)
		require.Equal(t, []string{"e2"}, postIDs(f.temporal.restored[0].Posts))
	})
	t.Run("only the first part starts it", func(t *testing.T) {
		f := open(t)
		for i := range signals.MaxRestorePosts {
			f.stores(says(fmt.Sprint("m", i), fmt.Sprint("m", i)))
		}
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, repair.Mended, f.found[0].State, f.found[0].Error)
		require.Len(t, f.temporal.restored, 2)
		require.Len(t, f.temporal.started, 1)
	})
	t.Run("what is lost is told too", func(t *testing.T) {
		f := open(t)
		f.stores(record("x", event.TypeTask, "e1", event.Task{ID: "t~t1", State: event.TaskRunning}))
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.Workflow, repair.Lost}, kindsOf(f.found))
	})
	t.Run("closed", func(t *testing.T) {
		f := open(t).rowIs(func(r *store.Thread) { r.Status = store.ThreadClosed })
		require.NoError(t, f.compare(t.Context()))
		require.Empty(t, f.found)
	})
	t.Run("of a sub-agent", func(t *testing.T) {
		f := open(t).rowIs(func(r *store.Thread) { r.Parent = "p" })
		require.NoError(t, f.compare(t.Context()))
		require.Len(t, f.found, 1)
		require.Equal(t, repair.Unmendable, f.found[0].State)
		require.Contains(t, f.found[0].Detail, "thread p starts it again")
		require.Empty(t, f.temporal.started)
	})
	t.Run("erased", func(t *testing.T) {
		f := open(t)
		f.temporal.add(job.EraseWorkflowID("acme", "t"), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.Erased}, kindsOf(f.found))
		require.Equal(t, repair.Temporal, f.found[0].In)
		require.Equal(t, []job.EraseStep{{Namespace: "acme", ThreadID: "t", By: repairer, Late: true}}, f.erased)
		require.Empty(t, f.temporal.started)
	})
	t.Run("whether it was erased is not known", func(t *testing.T) {
		f := open(t)
		f.temporal.errs[job.EraseWorkflowID("acme", "t")] = errors.New("no")
		require.Error(t, f.compare(t.Context()))
		require.Empty(t, f.temporal.started)
	})
	t.Run("neither side has it", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.compare(t.Context()))
		require.Empty(t, f.found)
	})
}

// TestErased: what was erased is erased again, wherever it came back.
func TestErased(t *testing.T) {
	t.Run("the store has erased it, and Temporal has a workflow", func(t *testing.T) {
		f := newFixture(t).runs(knows())
		f.shelf.erased["t"] = true
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.Erased}, kindsOf(f.found))
		require.Equal(t, repair.Store, f.found[0].In)
		require.Len(t, f.erased, 1)
	})
	t.Run("somebody has started it again", func(t *testing.T) {
		f := newFixture(t).stores().runs(knows())
		f.temporal.add(job.EraseWorkflowID("acme", "t"), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.Erased}, kindsOf(f.found))
	})
	t.Run("its erasure runs", func(t *testing.T) {
		f := newFixture(t)
		f.eraseErr = serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "", "")
		f.eraseAgain(t.Context(), repair.Store)
		require.Equal(t, repair.Mended, f.found[0].State)
		f.eraseErr = errors.New("no")
		f.eraseAgain(t.Context(), repair.Store)
		require.Equal(t, repair.Failed, f.found[1].State)
	})
}

// TestOlderTemporal: a workflow that runs is told what the store has.
func TestOlderTemporal(t *testing.T) {
	open := func(r *store.Thread) { r.Status, r.Title = store.ThreadOpen, "T" }
	t.Run("nothing", func(t *testing.T) {
		state := knows("e1")
		state.Title = "T"
		f := newFixture(t).stores(says("e1", "e1")).rowIs(open).runs(state)
		require.NoError(t, f.olderTemporal(t.Context()))
		require.Empty(t, f.found)
		require.Empty(t, f.temporal.restored)
	})
	t.Run("events and a changed row, at once", func(t *testing.T) {
		f := newFixture(t).stores(says("e1", "e1"), says("e2", "e2"), ended("e2", signals.TurnCompleted), says("e3", "e3")).rowIs(open).runs(knows("e1"))
		require.NoError(t, f.olderTemporal(t.Context()))
		require.Equal(t, []repair.Kind{repair.Events, repair.Turns, repair.Row}, kindsOf(f.found))
		require.Len(t, f.temporal.restored, 1)
		require.Equal(t, "T", f.temporal.restored[0].Title)
		require.Empty(t, f.temporal.started, "it runs")
	})
	t.Run("only losses", func(t *testing.T) {
		state := knows("e1")
		state.Title = "T"
		f := newFixture(t).stores(says("e1", "e1"), record("x", event.TypeTask, "other", event.Task{ID: "t~t1", State: event.TaskRunning})).rowIs(open).runs(state)
		require.NoError(t, f.olderTemporal(t.Context()))
		require.Equal(t, []repair.Kind{repair.Lost}, kindsOf(f.found))
		require.Empty(t, f.temporal.restored)
	})
	t.Run("a workflow that has ended", func(t *testing.T) {
		ended := func(status enumspb.WorkflowExecutionStatus, change func(*fixture)) []repair.Difference {
			f := newFixture(t).stores(says("e1", "e1")).rowIs(open).runs(knows())
			f.info.Status = status
			change(f)
			require.NoError(t, f.olderTemporal(t.Context()))
			return f.found
		}
		none := func(*fixture) {}
		found := ended(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, none)
		require.Equal(t, []repair.Kind{repair.Ended}, kindsOf(found))
		require.Equal(t, repair.Unmendable, found[0].State)
		require.Contains(t, found[0].Detail, "is terminated")
		require.Empty(t, ended(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, none))
		require.Empty(t, ended(enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, func(f *fixture) { f.last.state.Closing = &signals.Control{} }))
		require.Empty(t, ended(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, func(f *fixture) { f.row.Status = store.ThreadClosed }))
		require.Empty(t, ended(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, func(f *fixture) { f.stored = false }))
	})
}

// TestClosedRuns: the workflow of a closed thread is terminated, unless it is about to end.
func TestClosedRuns(t *testing.T) {
	closed := func(state *thread.State) *fixture {
		f := newFixture(t).stores().rowIs(func(r *store.Thread) { r.Status = store.ThreadClosed }).runs(state)
		require.NoError(t, f.olderTemporal(t.Context()))
		return f
	}
	f := closed(knows())
	require.Equal(t, []repair.Kind{repair.Closed}, kindsOf(f.found))
	require.Equal(t, []string{"thread/acme/t run"}, f.temporal.terminated)
	t.Run("one that closes", func(t *testing.T) {
		state := knows()
		state.Closing = &signals.Control{}
		require.Empty(t, closed(state).temporal.terminated)
	})
	t.Run("a sub-agent's that has answered", func(t *testing.T) {
		state := knows()
		state.ParentLink.Parent = &step.Parent{ToolCallID: "c"}
		require.Empty(t, closed(state).temporal.terminated)
	})
	t.Run("not a sub-agent's that works", func(t *testing.T) {
		state := knows()
		state.ParentLink.Parent = &step.Parent{ToolCallID: "c"}
		state.Turns.Current = turnOf("e")
		require.Len(t, closed(state).temporal.terminated, 1)
	})
}

// TestChanges: the row of the store is told only if it is newer than what the workflow knows.
func TestChanges(t *testing.T) {
	state := func(change func(*thread.State)) *thread.State {
		s := knows()
		s.Title, s.Roster.Agents, s.Metadata = "T", []string{"a"}, json.RawMessage(`{"a":1,"b":2}`)
		change(s)
		return s
	}
	fixture := func() *fixture {
		return newFixture(t).stores().rowIs(func(r *store.Thread) {
			r.Title, r.Agents, r.Metadata = "T", []string{"a"}, json.RawMessage(`{"b":2, "a":1}`)
		})
	}
	for name, tt := range map[string]struct {
		change func(*thread.State)
		want   []string
	}{
		"nothing, in another form":     {func(*thread.State) {}, nil},
		"the title":                    {func(s *thread.State) { s.Title = "U" }, []string{"title"}},
		"all":                          {func(s *thread.State) { s.Title, s.Roster.Agents, s.Metadata = "", nil, nil }, []string{"title", "agents", "metadata"}},
		"the order of agents":          {func(s *thread.State) { s.Roster.Agents = []string{"b", "a"} }, []string{"agents"}},
		"a change is yet to be stored": {func(s *thread.State) { s.Title, s.Outbox.Row = "U", &step.Row{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fixture().changes(t.Context(), state(tt.change))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	other := func(s *thread.State) { s.Title = "U" }
	t.Run("the store is older", func(t *testing.T) {
		f := fixture()
		f.older = true
		got, err := f.changes(t.Context(), state(other))
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("the row has changed meanwhile", func(t *testing.T) {
		f := fixture()
		f.row.Title = "before"
		got, err := f.changes(t.Context(), state(other))
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("what the store does not have is no change", func(t *testing.T) {
		got, err := newFixture(t).stores().changes(t.Context(), state(other))
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

// TestNotBegun: a workflow that no worker has begun knows what it was sent, and no more.
func TestNotBegun(t *testing.T) {
	began := func(continued string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{ContinuedExecutionRunId: continued},
		}}
	}
	signal := func(name string, input *commonpb.Payloads) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: name, Input: input},
		}}
	}
	compare := func(t *testing.T, status string, history ...*historypb.HistoryEvent) (*fixture, error) {
		t.Helper()
		f := newFixture(t).stores(says("e1", "e1"), says("e2", "e2")).rowIs(func(r *store.Thread) { r.Status = status })
		f.temporal.add(f.workflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, history...)
		return f, f.compare(t.Context())
	}
	t.Run("a post has started it", func(t *testing.T) {
		f, err := compare(t, store.ThreadOpen, began(""), signal(signals.SignalPost, encode(t, signals.Post{ID: "e1"})))
		require.NoError(t, err)
		require.Equal(t, []repair.Kind{repair.Turns}, kindsOf(f.found))
		require.Equal(t, []string{"e1", "e2"}, postIDs(f.temporal.restored[0].Posts))
	})
	t.Run("a repair has told a part", func(t *testing.T) {
		f, err := compare(t, store.ThreadOpen, began(""), signal(signals.SignalRestore, encode(t, signals.Restore{Posts: []signals.Post{{ID: "e1"}}})))
		require.NoError(t, err)
		require.Equal(t, []string{"e2"}, postIDs(f.temporal.restored[0].Posts))
	})
	t.Run("a repair has told all", func(t *testing.T) {
		f, err := compare(t, store.ThreadOpen, began(""), signal(signals.SignalRestore, encode(t, signals.Restore{Posts: []signals.Post{{ID: "e1"}, {ID: "e2"}}})))
		require.NoError(t, err)
		require.Empty(t, f.found)
	})
	t.Run("it continues a run", func(t *testing.T) {
		f, err := compare(t, store.ThreadOpen, began("before"))
		require.NoError(t, err)
		require.Empty(t, f.found)
	})
	t.Run("the thread is closed", func(t *testing.T) {
		f, err := compare(t, store.ThreadClosed, began(""))
		require.NoError(t, err)
		require.Empty(t, f.found)
	})
	t.Run("what it was told cannot be read", func(t *testing.T) {
		f, err := compare(t, store.ThreadOpen, began(""), signal(signals.SignalRestore, encode(t, 5)))
		require.ErrorContains(t, err, "reading signal restore")
		require.Empty(t, f.temporal.restored)
	})
}

// TestDifferAll: differences that are mended together are mended once, and fail together.
func TestDifferAll(t *testing.T) {
	all := []repair.Difference{{Kind: repair.Events}, {Kind: repair.Lost}, {Kind: repair.Row}}
	states := func(apply bool, err error) (out []repair.State, mended int) {
		f := newFixture(t)
		f.apply = apply
		f.differAll(t.Context(), all, func(context.Context) error { mended++; return err })
		for _, d := range f.found {
			out = append(out, d.State)
		}
		return out, mended
	}
	got, n := states(true, nil)
	require.Equal(t, []repair.State{repair.Mended, repair.Unmendable, repair.Mended}, got)
	require.Equal(t, 1, n)
	got, n = states(true, errors.New("no"))
	require.Equal(t, []repair.State{repair.Failed, repair.Unmendable, repair.Failed}, got)
	require.Equal(t, 1, n)
	got, n = states(false, nil)
	require.Equal(t, []repair.State{repair.Found, repair.Unmendable, repair.Found}, got)
	require.Zero(t, n)
}
