package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// shortRuns makes threads continue as new often.
var shortRuns = map[string]any{"limit.historyCount.suggestContinueAsNew": 40}

// awaitCalls waits until a rule's function was called n times for a thread.
func awaitCalls(t *testing.T, l *ledger, thread string, n int) []handling {
	t.Helper()
	require.Eventually(t, func() bool { return len(l.calls(thread)) >= n }, testenv.Patience, testenv.Tick)
	return l.calls(thread)
}

// untilMoved publishes events to a thread until it has continued as new.
func untilMoved(t *testing.T, w *harness.Harness, thread, typ string) []event.EnvEvent {
	t.Helper()
	var events []event.EnvEvent
	for began, end := check.CurrentRun(w, thread), time.Now().Add(testenv.Patience); check.CurrentRun(w, thread) == began; {
		require.True(t, time.Now().Before(end), "it has not moved")
		e := check.Happened(typ, nil)
		// A slow machine loses the answer when the thread moves, and the client asks again.
		require.Contains(t, []string{signals.PostQueued, signals.PostDuplicate}, publish(w, thread, e))
		events = append(events, e)
	}
	return events
}

// heldIn are the events that rules hold back in a thread.
func heldIn(w *harness.Harness, thread string) []signals.HeldEvents {
	w.T.Helper()
	state, err := w.Threads.State(w.Ctx(), thread)
	require.NoError(w.T, err)
	return state.Held
}

// holdOf is the time of the rules: far longer than the machine, as busy as it is, needs to handle some events.
func holdOf(t *testing.T) time.Duration {
	t.Helper()
	l := newLedger()
	w := ruled(t, harness.Options{}, l.rule("sample", "sample.*"))
	thread, began := w.Open(), time.Now()
	rapid(w, thread, "sample.taken", 5)
	awaitCalls(t, l, thread, 5)
	return max(2*time.Second, 5*time.Since(began))
}

// TestRapidEvents covers debounce and throttle.
//
//ci:replayed only
func TestRapidEvents(t *testing.T) {
	t.Parallel()
	l, hold := newLedger(), holdOf(t)
	files, alerts, endless := wakes("files", "file.*", rule.Agent{Prompt: "Look at the file."}), l.rule("alerts", "alert.*"), l.rule("endless", "endless.*")
	files.Function, files.Debounce, alerts.Throttle, endless.Debounce = l.handle, hold, hold, hold/10
	w := ruled(t, harness.Options{}, files, alerts, endless)
	t.Run("S3-61 a debounce handles the last of those that come fast", func(t *testing.T) { eventsDebounced(t, w, l, hold) })
	t.Run("S3-61 a throttle handles the first, and the last that follows", func(t *testing.T) { eventsThrottled(t, w, l, hold) })
	t.Run("S3-61 a debounce has an end", func(t *testing.T) { debounceEnds(t, w, l) })
	t.Run("S3-61 each rule, and each thread, for itself", func(t *testing.T) { heldApart(t, w, l) })
	t.Run("a thread that is closed handles no more of them", func(t *testing.T) { heldClosed(t, w, l) })
}

// rapid publishes n events in quick succession.
func rapid(w *harness.Harness, thread, typ string, n int) []event.EnvEvent {
	w.T.Helper()
	events := make([]event.EnvEvent, n)
	for i := range events {
		events[i] = check.Happened(typ, map[string]int{"n": i})
		signalled(w, thread, events[i])
	}
	return events
}

func eventsDebounced(t *testing.T, w *harness.Harness, l *ledger, hold time.Duration) {
	thread := w.Open()
	events := rapid(w, thread, "file.changed", 5)
	first, last := events[0], events[4]
	require.Equal(t, signals.TurnHeld, check.Await(t, w, thread, first.ID).Status)
	check.Await(t, w, thread, events[3].ID)
	call := check.Only(t, awaitCalls(t, l, thread, 1))
	require.Equal(t, last.ID, call.event.ID)
	require.GreaterOrEqual(t, call.at.Sub(check.RecordOf(w, thread, last.ID).CreatedAt), hold)
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, last).Status)
	require.Len(t, published(w, thread), 5, "every one of them is stored, once")
	require.Empty(t, heldIn(w, thread))

	t.Run("its agent knows of the others", func(t *testing.T) {
		observed := harness.Payload[event.Message](w, check.RecordOf(w, thread, last.ID+".observed"))
		require.Len(t, observed.Parts, 4)
		require.Contains(t, observed.Parts[3].Text, "Held back before it: 4 events since ")
		require.Len(t, w.Messages(thread), 4, "and is woken once")
	})
	t.Run("what comes later is handled for itself", func(t *testing.T) {
		next := rapid(w, thread, "file.changed", 1)[0]
		require.Equal(t, next.ID, awaitCalls(t, l, thread, 2)[1].event.ID)
	})
}

func eventsThrottled(t *testing.T, w *harness.Harness, l *ledger, hold time.Duration) {
	thread := w.Open()
	events := rapid(w, thread, "alert.fired", 5)
	calls := awaitCalls(t, l, thread, 2)
	require.Equal(t, []string{events[0].ID, events[4].ID}, l.handled(thread))
	require.GreaterOrEqual(t, calls[1].at.Sub(check.RecordOf(w, thread, events[0].ID).CreatedAt), hold)
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, events[0]).Status)
	require.Equal(t, signals.TurnHeld, w.Await(thread, events[2].ID).Status)
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, events[4]).Status)

	t.Run("and then its time begins anew", func(t *testing.T) {
		for before := len(calls); ; before++ {
			next := check.Happened("alert.fired", nil)
			status := check.Handle(w, thread, next).Status
			if held := heldIn(w, thread); len(held) > 0 {
				require.Equal(t, signals.TurnHeld, status)
				require.Equal(t, next.ID, check.Only(t, held).EventID)
				require.Equal(t, next.ID, awaitCalls(t, l, thread, before+1)[before].event.ID)
				return
			}
			require.Less(t, before, 10, "the machine stalled again: the time was over before anybody looked")
		}
	})
}

