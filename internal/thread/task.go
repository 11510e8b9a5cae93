package thread

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// Bounds on background tasks.
const (
	maxTasks       = 100
	maxTasksEnded  = 50
	maxTasksListed = 20
)

// CheckTask says why no more background tasks can be started.
func (s *State) CheckTask() string {
	if len(s.Tasks) >= maxTasks {
		return fmt.Sprintf("Error: %d background tasks run in this thread, the limit. Wait for one of them, or cancel one.", maxTasks)
	}
	return ""
}

// StartTask makes a background task of a call.
func (s *State) StartTask(now time.Time, r *Run, c *Call) TaskStep {
	plan := c.Plan.Task
	task := s.newTask(now, r, c)
	task.Title, task.Tool = cmp.Or(plan.Title, plan.Tool), plan.Tool
	return s.startTask(now, r, c, task)
}

func (s *State) newTask(now time.Time, r *Run, c *Call) event.Task {
	s.TaskCount++
	return event.Task{
		ID: signals.TaskID(s.ThreadID, s.TaskCount), State: event.TaskRunning, Agent: r.Agent, ToolCallID: c.Plan.ID,
		TraceID: s.Turn.Item.TraceID, Detached: c.Plan.Task.Detached, StartedAt: now, Deadline: now.Add(c.Plan.Task.Deadline),
	}
}

func (s *State) startTask(now time.Time, r *Run, c *Call, task event.Task) TaskStep {
	s.Tasks = append(s.Tasks, task)
	if s.watched == nil {
		s.watched = map[string]bool{}
	}
	s.watched[task.ID] = true
	s.record(task.ID, event.TypeTask, task.TraceID, s.Turn.Item.ID, now, task)
	step := TaskStep{
		Thread: s.Ref(), Task: task, EventID: s.Turn.Item.ID, Root: s.Turn.foreign(), MessageID: r.MessageID, Tools: s.Turn.Tools, Edited: r.Edited,
		WorkingDirectory: s.workingDirectory(),
	}
	if s.Guarded(c) {
		// That has stored the decision.
		step.DecisionID = c.DecisionID
	}
	return step
}

// TaskStarted gives the call that started a task its result: the agent goes on at once.
func (s *State) TaskStarted(now time.Time, r *Run, c *Call, task event.Task) {
	text := fmt.Sprintf("Started in the background as task %s. Do not wait for it: you will be told when it has completed or failed (by %s at the latest).",
		task.ID, task.Deadline.UTC().Format(time.RFC3339))
	s.answered(now, r, c, text, false)
}

// TaskNotStarted takes back a task whose workflow could not be started.
func (s *State) TaskNotStarted(now time.Time, r *Run, c *Call, task event.Task, why string) {
	if i := s.taskAt(task.ID); i >= 0 {
		s.settleTask(now, i, event.TaskFailed, why, "")
	}
	s.dropSub(task.ThreadID)
	s.Refused(now, r, c, "Error: the task could not be started: "+why)
}

// Refused gives a call that is not run a result that says why.
func (s *State) Refused(now time.Time, r *Run, c *Call, why string) { s.answered(now, r, c, why, true) }

// answered gives a call the result that the thread itself has for it. Hooks see it next.
func (s *State) answered(now time.Time, r *Run, c *Call, text string, isError bool) {
	c.Stage, c.Failed, c.Undecided = Ran, isError, true
	t := s.Turn.Item
	s.recordUndecided(s.eventOf(t.TraceID, t.ID), event.ResultID(c.Plan.ID), event.TypeMessage, t.TraceID, t.ID, now, s.result(r, c, c.told()+text, isError))
}

// TaskReported takes in how a task has ended. One that has ended before stays as it is.
func (s *State) TaskReported(now time.Time, rep TaskReport) error {
	if i := s.taskAt(rep.TaskID); i >= 0 {
		s.endTask(now, i, rep.TaskReply)
		return nil
	}
	if _, ended := s.endedTask(rep.TaskID); ended {
		return nil
	}
	if rep.Task != nil && rep.Task.Detached && rep.Task.ID == rep.TaskID {
		s.Tasks = append(s.Tasks, *rep.Task)
		s.endTask(now, len(s.Tasks)-1, rep.TaskReply)
		return nil
	}
	return fmt.Errorf("no background task %q in this thread", rep.TaskID)
}

// CompleteTask ends a task from outside.
func (s *State) CompleteTask(now time.Time, c signals.CompleteTask) signals.CompleteTaskResult {
	if i := s.taskAt(c.TaskID); i >= 0 {
		s.endTask(now, i, TaskReply{Result: c.Result, Error: c.Error, By: cmp.Or(c.By, "outside")})
		task, _ := s.endedTask(c.TaskID)
		return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: task}
	}
	task, ended := s.endedTask(c.TaskID)
	switch {
	case !ended:
		return signals.CompleteTaskResult{Result: signals.TaskNotFound}
	case c.Error == "" && task.State == event.TaskCompleted, c.Error != "" && task.State == event.TaskFailed:
		return signals.CompleteTaskResult{Result: signals.TaskAlreadyEnded, Task: task}
	}
	return signals.CompleteTaskResult{Result: signals.TaskConflict, Task: task}
}

