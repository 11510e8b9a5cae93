package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
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

// TestPageEditorStays: what a person types about a call stays when somebody else decides, and says who it was.
func TestPageEditorStays(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	id := w.Open()
	w.Post(id, `use note {"text":"x"}`)
	request := w.AwaitApproval(id, 1)[0]
	thread := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	all := browser.New(t).OpenAs("cleo", w.API.URL+"/#/approvals")
	for _, p := range []*browser.Tab{thread, all} {
		p.Click(".approval[data-seen] button", "Deny…")
		p.Fill(".approval input[name=reason]", "because it is late")
	}
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: request.ToolCallID, Decision: event.DecisionApprove, By: "bob", Round: request.Round, Digest: request.Digest})
	require.NoError(t, err)
	thread.Sees(".approval .error", "Approved by bob")
	all.Sees(".approval .error", "decided elsewhere")
	for _, p := range []*browser.Tab{thread, all} {
		p.Until(`document.querySelector(".approval input[name=reason]").value === "because it is late"`)
		p.Do(browser.Stroke("Enter", "\r", 13))
		p.Click(".approval .error button", "Close")
		p.Until(`document.querySelector(".approval") === null`)
	}
}
