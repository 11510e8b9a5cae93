package mcpserver

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// approval is a tool call that waits for a decision.
type approval struct {
	Thread     string     `json:"thread" jsonschema:"The thread: for decide_approval"`
	ToolCallID string     `json:"toolCallId" jsonschema:"The call: for decide_approval"`
	Tool       string     `json:"tool" jsonschema:"The tool"`
	Agent      string     `json:"agent" jsonschema:"The agent that made the call"`
	Arguments  string     `json:"arguments" jsonschema:"The arguments, as JSON"`
	Directory  string     `json:"workingDirectory,omitempty" jsonschema:"Where the call would work"`
	Reason     string     `json:"reason,omitempty" jsonschema:"Why a decision is needed"`
	Round      int        `json:"round,omitempty" jsonschema:"The round of the request, if it is not the first: for decide_approval"`
	Digest     string     `json:"digest,omitempty" jsonschema:"Digest of what is decided: for decide_approval"`
	Approvers  []string   `json:"approvers,omitempty" jsonschema:"The only people who may decide"`
	Groups     []string   `json:"groups,omitempty" jsonschema:"The groups whose members may decide too"`
	Quorum     int        `json:"quorum,omitempty" jsonschema:"How many have to approve, if more than one"`
	ExpiresAt  *time.Time `json:"expiresAt,omitempty" jsonschema:"When the request ends without a decision"`
}

func approvalOf(thread string, r event.ApprovalRequest) approval {
	return approval{
		Thread: thread, ToolCallID: r.ToolCallID, Tool: r.ToolName, Agent: r.Agent, Arguments: cut(r.Arguments, maxArguments),
		Directory: cut(r.WorkingDirectory, maxLine), Reason: cut(r.Reason, maxError), Round: r.Round, Digest: r.Digest,
		Approvers: r.Approvers, Groups: r.Groups, Quorum: r.Quorum, ExpiresAt: r.ExpiresAt,
	}
}

type approvalsArgs struct {
	Thread string `json:"thread,omitempty" jsonschema:"Only the calls of this thread. Default: of all threads" maxLength:"128"`
}

type approvalList struct {
	Approvals []approval `json:"approvals" jsonschema:"The calls on which somebody has to decide, the longest wait first"`
	Inputs    []input    `json:"inputs,omitempty" jsonschema:"The calls whose questions somebody has to answer: for answer_input"`
	More      bool       `json:"more,omitempty" jsonschema:"Whether more calls wait than are listed"`
}

// maxApprovals is the maximum number of calls in a list.
const maxApprovals = 50

func (s *server) approvalsTool() tool {
	return define("list_approvals", "List approvals", "Lists the tool calls that wait for a person: for a decision, or for input.",
		reads, true, []auth.Role{auth.RoleRead},
		func(ctx context.Context, _ *call, in approvalsArgs) (approvalList, error) {
			out := approvalList{Approvals: []approval{}}
			if in.Thread != "" {
				all, err := s.api.Approvals(ctx, in.Thread)
				for _, r := range all.Approvals {
					out.add(in.Thread, r)
				}
				for _, q := range all.Inputs {
					out.ask(in.Thread, q)
				}
				return out, problem(err, "thread")
			}
			all, err := s.api.AllApprovals(ctx)
			for _, w := range all.Approvals {
				out.add(w.ThreadID, w.Request)
			}
			for _, w := range all.Inputs {
				out.ask(w.ThreadID, w.Request)
			}
			out.More = out.More || all.More || len(all.Unanswered) > 0
			return out, problem(err, "thread")
		})
}

func (l *approvalList) add(thread string, r event.ApprovalRequest) {
	if len(l.Approvals) == maxApprovals {
		l.More = true
		return
	}
	l.Approvals = append(l.Approvals, approvalOf(thread, r))
}

type decideArgs struct {
	Thread     string `json:"thread" jsonschema:"The thread" maxLength:"128"`
	ToolCallID string `json:"toolCallId" jsonschema:"The call"`
	Decision   string `json:"decision" jsonschema:"approve: the call runs. deny: it does not, and the agent is told why" enum:"approve,deny"`
	Reason     string `json:"reason,omitempty" jsonschema:"Why. The agent is told of a denial" maxLength:"4096"`
	Round      int    `json:"round,omitempty" jsonschema:"The round of the request, if it names one" minimum:"0" maximum:"1000000"`
	Digest     string `json:"digest,omitempty" jsonschema:"The digest of the request: another call than that is not decided on" maxLength:"128"`
	By         string `json:"by,omitempty" jsonschema:"The name of the person who decides. Required without an API key, whose name it otherwise is"`
}

type decision struct {
	Result  string `json:"result" jsonschema:"accepted, or already_resolved if the same was decided before"`
	Missing int    `json:"missing,omitempty" jsonschema:"How many more have to approve: the call still waits"`
}

func (s *server) decideTool() tool {
	return define("decide_approval", "Decide on a tool call",
		"Approves or denies a tool call that waits. An approved call runs, with all its effects. Decide only as the person asks, who has seen the tool and its arguments. "+
			"Afterwards wait_for_turn has the result of the turn.",
		decides, true, []auth.Role{auth.RoleApprove},
		func(ctx context.Context, _ *call, in decideArgs) (decision, error) {
			got, err := s.api.Decide(ctx, in.Thread, signals.Decide{
				ToolCallID: in.ToolCallID, Decision: event.Decision(in.Decision), Reason: in.Reason, Round: in.Round, Digest: in.Digest, By: in.By,
			})
			return decision{Result: string(got.Result), Missing: got.Missing}, problem(err, "toolCallId")
		})
}
