package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func taskCall(id, tool string) *Call {
	return &Call{Stage: Ready, Plan: PlannedCall{ID: id, Name: tool, By: ByTask, Task: &TaskPlan{Tool: tool, Deadline: time.Hour}}}
}

// startTask starts a background task of a tool.
func startTask(t *testing.T, s *State, r *Run, tool string) event.Task {
	t.Helper()
	c := of(s, taskCall("c"+s.newID(t0), tool))
	in := c.StartTask(t0)
	c.TaskStarted(t0, in.Task)
	return in.Task
}

// tasking is a thread whose agent is in its turn, with nothing left to store.
func tasking(t *testing.T) (*State, *Run) {
	t.Helper()
	s := newState("alice")
	p := says("e1", "go")
	p.TraceID = "trace"
	arrive(t, s, p)
	s.Turn.Enter(t0, pass)
	s.Flushed(s.Flush())
	r := s.Turn.Runs[0]
	r.MessageID = "e1.0.1"
	return s, r
}

// running is a thread in which one task runs, with nothing left to store.
func running(t *testing.T) (*State, event.Task) {
	t.Helper()
	s, r := tasking(t)
	task := startTask(t, s, r, "build")
	s.Flushed(s.Flush())
	return s, task
}

func TestStartTask(t *testing.T) {
	s, r := tasking(t)
	tools := []string{"build"}
	s.Turn.Tools, r.Edited = &tools, true
	c := of(s, taskCall("c1", "build"))
	c.Plan.Task.Title, c.Plan.Task.Detached = "Build it", true
	in := c.StartTask(at(5))
	task := event.Task{
		ID: "t1~t1", Title: "Build it", State: event.TaskRunning, Tool: "build", Agent: "alice", ToolCallID: "c1", TraceID: "trace",
		Detached: true, StartedAt: at(5), Deadline: at(3605),
	}
	require.Equal(t, TaskStep{Thread: s.Ref(), Task: task, EventID: "e1", MessageID: "e1.0.1", Tools: &tools, Edited: true}, in, "S3-01")
	require.Equal(t, task, payload[event.Task](t, pending(s, event.TypeTask)[0]))
	require.Equal(t, "t1~t1", s.Pending[0].ID)
	require.Equal(t, Ready, c.Stage, "the call has no result before the task runs")

	c.TaskStarted(at(5), in.Task)
	require.Equal(t, Ran, c.Stage, "S3-01 the call has its result at once")
	require.False(t, c.Failed)
	m := payload[event.Message](t, pending(s, event.TypeMessage)[0])
	require.Equal(t, "c1", m.ToolCallID)
	require.False(t, m.IsError)
	require.Equal(t, "Started in the background as task t1~t1. Do not wait for it: you will be told when it has completed or failed (by 2026-01-02T04:04:10Z at the latest).", m.Content)
	require.Equal(t, 1, s.View().Tasks)
	require.Contains(t, s.Details(), "task `t1~t1` runs since")

	c = of(s, taskCall("c2", "build"))
	require.Equal(t, "t1~t2", c.StartTask(at(6)).Task.ID)
	require.Equal(t, "build", s.Tasks[1].Title, "who gives no title gets the tool's name")
	require.Equal(t, "t1~t3", c.StartTask(at(6)).Task.ID, "no id is used twice, whichever run it is")
}

func TestTaskNotStarted(t *testing.T) {
	s, _ := tasking(t)
	c := of(s, taskCall("c1", "build"))
	in := c.StartTask(t0)
	c.TaskNotStarted(t0, in.Task, "there is one already")
	require.Empty(t, s.Tasks)
	require.Equal(t, event.TaskFailed, s.TasksEnded[0].State)
	require.True(t, c.Failed)
	require.Equal(t, map[string]string{"c1": "Error: the task could not be started: there is one already"}, results(t, s))
	require.Empty(t, s.Queue, "the agent hears of it as the result")
}

