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
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Limits on background tasks.
const (
	maxTasks       = 100
	maxTasksEnded  = 50
	maxTasksListed = 20
)

// Tasks contains the thread's background tasks.
type Tasks struct {
	// Running are the running tasks, Ended the last ones that ended. Count is the number of
	// the last task.
	Running []event.Task `json:"running,omitempty"`
	Ended   []event.Task `json:"ended,omitempty"`
	Count   int          `json:"count,omitempty"`

	// Passed are the events of failed tasks that hooks passed unchanged.
	Passed []string `json:"passed,omitempty"`

	// watched are the tasks that this workflow run started: it is notified when their workflows
	// end.
	watched map[string]bool
}

// CheckLimit returns the reason why no more background tasks can be started, or "".
func (ta *Tasks) CheckLimit() string {
	if len(ta.Running) >= maxTasks {
		return fmt.Sprintf("Error: %d background tasks run in this thread, the limit. Wait for one of them, or cancel one.", maxTasks)
	}
	return ""
}

// next returns the number of the next task.
func (ta *Tasks) next() int {
	ta.Count++
	return ta.Count
}

// start adds a task that this workflow run watches.
func (ta *Tasks) start(task event.Task) {
	ta.Running = append(ta.Running, task)
	if ta.watched == nil {
		ta.watched = map[string]bool{}
	}
	ta.watched[task.ID] = true
}

// StartTask creates a background task for a call.
func (c *Call) StartTask(now time.Time) step.Task {
	plan := c.Plan.Task
	task := c.newTask(now)
	task.Title, task.Tool = cmp.Or(plan.Title, plan.Tool), plan.Tool
	return c.startTask(now, task)
}

func (c *Call) newTask(now time.Time) event.Task {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	return event.Task{
		ID: signals.TaskID(s.ThreadID, s.Tasks.next()), State: event.TaskRunning, Agent: r.Agent, ToolCallID: c.Plan.ID,
		TraceID: t.Item.TraceID, Detached: c.Plan.Task.Detached, StartedAt: now, Deadline: now.Add(c.Plan.Task.Deadline),
	}
}

func (c *Call) startTask(now time.Time, task event.Task) step.Task {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	s.Tasks.start(task)
	t.record(now, task.ID, event.TypeTask, task)
	input := step.Task{
		Thread: s.Ref(), Task: task, User: r.User, EventID: t.Item.ID, Root: t.rootIfOther(), MessageID: r.MessageID, Tools: t.Tools, Edited: r.Edited,
		WorkingDirectory: workingDirectory(s.Metadata), TaskQueue: c.Plan.Task.TaskQueue,
	}
	if c.Guarded() {
		// The step that checked the approval again has stored the decision.
		input.DecisionID = c.DecisionID
	}
	return input
}

// TaskStarted sets the result of the call that started a task, so the agent continues immediately.
func (c *Call) TaskStarted(now time.Time, task event.Task) {
	text := fmt.Sprintf("Started in the background as task %s. Do not wait for it: you will be told when it has completed or failed (by %s at the latest).",
		task.ID, task.Deadline.UTC().Format(time.RFC3339))
	c.answered(now, text, false)
}

// TaskNotStarted removes a task whose workflow could not be started.
func (c *Call) TaskNotStarted(now time.Time, task event.Task, why string) {
	s := c.run.turn.thread
	if i := s.Tasks.index(task.ID); i >= 0 {
		s.settleTask(now, i, event.TaskFailed, why, "")
	}
	c.Refused(now, "Error: the task could not be started: "+why)
}

// Refused sets an error as the result of a call that does not run.
func (c *Call) Refused(now time.Time, why string) {
	c.answered(now, why, true)
}

// answered sets a result that the thread itself produced. Hooks decide on it next.
func (c *Call) answered(now time.Time, text string, isError bool) {
	t := c.run.turn
	c.Stage, c.Failed, c.Undecided = CallRan, isError, true
	t.recordUndecided(now, recordid.Result(c.Plan.ID), event.TypeMessage, c.result(c.editedPrefix()+text, isError))
}

