package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// answer is the assistant message that a stream shows.
type answer struct {
	// MessageID is the posted message that it answers, EventID the event of the turn: "" until the
	// thread has it.
	MessageID string `json:"m"`
	EventID   string `json:"e,omitempty"`

	// From is where its events begin. Those up to After are known to the client.
	From  feed.Cursor `json:"f,omitzero"`
	After feed.Cursor `json:"a,omitzero"`

	// Settled are the calls that the client has settled with its request, Before is the record
	// before that. The turn does not wait while their decisions and results are still to come.
	Settled []string `json:"s,omitempty"`
	Before  int64    `json:"b,omitempty"`

	// Skip is the number of chunks that the client has of an indexed stream.
	Skip int `json:"-"`
}

// run is an answer whose stream can be resumed at any chunk. Its id has all that the stream depends on,
// so that each API process can resume it.
type run struct {
	answer
	ThreadID string   `json:"t"`
	Tools    []string `json:"tools,omitempty"`
}

// runPrefix begins the id of a run, and no id of a thread.
const runPrefix = "~"

func (r run) id() string {
	data, _ := json.Marshal(r) // it has only strings and numbers
	return runPrefix + base64.RawURLEncoding.EncodeToString(data)
}

func parseRun(id string) (r run, err error) {
	data, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || r.MessageID == "" || signals.ValidateID("threadId", r.ThreadID) != nil {
		return r, refuse(http.StatusNotFound, "id", "is neither a thread nor a run that x-workflow-run-id named")
	}
	return r, nil
}

// maxRunTools is the maximum size of the names of tools in the id of a run. Clients accept headers of some
// KiB.
const maxRunTools = 4 << 10

// checkRun returns an error unless the thread of a run has its message, and has had it in the event of the
// run: the stream of any other would wait for ever.
func (h *chatHandlers) checkRun(ctx context.Context, r run) error {
	if _, err := h.thread(ctx, r.ThreadID); err != nil {
		return err
	}
	record, err := h.record(ctx, r.ThreadID, r.MessageID)
	switch {
	case err != nil:
		return err
	case record != nil && (r.EventID == "" || r.EventID == record.EventID):
		return nil
	case record != nil || r.EventID != "":
		return refuse(http.StatusNotFound, "id", "is no run of this thread")
	}
	_, err = ask(ctx, h.core, r.ThreadID, func(ctx context.Context) (event.Item, error) { return h.threads.Item(ctx, r.ThreadID, r.MessageID) })
	return err
}

// wire writes the chunks of a turn in the form of a protocol.
type wire struct {
	header map[string]string
	encode func(uistream.Chunk) []any
	end    string // after everything

	// indexed means that each reader gets the same chunks: those of records, nothing live.
	indexed bool
}

// aiSDK is the form of the AI SDK.
var aiSDK = wire{
	header: map[string]string{"X-Vercel-Ai-Ui-Message-Stream": "v1"},
	encode: func(c uistream.Chunk) []any { return []any{c} },
	end:    "data: [DONE]\n\n",
}

// stream streams a turn for the AI SDK.
func (h *chatHandlers) stream(ctx context.Context, body *chatRequest, at answer) (*huma.StreamResponse, error) {
	as := aiSDK
	if as.indexed = body.Indexed; as.indexed {
		as.header = maps.Clone(as.header)
		as.header["X-Workflow-Run-Id"] = run{answer: at, ThreadID: body.ID, Tools: body.Tools}.id()
	}
	return h.streamAs(ctx, as, uistream.Config{ThreadID: body.ID, EventID: at.EventID, MessageID: at.MessageID, Static: body.Tools, Version: body.Version}, at)
}

// streamAs opens the reader before the response begins, so that errors have a status.
func (h *chatHandlers) streamAs(ctx context.Context, as wire, cfg uistream.Config, at answer) (*huma.StreamResponse, error) {
	leave, err := h.viewers.enter()
	if err != nil {
		return nil, err
	}
	stored, err := h.store.Thread(ctx, h.key(cfg.ThreadID))
	if errors.Is(err, store.ErrNotFound) {
		err = nil // its first message waits for a worker
	}
	var reader *feed.Reader
	if err == nil {
		reader, err = h.feed.Open(ctx, h.key(cfg.ThreadID), feed.From{Cursor: at.From, Finite: stored.Status == store.ThreadClosed})
	}
	if err != nil {
		leave()
		return nil, err
	}
	return as.response(func(ctx context.Context, out *eventWriter) {
		defer leave()
		defer reader.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(h.viewers.closing, cancel)()
		s := &chatStream{answer: at, wire: as, reader: reader, out: out, cfg: cfg, head: stored.Head}
		if stored.ID == "" {
			s.until = time.Now().Add(h.waitLimit)
		}
		if err := s.run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
			h.logger.Warn("chat stream ends; the client resumes", "thread", cfg.ThreadID, "error", err)
		}
	}), nil
}

