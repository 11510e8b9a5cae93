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
	"github.com/threadmill/threadmill/signals/threadclient"
)

// QueueItem is an event in a thread's queue: an [event.Item] with the words that
// describe it in the API.
type QueueItem struct {
	ID            string          `json:"id"`
	ThreadID      string          `json:"threadId"`
	Type          string          `json:"type" doc:"message, or a type of your own"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Of a message: threadId, senderId, senderType and content; of other types, any JSON"`
	Status        event.Status    `json:"status" enum:"pending,processing,completed,failed,expired,overwritten"`
	Priority      int             `json:"priority" doc:"Higher first, equals in order of arrival"`
	TTL           int64           `json:"ttl,omitempty" doc:"Milliseconds from createdAt: an event that still waits then is expired. Left out: no limit"`
	TraceID       string          `json:"traceId" doc:"Shared by all that follows from one event"`
	ParentEventID string          `json:"parentEventId,omitempty" doc:"The event that caused this one"`
	Namespace     string          `json:"namespace"`
	CreatedAt     time.Time       `json:"createdAt"`
	UpdatedAt     time.Time       `json:"updatedAt"`
	Timestamp     int64           `json:"timestamp,omitempty" doc:"Of an environment event: when it happened, in milliseconds since 1970"`
	Metadata      json.RawMessage `json:"metadata,omitempty" doc:"Of an environment event: what it is about"`
	Attempt       int             `json:"attempt,omitempty" doc:"How often it was retried by hand"`
	Error         string          `json:"error,omitempty" doc:"Why it failed, was expired, or was given its status by hand"`
}

func itemViews(items []event.Item) []QueueItem {
	out := make([]QueueItem, 0, len(items))
	for _, item := range items {
		out = append(out, itemView(item))
	}
	return out
}

func itemView(item event.Item) QueueItem {
	if string(item.Payload) == "null" {
		item.Payload = nil
	}
	return QueueItem(item)
}

type queueOutput struct {
	Body struct {
		Processing *QueueItem  `json:"processing,omitempty" doc:"The event that is being processed, if there is one"`
		Waiting    []QueueItem `json:"waiting,omitempty" doc:"Further ones whose turns wait for people"`
		Items      []QueueItem `json:"items" nullable:"false" doc:"Those that wait, in the order in which they will be processed"`
		Failed     []QueueItem `json:"failed" nullable:"false" doc:"Those that failed and can be retried, the newest last"`
		Ended      []QueueItem `json:"ended" nullable:"false" doc:"The last 32 that are done with, the newest last; the thread's events have them all"`
	}
}

// maybeItem is an item, or 204.
type maybeItem struct {
	Status int
	Body   *QueueItem
}

type itemOutput struct{ Body QueueItem }

// EventPath is the input of operations on one event of a queue.
type EventPath struct {
	ThreadPath
	EventID string `path:"eventId" doc:"The event's id"`
}

// PostOptions say how an event is queued and who answers it.
type PostOptions struct {
	OnBusy    string    `json:"onBusy,omitempty" enum:"enqueue,steer,interrupt,reject" doc:"What a message does to a turn in progress. Default: enqueue"`
	OnWaiting string    `json:"onWaiting,omitempty" enum:"answer,hold,cancel" doc:"What a person's message does while a turn waits for a decision or a client: it is answered meanwhile, waits for the turn to end, or cancels the calls that wait. Default: as the agents that wait are configured"`
	Priority  int       `json:"priority,omitempty" doc:"Higher first, equals in order of arrival. Default: 0"`
	TTL       int64     `json:"ttl,omitempty" minimum:"0" doc:"Milliseconds: an event that still waits then is expired and never processed. Default: 0, no limit"`
	Agents    []string  `json:"agents,omitempty" maxItems:"100" doc:"Who answers a message, whoever is addressed in it; they need not take part in the thread. Default: as the thread routes it"`
	Tools     *[]string `json:"tools,omitempty" maxItems:"200" doc:"The only tools that agents may call in the event's turn, as far as they have them; an empty list: none. Default: all that they have"`
}

type addInput struct {
	ThreadPath
	Body addBody
}

