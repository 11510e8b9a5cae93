package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

type updateInput struct {
	ThreadPath
	Body struct {
		Title    string         `json:"title,omitempty" maxLength:"400"`
		Agents   []string       `json:"agents,omitempty" maxItems:"100" doc:"Those that take part from the next turn on"`
		Metadata map[string]any `json:"metadata,omitempty" doc:"Replaces the thread's own"`
		By       string         `json:"by,omitempty" maxLength:"128" doc:"Who changes it"`
	}
}

func (s *server) updateThread(ctx context.Context, in *updateInput) (*threadOutput, error) {
	change := signals.ThreadChange{Title: in.Body.Title, Agents: in.Body.Agents, By: in.Body.By}
	for i, name := range change.Agents {
		if err := s.checkAgent(ctx, fmt.Sprintf("body.agents[%d]", i), name); err != nil {
			return nil, err
		}
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
	within, cancel := s.answer(ctx)
	defer cancel()
	state, err := s.Threads.Update(within, in.ID, change)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	// What is stored of it may be a moment behind.
	now := stateView(state)
	if row, err := s.Store.Thread(ctx, s.key(in.ID)); err == nil {
		was := threadView(row)
		now.Head, now.CreatedAt, now.UpdatedAt = was.Head, was.CreatedAt, was.UpdatedAt
	}
	return &threadOutput{Body: now}, nil
}
