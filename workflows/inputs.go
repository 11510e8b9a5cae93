package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// inputs handles the input of people for tool calls that wait for it.
type inputs struct{ *conversation }

func (t inputs) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalAnswerInput, t.answer),
		onUpdate(t.conversation, signals.UpdateAnswerInput, "answer a tool call that asks for input", signals.InputAnswers.Validate, t.updateAnswer),
	}
}

// answer handles an answer by signal.
func (t inputs) answer(ctx workflow.Context, name string, a signals.InputAnswers) {
	if err := a.Validate(); err != nil {
		t.state.Reject(workflow.Now(ctx), name, a, err)
		return
	}
	children(t).take(ctx, name, t.state.ReadAnswer(a))
}

func (t inputs) updateAnswer(ctx workflow.Context, a signals.InputAnswers) (signals.DecideResult, error) {
	r, kept, err := awaitCall(ctx, t.conversation, func() thread.Answer { return t.state.ReadAnswer(a) })
	if kept != "" || err != nil {
		return signals.DecideResult{Result: kept}, err
	}
	if r.Below() {
		return children(t).decideForChild(ctx, r)
	}
	out, err := r.Apply(workflow.Now(ctx))
	if err != nil {
		return signals.DecideResult{}, refuse(err)
	}
	return signals.DecideResult{Result: out}, nil
}
