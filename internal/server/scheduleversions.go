package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

type scheduleVersionsOutput struct {
	Body struct {
		Versions []ScheduleVersion `json:"versions" nullable:"false" doc:"The newest first, at most 100"`
	}
}

// present returns the versions of a schedule with the present one, which may have been made by another client of Temporal.
func present(versions scheduleversions.Versions, view signals.ScheduleView) scheduleversions.Versions {
	return versions.With(&view.Schedule, "", changedAt(view))
}

func changedAt(view signals.ScheduleView) time.Time {
	if view.UpdatedAt.IsZero() {
		return view.CreatedAt
	}
	return view.UpdatedAt
}

// keepVersion notes the present version of a schedule before a change, which expects version after; negative is any. The error is a
// [*store.ConflictError] if it is another one.
func (h *scheduleHandlers) keepVersion(ctx context.Context, id string, after int) error {
	view, err := h.schedules.Schedule(ctx, id)
	if err != nil {
		return err
	}
	versions, err := scheduleversions.Note(ctx, h.documents, h.namespace, id, &view.Schedule, "", changedAt(view))
	if err != nil {
		return err
	}
	if newest := versions.Newest().Version; after >= 0 && after != newest {
		return &store.ConflictError{Kind: "schedule", Name: id, After: after, Newest: newest}
	}
	return nil
}

// noteVersion notes the version of a schedule after a change, and returns its number. What cannot be noted is noted before the next change,
// without its author, since the request has succeeded.
func (h *scheduleHandlers) noteVersion(ctx context.Context, id string, definition *signals.Schedule, by string) int {
	versions, err := scheduleversions.Note(ctx, h.documents, h.namespace, id, definition, by, time.Now().UTC())
	if errors.Is(err, store.ErrUnavailable) { // logged elsewhere
		return 0
	}
	if err != nil {
		h.logger.Warn("noting the version of a schedule", "schedule", id, "error", err)
		return 0
	}
	return versions.Newest().Version
}

func (h *scheduleHandlers) deleteSchedule(ctx context.Context, in *deleteScheduleInput) (*struct{}, error) {
	change, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	if err := h.keepVersion(within, in.ID, change.After); err != nil {
		return nil, h.onSchedule(ctx, in.ID, err)
	}
	if err := h.schedules.DeleteSchedule(within, in.ID); err != nil {
		return nil, h.onSchedule(ctx, in.ID, err)
	}
	h.noteVersion(within, in.ID, nil, change.By)
	return nil, nil
}

func (h *scheduleHandlers) listScheduleVersions(ctx context.Context, in *SchedulePath) (*scheduleVersionsOutput, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	view, missing := h.schedules.Schedule(within, in.ID)
	if missing != nil && !errors.Is(missing, signals.ErrScheduleNotFound) {
		return nil, h.onSchedule(ctx, in.ID, missing)
	}
	versions, err := scheduleversions.Read(ctx, h.documents, h.namespace, in.ID)
	if err != nil {
		return nil, h.scheduleProblem(ctx, err)
	}
	switch {
	case missing == nil:
		versions = present(versions, view)
	case len(versions) == 0:
		return nil, h.onSchedule(ctx, in.ID, missing)
	default:
		versions = versions.With(nil, "", time.Time{})
	}
	out := &scheduleVersionsOutput{}
	out.Body.Versions = make([]ScheduleVersion, 0, len(versions))
	for _, v := range slices.Backward(versions) {
		one := ScheduleVersion{Version: v.Version, Deleted: v.Definition == nil, By: v.By, At: v.At}
		if v.Definition != nil {
			definition := definitionView(*v.Definition)
			one.Definition = &definition
		}
		out.Body.Versions = append(out.Body.Versions, one)
	}
	return out, nil
}
