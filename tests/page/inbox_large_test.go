package page

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Limits of the page, however much there is to show.
const (
	maxLines      = 60  // lines of a thread in the document, in a window of 800 pixels
	maxListed     = 100 // elements of the list of threads
	maxFirstBytes = 150 << 10
)

// largeThread stores a thread of n records, of which most are messages: m0, m1, and so on, with tool calls in between.
func largeThread(w *harness.Harness, n int, agents ...string) string {
	id := w.Open(agents...)
	now := time.Now().Add(-24 * time.Hour)
	var records []event.Record
	flush := func() {
		_, err := w.Store.Append(w.Ctx(), w.Key(id), store.Batch{Records: records})
		require.NoError(w.T, err)
		records = records[:0]
	}
	for i := range n {
		at := now.Add(time.Duration(i) * time.Millisecond)
		reply, call := fmt.Sprintf("m%d", i-i%10), fmt.Sprintf("call%d", i/10)
		m := event.Message{ID: fmt.Sprintf("m%d", i), ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: fmt.Sprintf("message **%d**", i)}
		switch i % 10 {
		case 3:
			m.SenderID, m.SenderType, m.Role, m.AgentID = "assistant", event.CreatedByAgent, event.RoleAssistant, "assistant"
			m.Content = fmt.Sprintf("**Reply %d**\n\n%s\n\n```go\nfunc main() {}\n```\n\n- one\n- two", i, strings.Repeat("It takes several lines to say this. ", i%17))
		case 6:
			m.SenderID, m.SenderType, m.Role, m.AgentID = "note", event.CreatedByTool, event.RoleTool, "assistant"
			m.ToolName, m.ToolCallID, m.ReplyToMessageID = "note", call, reply
			m.Content = strings.Repeat("noted\n", 1+i%40)
		}
		record := event.NewRecord(m.ID, event.TypeMessage, reply, "", at, m)
		if i%10 == 5 {
			calls := []event.ToolCall{{ID: call, Function: event.Function{Name: "note", Arguments: fmt.Sprintf(`{"text":"<b>%d</b>"}`, i)}}}
			record = event.NewRecord(reply+".calls", event.TypeToolCall, reply, "", at, event.ToolCallEvent{ThreadID: id, AgentName: "assistant", ToolCalls: calls})
		}
		records = append(records, record)
		if len(records) == 1000 {
			flush()
		}
	}
	flush()
	return id
}

// requests returns the number of requests of a tab whose address contains a text.
func requests(p *browser.Tab, text string) int {
	p.T.Helper()
	return browser.Evaluate[int](p, fmt.Sprintf(`performance.getEntriesByType("resource").filter((e) => e.name.includes(%q)).length`, text))
}

// frames are the figures of a scroll.
type frames struct {
	Frames   int     `json:"frames"`
	P50      float64 `json:"p50"` // milliseconds, as those that follow
	P95      float64 `json:"p95"`
	Max      float64 `json:"max"`
	Elements int     `json:"elements"` // the most that the document had
	Rows     int     `json:"rows"`     // the most of them that the selector of rows found
}

// scroll scrolls by some pixels in each frame until an element exists and is in view.
func scroll(p *browser.Tab, scroller, rows, until string, pixels int) frames {
	p.T.Helper()
	browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`globalThis.scrolled = undefined; (async () => {
		performance.setResourceTimingBufferSize(100000);
		const scroller = document.querySelector(%q), times = [];
		const out = { elements: 0, rows: 0 };
		let last = await new Promise(requestAnimationFrame);
		for (let found; !found || found.getBoundingClientRect().bottom < 0 || found.getBoundingClientRect().top > innerHeight; found = document.querySelector(%q)) {
			scroller.scrollTop += %d;
			const now = await new Promise(requestAnimationFrame);
			times.push(now - last);
			last = now;
			out.elements = Math.max(out.elements, document.querySelectorAll("*").length);
			out.rows = Math.max(out.rows, document.querySelectorAll(%q).length);
		}
		times.sort((a, b) => a - b);
		globalThis.scrolled = { ...out, frames: times.length, p50: times[times.length >> 1], p95: times[Math.floor(times.length * 0.95)], max: times.at(-1) };
	})(); undefined`, scroller, until, pixels, rows))
	// A slow machine takes its time. One that has stopped does not scroll.
	for last, since := -1.0, time.Now(); browser.Evaluate[bool](p, `scrolled === undefined`); {
		if at := browser.Evaluate[float64](p, fmt.Sprintf(`new Promise((resolve) => setTimeout(() => resolve(document.querySelector(%q).scrollTop), 200))`, scroller)); at != last {
			last, since = at, time.Now()
		}
		require.Less(p.T, time.Since(since), testenv.Patience, "the page does not scroll")
	}
	return browser.Evaluate[frames](p, "scrolled")
}

