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

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// ThreadPath is the input of operations on one thread.
type ThreadPath struct {
	ID string `path:"id" doc:"The thread's id"`
}

// Thread is a thread as the API shows it.
type Thread struct {
	ID        string         `json:"id"`
	Namespace string         `json:"namespace"`
	Title     string         `json:"title,omitempty"`
	Status    string         `json:"status" enum:"open,closed"`
	Agents    []string       `json:"agents" nullable:"false"`
	Parent    string         `json:"parent,omitempty" doc:"The thread for which this one works, if it is that of a sub-agent: parentThreadId of its metadata"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	Head      int64          `json:"head" doc:"Seq of the newest record"`
	CreatedAt *time.Time     `json:"createdAt,omitempty"`
	UpdatedAt *time.Time     `json:"updatedAt,omitempty"`
}

func threadView(t store.Thread) Thread {
	out := Thread{
		ID: t.ID, Namespace: t.Namespace, Title: t.Title, Status: t.Status, Agents: t.Agents,
		Metadata: metadataView(t.Metadata), Head: t.Head, CreatedAt: &t.CreatedAt, UpdatedAt: &t.UpdatedAt,
	}
	if out.Agents == nil {
		out.Agents = []string{}
	}
	// The store keeps no more of what a thread works for than its metadata.
	out.Parent, _ = out.Metadata[signals.MetadataParent].(string)
	return out
}

// stateView is a thread that has stored nothing yet, or of which the store knows nothing.
func stateView(st signals.State) Thread {
	out := Thread{
		ID: st.ThreadID, Namespace: st.Namespace, Title: st.Title, Status: store.ThreadOpen,
		Agents: append([]string{}, st.Agents...), Parent: st.Parent, Metadata: metadataView(st.Metadata),
	}
	if st.Status == signals.Closed {
		out.Status = store.ThreadClosed
	}
	return out
}

func metadataView(raw json.RawMessage) map[string]any {
	var out map[string]any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// openBody is the body of POST /v1/threads.
type openBody struct {
	ID       string         `json:"id,omitempty" maxLength:"128" doc:"1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit. Default: a new ULID"`
	Agent    string         `json:"agent,omitempty" maxLength:"128" doc:"The agent that answers. Default: the first that is configured"`
	Metadata map[string]any `json:"metadata,omitempty" doc:"Kept with the thread and never shown to a model"`
	Message  *firstMessage  `json:"message,omitempty" doc:"The message that the thread begins with"`
}

// firstMessage is a message, or just its content as a string.
type firstMessage struct{ NewMessage }

// NewMessage is a person's message.
type NewMessage struct {
	Content string `json:"content" minLength:"1"`
	ID      string `json:"id,omitempty" maxLength:"128" doc:"Posting the same id twice has the effect of once. Default: a new ULID"`
	Sender  string `json:"sender,omitempty" maxLength:"128" doc:"Who says it. Default: user"`
}

func (m *firstMessage) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &m.Content)
	}
	return json.Unmarshal(data, &m.NewMessage)
}

// Schema describes both forms.
func (*firstMessage) Schema(r huma.Registry) *huma.Schema {
	one := 1
	text := &huma.Schema{Type: huma.TypeString, MinLength: &one}
	text.PrecomputeMessages()
	return &huma.Schema{OneOf: []*huma.Schema{text, r.Schema(reflect.TypeFor[NewMessage](), true, "NewMessage")}}
}

type openOutput struct {
	Location string `header:"Location"`
	Body     struct {
		Thread
		EventID string `json:"eventId,omitempty" doc:"The id of the message, if there is one"`
	}
}

type listInput struct {
	Status string `query:"status" enum:"open,closed" doc:"Only threads of this status"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" doc:"The next of the page before"`
}

