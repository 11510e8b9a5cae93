package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/tool"
)

// loginTime is the time that a person has to log in after she has opened the link.
const loginTime = 15 * time.Minute

func (a serverCommands) serverLoginCommand() *cobra.Command {
	var user string
	var noWait bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "login <server>",
		Short: "Print a link by which a browser logs in to an MCP server, and wait for the login",
		Long: `Print a link by which a browser logs in to an MCP server, and wait until somebody has logged in. Calls that
wait for the login go on by themselves. Ctrl-C ends the waiting; the link works until it expires.

A login belongs to all threads of the namespace or to one person, as the server is declared. With --json, the
command does not wait.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var link api.MCPLoginLink
			var before api.MCPServerDetail
			err := a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) (err error) {
				if before, err = client.MCPServer(ctx, args[0], user); err == nil {
					link, err = client.LoginMCPServer(ctx, args[0], user)
				}
				return nearServer(ctx, client, args[0], err)
			})
			if err := a.show(link, err, line("%s", link.URL), ""); err != nil || a.json {
				return err
			}
			a.warn("open this address in a browser until %s", link.ExpiresAt.Local().Format(time.TimeOnly))
			if noWait {
				return nil
			}
			return a.awaitLogin(cmd.Context(), args[0], user, before.Login, link.ExpiresAt.Add(loginTime))
		},
	})
	byFlag(cmd, "user", &user, "who logs in", a.apiActor)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the login")
	return cmd
}

// awaitLogin waits for another login than the one before, which may be nil.
func (a serverCommands) awaitLogin(ctx context.Context, server, user string, before *tool.ServerLogin, until time.Time) error {
	client, err := a.api()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	defer a.waitFor("waiting for the login to " + server + ", until Ctrl-C")()
	for {
		now, err := client.MCPServer(ctx, server, user)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("nobody has logged in to %s in time: run the command again", server)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, api.ErrUnreachable):
			return err
		case err == nil && now.Login == nil:
			return fmt.Errorf("%s has no login any more", server)
		case err == nil && now.Login.LoggedIn && (before == nil || !before.LoggedIn || !now.Login.At.Equal(before.At)):
			return a.show(nil, nil, line("%s logged in to %s", cmp.Or(now.Login.By, "somebody"), server), "")
		}
		select {
		case <-time.After(cmp.Or(a.mindEvery, mindEvery)):
		case <-ctx.Done():
		}
	}
}

func (a serverCommands) serverLogoutCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "logout <server>",
		Short: "Delete the login to an MCP server, and revoke it if its authorization server can",
		Long: `Delete the login to an MCP server, and revoke it if its authorization server can. Calls of its tools then wait
for another one.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				return a.show(nil, nearServer(ctx, client, args[0], client.LogoutMCPServer(ctx, args[0], user)), line("logged out of %s", args[0]), "")
			})
		},
	}
	byFlag(cmd, "user", &user, "whose login is deleted, if each person has one", a.apiActor)
	return cmd
}

// viewer is the person whose logins are shown: nobody without a name.
func (a *app) viewer() string {
	name, err := a.apiActor("")
	if err != nil {
		return ""
	}
	return name
}

// loginFlags adds the flags that declare a login. declared returns it, nil for none.
func loginFlags(cmd *cobra.Command) (declared func() (*tool.LoginDeclaration, error)) {
	var d tool.LoginDeclaration
	f := cmd.Flags()
	f.StringVar((*string)(&d.Per), "login", "", "people log in to the server with OAuth: user, each person for herself, or namespace, one for all threads (default: no login)")
	f.StringArrayVar(&d.Scopes, "scope", nil, "with --login: scope to ask for (repeatable; default: those that the server names)")
	f.StringVar(&d.ClientID, "client-id", "", "with --login: client that you have registered (default: it registers itself)")
	f.StringVar(&d.ClientSecretEnv, "client-secret-env", "", "with --client-id: variable of workers and API that has its secret, such as MCP_SECRET")
	return func() (*tool.LoginDeclaration, error) {
		if d.Per != "" {
			return &d, nil
		}
		if len(d.Scopes) > 0 || d.ClientID != "" || d.ClientSecretEnv != "" {
			return nil, usagef("--scope, --client-id and --client-secret-env belong to --login")
		}
		return nil, nil
	}
}