func (f frames) String() string {
	return fmt.Sprintf("%d frames, p50 %.0f ms, p95 %.0f ms, max %.0f ms; at most %d rows and %d elements in the document", f.Frames, f.P50, f.P95, f.Max, f.Rows, f.Elements)
}

// transferred starts to count the bytes that a tab receives, and returns a function that stops and returns them.
func transferred(p *browser.Tab) func() float64 {
	p.Do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, network.Enable, network.EnableParams{})
		return err
	}))
	total := make(chan float64)
	ctx, cancel := context.WithCancel(p.Ctx())
	loaded := chromedp.Events(ctx, network.LoadingFinished)
	go func() {
		sum := 0.0
		for e, err := range loaded {
			if err != nil {
				break
			}
			sum += e.EncodedDataLength
		}
		total <- sum
	}()
	return func() float64 {
		cancel()
		return <-total
	}
}

// settled is an expression that is true once a thread's lines are shown, with their Markdown.
const settled = `document.querySelector(".lines > .line") !== null && document.querySelector(".lines .message:not(.streaming) .body[data-text]") === null`

// TestPageKeepsPlace loads earlier lines, selects text and holds the focus: nothing of it moves.
func TestPageKeepsPlace(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := largeThread(w, 700)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".message .body", "message 699")
	p.Until(settled)
	// All pages are loaded while a person scrolls up: the last line in view moves by each step, and by nothing else.
	moved := browser.Evaluate[float64](p, `(async () => {
		const s = document.querySelector(".scroller"), probe = document.body.appendChild(document.createElement("div"));
		// Observers are called in the order in which they were made: this one sees what is painted.
		let painted, worst = 0;
		new ResizeObserver(() => painted?.()).observe(probe);
		const frame = () => {
			probe.style.width = probe.style.width === "1px" ? "2px" : "1px";
			return new Promise((resolve) => painted = resolve);
		};
		await frame(); // what was rendered just now is in its place by the next frame
		while (!document.getElementById("line-m:m0")) {
			const line = [...document.querySelectorAll(".lines > .line")].findLast((e) => e.getBoundingClientRect().top < s.getBoundingClientRect().bottom - 500);
			const step = Math.min(400, s.scrollTop);
			const place = line.getBoundingClientRect().top + step;
			s.scrollTop -= step;
			do {
				await frame();
				worst = Math.max(worst, Math.abs(line.getBoundingClientRect().top - place));
			} while (!(`+settled+`));
		}
		return worst;
	})()`)
	assert.Less(t, moved, 3.0)
	p.Until(settled)

	// The selection, the focus and what was opened stay while they are far away.
	browser.Evaluate[chromedp.Void](p, `(() => {
		const line = document.querySelector(".lines > .message");
		getSelection().selectAllChildren(line.querySelector(".body"));
		globalThis.selected = getSelection().toString();
	})()`)
	p.Click(".lines .tool summary", "note")
	tool := browser.Evaluate[string](p, `document.querySelector(".lines .tool details[open]").closest(".line").id`)
	browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`document.querySelector('[id=%q] summary').focus({ preventScroll: true })`, tool))
	p.Click("button", "Newest")
	p.Sees(".message .body", "message 699")
	assert.NotEmpty(t, browser.Evaluate[string](p, "selected"))
	assert.Equal(t, browser.Evaluate[string](p, "selected"), browser.Evaluate[string](p, "getSelection().toString()"))
	assert.Equal(t, tool, browser.Evaluate[string](p, `document.activeElement.closest(".line")?.id ?? ""`))
	assert.True(t, browser.Evaluate[bool](p, fmt.Sprintf(`document.querySelector('[id=%q] details').open`, tool)))
	assert.LessOrEqual(t, browser.Evaluate[int](p, `document.querySelectorAll(".lines > .line").length`), maxLines)
	p.Accessible()
}