// response is a response whose body a function writes.
func (as wire) response(body func(context.Context, *eventWriter)) *huma.StreamResponse {
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
		body(asStream(r.Context()), &eventWriter{w: w, rc: http.NewResponseController(w)})
	}}
}

// whole is a response of these chunks only.
func (as wire) whole(chunks ...uistream.Chunk) *huma.StreamResponse {
	return as.response(func(_ context.Context, out *eventWriter) {
		_ = (&chatStream{wire: as, out: out}).finish(chunks) // the client may have gone
	})
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
	closed bool // the thread is

	// head is the newest record when the stream began: a request before it may have been answered since.
	head int64

	// until is when the stream of a thread that has stored nothing ends.
	until time.Time
}

func (s *chatStream) run(ctx context.Context) error {
	s.turn = uistream.NewTurn(s.cfg)
	s.live = s.After.IsZero()
	if err := s.write(uistream.Begin(s.cfg)); err != nil {
		return err
	}
	for {
		item, err := s.reader.Next(ctx)
		switch {
		case errors.Is(err, feed.ErrIdle) && s.closed:
			return s.done() // the last events of a closing thread have arrived by then
		case errors.Is(err, feed.ErrIdle) && !s.until.IsZero() && time.Now().After(s.until):
			return s.finish([]uistream.Chunk{{Type: "error", ErrorText: "no worker has taken the message yet: it is kept, and is answered when there is one"}})
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
		s.closed, s.until = s.closed || item.Closes(), time.Time{}
		if over, err := s.apply(item); over || err != nil {
			return err
		}
	}
}

// apply writes the chunks of an item. It reports whether the stream is over.
func (s *chatStream) apply(item feed.Item) (over bool, err error) {
	e := item.Event
	if s.indexed && item.Record == nil {
		return false, nil
	}
	if s.cfg.EventID == "" {
		switch {
		case e.Type == event.EventMessage && e.MessageID == s.MessageID, e.EndsTurn() && e.EventID == s.MessageID:
			s.cfg.EventID = e.EventID
			s.turn = uistream.NewTurn(s.cfg)
		default:
			return false, nil
		}
	}
	// The answer to a message that joined the turn is another assistant message.
	if e.Type == event.EventMessage && e.EventID == s.cfg.EventID && e.MessageID != s.MessageID && e.MessageID != e.EventID && uistream.Said(e.EventID, e.Message) {
		return true, s.finish([]uistream.Chunk{{Type: "finish-step"}, {Type: "finish", FinishReason: "other"}})
	}
	if e.EndsTurn() && e.EventID == s.cfg.EventID {
		s.live = true // what waits for it must end in any case
	}
	if (e.Type == event.EventApproval || e.Type == event.EventToolResult || e.Type == event.EventInputReceived) && item.Cursor.Seq > s.Before {
		s.Settled = slices.DeleteFunc(s.Settled, func(id string) bool { return id == e.ToolCallID })
	}
	chunks := s.turn.Apply(e)
	if s.live = s.live || item.Cursor.Seq > s.After.Seq; s.live {
		if err := s.write(chunks); err != nil {
			return true, err
		}
	}
	s.live = s.live || item.Cursor == s.After
	if s.turn.Ended() {
		return true, s.done()
	}
	if s.live && s.turn.Waits() && item.Cursor != s.After && item.Cursor.Seq >= max(s.Before, s.head) && len(s.Settled) == 0 && !s.reader.Buffered() {
		pause := s.turn.Pause(item.Cursor.String())
		if s.indexed {
			pause = pause[len(pause)-1:] // a reader that comes later has what follows in its place
		}
		return true, s.finish(pause)
	}
	return false, nil
}

// finish writes the last chunks.
func (s *chatStream) finish(chunks []uistream.Chunk) error {
	if err := s.write(chunks); err != nil {
		return err
	}
	return s.done()
}

func (s *chatStream) write(chunks []uistream.Chunk) error {
	for i, c := range chunks {
		if s.Skip > 0 {
			s.Skip--
			continue
		}
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
