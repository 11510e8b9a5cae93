package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
)

// modelLimit owns the limits of a model provider: it alone sets the rate of the provider's task
// queue, from the reports of all workers.
func modelLimit(ctx workflow.Context, s modellimit.State) error {
	o := &limitOwner{state: s, turn: workflow.NewMutex(ctx)}
	o.show(ctx)
	if err := workflow.SetUpdateHandlerWithOptions(ctx, job.UpdateReportUsage, o.report, workflow.UpdateHandlerOptions{
		Description: "report the calls of a worker",
	}); err != nil {
		return err
	}
	full := func() bool {
		return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx)
	}
	if err := workflow.Await(ctx, full); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, job.ModelLimitWorkflow, o.state)
}

type limitOwner struct {
	state modellimit.State
	turn  workflow.Mutex
}

// report takes in the report of a worker and, if that changes the rate, sets it before it returns.
func (o *limitOwner) report(ctx workflow.Context, r modellimit.Report) error {
	if err := o.turn.Lock(ctx); err != nil {
		return err
	}
	defer o.turn.Unlock()
	o.state.Add(r)
	rate, changed := o.state.Rate()
	if !changed {
		return nil
	}
	set := modellimit.Step{TaskQueue: o.state.TaskQueue, PerMinute: rate, Reason: o.reason()}
	summary := fmt.Sprintf("%s · %.4g calls per minute", o.state.Provider, rate)
	if err := workflow.ExecuteActivity(bounded(ctx, summary), job.ActivitySetQueueLimit, set).Get(ctx, nil); err != nil {
		return err
	}
	o.state.PerMinute = rate
	o.show(ctx)
	return nil
}

func (o *limitOwner) reason() string {
	l := o.state.Limits
	if l.TokensPerMinute == 0 {
		return fmt.Sprintf("%d requests per minute", l.RequestsPerMinute)
	}
	text := fmt.Sprintf("%d tokens per minute at %.4g tokens per call", l.TokensPerMinute, o.state.TokensPerCall())
	if l.RequestsPerMinute > 0 {
		text += fmt.Sprintf(", at most %d requests per minute", l.RequestsPerMinute)
	}
	return text
}

func (o *limitOwner) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%.4g calls per minute** of provider `%s`, on task queue `%s`\n\n%s",
		o.state.PerMinute, o.state.Provider, o.state.TaskQueue, o.reason()))
}
