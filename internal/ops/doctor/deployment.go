package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/ops/deployment"
)

// deployment checks the builds of the workers, if there are any: that those which get threads run, and that no thread is
// pinned to one that does not.
func (t Temporal) deployment(ctx context.Context) []Finding {
	const check = "deployment"
	d := deployment.Deployment{Client: t.Client, Namespace: t.Namespace, Name: cmp.Or(t.Deployment, t.TaskQueue), TaskQueue: t.TaskQueue}
	status, err := d.Inspect(ctx)
	if errors.Is(err, deployment.ErrNotFound) {
		return nil // the workers have no build
	}
	if err != nil {
		return []Finding{Odd(check, "permit this client to describe worker deployments and task queues, and to count workflows", "%s", message(err))}
	}
	running := func(build string) bool { b := status.Find(build); return b != nil && b.Workers }
	if status.Current == "" && !status.Unversioned {
		return []Finding{Bad(check, current(d.Name, status), "no build of %q is current, and no worker without a build runs: new threads wait", d.Name)}
	}
	if status.Current != "" && !running(status.Current) {
		return []Finding{Bad(check, fmt.Sprintf("start workers with --build %s, or make a build current that runs: %s", status.Current, current(d.Name, status)),
			"build %q of %q is current, and no worker of it polls: new threads wait", status.Current, d.Name)}
	}
	var out []Finding
	if status.Ramping != "" && !running(status.Ramping) {
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
		case left.Needed() && !b.Workers:
			out = append(out, Bad(check, fmt.Sprintf("start workers with --build %s again until it has drained%s", b.ID, status.OrMove(b.ID)),
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
