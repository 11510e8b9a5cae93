package threadclient

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/signals"
)

// recentPoll is how long ago a worker that runs has asked for work at the latest: its polls
// last up to a minute.
const recentPoll = 90 * time.Second

// Workers says who works on a thread.
type Workers struct {
	// TaskQueue is that of the thread or, if there is no such thread, of new ones.
	TaskQueue string

	// Polled: a worker has asked for work there within the last 90 seconds.
	Polled bool
}

// Workers asks Temporal, which needs no worker for it, who works on a thread. An empty id is a
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
		out.Polled = out.Polled || time.Since(p.GetLastAccessTime().AsTime()) < recentPoll
	}
	return out, nil
}
