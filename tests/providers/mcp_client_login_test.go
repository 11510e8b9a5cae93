package providers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool/mcp"
)

// mcpConformance is the conformance suite of the protocol.
const mcpConformance = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// The suite tells a client which scenario it plays, and what an operator would have configured.
const (
	mcpScenarioEnv = "MCP_CONFORMANCE_SCENARIO"
	mcpContextEnv  = "MCP_CONFORMANCE_CONTEXT"
)

// maxSuiteLogins is how often the person of the suite logs in before she gives up.
const maxSuiteLogins = 2

// suiteLogins logs in for the client of the conformance suite, with a browser that nobody watches.
type suiteLogins struct {
	logins   *mcplogin.Logins
	public   *httptest.Server
	attempts int
}

// newSuiteLogins returns the logins of a server, and sets Login. It returns nil for scenarios without a login.
func newSuiteLogins(ctx context.Context, server *mcp.Server) (*suiteLogins, error) {
	if !strings.HasPrefix(os.Getenv(mcpScenarioEnv), "auth/") {
		return nil, nil
	}
	var known struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if raw := os.Getenv(mcpContextEnv); raw != "" {
		if err := json.Unmarshal([]byte(raw), &known); err != nil {
			return nil, err
		}
	}
	if os.Getenv(mcpScenarioEnv) == "auth/basic-cimd" {
		known.ID = "https://conformance-test.local/client-metadata.json" // the document that the suite knows
	}
	server.Login = &mcp.Login{ClientID: known.ID, ClientSecret: mcp.Secret(known.Secret)}
	db, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	key := make([]byte, sealed.KeySize)
	_, _ = rand.Read(key) // never fails
	keys, err := sealed.Parse(base64.StdEncoding.EncodeToString(key))
	if err != nil {
		return nil, err
	}
	s := &suiteLogins{public: httptest.NewUnstartedServer(nil)}
	s.logins, err = mcplogin.New(mcplogin.Config{
		Documents: db, Keys: keys, PublicURL: "http://" + s.public.Listener.Addr().String(), Logger: harness.Quiet,
	})
	return s, err
}

// serve serves the pages of the logins.
func (s *suiteLogins) serve(m *mcp.Manager) {
	s.public.Config.Handler = s.logins.Pages(m, func(ctx context.Context, l toolserver.LoggedIn) {
		_ = m.Restart(ctx, l.Namespace, l.Server) // its state says what is wrong
	})
	s.public.Start()
}

// login logs in.
func (s *suiteLogins) login(ctx context.Context, namespace, server string) error {
	if s == nil {
		return errors.New("a login is needed")
	}
	if s.attempts++; s.attempts > maxSuiteLogins {
		return errors.New("the login does not help")
	}
	link, _, err := s.logins.Link(namespace, server, "", "suite")
	if err != nil {
		return err
	}
	page, err := oauthtest.Visit(ctx, nil, link)
	if err == nil && page.Status != http.StatusOK {
		err = fmt.Errorf("the browser ends at %s: %s", page.URL.Path, page.Text)
	}
	return err
}

// TestMCPLoginConformance runs the scenarios of the suite in which a person logs in.
func TestMCPLoginConformance(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, scenario := range []string{
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3",
		"scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
		"token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration", "basic-cimd",
		"2025-03-26-oauth-endpoint-fallback",
		"resource-mismatch", "offline-access-scope", "offline-access-not-supported",
	} {
		t.Run(scenario, func(t *testing.T) {
			cmd := testenv.Node(t, mcpConformance, "client", "--command", self, "--scenario", "auth/"+scenario, "--output-dir", t.TempDir())
			cmd.Env = append(os.Environ(), mcpClientEnv+"=yes")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}
