package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

func postIDs(posts []signals.Post) (out []string) {
	for _, p := range posts {
		out = append(out, p.ID)
	}
	return out
}

// TestLookEvents: of the events that the workflow does not know, those whose turns have ended are only named, so that nothing of
// them runs again, and the others are posted again.
func TestLookEvents(t *testing.T) {
	joined := ended("e1", signals.TurnCompleted)
	joined.Payload, _ = json.Marshal(event.TurnEnded{EventID: "e1", Joined: []string{"e2"}, Status: "completed"})
	tests := map[string]struct {
		records    []event.Record
		state      *thread.State
		redo       string
		ended      []string
		open, lost []string
	}{
		"an ended turn and an open one":          {records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnCompleted), says("e2", "e2")}, ended: []string{"e1"}, open: []string{"e2"}},
		"a turn that failed has ended":           {records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnFailed)}, ended: []string{"e1"}},
		"one that a rule debounces has not":      {records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnHeld)}, open: []string{"e1"}},
		"one that was debounced, and then ended": {records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnHeld), ended("e1", signals.TurnCompleted)}, ended: []string{"e1"}},
		"a retry does not go on: a post would begin with the attempt that failed": {
			records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnFailed), record("r", event.TypeStatus, "e1", event.StatusChange{Status: event.StatusRetried})}, ended: []string{"e1"},
		},
		"what the workflow knows is not told":     {records: []event.Record{says("e1", "e1"), says("e2", "e2"), says("e3", "e3")}, state: knows("e1", "e2"), open: []string{"e3"}},
		"the oldest first":                        {records: []event.Record{says("e1", "e1"), says("e2", "e2")}, open: []string{"e1", "e2"}},
		"a message that joined an open turn":      {records: []event.Record{says("e1", "e1"), says("e2", "e1")}, open: []string{"e1", "e2"}},
		"a message that joined an ended turn":     {records: []event.Record{says("e1", "e1"), says("e2", "e1"), joined}, ended: []string{"e1", "e2"}},
		"one that joined a turn it knows":         {records: []event.Record{says("e1", "e1"), says("e2", "e1")}, state: knows("e1"), open: []string{"e2"}},
		"replies are no events":                   {records: []event.Record{says("e1", "e1"), replies("e1")}, open: []string{"e1"}},
		"a change of status is none either":       {records: []event.Record{record("s", event.TypeStatus, "s", event.StatusChange{Status: event.StatusOpened})}},
		"the event that is done again is left to": {records: []event.Record{says("e1", "e1"), ended("e1", signals.TurnCompleted), says("e2", "e2")}, redo: "e1", open: []string{"e2"}},
		"an event that cannot be read": {
			records: []event.Record{{ID: "e1", EventID: "e1", Type: event.TypeMessage, Payload: json.RawMessage(`{"role":5}`)}},
			lost:    []string{"event e1, whose turn has not ended: its content cannot be read"},
		},
		"an event that nobody may post": {
			records: []event.Record{record("e1", event.TypeMessage, "e1", event.Message{SenderType: event.CreatedByUser, SenderID: "ann"})},
			lost:    []string{"event e1, whose turn has not ended: it cannot be posted again"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, err := newFixture(t).stores(tt.records...).look(t.Context(), tt.state, tt.redo)
			require.NoError(t, err)
			require.Equal(t, tt.ended, k.ended)
			require.Equal(t, tt.open, postIDs(k.open))
			require.Len(t, k.lost, len(tt.lost))
			for i, what := range tt.lost {
				require.Contains(t, k.lost[i], what)
			}
		})
	}
	t.Run("events are posted as they were", func(t *testing.T) {
		at := noon.UnixMilli()
		env := record("v1", event.TypeEnv, "v1", event.EnvEvent{ID: "v1", Type: "door.opened", Timestamp: at, Payload: json.RawMessage(`{"n":1}`)})
		env.TraceID, env.ParentEventID = "tr", "parent"
		custom := record("x1", "acme.custom", "x1", map[string]int{"a": 1})
		k, err := newFixture(t).stores(says("e1", "e1"), says("e2", "e1"), env, custom).look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Empty(t, k.lost)
		require.Len(t, k.open, 4)
		require.JSONEq(t, `{"threadId":"t","senderId":"ann","senderType":"user","content":"text of e1"}`, string(k.open[0].Payload))
		require.Equal(t, event.OnBusySteer, k.open[1].OnBusy, "it joins the turn again")
		require.Empty(t, k.open[0].OnBusy)
		require.Equal(t, []string{"door.opened", "tr", "parent", `{"n":1}`}, []string{k.open[2].Type, k.open[2].TraceID, k.open[2].ParentEventID, string(k.open[2].Payload)})
		require.Equal(t, at, k.open[2].Timestamp)
		require.Equal(t, []string{"acme.custom", `{"a":1}`}, []string{k.open[3].Type, string(k.open[3].Payload)})
	})
	t.Run("an error of the store is no loss", func(t *testing.T) {
		f := newFixture(t).stores(says("e1", "e1"))
		f.shelf.err = errors.New("no")
		_, err := f.look(t.Context(), nil, "")
		require.Error(t, err)
	})
}

