// Package jobclient starts the workflows of package job. They never delay a thread.
package jobclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/job"
)

// Client starts workflows on the task queue of the threads.
type Client struct {
	Temporal  client.Client
	TaskQueue string
}

// Ingest starts the workflow that ingests a revision of a document, in any namespace, unless it runs. One that has ended starts
// again: if the store says that the revision is still to be processed, it is another store than the one that it ended in, or
// an older state of it.
func (c Client) Ingest(ctx context.Context, in job.IngestStep) error {
	_, err := c.Temporal.ExecuteWorkflow(ctx, c.backgroundOptions(
		job.IngestWorkflowID(in.Namespace, in.Document, in.Revision), "ingest "+in.Source), job.IngestWorkflow, in)
	return started("ingestion of "+in.Source, err)
}

// Embed starts the workflow that adds vectors of an embedder to the documents and entities of a namespace, unless it runs. One that
// adds vectors of another embedder ends: the worker that started last has the newest configuration.
func (c Client) Embed(ctx context.Context, namespace, embedder string) error {
	options := c.backgroundOptions(job.EmbedWorkflowID(namespace), "embed by "+embedder+" the documents and entities of "+namespace)
	other, err := c.embedsOther(ctx, options)
	if err != nil {
		return err
	}
	if other {
		options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	_, err = c.Temporal.ExecuteWorkflow(ctx, options, job.EmbedWorkflow, job.EmbedStep{Namespace: namespace, Embedder: embedder})
	return started("embedding of "+namespace, err)
}

// embedsOther reports whether a workflow that embeds runs with another embedder, which its summary names.
func (c Client) embedsOther(ctx context.Context, options client.StartWorkflowOptions) (bool, error) {
	found, err := c.Temporal.DescribeWorkflow(ctx, options.ID, "")
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
func (c Client) Extract(ctx context.Context, namespace string) error {
	options := c.backgroundOptions(job.ExtractWorkflowID(namespace), "find entities in the messages of "+namespace)
	options.WorkflowIDConflictPolicy = 0
	in := job.ExtractStep{Namespace: namespace}
	_, err := c.Temporal.SignalWithStartWorkflow(ctx, options.ID, job.SignalExtract, nil, options, job.ExtractWorkflow, in)
	return started("search for entities in "+namespace, err)
}

// backgroundOptions are those of workflows that never delay a thread.
func (c Client) backgroundOptions(id, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: c.TaskQueue, StaticSummary: brief(summary),
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

// EraseLate begins to erase a thread of any namespace again, which was started after its erasure. While an erasure of it is
// running, it fails: that one may have looked for the last time. A retry helps.
func (c Client) EraseLate(ctx context.Context, in job.EraseStep) error {
	if err := in.Validate(); err != nil {
		return err
	}
	options := c.eraseOptions(in)
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, job.EraseWorkflow, job.EraseInput{EraseStep: in})
	if is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return fmt.Errorf("thread %q is being erased: try again when that has ended: %w", in.ThreadID, err)
	}
	return err
}

// Erase starts the workflow that erases a thread, unless it runs.
func (c Client) Erase(ctx context.Context, in job.EraseStep) (client.WorkflowRun, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	return c.Temporal.ExecuteWorkflow(ctx, c.eraseOptions(in), job.EraseWorkflow, job.EraseInput{EraseStep: in})
}

func (c Client) eraseOptions(in job.EraseStep) client.StartWorkflowOptions {
	return c.backgroundOptions(job.EraseWorkflowID(in.Namespace, in.ThreadID), "erase thread "+in.ThreadID)
}

// ErasePerson starts the workflow that erases a person, unless it runs.
func (c Client) ErasePerson(ctx context.Context, in job.PersonStep) (client.WorkflowRun, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	options := c.backgroundOptions(job.ErasePersonWorkflowID(in.Namespace, in.ID), "erase a person")
	return c.Temporal.ExecuteWorkflow(ctx, options, job.ErasePersonWorkflow, job.ErasePersonInput{PersonStep: in})
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
