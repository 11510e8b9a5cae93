package page

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageAgentsSideBySide watches two agents that write at the same time, at the end of a long thread. Their messages stand side by side
// where there is room, and stay so where they were read, however far people scroll away in between.
func TestPageAgentsSideBySide(t *testing.T) {
	t.Parallel()
	one := func(name string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in"}
	}
	w := harness.New(t, harness.Options{Agents: []agent.Agent{one("planner"), one("reviewer")}})
	id := largeThread(w, 700, "planner", "reviewer")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Do(chromedp.EmulateViewport(1440, 900))
	p.Sees(".message .body", "message 699")
	p.Until(settled)
	// stand waits until exactly two messages are marked, and are where an expression of their rectangles says.
	stand := func(where string) {
		p.Until(`(() => {
			const [a, b, ...more] = [...document.querySelectorAll(".message[data-beside]")].map((m) => m.getBoundingClientRect());
			return b !== undefined && more.length === 0 && ` + where + `;
		})()`)
	}
	const beside, below = "b.top === a.top && b.left > a.right && a.height > 0", "b.top >= a.bottom && b.left === a.left"
	picture := func(name string) {
		if *browser.Pictures != "" {
			p.Picture(filepath.Join(*browser.Pictures, name+".png"))
		}
	}
	p.Enter("tm-composer textarea", "count 300 every 20ms")
	stand(beside)
	picture("beside-1440")
	p.Do(chromedp.EmulateViewport(390, 844))
	stand(below)
	picture("beside-390")
	p.Do(chromedp.EmulateViewport(1440, 900))
	stand(beside)
	p.Sees(".message[data-beside]", "298 299 300")
	p.Until(`document.querySelectorAll(".message.final[data-beside]").length === 2`)
	stand(beside)
	for _, name := range []string{"planner", "reviewer"} {
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".message[data-beside]")].some((m) => m.dataset.agent === %q && m.querySelector("header").textContent.startsWith(%q))`, name, name))
	}

	p.Do(chromedp.Reload())
	p.Sees(".message.final .body", "298 299 300")
	stand(beside)

	// What follows is below both.
	w.Say(id, "@planner hello")
	p.Until(`(() => {
		const lines = [...document.querySelectorAll(".lines > .line")], last = lines.findLastIndex((e) => e.hasAttribute("data-beside"));
		return lines.length > last + 1 && lines.slice(last - 1, last + 1).every((e) => lines[last + 1].getBoundingClientRect().top >= e.getBoundingClientRect().bottom);
	})()`)

	// One of them has the focus, and so stays in the document while the person is far away: the other one stays with it.
	for _, which := range []string{"[0]", ".at(-1)"} {
		browser.Evaluate[chromedp.Void](p, `[...document.querySelectorAll(".message[data-beside]")]`+which+`.focus({ preventScroll: true })`)
		scroll(p, ".scroller", ".lines > .line", `[id="line-m:m0"]`, -3000)
		stand(beside)
		scroll(p, ".scroller", ".lines > .line", ".message[data-beside]", 3000)
		stand(beside)
	}

	// A link and the search lead to one of them.
	key := browser.Evaluate[string](p, `document.querySelectorAll(".message[data-beside]")[1].id.replace("line-", "")`)
	scroll(p, ".scroller", ".lines > .line", `[id="line-m:m0"]`, -3000)
	browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`location.hash += "/" + %q`, key))
	inView := `((e) => (({ top, bottom }) => bottom > 0 && top < innerHeight)(e.getBoundingClientRect()))`
	p.Until(fmt.Sprintf(`document.activeElement?.id === "line-" + %q && %s(document.activeElement)`, key, inView))
	stand(beside)
	scroll(p, ".scroller", ".lines > .line", `[id="line-m:m0"]`, -3000)
	p.Focus(".scroller")
	p.Click(".thread-header summary", "⋯")
	p.Click(".menu-items button", "Find in this thread")
	p.Enter("tm-find input", "297 298 299")
	p.Until(inView + `(document.querySelectorAll(".message[data-beside]")[1])`)
	stand(beside)

	// The only one that is shown has all of the width.
	p.Until(`((e) => (e.value = "planner", e.dispatchEvent(new Event("change"))))(document.querySelector("[aria-label='Show agent']"))`)
	p.Until(`(() => {
		const shown = [...document.querySelectorAll(".lines > .message.final")].filter((e) => e.textContent.includes("298 299 300"));
		return shown.length === 1 && shown[0].getBoundingClientRect().width > document.querySelector(".lines").getBoundingClientRect().width * 0.9;
	})()`)
	p.Until(`((e) => (e.value = "", e.dispatchEvent(new Event("change"))))(document.querySelector("[aria-label='Show agent']"))`)
	stand(beside)
}
