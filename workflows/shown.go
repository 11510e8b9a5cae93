package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
)

// Unregistered is a [Workflows].NameStep for replays, which run no activities.
func Unregistered(string, string) {}

type nameStepKey struct{}

// context returns the context of a workflow with the settings of the worker.
func (w *Workflows) context(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(staleAfter(ctx, w.StaleAfter), nameStepKey{}, w.NameStep)
}

// executeLocal runs an activity as a local activity. Temporal's Web UI shows local activities by their types alone, so the type says whose
// step it is, and of what: "call_model · alice · openai/gpt-5".
func executeLocal(ctx workflow.Context, activity, shown string, input any) workflow.Future {
	if name, _ := ctx.Value(nameStepKey{}).(func(string, string)); name != nil && shown != "" {
		shown = brief(job.LocalName(activity, shown))
		name(activity, shown)
		activity = shown
	}
	return workflow.ExecuteLocalActivity(ctx, activity, input)
}

// showFailure adds a marker that says what has failed: Temporal's Web UI shows a failed local activity, and a step whose result is a
// failure, like any other one.
func showFailure(ctx workflow.Context, s localStep, why string) {
	what := s.activity
	if s.shown != "" {
		what = job.LocalName(s.activity, s.shown)
	}
	shown := workflow.SideEffectOptions{Summary: brief("failed: " + what + ": " + why)}
	workflow.SideEffectWithOptions(ctx, shown, func(workflow.Context) any { return nil })
}
