package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
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
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// alt presses a key with the Alt key.
func alt(name string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeRawKeyDown, Key: name, Modifiers: 1,
		})
	}
}

// queued returns the texts of a thread's queue.
func queued(w *harness.Harness, id string) []string {
	var queue signals.Queue
	require.Eventually(w.T, func() bool {
		var err error
		queue, err = w.Threads.Queue(w.Ctx(), id) // which may take longer than a query may while the thread replies
		return err == nil
	}, testenv.Patience, testenv.Tick)
	var texts []string
	for _, it := range queue.Items {
		var m event.NewMessage
		require.NoError(w.T, json.Unmarshal(it.Payload, &m))
		texts = append(texts, m.Content)
	}
	return texts
}

// TestPageQueue moves and drops what waits, with buttons and with keys.
func TestPageQueue(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Post(id, "count 100000 every 20ms")
	for _, text := range []string{"one", "two", "three", "four"} {
		w.Post(id, text)
	}
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	shows := func(texts ...string) {
		t.Helper()
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".queued > li")].map((li) => li.querySelector(".queued-text").lastChild.data).join() === %q`, strings.Join(texts, ",")))
		assert.Equal(t, texts, queued(w, id))
	}
	focused := func(text string) {
		t.Helper()
		p.Until(fmt.Sprintf(`document.activeElement.closest(".queued > li")?.textContent.includes(%q)`, text))
	}
	p.Sees("tm-queue h2", "Queued (4)")
	p.Sees(".activity button", "4 queued")
	shows("one", "two", "three", "four")
	p.Click(".queued button[aria-label*=three]", "↑")
	shows("one", "three", "two", "four")
	p.Click(".queued button[aria-label*=one]", "↓")
	shows("three", "one", "two", "four")
	browser.Evaluate[chromedp.Void](p, `[...document.querySelectorAll(".queued > li")].at(-1).focus()`)
	for range 2 {
		before := queued(w, id)
		p.Do(alt("ArrowUp"))
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".queued-text")].map((e) => e.lastChild.data).join() !== %q`, strings.Join(before, ",")))
		focused("four")
	}
	shows("three", "four", "one", "two")
	p.Do(alt("ArrowDown"))
	shows("three", "one", "four", "two")
	focused("four")
	p.Do(browser.Stroke("Delete", "", 46))
	p.Until(`document.activeElement.matches("dialog[open] button") && document.activeElement.textContent === "Cancel"`)
	p.Sees("dialog[open]", "four")
	p.Do(browser.Stroke("Enter", "\r", 13))
	p.Until(`document.querySelector("dialog") === null`)
	shows("three", "one", "four", "two")
	p.Click(".queued button[aria-label*=four]", "Drop…")
	p.Click("dialog button", "Drop it")
	shows("three", "one", "two")
	p.Enter("tm-composer textarea", "five")
	shows("three", "one", "two", "five")
	p.Do(chromedp.Reload())
	shows("three", "one", "two", "five")
	p.Accessible()
	p.Click("button", "Details")
	p.Sees(".side", "4 more wait")
	p.Sees(".side .queue-item .badge", "processing")
	p.Click(".activity button", "Stop")
	p.Sees(".message.final .body", "five")
	p.Until(`document.querySelector("tm-queue").hidden`)
}

// edits are the arguments of a tool that edits files.
type edits struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
}

