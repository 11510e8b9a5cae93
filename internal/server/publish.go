package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// publishBody is the body of requests that publish an environment event.
type publishBody struct {
	ID        string                     `json:"id,omitempty" maxLength:"128" doc:"Idempotency key: duplicates are ignored. Default: a new UUID"`
	Type      string                     `json:"type" minLength:"1" maxLength:"128" doc:"What has happened, such as file.changed"`
	Timestamp int64                      `json:"timestamp,omitempty" doc:"When, in milliseconds since 1970. Default: now"`
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty" doc:"trigger_session_id: the thread; trigger_agent_id, trigger_agent_name: the agent; env_name; source: tool, env, user, system or llm, default env, or user for a user_query; and any other keys"`
	Payload   json.RawMessage            `json:"payload,omitempty" doc:"Any JSON, at most 256 KiB together with the metadata"`
}

type publishInput struct{ Body publishBody }

type publishThreadInput struct {
	ThreadPath
	Open bool `query:"open" doc:"Open the thread if it does not exist"`
	Body publishBody
}

// Publisher is the part of the thread client for environment events.
type Publisher interface {
	Publish(ctx context.Context, threadID string, e event.EnvEvent, o threadclient.PublishOptions) (threadclient.PublishResult, error)
}

// publishHandlers serve the publication of environment events.
type publishHandlers struct {
	*core
	threads Publisher
}

func (h *publishHandlers) registerPublish() {
	tags := []string{"events"}
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "publishToThread", Method: http.MethodPost, Path: "/v1/threads/{id}/events", Tags: tags,
		Summary: "Publish an environment event to a thread", DefaultStatus: http.StatusAccepted,
		Description: "Rules route it. Responds when the thread has accepted or rejected it. A known id is a duplicate, which changes nothing.",
		Errors:      []int{400, 404, 409, 413, 429, 503},
	}, h.publishToThread)
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "publish", Method: http.MethodPost, Path: "/v1/events", Tags: tags,
		Summary: "Publish an environment event to the thread that it names", DefaultStatus: http.StatusAccepted,
		Description: "The thread is metadata.trigger_session_id. An event without a thread, or for one that does not exist or is closed, is ignored, and the response says so.",
		Errors:      []int{400, 413, 429, 503},
	}, h.publishRouted)
}

func (h *publishHandlers) publishToThread(ctx context.Context, in *publishThreadInput) (*output[threadclient.PublishResult], error) {
	if err := signals.ValidateID("threadId", in.ID); err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	return h.publish(ctx, in.ID, in.Body, threadclient.PublishOptions{Open: in.Open})
}

func (h *publishHandlers) publishRouted(ctx context.Context, in *publishInput) (*output[threadclient.PublishResult], error) {
	return h.publish(ctx, "", in.Body, threadclient.PublishOptions{})
}

func (h *publishHandlers) publish(ctx context.Context, threadID string, body publishBody, o threadclient.PublishOptions) (*output[threadclient.PublishResult], error) {
	if len(body.Payload) > signals.MaxPayload {
		return nil, tooLarge("body.payload", len(body.Payload))
	}
	e, err := body.event()
	if err == nil {
		e, err = attributed(ctx, "body.", e)
	}
	if err != nil {
		return nil, h.problem(ctx, threadID, err)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	result, err := h.threads.Publish(within, threadID, e, o)
	if err != nil {
		return nil, h.problem(ctx, result.ThreadID, err)
	}
	if result.Status == threadclient.PublishIgnored {
		h.logger.Warn("environment event is ignored", "reason", result.Warning, "thread", result.ThreadID, "event", result.EventID)
	}
	return &output[threadclient.PublishResult]{result}, nil
}

// event returns the event in the body. The error is an [*event.FieldError].
func (b publishBody) event() (event.EnvEvent, error) {
	e := event.EnvEvent{ID: b.ID, Type: b.Type, Timestamp: b.Timestamp, Payload: b.Payload}
	if b.Metadata == nil {
		return e, nil
	}
	raw, err := json.Marshal(b.Metadata)
	if err != nil {
		return e, event.FieldErrorf("metadata", "%s", err.Error())
	}
	return e, json.Unmarshal(raw, &e.Metadata)
}
