package approvals

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/tests/internal/browser"
)

// TestPageLogin logs in on the page: from a thread that waits, which goes on by itself, and from the list of
// servers.
func TestPageLogin(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t, loginOptions{login: "per: user"})
	w.offersTools("ben")
	w.server.Configure(func(c *oauthtest.Config) { c.Interactive = true })
	c := w.talk(t)
	posted, _ := c.waitsForLogin("ann", callWhoami)
	b := browser.New(t)

	other := b.OpenAs("ben", browser.ThreadPage(w.public.URL, c.id))
	other.Sees(".approval.input", "Only ann can log in")
	other.Until(`![...document.querySelectorAll(".approval.input button")].some((b) => b.textContent.includes("Log in"))`)

	p := b.Open(browser.ThreadPage(w.public.URL, c.id))
	list := b.Open(w.public.URL + "/#/approvals")
	list.Sees(".approval.input", "Log in to notes")
	p.Click(".approval.input button", "Log in to notes")
	p.Sees("tm-login h1", "Log in to notes")
	p.Sees("tm-login", "Agents use notes with your account")
	p.Sees("tm-login .facts", "Not logged in")
	p.Accessible()
	p.Click("tm-login button", "Log in to notes")
	p.Click("a", "Continue")
	p.Click("button", "Allow")
	p.Sees("h1", "Logged in to notes")
	c.completes(posted)
	require.Equal(t, "You are alice.", lastResult(c, "notes__whoami").Content)
	other.Sees(".line.tool .result", "You are alice.")
	other.Until(`document.querySelector(".approval.input") === null`)
	list.Until(`document.querySelector(".approval.input") === null`)

	p.Click("a", "Back to Threadmill")
	p.Sees("tm-servers .login", "Your login: Logged in by ann")
	p.Click("tm-servers button", "Log out…")
	p.Click("dialog button", "Log out")
	p.Sees("tm-servers .login", "Not logged in")
	p.Click("tm-servers button", "Log in…")
	p.Sees("tm-login h1", "Log in to notes")
	require.Equal(t, false, w.known("ann")["loggedIn"])
}

// TestPageLoginOfNamespace logs in for all threads of a namespace, with API keys: one of which may.
func TestPageLoginOfNamespace(t *testing.T) {
	t.Parallel()
	_, olga := auth.NewToken()
	_, paul := auth.NewToken()
	w := newLoginWorld(t, loginOptions{keys: []auth.Key{
		{Name: "olga", Roles: auth.Roles{auth.RoleRead, auth.RoleOperate}, Hash: olga.Hash()},
		{Name: "paul", Roles: auth.Roles{auth.RoleRead, auth.RolePost}, Hash: paul.Hash()},
	}})
	w.server.Configure(func(c *oauthtest.Config) { c.Interactive = true })
	open := func(key auth.Token, path string) *browser.Tab {
		p := browser.New(t).OpenAs("", w.public.URL+"/#"+path)
		p.Fill("#key", key.Reveal())
		p.Click("tm-sign-in button", "Sign in")
		return p
	}

	logsIn := func(p *browser.Tab) {
		p.Sees("tm-login", "All threads of the namespace "+w.TaskQueue+" use notes with the account that you choose")
		p.Sees("tm-login .facts", "olga")
		p.Click("tm-login button", "Log in to notes")
		p.Click("a", "Continue")
		p.Click("button", "Allow")
		p.Sees("h1", "Logged in to notes")
	}

	may := open(olga, "/servers")
	may.Sees("tm-servers h2", "needs a login")
	may.Click("tm-servers button", "Log in…")
	logsIn(may)
	may.Click("a", "Back to Threadmill")
	may.Sees("tm-servers h2", "ready")
	mayNot := open(paul, "/servers")
	mayNot.Sees("tm-servers .login", "Login of all threads: Logged in by olga")
	mayNot.Until(`document.querySelector("tm-servers .login button") === null`)
	may.Click("tm-servers button", "Log out…")
	may.Click("dialog button", "Log out")
	may.Sees("tm-servers .login", "Not logged in")

	c := w.talk(t)
	posted, _ := c.waitsForLogin("paul", callWhoami)
	goTo := func(p *browser.Tab, path string) { p.Do(chromedp.Navigate(w.public.URL + "/#" + path)) }
	goTo(mayNot, "/threads/"+url.PathEscape(c.id))
	mayNot.Sees(".approval.input", "Your key does not allow you to log in to notes")
	goTo(mayNot, "/servers/notes/login")
	mayNot.Sees("tm-login", "needs the role operate")
	mayNot.Until(`document.querySelector("tm-login button") === null`)
	goTo(may, "/threads/"+url.PathEscape(c.id))
	may.Click(".approval.input button", "Log in to notes")
	logsIn(may)
	c.completes(posted)
	require.Equal(t, "You are alice.", lastResult(c, "notes__whoami").Content)
	goTo(mayNot, "/threads/"+url.PathEscape(c.id))
	mayNot.Sees(".line.tool .result", "You are alice.")
}
