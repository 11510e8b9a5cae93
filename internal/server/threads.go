package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// ThreadPath is the input of operations on one thread.
type ThreadPath struct {
	ID string `path:"id" doc:"The thread's id"`
}

func threadView(t store.Thread) api.Thread {
	out := api.Thread{Thread: t, Metadata: metadataView(t.Metadata)}
	out.Agents = append([]string{}, t.Agents...)
	return out
}

// stateView returns a thread without a row from its state.
func stateView(st signals.State) api.Thread {
	out := api.Thread{
		Thread: store.Thread{
			ID: st.ThreadID, Namespace: st.Namespace, Title: st.Title, Status: store.ThreadOpen, Agents: append([]string{}, st.Agents...), Parent: st.Parent,
		},
		Metadata: metadataView(st.Metadata), TurnLimit: st.TurnLimit, LLMCalls: st.LLMCalls,
	}
	if st.TurnLimit > 0 { // otherwise it is no answer of the thread
		out.Usage = &st.Usage
	}
	if st.Status == signals.ThreadClosed {
		out.Status = store.ThreadClosed
	}
	return out
}

func metadataView(raw json.RawMessage) event.Metadata {
	var out event.Metadata
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

type getInput struct {
	ThreadPath
	State bool `query:"state" doc:"Query the thread itself for turnLimit, llmCalls, usage and current values. Needs a running worker"`
}

type listInput struct {
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream after this event"`

	Status   string `query:"status" enum:"open,closed" doc:"Only threads of this status"`
	Activity string `query:"activity" enum:"idle,running,waiting,failing,unanswered" doc:"Only open threads with this activity"`
	ThreadFilter

	Sort   string `query:"sort" enum:"active,attention" doc:"active: the most recently active first. attention: waiting threads first, then failing ones, the longest first by activitySince, then the others as with active. Default: active"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of a page"`
	Cursor string `query:"cursor" doc:"The next of the previous page"`
}

// threadPage is a page of threads.
type threadPage struct {
	Threads []api.Thread `json:"threads" nullable:"false" doc:"The threads, in the order of sort"`
	Next    string       `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
}

// Lifecycle is the part of the thread client that opens, changes and closes threads.
type Lifecycle interface {
	Open(ctx context.Context, threadID string, start signals.Start, first *signals.Post) error
	Update(ctx context.Context, threadID string, c signals.ThreadChange) (signals.State, error)
	Control(ctx context.Context, threadID string, c signals.Control) error
	State(ctx context.Context, threadID string) (signals.State, error)
}

// threadHandlers serve threads.
type threadHandlers struct {
	*lookup
	threads Lifecycle
	viewers *viewers
}

func (h *threadHandlers) registerThreads() {
	tags := []string{"threads"}
	registry := h.api.OpenAPI().Components.Schemas
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "openThread", Method: http.MethodPost, Path: "/v1/threads", Tags: tags,
		Summary: "Open a thread", DefaultStatus: http.StatusCreated,
		Errors: []int{400, 409, 413, 503},
	}, h.openThread)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listThreads", Method: http.MethodGet, Path: "/v1/threads", Tags: tags,
		Summary: "List threads, or watch them change",
		Description: "With Accept: text/event-stream a stream of server-sent events, at most a second late: the data of " +
			"each is a thread that was opened or changed, whatever the other parameters say. A thread may be sent twice.",
		Errors: []int{400, 503},
		Responses: map[string]*huma.Response{"200": {Description: "Threads", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: registry.Schema(reflect.TypeFor[threadPage](), true, "")},
			typeSSE:  {Schema: registry.Schema(reflect.TypeFor[api.Thread](), true, "")},
		}}},
	}, h.listThreads)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "countThreads", Method: http.MethodGet, Path: "/v1/thread-counts", Tags: tags,
		Summary:     "Count threads by status and activity",
		Description: "Without a filter, the store reads an index entry for each thread of the namespace; with a filter, its row, and with q its messages.",
		Errors:      []int{503},
	}, h.countThreads)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getThread", Method: http.MethodGet, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Get a thread", Errors: []int{404, 503},
	}, h.getThread)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "updateThread", Method: http.MethodPatch, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Change a thread", Description: "Omitted fields stay unchanged. Publishes environment event session.updated.",
		Errors: []int{404, 409, 422, 503},
	}, h.updateThread)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "closeThread", Method: http.MethodDelete, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Close a thread", DefaultStatus: http.StatusAccepted,
		Description: "The thread ends when its pending work has ended; its records stay. Closing a closed thread changes nothing.",
		Errors:      []int{404, 503},
	}, h.closeThread)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "interruptThread", Method: http.MethodPost, Path: "/v1/threads/{id}/interrupt", Tags: tags,
		Summary: "Interrupt a turn", DefaultStatus: http.StatusAccepted,
		Description: "Running steps stop; the reply so far is stored. Without a turn, or when the event no longer exists, it changes nothing.",
		Errors:      []int{404, 409, 503},
	}, h.interruptThread)
}

func (h *threadHandlers) getThread(ctx context.Context, in *getInput) (*output[api.Thread], error) {
	t, err := h.thread(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	previews, err := h.store.Previews(ctx, h.namespace, in.ID)
	if t.Preview = previews[in.ID]; err != nil || !in.State {
		return &output[api.Thread]{t}, h.problem(ctx, in.ID, err)
	}
	state, err := query(ctx, h.core, in.ID, h.threads.State)
	if err != nil {
		return nil, err
	}
	return &output[api.Thread]{stateOver(t, state.Body)}, nil
}

// stateOver returns the row with the thread's current state, which is newer.
func stateOver(stored api.Thread, state signals.State) api.Thread {
	now := stateView(state)
	now.Head, now.Tokens, now.Activity, now.ActivitySince, now.CreatedAt, now.UpdatedAt = stored.Head, stored.Tokens, stored.Activity, stored.ActivitySince, stored.CreatedAt, stored.UpdatedAt
	now.Preview = stored.Preview
	return now
}

func (h *threadHandlers) listThreads(ctx context.Context, in *listInput) (*huma.StreamResponse, error) {
	if wantsStream(in.Accept) {
		return h.watchThreads(ctx, in)
	}
	page, err := h.page(ctx, in)
	if err != nil {
		return nil, err
	}
	threads, err := h.store.Threads(ctx, h.namespace, page)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	var out threadPage
	if out.Threads, err = listed(ctx, h.store, h.namespace, threads...); err != nil {
		return nil, h.problem(ctx, "", err)
	}
	if len(threads) == in.Limit {
		out.Next = nextCursor(page.After(threads[len(threads)-1]))
	}
	return h.writePage("", out), nil
}

// page returns the page that a request asks for.
func (h *threadHandlers) page(ctx context.Context, in *listInput) (store.ThreadPage, error) {
	page := store.ThreadPage{Status: in.Status, Activity: store.Activity(in.Activity), Limit: in.Limit}
	if in.Sort == string(store.OrderAttention) {
		page.Order = store.OrderAttention
	}
	var err error
	if page.ThreadFilter, err = h.filter(ctx, in.ThreadFilter); err != nil {
		return page, err
	}
	ok := in.Cursor == ""
	switch {
	case ok:
	case page.Order == store.OrderAttention:
		var parts []string
		if parts, ok = parsePageCursor(in.Cursor, 2); ok {
			page.CursorActivity = store.Activity(parts[0])
			page.CursorUpdatedAt, page.CursorID, ok = parseThreadCursor(parts[1])
		}
	default:
		page.CursorUpdatedAt, page.CursorID, ok = parseThreadCursor(in.Cursor)
	}
	if !ok {
		return page, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
	}
	return page, nil
}

// nextCursor returns the cursor of a page.
func nextCursor(page store.ThreadPage) string {
	cursor := threadCursor(page.CursorUpdatedAt, page.CursorID)
	if page.Order == store.OrderAttention {
		return pageCursor(string(page.CursorActivity), cursor)
	}
	return cursor
}

// listed returns threads in the form of the API, with their previews.
func listed(ctx context.Context, lists store.ThreadLists, namespace string, threads ...store.Thread) ([]api.Thread, error) {
	out, ids := make([]api.Thread, len(threads)), make([]string, len(threads))
	for i, t := range threads {
		out[i], ids[i] = threadView(t), t.ID
	}
	previews, err := lists.Previews(ctx, namespace, ids...)
	for i := range out {
		out[i].Preview = previews[out[i].ID]
	}
	return out, err
}

func threadCursor(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + " " + id))
}

func parseThreadCursor(text string) (at time.Time, id string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return at, "", false
	}
	micros, id, ok := strings.Cut(string(raw), " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	return time.UnixMicro(n).UTC(), id, ok && err == nil && signals.ValidateID("id", id) == nil
}

type closeInput struct {
	ThreadPath
	By string `query:"by" doc:"Who closes it; it is stored. Default: api"`
}

func (h *threadHandlers) closeThread(ctx context.Context, in *closeInput) (*struct{}, error) {
	by, err := actor(ctx, "query.by", in.By, byAPI)
	if err != nil {
		return nil, err
	}
	return nil, h.control(ctx, in.ID, signals.Control{Action: signals.ControlClose, By: by})
}

// byAPI is the default name of the client that acts.
const byAPI = "api"

type interruptInput struct {
	ThreadPath
	Body *struct {
		By      string `json:"by,omitempty" doc:"Default: api"`
		Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for people"`
		EventID string `json:"eventId,omitempty" maxLength:"128" doc:"Only this event: its turn ends, or it is taken out of the queue. Default: the current turn, whatever it is"`
	} `required:"false"`
}

func (h *threadHandlers) interruptThread(ctx context.Context, in *interruptInput) (*struct{}, error) {
	c := signals.Control{Action: signals.ControlInterrupt}
	if in.Body != nil {
		c.Reason, c.EventID, c.By = in.Body.Reason, in.Body.EventID, in.Body.By
	}
	var err error
	if c.By, err = actor(ctx, "body.by", c.By, byAPI); err != nil {
		return nil, err
	}
	if c.EventID != "" {
		if err := checkID("body.eventId", c.EventID, signals.ValidateID); err != nil {
			return nil, err
		}
	}
	return nil, h.control(ctx, in.ID, c)
}

// control sends a control signal to the thread.
func (h *threadHandlers) control(ctx context.Context, id string, c signals.Control) error {
	within, cancel := h.answer(ctx)
	defer cancel()
	err := h.threads.Control(within, id, c)
	if c.Action == signals.ControlClose && errors.Is(err, signals.ErrThreadClosed) {
		return nil
	}
	return h.problem(ctx, id, err)
}
