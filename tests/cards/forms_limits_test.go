package cards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// limitsOf returns the limits that the server tells.
func limitsOf(p *browser.Tab) map[string]int {
	return browser.Evaluate[map[string]int](p, `fetch("/v1/server").then((r) => r.json()).then((s) => s.limits)`)
}

// repeat replaces the text of a field with a start and as many copies of a text.
func repeat(p *browser.Tab, selector, start, text string, times int) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`((e) => e && (e.value = %q + %q.repeat(%d), e.dispatchEvent(new Event("input", { bubbles: true }))))(document.querySelector(%q))`, start, text, times, selector))
}

// isOff waits until a button is off because something is too long.
func isOff(p *browser.Tab, button string) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`[...document.querySelectorAll("button")].some((e) => e.textContent === %q && e.disabled && e.title.includes("too long: at most"))`, button))
}

// TestPageLimits writes what is just too long, and what is just short enough: the page and the server agree to the byte.
func TestPageLimits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Until(composerReady)
	limits := limitsOf(p)
	set := func(selector, start, text string, times int) { repeat(p, selector, start, text, times) }
	off := func(button string) { isOff(p, button) }

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
	require.Eventually(t, func() bool { return len(w.Messages(id)) > 0 }, testenv.Patience, testenv.Tick)
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

// tooLong writes one byte more into a field than the server accepts, which the page does not send, and then as much as it accepts.
func tooLong(p *browser.Tab, selector, button string, limit int) {
	p.T.Helper()
	line := fmt.Sprintf("#${document.querySelector(%q).getAttribute('aria-describedby').split(' ').find((id) => id.startsWith('counter-'))}", selector)
	says := func(text string) {
		p.Until(fmt.Sprintf("document.querySelector(`%s`).textContent.includes(%q)", line, text))
	}
	start, copies := strings.Repeat("x", limit%2), limit/2
	repeat(p, selector, start+"x", "é", copies)
	says("1 byte too long: at most ")
	isOff(p, button)
	p.Until(fmt.Sprintf(`document.querySelector(%q).getAttribute("aria-invalid") === "true"`, selector))
	repeat(p, selector, start, "é", copies)
	says(" of at most ")
	p.Until(fmt.Sprintf(`document.querySelector(%q).getAttribute("aria-invalid") !== "true"`, selector))
}

// TestPageScheduleLimits fills the form of a schedule to the byte.
func TestPageScheduleLimits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/schedules?new")
	p.Until(`document.querySelector("#field-id") !== null`)
	limits := limitsOf(p)
	p.Write("#field-cron", "0 9 * * 1-5")
	for _, field := range []string{"id", "threadId"} { // letters of one byte only
		repeat(p, "#field-"+field, "x", "x", limits["id"])
		isOff(p, "Save")
		repeat(p, "#field-"+field, "", "x", limits["id"])
	}
	tooLong(p, "#field-note", "Save", limits["note"])
	tooLong(p, "#field-message-sender", "Save", limits["name"])
	id, sender := strings.Repeat("x", limits["id"]), strings.Repeat("é", limits["name"]/2)
	const metadata = `{"schedule_id":%q,"scheduled_at":"1970-01-01T00:00:00Z"}`
	tooLong(p, "#field-message-content", "Save", limits["message"]-
		len(fmt.Sprintf(`{"threadId":%q,"senderId":%q,"senderType":"user","content":"","metadata":`+metadata+`}`, id, sender, id)))
	p.Accessible()

	// The JSON is another way to write what is too long.
	p.Write(".json textarea", browser.Evaluate[string](p, `document.querySelector(".json textarea").value.replace('"note": "', '"note": "x')`))
	isOff(p, "Save")
	p.Write(".json textarea", browser.Evaluate[string](p, `document.querySelector(".json textarea").value.replace('"note": "x', '"note": "')`))
	p.Click("tm-form button", "Save")
	p.Until(`document.querySelectorAll("tm-schedules .times li").length === 10`)
	made, err := w.Threads.Schedule(w.Ctx(), id)
	require.NoError(t, err)
	require.Len(t, made.Note, limits["note"])

	longer := made.Schedule
	message := *made.Message
	message.Content += "x"
	longer.Message = &message
	_, err = w.Threads.UpdateSchedule(w.Ctx(), longer)
	require.ErrorContains(t, err, fmt.Sprintf("%d bytes", limits["message"]+1))
}

// TestPageAgentLimits fills the form of an agent to the byte.
func TestPageAgentLimits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/agents?new")
	p.Until(`document.querySelector("#field-name") !== null`)
	limits := limitsOf(p)
	repeat(p, "#field-name", "x", "x", limits["agentName"])
	isOff(p, "Save")
	p.Write("#field-name", "clerk")
	tooLong(p, "#field-model", "Save", limits["agentModel"])
	p.Write("#field-model", "openai/stand-in")
	p.Click("tm-form button", "Add a rule")
	tooLong(p, "#field-approvalRules-0-name", "Save", limits["ruleName"])
	tooLong(p, "#field-approvalRules-0-reason", "Save", limits["ruleReason"])
	tooLong(p, "#field-approvalRules-0-when", "Save", limits["ruleWhen"])
	p.Write("#field-approvalRules-0-when", "true")

	// The definition as a whole: what is left is for the instructions.
	p.Write("#field-instructions", "x")
	size := len(browser.Evaluate[string](p, `(({ description, ...doc }) => JSON.stringify(doc))(`+definition+`)`)) - 1
	repeat(p, "#field-instructions", "", "x", limits["agent"]-size+1)
	p.Sees("tm-form .json .counter", "1 byte too long: at most 262,144 bytes.")
	isOff(p, "Save")
	repeat(p, "#field-instructions", "", "x", limits["agent"]-size)
	p.Sees("tm-form .json .counter", "262,144 of at most")
	p.Click("tm-form button", "Save")
	p.Sees("tm-agents h1", "Agents")
	p.Until(`location.hash === "#/agents/clerk"`)
	require.Len(t, storedAgent(w).Definition.Instructions, limits["agent"]-size)
}

// TestPageDocumentLimits adds a text whose request is as large as the server permits.
func TestPageDocumentLimits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/knowledge")
	p.Click("button", "Add documents")
	limits := limitsOf(p)
	repeat(p, "tm-adding [name=collection]", "x", "é", limits["documentCollection"]/2)
	p.Drop(map[string]string{"notes.md": "# Notes"})
	p.Sees("#notices", "Collection: 1 byte too long: at most 100 bytes.")
	require.Equal(t, 0, browser.Evaluate[int](p, `document.querySelectorAll("tm-adding .additions li").length`))
	p.Click("tm-adding label", "Text")
	for name, limit := range map[string]string{"collection": "documentCollection", "title": "documentTitle", "source": "documentSource"} {
		tooLong(p, fmt.Sprintf("tm-adding [name=%s]", name), "Add", limits[limit])
	}
	repeat(p, "tm-adding [name=collection]", "", "x", limits["documentCollection"]) // letters of one byte only
	others := limits["documentSource"] + limits["documentTitle"] + limits["documentCollection"]
	tooLong(p, "tm-adding [name=text]", "Add", limits["body"]-others-len(`{"source":"","title":"","collection":"","text":""}`))
	p.Click("tm-adding button", "Add")
	p.Sees("tm-adding h2", "of 1 document indexed")
	p.Until(`document.querySelector("tm-adding [name=text]").value === "" && document.querySelector("tm-adding .counter").textContent === ""`)
}
