package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/clients/typescript"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPageTypes checks the types of the page and of the client, which are written in JSDoc, against
// the API's description.
func TestPageTypes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../internal/page/web")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "client"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client", "threadmill.js"), typescript.Client, 0o600))
	api, err := filepath.Abs(openAPI)
	require.NoError(t, err)
	output(t, testenv.Node(t, "node_modules/openapi-typescript/bin/cli.js", api, "--output", filepath.Join(dir, "client", "api.d.ts")))
	check := func(file string) error {
		return testenv.Node(t, "node_modules/typescript/bin/tsc", "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2024",
			"--lib", "es2024,dom,dom.iterable,esnext.collection", "--module", "es2022", "--moduleResolution", "bundler",
			"--noUnusedLocals", "--noUnusedParameters", file).Run()
	}
	require.NoError(t, check(filepath.Join(dir, "app.js")))
	wrong := filepath.Join(dir, "wrong.js")
	require.NoError(t, os.WriteFile(wrong, []byte(`import { client } from "./session.js"; client.post("t", { text: "no such field" });`), 0o600))
	require.Error(t, check(wrong), "mistakes are found")
}

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
	open := make(chan struct{})
	w := harness.New(t, harness.Options{Tools: []tool.Tool{gated(open)}, MaxModelAttempts: 1})
	b := newBrowser(t)
	id := w.Open()
	p := b.open(threadPage(w.API.URL, id))
	p.sees(".thread-header h1", id)

	thinks := w.Provider.Block(8)
	p.enter("tm-composer textarea", "think The files are on the old disk, so they are copied first\nuse copy_files {\"from\":\"/old\"}\nthen\nAll of them\nare there.")
	arrives(t, thinks.Reached(), "the model call")
	t.Run("S1-09 thoughts are shown, and can be folded", func(t *testing.T) {
		p.t = t
		p.sees(".message.streaming .thought-text", "The files")
		p.until(`document.querySelector(".message.streaming .thought").open`)
		p.click(".message.streaming .thought summary", "Thoughts")
		p.until(`!document.querySelector(".message.streaming .thought").open`)
	})
	answers := w.Provider.Block(2)
	thinks.Release()
	t.Run("S1-10 a tool in use has a card with its arguments", func(t *testing.T) {
		p.t = t
		p.sees(".tool .tool-name", "copy_files")
		p.sees(".tool .state", "using")
		p.sees(".tool .args", `"from": "/old"`)
	})
	t.Run("S1-11 its progress is in the card", func(t *testing.T) {
		p.t = t
		p.sees(".tool .progress", "half of them")
		p.until(`document.querySelector(".tool details").open`)
	})
	close(open)
	t.Run("S1-12 its result is folded", func(t *testing.T) {
		p.t = t
		p.sees(".tool .output", "copied <b>all</b>")
		p.sees(".tool .state", "done")
		p.until(`!document.querySelector(".tool details").open`)
	})
	t.Run("S1-13 the reply grows while it is streamed", func(t *testing.T) {
		p.t = t
		arrives(t, answers.Reached(), "the second model call")
		p.until(`document.querySelector(".message.streaming .body")?.textContent.length > 0`)
		assert.NotContains(t, evaluate[string](p, `document.querySelector(".message.streaming .body").textContent`), "are there.", "not all of it was sent")
	})
	answers.Release()
	t.Run("S1-14 final closes the reply", func(t *testing.T) {
		p.t = t
		p.sees(".message.final .body", "are there.")
		p.until(`document.querySelector(".message.streaming") === null`)
	})
	t.Run("S1-15 an error is shown and can be retried", func(t *testing.T) {
		p.t = t
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
		p.enter("tm-composer textarea", "does it work?")
		p.sees(".lines [role=alert]", "400")
		p.click(".lines button", "Retry")
		p.sees(".message.final .body", "does it work?")
		p.until(`![...document.querySelectorAll(".lines button")].some((b) => b.textContent === "Retry")`)
	})
	t.Run("a reload shows the same", func(t *testing.T) {
		p.t = t
		before := p.lines()
		p.do(chromedp.Reload())
		p.until(`document.querySelectorAll(".lines > .line").length > 5`)
		again := p.lines()
		assert.Equal(t, before, again)
	})
}

