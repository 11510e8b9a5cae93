package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
)

type updateInput struct {
	ThreadPath
	Body struct {
		signals.ThreadChange
		Metadata event.Metadata `json:"metadata,omitempty" doc:"Replaces the thread's own"`
	}
}

func (h *threadHandlers) updateThread(ctx context.Context, in *updateInput) (*output[api.Thread], error) {
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
	if err := change.Validate(); err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	state, err := update(ctx, h.core, in.ID, h.threads.Update, change)
	if err != nil {
		return nil, err
	}
	now := stateView(state.Body)
	if row, err := h.store.Thread(ctx, h.key(in.ID)); err == nil {
		rows, err := listed(ctx, h.store, h.namespace, row)
		if err != nil { // the rows lack only their previews
			h.logger.Warn("a changed thread is returned without its preview", "thread", in.ID, "error", err)
		}
		now = stateOver(rows[0], state.Body)
	}
	return &output[api.Thread]{Body: now}, nil
}
