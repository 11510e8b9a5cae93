package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/stream"
)

// Task is a background task: an [event.Task] with the words that describe it in the API.
type Task struct {
	ID         string          `json:"id" doc:"The thread's id, ~t and a number"`
	Title      string          `json:"title,omitempty" doc:"For people: what it is about"`
	State      event.TaskState `json:"state" enum:"running,completed,failed,cancelled"`
	Tool       string          `json:"tool,omitempty"`
	Agent      string          `json:"agent" doc:"Who started it"`
	ToolCallID string          `json:"toolCallId" doc:"The call that started it"`
	TraceID    string          `json:"traceId" doc:"That of the turn in which it was started"`
	SubAgent   string          `json:"subAgent,omitempty" doc:"The agent that does the work, if it is one that does"`
	ThreadID   string          `json:"threadId,omitempty" doc:"The thread in which that agent works"`
	Detached   bool            `json:"detached,omitempty" doc:"It goes on when the thread is closed"`
	StartedAt  time.Time       `json:"startedAt"`
	Deadline   time.Time       `json:"deadline" doc:"When it fails, unless it has ended before"`
	EndedAt    *time.Time      `json:"endedAt,omitempty"`
	By         string          `json:"by,omitempty" doc:"Who completed or cancelled it, if that came from outside"`
	Error      string          `json:"error,omitempty" doc:"Why it failed or was cancelled"`
}

// TaskPath is the input of operations on one background task.
type TaskPath struct {
	ID string `path:"id" doc:"The task's id"`
}

type tasksOutput struct {
	Body struct {
		Tasks []Task `json:"tasks" nullable:"false" doc:"Those that run, and the last that have ended, at most 50; the newest last"`
	}
}

type taskOutput struct{ Body Task }

type completeInput struct {
	TaskPath
	Body struct {
		Result json.RawMessage `json:"result,omitempty" doc:"Any JSON, at most 256 KiB; null is none"`
		Error  string          `json:"error,omitempty" maxLength:"16384" doc:"Why it failed, at most 16 KiB. Not beside a result"`
		By     string          `json:"by,omitempty" maxLength:"128" doc:"Who or what completes it; it is kept. Default: api"`
	}
}

type cancelInput struct {
	TaskPath
	Body struct {
		By     string `json:"by,omitempty" maxLength:"128" doc:"Who cancels it; it is kept. Required where the server does not authenticate requests"`
		Reason string `json:"reason,omitempty" maxLength:"4096"`
	}
}

type progressInput struct {
	TaskPath
	Body struct {
		Data json.RawMessage `json:"data" doc:"Any JSON, at most 256 KiB: viewers get it as it is"`
	}
}

type endOutput struct {
	Body struct {
		Result string `json:"result" enum:"accepted,already_ended"`
		Task   Task   `json:"task" doc:"As it stands then"`
	}
}

// endProblem is a problem document that also says what became of an attempt to end a
// task.
type endProblem struct {
	huma.ErrorModel
	Result signals.TaskOutcome `json:"result"`

	// Task is as it stands, if the thread knows it.
	Task *Task `json:"task,omitempty"`
}

func (s *server) registerTasks() {
	tags := []string{"tasks"}
	const path = "/v1/tasks/{id}"
	register(s, auth.Read, huma.Operation{
		OperationID: "listTasks", Method: http.MethodGet, Path: "/v1/threads/{id}/tasks", Tags: tags,
		Summary: "List the background tasks of a thread", Errors: []int{404, 503},
	}, s.listTasks)
	register(s, auth.Read, huma.Operation{
		OperationID: "getTask", Method: http.MethodGet, Path: path, Tags: tags,
		Summary:     "Get a background task",
		Description: "Tasks that have ended are known as long as the store keeps the thread.",
		Errors:      []int{404, 503},
	}, s.getTask)
	register(s, auth.Post, huma.Operation{
		OperationID: "completeTask", Method: http.MethodPost, Path: path + "/complete", Tags: tags,
		Summary: "Complete a background task, or let it fail",
		Description: "With an error the task has failed. The agent that started it is told. Completing it again in the same way is already_ended; " +
			"a task that has ended otherwise is a 409, and the problem document has result: conflict.",
		Errors: []int{400, 404, 409, 413, 503},
	}, s.completeTask)
	register(s, auth.Operate, huma.Operation{
		OperationID: "cancelTask", Method: http.MethodPost, Path: path + "/cancel", Tags: tags,
		Summary:     "Cancel a background task",
		Description: "Cancelling it again is already_ended; a task that has ended otherwise is a 409, and the problem document has result: conflict.",
		Errors:      []int{400, 404, 409, 413, 503},
	}, s.cancelTask)
	register(s, auth.Post, huma.Operation{
		OperationID: "reportProgress", Method: http.MethodPost, Path: path + "/progress", Tags: tags,
		Summary: "Show viewers how far a background task is", DefaultStatus: http.StatusAccepted,
		Description: "A live event tool_progress, whose data has subtype: task_progress, the taskId, and what was sent as data. " +
			"Nothing of it is stored, and no agent is told.",
		Errors: []int{400, 404, 409, 413, 503},
	}, s.reportProgress)
}

