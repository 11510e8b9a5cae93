package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
)

type toolCallsInput struct {
	ThreadPath
	IDs []string `query:"id" required:"true" minItems:"1" maxItems:"100" doc:"The ids of the calls. Calls that have not started are left out"`
}

type toolCallsOutput struct {
	Body struct {
		ToolCalls []toolCallRunView `json:"toolCalls" nullable:"false" doc:"The calls that have started, in the order of the ids in the request"`
	}
}

type toolCallRunView struct {
	ToolCallID string           `json:"toolCallId" doc:"The call"`
	ToolName   string           `json:"toolName" doc:"The tool that is called"`
	Agent      string           `json:"agent" doc:"The agent that made the call"`
	Status     store.ToolStatus `json:"status" enum:"started,succeeded,failed,denied,interrupted,unknown,waiting,pending" doc:"started while the tool runs. waiting: it asked a person for input. pending: it continues as a background task. unknown: its worker was lost, and nobody knows what it has done"`
	Attempt    int              `json:"attempt" doc:"The last attempt, from 1"`
	StartedAt  time.Time        `json:"startedAt" doc:"When the last attempt began"`
	FinishedAt *time.Time       `json:"finishedAt,omitempty" doc:"When it ended. Left out while it runs"`
}

func (h *eventHandlers) registerToolCalls() {
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "listToolCalls", Method: http.MethodGet, Path: "/v1/threads/{id}/tool-calls", Tags: []string{"events"},
		Summary:     "Show when tool calls ran, and how often",
		Description: "The status, the last attempt and its times. The thread's events have the arguments and results.",
		Errors:      []int{404, 503},
	}, h.listToolCalls)
}

func (h *eventHandlers) listToolCalls(ctx context.Context, in *toolCallsInput) (*toolCallsOutput, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	out := &toolCallsOutput{}
	out.Body.ToolCalls = []toolCallRunView{}
	for _, id := range in.IDs {
		log, err := h.store.ToolLog(ctx, h.key(in.ID), id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return nil, h.problem(ctx, in.ID, err)
		}
		out.Body.ToolCalls = append(out.Body.ToolCalls, toolCallRunView{
			ToolCallID: log.ToolCallID, ToolName: log.ToolName, Agent: log.Agent, Status: log.Status, Attempt: log.Attempt, StartedAt: log.StartedAt, FinishedAt: log.FinishedAt,
		})
	}
	return out, nil
}
