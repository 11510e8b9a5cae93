package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

const day = 24 * time.Hour

// holding is a rule that holds back events.
func holding(debounce, throttle time.Duration) rule.Rule {
	return rule.Rule{Name: "files", Events: []string{"file.*"}, Priority: 20, Debounce: debounce, Throttle: throttle, Agent: &rule.Agent{}}
}

// timed records when agents handle events: "day.hour event +held".
func (w *fixture) timed() *[]string {
	began, noted := w.Now(), &[]string{}
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Observe != nil {
			hours := int(w.Now().Sub(began).Round(time.Hour).Hours())
			*noted = append(*noted, fmt.Sprintf("%d.%02d %s +%d", hours/24, hours%24, in.Observe.EventID, in.Observe.Held))
		}
		return reply(in, "ok"), nil
	}
	return noted
}

// publishAt publishes an event in the thread's time.
func (w *fixture) publishAt(after time.Duration, id string) {
	w.RegisterDelayedCallback(func() { w.publish(happens(id, "file.changed", `1`)) }, after)
}

func TestDebounceForDays(t *testing.T) {
	w := ruledWorld(t, newFakes(t), holding(day, 0))
	woken := w.timed()
	// Twice a day for two weeks and more.
	for i := range 28 {
		w.publishAt(time.Duration(i)*day/2+time.Minute, fmt.Sprintf("e%d", i))
	}
	w.publishAt(20*day, "late")
	w.at = 2 * day
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadIdle, s.Status, "nothing waits in the queue")
		require.Len(t, s.Held, 1)
		require.Equal(t, 4, s.Held[0].Count)
		w.post("m1", "still there?")
	})
	w.then(func() { require.Len(t, w.models, 1, "people are answered meanwhile") })
	w.at = 30 * day
	w.run(workflows.Input{})
	require.Equal(t, []string{"10.00 e19 +19", "14.12 e27 +7", "21.00 late +0"}, *woken, "S3-61 ten times its time at most")
	require.Len(t, w.idsOf(event.TypeEnv), 29, "each of them is stored once")
	require.Empty(t, stored[event.Rejected](w.fakes, event.TypeRejected))
}

func TestThrottleForDays(t *testing.T) {
	w := ruledWorld(t, newFakes(t), holding(0, day))
	woken := w.timed()
	for i := range 6 {
		w.publishAt(time.Duration(i)*day/2+time.Minute, fmt.Sprintf("e%d", i))
	}
	w.at = 10 * day
	w.run(workflows.Input{})
	require.Equal(t, []string{"0.00 e0 +0", "1.00 e1 +0", "2.00 e3 +1", "3.00 e5 +1"}, *woken, "S3-61")
}

// TestHeldEventsAcrossContinueAsNew: timers continue in the next run.
func TestHeldEventsAcrossContinueAsNew(t *testing.T) {
	f := newFakes(t)
	w := ruledWorld(t, f, holding(day, 0))
	w.publishAt(time.Minute, "e1")
	w.publishAt(time.Hour, "e2")
	w.at = 2 * time.Hour
	w.then(func() { w.suggestWith(signals.SignalPost, says("m1", "hello")) })
	next := w.leave(workflows.Input{})
	require.Len(t, next.State.Inbox.Debounced, 1)
	require.Equal(t, 2, next.State.Inbox.Debounced[0].Count)

	due := next.State.Inbox.Debounced[0].Until
	w = ruledWorld(t, f, holding(day, 0))
	w.SetStartTime(due.Add(-2 * time.Hour))
	var at time.Time
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Observe != nil {
			at = w.Now()
			require.Equal(t, 1, in.Observe.Held)
		}
		return reply(in, "ok"), nil
	}
	w.at = time.Hour
	w.then(func() { require.Empty(t, f.heardOf()) })
	w.at = 3 * time.Hour
	w.run(next)
	require.Equal(t, []string{"e2"}, f.heardOf())
	require.WithinDuration(t, due, at, time.Second)
	require.Equal(t, []string{"e1", "e2"}, f.idsOf(event.TypeEnv))
}

// TestHeldEventIsDueWhileTheThreadMoves: an event that became due in between is handled
// immediately.
func TestHeldEventIsDueWhileTheThreadMoves(t *testing.T) {
	f := newFakes(t)
	w := ruledWorld(t, f, holding(time.Hour, 0))
	w.publishAt(time.Minute, "e1")
	w.at = time.Minute
	w.then(func() { w.suggestWith(signals.SignalPost, says("m1", "hello")) })
	next := w.leave(workflows.Input{})
	w = ruledWorld(t, f, holding(time.Hour, 0))
	w.SetStartTime(next.State.Inbox.Debounced[0].Until.Add(day))
	w.then(func() { require.Equal(t, []string{"e1"}, f.heardOf()) })
	w.run(next)
}

// TestWaitForAHeldEvent: a waiting caller learns that the event is held back, and can wait for the
// rest.
func TestWaitForAHeldEvent(t *testing.T) {
	w := ruledWorld(t, newFakes(t), holding(time.Hour, 0))
	p := signals.EnvPost(happens("e1", "file.changed", `1`))
	var first, again *answer
	w.then(func() { first = w.update(signals.UpdateTurn, p) })
	w.then(func() {
		require.Equal(t, signals.TurnHeld, first.result.(signals.TurnResult).Status)
		w.publish(happens("e1", "file.changed", `2`))
	})
	w.at = 2 * time.Hour
	w.then(func() { again = w.update(signals.UpdateTurn, p) })
	w.run(workflows.Input{})
	require.Equal(t, signals.TurnCompleted, again.result.(signals.TurnResult).Status)
	require.Equal(t, []string{"e1"}, w.heardOf(), "S3-10")
}

// TestEventDueWhileATurnWaits: the event is handled while the turn waits for people.
func TestEventDueWhileATurnWaits(t *testing.T) {
	w := ruledWorld(t, newFakes(t), holding(time.Hour, 0))
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "m1" {
			return script(asks("c1"))(ctx, in)
		}
		return reply(in, "ok"), nil
	}
	w.publishAt(time.Second, "e1")
	w.then(func() { w.post("m1", "go") })
	w.at = 3 * time.Hour
	w.then(func() {
		require.Zero(t, w.state().QueueLength, "it was due, and was handled")
		require.Equal(t, signals.ThreadWaitingApproval, w.state().Status)
		require.Equal(t, "m1", w.state().Turn.EventID)
		w.decide("c1", event.DecisionApprove, "")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1"}, w.heardOf())
	require.Equal(t, "e1", w.models[1].EventID)
	require.Equal(t, []string{"c1"}, w.models[1].OpenCalls, "its agent is told not to call again")
	require.Equal(t, "m1", w.models[2].EventID)
}

func TestCloseWithHeldEvents(t *testing.T) {
	w := ruledWorld(t, newFakes(t), holding(day, 0))
	w.then(func() { w.publish(happens("e1", "file.changed", `1`)) })
	w.run(workflows.Input{})
	require.Empty(t, w.models, "a thread that is closed wakes nobody")
	require.True(t, w.has("e1"))
}