// TestLookBack: records are read back to the newest event whose turn the workflow has ended, and to those of its turns in progress.
func TestLookBack(t *testing.T) {
	many := func(prefix string, n int) (out []event.Record) {
		for i := range n {
			out = append(out, record(fmt.Sprint(prefix, i), event.TypeLLMCall, "e", nil))
		}
		return out
	}
	look := func(t *testing.T, state *thread.State, records ...event.Record) looked {
		t.Helper()
		got, err := newFixture(t).stores(records...).records(t.Context(), state)
		require.NoError(t, err)
		return got
	}
	t.Run("no further than an event that ended", func(t *testing.T) {
		got := look(t, knows("e"), append(append(many("a", 2*recordsPerPage), says("e", "e")), many("b", 10)...)...)
		require.Len(t, got.records, recordsPerPage, "a page has it")
		require.Equal(t, "b9", got.records[len(got.records)-1].ID, "the oldest first")
		require.False(t, got.cut)
	})
	t.Run("further, for a turn in progress", func(t *testing.T) {
		state := knows("e", "old")
		state.Turns.Parked = []*thread.Turn{turnOf("old")}
		f := newFixture(t).stores(append(append([]event.Record{says("forgotten", "forgotten"), says("old", "old")}, many("a", 2*recordsPerPage)...), says("e", "e"), says("new", "new"))...)
		got, err := f.records(t.Context(), state)
		require.NoError(t, err)
		require.Len(t, got.records, 2*recordsPerPage+4)
		k, err := f.look(t.Context(), state, "")
		require.NoError(t, err)
		require.Equal(t, []string{"new"}, postIDs(k.open), "what is older than what it knows, it knew once")
		require.Empty(t, k.ended)
	})
	t.Run("an event that waits for its turn is none that ended", func(t *testing.T) {
		state := knows("e")
		state.Inbox.Queue = []thread.Queued{{Item: event.Item{ID: "e"}}}
		require.Len(t, look(t, state, append(many("a", recordsPerPage), says("e", "e"))...).records, recordsPerPage+1)
	})
	t.Run("a workflow that is missing knows nothing", func(t *testing.T) {
		got := look(t, nil, append(many("a", 2*recordsPerPage), says("e", "e"))...)
		require.Len(t, got.records, 2*recordsPerPage+1)
		require.Equal(t, 2*recordsPerPage+1, got.unknown)
		require.False(t, got.cut)
	})
	t.Run("there is a limit, and people are told", func(t *testing.T) {
		f := newFixture(t).stores(many("a", maxLook+1)...)
		got, err := f.records(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, got.records, maxLook)
		require.True(t, got.cut)
		k, err := f.look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Equal(t, []string{"turns that had not ended before the thread's newest 20000 records, which were not compared"}, k.lost)
	})
	t.Run("no limit is exceeded by what the workflow has ended", func(t *testing.T) {
		state := knows("e", "old")
		state.Turns.Parked = []*thread.Turn{turnOf("old")}
		require.False(t, look(t, state, append(many("a", maxLook+1), says("e", "e"))...).cut)
	})
}

