package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// TaskPath is the input of operations on one background task.
type TaskPath struct {
	ID string `path:"id" doc:"The task's id"`
}

type completeInput struct {
	TaskPath
	Body struct {
		signals.CompleteTask
		TaskID string `json:"-"`
	}
}

type cancelInput struct {
	TaskPath
	Body struct {
		signals.CancelTask
		TaskID string `json:"-"`
	}
}

type progressInput struct {
	TaskPath
	Body struct {
		Data json.RawMessage `json:"data" doc:"Any JSON, at most 256 KiB, passed to viewers unchanged"`
	}
}

// Tasks is the part of the thread client for background tasks.
type Tasks interface {
	Tasks(ctx context.Context, threadID string) (signals.Tasks, error)
	Task(ctx context.Context, taskID string) (event.Task, error)
	CompleteTask(ctx context.Context, c signals.CompleteTask) (signals.CompleteTaskResult, error)
	CancelTask(ctx context.Context, c signals.CancelTask) (signals.CompleteTaskResult, error)
}

// taskHandlers serve background tasks.
type taskHandlers struct {
	*core
	tasks  Tasks
	store  store.Store
	stream stream.Stream
}

func (h *taskHandlers) registerTasks() {
	tags := []string{"tasks"}
	const path = "/v1/tasks/{id}"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listTasks", Method: http.MethodGet, Path: "/v1/threads/{id}/tasks", Tags: tags,
		Summary: "List the background tasks of a thread", Errors: []int{404, 503},
	}, h.listTasks)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getTask", Method: http.MethodGet, Path: path, Tags: tags,
		Summary:     "Get a background task",
		Description: "Ended tasks are available as long as the store keeps the thread.",
		Errors:      []int{404, 503},
	}, h.getTask)
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "completeTask", Method: http.MethodPost, Path: path + "/complete", Tags: tags,
		Summary: "Complete or fail a background task",
		Description: "With an error the task fails. The agent that started it is notified. Repeating the request is already_ended; " +
			"a task that ended differently is a 409, and the problem document has result: conflict.",
		Errors: []int{400, 404, 409, 413, 503},
	}, h.completeTask)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "cancelTask", Method: http.MethodPost, Path: path + "/cancel", Tags: tags,
		Summary:     "Cancel a background task",
		Description: "Cancelling it again is already_ended; a task that ended differently is a 409, and the problem document has result: conflict.",
		Errors:      []int{400, 404, 409, 413, 503},
	}, h.cancelTask)
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "reportProgress", Method: http.MethodPost, Path: path + "/progress", Tags: tags,
		Summary: "Report progress of a background task to viewers", DefaultStatus: http.StatusAccepted,
		Description: "A live event tool_progress, whose data has subtype: task_progress, the taskId, and what was sent as data. " +
			"Nothing of it is stored, and no agent is told.",
		Errors: []int{400, 404, 409, 413, 503},
	}, h.reportProgress)
}

func (h *taskHandlers) listTasks(ctx context.Context, in *ThreadPath) (*output[signals.Tasks], error) {
	all, err := query(ctx, h.core, in.ID, h.tasks.Tasks)
	if err != nil {
		return nil, err
	}
	out := signals.Tasks{Tasks: make([]event.Task, len(all.Body.Tasks))}
	for i, task := range all.Body.Tasks {
		if task, err = h.upToDate(ctx, in.ID, task); err != nil {
			return nil, err
		}
		out.Tasks[i] = h.withEnd(task)
	}
	return &output[signals.Tasks]{out}, nil
}

func (h *taskHandlers) getTask(ctx context.Context, in *TaskPath) (*output[event.Task], error) {
	task, err := h.task(ctx, in.ID)
	return &output[event.Task]{h.withEnd(task)}, err
}

// withEnd returns a task with the id of the event that tells its agent how it has ended. The agent is not told of
// cancelled ones.
func (h *taskHandlers) withEnd(task event.Task) event.Task {
	if task.State == event.TaskCompleted || task.State == event.TaskFailed {
		task.EndEventID = signals.TaskEndEventID(h.namespace, task.ID)
	}
	return task
}

