package activities

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
	"github.com/threadmill/threadmill/internal/step"
)

// providerOf returns the name of a model's provider.
func providerOf(model string) string {
	name, _, _ := strings.Cut(model, "/")
	return name
}

// modelQueue returns the task queue of a model's calls. Empty = the thread's.
func (a *Activities) modelQueue(model string) string { return a.cfg.ModelQueues[providerOf(model)] }

// route returns the route of a call of a model, unless it runs on the right task queue.
func (a *Activities) route(ctx context.Context, model string) *step.Route {
	want, here := a.modelQueue(model), activity.GetInfo(ctx).TaskQueue
	if want == here || want == "" && !a.isModelQueue(here) {
		return nil
	}
	return &step.Route{Model: model, TaskQueue: want}
}

func (a *Activities) isModelQueue(queue string) bool {
	for _, q := range a.cfg.ModelQueues {
		if q == queue {
			return true
		}
	}
	return false
}

// setQueueLimit sets the rate limit of the task queue of a model provider.
func (a *Activities) setQueueLimit(ctx context.Context, input modellimit.Step) error {
	if a.cfg.LimitQueue == nil {
		return configError(errors.New("this worker cannot limit task queues"))
	}
	return a.cfg.LimitQueue(ctx, input.TaskQueue, input.PerMinute, input.Reason)
}

// used reports the tokens of a successful call of a limited provider.
func (a *Activities) used(model string, u event.Usage) {
	if provider := providerOf(model); a.cfg.Used != nil && a.cfg.ModelQueues[provider] != "" {
		a.cfg.Used(provider, u.InputTokens+u.OutputTokens)
	}
}
