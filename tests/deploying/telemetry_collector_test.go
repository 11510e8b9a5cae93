package deploying

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/process"
)

// collector is the receiver of OpenTelemetry's collector.
type collector struct {
	*consumertest.TracesSink
	grpc, http string
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{&consumertest.TracesSink{}, process.FreeAddr(t), process.FreeAddr(t)}
	f := otlpreceiver.NewFactory()
	cfg := f.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.GRPC.GetOrInsertDefault().NetAddr.Endpoint = c.grpc
	cfg.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = c.http
	r, err := f.CreateTraces(t.Context(), receivertest.NewNopSettings(f.Type()), cfg, c)
	require.NoError(t, err)
	require.NoError(t, r.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	return c
}

// received is a span of a process.
type received struct {
	ptrace.Span
	service string
}

// trace returns the received spans of a trace.
func (c *collector) trace(id pcommon.TraceID) (out []received) {
	for _, batch := range c.AllTraces() {
		for _, of := range batch.ResourceSpans().All() {
			service, _ := of.Resource().Attributes().Get("service.name")
			for _, in := range of.ScopeSpans().All() {
				for _, s := range in.Spans().All() {
					if s.TraceID() == id {
						out = append(out, received{s, service.Str()})
					}
				}
			}
		}
	}
	return out
}

// row is a span in an outline.
type row struct {
	received
	depth int
}

// rows returns spans as an outline, in order of their times. It leaves out those that only begin what follows.
func rows(spans []received) (out []row) {
	known := map[pcommon.SpanID]bool{}
	for _, s := range spans {
		known[s.SpanID()] = true
	}
	children := map[pcommon.SpanID][]received{}
	for _, s := range spans {
		parent := s.ParentSpanID()
		if !known[parent] {
			parent = pcommon.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var add func(pcommon.SpanID, int)
	add = func(at pcommon.SpanID, depth int) {
		slices.SortFunc(children[at], func(a, b received) int {
			return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), strings.Compare(a.Name(), b.Name()))
		})
		for _, s := range children[at] {
			below := depth
			if !strings.HasPrefix(s.Name(), "Start") {
				out = append(out, row{s, depth})
				below++
			}
			add(s.SpanID(), below)
		}
	}
	add(pcommon.SpanID{}, 0)
	return out
}

func outline(spans []received) string {
	var out strings.Builder
	for _, r := range rows(spans) {
		fmt.Fprintf(&out, "%s%s (%s)\n", strings.Repeat("  ", r.depth), r.Name(), r.service)
	}
	return out.String()
}

var update = flag.Bool("update", false, "draw the picture of the documentation again")

const acrossProcesses = `POST /v1/threads (api)
  invoke_agent assistant (second)
    RunActivity:call_model (first)
      chat stand-in (first)
    invoke_agent helper (second)
      RunActivity:call_model (first)
        chat stand-in (first)
      approval shell_cmd (second)
      RunActivity:run_tool (second)
        execute_tool shell_cmd (second)
      RunActivity:call_model (second)
        chat stand-in (second)
    RunActivity:call_model (second)
      chat stand-in (second)
`

// TestTraceAcrossProcesses: the spans of an approval turn come from an API and from two workers, one of which ends while
// the turn waits, and the collector receives them as one tree.
func TestTraceAcrossProcesses(t *testing.T) {
	c, path, queue := collect(t), process.BuildWorker(t), testenv.Name("q")
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	config := `
models: {openai: {type: openai, baseURL: ` + provider.URL + `, apiKeyEnv: KEY}}
tools: {shell_cmd: {root: ` + t.TempDir() + `}}
agents:
  - {name: assistant, model: openai/stand-in, tools: [call_agent]}
  - {name: helper, model: openai/stand-in, tools: [shell_cmd], approvals: {shell_cmd: always}}
`
	shared := []string{"DATABASE_URL=" + harness.Database(t), "NATS_URL=" + testenv.NATS(t), "KEY=test"}
	start := func(name, role string, env ...string) *process.Devserver {
		p := process.NewWorker(t, process.Options{
			Binary: path, Config: config, Args: []string{"--roles", role, "--task-queue", queue, "--namespace", queue},
			Env: append(append(env, "OTEL_SERVICE_NAME="+name, "OTEL_BSP_SCHEDULE_DELAY=100"), shared...),
		}, harness.Temporal(t).Addr())
		p.Start()
		return p
	}
	overHTTP := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + c.http + "/v1/traces"
	overGRPC := []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + c.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	api := start("api", "api", overHTTP)
	first := start("first", "worker", overGRPC...)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL+"/v1/threads", strings.NewReader(
		fmt.Sprintf(`{"id":"t1","message":{"id":"e1","content":%q}}`, check.Uses("call_agent", "helper", []string{`use shell_cmd {"command":"true"}`}))))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", asking)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusCreated, res.StatusCode)
	call := api.AwaitApproval("t1").ToolCallID
	require.Zero(t, first.Terminate())
	start("second", "worker", overGRPC...)
	require.Equal(t, "accepted", api.Approve("t1", call))
	api.AwaitTurns("t1", 1)

	id := pcommon.TraceID(traceID(t, asking))
	require.Eventually(t, func() bool { return strings.Contains(outline(c.trace(id)), "invoke_agent assistant") }, testenv.Patience, testenv.Tick)
	require.Equal(t, acrossProcesses, outline(c.trace(id)))
	if *update {
		require.NoError(t, os.WriteFile("../../docs/images/trace.svg", []byte(picture(rows(c.trace(id)))), 0o600))
	}
}

