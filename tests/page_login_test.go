package tests

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/oauthtest"
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
	b := newBrowser(t)

	other := b.openAs("ben", threadPage(w.public.URL, c.id))
	other.sees(".approval.input", "Only ann can log in")
	other.until(`![...document.querySelectorAll(".approval.input button")].some((b) => b.textContent.includes("Log in"))`)

	p := b.open(threadPage(w.public.URL, c.id))
	list := b.open(w.public.URL + "/#/approvals")
	list.sees(".approval.input", "Log in to notes")
	p.click(".approval.input button", "Log in to notes")
	p.sees("tm-login h1", "Log in to notes")
	p.sees("tm-login", "Agents use notes with your account")
	p.sees("tm-login .facts", "Not logged in")
	p.accessible()
	p.click("tm-login button", "Log in to notes")
	p.click("a", "Continue")
	p.click("button", "Allow")
	p.sees("h1", "Logged in to notes")
	c.completes(posted)
	require.Equal(t, "You are alice.", lastResult(c, "notes__whoami").Content)
	other.sees(".line.tool .result", "You are alice.")
	other.until(`document.querySelector(".approval.input") === null`)
	list.until(`document.querySelector(".approval.input") === null`)

	p.click("a", "Back to Threadmill")
	p.sees("tm-servers .login", "Your login: Logged in by ann")
	p.click("tm-servers button", "Log out…")
	p.click("dialog button", "Log out")
	p.sees("tm-servers .login", "Not logged in")
	p.click("tm-servers button", "Log in…")
	p.sees("tm-login h1", "Log in to notes")
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
	open := func(key auth.Token, path string) *tab {
		p := newBrowser(t).openAs("", w.public.URL+"/#"+path)
		p.fill("dialog input", key.Reveal())
		p.click("dialog button", "Continue")
		return p
	}

	logsIn := func(p *tab) {
		p.sees("tm-login", "All threads of the namespace "+w.TaskQueue+" use notes with the account that you choose")
		p.sees("tm-login .facts", "olga")
		p.click("tm-login button", "Log in to notes")
		p.click("a", "Continue")
		p.click("button", "Allow")
		p.sees("h1", "Logged in to notes")
	}

	may := open(olga, "/servers")
	may.sees("tm-servers h2", "needs a login")
	may.click("tm-servers button", "Log in…")
	logsIn(may)
	may.click("a", "Back to Threadmill")
	may.sees("tm-servers h2", "ready")
	mayNot := open(paul, "/servers")
	mayNot.sees("tm-servers .login", "Login of all threads: Logged in by olga")
	mayNot.until(`document.querySelector("tm-servers .login button") === null`)
	may.click("tm-servers button", "Log out…")
	may.click("dialog button", "Log out")
	may.sees("tm-servers .login", "Not logged in")

	c := w.talk(t)
	posted, _ := c.waitsForLogin("paul", callWhoami)
	goTo := func(p *tab, path string) { p.do(chromedp.Navigate(w.public.URL + "/#" + path)) }
	goTo(mayNot, "/threads/"+url.PathEscape(c.id))
	mayNot.sees(".approval.input", "Your key does not allow you to log in to notes")
	goTo(mayNot, "/servers/notes/login")
	mayNot.sees("tm-login", "needs the role operate")
	mayNot.until(`document.querySelector("tm-login button") === null`)
	goTo(may, "/threads/"+url.PathEscape(c.id))
	may.click(".approval.input button", "Log in to notes")
	logsIn(may)
	c.completes(posted)
	require.Equal(t, "You are alice.", lastResult(c, "notes__whoami").Content)
	goTo(mayNot, "/threads/"+url.PathEscape(c.id))
	mayNot.sees(".line.tool .result", "You are alice.")
}