// TestAnswered: decisions, results and answers of turns that go on are told, in the form in which a thread takes them.
func TestAnswered(t *testing.T) {
	made := func(a event.Approval) event.Record {
		a.ToolCallID, a.By = "c", strings.TrimSpace(a.By+" ")
		return record("a", event.TypeApproval, "e", a)
	}
	result := func(by any) event.Record {
		return record("r", event.TypeMessage, "e", event.Message{ToolCallID: "c", Content: "out", IsError: true, ReplyToMessageID: "e.0.1", Metadata: map[string]any{"by": by}})
	}
	approve, deny := event.DecisionApprove, event.DecisionDeny
	tests := map[string]struct {
		record    event.Record
		decisions []signals.Decide
		results   []signals.ToolResult
		inputs    []signals.InputAnswers
	}{
		"an approval": {
			record:    made(event.Approval{Decision: approve, Scope: event.ScopeOnce, Reason: "fine", By: "ann", Round: 2, Arguments: `{"a":1}`}),
			decisions: []signals.Decide{{ToolCallID: "c", Decision: approve, Scope: event.ScopeOnce, Reason: "fine", By: "ann", Round: 2, Args: json.RawMessage(`{"a":1}`)}},
		},
		"a denial has no scope": {
			record:    made(event.Approval{Decision: deny, Scope: event.ScopeSession, By: "ann"}),
			decisions: []signals.Decide{{ToolCallID: "c", Decision: deny, By: "ann"}},
		},
		"what expired is denied, so that it does not run": {
			record:    made(event.Approval{Decision: event.DecisionExpired, Scope: event.ScopeOnce}),
			decisions: []signals.Decide{{ToolCallID: "c", Decision: deny, By: repairer, Reason: "the request expired"}},
		},
		"a grant decides again":               {record: made(event.Approval{Decision: approve, By: "ann", Grant: "g"})},
		"a sub-agent's thread has its own":    {record: made(event.Approval{Decision: approve, By: "ann", ThreadID: "t.s1"})},
		"a revocation approves nothing":       {record: made(event.Approval{Decision: event.DecisionRevoked, By: "ann"})},
		"what no thread takes is left out":    {record: made(event.Approval{Decision: approve})},
		"so is what is withdrawn":             {record: made(event.Approval{Decision: event.DecisionWithdrawn, By: "ann"})},
		"a turn that has ended needs nothing": {record: made(event.Approval{Decision: approve, By: "ann"}).In("ended")},
		"a record that belongs to no turn":    {record: made(event.Approval{Decision: approve, By: "ann"}).In("")},
		"a client's result": {
			record: result("phone"), results: []signals.ToolResult{{ToolCallID: "c", Output: "out", IsError: true, By: "phone"}},
		},
		"a tool's result has its step": {record: result(nil)},
		"an answer": {
			record: record(recordid.InputReceived("c", 2), event.TypeInputReceived, "e", event.InputReceived{ToolCallID: "c", Round: 2, By: "ann", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}}),
			inputs: []signals.InputAnswers{{ToolCallID: "c", Round: 2, By: "ann", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}}},
		},
		"one that was withdrawn": {record: record("i", event.TypeInputReceived, "e", event.InputReceived{ToolCallID: "c", Withdrawn: true})},
	}
	inProgress := func(id string) bool { return id == "e" }
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := &known{}
			k.answered([]event.Record{tt.record}, nil, inProgress)
			require.Equal(t, &known{decisions: tt.decisions, results: tt.results, inputs: tt.inputs}, k)
		})
	}
	t.Run("what the workflow knows is not told again", func(t *testing.T) {
		s := answering()
		s.Decisions.Settled = append(s.Decisions.Settled, thread.Settled{Key: recordid.InputReceived("asked", 1)})
		answer := func(call string) event.Record {
			return record(recordid.InputReceived(call, 1), event.TypeInputReceived, "e", event.InputReceived{ToolCallID: call, Round: 1})
		}
		result := func(call string) event.Record {
			return record(recordid.Result(call), event.TypeMessage, "e", event.Message{ToolCallID: call, ReplyToMessageID: "e.0.2", Metadata: map[string]any{"by": "phone"}})
		}
		k := &known{}
		k.answered([]event.Record{
			record("a", event.TypeApproval, "e", event.Approval{ToolCallID: "ready", Decision: approve, By: "ann"}),
			answer("asked"), answer("told"), answer("new"), result("told"), result("ready"), result("client"),
		}, s, inProgress)
		require.Empty(t, k.decisions)
		require.Len(t, k.inputs, 1)
		require.Equal(t, "new", k.inputs[0].ToolCallID)
		require.Len(t, k.results, 1)
		require.Equal(t, "client", k.results[0].ToolCallID)
	})
}

