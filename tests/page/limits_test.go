package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageLimits writes what is just too long, and what is just short enough: the page and the server agree to the byte.
func TestPageLimits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Until(composerReady)
	limits := browser.Evaluate[map[string]int](p, `fetch("/v1/server").then((r) => r.json()).then((s) => s.limits)`)
	// set replaces the text of a field with a start and as many copies of a text.
	set := func(selector, start, text string, times int) {
		p.Until(fmt.Sprintf(`((e) => e && (e.value = %q + %q.repeat(%d), e.dispatchEvent(new Event("input", { bubbles: true }))))(document.querySelector(%q))`, start, text, times, selector))
	}
	off := func(button string) {
		p.Until(fmt.Sprintf(`[...document.querySelectorAll("button")].some((e) => e.textContent === %q && e.disabled && e.title.includes("too long: at most"))`, button))
	}

	// A message: each < takes six bytes of its JSON.
	envelope := len(fmt.Sprintf(`{"threadId":%q,"senderId":"ann","senderType":"user","content":"%s"}`, id, "é"))
	copies, rest := (limits["message"]-envelope)/6, (limits["message"]-envelope)%6
	set(composerText, "é"+strings.Repeat("x", rest), "<", copies)
	p.Sees("tm-composer .counter", fmt.Sprintf("%s of at most", "262,144"))
	set(composerText, "é"+strings.Repeat("x", rest+1), "<", copies)
	p.Sees("tm-composer .counter", "1 byte too long: at most 262,144 bytes.")
	off("Send")
	p.Enter(composerText, "")
	p.Sees("tm-composer .counter", "1 byte too long") // nothing was sent
	refused := browser.Evaluate[string](p, fmt.Sprintf(`fetch("/v1/threads/%s/messages", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sender: "ann", content: document.querySelector("tm-composer textarea").value }) }).then((r) => r.text())`, id))
	require.Contains(t, refused, `"location":"body.content"`)
	require.Contains(t, refused, "262145 bytes as JSON, at most 262144")
	set(composerText, "é"+strings.Repeat("x", rest), "<", copies)
	p.Click("tm-composer button", "Send")
	composerHas(p, "")
	p.Until(`document.querySelector(".unsent").childElementCount === 0`)
	require.Eventually(t, func() bool { return len(w.Messages(id)) > 0 }, harness.Patience, harness.Tick)
	require.Len(t, w.Messages(id)[0].Content, len("é")+rest+copies)

	// A title.
	// The menu closes when the focus goes elsewhere, as it may just after a message was sent.
	p.Until(`((menu) => {
		if (!menu.open) menu.querySelector("summary").click();
		return [...menu.querySelectorAll("button")].some((e) => e.checkVisibility() && e.textContent === "Rename…" && (e.click(), true));
	})(document.querySelector(".thread-header .menu"))`)
	set("dialog input", "x", "é", limits["title"]/2)
	p.Sees("dialog .counter", "1 byte too long: at most 400 bytes.")
	p.Click("dialog button", "Save")
	p.Until(`document.querySelector("dialog input:invalid") !== null`)
	set("dialog input", "", "é", limits["title"]/2)
	p.Click("dialog button", "Save")
	p.Sees(".thread-header h1", strings.Repeat("é", limits["title"]/2))

	// A reason.
	w.Post(id, `use note {"text":"x"}`)
	w.AwaitApproval(id, 1)
	p.Click(".approval[data-seen] button", "Deny…")
	set(".approval input[name=reason]", "x", "é", limits["reason"]/2)
	p.Sees(".approval .counter", "1 byte too long: at most 4,096 bytes.")
	off("Deny")
	set(".approval input[name=reason]", "", "é", limits["reason"]/2)
	p.Click(".approval form button", "Deny")
	p.Sees(".line", "Denied by ann: éé")
	p.Until(`document.querySelector(".approval") === null`)

	// A new thread.
	p.Do(chromedp.Navigate(w.API.URL + "/#/new"))
	p.Until(`document.querySelector("tm-new-thread textarea") !== null`)
	set("tm-new-thread input[aria-label=Title]", "x", "é", limits["title"]/2)
	off("Open the thread")
	set("tm-new-thread input[aria-label=Title]", "", "é", limits["title"]/2)
	p.Click("tm-new-thread button", "Open the thread")
	p.Sees(".thread-header h1", strings.Repeat("é", limits["title"]/2))

	// A name.
	nobody := browser.New(t).OpenAs("", browser.ThreadPage(w.API.URL, w.Open()))
	nobody.Until(composerReady)
	nobody.Enter(composerText, "hello")
	nobody.Until(`document.querySelector("dialog.name") !== null`)
	nobody.Fill("dialog.name input", strings.Repeat("x", limits["name"]+1))
	nobody.Sees("dialog .counter", "1 byte too long: at most 200 bytes.")
	nobody.Click("dialog button", "Cancel")
	composerHas(nobody, "hello")
	nobody.Enter(composerText, "")
	nobody.Until(`document.querySelector("dialog.name") !== null`)
	nobody.Fill("dialog.name input", strings.Repeat("x", limits["name"]))
	nobody.Click("dialog button", "Save")
	nobody.Sees(".line.message", strings.Repeat("x", limits["name"]))
}
