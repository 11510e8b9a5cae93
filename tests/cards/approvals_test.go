package cards

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// alterWaiting lets a tab see the list of waiting calls as the JavaScript function "alter" changes it, which can be replaced.
func alterWaiting(p *browser.Tab) {
	p.T.Helper()
	browser.Evaluate[chromedp.Void](p, `(() => {
		const send = fetch;
		globalThis.alter = () => {};
		globalThis.fetch = async (url, init) => {
			const answer = await send(url, init);
			if (!/\/v1\/approvals\?/.test(url) || !answer.ok) return answer;
			const list = await answer.json();
			alter(list);
			return Response.json(list);
		};
	})()`)
}

// order is an expression for the arguments of the cards that are shown, in order.
const order = `[...document.querySelectorAll("tm-approvals .approval .args")].map((e) => JSON.parse(e.textContent).text).join()`

// TestPageFormOfChangedArguments changes the arguments of a call while a person edits them: the page shows what differs, and the edit is then one of
// the new call.
func TestPageFormOfChangedArguments(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	check.WaitingNotes(w, 1)
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	alterWaiting(p)
	p.Click(".approval[data-seen] button", "Edit…")
	browser.Evaluate[chromedp.Void](p, `(() => { const t = document.querySelector(".choice textarea"); t.value = '{"text":"mine"}'; t.dispatchEvent(new Event("input")); })()`)
	browser.Evaluate[chromedp.Void](p, `globalThis.alter = (list) => list.approvals.forEach((a) => (a.request = { ...a.request, arguments: '{"text":"theirs"}', digest: "sha256:other" })); undefined`)
	p.Sees(".approval .news .diff ins", "theirs")
	p.Sees(".approval .args", "theirs")
	p.Click(".approval .news button", "Use what I typed for this call")
	p.Until(`document.querySelector(".choice textarea").value === '{"text":"mine"}'`)
	p.Sees(".choice .diff del", "theirs")
	p.Sees(".choice .diff ins", "mine")
	p.Click(".choice button", "Cancel")
	p.Click(".approval[data-seen] button", "Approve a pattern…")
	p.Until(`document.querySelector(".pattern input").value === "theirs"`)
}

// TestPageKeptCardAskedAgain: a card that was kept because its call was decided elsewhere can decide once the call is asked again.
func TestPageKeptCardAskedAgain(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	id := check.WaitingNotes(w, 1)[0]
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	alterWaiting(p)
	p.Click(".approval[data-seen] button", "Deny…")
	p.Fill(".approval input[name=reason]", "because it is late")
	browser.Evaluate[chromedp.Void](p, `globalThis.alter = (list) => (list.approvals = []); undefined`)
	p.Sees(".approval[data-kept] .error", "decided elsewhere")
	browser.Evaluate[chromedp.Void](p, `globalThis.alter = () => {}; undefined`)
	p.Until(`document.querySelector(".approval:not([data-kept], .decided) input[name=reason]")?.value === "because it is late"`)
	p.Click(".approval .choice button", "Deny")
	assert.Contains(t, check.FirstResult(w, id).Content, "because it is late")
	p.Sees("tm-approvals", "Nothing waits for you.")
}

