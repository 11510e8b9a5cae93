//go:build resources

package page

import (
	"flag"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// large is the number of records of the thread that TestPageLargeThread scrolls: see bench/README.md.
var large = flag.Int("records", 10_000, "records of the large thread")

// TestPageLargeThread scrolls over all records of a thread. What is in the document does not grow with it.
func TestPageLargeThread(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := largeThread(w, *large)
	b := browser.New(t)
	p := b.Open("about:blank")
	bytes := transferred(p)
	p.Do(chromedp.Navigate(browser.ThreadPage(w.API.URL, id)))
	p.Sees(".message .body", fmt.Sprintf("message %d", *large-1))
	p.Until(settled)
	first := bytes()
	t.Logf("%.0f KiB until the end of %d records is shown", first/1024, *large)
	assert.Less(t, first, float64(maxFirstBytes))

	up := scroll(p, ".scroller", ".lines > .line", `[id="line-m:m0"]`, -1500)
	t.Logf("scrolling up: %s", up)
	assert.LessOrEqual(t, up.Rows, maxLines)
	p.Until(`document.querySelector(".lines > .line").getAttribute("aria-setsize") !== "-1"`)
	down := scroll(p, ".scroller", ".lines > .line", fmt.Sprintf(`[id="line-m:m%d"]`, *large-1), 3000)
	t.Logf("scrolling down: %s", down)
	assert.LessOrEqual(t, down.Rows, maxLines)

	p.Enter("tm-composer textarea", "still fast")
	p.Sees(".message.final .body", "still fast")
	p.Until(`(() => { const s = document.querySelector(".scroller"); return s.scrollHeight - s.scrollTop - s.clientHeight < 5; })()`)
}

// TestPagePermalink opens links to lines far back: only what is around them is loaded.
func TestPagePermalink(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := largeThread(w, 10_000)
	b := browser.New(t)
	for _, link := range []string{"/m:m4321/4323", "/m:m4321"} {
		p := b.Open(browser.ThreadPage(w.API.URL, id) + link)
		p.Until(`document.activeElement?.id === "line-m:m4321"`)
		p.Until(settled)
		p.Until(`(({ top, bottom }) => top > 0 && bottom < innerHeight)(document.activeElement.getBoundingClientRect())`)
		assert.LessOrEqual(t, requests(p, "/events?"), 5, "the end, what is around the line, and what scrolls in next")
	}
	p := b.Open(browser.ThreadPage(w.API.URL, id) + "/t:call5/57")
	p.Until(`document.activeElement?.id === "line-t:call5"`)
	p.Sees(`[id="line-t:call5"] .state`, "done")
	// A message meanwhile does not take the reader away.
	w.Say(id, "at the end")
	p.Sees("button", "Newest")
	assert.Equal(t, "line-t:call5", browser.Evaluate[string](p, "document.activeElement.id"))
	p.Click("button", "Newest")
	p.Sees(".message.final .body", "at the end")

	// Scrolling on from the line reaches the end without a hole.
	p = b.Open(browser.ThreadPage(w.API.URL, id) + "/m:m9400/9402")
	p.Until(`document.activeElement?.id === "line-m:m9400"`)
	assert.Equal(t, "-1", browser.Evaluate[string](p, `document.activeElement.getAttribute("aria-setsize")`))
	seen := scroll(p, ".scroller", ".lines > .line", `[id="line-m:m9999"]`, 1000)
	assert.LessOrEqual(t, seen.Rows, maxLines)
	from := browser.Evaluate[[]string](p, `[...document.querySelectorAll(".lines > .line")].map((e) => e.id)`)
	assert.Contains(t, from, "line-m:m9998")

	p = b.Open(browser.ThreadPage(w.API.URL, id) + "/m:none")
	p.Sees("#notices", "is not in the thread")
	p.Sees(".message.final .body", "at the end")
}

// TestPageManyThreads lists ten thousand threads.
func TestPageManyThreads(t *testing.T) {
	t.Parallel()
	const n = 10_000
	w := harness.New(t, harness.Options{})
	for i := range n {
		key := w.Key(fmt.Sprintf("t%05d", i))
		title := fmt.Sprintf("Thread %d", i)
		_, err := w.Store.Append(w.Ctx(), key, store.Batch{Thread: &store.ThreadUpdate{Title: &title}})
		require.NoError(t, err)
	}
	p := browser.New(t).Open(w.API.URL)
	p.Sees(".thread-row .title", fmt.Sprintf("Thread %d", n-1))
	down := scroll(p, ".inbox-scroller", ".threads, .threads *", `.thread-row [href="#/threads/t00000"]`, 1500)
	t.Logf("scrolling over %d threads: %s", n, down)
	assert.Less(t, down.Rows, maxListed)
	p.Until(fmt.Sprintf(`document.querySelector(".threads > :nth-last-child(2)").matches('[aria-posinset="%d"][aria-setsize="%d"]')`, n, n))
	p.Accessible()

	// A thread that changes comes first. The reader stays where they are.
	at := `document.querySelector('.thread-row [href="#/threads/t00000"]').getBoundingClientRect().top`
	before := browser.Evaluate[float64](p, at)
	id := w.Open()
	p.Until(fmt.Sprintf(`document.querySelector('.thread-row [href="#/threads/t00000"]').parentElement.getAttribute("aria-posinset") === "%d"`, n+1))
	assert.InDelta(t, before, browser.Evaluate[float64](p, at), 1)
	browser.Evaluate[chromedp.Void](p, `document.querySelector(".inbox-scroller").scrollTop = 0`)
	p.Sees(".thread-row .title", id)
}

// TestPageFindLimit looks for a text that a long thread does not have: the search ends, and goes on if the person wants it to.
func TestPageFindLimit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := largeThread(w, 12_000)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".message .body", "message 11999")
	p.Do(chord("f"))
	p.Enter("tm-find input", "nobody wrote this")
	p.Sees("tm-find .hint", "Nothing earlier in the records that were loaded")
	before := requests(p, "/events?")
	assert.LessOrEqual(t, before, 15)
	p.Click("tm-find button", "Search further")
	p.Until(`document.querySelector("tm-find .hint").textContent === "Nothing earlier"`)
	assert.Greater(t, requests(p, "/events?"), before)
}