// TaskReported handles the report of a task's end. It does not change a task that has already
// ended.
func (s *State) TaskReported(now time.Time, rep step.TaskReport) error {
	ta := &s.Tasks
	if i := ta.index(rep.TaskID); i >= 0 {
		s.endTask(now, i, rep.TaskReply)
		return nil
	}
	if _, ended := ta.findEnded(rep.TaskID); ended {
		return nil
	}
	if rep.Task != nil && rep.Task.Detached && rep.Task.ID == rep.TaskID {
		ta.Running = append(ta.Running, *rep.Task)
		s.endTask(now, len(ta.Running)-1, rep.TaskReply)
		return nil
	}
	return fmt.Errorf("no background task %q in this thread", rep.TaskID)
}

// CompleteTask completes a task from outside its workflow.
func (s *State) CompleteTask(now time.Time, c signals.CompleteTask) signals.CompleteTaskResult {
	ta := &s.Tasks
	if i := ta.index(c.TaskID); i >= 0 {
		s.endTask(now, i, step.TaskReply{Result: c.Result, Error: c.Error, By: cmp.Or(c.By, "outside")})
		task, _ := ta.findEnded(c.TaskID)
		return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: task}
	}
	task, ended := ta.findEnded(c.TaskID)
	switch {
	case !ended:
		return signals.CompleteTaskResult{Result: signals.TaskNotFound}
	case c.Error == "" && task.State == event.TaskCompleted, c.Error != "" && task.State == event.TaskFailed:
		return signals.CompleteTaskResult{Result: signals.TaskAlreadyEnded, Task: task}
	}
	return signals.CompleteTaskResult{Result: signals.TaskConflict, Task: task}
}

// CancelTask cancels a task. tell notifies the thread's agents; an agent that cancels its own task
// is not notified.
func (s *State) CancelTask(now time.Time, c signals.CancelTask, tell bool) signals.CompleteTaskResult {
	ta := &s.Tasks
	i := ta.index(c.TaskID)
	if i < 0 {
		task, ended := ta.findEnded(c.TaskID)
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
		s.publishTaskEnd(now, task, event.TypeBackgroundTaskFailed, nil)
	}
	return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: task}
}

// passed remembers the event of a failed task that hooks passed unchanged.
func (ta *Tasks) passed(eventID string) {
	ta.Passed = keepLast(append(ta.Passed, eventID), maxTasksEnded)
}

func (ta *Tasks) index(id string) int {
	return slices.IndexFunc(ta.Running, func(t event.Task) bool { return t.ID == id })
}

func (ta *Tasks) findEnded(id string) (event.Task, bool) {
	for i := len(ta.Ended) - 1; i >= 0; i-- {
		if ta.Ended[i].ID == id {
			return ta.Ended[i], true
		}
	}
	return event.Task{}, false
}

// endTask ends a task and notifies the thread's agent.
func (s *State) endTask(now time.Time, i int, reply step.TaskReply) {
	state, typ := reply.State()
	s.publishTaskEnd(now, s.settleTask(now, i, state, reply.Error, reply.By), typ, reply.Result)
}

// settleTask records the end of a task. Before, it removes the task's sub-agent: the ends of its requests
// have the trace of the task.
func (s *State) settleTask(now time.Time, i int, state event.TaskState, why, by string) event.Task {
	s.ForgetSubAgent(now, s.Tasks.Running[i].ThreadID)
	task := s.Tasks.settle(now, i, state, why, by)
	s.Outbox.recordIn("", recordid.TaskEnded(task.ID), event.TypeTask, task.TraceID, task.ToolCallID, now, task)
	return task
}

