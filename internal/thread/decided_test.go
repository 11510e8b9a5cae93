package thread

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// votes is a decision of somebody.
func votes(by string, d event.Decision) signals.Decide {
	return signals.Decide{ToolCallID: "c1", Decision: d, By: by, Reason: by + " says so"}
}

func TestSeveralHaveToApprove(t *testing.T) {
	three := func(t *testing.T) (*State, *Run) {
		t.Helper()
		s, r := waiting(t, careful("c1", "rm", AskPlan{Quorum: 3}))
		s.Flushed(s.Flush())
		return s, r
	}
	decide := func(s *State, by string, d event.Decision) signals.DecideResult {
		return s.DecideChecked(t0, votes(by, d), CheckReply{})
	}
	t.Run("it runs when all have", func(t *testing.T) {
		s, r := three(t)
		require.Equal(t, signals.DecideResult{Result: signals.Accepted, Missing: 2}, decide(s, "ann", event.Approve))
		require.Equal(t, Waiting, r.Calls[0].Stage)
		require.True(t, s.Overdue(0, false), "people see who is missing")
		s = copied(t, s)
		r = s.Turn.Runs[0]
		require.Equal(t, signals.DecideResult{Result: signals.Accepted, Missing: 1}, decide(s, "bea", event.Approve))
		require.Equal(t, []event.Vote{{By: "ann", At: t0, Reason: "ann says so"}, {By: "bea", At: t0, Reason: "bea says so"}}, s.Approvals()[0].Votes)
		require.Equal(t, signals.DecideResult{Result: signals.Accepted}, decide(s, "cas", event.Approve))
		require.Equal(t, Ready, r.Calls[0].Stage)
		require.Equal(t, []string{"c1.decision.vote.1", "c1.decision.vote.2", "c1.decision"}, recordIDs(s.Pending))
		kept := approvals(t, s)
		require.Equal(t, 2, kept["c1.decision.vote.1"].Missing)
		require.Equal(t, "ann", kept["c1.decision.vote.1"].By)
		require.Zero(t, kept["c1.decision"].Missing)
		require.Len(t, kept["c1.decision"].Votes, 3, "S4-95 all of them")
	})
	t.Run("S4-94 the same person counts once", func(t *testing.T) {
		s, r := three(t)
		decide(s, "ann", event.Approve)
		before := asJSON(t, s)
		for _, by := range []string{"ann", "ANN", " ann", "ann\u00a0"} {
			require.Equal(t, signals.DecideResult{Result: signals.AlreadyResolved, Missing: 2}, decide(s, by, event.Approve))
		}
		require.Equal(t, before, asJSON(t, s))
		require.Equal(t, Waiting, r.Calls[0].Stage)
	})
	t.Run("one denial denies", func(t *testing.T) {
		s, r := three(t)
		decide(s, "ann", event.Approve)
		require.Equal(t, signals.DecideResult{Result: signals.Accepted}, decide(s, "bea", event.Deny))
		require.Equal(t, CallSettled, r.Calls[0].Stage)
		require.Equal(t, map[string]string{"c1": DeniedText + " Reason: bea says so"}, results(t, s), "S4-82")
		end := approvals(t, s)["c1.decision"]
		require.Equal(t, event.Deny, end.Decision)
		require.Equal(t, []event.Vote{{By: "ann", At: t0, Reason: "ann says so"}}, end.Votes)
		require.Equal(t, signals.Conflict, decide(s, "cas", event.Approve).Result)
	})
	t.Run("also by one who has approved", func(t *testing.T) {
		s, r := three(t)
		decide(s, "ann", event.Approve)
		require.Equal(t, signals.Accepted, decide(s, "ann", event.Deny).Result)
		require.Equal(t, CallSettled, r.Calls[0].Stage)
	})
	t.Run("each approves the same", func(t *testing.T) {
		s, _ := three(t)
		d := votes("ann", event.Approve)
		require.NoError(t, s.CheckAlone(d))
		d.Args = json.RawMessage(`{"command":"ls"}`)
		requireField(t, "args", s.CheckAlone(d))
		for _, scope := range []event.Scope{event.Session, event.Pattern} {
			d = votes("ann", event.Approve)
			d.Scope = scope
			requireField(t, "scope", s.CheckAlone(d))
			s.Flushed(s.Flush())
			s.TakeDecision(t0, d)
			require.Len(t, pending(s, event.TypeRejected), 1, "it leaves an audit record")
			require.Empty(t, s.Approvals()[0].Votes)
		}
		d.ToolCallID = "c9"
		require.NoError(t, s.CheckAlone(d), "there is no such call")
	})
}

