package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
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

// TestTinyRun runs all measurements on a small scale. Its counts are meaningful, its times are not. [TestTurns] has the other
// shapes.
func TestTinyRun(t *testing.T) {
	full := costCases
	t.Cleanup(func() { costCases = full })
	costCases = []costCase{full[0], full[len(full)-1]}
	for i := range costCases {
		costCases[i].threads = min(costCases[i].threads, 2)
		costCases[i].turns = costCases[i].threads
	}
	file := filepath.Join(t.TempDir(), "report.json")
	var out, progress strings.Builder
	err := run(t.Context(), []string{
		"-memory", "-shapes", "approval", "-ways", "signal,go,http", "-threads", "2", "-turns", "2", "-rounds", "1",
		"-pairs", "1", "-old", "20", "-tokens", "2", "-token-threads", "2", "-answers", "1", "-json", file,
		"-burst-rate", "20", "-burst-seconds", "1", "-burst-connections", "4", "-burst-threads", "1", "-flooded", "2",
	}, &out, &progress)
	require.NoError(t, err, progress.String())

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Throughput, 2*3)
	for _, row := range r.Throughput {
		for _, side := range []sideRow{row.Mill, row.Bare} {
			require.Equal(t, row.Threads, side.Turn.Count)
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
	require.Len(t, r.Telemetry, 2)
	for _, row := range r.Telemetry {
		require.Equal(t, 1, row.Ratio.Count)
		require.Positive(t, row.Ratio.Median)
	}
	streams := []string{oneProcess}
	url, err := testenv.FindNATS()
	require.NoError(t, err)
	if url != "" {
		streams = append(streams, acrossNATS)
	}
	require.Len(t, r.FirstToken, 2*len(streams))
	for i, row := range r.FirstToken {
		require.Equal(t, streams[i/2], row.Stream)
		require.Equal(t, i%2*2, row.Busy)
		require.Equal(t, 2, row.Time.Count)
		require.Positive(t, row.Time.Min)
		if row.Busy == 0 {
			require.Zero(t, row.Turns)
		} else {
			require.GreaterOrEqual(t, row.Turns, row.Busy, "each busy thread ends a turn")
		}
		require.Contains(t, out.String(), fmt.Sprintf("\n| %s | %d | %d | 2 |", row.Stream, row.Busy, row.Turns))
	}
	require.Len(t, r.Answers, 2*len(doors))
	for _, row := range r.Answers {
		require.Equal(t, 1, row.Time.Count)
		require.Positive(t, row.Time.Median)
		require.Contains(t, out.String(), fmt.Sprintf("\n| %s | %s | 1 |", row.Door, row.Steps))
	}
	require.Positive(t, r.Flood.Accepted)
	require.LessOrEqual(t, r.Flood.Accepted+r.Flood.Refused, r.Flood.Offered)
	require.Positive(t, r.Flood.Beside.Count)
	require.Equal(t, 20, r.Burst.Events)
	require.Equal(t, 1, r.Burst.Ratio.Count)
	require.Positive(t, r.Burst.Quiet.Count)
	require.Positive(t, r.Burst.Beside.Count)
	rows := 0
	for _, how := range []steps{asLocal, asActivities} {
		rows += strings.Count(out.String(), "\n| "+string(how)+" |")
	}
	require.Equal(t, 2*3*2+len(costCases), rows, "a row for each case in both tables, and those of costs")
}

// TestTurns checks that each turn is stored, with its tool and its decision, and what the bare loop is sent.
func TestTurns(t *testing.T) {
	o, err := parse([]string{"-memory", "-ways", "signal,go,update,http"}, os.Stderr)
	require.NoError(t, err)
	w, err := newWorld(t.Context(), o, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.stop()) })
	for _, s := range shapes {
		for _, by := range o.Ways {
			t.Run(s.name+" by "+string(by), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
				defer cancel()
				th := w.mill.thread(s, by).(*millThread)
				require.NoError(t, grow(ctx, th, 4))
				require.NoError(t, th.finish(ctx))
				switch {
				case by == byHTTP:
					require.Nil(t, th.view, "the client is the viewer")
				case s.asks:
					require.Equal(t, 3, th.seen, "the viewer sees each request")
				default:
					require.Equal(t, 2, th.seen, "the viewer saw the turns after the first")
				}
				want := map[string]int{event.TypeMessage: 3 * 2}
				if s.tool != "" {
					want[event.TypeMessage] = 3 * 4
				}
				if s.asks {
					want[event.TypeApproval] = 3
				}
				require.Equal(t, want, recorded(t, w.store, th.id))

				bare := w.bare.thread(s, by).(*bareThread)
				require.NoError(t, grow(ctx, bare, 4))
				require.Equal(t, sentToBare(s, by), received(t, w.temporal, bare.id))
			})
		}
	}
	t.Run("approvals need a viewer", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		unwatched := *w.mill
		unwatched.viewer = false
		th := unwatched.thread(shapeOf("approval"), byUpdate).(*millThread)
		require.NoError(t, grow(ctx, th, 3))
		require.Equal(t, map[string]int{event.TypeMessage: 2 * 4, event.TypeApproval: 2}, recorded(t, w.store, th.id))
	})
}

// countedStream counts what is published.
type countedStream struct {
	stream.Stream
	published atomic.Int64
}

func (s *countedStream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	s.published.Add(1)
	return s.Stream.Publish(ctx, key, e)
}

