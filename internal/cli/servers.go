package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/tool"
)

// serverCommands are the commands on MCP servers.
type serverCommands struct{ *app }

func (a serverCommands) serversCommand() *cobra.Command {
	return group("servers", "Look at the MCP servers whose tools agents use, and declare them",
		`Look at the MCP servers whose tools agents use, log in to them, restart them, and declare them while
the workers run. Agents name their tools server__tool, or server__* for all of them.`,
		a.serverListCommand(), a.serverShowCommand(), a.serverLoginCommand(), a.serverLogoutCommand(), a.serverRestartCommand(), a.serverAddCommand(), a.serverRemoveCommand())
}

func (a serverCommands) serverListCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the MCP servers with their states",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.MCPServers(ctx, a.viewer())
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
				one, err := client.MCPServer(ctx, args[0], a.viewer())
				return a.show(one, nearServer(ctx, client, args[0], err), render.MCPServer(one, render.TableOptions{}), "")
			})
		},
	})
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
	var change api.AgentChange
	var login func() (*tool.LoginDeclaration, error)
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "add <server>",
		Short: "Declare an MCP server, in place of its declaration before",
		Long: `Declare an MCP server, in place of its declaration before. The operator must have permitted it,
with mcpApi in the configuration of workers and API.

Secrets stay in environment variables of the workers, whose names begin with MCP_.`,
		Example: `  starter servers add hub --url https://mcp.example.com/mcp --header-env Authorization=MCP_HUB
  starter servers add tracker --url https://tracker.example.com/mcp --login user
  starter servers add files --tool "read_*" --command npx --command -y --command @modelcontextprotocol/server-filesystem --command .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if d.HeadersEnv, err = variables("--header-env", headers); err != nil {
				return err
			}
			if d.EnvFrom, err = variables("--env-from", env); err != nil {
				return err
			}
			if d.Login, err = login(); err != nil {
				return err
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
	f.StringVar(&d.TaskQueue, "task-queue", "", "task queue whose workers connect to the server (default: all workers)")
	f.IntVar(&change.IfVersion, "if-version", -1, "declare it only if this is the version of its declaration; 0 if there is none (default: whatever it is)")
	login = loginFlags(cmd)
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
	all, other := client.MCPServers(ctx, "")
	if other != nil {
		return err
	}
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.Name
	}
	if slices.Contains(known, name) {
		return err // it is about something else of the server
	}
	return misspelled(err, name, known)
}
