package deployment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
)

// TestMoveFails: if a thread cannot be moved, neither are those behind it, and those that may be on their way are taken back.
func TestMoveFails(t *testing.T) {
	c := &mocks.Client{}
	refused, withdrawn := serviceerror.NewPermissionDenied("no", ""), map[string]int{}
	c.On("UpdateWorkflowExecutionOptions", mock.Anything, mock.Anything).Return(func(_ context.Context, r client.UpdateWorkflowExecutionOptionsRequest) (client.WorkflowExecutionOptions, error) {
		if r.WorkflowExecutionOptionsChanges.VersioningOverride.Value == nil {
			withdrawn[r.WorkflowId]++
		}
		if r.WorkflowId == "b" {
			return client.WorkflowExecutionOptions{}, refused
		}
		return client.WorkflowExecutionOptions{}, nil
	})
	c.On("SignalWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil)
	runs := []Run{{"a", "1"}, {"b", "2"}, {"c", "3"}}
	stay, err := Deployment{Client: c, Namespace: "n", Name: "d"}.Move(t.Context(), runs, "2")
	require.ErrorIs(t, err, refused)
	require.Equal(t, runs, stay)
	require.Equal(t, map[string]int{"a": 1, "b": 1}, withdrawn, "c was not touched")
}

// TestCheckMove: threads move from a build that gets none and has no workers to the current one, if it has workers. Only then the move is
// advised.
func TestCheckMove(t *testing.T) {
	status := func(from, to BuildStatus, workers bool) Status {
		return Status{Builds: []Build{{ID: "1", Status: from}, {ID: "2", Status: to, Workers: workers}}}
	}
	polled := status(Draining, Current, true)
	polled.Builds[0].Workers = true
	for want, c := range map[string]struct {
		status   Status
		from, to string
	}{
		`workers of build "1" poll`:    {polled, "1", "2"},
		"":                             {status(Draining, Current, true), "1", "2"},
		`there is no build "0"`:        {status(Draining, Current, true), "0", "2"},
		`build "1" is current`:         {status(Current, Draining, true), "1", "2"},
		`build "2" is current`:         {status(Draining, Current, true), "2", "2"},
		`build "2" is not current`:     {status(Draining, Ramping, true), "1", "2"},
		`build "3" is not current`:     {status(Draining, Current, true), "1", "3"},
		`no worker of build "2" polls`: {status(Draining, Current, false), "1", "2"},
	} {
		err := c.status.CheckMove(c.from, c.to)
		if want == "" {
			require.NoError(t, err)
			c.status.Current = c.to
			require.Contains(t, c.status.OrMove(c.from), "worker replay --from 1 --move --build 2")
			continue
		}
		require.ErrorContains(t, err, want)
		c.status.Current = c.to
		require.Empty(t, c.status.OrMove(c.from))
	}
}
