package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

type approvalsOutput struct {
	Body struct {
		Approvals []event.ApprovalRequest `json:"approvals" nullable:"false"`
	}
}

type decideInput struct {
	ThreadPath
	ToolCallID string `path:"toolCallId"`
	Body       struct {
		Decision string `json:"decision" enum:"approve,deny"`
		Scope    string `json:"scope,omitempty" enum:"once" doc:"Default: once"`
		Reason   string `json:"reason,omitempty" maxLength:"4000" doc:"Of a denial: the agent is told"`
		By       string `json:"by,omitempty" maxLength:"128" doc:"Who decides; it is kept. Default: api"`
		Agent    string `json:"agent,omitempty" doc:"If given, the call must be this agent's"`
		ToolName string `json:"toolName,omitempty" doc:"If given, the call must be of this tool"`
	}
}

type decideOutput struct {
	Body struct {
		Result string `json:"result" enum:"accepted,already_resolved"`
	}
}

// decisionProblem is a problem document that also carries the result.
type decisionProblem struct {
	huma.ErrorModel
	Result signals.DecideOutcome `json:"result"`
}

func (s *server) registerApprovals() {
	tags := []string{"approvals"}
	register(s, huma.Operation{
		OperationID: "listApprovals", Method: http.MethodGet, Path: "/v1/threads/{id}/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision", Errors: []int{404, 503},
	}, s.listApprovals)
	register(s, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/threads/{id}/approvals/{toolCallId}", Tags: tags,
		Summary: "Approve or deny a tool call",
		Description: "Deciding the same again is already_resolved. A call that was settled otherwise, or is not of the agent or tool " +
			"that the request names, is a 409; the problem document then has result: conflict or mismatch.",
		Errors: []int{400, 404, 409, 413, 503},
	}, s.decide)
}

func (s *server) listApprovals(ctx context.Context, in *ThreadPath) (*approvalsOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	list, err := s.Threads.Approvals(within, in.ID)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &approvalsOutput{}
	out.Body.Approvals = append([]event.ApprovalRequest{}, list.Approvals...)
	return out, nil
}

func (s *server) decide(ctx context.Context, in *decideInput) (*decideOutput, error) {
	d := signals.Decide{
		ToolCallID: in.ToolCallID, Decision: event.Decision(in.Body.Decision), Scope: event.Scope(in.Body.Scope),
		Reason: in.Body.Reason, By: in.Body.By, Agent: in.Body.Agent, ToolName: in.Body.ToolName,
	}
	if d.By == "" {
		d.By = byAPI
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	result, err := s.Threads.Decide(within, in.ID, d)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	switch result {
	case signals.Accepted, signals.AlreadyResolved:
		out := &decideOutput{}
		out.Body.Result = string(result)
		return out, nil
	case signals.Conflict:
		return nil, undecided(http.StatusConflict, result, fmt.Sprintf("tool call %q was settled otherwise", in.ToolCallID))
	case signals.Mismatch:
		return nil, undecided(http.StatusConflict, result, fmt.Sprintf("tool call %q is of another agent or another tool", in.ToolCallID))
	case signals.NotPending:
		return nil, undecided(http.StatusNotFound, result, fmt.Sprintf("no tool call %q waits in thread %q", in.ToolCallID, in.ID))
	}
	return nil, s.problem(ctx, in.ID, fmt.Errorf("deciding on %q: unknown result %q", in.ToolCallID, result))
}

func undecided(status int, result signals.DecideOutcome, detail string) error {
	return &decisionProblem{huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}, result}
}
