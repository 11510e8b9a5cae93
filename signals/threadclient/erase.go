package threadclient

import (
	"context"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/signals"
)

// Erase erases a thread and the threads of its sub-agents for good, and returns the receipt: see docs/erasure.md. It waits until
// nothing is found any more. If ctx ends before, the erasure goes on, and Erase can be called again. by is the person or program
// that asks for it; empty = unknown. The thread need not exist, and may be erased already.
func (c *Client) Erase(ctx context.Context, threadID, by string) (signals.Erasure, error) {
	var out signals.Erasure
	run, err := c.jobs().Erase(ctx, job.EraseStep{Namespace: c.namespace, ThreadID: threadID, By: by})
	if err == nil {
		err = run.Get(ctx, &out)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // Temporal has another error for it
	}
	if err != nil {
		return out, fmt.Errorf("erasing thread %q: %w", threadID, err)
	}
	return out, nil
}

// StartErase is [Client.Erase] without waiting: the erasure is certain when it returns.
func (c *Client) StartErase(ctx context.Context, threadID, by string) error {
	_, err := c.jobs().Erase(ctx, job.EraseStep{Namespace: c.namespace, ThreadID: threadID, By: by})
	if err != nil {
		return fmt.Errorf("erasing thread %q: %w", threadID, err)
	}
	return nil
}

// refuseErased returns an error if a thread was erased: it must not be started again.
func (c *conn) refuseErased(ctx context.Context, threadID string) error {
	erased, err := c.isErased(ctx, threadID)
	if err == nil && erased {
		err = fmt.Errorf("thread %q: %w", threadID, signals.ErrThreadErased)
	}
	return err
}

func (c *conn) isErased(ctx context.Context, threadID string) (bool, error) {
	if c.erased == nil {
		return false, nil
	}
	return c.erased(ctx, c.namespace, threadID)
}

// ErasedIn returns a function for [Config].Erased that asks Temporal, for clients without the store. Temporal forgets an erasure
// after its retention period.
func ErasedIn(temporal client.Client) func(ctx context.Context, namespace, threadID string) (bool, error) {
	return func(ctx context.Context, namespace, threadID string) (bool, error) {
		_, err := temporal.DescribeWorkflow(ctx, job.EraseWorkflowID(namespace, threadID), "")
		if is[*serviceerror.NotFound](err) {
			return false, nil
		}
		return err == nil, err
	}
}

// ErasePerson erases the person of a request that the store has: see Runtime.ErasePerson and docs/erasure.md. It waits for the
// receipt. If ctx ends before, the erasure goes on, and ErasePerson can be called again.
func (c *Client) ErasePerson(ctx context.Context, id, by string) (signals.PersonErasure, error) {
	var out signals.PersonErasure
	run, err := c.jobs().ErasePerson(ctx, job.PersonStep{Namespace: c.namespace, ID: id, By: by})
	if err == nil {
		err = run.Get(ctx, &out)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // Temporal has another error for it
	}
	if err != nil {
		return out, fmt.Errorf("erasing a person, erasure %s: %w", id, err)
	}
	return out, nil
}

// StartErasePerson is [Client.ErasePerson] without waiting: the erasure is certain when it returns.
func (c *Client) StartErasePerson(ctx context.Context, id, by string) error {
	if _, err := c.jobs().ErasePerson(ctx, job.PersonStep{Namespace: c.namespace, ID: id, By: by}); err != nil {
		return fmt.Errorf("erasing a person, erasure %s: %w", id, err)
	}
	return nil
}

// jobs starts the workflows beside those of threads.
func (c *conn) jobs() jobclient.Client {
	return jobclient.Client{Temporal: c.temporal, TaskQueue: c.taskQueue}
}
