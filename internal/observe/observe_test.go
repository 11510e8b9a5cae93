package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tool"
)

// TestOff: without a provider, nothing is decorated.
func TestOff(t *testing.T) {
	o, err := New(telemetry.Config{Content: true}, nil)
	require.NoError(t, err)
	require.Nil(t, o)
	s := memory.New(memory.Config{})
	require.Same(t, s, o.Stream(s))
	require.Nil(t, o.Store(nil))
	require.Nil(t, o.WorkerInterceptors())
	models := map[string]llm.Provider{"a": &provider{}}
	require.Equal(t, models, o.Models(models))
	mux := http.NewServeMux()
	require.Same(t, mux, o.HTTP(mux, nil))
	require.NoError(t, o.Retrieval(t.Context(), func(context.Context) error { return nil }))
}

type provider struct {
	res llm.Response
	err error
}

func (p *provider) Generate(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if onDelta != nil {
		onDelta(llm.Delta{Text: "hi"})
	}
	return p.res, p.err
}

type embedder struct{ provider }

func (*embedder) Embed(context.Context, llm.EmbedRequest) (llm.Embeddings, error) {
	return llm.Embeddings{Tokens: 7}, nil
}

type reranker struct{ provider }

func (*reranker) Rerank(context.Context, llm.RerankRequest) (llm.Ranking, error) {
	return llm.Ranking{}, nil
}

type both struct {
	embedder
	reranker
}

func (b *both) Generate(ctx context.Context, r llm.Request, f func(llm.Delta)) (llm.Response, error) {
	return b.embedder.Generate(ctx, r, f)
}

type recorded struct {
	*Observer
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
}

func record(t *testing.T) recorded {
	t.Helper()
	r := recorded{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	var err error
	r.Observer, err = New(telemetry.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)),
	}, nil)
	require.NoError(t, err)
	return r
}

// sum returns the sum of a counter, or the number of values of a histogram, over points with an attribute.
func (r recorded) sum(t *testing.T, name string, with attribute.KeyValue) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &all))
	has := func(set attribute.Set) bool {
		v, ok := set.Value(with.Key)
		return !with.Valid() || ok && v == with.Value
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if has(p.Attributes) {
						n += p.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if has(p.Attributes) {
						n += int64(p.Count)
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					n += int64(p.Value)
				}
			default:
				require.Fail(t, "no counter, histogram or gauge", name)
			}
		}
	}
	return n
}

// TestModelsKeepTheirAbilities: a decorated provider embeds and reranks if it did before, and not otherwise.
func TestModelsKeepTheirAbilities(t *testing.T) {
	r := record(t)
	for _, p := range []llm.Provider{&provider{}, &embedder{}, &reranker{}, &both{}} {
		out := r.Models(map[string]llm.Provider{"p": p})["p"]
		_, embeds := p.(llm.Embedder)
		_, stillEmbeds := out.(llm.Embedder)
		require.Equal(t, embeds, stillEmbeds, "%T", p)
		_, reranks := p.(llm.Reranker)
		_, stillReranks := out.(llm.Reranker)
		require.Equal(t, reranks, stillReranks, "%T", p)
	}
}

func TestModelCall(t *testing.T) {
	r := record(t)
	good := &embedder{provider{res: llm.Response{Model: "m-1", FinishReason: llm.FinishStop, Usage: event.Usage{InputTokens: 10, OutputTokens: 4, CachedTokens: 6, CacheWriteTokens: 3, ReasoningTokens: 1}}}}
	bad := &provider{err: &llm.Error{Provider: "bad", StatusCode: 429, Code: "made-up-by-strangers", Message: "secret"}}
	models := r.Models(map[string]llm.Provider{"good": good, "bad": bad})
	var shown []string
	_, err := models["good"].Generate(t.Context(), llm.Request{Model: "m"}, func(d llm.Delta) { shown = append(shown, d.Text) })
	require.NoError(t, err)
	require.Equal(t, []string{"hi"}, shown)
	_, err = models["bad"].Generate(t.Context(), llm.Request{Model: "m"}, nil)
	require.ErrorIs(t, err, bad.err)
	_, err = models["good"].(llm.Embedder).Embed(t.Context(), llm.EmbedRequest{Model: "e"})
	require.NoError(t, err)

	goodOnes := attribute.String(AttrProvider, "good")
	require.EqualValues(t, 10, r.sum(t, MetricInputTokens, goodOnes))
	require.EqualValues(t, 4, r.sum(t, MetricOutputTokens, goodOnes))
	require.EqualValues(t, 6, r.sum(t, MetricCacheRead, goodOnes))
	require.EqualValues(t, 3, r.sum(t, MetricCacheWrite, goodOnes))
	require.EqualValues(t, 1, r.sum(t, MetricReasoning, goodOnes))
	require.EqualValues(t, 1, r.sum(t, MetricFirstChunk, attribute.KeyValue{}))
	require.EqualValues(t, 1, r.sum(t, MetricInferenceDuration, attribute.String(AttrErrorType, "429")))
	require.EqualValues(t, 2, r.sum(t, MetricInferenceDuration, attribute.KeyValue{}))
	require.EqualValues(t, 1, r.sum(t, MetricOperationDuration, goodOnes))

	spans := r.spans.Ended()
	require.Len(t, spans, 3)
	require.Equal(t, "chat m", spans[0].Name())
	require.Contains(t, spans[0].Attributes(), attribute.Int(AttrCacheWrite, 3))
	require.Contains(t, spans[0].Attributes(), attribute.String(AttrResponseModel, "m-1"))
	require.Equal(t, "429", spans[1].Status().Description, "the message may have content")
	require.Empty(t, spans[1].Events())
	require.Equal(t, "embeddings e", spans[2].Name())
}

