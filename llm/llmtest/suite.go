package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Traits are the differences between providers that the suite allows for.
type Traits struct {
	// ObjectArguments: the protocol carries the arguments of calls as objects, so a model cannot
	// write other ones.
	ObjectArguments bool

	// Tier is the service tier that the server names: default in OpenAI's protocols, standard in
	// Anthropic's and Google's, ON_DEMAND for Google's models on Vertex AI. Empty: none.
	Tier string

	// NoCacheWrites: the provider does not tell how many tokens it writes to its cache. NoLifetimes:
	// it does not tell for how long.
	NoCacheWrites, NoLifetimes bool

	// NoToolChoice and NoResponseFormat: the provider refuses requests with these fields.
	NoToolChoice, NoResponseFormat bool

	// Dialect is how the server speaks Chat Completions.
	Dialect Dialect
}

// Run is the conformance suite of [llm.Provider]. The provider must reply like the offline model
// without its greeting, by calling the server s or otherwise.
func Run(t *testing.T, traits Traits, provider func(t *testing.T, s *Server) llm.Provider) {
	t.Helper()
	s := NewServer(Config{T: t, Dialect: traits.Dialect})
	t.Cleanup(s.Close)
	u := &suite{traits: traits, provider: provider(t, s)}
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"S4-64 a reply in text", u.text},
		{"S4-64 a reply with tool calls", u.toolCalls},
		{"S0-40 markup in the text becomes tool calls", u.markup},
		{"S0-37 markup that cannot be read is not lost", u.invalidMarkup},
		{"S1-24 pieces joined are the content", u.joined},
		{"S4-58 pieces come in order", u.order},
		{"S4-61 without onDelta the result is the same", u.whole},
		{"S4-66 onDelta is called before Generate returns, by its goroutine", u.caller},
		{"a round of tools", u.round},
		{"reasoning", u.reasoning},
		{"usage", u.usage},
		{"what was cached, the tier and the model", u.billed},
		{"a choice of tools", u.choice},
		{"a format of the reply", u.format},
		{"a choice that nobody can follow", u.invalid},
		{"ids of tool calls are unique", u.ids},
		{"an ended context", u.ended},
		{"a context that ends in the middle", u.cancelled},
		{"concurrent calls", u.concurrent},
	} {
		t.Run(tt.name, tt.test)
	}
}

type suite struct {
	traits   Traits
	provider llm.Provider
}

// request returns a request with a script as the first message of a thread, and with the tools of
// the suite's scripts.
func request(script string) llm.Request {
	return llm.Request{
		Model: "stand-in",
		Messages: []llm.Message{
			{Role: event.RoleSystem, Content: "You are a test."},
			{Role: event.RoleUser, Name: "someone", Content: script},
		},
		Tools: []llm.Tool{{Name: "read"}, {Name: "files.write"}, {Name: "now"}},
	}
}

func (u *suite) ask(t *testing.T, req llm.Request) (llm.Response, []llm.Delta) {
	t.Helper()
	var deltas []llm.Delta
	resp, err := u.provider.Generate(t.Context(), req, func(d llm.Delta) { deltas = append(deltas, d) })
	require.NoError(t, err)
	return resp, deltas
}

func joined(deltas []llm.Delta) (text, thought string) {
	for _, d := range deltas {
		text += d.Text
		thought += d.Thought
	}
	return text, thought
}

func (u *suite) text(t *testing.T) {
	resp, _ := u.ask(t, request("hello  world\n\nünï 日本"))
	require.Equal(t, llm.TypeText, resp.Type)
	require.Equal(t, "hello  world\n\nünï 日本", resp.Content)
	require.Empty(t, resp.ToolCalls)
	require.Empty(t, resp.Thought)
	require.Equal(t, "stop", resp.FinishReason)
	require.Equal(t, "stand-in", resp.Model)
}

