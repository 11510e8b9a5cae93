package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// inbox stores threads as they appear in a list.
type inbox struct {
	w *harness.Harness
	n int
}

// put stores a record of a thread, which then is the most recently active one.
func (in *inbox) put(thread, typ string, payload any) {
	in.w.T.Helper()
	in.n++
	record := event.NewRecord(fmt.Sprint("r", in.n), typ, "", "", time.Now(), payload).In("e1")
	_, err := in.w.Store.Append(in.w.Ctx(), in.w.Key(thread), store.Batch{Records: []event.Record{record}})
	require.NoError(in.w.T, err)
}

func (in *inbox) said(thread, text string) {
	in.w.T.Helper()
	in.put(thread, event.TypeMessage, event.Message{ID: fmt.Sprint("m", in.n), SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: text})
}

func (in *inbox) waits(thread, tool string, expires time.Duration) {
	in.w.T.Helper()
	at := time.Now().Add(expires)
	in.put(thread, event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "call-" + thread, ToolName: tool, ExpiresAt: &at})
}

func (in *inbox) failed(thread string) {
	in.w.T.Helper()
	in.put(thread, event.TypeTurnEnded, event.TurnEnded{EventID: "e1", Status: "failed"})
}

// rows waits until the list has these rows in this order.
func rows(p *browser.Tab, want ...string) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`[...document.querySelectorAll(".thread-row")].map((e) => e.querySelector(".title").textContent).join("\n") === %q`, strings.Join(want, "\n")))
}

// focused waits until an element that a selector describes has the focus.
func focused(p *browser.Tab, selector string) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`document.activeElement.matches(%q)`, selector))
}

// held waits for the frame from which on the list keeps its order, as the focus or the pointer is in it.
func held(p *browser.Tab) {
	p.T.Helper()
	browser.Evaluate[float64](p, "new Promise(requestAnimationFrame)")
}

// point moves the mouse to the middle of an element.
func point(p *browser.Tab, selector string) {
	p.T.Helper()
	at := browser.Evaluate[[]float64](p, fmt.Sprintf(`(({ left, top, width, height }) => [left + width / 2, top + height / 2])(document.querySelector(%q).getBoundingClientRect())`, selector))
	p.Do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]})
		return err
	}))
}