// TestModelErrorsAreFew: what providers say does not become a label.
func TestModelErrorsAreFew(t *testing.T) {
	for want, err := range map[string]error{
		"canceled":         fmt.Errorf("stopped: %w", context.Canceled),
		"timeout":          context.DeadlineExceeded,
		"context_overflow": &llm.Error{ContextOverflow: true, StatusCode: 400},
		"refusal":          &llm.Error{Code: llm.CodeRefusal},
		"503":              &llm.Error{StatusCode: 503, Code: "x"},
		errOther:           &llm.Error{StatusCode: 123456, Code: "x"},
	} {
		require.Equal(t, want, modelErrorClass(err))
	}
	require.Equal(t, errOther, modelErrorClass(errors.New("x")))
}

func TestToolCall(t *testing.T) {
	r := record(t)
	tools := map[string]func(context.Context) (tool.Result, error){
		"good":   func(context.Context) (tool.Result, error) { return tool.Result{Output: "fine"}, nil },
		"wrong":  func(context.Context) (tool.Result, error) { return tool.Result{IsError: true}, nil },
		"failed": func(context.Context) (tool.Result, error) { return tool.Result{}, errors.New("secret") },
		"panics": func(context.Context) (tool.Result, error) { panic("secret") },
		"asks":   func(context.Context) (tool.Result, error) { return tool.Result{}, &tool.InputRequired{} },
	}
	for name, f := range tools {
		func() {
			defer func() { _ = recover() }()
			_, _ = r.CallTool(t.Context(), fake{name, f}, tool.Call{ID: "c", Agent: "a"})
		}()
	}
	require.Len(t, r.spans.Ended(), len(tools))
	for _, s := range r.spans.Ended() {
		require.NotContains(t, s.Status().Description, "secret")
	}
	for class, n := range map[string]int64{"tool_error": 1, errOther: 1, "abandoned": 1} {
		require.Equal(t, n, r.sum(t, MetricToolDuration, attribute.String(AttrErrorType, class)), class)
	}
	require.EqualValues(t, len(tools), r.sum(t, MetricToolDuration, attribute.KeyValue{}))
}

type fake struct {
	name string
	f    func(context.Context) (tool.Result, error)
}

func (f fake) Definition() tool.Definition { return tool.Definition{Name: f.name} }

func (f fake) Call(ctx context.Context, _ tool.Call) (tool.Result, error) { return f.f(ctx) }

func TestRetrieval(t *testing.T) {
	r := record(t)
	require.NoError(t, r.Retrieval(t.Context(), func(ctx context.Context) error {
		require.True(t, trace.SpanFromContext(ctx).SpanContext().IsValid(), "the call of the embedder is a part of it")
		return nil
	}))
	require.ErrorIs(t, r.Retrieval(t.Context(), func(context.Context) error { return store.ErrUnavailable }), store.ErrUnavailable)
	require.Len(t, r.spans.Ended(), 2)
	require.Equal(t, "retrieval", r.spans.Ended()[0].Name())
	require.EqualValues(t, 1, r.sum(t, MetricOperationDuration, attribute.String(AttrErrorType, "unavailable")))
}

// TestLabelsAreBounded: names that are created at run time do not become labels without end.
func TestLabelsAreBounded(t *testing.T) {
	var l labels
	for i := range 3 * maxLabels {
		got := l.bound(fmt.Sprint(i))
		if i < maxLabels {
			require.Equal(t, fmt.Sprint(i), got)
		} else {
			require.Equal(t, otherLabel, got)
		}
	}
	require.Equal(t, "0", l.bound("0"), "the first ones stay")
}