func (u *suite) toolCalls(t *testing.T) {
	resp, _ := u.ask(t, request("one moment\nuse read {\"path\": \"ä.txt\"}\nuse read {\"path\": \"ä.txt\"}\nuse files.write "+u.arguments("not json")+"\nuse now"))
	require.Equal(t, llm.TypeToolCalls, resp.Type)
	require.Equal(t, "one moment", resp.Content)
	require.Equal(t, "tool_calls", resp.FinishReason)
	require.Equal(t, []event.Function{
		{Name: "read", Arguments: `{"path":"ä.txt"}`},
		{Name: "read", Arguments: `{"path":"ä.txt"}`},
		{Name: "files.write", Arguments: u.arguments("not json")},
		{Name: "now", Arguments: `{}`},
	}, functions(resp))
}

// arguments returns arguments that the model can write: an object if it must.
func (u *suite) arguments(s string) string {
	if u.traits.ObjectArguments {
		return `{"invalid":1}`
	}
	return s
}

// functions returns the calls of a reply, with compact arguments.
func functions(r llm.Response) (out []event.Function) {
	for _, c := range r.ToolCalls {
		c.Function.Arguments = compact(c.Function.Arguments)
		out = append(out, c.Function)
	}
	return out
}

func compact(s string) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(s)) != nil {
		return s
	}
	return out.String()
}

const markup = `Let me see. <function_calls>
{"name": "read", "arguments": {"path": "a b"}}
<!-- --> </function_calls> Well.`

func (u *suite) markup(t *testing.T) {
	for name, block := range map[string]string{
		"json":   `{"name": "read", "arguments": {"path": "a b"}}`,
		"invoke": `<invoke name="read"> <parameter name="path">a b</parameter> </invoke>`,
	} {
		resp, deltas := u.ask(t, request("Let me see. <function_calls> "+block+" </function_calls> Well.\nuse now"))
		require.Equal(t, "Let me see. Well.", resp.Content, name)
		text, _ := joined(deltas)
		require.Equal(t, resp.Content, text, name)
		require.Equal(t, llm.TypeToolCalls, resp.Type)
		require.Len(t, resp.ToolCalls, 2, name)
		require.Equal(t, "now", resp.ToolCalls[0].Function.Name)
		require.Equal(t, "read", resp.ToolCalls[1].Function.Name)
		require.JSONEq(t, `{"path": "a b"}`, resp.ToolCalls[1].Function.Arguments)
		require.NotEmpty(t, resp.ToolCalls[1].ID)
	}
}

func (u *suite) invalidMarkup(t *testing.T) {
	resp, deltas := u.ask(t, request(markup))
	require.Equal(t, "Let me see. Well.", resp.Content)
	text, _ := joined(deltas)
	require.Equal(t, resp.Content, text)
	require.Equal(t, llm.TypeToolCalls, resp.Type)
	require.Len(t, resp.ToolCalls, 1)
	require.Equal(t, llm.InvalidCall, resp.ToolCalls[0].Function.Name)
	require.Contains(t, resp.ToolCalls[0].Function.Arguments, "a b")
}

func (u *suite) joined(t *testing.T) {
	for _, script := range []string{
		" a < b <function <functio n_calls>\n\n c ", "count 300", "think it over\nyes and no", "use now",
		"x <function_calls>{\"name\": \"now\"}</function_calls>\n\n y", "<function_calls>{\"name\": \"now\"}",
	} {
		resp, deltas := u.ask(t, request(script))
		text, thought := joined(deltas)
		require.Equal(t, resp.Content, text, script)
		require.Equal(t, resp.Thought, thought, script)
		for _, d := range deltas {
			require.True(t, d.Text == "" || d.Thought == "", "a delta is text or thought: %+v", d)
		}
	}
}

func (u *suite) order(t *testing.T) {
	_, deltas := u.ask(t, request("count 500"))
	require.Greater(t, len(deltas), 10, "the reply is streamed")
	text, _ := joined(deltas)
	var want []string
	for i := 1; i <= 500; i++ {
		want = append(want, fmt.Sprint(i))
	}
	require.Equal(t, strings.Join(want, " "), text)
}

