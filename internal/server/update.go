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
		Title        string         `json:"title,omitempty" maxLength:"400"`
		Agents       []string       `json:"agents,omitempty" maxItems:"100" doc:"Those that take part from the next turn on, in place of those that did"`
		AddAgents    []string       `json:"addAgents,omitempty" maxItems:"100" doc:"Those that join them. Not beside agents"`
		RemoveAgents []string       `json:"removeAgents,omitempty" maxItems:"100" doc:"Those that leave them; the last one cannot. Not beside agents"`
		TurnLimit    int            `json:"turnLimit,omitempty" minimum:"1" maximum:"1000" doc:"How many model calls an agent may make until the next user message or environment event"`
		Metadata     map[string]any `json:"metadata,omitempty" doc:"Replaces the thread's own"`
		By           string         `json:"by,omitempty" maxLength:"128" doc:"Who changes it"`
	}
}

func (h *threadHandlers) updateThread(ctx context.Context, in *updateInput) (*output[Thread], error) {
	by, err := actor(ctx, "body.by", in.Body.By, "")
	if err != nil {
		return nil, err
	}
	change := signals.ThreadChange{
		Title: in.Body.Title, Agents: in.Body.Agents, AddAgents: in.Body.AddAgents, RemoveAgents: in.Body.RemoveAgents,
		TurnLimit: in.Body.TurnLimit, By: by,
	}
	if err := h.checkAgents(ctx, "body.agents", change.Agents); err != nil {
		return nil, err
	}
	if err := h.checkAgents(ctx, "body.addAgents", change.AddAgents); err != nil {
		return nil, err
	}
	if in.Body.Metadata != nil {
		raw, err := json.Marshal(in.Body.Metadata)
		if err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "body.metadata", err.Error())
		}
		change.Metadata = raw
	}
	var wrong *event.FieldError
	if err := signals.CheckThreadChange(change); errors.As(err, &wrong) {
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
