package providers

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// realServers are public MCP servers of npm. None needs the network to say what it offers.
func realServers(t *testing.T) []mcp.Server {
	t.Helper()
	of := func(name, script string, args ...string) mcp.Server {
		cmd := testenv.Node(t, script, args...)
		cmd.Args[1] = testenv.NPM(t, strings.TrimPrefix(script, "node_modules/"))
		return mcp.Server{Name: name, Command: append([]string{cmd.Path}, cmd.Args[1:]...)}
	}
	const official = "node_modules/@modelcontextprotocol/server-"
	notion := of("notion", "node_modules/@notionhq/notion-mcp-server/bin/cli.mjs")
	brave := of("brave", "node_modules/@brave/brave-search-mcp-server/dist/index.js", "--transport", "stdio")
	chrome := of("chrome", "node_modules/chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js", "--no-usage-statistics")
	notion.Env, brave.Env = map[string]mcp.Secret{"NOTION_TOKEN": "ntn_none"}, map[string]mcp.Secret{"BRAVE_API_KEY": "none"}
	return []mcp.Server{
		of("everything", official+"everything/dist/index.js"), of("files", official+"filesystem/dist/index.js", t.TempDir()), of("memory", official+"memory/dist/index.js"),
		of("thinking", official+"sequential-thinking/dist/index.js"), notion, brave, chrome,
	}
}

// TestRealTools: definitions of public MCP servers reach the server of each provider and dialect, which rejects what the real one rejects,
// with the name and the arguments that they have, or are left out by name.
func TestRealTools(t *testing.T) {
	t.Parallel()
	servers := realServers(t)
	m := mcpManager(t, servers...)
	var tools []llm.Tool
	left := map[string]string{}
	for _, s := range servers {
		state := mcpReady(t, m, s.Name)
		for _, p := range state.Problems {
			left[s.Name+"__"+p.Subject] = p.Reason
		}
		found := m.Tools(t.Context(), "default", []string{s.Name + "__*"})
		require.NotEmpty(t, found, s.Name)
		for _, one := range found {
			d := one.Definition()
			tools = append(tools, llm.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
		}
	}
	require.GreaterOrEqual(t, len(tools), 50)
	require.Empty(t, left, "some are left out")
	for name, build := range drivers(t) {
		t.Run(name, func(t *testing.T) {
			s, p, model := build(t)
			for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
				_, err := p.Generate(t.Context(), llm.Request{Model: model, Messages: []llm.Message{{Role: event.RoleUser, Content: "hi"}}, Tools: tools}, onDelta)
				require.NoError(t, err)
				requests := s.Requests()
				sent := map[string]llm.Tool{}
				for _, one := range requests[len(requests)-1].Conversation.Tools {
					sent[one.Name] = one
				}
				require.Len(t, sent, len(tools))
				for _, own := range tools {
					got, reached := sent[own.Name]
					require.True(t, reached, own.Name)
					requireSame(t, own, got)
				}
			}
		})
	}
}

// drivers returns what builds each driver, with its server and the name of a model.
func drivers(t *testing.T) map[string]func(t *testing.T) (*llmtest.Server, llm.Provider, string) {
	t.Helper()
	type build = func(t *testing.T) (*llmtest.Server, llm.Provider, string)
	of := func(model string, dialect llmtest.Dialect, make func(s *llmtest.Server) (llm.Provider, error)) build {
		return func(t *testing.T) (*llmtest.Server, llm.Provider, string) {
			t.Helper()
			s := llmtest.NewServer(llmtest.Config{T: t, Dialect: dialect})
			p, err := make(s)
			require.NoError(t, err)
			return s, p, model
		}
	}
	all := map[string]build{
		"openai": of("gpt-5", llmtest.Dialect{}, func(s *llmtest.Server) (llm.Provider, error) {
			return openai.New(openai.Config{APIKey: "test", BaseURL: s.URL, Dialect: openai.DialectOpenAI})
		}),
		"openai-responses": of("gpt-5", llmtest.Dialect{}, func(s *llmtest.Server) (llm.Provider, error) {
			return openai.NewResponses(openai.Config{APIKey: "test", BaseURL: s.URL})
		}),
		"anthropic": of("claude-sonnet-4-5", llmtest.Dialect{}, func(s *llmtest.Server) (llm.Provider, error) {
			return anthropic.New(anthropic.Config{APIKey: "test", BaseURL: s.Root})
		}),
		"google": of("gemini-3-pro", llmtest.Dialect{}, func(s *llmtest.Server) (llm.Provider, error) {
			return google.New(google.Config{APIKey: "test", BaseURL: s.Root})
		}),
	}
	for _, dialect := range llmtest.Dialects() {
		all[dialect.Name] = of("any", dialect, func(s *llmtest.Server) (llm.Provider, error) {
			return openai.New(openai.Config{APIKey: "test", BaseURL: s.URL, Dialect: dialect.Setting})
		})
	}
	return all
}

// requireSame compares a definition with the one that a server got, as a caller sees it: it accepts and rejects the same arguments.
func requireSame(t *testing.T, own, got llm.Tool) {
	t.Helper()
	require.True(t, strings.HasPrefix(own.Description, strings.TrimSuffix(got.Description, "…")), own.Name)
	var before, after struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	}
	require.NoError(t, json.Unmarshal(own.Parameters, &before))
	require.NoError(t, json.Unmarshal(got.Parameters, &after))
	require.Equal(t, slices.Sorted(maps.Keys(before.Properties)), slices.Sorted(maps.Keys(after.Properties)), own.Name)
	require.ElementsMatch(t, before.Required, after.Required, own.Name)
	for _, arguments := range []string{`{}`, `{"a":1}`, argumentsOf(before.Properties, before.Required)} {
		require.Equal(t, verdict(own, arguments), verdict(got, arguments), "%s %s", own.Name, arguments)
	}
}

// verdict reports whether a schema accepts arguments.
func verdict(d llm.Tool, arguments string) bool {
	return tool.Definition{Name: d.Name, Parameters: d.Parameters}.ValidateArguments(arguments) == nil
}

// argumentsOf returns arguments with a text for each required property.
func argumentsOf(properties map[string]any, required []string) string {
	in := map[string]any{}
	for _, name := range required {
		in[name] = "x"
		one, _ := properties[name].(map[string]any)
		switch one["type"] {
		case "integer", "number":
			in[name] = 1
		case "boolean":
			in[name] = true
		case "array":
			in[name] = []any{}
		case "object":
			in[name] = map[string]any{}
		}
	}
	raw, _ := json.Marshal(in) // such values can always be encoded
	return string(raw)
}
