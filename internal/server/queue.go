package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// maybeItem is a response with an item, or 204.
type maybeItem struct {
	Status int
	Body   *event.Item
}

// EventPath is the input of operations on one event of a queue.
type EventPath struct {
	ThreadPath
	EventID string `path:"eventId" doc:"The event's id"`
}

// PostOptions are the options of a posted event.
type PostOptions struct {
	OnBusy    string   `json:"onBusy,omitempty" enum:"enqueue,steer,interrupt,reject" doc:"What a message does to a turn in progress. Default: enqueue"`
	OnWaiting string   `json:"onWaiting,omitempty" enum:"answer,hold,cancel" doc:"What a person's message does while a turn waits for a decision or a client: it is answered meanwhile, waits for the turn to end, or cancels the calls that wait. Default: as the agents that wait are configured"`
	Priority  int      `json:"priority,omitempty" doc:"Higher first, ties in order of arrival. Default: 0"`
	TTL       int64    `json:"ttl,omitempty" minimum:"0" doc:"Milliseconds after which a pending event expires and is never processed. Default: 0, no limit"`
	Agents    []string `json:"agents,omitempty" maxItems:"100" doc:"The agents that answer a message, whatever it mentions; they need not take part in the thread. Default: as the thread routes it"`
	Tools     []string `json:"tools,omitzero" nullable:"false" maxItems:"200" doc:"The only tools that agents may call in the event's turn, as far as they have them; an empty list: none. Default: all that they have"`
}

type addInput struct {
	ThreadPath
	Body addBody
}

// addBody is the body of POST /v1/threads/{id}/queue.
type addBody struct {
	ID            string          `json:"id,omitempty" maxLength:"128" doc:"Idempotency key: duplicates are ignored. Default: a new ULID"`
	Type          string          `json:"type" minLength:"1" maxLength:"128" doc:"message, or a custom type; not one that the thread makes itself"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Of a message: senderId, senderType (user; agent, tool and system need the role send-as), content and, optionally, metadata; threadId may be left out. Of other types, any JSON. At most 256 KiB"`
	TraceID       string          `json:"traceId,omitempty" maxLength:"128" doc:"Default: the event's id"`
	ParentEventID string          `json:"parentEventId,omitempty" maxLength:"128" doc:"The event that caused this one"`
	PostOptions
}

type statusInput struct {
	EventPath
	Body struct {
		signals.SetStatus
		EventID string `json:"-"`
	}
}

type retryInput struct {
	EventPath
	Body *struct {
		By string `json:"by,omitempty" doc:"Who does it; it is stored. Default: api"`
	} `required:"false"`
}

// Queues is the part of the thread client for queues.
type Queues interface {
	Queue(ctx context.Context, threadID string) (signals.Queue, error)
	Item(ctx context.Context, threadID, eventID string) (event.Item, error)
	Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error)
	SetStatus(ctx context.Context, threadID string, s signals.SetStatus) (event.Item, error)
	Retry(ctx context.Context, threadID, eventID, by string) (event.Item, error)
}

// queueHandlers serve the queues of threads.
type queueHandlers struct {
	*lookup
	queues Queues
}

func (h *queueHandlers) registerQueue() {
	tags := []string{"queue"}
	const path = "/v1/threads/{id}/queue"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getQueue", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the events of the queue", Errors: []int{404, 503},
	}, h.getQueue)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "addToQueue", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Add an event of any type", DefaultStatus: http.StatusAccepted,
		Description: "Responds when the thread has accepted or rejected it. A known id is a duplicate, which changes nothing.",
		Errors:      []int{400, 404, 409, 413, 429, 503},
	}, h.addToQueue)
	h.registerPlace("getCurrentEvent", path+"/current", "Get the event that is being processed", current)
	h.registerPlace("getNextEvent", path+"/next", "Get the event that is processed next", next)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getEvent", Method: http.MethodGet, Path: path + "/{eventId}", Tags: tags,
		Summary:     "Get an event of the queue",
		Description: "Ended events stay in the queue for a while; the thread's events have all of them.",
		Errors:      []int{404, 503},
	}, h.getItem)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "setEventStatus", Method: http.MethodPatch, Path: path + "/{eventId}", Tags: tags,
		Summary: "Set the status of an event",
		Description: "A pending event that gets another status is never processed; the turn of the event being processed is interrupted. " +
			"pending retries a failed event, and processes the one that is being processed again. A change that is not possible is a 409.",
		Errors: []int{400, 404, 409, 413, 503},
	}, h.setStatus)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "retryEvent", Method: http.MethodPost, Path: path + "/{eventId}/retry", Tags: tags,
		Summary:     "Retry a failed event",
		Description: "Any other event is a 409.",
		Errors:      []int{400, 404, 409, 413, 503},
	}, h.retryItem)
}

