package program

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// namespacesEvery is the interval at which a worker looks for namespaces that declare servers.
const namespacesEvery = 3 * time.Second

// mcpServers connects threads to MCP servers: those of the configuration, and those that are declared at run
// time.
type mcpServers struct {
	*mcp.Manager
	configured []mcp.Server
	declared   *toolserver.Registry
	catalog    *toolserver.Catalog
	logins     *mcplogin.Logins // nil = none
	log        *slog.Logger
}

// ConnectMCP adds the MCP servers of the settings to the configuration of a runtime, which has its store
// and task queues. A worker connects to the servers of the task queues that it serves. api is the listener of the
// API, if this process serves it; it is the default of [Settings.PublicURL].
func (s Settings) ConnectMCP(cfg *threadmill.Config, api net.Listener) error {
	if len(s.File.MCP) == 0 && !s.File.MCPAPI.Servers {
		return nil
	}
	if cfg.ToolSource != nil {
		return Usagef("mcp: the program sets Config.ToolSource, which the file's MCP servers would replace: remove mcp and mcpApi from the file")
	}
	var servers []mcp.Server
	var names []string
	for _, one := range s.File.MCP {
		servers, names = append(servers, configuredServer(one)), append(names, one.Name)
	}
	documents, err := store.Ask[store.Documents](cfg.Store)
	if err != nil {
		return fmt.Errorf("Config.Store: %w", err)
	}
	logins, err := s.serverLogins(cfg, documents, api)
	if err != nil {
		return err
	}
	m := &mcpServers{
		logins:     logins,
		configured: servers, catalog: toolserver.NewCatalog(documents), log: cmp.Or(cfg.Logger, slog.Default()),
		declared: toolserver.NewRegistry(documents, toolserver.Permission(s.File.MCPAPI), names),
	}
	queues := slices.Clone(cfg.ToolQueues)
	if !cfg.OnlyToolQueues {
		queues = append(queues, "", cmp.Or(cfg.TaskQueue, signals.DefaultTaskQueue))
	}
	host, _ := os.Hostname()
	managed := mcp.Config{
		Servers: servers, Source: declaredServers{m.declared, s.getenv, m.log}, SourceCommands: s.File.MCPAPI.Commands, SourcePrivate: s.File.MCPAPI.PrivateAddresses,
		Catalog: m.catalog, Local: func(s mcp.Server) bool { return slices.Contains(queues, s.TaskQueue) },
		Worker: fmt.Sprintf("%d@%s", os.Getpid(), host), Redact: cfg.Redact, Logger: m.log,
	}
	if logins != nil {
		managed.Logins = logins
	}
	if m.Manager, err = mcp.New(managed); err != nil {
		return Usagef("mcp: %w", err)
	}
	cfg.ToolSource = m
	return nil
}

func configuredServer(s config.MCPServer) mcp.Server {
	out := mcp.Server{
		Name: s.Name, Description: s.Description, Command: s.Command, Dir: s.Dir, Env: revealed(s.Env), URL: s.URL, Headers: revealed(s.Headers),
		Tools: s.Tools, Trusted: s.Trusted, Timeout: s.Timeout, TaskQueue: s.TaskQueue,
	}
	if l := s.Login; l != nil {
		out.Login = &mcp.Login{Per: l.Per, ClientID: l.ClientID, ClientSecret: mcp.Secret(l.ClientSecret.Reveal()), Scopes: l.Scopes}
	}
	return out
}

func revealed(secrets map[string]config.Secret) map[string]mcp.Secret {
	if len(secrets) == 0 {
		return nil
	}
	out := make(map[string]mcp.Secret, len(secrets))
	for name, secret := range secrets {
		out[name] = mcp.Secret(secret.Reveal())
	}
	return out
}

// Run keeps the connections until ctx ends.
func (m *mcpServers) Run(ctx context.Context) error {
	if m.declared.Permitted().Servers || m.logins != nil {
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			m.watchNamespaces(ctx)
		}()
		defer func() { <-watching }()
	}
	return m.Manager.Run(ctx)
}

