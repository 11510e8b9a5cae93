package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/starter/internal/api"
	"github.com/threadmill/threadmill/starter/internal/render"
)

func (a approvalCommands) grantsCommand() *cobra.Command {
	var revoked, asJSON bool
	cmd := &cobra.Command{
		Use:   "grants <thread>",
		Short: "List the approvals that cover more calls than their own",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, stored *api.Client) error {
				grants, err := stored.Grants(ctx, args[0], revoked)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.printJSON(map[string]any{"grants": grants})
				case len(grants) == 0:
					a.warn("nothing is granted in thread %q", args[0])
				}
				fmt.Fprint(a.stdout, render.Grants(grants, render.ApprovalOptions{}))
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&revoked, "revoked", false, "include revoked approvals")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a approvalCommands) revokeCommand() *cobra.Command {
	var r signals.Revoke
	var by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke <thread> <grant>",
		Short: "Revoke an approval and what it grants",
		Long: `Revoke an approval and what it grants: "starter grants" lists them. The id is that of
the call with whose approval it came; an approval of one call that has not begun to run can be
revoked, too. What has run stays done; what has not asks again.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if r.By, err = a.apiActor(by); err != nil {
				return err
			}
			r.ToolCallID = args[1]
			checked := r
			checked.By = cmp.Or(r.By, "api") // with an API key, the API knows the actor
			if err := checked.Validate(); err != nil {
				return usageError{err}
			}
			// The API knows which approvals exist; a thread accepts any revocation.
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, stored *api.Client) error {
				got, err := stored.Revoke(ctx, args[0], r)
				if err != nil {
					return err
				}
				return a.printOutcome(revokeProblem(args[0], r, got), signals.DecideResult{Result: got}, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who revokes (default $USER)")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// revokeProblem returns the reason why an approval was not revoked; empty if it was.
func revokeProblem(thread string, r signals.Revoke, outcome signals.DecideOutcome) string {
	switch outcome {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return ""
	case signals.DecideNotPending:
		return fmt.Sprintf(`this thread has no approval of a tool call %q; "starter grants %s" lists what is granted`, r.ToolCallID, thread)
	case signals.DecideConflict:
		return fmt.Sprintf("tool call %q was not approved: there is nothing to revoke", r.ToolCallID)
	case signals.DecideNotAllowed:
		return fmt.Sprintf("%s may not revoke: agents of the thread never may", r.By)
	case signals.DecideMismatch:
	}
	return fmt.Sprintf("the thread answers %q", outcome)
}
