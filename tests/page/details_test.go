package page

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageDetailsFollow leaves the details of a thread open while others work in it: they show what is true now, and the focus stays.
func TestPageDetailsFollow(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Click(".thread-header button", "Details")
	p.Sees(".side", "No approvals cover later calls.")
	fact := func(name, value string) {
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".side dt")].some((e) => e.textContent === %q && e.nextElementSibling.textContent === %q)`, name, value))
	}
	fact("Status", "open")
	allow := func(n int) string {
		w.Post(id, fmt.Sprintf(`use note {"text":"%d"}`, n))
		request := w.AwaitApproval(id, 1)[0]
		p.Sees(".side .queue-item", fmt.Sprintf(`use note {"text":"%d"}`, n))
		_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{
			ToolCallID: request.ToolCallID, Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "bob", Round: request.Round, Digest: request.Digest,
		})
		require.NoError(t, err)
		p.Until(fmt.Sprintf(`document.querySelectorAll(".side .grant").length === %d`, n))
		fact("Model calls", fmt.Sprint(2*n))
		p.Sees(".side .hint", "Empty.")
		return request.ToolCallID
	}
	first := allow(1)
	grant := fmt.Sprintf(`document.getElementById(%q)`, "grant-"+first)
	p.Until(grant + `.querySelector("button") !== null`)
	browser.Evaluate[any](p, grant+`.querySelector("button").focus()`)
	allow(2)
	p.Until(grant + `.contains(document.activeElement)`)
	require.NoError(t, w.Threads.CloseThread(w.Ctx(), id, "bob"))
	fact("Status", "closed")
	p.Until(grant + `.contains(document.activeElement)`)
}

// TestPageRenew shows a list again in which two rows look the same: what is open and what has the focus are those of the same row.
func TestPageRenew(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL)
	p.Until(`document.querySelector("tm-inbox, main") !== null`)
	require.Equal(t, "2 true false true same", browser.Evaluate[string](p, `import("/page/renew.js").then(async ({ renew }) => {
		const { h, button } = await import("/page/dom.js");
		const place = h("section");
		document.body.append(place);
		const row = (id) => h("li", { id }, button("Drop", () => {}), h("details", null, h("summary", null, "More"), id));
		renew(place, row("1"), row("2"));
		place.querySelector("[id='2'] button").focus();
		place.querySelector("[id='2'] details").open = true;
		renew(place, row("0"), row("1"), row("2"));
		const shown = [document.activeElement.closest("li").id, place.querySelector("[id='2'] details").open, place.querySelector("[id='1'] details").open];
		const before = place.firstChild;
		renew(place, row("0"), row("1"), row("2"));
		const same = before === place.firstChild;
		renew(place, row("3"));
		return [...shown, same, place.textContent.includes("3") ? "same" : ""].join(" ");
	})`))
}
