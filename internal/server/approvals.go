package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

type allApprovalsInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many waiting threads to query, the newest first"`
}

// ToolCallPath is the input of operations on one tool call.
type ToolCallPath struct {
	ThreadPath
	ToolCallID string `path:"toolCallId" doc:"The tool call's id"`
}

type decideInput struct {
	ToolCallPath
	Body decideBody
}

// decideBody is a [signals.Decide] without the call, which the path names.
type decideBody struct {
	signals.Decide
	ToolCallID string `json:"-"`
}

func decided(result signals.DecideOutcome) *output[signals.DecideResult] {
	return &output[signals.DecideResult]{signals.DecideResult{Result: result}}
}

// Approvals is what the API needs of a client of threads for tool calls that wait.
type Approvals interface {
	Approvals(ctx context.Context, threadID string) (signals.Approvals, error)
	ListApprovals(ctx context.Context, q threadclient.ApprovalsQuery) (threadclient.Waiting, error)
	Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error)
	ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error)
	Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error)
}

// approvalHandlers serve tool calls that wait, and the decisions on them.
type approvalHandlers struct {
	*lookup
	approvals Approvals
}

func (h *approvalHandlers) registerApprovals() {
	tags := []string{"approvals"}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listAllApprovals", Method: http.MethodGet, Path: "/v1/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision, of all threads",
		Description: "Threads that began to wait just now may be missing. A call of a sub-agent is listed once, " +
			"in the thread for which it works. The API queries each thread, which needs a running worker.",
		Errors: []int{503},
	}, h.listAllApprovals)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listApprovals", Method: http.MethodGet, Path: "/v1/threads/{id}/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision, or for a client", Errors: []int{404, 503},
	}, h.listApprovals)
	register(h.core, auth.RoleApprove, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/threads/{id}/approvals/{toolCallId}", Tags: tags,
		Summary: "Approve or deny a tool call",
		Description: "Repeating a decision is already_resolved. A call with a conflicting decision, or that is not the one that " +
			"the request describes, is a 409; one on which this person may not decide is a 403. The problem document then has " +
			"result: conflict, mismatch or not_allowed. by is the name of the API key, or without one what the client says.",
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, h.decide)
}

func (h *approvalHandlers) listAllApprovals(ctx context.Context, in *allApprovalsInput) (*output[threadclient.Waiting], error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.approvals.ListApprovals(within, threadclient.ApprovalsQuery{Limit: in.Limit})
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	waiting.Approvals, waiting.ClientCalls = nonNil(waiting.Approvals), nonNil(waiting.ClientCalls)
	return &output[threadclient.Waiting]{waiting}, nil
}

func (h *approvalHandlers) listApprovals(ctx context.Context, in *ThreadPath) (*output[signals.Approvals], error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	list, err := h.approvals.Approvals(within, in.ID)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	list.Approvals, list.ClientCalls = nonNil(list.Approvals), nonNil(list.ClientCalls)
	return &output[signals.Approvals]{list}, nil
}

func (h *approvalHandlers) decide(ctx context.Context, in *decideInput) (*output[signals.DecideResult], error) {
	d, err := in.decision(ctx)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	got, err := h.approvals.Decide(within, in.ID, d)
	if err == nil {
		err = refusedDecision(in.ToolCallPath, got.Result)
	}
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	return &output[signals.DecideResult]{got}, nil
}

// decision is what the thread is told.
func (in *decideInput) decision(ctx context.Context) (signals.Decide, error) {
	d := in.Body.Decide
	d.ToolCallID = in.ToolCallID
	var err error
	if d.By, err = actor(ctx, "body.by", d.By, byAPI); err != nil {
		return d, err
	}
	var text *string
	given := len(d.ToolArgs) > 0
	if json.Unmarshal(d.ToolArgs, &text) == nil && text != nil { // as the request has them
		d.ToolArgs = json.RawMessage(*text)
	}
	if given && (!json.Valid(d.ToolArgs) || string(d.ToolArgs) == "null") {
		return d, event.FieldErrorf("toolArgs", "is not JSON, or null: send the call's arguments as an object, or as the text of the request, or omit it")
	}
	return d, d.Validate()
}

// decisionProblem is a problem document that also says what became of what was said about
// a tool call.
type decisionProblem struct {
	huma.ErrorModel
	Result signals.DecideOutcome `json:"result"`
}

// refusedDecision says what was wrong about a decision that changes nothing, or nil.
func refusedDecision(call ToolCallPath, result signals.DecideOutcome) error {
	switch result {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return nil
	case signals.DecideConflict:
		return decisionRefused(http.StatusConflict, result, "tool call %q already has a conflicting decision", call.ToolCallID)
	case signals.DecideMismatch:
		return decisionRefused(http.StatusConflict, result,
			"tool call %q is not the one that the decision describes, by its agent, tool, arguments, working directory, digest or round; look at the request again",
			call.ToolCallID)
	case signals.DecideNotPending:
		return decisionRefused(http.StatusNotFound, result, "no tool call %q waits in thread %q", call.ToolCallID, call.ID)
	case signals.DecideNotAllowed:
		return decisionRefused(http.StatusForbidden, result,
			"this person may not decide on tool call %q: the request names its approvers, and agents of the thread never may", call.ToolCallID)
	}
	return unknownOutcome(call, result)
}

func decisionRefused(status int, result signals.DecideOutcome, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	return &decisionProblem{huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}, result}
}

func unknownOutcome(call ToolCallPath, result signals.DecideOutcome) error {
	return fmt.Errorf("tool call %q of thread %q: unknown result %q", call.ToolCallID, call.ID, result)
}
