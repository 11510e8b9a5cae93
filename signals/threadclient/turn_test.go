package threadclient

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// update stands for an update: pending until it is asked with a context that goes on.
type update struct {
	client.WorkflowUpdateHandle
	refused error
	result  signals.TurnResult
}

func (u update) Get(ctx context.Context, out any) error {
	if u.refused != nil {
		return u.refused
	}
	if ctx.Err() != nil {
		return client.NewWorkflowUpdateServiceTimeoutOrCanceledError(ctx.Err())
	}
	*out.(*signals.TurnResult) = u.result
	return nil
}

// onTurn lets the next update be u, and returns what was asked.
func onTurn(m *mocks.Client, u update, err error) *client.UpdateWorkflowOptions {
	asked := &client.UpdateWorkflowOptions{}
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*asked = args.Get(1).(client.UpdateWorkflowOptions)
	}).Return(u, err).Once()
	return asked
}

func TestStartTurn(t *testing.T) {
	ctx, hello := context.Background(), signals.UserMessage("t1", "ann", "hello")
	t.Run("S2-25 returns once the thread has taken the event, S2-20 which ends later", func(t *testing.T) {
		c, m := listClient(t)
		asked := onTurn(m, update{result: signals.TurnResult{EventID: "e1", Status: signals.TurnCompleted}}, nil)
		p := hello
		p.ID = "e1"
		turn, err := c.StartTurn(ctx, "t1", p)
		require.NoError(t, err)
		require.Equal(t, "e1", turn.EventID())
		require.Equal(t, client.WorkflowUpdateStageAccepted, asked.WaitForStage)
		require.Equal(t, signals.UpdateTurn, asked.UpdateName)
		require.Equal(t, "thread/acme/t1", asked.WorkflowID)
		require.Equal(t, []any{p}, asked.Args)
		out, err := turn.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
	})
	t.Run("waits on in the run that the thread continues in", func(t *testing.T) {
		c, m := listClient(t)
		first := onTurn(m, update{result: signals.TurnResult{Status: signals.TurnContinues}}, nil)
		turn, err := c.StartTurn(ctx, "t1", hello)
		require.NoError(t, err)
		again := onTurn(m, update{result: signals.TurnResult{Status: signals.TurnCompleted}}, nil)
		out, err := turn.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, first.Args, again.Args, "the same event, so that it is not posted twice")
	})
	for name, c := range map[string]struct {
		update update
		err    error
		want   error
	}{
		"refused":    {update: update{refused: temporal.NewNonRetryableApplicationError("no", signals.RefusedType, nil)}, want: signals.ErrRefused},
		"busy":       {update: update{refused: temporal.NewNonRetryableApplicationError("no", signals.BusyType, nil)}, want: signals.ErrBusy},
		"closed":     {update: update{refused: temporal.NewNonRetryableApplicationError("no", signals.ClosedType, nil)}, want: signals.ErrThreadClosed},
		"long ago":   {update: update{refused: temporal.NewNonRetryableApplicationError("no", signals.ProcessedType, nil)}, want: signals.ErrProcessed},
		"not there":  {err: serviceerror.NewNotFound("no"), want: signals.ErrThreadNotFound},
		"unanswered": {err: context.DeadlineExceeded, want: context.DeadlineExceeded},
	} {
		t.Run("the error says why it was not taken: "+name, func(t *testing.T) {
			cl, m := listClient(t)
			onTurn(m, c.update, c.err)
			m.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("no")).Maybe()
			m.On("DescribeTaskQueue", mock.Anything, "threadmill", mock.Anything).Return(nil, nil).Maybe()
			_, err := cl.StartTurn(ctx, "t1", hello)
			require.ErrorIs(t, err, c.want)
		})
	}
	t.Run("S0-03 a mistake is not sent", func(t *testing.T) {
		c, _ := listClient(t)
		_, err := c.StartTurn(ctx, "t1", signals.UserMessage("t1", "ann", ""))
		require.ErrorIs(t, err, event.ErrInvalid)
		_, err = c.StartTurnOrOpen(ctx, "t1", signals.Start{}, signals.UserMessage("t2", "ann", "hello"))
		require.ErrorIs(t, err, event.ErrInvalid)
	})
}

func TestStartTurnOrOpen(t *testing.T) {
	ctx, hello := context.Background(), signals.UserMessage("t1", "ann", "hello")
	// opening lets the thread be opened, and returns with which options and start.
	opening := func(t *testing.T, u update, err error) (*Client, *client.StartWorkflowOptions, *signals.Start) {
		c, m := listClient(t)
		opts, start := &client.StartWorkflowOptions{}, &signals.Start{}
		m.On("NewWithStartWorkflowOperation", mock.Anything, signals.ThreadWorkflow, mock.Anything).Run(func(args mock.Arguments) {
			*opts, *start = args.Get(0).(client.StartWorkflowOptions), args.Get(2).(signals.Start)
		}).Return(nil)
		m.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(u, err)
		return c, opts, start
	}
	t.Run("opens the thread, or finds it open", func(t *testing.T) {
		c, opts, start := opening(t, update{result: signals.TurnResult{Status: signals.TurnCompleted}}, nil)
		turn, err := c.StartTurnOrOpen(ctx, "t1", signals.Start{Agents: []string{"bot"}, First: &signals.Post{}}, hello)
		require.NoError(t, err)
		require.Equal(t, "thread/acme/t1", opts.ID)
		require.Equal(t, "acme", opts.Priority.FairnessKey, "namespaces take turns")
		require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, opts.WorkflowIDConflictPolicy)
		require.Equal(t, signals.Start{Agents: []string{"bot"}}, *start)
		out, err := turn.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
	})
	t.Run("a closed thread stays closed", func(t *testing.T) {
		c, _, _ := opening(t, update{}, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", ""))
		_, err := c.StartTurnOrOpen(ctx, "t1", signals.Start{}, hello)
		require.ErrorIs(t, err, signals.ErrThreadClosed)
	})
	t.Run("a refusal is told", func(t *testing.T) {
		c, _, _ := opening(t, update{refused: temporal.NewNonRetryableApplicationError("no", signals.RefusedType, nil)}, nil)
		_, err := c.StartTurnOrOpen(ctx, "t1", signals.Start{}, hello)
		require.ErrorIs(t, err, signals.ErrRefused)
	})
}
