package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// publish publishes an event to a thread, and returns the result of its turn.
func publish(w *harness.Harness, thread string, e event.EnvEvent) string {
	w.T.Helper()
	out, err := w.Threads.Publish(w.Ctx(), thread, e, threadclient.PublishOptions{})
	require.NoError(w.T, err)
	return out.Status
}

// awaitEvent waits until everything that follows from a published event is stored.
func awaitEvent(w *harness.Harness, thread string, e event.EnvEvent) signals.TurnResult {
	w.T.Helper()
	return check.Wholly(w, thread, w.Await(thread, e.ID))
}

// TestEventQueue: events are handled one at a time.
//
//ci:replayed
func TestEventQueue(t *testing.T) {
	t.Parallel()
	l := newLedger()
	w := ruled(t, harness.Options{}, l.rule("files", "file.*"), l.rule("fence", "fence"))
	t.Run("S3-09 S3-10 S3-12 S3-22 S3-queue_prevents_concurrent one is handled, others wait", func(t *testing.T) { eventsWait(t, w, l) })
	t.Run("S3-11 S3-12 S3-A4 S3-A5 S3-queue_processing many at once, each once and in order", func(t *testing.T) { eventsAtOnce(t, w, l) })
	t.Run("S3-12 threads do not wait for each other", func(t *testing.T) { eventsElsewhere(t, w, l) })
	t.Run("priority comes before order", func(t *testing.T) { eventsByPriority(t, w, l) })
	t.Run("one whose time is over is never handled", func(t *testing.T) { eventsExpire(t, w, l) })
	t.Run("an interrupt ends its handling", func(t *testing.T) { eventInterrupted(t, w, l) })
}

func eventsWait(t *testing.T, w *harness.Harness, l *ledger) {
	thread, first, second := w.Open(), check.Happened("file.changed", 1), check.Happened("file.changed", 2)
	halt := l.halts(first.ID)
	require.Equal(t, signals.PostQueued, publish(w, thread, first))
	<-halt.Reached
	require.Equal(t, signals.PostQueued, publish(w, thread, second))
	require.Equal(t, signals.PostDuplicate, publish(w, thread, second), "it waits already")
	require.Equal(t, signals.PostDuplicate, publish(w, thread, first), "it is being handled")
	queue, err := w.Threads.Queue(w.Ctx(), thread)
	require.NoError(t, err)
	require.Equal(t, first.ID, queue.Processing.ID, "its turn lasts until the function has returned")
	waits := check.Only(t, queue.Items)
	require.Equal(t, second.ID, waits.ID)
	require.Equal(t, event.ItemPending, waits.Status)
	require.Equal(t, []string{first.ID}, l.handled(thread))

	halt.Release()
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, second).Status)
	require.Equal(t, signals.TurnCompleted, w.Await(thread, first.ID).Status)
	require.Equal(t, signals.PostDuplicate, publish(w, thread, first), "it has been handled")
	fence(w, thread)
	require.Equal(t, []string{first.ID, second.ID}, l.handled(thread)[:2])
	require.Len(t, l.handled(thread), 3)
	require.Len(t, published(w, thread), 3)
}

func eventsAtOnce(t *testing.T, w *harness.Harness, l *ledger) {
	const publishers, each = 5, 20
	thread := w.Open()
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				e := check.Happened("file.changed", i, func(e *event.EnvEvent) { e.ID = fmt.Sprintf("p%d-%d", p, i) })
				for range 2 { // the second is a duplicate
					err := w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalPost, e)
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
	fence(w, thread)
	next, stored := make([]int, publishers), []string{}
	for _, e := range published(w, thread) {
		stored = append(stored, e.ID)
		var p, i int
		if n, _ := fmt.Sscanf(e.ID, "p%d-%d", &p, &i); n == 2 {
			require.Equal(t, next[p], i, "each publisher's in its order")
			next[p]++
		}
	}
	require.Len(t, stored, publishers*each+1)
	require.Equal(t, stored, l.handled(thread), "handled in the order in which they are stored")
	require.Equal(t, 1, l.together(thread))
}

