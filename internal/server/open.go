package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// openBody is the body of POST /v1/threads.
type openBody struct {
	ID        string         `json:"id,omitempty" maxLength:"128" doc:"1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit. Default: a new ULID"`
	Agent     string         `json:"agent,omitempty" maxLength:"128" doc:"The agent that answers. Default: the first configured one"`
	Agents    []string       `json:"agents,omitempty" maxItems:"100" doc:"The agents of the thread, if several. Cannot be combined with agent"`
	Title     string         `json:"title,omitempty" maxLength:"400" doc:"The title. Default: one is generated, if the server generates titles"`
	TurnLimit int            `json:"turnLimit,omitempty" minimum:"1" maximum:"1000" doc:"How many model calls an agent may make until the next user message or environment event. Default: 5"`
	Metadata  event.Metadata `json:"metadata,omitempty" doc:"Kept with the thread and never shown to a model"`
	Message   *firstMessage  `json:"message,omitempty" doc:"The message that the thread begins with"`
}

// firstMessage is a message, or its content as a string.
type firstMessage struct{ NewMessage }

// NewMessage is a person's message.
type NewMessage struct {
	Content string `json:"content" minLength:"1" doc:"The text"`
	ID      string `json:"id,omitempty" maxLength:"128" doc:"Idempotency key: duplicates are ignored. Default: a new ULID"`
	Sender  string `json:"sender,omitempty" doc:"The sender. Default: user"`

	metadata map[string]any
}

func (m *firstMessage) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &m.Content)
	}
	return event.DecodeJSON("message", data, &m.NewMessage)
}

// Schema describes both forms.
func (*firstMessage) Schema(r huma.Registry) *huma.Schema {
	one := 1
	text := &huma.Schema{Type: huma.TypeString, MinLength: &one}
	text.PrecomputeMessages()
	return &huma.Schema{OneOf: []*huma.Schema{text, r.Schema(reflect.TypeFor[NewMessage](), true, "NewMessage")}}
}

type openOutput struct {
	Location string `header:"Location"`
	Body     struct {
		api.Thread
		EventID string `json:"eventId,omitempty" doc:"The id of the message, if there is one"`
	}
}

func (h *threadHandlers) openThread(ctx context.Context, in *struct{ Body openBody }) (*openOutput, error) {
	start, first, err := h.startOf(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	id := in.Body.ID
	within, cancel := h.answer(ctx)
	defer cancel()
	if err := h.threads.Open(within, id, start, first); err != nil {
		return nil, h.problem(ctx, id, err)
	}
	out := &openOutput{Location: "/v1/threads/" + id}
	start.Title = h.redact.Text(start.Title)
	out.Body.Thread = h.storeThread(ctx, id, start)
	if first != nil {
		out.Body.EventID = first.ID
	}
	return out, nil
}

// startOf validates the body and converts it to the thread's input.
func (h *threadHandlers) startOf(ctx context.Context, body *openBody) (signals.Start, *signals.Post, error) {
	start := signals.Start{Title: body.Title, TurnLimit: body.TurnLimit}
	if body.ID == "" {
		body.ID = signals.NewID()
	}
	if err := checkID("body.id", body.ID, signals.ValidateID); err != nil {
		return start, nil, err
	}
	var err error
	if start.Agents, err = h.agentsOf(ctx, body); err != nil {
		return start, nil, err
	}
	if len(body.Metadata) > 0 {
		raw, err := json.Marshal(body.Metadata)
		if err != nil {
			return start, nil, refuse(http.StatusUnprocessableEntity, "body.metadata", err.Error())
		}
		if len(raw) > signals.MaxPayload {
			return start, nil, tooLarge("body.metadata", len(raw))
		}
		start.Metadata = h.redact.JSON(raw)
	}
	if err := start.Validate(); err != nil {
		return start, nil, h.problem(ctx, body.ID, err)
	}
	if body.Message == nil {
		return start, nil, nil
	}
	m := body.Message
	post, err := newPost(ctx, body.ID, "body.message.", m.NewMessage)
	return start, &post, err
}

// agentsOf returns the agents of the new thread.
func (h *threadHandlers) agentsOf(ctx context.Context, body *openBody) ([]string, error) {
	switch {
	case body.Agent == "":
		return body.Agents, h.checkAgents(ctx, "body.agents", body.Agents)
	case len(body.Agents) > 0:
		return nil, refuse(http.StatusUnprocessableEntity, "body.agent", "cannot be combined with agents")
	}
	return []string{body.Agent}, h.checkAgent(ctx, "body.agent", body.Agent)
}

// storeThread stores the row of the new thread, so that lists contain it immediately. A failure is
// not an error: the thread runs, and is found by a query.
func (h *threadHandlers) storeThread(ctx context.Context, id string, start signals.Start) api.Thread {
	row := &store.ThreadUpdate{Agents: start.Agents, Metadata: start.Metadata}
	if start.Title != "" {
		row.Title = &start.Title
	}
	_, err := h.store.Append(ctx, h.key(id), store.Batch{Thread: row})
	if err == nil {
		var t store.Thread
		if t, err = h.store.Thread(ctx, h.key(id)); err == nil {
			return threadView(t)
		}
	}
	if !errors.Is(err, store.ErrUnavailable) {
		h.logger.Warn("storing a new thread failed; its first record will", "thread", id, "error", err)
	}
	return stateView(signals.State{
		Namespace: h.namespace, ThreadID: id, Title: start.Title, Agents: start.Agents, Metadata: start.Metadata, Status: signals.ThreadIdle,
	})
}
