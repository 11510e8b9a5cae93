package approvals

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// secretsKey encrypts the logins of tests.
const secretsKey = "bm90IGEgc2VjcmV0LCBidXQgMzIgYnl0ZXMgbG9uZyE="

// loginWorld is a world whose agent uses an MCP server that needs a login.
type loginWorld struct {
	office
	server *oauthtest.Server
	public *httptest.Server // where browsers reach the API
	tools  tool.Source
	dir    string
	env    map[string]string
	logs   *testenv.Buffer
}

// loginOptions are the options of a [loginWorld].
type loginOptions struct {
	login      string // the fields of login
	more       string // more of the configuration
	registered bool   // the client is registered beforehand
	secure     bool   // browsers use HTTPS
	keys       []auth.Key
}

// newLoginWorld starts a world. The server checks that its client breaks no rule.
func newLoginWorld(t *testing.T, o loginOptions) *loginWorld {
	t.Helper()
	w := &loginWorld{server: oauthtest.New(t), dir: t.TempDir(), logs: &testenv.Buffer{}}
	var api atomic.Pointer[url.URL]
	w.public = httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api.Load()) }})
	if o.secure {
		w.public.StartTLS()
	} else {
		w.public.Start()
	}
	t.Cleanup(w.public.Close)
	if o.registered {
		w.server.Configure(func(c *oauthtest.Config) { c.NoRegistration = true })
		id, secret := w.server.Register("", w.public.URL+mcplogin.PathCallback)
		o.login = fmt.Sprintf("clientId: %s, clientSecretEnv: NOTES_SECRET", id)
		w.env = map[string]string{"NOTES_SECRET": secret}
	}
	require.NoError(t, os.WriteFile(w.file(), fmt.Appendf(nil,
		"agents: [{name: assistant, model: demo/demo, tools: [notes__*]}]\nhttp: {publicUrl: %q}\nmcp:\n  notes: {url: %q, trusted: true, login: {%s}}\n%s",
		w.public.URL, w.server.URL, o.login, o.more), 0o600))
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(w.dir, "threadmill.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w.office = newOffice(t, harness.Options{
		Agents: []agent.Agent{{
			Name: "assistant", Model: "openai/stand-in", Tools: []string{"notes__*", "call-agent"},
			Approvals: map[string]agent.Policy{"notes__*": agent.PolicyNever},
		}},
		Logger: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Configure: func(cfg *threadmill.Config) {
			cfg.Store = db
			require.NoError(t, w.connect(cfg))
			w.tools = cfg.ToolSource
		},
		Serve: func(_ threadmill.Config, cfg *httpapi.Config) {
			if o.keys != nil {
				cfg.Authenticator, err = auth.NewKeys(auth.KeysConfig{Store: db, Keys: o.keys})
				require.NoError(t, err)
			}
		},
	})
	w.Store = db
	api.Store(mustParse(t, w.API.URL))
	t.Cleanup(func() { require.Empty(t, w.server.Violations()) })
	return w
}

// file is the configuration.
func (w *loginWorld) file() string { return filepath.Join(w.dir, "threadmill.yaml") }

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u
}

// connect adds the servers to a configuration, as the programs do.
func (w *loginWorld) connect(cfg *threadmill.Config) error {
	cfg.ToolSource = nil // of the process beside which this one runs
	settings, err := program.Load(program.SettingsConfig{File: w.file(), Logger: cfg.Logger, Getenv: func(name string) string {
		if name == program.EnvSecretsKey {
			return secretsKey
		}
		return w.env[name]
	}})
	if err != nil {
		return err
	}
	return settings.ConnectMCP(cfg, nil)
}

// link returns a link to log in by.
func (w *loginWorld) link(user string) string {
	w.T.Helper()
	body := map[string]any{}
	if user != "" {
		body["user"] = user
	}
	status, out := serverAPI(w.Harness, http.MethodPost, "/v1/mcp/notes/login", body)
	require.Equal(w.T, http.StatusOK, status, out)
	require.NotEmpty(w.T, out["expiresAt"])
	return out["url"].(string)
}

// logsIn logs in with the account that the authorization server knows.
func (w *loginWorld) logsIn(user string) {
	w.T.Helper()
	page, err := oauthtest.Visit(w.Ctx(), w.public.Client(), w.link(user))
	require.NoError(w.T, err)
	require.Equal(w.T, http.StatusOK, page.Status, page.Text)
	require.Contains(w.T, page.Text, "Logged in to notes")
}

// offersTools logs in, and waits until agents are offered the tools of the server.
func (w *loginWorld) offersTools(user string) {
	w.T.Helper()
	w.logsIn(user)
	reaches(w.Harness, "notes", isReady)
}

// known returns what the API tells of a login.
func (w *loginWorld) known(user string) map[string]any {
	w.T.Helper()
	path := "/v1/mcp/notes"
	if user != "" {
		path += "?user=" + url.QueryEscape(user)
	}
	status, out := serverAPI(w.Harness, http.MethodGet, path, nil)
	require.Equal(w.T, http.StatusOK, status, out)
	return out["login"].(map[string]any)
}

// callsFor makes the agent call a tool for a person, and returns its result.
func (c talk) callsFor(user, line string) event.Message {
	c.t.Helper()
	posted := c.postsAs(user, line)
	c.completes(posted)
	name := strings.Fields(line)[1]
	return lastResult(c, name)
}

func (c talk) postsAs(user, line string) string {
	c.t.Helper()
	id, err := c.Threads.PostSignal(c.Ctx(), c.id, signals.UserMessage(c.id, user, line))
	require.NoError(c.t, err)
	return id
}

// waitsForLogin makes the agent call a tool, which waits for a login.
func (c talk) waitsForLogin(user, line string) (posted string, q event.InputRequest) {
	c.t.Helper()
	posted = c.postsAs(user, line)
	q = c.awaitInput(1)
	require.Len(c.t, q.Questions, 1)
	require.Equal(c.t, event.InputURL, q.Questions[0].Kind)
	require.Equal(c.t, "notes", q.Questions[0].Login.Server)
	return posted, q
}

const (
	callWhoami  = "use notes__whoami {}"
	callAddNote = `use notes__add_note {"text":"hello"}`
)
