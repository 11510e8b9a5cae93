package server

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/chat/chatfeed"
)

// wire is the form in which a protocol writes an answer.
type wire struct {
	header  map[string]string
	trailer string // after everything

	// indexed means that each reader gets the same: what follows from records, and nothing live.
	indexed bool
}

// anys returns the elements of a list.
func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, one := range list {
		out[i] = one
	}
	return out
}

// aiSDK is the form of the AI SDK.
var aiSDK = wire{header: map[string]string{"X-Vercel-Ai-Ui-Message-Stream": "v1"}, trailer: "data: [DONE]\n\n"}

// sdkEncoder is the [chatfeed.Encoder] of the AI SDK.
type sdkEncoder struct {
	*aisdk.Encoder
	indexed bool
	claimed []aisdk.UIPart // what the client has of tools
}

func (e sdkEncoder) Begin() []any                      { return anys(e.Encoder.Begin()) }
func (e sdkEncoder) Assume(m *chat.Message)            { e.Encoder.Assume(m, e.claimed) }
func (e sdkEncoder) Sync(m *chat.Message) []any        { return anys(e.Encoder.Sync(m)) }
func (e sdkEncoder) Correct(m *chat.Message) []any     { return anys(e.Encoder.Correct(m)) }
func (e sdkEncoder) Progress(a event.AgentEvent) []any { return anys(e.Encoder.Progress(a)) }
func (e sdkEncoder) End(m *chat.Message) []any         { return anys(e.Encoder.End(m)) }
func (e sdkEncoder) Fail(problem string) []any         { return anys(aisdk.Fail(problem)) }

func (e sdkEncoder) Place(at string) []any {
	if e.indexed {
		return nil // its reader has a place of its own
	}
	return anys(e.Encoder.Place(at))
}

func (e sdkEncoder) Pause(_ *chat.Message, place string) []any {
	out := e.Encoder.Pause(place)
	if e.indexed {
		out = out[len(out)-1:] // a reader that comes later has what follows in its place
	}
	return anys(out)
}

// stream streams an answer for the AI SDK. The client claims to have these tools.
func (h *chatHandlers) stream(ctx context.Context, body *chatRequest, at chatfeed.Answer, claimed ...aisdk.UIPart) (*huma.StreamResponse, error) {
	as := aiSDK
	if as.indexed = body.Indexed; as.indexed {
		as.header = maps.Clone(as.header)
		as.header["X-Workflow-Run-Id"] = run{Answer: at, ThreadID: body.ID, Tools: body.Tools, Version: body.Version}.id()
		claimed = nil // the id of the run does not have them
	}
	cfg := aisdk.Config{ThreadID: body.ID, EventID: at.EventID, MessageID: at.MessageID, Static: body.Tools, Version: body.Version}
	return h.streamAs(ctx, as, body.ID, at, sdkEncoder{aisdk.New(cfg), body.Indexed, claimed})
}

// streamAs opens the reader before the response begins, so that errors have a status.
func (h *chatHandlers) streamAs(ctx context.Context, as wire, threadID string, at chatfeed.Answer, e chatfeed.Encoder) (*huma.StreamResponse, error) {
	leave, err := h.viewers.enter(ctx)
	if err != nil {
		return nil, err
	}
	s, err := h.chats.Open(ctx, threadID, at, as.indexed, e)
	if err != nil {
		leave()
		return nil, err
	}
	return as.response(func(ctx context.Context, out *eventWriter) error {
		defer leave()
		defer s.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(h.viewers.closing, cancel)()
		err := s.Follow(ctx, out)
		if err != nil && ctx.Err() == nil && !errors.Is(err, chatfeed.ErrGone) {
			h.logger.Warn("chat stream ends; the client resumes", "thread", threadID, "error", err)
		}
		return err
	}), nil
}

// response is a response whose events a function writes.
func (as wire) response(events func(context.Context, *eventWriter) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humago.Unwrap(hctx)
		header := w.Header()
		header.Set("Content-Type", typeSSE)
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
		for name, value := range as.header {
			header.Set(name, value)
		}
		releaseSlots(r.Context())
		w.WriteHeader(http.StatusOK)
		out := newEventWriter(w)
		defer out.end()
		if events(asStream(r.Context()), out) == nil {
			out.buf = append(out.buf[:0], as.trailer...)
			out.write(true)
		}
	}}
}

// whole is a response of these events only.
func (as wire) whole(events []any) *huma.StreamResponse {
	return as.response(func(_ context.Context, out *eventWriter) error { return chatfeed.Write(out, events) })
}