func TestWhoMayDecide(t *testing.T) {
	for _, tc := range []struct {
		name, by  string
		approvers []string
		want      signals.DecideOutcome
	}{
		{"anybody", "eve", nil, signals.Accepted},
		{"one of those who are asked", "bea", []string{"ann", "bea"}, signals.Accepted},
		{"somebody else", "eve", []string{"ann", "bea"}, signals.NotAllowed},
		{"one who looks alike", "\u0430nn", []string{"ann", "bea"}, signals.NotAllowed},
		{"one in capitals", "ANN", []string{"ann", "bea"}, signals.NotAllowed},
		{"the agent itself", "alice", nil, signals.NotAllowed},
		{"the agent in capitals", "ALICE", nil, signals.NotAllowed},
		{"the agent with a space that nobody sees", "alice ", nil, signals.NotAllowed},
		{"another agent of the thread", "bob", nil, signals.NotAllowed},
		{"an agent that is among those who are asked", "bob", []string{"bob"}, signals.NotAllowed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, d := range []event.Decision{event.Approve, event.Deny} {
				s := newState("alice", "bob")
				r := begin(t, s, "e1", "@alice go").Runs[0]
				step(t, s, r, "", careful("c1", "rm", AskPlan{Approvers: tc.approvers}))
				before := asJSON(t, s)
				require.Equal(t, tc.want, s.Decide(t0, signals.Decide{ToolCallID: "c1", Decision: d, By: tc.by}))
				if tc.want == signals.NotAllowed {
					require.Equal(t, before, asJSON(t, s), "it changes nothing")
					s.TakeDecision(t0, signals.Decide{ToolCallID: "c1", Decision: d, By: tc.by})
					require.Equal(t, "not_allowed", payload[event.Rejected](t, pending(s, event.TypeRejected)[0]).Problem)
				}
			}
		})
	}
	t.Run("the default agent", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		require.Equal(t, signals.NotAllowed, s.Decide(t0, votes("Assistant", event.Approve)))
	})
}