// TestInboxOrder lists what needs a person first, with counts, and keeps rows under the pointer where they are.
func TestInboxOrder(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	in := &inbox{w: w}
	in.waits("asks", "pay", time.Hour)
	in.failed("fails")
	in.said("first", "Where is my order <b>4711</b>?")
	in.said("second", "Hello")
	p := browser.New(t).Open(w.API.URL)
	rows(p, "asks", "fails", "Hello", "Where is my order <b>4711</b>?")
	assert.Positive(t, requests(p, "sort=attention"), "the server sorts what is not loaded yet")
	p.Sees(".thread-row.waiting .state", "needs a decision")
	for _, tab := range []string{"Open4", "Needs me1", "Failing1", "Idle2", "Closed"} {
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".tabs button")].some((b) => b.textContent === %q)`, tab))
	}
	in.said("first", "And?")
	rows(p, "asks", "fails", "Where is my order <b>4711</b>?", "Hello")
	in.waits("second", "pay", time.Hour)
	rows(p, "asks", "Hello", "fails", "Where is my order <b>4711</b>?")
	p.Sees(".tabs .waiting", "Needs me2")

	point(p, ".thread-row .title")
	p.Until(`document.querySelector("tm-inbox:hover") !== null`)
	held(p)
	in.failed("first")
	in.said("third", "Am I new?")
	p.Sees(".thread-row.failing .title", "Where is my order") // the row tells what has happened to it
	p.Sees(".inbox-changed", "1 changed: show")
	rows(p, "asks", "Hello", "fails", "Where is my order <b>4711</b>?")
	p.Click(".inbox-changed", "show")
	rows(p, "asks", "Hello", "fails", "Where is my order <b>4711</b>?", "Am I new?")
	in.failed("third")
	in.waits("third", "pay", time.Hour)
	p.Sees(".inbox-changed", "1 changed: show")
	rows(p, "asks", "Hello", "fails", "Where is my order <b>4711</b>?", "Am I new?")
	point(p, "#main")
	rows(p, "asks", "Hello", "Am I new?", "fails", "Where is my order <b>4711</b>?")
	p.Until(`document.querySelector(".inbox-changed") === null`)
	p.Click(".tabs button", "Failing")
	rows(p, "fails", "Where is my order <b>4711</b>?")
	p.Click(".tabs button", "Closed")
	p.Sees("tm-inbox", "No thread is closed.")
}

// TestInboxKeys works through the list by keyboard alone.
func TestInboxKeys(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	ids := []string{w.Open(), w.Open(), w.Open()}
	for i, id := range ids {
		w.Say(id, fmt.Sprint("task ", i))
	}
	row := func(i int) string { return fmt.Sprintf(".thread-row [href*=%q]", ids[i]) }
	p := browser.New(t).Open(w.API.URL)
	rows(p, "task 2", "task 1", "task 0")
	p.Press("j")
	focused(p, row(2))
	p.Press("j")
	focused(p, row(1))
	p.Do(browser.Stroke("ArrowDown", "", 40))
	focused(p, row(0))
	p.Press("j") // there is no row after the last one
	p.Press("k")
	focused(p, row(1))

	t.Run("the order stays while a key moves in it", func(t *testing.T) {
		p.T = t
		held(p)
		w.Say(ids[0], "again")
		p.Sees(".inbox-changed", "1 changed")
		rows(p, "task 2", "task 1", "task 0")
		p.Press("u")
		rows(p, "task 0", "task 2", "task 1")
		focused(p, row(1))
	})
	t.Run("a thread is opened, and Escape leads back", func(t *testing.T) {
		p.T = t
		p.Do(browser.Stroke("Enter", "\r", 13))
		p.Sees(".thread-header code", ids[1])
		focused(p, "tm-composer textarea")
		p.Press("j") // is written
		p.Until(`document.activeElement.value === "j"`)
		p.Do(browser.Stroke("Escape", "", 27))
		focused(p, row(1))
		p.Press("/")
		focused(p, "tm-inbox input[type=search]")
		p.Do(browser.Stroke("Escape", "", 27))
		focused(p, row(1))
	})
	t.Run("a thread is closed after a question", func(t *testing.T) {
		p.T = t
		p.Press("e")
		p.Sees("dialog h2", "Close 1 thread?")
		p.Sees("dialog li", "task 1")
		focused(p, "dialog button")
		p.Do(browser.Stroke("Enter", "\r", 13)) // Cancel has the focus
		p.Until(`document.querySelector("dialog") === null`)
		p.Press("e")
		p.Click("dialog button", "Close 1 thread")
		p.Sees("dialog [role=status]", "1 thread closed.")
		rows(p, "task 0", "task 2") // while the focus is in the dialog, the list is not held
		p.Click("dialog button", "Done")
		focused(p, row(2)) // which is now where the row was that had the focus
	})
	t.Run("a row with the focus stays when its thread is closed", func(t *testing.T) {
		p.T = t
		held(p)
		require.NoError(t, w.Threads.CloseThread(w.Ctx(), ids[2], "bob"))
		p.Sees(".thread-row.closed .title", "task 2")
		rows(p, "task 0", "task 2")
		p.Press("k")
		focused(p, row(0))
		p.Press("u")
		rows(p, "task 0")
	})
	t.Run("keys are listed, and can be turned off", func(t *testing.T) {
		p.T = t
		p.Press("?")
		p.Sees("dialog.keys dd", "next thread")
		p.Sees("dialog.keys dt", "Ctrl+F")
		p.Accessible()
		p.Click("dialog.keys label", "Single keys are on")
		p.Click("dialog.keys button", "Close")
		p.Do(chromedp.Reload())
		rows(p, "task 0")
		p.Press("n")
		p.Press("j")
		p.Press("?")
		p.Do(browser.Stroke("Tab", "", 9))
		assert.False(t, browser.Evaluate[bool](p, `document.querySelector("dialog, tm-new-thread, .thread-row :focus") !== null`))
		p.Click("#tools button", "?")
		p.Click("dialog.keys label", "Single keys are on")
		p.Click("dialog.keys button", "Close")
		p.Press("n")
		focused(p, ".new-thread textarea")
	})
	t.Run("a title is given", func(t *testing.T) {
		p.T = t
		p.Fill("input[aria-label=Title]", "The order of the day")
		p.Enter(".new-thread textarea", "hello")
		p.Sees(".thread-header h1", "The order of the day")
		p.Sees(".thread-row .title", "The order of the day")
	})
}

// TestInboxViews filters the list: the view is its address, can be saved, and is counted.
func TestInboxViews(t *testing.T) {
	t.Parallel()
	asks := agent.Agent{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "shell_cmd"},
		Approvals: map[string]agent.Policy{"note": agent.PolicyAlways, "shell_cmd": agent.PolicyAlways},
	}
	w := harness.New(t, harness.Options{Agents: []agent.Agent{asks, {Name: "billing", Instructions: "You help.", Model: "openai/stand-in"}}})
	ask := func(text string) string {
		id := w.Open()
		w.Post(id, text)
		w.AwaitApproval(id, 1)
		return id
	}
	const one, two, list, bill, three = `use note {"text":"1"}`, `use note {"text":"2"}`, `use shell_cmd {"command":"ls"}`, "My bill", `use note {"text":"3"}`
	ask(one)
	second := ask(two)
	ask(list)
	w.Say(w.Open("billing"), bill)
	b := browser.New(t)
	p := b.Open(w.API.URL)
	rows(p, one, two, list, bill)
	p.Until(`document.title === "(3) Threadmill" && document.querySelector("link[rel=icon]").href.endsWith("/page/icon-waiting.svg")`)
	choose := func(label, value string) {
		t.Helper()
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".filter-panel label")].find((e) => e.firstChild.textContent === %q)?.querySelector("[value='%s']") !== undefined`, label, value))
		browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`(() => {
			const select = [...document.querySelectorAll(".filter-panel label")].find((e) => e.firstChild.textContent === %q).querySelector("select");
			select.value = %q;
			select.dispatchEvent(new Event("change"));
		})()`, label, value))
	}
	p.Press("f")
	focused(p, ".filter-panel select")
	p.Until(`document.querySelector(".filter-panel [value=note]") !== null`)
	choose("Waits for a call of", "note")
	rows(p, one, two)
	p.Sees(".tabs .waiting", "Needs me2")
	p.Click(".tabs button", "Needs me")
	p.Until(`location.hash === "#/?tab=waiting&tool=note"`)
	p.Accessible()
	choose("Time left under", "15m")
	p.Sees("tm-inbox", "No thread matches.")
	p.Until(`location.hash === "#/?tab=waiting&tool=note&expiresBefore=15m"`)
	p.Click(".chip", "expires within 15 minutes ×")
	rows(p, one, two)
	choose("Tokens, at least", "10000")
	p.Sees("tm-inbox", "No thread matches.")
	p.Until(`location.hash === "#/?tab=waiting&tool=note&minTokens=10000"`)
	p.Click(".chip", "10,000 tokens or more ×")
	rows(p, one, two)
	ask(three) // only the server can tell that it belongs here
	rows(p, one, two, three)

	p.Click(".inbox-header summary", "⋮")
	p.Click(".inbox-header .menu-items button", "Save this view")
	p.Enter("dialog input", "Refunds")
	p.Sees(".views [aria-current]", "Refunds 3")
	other := b.Open(w.API.URL + browser.Evaluate[string](p, `"/" + location.hash`))
	rows(other, one, two, three)
	other.Sees(".views [aria-current]", "Refunds 3")

	p.Click(".thread-row a", two)
	p.Until(fmt.Sprintf(`location.hash === "#/threads/%s?tab=waiting&tool=note"`, second))
	p.Sees(".thread-header code", second)
	p.Until(`document.title.startsWith("(4) ")`)
	rows(p, one, two, three)
	p.Click("a", "Approvals")
	p.Until(`document.querySelectorAll("tm-approvals .approval").length > 0`)
	p.Click("a", "Threads")
	p.Until(`location.hash === "#/?tab=waiting&tool=note"`)
	rows(p, one, two, three)
	p.Click(".inbox-header summary", "⋮")
	p.Click(".inbox-header .menu-items button", "Forget “Refunds”")
	p.Until(`document.querySelector(".views a") === null`)
	p.Do(chromedp.Navigate(w.API.URL+"/#/?agent=billing"), chromedp.Reload())
	rows(p, bill)
	p.Sees(".chip", "agent billing ×")
}

