package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
)

var update = flag.Bool("update", false, "write the golden files")

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// errorFiles are files with errors, by their names.
func errorFiles(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	files := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		files[filepath.Base(path)] = string(data)
	}
	delete(files, "full.yaml")
	short, err := os.ReadFile("testdata/short.txtar")
	require.NoError(t, err)
	for _, section := range strings.Split("\n"+string(short), "\n-- ")[1:] {
		name, text, ok := strings.Cut(section, " --\n")
		require.True(t, ok, section)
		files[name] = text
	}
	return files
}

// TestErrors pins where errors are and of which kind they are, and not what they say.
func TestErrors(t *testing.T) {
	const golden = "testdata/errors.golden"
	files := errorFiles(t)
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, err := Parse(name, []byte(files[name]), "testdata", Env(env(
			"TEST_URL", "https://models.example/v1", "GARBLED_URL", "https://me:hunter2@models.example", "HUB_KEY", "k1",
		)), ThreadsQueue("threads"))
		require.Error(t, err, name)
		for _, err := range all(err) {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Kind, e)
			require.NotContains(t, e.Problem, "\n", "an error is one line")
			fmt.Fprintf(&got, "%s:%d:%d %s %s\n", e.File, e.Line, e.Column, e.Path, e.Kind)
		}
		for _, secret := range []string{"hunter2", "sk-", "abcdef0123456789", "xoxb", "whsec", "ck-"} {
			require.NotContains(t, Explain(err), secret, name)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// TestErrorTexts pins the text of one error of each kind.
func TestErrorTexts(t *testing.T) {
	for text, want := range map[string]struct {
		kind Kind
		text string
	}{
		"agents: \"x":                         {KindSyntax, "f:1:9: this is not YAML: could not find end character of double-quoted text; check the indentation and the quotes, here and in the line above"},
		"agents: " + strings.Repeat("[", 100): {KindLimit, "f:1:1: there are more than 64 levels of lists and mappings"},
		anAgent + "titel_model: x":            {KindUnknown, `f:2:1: titel_model: unknown field; did you mean "titleModel"?`},
		anAgent + "hooks: x":                  {KindType, "f:2:8: hooks: is text, must be a list ([a, b], or lines that begin with -)"},
		"agents: [{name: a}]":                 {KindMissing, "f:1:10: agents[0].model: is missing: write it as provider/model, such as openai/gpt-5.6-luna"},
		anAgent + "titleModel:":               {KindEmpty, "f:2:1: titleModel: is empty: give it a value or remove the field"},
		anAgent + "limits: {}\nlimits: {}":    {KindDuplicate, "f:3:1: limits: is already set in line 2: keep one of them"},
		anAgent + "titleModel: dmeo/x":        {KindReference, `f:2:13: titleModel: unknown provider "dmeo"; did you mean "demo"? (providers are declared under models)`},
		anAgent + "limits: {maxSteps: 0}":     {KindInvalid, "f:2:20: limits.maxSteps: is 0, must be 1 to 1000; omit it for the default, 25"},
		"agents: [{name: a, model: demo/demo, instructionsFile: no.md}]": {KindUnreadable, "f:1:56: agents[0].instructionsFile: no.md: file does not exist (a path is relative to the folder of the configuration)"},
		anAgent + "titleModel: openai/x":                                 {KindUnset, "f:2:13: titleModel: the environment variable OPENAI_API_KEY is not set, and provider \"openai\" takes its key from there: set it, or set OPENAI_BASE_URL to use another address, or use demo/demo to try without a model"},
		anAgent + "models: {m: {type: openai, apiKey: x}}":               {KindSecret, "f:2:28: models.m.apiKey: must not stand in the file, where it is copied and committed: put it into an environment variable and write apiKeyEnv: NAME_OF_THE_VARIABLE"},
	} {
		_, err := Parse("f", []byte(text), t.TempDir(), Env(env()))
		require.EqualError(t, err, want.text)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, want.kind, e.Kind, text)
	}
	_, err := Parse("f", []byte(anAgent+"mcp:\n  hub: {url: https://x.example, headers: {A: hunter2}}"), "", Env(env()))
	require.Equal(t, "f:3:33: mcp.hub.headers: must not stand in the file, where it is copied and committed: "+
		"put it into an environment variable and write headersEnv: NAME_OF_THE_VARIABLE\n"+
		"    3 |   hub: {url: https://x.example, headers: {A: *******}}\n      |                                 ^", Explain(err))
	_, err = Parse("f", []byte(anAgent+"models:\n  m: {type: openai, token: hunter2}"), "", Env(env()))
	require.Equal(t, "f:3:21: models.m.token: unknown field; known are apiKeyEnv, apiVersion, baseURL, baseURLEnv, chain, deployment, dialect, firstToken, limits, on, project, reasoningSummary, region, retry, returnAfter, type\n"+
		"    3 |   m: {type: openai, token: ********\n      |                     ^", Explain(err))
}