// settle moves a task from the running to the ended tasks, and returns it.
func (ta *Tasks) settle(now time.Time, i int, state event.TaskState, why, by string) event.Task {
	task := ta.Running[i]
	task.State, task.Error, task.By, task.EndedAt = state, step.Why(why), by, &now
	ta.Running = slices.Delete(ta.Running, i, i+1)
	kept := task
	kept.Error = shortWhy(kept.Error)
	ta.Ended = keepLast(append(ta.Ended, kept), maxTasksEnded)
	return task
}

// publishTaskEnd publishes the event of a task's end.
func (s *State) publishTaskEnd(now time.Time, task event.Task, typ string, result json.RawMessage) {
	short := task
	short.Error = shortWhy(short.Error)
	brief := taskEvent(s.Ref(), short, typ, nil, now).Payload
	s.publish(now, taskEvent(s.Ref(), task, typ, result, now), brief, task.TraceID, task.ToolCallID)
}

// taskEvent returns the environment event of a task's end. Its id is derived from the task, so
// duplicates are ignored.
func taskEvent(ref step.Ref, task event.Task, typ string, result json.RawMessage, now time.Time) event.EnvEvent {
	end := event.TaskEnd{TaskID: task.ID, Title: task.Title, Tool: task.Tool, Error: task.Error, Result: result}
	if typ == event.TypeBackgroundTaskCompleted && len(bytes.TrimSpace(result)) == 0 {
		end.Result = json.RawMessage("null")
	}
	return event.EnvEvent{
		ID: signals.TaskEndEventID(ref.Namespace, task.ID), Type: typ, Timestamp: now.UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: ref.ThreadID, TriggerAgentName: task.Agent, Source: event.SourceTool},
		Payload:  rawJSON(end),
	}
}

// TaskRecords returns the records of a task's end in a closed thread. They start no turn.
func TaskRecords(ref step.Ref, task event.Task, reply step.TaskReply, now time.Time) []event.Record {
	state, typ := reply.State()
	task.State, task.Error, task.By, task.EndedAt = state, step.Why(reply.Error), reply.By, &now
	ended := event.NewRecord(recordid.TaskEnded(task.ID), event.TypeTask, task.TraceID, task.ToolCallID, now, task)
	if reply.Cancelled && !task.Detached {
		// The task was cancelled because the thread was closed, which is not an event.
		return []event.Record{ended}
	}
	e := taskEvent(ref, task, typ, reply.Result, now)
	return []event.Record{ended, event.NewRecord(e.ID, event.TypeEnv, task.TraceID, task.ToolCallID, now, e).In(e.ID).WithUndecided(event.TypeEnv)}
}

// shortWhy cuts a task's error to the length that the state keeps. The record has more of it.
func shortWhy(why string) string {
	if len(why) > maxShortWhy {
		return step.Cut(why, maxShortWhy) + "…"
	}
	return why
}

const maxShortWhy = 512 // bytes

// failOverdueTasks fails the tasks whose workflows have not reported in time, for example because they
// were terminated.
func (s *State) failOverdueTasks(now time.Time) {
	ta := &s.Tasks
	for i := 0; i < len(ta.Running); {
		task := ta.Running[i]
		if ta.watched[task.ID] || task.Deadline.Add(taskGrace).After(now) {
			i++
			continue
		}
		s.endTask(now, i, step.TaskReply{Error: "nothing was heard of it by its deadline: its workflow has ended without a report"})
	}
}

// taskGrace is the time after a task's deadline within which its workflow must report.
const taskGrace = 5 * time.Minute

// View returns the result of query "tasks".
func (ta *Tasks) View() signals.Tasks {
	return signals.Tasks{Tasks: append(append([]event.Task{}, ta.Ended...), ta.Running...)}
}

// The tools for tasks that the thread itself runs.
const (
	ToolListTasks  = "list_tasks"
	ToolGetTask    = "get_task"
	ToolCancelTask = "cancel_task"

	ToolIngestDocument = "ingest_document"
)

