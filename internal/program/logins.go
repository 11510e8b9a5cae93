package program

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/program/httpserver"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// EnvSecretsKey is the variable with the keys that encrypt secrets in the store, separated by commas. The first
// encrypts, all decrypt.
const EnvSecretsKey = "THREADMILL_SECRETS_KEY" //nolint:gosec // the name of the variable

// secrets returns the keys of the variable or, without it, of the file, which it creates if necessary.
func secrets(variable, file string) (sealed.Keys, error) {
	if variable != "" {
		keys, err := sealed.Parse(variable)
		if err != nil {
			return keys, Usagef("%s: %w", EnvSecretsKey, err)
		}
		return keys, nil
	}
	if file == "" {
		return sealed.Keys{}, nil
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		random := make([]byte, sealed.KeySize)
		_, _ = rand.Read(random) // never fails
		raw = []byte(base64.StdEncoding.EncodeToString(random) + "\n")
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return sealed.Keys{}, fmt.Errorf("the key that encrypts secrets: %w", err)
	}
	keys, err := sealed.Parse(string(raw))
	if err != nil {
		return keys, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

// serverLogins returns the logins to MCP servers, or nil if there is no key to encrypt them with.
func (s Settings) serverLogins(cfg *threadmill.Config, documents store.Documents, api net.Listener) (*mcplogin.Logins, error) {
	public := s.PublicURL
	if public == "" && api != nil {
		public = httpserver.URL(api)
	}
	i := slices.IndexFunc(s.File.MCP, func(one config.MCPServer) bool { return one.Login != nil })
	switch {
	case s.secrets.Empty() && i < 0, public == "" && i < 0:
		return nil, nil
	case s.secrets.Empty():
		return nil, Usagef("%s: is required, because people log in to the MCP server %s: set it to what openssl rand -base64 %d prints, the same for all workers and APIs", EnvSecretsKey, s.File.MCP[i].Name, sealed.KeySize)
	case public == "":
		return nil, Usagef("%s: is required, because people log in to the MCP server %s: set it, or http.publicUrl, to the origin by which browsers reach the API", EnvPublicURL, s.File.MCP[i].Name)
	}
	return mcplogin.New(mcplogin.Config{Documents: documents, Keys: s.secrets, PublicURL: public, Logger: cmp.Or(cfg.Logger, slog.Default())})
}

// Logins returns the logins to the servers.
func (m *mcpServers) Logins() server.ToolLogins {
	if m.logins == nil {
		return nil
	}
	return serverLogins{m.logins, m.Manager}
}

// serverLogins are the logins to servers by their names.
type serverLogins struct {
	*mcplogin.Logins
	servers *mcp.Manager
}

// find returns a server with a login.
func (l serverLogins) find(ctx context.Context, namespace, name string) (mcp.Server, *http.Client, error) {
	s, c, err := l.servers.Find(ctx, namespace, name)
	switch {
	case errors.Is(err, mcp.ErrNoServer):
		return s, c, toolserver.ErrNoServer
	case err == nil && s.Login == nil:
		return s, c, toolserver.ErrNoLogin
	}
	return s, c, err
}

// Login implements [server.ToolLogins].
func (l serverLogins) Login(ctx context.Context, namespace, name, user string) (tool.ServerLogin, error) {
	s, _, err := l.find(ctx, namespace, name)
	if err != nil {
		return tool.ServerLogin{}, err
	}
	return l.Status(ctx, namespace, s, user)
}

// LoginLink implements [server.ToolLogins].
func (l serverLogins) LoginLink(ctx context.Context, namespace, name, user, by string) (string, time.Time, error) {
	if _, _, err := l.find(ctx, namespace, name); err != nil {
		return "", time.Time{}, err
	}
	return l.Link(namespace, name, user, by)
}

// Logout implements [server.ToolLogins].
func (l serverLogins) Logout(ctx context.Context, namespace, name, user string) error {
	s, c, err := l.find(ctx, namespace, name)
	if err != nil {
		return err
	}
	return l.Forget(ctx, c, namespace, s, user)
}

// LoginPages implements [server.ToolLogins].
func (l serverLogins) LoginPages(done func(context.Context, toolserver.LoggedIn)) http.Handler {
	return l.Pages(l.servers, done)
}