func TestFull(t *testing.T) {
	c, err := Load("testdata/full.yaml", Env(env("TEST_KEY", "sk-1", "TEST_URL", "https://models.example/v1", "HOME", "/home/x")))
	require.NoError(t, err)
	dir, err := filepath.Abs("testdata")
	require.NoError(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	half, one := 0.5, 1.0
	require.Equal(t, &Config{
		Agents: agent.Fixed{
			{
				Name: "assistant", Description: "Helps.", Instructions: "Be brief.\nBe kind.\n",
				Model: "openai/gpt-5.6-luna", Temperature: &half, MaxOutputTokens: 2000, ReasoningEffort: "low",
				Tools:     []string{"shell_cmd", "current_time"},
				Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyAlways, "*": agent.PolicyNever},
				Limits:    agent.Limits{MaxSteps: 10, ModelTimeout: time.Hour, ContextMessages: 50},
			},
			{
				Name: "Poet", Instructions: "You write poems.\n", Model: "local/org/model:7b", Temperature: &one,
				Limits: agent.Limits{MaxSteps: 10, ModelTimeout: time.Hour, ContextMessages: 50},
			},
			{Name: "bare", Model: "demo/demo", Limits: agent.Limits{MaxSteps: 20, ContextMessages: 50}},
		},
		TitleModel: "local/org/small:1b",
		Keys:       map[string]string{"openai": "TEST_KEY"},
		Models: []Provider{
			{Name: "demo", Type: Demo},
			{Name: "local", Type: OpenAI, BaseURL: "http://127.0.0.1:11434/v1"},
			{Name: "openai", Type: OpenAI, BaseURL: "https://models.example/v1", APIKey: "sk-1", Retry: llm.Retry{
				For: 6 * time.Hour, InitialInterval: 500 * time.Millisecond, MaxInterval: 30 * time.Second, Backoff: 1.5, MaxAttempts: 100,
			}},
		},
		Tools: Tools{
			Shell: Shell{
				Root: filepath.Join(dir, "work"), Timeout: 90 * time.Second, MaxOutput: 16 << 10, MaxProgress: 1000,
				Env: []string{"GOPATH", "http_proxy"}, Runner: []string{"sudo", "-n", "-u", "agent", "sh", "-c"},
			},
			Clock: Clock{Timezone: berlin},
		},
		MCP: []MCPServer{
			{
				Name: "files", Command: []string{"npx", "-y", "server-filesystem", "./workspace"}, Dir: dir, Tools: []string{"read_*"}, Trusted: true, Timeout: 30 * time.Second,
				Env: map[string]Secret{"HOME": "/home/x", "TOKEN": "sk-1"}, Headers: map[string]Secret{},
			},
			{
				Name: "hub", Description: "The hub.", URL: "https://mcp.example.com/mcp?x=1", TaskQueue: "far",
				Env: map[string]Secret{}, Headers: map[string]Secret{"Authorization": "sk-1"},
			},
		},
		MCPAPI: MCPAPI{Servers: true, Commands: true},
		Hooks: []hook.Hook{
			{
				Name: "guard", Workflow: &hook.Workflow{Type: "BlockPrompt", TaskQueue: "guards"},
				Filter: hook.Filter{Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByUser}, Namespaces: []string{"default", "acme"}},
			},
			{
				Name: "sign-off", Workflow: &hook.Workflow{Type: "SignOff", TaskQueue: "people"},
				Filter: hook.Filter{
					Types: []string{"tool_call", "message", "*"}, CreatedBy: []event.CreatedBy{event.CreatedByAgent, event.CreatedByTool},
					Agents: []string{"poet", "assistant"}, Tools: []string{"shell_cmd"},
				},
				OnFailure: hook.FailOpen, Timeout: 72 * time.Hour, MaxAttempts: 2, HoldOutput: true,
			},
			{Name: "all", Workflow: &hook.Workflow{Type: "Watch", TaskQueue: "guards"}, OnFailure: hook.FailClosed},
		},
		StaleAfter:        20 * time.Second,
		StepsAsActivities: true,
		AllowedHosts:      []string{"threadmill.example", "*.tunnel.example"},
		AllowedOrigins:    []string{"https://app.example", "http://localhost:5173"},
		Files:             []string{filepath.Join(dir, "full.yaml"), filepath.Join(dir, "prompts", "poet.md")},
	}, c)
	for _, a := range c.Agents {
		require.NoError(t, a.Validate())
		_, _, ok := c.Provider(a.Model)
		require.True(t, ok, a.Model)
	}
	_, err = hook.NewSet(hook.Config{Hooks: c.Hooks})
	require.NoError(t, err)
	p, model, ok := c.Provider("local/org/model:7b")
	require.True(t, ok)
	require.Equal(t, "local", p.Name)
	require.Equal(t, "org/model:7b", model)
	_, _, ok = c.Provider("other/x")
	require.False(t, ok)
}