func (u *suite) whole(t *testing.T) {
	for _, script := range []string{"hello world", "think hard\nyes\nuse now\nuse read {\"path\": \"a\"}", "a " + markup} {
		streamed, _ := u.ask(t, request(script))
		whole, err := u.provider.Generate(t.Context(), request(script), nil)
		require.NoError(t, err)
		for _, r := range []llm.Response{streamed, whole} {
			for i := range r.ToolCalls {
				require.NotEmpty(t, r.ToolCalls[i].ID)
				r.ToolCalls[i].ID = ""
			}
		}
		require.Equal(t, streamed, whole, script)
	}
}

func (u *suite) caller(t *testing.T) {
	require.PanicsWithValue(t, "from onDelta", func() {
		_, _ = u.provider.Generate(t.Context(), request("hello"), func(llm.Delta) { panic("from onDelta") })
	}, "only a panic of the calling goroutine can be recovered here")
}

// answered appends a reply and the results of its calls to the messages.
func answered(req llm.Request, resp llm.Response) llm.Request {
	req.Messages = append(slices.Clone(req.Messages), llm.Message{
		Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque,
	})
	for _, c := range resp.ToolCalls {
		req.Messages = append(req.Messages, llm.Message{
			Role: event.RoleTool, Name: c.Function.Name, ToolCallID: c.ID, Content: "got " + compact(c.Function.Arguments),
		})
	}
	return req
}

func (u *suite) round(t *testing.T) {
	broken := u.arguments("{broken")
	req := request("think well\nuse read {\"path\": \"a\"}\nuse now\nthen\nuse read " + broken + "\nthen\nall done")
	first, _ := u.ask(t, req)
	req = answered(req, first)
	second, _ := u.ask(t, req)
	require.Equal(t, "read returned: got {\"path\":\"a\"}\nnow returned: got {}", second.Content)
	require.Equal(t, []event.Function{{Name: "read", Arguments: broken}}, functions(second))
	third, _ := u.ask(t, answered(req, second))
	require.Equal(t, llm.TypeText, third.Type)
	require.Equal(t, "read returned: got "+broken+"\nall done", third.Content)
}

func (u *suite) reasoning(t *testing.T) {
	resp, deltas := u.ask(t, request("think let me see\nyes"))
	require.Equal(t, "let me see", resp.Thought)
	require.Equal(t, "yes", resp.Content)
	deltas = slices.DeleteFunc(deltas, func(d llm.Delta) bool { return d == (llm.Delta{}) })
	require.NotEmpty(t, deltas[0].Thought, "reasoning comes first")
	require.NotEmpty(t, deltas[len(deltas)-1].Text)
}

func (u *suite) usage(t *testing.T) {
	for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
		resp, err := u.provider.Generate(t.Context(), request("think so\none two three"), onDelta)
		require.NoError(t, err)
		require.Equal(t, event.Usage{InputTokens: 9, OutputTokens: 4, ReasoningTokens: 1}, resp.Usage)
	}
}

func (u *suite) billed(t *testing.T) {
	want := event.Usage{InputTokens: 9, OutputTokens: 1, CachedTokens: 3, CacheWriteTokens: 4, CacheWriteHourTokens: 1}
	if u.traits.NoCacheWrites {
		want.CacheWriteTokens = 0
	}
	if u.traits.NoCacheWrites || u.traits.NoLifetimes {
		want.CacheWriteHourTokens = 0
	}
	for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
		resp, err := u.provider.Generate(t.Context(), request("cache 3 4 1\nhello"), onDelta)
		require.NoError(t, err)
		require.Equal(t, want, resp.Usage)
		require.Equal(t, u.traits.Tier, resp.Tier)
		require.Equal(t, "stand-in", resp.Model)
	}
}

