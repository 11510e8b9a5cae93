package threadclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/signals"
)

// Workers describes the workers of a thread.
type Workers struct {
	// TaskQueue is the task queue of the thread or, if the thread does not exist, of new threads; or,
	// if Steps is set, that of a step.
	TaskQueue string

	// Steps means that workers poll the task queue of the thread, but none polls TaskQueue, for which
	// steps of the thread wait.
	Steps bool

	// Polled means that a worker has polled the task queue within the last 90 seconds.
	Polled bool

	// LastPoll is the time at which a worker began its last poll. Temporal forgets it after some
	// minutes; then it is zero.
	LastPoll time.Time
}

// Workers returns the workers of a thread from Temporal, without asking them. An empty id means a
// thread that does not exist, which may use all of [Config].StepQueues.
func (c *Client) Workers(ctx context.Context, threadID string) (Workers, error) {
	queue, steps := c.taskQueue, c.stepQueues
	var pinned *deploymentpb.WorkerDeploymentVersion
	if threadID != "" {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(c.namespace, threadID), "")
		switch {
		case err == nil:
			queue, steps = d.GetExecutionConfig().GetTaskQueue().GetName(), waitsFor(d)
			if v := d.GetWorkflowExecutionInfo().GetVersioningInfo(); v.GetBehavior() == enumspb.VERSIONING_BEHAVIOR_PINNED {
				pinned = v.GetDeploymentVersion()
			}
		case !is[*serviceerror.NotFound](err):
			return Workers{TaskQueue: queue}, fmt.Errorf("describing thread %q: %w", threadID, err)
		}
	}
	out, err := c.pollers(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW, pinned)
	for _, step := range steps {
		if err != nil || !out.Polled || step == queue {
			continue
		}
		var found Workers
		if found, err = c.pollers(ctx, step, enumspb.TASK_QUEUE_TYPE_ACTIVITY, nil); err == nil && !found.Polled {
			out, out.Steps = found, true
		}
	}
	return out, err
}

// waitsFor returns the task queues of the steps of a thread that no worker has begun.
func waitsFor(d *workflowservice.DescribeWorkflowExecutionResponse) []string {
	var queues []string
	for _, step := range d.GetPendingActivities() {
		queue := step.GetActivityOptions().GetTaskQueue().GetName()
		if step.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && queue != "" && !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// pollers returns the workers of a task queue. For threads, only those count that get them: the build to which a thread is
// pinned or, without a pin, those to which Temporal routes new threads.
func (c *Client) pollers(ctx context.Context, name string, kind enumspb.TaskQueueType, pinned *deploymentpb.WorkerDeploymentVersion) (Workers, error) {
	out := Workers{TaskQueue: name}
	queue, err := c.temporal.DescribeTaskQueue(ctx, name, kind)
	if err != nil {
		return out, fmt.Errorf("describing task queue %q: %w", name, err)
	}
	for _, p := range queue.GetPollers() {
		if kind == enumspb.TASK_QUEUE_TYPE_WORKFLOW && !deployment.Gets(p, queue.GetVersioningInfo(), pinned) {
			continue
		}
		if at := p.GetLastAccessTime().AsTime(); at.After(out.LastPoll) {
			out.LastPoll = at
		}
	}
	out.Polled = time.Since(out.LastPoll) < deployment.RecentPoll
	return out, nil
}