func TestExample(t *testing.T) {
	const path = "../../threadmill.example.yaml"
	c, err := Load(path, Env(env(EnvAPIKey, "sk-1")))
	require.NoError(t, err)
	for _, a := range c.Agents {
		require.NoError(t, a.Validate())
	}

	t.Run("what is commented out is right as well", func(t *testing.T) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "prompts"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "prompts", "reviewer.md"), []byte("Review."), 0o600))
		var lines []string
		uncommented := 0
		for _, line := range strings.Split(string(data), "\n") {
			if i := strings.Index(line, "#~"); i >= 0 {
				line = line[:i] + line[i+2:]
				uncommented++
			}
			lines = append(lines, line)
		}
		require.Positive(t, uncommented)
		_, err = Parse("example", []byte(strings.Join(lines, "\n")), dir, Env(env(EnvAPIKey, "sk-1", "ANTHROPIC_API_KEY", "k", "MODELS_KEY", "k", "AZURE_OPENAI_API_KEY", "k", "GITHUB_WEBHOOK_SECRET", "s", "HUB_AUTHORIZATION", "k")))
		require.NoError(t, err)
	})
}

func TestFallback(t *testing.T) {
	c, err := Parse("f", []byte(`
models:
  local: {type: demo, limits: {requestsPerMinute: 60, tokensPerMinute: 1000}}
  main: {type: fallback, chain: [local/a, demo/b], on: [slow, outage], firstToken: 20s, returnAfter: 2m}
titleModel: main
agents: [{name: a, model: main}]
`), "", Env(env()))
	require.NoError(t, err)
	require.Equal(t, map[string]llm.Fallback{"main": {
		Chain: []string{"local/a", "demo/b"}, On: []llm.Trigger{llm.OnSlow, llm.OnOutage}, FirstToken: 20 * time.Second, ReturnAfter: 2 * time.Minute,
	}}, c.Fallbacks)
	require.Equal(t, "main", c.Agents[0].Model)
	local, _, _ := c.Provider("local/a")
	require.Equal(t, llm.Limits{RequestsPerMinute: 60, TokensPerMinute: 1000}, local.Limits)
}