// TestPageQuestionStays: what a person types into a form stays when somebody else answers, and says who answered what.
func TestPageQuestionStays(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{check.Survey{}},
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"survey"}}},
	})
	id := w.Open()
	w.Post(id, "use survey {}")
	b := browser.New(t)
	thread := b.OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	all := b.OpenAs("cleo", w.API.URL+"/#/approvals")
	for _, p := range []*browser.Tab{thread, all} {
		p.Sees(".approval.input .title", "Name")
		p.Fill(".approval.input input", "Half a name")
		browser.Evaluate[chromedp.Void](p, `globalThis.copied = ""; navigator.clipboard.writeText = async (text) => { copied = text; }; undefined`)
	}
	list, err := w.Threads.Approvals(w.Ctx(), id)
	require.NoError(t, err)
	require.Len(t, list.Inputs, 1)
	_, err = w.Threads.AnswerInput(w.Ctx(), id, signals.InputAnswers{ToolCallID: list.Inputs[0].ToolCallID, Round: list.Inputs[0].Round, By: "bob", Answers: map[string]event.InputAnswer{
		"all": {Action: event.InputAccept, Content: json.RawMessage(`{"name":"Bobby","seats":1,"drink":"t","dishes":["soup"]}`)},
	}})
	require.NoError(t, err)
	for _, p := range []*browser.Tab{thread, all} {
		p.Sees(".approval.input[data-kept] .error", "Answered by bob")
		p.Sees(".approval.input[data-kept] .error", `"name":"Bobby"`)
		p.Until(`document.querySelector(".approval.input input").value === "Half a name"`)
		p.Click(".approval.input button", "Copy what you typed")
		p.Until(`JSON.parse(copied || "{}").all?.name === "Half a name"`)
		p.Click(".approval.input button", "Close")
		p.Until(`document.querySelector(".approval.input") === null`)
	}
}

// TestPageManyApprovals lists more calls than are shown at once: by keyboard, by thread and by equal calls.
func TestPageManyApprovals(t *testing.T) {
	t.Parallel()
	const threads, calls, shown = 5, 25, 60
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	var ids []string
	for range threads {
		var uses []string
		for j := range calls {
			uses = append(uses, fmt.Sprintf(`use note {"text":"%d"}`, j))
		}
		id := w.Open()
		ids = append(ids, id)
		w.Post(id, strings.Join(uses, "\n"))
		w.AwaitApproval(id, calls)
	}
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	p.Sees("tm-approvals", fmt.Sprintf("%d calls wait", threads*calls))
	inDocument := func() int {
		return browser.Evaluate[int](p, `document.querySelectorAll("tm-approvals .approval").length`)
	}
	p.Sees("tm-approvals button", "Show 60 of 65 more calls")
	assert.Equal(t, shown, inDocument())
	assert.Equal(t, 3, browser.Evaluate[int](p, `document.querySelectorAll("tm-approvals .call-group h2 a").length`))
	p.Sees(".call-group h2", "25 calls")

	last := `document.querySelectorAll("tm-approvals .approval")[59]`
	browser.Evaluate[chromedp.Void](p, last+`.focus()`)
	p.Press("j") // beyond what was shown
	p.Until(`document.activeElement.matches(".approval") && document.activeElement.querySelector(".args").textContent.includes('"10"')`)
	assert.Equal(t, shown, inDocument())
	p.Sees("tm-approvals button", "Show 30 of 30 earlier calls")
	p.Click("tm-approvals button", "earlier calls")
	p.Until(`document.activeElement === document.querySelector("tm-approvals .approval")`)

	browser.Evaluate[chromedp.Void](p, `(() => { const s = document.querySelector("tm-approvals select"); s.value = "call"; s.dispatchEvent(new Event("change")); })()`)
	p.Sees(".call-group h2", "note 5 equal calls")
	assert.Equal(t, shown/threads, browser.Evaluate[int](p, `document.querySelectorAll("tm-approvals .call-group").length`))
	assert.Equal(t, "0,0,0,0,0,1", browser.Evaluate[string](p, order+`.slice(0, 11)`))

	alterWaiting(p)
	browser.Evaluate[chromedp.Void](p, `globalThis.alter = (list) => (list.more = true); undefined`)
	p.Sees("tm-approvals", "More wait than one list can hold")
	p.Sees("#nav .count", "125+")

	browser.Evaluate[chromedp.Void](p, `document.querySelectorAll("tm-approvals .approval")[1].focus()`)
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Until(fmt.Sprintf(`location.hash === "#/threads/%s"`, ids[1]))
}
