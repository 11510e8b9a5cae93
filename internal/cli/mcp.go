package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/mcp/mcpserver"
)

// mcpCommands serve other programs.
type mcpCommands struct{ *app }

func (a mcpCommands) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve agents and threads to an editor or a desktop assistant, by MCP over stdio",
		Long: `Serve agents and threads to an editor or a desktop assistant, by MCP over stdin and stdout.

The tools are those that the server offers at /mcp, and are used through its HTTP API, with its
address and API key. The command ends with its input. It also starts without the server: calls then
fail with an error that says so, until the server runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.api()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return a.serve(ctx, client)
		},
	}
}

// serve answers requests until the input ends.
func (a mcpCommands) serve(ctx context.Context, client *api.Client) error {
	closing, end := context.WithCancel(ctx)
	defer end()
	server := mcpserver.New(mcpserver.Config{
		API: client, Closing: closing, Version: buildinfo.Version(), Roles: (&knownRoles{client: client}).find,
		Logger: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	// What people see is cleaned; programs get the protocol as it is.
	err := server.Run(ctx, &mcp.IOTransport{Reader: &ending{a.stdin, end}, Writer: unclosed{a.raw}})
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ending is an input that ends waits when it ends itself.
type ending struct {
	io.Reader
	end func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != nil {
		e.end()
	}
	return n, err
}

func (*ending) Close() error { return nil }

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// Times of [knownRoles].
const (
	rolesWithin = 3 * time.Second
	rolesFor    = time.Minute
)

// knownRoles are the roles of the API key.
type knownRoles struct {
	client *api.Client

	mu    sync.Mutex
	roles auth.Roles
	until time.Time
}

// find returns the roles, or nil if the server does not say.
func (k *knownRoles) find(ctx context.Context) auth.Roles {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().Before(k.until) {
		return k.roles
	}
	ctx, cancel := context.WithTimeout(ctx, rolesWithin)
	defer cancel()
	roles, err := k.client.Roles(ctx)
	if status, ok := errors.AsType[*api.StatusError](err); ok && status.Code == http.StatusForbidden {
		// A key that may not read cannot ask which other roles it has.
		roles, err = auth.Roles{auth.RolePost, auth.RoleApprove, auth.RoleOperate}, nil
	}
	if err != nil {
		return nil
	}
	k.roles, k.until = roles, time.Now().Add(rolesFor)
	return roles
}
