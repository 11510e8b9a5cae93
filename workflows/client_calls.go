package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/signals"
)

// clientCalls handles the results of calls that connected clients run.
type clientCalls struct{ *conversation }

func (t clientCalls) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalToolResult, t.toolResult),
		onUpdate(t.conversation, signals.UpdateToolResult, "answer a call that a connected client runs", signals.ToolResult.Validate, t.updateToolResult),
	}
}

// toolResult handles the result of a call by signal.
func (t clientCalls) toolResult(ctx workflow.Context, name string, r signals.ToolResult) {
	if err := r.Validate(); err != nil {
		t.state.Reject(workflow.Now(ctx), name, r, err)
		return
	}
	t.state.TakeResult(workflow.Now(ctx), r)
}

func (t clientCalls) updateToolResult(ctx workflow.Context, r signals.ToolResult) (signals.DecideResult, error) {
	if t.state.IsEarlyResult(r.ToolCallID) {
		if _, err := awaitFor(ctx, earlyDecisionTimeout, func() bool { return t.continuingAsNew || !t.state.IsEarlyResult(r.ToolCallID) }); err != nil {
			return signals.DecideResult{}, err
		}
	}
	if t.continuingAsNew && t.state.IsEarlyResult(r.ToolCallID) {
		// The next workflow run will make the call wait for the client, and apply the result.
		return signals.DecideResult{Result: t.state.BufferEarlyResult(r)}, nil
	}
	if t.state.IsEarlyResult(r.ToolCallID) {
		return signals.DecideResult{}, refuse(signals.ErrEarly)
	}
	return signals.DecideResult{Result: t.state.ToolResult(workflow.Now(ctx), r)}, nil
}
