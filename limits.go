package threadmill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
	"github.com/threadmill/threadmill/llm"
)

const (
	// reportEvery is the interval at which a worker reports the tokens of its calls.
	reportEvery = 5 * time.Second

	// limitWithin bounds the time of a report, and limitAgain is the pause after one that nobody has taken in.
	limitWithin = time.Minute
	limitAgain  = time.Second
)

// errNobody means that no worker has taken in a report in time.
var errNobody = errors.New("no worker runs the workflow that limits it")

// modelLimits are the limits of model providers, and the usage that this process has not reported.
type modelLimits struct {
	cfg *Config

	mu   sync.Mutex
	used map[string]modellimit.Usage
}

// checkLimits reports the first invalid limit.
func (cfg *Config) checkLimits() error {
	for name, l := range cfg.ModelLimits {
		if _, ok := cfg.Models[name]; !ok {
			return fmt.Errorf("threadmill: Config.ModelLimits[%q]: there is no such provider in Config.Models", name)
		}
		if err := l.Validate(); err != nil {
			return fmt.Errorf("threadmill: Config.ModelLimits[%q].%w", name, err)
		}
	}
	return nil
}

// modelQueues returns the task queues of limited providers, by provider.
func (cfg *Config) modelQueues() map[string]string {
	out := map[string]string{}
	for name, l := range cfg.ModelLimits {
		if l != (llm.Limits{}) {
			out[name] = job.ModelTaskQueue(cfg.TaskQueue, name)
		}
	}
	return out
}

// add counts a successful call.
func (m *modelLimits) add(provider string, tokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used[provider]
	m.used[provider] = modellimit.Usage{Requests: u.Requests + 1, Tokens: u.Tokens + tokens}
}

func (m *modelLimits) take(provider string) modellimit.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used[provider]
	delete(m.used, provider)
	return u
}

// serve limits the task queues of model providers, calls start, which serves them, and reports the tokens of calls until stop is
// called. It does not wait: the workflow that limits the queues runs where the deployment says, which may be on this build only
// once it is current.
func (m *modelLimits) serve(ctx context.Context, start func() error, fatal chan<- error) (stop func()) {
	if len(m.cfg.modelQueues()) == 0 || m.cfg.OnlyToolQueues {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		err := m.apply(ctx)
		if err == nil && ctx.Err() == nil {
			err = start()
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			select {
			case fatal <- err:
			default:
			}
		default:
			m.reportAll(ctx)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// apply puts the limits into force, before workers poll the queues. It tries again for as long as no worker runs the workflow
// that does so.
func (m *modelLimits) apply(ctx context.Context) error {
	queues := m.cfg.modelQueues()
	for _, provider := range slices.Sorted(maps.Keys(queues)) {
		for {
			err := m.report(ctx, provider, modellimit.Usage{})
			if err == nil {
				break
			}
			err = fmt.Errorf("limiting the task queue %q (limits of model provider %q): %w", queues[provider], provider, err)
			if !errors.Is(err, errNobody) {
				return err
			}
			m.cfg.Logger.WarnContext(ctx, "calls of a model provider wait until its rate is limited, which a worker of the current build has to do; this worker tries again",
				"provider", provider, "build", m.cfg.Deployment.Build, "error", err)
			select {
			case <-time.After(limitAgain):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// reportAll reports the tokens of calls until ctx ends. A report that fails is lost, and the rate
// stays.
func (m *modelLimits) reportAll(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for provider, l := range m.cfg.ModelLimits {
			used := m.take(provider)
			if l.TokensPerMinute == 0 || used.Requests == 0 {
				continue
			}
			if err := m.report(ctx, provider, used); err != nil && ctx.Err() == nil {
				m.cfg.Logger.WarnContext(ctx, "reporting the tokens of model calls", "provider", provider, "error", err)
			}
		}
	}
}

// report reports to the workflow that owns the limits of a provider, which it starts if necessary. It returns [errNobody] if no
// worker runs that workflow.
func (m *modelLimits) report(ctx context.Context, provider string, used modellimit.Usage) error {
	within, cancel := context.WithTimeout(ctx, limitWithin)
	defer cancel()
	err := m.update(within, provider, used)
	if _, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err); err != nil && (late || within.Err() != nil) {
		return fmt.Errorf("%w: %w", errNobody, err)
	}
	return err
}

func (m *modelLimits) update(ctx context.Context, provider string, used modellimit.Usage) error {
	queue, limits := job.ModelTaskQueue(m.cfg.TaskQueue, provider), modellimit.Limits(m.cfg.ModelLimits[provider])
	id := job.ModelLimitWorkflowID(queue)
	start := m.cfg.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: m.cfg.TaskQueue, StaticSummary: "limits of model provider " + provider,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, job.ModelLimitWorkflow, modellimit.State{Provider: provider, TaskQueue: queue, Limits: limits})
	h, err := m.cfg.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: job.UpdateReportUsage, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{modellimit.Report{Limits: limits, Usage: used}},
		},
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// setQueueLimit sets the rate limit of a task queue of activities.
func (cfg *Config) setQueueLimit(ctx context.Context, queue string, perMinute float64, reason string) error {
	_, err := cfg.Temporal.WorkflowService().UpdateTaskQueueConfig(ctx, &workflowservice.UpdateTaskQueueConfigRequest{
		Namespace: cfg.TemporalNamespace, Identity: "threadmill", TaskQueue: queue, TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY,
		UpdateQueueRateLimit: &workflowservice.UpdateTaskQueueConfigRequest_RateLimitUpdate{
			RateLimit: &taskqueuepb.RateLimit{RequestsPerSecond: float32(perMinute / 60)}, Reason: reason,
		},
	})
	var old *serviceerror.Unimplemented
	if errors.As(err, &old) {
		return temporal.NewNonRetryableApplicationError("Temporal cannot limit the rate of a task queue: limits need version 1.29 or later", "unsupported", err)
	}
	return err
}
