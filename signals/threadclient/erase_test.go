package threadclient

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
)

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
