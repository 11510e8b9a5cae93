package threadmill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// checkQueues reports the first invalid or repeated task queue.
func (cfg *Config) checkQueues() error {
	for i, queue := range cfg.ToolQueues {
		switch {
		case !tool.ValidTaskQueue(queue):
			return fmt.Errorf("threadmill: Config.ToolQueues[%d] is %q, %s", i, queue, tool.TaskQueueForm)
		case queue == cfg.TaskQueue:
			return fmt.Errorf("threadmill: Config.ToolQueues[%d] is %q, the task queue of the threads, which runs tools anyway", i, queue)
		case slices.Contains(cfg.ToolQueues[:i], queue):
			return fmt.Errorf("threadmill: Config.ToolQueues[%d]: %q is there twice", i, queue)
		}
	}
	if cfg.OnlyToolQueues && len(cfg.ToolQueues) == 0 {
		return errors.New("threadmill: Config.OnlyToolQueues needs Config.ToolQueues: there is no queue to serve")
	}
	return nil
}

// stepQueues returns the task queues, besides that of the threads, on which steps of threads run.
func (cfg *Config) stepQueues(tools *tool.Set) []string {
	queues := slices.Sorted(maps.Values(cfg.modelQueues()))
	for _, name := range tools.Names() {
		t, _ := tools.Lookup(name)
		if queue := t.Definition().TaskQueue; queue != "" && queue != cfg.TaskQueue && !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	if servers, ok := cfg.ToolSource.(interface{ TaskQueues() []string }); ok {
		for _, queue := range servers.TaskQueues() {
			if queue != cfg.TaskQueue && !slices.Contains(queues, queue) {
				queues = append(queues, queue)
			}
		}
	}
	return queues
}

// reportWithin is the time in which a step that StopTimeout has ended reports its end.
const reportWithin = 5 * time.Second

// Run runs a worker for each task queue until ctx ends, and then waits up to [Config].StopTimeout
// for running steps. It first registers the search attributes of threads with Temporal, and makes sure that the task queue of the
// threads is this program's: see [Runtime.Serve]. The end of ctx is no error.
//
// [Runtime.Start] does the same in the background.
func (r *Runtime) Run(ctx context.Context) error { return r.run(ctx, func() {}) }

// run calls ready when the workers wait for work.
func (r *Runtime) run(ctx context.Context, ready func()) error {
	if err := threadclient.EnsureAttributes(ctx, r.cfg.Temporal, r.cfg.TemporalNamespace); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	r.warnOfAgents(ctx)
	if r.cfg.DisableStickyCache {
		worker.SetStickyWorkflowCacheSize(0)
	}
	defer r.runTools(ctx)() // after the last step, which may need a tool
	work := func(ctx context.Context) error { return r.runWorkers(ctx, ready) }
	if r.cfg.OnlyToolQueues {
		return work(ctx)
	}
	return r.Serve(ctx, work)
}

// runWorkers runs the workers until ctx ends.
func (r *Runtime) runWorkers(ctx context.Context, ready func()) error {
	identity, err := r.WorkerIdentity(ctx)
	if err != nil {
		return err
	}
	fatal := make(chan error, 1)
	stopJoining, err := r.joinSteps(fatal)
	if err != nil {
		return err
	}
	var started []worker.Worker
	defer func() {
		r.activities.Drain() // no further step will have to be joined
		var joined sync.WaitGroup
		joined.Go(stopJoining)
		stopAll(started)
		joined.Wait()
	}()
	start := func(queues []string) error {
		for _, queue := range queues {
			w := r.newWorker(queue, identity, fatal)
			if err := w.Start(); err != nil {
				return fmt.Errorf("starting the worker of task queue %q: %w", queue, err)
			}
			started = append(started, w)
			r.cfg.Logger.Info("worker runs", "taskQueue", queue)
		}
		return nil
	}
	if err := start(r.queues()); err != nil {
		return err
	}
	if !r.cfg.OnlyToolQueues {
		w := r.knowledgeWorker(r.workerOptions(fatal))
		if err := w.Start(); err != nil {
			return fmt.Errorf("starting the worker that indexes documents: %w", err)
		}
		started = append(started, w)
	}
	defer r.limits.serve(ctx, func() error { return start(r.modelQueues()) }, fatal)()
	counting, stopCounting := context.WithCancel(ctx)
	counted := r.observer.CountWaiting(counting, r.cfg.Store, r.cfg.Namespace, r.lastPass, r.cfg.Logger)
	defer func() { stopCounting(); counted() }()
	defer r.lead(ctx)() // last, as threads do not wait for it
	ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("the worker stopped: %w", err)
	}
}