// TestContentIsShortened: an attribute is of limited size, and valid for exporters.
func TestContentIsShortened(t *testing.T) {
	got := (&Observer{}).content("k", strings.Repeat("€", maxContent)).Value.AsString()
	require.LessOrEqual(t, len(got), maxContent+2*len("…"))
	require.True(t, utf8.ValidString(got))
	require.Equal(t, "a\uFFFDb", (&Observer{}).content("k", "a\xffb").Value.AsString())
}

func TestContentIsRedacted(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	o := &Observer{redact: r}
	require.Equal(t, "pay with [card]", o.content("k", "pay with 4111 1111 1111 1111").Value.AsString())
}

// TestRetention: what retention does is counted by its outcome, and the age of the last pass grows while none completes.
func TestRetention(t *testing.T) {
	r := record(t)
	outcome := func(value string) int64 {
		return r.sum(t, MetricRetained, attribute.String(AttrOutcome, value))
	}
	require.Zero(t, outcome("failed"), "a counter begins with 0")
	for range 2 {
		r.Retained(t.Context(), signals.Retained{Closed: 1, Erased: 2, ToolLogs: 3, Failed: 4})
	}
	require.EqualValues(t, 2, outcome("closed"))
	require.EqualValues(t, 4, outcome("erased"))
	require.EqualValues(t, 8, outcome("failed"))
	require.EqualValues(t, 6, r.sum(t, MetricPrunedLogs, attribute.KeyValue{}))

	began := time.Now().Add(-2 * time.Hour)
	for name, c := range map[string]struct {
		last  time.Time
		kept  bool
		hours int64
	}{
		"no retention": {time.Time{}, true, 0},
		"no pass yet":  {time.Time{}, false, 2},
		"a pass":       {time.Now().Add(-5 * time.Hour), false, 5},
	} {
		require.NoError(t, r.retentionAge(t.Context(), began, func(context.Context) (time.Time, bool, error) { return c.last, c.kept, nil }), name)
		require.Equal(t, c.hours, r.sum(t, MetricRetentionAge, attribute.KeyValue{})/3600, name)
	}
	(*Observer)(nil).Retained(t.Context(), signals.Retained{Closed: 1})
}

// TestRecentIsBounded: what was recorded is recorded once, and what was long ago is forgotten.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range 2 * maxRecent {
		id := identityOf("turn", fmt.Sprint(i))
		require.True(t, r.add(id))
		require.False(t, r.add(id))
	}
	require.Len(t, r.known, maxRecent)
	require.Len(t, r.order, maxRecent)
	require.False(t, r.add(identityOf("turn", fmt.Sprint(maxRecent))))
	require.True(t, r.add(identityOf("turn", "0")))
	require.NotEqual(t, identityOf("a", "bc"), identityOf("ab", "c"))
}

// TestMessages: content has the form of the conventions, and stays JSON of limited size.
func TestMessages(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	o := &Observer{redact: r}
	call := func(id, arguments string) event.ToolCall {
		return event.ToolCall{ID: id, Function: event.Function{Name: "weather", Arguments: arguments}}
	}
	in := o.input(llm.Request{Messages: []llm.Message{
		{Role: event.RoleSystem, Content: "You help."},
		{Role: event.RoleUser, Name: "ann", Content: "Weather in <Paris>? I pay with 4111 1111 1111 1111."},
		{Role: event.RoleAssistant, Content: "I look.", ToolCalls: []event.ToolCall{call("c1", `{"in":"Paris"}`), call("c2", `{"in":`)}},
		{Role: event.RoleTool, ToolCallID: "c1", Content: "rainy"},
		{Role: event.RoleTool, ToolCallID: "c2"},
	}})
	require.Equal(t, AttrInputMessages, string(in.Key))
	require.Equal(t, `[{"role":"system","parts":[{"type":"text","content":"You help."}]},`+
		`{"role":"user","name":"ann","parts":[{"type":"text","content":"Weather in <Paris>? I pay with [card]."}]},`+
		`{"role":"assistant","parts":[{"type":"text","content":"I look."},{"type":"tool_call","id":"c1","name":"weather","arguments":{"in":"Paris"}},`+
		`{"type":"tool_call","id":"c2","name":"weather","arguments":"{\"in\":"}]},`+
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"rainy"}]},`+
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"c2","response":""}]}]`, in.Value.AsString())

	out := o.output(llm.Response{Thought: "Hm.", Content: "Rain.", ToolCalls: []event.ToolCall{call("c3", "{}")}, FinishReason: llm.FinishToolCalls}, nil)
	require.Equal(t, AttrOutputMessages, string(out.Key))
	require.Equal(t, `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"Rain."},`+
		`{"type":"tool_call","id":"c3","name":"weather","arguments":{}}],"finish_reason":"tool_call"}]`, out.Value.AsString())
	require.Equal(t, `[{"role":"assistant","parts":[],"finish_reason":"error"}]`, o.output(llm.Response{}, errors.New("x")).Value.AsString())

	var long llm.Request
	for i := range 40 {
		long.Messages = append(long.Messages, llm.Message{Role: event.RoleUser, Content: fmt.Sprintf("%02d %s", i, strings.Repeat("\"", 1000))})
	}
	long.Messages = append(long.Messages, llm.Message{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{call("c4", `{"x":"`+strings.Repeat("€", maxText)+`"}`)}})
	got := o.input(long).Value.AsString()
	require.Less(t, len(got), maxContent+1<<10)
	var messages []message
	require.NoError(t, json.Unmarshal([]byte(got), &messages), "what is shortened stays JSON")
	require.Less(t, len(messages), 10)
	require.Equal(t, []part{{Type: partOmitted}}, messages[0].Parts)
	require.Contains(t, messages[len(messages)-2].Parts[0].Content, "39 ", "the newest stay")
}

