package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/ops/repair"
)

// repairCommands mend what differs between the store and Temporal.
type repairCommands struct{ *app }

// repairPage is the number of threads that are compared at once, and repairTimeout the time for it.
const (
	repairPage    = 20
	repairTimeout = 5 * time.Minute
)

func (a repairCommands) repairCommand() *cobra.Command {
	var apply bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "repair [thread]",
		Short: "Compare the store with Temporal after a restore, and mend what differs",
		Long: `Compare the store with Temporal after one of them was restored from a backup, and tell
for each thread what is missing where. With --apply, mend it: missing records are written
again from the histories, missing workflows are started, and workflows that are behind
learn what the store has. Without a thread, all threads are compared.

It needs the API and a key with the role admin, and no worker: run it before workers
start. It can be stopped and run again. The exit code is 0 if nothing differs, or all of
it was mended or cannot be; 1 if something differs that --apply mends, or could not be mended.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := repair.RepairRequest{Limit: repairPage, Apply: apply}
			if len(args) > 0 {
				req.ThreadID = args[0]
			}
			waited := a.waitFor("comparing the store with Temporal")
			report, err := a.compare(cmd.Context(), req)
			waited()
			if err := a.show(report, err, render.Repair(report, apply), ""); err != nil {
				return err
			}
			for _, t := range report.Threads {
				for _, d := range t.Differences {
					if d.State == repair.Found || d.State == repair.Failed {
						return silentError{}
					}
				}
			}
			return nil
		},
	})
	cmd.Flags().BoolVar(&apply, "apply", false, "mend what differs (default: only tell it)")
	return cmd
}

// compare goes through all pages.
func (a repairCommands) compare(ctx context.Context, req repair.RepairRequest) (all repair.Comparison, err error) {
	all.Threads = []repair.DifferingThread{}
	stored, err := a.api()
	if err != nil {
		return all, err
	}
	for {
		page, err := a.comparePage(ctx, stored.Repair, req)
		if err != nil {
			return all, err
		}
		all.Compared += page.Compared
		all.Threads, all.Notes = append(all.Threads, page.Threads...), append(all.Notes, page.Notes...)
		if req.Cursor = page.Next; req.Cursor == "" {
			return all, nil
		}
	}
}

func (a repairCommands) comparePage(ctx context.Context, page func(context.Context, repair.RepairRequest) (repair.Comparison, error), req repair.RepairRequest) (repair.Comparison, error) {
	ctx, cancel := context.WithTimeout(ctx, max(a.flags.timeout, repairTimeout))
	defer cancel()
	return page(ctx, req)
}
