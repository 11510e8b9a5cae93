package threadmill

import (
	"cmp"
	"context"
	"fmt"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/ops/deployment"
)

// Deployment makes the workers of a process a build of a Temporal Worker Deployment. Threads are then pinned to the build
// on which they run, and move to another one only between two steps, by continuing as new: no build replays the history of
// another one's threads. A build gets threads once it is the current one of the deployment, or ramps up to that. See
// docs/deploying.md.
type Deployment struct {
	// Build identifies the build, such as a version or a commit: a program that behaves differently has another one.
	// Default: none, and the workers take whatever is on their task queue.
	Build string

	// Name of the deployment. All builds have the same. Default: Config.TaskQueue.
	Name string
}

// Validate reports what Temporal would not accept.
func (d Deployment) Validate() error {
	if d.Build == "" {
		return nil
	}
	if err := deployment.ValidateBuild(d.Build); err != nil {
		return fmt.Errorf("threadmill: Config.Deployment.Build: %w", err)
	}
	if d.Name == "" {
		return nil
	}
	if err := deployment.ValidateName(d.Name); err != nil {
		return fmt.Errorf("threadmill: Config.Deployment.Name (default: that of the task queue): %w", err)
	}
	return nil
}

func (cfg *Config) checkDeployment() error {
	cfg.Deployment.Name = cmp.Or(cfg.Deployment.Name, cfg.TaskQueue)
	return cfg.Deployment.Validate()
}

func (cfg *Config) deployment() deployment.Deployment {
	return deployment.Deployment{Client: cfg.Temporal, Namespace: cfg.TemporalNamespace, Name: cfg.Deployment.Name, TaskQueue: cfg.TaskQueue}
}

// WorkerDeployment returns the deployment options of a worker of your own for [Runtime.Register].
func (r *Runtime) WorkerDeployment() worker.DeploymentOptions {
	d := r.cfg.Deployment
	if d.Build == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning: true, Version: worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: d.Build},
		// For the application's own workflows, which may say otherwise when they are registered.
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}
}

// lead sets what the workers of all builds share, once this build is the current one, and moves idle threads away from it, once it
// gets no more of them, until stop is called.
func (r *Runtime) lead(ctx context.Context) (stop func()) {
	if r.cfg.OnlyToolQueues {
		return func() {}
	}
	share := func() {
		r.prepareKnowledge(ctx)
		r.retain(ctx)
	}
	if r.cfg.Deployment.Build == "" {
		share()
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	w := &deployment.Waker{Deployment: r.cfg.deployment(), Build: r.cfg.Deployment.Build}
	go func() {
		defer close(done)
		w.Follow(ctx, share, r.cfg.Logger)
	}()
	return func() {
		cancel()
		<-done
	}
}
