package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/signals"
)

type toolResultInput struct {
	ToolCallPath
	Body struct {
		signals.ToolResult
		ToolCallID string          `json:"-"`
		Output     json.RawMessage `json:"output" doc:"The result: text as it is; other JSON is given to the model as its text. At most 256 KiB"`
	}
}

func (h *approvalHandlers) registerToolResults() {
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "postToolResult", Method: http.MethodPost, Path: "/v1/threads/{id}/tool-calls/{toolCallId}/result", Tags: []string{"approvals"},
		Summary: "Post the result of a tool call that a connected client runs",
		Description: "The result counts once: sending it again is already_resolved. A call that has another result, such as that it took too long, " +
			"or that is not of the agent or tool that the request names, is a 409; the problem document then has result: conflict or mismatch.",
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, h.postToolResult)
}

func (h *approvalHandlers) postToolResult(ctx context.Context, in *toolResultInput) (*output[signals.DecideResult], error) {
	r := in.Body.ToolResult
	r.ToolCallID, r.Output = in.ToolCallID, outputText(in.Body.Output)
	var err error
	if r.By, err = actor(ctx, "body.by", r.By, byAPI); err != nil {
		return nil, err
	}
	if len(r.Output) > signals.MaxPayload {
		return nil, tooLarge("body.output", len(r.Output))
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	got, err := h.approvals.ToolResult(within, in.ID, r)
	if err == nil {
		err = refusedResult(in.ToolCallPath, got)
	}
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	return decided(got), nil
}

// outputText is a result as the model reads it.
func outputText(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

// refusedResult says what was wrong about a result that changes nothing, or nil.
func refusedResult(call ToolCallPath, result signals.DecideOutcome) error {
	switch result {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return nil
	case signals.DecideConflict:
		return decisionRefused(http.StatusConflict, result, "tool call %q has another result already", call.ToolCallID)
	case signals.DecideMismatch:
		return decisionRefused(http.StatusConflict, result, "tool call %q is of another agent or another tool than the result says", call.ToolCallID)
	case signals.DecideNotPending:
		return decisionRefused(http.StatusNotFound, result, "no tool call %q waits for a client in thread %q", call.ToolCallID, call.ID)
	case signals.DecideNotAllowed:
		return decisionRefused(http.StatusForbidden, result, "agents of the thread may not answer tool call %q", call.ToolCallID)
	}
	return unknownOutcome(call, result)
}
