package searchattr

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

func TestWaiting(t *testing.T) {
	for waiting, want := range map[bool]string{true: signals.StatusWaitingApproval, false: signals.StatusOpen} {
		attributes := temporal.NewSearchAttributes(Waiting(waiting))
		got, ok := attributes.GetKeyword(keyStatus)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}
