package page

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageNotices shows an error as a whole until it is dismissed with a key, and other notices for a moment.
func TestPageNotices(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	p := browser.New(t).Open(w.API.URL + "/#/agents")
	p.Sees("tm-agents", "assistant")
	long := strings.Repeat("it failed, and this is why. ", 200)
	// Time passes fast: what would go after a while goes now, in the order of its times.
	browser.Evaluate[chromedp.Void](p, `const later = setTimeout; globalThis.setTimeout = (run, ms, ...rest) => later(run, ms / 1000, ...rest); undefined`)
	browser.Evaluate[any](p, `import("/page/dom.js").then(({ notify }) => { notify("one", "error"); notify(`+"`"+long+"`"+`, "error"); notify("one", "error"); notify("done"); return new Promise((resolve) => setTimeout(resolve, 60_000)); })`)
	p.Until(`document.querySelector("#notices .info") === null`)
	p.Until(`[...document.querySelectorAll("#notices .error p")].map((e) => e.textContent.length).join() === "` + "5600,3" + `"`)
	p.Until(`((box) => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector("#notices").getBoundingClientRect())`)
	p.Accessible()
	// The first key leads to the skip link, the next one to the notices.
	browser.Evaluate[any](p, `document.querySelector(".skip").focus()`)
	p.Do(browser.Stroke("Tab", "", 9))
	p.Until(`document.activeElement.closest("#notices") !== null`)
	for range 2 {
		p.Until(`(document.querySelector("#notices button").focus(), document.activeElement.closest(".notice") !== null)`)
		p.Do(browser.Stroke("Escape", "", 27))
	}
	p.Until(`document.querySelector("#notices").childElementCount === 0 && document.activeElement.id === "main"`)
}

// TestPageMenuBesideFind opens the menu of a thread over the bar that finds text: the buttons of the bar can be clicked.
func TestPageMenuBesideFind(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Click(".thread-header .menu summary", "")
	p.Click(".menu-items button", "Find in this thread")
	p.Until(`document.activeElement.closest("tm-find") !== null && !document.querySelector(".thread-header .menu").open`)
	p.Click(".thread-header .menu summary", "")
	p.Until(`[...document.querySelectorAll("tm-find button")].every((b) => ((box) => b.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)))(b.getBoundingClientRect()))`)
	p.Until(`document.querySelector(".thread-header .menu").open`)
}
