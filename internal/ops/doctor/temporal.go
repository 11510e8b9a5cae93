package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
)

// Temporal checks a namespace of Temporal.
type Temporal struct {
	Client    client.Client
	Namespace string

	// TaskQueue is that of the threads, and StepQueues are further ones on which their steps run.
	TaskQueue  string
	StepQueues []string

	// Deployment is the name of the Worker Deployment of the workers, if they have one. Default: TaskQueue.
	Deployment string

	// Owner returns the program to which the task queue of the threads belongs, and the workers of others that poll it.
	Owner func(ctx context.Context) (owner string, strangers []string, err error)
}

const (
	// minRetention is the retention below which a closed thread's history is gone before people look at it.
	minRetention = 24 * time.Hour

	// oldTask is the age of a waiting task from which on workers are too few, or too slow.
	oldTask = time.Minute
)

// temporalWithin is the time limit of all checks of Temporal.
const temporalWithin = 10 * time.Second

// Check runs the checks. If Temporal does not answer, there is only one finding.
func (t Temporal) Check(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, temporalWithin)
	defer cancel()
	begun := time.Now()
	info, err := t.Client.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return []Finding{Bad("temporal", "check that Temporal runs at the address of TEMPORAL_ADDRESS, and that nothing between blocks gRPC", "it does not answer: %s", message(err))}
	}
	out := []Finding{Good("temporal", "server %s answers within %s", info.GetServerVersion(), time.Since(begun).Round(time.Millisecond))}
	found, exists := t.namespace(ctx)
	out = append(out, found)
	if !exists {
		return out
	}
	out = append(out, t.attributes(ctx))
	out = append(out, t.workers(ctx)...)
	out = append(out, t.owner(ctx)...)
	return append(out, t.deployment(ctx)...)
}

// message returns the text of an error of the service without its code.
func message(err error) string {
	if service, ok := errors.AsType[serviceerror.ServiceError](err); ok {
		return service.Error()
	}
	return err.Error()
}

func (t Temporal) namespace(ctx context.Context) (Finding, bool) {
	const check = "namespace"
	out, err := t.Client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return Bad(check, "set TEMPORAL_NAMESPACE, or create it: temporal operator namespace create --namespace "+t.Namespace, "Temporal has no namespace %q", t.Namespace), false
	}
	if err != nil {
		return Odd(check, "permit this client to describe the namespace", "namespace %q cannot be described: %s", t.Namespace, message(err)), true
	}
	kept := out.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if kept < minRetention {
		return Odd(check, fmt.Sprintf("raise it: temporal operator namespace update --namespace %s --retention 7d", t.Namespace),
			"namespace %q keeps closed workflows for only %s: of closed threads, only the store's records remain then", t.Namespace, kept), true
	}
	return Good(check, "namespace %q keeps closed workflows for %s", t.Namespace, kept), true
}

func (t Temporal) attributes(ctx context.Context) Finding {
	const check = "search attributes"
	known, err := searchattr.Known(ctx, t.Client, t.Namespace)
	if err != nil {
		return Odd(check, "permit this client to list search attributes", "they cannot be listed: %s", message(err))
	}
	var missing, wrong, create []string
	for name, want := range searchattr.Types() {
		switch have, exists := known[name]; {
		case !exists:
			missing = append(missing, name)
			create = append(create, fmt.Sprintf("--name %s --type %s", name, want))
		case have != want:
			wrong = append(wrong, fmt.Sprintf("%s is a %s, must be a %s", name, have, want))
		}
	}
	slices.Sort(missing)
	slices.Sort(create)
	slices.Sort(wrong)
	switch {
	case len(wrong) > 0:
		return Bad(check, "use another namespace of Temporal: the type of an attribute cannot be changed", "%s", strings.Join(wrong, "; "))
	case len(missing) > 0:
		return Bad(check, "start a worker, which registers them, or run: temporal operator search-attribute create "+strings.Join(create, " "),
			"%s missing: threads cannot start", strings.Join(missing, ", "))
	}
	return Good(check, "all %d are registered", len(searchattr.Types()))
}

// workers checks the task queues.
func (t Temporal) workers(ctx context.Context) []Finding {
	out := []Finding{t.queue(ctx, t.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)}
	for _, name := range t.StepQueues {
		out = append(out, t.queue(ctx, name, enumspb.TASK_QUEUE_TYPE_ACTIVITY))
	}
	return out
}

// owner checks who else polls the task queue of the threads.
func (t Temporal) owner(ctx context.Context) []Finding {
	const check = "task queue"
	if t.Owner == nil {
		return nil
	}
	owner, strangers, err := t.Owner(ctx)
	switch {
	case err != nil:
		return []Finding{Odd(check, "permit this client to describe workflows and task queues", "the owner of task queue %q cannot be found: %s", t.TaskQueue, message(err))}
	case len(strangers) > 0:
		return []Finding{Bad(check, "stop them, or give them another task queue (Config.TaskQueue, --task-queue); a worker that has stopped is listed for another 90 seconds",
			"task queue %q belongs to %s, and is also polled by %s: threads run there without its hooks and approvals, or fail", t.TaskQueue, owner, strings.Join(strangers, ", "))}
	case owner != "":
		return []Finding{Good(check, "task queue %q belongs to %s", t.TaskQueue, owner)}
	}
	return nil // no worker has ever run
}

func (t Temporal) queue(ctx context.Context, name string, kind enumspb.TaskQueueType) Finding {
	const check = "workers"
	out, err := t.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: t.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: name, Kind: enumspb.TASK_QUEUE_KIND_NORMAL}, TaskQueueType: kind, ReportStats: true,
	})
	if err != nil {
		return Odd(check, "permit this client to describe task queues", "task queue %q cannot be described: %s", name, message(err))
	}
	now := time.Now()
	running, last := 0, time.Time{}
	for _, p := range out.GetPollers() {
		at := p.GetLastAccessTime().AsTime()
		if now.Sub(at) < deployment.RecentPoll {
			running++
		}
		if at.After(last) {
			last = at
		}
	}
	waiting, age := out.GetStats().GetApproximateBacklogCount(), out.GetStats().GetApproximateBacklogAge().AsDuration()
	switch {
	case last.Sub(now) > maxSkew:
		return Clock("Temporal", last, now, now)
	case running == 0:
		since := "within the last minutes"
		if !last.IsZero() {
			since = fmt.Sprintf("since %s", last.UTC().Format(time.RFC3339))
		}
		return Bad(check, fmt.Sprintf("start a worker for it, or name the queue that yours serves: worker --task-queue %s; if one runs, compare the clocks of Temporal and this machine", cmp.Or(name, "NAME")),
			"no worker has polled task queue %q %s; %d tasks wait", name, since, waiting)
	case waiting > 0 && age > oldTask:
		return Odd(check, "start more workers, or look at what the present ones do", "%d tasks wait on task queue %q, the oldest for %s", waiting, name, age.Round(time.Second))
	}
	workers := "1 worker polls"
	if running != 1 {
		workers = fmt.Sprintf("%d workers poll", running)
	}
	return Good(check, "%s task queue %q", workers, name)
}
