package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

type updateInput struct {
	ThreadPath
	Body struct {
		signals.ThreadChange
		Metadata map[string]any `json:"metadata,omitempty" doc:"Replaces the thread's own"`
	}
}

func (h *threadHandlers) updateThread(ctx context.Context, in *updateInput) (*output[Thread], error) {
	change := in.Body.ThreadChange
	var err error
	if change.By, err = actor(ctx, "body.by", change.By, ""); err != nil {
		return nil, err
	}
	if err := h.checkAgents(ctx, "body.agents", change.Agents); err != nil {
		return nil, err
	}
	if err := h.checkAgents(ctx, "body.addAgents", change.AddAgents); err != nil {
		return nil, err
	}
	if in.Body.Metadata != nil {
		if change.Metadata, err = json.Marshal(in.Body.Metadata); err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "body.metadata", err.Error())
		}
	}
	var wrong *event.FieldError
	if err := change.Validate(); errors.As(err, &wrong) {
		return nil, refuse(http.StatusUnprocessableEntity, "body."+wrong.Field, wrong.Problem)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	state, err := h.threads.Update(within, in.ID, change)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	now := stateView(state)
	if row, err := h.store.Thread(ctx, h.key(in.ID)); err == nil {
		now = stateOver(threadView(row), state)
	}
	return &output[Thread]{Body: now}, nil
}