// TestDecisionOnAnotherCall: whoever decides has seen the call that waits, or nothing happens.
func TestDecisionOnAnotherCall(t *testing.T) {
	for name, change := range map[string]func(*signals.Decide){
		"S4-93 other arguments":         func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"command":"rm -rf /"}`) },
		"S4-93 an argument more":        func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"command":"rm","force":true}`) },
		"arguments that are none":       func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`"rm"`) },
		"arguments that cannot be read": func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{`) },
		"another directory":             func(d *signals.Decide) { d.WorkingDirectory = "/desk/../etc" },
		"another digest":                func(d *signals.Decide) { d.Digest = "digest of ls" },
		"another round":                 func(d *signals.Decide) { d.Round = 2 },
		"S4-92 another agent":           func(d *signals.Decide) { d.Agent = "bob" },
		"another tool":                  func(d *signals.Decide) { d.ToolName = "shell" },
	} {
		t.Run(name, func(t *testing.T) {
			s, r := waiting(t, careful("c1", "rm", AskPlan{}))
			for _, decision := range []event.Decision{event.Approve, event.Deny} {
				d := votes("ann", decision)
				change(&d)
				before := asJSON(t, s)
				require.Equal(t, signals.Mismatch, s.Decide(t0, d))
				require.Equal(t, before, asJSON(t, s))
				require.Equal(t, Waiting, r.Calls[0].Stage)
			}
		})
	}
	t.Run("the same, however it is written", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		d := votes("ann", event.Approve)
		d.ToolArgs, d.ToolName, d.Agent = json.RawMessage(` { "command" : "r\u006d" } `), "Shell_CMD", "ASSISTANT"
		d.WorkingDirectory, d.Digest, d.Round = "/desk", "digest of rm", 1
		require.Equal(t, signals.Accepted, s.Decide(t0, d))
	})
	t.Run("arguments of a call that has no digest", func(t *testing.T) {
		s, _ := waiting(t, asks("c1"))
		d := votes("ann", event.Approve)
		d.ToolArgs = json.RawMessage(`{"command":"rm"}`)
		require.Equal(t, signals.Mismatch, s.Decide(t0, d))
	})
}

// TestEditedArguments: they run only if they were checked, and are kept beside the call's
// own, which stay as they are.
func TestEditedArguments(t *testing.T) {
	edit := votes("ann", event.Approve)
	edit.Args = json.RawMessage(`{"command":"rm -i a"}`)
	fits := CheckReply{Guard: &Guard{Digest: "digest of rm -i a", Definition: "definition", WorkingDirectory: "/desk", Arguments: "sum"}}
	t.Run("S4-93 recorded beside the call's own", func(t *testing.T) {
		s, r := waiting(t, careful("c1", "rm", AskPlan{}))
		in, ok := s.Unchecked(edit)
		require.True(t, ok)
		require.Equal(t, CheckStep{
			Thread: s.Ref(), Agent: "assistant", MessageID: "e1.0.1", ToolCallID: "c1", By: "ann", Args: `{"command":"rm -i a"}`,
			Guard: careful("c1", "rm", AskPlan{}).Guard,
		}, in)
		require.Equal(t, signals.Accepted, s.DecideChecked(t0, edit, fits).Result)
		made := approvals(t, s)["c1.decision"]
		require.JSONEq(t, `{"command":"rm -i a"}`, made.Arguments)
		require.Equal(t, "digest of rm -i a", made.Digest, "that is what was approved")
		require.Equal(t, "definition", made.Definition, "an edit may be about another tool within the call's own")
		require.Equal(t, event.Once, made.Scope)
		require.Equal(t, fits.Guard, r.Calls[0].ToolStep(nil).Guard)
	})
	t.Run("they read as they were written", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		carried := edit
		carried.Args = json.RawMessage(`{"command":"ls \u003e a \u0026\u0026 echo '\\u003e'"}`)
		require.Equal(t, signals.Accepted, s.DecideChecked(t0, carried, fits).Result)
		require.Equal(t, `{"command":"ls > a && echo '\\u003e'"}`, approvals(t, s)["c1.decision"].Arguments)
	})
	t.Run("unchecked, neither they nor the call itself", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		before := asJSON(t, s)
		require.Equal(t, signals.Mismatch, s.Decide(t0, edit))
		require.Equal(t, before, asJSON(t, s))
	})
	t.Run("what does not fit is rejected", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		s.TakeDecision(t0, edit)
		require.Equal(t, []signals.Decide{edit}, s.ToCheck, "it is checked first")
		require.Len(t, s.Approvals(), 1)
		s.DecideOrReject(t0, edit, CheckReply{Field: "args", Problem: "do not fit the tool"})
		require.Equal(t, "args: do not fit the tool", payload[event.Rejected](t, pending(s, event.TypeRejected)[0]).Problem)
		require.Len(t, s.Approvals(), 1)
		s.DecideOrReject(t0, edit, fits)
		require.Empty(t, s.Approvals())
	})
	t.Run("too many to be checked", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		for range maxEarly + 1 {
			s.TakeDecision(t0, edit)
		}
		require.Len(t, s.ToCheck, maxEarly)
		require.Len(t, pending(s, event.TypeRejected), 1)
		require.Len(t, s.Approvals(), 1)
	})
	t.Run("there is nothing to check", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
		_, ok := s.Unchecked(votes("ann", event.Approve))
		require.False(t, ok, "the call as it is")
		other := edit
		other.ToolCallID = "c9"
		_, ok = s.Unchecked(other)
		require.False(t, ok, "no such call")
		other = edit
		other.ToolName = "note"
		_, ok = s.Unchecked(other)
		require.False(t, ok, "another call")
	})
	t.Run("another round has begun while they were checked", func(t *testing.T) {
		s, r := waiting(t, careful("c1", "rm", AskPlan{}))
		s.Decide(t0, votes("bea", event.Approve))
		r.Calls[0].AskAgain(t0, careful("c1", "rm", AskPlan{}))
		require.Equal(t, signals.Mismatch, s.DecideChecked(t0, edit, fits).Result)
	})
}

// TestScopeIsRecorded: grants are derived from what is recorded here.
func TestScopeIsRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		scope, want event.Scope
		checked     CheckReply
	}{
		"S4-T19 once":            {event.Once, event.Once, CheckReply{}},
		"S4-T19 unless it says":  {"", event.Once, CheckReply{}},
		"S4-T18 for the session": {event.Session, event.Session, CheckReply{}},
		"by a pattern":           {event.Pattern, event.Pattern, CheckReply{Rest: "rest", Guard: &Guard{}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := waiting(t, careful("c1", "rm", AskPlan{}))
			d := votes("ann", event.Approve)
			d.Scope = tc.scope
			if tc.scope == event.Pattern {
				d.Pattern = map[string]string{"command": "rm *"}
				in, ok := s.Unchecked(d)
				require.True(t, ok)
				require.Equal(t, d.Pattern, in.Pattern)
				require.Equal(t, signals.Mismatch, s.Decide(t0, d), "it was not checked")
			}
			require.Equal(t, signals.Accepted, s.DecideChecked(t0, d, tc.checked).Result)
			require.Equal(t, event.Approval{
				ToolCallID: "c1", ToolName: "shell_cmd", Agent: "assistant", Decision: event.Approve, Scope: tc.want, Reason: "ann says so", By: "ann",
				DecidedAt: t0, Digest: "digest of rm", Definition: "definition", WorkingDirectory: "/desk", Pattern: d.Pattern, Rest: tc.checked.Rest,
			}, approvals(t, s)["c1.decision"])
		})
	}
}