// TestInboxPalette goes everywhere from one field.
func TestInboxPalette(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "Where is order 4711?")
	w.Say(w.Open(), "something else")
	p := browser.New(t).Open(w.API.URL)
	p.Sees(".thread-row .title", "Where is order 4711?")
	open := func() {
		t.Helper()
		p.Do(chord("k"))
		focused(p, "dialog.palette input")
	}
	open()
	p.Accessible()
	p.Enter("dialog.palette input", "mcp")
	p.Until(`location.hash === "#/servers"`)
	open()
	p.Fill("dialog.palette input", "order 4711")
	p.Until(`[...document.querySelectorAll(".palette [role=option]")].map((e) => e.textContent).join() === "Where is order 4711?thread"`)
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Sees(".thread-header code", id)
	p.Until(`document.querySelector("tm-composer textarea:focus") !== null`)
	open()
	p.Fill("dialog.palette input", "r")
	p.Do(browser.Stroke("ArrowDown", "", 40))
	p.Until(`document.querySelector(".palette [aria-selected=true]").id === "palette-1" && document.activeElement.getAttribute("aria-activedescendant") === "palette-1"`)
	p.Fill("dialog.palette input", "ename")
	p.Sees(".palette [aria-selected=true]", "Rename")
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Sees("dialog h2", "Rename the thread")
	p.Do(browser.Stroke("Escape", "", 27))
	open()
	p.Fill("dialog.palette input", "no such thing")
	p.Sees(".palette li", "Nothing matches.")
	p.Do(browser.Stroke("Enter", "\r", 13)) // there is nothing to choose
	focused(p, "dialog.palette input")
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`document.querySelector("dialog") === null`)
}

