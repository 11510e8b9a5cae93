package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

type modelCallInput struct {
	ThreadPath
	MessageID string `path:"messageId" doc:"The id of the reply that the call generated"`
}

type modelCallOutput struct {
	Body modelCallView
}

type modelCallView struct {
	Agent     string      `json:"agent" doc:"The agent that replied"`
	Model     string      `json:"model" doc:"The model that was called, after the name of its provider"`
	MessageID string      `json:"messageId" doc:"The id of the reply"`
	Step      int         `json:"step" doc:"The number of the call in the agent's run, from 1"`
	Attempt   int         `json:"attempt" doc:"The attempt that succeeded, from 1"`
	Usage     event.Usage `json:"usage" doc:"The tokens of the call"`

	AnsweredBy string `json:"answeredBy,omitempty" doc:"The provider's name of the model that answered, which may be a version of the model, or another one. Missing: the provider does not tell"`
	Tier       string `json:"tier,omitempty" doc:"The service tier of the call, as the provider names it. Missing: the provider does not tell"`

	Failed []event.FailedModel `json:"failed,omitempty" doc:"The models of the fallback chain that were to reply before this one"`

	DurationMS   int64       `json:"durationMs" doc:"The time from the request to the last token, in milliseconds"`
	FinishReason string      `json:"finishReason,omitempty" doc:"Why the reply ended, as the provider names it"`
	CreatedAt    time.Time   `json:"createdAt" doc:"When the reply was stored"`
	Request      llm.Request `json:"request" doc:"What the model saw"`
	Exact        bool        `json:"exact" doc:"Whether the conversation is to the letter what the model saw. false: another version of Threadmill made the call, and may have framed it otherwise"`
}

func (h *eventHandlers) registerModelCalls() {
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "getModelCall", Method: http.MethodGet, Path: "/v1/threads/{id}/model-calls/{messageId}", Tags: []string{"events"},
		Summary: "Show what the model saw when it wrote a reply",
		Description: "The instructions, the conversation as hooks and other agents left it then, the tools and the parameters, with the tokens, " +
			"the time and the attempts of the call.",
		Errors: []int{404, 503},
	}, h.getModelCall)
}

func (h *eventHandlers) getModelCall(ctx context.Context, in *modelCallInput) (*modelCallOutput, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	records, err := h.store.RecordsByID(ctx, h.key(in.ID), recordid.LLMCall(in.MessageID))
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	if len(records) == 0 || records[0].Type != event.TypeLLMCall {
		return nil, huma.Error404NotFound(fmt.Sprintf("no model call of thread %q generated a message %q", in.ID, in.MessageID))
	}
	var call event.LLMCall
	if err := json.Unmarshal(records[0].Payload, &call); err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	req, exact, err := modelcontext.Reproduce(ctx, h.store, h.key(in.ID), call)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, huma.Error404NotFound(fmt.Sprintf("the record of the model call for message %q does not tell what the model saw", in.MessageID))
	case err != nil:
		return nil, h.problem(ctx, in.ID, err)
	}
	return &modelCallOutput{modelCallView{
		Agent: call.Agent, Model: call.Model, MessageID: call.MessageID, Step: call.Step, Attempt: call.Attempt, Usage: call.Usage,
		AnsweredBy: call.AnsweredBy, Tier: call.Tier,
		DurationMS: call.DurationMS, FinishReason: call.FinishReason, Failed: call.Failed, CreatedAt: records[0].CreatedAt, Request: req, Exact: exact,
	}}, nil
}
