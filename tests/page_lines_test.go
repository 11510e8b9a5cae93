package tests

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageQuorum votes from two browsers on a call that needs three approvals.
func TestPageQuorum(t *testing.T) {
	options := askingFirst(agent.PolicyAlways)
	options.Agents[0].ApprovalTerms = approval.Terms{Quorum: 3}
	w := harness.New(t, options)
	id := waitingNotes(w, 1)[0]
	annsThread := newBrowser(t).open(threadPage(w.API.URL, id))
	annsList := (&browser{t, annsThread.ctx}).open(w.API.URL + "/#/approvals")
	ben := newBrowser(t).openAs("Ben", threadPage(w.API.URL, id))
	bensList := (&browser{t, ben.ctx}).openAs("Ben", w.API.URL+"/#/approvals")
	offered := func(p *tab, is bool) {
		p.t.Helper()
		p.until(fmt.Sprintf(`(document.querySelector('.approval [data-key="a"]') !== null) === %t && document.querySelector('.approval [data-key="d"]') !== null`, is))
	}
	for _, p := range []*tab{annsThread, annsList, ben, bensList} {
		p.sees(".approval .facts", "3 approvals, has 0: 3 more")
		offered(p, true)
	}
	annsThread.click(".approval button", "Approve")
	for _, p := range []*tab{annsThread, annsList, ben, bensList} {
		p.sees(".approval .facts", "3 approvals, has 1: 2 more")
		p.sees(".approval .facts", "ann")
	}
	offered(annsThread, false)
	offered(annsList, false)
	offered(ben, true)
	offered(bensList, true)
	annsThread.do(chromedp.Reload())
	annsThread.sees(".approval .facts", "3 approvals, has 1: 2 more")
	offered(annsThread, false)
	bensList.click(".approval button", "Approve")
	for _, p := range []*tab{annsThread, annsList, ben, bensList} {
		p.sees(".approval .facts", "3 approvals, has 2: 1 more")
		p.sees(".approval .facts", "ann, Ben")
		offered(p, false)
	}
	ben.do(chromedp.Reload())
	ben.sees(".approval .facts", "3 approvals, has 2: 1 more")
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: "approve", By: "cleo"})
	require.NoError(t, err)
	for _, p := range []*tab{annsThread, ben} {
		p.sees(".message.final .body", "done")
		p.until(`document.querySelector(".approval") === null`)
	}
}

// TestPageFailure fails a turn: the page shows it once, and offers to retry it once.
func TestPageFailure(t *testing.T) {
	w := harness.New(t, harness.Options{MaxModelAttempts: 1})
	id := w.Open()
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	p.enter("tm-composer textarea", "does it work?")
	once := func() {
		p.t.Helper()
		p.sees(".lines", "400: Bad Request")
		p.until(`document.querySelector(".pulse") === null`)
		p.until(`[...document.querySelectorAll(".lines button")].filter((b) => b.textContent === "Retry" && b.checkVisibility()).length === 1`)
		p.until(`[...document.querySelectorAll(".lines > .line")].filter((l) => !l.hidden && l.textContent.includes("400: Bad Request")).length === 1`)
	}
	once()
	p.do(chromedp.Reload())
	once()
	p.sees(".thread-row.failing .state", "failed")
	p.click(".tabs button", "Failing")
	p.sees(".thread-row .title", id)
	p.click(".lines button", "Retry")
	p.sees(".message.final .body", "does it work?")
	p.until(`document.querySelector(".thread-row") === null`)
}

// TestPageCommandOutput shows what a command writes as text, live and afterwards.
func TestPageCommandOutput(t *testing.T) {
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"shell_cmd"}, Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyNever},
	}}})
	id := w.Open()
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	p.enter("tm-composer textarea", `use shell_cmd {"command": "echo \"a <b>\"; echo oops >&2; printf '1\\n2\\n'; while ! test -e go-on; do sleep 0.05; done; echo end"}`+"\nthen\ndone")
	p.until(`document.querySelector(".progress")?.textContent.includes("1\n2\n")`)
	assert.Contains(t, evaluate[string](p, `document.querySelector(".progress").textContent`), "a <b>\n")
	assert.Equal(t, "oops\n", evaluate[string](p, `document.querySelector(".progress .stderr").textContent`))
	w.Say(w.Open(), `use shell_cmd {"command": "touch go-on"}`+"\nthen\ndone")
	p.sees(".message.final .body", "done")
	p.until(`document.querySelector(".result .output:not(.stderr)")?.textContent === "a <b>\n1\n2\nend\n"`)
	assert.Equal(t, "oops\n", evaluate[string](p, `document.querySelector(".result .stderr").textContent`))
	p.sees(".result .hint", "exit code 0")
}

// TestPageUnanswered addresses no agent: whoever looks later sees that there was no answer.
func TestPageUnanswered(t *testing.T) {
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in"}}})
	id := w.Open("assistant")
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	p.enter("tm-composer textarea", "@human are you there?")
	p.sees(".lines .status", "No agent answers")
	p.do(chromedp.Reload())
	p.sees(".lines .status", "No agent answers")
	p.click(".tabs button", "Unanswered")
	p.sees(".thread-row.unanswered .title", id)
	p.sees(".thread-row.unanswered .state", "nobody answers")
}

// TestPageSchedules shows a schedule that fails, and asks before it deletes one.
func TestPageSchedules(t *testing.T) {
	w := harness.New(t, harness.Options{})
	closed := w.Open()
	require.NoError(t, w.Threads.Control(w.Ctx(), closed, signals.Control{Action: signals.ControlClose}))
	id := scheduled(w, closed, func(s *signals.Schedule) { s.Paused = true })
	trigger(w, id)
	awaitView(w, id, func(v signals.ScheduleView) bool { return v.Failing != nil })
	p := newBrowser(t).open(w.API.URL + "/#/schedules")
	p.until(fmt.Sprintf(`[...document.querySelectorAll("tm-schedules h2")].some((e) => e.textContent.includes(%q))`, id))
	p.sees(".card.failing .badge", "failing")
	p.sees(".card.failing .error", "closed")
	p.click("tm-schedules button", "Delete…")
	p.until(`document.activeElement.matches("dialog[open] button") && document.activeElement.textContent === "Cancel"`)
	p.do(stroke("Enter", "\r", 13))
	p.until(`document.querySelector("dialog") === null`)
	viewOf(w, id)
	p.click("tm-schedules button", "Delete…")
	p.click("dialog button", "Delete it")
	p.sees("tm-schedules", "There are no schedules.")
}
