package threadmill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/queueowner"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
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

// background is what [Runtime.Start] has started.
type background struct {
	mu     sync.Mutex
	cancel context.CancelFunc

	// ended is closed when the workers have ended, with err.
	ended chan struct{}
	err   error

	// close closes the runtime's own client of Temporal; nil = it has none.
	close func()
}

// dial sets the client of the environment, which connects when it is first used.
func (cfg *Config) dial() error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Namespace = cmp.Or(cfg.TemporalNamespace, options.Namespace)
	cfg.TemporalNamespace = options.Namespace
	options.Logger = sdklog.NewStructuredLogger(cfg.Logger)
	cfg.Temporal, err = client.NewLazyClient(options)
	return err
}

// Start runs the workers in the background, as [Runtime.Run] does, and returns when they wait for work. The error says why they do not;
// ctx bounds only the wait. A Runtime is started once: after [Runtime.Stop], make another one.
func (r *Runtime) Start(ctx context.Context) error {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.background.mu.Lock()
	if r.background.cancel != nil {
		r.background.mu.Unlock()
		cancel()
		return errors.New("threadmill: the runtime was started before")
	}
	r.background.cancel = cancel
	r.background.mu.Unlock()
	started := make(chan struct{})
	go func() {
		defer close(r.background.ended)
		r.background.err = r.run(working, sync.OnceFunc(func() { close(started) }))
		if r.background.err != nil {
			r.cfg.Logger.Error("the workers ended", "error", r.background.err)
		}
	}()
	select {
	case <-started:
		return nil
	case <-r.background.ended:
		return r.background.err
	case <-ctx.Done():
		cancel()
		<-r.background.ended
		return errors.Join(ctx.Err(), r.background.err)
	}
}

// Stop ends what [Runtime.Start] has started: it waits up to [Config].StopTimeout for running steps, and then closes a client of Temporal
// that is the runtime's own. If ctx ends before, the steps go on to their end, and Stop can be called again. Otherwise the error is that with
// which the workers ended, which may have been before.
func (r *Runtime) Stop(ctx context.Context) (err error) {
	r.background.mu.Lock()
	cancel := r.background.cancel
	r.background.mu.Unlock()
	if cancel != nil {
		cancel()
		select {
		case <-r.background.ended:
			err = r.background.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.background.close != nil {
		r.background.close()
	}
	return err
}

// Stopped returns a channel that is closed when the workers of [Runtime.Start] have ended: after [Runtime.Stop], or because they failed.
func (r *Runtime) Stopped() <-chan struct{} { return r.background.ended }

// Serve runs workers of your own, which [Runtime.Register] has made, while this configuration may poll [Config].TaskQueue. [Runtime.Run]
// does so itself.
//
// A task queue belongs to one program with one store, which the workers agree on through Temporal before they poll: else hooks and
// approvals would depend on who takes a task. Serve returns an error if the queue is another program's, and either a worker polls it or
// a workflow runs there. If a later configuration of the same program polls, with other hooks, processors, rules, redaction or
// approvals, the context of run ends after some seconds, and run is called again once that has gone.
func (r *Runtime) Serve(ctx context.Context, run func(ctx context.Context) error) error {
	return r.keeper.Serve(ctx, run)
}

// WorkerIdentity returns the Identity of a worker of your own for [Runtime.Register], which tells other processes whose it is.
func (r *Runtime) WorkerIdentity(ctx context.Context) (string, error) {
	return r.keeper.WorkerIdentity(ctx)
}

// keep makes the keeper of the task queue. records is the store without what observes it, and agents is the source without the agents
// in the store.
func (r *Runtime) keep(records store.Store, agents agent.Source) {
	cfg := &r.cfg
	var mu sync.Mutex
	known := ""
	idOf := func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		identified, ok := records.(store.Identified)
		if !ok || known != "" {
			return known, nil
		}
		id, err := identified.ID(ctx)
		known = id
		return id, err
	}
	r.keeper = &queueowner.Keeper{
		Client: cfg.Temporal, Namespace: cfg.TemporalNamespace, Queue: cfg.TaskQueue, Build: cfg.Deployment.Build, Take: cfg.TakeTaskQueue, Logger: cfg.Logger,
		Mine: func(ctx context.Context) (queueowner.Owner, error) {
			guards, err := r.guards(ctx, agents)
			if err != nil {
				return queueowner.Owner{}, fmt.Errorf("threadmill: %w", err)
			}
			id, err := idOf(ctx)
			if err != nil {
				return queueowner.Owner{}, fmt.Errorf("threadmill: %w", err)
			}
			return queueowner.Owner{Program: cfg.Program, Store: id, Guards: map[string]queueowner.Guards{cfg.Deployment.Build: guards}}, nil
		},
	}
}

// guards are what decides whether and how an event has an effect.
func (r *Runtime) guards(ctx context.Context, agents agent.Source) (queueowner.Guards, error) {
	cfg := &r.cfg
	redacts := cfg.Redact.Config()
	patterns := make([][]string, len(redacts.Patterns))
	for i, p := range redacts.Patterns {
		patterns[i] = []string{p.Name, p.Expression}
	}
	asking := map[string]bool{}
	for _, t := range cfg.Tools {
		if d := t.Definition(); d.NeedsApproval {
			asking[d.Name] = true
		}
	}
	groups, _ := cfg.ApproverGroups.(approval.FixedGroups)
	policies := map[string]any{}
	if lister, ok := agents.(agent.Lister); ok {
		all, err := lister.Agents(ctx, r.client.Namespace())
		if err != nil {
			return nil, fmt.Errorf("listing the agents: %w", err)
		}
		for _, a := range all {
			policies[a.Name] = []any{a.Approvals, a.ApprovalRules, a.ApprovalTerms}
		}
	}
	return queueowner.Guards{
		"hooks":     queueowner.Digest(r.workflows.Hooks.Specs()), // with the processors
		"rules":     queueowner.Digest(r.rules.Specs()),
		"redaction": queueowner.Digest([]any{patterns, redacts.Func != nil}),
		"approvals": queueowner.Digest([]any{cfg.ApprovalRules, groups, slices.Sorted(maps.Keys(asking)), policies}),
	}, nil
}

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

// stepNames registers the activities of local steps under the names by which Temporal's Web UI shows them, when threads first use
// them: there are as many as agents with their models and tools.
type stepNames struct {
	functions map[string]any // by type

	mu         sync.Mutex
	types      map[string]string // by name
	registries []worker.Registry
}

// register adds a worker.
func (s *stepNames) register(w worker.Registry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registries = append(s.registries, w)
	for name, typ := range s.types {
		s.add(w, typ, name)
	}
}

// name adds a name of an activity.
func (s *stepNames) name(typ, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.types[name]; known {
		return
	}
	s.types[name] = typ
	for _, w := range s.registries {
		s.add(w, typ, name)
	}
}

func (s *stepNames) add(w worker.Registry, typ, name string) {
	if f := s.functions[typ]; f != nil {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
	}
}
