package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
)

// configCommands are the commands on configuration files.
type configCommands struct{ *app }

func (a configCommands) configCommand() *cobra.Command {
	return group("config", "Compare a changed configuration file with what runs", "", a.configDiffCommand())
}

func (a configCommands) configDiffCommand() *cobra.Command {
	var file string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "diff",
		Short: "Say what a changed configuration file would do to calls that wait",
		Long: `Say what a changed configuration file would do to calls that wait for approval, and which agents,
tools, rules, hooks, webhooks, groups of approvers and sections of the file differ. The API compares it with
what it runs, and changes nothing; its key needs the role admin.

The exit code is 0 if the file changes nothing, 1 if it does, and 2 if it cannot be compared.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usageError{errors.New("--config: name the changed file")}
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return usageError{fmt.Errorf("--config: %w", err)}
			}
			same := true
			err = a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				diff, err := client.DiffConfig(ctx, string(data))
				same = diff.Same()
				return a.show(diff, err, render.ConfigDiff(diff), "")
			})
			switch {
			case err != nil:
				return usageError{err} // 1 means that something differs
			case !same:
				return silentError{}
			}
			return nil
		},
	})
	cmd.Flags().StringVar(&file, "config", "", "the changed configuration file")
	return cmd
}
