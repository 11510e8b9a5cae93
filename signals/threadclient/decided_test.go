package threadclient

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// decides is a Temporal whose threads answer each update with an outcome or an error, or that has no threads.
type decides struct {
	client.Client
	outcome signals.DecideOutcome
	err     error
}

func (d decides) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return answered{signals.DecideResult{Result: d.outcome}}, d.err
}

func (d decides) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("no such workflow")
}

// TestBehindTheStore: a thread that does not know what people see is behind, whatever it answers; what nobody has seen does not wait.
func TestBehindTheStore(t *testing.T) {
	pending, early := decides{outcome: signals.DecideNotPending}, decides{err: temporal.NewApplicationError("early", signals.EarlyType)}
	gone := decides{err: serviceerror.NewNotFound("no such workflow")}
	decide := func(c *Client) (signals.DecideOutcome, error) {
		out, err := c.Decide(t.Context(), "t1", signals.Decide{ToolCallID: "c1", Round: 2, Decision: event.DecisionApprove, By: "ann"})
		return out.Result, err
	}
	answer := func(c *Client) (signals.DecideOutcome, error) {
		return c.AnswerInput(t.Context(), "t1", signals.InputAnswers{ToolCallID: "c1", By: "ann", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}})
	}
	result := func(c *Client) (signals.DecideOutcome, error) {
		return c.ToolResult(t.Context(), "t1", signals.ToolResult{ToolCallID: "c1", Output: "x", By: "ann"})
	}
	for name, tc := range map[string]struct {
		thread  decides
		ask     func(*Client) (signals.DecideOutcome, error)
		records []string
		want    error
	}{
		"a request that is shown":            {pending, decide, []string{"c1.request.2"}, signals.ErrEarly},
		"one that was decided":               {pending, decide, []string{"c1.request.2", "c1.decision.2"}, signals.ErrNotPending},
		"one that has a result":              {pending, decide, []string{"c1.request.2", "c1.result"}, signals.ErrNotPending},
		"another round":                      {pending, decide, []string{"c1.request"}, signals.ErrNotPending},
		"S4-91 one that nobody has seen":     {early, decide, nil, signals.ErrNotPending},
		"one that is early":                  {early, decide, []string{"c1.request.2"}, signals.ErrEarly},
		"no workflow yet":                    {gone, decide, []string{"c1.request.2"}, signals.ErrEarly},
		"no thread":                          {gone, decide, nil, signals.ErrThreadNotFound},
		"a question":                         {pending, answer, []string{"c1.input.1"}, signals.ErrEarly},
		"a question with its answer":         {pending, answer, []string{"c1.input.1", "c1.received.1"}, signals.ErrNotPending},
		"a call of a client":                 {pending, result, []string{"c1.client"}, signals.ErrEarly},
		"one with its result":                {pending, result, []string{"c1.client", "c1.result"}, signals.ErrNotPending},
		"one whose message alone was stored": {early, result, nil, signals.ErrEarly},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Temporal: tc.thread, Known: func(_ context.Context, _, _, recordID string) (bool, error) {
				return slices.Contains(tc.records, recordID), nil
			}})
			require.NoError(t, err)
			got, err := tc.ask(c)
			require.ErrorIs(t, err, tc.want)
			if errors.Is(err, signals.ErrNotPending) {
				require.Equal(t, signals.DecideNotPending, got)
			}
		})
	}
}

// TestRefused: a decision without effect is an error, and the outcome says so, too.
func TestRefused(t *testing.T) {
	refused := func(outcome signals.DecideOutcome) error {
		return &signals.DecisionError{ThreadID: "t1", ToolCallID: "c1", Outcome: outcome}
	}
	for outcome, want := range map[signals.DecideOutcome]error{
		signals.DecideAccepted: nil, signals.DecideAlreadyResolved: nil, signals.DecideConflict: refused(signals.DecideConflict),
		signals.DecideMismatch: refused(signals.DecideMismatch), signals.DecideNotAllowed: refused(signals.DecideNotAllowed),
	} {
		c, err := New(Config{Temporal: decides{outcome: outcome}})
		require.NoError(t, err)
		got, err := c.Decide(t.Context(), "t1", signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "eve"})
		require.Equal(t, want, err)
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
			require.Equal(t, want, err)
			require.Equal(t, outcome, got)
		}
	}
}