// TestNumber: numbers of tasks are used once, except that turns that run again get their own.
func TestNumber(t *testing.T) {
	task := func(n int, eventID string) event.Record {
		return record(fmt.Sprint("task", n), event.TypeTask, eventID, event.Task{ID: signals.TaskID("t", n), State: event.TaskRunning})
	}
	open := map[string]bool{"open": true, "open2": true}
	for name, tt := range map[string]struct {
		records []event.Record
		want    int
	}{
		"no task":                             {nil, 0},
		"of ended turns: the last":            {[]event.Record{task(3, "e1"), task(9, "e2"), task(4, "e3")}, 9},
		"of a turn that runs again: before":   {[]event.Record{task(3, "e1"), task(4, "open"), task(5, "open")}, 3},
		"of several: before the first":        {[]event.Record{task(5, "open2"), task(4, "open")}, 3},
		"unless a later one has ended":        {[]event.Record{task(4, "open"), task(5, "e1")}, 5},
		"ends have no number of their own":    {[]event.Record{task(3, "e1"), record("x", event.TypeTask, "e1", event.Task{ID: signals.TaskID("t", 9), State: event.TaskCompleted})}, 3},
		"what is no task's id counts nothing": {[]event.Record{record("x", event.TypeTask, "e1", event.Task{ID: "t~t0", State: event.TaskRunning})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &known{}
			k.number(tt.records, open)
			require.Equal(t, tt.want, k.taskNumber)
			require.Zero(t, k.childNumber)
		})
	}
	t.Run("sub-agents of tasks, of calls and of the store", func(t *testing.T) {
		child := func(n int) string { return signals.SubThreadID("acme", "t", n) }
		task := record("t1", event.TypeTask, "e", event.Task{ID: signals.TaskID("t", 1), State: event.TaskRunning, ThreadID: child(40)})
		call := func(n int) event.Record {
			return record("m", event.TypeMessage, "e", event.Message{ToolCallID: "c", Metadata: map[string]any{"threadId": child(n)}})
		}
		k := &known{}
		k.number([]event.Record{task, call(39)}, nil)
		require.Equal(t, 40, k.childNumber)
		k.number([]event.Record{call(41), record("m", event.TypeMessage, "e", event.Message{ToolCallID: "c"})}, nil)
		require.Equal(t, 41, k.childNumber)
		f := newFixture(t).stores(call(3))
		f.subs = []string{child(2), child(50), child(5)}
		for _, id := range f.subs {
			f.shelf.put(id)
		}
		got, err := f.look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Equal(t, 50, got.childNumber)
	})
}

// TestLostTasks: people are told of each task that had not ended and that nothing starts again.
func TestLostTasks(t *testing.T) {
	task := func(n int, state event.TaskState, eventID string) event.Record {
		return record(fmt.Sprint("t", n, state), event.TypeTask, eventID, event.Task{ID: signals.TaskID("t", n), State: state, SubAgent: "clerk"})
	}
	records := []event.Record{
		task(1, event.TaskRunning, "e"), task(2, event.TaskRunning, "e"), task(3, event.TaskRunning, "again"),
		task(1, event.TaskFailed, "e"), task(4, event.TaskRunning, "e"), record("x", event.TypeTask, "e", event.Task{ID: "none", State: event.TaskRunning}),
	}
	inProgress := func(id string) bool { return id == "again" }
	lost := func(state *thread.State) []string {
		k := &known{}
		k.lostTasks(records, state, inProgress)
		return k.lost
	}
	what := "background task t~t%d (clerk), which had not ended: it does not run again, and its end is not reported"
	require.Equal(t, []string{fmt.Sprintf(what, 4), fmt.Sprintf(what, 2)}, lost(nil), "not one that has ended, or whose turn runs again")
	state := knows()
	state.Tasks.Count = 3
	require.Equal(t, []string{fmt.Sprintf(what, 4)}, lost(state), "a workflow knows the tasks that it started")
	state.Tasks.Count = 4
	require.Empty(t, lost(state))
}

