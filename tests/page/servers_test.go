package page

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// shownServers are MCP servers of which one is ready, with hostile texts, one has failed, and one needs a login.
type shownServers struct {
	tool.Source
	restarted chan string
}

func (s shownServers) States(context.Context, string) ([]tool.ServerState, error) {
	return []tool.ServerState{
		{
			Name: "files", Transport: "stdio", Address: "npx", Status: tool.ServerReady,
			Tools:    []tool.ServerTool{{Name: "files__read", Description: `Reads. <img src=x onerror="document.title='owned'">`, Hints: tool.ServerHints{ReadOnly: true}}},
			Problems: []tool.ServerProblem{{Subject: "write", Reason: "<script>document.title='owned'</script> is no schema"}},
		},
		{Name: "hub", Transport: "http", Address: "https://hub.example/mcp", Status: tool.ServerFailed, Error: "it did not answer within 1m", Log: "no route\n\x1b[31mto host"},
		{Name: "tracker", Transport: "http", Address: "https://tracker.example/mcp", Status: tool.ServerNeedsLogin, Error: "it rejects requests without a login"},
	}, nil
}

func (s shownServers) Restart(_ context.Context, _, name string) error {
	s.restarted <- name
	return nil
}

func (shownServers) Refresh(context.Context, string) {}

func (shownServers) Prompts(context.Context, string, string) ([]tool.ServerPrompt, error) {
	return nil, nil
}

func (shownServers) Prompt(context.Context, string, string, string, map[string]string) (tool.ServerPromptText, error) {
	return tool.ServerPromptText{}, nil
}

func (shownServers) Resources(context.Context, string, string) ([]tool.ServerResource, error) {
	return nil, nil
}

func (shownServers) ReadResource(context.Context, string, string, string) ([]tool.ServerContent, error) {
	return nil, nil
}

// TestPageServers shows MCP servers with their tools and problems as text, and restarts one.
func TestPageServers(t *testing.T) {
	t.Parallel()
	servers := shownServers{restarted: make(chan string, 1)}
	w := harness.New(t, harness.Options{NoWorker: true, Configure: func(cfg *threadmill.Config) { cfg.ToolSource = servers }})
	p := browser.New(t).Open(w.API.URL + "/#/servers")
	p.Sees("tm-servers", "files__read")
	p.Sees("tm-servers", `<img src=x onerror="document.title='owned'">`)
	p.Sees("tm-servers", "is no schema")
	p.Sees("tm-servers", "1 tool")
	p.Sees("tm-servers td", "reads only")
	p.Sees("tm-servers", "it did not answer within 1m")
	p.Sees("tm-servers pre", "no route\n\\u001b[31mto host")
	require.Equal(t, []string{"files ready", "hub failed", "tracker needs a login"}, browser.Evaluate[[]string](p, `[...document.querySelectorAll("tm-servers h2")].map((h) => h.innerText.trim())`))
	p.Until(`document.title === "Threadmill"`)
	p.Click("tm-servers button", "Restart")
	require.Equal(t, "files", <-servers.restarted)
}
