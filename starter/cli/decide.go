package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// deciding has the flags of approve and deny.
type deciding struct {
	by, reason, digest string
	round              int
	json               bool

	// Flags of approve.
	scope, args string
	pattern     []string
}

// decideCommand returns the commands approve and deny.
func (a approvalCommands) decideCommand(verb string) *cobra.Command {
	var f deciding
	cmd := &cobra.Command{
		Use:   verb + " <thread> <toolCallId>",
		Short: "Deny a tool call that waits for approval; the agent is told the reason",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.decision(cmd.Flags(), f, args[1], event.Decision(verb))
			if err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.Decide(ctx, args[0], d)
				if err != nil {
					return err
				}
				return a.printOutcome(outcomeProblem(args[0], d, got.Result), got, f.json)
			})
		},
	}
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
		f.approveFlags(cmd)
	}
	cmd.Flags().StringVar(&f.by, "by", "", "who decides (default $USER)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why")
	cmd.Flags().IntVar(&f.round, "round", 0, "round of the request, if there was more than one")
	cmd.Flags().StringVar(&f.digest, "digest", "", "decide only if the request still has this digest")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (f *deciding) approveFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.scope, "scope", "", "how far the approval reaches: once, session or pattern (default once; with --pattern, pattern)")
	cmd.Flags().StringVar(&f.args, "args", "", `JSON object: arguments to run instead of the call's own ("-" is read from stdin)`)
	cmd.Flags().StringArrayVar(&f.pattern, "pattern", nil, "name=glob: cover calls whose argument of that name matches (repeatable); other arguments must be equal")
}

// decision returns the decision of the flags, and checks it.
func (a approvalCommands) decision(given *pflag.FlagSet, f deciding, call string, decision event.Decision) (signals.Decide, error) {
	d := signals.Decide{
		ToolCallID: call, Decision: decision, Scope: event.Scope(f.scope), Reason: f.reason, Round: f.round, Digest: f.digest,
	}
	var err error
	if d.By, err = actor(f.by); err != nil {
		return d, err
	}
	if d.Pattern, err = patternOf(f.pattern); err != nil {
		return d, err
	}
	switch {
	case d.Scope != "":
	case len(d.Pattern) > 0:
		d.Scope = event.ScopePattern
	default:
		d.Scope = event.ScopeOnce
	}
	// An empty file or variable must not approve another call than the intended one.
	if given.Changed("digest") && strings.TrimSpace(f.digest) == "" {
		return d, usagef("--digest is empty, must be the request's digest; omit it to decide on the request as it is now")
	}
	if given.Changed("args") {
		text, err := a.argument("arguments", f.args)
		if err != nil {
			return d, err
		}
		if strings.TrimSpace(text) == "" {
			return d, usagef("--args is empty, must be a JSON object; omit it to run the call unchanged")
		}
		d.Args = json.RawMessage(text)
	}
	if err := d.Validate(); err != nil {
		return d, usageError{err}
	}
	return d, nil
}

// patternOf returns globs by the names of arguments.
func patternOf(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, glob, ok := strings.Cut(pair, "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, usagef("--pattern is %q, must be name=glob, and each name once", pair)
		}
		out[name] = glob
	}
	return out, nil
}

// printOutcome prints the outcome of a decision or a result. A problem, if there is one, is the
// reason for a rejection.
func (a approvalCommands) printOutcome(problem string, got signals.DecideResult, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(got); err != nil {
			return err
		}
	} else if problem == "" {
		a.say("%s%s", got.Result, missing(got))
	}
	if problem != "" {
		return errors.New(problem)
	}
	return nil
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
	switch outcome {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return ""
	case signals.DecideConflict:
		return fmt.Sprintf("tool call %q already has a conflicting decision", d.ToolCallID)
	case signals.DecideMismatch:
		return fmt.Sprintf(`tool call %q does not match the decision: its agent or tool differs, or it has a new request, `+
			`which needs its --round; "starter approvals %s" shows it`, d.ToolCallID, thread)
	case signals.DecideNotPending:
		return fmt.Sprintf("no tool call %q waits for approval in this thread", d.ToolCallID)
	case signals.DecideNotAllowed:
		return fmt.Sprintf(`%s may not decide on tool call %q: the request names its approvers, and agents of the thread never may; `+
			`"starter approvals %s" shows them`, d.By, d.ToolCallID, thread)
	}
	return fmt.Sprintf("the thread answers %q", outcome)
}