type listOutput struct {
	Body struct {
		Threads []Thread `json:"threads" nullable:"false"`
		Next    string   `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

type threadOutput struct{ Body Thread }

func (s *server) registerThreads() {
	tags := []string{"threads"}
	register(s, huma.Operation{
		OperationID: "openThread", Method: http.MethodPost, Path: "/v1/threads", Tags: tags,
		Summary: "Open a thread", DefaultStatus: http.StatusCreated,
		Errors: []int{400, 409, 413, 503},
	}, s.openThread)
	register(s, huma.Operation{
		OperationID: "listThreads", Method: http.MethodGet, Path: "/v1/threads", Tags: tags,
		Summary: "List threads, the last active first",
	}, s.listThreads)
	register(s, huma.Operation{
		OperationID: "getThread", Method: http.MethodGet, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Get a thread", Errors: []int{404, 503},
	}, s.getThread)
	register(s, huma.Operation{
		OperationID: "updateThread", Method: http.MethodPatch, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Change a thread", Description: "What is left out stays as it is. Environment event session.updated tells of it.",
		Errors: []int{404, 409, 422, 503},
	}, s.updateThread)
	register(s, huma.Operation{
		OperationID: "closeThread", Method: http.MethodDelete, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Close a thread", DefaultStatus: http.StatusAccepted,
		Description: "The thread ends as soon as it has settled what waits; its records stay. Closing a closed thread changes nothing.",
		Errors:      []int{404, 503},
	}, s.closeThread)
	register(s, huma.Operation{
		OperationID: "interruptThread", Method: http.MethodPost, Path: "/v1/threads/{id}/interrupt", Tags: tags,
		Summary: "Interrupt a turn", DefaultStatus: http.StatusAccepted,
		Description: "What runs is stopped, and what the agent has said so far is kept. Without a turn, or when the event is not there any more, it changes nothing.",
		Errors:      []int{404, 409, 503},
	}, s.interruptThread)
}

func (s *server) openThread(ctx context.Context, in *struct{ Body openBody }) (*openOutput, error) {
	start, first, err := s.startOf(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	id := in.Body.ID
	within, cancel := s.answer(ctx)
	defer cancel()
	if err := s.Threads.Open(within, id, start, first); err != nil {
		return nil, s.problem(ctx, id, err)
	}
	out := &openOutput{Location: "/v1/threads/" + id}
	out.Body.Thread = s.storeThread(ctx, id, start)
	if first != nil {
		out.Body.EventID = first.ID
	}
	return out, nil
}

// startOf checks the body and makes the thread's input of it.
func (s *server) startOf(ctx context.Context, body *openBody) (signals.Start, *signals.Post, error) {
	var start signals.Start
	if body.ID == "" {
		body.ID = signals.NewID()
	}
	if err := checkID("body.id", body.ID, signals.CheckID); err != nil {
		return start, nil, err
	}
	if body.Agent != "" {
		if err := s.checkAgent(ctx, "body.agent", body.Agent); err != nil {
			return start, nil, err
		}
		start.Agents = []string{body.Agent}
	}
	if len(body.Metadata) > 0 {
		raw, err := json.Marshal(body.Metadata)
		if err != nil {
			return start, nil, refuse(http.StatusUnprocessableEntity, "body.metadata", err.Error())
		}
		if len(raw) > signals.MaxPayload {
			return start, nil, tooLarge("body.metadata", len(raw))
		}
		start.Metadata = raw
	}
	if body.Message == nil {
		return start, nil, nil
	}
	m := body.Message
	post, err := newPost(body.ID, "body.message.", m.NewMessage)
	return start, &post, err
}

func (s *server) checkAgent(ctx context.Context, location, name string) error {
	if s.Agents == nil {
		return nil
	}
	_, err := s.Agents.Agent(ctx, s.Namespace, name)
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return refuse(http.StatusUnprocessableEntity, location, err.Error())
	case err != nil:
		return s.problem(ctx, "", err)
	}
	return nil
}

// checkID is for ids that the client makes up.
func checkID(location, id string, check func(field, id string) error) error {
	var field *event.FieldError
	if err := check("id", id); errors.As(err, &field) {
		return refuse(http.StatusUnprocessableEntity, location, field.Problem)
	}
	return nil
}

// storeThread gives the new thread its row, so that it is found at once. The thread
// runs by now: without a row it is found by asking it.
func (s *server) storeThread(ctx context.Context, id string, start signals.Start) Thread {
	row := &store.ThreadUpdate{Agents: start.Agents, Metadata: start.Metadata}
	_, err := s.Store.Append(ctx, s.key(id), store.Batch{Thread: row})
	if err == nil {
		var t store.Thread
		if t, err = s.Store.Thread(ctx, s.key(id)); err == nil {
			return threadView(t)
		}
	}
	s.Logger.Warn("storing a new thread failed; its first record will", "thread", id, "error", err)
	return stateView(signals.State{
		Namespace: s.Namespace, ThreadID: id, Agents: start.Agents, Metadata: start.Metadata, Status: signals.Idle,
	})
}

// thread finds a thread in the store or, when it has stored nothing yet, by asking it.
func (s *server) thread(ctx context.Context, id string) (Thread, error) {
	if signals.CheckID("threadId", id) != nil {
		return Thread{}, notFound(id)
	}
	t, err := s.Store.Thread(ctx, s.key(id))
	if err == nil {
		return threadView(t), nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return Thread{}, s.problem(ctx, id, err)
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	state, err := s.Threads.State(within, id)
	if err != nil {
		return Thread{}, s.problem(ctx, id, err)
	}
	return stateView(state), nil
}

func (s *server) getThread(ctx context.Context, in *ThreadPath) (*threadOutput, error) {
	t, err := s.thread(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &threadOutput{t}, nil
}

func (s *server) listThreads(ctx context.Context, in *listInput) (*listOutput, error) {
	page := store.ThreadPage{Status: in.Status, Limit: in.Limit}
	if in.Cursor != "" {
		var ok bool
		if page.CursorUpdatedAt, page.CursorID, ok = parseThreadCursor(in.Cursor); !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", "is not the next of a page before")
		}
	}
	threads, err := s.Store.Threads(ctx, s.Namespace, page)
	if err != nil {
		return nil, s.problem(ctx, "", err)
	}
	out := &listOutput{}
	out.Body.Threads = make([]Thread, 0, len(threads))
	for _, t := range threads {
		out.Body.Threads = append(out.Body.Threads, threadView(t))
	}
	if len(threads) == in.Limit {
		last := threads[len(threads)-1]
		out.Body.Next = threadCursor(last.UpdatedAt, last.ID)
	}
	return out, nil
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
	return time.UnixMicro(n).UTC(), id, ok && err == nil && signals.CheckID("id", id) == nil
}

func (s *server) closeThread(ctx context.Context, in *ThreadPath) (*struct{}, error) {
	err := s.control(ctx, in.ID, signals.Control{Action: signals.ControlClose, By: byAPI})
	if errors.Is(err, signals.ErrClosed) {
		err = nil
	}
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	return nil, nil
}

// byAPI is who acts when a request does not say.
const byAPI = "api"

type interruptInput struct {
	ThreadPath
	Body *struct {
		By      string `json:"by,omitempty" maxLength:"128" doc:"Default: api"`
		Reason  string `json:"reason,omitempty" maxLength:"1000"`
		EventID string `json:"eventId,omitempty" maxLength:"128" doc:"Only this event: its turn ends, or it is taken out of the queue. Default: the current turn, whatever it is"`
	} `required:"false"`
}

func (s *server) interruptThread(ctx context.Context, in *interruptInput) (*struct{}, error) {
	c := signals.Control{Action: signals.ControlInterrupt, By: byAPI}
	if in.Body != nil {
		c.Reason, c.EventID = in.Body.Reason, in.Body.EventID
		if in.Body.By != "" {
			c.By = in.Body.By
		}
	}
	if c.EventID != "" {
		if err := checkID("body.eventId", c.EventID, signals.CheckID); err != nil {
			return nil, err
		}
	}
	if err := s.control(ctx, in.ID, c); err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	return nil, nil
}

// control signals the thread; its workflow tells the steps that run.
func (s *server) control(ctx context.Context, id string, c signals.Control) error {
	within, cancel := s.answer(ctx)
	defer cancel()
	return s.Threads.Control(within, id, c)
}
