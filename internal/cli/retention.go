package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/cli/render"
)

// retentionCommands show what is deleted by its age.
type retentionCommands struct{ *app }

func (a retentionCommands) retentionCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "retention",
		Short: "Show what the retention would delete now, and what its last pass has deleted",
		Long: `Show which threads the next pass of the retention would close or erase, how many logs of
tool calls it would delete, and the receipt of the last pass. It changes nothing: workers
delete, as the configuration says. The key needs the role admin.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stored, err := a.api()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(a.flags.timeout, repairTimeout))
			defer cancel()
			due, err := stored.Retention(ctx)
			return a.show(due, err, render.Retention(due), "")
		},
	})
}
