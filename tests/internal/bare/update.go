package bare

import (
	"context"

	"go.temporal.io/sdk/client"
)

// Update sends an update and returns the fields of its result.
func (c Client) Update(ctx context.Context, thread, name string, payload any) (map[string]any, error) {
	h, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: c.workflowID(thread), UpdateName: name, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{payload},
	})
	if err != nil {
		return nil, err
	}
	var out object
	return out, h.Get(ctx, &out)
}
