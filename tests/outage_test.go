package tests

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestOutageOfAProvider: people see that a turn waits for its model, it continues after the outage,
// and they can interrupt it.
func TestOutageOfAProvider(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		c.ModelRetries = map[string]llm.Retry{"openai": {InitialInterval: 6 * time.Second}}
	}})
	down := llmtest.Status(http.StatusServiceUnavailable, "")
	w.Provider.Fail(down, down)
	patient, hasty := w.Open(), w.Open()
	view := watch(t, w, patient, "")
	e, cut := w.Post(patient, "hello"), w.Post(hasty, "hello")
	retrying := func(id string) *event.Retry {
		var out *event.Retry
		require.Eventually(t, func() bool {
			s, err := w.Threads.State(w.Ctx(), id)
			if err == nil && s.Turn != nil && len(s.Turn.Runs) > 0 {
				out = s.Turn.Runs[0].Retrying
			}
			return out != nil
		}, waitLong, waitTick)
		return out
	}
	for _, id := range []string{patient, hasty} {
		r := retrying(id)
		require.Equal(t, 1, r.Attempts)
		require.Equal(t, "server_error", r.Class)
		require.Contains(t, r.Error, "503")
	}
	require.NoError(t, w.Threads.Control(w.Ctx(), hasty, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, await(t, w, hasty, cut).Status)

	require.Equal(t, signals.TurnCompleted, await(t, w, patient, e).Status)
	require.Equal(t, 3, w.Provider.Calls())
	shown := view.until(t, func(f frame) bool {
		return f.event.Type == event.EventStatus && f.event.Status.Status == event.StatusRetrying
	})
	last := shown[len(shown)-1].event
	require.Equal(t, e, last.EventID)
	require.Equal(t, 1, last.Status.Retry.Attempts)
	require.Equal(t, 6*time.Second, last.Status.Retry.NextAttemptAt.Sub(last.Status.Retry.Since).Round(time.Second))
}