// TestLostStepsAreCounted: a worker that takes over a step of one that was killed counts it as lost, and not only as retried.
func TestLostStepsAreCounted(t *testing.T) {
	path := process.BuildWorker(t)
	t.Run("by their heartbeats", func(t *testing.T) { lostStepsAreCounted(t, path, "12s") })
	t.Run("by recovery", func(t *testing.T) { lostStepsAreCounted(t, path, "1h", "--recovery-dir", t.TempDir()) })
}

func lostStepsAreCounted(t *testing.T, path, staleAfter string, args ...string) {
	queue, dir, metrics := testenv.Name("q"), t.TempDir(), process.FreeAddr(t)
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	options := process.Options{
		Binary: path, Args: append([]string{"--task-queue", queue, "--namespace", queue}, args...), Config: `
models: {openai: {type: openai, baseURL: ` + provider.URL + `, apiKeyEnv: KEY}}
tools: {shell_cmd: {root: ` + dir + `}}
agents: [{name: assistant, model: openai/stand-in, tools: [shell_cmd], approvals: {shell_cmd: never}}]
temporal: {staleAfter: ` + staleAfter + `}
`,
		Env: []string{"DATABASE_URL=" + harness.Database(t), "NATS_URL=" + testenv.NATS(t), "KEY=test"},
	}
	first := process.NewWorker(t, options, harness.Temporal(t).Addr())
	first.Start()
	first.Open("t1", `use shell_cmd {"command":"touch began; sleep 300"}`)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir + "/began")
		return err == nil
	}, testenv.Patience, testenv.Tick, "the tool runs")
	first.Kill()
	host, port, _ := strings.Cut(metrics, ":")
	options.Env = append(options.Env, "OTEL_METRICS_EXPORTER=prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST="+host, "OTEL_EXPORTER_PROMETHEUS_PORT="+port)
	second := process.NewWorker(t, options, harness.Temporal(t).Addr())
	second.Start()
	second.AwaitTurns("t1", 1)
	res, err := http.Get("http://" + metrics + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	for _, name := range []string{"threadmill_steps_lost_total", "threadmill_step_retries_total"} {
		require.Regexp(t, name+`\{[^}]*threadmill_step="run_tool"[^}]*\} [1-9]`, string(text))
	}
}
