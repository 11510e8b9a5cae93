package threadclient

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// decides is a Temporal whose threads answer each update with an outcome.
type decides struct {
	client.Client
	outcome signals.DecideOutcome
}

func (d decides) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return answered{signals.DecideResult{Result: d.outcome}}, nil
}

// TestNotAllowed: what a person may not do is an error, and the outcome says so, too.
func TestNotAllowed(t *testing.T) {
	for outcome, want := range map[signals.DecideOutcome]error{
		signals.DecideAccepted: nil, signals.DecideConflict: nil, signals.DecideNotAllowed: signals.ErrNotAllowed,
	} {
		c, err := New(Config{Temporal: decides{outcome: outcome}})
		require.NoError(t, err)
		got, err := c.Decide(t.Context(), "t1", signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "eve"})
		require.ErrorIs(t, err, want)
		require.Equal(t, outcome, got.Result)
		for _, ask := range []func() (signals.DecideOutcome, error){
			func() (signals.DecideOutcome, error) {
				return c.Revoke(t.Context(), "t1", signals.Revoke{ToolCallID: "c1", By: "eve"})
			},
			func() (signals.DecideOutcome, error) {
				return c.ToolResult(t.Context(), "t1", signals.ToolResult{ToolCallID: "c1", Output: "x", By: "eve"})
			},
			func() (signals.DecideOutcome, error) {
				return c.AnswerInput(t.Context(), "t1", signals.InputAnswers{ToolCallID: "c1", By: "eve", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}})
			},
		} {
			got, err := ask()
			require.ErrorIs(t, err, want)
			require.Equal(t, outcome, got)
		}
	}
}