// CancelTask cancels a task. An agent that cancels its own is not told again.
func (s *State) CancelTask(now time.Time, c signals.CancelTask, tell bool) signals.CompleteTaskResult {
	i := s.taskAt(c.TaskID)
	if i < 0 {
		task, ended := s.endedTask(c.TaskID)
		switch {
		case !ended:
			return signals.CompleteTaskResult{Result: signals.TaskNotFound}
		case task.State == event.TaskCancelled:
			return signals.CompleteTaskResult{Result: signals.TaskAlreadyEnded, Task: task}
		}
		return signals.CompleteTaskResult{Result: signals.TaskConflict, Task: task}
	}
	why := "cancelled by " + c.By
	if c.Reason != "" {
		why += ": " + c.Reason
	}
	task := s.settleTask(now, i, event.TaskCancelled, why, c.By)
	if tell {
		s.tellOfTask(now, task, event.TypeBackgroundTaskFailed, nil)
	}
	return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: task}
}

func (s *State) taskAt(id string) int {
	return slices.IndexFunc(s.Tasks, func(t event.Task) bool { return t.ID == id })
}

func (s *State) endedTask(id string) (event.Task, bool) {
	for i := len(s.TasksEnded) - 1; i >= 0; i-- {
		if s.TasksEnded[i].ID == id {
			return s.TasksEnded[i], true
		}
	}
	return event.Task{}, false
}

// endTask ends a task, and tells the thread's agent.
func (s *State) endTask(now time.Time, i int, reply TaskReply) {
	state, typ := reply.state()
	s.tellOfTask(now, s.settleTask(now, i, state, reply.Error, reply.By), typ, reply.Result)
}

// state is how a task has ended, and the type of the event that tells so.
func (r TaskReply) state() (event.TaskState, string) {
	switch {
	case r.Cancelled:
		return event.TaskCancelled, event.TypeBackgroundTaskFailed
	case r.Error != "":
		return event.TaskFailed, event.TypeBackgroundTaskFailed
	}
	return event.TaskCompleted, event.TypeBackgroundTaskCompleted
}

// settleTask takes a task out of those that run.
func (s *State) settleTask(now time.Time, i int, state event.TaskState, why, by string) event.Task {
	task := s.Tasks[i]
	task.State, task.Error, task.By, task.EndedAt = state, Why(why), by, &now
	s.Tasks = slices.Delete(s.Tasks, i, i+1)
	s.recordIn("", event.TaskEndedID(task.ID), event.TypeTask, task.TraceID, task.ToolCallID, now, task)
	kept := task
	kept.Error = shortWhy(kept.Error)
	s.TasksEnded = keepLast(append(s.TasksEnded, kept), maxTasksEnded)
	return task
}

// tellOfTask publishes how a task has ended.
func (s *State) tellOfTask(now time.Time, task event.Task, typ string, result json.RawMessage) {
	short := task
	short.Error = shortWhy(short.Error)
	brief := TaskEvent(s.Ref(), short, typ, nil, now).Payload
	s.publish(now, TaskEvent(s.Ref(), task, typ, result, now), brief, task.TraceID, task.ToolCallID)
}

// TaskEvent is the environment event that tells how a task has ended. Its id is the same
// however often, and by whom, it is told.
func TaskEvent(ref Ref, task event.Task, typ string, result json.RawMessage, now time.Time) event.EnvEvent {
	end := event.TaskEnd{TaskID: task.ID, Title: task.Title, Tool: task.Tool, Error: task.Error, Result: result}
	if typ == event.TypeBackgroundTaskCompleted && len(bytes.TrimSpace(result)) == 0 {
		end.Result = json.RawMessage("null")
	}
	return event.EnvEvent{
		ID: taskEventID(ref, task), Type: typ, Timestamp: now.UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: ref.ThreadID, TriggerAgentName: task.Agent, Source: event.SourceTool},
		Payload:  rawJSON(end),
	}
}

func taskEventID(ref Ref, task event.Task) string {
	return signals.EventID(ref.Namespace, task.ID, "ended")
}

