package threadclient

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/signals"
)

// TestClose: without a worker, a thread does not end, and the caller's patience does.
func TestClose(t *testing.T) {
	c, m := listClient(t)
	m.On("SignalWorkflow", mock.Anything, "thread/acme/t1", "", signals.SignalControl,
		signals.Control{Action: signals.ControlClose, By: "ann"}).Return(nil).Once()
	ctx, cancel := context.WithCancel(t.Context())
	run := mocks.NewWorkflowRun(t)
	run.On("Get", mock.Anything, nil).Run(func(mock.Arguments) { cancel() }).Return(context.DeadlineExceeded)
	m.On("GetWorkflow", mock.Anything, "thread/acme/t1", "").Return(run)
	err := c.CloseThread(ctx, "t1", "ann")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `waiting for the end of thread "t1"`)
	m.AssertExpectations(t)
}
