package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/store"
)

// isBefore reports whether a step is of a run of the workflow that began before approvals in
// full. Such a run takes a call for one that may run that is denied, or a client's, and one
// that is to be asked about again for one that has run. While workers are replaced, those of
// this version run its steps: they settle such calls themselves.
func isBefore(version int) bool { return version < thread.VersionApprovals }

// tell plans a call as the run of the workflow understands it that has it planned.
func (p *planner) tell(ctx context.Context, call event.ToolCall) thread.PlannedCall {
	out := p.plan(ctx, call)
	switch {
	case !isBefore(p.version):
		return out
	case out.Denied != "" || out.By == thread.ByClient:
		// Unfit, it runs in nobody's eyes. Its step says why.
		return thread.PlannedCall{ID: out.ID, Name: out.Name, Unfit: true, Quick: true}
	}
	return out.AsBefore()
}

// Results of calls that a run from before cannot have run.
const (
	unaskedText  = "Error: this call needs an approval that it does not have. It was not run. Call it again, and a person is asked."
	noClientText = "Error: a connected client runs %s, and this thread learns only with its next run to ask one. The call was not run."
)

// recheckBefore is [toolRun.recheck] for a run that cannot be told to ask again. It names no
// decision: what is stored of one counts.
func (r *toolRun) recheckBefore(ctx context.Context, p *planner) (rechecked, error) {
	now := p.plan(ctx, r.stored)
	switch {
	case p.unread != nil:
		return rechecked{}, readError(p.unread)
	case now.Denied != "":
		return rechecked{refused: thread.DeniedByPolicy(now.Denied)}, nil
	case now.By == thread.ByClient:
		return rechecked{refused: fmt.Sprintf(noClientText, r.in.ToolName)}, nil
	case now.Unfit || r.in.Unfit:
		return rechecked{unfit: true}, nil
	case !now.NeedsApproval:
		return rechecked{}, nil
	}
	approved, err := r.approvedBefore(ctx, p, now)
	if err != nil || approved {
		return rechecked{}, err
	}
	return rechecked{refused: unaskedText}, nil
}

// approvedBefore reports whether a person has approved a call. A run from before does not say
// of what an approval is: then it is of the stored call.
func (r *toolRun) approvedBefore(ctx context.Context, p *planner, now thread.PlannedCall) (bool, error) {
	if err := p.read(ctx); err != nil {
		return false, readError(err)
	}
	if made, ok := p.history.FindOnce(now.ID); ok {
		g := now.Guard
		return made.Digest == "" || g != nil && made.Digest == g.Digest && made.Definition == g.Definition, nil
	}
	if !r.background {
		return false, nil
	}
	return false, r.awaitDecision(ctx, now.ID)
}

// awaitDecision has the step of a task run again that was asked about, and has no decision in
// the store: it was approved, or it had not been started, and its thread has yet to store that.
func (r *toolRun) awaitDecision(ctx context.Context, toolCallID string) error {
	request := thread.RequestID(event.ApprovalRequest{ToolCallID: toolCallID})
	records, err := r.a.cfg.Store.RecordsByID(ctx, store.Key(r.in.Thread), request, thread.DecisionID(toolCallID, 1))
	switch {
	case err != nil:
		return readError(err)
	case len(records) == 1 && records[0].ID == request:
		return temporal.NewApplicationErrorWithCause("The approval of the task is not stored yet; the step is retried.", thread.ErrTypeRetry,
			errors.New("no record "+thread.DecisionID(toolCallID, 1)))
	}
	return nil
}
