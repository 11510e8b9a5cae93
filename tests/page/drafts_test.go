package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageDrafts reloads the page while a message is typed, and while one cannot be sent. The second is posted once.
func TestPageDrafts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	const text = "tm-composer textarea"
	p.Fill(text, "half a thought")
	p.Do(chromedp.Reload())
	p.Until(`document.querySelector("tm-composer textarea")?.value === "half a thought"`)

	// The server posts it, and the answer is lost.
	p.Until(`document.querySelector("tm-composer textarea:not([disabled])") !== null`)
	browser.Evaluate[chromedp.Void](p, `const send = fetch; globalThis.fetch = async (...request) => { const answer = await send(...request); if (request[1]?.method === "POST" && String(request[0]).endsWith("/messages")) throw new TypeError("lost"); return answer; }; undefined`)
	p.Enter(text, "")
	p.Sees("tm-composer .error", "Not sent")
	p.Do(chromedp.Reload())
	p.Until(`document.querySelector("tm-composer textarea:not([disabled])")?.value === "half a thought"`)
	p.Sees(".message.final .body", "half a thought")
	p.Enter(text, "")
	p.Until(`document.querySelector("tm-composer textarea").value === ""`)
	p.Enter(text, "the next one")
	p.Sees(".message.final .body", "the next one")
	n := 0
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByUser {
			n++
		}
	}
	require.Equal(t, 2, n, "the first message was posted once")
	p.Do(chromedp.Reload())
	p.Until(`document.querySelector("tm-composer textarea:not([disabled])")?.value === ""`)
}

// TestPageEditInvalid: arguments that are no JSON object are never sent, so the call cannot run with those that were edited.
func TestPageEditInvalid(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	id := w.Open()
	w.Post(id, `use note {"text":"x"}`)
	request := w.AwaitApproval(id, 1)[0]
	p := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	const send = `[...document.querySelectorAll(".approval button")].find((e) => e.textContent === "Approve the edited call")`
	p.Click(".approval[data-seen] button", "Edit…")
	p.Until(send + `.disabled`)
	write(p, ".approval textarea", `{"text":`)
	p.Sees(".approval .error", "must be a JSON object")
	// The card notes again that it is seen.
	browser.Evaluate[chromedp.Void](p, `document.dispatchEvent(new Event("visibilitychange")) && [...document.querySelectorAll(".approval button")].at(-1).focus()`)
	p.Until(send + `.disabled && document.activeElement.textContent === "Cancel"`)
	browser.Evaluate[chromedp.Void](p, `(() => { const e = `+send+`; e.disabled = false; e.click(); })()`)
	p.Until(send + `.disabled`)
	w.AwaitApproval(id, 1)
	write(p, ".approval textarea", `{"text":"y"}`)
	p.Click(".approval button", "Approve the edited call")
	p.Until(`document.querySelector(".approval .primary") === null`)
	w.AwaitApproval(id, 0)
	made := check.ApprovalsOf(w, id, request.ToolCallID)
	require.Len(t, made, 1)
	require.JSONEq(t, `{"text":"y"}`, made[0].Arguments)
}