func eventsElsewhere(t *testing.T, w *harness.Harness, l *ledger) {
	busy, other, slow := w.Open(), w.Open(), check.Happened("file.changed", nil)
	halt := l.halts(slow.ID)
	publish(w, busy, slow)
	<-halt.Reached
	require.Equal(t, signals.TurnCompleted, check.Handle(w, other, check.Happened("file.changed", nil)).Status)
	require.Len(t, l.handled(busy), 1)
	halt.Release()
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, busy, slow).Status)
}

func eventsByPriority(t *testing.T, w *harness.Harness, l *ledger) {
	thread, first := w.Open(), check.Happened("file.changed", nil)
	halt := l.halts(first.ID)
	publish(w, thread, first)
	<-halt.Reached
	low, high := signals.EnvPost(check.Happened("file.changed", nil)), signals.EnvPost(check.Happened("file.changed", nil))
	high.Priority = 5
	for _, p := range []signals.Post{low, high} {
		_, err := w.Threads.Post(w.Ctx(), thread, p)
		require.NoError(t, err)
	}
	// What arrives with the end of the handling may come after the next event that begins.
	require.Eventually(t, func() bool {
		queue, err := w.Threads.Queue(w.Ctx(), thread)
		return err == nil && len(queue.Items) == 2
	}, testenv.Patience, testenv.Tick)
	halt.Release()
	check.Wholly(w, thread, w.Await(thread, low.ID))
	require.Equal(t, []string{first.ID, high.ID, low.ID}, l.handled(thread))
}

func eventsExpire(t *testing.T, w *harness.Harness, l *ledger) {
	thread, first := w.Open(), check.Happened("file.changed", nil)
	halt := l.halts(first.ID)
	publish(w, thread, first)
	<-halt.Reached
	short, last := signals.EnvPost(check.Happened("file.changed", nil)), signals.EnvPost(check.Happened("file.changed", nil))
	short.TTL = 1
	for _, p := range []signals.Post{short, last} {
		_, err := w.Threads.Post(w.Ctx(), thread, p)
		require.NoError(t, err)
	}
	// Before the handling ends: the clock of a workflow stands still within a task, in which all of this may happen.
	require.Equal(t, signals.TurnExpired, w.Await(thread, short.ID).Status)
	halt.Release()
	check.Wholly(w, thread, w.Await(thread, last.ID))
	require.Equal(t, []string{first.ID, last.ID}, l.handled(thread))
	require.Equal(t, string(event.ItemExpired), harness.Payload[event.StatusChange](w, check.RecordOf(w, thread, short.ID+".expired")).Status)
	require.Len(t, published(w, thread), 2)
}

func eventInterrupted(t *testing.T, w *harness.Harness, l *ledger) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	halt := l.halts(e.ID)
	publish(w, thread, e)
	<-halt.Reached
	require.NoError(t, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "enough"}))
	out := awaitEvent(w, thread, e)
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Equal(t, "enough", out.Error)
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, check.Happened("file.changed", nil)).Status)
	require.Len(t, l.calls(thread), 2)
}