// TestInboxMany changes several threads at once: a preview, progress, and the errors of each.
func TestInboxMany(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{MaxModelAttempts: 1})
	in := &inbox{w: w}
	w.Say(w.Open(), "works")
	var failing []string
	for _, text := range []string{"breaks", "breaks too"} {
		id := w.Open()
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
		w.Await(id, w.Post(id, text))
		failing = append(failing, id)
	}
	in.said("gone", "has no workflow")
	in.failed("gone")
	p := browser.New(t).Open(w.API.URL)
	rows(p, "breaks", "breaks too", "has no workflow", "works")

	t.Run("all that fail are retried", func(t *testing.T) {
		p.T = t
		p.Click(".inbox-header summary", "⋮")
		p.Click(".inbox-header .menu-items button", "Retry all that fail")
		p.Sees("dialog.bulk h2", "Retry 3 threads?")
		for _, name := range []string{"breaks", "breaks too", "has no workflow"} {
			p.Sees("dialog.bulk li", name)
		}
		p.Accessible()
		p.Click("dialog.bulk button", "Retry 3 threads")
		p.Sees("dialog.bulk [role=status]", "2 threads retried, 1 failed.")
		p.Until(`[...document.querySelectorAll("dialog.bulk li")].filter((e) => e.querySelector(".error")?.textContent !== undefined).map((e) => e.firstChild.textContent).join() === "has no workflow"`)
		p.Click("dialog.bulk button", "Try 1 thread again")
		p.Sees("dialog.bulk [role=status]", "0 threads retried, 1 failed.")
		p.Click("dialog.bulk button", "Done")
		// The dialog deselects all rows once it has closed, and threads that run move in the list when they end.
		p.Until(`document.querySelector("dialog, .thread-row.running") === null`)
		p.Until(`document.querySelectorAll(".thread-row").length === 4 && [...document.querySelectorAll(".thread-row.failing .title")].map((e) => e.textContent).join() === "has no workflow"`)
	})
	t.Run("threads are selected with keys and the mouse", func(t *testing.T) {
		p.T = t
		p.Press("j")
		p.Press("x")
		p.Sees(".chosen-bar", "1 selected")
		p.Do(browser.Stroke("Escape", "", 27))
		p.Until(`document.querySelector(".chosen-bar") === null && document.querySelector(".check:checked") === null`)
		p.Press("x")
		browser.Evaluate[chromedp.Void](p, `[...document.querySelectorAll(".thread-row a")].at(-1).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: true }))`)
		p.Sees(".chosen-bar", "4 selected")
		p.Accessible()
		p.Press("x") // the row with the focus, not any more
		p.Sees(".chosen-bar", "3 selected")
		p.Until(`document.querySelectorAll(".check:checked").length === 3`)
	})
	t.Run("many are closed after a question", func(t *testing.T) {
		p.T = t
		p.Press("r")
		p.Sees("dialog.bulk", "None of them is concerned.")
		p.Sees("dialog.bulk details", "3 left out")
		p.Do(browser.Stroke("Escape", "", 27))
		p.Until(`document.querySelector("dialog") === null`)
		p.Sees(".chosen-bar", "3 selected") // nothing was done
		p.Click(".inbox-header summary", "⋮")
		p.Click(".inbox-header .menu-items button", "Select all of this list")
		p.Sees(".chosen-bar", "4 selected")
		p.Click(".chosen-bar button", "Close…")
		p.Sees("dialog.bulk h2", "Close 4 threads?")
		p.Click("dialog.bulk button", "Cancel")
		for _, id := range failing {
			thread, err := w.Store.Thread(w.Ctx(), w.Key(id))
			require.NoError(t, err)
			require.Equal(t, store.ThreadOpen, thread.Status)
		}
		p.Sees(".chosen-bar", "4 selected")
		p.Click(".chosen-bar button", "Close…")
		p.Click("dialog.bulk button", "Close 4 threads")
		p.Sees("dialog.bulk [role=status]", "3 threads closed, 1 failed.")
		p.Click("dialog.bulk button", "Done")
		// The order is held while the focus is in the list, to which it comes back when the dialog has closed.
		p.Until(`(document.activeElement.blur(), document.querySelectorAll(".thread-row").length === 1)`)
		rows(p, "has no workflow")
	})
}

