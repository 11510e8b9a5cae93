package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"github.com/threadmill/threadmill/internal/deployment"
)

// deployment checks the builds of the workers, if there are any: that those which get threads run, and that no thread is
// pinned to one that does not.
func (t Temporal) deployment(ctx context.Context) []Finding {
	const check = "deployment"
	d := deployment.Deployment{Client: t.Client, Namespace: t.Namespace, Name: cmp.Or(t.Deployment, t.TaskQueue)}
	status, err := d.Describe(ctx)
	if errors.Is(err, deployment.ErrNotFound) {
		return nil // the workers have no build
	}
	if err != nil {
		return []Finding{Odd(check, "permit this client to describe worker deployments", "%s", message(err))}
	}
	queue, err := t.Client.DescribeTaskQueue(ctx, t.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return []Finding{Odd(check, "permit this client to describe task queues", "task queue %q cannot be described: %s", t.TaskQueue, message(err))}
	}
	running := builds(queue.GetPollers(), d.Name)
	if status.Current == "" && !running[""] {
		return []Finding{Bad(check, current(d.Name, status), "no build of %q is current, and no worker without a build runs: new threads wait", d.Name)}
	}
	if status.Current != "" && !running[status.Current] {
		return []Finding{Bad(check, fmt.Sprintf("start workers with --build %s, or make a build current that runs: %s", status.Current, current(d.Name, status)),
			"build %q of %q is current, and no worker of it polls: new threads wait", status.Current, d.Name)}
	}
	var out []Finding
	if status.Ramping != "" && !running[status.Ramping] {
		out = append(out, Bad(check, fmt.Sprintf("start workers with --build %s, or end the ramp: temporal worker deployment set-ramping-version --deployment-name %s --delete", status.Ramping, d.Name),
			"build %q of %q gets %g%% of the threads, and no worker of it polls: they wait", status.Ramping, d.Name, status.Percent))
	}
	var draining []string
	for _, b := range status.Builds {
		if b.Status != deployment.Draining {
			continue
		}
		left, err := d.Running(ctx, b.ID)
		switch {
		case err != nil:
			out = append(out, Odd(check, "permit this client to count workflows", "%s", message(err)))
		case left.Needed() && !running[b.ID]:
			out = append(out, Bad(check, fmt.Sprintf("start workers with --build %s again until it has drained", b.ID),
				"%d threads and %d pinned workflows are on build %q, and no worker of it polls: they wait", left.Threads, left.Pinned, b.ID))
		default:
			draining = append(draining, fmt.Sprintf("%s (%d threads left)", b.ID, left.Threads))
		}
	}
	if len(out) > 0 {
		return out
	}
	says := "workers without a build get new threads"
	if status.Current != "" {
		says = fmt.Sprintf("build %q is current", status.Current)
	}
	if status.Ramping != "" {
		says += fmt.Sprintf(", %q gets %g%%", status.Ramping, status.Percent)
	}
	if len(draining) > 0 {
		says += ", draining: " + strings.Join(draining, ", ")
	}
	return []Finding{Good(check, "%s", says)}
}

// current is the command that makes the newest build current.
func current(name string, s deployment.Status) string {
	newest := "BUILD"
	if len(s.Builds) > 0 {
		newest = s.Builds[0].ID
	}
	return fmt.Sprintf("temporal worker deployment set-current-version --deployment-name %s --build-id %s", name, newest)
}

// builds returns the builds of a deployment whose workers poll; "" are workers without a build.
func builds(pollers []*taskqueuepb.PollerInfo, name string) map[string]bool {
	out := map[string]bool{}
	for _, p := range pollers {
		if time.Since(p.GetLastAccessTime().AsTime()) > recentPoll {
			continue
		}
		build := ""
		if own := p.GetDeploymentOptions(); own.GetWorkerVersioningMode() == enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			if own.GetDeploymentName() != name {
				continue
			}
			build = own.GetBuildId()
		}
		out[build] = true
	}
	return out
}