// TestEndedTurns: a turn that, according to the store, was interrupted or has failed must not go on.
func TestEndedTurns(t *testing.T) {
	by := record("s", event.TypeStatus, "e", event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "too long"})
	failed := record(recordid.TurnEnded("e"), event.TypeTurnEnded, "e", event.TurnEnded{EventID: "e", Status: string(signals.TurnFailed), Error: "broken"})
	current := func() *thread.State {
		s := knows("e")
		s.Turns.Current = turnOf("e")
		return s
	}
	queued, retried, interrupted, parked := knows("e"), knows("e"), current(), knows("e")
	queued.Inbox.Queue = []thread.Queued{{Item: event.Item{ID: "e"}}}
	retried.Inbox.Queue = []thread.Queued{{Item: event.Item{ID: "e", Attempt: 1}}}
	interrupted.Turns.Current.Interrupted = &signals.Control{}
	parked.Turns.Parked = []*thread.Turn{turnOf("e")}
	interrupt := func(by, reason string) []signals.Control {
		return []signals.Control{{Action: signals.ControlInterrupt, By: by, Reason: reason, EventID: "e"}}
	}
	for name, tt := range map[string]struct {
		state   *thread.State
		records []event.Record
		want    []signals.Control
		failed  int
	}{
		"interrupted by a person":          {current(), []event.Record{by, ended("e", signals.TurnInterrupted)}, interrupt("ann", "too long"), 0},
		"a turn that waits for people":     {parked, []event.Record{by, ended("e", signals.TurnInterrupted)}, interrupt("ann", "too long"), 0},
		"an event that waits for its turn": {queued, []event.Record{ended("e", signals.TurnInterrupted)}, interrupt(repairer, ""), 0},
		"failed":                           {current(), []event.Record{failed}, interrupt(repairer, "broken"), 1},
		"completed: it runs to its end":    {current(), []event.Record{ended("e", signals.TurnCompleted)}, nil, 0},
		"interrupted in both":              {interrupted, []event.Record{by, ended("e", signals.TurnInterrupted)}, nil, 0},
		"it is retried since":              {retried, []event.Record{failed}, nil, 1},
		"another event":                    {current(), []event.Record{ended("other", signals.TurnFailed)}, nil, 1},
		"a reason that no thread takes": {
			current(),
			[]event.Record{record("s", event.TypeStatus, "e", event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: strings.Repeat("x", 1<<20)}), ended("e", signals.TurnInterrupted)},
			interrupt("ann", "the turn has ended"), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &known{}
			k.endedTurns(tt.records, tt.state)
			require.Equal(t, &known{interrupts: tt.want, failed: tt.failed}, k)
		})
	}
}

// TestEndedTasks: a task that has ended in the store is completed with what the store has of its end.
func TestEndedTasks(t *testing.T) {
	task, endID := signals.TaskID("t", 1), signals.EventID("acme", signals.TaskID("t", 1), "ended")
	end := func(e event.Task) event.Record {
		e.ID = task
		return record(recordid.TaskEnded(task), event.TypeTask, "e", e)
	}
	told := func(result string) event.Record {
		raw, err := json.Marshal(event.TaskEnd{TaskID: task, Result: json.RawMessage(result)})
		require.NoError(t, err)
		return record(endID, event.TypeEnv, endID, event.EnvEvent{Type: "task.completed", Payload: raw})
	}
	for name, tt := range map[string]struct {
		records []event.Record
		want    []signals.CompleteTask
	}{
		"it runs":              {nil, nil},
		"it completed":         {[]event.Record{end(event.Task{State: event.TaskCompleted, By: "ann"}), told(`{"n":1}`)}, []signals.CompleteTask{{TaskID: task, By: "ann", Result: json.RawMessage(`{"n":1}`)}}},
		"it has failed":        {[]event.Record{end(event.Task{State: event.TaskFailed, Error: "no"}), told(`1`)}, []signals.CompleteTask{{TaskID: task, Error: "no"}}},
		"without a result":     {[]event.Record{end(event.Task{State: event.TaskCompleted})}, []signals.CompleteTask{{TaskID: task}}},
		"told, and not ended":  {[]event.Record{told(`1`)}, nil},
		"what no thread takes": {[]event.Record{end(event.Task{State: event.TaskFailed, Error: strings.Repeat("x", signals.MaxTaskError+1)})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			state := knows()
			state.Tasks.Running = []event.Task{{ID: task}}
			k := &known{}
			require.NoError(t, newFixture(t).stores(tt.records...).endedTasks(t.Context(), state, k))
			require.Equal(t, tt.want, k.tasks)
		})
	}
}

