package thread

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLateReports lets hook workflows report what the thread knows already.
func TestLateReports(t *testing.T) {
	s := newState()
	post(t, s, says("e1", "hello"))
	next, ok := s.Next(t0)
	require.True(t, ok)
	s.Begin(t0, next)
	seen := s.Turn.ItemEvent()
	report := HookDecided{EventID: seen.Key}

	s.Turn.HooksStarted(seen)
	s.Turn.HooksFinished(seen)
	require.Error(t, s.HookDecided(report), "it was not called upon to report")

	s.Turn.HooksStarted(seen)
	s.Turn.ReportRequested(seen)
	s.Turn.HooksFinished(seen)
	require.NoError(t, s.HookDecided(report), "it ended at the moment when it was called upon")
	require.Error(t, s.HookDecided(report), "it reports once")

	s.Turn.HooksStarted(seen)
	s.Turn.ReportRequested(seen)
	require.NoError(t, s.HookDecided(report))
	s.Turn.HooksFinished(seen)
	require.Error(t, s.HookDecided(report), "it has been heard")

	for range 2 * maxAbandonedHooks {
		s.Turn.HooksStarted(seen)
		s.Turn.ReportRequested(seen)
		s.Turn.HooksFinished(seen)
	}
	require.Len(t, s.AbandonedHooks, maxAbandonedHooks)
}
