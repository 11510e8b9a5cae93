package activities_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// TestRetainCloseWithoutWorkflow: the row of a thread whose workflow was terminated becomes closed, so that it is erased later.
func TestRetainCloseWithoutWorkflow(t *testing.T) {
	for name, gone := range map[string]error{"terminated": signals.ErrThreadClosed, "forgotten": signals.ErrThreadNotFound} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(c *activities.Config) {
				c.CloseIdle = func(context.Context, string) error { return fmt.Errorf("closing: %w", gone) }
			})
			_, err := w.store.Append(t.Context(), ref, store.Batch{Thread: &store.ThreadUpdate{Status: store.ThreadOpen, Agents: []string{"bob"}}})
			require.NoError(t, err)
			in := job.RetainClose{Namespace: ref.Namespace, ThreadID: ref.ThreadID, IdleThreads: time.Nanosecond}
			v, err := w.env.ExecuteActivity(job.ActivityRetainClose, in)
			require.NoError(t, err)
			var closed bool
			require.NoError(t, v.Get(&closed))
			require.True(t, closed)
			row, err := w.store.Thread(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, store.ThreadClosed, row.Status)

			for after, want := range map[time.Duration]bool{time.Nanosecond: true, time.Hour: false, 0: false} {
				v, err := w.env.ExecuteActivity(job.ActivityRetainCheck, job.RetainCheck{Namespace: ref.Namespace, ThreadID: ref.ThreadID, ClosedThreads: after})
				require.NoError(t, err)
				var due bool
				require.NoError(t, v.Get(&due))
				require.Equal(t, want, due, after)
			}
		})
	}
}

// TestRetainDoneOnce: an attempt that was lost after it had stored the receipt is not counted again.
func TestRetainDoneOnce(t *testing.T) {
	var passes []signals.Retained
	w := newFixture(t, func(c *activities.Config) {
		c.Retained = func(_ context.Context, pass signals.Retained) { passes = append(passes, pass) }
	})
	first := job.RetainStep{Namespace: ref.Namespace, Pass: signals.Retained{StartedAt: time.Unix(1, 0).UTC(), Erased: 3}}
	second := job.RetainStep{Namespace: ref.Namespace, Pass: signals.Retained{StartedAt: time.Unix(2, 0).UTC(), Closed: 1}}
	for _, in := range []job.RetainStep{first, first, second} {
		_, err := w.env.ExecuteActivity(job.ActivityRetainDone, in)
		require.NoError(t, err)
	}
	require.Len(t, passes, 2)
	require.Equal(t, 3, passes[0].Erased)
	require.Equal(t, 1, passes[1].Closed)
}
