package threadclient

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/signals"
)

// recentPoll is the maximum time since the last poll of a running worker: a poll lasts up to a
// minute.
const recentPoll = 90 * time.Second

// Workers describes the workers of a thread.
type Workers struct {
	// TaskQueue is the task queue of the thread or, if the thread does not exist, of new threads.
	TaskQueue string

	// Polled means that a worker has polled the task queue within the last 90 seconds.
	Polled bool

	// LastPoll is the time at which a worker began its last poll. Temporal forgets it after some
	// minutes; then it is zero.
	LastPoll time.Time
}

// Workers returns the workers of a thread from Temporal, without asking them. An empty id means a
// thread that does not exist.
func (c *Client) Workers(ctx context.Context, threadID string) (Workers, error) {
	out := Workers{TaskQueue: c.taskQueue}
	if threadID != "" {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(c.namespace, threadID), "")
		switch {
		case err == nil:
			out.TaskQueue = d.GetExecutionConfig().GetTaskQueue().GetName()
		case !is[*serviceerror.NotFound](err):
			return out, fmt.Errorf("describing thread %q: %w", threadID, err)
		}
	}
	queue, err := c.temporal.DescribeTaskQueue(ctx, out.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return out, fmt.Errorf("describing task queue %q: %w", out.TaskQueue, err)
	}
	for _, p := range queue.GetPollers() {
		if at := p.GetLastAccessTime().AsTime(); at.After(out.LastPoll) {
			out.LastPoll = at
		}
	}
	out.Polled = time.Since(out.LastPoll) < recentPoll
	return out, nil
}