// TaskRecords tell how a task has ended in a thread that is closed: nobody is woken.
func TaskRecords(ref Ref, task event.Task, reply TaskReply, now time.Time) []event.Record {
	state, typ := reply.state()
	task.State, task.Error, task.By, task.EndedAt = state, Why(reply.Error), reply.By, &now
	ended := event.NewRecord(event.TaskEndedID(task.ID), event.TypeTask, task.TraceID, task.ToolCallID, now, task)
	if reply.Cancelled && !task.Detached {
		// Because the thread was closed: that is no event.
		return []event.Record{ended}
	}
	e := TaskEvent(ref, task, typ, reply.Result, now)
	return []event.Record{ended, event.NewRecord(e.ID, event.TypeEnv, task.TraceID, task.ToolCallID, now, e).In(e.ID).WithUndecided(event.TypeEnv)}
}

// shortWhy is what the thread itself keeps of why a task has failed: the record has more.
func shortWhy(why string) string {
	if len(why) > maxShortWhy {
		return cutText(why, maxShortWhy) + "…"
	}
	return why
}

const maxShortWhy = 512 // bytes

// Overdue fails the tasks whose workflows have not reported in time: somebody may have
// terminated them.
func (s *State) overdue(now time.Time) {
	for i := 0; i < len(s.Tasks); {
		task := s.Tasks[i]
		if s.watched[task.ID] || task.Deadline.Add(taskGrace).After(now) {
			i++
			continue
		}
		s.endTask(now, i, TaskReply{Error: "nothing was heard of it by its deadline: its workflow has ended without a report"})
		if task.ThreadID != "" {
			s.dropSub(task.ThreadID)
		}
	}
}

// taskGrace is how long after a task's deadline its own report of that may take.
const taskGrace = 5 * time.Minute

// TasksView is the answer to query "tasks".
func (s *State) TasksView() signals.Tasks {
	return signals.Tasks{Tasks: append(append([]event.Task{}, s.TasksEnded...), s.Tasks...)}
}

// The tools about tasks that the thread answers itself.
const (
	ToolListTasks  = "list_tasks"
	ToolGetTask    = "get_task"
	ToolCancelTask = "cancel_task"
)

// Answer gives a call about tasks its result. It returns the task that is to be stopped,
// if there is one.
// specs are the hooks that there are.
func (s *State) Answer(now time.Time, r *Run, c *Call, specs ...hook.Spec) (stop *event.Task) {
	id := s.wholeTaskID(c.Plan.TaskID)
	switch c.Plan.Name {
	case ToolListTasks:
		// Not more than a model wants to read.
		list := signals.Tasks{Tasks: append(append([]event.Task{}, keepLast(s.TasksEnded, maxTasksListed)...), s.Tasks...)}
		for i, task := range list.Tasks {
			list.Tasks[i] = s.forModels(task, specs)
		}
		s.answered(now, r, c, string(rawJSON(list)), false)
		return nil
	case ToolCancelTask:
		out := s.CancelTask(now, signals.CancelTask{TaskID: id, By: cmp.Or(r.Agent, "agent")}, false)
		switch out.Result {
		case signals.TaskAccepted:
			s.answered(now, r, c, fmt.Sprintf("Task %s was cancelled.", id), false)
			return &out.Task
		case signals.TaskNotFound:
			s.noTask(now, r, c)
		case signals.TaskAlreadyEnded, signals.TaskConflict:
			s.answered(now, r, c, fmt.Sprintf("Task %s has ended already: it is %s.", id, out.Task.State), false)
		}
		return nil
	}
	for _, task := range s.TasksView().Tasks {
		if task.ID == id {
			s.answered(now, r, c, string(rawJSON(s.forModels(task, specs))), false)
			return nil
		}
	}
	s.noTask(now, r, c)
	return nil
}

// forModels is a task as models are shown it: why it has failed is left out unless hooks have
// passed the event that says so, unchanged.
func (s *State) forModels(task event.Task, specs []hook.Spec) event.Task {
	about := hook.Subject{Namespace: s.Namespace, Type: event.TypeBackgroundTaskFailed}
	if task.Error != "" && len(hook.Matching(specs, about)) > 0 && !slices.Contains(s.TasksPassed, taskEventID(s.Ref(), task)) {
		task.Error = "withheld"
	}
	return task
}

// wholeTaskID lets agents leave out the thread, and what is before the "~".
func (s *State) wholeTaskID(id string) string {
	if strings.Contains(id, "~") {
		return id
	}
	return s.ThreadID + "~" + id
}

func (s *State) noTask(now time.Time, r *Run, c *Call) {
	s.answered(now, r, c, fmt.Sprintf("Error: no task %.200q in this thread, or it ended long ago. Use %s.", c.Plan.TaskID, ToolListTasks), true)
}

// CloseTasks ends the tasks of a thread that is closed, but for those that outlive it. It
// returns those that are to be stopped.
func (s *State) CloseTasks(now time.Time) []event.Task {
	var stop []event.Task
	for i := 0; i < len(s.Tasks); {
		if s.Tasks[i].Detached {
			i++
			continue
		}
		stop = append(stop, s.settleTask(now, i, event.TaskCancelled, "the thread was closed", ""))
	}
	return stop
}
