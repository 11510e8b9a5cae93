package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/world"
)

type worldMessageInput struct {
	ThreadPath
	Body struct {
		Content   string `json:"content" minLength:"1" doc:"The text. A JSON object with the __type tool_result is a decision on a tool call"`
		Sender    string `json:"sender,omitempty" doc:"The sender: an agent of the thread or a configured one, system, world, or a person. Default: human"`
		MessageID string `json:"messageId,omitempty" doc:"Idempotency key: duplicates are ignored. Default: a new one"`
	}
}

type toolDecisionInput struct {
	ThreadPath
	Body struct {
		AgentID          string          `json:"agentId,omitempty" doc:"If given, the call must be this agent's"`
		ToolCallID       string          `json:"tool_call_id" minLength:"1" doc:"The id of the call, or of the request for its approval"`
		Decision         string          `json:"decision" enum:"approve,deny" doc:"What is decided on the call"`
		Scope            string          `json:"scope,omitempty" enum:"once,session" doc:"Default: once"`
		ToolName         string          `json:"toolName,omitempty" doc:"If given, the call must be of this tool"`
		ToolArgs         json.RawMessage `json:"toolArgs,omitempty" doc:"If given, the call's arguments must be these. They never replace them"`
		WorkingDirectory string          `json:"workingDirectory,omitempty" doc:"If given, the call must work there"`
		By               string          `json:"by,omitempty" doc:"Who decides; it is stored. The name of the API key; required without one"`
	}
}

type worldMessagesOutput struct {
	Body struct {
		Messages []event.WorldMessage `json:"messages" nullable:"false" doc:"The messages, the oldest first"`
		Next     string               `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

// worldHandlers serve threads as chats of a world of agents.
type worldHandlers struct {
	*lookup
	world *world.World
}

func (h *worldHandlers) registerWorld() {
	tags := []string{"world"}
	decides := "A decision that does not fit the call is a 409, one by a person who may not decide is a 403, and the problem document has result. " +
		"sender and by are the name of the API key, or without one what the client says; a decision needs one."
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "publishMessage", Method: http.MethodPost, Path: "/v1/threads/{id}/world/messages", Tags: tags,
		Summary: "Publish a message in a world", DefaultStatus: http.StatusAccepted,
		Description: "The sender's role depends on whether it is a known agent, never on the name. " + decides,
		Errors:      []int{400, 403, 404, 409, 413, 429, 503},
	}, h.publishMessage)
	register(h.core, auth.RoleApprove, huma.Operation{
		OperationID: "publishToolResult", Method: http.MethodPost, Path: "/v1/threads/{id}/world/tool-results", Tags: tags,
		Summary: "Publish a decision on a tool call in a world", Description: decides,
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, h.publishDecision)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listWorldMessages", Method: http.MethodGet, Path: "/v1/threads/{id}/world/messages", Tags: tags,
		Summary: "List messages as a world has them, the oldest first", Errors: []int{404, 503},
		Description: "Including approval requests and decisions; calls have their current status. " +
			"Messages that a hook hides are left out, so that a page with a next may be short.",
	}, h.listWorldMessages)
}

func (h *worldHandlers) publishMessage(ctx context.Context, in *worldMessageInput) (*output[world.Published], error) {
	if in.Body.MessageID != "" {
		if err := checkID("body.messageId", in.Body.MessageID, signals.ValidateEventID); err != nil {
			return nil, err
		}
	}
	sender, err := actor(ctx, "body.sender", in.Body.Sender, world.Human)
	if err != nil {
		return nil, err
	}
	if _, decides, _ := event.ParseContent(in.Body.Content); decides {
		if err := needs(ctx, auth.RoleApprove, "body.content"); err != nil {
			return nil, err
		}
		if _, err := person(ctx, "body.sender", in.Body.Sender); err != nil {
			return nil, err
		}
	}
	return h.publishWorld(ctx, in.ID, in.Body.Content, func(ctx context.Context) (world.Published, error) {
		kind, err := h.world.SenderType(ctx, sender, in.ID)
		if err == nil {
			err = sendAs(ctx, "body.sender", kind)
		}
		if err != nil {
			return world.Published{}, err
		}
		return h.world.Publish(ctx, world.NewMessage{
			Content: in.Body.Content, Sender: sender, ChatID: in.ID, MessageID: in.Body.MessageID,
		})
	})
}

func (h *worldHandlers) publishDecision(ctx context.Context, in *toolDecisionInput) (*output[world.Published], error) {
	b := in.Body
	by, err := person(ctx, "body.by", b.By)
	if err != nil {
		return nil, err
	}
	return h.publishWorld(ctx, in.ID, string(b.ToolArgs), func(ctx context.Context) (world.Published, error) {
		return h.world.PublishToolResultAs(ctx, by, b.AgentID, world.ToolResultData{
			ToolCallID: b.ToolCallID, Decision: event.Decision(b.Decision), Scope: event.Scope(b.Scope),
			ToolName: b.ToolName, ToolArgs: b.ToolArgs, WorkingDirectory: b.WorkingDirectory,
		}, in.ID)
	})
}

// publishWorld publishes to a world, with the time limit for answers.
func (h *worldHandlers) publishWorld(ctx context.Context, id, content string, publish func(context.Context) (world.Published, error)) (*output[world.Published], error) {
	if signals.ValidateID("threadId", id) != nil {
		return nil, notFound(id)
	}
	if len(content) > signals.MaxPayload {
		return nil, tooLarge("body", len(content))
	}
	return ask(ctx, h.core, id, func(ctx context.Context) (world.Published, error) {
		got, err := publish(ctx)
		if refused, ok := errors.AsType[*signals.DecisionError](err); ok {
			err = orRefused(nil, decisionRefusals, ToolCallPath{ThreadPath{id}, refused.ToolCallID}, refused.Outcome)
		}
		return got, err
	})
}

func (h *worldHandlers) listWorldMessages(ctx context.Context, in *messagesInput) (*worldMessagesOutput, error) {
	after, err := h.pageStart(ctx, in)
	if err != nil {
		return nil, err
	}
	messages, next, err := worldview.Messages(ctx, h.store, h.key(in.ID), after, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	out := &worldMessagesOutput{}
	out.Body.Messages = append([]event.WorldMessage{}, messages...)
	if next > 0 {
		out.Body.Next = strconv.FormatInt(next, 10)
	}
	return out, nil
}
