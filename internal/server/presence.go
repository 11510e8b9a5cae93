package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server/presence"
	"github.com/threadmill/threadmill/stream"
)

// presenceHandlers say who looks at a thread.
type presenceHandlers struct {
	*lookup
	room *presence.Room
}

type presenceInput struct {
	ThreadPath
	Body struct {
		ID   string `json:"id" minLength:"1" maxLength:"64" doc:"Identifies the window of the viewer, which chooses it at random"`
		By   string `json:"by,omitempty" doc:"Who looks at the thread. The name of the API key, or without one what the client sends"`
		Left bool   `json:"left,omitempty" doc:"The viewer does not look at it any more"`
	}
}

// Presence is who looks at a thread.
type Presence struct {
	Others []PresentViewer `json:"others" nullable:"false" doc:"Who else looks at the thread, the first to come first"`
}

// PresentViewer is a window in which somebody looks at a thread.
type PresentViewer struct {
	Name  string    `json:"name" doc:"Whose window it is"`
	Since time.Time `json:"since" doc:"When it began to look at the thread"`
}

func (h *presenceHandlers) registerPresence() {
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "seeThread", Method: http.MethodPost, Path: "/v1/threads/{id}/presence", Tags: []string{"threads"},
		Summary: "Say that somebody looks at a thread, and see who else does",
		Description: "A viewer counts for 30 seconds: repeat it every 10. Those who are served by other processes may be missing in the first response. " +
			"Nothing of it is stored.",
		Errors: []int{403, 404, 422, 429, 503},
	}, h.see)
}

func (h *presenceHandlers) see(ctx context.Context, in *presenceInput) (*output[Presence], error) {
	name, err := actor(ctx, "body.by", in.Body.By, "")
	if err == nil && name == "" {
		err = refuse(http.StatusUnprocessableEntity, "body.by", "is required, since no API key states who looks at the thread")
	}
	if err != nil {
		return nil, err
	}
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	// A principal says nothing of others.
	v := presence.Viewer{ID: name + "\n" + in.Body.ID, Name: name}
	out := &output[Presence]{Presence{Others: []PresentViewer{}}}
	var others []presence.Viewer
	if in.Body.Left {
		err = h.room.Leave(within, h.key(in.ID), v.ID)
	} else {
		others, err = h.room.See(within, h.key(in.ID), v, shareOf(ctx))
	}
	for _, o := range others {
		out.Body.Others = append(out.Body.Others, PresentViewer{o.Name, o.Since})
	}
	switch {
	case errors.Is(err, presence.ErrShare):
		return nil, later(http.StatusTooManyRequests, "30", "too many windows of this key look at threads of this process, or at this one; close some")
	case errors.Is(err, presence.ErrFull):
		return nil, later(http.StatusServiceUnavailable, "30", "too many windows look at threads of this process, or at this one; retry")
	case err != nil && ctx.Err() == nil && !errors.Is(err, stream.ErrClosed):
		if !errors.Is(err, stream.ErrUnavailable) {
			h.logger.Warn("telling who looks at a thread failed", "thread", in.ID, "error", err)
		}
		return nil, later(http.StatusServiceUnavailable, "5", "the live stream cannot be reached, or does not answer in time")
	}
	return out, h.problem(ctx, in.ID, err)
}
