package threadclient

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/signals"
)

// Restore tells a thread what the store has and its workflow does not, after one of them was restored
// from a backup. With start, it starts the workflow if Temporal has none that runs.
func (c *Client) Restore(ctx context.Context, threadID string, start *signals.Start, r signals.Restore) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if start == nil {
		return c.signal(ctx, threadID, signals.SignalRestore, r)
	}
	if err := checkStart(threadID, *start); err != nil {
		return err
	}
	in := redaction.Payload(c.redact, *start)
	opts := c.startOptions(threadID, in, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	opts.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED
	_, err := c.temporal.SignalWithStartWorkflow(ctx, opts.ID, signals.SignalRestore, redaction.Payload(c.redact, r), opts, signals.ThreadWorkflow, in)
	return c.explain(ctx, signals.SignalRestore, threadID, err)
}
