package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
)

// ruled is a world with one rule, "f", that has a function. step lets it handle an event from the
// thread.
func ruled(t *testing.T, f rule.Func, change ...func(*rule.Rule)) (w *fixture, input step.Event) {
	t.Helper()
	r := rule.Rule{Name: "f", Events: []string{"file.*"}, Priority: 20, Function: f}
	for _, c := range change {
		c(&r)
	}
	set, err := rule.NewSet(rule.Config{Rules: []rule.Rule{r}})
	require.NoError(t, err)
	w = newFixture(t, func(c *activities.Config) { c.Rules = set })
	spec := r.Spec()
	return w, step.Event{
		Thread: ref, TraceID: "trace", EventID: uuid, Rule: "f", Timeout: spec.Timeout, MaxAttempts: spec.MaxAttempts,
		Flush: step.Flush{Records: []event.Record{envRecord(changed())}},
	}
}

func (w *fixture) handle(in step.Event) error {
	_, err := w.env.ExecuteActivity(step.ActivityHandleEvent, in)
	return err
}

// requireEvent compares events: a store may format their JSON differently.
func requireEvent(t *testing.T, want, got event.EnvEvent, why ...any) {
	t.Helper()
	wanted, err := json.Marshal(want)
	require.NoError(t, err)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(wanted), string(raw), why...)
}

func TestRuleHandlesAnEvent(t *testing.T) {
	var got event.EnvEvent
	var about rule.Context
	var stored []string
	var w *fixture
	w, in := ruled(t, func(_ context.Context, c rule.Context, e event.EnvEvent) error {
		got, about, stored = e, c, w.ids()
		return nil
	})
	require.NoError(t, w.handle(in))
	requireEvent(t, changed(), got, "S3-22 the function has all of the event")
	require.Equal(t, rule.Context{Rule: "f", Namespace: "ns", ThreadID: "t1", TraceID: "trace", Attempt: 1}, about)
	require.Equal(t, []string{uuid}, stored, "S3-09 it is in the store before")
	in.Flush = step.Flush{}
	require.NoError(t, w.handle(in), "also when it was stored before")
	requireEvent(t, changed(), got)
}

// TestRuleHandlesWhatHooksHaveLeft: functions do not see content that hooks have removed.
func TestRuleHandlesWhatHooksHaveLeft(t *testing.T) {
	var got event.EnvEvent
	w, in := ruled(t, func(_ context.Context, _ rule.Context, e event.EnvEvent) error {
		got = e
		return nil
	})
	left := changed()
	left.Payload = json.RawMessage(`"[redacted]"`)
	in.Flush.Records = append(in.Flush.Records, event.NewRecord(recordid.Interception(uuid), event.TypeHook, "trace", uuid, time.Now(),
		event.Interception{EventID: uuid, EventType: left.Type, Outcome: event.OutcomeReplaced, Env: &left}))
	require.NoError(t, w.handle(in))
	requireEvent(t, left, got)
}

func TestRuleFails(t *testing.T) {
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	quickly := func(r *rule.Rule) { r.Timeout = time.Millisecond }
	for _, tc := range []struct {
		name   string
		f      rule.Func
		change func(*rule.Rule)
		want   string
	}{
		{"S3-24 it returns an error", func(context.Context, rule.Context, event.EnvEvent) error { return errors.New("disk full") }, nil, "disk full"},
		{"S3-24 it panics", func(context.Context, rule.Context, event.EnvEvent) error { panic("nil map") }, nil, "it panicked: nil map"},
		{
			"it takes too long", func(ctx context.Context, _ rule.Context, _ event.EnvEvent) error {
				<-ctx.Done()
				return ctx.Err()
			}, quickly, "it took longer than its limit of 1ms",
		},
		{
			"it takes too long, and does not listen", func(context.Context, rule.Context, event.EnvEvent) error {
				<-forever
				return nil
			}, quickly, "it took longer than its limit of 1ms",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := tc.change
			if change == nil {
				change = func(*rule.Rule) {}
			}
			w, in := ruled(t, tc.f, change)
			w.all.SetGrace(time.Millisecond)
			app := appError(t, w.handle(in))
			require.Equal(t, step.ErrTypeRule, app.Type())
			require.Equal(t, tc.want, app.Message())
			require.False(t, app.NonRetryable(), "it is tried again")
			require.Equal(t, []string{uuid}, w.ids(), "the event is not lost")

			in.MaxAttempts = 1
			app = appError(t, w.handle(in))
			require.Equal(t, tc.want, app.Message())
			require.True(t, app.NonRetryable())
		})
	}
}

