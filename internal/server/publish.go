package server

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// EnvEvent describes [event.EnvEvent] on the wire, for the API's description.
type EnvEvent struct {
	ID        string         `json:"id" doc:"A UUID, unless its publisher chose another"`
	Type      string         `json:"type" doc:"What has happened"`
	Timestamp int64          `json:"timestamp" doc:"When, in milliseconds since 1970; of what is live only, when it is sent"`
	Metadata  map[string]any `json:"metadata" doc:"trigger_session_id, trigger_agent_id, trigger_agent_name, env_name, source, and any other keys"`
	Payload   any            `json:"payload" doc:"Any JSON"`
}

// envEvent is an environment event.
type envEvent struct{ event.EnvEvent }

// Schema describes the event's form on the wire.
func (envEvent) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[EnvEvent](), true, "EnvEvent")
}

// envPage is a page of environment events.
type envPage struct {
	Events      []envEvent `json:"events" nullable:"false"`
	Next        string     `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	LastEventID string     `json:"lastEventId,omitempty" doc:"Where a stream begins behind the last of the events"`
}

// publishBody is the body of requests that publish an environment event.
type publishBody struct {
	ID        string                     `json:"id,omitempty" maxLength:"128" doc:"Publishing the same id twice has the effect of once. Default: a new UUID"`
	Type      string                     `json:"type" minLength:"1" maxLength:"128" doc:"What has happened, such as file.changed"`
	Timestamp int64                      `json:"timestamp,omitempty" doc:"When, in milliseconds since 1970. Default: now"`
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty" doc:"trigger_session_id: the thread; trigger_agent_id, trigger_agent_name: the agent; env_name; source: tool, env, user, system or llm, default env; and any other keys"`
	Payload   json.RawMessage            `json:"payload,omitempty" doc:"Any JSON, at most 256 KiB together with the metadata"`
}

type publishInput struct{ Body publishBody }

type publishThreadInput struct {
	ThreadPath
	Open bool `query:"open" doc:"Open the thread if it does not exist"`
	Body publishBody
}

type publishOutput struct{ Body published }

// published says what became of an environment event.
type published struct {
	EventID  string `json:"eventId"`
	ThreadID string `json:"threadId,omitempty" doc:"The thread that the event is for, if it names one"`
	Status   string `json:"status" enum:"queued,duplicate,ignored" doc:"duplicate: the thread has had this id before; ignored: warning says why"`
	Warning  string `json:"warning,omitempty"`
}

func (s *server) registerPublish() {
	tags := []string{"events"}
	register(s, auth.Post, huma.Operation{
		OperationID: "publishToThread", Method: http.MethodPost, Path: "/v1/threads/{id}/events", Tags: tags,
		Summary: "Publish an environment event to a thread", DefaultStatus: http.StatusAccepted,
		Description: "Rules say what becomes of it. Answers when the thread has accepted or refused it. An id that the thread has had before is a duplicate, which changes nothing.",
		Errors:      []int{400, 404, 409, 413, 429, 503},
	}, s.publishToThread)
	register(s, auth.Post, huma.Operation{
		OperationID: "publish", Method: http.MethodPost, Path: "/v1/events", Tags: tags,
		Summary: "Publish an environment event to the thread that it names", DefaultStatus: http.StatusAccepted,
		Description: "The thread is the one in metadata.trigger_session_id. An event that names none, or one that is not there or is closed, is ignored, and the answer says so.",
		Errors:      []int{400, 413, 429, 503},
	}, s.publishRouted)
}

func (s *server) publishToThread(ctx context.Context, in *publishThreadInput) (*publishOutput, error) {
	if err := signals.CheckID("threadId", in.ID); err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	return s.publish(ctx, in.ID, in.Body, threadclient.PublishOptions{Open: in.Open})
}

func (s *server) publishRouted(ctx context.Context, in *publishInput) (*publishOutput, error) {
	return s.publish(ctx, "", in.Body, threadclient.PublishOptions{})
}

func (s *server) publish(ctx context.Context, threadID string, body publishBody, o threadclient.PublishOptions) (*publishOutput, error) {
	if len(body.Payload) > signals.MaxPayload {
		return nil, tooLarge("body.payload", len(body.Payload))
	}
	e, err := body.event()
	if err == nil {
		e, err = attributed(ctx, "body.", e)
	}
	if err != nil {
		return nil, s.problem(ctx, threadID, err)
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	result, err := s.Threads.Publish(within, threadID, e, o)
	if err != nil {
		return nil, s.problem(ctx, result.ThreadID, err)
	}
	if result.Status == threadclient.PublishIgnored {
		s.Logger.Warn("environment event is ignored", "reason", result.Warning, "thread", result.ThreadID, "event", result.EventID)
	}
	return &publishOutput{published(result)}, nil
}

// event is the event of the body. The error is an [*event.FieldError].
func (b publishBody) event() (event.EnvEvent, error) {
	e := event.EnvEvent{ID: b.ID, Type: b.Type, Timestamp: b.Timestamp, Payload: b.Payload}
	if b.Metadata == nil {
		return e, nil
	}
	raw, err := json.Marshal(b.Metadata)
	if err != nil {
		return e, &event.FieldError{Field: "metadata", Problem: err.Error()}
	}
	return e, json.Unmarshal(raw, &e.Metadata)
}
