package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// decideCommand makes the commands approve and deny.
func (a *app) decideCommand(verb string) *cobra.Command {
	decision := event.Decision(verb)
	var by, reason string
	var asJSON bool
	short := "Let a tool call run that waits for approval"
	if decision == event.Deny {
		short = "Refuse a tool call that waits for approval; the agent is told the reason"
	}
	cmd := &cobra.Command{
		Use:   verb + " <thread> <toolCallId>",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			who, err := actor(by)
			if err != nil {
				return err
			}
			if err := checkThread(args[0]); err != nil {
				return err
			}
			d := signals.Decide{ToolCallID: args[1], Decision: decision, Scope: event.Once, Reason: reason, By: who}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				outcome, err := t.Decide(ctx, args[0], d)
				if err != nil {
					return about(args[0], err)
				}
				return a.printOutcome(d, outcome, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who decides (default $USER)")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printOutcome(d signals.Decide, outcome signals.DecideOutcome, asJSON bool) error {
	problem := outcomeProblem(d, outcome)
	if asJSON {
		if err := a.printJSON(signals.DecideResult{Result: outcome}); err != nil {
			return err
		}
	} else if problem == "" {
		a.say("%s", outcome)
	}
	if problem != "" {
		return errors.New(problem)
	}
	return nil
}

// outcomeProblem says why a decision does not stand; empty if it does.
func outcomeProblem(d signals.Decide, outcome signals.DecideOutcome) string {
	switch outcome {
	case signals.Accepted, signals.AlreadyResolved:
		return ""
	case signals.Conflict:
		return fmt.Sprintf("tool call %q has been settled otherwise already", d.ToolCallID)
	case signals.Mismatch:
		return fmt.Sprintf("tool call %q is another agent's or another tool's", d.ToolCallID)
	case signals.NotPending:
		return fmt.Sprintf("no tool call %q waits for approval in this thread", d.ToolCallID)
	}
	return fmt.Sprintf("the thread answers %q", outcome)
}