// TestTaskEnds: whoever says how a task has ended, the thread's agent is told once.
func TestTaskEnds(t *testing.T) {
	const id = "t1~t1"
	report := func(r TaskReply) func(*State) {
		return func(s *State) { _ = s.TaskReported(at(60), TaskReport{TaskID: id, TaskReply: r}) }
	}
	for _, tc := range []struct {
		name    string
		end     func(*State)
		state   event.TaskState
		typ     string
		payload string
		err, by string
	}{
		{
			"S3-54 it completes", report(TaskReply{Result: json.RawMessage(`{"ok":true}`)}),
			event.TaskCompleted, "background_task.completed", `{"taskId":"t1~t1","title":"build","tool":"build","result":{"ok":true}}`, "", "",
		},
		{
			"it completes with nothing to say", report(TaskReply{}),
			event.TaskCompleted, "background_task.completed", `{"taskId":"t1~t1","title":"build","tool":"build","result":null}`, "", "",
		},
		{
			"it fails", report(TaskReply{Error: "disk full"}),
			event.TaskFailed, "background_task.failed", `{"taskId":"t1~t1","title":"build","tool":"build","error":"disk full"}`, "disk full", "",
		},
		{
			"its workflow is cancelled", report(TaskReply{Cancelled: true, Error: "the task was cancelled"}),
			event.TaskCancelled, "background_task.failed", `{"taskId":"t1~t1","title":"build","tool":"build","error":"the task was cancelled"}`, "the task was cancelled", "",
		},
		{
			"its workflow was told from outside", report(TaskReply{Result: json.RawMessage(`1`), By: "ci"}),
			event.TaskCompleted, "background_task.completed", `{"taskId":"t1~t1","title":"build","tool":"build","result":1}`, "", "ci",
		},
		{
			"S3-54 the thread is told from outside", func(s *State) {
				s.CompleteTask(at(60), signals.CompleteTask{TaskID: id, Result: json.RawMessage(`[1]`), By: "ci"})
			},
			event.TaskCompleted, "background_task.completed", `{"taskId":"t1~t1","title":"build","tool":"build","result":[1]}`, "", "ci",
		},
		{
			"the thread is told of a failure by nobody", func(s *State) { s.CompleteTask(at(60), signals.CompleteTask{TaskID: id, Error: "no"}) },
			event.TaskFailed, "background_task.failed", `{"taskId":"t1~t1","title":"build","tool":"build","error":"no"}`, "no", "outside",
		},
		{
			"a person cancels it", func(s *State) {
				s.CancelTask(at(60), signals.CancelTask{TaskID: id, By: "ann", Reason: "too slow"}, true)
			},
			event.TaskCancelled, "background_task.failed", `{"taskId":"t1~t1","title":"build","tool":"build","error":"cancelled by ann: too slow"}`,
			"cancelled by ann: too slow", "ann",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, task := running(t)
			s = copied(t, s)
			for range 2 {
				tc.end(s)
			}
			now := at(60)
			task.State, task.Error, task.By, task.EndedAt = tc.state, tc.err, tc.by, &now
			require.Empty(t, s.Tasks)
			require.Equal(t, []event.Task{task}, s.TasksEnded)
			require.Equal(t, []string{"t1~t1.ended"}, recordIDs(s.Pending), "S3-10 once, however often it is told")
			require.Equal(t, task, payload[event.Task](t, s.Pending[0]))
			require.Equal(t, "trace", s.Pending[0].TraceID, "S2-40")
			require.Len(t, s.Queue, 1)
			it := s.Queue[0].Item
			require.Equal(t, "trace", it.TraceID)
			require.Equal(t, task.ToolCallID, it.ParentEventID, "S2-41")
			e := envs(s)[0]
			require.Equal(t, tc.typ, e.Type, "X4")
			require.JSONEq(t, tc.payload, string(e.Payload))
			require.Equal(t, event.EnvMetadata{TriggerSessionID: "t1", TriggerAgentName: "alice", Source: event.SourceTool}, e.Metadata, "S3-54 S3-07")
			require.Equal(t, now.UnixMilli(), e.Timestamp)
			require.NoError(t, e.Validate())
			require.NoError(t, signals.CheckEventID("id", e.ID))

			reply := TaskReply{Result: json.RawMessage(`"else"`), Error: "late"}
			require.NoError(t, s.TaskReported(at(61), TaskReport{TaskID: id, TaskReply: reply}), "a late report changes nothing")
			require.Equal(t, []event.Task{task}, s.TasksEnded)
			require.Len(t, s.Queue, 1)
		})
	}
}

