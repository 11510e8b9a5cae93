package page

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPageTaskOutput reads what background tasks report, return and fail with, beside their thread. What is open stays open,
// and what has the focus keeps it, while tasks go on and end.
func TestPageTaskOutput(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, work.Tool("build", tool.Background()))
	id := w.Open()
	start := func(job string) event.Task { return check.StartTask(t, w, id, check.Use("build", job)) }
	first, second := start("a"), start("b")
	a, b := work.Of("a").Begins(t), work.Of("b").Begins(t)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".connection", "Live")
	p.Click("button", "Details")
	row := func(task event.Task) string { return fmt.Sprintf("#task-%s", strings.ReplaceAll(task.ID, "~", `\~`)) }
	open := func(task event.Task) {
		p.Focus(row(task) + " summary")
		p.Do(browser.Stroke("Enter", "\r", 13))
	}
	kept := func(task event.Task) {
		p.Until(fmt.Sprintf(`((e) => e.querySelector("details").open && e.querySelector("summary") === document.activeElement)(document.querySelector(%q))`, row(task)))
	}
	open(first)
	p.Sees(row(first)+" .hint", "It has reported nothing since this page was opened.")
	a.Progress("cloning")
	p.Sees(row(first)+" .progress", "cloning")
	a.Progress(map[string]int{"percent": 10})
	p.Until(fmt.Sprintf(`document.querySelector(%q).textContent === "cloning\n{\"percent\":10}\n"`, row(first)+" .progress"))
	kept(first)

	// It ends while it is looked at.
	report := "built 1\n" + strings.Repeat("line\n", 60) + "the end"
	work.Of("a").Returns(report)
	check.AwaitTold(t, w, first)
	p.Sees(row(first)+" .badge", "completed")
	p.Sees(row(first)+" .output", "built 1")
	kept(first)
	p.Until(fmt.Sprintf(`((e) => e.textContent.split("\n").length < 30 && !e.textContent.includes("the end"))(document.querySelector(%q))`, row(first)+" .output"))
	p.Focus(row(first) + " .task-output button")
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Sees(row(first)+" .output", "the end")
	p.Until(fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, row(first)+" .output"))

	// One fails, with more than the list says of it, while the whole of the other one is read.
	b.Progress("cloning")
	work.Of("b").Fails(errors.New("no disk: " + strings.Repeat("x", 800) + " /dev/sda"))
	check.AwaitTold(t, w, second)
	p.Sees(row(second)+" .badge", "failed")
	p.Sees(row(first)+" .output", "the end")
	p.Until(fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, row(first)+" .output"))
	open(second)
	p.Sees(row(second)+" .output.failed", " /dev/sda")
	for _, width := range []int64{1440, 390} {
		p.Do(chromedp.EmulateViewport(width, 900))
		p.AccessibleInThemes(fmt.Sprintf("tasks-%%s-%d.png", width))
		p.Until(`document.documentElement.scrollWidth <= innerWidth && document.querySelector(".side").scrollWidth <= document.querySelector(".side").clientWidth`)
	}

	// A task that has returned JSON, for somebody who comes later.
	third := start("c")
	work.Of("c").Begins(t)
	work.Of("c").Returns(`{"url": "build/7"}`)
	check.AwaitTold(t, w, third)
	later := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	later.Click("button", "Details")
	later.Click(row(third)+" summary", "Output")
	later.Sees(row(third)+" .output", `"url": "build/7"`)
	require.Equal(t, 3, browser.Evaluate[int](later, `document.querySelectorAll(".side [id^=task-]").length`))
}

// TestPageTaskOfSubAgent follows a task to the thread of the agent that does it, and reads its reply beside the thread.
func TestPageTaskOfSubAgent(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	id := w.Open()
	task := check.StartTask(t, w, id, `use task {"agent":"helper","message":"say so far\nuse wait {}"}`)
	check.Arrives(t, g.Reached, "the tool")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".connection", "Live")
	p.Click("button", "Details")
	p.Click(".side li summary", "Output")
	g.Release()
	check.AwaitTold(t, w, task)
	p.Sees(".side li .output", "wait returned: open")
	p.Click(".side li a", "Thread of helper")
	p.Until(fmt.Sprintf(`location.hash === "#/threads/%s"`, task.ThreadID))
	p.Sees(".message", "wait returned: open")
}
