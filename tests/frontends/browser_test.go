// Package frontends tests frontends other than the page in a browser, and what they are made of.
package frontends

import (
	"fmt"
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
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestEventSourceExample uses the chat in one HTML file, which another origin serves.
func TestEventSourceExample(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.FileServer(http.Dir("../../examples/eventsource")))
	defer site.Close()
	w := harness.New(t, harness.Options{
		Agents: []agent.Agent{{
			Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
		}},
		Serve: func(_ threadmill.Config, c *httpapi.Config) { c.AllowedOrigins = []string{site.URL} },
	})
	b := browser.New(t)
	p := b.Open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.Until(`location.hash !== ""`)
	p.Enter("#text", `use note {"text":"milk"}`)
	p.Click("button", "approve")
	p.Sees(".message", "noted: milk")
	p.Until(`document.querySelector("button") === null`)
	p.Enter("#text", "and <b>hello</b>")
	p.Sees(".message", "and <b>hello</b>")
	all := `[...document.querySelectorAll(".message")].map((m) => m.textContent).join("|")`
	p.Until(`document.querySelectorAll(".message").length === 5`)
	before := browser.Evaluate[string](p, all)
	p.Do(chromedp.Reload())
	p.Until(`document.querySelectorAll(".message").length === 5`)
	assert.Equal(t, before, browser.Evaluate[string](p, all))
}