func TestLongResultOfATask(t *testing.T) {
	s, task := running(t)
	result := rawJSON(strings.Repeat("x", signals.MaxPayload/2))
	require.NoError(t, s.TaskReported(at(1), TaskReport{TaskID: task.ID, TaskReply: TaskReply{Result: result}}))
	stored := pending(s, event.TypeEnv)
	require.Len(t, stored, 1)
	var whole event.TaskEnd
	require.NoError(t, json.Unmarshal(payload[event.EnvEvent](t, stored[0]).Payload, &whole))
	require.Equal(t, string(result), string(whole.Result), "the record has all of it")
	require.JSONEq(t, `{"taskId":"t1~t1","title":"build","tool":"build","result":null}`, string(envs(s)[0].Payload), "rules go by the rest")

	s, task = running(t)
	require.NoError(t, s.TaskReported(at(1), TaskReport{TaskID: task.ID, TaskReply: TaskReply{Error: strings.Repeat("x", 1<<20)}}))
	require.Less(t, len(s.TasksEnded[0].Error), maxWhy+10)
	require.Less(t, len(s.Queue[0].Item.Payload), maxWhy+500)
}

func TestReportOfAnUnknownTask(t *testing.T) {
	s, _ := running(t)
	require.EqualError(t, s.TaskReported(t0, TaskReport{TaskID: "t1~t9"}), `no background task "t1~t9" in this thread`)
	require.Empty(t, s.Queue)
}

func TestCompleteTaskOutcomes(t *testing.T) {
	const id = "t1~t1"
	done, failed := signals.CompleteTask{TaskID: id, Result: json.RawMessage(`1`)}, signals.CompleteTask{TaskID: id, Error: "no"}
	for _, tc := range []struct {
		name   string
		before func(*State)
		then   signals.CompleteTask
		want   signals.TaskOutcome
		state  event.TaskState
	}{
		{"it runs", func(*State) {}, done, signals.TaskAccepted, event.TaskCompleted},
		{"it runs, and fails", func(*State) {}, failed, signals.TaskAccepted, event.TaskFailed},
		{"the same again", func(s *State) { s.CompleteTask(t0, done) }, done, signals.TaskAlreadyEnded, event.TaskCompleted},
		{"the same failure again", func(s *State) { s.CompleteTask(t0, failed) }, failed, signals.TaskAlreadyEnded, event.TaskFailed},
		{"it had failed", func(s *State) { s.CompleteTask(t0, failed) }, done, signals.TaskConflict, event.TaskFailed},
		{"it had completed", func(s *State) { s.CompleteTask(t0, done) }, failed, signals.TaskConflict, event.TaskCompleted},
		{
			"it had been cancelled", func(s *State) { s.CancelTask(t0, signals.CancelTask{TaskID: id, By: "ann"}, true) },
			failed, signals.TaskConflict, event.TaskCancelled,
		},
		{"there is none", func(*State) {}, signals.CompleteTask{TaskID: "t1~t2"}, signals.TaskNotFound, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := running(t)
			tc.before(s)
			records, queue := len(s.Pending), len(s.Queue)
			out := s.CompleteTask(t0, tc.then)
			require.Equal(t, tc.want, out.Result)
			require.Equal(t, tc.state, out.Task.State)
			if tc.want != signals.TaskAccepted {
				require.Len(t, s.Pending, records, "it changes nothing")
				require.Len(t, s.Queue, queue)
			}
		})
	}
}

