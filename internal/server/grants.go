package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
)

type grantsInput struct {
	ThreadPath
	Revoked bool `query:"revoked" doc:"Include revoked grants"`
}

type grantsOutput struct {
	Body struct {
		Grants []approval.Grant `json:"grants" nullable:"false" doc:"The oldest first"`
	}
}

type revokeInput struct {
	ToolCallPath
	By     string `query:"by" doc:"Who revokes; it is stored. The name of the API key, or without one what the client sends. Default: api"`
	Reason string `query:"reason" maxLength:"4096" doc:"Why, for people"`
}

func (h *approvalHandlers) registerGrants() {
	tags := []string{"approvals"}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listGrants", Method: http.MethodGet, Path: "/v1/threads/{id}/grants", Tags: tags,
		Summary:     "List the approvals that cover more calls than their own",
		Description: "From the thread's records; one given just now may be missing.",
		Errors:      []int{404, 503},
	}, h.listGrants)
	register(h.core, auth.RoleApprove, huma.Operation{
		OperationID: "revokeGrant", Method: http.MethodDelete, Path: "/v1/threads/{id}/grants/{toolCallId}", Tags: tags,
		Summary: "Revoke an approval and what it grants",
		Description: "Completed calls are not undone; an approved call that has not started needs a new approval. Any approval can be revoked by the id of its call. " +
			"Revoking again is already_resolved, unless people have been asked about the call again and no decision is stored yet: then the thread takes it.",
		Errors: []int{403, 404, 409, 503},
	}, h.revokeGrant)
}

func (h *approvalHandlers) listGrants(ctx context.Context, in *grantsInput) (*grantsOutput, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	records, err := transcript.AllRecords(ctx, h.store, h.key(in.ID), event.TypeApproval)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	history := approval.ReadHistory(records)
	if bad := history.Unreadable(); len(bad) > 0 {
		h.logger.Warn("approvals cannot be read: none from before them holds", "thread", in.ID, "records", bad)
	}
	out := &grantsOutput{}
	out.Body.Grants = []approval.Grant{}
	for _, g := range history.Grants() {
		if in.Revoked || g.RevokedAt == nil {
			out.Body.Grants = append(out.Body.Grants, g)
		}
	}
	return out, nil
}

func (h *approvalHandlers) revokeGrant(ctx context.Context, in *revokeInput) (*output[signals.DecideResult], error) {
	by, err := actor(ctx, "query.by", in.By, byAPI)
	if err != nil {
		return nil, err
	}
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	// A thread accepts any revocation: only its records tell which approvals exist.
	records, err := transcript.AllRecords(ctx, h.store, h.key(in.ID), event.TypeApproval)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	approved, holds, round := approvalOf(records, in.ToolCallID)
	if !approved {
		return nil, orRefused(nil, revocationRefusals, in.ToolCallPath, signals.DecideNotPending)
	}
	if !holds {
		again, err := h.requestedAgain(ctx, in.ID, in.ToolCallID, round)
		if err != nil {
			return nil, h.problem(ctx, in.ID, err)
		}
		if !again {
			return &output[signals.DecideResult]{signals.DecideResult{Result: signals.DecideAlreadyResolved}}, nil
		}
	}
	return ask(ctx, h.core, in.ID, func(ctx context.Context) (signals.DecideResult, error) {
		got, err := h.approvals.Revoke(ctx, in.ID, signals.Revoke{ToolCallID: in.ToolCallID, By: by, Reason: in.Reason})
		if !holds && errors.Is(err, signals.ErrThreadClosed) {
			// No record is on its way to the store.
			got, err = signals.DecideAlreadyResolved, nil
		}
		return signals.DecideResult{Result: got}, orRefused(err, revocationRefusals, in.ToolCallPath, got)
	})
}

// requestedAgain reports whether approval of a call was requested again after the last stored
// decision. If so, a newer decision may not be stored yet, and only the thread knows it.
func (h *approvalHandlers) requestedAgain(ctx context.Context, threadID, toolCallID string, round int) (bool, error) {
	next := event.ApprovalRequest{ToolCallID: toolCallID, Round: max(round, 1) + 1}
	records, err := h.store.RecordsByID(ctx, h.key(threadID), recordid.Request(next))
	return len(records) > 0, err
}

// approvalOf reports whether a call was approved, whether the approval is still valid, and the last
// round with a decision. It ignores unreadable records.
func approvalOf(records []event.Record, toolCallID string) (approved, holds bool, round int) {
	for _, r := range records {
		var a event.Approval
		if json.Unmarshal(r.Payload, &a) != nil || a.ToolCallID != toolCallID || a.ThreadID != "" {
			continue
		}
		switch {
		case a.Decision == event.DecisionRevoked:
			holds = false
		case a.Missing > 0:
		case a.Decision == event.DecisionApprove:
			approved, holds, round = true, true, max(round, a.Round)
		default:
			round = max(round, a.Round)
		}
	}
	return approved, holds, round
}

var revocationRefusals = refusals{
	signals.DecideConflict:   "tool call %[1]q was not approved: there is nothing to revoke",
	signals.DecideNotPending: "thread %[2]q has no approval of a tool call %[1]q, or it was given just now and is not stored yet; GET /v1/threads/%[2]s/grants lists what is granted",
	signals.DecideNotAllowed: "agents of the thread may not revoke the approval of tool call %[1]q",
}
