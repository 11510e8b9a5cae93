package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// startedInScrub is a Temporal and a store: while the files are cleaned, a client starts the thread again.
type startedInScrub struct {
	teststore.Store
	activities.Histories
	starts  bool
	runs    []job.WorkflowRun
	deleted int
	scrubs  int
}

func (s *startedInScrub) Scrub(context.Context) error {
	s.scrubs++
	if s.starts {
		s.starts, s.runs = false, []job.WorkflowRun{{WorkflowID: "thread/ns/t1", RunID: "late"}}
	}
	return nil
}

func (s *startedInScrub) Stop(context.Context, string, string) error { return nil }

func (s *startedInScrub) Find(context.Context, string, string, []string, []string) (job.FoundWorkflows, error) {
	return job.FoundWorkflows{Runs: s.runs}, nil
}

func (s *startedInScrub) Delete(_ context.Context, runs []job.WorkflowRun) error {
	s.deleted, s.runs = s.deleted+len(runs), nil
	return nil
}

func (s *startedInScrub) Schedules(context.Context, string, ...string) (map[string][]string, error) {
	return nil, nil //nolint:nilnil // there are none
}

func (s *startedInScrub) DeleteSchedules(context.Context, string, []string) error { return nil }
func (s *startedInScrub) Erase(context.Context, job.EraseStep) error              { return nil }

func TestEraseFinishLooksLast(t *testing.T) {
	late := &startedInScrub{starts: true}
	w := newFixture(t, func(c *activities.Config) {
		late.Store = teststore.Of(c.Store)
		c.Store, c.Histories = late, late
	})
	in := job.EraseFinish{
		EraseStep: job.EraseStep{Namespace: "ns", ThreadID: "t1", By: "ann"},
		Progress:  job.EraseProgress{Threads: []string{"t1", "t1.s1"}, Erased: signals.ErasedCounts{Records: 7}},
	}
	_, err := w.env.ExecuteActivity(job.ActivityEraseFinish, in)
	require.ErrorContains(t, err, `"runs":1`, "the run that has started is found")
	require.Equal(t, 1, late.deleted)
	_, err = erasures.Load(t.Context(), w.store, "ns", "t1")
	require.ErrorIs(t, err, store.ErrNotFound, "there is no receipt yet")

	beyond := in
	beyond.Progress.Beyond = "t1.s2"
	_, err = w.env.ExecuteActivity(job.ActivityEraseFinish, beyond)
	require.ErrorContains(t, err, "erase thread t1.s2")
	_, err = erasures.Load(t.Context(), w.store, "ns", "t1")
	require.ErrorIs(t, err, store.ErrNotFound, "a part has no receipt")

	_, err = w.env.ExecuteActivity(job.ActivityEraseFinish, in)
	require.NoError(t, err)
	receipt, err := erasures.Load(t.Context(), w.store, "ns", "t1")
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "t1.s1"}, receipt.Threads)
	require.Equal(t, 7, receipt.Erased.Records)
	require.Zero(t, receipt.Left)
}

// TestFilesAreCleanedOnce: erasures that are part of a larger work leave the files to its end.
func TestFilesAreCleanedOnce(t *testing.T) {
	s := &startedInScrub{}
	w := newFixture(t, func(c *activities.Config) {
		s.Store = teststore.Of(c.Store)
		c.Store, c.Histories = s, s
	})
	for i, id := range []string{"t1", "t2"} {
		in := job.EraseFinish{
			EraseStep: job.EraseStep{Namespace: "ns", ThreadID: id, Part: true}, Progress: job.EraseProgress{Threads: []string{id}},
		}
		_, err := w.env.ExecuteActivity(job.ActivityEraseFinish, in)
		require.NoError(t, err, i)
	}
	require.Zero(t, s.scrubs)
	for erased, scrubs := range []int{0, 1} {
		_, err := w.env.ExecuteActivity(job.ActivityRetainDone, job.RetainStep{Namespace: "ns", Pass: signals.Retained{StartedAt: time.Unix(int64(erased), 0), Erased: erased}})
		require.NoError(t, err)
		require.Equal(t, scrubs, s.scrubs)
	}
}
