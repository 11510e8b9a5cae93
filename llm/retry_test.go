package llm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
)

func TestRetry(t *testing.T) {
	var r llm.Retry
	require.NoError(t, r.Validate())
	require.Greater(t, r.WithDefaults().For, time.Hour, "an outage of an hour is survived")
	var got []time.Duration
	for failed := 1; failed <= 8; failed++ {
		got = append(got, r.Delay(failed)/time.Second)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, got)
	require.Equal(t, time.Minute, r.Delay(100_000))
	require.Equal(t, 3*time.Second, llm.Retry{InitialInterval: 3 * time.Second, Backoff: 1}.Delay(9))
	require.Equal(t, 5*time.Minute, llm.Retry{InitialInterval: 5 * time.Minute}.Delay(9), "MaxInterval is not below InitialInterval")
	for field, r := range map[string]llm.Retry{
		"For":             {For: -1},
		"InitialInterval": {InitialInterval: time.Millisecond},
		"MaxInterval":     {InitialInterval: time.Minute, MaxInterval: time.Second},
		"Backoff":         {Backoff: 0.5},
		"MaxAttempts":     {MaxAttempts: -1},
	} {
		require.ErrorContains(t, r.Validate(), field)
	}
}
