package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/internal/projection/worldview"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/world"
)

// viewWorld is the view of a thread as events of a world of agents.
const viewWorld = "world"

// WorldEvent describes [event.WorldEvent] on the wire, for the API's description.
type WorldEvent struct {
	ID        string           `json:"id"`
	Type      string           `json:"type" enum:"message,sse,tool-start,tool-progress,tool-result,tool-error,tool-execution,crud,system,activity"`
	Timestamp time.Time        `json:"timestamp" doc:"When it was stored; of what is live only, when it is sent"`
	ChatID    string           `json:"chatId" doc:"The thread"`
	Data      any              `json:"data" doc:"What the type says"`
	Meta      *event.WorldMeta `json:"meta,omitempty" doc:"Where it belongs; of what is live only, there is none"`
}

// worldEvent is an event of a world.
type worldEvent struct{ event.WorldEvent }

// Schema describes the event's form on the wire.
func (worldEvent) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[WorldEvent](), true, "WorldEvent")
}

// worldPage is a page of events of a world.
type worldPage struct {
	Events      []worldEvent `json:"events" nullable:"false"`
	Next        string       `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	LastEventID string       `json:"lastEventId,omitempty" doc:"Where a stream begins behind the last of the events"`
}

type saidInput struct {
	ThreadPath
	Body struct {
		Content   string `json:"content" minLength:"1" doc:"What is said. A JSON object with the __type tool_result is a decision on a tool call"`
		Sender    string `json:"sender,omitempty" maxLength:"200" doc:"Who says it: an agent of the thread or of those configured, system, world, or a person. Default: human"`
		MessageID string `json:"messageId,omitempty" doc:"Posting the same id twice has the effect of once. Default: a new one"`
	}
}

type toolDecisionInput struct {
	ThreadPath
	Body struct {
		AgentID          string          `json:"agentId,omitempty" doc:"If given, the call must be this agent's"`
		ToolCallID       string          `json:"tool_call_id" minLength:"1" doc:"That of the call, or of the request for its approval"`
		Decision         string          `json:"decision" enum:"approve,deny"`
		Scope            string          `json:"scope,omitempty" enum:"once,session" doc:"Default: once"`
		ToolName         string          `json:"toolName,omitempty" doc:"If given, the call must be of this tool"`
		ToolArgs         json.RawMessage `json:"toolArgs,omitempty" doc:"If given, the call's arguments must be these. They never replace them"`
		WorkingDirectory string          `json:"workingDirectory,omitempty" doc:"If given, the call must work there"`
		By               string          `json:"by,omitempty" maxLength:"200" doc:"Who decides; it is kept. The name of the API key, or without one as the client says it. Default: human"`
	}
}

type saidOutput struct{ Body said }

// said answers what was published.
type said struct {
	MessageID string `json:"messageId"`
	Result    string `json:"result,omitempty" enum:"accepted,already_resolved" doc:"Of a decision"`
	Missing   int    `json:"missing,omitempty" doc:"Of a decision: how many more have to approve"`
}

type worldMessagesOutput struct {
	Body struct {
		Messages []event.WorldMessage `json:"messages" nullable:"false"`
		Next     string               `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

func (s *server) registerWorld() {
	tags := []string{"world"}
	decides := "A decision that does not fit the call is a 409, one by somebody who may not decide a 403, and the problem document has result. " +
		"sender and by are the name of the API key, or without one what the client says."
	register(s, auth.Post, huma.Operation{
		OperationID: "publishMessage", Method: http.MethodPost, Path: "/v1/threads/{id}/world/messages", Tags: tags,
		Summary: "Publish what somebody says in a world", DefaultStatus: http.StatusAccepted,
		Description: "The sender's role follows from who is known as an agent, never from the name. " + decides,
		Errors:      []int{400, 403, 404, 409, 413, 429, 503},
	}, s.publishSaid)
	register(s, auth.Approve, huma.Operation{
		OperationID: "publishToolResult", Method: http.MethodPost, Path: "/v1/threads/{id}/world/tool-results", Tags: tags,
		Summary: "Publish a decision on a tool call in a world", Description: decides,
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, s.publishDecision)
	register(s, auth.Read, huma.Operation{
		OperationID: "listWorldMessages", Method: http.MethodGet, Path: "/v1/threads/{id}/world/messages", Tags: tags,
		Summary: "List messages as a world has them, the oldest first", Errors: []int{404, 503},
		Description: "Requests for approval and decisions are among them, and calls have their status as it is now. " +
			"What a hook keeps from people is left out, so that a page with a next may be short.",
	}, s.listWorldMessages)
}

func (s *server) publishSaid(ctx context.Context, in *saidInput) (*saidOutput, error) {
	if in.Body.MessageID != "" {
		if err := checkID("body.messageId", in.Body.MessageID, signals.CheckEventID); err != nil {
			return nil, err
		}
	}
	sender, err := actor(ctx, "body.sender", in.Body.Sender, world.Human)
	if err != nil {
		return nil, err
	}
	if _, decides, _ := event.ParseContent(in.Body.Content); decides {
		if err := needs(ctx, auth.Approve, "body.content"); err != nil {
			return nil, err
		}
	}
	return s.publishWorld(ctx, in.ID, in.Body.Content, func(ctx context.Context) (world.Published, error) {
		return s.world.Publish(ctx, world.Said{
			Content: in.Body.Content, Sender: sender, ChatID: in.ID, MessageID: in.Body.MessageID,
		})
	})
}

func (s *server) publishDecision(ctx context.Context, in *toolDecisionInput) (*saidOutput, error) {
	b := in.Body
	by, err := actor(ctx, "body.by", b.By, world.Human)
	if err != nil {
		return nil, err
	}
	return s.publishWorld(ctx, in.ID, string(b.ToolArgs), func(ctx context.Context) (world.Published, error) {
		return s.world.PublishToolResultAs(ctx, by, b.AgentID, world.ToolResultData{
			ToolCallID: b.ToolCallID, Decision: event.Decision(b.Decision), Scope: event.Scope(b.Scope),
			ToolName: b.ToolName, ToolArgs: b.ToolArgs, WorkingDirectory: b.WorkingDirectory,
		}, in.ID)
	})
}

// publishWorld publishes to a world, within the time that a thread has to answer.
func (s *server) publishWorld(ctx context.Context, id, content string, publish func(context.Context) (world.Published, error)) (*saidOutput, error) {
	if signals.CheckID("threadId", id) != nil {
		return nil, notFound(id)
	}
	if len(content) > signals.MaxPayload {
		return nil, tooLarge("body", len(content))
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	got, err := publish(within)
	var refused *world.DecisionError
	if errors.As(err, &refused) {
		err = refusedDecision(ToolCallPath{ThreadPath{id}, refused.ToolCallID}, refused.Outcome)
	}
	if err != nil {
		return nil, s.problem(ctx, id, err)
	}
	return &saidOutput{said{got.MessageID, string(got.Result), got.Missing}}, nil
}

func (s *server) listWorldMessages(ctx context.Context, in *messagesInput) (*worldMessagesOutput, error) {
	after, err := behind(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	messages, next, err := worldview.Messages(ctx, s.Store, s.key(in.ID), after, in.Limit)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &worldMessagesOutput{}
	out.Body.Messages = append([]event.WorldMessage{}, messages...)
	if next > 0 {
		out.Body.Next = strconv.FormatInt(next, 10)
	}
	return out, nil
}

func (s *server) worldPage(ctx context.Context, in *eventsInput, at projection.Cursor) (*huma.StreamResponse, error) {
	items, next, err := worldview.New(s.feed, s.Store).Page(ctx, s.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	page := worldPage{Events: make([]worldEvent, len(items))}
	for i, item := range items {
		page.Events[i] = worldEvent{item.Event}
		page.LastEventID = item.Cursor.String()
	}
	if next != nil {
		page.Next = next.String()
	}
	return s.writePage(in.ID, page), nil
}
