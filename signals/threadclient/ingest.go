package threadclient

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

// Ingest starts the workflow that ingests a revision of a document, in any namespace. If it runs already, or has ended
// well, nothing happens.
func (c *Client) Ingest(ctx context.Context, in signals.IngestStep) error {
	_, err := c.temporal.ExecuteWorkflow(ctx, c.backgroundOptions(
		signals.IngestWorkflowID(in.Namespace, in.Document, in.Revision), "ingest "+in.Source), signals.IngestWorkflow, in)
	return started("ingestion of "+in.Source, err)
}

// Embed starts the workflow that adds vectors to the documents of a namespace, unless it runs.
func (c *Client) Embed(ctx context.Context, namespace string) error {
	options := c.backgroundOptions(signals.EmbedWorkflowID(namespace), "embed the documents of "+namespace)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	_, err := c.temporal.ExecuteWorkflow(ctx, options, signals.EmbedWorkflow, signals.EmbedStep{Namespace: namespace})
	return started("embedding of "+namespace, err)
}

// Extract wakes the workflow that finds entities in the queued texts of a namespace, and starts it if it does not run.
func (c *Client) Extract(ctx context.Context, namespace string) error {
	options := c.backgroundOptions(signals.ExtractWorkflowID(namespace), "find entities in the messages of "+namespace)
	options.WorkflowIDReusePolicy, options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, 0
	in := signals.ExtractStep{Namespace: namespace}
	_, err := c.temporal.SignalWithStartWorkflow(ctx, options.ID, signals.SignalExtract, nil, options, signals.ExtractWorkflow, in)
	return started("search for entities in "+namespace, err)
}

// backgroundOptions are those of workflows that never delay a thread.
func (c *Client) backgroundOptions(id, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: c.taskQueue, StaticSummary: staticSummary(summary, ""),
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		Priority:                 temporal.Priority{PriorityKey: lowestPriority},
	}
}

// lowestPriority is the lowest priority key of Temporal.
const lowestPriority = 5

func started(what string, err error) error {
	if err == nil || is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return nil
	}
	return fmt.Errorf("starting the %s: %w", what, err)
}
