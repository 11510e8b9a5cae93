package frontends

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
)

// recipe is a chat of docs/frontends.md made with another library: its file in tests/npm, and where it shows messages and stops a turn, if there is one.
type recipe struct{ name, message, stop string }

var recipes = []recipe{
	{"assistant-ui", `[data-role]`, `form button`},
	{"copilotkit", `[data-testid=copilot-user-message], [data-testid=copilot-assistant-message]`, `[data-testid=copilot-send-button]`},
}

// TestRecipes uses the chats that docs/frontends.md has for other libraries.
func TestRecipes(t *testing.T) {
	t.Parallel()
	project := packClient(t).install(t, "ai7")
	docs, err := os.ReadFile("../../docs/frontends.md")
	require.NoError(t, err)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join("../npm", r.name+".jsx"))
			require.NoError(t, err)
			assert.Contains(t, string(docs), "```jsx\n"+string(code)+"```\n", "docs/frontends.md has the code that is tested")
			require.NoError(t, os.WriteFile(filepath.Join(project, "chat.jsx"), code, 0o600))
			r.run(t, openPages(t, project, "recipes.jsx"))
		})
	}
}

// run uses the chat. What one thread can show in a row is shown in one tab: a load of such a page takes a second of CPU or two.
func (r recipe) run(t *testing.T, p *threadPages) {
	open := func(t *testing.T, thread string) recipeTab {
		return recipeTab{p.load(t, thread, "ann"), r, thread}
	}

	t.Run("a talk", func(t *testing.T) {
		tab := open(t, "talk")
		// The reload comes first: settles sees the requests since the last one.
		tab.say(`use ask {"text":"f"}`)
		tab.Sees("button", "Approve")
		tab.reload()
		tab.Click("button", "Approve")
		tab.shows("ask returned: asked: f")

		tab.say("use note {\"text\":\"a\"}\nthen\ncount 20 every 20ms")
		tab.shows(" 19 20")
		tab.say("hello")
		tab.shows("hello")

		tab.say(`use ask {"text":"b"}`)
		tab.Click("button", "Approve")
		tab.shows("ask returned: asked: b")
		tab.say(`use ask {"text":"c"}`)
		tab.Click("button", "Deny")
		tab.shows("not now")

		tab.say("use ask {\"text\":\"d\"}\nuse ask {\"text\":\"e\"}")
		tab.Until(`[...document.querySelectorAll("button")].filter((e) => e.textContent === "Approve").length === 2`)
		tab.Click("button", "Approve")
		tab.Until(`[...document.querySelectorAll("button")].filter((e) => e.textContent === "Approve").length === 1`)
		tab.Click("button", "Approve")
		tab.shows("asked: e")

		tab.say("use book {}")
		tab.Click("button", "Cancel")
		tab.shows("book returned: not booked: cancel")

		tab.say("use locate {}") // a tool of the frontend
		tab.shows(`locate returned: {"city":"Bern"}`)
		tab.settles(p)
	})

	t.Run("a reload and cuts in the middle of a reply", func(t *testing.T) {
		tab := open(t, "counting")
		tab.say("count 10000 every 20ms")
		tab.counts()
		tab.reload()
		for range 2 {
			tab.counts()
			p.proxy.Cut()
			p.proxy.Mend()
		}
		tab.counts()
		tab.Click(r.stop, "")
		assert.Equal(t, signals.TurnInterrupted, p.Await(tab.thread, p.Messages(tab.thread)[0].ID).Status)
		tab.settles(p)
	})

	t.Run("an error", func(t *testing.T) {
		tab := open(t, "error")
		p.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
		tab.say("hello")
		tab.Sees("#root", "400")
	})

	t.Run("decided elsewhere", func(t *testing.T) {
		tab := open(t, "elsewhere")
		tab.say(`use ask {"text":"a"}`)
		tab.Sees("button", "Approve")
		d := signals.Decide{ToolCallID: p.AwaitApproval(tab.thread, 1)[0].ToolCallID, Decision: event.DecisionDeny, Reason: "bob said no", By: "bob"}
		_, err := p.Threads.Decide(p.Ctx(), tab.thread, d)
		require.NoError(t, err)
		if r.name == "copilotkit" { // it does not follow what happens elsewhere
			tab.Click("button", "Approve")
		}
		tab.shows("bob said no")
		tab.settles(p)
	})
}

// recipeTab is a tab with a recipe.
type recipeTab struct {
	*browser.Tab
	recipe
	thread string
}

// say sends a message once nothing is left to stop.
func (tab recipeTab) say(text string) {
	tab.T.Helper()
	tab.Until(fmt.Sprintf(`document.querySelector(%q)?.disabled`, tab.stop))
	tab.Enter("textarea", text)
}

// shows waits until a message contains a text.
func (tab recipeTab) shows(text string) {
	tab.T.Helper()
	tab.Sees(tab.message, text)
}

// counts waits until the reply goes on to count.
func (tab recipeTab) counts() {
	tab.T.Helper()
	const last = `Math.max(...(document.body.innerText.match(/\b\d{1,3}\b/g) ?? [0]))`
	tab.Until(last + " > 0")
	tab.Until(fmt.Sprintf("%s > %d", last, browser.Evaluate[int](tab.Tab, last)+10))
}

// reload loads the page again.
func (tab recipeTab) reload() {
	tab.T.Helper()
	tab.Do(chromedp.Reload())
	tab.Focus("textarea")
}

// settles waits until the page shows what one shows that is loaded now, and checks that it has talked to nobody else.
func (tab recipeTab) settles(p *threadPages) {
	tab.T.Helper()
	messages := fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText.trim()).join("\n")`, tab.message)
	var here, there string
	fresh := p.load(p.T.(*testing.T), tab.thread, "bob")
	same := func() bool {
		here, there = browser.Evaluate[string](tab.Tab, messages), browser.Evaluate[string](fresh, messages)
		return here != "" && here == there
	}
	if !assert.Eventually(tab.T, same, testenv.Patience, testenv.Tick) {
		assert.Equal(tab.T, there, here)
	}
	assert.False(tab.T, browser.Evaluate[bool](tab.Tab, `document.querySelector("[role=alert]") !== null`))
	assert.Empty(tab.T, browser.Evaluate[[]string](tab.Tab, `performance.getEntriesByType("resource").map((e) => e.name).filter((name) => name.startsWith("http") && new URL(name).hostname !== location.hostname)`))
}