func (s *server) listTasks(ctx context.Context, in *ThreadPath) (*tasksOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	all, err := s.Threads.Tasks(within, in.ID)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &tasksOutput{}
	out.Body.Tasks = make([]Task, 0, len(all.Tasks))
	for _, task := range all.Tasks {
		if task, err = s.outlived(ctx, in.ID, task); err != nil {
			return nil, err
		}
		out.Body.Tasks = append(out.Body.Tasks, Task(task))
	}
	return out, nil
}

func (s *server) getTask(ctx context.Context, in *TaskPath) (*taskOutput, error) {
	task, err := s.task(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &taskOutput{Task(task)}, nil
}

// task asks the thread for a task, and the store for one that the thread has forgotten,
// or Temporal the thread. The error is a problem document.
func (s *server) task(ctx context.Context, id string) (event.Task, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err != nil {
		return event.Task{}, huma.Error404NotFound(unknownTask(id))
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	task, err := s.Threads.Task(within, id)
	switch {
	case err == nil:
		return s.outlived(ctx, threadID, task)
	case !errors.Is(err, signals.ErrNotFound):
		return task, s.taskProblem(ctx, id, err)
	}
	stored, seq, problem := s.storedTask(ctx, threadID, id)
	if problem == nil && seq == 0 {
		problem = s.taskProblem(ctx, id, err)
	}
	return stored, problem
}

// outlived brings a detached task up to date: if its thread was closed before it ended,
// only the store knows that it has. The error is a problem document.
func (s *server) outlived(ctx context.Context, threadID string, task event.Task) (event.Task, error) {
	if !task.Detached || task.State.Ended() {
		return task, nil
	}
	stored, seq, err := s.storedTask(ctx, threadID, task.ID)
	if err != nil || seq == 0 || !stored.State.Ended() {
		return task, err
	}
	return stored, nil
}

// storedTask finds a task in the store: seq is that of its newest record, 0 if there is
// none. The error is a problem document.
func (s *server) storedTask(ctx context.Context, threadID, id string) (task event.Task, seq int64, err error) {
	records, err := s.Store.RecordsByID(ctx, s.key(threadID), id, event.TaskEndedID(id))
	if err != nil {
		return task, 0, s.problem(ctx, threadID, err)
	}
	if len(records) == 0 {
		return task, 0, nil
	}
	newest := records[len(records)-1]
	if err := json.Unmarshal(newest.Payload, &task); err != nil {
		return task, 0, s.problem(ctx, threadID, fmt.Errorf("reading record %q: %w", newest.ID, err))
	}
	return task, newest.Seq, nil
}

func (s *server) completeTask(ctx context.Context, in *completeInput) (*endOutput, error) {
	c := signals.CompleteTask{TaskID: in.ID, Result: in.Body.Result, Error: in.Body.Error, By: in.Body.By}
	if string(c.Result) == "null" {
		c.Result = nil
	}
	if len(c.Result) > signals.MaxPayload {
		return nil, tooLarge("body.result", len(c.Result))
	}
	var err error
	if c.By, err = actor(ctx, "body.by", c.By, byAPI); err != nil {
		return nil, err
	}
	state := event.TaskCompleted
	if c.Error != "" {
		state = event.TaskFailed
	}
	return s.ended(ctx, in.ID, state, func(ctx context.Context) (signals.CompleteTaskResult, error) {
		return s.Threads.CompleteTask(ctx, c)
	})
}

func (s *server) cancelTask(ctx context.Context, in *cancelInput) (*endOutput, error) {
	by, err := actor(ctx, "body.by", in.Body.By, "")
	switch {
	case err != nil:
		return nil, err
	case by == "":
		return nil, refuse(http.StatusUnprocessableEntity, "body.by", "is required: who cancels it")
	}
	c := signals.CancelTask{TaskID: in.ID, By: by, Reason: in.Body.Reason}
	return s.ended(ctx, in.ID, event.TaskCancelled, func(ctx context.Context) (signals.CompleteTaskResult, error) {
		return s.Threads.CancelTask(ctx, c)
	})
}

// ended answers with what became of an attempt to end a task in a state.
func (s *server) ended(ctx context.Context, id string, state event.TaskState, end func(context.Context) (signals.CompleteTaskResult, error)) (*endOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	got, err := end(within)
	if errors.Is(err, signals.ErrClosed) {
		got, err = s.endedBefore(ctx, id, state, err)
	}
	if err != nil {
		return nil, s.taskProblem(ctx, id, err)
	}
	task := Task(got.Task)
	switch got.Result {
	case signals.TaskAccepted, signals.TaskAlreadyEnded:
		out := &endOutput{}
		out.Body.Result, out.Body.Task = string(got.Result), task
		return out, nil
	case signals.TaskConflict:
		return nil, unended(http.StatusConflict, got.Result, fmt.Sprintf("task %q has ended otherwise: it is %s", id, task.State), &task)
	case signals.TaskNotFound:
		return nil, unended(http.StatusNotFound, got.Result, unknownTask(id), nil)
	}
	return nil, s.problem(ctx, id, fmt.Errorf("ending task %q: unknown result %q", id, got.Result))
}

// endedBefore says what an attempt comes to when the thread is closed and the task does
// not run any more: the store knows how it ended. If that is not so, the error is closed.
func (s *server) endedBefore(ctx context.Context, id string, state event.TaskState, closed error) (signals.CompleteTaskResult, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err != nil {
		return signals.CompleteTaskResult{}, err
	}
	task, _, err := s.storedTask(ctx, threadID, id)
	switch {
	case err != nil:
		return signals.CompleteTaskResult{}, err
	case task.State == state:
		return signals.CompleteTaskResult{Result: signals.TaskAlreadyEnded, Task: task}, nil
	case task.EndedAt != nil:
		return signals.CompleteTaskResult{Result: signals.TaskConflict, Task: task}, nil
	}
	return signals.CompleteTaskResult{}, closed
}

func unended(status int, result signals.TaskOutcome, detail string, task *Task) error {
	return &endProblem{huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}, result, task}
}

func unknownTask(id string) string { return fmt.Sprintf("there is no task %.200q", id) }

// taskProblem turns the error of an operation on a task into a problem document.
func (s *server) taskProblem(ctx context.Context, id string, err error) error {
	threadID, _, parseErr := signals.ParseTaskID(id)
	var unknown *threadclient.UnknownTaskError
	switch {
	case parseErr != nil:
		return huma.Error404NotFound(unknownTask(id))
	case errors.As(err, &unknown):
		return huma.Error404NotFound(unknown.Error())
	}
	return s.problem(ctx, threadID, err)
}

func (s *server) reportProgress(ctx context.Context, in *progressInput) (*struct{}, error) {
	if len(in.Body.Data) > signals.MaxPayload {
		return nil, tooLarge("body.data", len(in.Body.Data))
	}
	threadID, _, err := signals.ParseTaskID(in.ID)
	if err != nil {
		return nil, huma.Error404NotFound(unknownTask(in.ID))
	}
	// The thread is not asked if the store knows the task: it would cost an action for
	// each piece of progress.
	task, seq, err := s.storedTask(ctx, threadID, in.ID)
	if err == nil && seq == 0 {
		task, err = s.task(ctx, in.ID)
	}
	if err != nil {
		return nil, err
	}
	if task.State.Ended() {
		return nil, unended(http.StatusConflict, signals.TaskConflict, fmt.Sprintf("task %q makes no progress any more: it is %s", in.ID, task.State), new(Task(task)))
	}
	piece, err := task.Progress(in.Body.Data)
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "body.data", "is not valid JSON")
	}
	err = s.Stream.Publish(ctx, stream.Key{Namespace: s.Namespace, ThreadID: threadID},
		stream.Entry{After: seq, TraceID: task.TraceID, Event: &piece})
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, stream.ErrTooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body.data", "is too large for the live stream; send less, or a reference to it")
	case errors.Is(err, stream.ErrClosed), ctx.Err() != nil:
		return nil, s.problem(ctx, threadID, err)
	}
	s.Logger.Warn("progress of a task did not reach the live stream", "thread", threadID, "task", in.ID, "error", err)
	return nil, huma.Error503ServiceUnavailable("the live stream did not take it; send it again")
}