// TestAttemptsOfARule: the record of the last attempt has their number.
func TestAttemptsOfARule(t *testing.T) {
	var attempts []int
	var keys []string
	w, in := ruled(t, func(_ context.Context, c rule.Context, e event.EnvEvent) error {
		attempts, keys = append(attempts, c.Attempt), append(keys, c.Key(e))
		return errors.New("disk full")
	})
	err := w.retried(step.ActivityHandleEvent, in)
	require.Equal(t, "disk full (gave up after 3 attempts)", appError(t, err).Message())
	require.Equal(t, []int{1, 2, 3}, attempts, "S3-24")
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys, "the key is the same each time")

	var runs atomic.Int32
	w, in = ruled(t, func(context.Context, rule.Context, event.EnvEvent) error {
		if runs.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	require.NoError(t, w.retried(step.ActivityHandleEvent, in))
	require.EqualValues(t, 3, runs.Load())
}

func TestRuleIsInterrupted(t *testing.T) {
	var w *fixture
	w, in := ruled(t, func(ctx context.Context, _ rule.Context, _ event.EnvEvent) error {
		w.interruptAs(ctx, "trace")
		return ctx.Err()
	}, func(r *rule.Rule) { r.MaxAttempts = 1 })
	app := appError(t, w.handle(in))
	require.Equal(t, step.ErrTypeRetry, app.Type(), "it has not failed")
	require.False(t, app.NonRetryable())
}

// TestRuleThatIsInterruptedTooLate: a finished attempt stands.
func TestRuleThatIsInterruptedTooLate(t *testing.T) {
	var w *fixture
	w, in := ruled(t, func(ctx context.Context, _ rule.Context, _ event.EnvEvent) error {
		w.interruptAs(ctx, "trace")
		return nil
	})
	require.NoError(t, w.handle(in))
}

func TestRuleThatIsNotThere(t *testing.T) {
	w, in := ruled(t, func(context.Context, rule.Context, event.EnvEvent) error { return nil })
	for _, name := range []string{"g", rule.NameFallback} {
		in.Rule, in.MaxAttempts = name, 1
		app := appError(t, w.handle(in))
		require.Equal(t, step.ErrTypeRule, app.Type())
		require.Equal(t, step.ErrUnregistered.Error(), app.Message())
	}
}

func TestEventThatIsNotThere(t *testing.T) {
	w, in := ruled(t, func(context.Context, rule.Context, event.EnvEvent) error { panic("there is nothing to handle") })
	in.Flush = step.Flush{}
	app := appError(t, w.handle(in))
	require.Equal(t, step.ErrTypeConfig, app.Type())
	require.True(t, app.NonRetryable())
	require.Equal(t, "environment event "+uuid+" is not in the store, or cannot be read", app.Message())
	in.EventID = "said"
	in.Flush = says("said", "hello")
	require.Equal(t, step.ErrTypeConfig, appError(t, w.handle(in)).Type(), "a message is no environment event")
}

// TestRuleWhenTheStoreIsAway: nothing was handled, and the step is retried for as long as
// necessary.
func TestRuleWhenTheStoreIsAway(t *testing.T) {
	w, in := ruled(t, func(context.Context, rule.Context, event.EnvEvent) error { panic("there is nothing to handle") })
	require.NoError(t, w.store.Close())
	in.MaxAttempts = 1
	app := appError(t, w.handle(in))
	require.Equal(t, step.ErrTypeRetry, app.Type())
	require.False(t, app.NonRetryable())
	in.Flush = step.Flush{}
	app = appError(t, w.handle(in))
	require.Equal(t, step.ErrTypeRetry, app.Type())
	require.False(t, app.NonRetryable())
}
