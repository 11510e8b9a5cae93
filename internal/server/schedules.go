package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// Schedules is the part of a [threadclient.Client] for schedules.
type Schedules interface {
	CreateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error)
	UpdateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error)
	Schedule(ctx context.Context, id string) (signals.ScheduleView, error)
	Schedules(ctx context.Context, limit int) ([]signals.ScheduleView, error)
	PauseSchedule(ctx context.Context, id, note string) error
	ResumeSchedule(ctx context.Context, id, note string) error
	TriggerSchedule(ctx context.Context, id string) error
	DeleteSchedule(ctx context.Context, id string) error
}

// SchedulePath is the input of operations on one schedule.
type SchedulePath struct {
	ID string `path:"id" doc:"The schedule's id"`
}

type createScheduleInput struct {
	By   string `query:"by" doc:"Who creates it; it is stored with the version. Default: api"`
	Body NewSchedule
}

type replaceScheduleInput struct {
	SchedulePath
	Edit
	Body NewSchedule
}

type deleteScheduleInput struct {
	SchedulePath
	Edit
}

type noteInput struct {
	SchedulePath
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"1000" doc:"Replaces the note of the schedule. Default: unchanged"`
	} `required:"false"`
}

type schedulesInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many to list at most"`
}

type createScheduleOutput struct {
	Location string `header:"Location"`
	Body     Schedule
}

type schedulesOutput struct {
	Body struct {
		Schedules []Schedule `json:"schedules" nullable:"false" doc:"The schedules, by id"`
	}
}

// scheduleHandlers serve schedules.
type scheduleHandlers struct {
	*lookup
	schedules Schedules
	documents store.Documents
}

func (h *scheduleHandlers) registerSchedules() {
	tags := []string{"schedules"}
	const path, one = "/v1/schedules", "/v1/schedules/{id}"
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "createSchedule", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Create a schedule that posts to a thread", DefaultStatus: http.StatusCreated,
		Description: "It posts exactly one of event and message, at the times of cron, every or both.",
		Errors:      []int{400, 409, 413, 503},
	}, h.createSchedule)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listSchedules", Method: http.MethodGet, Path: path, Tags: tags,
		Summary:     "List schedules, by their ids",
		Description: "A schedule created just now may be missing. The list leaves out the outcomes of runs.",
		Errors:      []int{503},
	}, h.listSchedules)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getSchedule", Method: http.MethodGet, Path: one, Tags: tags,
		Summary: "Get a schedule, with its next and last runs", Errors: []int{404, 503},
	}, h.getSchedule)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "replaceSchedule", Method: http.MethodPut, Path: one, Tags: tags,
		Summary:     "Replace a schedule",
		Description: "Omitted fields get their defaults: a paused schedule resumes unless paused is set.",
		Errors:      []int{400, 404, 409, 413, 503},
	}, h.replaceSchedule)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "deleteSchedule", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Delete a schedule", DefaultStatus: http.StatusNoContent,
		Description: "A run in progress continues. The versions stay.", Errors: []int{404, 409, 503},
	}, h.deleteSchedule)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listScheduleVersions", Method: http.MethodGet, Path: one + "/versions", Tags: tags,
		Summary: "List the versions of a schedule, deleted schedules included",
		Description: "A version is what is posted, where and when: not whether the schedule is paused, its note and its remaining runs. " +
			"The last 100 are kept, those of more than 1 MiB fewer. A change that was not made through the API is a version of unknown author; " +
			"of several such changes in succession, only the last.",
		Errors: []int{404, 503},
	}, h.listScheduleVersions)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "pauseSchedule", Method: http.MethodPost, Path: one + "/pause", Tags: tags,
		Summary: "Pause a schedule", Errors: []int{400, 404, 413, 503},
	}, h.changeSchedule(h.schedules.PauseSchedule))
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "resumeSchedule", Method: http.MethodPost, Path: one + "/resume", Tags: tags,
		Summary:     "Resume a paused schedule",
		Description: "Missed times are not made up for.",
		Errors:      []int{400, 404, 413, 503},
	}, h.changeSchedule(h.schedules.ResumeSchedule))
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "triggerSchedule", Method: http.MethodPost, Path: one + "/trigger", Tags: tags,
		Summary: "Start a run now", DefaultStatus: http.StatusAccepted,
		Description: "Works for paused schedules and those without remaining runs. Runs of the same second post once.",
		Errors:      []int{404, 503},
	}, h.do(h.schedules.TriggerSchedule))
}

