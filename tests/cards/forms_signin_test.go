package cards

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// keyed is a server that requires keys, with the keys of its store.
type keyed struct {
	*harness.Harness
	keys store.APIKeys
}

func newKeyed(t *testing.T, agents ...agent.Agent) keyed {
	t.Helper()
	return newKeyedWith(t, agents, func(*threadmill.Config) {})
}

// newKeyedWith is newKeyed with another change of the configuration.
func newKeyedWith(t *testing.T, agents []agent.Agent, configure func(*threadmill.Config)) keyed {
	t.Helper()
	var out keyed
	out.Harness = harness.New(t, harness.Options{Agents: agents, Configure: configure, Serve: func(cfg threadmill.Config, api *httpapi.Config) {
		var ok bool
		out.keys, ok = cfg.Store.(store.APIKeys)
		require.True(t, ok)
		var err error
		api.Authenticator, err = auth.NewKeys(auth.KeysConfig{Store: out.keys, Required: true})
		require.NoError(t, err)
	}})
	return out
}

// create stores a key and returns its id and secret.
func (w keyed) create(name string, expires time.Time, roles ...string) (id, secret string) {
	w.T.Helper()
	id, token := auth.NewToken()
	_, err := w.keys.CreateAPIKey(context.Background(), store.APIKey{ID: id, Namespace: w.TaskQueue, Name: name, Roles: roles, Hash: token.Hash(), ExpiresAt: expires})
	require.NoError(w.T, err)
	return id, token.Reveal()
}

// signIn enters a key.
func signIn(p *browser.Tab, secret string) {
	p.T.Helper()
	p.Write("#key", secret)
	p.Click("tm-sign-in button", "Sign in")
}

// TestPageSignIn says why a key does not open the page, keeps what is open when a key is revoked, and signs out.
func TestPageSignIn(t *testing.T) {
	t.Parallel()
	w := newKeyed(t)
	revoked, revokedKey := w.create("rita", time.Time{}, "read")
	_, err := w.keys.RevokeAPIKey(context.Background(), w.TaskQueue, revoked, "root")
	require.NoError(t, err)
	_, expired := w.create("eve", time.Now().Add(-24*time.Hour), "read")
	_, unknown := auth.NewToken()
	_, poster := w.create("paul", time.Time{}, "post")
	_, other := w.create("olga", time.Time{}, "read", "admin")
	root, rootKey := w.create("root", time.Time{}, "admin")

	p := browser.New(t).OpenAs("", w.API.URL+"/#/agents?new")
	p.Sees("tm-sign-in h2", "Sign in")
	p.Sees("tm-sign-in p", "This server requires an API key.")
	p.Until(`document.activeElement.id === "key" && document.querySelector("#panes").inert`)
	p.Accessible()
	for _, one := range []struct{ secret, title, text string }{
		{"nonsense", "This is not a key", "A key begins with tmk_."},
		{"tmk_nonsense", "This key is not accepted", "The text behind Bearer"},
		{unknown.Reveal(), "This key is not accepted", "The API key is not known here"},
		{revokedKey, "This key is not accepted", `API key "rita" is revoked`},
		{expired, "This key is not accepted", `API key "eve" has expired`},
		{poster, "This key does not open the page", `needs the role read; API key "paul" has post`},
	} {
		signIn(p, one.secret)
		p.Sees("tm-sign-in .error", one.text)
		p.Sees("tm-sign-in h2", one.title)
		p.Until(`sessionStorage.getItem("threadmill.key") === null`)
	}
	signIn(p, rootKey)
	p.Until(`document.querySelector("tm-sign-in") === null && !document.querySelector("#panes").inert`)
	p.Write("#field-name", "clerk")

	// The key is revoked: what is typed stays, for another key.
	_, err = w.keys.RevokeAPIKey(context.Background(), w.TaskQueue, root, "olga")
	require.NoError(t, err)
	p.Sees("tm-sign-in .error", `API key "root" is revoked`)
	signIn(p, other)
	p.Until(`document.querySelector("tm-sign-in") === null`)
	p.Sees(".account summary", "olga")
	p.Until(`document.querySelector("#field-name").value === "clerk"`)
	p.Click("tm-form button", "Save")
	p.Sees("tm-agents h2", "version 1")

	// The menu of the person closes in every way, and signs out.
	opens := func() {
		p.Click(".account summary", "olga")
		p.Sees(".account[open] strong", "olga")
	}
	opens()
	p.Do(browser.Stroke("Escape", "", 27))
	p.Until(`!document.querySelector(".account").open && document.activeElement.matches(".account summary")`)
	opens()
	at := browser.Evaluate[[]float64](p, `(({ left, top, width, height }) => [left + width / 2, top + height / 2])(document.querySelector("#tools .connection").getBoundingClientRect())`)
	p.Do(chromedp.MouseClickXY(at[0], at[1])) // on what cannot have the focus
	p.Until(`!document.querySelector(".account").open`)
	opens()
	p.Until(`(document.querySelector("#nav a").focus(), !document.querySelector(".account").open)`)
	opens()
	p.Until(`(location.hash = "#/rules", !document.querySelector(".account").open)`)
	opens()
	p.Click(".account button", "Sign out")
	p.Sees("tm-sign-in p", "This server requires an API key.")
}

