package page

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPageTurn shows what a turn took, whose first model call was retried and whose call waited for an approval.
func TestPageTurn(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	w.Provider.Fail(llmtest.Status(http.StatusServiceUnavailable, "0"))
	id := check.WaitingNotes(w, 1)[0]
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".approval .facts", "Asked")
	p.Until(`document.activeElement !== null && document.querySelector(".activity .pulse") !== null`)
	// The key of a thread, with the focus outside of fields.
	browser.Evaluate[bool](p, `document.activeElement.blur() ?? true`)
	p.Press("t")
	p.Sees(".side h2", "What the turn took")
	p.Sees(".side .turn-total", "so far")
	p.Sees(".side .turn-total", "1 model call, 0 tool calls")
	p.Sees(".waterfall .step-approval", "goes on")
	p.Sees(".waterfall .step-model", "attempt 2")
	assert.Equal(t, []string{"model call", "wait for approval"}, kinds(p))
	p.Until(`document.activeElement?.getAttribute("aria-label") === "Close the details"`)

	p.Click(".approval button", "Approve")
	p.Sees(".message.final .body", "done")
	p.Click(".side button", "Refresh")
	p.Until(`document.querySelector(".side .turn-total")?.textContent.includes("2 model calls, 1 tool call, ")`)
	p.Until(`!document.querySelector(".side .turn-total").textContent.includes("so far")`)
	assert.Equal(t, []string{"model call", "wait for approval", "tool call", "model call"}, kinds(p))
	p.Sees(".waterfall .step-approval", "approved by")
	p.Until(`/^\d+ → \d+$/.test(document.querySelector(".waterfall .step-model td:last-child").textContent)`)
	// The steps lie one behind the other, and fill the turn.
	p.Until(`(() => {
		const steps = [...document.querySelectorAll(".waterfall .track .work")].map((e) => e.getBoundingClientRect());
		return steps.length === 4 && steps.every((s, i) => s.width > 0 && (i === 0 || s.left >= steps[i - 1].left));
	})()`)
	for _, width := range []int64{1440, 390} {
		p.Do(chromedp.EmulateViewport(width, 900))
		p.AccessibleInThemes(fmt.Sprintf("turn-%%s-%d.png", width))
		p.Until(`document.documentElement.scrollWidth <= innerWidth && document.querySelector(".side").scrollWidth <= document.querySelector(".side").clientWidth`)
	}
	// Where the panel covers the thread, the way to a line closes it.
	p.Click(".waterfall .step-tool button", "note")
	p.Until(`document.querySelector(".side").hidden && document.activeElement?.matches(".line.tool[data-target]")`)
	p.Do(chromedp.EmulateViewport(1440, 900))
	p.Press("t")

	p.Click(".waterfall .step-tool button", "note")
	p.Until(`document.activeElement?.matches(".line.tool[data-target]")`)
	p.Click(".side button", "×")
	p.Until(`document.querySelector(".side").hidden`)
	p.Click(".message.final button", "Turn")
	p.Sees(".side .turn-total", "2 model calls")
}

// TestPageTasks follows a background task from the details of its thread to the progress of its call, until it has failed.
func TestPageTasks(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, work.Tool("build", tool.Background()))
	id := w.Open()
	task := check.StartTask(t, w, id, check.Use("build", "a"))
	call := work.Of("a").Begins(t)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".connection", "Live")
	p.Click("button", "Details")
	p.Sees(".side li", "build")
	p.Sees(".side .badge", "running")
	p.Click(".side li button", "Progress")
	p.Until(`document.activeElement?.matches(".line.tool[data-target]")`)
	p.Click(".line.tool[data-target] summary", "build")
	p.Until(`document.querySelector(".line.tool[data-target] details").open`)
	call.Progress(map[string]int{"percent": 10})
	p.Sees(".line.tool[data-target] .progress", "percent")
	work.Of("a").Fails(errors.New("no disk"))
	check.AwaitTold(t, w, task)
	p.Click(".side button", "×")
	p.Click("button", "Details")
	p.Sees(".side .badge", "failed")
	p.Sees(".side li .error", "no disk")
	p.Sees(".side li .hint", "took")
}

// kinds returns what each step of the turn that is shown is.
func kinds(p *browser.Tab) []string {
	return browser.Evaluate[[]string](p, `[...document.querySelectorAll(".waterfall th .hint")].map((e) => e.textContent.split(" · ")[0])`)
}
