package frontends

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/chats"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// threadPages serves a page with a thread to a browser. Its connections to the API go through a proxy.
type threadPages struct {
	*harness.Harness
	browser *browser.Browser
	site    *httptest.Server
	proxy   *proc.Proxy
}

// threadTab is a tab with a thread.
type threadTab struct{ *browser.Tab }

// openPages bundles a page of tests/npm in a project that has the package.
func openPages(t *testing.T, project, script string) *threadPages {
	code, err := os.ReadFile(filepath.Join("../npm", script))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(project, script), code, 0o600))
	proc.Output(t, testenv.Node(t, "bundle.mjs", filepath.Join(project, script), filepath.Join(project, "page.js")))
	page := `<!doctype html><title>thread</title><div id="root"></div><script type="module" src="page.js"></script>`
	if _, err := os.Stat(filepath.Join(project, "page.css")); err == nil {
		page += `<link rel="stylesheet" href="page.css">`
	}
	require.NoError(t, os.WriteFile(filepath.Join(project, "index.html"), []byte(page), 0o600))
	site := httptest.NewServer(http.FileServer(http.Dir(project)))
	t.Cleanup(site.Close)
	w := chats.New(t, "page", site.URL)
	return &threadPages{w, browser.New(t), site, proc.NewProxy(t, strings.TrimPrefix(w.API.URL, "http://"))}
}

// load opens the page of a thread in a new tab.
func (p *threadPages) load(t *testing.T, thread, name string) *browser.Tab {
	p.T, p.browser.T = t, t
	query := url.Values{"api": {"http://" + p.proxy.Addr}, "direct": {p.API.URL}, "name": {name}}
	return p.browser.OpenAs(name, p.site.URL+"/?"+query.Encode()+"#"+thread)
}

// open opens a thread in a new tab of thread.jsx.
func (p *threadPages) open(t *testing.T, thread, name string) threadTab {
	tab := threadTab{p.load(t, thread, name)}
	tab.Until(`window.thread?.loaded`)
	return tab
}

// say sends a message, and returns once the tab shows that.
func (tab threadTab) say(text string) {
	tab.T.Helper()
	n := browser.Evaluate[int](tab.Tab, `thread.messages.length`)
	browser.Evaluate[chromedp.Void](tab.Tab, fmt.Sprintf(`void thread.sendMessage({ text: %q })`, text))
	tab.Until(fmt.Sprintf(`thread.messages.length > %d`, n))
}

// do runs a method of the hook on the first part that waits for the person.
func (tab threadTab) do(call string) {
	tab.T.Helper()
	tab.Until(`thread.waiting.length > 0`)
	browser.Evaluate[chromedp.Void](tab.Tab, `thread.`+call+`.then(() => undefined)`)
}

// settles waits until the tab is at rest and shows what a new one would show.
func (tab threadTab) settles() {
	tab.T.Helper()
	tab.Until(`thread.status === "ready"`)
	if !assert.Eventually(tab.T, func() bool { return browser.Evaluate[bool](tab.Tab, `fresh()`) }, testenv.Patience, testenv.Tick) {
		tab.T.Log(browser.Evaluate[string](tab.Tab, `difference`))
		tab.T.FailNow()
	}
	tab.Until(`thread.status === "ready" && thread.error === undefined`)
	assert.Empty(tab.T, browser.Evaluate[[]string](tab.Tab, `problems`), "what flickers")
}

