package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Decision is an approval with its place in the thread.
type Decision struct {
	Seq int64 `json:"seq" doc:"The number of the decision's record in the thread, from 1, in order"`
	event.Approval
}

type decisionsOutput struct {
	Body struct {
		Decisions []Decision `json:"decisions" nullable:"false" doc:"The decisions, the oldest first"`
		Next      string     `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

func (h *approvalHandlers) registerDecisions() {
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listDecisions", Method: http.MethodGet, Path: "/v1/threads/{id}/decisions", Tags: []string{"approvals"},
		Summary:     "List the decisions on tool calls, the oldest first",
		Description: "Each with its person, time, scope and digest; including votes, expired requests, revoked approvals, and calls covered by a grant.",
		Errors:      []int{404, 503},
	}, h.listDecisions)
}

func (h *approvalHandlers) listDecisions(ctx context.Context, in *messagesInput) (*decisionsOutput, error) {
	after, err := h.pageStart(ctx, in)
	if err != nil {
		return nil, err
	}
	q := store.Query{After: after, Types: []string{event.TypeApproval}, Limit: in.Limit + 1, MaxBytes: pageBytes}
	records, err := h.store.Records(ctx, h.key(in.ID), q)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	out := &decisionsOutput{}
	if !q.Complete(records) {
		records = records[:min(len(records), in.Limit)]
		out.Body.Next = strconv.FormatInt(records[len(records)-1].Seq, 10)
	}
	out.Body.Decisions = make([]Decision, 0, len(records))
	for _, r := range records {
		var a event.Approval
		if err := json.Unmarshal(r.Payload, &a); err != nil {
			h.logger.Warn("a decision cannot be read, and is left out", "thread", in.ID, "record", r.ID, "error", err)
			continue
		}
		out.Body.Decisions = append(out.Body.Decisions, Decision{r.Seq, a})
	}
	return out, nil
}
