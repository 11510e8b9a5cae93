package threadclient

import (
	"context"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

// Ingest starts the workflow that ingests a revision of a document, in any namespace, unless it runs. One that has ended starts
// again: if the store says that the revision is still to be processed, it is another store than the one that it ended in, or
// an older state of it.
func (c *Client) Ingest(ctx context.Context, in signals.IngestStep) error {
	_, err := c.temporal.ExecuteWorkflow(ctx, c.backgroundOptions(
		signals.IngestWorkflowID(in.Namespace, in.Document, in.Revision), "ingest "+in.Source), signals.IngestWorkflow, in)
	return started("ingestion of "+in.Source, err)
}

// Embed starts the workflow that adds vectors of an embedder to the documents and entities of a namespace, unless it runs. One that
// adds vectors of another embedder ends: the worker that started last has the newest configuration.
func (c *Client) Embed(ctx context.Context, namespace, embedder string) error {
	options := c.backgroundOptions(signals.EmbedWorkflowID(namespace), "embed by "+embedder+" the documents and entities of "+namespace)
	other, err := c.embedsOther(ctx, options)
	if err != nil {
		return err
	}
	if other {
		options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	_, err = c.temporal.ExecuteWorkflow(ctx, options, signals.EmbedWorkflow, signals.EmbedStep{Namespace: namespace, Embedder: embedder})
	return started("embedding of "+namespace, err)
}

// embedsOther reports whether a workflow that embeds runs with another embedder, which its summary names.
func (c *Client) embedsOther(ctx context.Context, options client.StartWorkflowOptions) (bool, error) {
	found, err := c.temporal.DescribeWorkflow(ctx, options.ID, "")
	if is[*serviceerror.NotFound](err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", options.ID, err)
	}
	if found.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, nil
	}
	its, err := found.GetStaticSummary()
	return its != options.StaticSummary, err
}

// Extract wakes the workflow that finds entities in the queued texts of a namespace, and starts it if it does not run.
func (c *Client) Extract(ctx context.Context, namespace string) error {
	options := c.backgroundOptions(signals.ExtractWorkflowID(namespace), "find entities in the messages of "+namespace)
	options.WorkflowIDConflictPolicy = 0
	in := signals.ExtractStep{Namespace: namespace}
	_, err := c.temporal.SignalWithStartWorkflow(ctx, options.ID, signals.SignalExtract, nil, options, signals.ExtractWorkflow, in)
	return started("search for entities in "+namespace, err)
}

// backgroundOptions are those of workflows that never delay a thread.
func (c *Client) backgroundOptions(id, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: c.taskQueue, StaticSummary: brief(summary),
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		Priority:                 temporal.Priority{PriorityKey: lowestPriority},
	}
}

// brief cuts a summary to the server's limit: addresses of documents can be long.
func brief(summary string) string {
	const limit = 200 // bytes; the server's limit is 400
	if len(summary) > limit {
		summary = summary[:limit] + "…"
	}
	return strings.ToValidUTF8(summary, "")
}

// lowestPriority is the lowest priority key of Temporal.
const lowestPriority = 5

func started(what string, err error) error {
	if err == nil || is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return nil
	}
	return fmt.Errorf("starting the %s: %w", what, err)
}
