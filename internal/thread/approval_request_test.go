package thread

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// careful is a call that people are asked about in these terms, and that is known by all
// that an approval is of.
func careful(id, command string, terms AskPlan) PlannedCall {
	args := fmt.Sprintf(`{"command":%q}`, command)
	return PlannedCall{
		ID: id, Name: "shell_cmd", NeedsApproval: true, Arguments: args, Reason: "it is a shell", Ask: &terms,
		Guard: &Guard{Digest: "digest of " + command, Definition: "definition", WorkingDirectory: "/desk", Arguments: ArgumentsSum(args)},
	}
}

// covered is how a call is planned that was approved before, with another.
func covered(id, command, by string) PlannedCall {
	p := careful(id, command, AskPlan{})
	p.NeedsApproval, p.Ask, p.Grant = false, nil, &GrantedCall{ID: by, Scope: event.Session, By: "ann"}
	return p
}

// approvals are the approvals that wait to be stored, by the ids of their records.
func approvals(t *testing.T, s *State) map[string]event.Approval {
	t.Helper()
	out := map[string]event.Approval{}
	for _, rec := range pending(s, event.TypeApproval) {
		require.NotContains(t, out, rec.ID)
		out[rec.ID] = payload[event.Approval](t, rec)
	}
	return out
}

func TestTermsOfARequest(t *testing.T) {
	expires := t0.Add(time.Hour)
	base := event.ApprovalRequest{
		ToolCallID: "c1", ToolName: "shell_cmd", Arguments: "{}", Agent: "alice", MessageID: "m1", Reason: "it is a shell", RequestedAt: t0,
		Digest: "digest of ls", Definition: "definition", WorkingDirectory: "/desk",
	}
	for name, tc := range map[string]struct {
		change func(*PlannedCall)
		want   func(*event.ApprovalRequest)
	}{
		"by whoever it may be": {func(*PlannedCall) {}, func(*event.ApprovalRequest) {}},
		"what is not known by a digest": {
			func(p *PlannedCall) { p.Guard = nil },
			func(q *event.ApprovalRequest) { q.Digest, q.Definition, q.WorkingDirectory = "", "", "" },
		},
		"no terms at all":    {func(p *PlannedCall) { p.Ask = nil }, func(*event.ApprovalRequest) {}},
		"one is as none":     {func(p *PlannedCall) { p.Ask.Quorum = 1 }, func(*event.ApprovalRequest) {}},
		"several":            {func(p *PlannedCall) { p.Ask.Quorum = 2 }, func(q *event.ApprovalRequest) { q.Quorum = 2 }},
		"certain people":     {func(p *PlannedCall) { p.Ask.Approvers = []string{"bea"} }, func(q *event.ApprovalRequest) { q.Approvers = []string{"bea"} }},
		"for a certain time": {func(p *PlannedCall) { p.Ask.Expires = time.Hour }, func(q *event.ApprovalRequest) { q.ExpiresAt = &expires }},
	} {
		t.Run(name, func(t *testing.T) {
			p, want := careful("c1", "ls", AskPlan{}), base
			tc.change(&p)
			tc.want(&want)
			require.Equal(t, want, p.Request("alice", "m1", "{}", t0))
		})
	}
}

func TestRecordIDsOfApprovals(t *testing.T) {
	request := func(round, reminder int) string {
		return event.RequestID(event.ApprovalRequest{ToolCallID: "c1", Round: round, Reminder: reminder})
	}
	require.Equal(t, []string{"c1.request", "c1.request", "c1.request.2", "c1.reminder.1", "c1.reminder.3"},
		[]string{request(0, 0), request(1, 0), request(2, 0), request(0, 1), request(2, 3)})
	require.Equal(t, []string{"c1.decision", "c1.decision", "c1.decision.2"},
		[]string{event.DecisionID("c1", 0), event.DecisionID("c1", 1), event.DecisionID("c1", 2)})
}

func TestPolicyDenies(t *testing.T) {
	p := careful("c1", "rm -rf /", AskPlan{})
	p.NeedsApproval, p.Denied, p.DeniedBy = false, "nothing is removed here", "policy no-rm"
	s, r := waiting(t, p, runs("c2"))
	require.Empty(t, s.Approvals(), "nobody is asked")
	require.Equal(t, CallSettled, r.Calls[0].Stage)
	require.Equal(t, map[string]string{"c1": "Error: the policy denies this call (nothing is removed here). It was not run."}, results(t, s), "S4-71")
	require.Equal(t, map[string]event.Approval{"c1.decision": {
		ToolCallID: "c1", ToolName: "shell_cmd", Agent: "assistant", Decision: event.Deny, Scope: event.Once, By: "policy no-rm",
		Reason: "nothing is removed here", DecidedAt: t0, Digest: "digest of rm -rf /", Definition: "definition", WorkingDirectory: "/desk",
	}}, approvals(t, s), "S4-95")
	require.Equal(t, Ready, r.Calls[1].Stage, "its siblings run")
	require.Equal(t, signals.Conflict, s.Decide(t0, decision("c1", event.Approve)), "no person's word is above the policy")
}

