package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
)

// replan plans an approved call again with the approved arguments. If the approval is no longer
// valid, the plan requires approval of the stored call.
func (a *Activities) replan(ctx context.Context, p *planner, stored event.ToolCall, decisionID string) (step.PlannedCall, error) {
	decision, err := a.decision(ctx, p.ref, decisionID)
	if err != nil {
		return step.PlannedCall{}, err
	}
	call := withArguments(stored, decision.Arguments)
	now := p.plan(ctx, call)
	if p.unread != nil {
		return step.PlannedCall{}, readError(p.unread)
	}
	why := ""
	switch {
	case now.Denied != "" || now.Invalid || now.Guard == nil:
		// The call is denied, or needs no approval.
		return now, nil
	case now.Guard.Definition != decision.Definition:
		why = "the tool has changed since the call was approved"
	case now.Guard.Digest != decision.Digest:
		why = "what the call would work on has changed since it was approved"
	case decision.Grant != "" && now.Grant == nil:
		why = "the approval that covered the call holds no more"
	case decision.Grant == "":
		if _, holds := p.history.FindOnce(stored.ID); !holds {
			why = "the approval was taken back"
		} else if now.Approval != nil {
			holds, err := p.enough(*now.Approval, approvers(decision)...)
			if err != nil {
				return step.PlannedCall{}, groupError(err)
			}
			if !holds {
				why = "others have to approve it by now, or more of them"
			}
		}
	}
	if why == "" {
		now.NeedsApproval = false
		if now.By == step.ByClient {
			// The client runs the call with the full arguments.
			now.Arguments = call.Function.Arguments
		}
		return now, nil
	}
	now = p.plan(ctx, stored)
	now.Reason, now.Lapsed = sentence(why, now.Reason), true
	return now, nil
}

// decision reads the decision on a call.
func (a *Activities) decision(ctx context.Context, ref step.Ref, id string) (event.Approval, error) {
	var out event.Approval
	records, err := a.cfg.Store.RecordsByID(ctx, ref, id)
	switch {
	case err != nil:
		return out, readError(err)
	case len(records) == 0:
		return out, configError(fmt.Errorf("the decision %s is not stored", id))
	}
	if err := json.Unmarshal(records[0].Payload, &out); err != nil {
		return out, configError(fmt.Errorf("reading stored record %s: %w", id, err))
	}
	return out, nil
}

func withArguments(call event.ToolCall, arguments string) event.ToolCall {
	if arguments != "" {
		call.Function.Arguments = arguments
	}
	return call
}

// lapsedText is the result of a task whose approval is no longer valid.
const lapsedText = "Error: the approval of this call does not hold any more (%s). It was not run."

// rechecked is the result of checking a call immediately before it runs.
type rechecked struct {
	// ask is set if the call needs approval, refused if it never runs, and invalid if its arguments
	// do not match the tool's current parameters.
	ask     *step.PlannedCall
	refused string
	invalid bool
}

// recheck checks a call immediately before it runs, since its plan or its approval may no longer be
// valid.
func (r *toolRun) recheck(ctx context.Context, p *planner) (rechecked, error) {
	var now step.PlannedCall
	if r.in.DecisionID == "" {
		if now = p.plan(ctx, r.stored); p.unread != nil {
			return rechecked{}, readError(p.unread)
		}
	} else {
		var err error
		if now, err = r.a.replan(ctx, p, r.stored, r.in.DecisionID); err != nil {
			return rechecked{}, err
		}
	}
	switch {
	case now.Invalid:
		return rechecked{invalid: true}, nil
	case now.Denied != "":
		return rechecked{refused: step.DeniedByPolicy(now.Denied)}, nil
	case now.NeedsApproval, now.Lapsed, now.Grant != nil && r.in.DecisionID == "":
		return rechecked{ask: &now}, nil
	}
	return rechecked{}, nil
}

// edit reads the arguments with which a person replaced the call's own, if any.
func (r *toolRun) edit(ctx context.Context) error {
	if r.in.DecisionID == "" {
		return nil
	}
	decision, err := r.a.decision(ctx, r.in.Thread, r.in.DecisionID)
	r.edited = decision.Arguments
	return err
}