func TestKey(t *testing.T) {
	const file = "models: {openai: {type: openai}}\nagents: [{name: a, model: openai/x}]\n"
	t.Run("the usual variables apply to a provider that says nothing of them", func(t *testing.T) {
		c, err := Parse("f", []byte(file), "", Env(env(EnvAPIKey, " sk-1\n", EnvBaseURL, "https://models.example/v1")))
		require.NoError(t, err)
		require.Equal(t, []Provider{{Name: "openai", Type: OpenAI, BaseURL: "https://models.example/v1", APIKey: "sk-1"}}, c.Models)
	})
	t.Run("an address without a key is enough", func(t *testing.T) {
		c, err := Parse("f", []byte(file), "", Env(env(EnvBaseURL, "https://models.example/v1")))
		require.NoError(t, err)
		require.Empty(t, c.Models[0].APIKey)
	})
	t.Run("no key goes to an address of the file by itself", func(t *testing.T) {
		c, err := Parse("f", []byte("models: {m: {type: openai, baseURL: https://else.example}}\nagents: [{name: a, model: m/x}]\n"),
			"", Env(env(EnvAPIKey, "sk-1")))
		require.NoError(t, err)
		require.Equal(t, []Provider{{Name: "m", Type: OpenAI, BaseURL: "https://else.example"}}, c.Models)
	})
	t.Run("a provider that only gives titles is there", func(t *testing.T) {
		c, err := Parse("f", []byte("titleModel: openai/small\nagents: [{name: a, model: demo/demo}]\n"), "", Env(env(EnvAPIKey, "sk-1")))
		require.NoError(t, err)
		require.Equal(t, []Provider{{Name: "demo", Type: Demo}, {Name: "openai", Type: OpenAI, APIKey: "sk-1"}}, c.Models)
	})
	t.Run("each provider has its own variables", func(t *testing.T) {
		c, err := Parse("f", []byte("models: {claude: {type: anthropic}}\nagents: [{name: a, model: claude/x}, {name: b, model: google/y}]\n"),
			"", Env(env(EnvAPIKey, "sk-1", "ANTHROPIC_API_KEY", "sk-2", "GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")))
		require.NoError(t, err)
		require.Equal(t, []Provider{
			{Name: "claude", Type: Anthropic, APIKey: "sk-2"}, {Name: "google", Type: Google, BaseURL: "http://127.0.0.1:1"},
		}, c.Models)
		_, err = Parse("f", []byte("agents: [{name: a, model: anthropic/x}]\n"), "", Env(env(EnvAPIKey, "sk-1")))
		require.ErrorContains(t, err, "the environment variable ANTHROPIC_API_KEY is not set")
		_, err = Parse("f", []byte("models: {c: {type: anthropic, baseURL: \"https://api.anthropic.com\"}}\nagents: [{name: a, model: c/x}]\n"), "", Env(env()))
		require.ErrorContains(t, err, "add apiKeyEnv: ANTHROPIC_API_KEY")
	})
	t.Run("openai and demo need no entry", func(t *testing.T) {
		c, err := Parse("f", []byte("agents: [{name: a, model: openai/x}]\n"), "", Env(env(EnvAPIKey, "sk-1")))
		require.NoError(t, err)
		require.Equal(t, []Provider{{Name: "openai", Type: OpenAI, APIKey: "sk-1"}}, c.Models)
	})
	t.Run("a bad address in the environment is named", func(t *testing.T) {
		_, err := Parse("f", []byte(file), "", Env(env(EnvBaseURL, "models.example")))
		require.ErrorContains(t, err, "OPENAI_BASE_URL must be a web address")
	})
}

func TestSecretStaysHidden(t *testing.T) {
	c := Config{Models: []Provider{{Name: "openai", APIKey: "sk-verysecret"}}}
	encoded, err := json.Marshal(c.Models) //nolint:gosec // that the key stays out of it is what is tested
	require.NoError(t, err)
	for _, shown := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%q", c.Models[0].APIKey), string(encoded),
		c.Models[0].APIKey.LogValue().String(),
	} {
		require.Contains(t, shown, "***")
		require.NotContains(t, shown, "verysecret")
	}
	require.Equal(t, "sk-verysecret", c.Models[0].APIKey.Reveal())
	require.Empty(t, Secret("").String())
}

func TestLoadWithoutFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.yaml: file does not exist")
	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "it is not a file")
	big := filepath.Join(t.TempDir(), "big.yaml")
	require.NoError(t, os.WriteFile(big, make([]byte, maxFile+1), 0o600))
	_, err = Load(big)
	require.ErrorContains(t, err, "it has 1048577 bytes, at most 1048576 are read")
	require.Equal(t, err.Error(), Explain(err))
}

func TestBoundsAreThoseOfAgent(t *testing.T) {
	for _, c := range []struct {
		name     string
		ok, over agent.Limits
	}{
		{"maxSteps", agent.Limits{MaxSteps: maxSteps}, agent.Limits{MaxSteps: maxSteps + 1}},
		{"modelTimeout", agent.Limits{ModelTimeout: maxModelTimeout}, agent.Limits{ModelTimeout: maxModelTimeout + 1}},
		{"maxToolCalls", agent.Limits{MaxToolCalls: maxToolCalls}, agent.Limits{MaxToolCalls: maxToolCalls + 1}},
		{"maxReplyBytes", agent.Limits{MaxReplyBytes: maxReplyBytes}, agent.Limits{MaxReplyBytes: maxReplyBytes + 1}},
		{"maxResult", agent.Limits{MaxResult: maxResult}, agent.Limits{MaxResult: maxResult + 1}},
		{"the least of maxResult", agent.Limits{MaxResult: minResult}, agent.Limits{MaxResult: minResult - 1}},
		{"the least of maxReplyBytes", agent.Limits{MaxReplyBytes: minReplyBytes}, agent.Limits{MaxReplyBytes: minReplyBytes - 1}},
	} {
		require.NoError(t, agent.Agent{Name: "a", Model: "m/m", Limits: c.ok}.Validate(), c.name)
		require.Error(t, agent.Agent{Name: "a", Model: "m/m", Limits: c.over}.Validate(), c.name)
	}
}