func TestCoveredCallRunsUnasked(t *testing.T) {
	s, r := waiting(t, covered("c2", "ls", "c1"))
	c := r.Calls[0]
	t.Run("S4-80 nobody is asked", func(t *testing.T) {
		require.Empty(t, s.Approvals())
		require.Equal(t, Ready, c.Stage)
		require.Equal(t, signals.AlreadyResolved, s.Decide(t0, decision("c2", event.Approve)))
	})
	t.Run("S4-95 the record says why", func(t *testing.T) {
		require.Equal(t, map[string]event.Approval{"c2.decision": {
			ToolCallID: "c2", ToolName: "shell_cmd", Agent: "assistant", Decision: event.Approve, Scope: event.Once, By: "ann", DecidedAt: t0,
			Digest: "digest of ls", Definition: "definition", WorkingDirectory: "/desk", Grant: "c1",
		}}, approvals(t, s))
	})
	in := c.ToolStep(nil)
	require.Equal(t, "c2.decision", in.DecisionID, "the step looks at it again")
	require.Equal(t, c.Plan.Guard, in.Guard)
}

// TestAskAgain: an approval that does not hold when the call is to run is worth nothing.
func TestAskAgain(t *testing.T) {
	approved := func(t *testing.T) (*State, *Run, *Call) {
		t.Helper()
		s, r := waiting(t, careful("c1", "ls", AskPlan{Remind: time.Minute}))
		require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Approve)))
		require.Equal(t, "c1.decision", r.Calls[0].ToolStep(nil).DecisionID)
		s.Flushed(s.Flush())
		return s, r, r.Calls[0]
	}
	second := func(d event.Decision) signals.Decide {
		out := decision("c1", d)
		out.Round = 2
		return out
	}
	t.Run("people are asked a second time", func(t *testing.T) {
		s, _, c := approved(t)
		c.AskAgain(at(5), careful("c1", "ls", AskPlan{Remind: time.Minute}))
		require.Equal(t, Waiting, c.Stage)
		require.Equal(t, []string{"c1.request.2"}, recordIDs(s.Pending))
		asked := payload[event.ApprovalRequest](t, s.Pending[0])
		require.Equal(t, 2, asked.Round)
		require.Equal(t, []event.ApprovalRequest{asked}, s.Approvals())
		require.Equal(t, at(65), *c.RemindAt)
		require.Empty(t, c.ToolStep(nil).DecisionID, "the first approval is no more")
	})
	t.Run("S4-94 the decision before is no answer, not even once more", func(t *testing.T) {
		s, _, c := approved(t)
		c.AskAgain(t0, careful("c1", "ls", AskPlan{}))
		for _, again := range []*State{s, copied(t, s)} {
			before := asJSON(t, again)
			require.Equal(t, signals.Mismatch, again.Decide(t0, decision("c1", event.Approve)))
			require.Equal(t, signals.Mismatch, again.Decide(t0, decision("c1", event.Deny)))
			wrong := second(event.Approve)
			wrong.Round = 3
			require.Equal(t, signals.Mismatch, again.Decide(t0, wrong))
			require.Equal(t, before, asJSON(t, again))
		}
		s.Flushed(s.Flush())
		require.Equal(t, signals.Accepted, s.Decide(at(9), second(event.Approve)))
		require.Equal(t, []string{"c1.decision.2"}, recordIDs(s.Pending))
		require.Equal(t, 2, approvals(t, s)["c1.decision.2"].Round)
		require.Equal(t, "c1.decision.2", c.ToolStep(nil).DecisionID)
		require.Equal(t, signals.AlreadyResolved, s.Decide(at(9), second(event.Approve)))
	})
	t.Run("a third time", func(t *testing.T) {
		s, _, c := approved(t)
		for round := 2; round <= 3; round++ {
			c.AskAgain(t0, careful("c1", "ls", AskPlan{}))
			d := decision("c1", event.Approve)
			d.Round = round
			require.Equal(t, signals.Accepted, s.Decide(t0, d))
		}
		require.Equal(t, []string{"c1.request.2", "c1.decision.2", "c1.request.3", "c1.decision.3"}, recordIDs(s.Pending))
	})
	t.Run("S4-82 and denied", func(t *testing.T) {
		s, r, c := approved(t)
		c.AskAgain(t0, careful("c1", "ls", AskPlan{}))
		require.Equal(t, signals.Accepted, s.Decide(t0, second(event.Deny)))
		require.Equal(t, map[string]string{"c1": DeniedText}, results(t, s))
		r.ToolsDone(t0)
		require.Equal(t, PhaseModel, r.Phase)
	})
	t.Run("the policy denies it meanwhile", func(t *testing.T) {
		s, _, c := approved(t)
		p := careful("c1", "ls", AskPlan{})
		p.NeedsApproval, p.Denied, p.DeniedBy = false, "closed", "policy night"
		c.AskAgain(t0, p)
		require.Equal(t, CallSettled, c.Stage)
		require.Equal(t, event.Deny, approvals(t, s)["c1.decision.2"].Decision)
		require.Len(t, results(t, s), 1)
		require.Equal(t, signals.Conflict, s.Decide(t0, second(event.Approve)))
	})
	t.Run("another approval covers it meanwhile", func(t *testing.T) {
		s, _, c := approved(t)
		c.AskAgain(t0, covered("c1", "ls", "c0"))
		require.Equal(t, Ready, c.Stage)
		require.Equal(t, "c0", approvals(t, s)["c1.decision.2"].Grant)
		require.Equal(t, "c1.decision.2", c.ToolStep(nil).DecisionID)
	})
	t.Run("it may simply run meanwhile", func(t *testing.T) {
		s, _, c := approved(t)
		c.AskAgain(t0, runs("c1"))
		require.Equal(t, Ready, c.Stage)
		require.Empty(t, s.Pending)
		require.Empty(t, c.ToolStep(nil).DecisionID)
	})
	t.Run("votes count for the round in which they were given", func(t *testing.T) {
		s, r := waiting(t, careful("c1", "ls", AskPlan{Quorum: 2}))
		for _, by := range []string{"ann", "bea"} {
			require.Equal(t, signals.Accepted, s.Decide(t0, signals.Decide{ToolCallID: "c1", Decision: event.Approve, By: by}))
		}
		r.Calls[0].AskAgain(t0, careful("c1", "ls", AskPlan{Quorum: 2}))
		require.Empty(t, s.Approvals()[0].Votes)
		out := s.DecideChecked(t0, second(event.Approve), CheckReply{})
		require.Equal(t, signals.DecideResult{Result: signals.Accepted, Missing: 1}, out)
		require.Contains(t, approvals(t, s), "c1.decision.2.vote.1")
	})
}