// addBody is the body of POST /v1/threads/{id}/queue.
type addBody struct {
	ID            string          `json:"id,omitempty" maxLength:"128" doc:"Adding the same id twice has the effect of once. Default: a new ULID"`
	Type          string          `json:"type" minLength:"1" maxLength:"128" doc:"message, or a type of your own; not one that the thread makes itself"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Of a message: senderId, senderType (user, agent, tool or system), content and, if you like, metadata; threadId may be left out. Of other types, any JSON. At most 256 KiB"`
	TraceID       string          `json:"traceId,omitempty" maxLength:"128" doc:"Default: the event's id"`
	ParentEventID string          `json:"parentEventId,omitempty" maxLength:"128" doc:"The event that caused this one"`
	PostOptions
}

type addOutput struct {
	Body struct {
		EventID string `json:"eventId"`
		Status  string `json:"status" enum:"queued,duplicate" doc:"duplicate: the thread has had this id before, and nothing was added"`
	}
}

type statusInput struct {
	EventPath
	Body struct {
		Status string `json:"status" enum:"pending,completed,failed,expired,overwritten" doc:"pending processes the event again; with the others it is done with"`
		By     string `json:"by,omitempty" maxLength:"128" doc:"Who does it; it is kept. Default: api"`
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

type retryInput struct {
	EventPath
	Body *struct {
		By string `json:"by,omitempty" maxLength:"128" doc:"Who does it; it is kept. Default: api"`
	} `required:"false"`
}

func (s *server) registerQueue() {
	tags := []string{"queue"}
	const path = "/v1/threads/{id}/queue"
	register(s, auth.Read, huma.Operation{
		OperationID: "getQueue", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the events of the queue", Errors: []int{404, 503},
	}, s.getQueue)
	register(s, auth.Operate, huma.Operation{
		OperationID: "addToQueue", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Add an event of any type", DefaultStatus: http.StatusAccepted,
		Description: "Answers when the thread has accepted or refused it. An id that the thread has had before is a duplicate, which changes nothing.",
		Errors:      []int{400, 404, 409, 413, 429, 503},
	}, s.addToQueue)
	s.registerPlace("getCurrentEvent", path+"/current", "Get the event that is being processed", current)
	s.registerPlace("getNextEvent", path+"/next", "Get the event that is processed next", next)
	register(s, auth.Read, huma.Operation{
		OperationID: "getEvent", Method: http.MethodGet, Path: path + "/{eventId}", Tags: tags,
		Summary:     "Get an event of the queue",
		Description: "Events that have ended are known for a while: what the queue does not have is in the thread's events.",
		Errors:      []int{404, 503},
	}, s.getItem)
	register(s, auth.Operate, huma.Operation{
		OperationID: "setEventStatus", Method: http.MethodPatch, Path: path + "/{eventId}", Tags: tags,
		Summary: "Change the status of an event by hand",
		Description: "An event that waits and is given a status other than pending is never processed; the turn of the one that is being processed is interrupted. " +
			"pending retries a failed event, and processes the one that is being processed again. A change that is not possible is a 409.",
		Errors: []int{400, 404, 409, 413, 503},
	}, s.setStatus)
	register(s, auth.Operate, huma.Operation{
		OperationID: "retryEvent", Method: http.MethodPost, Path: path + "/{eventId}/retry", Tags: tags,
		Summary:     "Process a failed event again",
		Description: "An event that has not failed is a 409.",
		Errors:      []int{400, 404, 409, 413, 503},
	}, s.retryItem)
}

// registerPlace registers the get of an event by its place in the queue.
func (s *server) registerPlace(id, path, summary string, place func(signals.Queue) *event.Item) {
	register(s, auth.Read, huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{"queue"}, Summary: summary,
		Errors:    []int{404, 503},
		Responses: map[string]*huma.Response{"204": {Description: "There is none"}},
	}, func(ctx context.Context, in *ThreadPath) (*maybeItem, error) {
		q, err := s.queue(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		item := place(q)
		if item == nil {
			return &maybeItem{Status: http.StatusNoContent}, nil
		}
		view := itemView(*item)
		return &maybeItem{Status: http.StatusOK, Body: &view}, nil
	})
}

func current(q signals.Queue) *event.Item { return q.Processing }

func next(q signals.Queue) *event.Item {
	if it, ok := q.Next(time.Now()); ok {
		return &it
	}
	return nil
}

// queue asks the thread for its queue. The error is a problem document.
func (s *server) queue(ctx context.Context, id string) (signals.Queue, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	q, err := s.Threads.Queue(within, id)
	if err != nil {
		return q, s.problem(ctx, id, err)
	}
	return q, nil
}

func (s *server) getQueue(ctx context.Context, in *ThreadPath) (*queueOutput, error) {
	q, err := s.queue(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &queueOutput{}
	if q.Processing != nil {
		view := itemView(*q.Processing)
		out.Body.Processing = &view
	}
	if len(q.Waiting) > 0 {
		out.Body.Waiting = itemViews(q.Waiting)
	}
	out.Body.Items, out.Body.Failed, out.Body.Ended = itemViews(q.Items), itemViews(q.Failed), s.itemsOf(ctx, in.ID, q.Ended...)
	return out, nil
}

func (s *server) getItem(ctx context.Context, in *EventPath) (*itemOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	item, err := s.Threads.Item(within, in.ID, in.EventID)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	return &itemOutput{s.itemsOf(ctx, in.ID, item)[0]}, nil
}

func (s *server) addToQueue(ctx context.Context, in *addInput) (*addOutput, error) {
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
	if err := s.prepare(ctx, in.ID, &post, in.Body.PostOptions); err != nil {
		return nil, err
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	result, err := s.Threads.PostUpdate(within, in.ID, post)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &addOutput{}
	out.Body.EventID, out.Body.Status = result.EventID, result.Status
	return out, nil
}

// prepare adds the options to a post and checks it. The error is a problem document
// that names the field of the body.
func (s *server) prepare(ctx context.Context, threadID string, post *signals.Post, o PostOptions) error {
	post.OnBusy, post.Priority, post.TTL = signals.OnBusy(o.OnBusy), o.Priority, o.TTL
	post.OnWaiting, post.Agents, post.Tools = event.OnWaiting(o.OnWaiting), o.Agents, o.Tools
	err := threadclient.Prepare(threadID, post)
	if len(post.Payload) > signals.MaxPayload {
		return tooLarge("body.payload", len(post.Payload))
	}
	if err != nil {
		return s.problem(ctx, threadID, err)
	}
	return s.checkAgents(ctx, "body.agents", post.Agents)
}

func (s *server) setStatus(ctx context.Context, in *statusInput) (*itemOutput, error) {
	change := signals.SetStatus{EventID: in.EventID, Status: event.Status(in.Body.Status), By: in.Body.By, Reason: in.Body.Reason}
	var err error
	if change.By, err = actor(ctx, "body.by", change.By, byAPI); err != nil {
		return nil, err
	}
	return s.changed(ctx, in.EventPath, func(ctx context.Context) (event.Item, error) {
		return s.Threads.SetStatus(ctx, in.ID, change)
	})
}

func (s *server) retryItem(ctx context.Context, in *retryInput) (*itemOutput, error) {
	given := ""
	if in.Body != nil {
		given = in.Body.By
	}
	by, err := actor(ctx, "body.by", given, byAPI)
	if err != nil {
		return nil, err
	}
	return s.changed(ctx, in.EventPath, func(ctx context.Context) (event.Item, error) {
		return s.Threads.Retry(ctx, in.ID, in.EventID, by)
	})
}

// changed answers with the item that change returns.
func (s *server) changed(ctx context.Context, at EventPath, change func(context.Context) (event.Item, error)) (*itemOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	item, err := change(within)
	if err == nil {
		return &itemOutput{s.itemsOf(ctx, at.ID, item)[0]}, nil
	}
	if !errors.Is(err, signals.ErrRefused) {
		return nil, s.problem(ctx, at.ID, err)
	}
	// A thread says in words only why it refuses: whether it knows the event is asked.
	var unknown *threadclient.UnknownEventError
	if _, missing := s.Threads.Item(within, at.ID, at.EventID); errors.As(missing, &unknown) {
		return nil, s.problem(ctx, at.ID, missing)
	}
	return nil, huma.Error409Conflict(err.Error())
}