// useThread tests the hook in a browser.
func useThread(t *testing.T, project string) {
	p := openPages(t, project, "thread.jsx")
	decide := func(thread string, d signals.Decide) {
		p.T.Helper()
		d.ToolCallID, d.By = p.AwaitApproval(thread, 1)[0].ToolCallID, "bob"
		_, err := p.Threads.Decide(p.Ctx(), thread, d)
		require.NoError(p.T, err)
	}

	t.Run("two tabs", func(t *testing.T) {
		one, two := p.open(t, "tabs", "ann"), p.open(t, "tabs", "bob")
		one.say("think first\ncount 100 every 20ms")
		one.Sees("section", " 5 6")
		two.Sees("section", " 5 6")
		one.settles()
		two.settles()
		two.say("hello")
		one.Until(`thread.messages.length === 4`)
		one.settles()
		two.settles()
		one.say("count 10000 every 20ms")
		two.Sees("section:last-of-type", " 5 6")
		browser.Evaluate[chromedp.Void](two.Tab, `thread.stop()`)
		one.settles()
		two.settles()
	})

	t.Run("older messages", func(t *testing.T) {
		writer := p.open(t, "pages", "ann")
		for i := range 4 {
			writer.say(fmt.Sprintf("use note {\"text\":\"%d\"}", i))
			writer.Until(`thread.status === "ready"`)
		}
		tab := p.open(t, "pages", "bob")
		tab.Until(`thread.older`)
		writer.say("hello") // what is loaded meanwhile leaves no gap, and nothing twice
		tab.Until(`thread.messages.at(-1).role === "assistant" && thread.messages.at(-2).parts[0].text === "hello"`)
		require.Less(t, browser.Evaluate[int](tab.Tab, `thread.messages.length`), 10)
		tab.Until(`!thread.older || void Promise.all([thread.loadOlder(), thread.loadOlder()])`)
		tab.settles()
	})

	t.Run("decided elsewhere", func(t *testing.T) {
		one, two := p.open(t, "elsewhere", "ann"), p.open(t, "elsewhere", "bob")
		one.say("use ask {\"text\":\"a\"}\nthen\nuse ask {\"text\":\"b\"}\nthen\ncount 50 every 20ms")
		for _, tab := range []threadTab{one, two} {
			tab.Until(`thread.waiting.length === 1 && thread.waiting[0].input.text === "a"`)
		}
		decide("elsewhere", signals.Decide{Decision: event.DecisionApprove})
		for _, tab := range []threadTab{one, two} {
			tab.Until(`thread.waiting.length === 1 && thread.waiting[0].input.text === "b"`)
		}
		two.do(`deny(thread.waiting[0], "not b")`)
		for _, tab := range []threadTab{one, two} {
			tab.Sees("section", " 49 50")
			tab.Sees("section", "ask output-denied")
			tab.settles()
		}
	})

	t.Run("for the session, and with edits", func(t *testing.T) {
		one, two := p.open(t, "session", "ann"), p.open(t, "session", "bob")
		one.say("use ask {\"text\":\"a\"}\nthen\nuse ask {\"text\":\"a\"}\nthen\nuse ask {\"text\":\"b\"}\nthen\nuse ask {\"text\":\"c\"}\nthen\nend")
		one.do(`approve(thread.waiting[0], { scope: "session" })`)
		one.Until(`thread.waiting.length === 1 && thread.waiting[0].input.text === "b"`)
		one.do(`approve(thread.waiting[0], { args: { text: "edited" } })`)
		two.Until(`thread.waiting.length === 1 && thread.waiting[0].input.text === "c"`)
		two.do(`approve(thread.waiting[0], { scope: "pattern", pattern: { text: "c*" } })`)
		for _, tab := range []threadTab{one, two} {
			tab.Sees("section", "asked: edited")
			tab.Sees("section", "end")
			tab.settles()
		}
		problem := browser.Evaluate[string](one.Tab, `thread.deny(thread.messages[1].parts.find((p) => p.toolCallId)).then(() => "", (e) => e.status + " " + e.message)`)
		assert.Regexp(t, "^4", problem, "a decision that does not count is an error")
	})

	t.Run("an expiry", func(t *testing.T) {
		one := p.open(t, "expiry", "ann")
		one.say("use hurry {}\nthen\nend")
		one.Sees("section", "hurry output-denied")
		one.Sees("section", "end")
		one.settles()
	})

	t.Run("a cut in the middle of a reply", func(t *testing.T) {
		one := p.open(t, "cut", "ann")
		one.say("think first\nuse note {\"text\":\"a\"}\nthen\ncount 300 every 20ms")
		for _, number := range []string{" 10 ", " 60 ", " 120 "} {
			one.Sees("section", number)
			p.proxy.Cut()
			p.proxy.Mend()
		}
		one.Sees("section", " 299 300")
		one.settles()
	})

	t.Run("a turn that ends during a cut", func(t *testing.T) {
		one := p.open(t, "missed", "ann")
		one.say("count 60 every 20ms")
		one.Sees("section", " 10 ")
		p.proxy.Cut()
		one.Until(`thread.connection !== "open"`)
		first := browser.Evaluate[string](one.Tab, `thread.messages[0].id`)
		p.Await("missed", first)
		assert.Equal(t, signals.TurnCompleted, p.Say("missed", "said elsewhere").Status)
		assert.Empty(t, browser.Evaluate[string](one.Tab, `thread.error?.message ?? ""`), "it comes back by itself")
		p.proxy.Mend()
		one.Sees("section", " 59 60")
		one.Sees("section:last-of-type", "said elsewhere")
		one.settles()
	})

	t.Run("a message that could not be sent", func(t *testing.T) {
		one := p.open(t, "unsent", "ann")
		one.say("hello")
		one.settles()
		p.proxy.Cut()
		one.say("into the void")
		one.Until(`thread.connection !== "open"`)
		p.proxy.Mend()
		one.Until(`thread.messages.length === 4`)
		one.Sees("section:last-of-type", "into the void")
		one.settles()
		assert.Len(t, p.Messages("unsent"), 4, "it is posted once")
	})

	t.Run("a client tool with approval", func(t *testing.T) {
		one, two := p.open(t, "tool", "ann"), p.open(t, "tool", "bob")
		one.say("use locate_exactly {}\nthen\nfound")
		one.Until(`thread.waiting.length === 1`)
		assert.Zero(t, browser.Evaluate[int](one.Tab, `ran`), "it does not run before its approval")
		two.do(`approve(thread.waiting[0])`)
		for _, tab := range []threadTab{one, two} {
			tab.Sees("section", "found")
			tab.Sees("section", "locate_exactly output-available")
			tab.settles()
			assert.LessOrEqual(t, browser.Evaluate[int](tab.Tab, `ran`), 1)
		}
	})

	t.Run("an approval on an older message", func(t *testing.T) {
		one, two := p.open(t, "older", "ann"), p.open(t, "older", "bob")
		one.say("use ask {\"text\":\"a\"}\nthen\nend")
		one.Until(`thread.waiting.length === 1`)
		one.say("and meanwhile")
		one.Until(`thread.messages.length === 4`)
		one.settles()
		one.say("count 50 every 20ms")
		one.Sees("section:last-of-type", " 5 ")
		two.do(`approve(thread.waiting[0])`)
		for _, tab := range []threadTab{one, two} {
			tab.Sees("section:last-of-type", " 49 50")
			tab.Sees("section", "end")
			tab.settles()
		}
	})

	t.Run("input", func(t *testing.T) {
		one := p.open(t, "input", "ann")
		one.say("use book {}\nthen\nend")
		one.do(`answer(thread.waiting[0], { action: "accept", content: { day: "monday" } })`)
		one.Until(`thread.waiting[0]?.input.questions[0].url !== undefined`)
		one.do(`answer(thread.waiting[0], { action: "accept" })`)
		one.Sees("section", "end")
		one.settles()
	})

	t.Run("a page that is kept for later", func(t *testing.T) {
		one := p.open(t, "kept", "ann")
		one.say("count 100 every 20ms")
		// At once, as the turn may end before the page is asked again.
		one.Until(`openStreams === 2 && document.body.innerText.includes(" 10 ") && dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }))`)
		assert.Zero(t, browser.Evaluate[int](one.Tab, `openStreams`), "it keeps no streams")
		first := browser.Evaluate[string](one.Tab, `thread.messages[0].id`)
		p.Await("kept", first)
		p.Say("kept", "said elsewhere")
		browser.Evaluate[chromedp.Void](one.Tab, `void dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`)
		one.Sees("section", " 99 100")
		one.Sees("section:last-of-type", "said elsewhere")
		one.settles()
	})
}
