package llmtest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
)

func system(s string) llm.Message { return llm.Message{Role: event.RoleSystem, Content: s} }
func user(s string) llm.Message   { return llm.Message{Role: event.RoleUser, Content: s} }

func result(id string) llm.Message {
	return llm.Message{Role: event.RoleTool, ToolCallID: id, Content: "1"}
}

func assistant(s string, ids ...string) llm.Message {
	m := llm.Message{Role: event.RoleAssistant, Content: s}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "f", Arguments: "{}"}})
	}
	return m
}

func TestCheckTranscript(t *testing.T) {
	type list = []llm.Message
	const (
		openAI, anthropic, google    = llmtest.OpenAI, llmtest.Anthropic, llmtest.Google
		begin, end, results, content = llmtest.RuleBegin, llmtest.RuleEnd, llmtest.RuleResults, llmtest.RuleContent
	)
	for _, tt := range []struct {
		name     string
		messages list
		want     []llmtest.Violation
	}{
		{"a question", list{user("u")}, nil},
		{"a conversation", list{system("s"), system("t"), user("u"), assistant("a"), user("v")}, nil},
		{"several in a row are one turn", list{user("u"), user("v"), assistant("a"), assistant("b"), user("w")}, nil},
		{"a round of tools", list{user("u"), assistant("", "1", "2"), result("1"), result("2")}, nil},
		{"results in another order", list{user("u"), assistant("x", "1", "2"), result("2"), result("1"), assistant("done"), user("v")}, nil},
		{"rounds in a row", list{user("u"), assistant("", "1"), result("1"), assistant("", "2"), result("2")}, nil},
		{"somebody speaks behind the results", list{user("u"), assistant("", "1"), result("1"), user("v")}, nil},
		{"words, then calls", list{user("u"), assistant("a"), assistant("", "1"), result("1")}, nil},
		{"a result that says nothing", list{user("u"), assistant("", "1"), {Role: event.RoleTool, ToolCallID: "1"}}, nil},
		{"parts", list{{Role: event.RoleUser, Parts: []string{"", "x"}}}, nil},

		{"nothing", nil, []llmtest.Violation{{anthropic, begin, 0, ""}, {google, begin, 0, ""}}},
		{"the system only", list{system("s")}, []llmtest.Violation{{anthropic, begin, 1, ""}, {google, begin, 1, ""}}},
		{"the model first", list{system("s"), assistant("a"), user("u")}, []llmtest.Violation{{anthropic, begin, 1, ""}, {google, begin, 1, ""}}},
		{"calls first", list{assistant("", "1"), result("1")}, []llmtest.Violation{{anthropic, begin, 0, ""}, {google, begin, 0, ""}}},
		{"the model last", list{user("u"), assistant("a")}, []llmtest.Violation{{anthropic, end, 2, ""}, {google, end, 2, ""}}},
		{"the system later", list{user("u"), system("s"), assistant("a"), system("t"), user("v")}, nil},
		{"the system last", list{user("u"), assistant("a"), system("s")}, nil},
		{"the system between calls and results", list{user("u"), assistant("", "1"), system("s"), result("1")}, []llmtest.Violation{
			{openAI, results, 2, ""},
			{openAI, results, 3, ""},
			{anthropic, results, 3, ""},
			{google, results, 3, ""},
		}},
		{
			"no result",
			list{user("u"), assistant("", "1"), user("v")},
			[]llmtest.Violation{{openAI, results, 2, ""}, {anthropic, results, 2, ""}, {google, results, 2, ""}},
		},
		{
			"no result at the end",
			list{user("u"), assistant("", "1", "2"), result("2")},
			[]llmtest.Violation{{openAI, results, 3, ""}, {anthropic, results, 2, ""}, {google, results, 2, ""}},
		},
		{
			"calls at the end",
			list{user("u"), assistant("", "1")},
			[]llmtest.Violation{{openAI, results, 2, ""}, {anthropic, end, 2, ""}, {anthropic, results, 2, ""}, {google, end, 2, ""}, {google, results, 2, ""}},
		},
		{
			"a late result",
			list{user("u"), assistant("", "1"), user("v"), result("1")},
			[]llmtest.Violation{{openAI, results, 2, ""}, {openAI, results, 3, ""}, {anthropic, results, 3, ""}, {google, results, 3, ""}},
		},
		{
			"an orphan",
			list{user("u"), result("1")},
			[]llmtest.Violation{{openAI, results, 1, ""}, {anthropic, results, 1, ""}, {google, results, 1, ""}},
		},
		{
			"two results for a call",
			list{user("u"), assistant("", "1"), result("1"), result("1")},
			[]llmtest.Violation{{openAI, results, 3, ""}, {anthropic, results, 3, ""}, {google, results, 3, ""}},
		},
		{
			"words between calls and results",
			list{user("u"), assistant("", "1"), assistant("x"), result("1")},
			[]llmtest.Violation{{openAI, results, 2, ""}, {openAI, results, 3, ""}},
		},
		{
			"an id used again",
			list{user("u"), assistant("", "1"), result("1"), assistant("", "1"), result("1")},
			[]llmtest.Violation{{anthropic, llmtest.RuleIDs, 3, ""}},
		},
		{
			"a user who says nothing",
			list{user(" \n")},
			[]llmtest.Violation{{openAI, content, 0, ""}, {anthropic, content, 0, ""}, {google, content, 0, ""}},
		},
		{
			"a reply that says nothing",
			list{user("u"), assistant(" "), user("v")},
			[]llmtest.Violation{{openAI, content, 1, ""}, {anthropic, content, 1, ""}, {google, content, 1, ""}},
		},
		{"a system that says nothing", list{system(""), user("u")}, []llmtest.Violation{{openAI, content, 0, ""}}},
		{"a role that is none", list{{Role: "event", Content: "x"}}, []llmtest.Violation{{openAI, llmtest.RuleRole, 0, ""}}},
		{"a call without id", list{user("u"), assistant("", ""), result("")}, []llmtest.Violation{{openAI, llmtest.RuleCalls, 1, ""}}},
		{
			"calls of a user",
			list{{Role: event.RoleUser, Content: "u", ToolCalls: assistant("", "1").ToolCalls}, result("1")},
			[]llmtest.Violation{
				{openAI, llmtest.RuleCalls, 0, ""},
				{anthropic, results, 1, ""},
				{anthropic, results, 2, ""},
				{google, results, 1, ""},
				{google, results, 2, ""},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.messages)
			var got []llmtest.Violation
			for _, err := range llmtest.ValidateTranscript(tt.messages) {
				var v *llmtest.Violation
				require.ErrorAs(t, err, &v)
				require.NotEmpty(t, v.Problem)
				require.Contains(t, err.Error(), v.Provider, "it names the provider")
				require.Contains(t, err.Error(), v.Rule, "and the rule")
				require.Contains(t, err.Error(), fmt.Sprintf("messages[%d]", v.At))
				v.Problem = ""
				got = append(got, *v)
			}
			require.ElementsMatch(t, tt.want, got)
			require.Equal(t, before, tt.messages)
		})
	}
}

