// Package page tests the page in a browser: its views, its lists of threads, and threads with many lines.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// gated is a tool that reports progress and then waits.
func gated(open <-chan struct{}) tool.Tool {
	return tool.MustFunc("copy_files", "Copies files.", func(ctx context.Context, call tool.Call, _ struct {
		From string `json:"from"`
	},
	) (string, error) {
		call.Progress("half of them")
		select {
		case <-open:
			return "copied <b>all</b>", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
}

// TestPageShowsTurns watches turns on the page while they happen.
func TestPageShowsTurns(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	w := harness.New(t, harness.Options{Tools: []tool.Tool{gated(open)}, MaxModelAttempts: 1})
	b := browser.New(t)
	id := w.Open()
	p := b.Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".thread-header h1", id)

	thinks := w.Provider.Block(8)
	p.Enter("tm-composer textarea", "think The files are on the old disk, so they are copied first\nuse copy_files {\"from\":\"/old\"}\nthen\nAll of them\nare there.")
	t.Run("S1-09 thoughts are shown, and can be folded", func(t *testing.T) {
		p.T = t
		p.Sees(".message.streaming .thought-text", "The files")
		p.Until(`document.querySelector(".message.streaming .thought").open`)
		p.Click(".message.streaming .thought summary", "Thoughts")
		p.Until(`!document.querySelector(".message.streaming .thought").open`)
	})
	answers := w.Provider.Block(2)
	thinks.Release()
	t.Run("S1-10 a tool in use has a card with its arguments", func(t *testing.T) {
		p.T = t
		p.Sees(".tool .tool-name", "copy_files")
		p.Sees(".tool .state", "using")
		p.Sees(".tool .args", `"from": "/old"`)
	})
	t.Run("S1-11 its progress is in the card", func(t *testing.T) {
		p.T = t
		p.Sees(".tool .progress", "half of them")
		p.Until(`document.querySelector(".tool details").open`)
	})
	close(open)
	t.Run("S1-12 its result is folded", func(t *testing.T) {
		p.T = t
		p.Sees(".tool .output", "copied <b>all</b>")
		p.Sees(".tool .state", "done")
		p.Until(`!document.querySelector(".tool details").open`)
	})
	t.Run("S1-13 the reply grows while it is streamed", func(t *testing.T) {
		p.T = t
		p.Until(`document.querySelector(".message.streaming .body")?.textContent.length > 0`)
		assert.NotContains(t, browser.Evaluate[string](p, `document.querySelector(".message.streaming .body").textContent`), "are there.", "not all of it was sent")
	})
	answers.Release()
	t.Run("S1-14 final closes the reply", func(t *testing.T) {
		p.T = t
		p.Sees(".message.final .body", "are there.")
		p.Until(`document.querySelector(".message.streaming") === null`)
	})
	t.Run("S1-15 an error is shown and can be retried", func(t *testing.T) {
		p.T = t
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
		p.Enter("tm-composer textarea", "does it work?")
		p.Sees(".lines [role=alert]", "400")
		p.Click(".lines button", "Retry")
		p.Sees(".message.final .body", "does it work?")
		p.Until(`![...document.querySelectorAll(".lines button")].some((b) => b.textContent === "Retry")`)
	})
	t.Run("a reload shows the same", func(t *testing.T) {
		p.T = t
		before := p.Lines()
		p.Do(chromedp.Reload())
		p.Until(`document.querySelectorAll(".lines > .line").length > 5`)
		again := p.Lines()
		assert.Equal(t, before, again)
	})
}

// TestPageTabs has two tabs and the CLI on one thread.
func TestPageTabs(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	b := browser.New(t)
	id := w.Open()
	first, second := b.Open(browser.ThreadPage(w.API.URL, id)), b.Open(browser.ThreadPage(w.API.URL, id))
	for _, p := range []*browser.Tab{first, second} {
		p.Until(`document.querySelector("tm-composer textarea:not([disabled])") !== null`)
		p.Sees(".connection", "Live")
	}
	first.Enter("tm-composer textarea", "from the first tab")
	second.Sees(".message.final .body", "from the first tab")
	printed, code, problem := w.Starter("send", id, "from the terminal", "--wait")
	require.Zero(t, code, problem)
	require.Contains(t, printed, "from the terminal")
	second.Enter("tm-composer textarea", "from the second tab")
	for _, p := range []*browser.Tab{first, second} {
		p.Sees(".message.final .body", "from the terminal")
		p.Sees(".message.final .body", "from the second tab")
		p.Until(`document.querySelectorAll(".message.final").length === 3`)
	}
	assert.Equal(t, first.Lines(), second.Lines())
}

// restartable serves the API of a harness at an address that stays the same.
type restartable struct {
	t      testing.TB
	w      *harness.Harness
	server *http.Server
	addr   string
}

func (r *restartable) start() {
	listener, err := net.Listen("tcp", r.addr)
	require.NoError(r.t, err)
	r.addr = listener.Addr().String()
	r.server = &http.Server{Handler: r.w.API.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
}

func (r *restartable) kill() { _ = r.server.Close() }

// TestPageServerRestarts kills the server in the middle of a reply.
func TestPageServerRestarts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	r := &restartable{t: t, w: w, addr: "127.0.0.1:0"}
	r.start()
	defer r.kill()
	b := browser.New(t)
	id := w.Open()
	p := b.Open(browser.ThreadPage("http://"+r.addr, id))
	p.Until(`document.querySelector("tm-composer textarea:not([disabled])") !== null`)
	middle := w.Provider.Block(20)
	p.Enter("tm-composer textarea", "count 60")
	p.Sees(".message.streaming .body", "1 2 3")
	r.kill()
	p.Sees(".connection", "Reconnecting")
	middle.Release()
	w.Provider.Block(0).Release()
	r.start()
	p.Sees(".message.final .body", "58 59 60")
	p.Sees(".connection", "Live")
	p.Until(`document.querySelectorAll(".message.final").length === 1`)
	text := browser.Evaluate[string](p, `document.querySelector(".message.final .body").textContent`)
	for i := 1; i <= 60; i++ {
		require.Regexp(t, fmt.Sprintf(`\b%d\b`, i), text, "nothing is missing")
	}
	p.Enter("tm-composer textarea", "next turn")
	p.Sees(".message.final .body", "next turn")
}

// hostile is what a model may say to break a page.
const hostile = "<script>document.title = 'broken'</script> <img src=x onerror=\"document.title='broken'\"> [click](javascript:document.title='broken') " +
	"![i](https://example.com/x.png) \x1b[31mred\x1b[0m \u202eevil\u202c \u200bhidden <iframe src=//example.com></iframe>"

// TestPageHostileText shows what tries to become markup, script or a terminal's control.
func TestPageHostileText(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	b := browser.New(t)
	id := w.Open()
	_, err := w.Threads.Update(w.Ctx(), id, signals.ThreadChange{Title: "<img src=x onerror=alert(1)> title"})
	require.NoError(t, err)
	w.Say(id, "think "+hostile+"\n"+hostile)
	w.Say(id, `use note {"text":"<script>alert(1)</script>"}`+"\nuse <b>unknown</b> {}\nthen\n```js\n</code><script>alert(1)</script>\n```")
	p := b.Open(browser.ThreadPage(w.API.URL, id))
	p.Until(`document.querySelectorAll(".message.final .body").length >= 2 && document.querySelector(".line:last-of-type .body:not([data-text])") !== null`)
	assert.Zero(t, browser.Evaluate[int](p, `document.querySelectorAll("main img, main script, main iframe, main [onerror], #list img, #list script").length`))
	assert.Zero(t, browser.Evaluate[int](p, `[...document.querySelectorAll("a[href]")].filter((a) => a.protocol === "javascript:").length`))
	assert.NotContains(t, browser.Evaluate[string](p, "document.title"), "broken")
	text := browser.Evaluate[string](p, "document.body.innerText")
	for _, hidden := range []string{"\x1b", "\u202e", "\u202c", "\u200b"} {
		assert.NotContains(t, text, hidden)
	}
	assert.Contains(t, text, "<script>", "it is shown as text")
}

// TestPageApprovals decides on calls with the keyboard only.
func TestPageApprovals(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	var ids []string
	for i := range 3 {
		id := w.Open()
		ids = append(ids, id)
		w.Post(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\ndone", i))
		w.AwaitApproval(id, 1)
	}
	b := browser.New(t)
	p := b.Open(w.API.URL + "/#/approvals")
	p.Sees("#nav .count", "3")
	p.Until(`document.querySelectorAll("tm-approvals .approval").length === 3`)
	p.Press("j")
	p.Decide("a")
	assert.Equal(t, "noted: 0", check.FirstResult(w, ids[0]).Content)
	p.Until(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === 2`)
	p.Decide("e") // the next one has the focus
	p.Until(`document.querySelector(".choice textarea") !== null`)
	browser.Evaluate[chromedp.Void](p, `(() => { const t = document.querySelector(".choice textarea"); t.value = '{"text":"edited"}'; t.dispatchEvent(new Event("input")); })()`)
	p.Sees(".diff", "edited")
	p.Click(".choice button", "Approve the edited call")
	assert.Contains(t, check.FirstResult(w, ids[1]).Content, "noted: edited")
	p.Until(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === 1`)
	p.Press("j")
	p.Decide("d")
	p.Until(`document.querySelector(".choice input") !== null`)
	p.Enter(".choice input", "not today")
	assert.Contains(t, check.FirstResult(w, ids[2]).Content, "not today")
	p.Until(`document.querySelector("#nav .count").hidden`)
}

// TestPageModelCall asks what the model saw.
func TestPageModelCall(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	w.Say(id, "use note {\"text\":\"<b>x</b>\"}\nthen\ndone")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Click(".message.final:last-of-type button, .message.final ~ .message.final button", "Why?")
	p.Click(".side button", "What the model saw")
	p.Sees(".side .facts", "openai/stand-in")
	p.Sees(".side h3", "Conversation (6)")
	saw := browser.Evaluate[[]string](p, `[...document.querySelectorAll("ol.saw summary")].map((s) => s.textContent)`)
	require.Len(t, saw, 6)
	assert.Equal(t, "system You help. Rules for tools:", strings.Join(strings.Fields(saw[0])[:6], " "))
	assert.Contains(t, saw[3], "use note")
	assert.NotContains(t, saw[3], "new", "the step before had it")
	assert.Contains(t, saw[4], "new note")
	assert.Contains(t, saw[5], "noted: <b>x</b>")
	p.Sees(".side summary", "Notes a text.")
	p.Click(".side button", "‹ Step 1")
	p.Sees(".side h3", "Conversation (4)")
	p.Click(".side button", "Step 2 ›")
	p.Sees(".side h3", "Conversation (6)")
	p.Click(".side button", "‹ Why?")
	p.Sees(".side h2", "Why did this happen?")
}

// TestPageTokens shows the tokens of a thread beside it, and those of a model call.
func TestPageTokens(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	w.Say(id, `use note {"text":"x"}`)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, 3, state.Usage.ModelCalls)
	require.Positive(t, state.Usage.OutputTokens)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	shown := func(of event.Usage) {
		t.Helper()
		for name, n := range map[string]int{"Tokens in": of.InputTokens, "Tokens out": of.OutputTokens} {
			p.Until(fmt.Sprintf(`[...document.querySelectorAll(".side dt")].some((dt) => dt.textContent === %q && dt.nextSibling.textContent.split(" ")[0] === (%d).toLocaleString())`, name, n))
		}
	}
	p.Click("button", "Details")
	shown(state.Usage)
	p.Until(`[...document.querySelectorAll(".side dt")].some((dt) => dt.textContent === "Model calls" && dt.nextSibling.textContent === "3")`)
	p.Click(".message.final button", "Why?")
	p.Click(".side button", "What the model saw")
	shown(harness.Payload[event.LLMCall](w, check.OfType(w, id, event.TypeLLMCall)[0]).Usage)
}

// TestFirstSession does what docs/first-session.md says.
func TestFirstSession(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/first-session.md")
	require.NoError(t, err)
	definition := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindSubmatch(text)
	require.NotNil(t, definition)
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"shell_cmd"}, Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyAlways},
	}}})
	p := browser.New(t).Open(w.API.URL)
	p.Click("a, button", "New")
	p.Enter(".new-thread textarea", `use shell_cmd {"command": "date"}`)
	p.Click(".approval button", "Approve")
	p.Sees("tm-thread", "exit")
	p.Until(`!document.body.textContent.includes("Nothing has happened here yet")`)

	p.Click("a", "Agents")
	p.Click("tm-agents a", "New agent")
	p.Write(".json textarea", strings.ReplaceAll(string(definition[1]), "demo/demo", "openai/stand-in"))
	p.Click("tm-form button", "Save")
	p.Sees("tm-agents h2", "greeter")

	// A list of agents has pages, of which lists to choose from have all.
	for i := range store.MaxAgents {
		_, err := w.Store.SaveAgent(w.Ctx(), w.TaskQueue, store.AgentVersion{Name: fmt.Sprint("agent", i), Definition: json.RawMessage(`{"model":"openai/stand-in"}`)}, 0)
		require.NoError(t, err)
	}
	p.Click("#nav a", "Agents")
	p.Sees("tm-agents", "agent9")
	require.NotContains(t, browser.Evaluate[string](p, `document.querySelector("tm-agents").textContent`), "greeter")
	p.Click("tm-agents button", "Show more")
	p.Sees("tm-agents", "greeter")
	p.Until(`document.querySelector("tm-agents .cards + button").hidden`)

	p.Click("a", "Threads")
	p.Click("a, button", "New")
	p.Click(".new-thread label", "greeter")
	p.Enter(".new-thread textarea", "Welcome to my team!")
	p.Until(`document.querySelectorAll("tm-thread .message").length >= 2 || [...document.querySelectorAll("tm-thread")].some((e) => e.textContent.split("Welcome to my team!").length > 2)`)
	p.Sees("tm-thread", "greeter")
}
