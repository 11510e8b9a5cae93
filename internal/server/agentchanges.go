package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
)

// agentPoll is how often, at most, a stream of changes asks the store for new ones.
const agentPoll = time.Second

type agentChangesInput struct {
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream behind this change"`
	After       int64  `query:"after" minimum:"0" doc:"Only changes with a greater seq. Default: all"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
}

// AgentChange is a change of an agent: a [store.AgentChange] with the words that describe
// it in the API.
type AgentChange struct {
	Seq     int64     `json:"seq" doc:"From 1, without gaps, in order"`
	Type    string    `json:"type" enum:"agent.created,agent.updated,agent.deleted"`
	Name    string    `json:"name"`
	Version int       `json:"version"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at"`
}

// agentChangePage is a page of changes.
type agentChangePage struct {
	Changes []AgentChange `json:"changes" nullable:"false"`
	Next    int64         `json:"next,omitempty" doc:"The after of the next page, if there may be one"`
}

func agentChangeView(c store.AgentChange) AgentChange {
	return AgentChange{Seq: c.Seq, Type: string(c.Type), Name: c.Name, Version: c.Version, By: c.By, At: c.At}
}

func (s *server) registerAgentChanges() {
	registry := s.api.OpenAPI().Components.Schemas
	register(s, auth.Read, huma.Operation{
		OperationID: "agentChanges", Method: http.MethodGet, Path: "/v1/agents/" + changesName, Tags: []string{"agents"},
		Summary: "Read a page of the changes to stored agents, or watch them",
		Description: "With Accept: text/event-stream a stream of server-sent events, at most a second late: the data of each is one change, " +
			"its id is the seq, where Last-Event-ID resumes. Agents that are configured have no changes.",
		Errors: []int{400, 503},
		Responses: map[string]*huma.Response{"200": {Description: "Changes", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: registry.Schema(reflect.TypeFor[agentChangePage](), true, "AgentChangePage")},
			typeSSE:  {Schema: registry.Schema(reflect.TypeFor[AgentChange](), true, "AgentChange")},
		}}},
	}, s.agentChanges)
}

func (s *server) agentChanges(ctx context.Context, in *agentChangesInput) (*huma.StreamResponse, error) {
	after := in.After
	if in.LastEventID != "" {
		seq, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || seq < 0 {
			return nil, refuse(http.StatusBadRequest, "header.Last-Event-ID", "must be the seq of a change")
		}
		after = seq
	}
	stream, limit := wantsStream(in.Accept), in.Limit
	if stream {
		limit = store.MaxLimit
	}
	// Before the answer begins, so that what fails is a problem document.
	changes, err := s.Store.AgentChanges(ctx, s.Namespace, after, limit)
	if err != nil {
		return nil, s.agentProblem(ctx, "", err)
	}
	if stream {
		leave, err := s.enter()
		if err != nil {
			return nil, err
		}
		return s.watchAgents(after, changes, leave), nil
	}
	page := agentChangePage{Changes: make([]AgentChange, 0, len(changes))}
	for _, c := range changes {
		page.Changes = append(page.Changes, agentChangeView(c))
	}
	if len(changes) == limit {
		page.Next = changes[limit-1].Seq
	}
	return s.writePage("", page), nil
}

func (s *server) watchAgents(after int64, first []store.AgentChange, leave func()) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.Closing, cancel)()
		out := newEventWriter(w)
		if out.begin(false, nil) {
			s.sendAgentChanges(ctx, out, after, first)
		}
	}}
}

// sendAgentChanges writes changes until the client goes or the server closes.
func (s *server) sendAgentChanges(ctx context.Context, out *eventWriter, after int64, changes []store.AgentChange) {
	poll := time.NewTicker(agentPoll)
	defer poll.Stop()
	heartbeat := time.NewTicker(s.Heartbeat)
	defer heartbeat.Stop()
	for {
		for i, c := range changes {
			after = c.Seq
			if !out.event(sent{id: strconv.FormatInt(c.Seq, 10), event: agentChangeView(c)}, i == len(changes)-1) {
				return
			}
			heartbeat.Reset(s.Heartbeat)
		}
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			changes = nil
			if !out.heartbeat() {
				return
			}
			continue
		case <-poll.C:
		}
		var err error
		changes, err = s.Store.AgentChanges(ctx, s.Namespace, after, store.MaxLimit)
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			if ctx.Err() == nil {
				s.Logger.Warn("stream of changes to agents ends; the client resumes", "error", err)
			}
			return
		}
	}
}