// registerPlace registers an operation that returns the event at a place of the queue.
func (h *queueHandlers) registerPlace(id, path, summary string, place func(signals.Queue) *event.Item) {
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{"queue"}, Summary: summary,
		Errors:    []int{404, 503},
		Responses: map[string]*huma.Response{"204": {Description: "There is none"}},
	}, func(ctx context.Context, in *ThreadPath) (*maybeItem, error) {
		q, err := query(ctx, h.core, in.ID, h.queues.Queue)
		if err != nil {
			return nil, err
		}
		if item := place(q.Body); item != nil {
			return &maybeItem{Status: http.StatusOK, Body: item}, nil
		}
		return &maybeItem{Status: http.StatusNoContent}, nil
	})
}

func current(q signals.Queue) *event.Item { return q.Processing }

func next(q signals.Queue) *event.Item {
	if it, ok := q.Next(time.Now()); ok {
		return &it
	}
	return nil
}

func (h *queueHandlers) getQueue(ctx context.Context, in *ThreadPath) (*output[signals.Queue], error) {
	out, err := query(ctx, h.core, in.ID, h.queues.Queue)
	if err != nil {
		return nil, err
	}
	q := &out.Body
	q.Items, q.Failed, q.Ended = nonNil(q.Items), nonNil(q.Failed), nonNil(h.withPayloads(ctx, in.ID, q.Ended...))
	return out, nil
}

func (h *queueHandlers) getItem(ctx context.Context, in *EventPath) (*output[event.Item], error) {
	out, err := update(ctx, h.core, in.ID, h.queues.Item, in.EventID)
	if err != nil {
		return nil, err
	}
	out.Body = h.withPayloads(ctx, in.ID, out.Body)[0]
	return out, nil
}

func (h *queueHandlers) addToQueue(ctx context.Context, in *addInput) (*output[signals.PostResult], error) {
	var err error
	switch in.Body.Type {
	case event.TypeMessage:
		in.Body.Payload, err = actorIn(ctx, "body.payload", "senderId", in.Body.Payload)
	case event.TypeUserQuery:
		in.Body.Payload, err = actorIn(ctx, "body.payload", "userId", in.Body.Payload)
	}
	if err != nil {
		return nil, err
	}
	post := signals.Post{
		ID: in.Body.ID, Type: in.Body.Type, Payload: in.Body.Payload,
		TraceID: in.Body.TraceID, ParentEventID: in.Body.ParentEventID,
	}
	if err := h.prepare(ctx, in.ID, &post, in.Body.PostOptions); err != nil {
		return nil, err
	}
	if read, err := post.Read(in.ID); err == nil && read.Message != nil {
		if err := sendAs(ctx, "body.payload.senderType", read.Message.SenderType); err != nil {
			return nil, err
		}
	}
	return update(ctx, h.core, in.ID, h.queues.Post, post)
}

func (h *queueHandlers) setStatus(ctx context.Context, in *statusInput) (*output[event.Item], error) {
	change := in.Body.SetStatus
	change.EventID = in.EventID
	var err error
	if change.By, err = actor(ctx, "body.by", change.By, byAPI); err != nil {
		return nil, err
	}
	return h.changeItem(ctx, in.EventPath, func(ctx context.Context) (event.Item, error) {
		return h.queues.SetStatus(ctx, in.ID, change)
	})
}

func (h *queueHandlers) retryItem(ctx context.Context, in *retryInput) (*output[event.Item], error) {
	given := ""
	if in.Body != nil {
		given = in.Body.By
	}
	by, err := actor(ctx, "body.by", given, byAPI)
	if err != nil {
		return nil, err
	}
	return h.changeItem(ctx, in.EventPath, func(ctx context.Context) (event.Item, error) {
		return h.queues.Retry(ctx, in.ID, in.EventID, by)
	})
}

// changeItem responds with the item that change returns.
func (h *queueHandlers) changeItem(ctx context.Context, at EventPath, change func(context.Context) (event.Item, error)) (*output[event.Item], error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	item, err := change(within)
	if err == nil {
		return &output[event.Item]{h.withPayloads(ctx, at.ID, item)[0]}, nil
	}
	if !errors.Is(err, signals.ErrRefused) {
		return nil, h.problem(ctx, at.ID, err)
	}
	// The thread's error is only a text, so its queue tells whether it knows the event.
	if _, missing := h.queues.Item(within, at.ID, at.EventID); errors.Is(missing, signals.ErrEventNotFound) {
		return nil, h.problem(ctx, at.ID, missing)
	}
	return nil, huma.Error409Conflict(err.Error())
}
