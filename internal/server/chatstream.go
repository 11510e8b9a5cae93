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
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// answer is the assistant message that a stream shows.
type answer struct {
	// MessageID is the posted message that it answers, EventID the event of the turn: "" until the
	// thread has it.
	MessageID string `json:"m"`
	EventID   string `json:"e,omitempty"`

	// From is where the events of the turn begin. Those up to After are known to the client.
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
	Version  int      `json:"v,omitempty"`
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

// wire is the form in which a protocol writes an answer.
type wire struct {
	header  map[string]string
	trailer string // after everything

	// indexed means that each reader gets the same: what follows from records, and nothing live.
	indexed bool
}

// encoder encodes an answer for one client: see packages aisdk and agui.
type encoder interface {
	begin() []any
	assume(*chat.Message)
	sync(*chat.Message) []any
	correct(*chat.Message) []any
	progress(event.AgentEvent) []any
	place(string) []any
	pause(m *chat.Message, place string) []any
	end(*chat.Message) []any
	fail(problem string) []any
}

// completer is an [encoder] that completes what the client has of earlier answers when a turn begins.
type completer interface {
	complete(ctx context.Context) ([]any, error)
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

// sdkEncoder is the [encoder] of the AI SDK.
type sdkEncoder struct {
	*aisdk.Encoder
	indexed bool
	claimed []aisdk.UIPart // what the client has of tools
}

func (e sdkEncoder) begin() []any                      { return anys(e.Begin()) }
func (e sdkEncoder) assume(m *chat.Message)            { e.Assume(m, e.claimed) }
func (e sdkEncoder) sync(m *chat.Message) []any        { return anys(e.Sync(m)) }
func (e sdkEncoder) correct(m *chat.Message) []any     { return anys(e.Correct(m)) }
func (e sdkEncoder) progress(a event.AgentEvent) []any { return anys(e.Progress(a)) }
func (e sdkEncoder) end(m *chat.Message) []any         { return anys(e.End(m)) }
func (e sdkEncoder) fail(problem string) []any         { return anys(aisdk.Fail(problem)) }

func (e sdkEncoder) place(at string) []any {
	if e.indexed {
		return nil // its reader has a place of its own
	}
	return anys(e.Place(at))
}

func (e sdkEncoder) pause(_ *chat.Message, place string) []any {
	out := e.Pause(place)
	if e.indexed {
		out = out[len(out)-1:] // a reader that comes later has what follows in its place
	}
	return anys(out)
}

// stream streams an answer for the AI SDK. The client claims to have these tools.
func (h *chatHandlers) stream(ctx context.Context, body *chatRequest, at answer, claimed ...aisdk.UIPart) (*huma.StreamResponse, error) {
	as := aiSDK
	if as.indexed = body.Indexed; as.indexed {
		as.header = maps.Clone(as.header)
		as.header["X-Workflow-Run-Id"] = run{answer: at, ThreadID: body.ID, Tools: body.Tools, Version: body.Version}.id()
		claimed = nil // the id of the run does not have them
	}
	return h.streamAs(ctx, as, body.ID, at, func(at answer) encoder {
		cfg := aisdk.Config{ThreadID: body.ID, EventID: at.EventID, MessageID: at.MessageID, Static: body.Tools, Version: body.Version}
		return sdkEncoder{aisdk.New(cfg), body.Indexed, claimed}
	})
}

// streamAs opens the reader before the response begins, so that errors have a status.
func (h *chatHandlers) streamAs(ctx context.Context, as wire, threadID string, at answer, encode func(answer) encoder) (*huma.StreamResponse, error) {
	leave, err := h.viewers.enter()
	if err != nil {
		return nil, err
	}
	s := &chatStream{answer: at, wire: as, handlers: h, key: h.key(threadID), encoder: encode(at)}
	if err = s.open(ctx); err != nil {
		leave()
		return nil, err
	}
	return as.response(func(ctx context.Context, out *eventWriter) {
		defer leave()
		defer func() { s.reader.Close() }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(h.viewers.closing, cancel)()
		s.out = out
		if err := s.run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
			h.logger.Warn("chat stream ends; the client resumes", "thread", threadID, "error", err)
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

// whole is a response of these events only.
func (as wire) whole(events []any) *huma.StreamResponse {
	return as.response(func(_ context.Context, out *eventWriter) {
		_ = (&chatStream{wire: as, out: out}).finish(events) // the client may have gone
	})
}

// errGone means that the client has disconnected.
var errGone = errors.New("the client has gone")

// chatStream writes one answer. It reads what is stored, writes how that differs from what the client has, and then
// what follows.
type chatStream struct {
	answer
	wire
	encoder
	handlers *chatHandlers
	key      store.Key
	reader   *feed.Reader
	out      *eventWriter

	chat   chat.Chat
	ready  bool // whether what follows is written
	closed bool // the thread is

	// busy is where all that is stored waits, while the thread says that an agent is at work.
	busy *feed.Item

	// head is the newest record when the stream began: what happened before is no news.
	head int64

	// until is when the stream of a thread that has stored nothing ends.
	until time.Time
}

// open opens the reader at the beginning of the turn.
func (s *chatStream) open(ctx context.Context) error {
	h := s.handlers
	stored, err := h.store.Thread(ctx, s.key)
	if errors.Is(err, store.ErrNotFound) {
		err = nil // its first message waits for a worker
		s.until = time.Now().Add(h.waitLimit)
	}
	if err != nil {
		return err
	}
	s.head = stored.Head
	s.reader, err = h.feed.Open(ctx, s.key, feed.From{Cursor: s.From, Finite: stored.Status == store.ThreadClosed, Starts: true, Records: []string{feed.EveryType}})
	return err
}

func (s *chatStream) run(ctx context.Context) error {
	if err := s.write(s.begin()); err != nil {
		return err
	}
	s.ready = s.indexed && s.After.IsZero()
	for {
		item, err := s.reader.Next(ctx)
		switch {
		case errors.Is(err, feed.ErrIdle) && s.closed:
			return s.done() // the last events of a closing thread have arrived by then
		case errors.Is(err, feed.ErrIdle) && !s.until.IsZero() && time.Now().After(s.until):
			return s.finish(s.fail("no worker has taken the message yet: it is kept, and is answered when there is one"))
		case errors.Is(err, feed.ErrIdle):
			if m := s.message(); s.ready && m != nil && m.Over() {
				return s.finish(append(s.correct(m), s.end(m)...)) // what the client has decided is not stored in the thread
			}
			if s.busy != nil {
				if over, err := s.show(ctx, *s.busy, s.message()); over || err != nil {
					return err
				}
			}
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
			return s.last()
		case err != nil:
			return err
		}
		s.closed, s.until = s.closed || item.Closes(), time.Time{}
		if over, err := s.take(ctx, item); over || err != nil {
			return err
		}
	}
}

// message returns the answer, or nil while there is none.
func (s *chatStream) message() *chat.Message { return s.chat.Answer(s.MessageID) }

// take adds an item, and writes what it changes. It reports whether the stream is over.
func (s *chatStream) take(ctx context.Context, item feed.Item) (over bool, err error) {
	e := item.Event
	if s.indexed && item.Record == nil {
		return false, nil
	}
	if began := s.EventID != ""; !began {
		joined := s.begins(e)
		if c, is := s.encoder.(completer); is && s.EventID != "" {
			out, err := c.complete(ctx)
			if err == nil {
				err = s.write(out)
			}
			if err != nil {
				return false, err
			}
		}
		if joined {
			return false, s.restart(ctx)
		}
	}
	if !s.ready && !s.After.IsZero() && item.Cursor.Seq > s.After.Seq {
		s.assumeAll()
	}
	if e.EventID == s.EventID && e.EventID != "" {
		e.MessageID = item.MessageID()
		s.chat.Apply(e)
		if e.Type == event.EventApproval || e.Type == event.EventToolResult || e.Type == event.EventInputReceived {
			if item.Cursor.Seq > s.Before {
				s.Settled = slices.DeleteFunc(s.Settled, func(id string) bool { return id == e.ToolCallID })
			}
		}
	}
	caughtUp := reaches(item.Cursor, feed.Cursor{Seq: s.head})
	if !s.ready && !s.After.IsZero() && (caughtUp || reaches(item.Cursor, s.After)) { // a client may name any place
		s.assumeAll()
	}
	s.ready = s.ready || s.After.IsZero() && caughtUp
	m := s.message()
	if !s.ready || m == nil {
		return false, nil
	}
	return s.show(ctx, item, m)
}

// begins notes that the turn of the answer has begun. It reports whether the message has joined a turn, of which the stream
// needs the beginning.
func (s *chatStream) begins(e event.AgentEvent) (joined bool) {
	if s.EventID != "" || !(e.Type == event.EventMessage && e.MessageID == s.MessageID || e.EndsTurn() && e.EventID == s.MessageID) {
		return false
	}
	s.EventID = e.EventID
	return s.EventID != s.MessageID
}

// restart reads the turn from its beginning.
func (s *chatStream) restart(ctx context.Context) error {
	first, err := s.handlers.record(ctx, s.key.ThreadID, s.EventID)
	if err != nil || first == nil {
		return err
	}
	s.reader.Close()
	s.From = feed.Cursor{Seq: first.Seq - 1}
	return s.open(ctx)
}

// assumeAll notes that the client has everything so far.
func (s *chatStream) assumeAll() {
	if m := s.message(); m != nil {
		s.assume(m)
	}
	s.After = feed.Cursor{}
	s.ready = s.indexed
}

// reaches reports whether a cursor is at another one, or behind it.
func reaches(c, at feed.Cursor) bool {
	return c.Seq > at.Seq || c.Seq == at.Seq && c.Part == 0 && c.Offset >= at.Offset
}

// show writes how the answer has changed.
func (s *chatStream) show(ctx context.Context, item feed.Item, m *chat.Message) (over bool, err error) {
	out := s.sync(m)
	settled := len(s.Settled) == 0
	if settled {
		out = append(out, s.correct(m)...)
	}
	if item.Event.EventID == s.EventID {
		out = append(out, s.progress(item.Event)...)
	}
	caughtUp := item.Cursor.Seq >= max(s.Before, s.head) && !s.reader.Buffered()
	s.busy = nil
	switch {
	case m.Over() && settled:
		return true, s.finish(append(out, s.end(m)...))
	case caughtUp && settled && s.chat.Waits(s.EventID):
		if err := s.write(out); err != nil {
			return true, err
		}
		if out = nil; s.rests(ctx, item.Cursor) {
			return true, s.finish(s.pause(m, item.Cursor.String()))
		}
		s.busy = &feed.Item{Cursor: item.Cursor}
	}
	if slices.Contains(asking, item.Event.Type) {
		out = append(out, s.place(item.Cursor.String())...)
	}
	return false, s.write(out)
}

// rests reports whether the turn does nothing of which records will tell: an agent that has only begun has none yet, and a
// decision is stored after the thread has taken it. The store may also be a moment ahead of the thread.
func (s *chatStream) rests(ctx context.Context, at feed.Cursor) bool {
	h, thread := s.handlers, s.key.ThreadID
	for pause := 25 * time.Millisecond; pause < time.Second; pause *= 2 {
		state, err := query(ctx, h.core, thread, h.threads.State)
		if err != nil {
			return true // what is stored says so
		}
		waiting, err := query(ctx, h.core, thread, h.threads.Approvals)
		if err != nil || s.waitsIn(waiting.Body) && s.restsIn(state.Body.Turn) {
			return true
		}
		stored, err := h.store.Thread(ctx, s.key)
		if err != nil || stored.Head > at.Seq || !sleep(ctx, pause) {
			return false
		}
	}
	return false
}

// waitsIn reports whether the thread says of all calls that wait that they do.
func (s *chatStream) waitsIn(waiting signals.Approvals) bool {
	return !slices.ContainsFunc(s.chat.Waiting(s.EventID), func(c *chat.Call) bool {
		return !slices.ContainsFunc(waiting.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == c.ID }) &&
			!slices.ContainsFunc(waiting.ClientCalls, func(q event.ClientCall) bool { return q.ToolCallID == c.ID }) &&
			!slices.ContainsFunc(waiting.Inputs, func(q event.InputRequest) bool { return q.ToolCallID == c.ID })
	})
}

// restsIn reports whether the thread says that no agent of the turn is at work. It may be at work on another turn.
func (s *chatStream) restsIn(turn *signals.TurnState) bool {
	if turn == nil || turn.EventID != s.EventID {
		return true
	}
	unsettled := 0
	for _, r := range turn.Runs {
		if r.Doing == signals.DoingModel || r.Doing == signals.DoingHooks {
			return false
		}
		unsettled += len(r.Tools)
	}
	return unsettled == s.chat.Unsettled(s.EventID)
}

// asking are the events after which a client may answer, and then has to say where it is.
var asking = []event.AgentEventType{event.EventApprovalRequest, event.EventClientCall, event.EventInputRequest}

// last ends the stream of a closed thread.
func (s *chatStream) last() error {
	if m := s.message(); m != nil {
		return s.finish(append(s.sync(m), s.end(m)...))
	}
	return s.done()
}

// finish writes the last events.
func (s *chatStream) finish(events []any) error {
	if err := s.write(events); err != nil {
		return err
	}
	return s.done()
}

func (s *chatStream) write(events []any) error {
	for i, e := range events {
		if s.Skip > 0 {
			s.Skip--
			continue
		}
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		s.out.buf = append(append(append(s.out.buf[:0], "data: "...), data...), "\n\n"...)
		if !s.out.write(i == len(events)-1) {
			return errGone
		}
	}
	return nil
}

// done writes the end of the stream.
func (s *chatStream) done() error {
	s.out.buf = append(s.out.buf[:0], s.trailer...)
	s.out.write(true)
	return nil
}