// queues returns the task queues that Run serves.
func (r *Runtime) queues() []string {
	if r.cfg.OnlyToolQueues {
		return r.cfg.ToolQueues
	}
	return append([]string{r.cfg.TaskQueue}, r.cfg.ToolQueues...)
}

// modelQueues returns the task queues of limited model providers that Run serves.
func (r *Runtime) modelQueues() []string {
	if r.cfg.OnlyToolQueues {
		return nil
	}
	return slices.Sorted(maps.Values(r.cfg.modelQueues()))
}

// newWorker returns the worker of a task queue. Only the task queue of the threads has workflows.
func (r *Runtime) newWorker(queue, identity string, fatal chan<- error) worker.Worker {
	options := r.workerOptions(fatal)
	if options.DisableWorkflowWorker = queue != r.cfg.TaskQueue; !options.DisableWorkflowWorker {
		options.Identity = identity
	}
	w := worker.New(r.cfg.Temporal, queue, options)
	if queue == r.cfg.TaskQueue {
		r.Register(w)
	} else {
		r.activities.Register(w)
	}
	return w
}

// urgentWithin is how long the live stream may take to tell steps that something has arrived.
const urgentWithin = 200 * time.Millisecond

// urgent has the steps of a thread that hold its workflow task let it go. A failure only delays what was sent.
func (cfg *Config) urgent(ctx context.Context, namespace, threadID string) {
	key := stream.Key{Namespace: namespace, ThreadID: threadID}
	ctx, cancel := context.WithTimeout(ctx, urgentWithin)
	defer cancel()
	if err := cfg.Stream.Notify(ctx, key, stream.Notice{Arrived: true}); err != nil && ctx.Err() == nil && !errors.Is(err, stream.ErrUnavailable) {
		cfg.Logger.WarnContext(ctx, "telling running steps that something has arrived", "thread", threadID, "error", err)
	}
}

// joinSteps starts the worker for the activities that join the local steps of this process.
func (r *Runtime) joinSteps(fatal chan<- error) (stop func(), err error) {
	if r.cfg.OnlyToolQueues || r.cfg.StepsAsActivities {
		return func() {}, nil
	}
	queue := r.cfg.TaskQueue + "/" + signals.NewID()
	w := r.ownWorker(queue, fatal)
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("starting the worker that joins steps: %w", err)
	}
	r.activities.JoinOn(queue)
	return func() {
		r.activities.AwaitJoins()
		w.Stop()
	}, nil
}

// joinSlots is the number of steps that can be joined at once. Their activities only wait.
const joinSlots = 100_000

// ownWorker returns the worker of a task queue that only this process serves.
func (r *Runtime) ownWorker(queue string, fatal chan<- error) worker.Worker {
	options := r.workerOptions(fatal)
	options.DisableWorkflowWorker = true
	// Steps of threads on any build may come from here: the task queue belongs to no deployment, which would keep its name.
	options.DeploymentOptions = worker.DeploymentOptions{}
	options.ActivityTaskPollerBehavior = worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 2})
	options.MaxConcurrentActivityExecutionSize = joinSlots
	w := worker.New(r.cfg.Temporal, queue, options)
	r.activities.Register(w)
	return w
}

func (r *Runtime) workerOptions(fatal chan<- error) worker.Options {
	return worker.Options{
		Interceptors:      r.WorkerInterceptors(),
		DeploymentOptions: r.WorkerDeployment(),
		// The default pollers prefer the sticky queue and starve new threads.
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		WorkerStopTimeout:          r.cfg.StopTimeout + reportWithin,

		MaxHeartbeatThrottleInterval: activities.HeartbeatThrottle,
		// A workflow task takes milliseconds, but a busy machine may pause for longer than the
		// SDK's limit of one second, and a false deadlock costs history.
		DeadlockDetectionTimeout: 5 * time.Second,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	}
}

// stopAll stops the workers at the same time: each waits for its running steps.
func stopAll(workers []worker.Worker) {
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(w.Stop)
	}
	wg.Wait()
}

// WorkerInterceptors returns the interceptors with which a worker records what [Config].Telemetry configures.
func (r *Runtime) WorkerInterceptors() []interceptor.WorkerInterceptor {
	return r.observer.WorkerInterceptors()
}
