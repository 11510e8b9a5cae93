package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/starter/internal/render"
	"github.com/threadmill/threadmill/tool"
)

// serverCommands are the commands on MCP servers.
type serverCommands struct{ *app }

func (a serverCommands) serversCommand() *cobra.Command {
	return group("servers", "Look at the MCP servers whose tools agents use, and declare them",
		`Look at the MCP servers whose tools agents use, restart them, and declare them while the workers
run. Agents name their tools server__tool, or server__* for all of them.`,
		a.serverListCommand(), a.serverShowCommand(), a.serverLoginCommand(), a.serverLogoutCommand(), a.serverRestartCommand(), a.serverAddCommand(), a.serverRemoveCommand())
}

func (a serverCommands) serverListCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the MCP servers with their states",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.MCPServers(ctx)
				return a.show(map[string]any{"servers": all}, err, render.MCPServers(all, render.TableOptions{}), "there are no MCP servers")
			})
		},
	})
}

func (a serverCommands) serverShowCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <server>",
		Short: "Show the state, the tools and the problems of an MCP server",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				one, err := client.MCPServer(ctx, args[0])
				return a.show(one, nearServer(ctx, client, args[0], err), render.MCPServer(one, render.TableOptions{}), "")
			})
		},
	})
}

func (a serverCommands) serverLoginCommand() *cobra.Command {
	var user string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "login <server>",
		Short: "Log in to an MCP server, in a browser",
		Long: `Log in to an MCP server: print the address to open in a browser, and wait until that has succeeded.
Calls that wait for the login then go on by themselves. Ctrl-C stops waiting.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				before, err := client.MCPServerFor(ctx, args[0], user)
				if err != nil {
					return nearServer(ctx, client, args[0], err)
				}
				link, err := client.LoginMCPServer(ctx, args[0], user)
				if err != nil {
					return err
				}
				if err := a.show(nil, nil, line("open %s", link.URL), ""); err != nil || noWait {
					return err
				}
				return a.awaitLogin(ctx, client, before, user, link)
			})
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "only print the address")
	byFlag(cmd, "user", &user, "who logs in, if the API needs no keys", a.apiActor)
	return cmd
}

// loginPoll is the interval at which the command looks for a login.
const loginPoll = time.Second

// awaitLogin waits for a login other than the one before, until the link has expired.
func (a serverCommands) awaitLogin(ctx context.Context, client *api.Client, before api.MCPServer, user string, link api.MCPLogin) error {
	ticker := time.NewTicker(loginPoll)
	defer ticker.Stop()
	for {
		now, err := client.MCPServerFor(ctx, before.Name, user)
		switch {
		case err != nil:
			return err
		case now.Login != nil && now.Login.LoggedIn && (before.Login == nil || !now.Login.At.Equal(before.Login.At)):
			return a.show(nil, nil, line("logged in to %s", before.Name), "")
		case time.Now().After(link.ExpiresAt.Add(loginGrace)):
			return fmt.Errorf("nobody has logged in to %s before the address expired: run the command again", before.Name)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// loginGrace is how long a login may take after its link has expired.
const loginGrace = 15 * time.Minute

func (a serverCommands) serverLogoutCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "logout <server>",
		Short: "Delete the login to an MCP server, and revoke it",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				return a.show(nil, client.LogoutMCPServer(ctx, args[0], user), line("logged out of %s", args[0]), "")
			})
		},
	}
	byFlag(cmd, "user", &user, "whose login is deleted, if the API needs no keys", a.apiActor)
	return cmd
}

func (a serverCommands) serverRestartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart <server>",
		Short: "Make the workers connect to an MCP server again",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				return a.show(nil, nearServer(ctx, client, args[0], client.RestartMCPServer(ctx, args[0])), line("%s restarts within seconds", args[0]), "")
			})
		},
	}
}

func (a serverCommands) serverAddCommand() *cobra.Command {
	var d tool.ServerDeclaration
	var headers, env []string
	var login tool.LoginDeclaration
	var change api.AgentChange
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "add <server>",
		Short: "Declare an MCP server, in place of its declaration before",
		Long: `Declare an MCP server, in place of its declaration before. The operator must have permitted it,
with mcpApi in the configuration of workers and API.

Secrets stay in environment variables of the workers, whose names begin with MCP_.`,
		Example: `  starter servers add hub --url https://mcp.example.com/mcp --header-env Authorization=MCP_HUB
  starter servers add files --tool "read_*" --command npx --command -y --command @modelcontextprotocol/server-filesystem --command .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if d.HeadersEnv, err = variables("--header-env", headers); err != nil {
				return err
			}
			if d.EnvFrom, err = variables("--env-from", env); err != nil {
				return err
			}
			if login.Per != "" || login.ClientID != "" || login.ClientSecretEnv != "" || len(login.Scopes) > 0 {
				d.Login = &login
			}
			raw, err := json.Marshal(d)
			if err != nil {
				return err
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				set, err := client.SetMCPServer(ctx, args[0], raw, change)
				return a.show(set, err, line("%s declared, version %d", set.Name, set.Version), "")
			})
		},
	})
	f := cmd.Flags()
	f.StringVar(&d.URL, "url", "", "address of a server that is called over HTTP")
	f.StringArrayVar(&headers, "header-env", nil, "header of requests, with the workers' variable that has its value, such as Authorization=MCP_HUB (repeatable)")
	f.StringArrayVar(&d.Command, "command", nil, "program, and each of its arguments, that workers start (repeatable)")
	f.StringArrayVar(&env, "env-from", nil, "variable of the program, with the workers' variable that has its value, such as TOKEN=MCP_TOKEN (repeatable)")
	f.StringVar(&d.Dir, "dir", "", "working directory of the program")
	f.StringVar(&d.Description, "description", "", "what the server is for")
	f.StringArrayVar(&d.Tools, "tool", nil, "pattern for the server's own names of the tools to offer (repeatable; default: all)")
	f.BoolVar(&d.Trusted, "trusted", false, "believe what the server says of the effects of its tools")
	f.StringVar(&d.Timeout, "call-timeout", "", "limit of a call, such as 30s (default 2m)")
	f.StringVar(&login.Per, "login", "", "people log in to the server: namespace, for one login of all threads, or user, for a login of each person (default: no login)")
	f.StringArrayVar(&login.Scopes, "scope", nil, "scope that a login asks for (repeatable; default: those that the server names)")
	f.StringVar(&login.ClientID, "client-id", "", "client that was registered for logins beforehand (default: it registers itself)")
	f.StringVar(&login.ClientSecretEnv, "client-secret-env", "", "the workers' variable with the secret of the client, such as MCP_HUB_SECRET")
	f.StringVar(&d.TaskQueue, "task-queue", "", "task queue whose workers connect to the server (default: all workers)")
	f.IntVar(&change.IfVersion, "if-version", -1, "declare it only if this is the version of its declaration; 0 if there is none (default: whatever it is)")
	byFlag(cmd, "by", &change.By, "who declares it", a.apiActor)
	return cmd
}

func (a serverCommands) serverRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove <server>",
		Short: "Remove an MCP server that was declared while the workers ran",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				return a.show(nil, nearServer(ctx, client, args[0], client.RemoveMCPServer(ctx, args[0])), line("%s removed", args[0]), "")
			})
		},
	}
}

// variables reads name=VARIABLE.
func variables(flag string, list []string) (map[string]string, error) {
	var out map[string]string
	for _, one := range list {
		name, variable, ok := strings.Cut(one, "=")
		if !ok || name == "" || variable == "" {
			// The text may be a secret.
			return nil, usagef("%s must be a name, = and the name of a variable, such as TOKEN=MCP_TOKEN", flag)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = variable
	}
	return out, nil
}

// nearServer adds the servers to an error whose names are near the one it is about.
func nearServer(ctx context.Context, client *api.Client, name string, err error) error {
	if !api.IsNotFound(err) {
		return err
	}
	all, other := client.MCPServers(ctx)
	if other != nil {
		return err
	}
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.Name
	}
	return misspelled(err, name, known)
}