// TestPageTabs has two tabs and the CLI on one thread.
func TestPageTabs(t *testing.T) {
	w := harness.New(t, harness.Options{})
	b := newBrowser(t)
	id := w.Open()
	first, second := b.open(threadPage(w.API.URL, id)), b.open(threadPage(w.API.URL, id))
	for _, p := range []*tab{first, second} {
		p.until(`document.querySelector("tm-composer textarea:not([disabled])") !== null`)
		p.sees(".connection", "Live")
	}
	first.enter("tm-composer textarea", "from the first tab")
	second.sees(".message.final .body", "from the first tab")
	printed, code, problem := starter(w, "send", id, "from the terminal", "--wait")
	require.Zero(t, code, problem)
	require.Contains(t, printed, "from the terminal")
	second.enter("tm-composer textarea", "from the second tab")
	for _, p := range []*tab{first, second} {
		p.sees(".message.final .body", "from the terminal")
		p.sees(".message.final .body", "from the second tab")
		p.until(`document.querySelectorAll(".message.final").length === 3`)
	}
	assert.Equal(t, first.lines(), second.lines())
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
	r.server = &http.Server{Handler: r.w.Runtime.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
}

func (r *restartable) kill() { _ = r.server.Close() }

// TestPageServerRestarts kills the server in the middle of a reply.
func TestPageServerRestarts(t *testing.T) {
	w := harness.New(t, harness.Options{})
	r := &restartable{t: t, w: w, addr: "127.0.0.1:0"}
	r.start()
	defer r.kill()
	b := newBrowser(t)
	id := w.Open()
	p := b.open(threadPage("http://"+r.addr, id))
	p.until(`document.querySelector("tm-composer textarea:not([disabled])") !== null`)
	middle := w.Provider.Block(20)
	p.enter("tm-composer textarea", "count 60")
	arrives(t, middle.Reached(), "the model call")
	p.sees(".message.streaming .body", "1 2 3")
	r.kill()
	p.sees(".connection", "Reconnecting")
	middle.Release()
	w.Provider.Block(0).Release()
	r.start()
	p.sees(".message.final .body", "58 59 60")
	p.sees(".connection", "Live")
	p.until(`document.querySelectorAll(".message.final").length === 1`)
	text := evaluate[string](p, `document.querySelector(".message.final .body").textContent`)
	for i := 1; i <= 60; i++ {
		require.Regexp(t, fmt.Sprintf(`\b%d\b`, i), text, "nothing is missing")
	}
	p.enter("tm-composer textarea", "next turn")
	p.sees(".message.final .body", "next turn")
}

// hostile is what a model may say to break a page.
const hostile = "<script>document.title = 'broken'</script> <img src=x onerror=\"document.title='broken'\"> [click](javascript:document.title='broken') " +
	"![i](https://example.com/x.png) \x1b[31mred\x1b[0m \u202eevil\u202c \u200bhidden <iframe src=//example.com></iframe>"

// TestPageHostileText shows what tries to become markup, script or a terminal's control.
func TestPageHostileText(t *testing.T) {
	w := harness.New(t, harness.Options{})
	b := newBrowser(t)
	id := w.Open()
	_, err := w.Threads.Update(w.Ctx(), id, signals.ThreadChange{Title: "<img src=x onerror=alert(1)> title"})
	require.NoError(t, err)
	w.Say(id, "think "+hostile+"\n"+hostile)
	w.Say(id, `use note {"text":"<script>alert(1)</script>"}`+"\nuse <b>unknown</b> {}\nthen\n```js\n</code><script>alert(1)</script>\n```")
	p := b.open(threadPage(w.API.URL, id))
	p.until(`document.querySelectorAll(".message.final .body").length >= 2 && document.querySelector(".line:last-of-type .body:not([data-text])") !== null`)
	assert.Zero(t, evaluate[int](p, `document.querySelectorAll("main img, main script, main iframe, main [onerror], #list img, #list script").length`))
	assert.Zero(t, evaluate[int](p, `[...document.querySelectorAll("a[href]")].filter((a) => a.protocol === "javascript:").length`))
	assert.NotContains(t, evaluate[string](p, "document.title"), "broken")
	text := evaluate[string](p, "document.body.innerText")
	for _, hidden := range []string{"\x1b", "\u202e", "\u202c", "\u200b"} {
		assert.NotContains(t, text, hidden)
	}
	assert.Contains(t, text, "<script>", "it is shown as text")
}

// TestPageLongThread scrolls over ten thousand records.
func TestPageLongThread(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	now := time.Now()
	for batch := range 10 {
		var records []event.Record
		for i := range 1000 {
			m := event.Message{
				ID: fmt.Sprintf("m%d", batch*1000+i), ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser,
				Content: fmt.Sprintf("message **%d**", batch*1000+i),
			}
			records = append(records, event.NewRecord(m.ID, event.TypeMessage, "", "", now, m))
		}
		_, err := w.Store.Append(w.Ctx(), w.Key(id), store.Batch{Records: records})
		require.NoError(t, err)
	}
	b := newBrowser(t)
	p := b.open(threadPage(w.API.URL, id))
	p.sees(".message .body", "message 9999")
	assert.Less(t, evaluate[int](p, `document.querySelectorAll(".lines > .line").length`), 1000, "the rest is loaded when it is needed")
	first := b.open(threadPage(w.API.URL, id) + "/m:m0")
	first.until(`document.activeElement?.id === "line-m:m0"`)
	first.until(`document.querySelectorAll(".lines > .line").length >= 10000`)
	first.until(`document.getElementById("line-m:m0").getBoundingClientRect().bottom > 0`)
	first.click("button", "Newest")
	first.until(`(() => { const s = document.querySelector(".scroller"); return s.scrollHeight - s.scrollTop - s.clientHeight < 5; })()`)
	first.enter("tm-composer textarea", "still fast")
	first.sees(".message.final .body", "still fast")
}

// TestPageApprovals decides on calls with the keyboard only.
func TestPageApprovals(t *testing.T) {
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
	b := newBrowser(t)
	p := b.open(w.API.URL + "/#/approvals")
	p.sees("#nav .count", "3")
	p.until(`document.querySelectorAll("tm-approvals .approval").length === 3`)
	result := func(id string) event.Message {
		var out event.Message
		require.Eventually(t, func() bool {
			for _, m := range w.Messages(id) {
				if m.SenderType == event.CreatedByTool {
					out = m
					return true
				}
			}
			return false
		}, harness.Patience, harness.Tick)
		return out
	}
	p.press("j")
	p.decide("a")
	assert.Equal(t, "noted: 0", result(ids[0]).Content)
	p.until(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === 2`)
	p.decide("e") // the next one has the focus
	p.until(`document.querySelector(".choice textarea") !== null`)
	evaluate[chromedp.Void](p, `(() => { const t = document.querySelector(".choice textarea"); t.value = '{"text":"edited"}'; t.dispatchEvent(new Event("input")); })()`)
	p.sees(".diff", "edited")
	p.click(".choice button", "Approve the edited call")
	assert.Contains(t, result(ids[1]).Content, "noted: edited")
	p.until(`document.querySelectorAll("tm-approvals .approval:not(.decided)").length === 1`)
	p.press("j")
	p.decide("d")
	p.until(`document.querySelector(".choice input") !== null`)
	p.enter(".choice input", "not today")
	assert.Contains(t, result(ids[2]).Content, "not today")
	p.until(`document.querySelector("#nav .count").hidden`)
}

// TestPageAgentsSideBySide watches two agents that write at the same time.
func TestPageAgentsSideBySide(t *testing.T) {
	one := func(name string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in"}
	}
	w := harness.New(t, harness.Options{Agents: []agent.Agent{one("planner"), one("reviewer")}})
	id := w.Open("planner", "reviewer")
	p := newBrowser(t).open(w.API.URL + "/#/threads/" + id)
	p.enter("tm-composer textarea", "count 300 every 20ms")
	beside := `(() => {
		const [a, b, ...more] = [...document.querySelectorAll(".message[data-beside]")].map((m) => m.getBoundingClientRect());
		return more.length === 0 && b?.top === a?.top && b?.left > a?.right;
	})()`
	p.until(beside)
	p.sees(".message", "298 299 300")
	p.until(`document.querySelectorAll(".message.streaming").length === 0`)
	p.until(beside) // they stay where they were read
}

// TestPageModelCall asks what the model saw.
func TestPageModelCall(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	w.Say(id, "use note {\"text\":\"<b>x</b>\"}\nthen\ndone")
	p := newBrowser(t).open(threadPage(w.API.URL, id))
	p.click(".message.final:last-of-type button, .message.final ~ .message.final button", "Why?")
	p.click(".side button", "What the model saw")
	p.sees(".side .facts", "openai/stand-in")
	p.sees(".side h3", "Conversation (6)")
	saw := evaluate[[]string](p, `[...document.querySelectorAll("ol.saw summary")].map((s) => s.textContent)`)
	require.Len(t, saw, 6)
	assert.Equal(t, "system You help. Rules for tools:", strings.Join(strings.Fields(saw[0])[:6], " "))
	assert.Contains(t, saw[3], "use note")
	assert.NotContains(t, saw[3], "new", "the step before had it")
	assert.Contains(t, saw[4], "new note")
	assert.Contains(t, saw[5], "noted: <b>x</b>")
	p.sees(".side summary", "Notes a text.")
	p.click(".side button", "‹ Step 1")
	p.sees(".side h3", "Conversation (4)")
	p.click(".side button", "Step 2 ›")
	p.sees(".side h3", "Conversation (6)")
	p.click(".side button", "‹ Why?")
	p.sees(".side h2", "Why did this happen?")
}

// TestPageQueue moves what waits.
func TestPageQueue(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Post(id, "count 100000 every 20ms")
	for _, text := range []string{"one", "two", "three"} {
		w.Post(id, text)
	}
	p := newBrowser(t).open(w.API.URL + "/#/threads/" + id)
	p.click("button", "3 queued")
	row := func(n int) string { return fmt.Sprintf(".queue-item:nth-child(%d)", n) } // the first one is being processed
	p.sees(row(2), "one")
	p.click(row(4)+" button", "First")
	p.sees(row(2), "three")
	p.click(row(2)+" button", "Last")
	p.sees(row(4), "three")
	p.click(row(3)+" button", "Drop")
	p.until(`document.querySelectorAll(".queue-item").length === 3`)
	queue, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	var waiting []string
	for _, it := range queue.Items {
		waiting = append(waiting, string(it.Payload))
	}
	require.Len(t, waiting, 2)
	assert.Contains(t, waiting[0], `"one"`)
	assert.Contains(t, waiting[1], `"three"`)
	p.enter("tm-composer textarea", "four")
	p.sees(".activity button", "3 queued")
}

// TestFirstSession does what docs/first-session.md says.
func TestFirstSession(t *testing.T) {
	text, err := os.ReadFile("../docs/first-session.md")
	require.NoError(t, err)
	definition := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindSubmatch(text)
	require.NotNil(t, definition)
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"shell_cmd"}, Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyAlways},
	}}})
	p := newBrowser(t).open(w.API.URL)
	p.click("a, button", "New")
	p.enter(".new-thread textarea", `use shell_cmd {"command": "date"}`)
	p.click(".approval button", "Approve")
	p.sees("tm-thread", "exit")
	p.until(`!document.body.textContent.includes("Nothing has happened here yet")`)

	p.click("a", "Agents")
	p.click("button", "New agent")
	p.fill("input[aria-label=Name]", "greeter")
	evaluate[chromedp.Void](p, fmt.Sprintf("document.querySelector('textarea[aria-label=\"Definition as JSON\"]').value = %q", strings.ReplaceAll(string(definition[1]), "demo/demo", "openai/stand-in")))
	p.click("button", "Save")
	p.sees("tm-agents h2", "greeter")

	p.click("a", "Threads")
	p.click("a, button", "New")
	p.click(".new-thread label", "greeter")
	p.enter(".new-thread textarea", "Welcome to my team!")
	p.until(`document.querySelectorAll("tm-thread .message").length >= 2 || [...document.querySelectorAll("tm-thread")].some((e) => e.textContent.split("Welcome to my team!").length > 2)`)
	p.sees("tm-thread", "greeter")
}

// TestPageAccessible checks each part of the page with axe.
func TestPageAccessible(t *testing.T) {
	w := harness.New(t, harness.Options{Tools: []tool.Tool{survey{}}, Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "shell_cmd", "survey"},
		Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyAlways},
	}}})
	servers := harness.New(t, harness.Options{NoWorker: true, Configure: func(cfg *threadmill.Config) { cfg.ToolSource = shownServers{} }})
	id := w.Open()
	w.Say(id, "# Title\n\n| a | b |\n|---|---|\n| `1` | **2** |\n\n```go\nfunc main() {} // comment\n```\n\n> quoted\n\n[link](https://example.com)")
	w.Say(id, "think about it\nuse note {\"text\":\"x\"}\nthen\nnoted")
	_, err := w.Threads.Turn(w.Ctx(), id, signals.EnvPost(event.EnvEvent{ID: "v1", Type: "file.changed", Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"path":"a.go"}`)}))
	require.NoError(t, err)
	w.Post(id, `use shell_cmd {"command":"ls"}`)
	w.AwaitApproval(id, 1)
	w.Post(w.Open(), "use survey {}")
	b := newBrowser(t)
	thread := "threads/" + id
	for _, theme := range []string{"light", "dark"} {
		for _, part := range []struct {
			name, path string
			open       func(*tab) // shows what is to be checked
		}{
			{"inbox", "", nil},
			{"thread", thread, func(p *tab) { p.click("button", "Details") }},
			{"model call", thread, func(p *tab) {
				p.click(".message.final button", "Why?")
				p.click(".side button", "What the model saw")
			}},
			{"new", "new", nil},
			{"approvals", "approvals", func(p *tab) { p.sees(".approval.input", "Please say what you want.") }},
			{"agents", "agents", nil},
			{"agent", "agents/assistant", nil},
			{"rules", "rules", nil},
			{"schedules", "schedules", nil},
			{"servers", "servers", func(p *tab) { p.sees("tm-servers", "is no schema") }},
		} {
			t.Run(theme+" "+part.name, func(t *testing.T) {
				b := &browser{t: t, ctx: b.ctx}
				at := w.API.URL
				if part.name == "servers" {
					at = servers.API.URL
				}
				p := b.open(at + "/#/" + part.path)
				p.until(`document.querySelector(".connection.live") !== null && !document.body.innerText.includes("Loading…")`)
				evaluate[chromedp.Void](p, fmt.Sprintf("document.documentElement.dataset.theme = %q", theme))
				if part.open != nil {
					part.open(p)
				}
				if part.path == thread {
					p.until(`document.querySelector(".approval") !== null`)
					p.until(`document.querySelector(".side h3") !== null`)
					evaluate[chromedp.Void](p, `document.querySelectorAll("details").forEach((d) => (d.open = true))`)
				}
				p.accessible()
			})
		}
	}
}

// accessible checks what the page shows with axe.
func (p *tab) accessible() {
	p.t.Helper()
	axe, err := os.ReadFile(testenv.NPM(p.t, "axe-core/axe.min.js"))
	require.NoError(p.t, err)
	// Axe may not run under the page's policy.
	p.do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		enabled := true
		_, err := cdp.Call(ctx, s, cdppage.SetBypassCSP, cdppage.SetBypassCSPParams{Enabled: enabled})
		return err
	}))
	evaluate[chromedp.Void](p, string(axe)+";undefined")
	found := evaluate[json.RawMessage](p, `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
		.then((r) => r.violations.map((v) => v.id + ": " + v.help + "\n  " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 200) + " | " + n.failureSummary).join("\n  ")))`)
	var findings []string
	require.NoError(p.t, json.Unmarshal(found, &findings))
	assert.Empty(p.t, findings)
}

// TestPageWeight adds up what a browser transfers until a thread is shown.
func TestPageWeight(t *testing.T) {
	w := harness.New(t, harness.Options{})
	id := w.Open()
	for i := range 5 {
		w.Say(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\n# Reply %d\n\nwith **Markdown**", i, i))
	}
	b := newBrowser(t)
	p := b.open("about:blank")
	p.do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, network.Enable, network.EnableParams{})
		return err
	}))
	total := make(chan float64)
	ctx, cancel := context.WithCancel(p.ctx)
	loaded := chromedp.Events(ctx, network.LoadingFinished)
	go func() {
		sum := 0.0
		for e, err := range loaded {
			if err != nil {
				break
			}
			sum += e.EncodedDataLength
		}
		total <- sum
	}()
	p.do(chromedp.Navigate(threadPage(w.API.URL, id)))
	p.until(`document.querySelectorAll(".message.final").length === 5 && document.querySelector(".line:last-of-type .body:not([data-text])") !== null`)
	p.sees(".thread-row .title", id)
	first := evaluate[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	t.Logf("first contentful paint after %.0f ms", first)
	cancel()
	transferred := <-total
	t.Logf("%.0f bytes transferred", transferred)
	assert.Positive(t, transferred)
	assert.Less(t, transferred, 150.0*1024)
}
