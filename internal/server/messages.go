package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

type postInput struct {
	ThreadPath
	Wait bool `query:"wait" doc:"Answer after the turn, with its final message"`
	Body postBody
}

// postBody is the body of POST /v1/threads/{id}/messages.
type postBody struct {
	NewMessage
	PostOptions
}

// postOutput is the response to a message: 202 with its event id, or 200 after the turn.
type postOutput struct {
	Status int
	Body   signals.TurnResult
}

type messagesInput struct {
	ThreadPath
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of a page"`
	Cursor string `query:"cursor" doc:"The next of the previous page"`
}

type messagesOutput struct {
	Body struct {
		Messages []event.StoredMessage `json:"messages" nullable:"false" doc:"The messages, the oldest first"`
		Next     string                `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

// Messenger is the part of the thread client for messages.
type Messenger interface {
	feed.Threads
	State(ctx context.Context, threadID string) (signals.State, error)
}

// messageHandlers serve the messages of threads.
type messageHandlers struct {
	*lookup
	messenger Messenger
	events    *feed.Feed
	waitLimit time.Duration
}

func (h *messageHandlers) registerMessages() {
	tags := []string{"messages"}
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "postMessage", Method: http.MethodPost, Path: "/v1/threads/{id}/messages", Tags: tags,
		Summary: "Post a message", DefaultStatus: http.StatusAccepted,
		Description: "202 with the event's id once Temporal keeps the message; with wait=true 200 after the turn, or 202 if the turn takes longer than the server waits, or no worker runs. " +
			"A turn that failed is a 200 with status and error. The status processed means that the turn ended too long ago for the thread to know how: read its messages.",
		Errors:    []int{400, 404, 409, 413, 429, 503},
		Responses: map[string]*huma.Response{"200": {Description: "The turn has ended"}},
	}, h.postMessage)
	op := h.api.OpenAPI().Paths["/v1/threads/{id}/messages"].Post
	op.Responses["200"].Content = op.Responses["202"].Content
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listMessages", Method: http.MethodGet, Path: "/v1/threads/{id}/messages", Tags: tags,
		Summary: "List messages, the oldest first", Errors: []int{404, 503},
		Description: "Messages as changed by hooks. Messages that a hook hides are left out, so that a page with a next may be short.",
	}, h.listMessages)
}

func (h *messageHandlers) postMessage(ctx context.Context, in *postInput) (*postOutput, error) {
	if in.Wait {
		if err := needs(ctx, auth.RoleRead, "query.wait"); err != nil {
			return nil, err
		}
	}
	post, err := newPost(ctx, in.ID, "body.", in.Body.NewMessage)
	if err != nil {
		return nil, err
	}
	if err := h.prepare(ctx, in.ID, &post, in.Body.PostOptions); err != nil {
		return nil, err
	}
	out := &postOutput{Status: http.StatusAccepted, Body: signals.TurnResult{EventID: post.ID}}
	if in.Wait {
		guard.ForgetBody(ctx)
		var turn signals.TurnResult
		turn, err = h.turn(ctx, in.ID, post)
		switch {
		case err == nil:
			out.Status = http.StatusOK
			out.Body, out.Body.EventID, out.Body.LastRecord = turn, post.ID, ""
		case errors.Is(err, errTurnGoesOn):
			err = nil
		case errors.Is(err, signals.ErrProcessed):
			// This is not a 202, since there is no turn to wait for.
			out.Status, out.Body.Status, err = http.StatusOK, signals.ProcessedType, nil
		}
	} else {
		_, err = update(ctx, h.core, in.ID, h.messenger.Post, post)
	}
	return out, h.problem(ctx, in.ID, err)
}

// pageBytes is the approximate maximum size of a page of messages, in bytes.
const pageBytes = feed.PageBytes

// newPost returns the post of a person's message. at is the location of the message in the request.
func newPost(ctx context.Context, threadID, at string, m NewMessage) (signals.Post, error) {
	if event.Blank(m.Content) {
		return signals.Post{}, refuse(http.StatusUnprocessableEntity, at+"content", "is required")
	}
	if m.ID == "" {
		m.ID = signals.NewID()
	}
	if err := checkID(at+"id", m.ID, signals.ValidateEventID); err != nil {
		return signals.Post{}, err
	}
	sender, err := actor(ctx, at+"sender", m.Sender, string(event.CreatedByUser))
	if err != nil {
		return signals.Post{}, err
	}
	post := signals.NewPost(m.ID, event.NewMessage{
		ThreadID: threadID, SenderID: sender, SenderType: event.CreatedByUser, Content: m.Content, Metadata: m.metadata,
	})
	if len(post.Payload) > signals.MaxPayload {
		return post, tooLarge(at+"content", len(post.Payload))
	}
	return post, nil
}

func tooLarge(location string, size int) error {
	return refuse(http.StatusRequestEntityTooLarge, location,
		fmt.Sprintf("is too large: %d bytes as JSON, at most %d", size, signals.MaxPayload))
}

// errTurnGoesOn means that the turn takes longer than the server waits.
var errTurnGoesOn = errors.New("the turn goes on")

// turn posts the message and waits for its turn. A turn may take long, but a worker must answer
// soon: after a while, turn checks that the thread has one. The error is errTurnGoesOn if the thread has the message and its turn
// has not ended.
func (h *messageHandlers) turn(ctx context.Context, id string, p signals.Post) (signals.TurnResult, error) {
	wait, cancel := context.WithTimeout(ctx, h.waitLimit)
	defer cancel()
	type ended struct {
		result signals.TurnResult
		kept   bool
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		result, kept, err := h.events.PostAndWait(wait, h.messenger, h.key(id), p)
		done <- ended{result, kept, err}
	}()
	patience := time.NewTimer(h.answerWithin)
	defer patience.Stop()
	asked := make(chan error, 1)
	for {
		select {
		case end := <-done:
			if end.kept && end.err != nil && wait.Err() != nil && ctx.Err() == nil {
				return end.result, errTurnGoesOn
			}
			return end.result, end.err
		case <-patience.C:
			// This runs concurrently, since the turn may end before the thread answers.
			go func() { asked <- h.ask(wait, id) }()
		case err := <-asked:
			if err != nil {
				cancel()
				switch end := <-done; {
				case end.err == nil:
					return end.result, nil
				case end.kept:
					return end.result, errTurnGoesOn
				}
				return signals.TurnResult{}, err
			}
		}
	}
}

// ask returns an error if no worker answers for the thread.
func (h *messageHandlers) ask(ctx context.Context, id string) error {
	within, cancel := h.answer(ctx)
	defer cancel()
	if _, err := h.messenger.State(within, id); err != nil && unanswered(err) && ctx.Err() == nil {
		return err
	}
	return nil
}

func (h *messageHandlers) listMessages(ctx context.Context, in *messagesInput) (*messagesOutput, error) {
	after, err := h.pageStart(ctx, in)
	if err != nil {
		return nil, err
	}
	q := store.Query{After: after, Limit: in.Limit + 1, MaxBytes: pageBytes}
	stored, err := transcript.Messages(ctx, h.store, h.key(in.ID), q)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	out := &messagesOutput{}
	records := make([]event.Record, len(stored))
	for i, m := range stored {
		records[i] = m.Record
	}
	if !q.Complete(records) {
		stored = stored[:min(len(stored), in.Limit)]
		out.Body.Next = strconv.FormatInt(stored[len(stored)-1].Record.Seq, 10)
	}
	out.Body.Messages = make([]event.StoredMessage, 0, len(stored))
	for _, m := range stored {
		if m.Problem != nil {
			h.logger.Warn("a message cannot be read, and is left out", "thread", in.ID, "record", m.Record.ID, "error", m.Problem)
		}
		if !m.Hidden {
			out.Body.Messages = append(out.Body.Messages, m.Stored())
		}
	}
	return out, nil
}

// pageStart is the record after which a page begins; 0 for the first page. The cursor is the seq of
// the last record of the previous page.
func (l *lookup) pageStart(ctx context.Context, in *messagesInput) (seq int64, err error) {
	if in.Cursor != "" {
		if seq, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || seq < 0 {
			return 0, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
	}
	_, err = l.thread(ctx, in.ID)
	return seq, err
}