// TestEventSourceExampleSevenTabs opens seven chats at once: browsers permit six connections over HTTP/1.1.
func TestEventSourceExampleSevenTabs(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.FileServer(http.Dir("../../examples/eventsource")))
	defer site.Close()
	w := harness.New(t, harness.Options{Serve: func(_ threadmill.Config, c *httpapi.Config) { c.AllowedOrigins = []string{site.URL} }})
	b := browser.New(t)
	var tabs []*browser.Tab
	for range 7 {
		p := b.Open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
		p.Until(`location.hash !== ""`)
		tabs = append(tabs, p)
	}
	for i, p := range tabs {
		text := fmt.Sprintf("hello number %d", i)
		p.Enter("#text", text)
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".message")].filter((m) => m.textContent.includes(%q)).length === 2`, text))
	}
	tabs[6].Enter("#text", "once more") // each event once, whether it came by asking or by the stream that another tab leaves
	tabs[6].Until(`document.querySelectorAll(".message").length === 4`)
	tabs[0].Do(chromedp.Navigate("about:blank"))
	tabs[6].Enter("#text", "count 20 every 20ms")
	tabs[6].Sees(".message:last-of-type", "18 19 20")
	tabs[6].Until(`document.querySelectorAll(".message").length === 6`)
}

// bundled serves an example whose script is bundled as its package.json says, with the npm
// packages of tests.
func bundled(t *testing.T, example, script, bundle string) *httptest.Server {
	dir, source := t.TempDir(), filepath.Join("..", "..", "examples", example)
	from, err := filepath.Abs(filepath.Join(source, script))
	require.NoError(t, err)
	proc.Output(t, testenv.Node(t, "bundle.mjs", from, filepath.Join(dir, bundle)))
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir(source)))
	files.Handle("/"+bundle, http.FileServer(http.Dir(dir)))
	site := httptest.NewServer(files)
	t.Cleanup(site.Close)
	return site
}

// twoAgents starts a server that a page of another origin may use, whose agents ask before they note. The planner is given a
// passage with questions about milk.
func twoAgents(t *testing.T, origin string) *harness.Harness {
	one := func(name string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways}}
	}
	planner := one("planner")
	planner.Knowledge.Passages = 1
	w := harness.New(t, harness.Options{
		Agents: []agent.Agent{planner, one("reviewer")}, Serve: func(_ threadmill.Config, c *httpapi.Config) { c.AllowedOrigins = []string{origin} },
	})
	d, err := w.Runtime.Documents().Add(w.Ctx(), threadmill.NewDocument{Source: "kitchen.md", Content: []byte("# Kitchen\n\n<b>Milk</b> is in the fridge.")})
	require.NoError(t, err)
	_, err = w.Runtime.Documents().Await(w.Ctx(), d.ID)
	require.NoError(t, err)
	return w
}

// TestReactExample uses the chat of React and the AI SDK.
func TestReactExample(t *testing.T) {
	t.Parallel()
	site := bundled(t, "react-chat", "chat.jsx", "chat.js")
	w := twoAgents(t, site.URL)
	b := browser.New(t)
	p := b.Open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.Until(`document.querySelector("form input") !== null`)
	p.Enter("form input", `@planner use note {"text":"milk"}`)
	p.Click("button", "Approve")
	p.Sees(".tool", "noted: milk")
	p.Until(`document.querySelector("form input").disabled === false`)
	p.Sees(".sources summary", "[1] kitchen.md › Kitchen")
	p.Until(`document.querySelectorAll(".sources").length === 1`)

	p.Enter("form input", "hello <b>all</b>")
	p.Until(`[...document.querySelectorAll(".message:last-of-type b")].map((b) => b.textContent).sort().join() === "planner,reviewer"`)
	p.Until(`document.querySelector("form input").disabled === false`)

	p.Enter("form input", `@reviewer use note {"text":"eggs"}`)
	p.Until(`document.querySelector("input[aria-label=Reason]") !== null`)
	p.Do(chromedp.Reload())
	p.Until(`document.querySelector("input[aria-label=Reason]") !== null`)
	p.Fill("input[aria-label=Reason]", "no more eggs")
	p.Click("button", "Deny")
	p.Sees(".message:last-of-type", "no more eggs")

	second := b.Open(browser.Evaluate[string](p, "location.href"))
	second.Sees(".message:last-of-type", "no more eggs")
	second.Sees("h1", "live")
	p.Enter("form input", "@planner count 10000 every 20ms")
	p.Sees(".message:last-of-type .text", "5 6 7")
	second.Sees(".message:last-of-type .text", "5 6 7")
	p.Do(chromedp.Reload())
	p.Sees(".message:last-of-type .text", "1 2 3 4 5 6 7")
	p.Click("button", "Stop")
	p.Until(`document.querySelector("form input").disabled === false`)
	all := `[...document.querySelectorAll(".message")].map((m) => m.textContent).join("|")`
	before := browser.Evaluate[string](p, all)
	p.Do(chromedp.Reload())
	p.Until(`document.querySelectorAll(".message").length === 8`)
	assert.Equal(t, before, browser.Evaluate[string](p, all))
	second.Until(`document.querySelector("form input").disabled === false`)
	assert.Equal(t, before, browser.Evaluate[string](second, all))
}

// TestAGUIExample uses the chat of AG-UI's client.
func TestAGUIExample(t *testing.T) {
	t.Parallel()
	site := bundled(t, "ag-ui", "chat.js", "chat.bundle.js")
	w := twoAgents(t, site.URL)
	b := browser.New(t)
	p := b.Open(site.URL + "/?api=" + url.QueryEscape(w.API.URL))
	p.Until(`location.hash !== ""`)
	p.Enter("#text", `@planner use note {"text":"milk"}`)
	p.Click("#interrupts button", "Approve")
	p.Sees("#messages", "noted: milk")
	p.Sees("#messages", "[1] kitchen.md › Kitchen")
	p.Until(`document.querySelector("#text").disabled === false && document.querySelectorAll("#interrupts p").length === 0`)

	p.Enter("#text", "@planner count 10000 every 20ms")
	p.Sees("#messages", "5 6 7")
	second := b.Open(browser.Evaluate[string](p, "location.href"))
	second.Sees("#messages", "5 6 7")
	p.Do(chromedp.Reload())
	p.Sees("#messages", "5 6 7")
	p.Sees("#messages", "[1] kitchen.md › Kitchen")
	p.Click("#stop", "Stop")
	for _, tab := range []*browser.Tab{p, second} {
		tab.Until(`document.querySelector("#text").disabled === false`)
	}
	shown := `document.querySelector("#messages").textContent`
	assert.Equal(t, browser.Evaluate[string](p, shown), browser.Evaluate[string](second, shown))
}
