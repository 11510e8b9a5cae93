package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/store"
)

type followInput struct {
	Ticketed
	Threads     []string `query:"thread,explode" required:"true" minItems:"1" maxItems:"50" uniqueItems:"true" doc:"A thread to follow; several may be given"`
	After       []string `query:"after,explode" maxItems:"50" doc:"For each thread, in the same order, the id of one of its own events, such as the lastEventId of a page: it begins after that. 0 is its beginning. Threads without one begin where from says"`
	LastEventID string   `header:"Last-Event-ID" doc:"Resume a stream after this event. Threads that it did not follow begin where after and from say, and others may be left out"`
	LastID      string   `query:"lastEventId" maxLength:"4096" doc:"The same, for clients that cannot set headers"`
	From        string   `query:"from" enum:"start,now" doc:"Where threads begin that the event's id does not name. Default: start"`
}

// FollowedEvent is an event of a stream that follows several threads.
type FollowedEvent struct {
	ThreadID string            `json:"threadId" doc:"The thread"`
	Event    *event.AgentEvent `json:"event,omitempty" doc:"An event of it, as its own stream has it"`
	Ended    string            `json:"ended,omitempty" enum:"closed,unknown" doc:"Why nothing follows of the thread: it is closed, and all its events were sent, or does not exist"`
}

func (h *eventHandlers) registerFollow() {
	schema := h.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[FollowedEvent](), true, "")
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "followThreads", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"},
		Summary: "Follow several threads",
		Description: "A stream of server-sent events of at most 50 threads: the data of each has the thread and its event, its id is where " +
			"Last-Event-ID resumes all of them. Unknown and closed threads are told, and end the stream when they are all.",
		Errors: []int{400, 404, 503},
		Responses: map[string]*huma.Response{
			"200": {Description: "Events", Content: map[string]*huma.MediaType{typeSSE: {Schema: schema}}},
			"204": {Description: "All threads are closed or unknown, and everything has been sent"},
		},
	}, h.follow)
}

// spots are where a stream of several threads is.
type spots struct {
	threads []string
	at      []string // for each thread its cursor, or one of the following
}

// The spots of threads of which nothing follows. A thread that was unknown may exist later.
const (
	spotClosed  = "closed"
	spotUnknown = "unknown"
)

// IsZero is a method of [place]. A stream of several threads always says where it begins.
func (spots) IsZero() bool { return false }

// String returns the id of an event. It names threads by hashes, so that its size is bounded, and that a client may change the
// threads that it follows.
func (s spots) String() string {
	var b strings.Builder
	for i, id := range s.threads {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(spotName(id) + "=" + s.at[i])
	}
	return b.String()
}