// task returns a task from its thread or, if the thread no longer knows it, from the store. The
// error is a problem document.
func (h *taskHandlers) task(ctx context.Context, id string) (event.Task, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err != nil {
		return event.Task{}, huma.Error404NotFound(unknownTask(id))
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	task, err := h.tasks.Task(within, id)
	switch {
	case err == nil:
		return h.upToDate(ctx, threadID, task)
	case !errors.Is(err, signals.ErrThreadNotFound) && !errors.Is(err, signals.ErrTaskNotFound):
		return task, h.taskProblem(ctx, id, err)
	}
	stored, seq, problem := h.storedTask(ctx, threadID, id)
	if problem == nil && seq == 0 {
		problem = h.taskProblem(ctx, id, err)
	}
	return stored, problem
}

// upToDate updates a detached task from the store if its thread was closed before the task ended.
// The error is a problem document.
func (h *taskHandlers) upToDate(ctx context.Context, threadID string, task event.Task) (event.Task, error) {
	if !task.Detached || task.State.Ended() {
		return task, nil
	}
	stored, seq, err := h.storedTask(ctx, threadID, task.ID)
	if err != nil || seq == 0 || !stored.State.Ended() {
		return task, err
	}
	return stored, nil
}

// storedTask returns a task from the store, and the seq of its newest record; 0 if the store has
// none. The error is a problem document.
func (h *taskHandlers) storedTask(ctx context.Context, threadID, id string) (task event.Task, seq int64, err error) {
	records, err := h.store.RecordsByID(ctx, h.key(threadID), id, recordid.TaskEnded(id))
	if err != nil {
		return task, 0, h.problem(ctx, threadID, err)
	}
	if len(records) == 0 {
		return task, 0, nil
	}
	newest := records[len(records)-1]
	if err := json.Unmarshal(newest.Payload, &task); err != nil {
		return task, 0, h.problem(ctx, threadID, fmt.Errorf("reading record %q: %w", newest.ID, err))
	}
	return task, newest.Seq, nil
}

func (h *taskHandlers) completeTask(ctx context.Context, in *completeInput) (*output[signals.CompleteTaskResult], error) {
	c := in.Body.CompleteTask
	c.TaskID = in.ID
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
	return h.endTask(ctx, in.ID, state, func(ctx context.Context) (signals.CompleteTaskResult, error) {
		return h.tasks.CompleteTask(ctx, c)
	})
}

func (h *taskHandlers) cancelTask(ctx context.Context, in *cancelInput) (*output[signals.CompleteTaskResult], error) {
	c := in.Body.CancelTask
	c.TaskID = in.ID
	var err error
	if c.By, err = actor(ctx, "body.by", c.By, ""); err != nil {
		return nil, err
	}
	if c.By == "" {
		return nil, refuse(http.StatusUnprocessableEntity, "body.by", "is required: who cancels it")
	}
	return h.endTask(ctx, in.ID, event.TaskCancelled, func(ctx context.Context) (signals.CompleteTaskResult, error) {
		return h.tasks.CancelTask(ctx, c)
	})
}

// endTask responds with the outcome of a request to end a task.
func (h *taskHandlers) endTask(ctx context.Context, id string, state event.TaskState, end func(context.Context) (signals.CompleteTaskResult, error)) (*output[signals.CompleteTaskResult], error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	got, err := end(within)
	if errors.Is(err, signals.ErrThreadClosed) {
		got, err = h.storedEnd(ctx, id, state, err)
	}
	if err != nil {
		return nil, h.taskProblem(ctx, id, err)
	}
	task := got.Task
	switch got.Result {
	case signals.TaskAccepted, signals.TaskAlreadyEnded:
		return &output[signals.CompleteTaskResult]{got}, nil
	case signals.TaskConflict:
		return nil, refuseOutcome(http.StatusConflict, got.Result, &task, fmt.Sprintf("task %q has ended otherwise: it is %s", id, task.State))
	case signals.TaskNotFound:
		return nil, refuseOutcome(http.StatusNotFound, got.Result, nil, unknownTask(id))
	}
	return nil, h.problem(ctx, id, fmt.Errorf("ending task %q: unknown result %q", id, got.Result))
}

// storedEnd returns the outcome of a request to end a task that has already ended, if its thread is
// closed. Otherwise it returns the error closed.
func (h *taskHandlers) storedEnd(ctx context.Context, id string, state event.TaskState, closed error) (signals.CompleteTaskResult, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err != nil {
		return signals.CompleteTaskResult{}, err
	}
	task, _, err := h.storedTask(ctx, threadID, id)
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

func unknownTask(id string) string { return fmt.Sprintf("there is no task %.200q", id) }

// taskProblem converts the error of an operation on a task to a problem document.
func (h *taskHandlers) taskProblem(ctx context.Context, id string, err error) error {
	threadID, _, parseErr := signals.ParseTaskID(id)
	if parseErr != nil {
		return huma.Error404NotFound(unknownTask(id))
	}
	if unknown, ok := errors.AsType[*threadclient.UnknownTaskError](err); ok {
		return huma.Error404NotFound(unknown.Error())
	}
	return h.problem(ctx, threadID, err)
}

func (h *taskHandlers) reportProgress(ctx context.Context, in *progressInput) (*struct{}, error) {
	if len(in.Body.Data) > signals.MaxPayload {
		return nil, tooLarge("body.data", len(in.Body.Data))
	}
	threadID, _, err := signals.ParseTaskID(in.ID)
	if err != nil {
		return nil, huma.Error404NotFound(unknownTask(in.ID))
	}
	// A task that the store knows is not requested from the thread, which would cost an action for
	// each report of progress.
	task, seq, err := h.storedTask(ctx, threadID, in.ID)
	if err == nil && seq == 0 {
		task, err = h.task(ctx, in.ID)
	}
	if err != nil {
		return nil, err
	}
	if task.State.Ended() {
		return nil, refuseOutcome(http.StatusConflict, signals.TaskConflict, &task, fmt.Sprintf("task %q makes no progress any more: it is %s", in.ID, task.State))
	}
	piece, err := task.Progress(h.redact.JSON(in.Body.Data))
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "body.data", "is not valid JSON")
	}
	err = h.stream.Publish(ctx, stream.Key{Namespace: h.namespace, ThreadID: threadID},
		stream.Entry{After: seq, TraceID: task.TraceID, Event: &piece})
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, stream.ErrTooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body.data", "is too large for the live stream; send less, or a reference to it")
	case errors.Is(err, stream.ErrClosed), ctx.Err() != nil:
		return nil, h.problem(ctx, threadID, err)
	}
	if !errors.Is(err, stream.ErrUnavailable) {
		h.logger.Warn("progress of a task did not reach the live stream", "thread", threadID, "task", in.ID, "error", err)
	}
	return nil, huma.Error503ServiceUnavailable("the live stream did not take it; send it again")
}
