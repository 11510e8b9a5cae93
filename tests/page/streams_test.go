package page

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageVisits loads whole pages one after the other in one tab. The browser keeps those that were left, and permits
// six connections.
func TestPageVisits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	b := browser.New(t)
	p := b.Open(w.API.URL + "/?visit=0#/threads/" + id)
	for i := range 6 {
		p.Sees(".message.final .body", "hello")
		p.Sees(".connection", "Live")
		p.Do(chromedp.Navigate(fmt.Sprintf("%s/?visit=%d#/threads/%s", w.API.URL, i+1, id)))
	}
	p.Sees(".message.final .body", "hello")
	p.Enter("tm-composer textarea", "still here")
	p.Sees(".message.final .body", "still here")
	fresh := b.Open(browser.ThreadPage(w.API.URL, id))
	fresh.Sees(".message.final .body", "still here")

	browser.Evaluate[chromedp.Void](p, "history.back()")
	p.Until(`location.search === "?visit=5"`)
	fresh.Enter("tm-composer textarea", "after the return")
	p.Sees(".message.final .body", "after the return")
}

// TestPageClosed watches a thread until it is closed, and a closed one.
func TestPageClosed(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	b := browser.New(t)
	p := b.Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".message.final .body", "hello")
	p.Click("summary", "⋯")
	p.Click(".menu-items button", "Close the thread")
	p.Click("dialog button", "Close it")
	p.Sees(".lines .status", "Thread closed")
	late := b.Open(browser.ThreadPage(w.API.URL, id))
	for _, p := range []*browser.Tab{p, late} {
		p.Sees(".thread-header .badge", "closed")
		p.Sees(".lines .status", "Thread closed")
		p.Until(`document.querySelector("tm-composer textarea").disabled`)
		p.Sees(".connection", "Live")
	}
	// The page asked once, and there is nothing to connect for again.
	streams := fmt.Sprintf(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith(%q)).length`, "/"+id+"/events")
	late.Until(streams + " === 1")
	browser.Evaluate[chromedp.Void](late, `Object.defineProperty(document, "visibilityState", { value: "visible", configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`)
	browser.Evaluate[chromedp.Void](late, `fetch("/healthz").then((r) => r.text())`)
	assert.Equal(t, 1, browser.Evaluate[int](late, streams))
}

// TestPageClosedSubAgent shows the closed thread of a sub-agent within its call.
func TestPageClosedSubAgent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{
		{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"call_agent"}},
		{Name: "helper", Instructions: "You help.", Model: "openai/stand-in"},
	}})
	id := w.Open()
	w.Say(id, `use call_agent {"agent":"helper","message":"hello","title":"Helps"}`+"\nthen\ndone")
	require.Eventually(t, func() bool {
		threads, err := w.Store.Threads(w.Ctx(), w.TaskQueue, store.ThreadPage{Limit: 2})
		return err == nil && slices.ContainsFunc(threads, func(row store.Thread) bool { return row.Status == store.ThreadClosed })
	}, testenv.Patience, testenv.Tick)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Click(".tool summary", "call_agent")
	p.Click(".tool button", "Show the sub-agent's thread")
	p.Sees("tm-thread.nested .status", "The sub-agent's thread was closed")
	p.Sees("#tools .connection", "Live")
	p.Until(`!document.querySelector("tm-composer textarea").disabled`)
	assert.Empty(t, browser.Evaluate[string](p, `document.querySelector(".thread-header .badge")?.textContent ?? ""`))
	p.Enter("tm-composer textarea", "and you?")
	p.Sees(".message.final .body", "and you?")
	p.Sees("#tools .connection", "Live")
}

// TestPageNoWorker shows that nothing can be answered, and that it can again.
func TestPageNoWorker(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	p := browser.New(t).Open(w.API.URL)
	p.Sees("#health", "no worker has polled")
	w.StartWorker()
	p.Until(`document.querySelector("#health").hidden`)
}

// TestPageSevenTabs opens seven tabs, each with the list of threads and another thread: browsers permit six connections over
// HTTP/1.1.
func TestPageSevenTabs(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	b := browser.New(t)
	var ids []string
	var tabs []*browser.Tab
	for range 7 {
		ids = append(ids, w.Open())
		tabs = append(tabs, b.Open(browser.ThreadPage(w.API.URL, ids[len(ids)-1])))
	}
	for i, p := range tabs {
		p.Sees(".connection", "Live")
		require.Equal(t, "visible", browser.Evaluate[string](p, "document.visibilityState"))
		p.Enter("tm-composer textarea", fmt.Sprintf("hello number %d", i))
		p.Sees(".message.final .body", fmt.Sprintf("hello number %d", i))
	}
	for i, p := range tabs { // what others write
		w.Say(ids[i], "from elsewhere")
		p.Sees(".message.final .body", "from elsewhere")
	}
	for _, p := range tabs {
		for _, id := range ids {
			p.Until(fmt.Sprintf(`document.querySelector('tm-inbox a[href*=%q]') !== null`, id))
		}
	}
}