// TestStreamOfRuntime: tokens take the stream that a runtime is configured with.
func TestStreamOfRuntime(t *testing.T) {
	o, err := parse([]string{"-memory"}, os.Stderr)
	require.NoError(t, err)
	w, err := newWorld(t.Context(), o, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.stop()) })
	s := &countedStream{Stream: memory.New(memory.Config{})}
	w.onStop(s.Close)
	on, err := w.startThreadmill(t.Context(), o, newID("bench-counted"), threadmill.Config{Stream: s})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, on.thread(shapes[0], byHTTP).first(ctx))
	require.Positive(t, s.published.Load())
}

// recorded counts the messages and decisions of a thread, by type.
func recorded(t *testing.T, s store.Store, id string) map[string]int {
	t.Helper()
	records, err := s.Records(t.Context(), store.Key{Namespace: millNamespace, ThreadID: id}, store.Query{Types: []string{event.TypeMessage, event.TypeApproval}})
	require.NoError(t, err)
	out := map[string]int{}
	for _, r := range records {
		out[r.Type]++
	}
	return out
}

// sentToBare returns what three turns of the bare loop are: the first one is an update.
func sentToBare(s shape, by way) map[string]int {
	switch {
	case s.asks && by == bySignal:
		return map[string]int{bareAsk: 1, bareSignal: 2, bareDecide: 3}
	case s.asks:
		return map[string]int{bareAsk: 3, bareDecide: 3}
	case by == bySignal:
		return map[string]int{bareUpdate: 1, bareSignal: 2}
	}
	return map[string]int{bareUpdate: 3}
}

// received counts the signals and updates of a workflow, by name.
func received(t *testing.T, c client.Client, id string) map[string]int {
	t.Helper()
	out := map[string]int{}
	events := c.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		if s := e.GetWorkflowExecutionSignaledEventAttributes(); s != nil {
			out[s.SignalName]++
		}
		if u := e.GetWorkflowExecutionUpdateAcceptedEventAttributes(); u != nil {
			out[u.AcceptedRequest.Input.Name]++
		}
	}
	return out
}

// TestLongReplies: replies of turns over HTTP have as many tokens as those of the ratios that the report compares them with.
func TestLongReplies(t *testing.T) {
	for _, s := range append(slices.Clone(shapes), chatting) {
		for _, n := range []int{1, 500} {
			require.Len(t, strings.Split(reply(s.message(n, byHTTP)), " "), longReply)
			require.Less(t, len(strings.Split(reply(s.message(n, byUpdate)), " ")), 20)
		}
	}
}

// TestOtherRatios: the report has what was measured elsewhere beside turns that were made in the same way.
func TestOtherRatios(t *testing.T) {
	rounds := [2][]round{{spent(usage{})}, {spent(usage{})}}
	row := newThroughputRow(asLocal, shapeOf("tool"), byHTTP, 50, rounds)
	require.InDelta(t, 0.84, row.Restate, 1e-9)
	require.Zero(t, newThroughputRow(asActivities, shapeOf("tool"), byHTTP, 50, rounds).Restate)
	require.Zero(t, newThroughputRow(asLocal, shapeOf("tool"), byUpdate, 50, rounds).Restate)
	require.Zero(t, newThroughputRow(asLocal, shapeOf("approval"), byHTTP, 10, rounds).Restate)
	var out strings.Builder
	require.NoError(t, (&report{Throughput: []throughputRow{row}}).markdown(&out))
	require.Regexp(t, `\| local \| tool \| http \| 50 \| [^|]+ \| 0.84 \|`, out.String())
}

// TestChat: a request is repeated if the API asks for that, and a stream has to end as such.
func TestChat(t *testing.T) {
	responses := make(chan func(http.ResponseWriter), 2)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { (<-responses)(w) }))
	t.Cleanup(api.Close)
	th := (&mill{api: api.URL}).thread(shapes[0], byHTTP).(*millThread)
	refuse := func(retryAfter string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", retryAfter)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	stream := func(text, end string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for piece := range strings.SplitAfterSeq(text, " ") {
				fmt.Fprintf(w, "data: {\"type\":\"text-delta\",\"delta\":%q}\n\n", piece)
			}
			fmt.Fprint(w, end)
		}
	}
	responses <- refuse("1")
	responses <- stream(reply(shapes[0].message(1, byHTTP)), "data: [DONE]\n\n")
	require.NoError(t, th.turn(t.Context()))
	responses <- stream(reply(shapes[0].message(2, byHTTP)), "")
	require.ErrorIs(t, th.turn(t.Context()), io.EOF, "the stream broke off")
	responses <- stream("another reply", "data: [DONE]\n\n")
	require.ErrorContains(t, th.turn(t.Context()), "another reply")
	responses <- refuse("")
	require.ErrorContains(t, th.turn(t.Context()), "503")
}

func TestSummarize(t *testing.T) {
	values := make([]float64, 0, 100)
	for i := 100; i >= 1; i-- {
		values = append(values, float64(i))
	}
	require.Equal(t, summary{Median: 50.5, Min: 1, Max: 100, P95: 95, P99: 99, Count: 100}, summarize(values))
	require.Equal(t, summary{Median: 7, Min: 7, Max: 7, P95: 7, P99: 7, Count: 1}, summarize([]float64{7}))
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
		{"-token-threads 0", "-token-threads"},
		{"-ways post", "-ways"},
		{"-parts token -gate x", "-gate"},
		{"-update", "-update"},
		{"more", "unexpected argument"},
	} {
		_, err := parse(strings.Fields(bad.args), &usage)
		require.ErrorContains(t, err, bad.want, bad.args)
	}
	o, err := parse([]string{"-viewer=false", "-ways", "signal,update,http"}, &usage)
	require.NoError(t, err)
	require.Equal(t, []way{byUpdate, byHTTP}, o.Ways)
}
