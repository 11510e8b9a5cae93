package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/ops/deployment"
)

// deploymentCommands look at the builds of the workers.
type deploymentCommands struct {
	*app

	name string
}

func (a deploymentCommands) deploymentCommand() *cobra.Command {
	cmd := group("deployment", "Look at the builds of the workers, and move threads away from one",
		`Look at the builds of the workers, with which threads still run on which, and move idle threads away
from a build. Which build gets threads is decided with Temporal's own command:

  temporal worker deployment set-ramping-version --deployment-name threadmill --build-id 1.5 --percentage 10
  temporal worker deployment set-current-version --deployment-name threadmill --build-id 1.5`,
		a.showBuildsCommand(), a.moveCommand())
	return cmd
}

func (a *deploymentCommands) nameFlag(cmd *cobra.Command) *cobra.Command {
	deploymentFlag(cmd, &a.name)
	return cmd
}

func deploymentFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "deployment", os.Getenv(envDeployment), "name of the Worker Deployment ("+envDeployment+"; default: the task queue)")
}

// on runs fn with the deployment. Ctrl-C cancels it.
func (a *deploymentCommands) on(ctx context.Context, fn func(context.Context, deployment.Deployment) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	opts, err := a.flags.temporalOptions()
	if err != nil {
		return usageError{err}
	}
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	temporal, err := client.DialContext(within, opts)
	if err != nil {
		return &dialError{opts.HostPort, err}
	}
	defer temporal.Close()
	err = fn(ctx, deployment.Deployment{Client: temporal, Namespace: opts.Namespace, Name: cmp.Or(a.name, a.flags.taskQueue), TaskQueue: a.flags.taskQueue})
	if errors.Is(err, deployment.ErrNotFound) {
		return fmt.Errorf("%w: its workers start with --build, and --deployment here names it", err)
	}
	return err
}

// builds are those of a deployment, with what runs on them.
func builds(ctx context.Context, d deployment.Deployment) (render.Deployment, error) {
	status, err := d.Inspect(ctx)
	out := render.Deployment{Status: status, Running: map[string]deployment.Running{}}
	for _, b := range status.Builds {
		if err != nil {
			break
		}
		out.Running[b.ID], err = d.Running(ctx, b.ID)
	}
	return out, err
}

func (a deploymentCommands) showBuildsCommand() *cobra.Command {
	return a.nameFlag(a.jsonFlag(&cobra.Command{
		Use:   "show",
		Short: "Show the builds of the workers, and what still runs on each",
		Long: `Show the builds of the workers, the newest first, and what still runs on each. A build may be stopped
when it is drained, and has no threads and no other workflows that are pinned to it. OTHERS, such as tasks
and hooks that wait, do not need it: they go on elsewhere. WORKERS says whether a worker of the build has
polled within the last 90 seconds. Temporal's counts may lag by seconds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.on(cmd.Context(), func(ctx context.Context, d deployment.Deployment) error {
				found, err := within(ctx, a.flags.timeout, func(ctx context.Context) (render.Deployment, error) { return builds(ctx, d) })
				return a.show(found, err, found.String(), "")
			})
		},
	}))
}

const (
	// lookAgain is the time between two looks at a build from which threads move.
	lookAgain = time.Second

	// tellAgain is the time after which it is told again what is on the build, although that has not changed.
	tellAgain = 15 * time.Second
)

// within asks Temporal, which has to answer within the limit of a command.
func within[T any](ctx context.Context, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ask(ctx)
}

func (a deploymentCommands) moveCommand() *cobra.Command {
	return a.nameFlag(&cobra.Command{
		Use:   "move <build>",
		Short: "Move idle threads away from a build, and wait until nothing needs it",
		Long: `Wake the idle threads of a build that gets no more threads, so that they continue on the build on which
they belong, and wait until no threads and no pinned workflows are on it. Its workers do the same by
themselves, and must still run: worker replay --from BUILD --move moves threads whose workers are gone.
Ctrl-C ends the wait.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.on(cmd.Context(), func(ctx context.Context, d deployment.Deployment) error { return a.move(ctx, d, args[0]) })
		},
	})
}

func (a deploymentCommands) move(ctx context.Context, d deployment.Deployment, build string) error {
	waker := &deployment.Waker{Deployment: d, Build: build}
	last, told := deployment.Running{Threads: -1}, time.Time{}
	for {
		status, err := within(ctx, a.flags.timeout, d.Inspect)
		switch {
		case err != nil:
			return err
		case status.Find(build) == nil:
			return usageError{fmt.Errorf("there is no build %q: see starter deployment show", build)}
		case !status.Left(build):
			return fmt.Errorf("build %q is %s, and gets threads: make another one current first, with temporal worker deployment set-current-version --deployment-name %s --build-id BUILD", build, status.Find(build).Status, d.Name)
		}
		if _, err := waker.Wake(ctx); err != nil {
			return err
		}
		running, err := within(ctx, a.flags.timeout, func(ctx context.Context) (deployment.Running, error) { return d.Running(ctx, build) })
		if err != nil {
			return err
		}
		if !running.Needed() {
			return a.show(nil, nil, line("nothing needs build %s: stop its workers once it is drained", build), "")
		}
		if !status.Find(build).Workers {
			return fmt.Errorf("%d threads and %d pinned workflows are on build %s, and no worker of it polls: start one%s",
				running.Threads, running.Pinned, build, status.OrMove(build))
		}
		if running != last || time.Since(told) >= tellAgain {
			a.warn("%d threads and %d pinned workflows are on build %s", running.Threads, running.Pinned, build)
			last, told = running, time.Now()
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