func debounceEnds(t *testing.T, w *harness.Harness, l *ledger) {
	thread := w.Open()
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	sent := 0
	for len(l.calls(thread)) == 0 {
		signalled(w, thread, check.Happened("endless.noise", nil))
		sent++
		require.Less(t, sent, int(testenv.Patience/(20*time.Millisecond)))
		<-often.C
	}
	require.Greater(t, sent, 1)
}

func heldApart(t *testing.T, w *harness.Harness, l *ledger) {
	one, other := w.Open(), w.Open()
	file, alert := rapid(w, one, "file.changed", 2)[1], rapid(w, one, "alert.fired", 1)[0]
	alone := rapid(w, other, "file.changed", 1)[0]
	awaitCalls(t, l, one, 2)
	require.Equal(t, []string{alert.ID, file.ID}, l.handled(one))
	awaitCalls(t, l, other, 1)
	require.Equal(t, []string{alone.ID}, l.handled(other))
}

func heldClosed(t *testing.T, w *harness.Harness, l *ledger) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	require.Equal(t, signals.TurnHeld, check.Handle(w, thread, e).Status)
	check.Closed(t, w, thread)
	require.Equal(t, e.ID, check.Only(t, published(w, thread)).ID)
	require.Empty(t, l.calls(thread))
}

// TestRapidEventsLiveOn holds back events across continue-as-new and a restart of the worker.
//
//ci:replayed only
func TestRapidEventsLiveOn(t *testing.T) {
	t.Parallel()
	l, long := newLedger(), 2*holdOf(t)
	quiet, calm := l.rule("quiet", "quiet.*"), l.rule("calm", "calm.*")
	quiet.Debounce, calm.Throttle = long, long
	w := ruled(t, harness.Options{NoWorker: true, Dynamic: shortRuns}, quiet, calm)
	stop := w.StartWorker()
	thread := w.Open()

	first, last := check.Happened("calm.down", nil), check.Happened("calm.down", nil)
	check.Handle(w, thread, first)
	check.Handle(w, thread, last)
	quieted := untilMoved(t, w, thread, "quiet.please")
	held := quieted[len(quieted)-1]
	stop()
	w.StartWorker()

	t.Run("S3-61 what is held is handled in its time", func(t *testing.T) {
		calls := awaitCalls(t, l, thread, 3)
		require.Equal(t, []string{first.ID, last.ID, held.ID}, l.handled(thread))
		require.GreaterOrEqual(t, calls[1].at.Sub(check.RecordOf(w, thread, first.ID).CreatedAt), long)
		require.GreaterOrEqual(t, calls[2].at.Sub(check.RecordOf(w, thread, held.ID).CreatedAt), long)
		require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, held).Status)
		require.Len(t, published(w, thread), 2+len(quieted))
	})
	t.Run("S3-10 S3-A5 one that was held is a duplicate", func(t *testing.T) {
		for _, e := range quieted {
			require.Equal(t, signals.PostDuplicate, publish(w, thread, e))
		}
		require.Len(t, l.calls(thread), 3)
	})
}

// TestEventsLiveOn handles events across continue-as-new.
func TestEventsLiveOn(t *testing.T) {
	t.Parallel()
	l := newLedger()
	w := ruled(t, harness.Options{NoWorker: true, Dynamic: shortRuns, Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}, Configure: func(c *threadmill.Config) {
		c.StopTimeout = 10 * time.Millisecond
	}}, l.rule("queued", "queued.*"))
	stop := w.StartWorker()
	thread := w.Open()
	handled := check.Happened("queued.before", nil)
	check.Handle(w, thread, handled)
	asks := asking("file.changed", "use risky {}")
	publish(w, thread, asks)
	call := w.AwaitApproval(thread, 1)[0].ToolCallID
	var waiting []string
	for _, e := range untilMoved(t, w, thread, "queued.while") {
		waiting = append(waiting, e.ID)
	}
	stop()
	w.StartWorker()

	t.Run("S3-10 S3-A5 duplicates are known in the next run", func(t *testing.T) {
		require.Equal(t, signals.PostDuplicate, publish(w, thread, handled), "what was handled")
		require.Equal(t, signals.PostDuplicate, publish(w, thread, asks), "what is handled")
		again := handled
		again.ID = waiting[0]
		_, err := w.Threads.Publish(w.Ctx(), thread, again, threadclient.PublishOptions{})
		require.ErrorIs(t, err, signals.ErrConflict, "what waits, with another content")
	})
	t.Run("S3-12 events that come while a person is waited for are handled meanwhile, in order", func(t *testing.T) {
		awaitCalls(t, l, thread, 1+len(waiting))
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, thread, call))
		require.Equal(t, "risky returned: seen", awaitEvent(w, thread, asks).Message.Content)
		require.Equal(t, append([]string{handled.ID}, waiting...), l.handled(thread))
	})
	t.Run("S3-44 what the agent was told and asked is as in one run", func(t *testing.T) {
		calls := check.ModelsOf(w, "Observed event: file.changed")
		require.Len(t, calls, 2)
		require.Equal(t, calls[0].Messages, calls[1].Messages[:len(calls[0].Messages)])
		check.RequireSettled(t, w, thread)
	})
}