// Answer sets the result of a call of one of the task tools. It returns the task to stop, if any.
// specs are the registered hooks.
func (c *Call) Answer(now time.Time, specs ...hook.Spec) (stop *event.Task) {
	r, s := c.run, c.run.turn.thread
	id := fullTaskID(s.ThreadID, c.Plan.TaskID)
	switch c.Plan.Name {
	case ToolIngestDocument:
		c.ingest(now)
		return nil
	case ToolListTasks:
		// Keep the list short for the model.
		list := signals.Tasks{Tasks: append(append([]event.Task{}, s.Tasks.Ended[max(0, len(s.Tasks.Ended)-maxTasksListed):]...), s.Tasks.Running...)}
		for i, task := range list.Tasks {
			list.Tasks[i] = s.Tasks.forModels(s.Namespace, task, specs)
		}
		c.answered(now, string(rawJSON(list)), false)
		return nil
	case ToolCancelTask:
		out := s.CancelTask(now, signals.CancelTask{TaskID: id, By: cmp.Or(r.Agent, "agent")}, false)
		switch out.Result {
		case signals.TaskAccepted:
			c.answered(now, fmt.Sprintf("Task %s was cancelled.", id), false)
			return &out.Task
		case signals.TaskNotFound:
			c.noTask(now)
		case signals.TaskAlreadyEnded, signals.TaskConflict:
			c.answered(now, fmt.Sprintf("Task %s has ended already: it is %s.", id, out.Task.State), false)
		}
		return nil
	}
	for _, task := range s.Tasks.View().Tasks {
		if task.ID == id {
			c.answered(now, string(rawJSON(s.Tasks.forModels(s.Namespace, task, specs))), false)
			return nil
		}
	}
	c.noTask(now)
	return nil
}

// ingest queues the event of the document that the call asks to ingest.
func (c *Call) ingest(now time.Time) {
	r, t := c.run, c.run.turn
	if c.Plan.Ingest == nil {
		c.answered(now, "Error: the call names no document.", true)
		return
	}
	t.produce(now, Deferred{
		ID: recordid.Ingestion(c.Plan.ID), By: r.Agent, Parent: recordid.Calls(r.MessageID), Event: hook.NewProduced(event.TypeRAGIngest, c.Plan.Ingest),
	}, t.User)
	c.answered(now, fmt.Sprintf("The document %s is being read. A message from %s tells when it can be searched.", c.Plan.Ingest.Source, signals.RAGSender), false)
}

// forModels returns a task for models. The error is withheld unless hooks passed the event of the
// failure unchanged.
func (ta *Tasks) forModels(namespace string, task event.Task, specs []hook.Spec) event.Task {
	about := hook.Subject{Namespace: namespace, Type: event.TypeBackgroundTaskFailed}
	if task.Error != "" && len(hook.Matching(specs, about)) > 0 && !slices.Contains(ta.Passed, signals.TaskEndEventID(namespace, task.ID)) {
		task.Error = "withheld"
	}
	return task
}

// fullTaskID completes an abbreviated task id: agents may omit the thread id and the "~".
func fullTaskID(threadID, id string) string {
	if strings.Contains(id, "~") {
		return id
	}
	return threadID + "~" + id
}

func (c *Call) noTask(now time.Time) {
	c.answered(now, fmt.Sprintf("Error: no task %.200q in this thread, or it ended long ago. Use %s.", c.Plan.TaskID, ToolListTasks), true)
}

// CloseTasks ends the tasks of a closed thread, except for detached ones. It returns the tasks to
// stop.
func (s *State) CloseTasks(now time.Time) []event.Task {
	ta := &s.Tasks
	var stop []event.Task
	for i := 0; i < len(ta.Running); {
		if ta.Running[i].Detached {
			i++
			continue
		}
		stop = append(stop, s.settleTask(now, i, event.TaskCancelled, "the thread was closed", ""))
	}
	return stop
}
