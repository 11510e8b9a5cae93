package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

type allApprovalsInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many waiting threads to list the calls of: those that wait the longest"`
	Agent string `query:"agent" maxLength:"128" doc:"Only calls of this agent"`
	Tool  string `query:"tool" maxLength:"128" doc:"Only calls of this tool"`
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

// decideBody is a [signals.Decide] without the call, which is in the path.
type decideBody struct {
	signals.Decide
	ToolCallID string `json:"-"`
}

// Approvals is the part of the thread client for approvals and client calls.
type Approvals interface {
	Approvals(ctx context.Context, threadID string) (signals.Approvals, error)
	Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error)
	ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error)
	AnswerInput(ctx context.Context, threadID string, a signals.InputAnswers) (signals.DecideOutcome, error)
	Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error)
}

// approvalHandlers serve pending tool calls and decisions on them.
type approvalHandlers struct {
	*lookup
	approvals Approvals
}

func (h *approvalHandlers) registerApprovals() {
	tags := []string{"approvals"}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listAllApprovals", Method: http.MethodGet, Path: "/v1/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a person, of all threads",
		Description: "The calls are those of the stored records, which follow the threads within a moment: a call that began to wait " +
			"just now may be missing, and one that was just decided may still be listed. A call of a sub-agent is listed once, " +
			"in the thread for which it works. agent and tool select among the calls of these threads.",
		Errors: []int{503},
	}, h.listAllApprovals)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listApprovals", Method: http.MethodGet, Path: "/v1/threads/{id}/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision, for a client or for input", Errors: []int{404, 503},
	}, h.listApprovals)
	register(h.core, auth.RoleApprove, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/threads/{id}/approvals/{toolCallId}", Tags: tags,
		Summary: "Approve or deny a tool call",
		Description: "Repeating a decision is already_resolved. A call with a conflicting decision, or that is not the one that " +
			"the request describes, is a 409; one on which this person may not decide is a 403. The problem document then has " +
			"result: conflict, mismatch or not_allowed. by is the name of the API key; without one it is required.",
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, h.decide)
}

func (h *approvalHandlers) listAllApprovals(ctx context.Context, in *allApprovalsInput) (*output[threadclient.Waiting], error) {
	return ask(ctx, h.core, "", func(ctx context.Context) (threadclient.Waiting, error) {
		waiting, err := waitingLists{h.store, h.namespace}.list(ctx, threadclient.ApprovalsQuery{Limit: in.Limit, Agent: in.Agent, Tool: in.Tool})
		return waiting, cmp.Or(err, h.preview(ctx, waiting))
	})
}

// preview adds the previews of the threads to calls.
func (h *approvalHandlers) preview(ctx context.Context, in threadclient.Waiting) error {
	show := map[string][]*string{}
	for i, c := range in.Approvals {
		show[c.ThreadID] = append(show[c.ThreadID], &in.Approvals[i].Preview)
	}
	for i, c := range in.ClientCalls {
		show[c.ThreadID] = append(show[c.ThreadID], &in.ClientCalls[i].Preview)
	}
	for i, c := range in.Inputs {
		show[c.ThreadID] = append(show[c.ThreadID], &in.Inputs[i].Preview)
	}
	previews, err := h.store.Previews(ctx, h.namespace, slices.Collect(maps.Keys(show))...)
	for id, text := range previews {
		for _, place := range show[id] {
			*place = text
		}
	}
	return err
}

func (h *approvalHandlers) listApprovals(ctx context.Context, in *ThreadPath) (*output[signals.Approvals], error) {
	return ask(ctx, h.core, in.ID, func(ctx context.Context) (signals.Approvals, error) {
		list, err := h.approvals.Approvals(ctx, in.ID)
		list.Approvals, list.ClientCalls, list.Inputs = nonNil(list.Approvals), nonNil(list.ClientCalls), nonNil(list.Inputs)
		for i := range list.Inputs {
			err = cmp.Or(err, h.complete(ctx, in.ID, &list.Inputs[i]))
		}
		return list, err
	})
}

func (h *approvalHandlers) decide(ctx context.Context, in *decideInput) (*output[signals.DecideResult], error) {
	d, err := in.decision(ctx)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	return ask(ctx, h.core, in.ID, func(ctx context.Context) (signals.DecideResult, error) {
		got, err := h.approvals.Decide(ctx, in.ID, d)
		return got, orRefused(err, decisionRefusals, in.ToolCallPath, got.Result)
	})
}

// decision returns the decision for the thread.
func (in *decideInput) decision(ctx context.Context) (signals.Decide, error) {
	d := in.Body.Decide
	d.ToolCallID = in.ToolCallID
	var err error
	if d.By, err = person(ctx, "body.by", d.By); err != nil {
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

// outcomeProblem is a problem document with the outcome of the request.
type outcomeProblem struct {
	huma.ErrorModel
	Result string `json:"result"`

	// Task is the current task, if the request concerns a task that the thread knows.
	Task *event.Task `json:"task,omitempty"`
}

func refuseOutcome[R ~string](status int, result R, task *event.Task, detail string) error {
	return &outcomeProblem{huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}, string(result), task}
}

// refusals maps the outcomes of requests that change nothing to error formats, whose arguments are
// the call and its thread.
type refusals map[signals.DecideOutcome]string

var decisionRefusals = refusals{
	signals.DecideConflict:   "tool call %[1]q already has a conflicting decision",
	signals.DecideMismatch:   "tool call %[1]q is not the one that the decision describes, by its agent, tool, arguments, working directory, digest or round; look at the request again",
	signals.DecideNotPending: "no tool call %[1]q waits in thread %[2]q",
	signals.DecideNotAllowed: "this person may not decide on tool call %[1]q: the request names its approvers, and agents of the thread never may",
}

// orRefused returns err or, if it is nil, the problem of an outcome that changes nothing.
func orRefused(err error, why refusals, call ToolCallPath, result signals.DecideOutcome) error {
	if _, refused := errors.AsType[*signals.DecisionError](err); refused { // which the result says, too
		err = nil
	}
	status := http.StatusConflict
	switch result {
	case signals.DecideNotPending:
		status = http.StatusNotFound
	case signals.DecideNotAllowed:
		status = http.StatusForbidden
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return err
	case signals.DecideConflict, signals.DecideMismatch:
	}
	switch format, known := why[result]; {
	case err != nil:
		return err
	case known:
		return refuseOutcome(status, result, nil, fmt.Sprintf(format, call.ToolCallID, call.ID))
	}
	return fmt.Errorf("tool call %q of thread %q: unknown result %q", call.ToolCallID, call.ID, result)
}
