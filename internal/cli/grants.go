package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
)

func (a approvalCommands) grantsCommand() *cobra.Command {
	var revoked bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "grants <thread>",
		Short: "List the approvals that cover more calls than their own",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, stored *api.Client) error {
				grants, err := stored.Grants(ctx, args[0], revoked)
				return a.show(map[string]any{"grants": grants}, err, render.Grants(grants, render.TableOptions{}), "nothing is granted in thread %q", args[0])
			})
		},
	})
	cmd.Flags().BoolVar(&revoked, "revoked", false, "include revoked approvals")
	return cmd
}

func (a approvalCommands) revokeCommand() *cobra.Command {
	var r signals.Revoke
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "revoke <thread> <grant>",
		Short: "Revoke an approval and what it grants",
		Long: `Revoke an approval and what it grants: "starter grants" lists them. The id is that of
the call with whose approval it came; an approval of one call that has not begun to run can be
revoked, too. What has run stays done; what has not asks again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.ToolCallID = args[1]
			checked := r
			checked.By = cmp.Or(r.By, "api") // with an API key, the API knows the actor
			if err := checked.Validate(); err != nil {
				return usageError{err}
			}
			// The API knows which approvals exist; a thread accepts any revocation.
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, stored *api.Client) error {
				got, err := stored.Revoke(ctx, args[0], r)
				return a.showOutcome(signals.DecideResult{Result: got}, err, string(got), revokeProblem(args[0], r, got))
			})
		},
	})
	byFlag(cmd, "by", &r.By, "who revokes", a.apiActor)
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why")
	return cmd
}

// revokeProblem returns the reason why an approval was not revoked; empty if it was.
func revokeProblem(thread string, r signals.Revoke, outcome signals.DecideOutcome) string {
	return rejection(outcome, map[signals.DecideOutcome]string{
		signals.DecideNotPending: fmt.Sprintf(`this thread has no approval of a tool call %q; "starter grants %s" lists what is granted`, r.ToolCallID, thread),
		signals.DecideConflict:   fmt.Sprintf("tool call %q was not approved: there is nothing to revoke", r.ToolCallID),
		signals.DecideNotAllowed: fmt.Sprintf("%s may not revoke: agents of the thread never may", r.By),
	})
}