// TestPageApprovalsRequests counts what the list of approvals asks the server.
func TestPageApprovalsRequests(t *testing.T) {
	t.Parallel()
	const n = 12
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	for i := range n {
		id := w.Open()
		w.Post(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\ndone", i))
		w.AwaitApproval(id, 1)
	}
	p := browser.New(t).Open(w.API.URL + "/#/approvals")
	p.Until(fmt.Sprintf(`document.querySelectorAll("tm-approvals .approval").length === %d`, n))
	p.Sees("#nav .count", fmt.Sprint(n))
	p.Sees("#tools .connection", "Live")
	assert.Equal(t, 1, requests(p, "/v1/approvals"))
}

// TestPageFind finds a text that is far back: pages are loaded until there is a line with it.
func TestPageFind(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := largeThread(w, 3000)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".message .body", "message 2999")
	p.Do(chord("f"))
	p.Until(`document.activeElement.matches("tm-find input")`)
	p.Enter("tm-find input", "MESSAGE **142")
	target := func(key string) {
		t.Helper()
		p.Until(fmt.Sprintf(`(({ top, bottom }) => top > 0 && bottom < innerHeight)(document.querySelector('[id="line-%s"][data-target]')?.getBoundingClientRect() ?? {})`, key))
	}
	target("m:m1429")
	p.Do(browser.Stroke("Enter", "\r", 13))
	target("m:m1428")
	p.Click("tm-find button", "↓")
	target("m:m1429")
	p.Click("tm-find button", "↓")
	p.Sees("tm-find .hint", "Nothing later")
	assert.True(t, browser.Evaluate[bool](p, `document.querySelectorAll(".lines > .line").length < 60`))
	browser.Evaluate[chromedp.Void](p, `(() => { document.querySelector("tm-find input").value = ""; })()`)
	p.Enter("tm-find input", "<b>5</b>")
	target("t:call0")
	p.Until(`CSS.highlights.get("found").size > 0`)
	p.Accessible()
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`document.querySelector("tm-find").hidden && document.activeElement.matches(".scroller")`)
}

// chord presses a letter with the control key.
func chord(letter string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeKeyDown, Key: letter, WindowsVirtualKeyCode: int64(strings.ToUpper(letter)[0]), Modifiers: 2,
		})
	}
}

// TestPageListTop scrolls fast to the beginning of a list whose rows are lower than estimated, so that it comes to rest
// above the first one, whether or not its rows were measured by then.
func TestPageListTop(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL)
	p.Until(`document.querySelector("tm-inbox") !== null`)
	browser.Evaluate[chromedp.Void](p, `(async () => {
		const [{ VirtualList }, { h }] = await Promise.all([import("/page/virtuallist.js"), import("/page/dom.js")]);
		const list = h("div", null), scroller = h("div", { id: "scroller" }, list);
		Object.assign(scroller.style, { position: "fixed", inset: "0", overflow: "auto", zIndex: 9, background: "white" });
		document.body.append(scroller);
		const make = (key) => Object.assign(h("div", { class: "row", id: key }, key), { style: "height: 30px; min-height: 0" });
		const rows = new VirtualList({ list, scroller, estimate: 90, overscan: 600, make, show: () => {}, log: true });
		rows.set(Array.from({ length: 1000 }, (_, i) => "r" + i));
		rows.toEnd();
		do {
			scroller.scrollTop -= 3000;
			await new Promise(requestAnimationFrame);
		} while (scroller.scrollTop > 0);
	})()`)
	p.Until(`document.getElementById("r0")?.getBoundingClientRect().top === 0`)
	p.Until(`document.elementFromPoint(10, innerHeight - 10)?.id.startsWith("r")`)
	// Rows in view that become lower while nobody scrolls leave no space above them: the row that stays is at the other end of the window.
	browser.Evaluate[chromedp.Void](p, `(async () => {
		const scroller = document.getElementById("scroller");
		for (const top of [300, 0]) {
			const scrolled = new Promise((done) => scroller.addEventListener("scroll", done, { once: true }));
			scroller.scrollTop = top;
			await scrolled;
		}
	})()`)
	for i := range 3 {
		browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`(async () => {
			document.getElementById("r%d").style.height = "20px";
			for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); // until the list knows
		})()`, i))
		p.Until(fmt.Sprintf(`document.getElementById("r0").getBoundingClientRect().top === 0 && document.getElementById("r3").getBoundingClientRect().top === %d`, 90-10*(i+1)))
	}
}

// TestPageWeight adds up what a browser transfers until a thread is shown.
func TestPageWeight(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	for i := range 5 {
		w.Say(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\n# Reply %d\n\nwith **Markdown**", i, i))
	}
	b := browser.New(t)
	p := b.Open("about:blank")
	bytes := transferred(p)
	p.Do(chromedp.Navigate(browser.ThreadPage(w.API.URL, id)))
	p.Sees(".message.final .body", "Reply 4")
	p.Until(settled)
	p.Until(fmt.Sprintf(`document.querySelector('.thread-row [href*=%q]') !== null`, id))
	first := browser.Evaluate[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	t.Logf("first contentful paint after %.0f ms", first)
	total := bytes()
	t.Logf("%.0f bytes transferred", total)
	assert.Positive(t, total)
	assert.Less(t, total, float64(maxFirstBytes))
}
