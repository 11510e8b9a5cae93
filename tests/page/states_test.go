package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageStates shows in each view that it loads, after a moment; why it failed, whole, with a way to try again that works; and,
// if there is nothing, what would be there.
func TestPageStates(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/new")
	p.Moves()
	p.Until(`document.querySelector(".new-thread") !== null`)
	// From here on, requests for the view wait until the test answers them.
	browser.Evaluate[chromedp.Void](p, `{
		const send = window.fetch, waiting = [];
		let held = "";
		window.answer = (how) => { if (how === "pass") held = ""; waiting.splice(0).forEach((one) => one(how)); };
		window.hold = (path) => { held = path; };
		window.fetch = async (address, options) => {
			if (held === "" || !new RegExp(held + "(\\?|$)").test(String(address))) return send(address, options);
			const how = await new Promise((done) => waiting.push(done));
			if (how === "pass") return send(address, options);
			const problem = { status: 503, detail: "the store does not answer", errors: [{ message: "the first reason" }, { message: "the second reason" }] };
			return new Response(JSON.stringify(problem), { status: 503, headers: { "Content-Type": "application/problem+json" } });
		};
		window.isHeld = () => waiting.length > 0;
	}`)
	for _, view := range []struct{ part, request, place, shown string }{
		{"agents", "/v1/agents", "tm-agents", "assistant"},
		{"schedules", "/v1/schedules", "tm-schedules", "A schedule posts a message or an event"},
		{"servers", "/v1/mcp", "tm-servers", "An MCP server gives agents its tools."},
		{"rules", "/v1/rules", "tm-rules", "stores it"},
		{"rules", "/v1/webhooks", "tm-rules", "A webhook takes events from another system"},
		{"approvals", "/v1/approvals", "tm-approvals", "Calls of tools that need a person's approval"},
	} {
		t.Run(view.request, func(t *testing.T) {
			p.T = t
			browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`{ hold(%q); location.hash = "#/new"; }`, view.request))
			p.Until(`document.querySelector(".new-thread") !== null`)
			browser.Evaluate[chromedp.Void](p, fmt.Sprintf(`{ location.hash = "#/%s"; }`, view.part))
			p.Until("isHeld()")
			if view.part != "approvals" { // what waits is known from the start
				require.Equal(t, "0.3s", browser.Evaluate[string](p, fmt.Sprintf(`getComputedStyle(document.querySelector("%s .soon")).animationDelay`, view.place)))
			}
			browser.Evaluate[chromedp.Void](p, `answer("fail")`)
			p.Sees(view.place+" .failure .error", "the first reason; the second reason")
			p.Until(fmt.Sprintf(`document.querySelector("%s .soon") === null`, view.place))
			p.Click(view.place+" .failure button", "Try again")
			p.Until("isHeld()")
			browser.Evaluate[chromedp.Void](p, `answer("pass")`)
			p.Sees(view.place, view.shown)
			p.Until(fmt.Sprintf(`document.querySelector("%s .failure") === null`, view.place))
		})
	}
}
