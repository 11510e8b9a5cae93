package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/strictyaml"
	"github.com/threadmill/threadmill/starter/internal/api"
	"github.com/threadmill/threadmill/starter/internal/render"
)

// maxAgentFile bounds the size of an agent's file, in bytes. The API checks the definition.
const maxAgentFile = 4 << 20

// maxAgentVersions is the maximum that the API returns at once.
const maxAgentVersions = 100

// agentCommands are the commands on agents.
type agentCommands struct{ *app }

// agentsCommand returns the commands on agents.
func (a agentCommands) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Look at agents, and define them while the workers run",
		Long: `Look at agents, and define them while the workers run.

A definition that is stored comes before that of an agent of the same name in the workers'
configuration, from the next model call on, also in threads that run. Every version is kept.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentListCommand(), a.agentShowCommand(), a.agentSetCommand(), a.agentDeleteCommand(), a.agentHistoryCommand())
	return cmd
}

func (a agentCommands) agentListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured and the stored agents",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				all, err := stored.Agents(ctx)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.printJSON(map[string]any{"agents": all})
				case len(all) == 0:
					a.warn("no agents are configured or stored")
				}
				_, err = fmt.Fprint(a.stdout, render.Agents(all, render.AgentOptions{}))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a agentCommands) agentShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show <agent>",
		Short: "Show an agent's definition, as a file for \"agents set\"",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				one, err := stored.Agent(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(one)
				}
				text, err := render.Agent(one, render.AgentOptions{})
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(a.stdout, text)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// agentEdit has the flags of a change.
type agentEdit struct {
	by        string
	ifVersion int
}

func (e *agentEdit) addFlags(f *pflag.FlagSet) {
	f.StringVar(&e.by, "by", "", "who changes it (default $USER)")
	f.IntVar(&e.ifVersion, "if-version", -1, "change it only if this is the newest version stored; 0 if none is (default: whatever it is)")
}

func (e *agentEdit) change(a *app) (api.AgentChange, error) {
	if e.ifVersion < -1 {
		return api.AgentChange{}, usagef("--if-version is %d, must be a version, or 0 if none is stored", e.ifVersion)
	}
	who, err := a.apiActor(e.by)
	return api.AgentChange{By: who, IfVersion: e.ifVersion}, err
}

func (a agentCommands) agentSetCommand() *cobra.Command {
	var edit agentEdit
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "set -f <file>",
		Short: "Store the definition of an agent, in place of the one before",
		Long: `Store the definition of an agent, in place of the one before, and print its version.

The file is what "starter agents show" prints: YAML or JSON with the fields of one agent of the
configuration; "-" is stdin. What is left out gets its default.`,
		Example: `  starter agents show clerk > clerk.yaml
  starter agents set -f clerk.yaml --if-version 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--file is required: the definition, or - for stdin")
			}
			change, err := edit.change(a.app)
			if err != nil {
				return err
			}
			name, definition, err := a.readAgent(file)
			if err != nil {
				return err
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				set, err := stored.SetAgent(ctx, name, definition, change)
				if err != nil {
					return err
				}
				return a.printAgentSet(set, asJSON)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `file with the definition, or "-" for stdin`)
	edit.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a agentCommands) printAgentSet(set agent.Detail, asJSON bool) error {
	if asJSON {
		return a.printJSON(set)
	}
	a.say("%s version %d", set.Name, set.Version)
	for _, warning := range set.Warnings {
		a.warn("warning: %s", warning)
	}
	return nil
}

// readAgent reads the definition of one agent, and returns it as JSON with its name.
func (a agentCommands) readAgent(file string) (name string, definition json.RawMessage, err error) {
	raw, err := a.readFile(file)
	if err != nil {
		return "", nil, err
	}
	if len(raw) > maxAgentFile {
		return "", nil, usagef("%s is larger than %d bytes", file, maxAgentFile)
	}
	// JSON is sent unchanged: with some indentation it is not valid YAML.
	if definition = raw; !json.Valid(raw) {
		if definition, err = yamlToJSON(raw); err != nil {
			return "", nil, usagef("%s: %w", file, err)
		}
	}
	var head struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(definition, &head) != nil || head.Name == "" {
		return "", nil, usagef("%s: name is required: it must be an object with the fields of one agent", file)
	}
	return head.Name, definition, nil
}

func (a agentCommands) readFile(file string) ([]byte, error) {
	from := a.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, usageError{err}
		}
		defer opened.Close()
		from = opened
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxAgentFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return raw, nil
}

func yamlToJSON(raw []byte) (json.RawMessage, error) {
	if err := strictyaml.Check(raw); err != nil {
		return nil, err
	}
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	var fields map[string]any
	if err := documents.Decode(&fields); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := documents.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document begins behind ---: there is one agent in a file")
	}
	return json.Marshal(fields)
}

func (a agentCommands) agentDeleteCommand() *cobra.Command {
	var edit agentEdit
	cmd := &cobra.Command{
		Use:   "delete <agent>",
		Short: "Delete a stored agent; a configured one of that name shows again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := edit.change(a.app)
			if err != nil {
				return err
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				if err := stored.DeleteAgent(ctx, args[0], change); err != nil {
					return err
				}
				a.say("%s deleted", args[0])
				return nil
			})
		},
	}
	edit.addFlags(cmd.Flags())
	return cmd
}

func (a agentCommands) agentHistoryCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history <agent>",
		Short: "List the versions of a stored agent, the newest first",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > maxAgentVersions {
				return usagef("--limit is %d, must be 1 to %d", limit, maxAgentVersions)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				versions, err := stored.AgentVersions(ctx, args[0], limit)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(map[string]any{"versions": versions})
				}
				_, err = fmt.Fprint(a.stdout, render.AgentVersions(versions, render.AgentOptions{}))
				return err
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the definitions")
	return cmd
}
