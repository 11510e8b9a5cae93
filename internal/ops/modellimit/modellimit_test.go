package modellimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/ops/modellimit"
)

func TestRate(t *testing.T) {
	report := func(s *modellimit.State, l modellimit.Limits, requests, tokens int) float64 {
		s.Add(modellimit.Report{Limits: l, Usage: modellimit.Usage{Requests: requests, Tokens: tokens}})
		rate, changed := s.Rate()
		require.Equal(t, changed, rate < s.PerMinute*0.99 || rate > s.PerMinute*1.01)
		s.PerMinute = rate
		return rate
	}
	both := modellimit.Limits{RequestsPerMinute: 100, TokensPerMinute: 60_000}
	var s modellimit.State
	require.InDelta(t, 30, report(&s, both, 0, 0), 0.001, "before anything was measured")
	require.InDelta(t, 60, report(&s, both, 10, 10_000), 0.001, "1000 tokens a call")
	require.InDelta(t, 100, report(&s, both, 1000, 100_000), 0.001, "the requests are the lower limit")
	require.InDelta(t, 50, report(&s, modellimit.Limits{RequestsPerMinute: 50}, 0, 0), 0.001)
	for range 30 {
		report(&s, both, 10, 20_000)
	}
	require.InDelta(t, 30, s.PerMinute, 0.001, "old reports are forgotten")
	require.Len(t, s.Recent, 24)

	var silent modellimit.State
	require.InDelta(t, 30, report(&silent, both, 10, 0), 0.001, "a provider that reports no tokens is not unlimited")
	_, changed := silent.Rate()
	require.False(t, changed)
}