// TestGuardedCalls: what no step of its own runs is looked at again before it begins.
func TestGuardedCalls(t *testing.T) {
	p := careful("c1", "make", AskPlan{})
	p.By, p.Task = ByTask, &TaskPlan{Tool: "shell_cmd"}
	s, r := waiting(t, p, runs("c2"))
	c := r.Calls[0]
	require.False(t, c.Guarded(), "it was not approved yet")
	s.Decide(t0, decision("c1", event.Approve))
	require.True(t, c.Guarded())
	require.False(t, r.Calls[1].Guarded(), "its step does it itself")
	in := c.GuardStep()
	require.Equal(t, []string{"c1"}, in.Only)
	require.True(t, in.Again, "it asks nobody by itself")
	require.Equal(t, map[string]string{"c1": "c1.decision"}, in.Decisions)
	require.Contains(t, recordIDs(in.Flush.Records), "c1.decision", "the decision is stored before it is looked at")

	now := careful("c1", "make", AskPlan{})
	now.By, now.Task, now.NeedsApproval = ByTask, &TaskPlan{Tool: "shell_cmd", Title: "now"}, false
	require.True(t, c.Guard(t0, now))
	require.Equal(t, "now", c.Plan.Task.Title)
	require.Equal(t, Ready, c.Stage)
	require.Equal(t, "c1.decision", c.StartTask(t0).DecisionID)

	require.False(t, c.Guard(t0, careful("c1", "make", AskPlan{})))
	require.Equal(t, Waiting, c.Stage)
	require.Equal(t, 2, s.Approvals()[0].Round)

	p.Guard = nil
	old, r := waiting(t, p)
	old.Decide(t0, decision("c1", event.Approve))
	require.False(t, r.Calls[0].Guarded(), "what was planned before goes on as it began")
	require.Empty(t, r.Calls[0].StartTask(t0).DecisionID, "nothing has stored it")
}

func TestRevoke(t *testing.T) {
	s := newState()
	s.Flushed(s.Flush())
	one := s.Revoke(at(3), signals.Revoke{ToolCallID: "c1", By: "ann", Reason: "no more"})
	two := s.Revoke(at(4), signals.Revoke{ToolCallID: "c1", By: "bea"})
	require.NotEqual(t, one, two, "each is kept")
	require.Equal(t, []string{one, two}, recordIDs(s.Pending))
	require.Equal(t, event.Approval{
		ToolCallID: "c1", Decision: event.ApprovalRevoked, Scope: event.Once, By: "ann", Reason: "no more", DecidedAt: at(3),
	}, approvals(t, s)[one])
	require.True(t, s.Unwritten(one))
	s.Flushed(s.Flush())
	require.False(t, s.Unwritten(one))
}
