package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// TestMain serves Temporal in the process that the part cost starts.
func TestMain(m *testing.M) {
	served, err := serveIfAsked(context.Background())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case !served:
		os.Exit(m.Run())
	}
}

// TestTinyRun runs all measurements on a small scale. Its counts are meaningful, its times are not.
func TestTinyRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	var out, progress strings.Builder
	err := run(t.Context(), []string{
		"-memory", "-threads", "1,3", "-turns", "2,6", "-rounds", "1", "-pairs", "1", "-old", "20", "-tokens", "3", "-json", file,
		"-burst-rate", "40", "-burst-seconds", "1", "-burst-connections", "8", "-burst-threads", "2",
	}, &out, &progress)
	require.NoError(t, err, progress.String())

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Throughput, 2*len(shapes)*2*2)
	for _, row := range r.Throughput {
		for _, side := range []sideRow{row.Mill, row.Bare} {
			require.Equal(t, 2*row.Threads, side.Turn.Count)
			require.Equal(t, row.Threads, side.First.Count)
			require.Positive(t, side.PerSecond.Median)
		}
		require.Equal(t, 1, row.Ratio.Count)
	}
	require.Len(t, r.Cost, len(costCases))
	for _, row := range r.Cost {
		for _, side := range []turnCost{row.Mill, row.Bare} {
			require.Positive(t, side.WorkerCPU)
			require.Positive(t, side.TemporalCPU)
			require.Positive(t, side.Objects)
			require.Positive(t, side.Bytes)
		}
		require.Zero(t, row.Bare.StoreCalls)
		require.GreaterOrEqual(t, row.Mill.StoreCalls, 2., "a step stores what it begins and its reply")
		require.GreaterOrEqual(t, row.Mill.Calls, 1., "an update")
		require.GreaterOrEqual(t, row.Bare.Calls, 1.)
	}
	require.Len(t, r.Aging, 2)
	for _, row := range r.Aging {
		require.Equal(t, window, row.New.Count)
		require.Equal(t, window, row.Aged.Count)
	}
	require.Len(t, r.Telemetry, 2*2)
	for _, row := range r.Telemetry {
		require.Equal(t, 1, row.Ratio.Count)
		require.Positive(t, row.Ratio.Median)
	}
	require.Equal(t, 3, r.FirstToken.Count)
	require.Positive(t, r.FirstToken.Time.Min)
	require.Equal(t, 40, r.Burst.Events)
	require.Equal(t, 1, r.Burst.Ratio.Count)
	require.GreaterOrEqual(t, r.Burst.Quiet.Count, 2)
	require.GreaterOrEqual(t, r.Burst.Beside.Count, 2)
	rows := 0
	for _, how := range []steps{asLocal, asActivities} {
		rows += strings.Count(out.String(), "\n| "+string(how)+" |")
	}
	require.Equal(t, 2*len(shapes)*2*2*2+len(costCases), rows, "a row for each case in both tables, and those of costs")
}

// TestTurns checks that each turn is stored, with its tool.
func TestTurns(t *testing.T) {
	o, err := parse([]string{"-memory"}, os.Stderr)
	require.NoError(t, err)
	w, err := newWorld(t.Context(), o, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.stop()) })
	m := &meter{Options: o, world: w, progress: os.Stderr}
	for _, s := range shapes {
		for _, by := range o.Ways {
			th := w.mill.thread(s, by).(*millThread)
			require.NoError(t, grow(t.Context(), th, 4))
			require.NoError(t, th.finish(t.Context()))
			require.Equal(t, 2, th.seen, "the viewer saw the turns after the first")

			records, err := w.store.Records(t.Context(), store.Key{Namespace: "default", ThreadID: th.id}, store.Query{Types: []string{event.TypeMessage}})
			require.NoError(t, err)
			want := 3 * 2
			if s.tool != "" {
				want = 3 * 4
			}
			require.Len(t, records, want)
			_, err = m.round(t.Context(), w.bare, s, by, 2, 4, "")
			require.NoError(t, err)
		}
	}
}

func TestSummarize(t *testing.T) {
	values := make([]float64, 0, 100)
	for i := 100; i >= 1; i-- {
		values = append(values, float64(i))
	}
	require.Equal(t, summary{Median: 50.5, Min: 1, Max: 100, P95: 95, Count: 100}, summarize(values))
	require.Equal(t, summary{Median: 7, Min: 7, Max: 7, P95: 7, Count: 1}, summarize([]float64{7}))
	require.Zero(t, summarize(nil))
}

func TestOptions(t *testing.T) {
	var usage strings.Builder
	for _, bad := range []struct{ args, want string }{
		{"-threads 1,2 -turns 5", "give one for each"},
		{"-threads 5 -turns 4", "less than one for each"},
		{"-shapes none", "-shapes"},
		{"-rounds 0", "-rounds"},
		{"-viewer=false -ways signal", "-viewer"},
		{"-threads x", "-threads"},
		{"-burst-rate 0", "-burst-rate"},
		{"-parts token -gate x", "-gate"},
		{"-update", "-update"},
		{"more", "unexpected argument"},
	} {
		_, err := parse(strings.Fields(bad.args), &usage)
		require.ErrorContains(t, err, bad.want, bad.args)
	}
	o, err := parse([]string{"-viewer=false"}, &usage)
	require.NoError(t, err)
	require.Equal(t, []way{byUpdate}, o.Ways)
}
