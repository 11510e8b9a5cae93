// Package cards tests the cards and forms of the page in a browser: decisions, questions, definitions, keys and drafts.
package cards

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// holdPosts holds what a tab posts from now on, until the JavaScript function "release" is called: the requests, or only their answers.
func holdPosts(p *browser.Tab, answers bool) {
	p.T.Helper()
	browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`(() => {
		const send = fetch, answers = %t;
		const released = new Promise((done) => (globalThis.release = done));
		globalThis.held = 0;
		globalThis.fetch = async (url, init) => {
			if (init?.method !== "POST" || !/\/(approvals|tool-calls)\//.test(url)) return send(url, init);
			const answer = answers ? send(url, init) : undefined;
			globalThis.held++;
			await released;
			return answer ?? send(url, init);
		};
	})()`, answers))
}

// waitingCard is a call that waits for a person, and how they fill in its card.
type waitingCard struct {
	page   string
	open   string // the button that opens its form, if it does not stand there already
	field  string // of its form
	send   string // the button that sends it
	settle func() // settles the call as bob
	how    string // tells how it was settled
	told   string // an expression for whether the page knows
}

// waitingCards is one of each kind in a thread of its own, and one in Approvals, where the others wait as well.
func waitingCards(t *testing.T) []waitingCard {
	t.Helper()
	options := check.AskingFirst(agent.PolicyAlways)
	options.Tools = []tool.Tool{check.Survey{}, tool.ClientSide(tool.Definition{Name: "camera", Description: "Takes a photo."})}
	options.Agents[0].Tools = []string{"note", "survey", "camera"}
	w := harness.New(t, options)
	const done = `document.querySelector(".line.tool:is(.done, .denied, .failed)") !== null`
	approval := func() waitingCard {
		id := w.Open()
		w.Post(id, `use note {"text":"x"}`)
		call := w.AwaitApproval(id, 1)[0]
		return waitingCard{page: browser.ThreadPage(w.API.URL, id), open: "Deny…", field: "input[name=reason]", send: "Deny", told: done, how: "Approved by bob", settle: func() {
			_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "bob", Round: call.Round, Digest: call.Digest})
			require.NoError(t, err)
		}}
	}
	waiting := func(use string) (id string, calls signals.Approvals) {
		id = w.Open()
		w.Post(id, use)
		require.Eventually(t, func() bool {
			var err error
			calls, err = w.Threads.Approvals(w.Ctx(), id)
			return err == nil && len(calls.Inputs)+len(calls.ClientCalls) == 1
		}, testenv.Patience, testenv.Tick)
		return id, calls
	}
	form, asked := waiting("use survey {}")
	input := waitingCard{page: browser.ThreadPage(w.API.URL, form), field: "input", send: "Decline", told: done, how: "Answered by bob", settle: func() {
		_, err := w.Threads.AnswerInput(w.Ctx(), form, signals.InputAnswers{ToolCallID: asked.Inputs[0].ToolCallID, Round: asked.Inputs[0].Round, By: "bob", Answers: map[string]event.InputAnswer{
			"all": {Action: event.InputAccept, Content: json.RawMessage(`{"name":"Bobby","seats":1,"drink":"t","dishes":["soup"]}`)},
		}})
		require.NoError(t, err)
	}}
	photo, shot := waiting("use camera {}")
	client := waitingCard{page: browser.ThreadPage(w.API.URL, photo), open: "Give its result…", field: "textarea", send: "Send the result", told: done, how: "The call has its result.", settle: func() {
		_, err := w.Threads.ToolResult(w.Ctx(), photo, signals.ToolResult{ToolCallID: shot.ClientCalls[0].ToolCallID, Output: "a cat", By: "bob"})
		require.NoError(t, err)
	}}
	cards := []waitingCard{approval(), input, client, approval()}
	cards[3].page = w.API.URL + "/#/approvals"
	cards[3].told = `document.querySelector("tm-approvals [role=status]").textContent.includes("Nothing waits")`
	return cards
}

// begin opens the form of a card.
func (c waitingCard) begin(p *browser.Tab) {
	p.T.Helper()
	if c.open != "" {
		p.Click(".approval button", c.open)
	}
	p.Until(fmt.Sprintf(`document.querySelector(".approval %s") !== null`, c.field))
}

// fill opens the form of a card and types into it.
func (c waitingCard) fill(p *browser.Tab) {
	p.T.Helper()
	c.begin(p)
	p.Fill(".approval "+c.field, "because it is late")
}

// filled is an expression for whether the form of a card has what was typed.
func (c waitingCard) filled() string {
	return fmt.Sprintf(`document.querySelector(".approval %s")?.value === "because it is late"`, c.field)
}

// TestPageOvertakenWhileSending: somebody else settles a call while a person's own decision, answer or result is on its way. What they
// typed stays, with why theirs does not count.
func TestPageOvertakenWhileSending(t *testing.T) {
	t.Parallel()
	cards := waitingCards(t)
	b := browser.New(t)
	for _, c := range cards {
		p := b.Open(c.page)
		c.fill(p)
		holdPosts(p, false)
		p.Click(".approval button", c.send)
		p.Until("held === 1")
		c.settle()
		p.Until(c.told)
		p.Until(c.filled())
		browser.Evaluate[chromedp.Void](p, "release()")
		p.Sees(".approval[data-kept] .error", c.how)
		p.Sees(".approval[data-kept] .error", "already")
		p.Until(c.filled())
		p.Click(".approval .error button", "Close")
		p.Until(`document.querySelector(".approval") === null`)
	}
}

