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
	return ask(ctx, h.core, in.ID, func(ctx context.Context) (signals.DecideResult, error) {
		got, err := h.approvals.ToolResult(ctx, in.ID, r)
		return signals.DecideResult{Result: got}, orRefused(err, resultRefusals, in.ToolCallPath, got)
	})
}

// outputText returns a result in the form that the model reads.
func outputText(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

var resultRefusals = refusals{
	signals.DecideConflict:   "tool call %[1]q has another result already",
	signals.DecideMismatch:   "tool call %[1]q is of another agent or another tool than the result says",
	signals.DecideNotPending: "no tool call %[1]q waits for a client in thread %[2]q",
	signals.DecideNotAllowed: "agents of the thread may not answer tool call %[1]q",
}