func (h *scheduleHandlers) createSchedule(ctx context.Context, in *createScheduleInput) (*createScheduleOutput, error) {
	change, err := Edit{By: in.By}.change(ctx)
	if err != nil {
		return nil, err
	}
	schedule, err := h.scheduleOf(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	made, err := h.schedules.CreateSchedule(within, schedule)
	if err != nil {
		return nil, h.scheduleProblem(ctx, err)
	}
	return &createScheduleOutput{Location: "/v1/schedules/" + made.ID, Body: h.created(within, made, change.By)}, nil
}

// created returns a schedule after its creation or replacement, and notes its version. If its next runs cannot be read, they are omitted,
// since the request has succeeded.
func (h *scheduleHandlers) created(ctx context.Context, schedule signals.Schedule, by string) Schedule {
	view, err := h.schedules.Schedule(ctx, schedule.ID)
	if err != nil {
		h.logger.Warn("asking for a new schedule", "schedule", schedule.ID, "error", err)
		view = signals.ScheduleView{Schedule: schedule}
	}
	out := scheduleView(view)
	out.Version = h.noteVersion(ctx, schedule.ID, &schedule, by)
	return out
}

func (h *scheduleHandlers) replaceSchedule(ctx context.Context, in *replaceScheduleInput) (*output[Schedule], error) {
	if in.Body.ID != "" && in.Body.ID != in.ID {
		return nil, refuse(http.StatusUnprocessableEntity, "body.id", "differs from the path; omit it")
	}
	in.Body.ID = in.ID
	if signals.ValidateID("id", in.ID) != nil {
		return nil, h.scheduleProblem(ctx, &threadclient.ScheduleError{ID: in.ID, Err: signals.ErrScheduleNotFound})
	}
	change, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	schedule, err := h.scheduleOf(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	if err := h.keepVersion(within, in.ID, change.After); err != nil {
		return nil, h.onSchedule(ctx, in.ID, err)
	}
	made, err := h.schedules.UpdateSchedule(within, schedule)
	if err != nil {
		return nil, h.scheduleProblem(ctx, err)
	}
	return &output[Schedule]{h.created(within, made, change.By)}, nil
}

// scheduleOf returns the schedule in a body. The error is a problem document.
func (h *scheduleHandlers) scheduleOf(ctx context.Context, body NewSchedule) (signals.Schedule, error) {
	schedule, err := body.schedule()
	if err == nil {
		err = attributeSchedule(ctx, &schedule)
	}
	if err == nil {
		err = schedule.Validate()
	}
	if err != nil {
		return schedule, h.scheduleProblem(ctx, err)
	}
	return schedule, h.checkAgents(ctx, "body.agents", body.Agents)
}

func (h *scheduleHandlers) listSchedules(ctx context.Context, in *schedulesInput) (*schedulesOutput, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	all, err := h.schedules.Schedules(within, in.Limit)
	if err != nil {
		return nil, h.scheduleProblem(ctx, err)
	}
	out := &schedulesOutput{}
	out.Body.Schedules = make([]Schedule, 0, len(all))
	for _, one := range all {
		out.Body.Schedules = append(out.Body.Schedules, scheduleView(one))
	}
	return out, nil
}

func (h *scheduleHandlers) getSchedule(ctx context.Context, in *SchedulePath) (*output[Schedule], error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	view, err := h.schedules.Schedule(within, in.ID)
	if err != nil {
		return nil, h.onSchedule(ctx, in.ID, err)
	}
	versions, err := scheduleversions.Read(ctx, h.documents, h.namespace, in.ID)
	if err != nil {
		return nil, h.scheduleProblem(ctx, err)
	}
	out := scheduleView(view)
	out.Version = present(versions, view).Newest().Version
	return &output[Schedule]{out}, nil
}

// changeSchedule handles a change that may have a note, and responds with the changed schedule.
func (h *scheduleHandlers) changeSchedule(change func(ctx context.Context, id, note string) error) func(context.Context, *noteInput) (*output[Schedule], error) {
	return func(ctx context.Context, in *noteInput) (*output[Schedule], error) {
		within, cancel := h.answer(ctx)
		defer cancel()
		note := ""
		if in.Body != nil {
			note = in.Body.Note
		}
		if err := change(within, in.ID, note); err != nil {
			return nil, h.onSchedule(ctx, in.ID, err)
		}
		return h.getSchedule(ctx, &in.SchedulePath)
	}
}

// do handles a change whose response has no body.
func (h *scheduleHandlers) do(request func(ctx context.Context, id string) error) func(context.Context, *SchedulePath) (*struct{}, error) {
	return func(ctx context.Context, in *SchedulePath) (*struct{}, error) {
		within, cancel := h.answer(ctx)
		defer cancel()
		return nil, h.onSchedule(ctx, in.ID, request(within, in.ID))
	}
}

// onSchedule converts the error of an operation on the schedule in the path to a problem document.
// An invalid id is that of an unknown schedule.
func (h *scheduleHandlers) onSchedule(ctx context.Context, id string, err error) error {
	if field, ok := errors.AsType[*event.FieldError](err); ok && field.Field == "id" {
		err = &threadclient.ScheduleError{ID: id, Err: signals.ErrScheduleNotFound}
	}
	return h.scheduleProblem(ctx, err)
}

// scheduleProblem converts the error of an operation on a schedule to a problem document.
func (h *scheduleHandlers) scheduleProblem(ctx context.Context, err error) error {
	var field *event.FieldError
	var which *threadclient.ScheduleError
	var conflict *store.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &field):
		return refuse(http.StatusUnprocessableEntity, "body."+field.Field, field.Problem)
	case errors.As(err, &conflict):
		return huma.Error409Conflict(conflict.Error() + "; read the newest version and retry")
	case errors.As(err, &which) && errors.Is(err, signals.ErrScheduleExists):
		return huma.Error409Conflict(which.Error())
	case errors.As(err, &which):
		return huma.Error404NotFound(which.Error())
	}
	return h.problem(ctx, "", err)
}
