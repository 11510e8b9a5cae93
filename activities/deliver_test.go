package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

func TestDeliver(t *testing.T) {
	s := signals.Schedule{ThreadID: "t1", Message: &event.NewMessage{Content: "good morning"}}
	right, err := s.Delivery(signals.ScheduledRun{Namespace: "acme", ScheduleID: "daily", At: time.Unix(1700000000, 0).UTC()})
	require.NoError(t, err)

	var got []signals.Delivery
	deliver := func(t *testing.T, d signals.Delivery, answer error) (signals.PostResult, error) {
		t.Helper()
		got = nil
		w := newFixture(t, func(c *activities.Config) {
			c.Deliver = func(_ context.Context, d signals.Delivery) (signals.PostResult, error) {
				got = append(got, d)
				return signals.PostResult{EventID: d.Post.ID, Status: signals.PostQueued}, answer
			}
		})
		var out signals.PostResult
		v, err := w.env.ExecuteActivity(job.ActivityDeliver, d)
		if err == nil {
			require.NoError(t, v.Get(&out))
		}
		return out, err
	}
	t.Run("posts", func(t *testing.T) {
		out, err := deliver(t, right, nil)
		require.NoError(t, err)
		require.Equal(t, signals.PostResult{EventID: right.Post.ID, Status: signals.PostQueued}, out)
		require.Equal(t, []signals.Delivery{right}, got)
	})
	for name, c := range map[string]struct {
		err error
		typ string
	}{
		"a closed thread":  {fmt.Errorf("post to thread %q: %w", "t1", signals.ErrThreadClosed), signals.ClosedType},
		"no thread":        {fmt.Errorf("post to thread %q: %w", "t1", signals.ErrThreadNotFound), signals.NotFoundType},
		"a wrong agent id": {&event.FieldError{Field: "agents[0]", Problem: "is wrong"}, signals.RefusedType},
	} {
		t.Run(name+" ends it", func(t *testing.T) {
			_, err := deliver(t, right, c.err)
			app := appError(t, err)
			require.Equal(t, c.typ, app.Type())
			require.Contains(t, app.Message(), c.err.Error())
			require.True(t, app.NonRetryable())
		})
	}
	for name, err := range map[string]error{
		"an outage":     errors.New("connection refused"),
		"a full thread": fmt.Errorf("post to thread %q: %w: the queue is full", "t1", signals.ErrRefused),
	} {
		t.Run(name+" passes", func(t *testing.T) {
			_, err := deliver(t, right, err)
			require.False(t, appError(t, err).NonRetryable())
		})
	}
	t.Run("a post that is wrong is not tried", func(t *testing.T) {
		wrong := right
		wrong.Post.Payload = []byte(`{}`)
		_, err := deliver(t, wrong, nil)
		app := appError(t, err)
		require.Equal(t, signals.RefusedType, app.Type())
		require.True(t, app.NonRetryable())
		require.Empty(t, got)
	})
	t.Run("a worker that is not made for it says so", func(t *testing.T) {
		_, err := newFixture(t, nil).env.ExecuteActivity(job.ActivityDeliver, right)
		app := appError(t, err)
		require.Equal(t, step.ErrTypeConfig, app.Type())
		require.Contains(t, app.Message(), "activities.Config.Deliver is not set")
	})
}