// watchNamespaces keeps the servers of all namespaces connected, also of those whose tools nobody uses.
func (m *mcpServers) watchNamespaces(ctx context.Context) {
	ticker := time.NewTicker(namespacesEvery)
	defer ticker.Stop()
	for {
		namespaces, err := m.namespaces(ctx)
		if err != nil && ctx.Err() == nil {
			m.log.Warn("the namespaces with MCP servers cannot be read", "error", err)
		}
		for _, namespace := range namespaces {
			m.Refresh(ctx, namespace)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// namespaces returns the namespaces that declare servers, or have logins to servers.
func (m *mcpServers) namespaces(ctx context.Context) ([]string, error) {
	all, err := m.declared.Namespaces(ctx)
	if err != nil || m.logins == nil {
		return all, err
	}
	more, err := m.logins.Namespaces(ctx)
	return append(all, more...), err
}

// Restart asks all workers that run a server to connect to it again, this one included.
func (m *mcpServers) Restart(ctx context.Context, namespace, name string) error {
	if slices.ContainsFunc(m.configured, func(s mcp.Server) bool { return s.Name == name && s.Login == nil }) {
		namespace = ""
	}
	return m.catalog.RequestRestart(ctx, namespace, name)
}

// ServerNames returns the names of the configured servers.
func (m *mcpServers) ServerNames() []string {
	names := make([]string, len(m.configured))
	for i, s := range m.configured {
		names[i] = s.Name
	}
	return names
}

// TaskQueues returns the task queues on which tools of the configured servers run.
func (m *mcpServers) TaskQueues() []string {
	var queues []string
	for _, s := range m.configured {
		if s.TaskQueue != "" && !slices.Contains(queues, s.TaskQueue) {
			queues = append(queues, s.TaskQueue)
		}
	}
	return queues
}

// Declared returns the servers that are declared at run time.
func (m *mcpServers) Declared() *toolserver.Registry { return m.declared }

// declaredServers are the declared servers of a namespace, with the secrets of this process.
type declaredServers struct {
	registry *toolserver.Registry
	getenv   func(string) string
	log      *slog.Logger
}

// Servers implements [mcp.Source].
func (d declaredServers) Servers(ctx context.Context, namespace string) ([]mcp.Server, error) {
	declared, err := d.registry.Usable(ctx, namespace)
	if err != nil {
		return nil, err
	}
	servers := make([]mcp.Server, 0, len(declared))
	for _, one := range declared {
		servers = append(servers, mcp.Server{
			Name: one.Name, Description: one.Description, URL: one.URL, Headers: d.secrets(one.Name, one.HeadersEnv),
			Command: one.Command, Env: d.secrets(one.Name, one.EnvFrom), Dir: one.Dir, Login: d.login(one.Login),
			Tools: one.Tools, Trusted: one.Trusted, Timeout: one.CallTimeout(), TaskQueue: one.TaskQueue,
		})
	}
	return servers, nil
}

func (d declaredServers) login(l *tool.LoginDeclaration) *mcp.Login {
	if l == nil {
		return nil
	}
	out := &mcp.Login{Per: l.Per, ClientID: l.ClientID, Scopes: l.Scopes}
	if l.ClientSecretEnv != "" {
		out.ClientSecret = mcp.Secret(strings.TrimSpace(d.getenv(l.ClientSecretEnv)))
	}
	return out
}

// secrets reads variables of the environment. [tool.ServerDeclaration] permits those only whose names begin
// with [tool.SecretPrefix]. Without one of them, the server itself says what it lacks.
func (d declaredServers) secrets(server string, variables map[string]string) map[string]mcp.Secret {
	if len(variables) == 0 {
		return nil
	}
	out := make(map[string]mcp.Secret, len(variables))
	for name, variable := range variables {
		value := strings.TrimSpace(d.getenv(variable))
		if value == "" {
			d.log.Debug("an environment variable of an MCP server is not set", "mcpServer", server, "variable", variable)
			continue
		}
		out[name] = mcp.Secret(value)
	}
	return out
}

var _ tool.Source = (*mcpServers)(nil)
