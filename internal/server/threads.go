package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
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
	TurnLimit int            `json:"turnLimit,omitempty" doc:"How many LLM calls an agent may make before a person or the world speaks again. Of a thread that was asked for its state, or has just been changed"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty" doc:"The LLM calls of each agent since then. As turnLimit"`
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
		TurnLimit: st.TurnLimit, LLMCalls: st.LLMCalls,
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

type getInput struct {
	ThreadPath
	State bool `query:"state" doc:"Ask the thread itself: turnLimit and llmCalls, and the rest as of now. Needs a worker that runs"`
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
	register(s, auth.Post, huma.Operation{
		OperationID: "openThread", Method: http.MethodPost, Path: "/v1/threads", Tags: tags,
		Summary: "Open a thread", DefaultStatus: http.StatusCreated,
		Errors: []int{400, 409, 413, 503},
	}, s.openThread)
	register(s, auth.Read, huma.Operation{
		OperationID: "listThreads", Method: http.MethodGet, Path: "/v1/threads", Tags: tags,
		Summary: "List threads, the last active first",
	}, s.listThreads)
	register(s, auth.Read, huma.Operation{
		OperationID: "getThread", Method: http.MethodGet, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Get a thread", Errors: []int{404, 503},
	}, s.getThread)
	register(s, auth.Operate, huma.Operation{
		OperationID: "updateThread", Method: http.MethodPatch, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Change a thread", Description: "What is left out stays as it is. Environment event session.updated tells of it.",
		Errors: []int{404, 409, 422, 503},
	}, s.updateThread)
	register(s, auth.Operate, huma.Operation{
		OperationID: "closeThread", Method: http.MethodDelete, Path: "/v1/threads/{id}", Tags: tags,
		Summary: "Close a thread", DefaultStatus: http.StatusAccepted,
		Description: "The thread ends as soon as it has settled what waits; its records stay. Closing a closed thread changes nothing.",
		Errors:      []int{404, 503},
	}, s.closeThread)
	register(s, auth.Operate, huma.Operation{
		OperationID: "interruptThread", Method: http.MethodPost, Path: "/v1/threads/{id}/interrupt", Tags: tags,
		Summary: "Interrupt a turn", DefaultStatus: http.StatusAccepted,
		Description: "What runs is stopped, and what the agent has said so far is kept. Without a turn, or when the event is not there any more, it changes nothing.",
		Errors:      []int{404, 409, 503},
	}, s.interruptThread)
}

// checkAgents checks a list of agents.
func (s *server) checkAgents(ctx context.Context, location string, names []string) error {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", location, i)
		if err := checkID(at, name, signals.CheckID); err != nil {
			return err
		}
		if err := s.checkAgent(ctx, at, name); err != nil {
			return err
		}
	}
	return nil
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

func (s *server) getThread(ctx context.Context, in *getInput) (*threadOutput, error) {
	t, err := s.thread(ctx, in.ID)
	if err != nil || !in.State {
		return &threadOutput{t}, err
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	state, err := s.Threads.State(within, in.ID)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	return &threadOutput{stateOver(t, state)}, nil
}

// stateOver is a thread by its own word, which goes before what is stored of it: that may
// be a moment behind.
func stateOver(stored Thread, state signals.State) Thread {
	now := stateView(state)
	now.Head, now.CreatedAt, now.UpdatedAt = stored.Head, stored.CreatedAt, stored.UpdatedAt
	return now
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
	by, err := actor(ctx, "", "", byAPI)
	if err != nil {
		return nil, err
	}
	err = s.control(ctx, in.ID, signals.Control{Action: signals.ControlClose, By: by})
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
	c := signals.Control{Action: signals.ControlInterrupt}
	if in.Body != nil {
		c.Reason, c.EventID, c.By = in.Body.Reason, in.Body.EventID, in.Body.By
	}
	var err error
	if c.By, err = actor(ctx, "body.by", c.By, byAPI); err != nil {
		return nil, err
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
