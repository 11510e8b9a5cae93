package page

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageQuorum votes from two browsers on a call that needs three approvals.
func TestPageQuorum(t *testing.T) {
	t.Parallel()
	options := check.AskingFirst(agent.PolicyAlways)
	options.Agents[0].ApprovalTerms = approval.Terms{Quorum: 3}
	w := harness.New(t, options)
	id := check.WaitingNotes(w, 1)[0]
	ann, ben := browser.New(t), browser.New(t)
	annsThread, annsList := ann.Open(browser.ThreadPage(w.API.URL, id)), ann.Open(w.API.URL+"/#/approvals")
	bensThread, bensList := ben.OpenAs("Ben", browser.ThreadPage(w.API.URL, id)), ben.OpenAs("Ben", w.API.URL+"/#/approvals")
	offered := func(p *browser.Tab, is bool) {
		p.T.Helper()
		p.Until(fmt.Sprintf(`(document.querySelector('.approval [data-key="a"]') !== null) === %t && document.querySelector('.approval [data-key="d"]') !== null`, is))
	}
	for _, p := range []*browser.Tab{annsThread, annsList, bensThread, bensList} {
		p.Sees(".approval .facts", "3 approvals, has 0: 3 more")
		offered(p, true)
	}
	// The stream shows Ann her vote before she gets the answer to it. The notice stays.
	browser.Evaluate[chromedp.Void](annsThread, `(() => {
		const send = fetch, later = setTimeout;
		globalThis.setTimeout = (f, ms) => ms === 4000 ? 0 : later(f, ms);
		globalThis.fetch = async (url, init) => {
			const answer = await send(url, init);
			if (init.method === "POST" && /\/approvals\//.test(url)) {
				while (!document.querySelector(".approval .facts").textContent.includes("ann")) await new Promise((r) => setTimeout(r, 10));
			}
			return answer;
		};
	})()`)
	annsThread.Click(".approval button", "Approve")
	annsThread.Sees("#notices", "Your approval counts. 2 more needed.")
	for _, p := range []*browser.Tab{annsThread, annsList, bensThread, bensList} {
		p.Sees(".approval .facts", "3 approvals, has 1: 2 more")
		p.Sees(".approval .facts", "ann")
	}
	offered(annsThread, false)
	offered(annsList, false)
	offered(bensThread, true)
	offered(bensList, true)
	annsThread.Do(chromedp.Reload())
	annsThread.Sees(".approval .facts", "3 approvals, has 1: 2 more")
	offered(annsThread, false)
	bensList.Click(".approval button", "Approve")
	for _, p := range []*browser.Tab{annsThread, annsList, bensThread, bensList} {
		p.Sees(".approval .facts", "3 approvals, has 2: 1 more")
		p.Sees(".approval .facts", "ann, Ben")
		offered(p, false)
	}
	bensThread.Do(chromedp.Reload())
	bensThread.Sees(".approval .facts", "3 approvals, has 2: 1 more")
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: "approve", By: "cleo"})
	require.NoError(t, err)
	for _, p := range []*browser.Tab{annsThread, bensThread} {
		p.Sees(".message.final .body", "done")
		p.Until(`document.querySelector(".approval") === null`)
	}
}

// TestPageFailure fails a turn: the page shows it once, and offers to retry it once.
func TestPageFailure(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{MaxModelAttempts: 1})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	p.Enter("tm-composer textarea", "does it work?")
	once := func() {
		p.T.Helper()
		p.Sees(".lines", "400: Bad Request")
		p.Until(`document.querySelector(".pulse") === null`)
		p.Until(`[...document.querySelectorAll(".lines button")].filter((b) => b.textContent === "Retry" && b.checkVisibility()).length === 1`)
		p.Until(`[...document.querySelectorAll(".lines > .line")].filter((l) => !l.hidden && l.textContent.includes("400: Bad Request")).length === 1`)
	}
	once()
	p.Do(chromedp.Reload())
	once()
	p.Sees(".thread-row.failing .state", "failed")
	p.Click(".tabs button", "Failing")
	p.Sees(".thread-row .title", "does it work?")
	p.Click(".lines button", "Retry")
	p.Sees(".message.final .body", "does it work?")
	p.Until(`document.querySelector(".thread-row") === null`)
}

// TestPageCommandOutput shows what a command writes as text, live and afterwards.
func TestPageCommandOutput(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"shell_cmd"}, Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyNever},
	}}})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Enter("tm-composer textarea", `use shell_cmd {"command": "echo \"a <b>\"; echo oops >&2; printf '1\\n2\\n'; while ! test -e go-on; do sleep 0.05; done; echo end"}`+"\nthen\ndone")
	p.Until(`document.querySelector(".progress")?.textContent.includes("1\n2\n")`)
	assert.Contains(t, browser.Evaluate[string](p, `document.querySelector(".progress").textContent`), "a <b>\n")
	assert.Equal(t, "oops\n", browser.Evaluate[string](p, `document.querySelector(".progress .stderr").textContent`))
	w.Say(w.Open(), `use shell_cmd {"command": "touch go-on"}`+"\nthen\ndone")
	p.Sees(".message.final .body", "done")
	p.Until(`document.querySelector(".result .output:not(.stderr)")?.textContent === "a <b>\n1\n2\nend\n"`)
	assert.Equal(t, "oops\n", browser.Evaluate[string](p, `document.querySelector(".result .stderr").textContent`))
	p.Sees(".result .hint", "exit code 0")
}

// TestPageUnanswered addresses no agent: whoever looks later sees that there was no answer.
func TestPageUnanswered(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in"}}})
	id := w.Open("assistant")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Enter("tm-composer textarea", "@human are you there?")
	p.Sees(".lines .status", "No agent answers")
	p.Do(chromedp.Reload())
	p.Sees(".lines .status", "No agent answers")
	p.Click(".tabs button", "Unanswered")
	p.Sees(".thread-row.unanswered .title", "are you there?")
	p.Sees(".thread-row.unanswered .state", "nobody answers")
}

// TestPageSchedules shows a schedule that fails, and asks before it deletes one.
func TestPageSchedules(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	closed := w.Open()
	require.NoError(t, w.Threads.Control(w.Ctx(), closed, signals.Control{Action: signals.ControlClose}))
	schedule, err := w.Threads.CreateSchedule(w.Ctx(), signals.Schedule{
		ThreadID: closed, Every: signals.Duration(time.Hour), Message: &event.NewMessage{Content: "tick"}, Paused: true,
	})
	require.NoError(t, err)
	require.NoError(t, w.Threads.TriggerSchedule(w.Ctx(), schedule.ID))
	require.Eventually(t, func() bool {
		view, err := w.Threads.Schedule(w.Ctx(), schedule.ID)
		return err == nil && view.Failing != nil
	}, testenv.Patience, testenv.Tick)
	p := browser.New(t).Open(w.API.URL + "/#/schedules")
	p.Until(fmt.Sprintf(`[...document.querySelectorAll("tm-schedules h2")].some((e) => e.textContent.includes(%q))`, schedule.ID))
	p.Sees(".card.failing .badge", "failing")
	p.Sees(".card.failing .error", "closed")
	p.Click("tm-schedules button", "Delete…")
	p.Until(`document.activeElement.matches("dialog[open] button") && document.activeElement.textContent === "Cancel"`)
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Until(`document.querySelector("dialog") === null`)
	_, err = w.Threads.Schedule(w.Ctx(), schedule.ID)
	require.NoError(t, err)
	p.Click("tm-schedules button", "Delete…")
	p.Click("dialog button", "Delete it")
	p.Sees("tm-schedules", "There are no schedules.")
}
