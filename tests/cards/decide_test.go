package cards

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// countDecisions counts the decisions that the page sends from now on.
func countDecisions(p *browser.Tab) {
	p.T.Helper()
	browser.Evaluate[chromedp.Void](p, `(() => {
		const send = fetch;
		globalThis.decisions = 0;
		globalThis.fetch = (url, init) => {
			if (init.method === "POST" && /\/approvals\//.test(url)) globalThis.decisions++;
			return send(url, init);
		};
	})()`)
}

// TestPageKeyHeld holds the key that approves: what nobody has read stays as it is.
func TestPageKeyHeld(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	check.WaitingNotes(w, 3)
	b := browser.New(t)
	cards := func(p *browser.Tab, n int) {
		p.Until(fmt.Sprintf(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === %d`, n))
	}
	waiting := func() int {
		list, err := w.Threads.ListApprovals(w.Ctx(), threadclient.ApprovalsQuery{})
		require.NoError(t, err)
		return len(list.Approvals)
	}
	p := b.Open(w.API.URL + "/#/approvals")
	cards(p, 3)
	countDecisions(p)
	t.Run("a press counts once, however long it lasts", func(t *testing.T) {
		p.T = t
		p.Press("j")
		p.Until(`document.activeElement.matches(".approval[data-keys]")`)
		p.Hold("a", 1)
		assert.Equal(t, 0, browser.Evaluate[int](p, "decisions"), "a key that was held before")
		p.Do(browser.KeyDown("a", false))
		p.Hold("a", 10)
		cards(p, 2)
		p.Until(`document.activeElement.matches(".approval:not(.decided)")`)
		p.Hold("a", 10)
		p.Until(`document.activeElement.matches(".approval[data-keys]:not(.decided)")`)
		p.Hold("a", 10)
		assert.Equal(t, 1, browser.Evaluate[int](p, "decisions"))
		assert.Equal(t, 2, waiting())
	})
	t.Run("nor does a press before the card was read", func(t *testing.T) {
		p.T = t
		// The press comes in the same task as the focus.
		browser.Evaluate[chromedp.Void](p, `(() => {
			const card = [...document.querySelectorAll(".approval")].find((c) => c !== document.activeElement);
			card.focus();
			for (const key of ["a", "s", "d", "e", "p"]) card.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
		})()`)
		assert.Equal(t, 1, browser.Evaluate[int](p, "decisions"))
		assert.False(t, browser.Evaluate[bool](p, `document.querySelector(".approval form, .approval textarea") !== null`))
	})
	t.Run("a held Enter does not press a button", func(t *testing.T) {
		p.T = t
		browser.Evaluate[chromedp.Void](p, `document.querySelector(".approval button").focus()`)
		p.Until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
		p.Hold("Enter", 10)
		assert.Equal(t, 1, browser.Evaluate[int](p, "decisions"))
		assert.Equal(t, 2, waiting())
	})
	t.Run("a form that a held key opened stays empty", func(t *testing.T) {
		p.T = t
		p.Press("j")
		p.Until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
		p.Do(browser.KeyDown("d", false))
		p.Until(`document.activeElement.matches(".approval input")`)
		p.Hold("d", 10)
		assert.Empty(t, browser.Evaluate[string](p, "document.activeElement.value"))
	})
}

// TestPageKeyHeldInThread holds keys in a thread and at a dialog.
func TestPageKeyHeldInThread(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	id := check.WaitingNotes(w, 1)[0]
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Until(`document.querySelector(".approval") !== null`)
	countDecisions(p)
	browser.Evaluate[chromedp.Void](p, `document.querySelector(".approval").focus()`)
	p.Until(`document.activeElement.matches(".approval[data-keys]")`)
	p.Hold("a", 10)
	assert.Equal(t, 0, browser.Evaluate[int](p, "decisions"))

	p.Click("summary", "⋯")
	p.Click(".menu-items button", "Close the thread")
	p.Until(`document.querySelector("dialog[open]") !== null`)
	browser.Evaluate[chromedp.Void](p, `document.querySelector("dialog button.danger").focus()`)
	p.Hold("Enter", 5)
	p.Until(`document.querySelector("dialog[open]") !== null`)
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`document.querySelector("dialog") === null`)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	assert.Equal(t, signals.ThreadWaitingApproval, state.Status)
}

// TestPageAsksName acts without a name, which the API key would give.
func TestPageAsksName(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	ids := check.WaitingNotes(w, 2)
	p := browser.New(t).OpenAs("", w.API.URL+"/#/approvals")
	p.Until(`document.querySelectorAll("tm-approvals .approval").length === 2`)
	countDecisions(p)
	p.Press("j")
	p.Decide("a")
	p.Until(`document.activeElement.matches("dialog[open] input")`)
	p.Hold("a", 5)
	assert.Empty(t, browser.Evaluate[string](p, "document.activeElement.value"))
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`document.querySelector("dialog") === null`)
	assert.Equal(t, 0, browser.Evaluate[int](p, "decisions"), "without a name, nothing is done")
	p.Click(".approval button", "Approve")
	p.Until(`document.activeElement.matches("dialog[open] input")`)
	p.Enter("dialog[open] input", "  ")
	p.Until(`document.querySelector("dialog[open] :invalid") !== null`)
	p.Enter("dialog[open] input", " Ann   Lee ")
	p.Sees("#tools .me", "Ann Lee")
	decidedBy := func(id string) string {
		var by string
		require.Eventually(t, func() bool {
			for _, r := range w.Records(id) {
				var a event.Approval
				if r.Type == event.TypeApproval && json.Unmarshal(r.Payload, &a) == nil {
					by = a.By
				}
			}
			return by != ""
		}, testenv.Patience, testenv.Tick)
		return by
	}
	assert.Equal(t, "Ann Lee", decidedBy(ids[0]))

	p.Click("#tools .me", "Ann Lee")
	p.Until(`document.activeElement.matches("dialog[open] input")`)
	browser.Evaluate[chromedp.Void](p, `document.activeElement.select()`)
	p.Enter("dialog[open] input", "Bob")
	p.Sees("#tools .me", "Bob")
	p.Do(chromedp.Reload())
	p.Sees("#tools .me", "Bob")
	p.Click(".approval button", "Approve")
	assert.Equal(t, "Bob", decidedBy(ids[1]))
}
