package workflows

import (
	"go.temporal.io/sdk/workflow"

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
	if t.state.Children.Input(a) {
		f, err := t.state.ForwardInput(workflow.Now(ctx), a)
		children(t).decideForChildBySignal(ctx, name, f, err)
		return
	}
	t.state.TakeInput(workflow.Now(ctx), a)
}

func (t inputs) updateAnswer(ctx workflow.Context, a signals.InputAnswers) (signals.DecideResult, error) {
	early := func() bool { return t.state.IsEarlyInput(a) }
	kept, err := t.awaitCall(ctx, early, func() (signals.DecideOutcome, bool) {
		return signals.DecideAccepted, t.state.Decisions.BufferEarlyInput(a)
	})
	if kept != "" || err != nil {
		return signals.DecideResult{Result: kept}, err
	}
	if t.state.Children.Input(a) {
		f, err := t.state.ForwardInput(workflow.Now(ctx), a)
		return children(t).decideForChild(ctx, f, err)
	}
	out, err := t.state.AnswerInput(workflow.Now(ctx), a)
	if err != nil {
		return signals.DecideResult{}, refuse(err)
	}
	return signals.DecideResult{Result: out}, nil
}