func TestBoundsAreThoseOfHook(t *testing.T) {
	of := func(timeout time.Duration, attempts int) error {
		return hook.Hook{Name: "h", Workflow: &hook.Workflow{Type: "w"}, Timeout: timeout, MaxAttempts: attempts}.Validate()
	}
	require.NoError(t, of(maxHookTimeout, maxHookAttempts))
	require.Error(t, of(maxHookTimeout+1, 1))
	require.Error(t, of(1, maxHookAttempts+1))
}

// TestThreadsQueue: only whoever runs the threads knows where that is.
func TestThreadsQueue(t *testing.T) {
	const file = "agents: [{name: a, model: demo/demo}]\nhooks: [{name: h, workflow: {type: W, taskQueue: q}}]\n"
	_, err := Parse("f", []byte(file), "", Env(env()))
	require.NoError(t, err)
	_, err = Parse("f", []byte(file), "", Env(env()), ThreadsQueue("q"))
	require.ErrorContains(t, err, `hooks[0].workflow.taskQueue: "q" is where the threads themselves run`)
}

func TestDefault(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      []string
		model    string
		provider Provider
		titles   string
	}{
		{"nothing set", nil, "demo/demo", Provider{Name: "demo", Type: Demo}, "demo/demo"},
		{"key", []string{EnvAPIKey, "sk-1"}, "openai/" + DefaultModel, Provider{Name: "openai", Type: OpenAI, APIKey: "sk-1"}, ""},
		{"key and model", []string{EnvAPIKey, "sk-1", EnvModel, "openai/big"}, "openai/big", Provider{Name: "openai", Type: OpenAI, APIKey: "sk-1"}, ""},
		{
			"address and model",
			[]string{EnvBaseURL, "http://127.0.0.1:1/v1/", EnvModel, "openai/big"},
			"openai/openai/big",
			Provider{Name: "openai", Type: OpenAI, BaseURL: "http://127.0.0.1:1/v1"},
			"",
		},
		{"Anthropic", []string{"ANTHROPIC_API_KEY", "sk-2"}, "anthropic/claude-sonnet-5-5", Provider{Name: "anthropic", Type: Anthropic, APIKey: "sk-2"}, ""},
		{"Google and a model", []string{"GEMINI_API_KEY", "sk-3", EnvModel, "gemini-3-pro"}, "google/gemini-3-pro", Provider{Name: "google", Type: Google, APIKey: "sk-3"}, ""},
		{"the first of two", []string{"GEMINI_API_KEY", "sk-3", EnvAPIKey, "sk-1"}, "openai/" + DefaultModel, Provider{Name: "openai", Type: OpenAI, APIKey: "sk-1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Default(env(c.env...))
			require.NoError(t, err)
			require.Len(t, got.Agents, 1)
			a := got.Agents[0]
			require.NoError(t, a.Validate())
			require.Equal(t, "assistant", a.Name)
			require.Equal(t, c.model, a.Model)
			require.NotEmpty(t, a.Instructions)
			require.Equal(t, []string{"shell_cmd", "current_time"}, a.Tools)
			require.Equal(t, []Provider{c.provider}, got.Models)
			require.Equal(t, c.titles, got.TitleModel, "titles cost nothing unless a file asks for them")
			require.Equal(t, DefaultRoot, got.Tools.Shell.Root)
		})
	}
	_, err := Default(env(EnvModel, "gpt-5.6-luna"))
	require.ErrorContains(t, err, "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set")
	_, err = Default(env(EnvBaseURL, "https://me:hunter2@models.example"))
	require.ErrorContains(t, err, "OPENAI_BASE_URL must not hold a user or password")
	require.NotContains(t, err.Error(), "hunter2")
}

// FuzzParse: whatever is in the file, reading it ends, and mistakes lie inside it.
func FuzzParse(f *testing.F) {
	for _, text := range errorFiles(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data string) {
		c, err := Parse("f", []byte(data), t.TempDir(), Env(env()))
		if err == nil {
			require.NotEmpty(t, c.Agents)
			return
		}
		lines := 1 + strings.Count(data, "\n") + strings.Count(data, "\r")
		for _, e := range all(err) {
			var mistake *Error
			require.ErrorAs(t, e, &mistake)
			require.GreaterOrEqual(t, mistake.Column, 1)
			require.GreaterOrEqual(t, mistake.Line, 1)
			require.LessOrEqual(t, mistake.Line, lines)
		}
		require.NotEmpty(t, Explain(err))
	})
}
