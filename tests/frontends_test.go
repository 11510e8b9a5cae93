package tests

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestEventSourceExample uses the chat in one HTML file, which another origin serves.
func TestEventSourceExample(t *testing.T) {
	site := httptest.NewServer(http.FileServer(http.Dir("../examples/eventsource")))
	defer site.Close()
	w := harness.New(t, harness.Options{
		Agents: []agent.Agent{{
			Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
		}},
		Configure: func(c *threadmill.Config) { c.AllowedOrigins = []string{site.URL} },
	})
	b := newBrowser(t)
	p := b.open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.until(`location.hash !== ""`)
	p.enter("#text", `use note {"text":"milk"}`)
	p.click("button", "approve")
	p.sees(".message", "noted: milk")
	p.until(`document.querySelector("button") === null`)
	p.enter("#text", "and <b>hello</b>")
	p.sees(".message", "and <b>hello</b>")
	all := `[...document.querySelectorAll(".message")].map((m) => m.textContent).join("|")`
	p.until(`document.querySelectorAll(".message").length === 5`)
	before := evaluate[string](p, all)
	p.do(chromedp.Reload())
	p.until(`document.querySelectorAll(".message").length === 5`)
	assert.Equal(t, before, evaluate[string](p, all))
}

// bundled serves an example whose script is bundled as its package.json says, with the npm
// packages of tests.
func bundled(t *testing.T, example, script, bundle string) *httptest.Server {
	dir, source := t.TempDir(), filepath.Join("..", "examples", example)
	from, err := filepath.Abs(filepath.Join(source, script))
	require.NoError(t, err)
	output(t, testenv.Node(t, "bundle.mjs", from, filepath.Join(dir, bundle)))
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir(source)))
	files.Handle("/"+bundle, http.FileServer(http.Dir(dir)))
	site := httptest.NewServer(files)
	t.Cleanup(site.Close)
	return site
}

// twoAgents starts a server that a page of another origin may use, whose agents ask before they note.
func twoAgents(t *testing.T, origin string) *harness.Harness {
	one := func(name string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways}}
	}
	return harness.New(t, harness.Options{
		Agents: []agent.Agent{one("planner"), one("reviewer")}, Configure: func(c *threadmill.Config) { c.AllowedOrigins = []string{origin} },
	})
}

// TestReactExample uses the chat of React and the AI SDK.
func TestReactExample(t *testing.T) {
	site := bundled(t, "react-chat", "chat.jsx", "chat.js")
	w := twoAgents(t, site.URL)
	b := newBrowser(t)
	p := b.open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.until(`document.querySelector("form input") !== null`)
	p.enter("form input", `@planner use note {"text":"milk"}`)
	p.click("button", "Approve")
	p.sees(".tool", "noted: milk")
	p.until(`document.querySelector("form input").disabled === false`)

	p.enter("form input", "hello <b>all</b>")
	p.until(`[...document.querySelectorAll(".message:last-of-type b")].map((b) => b.textContent).sort().join() === "planner,reviewer"`)
	p.until(`document.querySelector("form input").disabled === false`)

	p.enter("form input", `@reviewer use note {"text":"eggs"}`)
	p.until(`document.querySelector("input[aria-label=Reason]") !== null`)
	p.do(chromedp.Reload())
	p.until(`document.querySelector("input[aria-label=Reason]") !== null`)
	p.fill("input[aria-label=Reason]", "no more eggs")
	p.click("button", "Deny")
	p.sees(".message:last-of-type", "no more eggs")

	second := b.open(evaluate[string](p, "location.href"))
	second.sees(".message:last-of-type", "no more eggs")
	second.sees("h1", "live")
	p.enter("form input", "@planner count 10000 every 20ms")
	p.sees(".message:last-of-type .text", "5 6 7")
	second.sees(".message:last-of-type .text", "5 6 7")
	p.do(chromedp.Reload())
	p.sees(".message:last-of-type .text", "1 2 3 4 5 6 7")
	p.click("button", "Stop")
	p.until(`document.querySelector("form input").disabled === false`)
	all := `[...document.querySelectorAll(".message")].map((m) => m.textContent).join("|")`
	before := evaluate[string](p, all)
	p.do(chromedp.Reload())
	p.until(`document.querySelectorAll(".message").length === 8`)
	assert.Equal(t, before, evaluate[string](p, all))
	second.until(`document.querySelector("form input").disabled === false`)
	assert.Equal(t, before, evaluate[string](second, all))
}

// TestAGUIExample uses the chat of AG-UI's client.
func TestAGUIExample(t *testing.T) {
	site := bundled(t, "ag-ui", "chat.js", "chat.bundle.js")
	w := twoAgents(t, site.URL)
	b := newBrowser(t)
	p := b.open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.until(`location.hash !== ""`)
	p.enter("#text", `@planner use note {"text":"milk"}`)
	p.click("#interrupts button", "Approve")
	p.sees("#messages", "noted: milk")
	p.until(`document.querySelector("#text").disabled === false && document.querySelectorAll("#interrupts p").length === 0`)

	p.enter("#text", "@planner count 10000 every 20ms")
	p.sees("#messages", "5 6 7")
	second := b.open(evaluate[string](p, "location.href"))
	second.sees("#messages", "5 6 7")
	p.do(chromedp.Reload())
	p.sees("#messages", "5 6 7")
	p.click("#stop", "Stop")
	for _, tab := range []*tab{p, second} {
		tab.until(`document.querySelector("#text").disabled === false`)
	}
	shown := `document.querySelector("#messages").textContent`
	assert.Equal(t, evaluate[string](p, shown), evaluate[string](second, shown))
}
