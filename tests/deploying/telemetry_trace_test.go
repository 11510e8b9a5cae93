package deploying

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// traced returns a world whose spans are recorded. Its Temporal client is traced too.
func traced(t *testing.T, o harness.Options, configure func(*telemetry.Config)) (*harness.Harness, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithIDGenerator(telemetry.IDs{}))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	cfg := telemetry.Config{TracerProvider: provider}
	if configure != nil {
		configure(&cfg)
	}
	before := o.Configure
	o.Configure = func(c *threadmill.Config) {
		if before != nil {
			before(c)
		}
		temporal, err := client.NewClientFromExisting(c.Temporal, cfg.ClientOptions(client.Options{}))
		require.NoError(t, err)
		t.Cleanup(temporal.Close)
		c.Temporal, c.Telemetry = temporal, cfg
	}
	return harness.New(t, o), spans
}

// tree draws the spans of a trace as an outline, without those that time decides on. Siblings are in order of their
// names, as parallel ones have no other order.
func tree(t *testing.T, spans []sdktrace.ReadOnlySpan, id trace.TraceID) string {
	t.Helper()
	children := map[trace.SpanID][]sdktrace.ReadOnlySpan{}
	known := map[trace.SpanID]bool{}
	for _, s := range spans {
		if s.SpanContext().TraceID() == id {
			require.False(t, known[s.SpanContext().SpanID()], "span %q is there twice", s.Name())
			known[s.SpanContext().SpanID()] = true
		}
	}
	for _, s := range spans {
		if s.SpanContext().TraceID() != id {
			continue
		}
		parent := s.Parent().SpanID()
		if !known[parent] {
			require.False(t, parent.IsValid() && !s.Parent().IsRemote(), "the parent of %q is missing", s.Name())
			parent = trace.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var out strings.Builder
	var draw func(trace.SpanID, string)
	draw = func(at trace.SpanID, indent string) {
		below := children[at]
		slices.SortFunc(below, func(a, b sdktrace.ReadOnlySpan) int { return strings.Compare(a.Name(), b.Name()) })
		for i, s := range below {
			if harness.StickyOff() && i > 0 && s.Name() == "StartChildWorkflow:delegate" && below[i-1].Name() == s.Name() {
				continue // Temporal's interceptor starts it again when a query replays the thread
			}
			fmt.Fprintf(&out, "%s%s\n", indent, s.Name())
			draw(s.SpanContext().SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return out.String()
}

// request sends a request to the API in a trace.
func request(t *testing.T, w *harness.Harness, traceparent, method, path string, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+path, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Less(t, res.StatusCode, 300, path)
}

const (
	asking   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	deciding = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

func traceID(t *testing.T, traceparent string) trace.TraceID {
	t.Helper()
	id, err := trace.TraceIDFromHex(strings.Split(traceparent, "-")[1])
	require.NoError(t, err)
	return id
}

// ended waits until a span has ended.
func ended(t *testing.T, spans *tracetest.SpanRecorder, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
	}, testenv.Patience, testenv.Tick, "span %q", name)
}

// wholeTurn is the trace of a turn with an approved call of a sub-agent.
const wholeTurn = `POST /v1/threads/{id}/messages
  SignalWorkflow:post
    HandleSignal:post
  invoke_agent assistant
    StartActivity:call_model
      RunActivity:call_model
        chat stand-in
    StartActivity:call_model
      RunActivity:call_model
        chat stand-in
    StartChildWorkflow:delegate
    invoke_agent helper
      StartActivity:call_model
        RunActivity:call_model
          chat stand-in
      StartActivity:call_model
        RunActivity:call_model
          chat stand-in
      StartActivity:run_tool
        RunActivity:run_tool
          execute_tool shell_cmd
      approval shell_cmd
`

// TestTraceOfATurn: one trace contains the request, the turn, its sub-agent, models and tools, each once. The request
// that decides has a trace of its own.
//
//ci:replayed
func TestTraceOfATurn(t *testing.T) {
	t.Parallel()
	w, spans := traced(t, harness.Options{Agents: check.Team()}, nil)
	id := w.Open("assistant")
	request(t, w, asking, http.MethodPost, "/v1/threads/"+id+"/messages", map[string]any{"id": "e1", "sender": "ann", "content": check.Asks("helper", check.Touches(id))})
	call := w.AwaitApproval(id, 1)[0]
	request(t, w, deciding, http.MethodPost, "/v1/threads/"+id+"/approvals/"+call.ToolCallID, map[string]any{"decision": event.DecisionApprove, "by": "ann"})
	require.Equal(t, signals.TurnCompleted, w.Await(id, "e1").Status)
	ended(t, spans, "invoke_agent assistant")

	require.Equal(t, wholeTurn, tree(t, spans.Ended(), traceID(t, asking)))
	require.Contains(t, tree(t, spans.Ended(), traceID(t, deciding)), "POST /v1/threads/{id}/approvals/{toolCallId}\n  UpdateWorkflow:decide\n    HandleUpdate:decide\n")
	chat := attributes(named(t, spans, "chat stand-in")[0])
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "stand-in", "gen_ai.conversation.id": id,
		"gen_ai.agent.name": "assistant", "threadmill.event.id": "e1", "threadmill.namespace": w.TaskQueue, "gen_ai.response.finish_reasons": `["tool_calls"]`,
	} {
		require.Equal(t, want, chat[key], key)
	}
	require.NotEqual(t, "0", chat["gen_ai.usage.input_tokens"])
	tool := attributes(named(t, spans, "execute_tool shell_cmd")[0])
	require.Equal(t, call.ToolCallID, tool["gen_ai.tool.call.id"])
	require.Equal(t, "helper", tool["gen_ai.agent.name"])
	agent := named(t, spans, "invoke_agent assistant")[0]
	for _, s := range spans.Ended() {
		if s.Parent().SpanID() == agent.SpanContext().SpanID() {
			require.False(t, s.StartTime().Before(agent.StartTime().Add(-time.Second)), "%s began before the agent", s.Name())
		}
		for _, a := range s.Attributes() {
			require.NotContains(t, a.Value.String(), "echo made", "%s.%s has content", s.Name(), a.Key)
		}
	}
}

// TestTraceOfHooksAndTasks: what a turn starts in workflows of its own belongs to the turn's trace.
func TestTraceOfHooksAndTasks(t *testing.T) {
	t.Parallel()
	chore := check.NewSpy("chore", tool.Background())
	w, spans := traced(t, harness.Options{Tools: []tool.Tool{chore}, Configure: func(c *threadmill.Config) {
		c.Hooks = []hook.Hook{hook.OnMessage("guard", func(_ context.Context, m event.MessageEvent) (hook.Result, error) { return hook.Replace(m), nil })}
	}}, nil)
	id := w.Open()
	request(t, w, asking, http.MethodPost, "/v1/threads/"+id+"/messages", map[string]any{"id": "e1", "sender": "ann", "content": "use chore {}"})
	require.Equal(t, signals.TurnCompleted, w.Await(id, "e1").Status)
	for _, step := range []string{step.ActivityRunHooks, step.ActivityRunTask} {
		ended(t, spans, "RunActivity:"+step)
		s := named(t, spans, "RunActivity:"+step)[0]
		require.Equal(t, traceID(t, asking), s.SpanContext().TraceID(), step)
		got := attributes(s)
		require.Equal(t, id, got["gen_ai.conversation.id"])
		require.Equal(t, "e1", got["threadmill.event.id"])
	}
	require.Contains(t, tree(t, spans.Ended(), traceID(t, asking)), "      execute_tool chore\n")
}

// TestContentOnRequest: prompts, replies, arguments and results are recorded only with Content.
func TestContentOnRequest(t *testing.T) {
	t.Parallel()
	w, spans := traced(t, harness.Options{}, func(c *telemetry.Config) { c.Content = true })
	w.Say(w.Open(), `use note {"text":"a secret"}`)
	ended(t, spans, "invoke_agent assistant")
	tool := attributes(named(t, spans, "execute_tool note")[0])
	require.Contains(t, tool["gen_ai.tool.call.arguments"], "a secret")
	require.Contains(t, tool["gen_ai.tool.call.result"], "noted: a secret")
	chats := named(t, spans, "chat stand-in")
	require.Len(t, chats, 2)
	require.Contains(t, attributes(chats[0])["gen_ai.input.messages"], "a secret")
	require.Contains(t, attributes(chats[0])["gen_ai.output.messages"], "a secret")
	require.Contains(t, attributes(chats[1])["gen_ai.input.messages"], `{"role":"tool","parts":[{"type":"tool_call_response","id":"`)
}

// TestTraceIsOfATurn: each turn of a thread has the trace of its own request, also after the thread has continued as
// new in the middle of a turn, and a turn that nobody traces has its own.
func TestTraceIsOfATurn(t *testing.T) {
	t.Parallel()
	w, spans := traced(t, harness.Options{}, nil)
	id := "lives"
	request(t, w, asking, http.MethodPost, "/v1/threads", map[string]any{"id": id, "message": map[string]any{"id": "first", "content": "hello"}})
	require.Equal(t, signals.TurnCompleted, w.Await(id, "first").Status)
	const later = "01-2af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-of.a.later.version"
	request(t, w, later, http.MethodPost, "/v1/threads/"+id+"/messages", map[string]any{"id": "second", "content": "hello"})
	require.Equal(t, signals.TurnCompleted, w.Await(id, "second").Status)
	// A plain client knows nothing of traces.
	plain := signals.NewPost("third", event.NewMessage{ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"})
	require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalPost, plain))
	require.Eventually(t, func() bool { return len(named(t, spans, "invoke_agent assistant")) == 3 }, testenv.Patience, testenv.Tick)

	for _, traceparent := range []string{asking, later} {
		require.Equal(t, 1, strings.Count(tree(t, spans.Ended(), traceID(t, traceparent)), "chat stand-in"), traceparent)
	}
	untraced := named(t, spans, "invoke_agent assistant")[2]
	require.Equal(t, "third", attributes(untraced)["threadmill.event.id"])
	require.Equal(t, "invoke_agent assistant\n  StartActivity:call_model\n    RunActivity:call_model\n      chat stand-in\n", tree(t, spans.Ended(), untraced.SpanContext().TraceID()))
}

// TestIgnoreCallers: strangers cannot choose the trace of a turn.
func TestIgnoreCallers(t *testing.T) {
	t.Parallel()
	w, spans := traced(t, harness.Options{}, func(c *telemetry.Config) { c.IgnoreCallers = true })
	request(t, w, asking, http.MethodPost, "/v1/threads/"+w.Open()+"/messages?wait=true", map[string]any{"content": "hello"})
	ended(t, spans, "invoke_agent assistant")
	ended(t, spans, "POST /v1/threads/{id}/messages")
	require.Empty(t, tree(t, spans.Ended(), traceID(t, asking)))
	own := named(t, spans, "invoke_agent assistant")[0].SpanContext().TraceID()
	require.Contains(t, tree(t, spans.Ended(), own), "POST /v1/threads/{id}/messages\n")
}

// TestHistoryOfATracedTurn: tracing adds no events to the history of a thread, and few bytes.
func TestHistoryOfATracedTurn(t *testing.T) {
	t.Parallel()
	if harness.StickyOff() {
		t.Skip("histories are measured with the sticky cache, as workers run")
	}
	plain := harness.New(t, harness.Options{})
	w, _ := traced(t, harness.Options{}, nil)
	measure := func(w *harness.Harness) (types []string, bytes int) {
		id := w.Open()
		for {
			before, run := len(check.Settle(w, id)), check.CurrentRun(w, id)
			request(t, w, asking, http.MethodPost, "/v1/threads/"+id+"/messages?wait=true", map[string]any{"content": "use note {}"})
			added := check.Settle(w, id)[before:]
			if check.Stalled(added) || check.CurrentRun(w, id) != run {
				continue // the machine was too busy
			}
			for _, e := range added {
				types, bytes = append(types, e.GetEventType().String()), bytes+proto.Size(e)
			}
			return types, bytes
		}
	}
	want, without := measure(plain)
	got, with := measure(w)
	require.Equal(t, want, got)
	const steps = 4 // the request, two model calls and a tool
	require.Less(t, with-without, steps*250, "%d bytes, without traces %d", with, without)
}

// named returns the spans with a name, in order of their ends.
func named(t *testing.T, spans *tracetest.SpanRecorder, name string) (out []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, s := range spans.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}