// TestLostSubs: a call that is made again starts the same sub-agent again, which is told what its own thread has.
func TestLostSubs(t *testing.T) {
	const sub = "t.s1"
	first := thread.FirstIDOf("acme", sub, "c")
	fixture := func(t *testing.T, records ...event.Record) *fixture {
		t.Helper()
		f := newFixture(t).stores(append([]event.Record{says("e", "e"), replies("e", "c")}, records...)...)
		f.shelf.put(sub, record(first, event.TypeMessage, first, event.Message{ID: first, SenderType: event.CreatedByAgent, SenderID: "bot"}), ended(first, signals.TurnCompleted), saysIn(sub, "s2", "s2"))
		row := f.shelf.threads[sub]
		row.Metadata = json.RawMessage(`{"parentToolCallId":"c"}`)
		f.shelf.threads[sub], f.subs = row, []string{sub}
		return f
	}
	t.Run("with what it knows, but for the call's own message", func(t *testing.T) {
		k, err := fixture(t).look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Len(t, k.subs, 1)
		require.Equal(t, []string{"c", sub}, []string{k.subs[0].ToolCallID, k.subs[0].ThreadID})
		var r signals.Restore
		require.NoError(t, json.Unmarshal(k.subs[0].Restore, &r))
		require.Equal(t, []string{"s2"}, postIDs(r.Posts))
		require.Empty(t, r.Known)
	})
	t.Run("not if the turn has ended", func(t *testing.T) {
		k, err := fixture(t, ended("e", signals.TurnCompleted)).look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Empty(t, k.subs)
		require.Equal(t, 1, k.childNumber, "its number is not used again")
	})
	t.Run("not if the workflow knows it", func(t *testing.T) {
		state := knows("e")
		state.Turns.Current = turnOf("e")
		state.Turns.Current.Runs[0].Step = 0
		k, err := fixture(t).look(t.Context(), state, "")
		require.NoError(t, err)
		require.Len(t, k.subs, 1)
		state.Children.SubAgents = []thread.SubAgent{{ThreadID: sub}}
		k, err = fixture(t).look(t.Context(), state, "")
		require.NoError(t, err)
		require.Empty(t, k.subs)
	})
	t.Run("not another call's", func(t *testing.T) {
		f := fixture(t)
		row := f.shelf.threads[sub]
		row.Metadata = json.RawMessage(`{"parentToolCallId":5}`)
		f.shelf.threads[sub] = row
		k, err := f.look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Empty(t, k.subs)
	})
	t.Run("more than a start may have is told later", func(t *testing.T) {
		f := fixture(t)
		for i := range signals.MaxRestorePosts {
			f.shelf.put(sub, saysIn(sub, fmt.Sprint("m", i), fmt.Sprint("m", i)))
		}
		k, err := f.look(t.Context(), nil, "")
		require.NoError(t, err)
		require.Len(t, k.subs, 1)
		require.Nil(t, k.subs[0].Restore)
	})
}

func TestTextOf(t *testing.T) {
	for metadata, want := range map[string]string{`{"k":"v"}`: "v", `{"k":1}`: "", `{}`: "", `[1]`: "", ``: "", `{`: ""} {
		require.Equal(t, want, textOf(json.RawMessage(metadata), "k"), metadata)
	}
}
