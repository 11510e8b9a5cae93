package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/signals"
)

// answers returns what the message says about calls. What the person saw of a call has to be what is
// stored.
func (m chatMessage) answers() ([]callAnswer, error) {
	var out []callAnswer
	for i, p := range m.Parts {
		a := callAnswer{id: p.ToolCallID}
		switch {
		case p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil:
			if len(p.Input) == 0 || string(p.Input) == "null" {
				return nil, refuse(http.StatusUnprocessableEntity, fmt.Sprintf("messages.parts[%d].input", i), "is required with a decision: the arguments that the person saw")
			}
			a.id = cmp.Or(p.Approval.ID, p.ToolCallID)
			a.decision = &signals.Decide{Decision: event.DecisionDeny, Reason: p.Approval.Reason, ToolArgs: p.Input}
			if *p.Approval.Approved {
				a.decision.Decision = event.DecisionApprove
			}
		case p.State == "output-available":
			a.result = &signals.ToolResult{Output: outputText(p.Output)}
		case p.State == "output-error":
			a.result = &signals.ToolResult{Output: p.ErrorText, IsError: true}
		default:
			continue
		}
		out = append(out, a)
	}
	return out, nil
}

// callAnswer is what a client says about a call: a decision, or the result of a tool that it runs.
type callAnswer struct {
	// id is that of the request of a decision, see [uistream.ApprovalID], or that of a call.
	id       string
	decision *signals.Decide
	result   *signals.ToolResult
}

// settle takes the answers to calls that wait for them, and returns those calls. Answers to others
// are repeated, or late, and change nothing.
func (h *chatHandlers) settle(ctx context.Context, threadID, sender string, answers []callAnswer) (settled []string, err error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, threadID)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		switch {
		case a.decision != nil:
			i := slices.IndexFunc(waiting.Approvals, func(r event.ApprovalRequest) bool { return uistream.ApprovalID(&r) == a.id })
			if i < 0 {
				continue
			}
			a.id, a.decision.Round = waiting.Approvals[i].ToolCallID, waiting.Approvals[i].Round
			err = h.decide(within, threadID, sender, a)
		case a.result != nil:
			if !slices.ContainsFunc(waiting.ClientCalls, func(c event.ClientCall) bool { return c.ToolCallID == a.id }) {
				continue
			}
			a.result.ToolCallID = a.id
			if a.result.By, err = actor(ctx, "sender", sender, byAPI); err != nil {
				return nil, err
			}
			if len(a.result.Output) > signals.MaxPayload {
				return nil, tooLarge("messages", len(a.result.Output))
			}
			_, err = h.threads.ToolResult(within, threadID, *a.result)
		}
		if err != nil {
			return nil, err
		}
		settled = append(settled, a.id)
	}
	return settled, nil
}

func (h *chatHandlers) decide(ctx context.Context, threadID, sender string, a callAnswer) (err error) {
	if err := needs(ctx, auth.RoleApprove, "a decision"); err != nil {
		return err
	}
	a.decision.ToolCallID = a.id
	if a.decision.By, err = person(ctx, "sender", sender); err != nil {
		return err
	}
	if err := a.decision.Validate(); err != nil {
		return err
	}
	got, err := h.threads.Decide(ctx, threadID, *a.decision)
	return orRefused(err, decisionRefusals, ToolCallPath{ThreadPath{threadID}, a.id}, got.Result)
}
