package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
)

// agentPoll is the minimum interval at which a stream of changes queries the store.
const agentPoll = time.Second

type agentChangesInput struct {
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream after this change"`
	After       int64  `query:"after" minimum:"0" doc:"Only changes with a greater seq. Default: all"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
}

// agentChangePage is a page of changes.
type agentChangePage struct {
	Changes []store.AgentChange `json:"changes" nullable:"false" doc:"The changes, the oldest first"`
	Next    int64               `json:"next,omitempty" doc:"The after of the next page, if there may be one"`
}

func (h *agentHandlers) registerAgentChanges() {
	registry := h.api.OpenAPI().Components.Schemas
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "agentChanges", Method: http.MethodGet, Path: "/v1/agents/" + changesName, Tags: []string{"agents"},
		Summary: "Read or watch the changes to stored agents",
		Description: "With Accept: text/event-stream a stream of server-sent events, at most a second late: the data of each is one change, " +
			"its id is the seq, where Last-Event-ID resumes. Agents that are configured have no changes.",
		Errors: []int{400, 503},
		Responses: map[string]*huma.Response{"200": {Description: "Changes", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: registry.Schema(reflect.TypeFor[agentChangePage](), true, "AgentChangePage")},
			typeSSE:  {Schema: registry.Schema(reflect.TypeFor[store.AgentChange](), true, "AgentChange")},
		}}},
	}, h.agentChanges)
}

func (h *agentHandlers) agentChanges(ctx context.Context, in *agentChangesInput) (*huma.StreamResponse, error) {
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
	// Errors before the first byte of the response are problem documents.
	changes, err := h.store.AgentChanges(ctx, h.namespace, after, limit)
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	if stream {
		leave, err := h.viewers.enter(ctx)
		if err != nil {
			return nil, err
		}
		return h.viewers.stream(false, nil, leave, func(ctx context.Context, out *eventWriter) {
			h.sendAgentChanges(ctx, out, after, changes)
		}), nil
	}
	page := agentChangePage{Changes: nonNil(changes)}
	if len(changes) == limit {
		page.Next = changes[limit-1].Seq
	}
	return h.writePage("", page), nil
}

// sendAgentChanges writes changes until the client disconnects or the server closes.
func (h *agentHandlers) sendAgentChanges(ctx context.Context, out *eventWriter, after int64, changes []store.AgentChange) {
	poll := time.NewTicker(agentPoll)
	defer poll.Stop()
	heartbeat := time.NewTicker(h.viewers.heartbeat)
	defer heartbeat.Stop()
	for {
		for i, c := range changes {
			after = c.Seq
			if !out.event(streamed{id: strconv.FormatInt(c.Seq, 10), event: c}, i == len(changes)-1) {
				return
			}
			heartbeat.Reset(h.viewers.heartbeat)
		}
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			changes = nil
			if !out.Heartbeat() {
				return
			}
			continue
		case <-poll.C:
		}
		var err error
		changes, err = h.store.AgentChanges(ctx, h.namespace, after, store.MaxLimit)
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			if ctx.Err() == nil {
				h.logger.Warn("stream of changes to agents ends; the client resumes", "error", err)
			}
			return
		}
	}
}