// TestInboxNotifications: a person who asks for it is notified of each thread that begins to wait while nobody sees the page.
func TestInboxNotifications(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	ask := func(text string) string {
		id := w.Open()
		w.Post(id, fmt.Sprintf("use note {\"text\":%q}", text))
		w.AwaitApproval(id, 1)
		return id
	}
	ask("before")
	p := browser.New(t).Open(w.API.URL)
	p.Sees("#nav .count", "1")
	// The browser of the tests shows no notifications.
	browser.Evaluate[chromedp.Void](p, `globalThis.shown = []; globalThis.Notification = class {
		static permission = "default";
		static requestPermission() { return Promise.resolve(Notification.permission = Notification.answer); }
		static answer = "denied";
		constructor(title, { body, tag }) { this.text = [title, body].join(": "); shown.push(this); }
		close() { this.closed = true; }
	}; undefined`)
	turn := func(label string) {
		t.Helper()
		p.Click(".inbox-header summary", "⋮")
		p.Click(".inbox-header .menu-items button", label)
	}
	turn("Notify me of threads that wait")
	p.Sees("#notices", "does not permit notifications")
	browser.Evaluate[chromedp.Void](p, `Notification.answer = "granted"; undefined`)
	turn("Notify me of threads that wait")
	p.Sees("#notices", "You will be notified")
	ask("seen")
	p.Sees("#nav .count", "2")
	see := func(state string) {
		browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`Object.defineProperty(document, "visibilityState", { value: %q, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, state))
	}
	see("hidden")
	id := ask("unseen")
	p.Until(`shown.length > 0`)
	p.Until(`document.title === "(3) Threadmill"`)
	assert.Equal(t, []string{`use note {"text":"unseen"}: assistant asks to call note`}, browser.Evaluate[[]string](p, `shown.map((n) => n.text)`))
	browser.Evaluate[chromedp.Void](p, `shown[0].onclick(); undefined`)
	p.Sees(".thread-header code", id)
	see("visible")
	turn("Notify me no more")
	see("hidden")
	ask("no more")
	p.Until(`document.title.startsWith("(4)")`)
	assert.Equal(t, 1, browser.Evaluate[int](p, `shown.length`))
}
