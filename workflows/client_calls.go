package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/thread"
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
	t.state.ReadResult(r).Take(workflow.Now(ctx))
}

func (t clientCalls) updateToolResult(ctx workflow.Context, res signals.ToolResult) (signals.DecideResult, error) {
	r, kept, err := awaitCall(ctx, t.conversation, func() thread.ClientResult { return t.state.ReadResult(res) })
	if kept != "" || err != nil {
		return signals.DecideResult{Result: kept}, err
	}
	return signals.DecideResult{Result: r.Apply(workflow.Now(ctx))}, nil
}