// TestEventFails: a failing function does not stop a thread.
func TestEventFails(t *testing.T) {
	t.Parallel()
	l, log := newLedger(), &check.Logbook{}
	once, twice, both := l.rule("once", "once.*"), l.rule("twice", "twice.*"), wakes("both", "both.*", rule.Agent{})
	once.MaxAttempts, twice.MaxAttempts, both.MaxAttempts, both.Function = 1, 2, 1, l.handle
	w := ruled(t, harness.Options{Configure: func(c *threadmill.Config) { log.Keep(t, c) }}, once, twice, both)
	fail := func(context.Context, rule.Context, event.EnvEvent) error { return errors.New("the disk is full") }
	for name, act := range map[string]rule.Func{
		"the disk is full":        fail,
		"it panicked: at the end": func(context.Context, rule.Context, event.EnvEvent) error { panic("at the end") },
	} {
		t.Run("S3-24 S3-A6 X2 "+name, func(t *testing.T) {
			thread, bad, good := w.Open(), check.Happened("once.bad", nil), check.Happened("once.good", nil)
			l.on(bad.ID, act)
			publish(w, thread, bad)
			publish(w, thread, good)
			require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, good).Status, "what follows is handled")
			out := w.Await(thread, bad.ID)
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "the function of rule once failed: "+name)
			require.Equal(t, out.Error, check.FailedEvent(w, thread, bad.ID).Error)
			require.Equal(t, event.Failure{EventID: bad.ID, Error: out.Error, Retryable: true},
				harness.Payload[event.Failure](w, check.RecordOf(w, thread, bad.ID+".error")))
			line := check.Only(t, slices.DeleteFunc(log.Lines(bad.ID), func(line string) bool { return !strings.Contains(line, `"level":"ERROR","msg":"rule failed"`) }))
			require.Contains(t, line, name)

			t.Run("it can be retried", func(t *testing.T) {
				l.on(bad.ID, nil)
				_, err := w.Threads.Retry(w.Ctx(), thread, bad.ID, "ann")
				require.NoError(t, err)
				require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, bad).Status)
				require.Equal(t, []string{bad.ID, good.ID, bad.ID}, l.handled(thread))
				require.Len(t, published(w, thread), 2, "it is the same event")
			})
		})
	}
	t.Run("S3-24 it is tried again with the same key", func(t *testing.T) {
		thread, e := w.Open(), check.Happened("twice.bad", nil)
		l.on(e.ID, fail)
		out := check.Handle(w, thread, e)
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "the disk is full (gave up after 2 attempts)")
		calls := l.calls(thread)
		require.Len(t, calls, 2)
		for i, c := range calls {
			require.Equal(t, rule.Context{Rule: "twice", Namespace: w.TaskQueue, ThreadID: thread, TraceID: e.ID, Attempt: i + 1}, c.Context)
			require.Equal(t, strings.Join([]string{w.TaskQueue, thread, e.ID, "twice"}, "/"), c.Key(e))
		}
	})
	t.Run("S3-14 S3-24 an agent behind a function is woken when that succeeds", func(t *testing.T) {
		thread, e := w.Open(), check.Happened("both.bad", nil)
		l.on(e.ID, fail)
		require.Equal(t, signals.TurnFailed, check.Handle(w, thread, e).Status)
		require.Empty(t, w.Messages(thread))
		l.on(e.ID, nil)
		_, err := w.Threads.Retry(w.Ctx(), thread, e.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, "Process event: both.bad", awaitEvent(w, thread, e).Message.Content)
	})
	t.Run("S3-24 it has succeeded at last", func(t *testing.T) {
		thread, e := w.Open(), check.Happened("twice.bad", nil)
		l.on(e.ID, func(_ context.Context, c rule.Context, e event.EnvEvent) error {
			if c.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		})
		require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
		require.Len(t, l.calls(thread), 2)
	})
}

// TestEventUnmatched: no rule matches the event.
func TestEventUnmatched(t *testing.T) {
	t.Parallel()
	l, log := newLedger(), &check.Logbook{}
	w := ruled(t, harness.Options{Configure: func(c *threadmill.Config) { log.Keep(t, c) }},
		l.rule("fence", "fence"), rule.Rule{Name: rule.NameFallback, Events: []string{"*"}, Disabled: true})
	t.Run("S3-13 S3-A3 S3-publish_unknown_type a warning, and no error", func(t *testing.T) {
		thread, e := w.Open(), check.Happened("moon.rises", 1)
		out := check.Handle(w, thread, e)
		require.Equal(t, signals.TurnUnanswered, out.Status)
		require.Empty(t, out.Error)
		require.Contains(t, check.Only(t, log.Lines("No rule matched for event: moon.rises")), `"level":"WARN"`)
		require.Equal(t, event.StatusChange{Status: event.StatusUnmatched, Detail: "No rule matched for event: moon.rises"},
			harness.Payload[event.StatusChange](w, check.RecordOf(w, thread, e.ID+".unmatched")))
		require.Equal(t, e.Payload, check.Only(t, published(w, thread)).Payload, "it is stored")
		require.Empty(t, check.OfType(w, thread, event.TypeError))
		require.Zero(t, w.Provider.Calls())
		fence(w, thread)
		require.Len(t, l.handled(thread), 1, "and the thread goes on")
	})
	t.Run("S3-A3 one that is no event changes nothing", func(t *testing.T) {
		thread := w.Open()
		signalled(w, thread, map[string]any{"id": "x", "type": "moon.rises", "timestamp": "late", "metadata": map[string]any{}})
		fence(w, thread)
		require.Len(t, published(w, thread), 1)
		require.Equal(t, signals.SignalPost, harness.Payload[event.Rejected](w, check.Only(t, check.OfType(w, thread, event.TypeRejected))).Signal)
	})
}
