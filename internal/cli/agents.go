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

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/config/strictyaml"
)

// maxAgentFile bounds the size of an agent's file, in bytes. The API checks the definition.
const maxAgentFile = 4 << 20

// maxAgentVersions is the maximum that the API returns at once.
const maxAgentVersions = 100

// agentCommands are the commands on agents.
type agentCommands struct{ *app }

// agentsCommand returns the commands on agents.
func (a agentCommands) agentsCommand() *cobra.Command {
	return group("agents", "Look at agents, and define them while the workers run",
		`Look at agents, and define them while the workers run.

A definition that is stored comes before that of an agent of the same name in the workers'
configuration, from the next model call on, also in threads that run. Every version is kept.`,
		a.agentListCommand(), a.agentShowCommand(), a.agentSetCommand(), a.agentDeleteCommand(), a.agentHistoryCommand())
}

func (a agentCommands) agentListCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the configured and the stored agents",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				all, err := stored.Agents(ctx, api.AllAgents)
				return a.show(map[string]any{"agents": all}, err, render.Agents(all, render.TableOptions{}), "no agents are configured or stored")
			})
		},
	})
}

func (a agentCommands) agentShowCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <agent>",
		Short: "Show an agent's definition, as a file for \"agents set\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				one, err := stored.Agent(ctx, args[0])
				if err != nil {
					return nearAgent(ctx, stored, args[0], err)
				}
				text, err := render.Agent(one, render.TableOptions{})
				return a.show(one, err, text, "")
			})
		},
	})
}

// changeFlags adds the flags of a change.
func (a agentCommands) changeFlags(cmd *cobra.Command, c *api.AgentChange) {
	cmd.Flags().IntVar(&c.IfVersion, "if-version", -1, "change it only if this is the newest version stored; 0 if none is (default: whatever it is)")
	byFlag(cmd, "by", &c.By, "who changes it", func(flag string) (string, error) {
		if c.IfVersion < -1 {
			return "", usagef("--if-version is %d, must be a version, or 0 if none is stored", c.IfVersion)
		}
		return a.apiActor(flag)
	})
}

func (a agentCommands) agentSetCommand() *cobra.Command {
	var change api.AgentChange
	var file string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "set -f <file>",
		Short: "Store the definition of an agent, in place of the one before",
		Long: `Store the definition of an agent, in place of the one before, and print its version.

The file is what "starter agents show" prints: YAML or JSON with the fields of one agent of the
configuration; "-" is stdin. What is left out gets its default.`,
		Example: `  starter agents show clerk > clerk.yaml
  starter agents set -f clerk.yaml --if-version 3`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--file is required: the definition, or - for stdin")
			}
			name, definition, err := a.readAgent(file)
			if err != nil {
				return err
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				set, err := stored.SetAgent(ctx, name, definition, change)
				err = a.show(set, err, line("%s version %d", set.Name, set.Version), "")
				if err != nil || a.json {
					return err
				}
				for _, warning := range set.Warnings {
					a.warn("warning: %s", warning)
				}
				return nil
			})
		},
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", `file with the definition, or "-" for stdin`)
	a.changeFlags(cmd, &change)
	return cmd
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
	var change api.AgentChange
	cmd := &cobra.Command{
		Use:   "delete <agent>",
		Short: "Delete a stored agent; a configured one of that name shows again",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				return a.show(nil, nearAgent(ctx, stored, args[0], stored.DeleteAgent(ctx, args[0], change)), line("%s deleted", args[0]), "")
			})
		},
	}
	a.changeFlags(cmd, &change)
	return cmd
}

func (a agentCommands) agentHistoryCommand() *cobra.Command {
	var limit int
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "history <agent>",
		Short: "List the versions of a stored agent, the newest first",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > maxAgentVersions {
				return usagef("--limit is %d, must be 1 to %d", limit, maxAgentVersions)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, stored *api.Client) error {
				versions, err := stored.AgentVersions(ctx, args[0], limit)
				err = nearAgent(ctx, stored, args[0], err)
				return a.show(map[string]any{"versions": versions}, err, render.AgentVersions(versions, render.TableOptions{}), "")
			})
		},
	})
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	cmd.Flags().Lookup("json").Usage = "print JSON, with the definitions"
	return cmd
}