func TestCancelTaskOutcomes(t *testing.T) {
	s, task := running(t)
	cancel := signals.CancelTask{TaskID: task.ID, By: "ann"}
	out := s.CancelTask(t0, cancel, false)
	require.Equal(t, signals.TaskAccepted, out.Result)
	require.Equal(t, "cancelled by ann", out.Task.Error)
	require.Empty(t, s.Queue, "an agent that cancels its own task is not told again")
	require.Equal(t, signals.TaskAlreadyEnded, s.CancelTask(t0, cancel, true).Result)
	require.Empty(t, s.Queue)
	require.Equal(t, signals.TaskNotFound, s.CancelTask(t0, signals.CancelTask{TaskID: "t1~t2", By: "ann"}, true).Result)

	s, task = running(t)
	s.CompleteTask(t0, signals.CompleteTask{TaskID: task.ID})
	out = s.CancelTask(t0, cancel, true)
	require.Equal(t, signals.TaskConflict, out.Result)
	require.Equal(t, event.TaskCompleted, out.Task.State)
}

// TestBoundsOnTasks: how many run, and how many are remembered.
func TestBoundsOnTasks(t *testing.T) {
	s, r := tasking(t)
	for range maxTasks {
		require.Empty(t, s.CheckTask())
		startTask(t, s, r, "build")
	}
	require.Equal(t, "Error: 100 background tasks run in this thread, the limit. Wait for one of them, or cancel one.", s.CheckTask())
	for i := range maxTasks {
		require.Equal(t, signals.TaskAccepted, s.CompleteTask(t0, signals.CompleteTask{TaskID: signals.TaskID("t1", i+1)}).Result)
		require.Empty(t, s.CheckTask(), "there is room again")
	}
	require.Len(t, s.TasksEnded, maxTasksEnded)
	require.Equal(t, signals.TaskNotFound, s.CompleteTask(t0, signals.CompleteTask{TaskID: "t1~t1"}).Result, "it ended long ago")
	require.Error(t, s.TaskReported(t0, TaskReport{TaskID: "t1~t1"}))
	require.Equal(t, signals.TaskAlreadyEnded, s.CompleteTask(t0, signals.CompleteTask{TaskID: signals.TaskID("t1", 100)}).Result)
	require.Len(t, s.Queue, maxTasks, "of each its agent is told")
}

func TestAgentAsksAboutTasks(t *testing.T) {
	const whole = "t1~t1"
	for _, tc := range []struct {
		name, tool, id string
		ended          bool
		want           string
		failed, stops  bool
	}{
		{name: "S3-54 all of them", tool: ToolListTasks, want: `{"tasks":[{"id":"t1~t1",`},
		{name: "one", tool: ToolGetTask, id: whole, want: `{"id":"t1~t1",`},
		{name: "one by its short id", tool: ToolGetTask, id: "t1", want: `"state":"running"`},
		{name: "one that has ended", tool: ToolGetTask, id: "t1", ended: true, want: `"state":"completed"`},
		{name: "one that there is not", tool: ToolGetTask, id: "t7", want: `Error: no task "t7" in this thread, or it ended long ago. Use list_tasks.`, failed: true},
		{name: "one of another thread", tool: ToolGetTask, id: "t2~t1", want: `Error: no task "t2~t1" in this thread`, failed: true},
		{name: "one without an id", tool: ToolGetTask, want: `Error: no task "" in this thread`, failed: true},
		{name: "to cancel it", tool: ToolCancelTask, id: "t1", want: "Task t1~t1 was cancelled.", stops: true},
		{name: "to cancel one that has ended", tool: ToolCancelTask, id: whole, ended: true, want: "Task t1~t1 has ended already: it is completed."},
		{name: "to cancel one that there is not", tool: ToolCancelTask, id: "t7", want: `Error: no task "t7"`, failed: true},
		{name: "to cancel one of another thread", tool: ToolCancelTask, id: "t2~t1", want: `Error: no task "t2~t1"`, failed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, r := tasking(t)
			task := startTask(t, s, r, "build")
			if tc.ended {
				s.CompleteTask(t0, signals.CompleteTask{TaskID: task.ID})
			}
			s.Flushed(s.Flush())
			queue := len(s.Queue)
			c := of(s, &Call{Stage: Ready, Plan: PlannedCall{ID: "c9", Name: tc.tool, By: ByThread, TaskID: tc.id}})
			stop := c.Answer(t0)
			require.Equal(t, tc.stops, stop != nil)
			if tc.stops {
				require.Equal(t, whole, stop.ID)
				require.Equal(t, "cancelled by alice", stop.Error)
			}
			require.Len(t, s.Queue, queue, "nobody is woken by its own doing")
			require.Equal(t, Ran, c.Stage)
			require.Equal(t, tc.failed, c.Failed)
			m := payload[event.Message](t, pending(s, event.TypeMessage)[0])
			require.Contains(t, m.Content, tc.want)
			require.Equal(t, tc.failed, m.IsError)
			require.Equal(t, "c9.result", m.ID)
		})
	}
}

