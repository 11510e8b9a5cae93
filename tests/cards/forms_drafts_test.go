package cards

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// failing makes posts to an address that ends with a path fail: before they are sent, or after the server has answered.
const failing = `((path, answered) => {
	const send = fetch;
	globalThis.fetch = async (...request) => {
		const fails = request[1]?.method === "POST" && String(request[0]).endsWith(path);
		if (fails && !answered) await new Promise((resolve) => (globalThis.fail = resolve));
		const answer = fails && !answered ? undefined : await send(...request);
		if (fails && answered) await new Promise((resolve) => (globalThis.fail = resolve));
		if (fails) throw new TypeError("lost");
		return answer;
	};
})`

const (
	composerText  = "tm-composer textarea"
	composerReady = `document.querySelector("tm-composer textarea:not([disabled])") !== null`
)

// composerHas waits until the message that is typed is a text.
func composerHas(p *browser.Tab, text string) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`document.querySelector("tm-composer textarea:not([disabled])")?.value === %q`, text))
}

// requireSent checks which messages people have posted.
func requireSent(w *harness.Harness, id string, want ...string) {
	w.T.Helper()
	var sent []string
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByUser {
			sent = append(sent, m.Content)
		}
	}
	require.Equal(w.T, want, sent)
}

// TestPageDrafts reloads the page while a message is typed and while one cannot be sent. What is typed since stays another message.
func TestPageDrafts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Fill(composerText, "half a thought")
	p.Do(chromedp.Reload())
	composerHas(p, "half a thought")

	// The connection is lost while the person goes on typing.
	browser.Evaluate[chromedp.Void](p, failing+`("/messages", false)`)
	p.Enter(composerText, "")
	p.Until("globalThis.fail")
	p.Fill(composerText, "the next one")
	browser.Evaluate[chromedp.Void](p, "fail()")
	p.Sees("tm-composer .unsent li", "half a thought")
	p.Sees("tm-composer .error", "Not sent: ")
	p.Accessible()
	composerHas(p, "the next one")
	p.Do(chromedp.Reload())
	composerHas(p, "the next one")
	p.Sees("tm-composer .unsent li", "half a thought")
	p.Until(`![...document.querySelectorAll(".unsent button")].some((e) => e.textContent === "Edit")`) // it may have arrived

	// Both are sent in their order.
	p.Enter(composerText, "")
	composerHas(p, "")
	p.Sees(".message.final .body", "the next one")
	p.Until(`document.querySelector(".unsent").childElementCount === 0`)
	requireSent(w, id, "half a thought", "the next one")
	p.Do(chromedp.Reload())
	composerHas(p, "")
	p.Until(`document.querySelector(".unsent").childElementCount === 0`)
}

// TestPageLostAnswer posts a message whose answer is lost: the thread shows that it has arrived, so it is not sent again.
func TestPageLostAnswer(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Until(composerReady)
	browser.Evaluate[chromedp.Void](p, failing+`("/messages", true)`)
	p.Enter(composerText, "first")
	p.Until("globalThis.fail")
	p.Fill(composerText, "second")
	p.Sees(".message.final .body", "first")
	browser.Evaluate[chromedp.Void](p, "fail()")
	p.Until(`!document.querySelector("tm-composer .unsent li")`)
	composerHas(p, "second")
	p.Do(chromedp.Reload())
	composerHas(p, "second")
	p.Enter(composerText, "")
	p.Sees(".message.final .body", "second")
	requireSent(w, id, "first", "second")
}

// TestPageLostThread opens a thread, and the answer is lost: opening it again leads to that thread, and the form stays what was sent.
func TestPageLostThread(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/new")
	const text, title = "tm-new-thread textarea", "tm-new-thread input[aria-label=Title]"
	kept := func(kept bool) {
		t.Helper()
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(%q)].every((e) => e.readOnly === %t)`, text+", "+title, kept))
	}
	p.Fill(text, "hello")
	p.Fill(title, "\u200b")
	p.Click("tm-new-thread button", "Open the thread")
	p.Sees("body", "has no visible characters") // so nothing is open
	kept(false)

	p.Fill(title, "Greetings")
	browser.Evaluate[chromedp.Void](p, `(globalThis.send = fetch, undefined)`)
	browser.Evaluate[chromedp.Void](p, failing+`("/v1/threads", true)`)
	p.Click("tm-new-thread button", "Open the thread")
	p.Until("globalThis.fail")
	kept(true)
	browser.Evaluate[chromedp.Void](p, "fail()")
	p.Sees("tm-new-thread [role=status]", "The server may have opened the thread.")
	kept(true)
	p.Accessible()
	browser.Evaluate[chromedp.Void](p, `(globalThis.fetch = send, undefined)`)
	p.Enter(text, "")
	p.Sees(".thread-header h1", "Greetings")
	p.Sees(".message.final .body", "hello")
	threads, err := w.Threads.List(w.Ctx(), threadclient.ListQuery{})
	require.NoError(t, err)
	require.Len(t, threads, 1)
	requireSent(w, threads[0].ThreadID, "hello")
}

// TestPageDraftsShared types the same draft in two tabs. One sends it, and a message that is discarded goes in both.
func TestPageDraftsShared(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	b := browser.New(t)
	first, second := b.Open(browser.ThreadPage(w.API.URL, id)), b.Open(browser.ThreadPage(w.API.URL, id))
	second.Until(composerReady)
	first.Fill(composerText, "from the first")
	composerHas(second, "from the first")
	second.Enter(composerText, " and the second")
	composerHas(first, "")
	first.Sees(".message.final .body", "from the first and the second")

	browser.Evaluate[chromedp.Void](first, failing+`("/messages", false)`)
	first.Enter(composerText, "not this")
	second.Sees(".unsent li", "not this")
	first.Until("globalThis.fail")
	browser.Evaluate[chromedp.Void](first, "fail()")
	second.Sees(".unsent .error", "Not sent: ")
	second.Click(".unsent button", "Discard…")
	second.Sees("dialog", "the server may have received it")
	second.Click("dialog button", "Discard it")
	first.Until(`!document.querySelector(".unsent li")`)
	requireSent(w, id, "from the first and the second")
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
	p.Write(".approval textarea", `{"text":`)
	p.Sees(".approval .error", "must be a JSON object")
	// The card notes again that it is seen.
	browser.Evaluate[chromedp.Void](p, `document.dispatchEvent(new Event("visibilitychange")) && [...document.querySelectorAll(".approval button")].at(-1).focus()`)
	p.Until(send + `.disabled && document.activeElement.textContent === "Cancel"`)
	browser.Evaluate[chromedp.Void](p, `(() => { const e = `+send+`; e.disabled = false; e.click(); })()`)
	p.Until(send + `.disabled`)
	w.AwaitApproval(id, 1)
	p.Write(".approval textarea", `{"text":"y"}`)
	p.Click(".approval button", "Approve the edited call")
	p.Until(`document.querySelector(".approval .primary") === null`)
	w.AwaitApproval(id, 0)
	made := check.ApprovalsOf(w, id, request.ToolCallID)
	require.Len(t, made, 1)
	require.JSONEq(t, `{"text":"y"}`, made[0].Arguments)
}
