package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// outage makes the model fail until the given time in the world's clock, once a minute.
func outage(w *fixture, lasts time.Duration) {
	begun := w.Now()
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if now := w.Now(); now.Sub(begun) < lasts {
			o := event.Retry{Since: now, Attempts: 1, Class: "server_error", Error: "down", NextAttemptAt: now.Add(time.Minute)}
			if in.Outage != nil {
				o.Since, o.Attempts = in.Outage.Since, in.Outage.Attempts+1
			}
			return step.ModelReply{Outage: &o}, nil
		}
		return reply(in, "back"), nil
	}
}

// TestLongOutage: a turn survives an outage of hours, and viewers see the outage.
func TestLongOutage(t *testing.T) {
	w := newFixture(t)
	outage(w, 3*time.Hour)
	w.then(func() { w.post("e1", "hello") })
	w.then(func() { w.post("e2", "anybody?") })
	w.RegisterDelayedCallback(func() {
		s := w.state()
		require.Equal(t, signals.ThreadRunning, s.Status)
		require.Equal(t, 1, s.QueueLength, "what comes meanwhile waits as always")
		run := s.Turn.Runs[0]
		require.Equal(t, "down", run.Retrying.Error)
		require.Equal(t, "server_error", run.Retrying.Class)
		require.Greater(t, run.Retrying.Attempts, 80)
		require.False(t, run.Retrying.NextAttemptAt.Before(w.Now()))
		require.Zero(t, run.Step)
		require.LessOrEqual(t, s.LLMCalls["assistant"]+s.LLMCalls[""], 1, "attempts are no calls")
	}, 90*time.Minute)
	w.at = 4 * time.Hour
	w.then(func() { require.Nil(t, w.state().Turn) })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e1.0.1: back", "e2: anybody?", "e2.0.1: back"}, w.messages())
}

// TestOutageIsInterrupted: an interrupt ends the wait for a model immediately.
func TestOutageIsInterrupted(t *testing.T) {
	for _, action := range []signals.ControlAction{signals.ControlInterrupt, signals.ControlClose} {
		t.Run(string(action), func(t *testing.T) {
			w := newFixture(t)
			outage(w, 100*time.Hour)
			var turn *answer
			w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")) })
			calls := 0
			w.RegisterDelayedCallback(func() {
				calls = len(w.models)
				w.control(action)
			}, 10*time.Minute+30*time.Second)
			w.RegisterDelayedCallback(func() {
				require.NotNil(t, turn.result)
			}, 10*time.Minute+31*time.Second)
			w.at = 11 * time.Minute
			w.run(workflows.Input{})
			require.Len(t, w.models, calls, "it is not called again")
			require.Equal(t, "interrupted", stored[event.TurnEnded](w.fakes, event.TypeTurnEnded)[0].Status)
		})
	}
}

// TestOutageIsSteered: when a message joins the turn, the model is called immediately.
func TestOutageIsSteered(t *testing.T) {
	w := newFixture(t)
	begun := w.Now()
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Outage == nil {
			return step.ModelReply{Outage: &event.Retry{Since: begun, Attempts: 1, Error: "down", NextAttemptAt: w.Now().Add(time.Hour)}}, nil
		}
		return reply(in, "back"), nil
	}
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		p := says("e2", "use the other one")
		p.OnBusy = event.OnBusySteer
		w.SignalWorkflow(signals.SignalPost, p)
	})
	w.then(func() { require.Nil(t, w.state().Turn) })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e2: use the other one", "e1.0.1: back"}, w.messages())
	require.Less(t, w.Now().Sub(begun), time.Hour)
}
