// Package bare drives threads with a Temporal client and JSON only. It imports nothing of
// Threadmill: any Temporal client can do the same.
package bare

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// Client talks to the threads of one namespace.
type Client struct {
	Temporal  client.Client
	Namespace string
	TaskQueue string
}

type object = map[string]any

func (c Client) workflowID(thread string) string { return "thread/" + c.Namespace + "/" + thread }

// Say opens the thread if necessary and posts a message.
func (c Client) Say(ctx context.Context, thread, eventID, content string) error {
	post := object{"id": eventID, "type": "message", "payload": object{
		"threadId": thread, "senderId": "ann", "senderType": "user", "content": content,
	}}
	_, err := c.Temporal.SignalWithStartWorkflow(ctx, c.workflowID(thread), "post", post,
		client.StartWorkflowOptions{TaskQueue: c.TaskQueue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}, "thread", object{})
	return err
}

// Decide decides on a tool call.
func (c Client) Decide(ctx context.Context, thread, toolCallID, decision, reason string) error {
	return c.Temporal.SignalWorkflow(ctx, c.workflowID(thread), "", "decide", object{
		"toolCallId": toolCallID, "decision": decision, "scope": "once", "reason": reason, "by": "ann",
	})
}

// Control interrupts or closes a thread.
func (c Client) Control(ctx context.Context, thread, action string) error {
	return c.Temporal.SignalWorkflow(ctx, c.workflowID(thread), "", "control", object{"action": action, "by": "ann"})
}

// Signal sends any payload.
func (c Client) Signal(ctx context.Context, thread, name string, payload any) error {
	return c.Temporal.SignalWorkflow(ctx, c.workflowID(thread), "", name, payload)
}

// Query queries the thread and returns the fields of the result.
func (c Client) Query(ctx context.Context, thread, name string) (map[string]any, error) {
	var out object
	v, err := c.Temporal.QueryWorkflow(ctx, c.workflowID(thread), "", name)
	if err != nil {
		return nil, err
	}
	return out, v.Get(&out)
}

// Waiting returns the ids of the tool calls that wait for approval.
func (c Client) Waiting(ctx context.Context, thread string) ([]string, error) {
	answer, err := c.Query(ctx, thread, "approvals")
	if err != nil {
		return nil, err
	}
	list, ok := answer["approvals"].([]any)
	if !ok {
		return nil, fmt.Errorf("answer %v has no list of approvals", answer)
	}
	var out []string
	for _, a := range list {
		out = append(out, a.(object)["toolCallId"].(string))
	}
	return out, nil
}

// Turn posts by update and waits for the end of the turn.
func (c Client) Turn(ctx context.Context, thread, eventID, content string) (map[string]any, error) {
	h, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: c.workflowID(thread), UpdateName: "turn", WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{object{"id": eventID, "payload": object{
			"threadId": thread, "senderId": "ann", "senderType": "user", "content": content,
		}}},
	})
	if err != nil {
		return nil, err
	}
	var out object
	return out, h.Get(ctx, &out)
}
