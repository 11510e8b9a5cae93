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

	"github.com/threadmill/threadmill/internal/modellimit"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
)

const (
	// reportEvery is the interval at which a worker reports the tokens of its calls.
	reportEvery = 5 * time.Second

	// limitWithin bounds the time until a limit is in force.
	limitWithin = time.Minute
)

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
			out[name] = signals.ModelTaskQueue(cfg.TaskQueue, name)
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

// apply puts the limits into force, before workers poll the queues.
func (m *modelLimits) apply(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limitWithin)
	defer cancel()
	queues := m.cfg.modelQueues()
	for _, provider := range slices.Sorted(maps.Keys(queues)) {
		if err := m.report(ctx, provider, modellimit.Usage{}); err != nil {
			return fmt.Errorf("limiting the task queue %q (limits of model provider %q): %w", queues[provider], provider, err)
		}
	}
	return nil
}

// follow reports the tokens of calls until it is stopped.
func (m *modelLimits) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.reportAll(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
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
			within, cancel := context.WithTimeout(ctx, limitWithin)
			if err := m.report(within, provider, used); err != nil && ctx.Err() == nil {
				m.cfg.Logger.WarnContext(ctx, "reporting the tokens of model calls", "provider", provider, "error", err)
			}
			cancel()
		}
	}
}

// report reports to the workflow that owns the limits of a provider, which it starts if necessary.
func (m *modelLimits) report(ctx context.Context, provider string, used modellimit.Usage) error {
	queue, limits := signals.ModelTaskQueue(m.cfg.TaskQueue, provider), modellimit.Limits(m.cfg.ModelLimits[provider])
	id := signals.ModelLimitWorkflowID(queue)
	start := m.cfg.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: m.cfg.TaskQueue, StaticSummary: "limits of model provider " + provider,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, signals.ModelLimitWorkflow, modellimit.State{Provider: provider, TaskQueue: queue, Limits: limits})
	h, err := m.cfg.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: signals.UpdateReportUsage, WaitForStage: client.WorkflowUpdateStageCompleted,
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
