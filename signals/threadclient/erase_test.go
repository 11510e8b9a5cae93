package threadclient

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/signals"
)

// TestEraseLate: it does not join an erasure that is running, which may have looked for the last time.
func TestEraseLate(t *testing.T) {
	c, m := listClient(t)
	m.On("ExecuteWorkflow", mock.Anything, mock.MatchedBy(func(o client.StartWorkflowOptions) bool {
		return o.ID == "erase/acme/t1" && o.WorkflowIDConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL && o.WorkflowExecutionErrorWhenAlreadyStarted
	}), signals.EraseWorkflow, mock.Anything).Return(nil, serviceerror.NewWorkflowExecutionAlreadyStarted("running", "", "")).Once()
	err := c.EraseLate(t.Context(), signals.EraseStep{Namespace: "acme", ThreadID: "t1", Late: true})
	require.ErrorContains(t, err, "try again")
}

// TestSchedulesOf finds schedules beyond those that a list shows.
func TestSchedulesOf(t *testing.T) {
	const n = MaxScheduleLimit + 20
	c, _, schedules := scheduleClient(t)
	it, left := mocks.NewScheduleListIterator(t), n
	it.On("HasNext").Return(func() bool { return left > 0 })
	it.On("Next").Return(func() (*client.ScheduleListEntry, error) {
		left--
		return &client.ScheduleListEntry{ID: "schedule/acme/daily"}, nil
	})
	schedules.On("List", mock.Anything, mock.Anything).Return(it, nil).Once()
	handleOf(t, schedules).On("Describe", mock.Anything).Return(dailyDescribed(t), nil)
	got, err := c.SchedulesOf(t.Context(), "t1", "t2")
	require.NoError(t, err)
	require.Len(t, got["t1"], n)
	require.Empty(t, got["t2"])
}
