package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// overviewWidth is the number of characters of a call's arguments in the list of all threads.
const overviewWidth = 60

// approvals is the part of a client of threads that these commands use.
type approvals interface {
	Approvals(ctx context.Context, threadID string) (signals.Approvals, error)
	ListApprovals(ctx context.Context, q threadclient.ApprovalsQuery) (threadclient.Waiting, error)
	Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error)
	AnswerInput(ctx context.Context, threadID string, a signals.InputAnswers) (signals.DecideOutcome, error)
	ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error)
}

// approvalCommands are the commands on pending tool calls and on decisions.
type approvalCommands struct{ *app }

func (a approvalCommands) approvalsCommand() *cobra.Command {
	var q threadclient.ApprovalsQuery
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "approvals [thread]",
		Short: "List the tool calls that wait for approval, for input or for a client; without a thread, of all threads",
		Long: `List the tool calls that wait for approval, for a person's input, or for a connected client to run them.

Of one thread, arguments are shown whole. Without a thread, all threads that wait are asked,
the longest wait first; a call of a sub-agent is listed once, in the thread for which it works.
A thread that began to wait this moment may be missing.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
					return a.threadApprovals(ctx, t, args[0])
				})
			}
			if q.Limit < 1 || q.Limit > threadclient.MaxApprovalsLimit {
				return usagef("--limit is %d, must be 1 to %d threads", q.Limit, threadclient.MaxApprovalsLimit)
			}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				return a.allApprovals(ctx, t, q)
			})
		},
	})
	cmd.Flags().IntVar(&q.Limit, "limit", threadclient.DefaultApprovalsLimit, "how many threads are asked, the newest of those that wait")
	return cmd
}

func (a approvalCommands) threadApprovals(ctx context.Context, t approvals, thread string) error {
	found, err := t.Approvals(ctx, thread)
	var waiting threadclient.Waiting
	for _, r := range found.Approvals {
		waiting.Approvals = append(waiting.Approvals, threadclient.WaitingApproval{ThreadID: thread, Request: r})
	}
	for _, c := range found.ClientCalls {
		waiting.ClientCalls = append(waiting.ClientCalls, threadclient.WaitingCall{ThreadID: thread, Call: c})
	}
	for _, q := range found.Inputs {
		waiting.Inputs = append(waiting.Inputs, threadclient.WaitingInput{ThreadID: thread, Request: q})
	}
	return a.show(found, err, waitingText(waiting, 0), "no tool calls wait in thread %q", thread)
}

func (a approvalCommands) allApprovals(ctx context.Context, t approvals, q threadclient.ApprovalsQuery) error {
	found, err := t.ListApprovals(ctx, q)
	none := ""
	if len(found.Unanswered) == 0 {
		none = "no tool calls wait in namespace %q"
	}
	err = a.show(found, err, waitingText(found, overviewWidth), none, a.flags.namespace)
	if err != nil || a.json {
		return err
	}
	for _, thread := range found.Unanswered {
		a.warn("thread %q waits too, but did not answer: \"starter approvals %s\" asks it again", thread, thread)
	}
	if found.More {
		a.warn("more threads wait: --limit asks more than %d", q.Limit)
	}
	return nil
}

func waitingText(found threadclient.Waiting, width int) string {
	opts := render.TableOptions{Width: width}
	tables := []string{render.Approvals(found.Approvals, opts), render.Inputs(found.Inputs, opts), render.ClientCalls(found.ClientCalls, opts)}
	return strings.Join(slices.DeleteFunc(tables, func(table string) bool { return table == "" }), "\n")
}

func (a approvalCommands) toolResultCommand() *cobra.Command {
	var r signals.ToolResult
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "tool-result <thread> <toolCallId> <output>",
		Short: "Post the result of a tool call that a connected client runs",
		Long: `Post the result of a tool call that a connected client runs: "starter approvals" lists them. The agent goes
on with the output, any text; "-" is read from stdin. A call is answered once.`,
		Example: `  starter tool-result t1 call_2 "42 degrees"
  starter tool-result t1 call_2 "no sensor found" --error`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			r.ToolCallID = args[1]
			if r.Output, err = a.argument("output", args[2]); err != nil {
				return err
			}
			if err := r.Validate(); err != nil {
				return usageError{err}
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.ToolResult(ctx, args[0], r)
				return a.showOutcome(signals.DecideResult{Result: got}, err, string(got), resultProblem(args[0], r, got))
			})
		},
	})
	cmd.Flags().BoolVar(&r.IsError, "error", false, "the output says why the call has failed")
	byFlag(cmd, "by", &r.By, "who or what has run it", actor)
	return cmd
}

// resultProblem returns the reason why a result was not accepted; empty if it was.
func resultProblem(thread string, r signals.ToolResult, outcome signals.DecideOutcome) string {
	return rejection(outcome, map[signals.DecideOutcome]string{
		signals.DecideConflict:   fmt.Sprintf("tool call %q has another result already", r.ToolCallID),
		signals.DecideNotPending: fmt.Sprintf(`no tool call %q waits for a client in this thread; "starter approvals %s" lists those that do`, r.ToolCallID, thread),
		signals.DecideNotAllowed: fmt.Sprintf("%s may not answer tool call %q: agents of the thread never may", r.By, r.ToolCallID),
	})
}