// TestPageRoles signs in with each role, and compares what each view offers and what the API refuses.
func TestPageRoles(t *testing.T) {
	t.Parallel()
	w := newKeyed(t, agent.Agent{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"},
		Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	})
	id := w.Open()
	w.Post(id, `use note {"text":"x"}`)
	pending := w.AwaitApproval(id, 1)[0].ToolCallID
	_, err := w.Threads.CreateSchedule(w.Ctx(), signals.Schedule{
		ID: "tick", ThreadID: id, Every: signals.Duration(time.Hour), Message: &event.NewMessage{Content: "tick"}, Paused: true,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		all, err := w.Threads.Schedules(w.Ctx(), 0)
		return err == nil && len(all) == 1
	}, testenv.Patience, testenv.Tick, "the list has it")
	_, err = w.Store.BeginKnowledge(w.Ctx(), w.TaskQueue, store.KnowledgeDocument{Source: "a.md"}, store.KnowledgeBegin{})
	require.NoError(t, err)

	// What each view offers, by the role that it needs.
	views := []struct {
		path, ready string
		offers      map[string][]string // role: texts of buttons and links
	}{
		{"threads/" + id, "tm-thread .approval", map[string][]string{
			"approve": {"Approve", "Deny"}, "operate": {"Rename…", "Close the thread…"}, "post": {"New"},
		}},
		{"approvals", "tm-approvals .approval", map[string][]string{"approve": {"Approve", "Deny"}}},
		{"agents", "tm-agents .card", map[string][]string{"admin": {"New agent"}}},
		{"agents/assistant", "tm-agents pre", map[string][]string{"admin": {"Store a definition of that name"}}},
		{"knowledge", "tm-documents .rows", map[string][]string{"post": {"Add documents"}, "operate": {"Remove…"}}},
		{"schedules", "tm-schedules .card", map[string][]string{"operate": {"New schedule", "Resume", "Run now", "Edit", "Delete…"}}},
		{"schedules/tick", "tm-schedules pre", map[string][]string{"operate": {"Resume", "Run now", "Edit", "Delete…"}}},
		{"servers", "tm-servers .empty", nil},
		{"rules", "tm-rules table", nil},
	}
	requests := map[string]string{ // role: a request that needs it
		"post":    fmt.Sprintf(`["POST", "/v1/threads/%s/messages", {content: 7}]`, id),
		"approve": fmt.Sprintf(`["POST", "/v1/threads/%s/approvals/%s", {decision: "no such"}]`, id, pending),
		"operate": `["PUT", "/v1/schedules/none", {}]`,
		"admin":   `["PUT", "/v1/agents/clerk", {}]`,
	}
	b := browser.New(t)
	for _, role := range []string{"read", "post", "approve", "operate", "admin"} {
		t.Run(role, func(t *testing.T) {
			b.T = t
			has := func(needed string) bool { return role == "admin" || needed == role }
			_, secret := w.create("of-"+role, time.Time{}, slices.Compact([]string{"read", role})...)
			p := b.OpenAs("", w.API.URL+"/#/")
			signIn(p, secret)
			p.Click(".account summary", "of-"+role)
			missing := map[string]int{"read": 5, "post": 4, "approve": 4, "operate": 4, "admin": 0}[role]
			p.Until(fmt.Sprintf(`document.querySelectorAll(".account .missing").length === %d`, missing))
			for _, view := range views {
				p.Until(fmt.Sprintf(`(location.hash = "#/" + %q, document.querySelector(%q) !== null)`, view.path, view.ready))
				for needed, texts := range view.offers {
					for _, text := range texts {
						p.Until(fmt.Sprintf(`[...document.querySelectorAll("button, main a")].some((e) => e.textContent.startsWith(%q)) === %t`, text, has(needed)))
					}
				}
			}
			p.Until(fmt.Sprintf(`(location.hash = "#/threads/%s", document.querySelector("tm-composer textarea") !== null)`, id))
			p.Until(fmt.Sprintf(`document.querySelector("tm-composer textarea").disabled === %t`, !has("post")))
			for needed, request := range requests {
				status := browser.Evaluate[int](p, fmt.Sprintf(`(([method, path, body]) => fetch(path, {
					method, headers: { "Content-Type": "application/json", Authorization: "Bearer " + sessionStorage.getItem("threadmill.key") }, body: JSON.stringify(body),
				}).then((r) => r.status))(%s)`, request))
				if has(needed) {
					require.NotContains(t, []int{401, 403}, status, needed)
				} else {
					require.Equal(t, 403, status, needed)
				}
			}
		})
	}
}

// TestPageCardOutlivesKey: what a person types stays when their key is revoked and they sign in with another one, and the thread goes on.
func TestPageCardOutlivesKey(t *testing.T) {
	t.Parallel()
	w := newKeyed(t, check.AskingFirst(agent.PolicyAlways).Agents...)
	id := check.WaitingNotes(w.Harness, 1)[0]
	first, firstKey := w.create("ann", time.Time{}, "admin")
	_, secondKey := w.create("anna", time.Time{}, "admin")
	p := browser.New(t).OpenAs("", browser.ThreadPage(w.API.URL, id))
	signIn(p, firstKey)
	p.Click(".approval[data-seen] button", "Deny…")
	p.Fill(".approval input[name=reason]", "because it is late")
	_, err := w.keys.RevokeAPIKey(w.Ctx(), w.TaskQueue, first, "root")
	require.NoError(t, err)
	p.Sees("tm-sign-in .error", `API key "ann" is revoked`)
	p.Until(`!document.querySelector("tm-thread .scroller > .error").hidden`) // its stream has ended, too
	signIn(p, secondKey)
	p.Sees(".account summary", "anna")
	p.Until(`document.querySelector("tm-sign-in, dialog") === null && document.querySelector(".approval input[name=reason]").value === "because it is late"`)
	p.Click(".approval .choice button", "Deny")
	p.Sees(".line.tool .decision", "Denied by anna: because it is late")
}
