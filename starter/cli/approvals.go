package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/starter/internal/render"
)

// overviewWidth is the number of characters of a call's arguments in the list of all threads.
const overviewWidth = 60

// approvals is the part of a client of threads that these commands use.
type approvals interface {
	Approvals(ctx context.Context, threadID string) (signals.Approvals, error)
	ListApprovals(ctx context.Context, q threadclient.ApprovalsQuery) (threadclient.Waiting, error)
	Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error)
	ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error)
}

// approvalCommands are the commands on pending tool calls and on decisions.
type approvalCommands struct{ *app }

func (a approvalCommands) approvalsCommand() *cobra.Command {
	q := threadclient.ApprovalsQuery{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "approvals [thread]",
		Short: "List the tool calls that wait for approval, or for a client; without a thread, of all threads",
		Long: `List the tool calls that wait for approval, or for a connected client to run them.

Of one thread, arguments are shown whole. Without a thread, all threads that wait are asked,
the longest wait first; a call of a sub-agent is listed once, in the thread for which it works.
A thread that began to wait this moment may be missing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
					return a.threadApprovals(ctx, t, args[0], asJSON)
				})
			}
			if q.Limit < 1 || q.Limit > threadclient.MaxApprovalsLimit {
				return usagef("--limit is %d, must be 1 to %d threads", q.Limit, threadclient.MaxApprovalsLimit)
			}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				return a.allApprovals(ctx, t, q, asJSON)
			})
		},
	}
	cmd.Flags().IntVar(&q.Limit, "limit", threadclient.DefaultApprovalsLimit, "how many threads are asked, the newest of those that wait")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a approvalCommands) threadApprovals(ctx context.Context, t approvals, thread string, asJSON bool) error {
	found, err := t.Approvals(ctx, thread)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(found)
	}
	var waiting threadclient.Waiting
	for _, r := range found.Approvals {
		waiting.Approvals = append(waiting.Approvals, threadclient.WaitingApproval{ThreadID: thread, Request: r})
	}
	for _, c := range found.ClientCalls {
		waiting.ClientCalls = append(waiting.ClientCalls, threadclient.WaitingCall{ThreadID: thread, Call: c})
	}
	if !a.printWaiting(waiting, 0) {
		a.warn("no tool calls wait in thread %q", thread)
	}
	return nil
}

func (a approvalCommands) allApprovals(ctx context.Context, t approvals, q threadclient.ApprovalsQuery, asJSON bool) error {
	found, err := t.ListApprovals(ctx, q)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(found)
	}
	if !a.printWaiting(found, overviewWidth) && len(found.Unanswered) == 0 {
		a.warn("no tool calls wait in namespace %q", a.flags.namespace)
	}
	for _, thread := range found.Unanswered {
		a.warn("thread %q waits too, but did not answer: \"starter approvals %s\" asks it again", thread, thread)
	}
	if found.More {
		a.warn("more threads wait: --limit asks more than %d", q.Limit)
	}
	return nil
}

// printWaiting reports whether it printed anything.
func (a approvalCommands) printWaiting(found threadclient.Waiting, width int) bool {
	opts := render.ApprovalOptions{Width: width}
	approvals, clients := render.Approvals(found.Approvals, opts), render.ClientCalls(found.ClientCalls, opts)
	between := ""
	if approvals != "" && clients != "" {
		between = "\n"
	}
	fmt.Fprint(a.stdout, approvals+between+clients)
	return approvals+clients != ""
}

func (a approvalCommands) toolResultCommand() *cobra.Command {
	var r signals.ToolResult
	var by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tool-result <thread> <toolCallId> <output>",
		Short: "Post the result of a tool call that a connected client runs",
		Long: `Post the result of a tool call that a connected client runs: "starter approvals" lists them. The agent goes
on with the output, any text; "-" is read from stdin. A call is answered once.`,
		Example: `  starter tool-result t1 call_2 "42 degrees"
  starter tool-result t1 call_2 "no sensor found" --error`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if r.By, err = actor(by); err != nil {
				return err
			}
			r.ToolCallID = args[1]
			if r.Output, err = a.argument("output", args[2]); err != nil {
				return err
			}
			if err := r.Validate(); err != nil {
				return usageError{err}
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.ToolResult(ctx, args[0], r)
				if err != nil {
					return err
				}
				return a.printOutcome(resultProblem(args[0], r, got), signals.DecideResult{Result: got}, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&r.IsError, "error", false, "the output says why the call has failed")
	cmd.Flags().StringVar(&by, "by", "", "who or what has run it (default $USER)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// resultProblem returns the reason why a result was not accepted; empty if it was.
func resultProblem(thread string, r signals.ToolResult, outcome signals.DecideOutcome) string {
	switch outcome {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
		return ""
	case signals.DecideConflict:
		return fmt.Sprintf("tool call %q has another result already", r.ToolCallID)
	case signals.DecideNotPending:
		return fmt.Sprintf(`no tool call %q waits for a client in this thread; "starter approvals %s" lists those that do`, r.ToolCallID, thread)
	case signals.DecideNotAllowed:
		return fmt.Sprintf("%s may not answer tool call %q: agents of the thread never may", r.By, r.ToolCallID)
	case signals.DecideMismatch:
	}
	return fmt.Sprintf("the thread answers %q", outcome)
}
