package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

var update = flag.Bool("update", false, "store what a screen reader reads, instead of comparing it")

// view is something that the page can show.
type view struct {
	name, path string
	open       func(*browser.Tab) // shows what is to be checked
}

// desk has threads in each state, and returns the one that has a line of each kind.
func desk(t *testing.T) (w *harness.Harness, thread string) {
	w = harness.New(t, harness.Options{
		Tools: []tool.Tool{check.Survey{}}, MaxModelAttempts: 1,
		Agents: []agent.Agent{
			{
				Name: "assistant", Description: "Answers questions and runs commands.", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "shell_cmd", "survey"},
				Approvals: map[string]agent.Policy{"shell_cmd": agent.PolicyAlways},
			},
			{Name: "reviewer", Description: "Reads what others change.", Instructions: "You review.", Model: "openai/stand-in", Tools: []string{"note"}},
		},
	})
	threads := 0
	open := func(title string) string {
		threads++
		id := fmt.Sprintf("thread-%d", threads)
		require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Title: title}, nil))
		return id
	}
	thread = open("Clean up the build machine")
	w.Say(thread, "# What is left\n\n| folder | size |\n|---|---|\n| `cache` | **2 GB** |\n\n```go\nfunc main() {} // comment\n```\n\n> quoted\n\n[link](https://example.com)")
	w.Say(thread, "think The oldest builds go first\nuse note {\"text\":\"the oldest builds\"}\nthen\nThey are noted.")
	_, err := w.Threads.Turn(w.Ctx(), thread, signals.EnvPost(event.EnvEvent{ID: "v1", Type: "file.changed", Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"path":"a.go"}`)}))
	require.NoError(t, err)
	w.Provider.Fail(llmtest.Status(400, ""))
	w.Await(thread, w.Post(thread, "and the newest?"))
	w.Post(thread, `use shell_cmd {"command":"rm -r build/2024"}`)
	w.AwaitApproval(thread, 1)
	guests := open("What the guests want")
	w.Post(guests, "use survey {}")
	require.Eventually(t, func() bool {
		waiting, err := w.Threads.Approvals(w.Ctx(), guests)
		return err == nil && len(waiting.Inputs) == 1
	}, testenv.Patience, testenv.Tick)
	failing := open("Nightly report")
	w.Provider.Fail(llmtest.Status(400, ""))
	w.Await(failing, w.Post(failing, "write the report"))
	w.Say(open(""), "A thread that nobody has given a title yet")
	require.NoError(t, w.Threads.Control(w.Ctx(), open("Last week's invoices"), signals.Control{Action: signals.ControlClose}))
	return w, thread
}

// views are those of a desk.
func views(thread string) []view {
	address := "threads/" + thread
	return []view{
		{"inbox", "", nil},
		{"thread", address, func(p *browser.Tab) {
			p.Sees(".approval", "wants to call")
			p.Click("button", "Details")
			p.Sees(".side h3", "Grants")
			p.Until(`document.querySelector(".approval[data-seen]") !== null`)
		}},
		{"model-call", address, func(p *browser.Tab) {
			p.Click(".message.final button", "Why?")
			p.Click(".side button", "What the model saw")
			p.Sees(".side h3", "Conversation")
		}},
		{"thread-open", address, func(p *browser.Tab) {
			p.Sees(".approval", "wants to call")
			browser.Evaluate[chromedp.Void](p, `document.querySelectorAll("main details").forEach((d) => (d.open = true))`)
		}},
		{"new", "new", nil},
		{"approvals", "approvals", func(p *browser.Tab) {
			p.Sees(".approval.input", "Please say what you want.")
			p.Until(`document.querySelector(".approval[data-seen]") !== null`)
		}},
		{"agents", "agents", nil},
		{"agent", "agents/assistant", nil},
		{"rules", "rules", nil},
		{"schedules", "schedules", nil},
	}
}

// TestPageViews checks each view with axe, in both themes, wide and narrow.
func TestPageViews(t *testing.T) {
	t.Parallel()
	w, thread := desk(t)
	servers := harness.New(t, harness.Options{NoWorker: true, Configure: func(cfg *threadmill.Config) { cfg.ToolSource = shownServers{} }})
	b := browser.New(t)
	check := func(at string, v view) {
		t.Run(v.name, func(t *testing.T) {
			b.T = t
			p := b.Open(at + "/#/" + v.path)
			p.Until(`document.querySelector(".connection.live") !== null && !document.body.innerText.includes("Loading…")`)
			if v.open != nil {
				v.open(p)
			}
			for _, size := range []struct{ width, height int64 }{{1440, 900}, {390, 844}} {
				p.Do(chromedp.EmulateViewport(size.width, size.height))
				p.Until(`document.documentElement.scrollWidth <= innerWidth`)
				p.AccessibleInThemes(fmt.Sprintf("%s-%%s-%d.png", v.name, size.width))
			}
		})
	}
	for _, v := range views(thread) {
		check(w.API.URL, v)
	}
	check(servers.API.URL, view{"servers", "servers", func(p *browser.Tab) { p.Sees("tm-servers", "is no schema") }})
}

// varying are the parts of a text that are not the same in each run: times, durations, which a very short model call has not, and folders.
var varying = regexp.MustCompile(`tokens · [\d,.]+.(ms|s)\b|tokens\b|\d+:\d\d(:\d\d)?.[AP]M|[\d,.]+.(ms|s|(sec|min|hr)\. ago)\b|now|\S*/TestPage\S*`)

// TestPageScreenReader compares what a screen reader reads of a thread and of the approvals with testdata: roles, names and states.
func TestPageScreenReader(t *testing.T) {
	t.Parallel()
	w, thread := desk(t)
	b := browser.New(t)
	for _, v := range views(thread) {
		if v.name != "approvals" && v.name != "thread" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			b.T = t
			p := b.Open(w.API.URL + "/#/" + v.path)
			v.open(p)
			read := func() string { return varying.ReplaceAllString(p.Reading(), "…") }
			file := filepath.Join("testdata", v.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(read()), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, string(want), read()) }, testenv.Patience, testenv.Tick)
		})
	}
}