// TestPageCallParts shows commands, edits and JSON as what they are, and names the rule that asks.
func TestPageCallParts(t *testing.T) {
	t.Parallel()
	edit := tool.MustFunc("edit_file", "Edits a file.", func(context.Context, tool.Call, edits) (string, error) {
		return "--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,2 @@\n kept\n-<b>old</b>\n+new\n", nil
	})
	type row struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	list := tool.MustFunc("list_rows", "Lists rows.", func(context.Context, tool.Call, struct{}) (map[string]any, error) {
		rows := make([]row, 250)
		for i := range rows {
			rows[i] = row{fmt.Sprintf("row %d", i), "<i>text</i>"}
		}
		return map[string]any{"rows": rows, "total": 250}, nil
	})
	w := harness.New(t, harness.Options{Tools: []tool.Tool{edit, list}, Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"shell_cmd", "edit_file", "list_rows"},
		Approvals:     map[string]agent.Policy{"edit_file": agent.PolicyAlways, "shell_cmd": agent.PolicyNever},
		ApprovalRules: []approval.Rule{{Name: "prod-shell", Tools: []string{"shell_cmd"}, Effect: approval.EffectAsk, Reason: "It touches production."}},
	}}})
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Enter("tm-composer textarea", `use shell_cmd {"command":"echo '<b>hi</b>'\necho there"}`+"\nthen\n"+`use edit_file {"path":"x.go","old_string":"kept\n<b>old</b>","new_string":"kept\nnew"}`+"\nthen\nuse list_rows {}\nthen\ndone")

	p.Sees(".approval .reason", "Asked by rule prod-shell: It touches production.")
	p.Until(`document.querySelector(".approval .command").textContent === "$ echo '<b>hi</b>'\necho there"`)
	p.Sees(".tool .gist", "$ echo '<b>hi</b>' echo there")
	p.Click(".approval button", "Approve")
	p.Sees(".tool.done .decisions", "Asked by rule prod-shell: It touches production.")

	p.Sees(".approval .reason", "Asked by the approvals of agent assistant")
	drawn := func(place string) string {
		return browser.Evaluate[string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.localName + " " + e.textContent.trim()).join("|")`, place+" .diff > *"))
	}
	p.Sees(".approval", "x.go")
	assert.Equal(t, "span kept|del - <b>old</b>|ins + new", drawn(".approval"))
	p.Click(".approval button", "Approve")
	p.Sees(".tool.done .result .diff", "kept")
	assert.Equal(t, "span --- a/x.go|span +++ b/x.go|span @@ -1,2 +1,2 @@|span kept|del - <b>old</b>|ins + new", drawn(".tool.done .result"))

	p.Sees(".message.final .body", "done")
	p.Do(chord("f"))
	p.Enter("tm-find input", "row 123")
	p.Until(`document.querySelector(".line[data-target]")?.matches(".message")`) // the reply repeats the result
	p.Click("tm-find button", "↑")
	p.Until(`document.querySelector(".line[data-target]")?.textContent.includes("rows: [ 250 items ]")`)
	p.Until(`[...document.querySelectorAll("[data-target] .json .json-string")].some((e) => e.textContent === '"row 123"' && e.checkVisibility())`)
	assert.NotContains(t, browser.Evaluate[string](p, `document.querySelector("[data-target] .json").textContent`), "row 23", "only what was looked for is unfolded")
	p.Until(`CSS.highlights.get("found").size > 0`)
	browser.Evaluate[chromedp.Void](p, `document.querySelectorAll(".lines details").forEach((d) => (d.open = true))`)
	p.AccessibleInThemes("")
}

// TestPageErrors goes from error to error with keys.
func TestPageErrors(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{MaxModelAttempts: 1})
	id := w.Open()
	fails := func(text string) {
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
		w.Say(id, text)
	}
	fails("first")
	for i := range 30 {
		w.Say(id, fmt.Sprintf("message %d", i))
	}
	fails("second")
	w.Say(id, "the end")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".message.final .body", "the end")
	p.Until(`document.activeElement.matches("textarea")`)
	p.Press("[")
	assert.Equal(t, "[", browser.Evaluate[string](p, `document.activeElement.value`), "it is text in an input")
	browser.Evaluate[chromedp.Void](p, `document.querySelector(".scroller").focus()`)
	after := func(text string) {
		t.Helper()
		p.Until(fmt.Sprintf(`((at) => {
			const box = at?.getBoundingClientRect();
			return at === document.activeElement && at.textContent.includes("400: Bad Request") && at.previousElementSibling.textContent.includes(%q) && box.top > 0 && box.bottom < innerHeight;
		})(document.querySelector(".line[data-target]"))`, text))
	}
	p.Press("[")
	after("second")
	p.Press("[")
	after("first")
	p.Press("[")
	p.Sees("#notices", "There is no earlier error.")
	p.Press("]")
	after("second")
	p.Press("]")
	p.Sees("#notices", "There is no later error.")
	// The find bar goes on from there.
	p.Do(chord("f"))
	p.Enter("tm-find input", "message 7")
	p.Until(`document.querySelector(".line[data-target]")?.textContent.includes("message 7")`)
	browser.Evaluate[chromedp.Void](p, `document.querySelector(".scroller").focus()`)
	p.Press("[")
	after("first")
}
