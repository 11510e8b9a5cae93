package threadclient

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/signals"
)

// TestNotReady answers updates as the server does when the workflow task that has taken
// one was refused as a whole.
func TestNotReady(t *testing.T) {
	notReady := serviceerror.NewWorkflowNotReady("unexpected workflow task failure")
	hello := signals.UserMessage("t1", "ann", "hello")
	hello.ID = "e1"
	sends := map[string]struct {
		method string
		send   func(context.Context, *Client) error
	}{
		"an update": {"UpdateWorkflow", func(ctx context.Context, c *Client) error {
			_, err := c.Turn(ctx, "t1", hello)
			return err
		}},
		"a turn": {"UpdateWorkflow", func(ctx context.Context, c *Client) error {
			_, err := c.StartTurn(ctx, "t1", hello)
			return err
		}},
		"a turn that opens its thread": {"UpdateWithStartWorkflow", func(ctx context.Context, c *Client) error {
			_, err := c.StartTurnOrOpen(ctx, "t1", signals.Start{}, hello)
			return err
		}},
	}
	for name, s := range sends {
		// answer gives the first answers of the server, and then a good one.
		answer := func(t *testing.T, refusals int) (*Client, *mocks.Client) {
			c, m := listClient(t)
			m.On("NewWithStartWorkflowOperation", mock.Anything, mock.Anything, mock.Anything).Return(nil).Maybe()
			m.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(nil, serviceerror.NewUnavailable("no")).Maybe()
			m.On(s.method, mock.Anything, mock.Anything).Return(nil, notReady).Times(refusals)
			m.On(s.method, mock.Anything, mock.Anything).Return(update{result: signals.TurnResult{Status: signals.TurnCompleted}}, nil).Maybe()
			return c, m
		}
		t.Run(name+" is sent again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := answer(t, 3)
				require.NoError(t, s.send(t.Context(), c))
				m.AssertNumberOfCalls(t, s.method, 4)
			})
		})
		t.Run(name+" is not sent for ever", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := answer(t, maxSends)
				begun := time.Now()
				err := s.send(t.Context(), c)
				require.ErrorContains(t, err, "unexpected workflow task failure")
				var is *serviceerror.WorkflowNotReady
				require.ErrorAs(t, err, &is)
				m.AssertNumberOfCalls(t, s.method, maxSends)
				require.Less(t, time.Since(begun), 6*time.Second)
			})
		})
		t.Run(name+" is sent until its caller gives up", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := answer(t, 2)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				defer cancel()
				require.Error(t, s.send(ctx, c))
				m.AssertNumberOfCalls(t, s.method, 2)
			})
		})
	}
	t.Run("other errors are told at once", func(t *testing.T) {
		c, m := listClient(t)
		m.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(nil, serviceerror.NewUnavailable("no")).Once()
		m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(update{}, serviceerror.NewUnavailable("no")).Once()
		_, err := c.Turn(t.Context(), "t1", hello)
		require.Error(t, err)
	})
}
