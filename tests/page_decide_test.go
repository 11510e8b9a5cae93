package tests

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// askingFirst is an agent whose notes wait for people.
func askingFirst(policy agent.Policy) harness.Options {
	return harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": policy},
	}}}
}

// waitingNotes opens threads with a call that waits in each.
func waitingNotes(w *harness.Harness, n int) []string {
	var ids []string
	for i := range n {
		id := w.Open()
		ids = append(ids, id)
		w.Post(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\ndone", i))
		w.AwaitApproval(id, 1)
	}
	return ids
}

// countDecisions counts the decisions that the page sends from now on.
func (p *tab) countDecisions() {
	p.t.Helper()
	evaluate[chromedp.Void](p, `(() => {
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
	w := harness.New(t, askingFirst(agent.PolicyAlways))
	waitingNotes(w, 3)
	b := newBrowser(t)
	cards := func(p *tab, n int) {
		p.until(fmt.Sprintf(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === %d`, n))
	}
	waiting := func() int {
		list, err := w.Threads.ListApprovals(w.Ctx(), threadclient.ApprovalsQuery{})
		require.NoError(t, err)
		return len(list.Approvals)
	}
	p := b.open(w.API.URL + "/#/approvals")
	cards(p, 3)
	p.countDecisions()
	t.Run("a press counts once, however long it lasts", func(t *testing.T) {
		p.t = t
		p.press("j")
		p.until(`document.activeElement.matches(".approval[data-keys]")`)
		p.hold("a", 1)
		assert.Equal(t, 0, evaluate[int](p, "decisions"), "a key that was held before")
		p.do(keyDown("a", false))
		p.hold("a", 10)
		cards(p, 2)
		p.until(`document.activeElement.matches(".approval:not(.decided)")`)
		p.hold("a", 10)
		p.until(`document.activeElement.matches(".approval[data-keys]:not(.decided)")`)
		p.hold("a", 10)
		assert.Equal(t, 1, evaluate[int](p, "decisions"))
		assert.Equal(t, 2, waiting())
	})
	t.Run("nor does a press before the card was read", func(t *testing.T) {
		p.t = t
		// The press comes in the same task as the focus.
		evaluate[chromedp.Void](p, `(() => {
			const card = [...document.querySelectorAll(".approval")].find((c) => c !== document.activeElement);
			card.focus();
			for (const key of ["a", "s", "d", "e", "p"]) card.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
		})()`)
		assert.Equal(t, 1, evaluate[int](p, "decisions"))
		assert.False(t, evaluate[bool](p, `document.querySelector(".approval form, .approval textarea") !== null`))
	})
	t.Run("a held Enter does not press a button", func(t *testing.T) {
		p.t = t
		evaluate[chromedp.Void](p, `document.querySelector(".approval button").focus()`)
		p.until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
		p.hold("Enter", 10)
		assert.Equal(t, 1, evaluate[int](p, "decisions"))
		assert.Equal(t, 2, waiting())
	})
	t.Run("a form that a held key opened stays empty", func(t *testing.T) {
		p.t = t
		p.press("j")
		p.until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
		p.do(keyDown("d", false))
		p.until(`document.activeElement.matches(".approval input")`)
		p.hold("d", 10)
		assert.Empty(t, evaluate[string](p, "document.activeElement.value"))
	})
}

// TestPageKeyHeldInThread holds keys in a thread and at a dialog.
func TestPageKeyHeldInThread(t *testing.T) {
	w := harness.New(t, askingFirst(agent.PolicyAlways))
	id := waitingNotes(w, 1)[0]
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	p.until(`document.querySelector(".approval") !== null`)
	p.countDecisions()
	evaluate[chromedp.Void](p, `document.querySelector(".approval").focus()`)
	p.until(`document.activeElement.matches(".approval[data-keys]")`)
	p.hold("a", 10)
	assert.Equal(t, 0, evaluate[int](p, "decisions"))

	p.click("summary", "⋯")
	p.click(".menu-items button", "Close the thread")
	p.until(`document.querySelector("dialog[open]") !== null`)
	evaluate[chromedp.Void](p, `document.querySelector("dialog button.danger").focus()`)
	p.hold("Enter", 5)
	p.until(`document.querySelector("dialog[open]") !== null`)
	p.do(stroke("Escape", "", 27))
	p.until(`document.querySelector("dialog") === null`)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	assert.Equal(t, signals.ThreadWaitingApproval, state.Status)
}

// TestPageAsksName acts without a name, which the API key would give.
func TestPageAsksName(t *testing.T) {
	w := harness.New(t, askingFirst(agent.PolicyAlways))
	ids := waitingNotes(w, 2)
	p := newBrowser(t).openAs("", w.API.URL+"/#/approvals")
	p.until(`document.querySelectorAll("tm-approvals .approval").length === 2`)
	p.countDecisions()
	p.press("j")
	p.decide("a")
	p.until(`document.activeElement.matches("dialog[open] input")`)
	p.hold("a", 5)
	assert.Empty(t, evaluate[string](p, "document.activeElement.value"))
	p.do(stroke("Escape", "", 27))
	p.until(`document.querySelector("dialog") === null`)
	assert.Equal(t, 0, evaluate[int](p, "decisions"), "without a name, nothing is done")
	p.click(".approval button", "Approve")
	p.until(`document.activeElement.matches("dialog[open] input")`)
	p.enter("dialog[open] input", "  ")
	p.until(`document.querySelector("dialog[open] :invalid") !== null`)
	p.enter("dialog[open] input", " Ann   Lee ")
	p.sees("#tools .me", "Ann Lee")
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
		}, harness.Patience, harness.Tick)
		return by
	}
	assert.Equal(t, "Ann Lee", decidedBy(ids[0]))

	p.click("#tools .me", "Ann Lee")
	p.until(`document.activeElement.matches("dialog[open] input")`)
	evaluate[chromedp.Void](p, `document.activeElement.select()`)
	p.enter("dialog[open] input", "Bob")
	p.sees("#tools .me", "Bob")
	p.do(chromedp.Reload())
	p.sees("#tools .me", "Bob")
	p.click(".approval button", "Approve")
	assert.Equal(t, "Bob", decidedBy(ids[1]))
}