// failing is a test that records its errors.
type failing struct {
	testing.TB

	mu      sync.Mutex
	errors  []string
	cleanup []func()
}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *failing) Cleanup(do func()) { f.cleanup = append(f.cleanup, do) }

func TestServerChecksTranscripts(t *testing.T) {
	say := func(s *llmtest.Server, messages string) {
		t.Helper()
		resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[`+messages+`]}`))
		require.NoError(t, err)
		resp.Body.Close()
	}
	const good, bad = `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"I begin"},{"role":"user","content":"hi"}`

	f := &failing{TB: t}
	s := llmtest.NewServer(llmtest.Config{T: f})
	say(s, good)
	require.Empty(t, s.Violations())
	require.Empty(t, f.errors)
	say(s, bad)
	require.Equal(t, []string{
		"call 2: anthropic refuses messages[0]: the model speaks first (begins with a user)",
		"call 2: google refuses messages[0]: the model speaks first (begins with a user)",
	}, s.Violations())
	require.Len(t, f.errors, 2, "the test fails at once")
	require.Contains(t, f.errors[0], "anthropic refuses messages[0]")
	require.Contains(t, f.errors[0], "I begin", "it shows the transcript")
	s.Reset()
	require.Empty(t, s.Violations())
	require.Len(t, f.cleanup, 1)
	f.cleanup[0]()
	_, err := http.Get(s.URL)
	require.Error(t, err, "the server ends with the test")

	quiet := start(t, llmtest.Config{})
	say(quiet, bad)
	require.Len(t, quiet.Violations(), 2, "without a test they are kept")
}