func (u *suite) choice(t *testing.T) {
	for choice, want := range map[llm.ToolChoice][]event.Function{
		llm.ToolsNone:               nil,
		llm.ToolsRequired:           {{Name: "now", Arguments: "{}"}},
		llm.ChooseTool("read"):      {{Name: "read", Arguments: "{}"}},
		llm.ChooseTool("files.now"): {{Name: "files.now", Arguments: "{}"}},
	} {
		req := request("hello\nuse now")
		req.Tools[1].Name, req.ToolChoice = "files.now", choice
		resp, err := u.provider.Generate(t.Context(), req, nil)
		if u.traits.NoToolChoice {
			requireRefused(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, functions(resp), choice)
	}
	req := request("hello")
	if req.ToolChoice = llm.ToolsRequired; !u.traits.NoToolChoice {
		resp, _ := u.ask(t, req)
		require.Len(t, resp.ToolCalls, 1)
	}
}

func (u *suite) format(t *testing.T) {
	const schema = `{"type":"object","properties":{"yes":{"type":"boolean"},"because":{"type":"array","items":{"type":"string"}}},` +
		`"required":["yes","because"],"additionalProperties":false}`
	for _, name := range []string{"", "an answer", "answer"} {
		req := request(`{"yes":true,"because":["it is"]}`)
		req.Tools, req.ResponseFormat = nil, &llm.ResponseFormat{Name: name, Schema: json.RawMessage(schema)}
		resp, err := u.provider.Generate(t.Context(), req, nil)
		if u.traits.NoResponseFormat {
			requireRefused(t, err)
			continue
		}
		require.NoError(t, err)
		require.JSONEq(t, `{"yes":true,"because":["it is"]}`, resp.Content)
	}
}

// invalid: a request that contradicts itself fails at once.
func (u *suite) invalid(t *testing.T) {
	for _, choice := range []llm.ToolChoice{"sometimes", "tool:", llm.ChooseTool("unknown")} {
		req := request("hello")
		req.ToolChoice = choice
		_, err := u.provider.Generate(t.Context(), req, nil)
		requireRefused(t, err)
	}
	for _, schema := range []string{"", "{", `{"type":"string"}`} {
		req := request("hello")
		req.ResponseFormat = &llm.ResponseFormat{Schema: json.RawMessage(schema)}
		_, err := u.provider.Generate(t.Context(), req, nil)
		requireRefused(t, err)
	}
}

// requireRefused requires an error that is not retried.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	var failure *llm.Error
	require.ErrorAs(t, err, &failure)
	require.False(t, failure.Retryable)
	require.NotEmpty(t, failure.Message)
}

func (u *suite) ids(t *testing.T) {
	ids := map[string]bool{}
	req := request("use now\nuse now\nthen\nuse now\nthen\nuse now\nlook <function_calls>{\"name\": \"now\"}</function_calls>")
	for range 3 {
		resp, _ := u.ask(t, req)
		require.NotEmpty(t, resp.ToolCalls)
		for _, c := range resp.ToolCalls {
			require.NotEmpty(t, c.ID)
			require.False(t, ids[c.ID], "id %s is used twice", c.ID)
			ids[c.ID] = true
		}
		req = answered(req, resp)
	}
	require.Len(t, ids, 5)
}

func (u *suite) ended(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
		_, err := u.provider.Generate(ctx, request("hello"), onDelta)
		requireCanceled(t, err)
	}
}

// requireCanceled requires the context's error itself: an error of the provider would be retried.
func requireCanceled(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, context.Canceled)
	var failure *llm.Error
	require.NotErrorAs(t, err, &failure)
}

func (u *suite) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got strings.Builder
	resp, err := u.provider.Generate(ctx, request("count 5 every 1ms\ncount 5 every 1h\nuse now"), func(d llm.Delta) {
		got.WriteString(d.Text)
		if strings.Contains(got.String(), "5") {
			cancel()
		}
	})
	requireCanceled(t, err)
	require.Equal(t, "1 2 3 4 5", strings.TrimSpace(resp.Content), "what had arrived is kept")
	require.Equal(t, got.String(), resp.Content)
	require.Empty(t, resp.ToolCalls, "a reply that was cut off asks for nothing")
}

func (u *suite) concurrent(t *testing.T) {
	const n = 8
	var wait sync.WaitGroup
	contents := make([]string, n)
	errs := make([]error, n)
	for i := range n {
		wait.Go(func() {
			var got strings.Builder
			_, errs[i] = u.provider.Generate(t.Context(), request(fmt.Sprintf("reply %d\ncount 50", i)), func(d llm.Delta) {
				got.WriteString(d.Text)
			})
			contents[i] = got.String()
		})
	}
	wait.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		require.True(t, strings.HasPrefix(contents[i], fmt.Sprintf("reply %d\n1 2 3", i)), contents[i])
	}
}