func spotName(threadID string) string {
	sum := sha256.Sum256([]byte(threadID))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

// parseSpots reads an id. Threads that it does not name have the spot "".
func parseSpots(text string, threads []string) (spots, error) {
	known := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, at, ok := strings.Cut(part, "=")
		if !ok && text != "" {
			return spots{}, errors.New("is no id of a stream that follows several threads")
		}
		known[name] = at
	}
	s := spots{threads, make([]string, len(threads))}
	names := map[string]bool{}
	for i, id := range threads {
		if names[spotName(id)] {
			return s, errors.New("cannot name these threads together: follow " + strconv.Quote(id) + " with another stream")
		}
		names[spotName(id)] = true
		s.at[i] = known[spotName(id)]
		if s.at[i] == "" || s.at[i] == spotClosed || s.at[i] == spotUnknown {
			continue
		}
		if _, err := feed.ParseCursor(s.at[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// followed is a stream of several threads.
type followed struct {
	*eventHandlers
	spots
	sources []source // nil where nothing follows
	ended   []int    // threads whose end has to be told first
	leave   []func()
}

func (h *eventHandlers) follow(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	location, text := "header.Last-Event-ID", in.LastEventID
	if text == "" {
		location, text = "query.lastEventId", in.LastID
	}
	at, err := parseSpots(text, in.Threads)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, location, err.Error())
	}
	if len(in.After) > len(in.Threads) {
		return nil, refuse(http.StatusUnprocessableEntity, "query.after", "has more ids than there are threads")
	}
	for i, id := range in.After {
		if _, err := h.views[""].cursor(id); err != nil {
			return nil, refuse(http.StatusBadRequest, "query.after", err.Error())
		}
		at.at[i] = cmp.Or(at.at[i], id)
	}
	f := &followed{eventHandlers: h, spots: at, sources: make([]source, len(in.Threads))}
	open := 0
	for i := range in.Threads {
		if err := f.open(ctx, i, in.From == "now"); err != nil {
			f.close()
			return nil, h.problem(ctx, in.Threads[i], err)
		}
		if f.sources[i] != nil {
			open++
		}
	}
	if open == 0 && len(f.ended) == 0 {
		return noContent(), nil
	}
	return h.viewers.stream(true, f.spots, f.close, f.send), nil
}

// open opens the source of a thread, if something follows. Each thread counts as a viewer.
func (f *followed) open(ctx context.Context, i int, now bool) error {
	id, at := f.threads[i], f.at[i]
	if at == spotClosed {
		return nil
	}
	thread, err := f.thread(ctx, id)
	if status := huma.StatusError(nil); errors.As(err, &status) && (status.GetStatus() == http.StatusNotFound || status.GetStatus() == http.StatusGone) {
		if at != spotUnknown {
			f.at[i], f.ended = "", append(f.ended, i)
		}
		return nil
	}
	if err != nil {
		return err
	}
	from := projection.From{Now: now && at == "", Finite: thread.Status == store.ThreadClosed}
	if at != "" && at != spotUnknown {
		if from.Cursor, err = f.views[""].cursor(at); err != nil {
			return err
		}
	}
	leave, err := f.viewers.enter(ctx)
	if err != nil {
		return err
	}
	f.leave = append(f.leave, leave)
	if f.sources[i], err = f.views[""].open(ctx, f.key(id), from); err != nil {
		f.sources[i] = nil
		return err
	}
	f.at[i] = f.sources[i].begun().String()
	return nil
}

func (f *followed) close() {
	for _, one := range f.sources {
		if one != nil {
			one.Close()
		}
	}
	for _, leave := range f.leave {
		leave()
	}
}

// arrival is what one of the threads has next.
type arrival struct {
	thread int
	streamed
	more  bool // the next one follows at once
	ended bool
	err   error
}

func (f *followed) send(ctx context.Context, out *eventWriter) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait() // before the sources are closed
	defer cancel()
	arrivals := make(chan arrival)
	open := 0
	for i, one := range f.sources {
		if one != nil {
			open++
			reading.Go(func() { f.read(ctx, i, one, arrivals) })
		}
	}
	for _, i := range f.ended {
		if !f.write(out, i, FollowedEvent{Ended: spotUnknown}, spotUnknown, true) {
			return
		}
	}
	beat := time.NewTicker(f.viewers.heartbeat)
	defer beat.Stop()
	for open > 0 {
		written := true
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			written = out.Heartbeat()
		case a := <-arrivals:
			switch {
			case a.err != nil:
				f.logger.Warn("event stream ends; the client resumes", "thread", f.threads[a.thread], "error", a.err)
				return
			case a.ended:
				open--
				written = f.write(out, a.thread, FollowedEvent{Ended: spotClosed}, spotClosed, true)
			default:
				e := a.event.(event.AgentEvent) //nolint:forcetypeassert // those of the view of agent events
				written = f.write(out, a.thread, FollowedEvent{Event: &e}, a.id, !a.more)
			}
		}
		if !written {
			return
		}
	}
}

// write writes an event of a thread, and moves the thread's spot behind it.
func (f *followed) write(out *eventWriter, i int, e FollowedEvent, at string, flush bool) bool {
	f.at[i], e.ThreadID = at, f.threads[i]
	return out.event(streamed{id: f.String(), event: e}, flush)
}

// read hands over the events of a thread until it ends.
func (f *followed) read(ctx context.Context, i int, from source, arrivals chan<- arrival) {
	hand := func(a arrival) bool {
		a.thread = i
		select {
		case arrivals <- a:
			return true
		case <-ctx.Done():
			return false
		}
	}
	closed := false
	for {
		e, err := from.Next(ctx)
		switch {
		case err == nil:
			closed = closed || e.closed
			if !hand(arrival{streamed: e, more: from.Buffered()}) {
				return
			}
		case errors.Is(err, feed.ErrIdle) && !closed:
		case errors.Is(err, feed.ErrIdle), errors.Is(err, io.EOF): // the last events of a closing thread have arrived
			hand(arrival{ended: true})
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrUnavailable): // the stream waits for the store too
			if feed.Sleep(ctx, feed.StoreRetry) != nil {
				return
			}
		default:
			hand(arrival{err: err})
			return
		}
	}
}