// TestTasksOfAThreadThatCloses: all end, but those that outlive it.
func TestTasksOfAThreadThatCloses(t *testing.T) {
	s, _ := tasking(t)
	for i := range 5 {
		c := of(s, taskCall(fmt.Sprintf("c%d", i), "build"))
		c.Plan.Task.Detached = i%2 == 1
		c.StartTask(t0)
	}
	s.Flushed(s.Flush())
	stop := s.CloseTasks(at(1))
	require.Len(t, stop, 3)
	for i, task := range stop {
		require.Equal(t, signals.TaskID("t1", 2*i+1), task.ID)
		require.Equal(t, event.TaskCancelled, task.State)
		require.Equal(t, "the thread was closed", task.Error)
	}
	require.Equal(t, []string{"t1~t1.ended", "t1~t3.ended", "t1~t5.ended"}, recordIDs(s.Pending))
	require.Empty(t, s.Queue, "there is nobody to be told")
	require.Len(t, s.Tasks, 2, "they go on")
}

// TestRecordsOfATaskInAClosedThread: they are what the thread itself would have stored. One
// that was cancelled, since it ends with its thread, is no event.
func TestRecordsOfATaskInAClosedThread(t *testing.T) {
	for name, reply := range map[string]TaskReply{
		"completed": {Result: json.RawMessage(`{"ok":true}`)}, "failed": {Error: "no", By: "ci"}, "cancelled": {Cancelled: true, Error: "the task was cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			s, task := running(t)
			require.NoError(t, s.TaskReported(at(60), TaskReport{TaskID: task.ID, TaskReply: reply}))
			q, _ := s.Next(at(60))
			s.Begin(at(60), q)
			want := s.Pending
			if reply.Cancelled {
				want = want[:1]
			}
			require.Equal(t, asJSON(t, want), asJSON(t, TaskRecords(s.Ref(), task, reply, at(60))))
			task.Detached = true
			require.Len(t, TaskRecords(s.Ref(), task, reply, at(60)), 2)
		})
	}
}

// TestOverdueTasks: what nothing is heard of by its deadline has failed, unless this run of
// the workflow hears it when the task ends.
func TestOverdueTasks(t *testing.T) {
	s, r := tasking(t)
	task := startTask(t, s, r, "build")
	of(s, subTask("c2")).DelegateTask(t0)
	_, due := s.NextDue()
	require.False(t, due, "this run has started them")
	s = copied(t, s)
	at, due := s.NextDue()
	require.True(t, due)
	require.Equal(t, task.Deadline.Add(taskGrace), at, "its own report may come a little later")
	s.Release(at.Add(-time.Second))
	require.Len(t, s.Tasks, 2)
	s.Release(at)
	require.Empty(t, s.Tasks)
	require.Empty(t, s.Subs)
	for _, ended := range s.TasksEnded {
		require.Equal(t, event.TaskFailed, ended.State)
		require.Contains(t, ended.Error, "its workflow has ended without a report")
	}
	require.Len(t, s.Queue, 2, "its agent is told")
	require.NoError(t, s.TaskReported(at, TaskReport{TaskID: task.ID}), "a report that comes yet changes nothing")
	_, due = s.NextDue()
	require.False(t, due)
}