// TestMessagesAreBounded: what stands around texts needs room too.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("n", 10*maxContent)
	for name, m := range map[string]llm.Message{
		"empty messages": {Role: event.RoleUser},
		"long name":      {Role: event.RoleUser, Name: long, Content: "x"},
		"long ids":       {Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: long, Function: event.Function{Name: long}}}},
		"long id":        {Role: event.RoleTool, ToolCallID: long},
	} {
		got := (&Observer{}).input(llm.Request{Messages: slices.Repeat([]llm.Message{m}, 5000)}).Value.AsString()
		require.LessOrEqual(t, len(got), maxContent+2*maxName, name)
		var messages []message
		require.NoError(t, json.Unmarshal([]byte(got), &messages), name)
		require.Greater(t, len(messages), 10, name)
		require.Contains(t, messages[0].Parts, part{Type: partOmitted}, name)
	}
}

// TestNamesAreRedacted: names and ids of messages may have what people wrote.
func TestNamesAreRedacted(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Emails()}})
	require.NoError(t, err)
	const secret = "ann@example.com"
	got := (&Observer{redact: r}).input(llm.Request{Messages: []llm.Message{
		{Role: event.RoleUser, Name: secret},
		{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: secret, Function: event.Function{Name: secret}}}},
		{Role: event.RoleTool, ToolCallID: secret},
	}}).Value.AsString()
	require.NotContains(t, got, secret)
	require.Equal(t, 4, strings.Count(got, "[email]"))
	res := llm.Response{Model: secret, FinishReason: secret + strings.Repeat("x", 10*maxName), Usage: event.Usage{InputTokens: -1}}
	said := fmt.Sprint((&Observer{redact: r}).output(res, nil), (&Observer{redact: r}).usageAttributes(res))
	require.NotContains(t, said, secret)
	require.NotContains(t, said, "-1")
	require.Equal(t, 3, strings.Count(said, "[email]"))
	require.Less(t, len(said), 4*maxName)
}

// TestStoreCalls: an answer that something is not there or in conflict is no failure of the store.
func TestStoreCalls(t *testing.T) {
	r := record(t)
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	failing := teststore.Before(db, func(context.Context) error { return store.Unavailable(errors.New("down")) }, "ping")
	s := r.Store(failing)
	_, err = s.Thread(t.Context(), store.Key{Namespace: "n", ThreadID: "t"})
	require.ErrorIs(t, err, store.ErrNotFound)
	for range 2 {
		require.Error(t, s.Ping(t.Context()))
	}
	require.NoError(t, db.Close())
	_, err = s.Threads(t.Context(), "n", store.ThreadPage{})
	require.Error(t, err)
	for with, want := range map[attribute.KeyValue]int64{
		attribute.String(AttrOperate, "thread"): 1, attribute.String(AttrOperate, "ping"): 2, attribute.String(AttrOperate, "threads"): 1,
		attribute.String(AttrErrorType, "unavailable"): 2, attribute.String(AttrErrorType, errOther): 1, {}: 4,
	} {
		require.Equal(t, want, r.sum(t, MetricStoreDuration, with), with)
	}
	conflict := storeErrorClass(fmt.Errorf("saving: %w", &store.ConflictError{}))
	require.Empty(t, conflict)
}