// checkDecision validates the edited arguments or the pattern of a decision, and whether a member of a group decides.
func (a *Activities) checkDecision(ctx context.Context, in step.Check) (step.CheckReply, error) {
	who, err := a.agentFor(ctx, in.Thread, in.Agent, in.Tools)
	if err != nil {
		return step.CheckReply{}, err
	}
	stored, err := a.callOf(ctx, in)
	if err != nil {
		return step.CheckReply{}, err
	}
	p := a.planner(ctx, in.Thread, who, in.WorkingDirectory)
	if !in.Late {
		return p.checkEdit(ctx, in, stored)
	}
	now := p.plan(ctx, stored)
	switch {
	case now.Approval != nil && p.may(*now.Approval, in.By):
	case p.unreadGroup() != nil:
		return step.CheckReply{Field: "by", Problem: "could not be checked: " + p.unreadGroup().Error()}, nil
	default:
		return step.CheckReply{}, nil
	}
	if in.Args == "" && len(in.Pattern) == 0 {
		return step.CheckReply{Member: true}, nil
	}
	out, err := p.checkEdit(ctx, in, stored)
	out.Member = true
	return out, err
}

// checkEdit validates the edited arguments or the pattern of a decision.
func (p *planner) checkEdit(ctx context.Context, in step.Check, stored event.ToolCall) (step.CheckReply, error) {
	if _, ok := p.tools.lookup(stored.Function.Name); !ok {
		return step.CheckReply{Field: "toolCallId", Problem: fmt.Sprintf("the tool %q no longer exists", stored.Function.Name)}, nil
	}
	if in.Guard != nil && !p.isStill(ctx, stored, *in.Guard) {
		return step.CheckReply{
			Field:   "toolCallId",
			Problem: "is a call that has changed since people were asked; approve it as it is, once, and they are asked about what it is now",
		}, nil
	}
	now, parts, err := p.draft(ctx, withArguments(stored, in.Args))
	if err != nil {
		return step.CheckReply{Field: "args", Problem: err.Error()}, nil
	}
	p.policy(ctx, &now, parts...)
	switch {
	case now.Denied != "":
		return step.CheckReply{Field: "args", Problem: "are denied by " + now.DeniedBy + ": " + now.Denied}, nil
	case now.Approval != nil && in.Args != "":
		switch holds, err := p.enough(*now.Approval, in.By); {
		case err != nil:
			return step.CheckReply{Field: "args", Problem: "could not be checked: " + err.Error()}, nil
		case !holds:
			return step.CheckReply{Field: "args", Problem: "make a call that others have to approve, or several"}, nil
		}
	}
	whole := wholeOf(parts)
	guard, err := guardOf(whole)
	if err != nil {
		return step.CheckReply{Field: "args", Problem: err.Error()}, nil
	}
	return granted(whole, in, guard)
}

// isStill reports whether a call is still the one in the approval request: the same tool, working
// directory and paths.
func (p *planner) isStill(ctx context.Context, call event.ToolCall, approved step.Guard) bool {
	_, parts, err := p.draft(ctx, call)
	if err != nil {
		return false
	}
	now, err := guardOf(wholeOf(parts))
	return err == nil && now.Digest == approved.Digest && now.Definition == approved.Definition
}

// approvers returns the people who approved a call.
func approvers(d event.Approval) []string {
	if len(d.Votes) == 0 {
		return []string{d.By}
	}
	names := make([]string, len(d.Votes))
	for i, v := range d.Votes {
		names[i] = v.By
	}
	return names
}

// granted validates a pattern: it must match the call itself.
func granted(call approval.Call, in step.Check, guard step.Guard) (step.CheckReply, error) {
	out := step.CheckReply{Guard: &guard}
	if len(in.Pattern) == 0 {
		return out, nil
	}
	err := call.Matches(in.Pattern)
	if err == nil {
		out.Rest, err = call.Rest(in.Pattern)
	}
	var field *event.FieldError
	switch {
	case errors.As(err, &field):
		return step.CheckReply{Field: field.Field, Problem: field.Problem}, nil
	case err != nil:
		return step.CheckReply{Field: "pattern", Problem: err.Error()}, nil
	}
	return out, nil
}

func (a *Activities) callOf(ctx context.Context, in step.Check) (event.ToolCall, error) {
	calls, err := a.callsOf(ctx, in.Thread, in.MessageID)
	if err != nil {
		return event.ToolCall{}, err
	}
	for _, call := range calls {
		if call.ID == in.ToolCallID {
			return call, nil
		}
	}
	return event.ToolCall{}, configError(fmt.Errorf("tool call %s is not in message %s", in.ToolCallID, in.MessageID))
}
