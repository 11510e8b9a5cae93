package cards

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// declaring permits MCP servers to be declared at run time.
func declaring(t *testing.T) func(*threadmill.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	require.NoError(t, os.WriteFile(file, []byte("agents: [{name: assistant, model: demo/demo}]\nmcpApi: {servers: true, commands: true}\n"), 0o600))
	return func(cfg *threadmill.Config) {
		settings, err := program.Load(program.SettingsConfig{File: file, Logger: harness.Quiet, Getenv: func(string) string { return "" }})
		require.NoError(t, err)
		require.NoError(t, settings.ConnectMCP(cfg, nil))
	}
}

// TestPageServerForm declares an MCP server in a form with its JSON beside it, and edits it while somebody else does.
func TestPageServerForm(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true, Configure: declaring(t)})
	p := browser.New(t).Open(w.API.URL + "/#/servers")
	p.Click("tm-servers button", "Add a server")
	p.Until(`document.activeElement.id === "field-name"`)
	p.Write("#field-name", "hub")
	p.Write("#field-url", "https://hub.example.com/mcp")
	p.Click("tm-form button", "Add a header")
	p.Fill(".map-row input[aria-label=Header]", "Authorization")
	p.Fill(".map-row input:nth-of-type(2)", "HUB")
	p.Until(definition + `.headersEnv.Authorization === "HUB"`)
	p.Click("tm-form button", "Save")
	p.Sees("#field-headersEnv-problem", "MCP_")
	require.Equal(t, "Variable of the header", browser.Evaluate[string](p, `document.querySelector(".map-row input:nth-of-type(2)").getAttribute("aria-label")`))
	p.Write(".map-row input:nth-of-type(2)", "MCP_HUB")
	p.Until(definition + `.headersEnv.Authorization === "MCP_HUB"`)

	// A field that is emptied stays, and so does what the other choice had.
	browser.Evaluate[any](p, `((e) => { e.value = ""; e.dispatchEvent(new Event("input")); })(document.querySelector("#field-url"))`)
	p.Until(definition + `.url === "" && document.querySelector("#field-url").checkVisibility()`)
	p.Write("#field-url", "https://hub.example.com/mcp")
	p.Click("tm-form .either label", "a program")
	p.Until(definition + `.url === undefined && Array.isArray(` + definition + `.command) && !document.querySelector("#field-url").checkVisibility()`)
	p.Click("tm-form .either label", "at an address")
	p.Until(definition + `.url === "https://hub.example.com/mcp" && ` + definition + `.command === undefined`)
	p.Click("tm-form button", "Save")
	p.Sees("tm-servers h2", "hub")
	p.Until(`document.querySelector("tm-form") === null`)

	p.Click("tm-servers section button", "Edit")
	p.Until(`document.querySelector("#field-name")?.readOnly`)
	p.Write("#field-timeout", "30s")
	status := browser.Evaluate[int](p, `fetch("/v1/mcp/hub?by=bob", { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ url: "https://hub.example.com/mcp", headersEnv: { Authorization: "MCP_HUB" }, description: "his" }) }).then((r) => r.status)`)
	require.Equal(t, 200, status)
	p.Click("tm-form button", "Save")
	p.Sees(".conflict", "bob has stored version 2")
	p.Sees(".conflict p", "They changed description.")
	p.Click(".conflict button", "Join both")
	p.Click("tm-form button", "Save")
	p.Until(`document.querySelector("tm-form") === null`)
	require.JSONEq(t, `{"url": "https://hub.example.com/mcp", "headersEnv": {"Authorization": "MCP_HUB"}, "description": "his", "timeout": "30s"}`,
		browser.Evaluate[string](p, `fetch("/v1/mcp/hub").then((r) => r.json()).then((s) => JSON.stringify(s.declaration))`))

	// Leaving with changes asks.
	p.Click("tm-servers section button", "Edit")
	p.Write("#field-timeout", "40s")
	p.Click("tm-form button", "Cancel")
	p.Sees("dialog h2", "Leave without saving?")
	p.Click("dialog button", "Leave")
	p.Until(`document.querySelector("tm-form") === null`)
	for _, width := range []int64{1440, 390} {
		p.Click("tm-servers section button", "Edit")
		p.Until(`document.querySelector("tm-form") !== null`)
		p.Do(chromedp.EmulateViewport(width, 900))
		p.AccessibleInThemes("")
		p.Until(`document.documentElement.scrollWidth <= innerWidth`)
	}
}
