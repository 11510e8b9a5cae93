package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// deciding has the flags of approve and deny.
type deciding struct {
	signals.Decide
	args    string
	pattern []string
}

// decideCommand returns the commands approve and deny.
func (a approvalCommands) decideCommand(verb string) *cobra.Command {
	var f deciding
	cmd := a.jsonFlag(&cobra.Command{
		Use:   verb + " <thread> <toolCallId>",
		Short: "Deny a tool call that waits for approval; the agent is told the reason",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.ToolCallID, f.Decision = args[1], event.Decision(verb)
			if err := a.complete(&f, cmd.Flags()); err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.Decide(ctx, args[0], f.Decide)
				return a.showOutcome(got, err, string(got.Result)+missing(got), outcomeProblem(args[0], f.Decide, got.Result))
			})
		},
	})
	if verb == string(event.DecisionApprove) {
		cmd.Short = "Approve a tool call that waits"
		cmd.Long = cmd.Short + `.

By default the approval is for this one call. With --scope session it covers every call of
the same tool with the same arguments in the same working directory, by the same agent in
this thread; with --pattern every call whose arguments fit the globs. "starter grants" lists
such approvals, "starter revoke" takes them back.

What runs is the call as it was asked for, unless --args gives other arguments.`
		cmd.Example = `  starter approve t1 call_1
  starter approve t1 call_1 --scope session
  starter approve t1 call_1 --pattern 'path=docs/**'
  starter approve t1 call_1 --args '{"command": "ls -l"}'`
		cmd.Flags().StringVar((*string)(&f.Scope), "scope", "", "how far the approval reaches: once, session or pattern (default once; with --pattern, pattern)")
		cmd.Flags().StringVar(&f.args, "args", "", `JSON object: arguments to run instead of the call's own ("-" is read from stdin)`)
		cmd.Flags().StringArrayVar(&f.pattern, "pattern", nil, "name=glob: cover calls whose argument of that name matches (repeatable); other arguments must be equal")
	}
	byFlag(cmd, "by", &f.By, "who decides", actor)
	cmd.Flags().StringVar(&f.Reason, "reason", "", "why")
	cmd.Flags().IntVar(&f.Round, "round", 0, "round of the request, if there was more than one")
	cmd.Flags().StringVar(&f.Digest, "digest", "", "decide only if the request still has this digest")
	return cmd
}

// complete completes the decision of the flags, and checks it.
func (a approvalCommands) complete(f *deciding, given *pflag.FlagSet) (err error) {
	if len(f.pattern) > 0 {
		if f.Pattern, err = pairs(f.pattern, "--pattern is %q, must be name=glob, and each name once", true); err != nil {
			return err
		}
	}
	switch {
	case f.Scope != "":
	case len(f.pattern) > 0:
		f.Scope = event.ScopePattern
	default:
		f.Scope = event.ScopeOnce
	}
	// An empty file or variable must not approve another call than the intended one.
	if given.Changed("digest") && strings.TrimSpace(f.Digest) == "" {
		return usagef("--digest is empty, must be the request's digest; omit it to decide on the request as it is now")
	}
	if given.Changed("args") {
		text, err := a.argument("arguments", f.args)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			return usagef("--args is empty, must be a JSON object; omit it to run the call unchanged")
		}
		f.Args = json.RawMessage(text)
	}
	return usage(f.Validate())
}

// missing says how many more approvals are needed.
func missing(got signals.DecideResult) string {
	if got.Missing == 0 {
		return ""
	}
	return fmt.Sprintf(", %d more to approve", got.Missing)
}

// outcomeProblem returns the reason why a decision was rejected; empty if it was accepted.
func outcomeProblem(thread string, d signals.Decide, outcome signals.DecideOutcome) string {
	return rejection(outcome, map[signals.DecideOutcome]string{
		signals.DecideConflict: fmt.Sprintf("tool call %q already has a conflicting decision", d.ToolCallID),
		signals.DecideMismatch: fmt.Sprintf(`tool call %q does not match the decision: its agent or tool differs, or it has a new request, `+
			`which needs its --round; "starter approvals %s" shows it`, d.ToolCallID, thread),
		signals.DecideNotPending: fmt.Sprintf("no tool call %q waits for approval in this thread", d.ToolCallID),
		signals.DecideNotAllowed: fmt.Sprintf(`%s may not decide on tool call %q: the request names its approvers, and agents of the thread never may; `+
			`"starter approvals %s" shows them`, d.By, d.ToolCallID, thread),
	})
}

// rejection returns the reason of an outcome; empty if the thread has accepted what was sent.
func rejection(outcome signals.DecideOutcome, reasons map[signals.DecideOutcome]string) string {
	if outcome == signals.DecideAccepted || outcome == signals.DecideAlreadyResolved {
		return ""
	}
	return cmp.Or(reasons[outcome], fmt.Sprintf("the thread answers %q", outcome))
}
