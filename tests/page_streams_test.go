package tests

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageVisits loads whole pages one after the other in one tab. The browser keeps those that were left, and permits
// six connections.
func TestPageVisits(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	b := newBrowser(t)
	p := b.open(w.API.URL + "/?visit=0#/threads/" + id)
	for i := range 6 {
		p.sees(".message.final .body", "hello")
		p.sees(".connection", "Live")
		p.do(chromedp.Navigate(fmt.Sprintf("%s/?visit=%d#/threads/%s", w.API.URL, i+1, id)))
	}
	p.sees(".message.final .body", "hello")
	p.enter("tm-composer textarea", "still here")
	p.sees(".message.final .body", "still here")
	fresh := b.open(threadPage(w.API.URL, id))
	fresh.sees(".message.final .body", "still here")

	evaluate[chromedp.Void](p, "history.back()")
	p.until(`location.search === "?visit=5"`)
	fresh.enter("tm-composer textarea", "after the return")
	p.sees(".message.final .body", "after the return")
}

// TestPageClosed watches a thread until it is closed, and a closed one.
func TestPageClosed(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	b := newBrowser(t)
	p := b.open(threadPage(w.API.URL, id))
	p.sees(".message.final .body", "hello")
	p.click("summary", "⋯")
	p.click(".menu-items button", "Close the thread")
	p.click("dialog button", "Close it")
	p.sees(".lines .status", "Thread closed")
	late := b.open(threadPage(w.API.URL, id))
	for _, p := range []*tab{p, late} {
		p.sees(".thread-header .badge", "closed")
		p.sees(".lines .status", "Thread closed")
		p.until(`document.querySelector("tm-composer textarea").disabled`)
		p.sees(".connection", "Live")
	}
	// The page asked once, and there is nothing to connect for again.
	streams := fmt.Sprintf(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith(%q)).length`, "/"+id+"/events")
	late.until(streams + " === 1")
	evaluate[chromedp.Void](late, `Object.defineProperty(document, "visibilityState", { value: "visible", configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`)
	evaluate[chromedp.Void](late, `fetch("/healthz").then((r) => r.text())`)
	assert.Equal(t, 1, evaluate[int](late, streams))
}

// TestPageClosedSubAgent shows the closed thread of a sub-agent within its call.
func TestPageClosedSubAgent(t *testing.T) {
	w := harness.New(t, harness.Options{Agents: team()})
	id := w.Open()
	w.Say(id, `use call_agent {"agent":"helper","message":"hello","title":"Helps"}`+"\nthen\ndone")
	below := sub(w, id, 1)
	require.Eventually(t, func() bool {
		thread, err := w.Store.Thread(w.Ctx(), w.Key(below))
		return err == nil && thread.Status == store.ThreadClosed
	}, harness.Patience, harness.Tick)
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	p.click(".tool summary", "call_agent")
	p.click(".tool button", "Show the sub-agent's thread")
	p.sees("tm-thread.nested .status", "The sub-agent's thread was closed")
	p.sees("#tools .connection", "Live")
	p.until(`!document.querySelector("tm-composer textarea").disabled`)
	assert.Empty(t, evaluate[string](p, `document.querySelector(".thread-header .badge")?.textContent ?? ""`))
	p.enter("tm-composer textarea", "and you?")
	p.sees(".message.final .body", "and you?")
	p.sees("#tools .connection", "Live")
}

// TestPageNoWorker shows that nothing can be answered, and that it can again.
func TestPageNoWorker(t *testing.T) {
	w := harness.New(t, harness.Options{NoWorker: true})
	p := newBrowser(t).open(w.API.URL)
	p.sees("#health", "no worker has polled")
	w.StartWorker()
	p.until(`document.querySelector("#health").hidden`)
}
