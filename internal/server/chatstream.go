package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/store"
)

// answer is the assistant message that a stream shows.
type answer struct {
	// messageID is the posted message that it answers, eventID the event of the turn: "" until the
	// thread has it.
	messageID, eventID string

	// from is where its events begin. Those up to after are known to the client.
	from, after feed.Cursor

	// settled are the calls that the client has settled with its request, before is the record
	// before that. The turn does not wait while their decisions and results are still to come.
	settled []string
	before  int64
}

// wire writes the chunks of a turn in the form of a protocol.
type wire struct {
	header map[string]string
	encode func(uistream.Chunk) []any
	end    string // after everything
}

// aiSDK is the form of the AI SDK.
var aiSDK = wire{
	header: map[string]string{"X-Vercel-Ai-Ui-Message-Stream": "v1"},
	encode: func(c uistream.Chunk) []any { return []any{c} },
	end:    "data: [DONE]\n\n",
}

// stream streams a turn for the AI SDK.
func (h *chatHandlers) stream(ctx context.Context, body *chatRequest, at answer) (*huma.StreamResponse, error) {
	return h.streamAs(ctx, aiSDK, body.ID, body.Tools, at)
}

// streamAs opens the reader before the response begins, so that errors have a status.
func (h *chatHandlers) streamAs(ctx context.Context, as wire, threadID string, static []string, at answer) (*huma.StreamResponse, error) {
	leave, err := h.viewers.enter()
	if err != nil {
		return nil, err
	}
	reader, err := h.feed.Open(ctx, h.key(threadID), feed.From{Cursor: at.from})
	if err != nil {
		leave()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		defer reader.Close()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.viewers.closing, cancel)()
		header := w.Header()
		header.Set("Content-Type", typeSSE)
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
		for name, value := range as.header {
			header.Set(name, value)
		}
		w.WriteHeader(http.StatusOK)
		s := &chatStream{
			answer: at, wire: as, reader: reader, out: &eventWriter{w: w, rc: http.NewResponseController(w)},
			cfg: uistream.Config{ThreadID: threadID, EventID: at.eventID, MessageID: at.messageID, Static: static},
		}
		if err := s.run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
			h.logger.Warn("chat stream ends; the client resumes", "thread", threadID, "error", err)
		}
	}}, nil
}

// errGone means that the client has disconnected.
var errGone = errors.New("the client has gone")

// chatStream writes one assistant message.
type chatStream struct {
	answer
	wire
	cfg    uistream.Config
	turn   *uistream.Turn
	reader *feed.Reader
	out    *eventWriter
	live   bool // whether the client does not have what follows
}

func (s *chatStream) run(ctx context.Context) error {
	s.turn = uistream.NewTurn(s.cfg)
	s.live = s.after.IsZero()
	if err := s.write(uistream.Begin(s.cfg)); err != nil {
		return err
	}
	for {
		item, err := s.reader.Next(ctx)
		switch {
		case errors.Is(err, feed.ErrIdle):
			if !s.out.heartbeat() {
				return errGone
			}
			continue
		case errors.Is(err, store.ErrUnavailable):
			if !s.out.heartbeat() || !sleep(ctx, storeRetry) {
				return errGone
			}
			continue
		case errors.Is(err, io.EOF):
			return s.done()
		case err != nil:
			return err
		}
		if over, err := s.apply(item); over || err != nil {
			return err
		}
	}
}

// apply writes the chunks of an item. It reports whether the stream is over.
func (s *chatStream) apply(item feed.Item) (over bool, err error) {
	e := item.Event
	if s.cfg.EventID == "" {
		switch {
		case e.Type == event.EventMessage && e.MessageID == s.messageID, e.EndsTurn() && e.EventID == s.messageID:
			s.cfg.EventID = e.EventID
			s.turn = uistream.NewTurn(s.cfg)
		default:
			return false, nil
		}
	}
	// The answer to a message that joined the turn is another assistant message.
	if e.Type == event.EventMessage && e.EventID == s.cfg.EventID && e.Message.SenderType == event.CreatedByUser && e.MessageID != s.messageID &&
		e.MessageID != e.EventID+".observed" && e.MessageID != e.EventID {
		if err := s.write([]uistream.Chunk{{Type: "finish-step"}, {Type: "finish", FinishReason: "other"}}); err != nil {
			return true, err
		}
		return true, s.done()
	}
	if e.EndsTurn() && e.EventID == s.cfg.EventID {
		s.live = true // what waits for it must end in any case
	}
	if (e.Type == event.EventApproval || e.Type == event.EventToolResult) && item.Cursor.Seq > s.before {
		s.settled = slices.DeleteFunc(s.settled, func(id string) bool { return id == e.ToolCallID })
	}
	chunks := s.turn.Apply(e)
	if s.live = s.live || item.Cursor.Seq > s.after.Seq; s.live {
		if err := s.write(chunks); err != nil {
			return true, err
		}
	}
	s.live = s.live || item.Cursor == s.after
	if s.turn.Ended() {
		return true, s.done()
	}
	if s.live && s.turn.Waits() && item.Cursor != s.after && item.Cursor.Seq >= s.before && len(s.settled) == 0 && !s.reader.Buffered() {
		if err := s.write(s.turn.Pause(item.Cursor.String())); err != nil {
			return true, err
		}
		return true, s.done()
	}
	return false, nil
}

func (s *chatStream) write(chunks []uistream.Chunk) error {
	for i, c := range chunks {
		for _, e := range s.encode(c) {
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			s.out.buf = append(append(append(s.out.buf[:0], "data: "...), data...), "\n\n"...)
			if !s.out.write(i == len(chunks)-1) {
				return errGone
			}
		}
	}
	return nil
}

// done writes the end of the stream.
func (s *chatStream) done() error {
	s.out.buf = append(s.out.buf[:0], s.end...)
	s.out.write(true)
	return nil
}