// TestPageOvertakenWithoutForm: a decision that was made with one key, and does not count because somebody else made another one, says so.
func TestPageOvertakenWithoutForm(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	id := check.WaitingNotes(w, 1)[0]
	call := w.AwaitApproval(id, 1)[0]
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Until(`document.querySelector(".approval[data-seen]") !== null`)
	holdPosts(p, false)
	p.Until(`(document.querySelector(".approval").focus(), document.activeElement.matches(".approval"))`)
	p.Decide("a")
	p.Until("held === 1")
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, By: "bob", Round: call.Round, Digest: call.Digest})
	require.NoError(t, err)
	p.Sees(".line.tool.denied .decision", "Denied by bob")
	browser.Evaluate[chromedp.Void](p, "release()")
	p.Sees(".approval[data-kept] .error", "Denied by bob")
	p.Sees(".approval[data-kept] .error", "already")
	p.Until(`[...document.querySelectorAll(".approval .choice button")].every((e) => e.hidden)`)
	browser.Evaluate[chromedp.Void](p, `{ (globalThis.card = document.querySelector(".approval")).focus(); }`)
	p.Press("d")
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`document.querySelector(".approval") === null`)
	// If the call is asked again, the card shows nothing of this end.
	require.True(t, browser.Evaluate[bool](p, `card.querySelector("tm-card-end").hidden && !card.matches("[data-kept], .decided")`))
}

// TestPageOvertakenWhileNamed: somebody else decides while the page asks a person for the name under which they decide with a key.
func TestPageOvertakenWhileNamed(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	id := check.WaitingNotes(w, 1)[0]
	call := w.AwaitApproval(id, 1)[0]
	p := browser.New(t).OpenAs("", browser.ThreadPage(w.API.URL, id))
	holdPosts(p, false)
	p.Click(".approval[data-seen] button", "Approve")
	p.Sees("dialog.name h2", "What is your name?")
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, By: "bob", Round: call.Round, Digest: call.Digest})
	require.NoError(t, err)
	p.Sees(".approval[data-kept] .error", "Denied by bob. What you chose was not sent.")
	p.Write("dialog.name input", "ann")
	p.Click("dialog.name button", "Save")
	p.Until(`document.querySelector("dialog") === null && held === 0`)
	p.Click(".approval .error button", "Close")
	p.Until(`document.querySelector(".approval") === null`)
}

// TestPageToldWhileSending: the page learns of a person's own decision before its answer comes. The card stays until then, and goes.
func TestPageToldWhileSending(t *testing.T) {
	t.Parallel()
	cards := waitingCards(t)
	b := browser.New(t)
	for _, c := range cards {
		p := b.Open(c.page)
		c.fill(p)
		holdPosts(p, true)
		p.Click(".approval button", c.send)
		p.Until("held === 1")
		p.Until(c.told)
		require.True(p.T, browser.Evaluate[bool](p, c.filled()))
		browser.Evaluate[chromedp.Void](p, "release()")
		p.Until(`document.querySelector(".approval") === null`)
	}
}

// TestPageCardAsksName asks who the person is before anything is sent: a call that somebody else decides meanwhile is not decided twice.
func TestPageCardAsksName(t *testing.T) {
	t.Parallel()
	cards := waitingCards(t)
	c := cards[0]
	p := browser.New(t).OpenAs("", c.page)
	c.fill(p)
	holdPosts(p, false)
	p.Click(".approval button", c.send)
	p.Sees("dialog.name h2", "What is your name?")
	c.settle()
	p.Sees(".approval[data-kept] .error", c.how)
	p.Write("dialog.name input", "ann")
	p.Click("dialog.name button", "Save")
	p.Until(`document.querySelector("dialog") === null && held === 0`)
	p.Until(c.filled())
}

// TestPageCardUnsaved asks before people leave a card with what they typed.
func TestPageCardUnsaved(t *testing.T) {
	t.Parallel()
	cards := waitingCards(t)
	b := browser.New(t)
	for _, c := range cards {
		p := b.Open(c.page)
		const reload = `(() => { const e = new Event("beforeunload", { cancelable: true }); dispatchEvent(e); return e.defaultPrevented; })()`
		here := browser.Evaluate[string](p, "location.hash")
		c.begin(p)
		require.False(p.T, browser.Evaluate[bool](p, reload))
		p.Click("#nav a", "Schedules")
		p.Sees("tm-schedules", "There are no schedules.")
		browser.Evaluate[chromedp.Void](p, fmt.Sprintf("{ location.hash = %q; }", here))
		c.fill(p)
		require.True(p.T, browser.Evaluate[bool](p, reload))
		stays := func() {
			p.T.Helper()
			p.Sees("dialog h2", "Leave without saving?")
			p.Click("dialog button", "Cancel")
			p.Until(fmt.Sprintf(`document.querySelector("dialog") === null && location.hash === %q`, here))
			p.Until(c.filled())
		}
		browser.Evaluate[chromedp.Void](p, "history.back()")
		stays()
		p.Click("#nav a", "Schedules")
		stays()
		if here == "#/approvals" {
			browser.Evaluate[chromedp.Void](p, `document.querySelector(".approval").focus()`)
			p.Do(browser.Stroke("Enter", "\r", 13))
			stays()
		} else {
			const kinds = `document.querySelector("[aria-label='Show kind']")`
			browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`((kinds) => { kinds.value = "message"; kinds.dispatchEvent(new Event("change")); })(%s)`, kinds))
			stays()
			require.Empty(p.T, browser.Evaluate[string](p, kinds+".value"), "the filter stays too")
			// The view of the list beside the thread changes, and the card stays.
			p.Click("tm-inbox [role=tab]", "Failing")
			p.Until(`location.hash.includes("failing") && document.querySelector("dialog") === null`)
		}
		p.Click("#nav a", "Schedules")
		p.Click("dialog button", "Leave")
		p.Sees("tm-schedules", "There are no schedules.")
	}
}
