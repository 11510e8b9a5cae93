package deploying

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/observe"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// meters reads the metrics of a world.
type meters struct{ *sdkmetric.ManualReader }

// measured returns a world whose spans and metrics are recorded.
func measured(t *testing.T, o harness.Options, configure func(*telemetry.Config)) (*harness.Harness, *tracetest.SpanRecorder, meters) {
	t.Helper()
	m := meters{sdkmetric.NewManualReader()}
	w, spans := traced(t, o, func(c *telemetry.Config) {
		c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(m))
		if configure != nil {
			configure(c)
		}
	})
	return w, spans, m
}

// points returns the values of a metric, by the value of an attribute: of a histogram the number of its values.
func (m meters) points(t *testing.T, name, attr string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.Collect(t.Context(), &all))
	out := map[string]int64{}
	add := func(set attribute.Set, n int64) {
		v, _ := set.Value(attribute.Key(attr))
		out[v.String()] += n
	}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			if found.Name != name {
				continue
			}
			switch data := found.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Count))
				}
			default:
				require.Fail(t, "the metric has another form", "%s: %T", name, found.Data)
			}
		}
	}
	return out
}

// blocking returns a tool that reports its calls, which run until release is called.
func blocking(t *testing.T) (blocks tool.Tool, running <-chan struct{}, release func()) {
	t.Helper()
	reached, open := make(chan struct{}, 10), make(chan struct{})
	blocks = tool.MustFunc("block", "Blocks.", func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
		reached <- struct{}{}
		select {
		case <-open:
			return "released", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	release = func() { close(open) }
	return blocks, reached, release
}

// TestDecisionsOnParkedTurns: a decision on a call of a parked turn is measured once, with its outcome, also when the
// thread continues as new before the turn continues.
//
//ci:replayed
func TestDecisionsOnParkedTurns(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"in one run": false, "across continue-as-new": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks, running, release := blocking(t)
			o := harness.Options{Tools: []tool.Tool{blocks}}
			if moves {
				o.Dynamic = check.MovesOften
			}
			w, spans, m := measured(t, o, nil)
			id := w.Open()
			turns := []string{w.Post(id, `use shell_cmd {"command":"true"}`)}
			w.AwaitApproval(id, 1)
			turns = append(turns, w.Post(id, `use shell_cmd {"command":"false"}`))
			requests := w.AwaitApproval(id, 2)
			turns = append(turns, w.Post(id, "use block {}"))
			<-running
			for _, d := range []signals.Decide{
				{ToolCallID: requests[0].ToolCallID, Decision: event.DecisionApprove, By: "ann"}, {ToolCallID: requests[1].ToolCallID, Decision: event.DecisionDeny, By: "ann"},
			} {
				out, err := w.Threads.Decide(w.Ctx(), id, d)
				require.NoError(t, check.Unrefused(err))
				require.Equal(t, signals.DecideAccepted, out.Result)
			}
			require.Empty(t, m.points(t, observe.MetricApprovalWait, observe.AttrOutcome), "the turns are parked")
			run := check.CurrentRun(w, id)
			if moves {
				// The history outgrows its limit while the step runs, so the thread moves before it continues the turns.
				for i := range 30 {
					post := check.Message(id, fmt.Sprint("later", i), "hello")
					_, err := w.Threads.Post(w.Ctx(), id, post)
					require.NoError(t, err)
				}
			}
			released := time.Now()
			release()
			for _, turn := range turns {
				require.Equal(t, signals.TurnCompleted, w.Await(id, turn).Status)
			}
			if moves {
				require.NotEqual(t, run, check.CurrentRun(w, id))
			}
			require.Equal(t, map[string]int64{"approve": 1, "deny": 1}, m.points(t, observe.MetricApprovalWait, observe.AttrOutcome))
			require.Eventually(t, func() bool { return len(named(t, spans, "approval shell_cmd")) == 2 }, testenv.Patience, testenv.Tick)
			for _, s := range named(t, spans, "approval shell_cmd") {
				require.True(t, s.Parent().IsValid(), "it is a part of its agent's run")
				require.True(t, s.EndTime().Before(released), "the wait ends with the decision, not with the turn")
			}
		})
	}
}

// TestCountedApprovals: the gauge counts the requests of all threads, and that of a sub-agent once.
func TestCountedApprovals(t *testing.T) {
	t.Parallel()
	w, _, m := measured(t, harness.Options{Agents: check.Team()}, func(c *telemetry.Config) { c.CountWaiting = telemetry.MinCountWaiting })
	counted := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return m.points(t, observe.MetricApprovals, "")[""] == n }, testenv.Patience, testenv.Tick)
	}
	asked, own := w.Open("assistant"), w.Open("helper")
	w.Post(asked, check.Asks("helper", check.Touches(asked)))
	w.AwaitApproval(asked, 1)
	counted(1)
	turn := w.Post(own, check.Touches(own))
	request := w.AwaitApproval(own, 1)[0]
	counted(2)
	_, err := w.Threads.Decide(w.Ctx(), own, signals.Decide{ToolCallID: request.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, w.Await(own, turn).Status)
	counted(1)
}

// TestQueriesCountNothing: queries that replay a thread from its history while its turns run record no turn, run or
// decision again.
func TestQueriesCountNothing(t *testing.T) {
	// The cache belongs to the process: no other test must run.
	w, spans, m := measured(t, harness.Options{}, nil)
	id := w.Open()
	stop := make(chan struct{})
	var queries sync.WaitGroup
	for range 4 {
		queries.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				worker.PurgeStickyWorkflowCache()
				// While the thread moves, a query may find it unavailable.
				_, _ = w.Threads.State(w.Ctx(), id)
			}
		})
	}
	const turns = 20
	for range turns {
		turn := w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0]
		_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, w.Await(id, turn).Status)
	}
	close(stop)
	queries.Wait()
	check.AwaitRest(w, id)
	for _, name := range []string{observe.MetricTurns, observe.MetricTurnDuration, observe.MetricQueueTime, observe.MetricApprovalWait} {
		var n int64
		for _, of := range m.points(t, name, "") {
			n += of
		}
		require.EqualValues(t, turns, n, name)
	}
	for _, name := range []string{"invoke_agent assistant", "approval shell_cmd"} {
		require.Len(t, named(t, spans, name), turns)
	}
}

// TestStreamsAreKeptApart: requests whose response is an event stream have a label of their own, as they last as long as
// a turn, and rejected ones do not.
func TestStreamsAreKeptApart(t *testing.T) {
	t.Parallel()
	w, _, m := measured(t, harness.Options{}, nil)
	post := func(path, body string) int {
		req, err := http.NewRequestWithContext(w.Ctx(), http.MethodPost, w.API.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		return res.StatusCode
	}
	const chat = `{"id":"chats","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"hello"}]}]}`
	for _, one := range []struct {
		path, body string
		status     int
	}{
		{"/v1/chat", chat, http.StatusOK},
		{"/v1/ag-ui", `{"threadId":"runs","runId":"r1","messages":[{"id":"m1","role":"user","content":"hello"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`, http.StatusOK},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, http.StatusOK},
		{"/v1/threads", `{"id":"opened"}`, http.StatusCreated},
		{"/v1/chat", "{}", http.StatusUnprocessableEntity},
	} {
		require.Equal(t, one.status, post(one.path, one.body), one.path)
	}
	require.Eventually(t, func() bool {
		got := m.points(t, "http.server.request.duration", observe.AttrStream)
		return got["true"] == 3 && got["false"] == 2
	}, testenv.Patience, testenv.Tick, "%v", m.points(t, "http.server.request.duration", observe.AttrStream))
}
