package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// forTheSession approves a call, and all like it.
func forTheSession(t *testing.T, s *State, id string) {
	t.Helper()
	d := decision(id, event.Approve)
	d.Scope = event.Session
	require.Equal(t, signals.Accepted, s.Decide(t0, d))
}

// TestCascade: a new grant is for the calls that wait already, too.
func TestCascade(t *testing.T) {
	s, r := waiting(t, careful("c1", "ls", AskPlan{}), careful("c2", "ls", AskPlan{}), careful("c3", "rm", AskPlan{}), asksOther("c4"))
	require.Nil(t, s.Cascading())
	forTheSession(t, s, "c1")
	turn := s.Cascading()
	require.Same(t, s.Turn, turn)
	run, in, ok := turn.NextCascade()
	require.True(t, ok)
	require.Same(t, r, run)
	require.Equal(t, []string{"c2", "c3"}, in.Only, "those of the same tool")
	require.True(t, in.Again)
	require.Contains(t, recordIDs(in.Flush.Records), "c1.decision", "the grant is stored before")

	turn.Cascaded()
	run.Cover(at(7), PlanReply{Calls: []PlannedCall{covered("c2", "ls", "c1"), careful("c3", "rm", AskPlan{})}})
	require.Nil(t, s.Cascading())
	require.Equal(t, []Stage{Ready, Ready, Waiting, Waiting}, stages(r))
	require.Equal(t, "c1", approvals(t, s)["c2.decision"].Grant, "S4-95")
	require.Equal(t, signals.AlreadyResolved, s.Decide(t0, decision("c2", event.Approve)))
	require.Equal(t, signals.Accepted, s.Decide(t0, decision("c3", event.Deny)), "the others are still asked about")
}

func asksOther(id string) PlannedCall {
	p := careful(id, "ls", AskPlan{})
	p.Name = "other"
	return p
}

func stages(r *Run) []Stage {
	var out []Stage
	for _, c := range r.Calls {
		out = append(out, c.Stage)
	}
	return out
}

func TestNoCascade(t *testing.T) {
	t.Run("S4-79 once is for once", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "ls", AskPlan{}), careful("c2", "ls", AskPlan{}))
		s.Decide(t0, decision("c1", event.Approve))
		require.Nil(t, s.Cascading())
		require.Len(t, s.Approvals(), 1)
	})
	t.Run("there is no other", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
		forTheSession(t, s, "c1")
		require.Nil(t, s.Cascading())
	})
	t.Run("S4-92 another agent's", func(t *testing.T) {
		s := newState("alice", "bob")
		turn := begin(t, s, "e1", "go")
		step(t, s, turn.Runs[0], "", careful("a1", "ls", AskPlan{}))
		step(t, s, turn.Runs[1], "", careful("b1", "ls", AskPlan{}))
		forTheSession(t, s, "a1")
		require.Nil(t, s.Cascading())
	})
}

// TestCascadeTooLate: what was decided, or ended, while the calls were looked at stands.
func TestCascadeTooLate(t *testing.T) {
	cascading := func(t *testing.T) (*State, *Run) {
		t.Helper()
		s, r := waiting(t, careful("c1", "ls", AskPlan{}), careful("c2", "ls", AskPlan{}))
		forTheSession(t, s, "c1")
		return s, r
	}
	reply := PlanReply{Calls: []PlannedCall{covered("c2", "ls", "c1")}}
	t.Run("denied", func(t *testing.T) {
		s, r := cascading(t)
		s.Decide(t0, decision("c2", event.Deny))
		r.Cover(t0, reply)
		require.Equal(t, CallSettled, r.Calls[1].Stage)
		require.Len(t, results(t, s), 1)
	})
	t.Run("interrupted", func(t *testing.T) {
		s, r := cascading(t)
		_ = s.Turn
		s.Interrupt(signals.Control{})
		r.Cover(t0, reply)
		require.Equal(t, Waiting, r.Calls[1].Stage)
		r.StopRun(t0)
		s.Turn.End(t0)
		before := asJSON(t, s)
		r.Cover(t0, reply)
		require.Equal(t, before, asJSON(t, s))
	})
	t.Run("the grant was taken back, and the policy denies", func(t *testing.T) {
		_, r := cascading(t)
		denied := covered("c2", "ls", "c1")
		denied.Denied = "closed"
		r.Cover(t0, PlanReply{Calls: []PlannedCall{denied}})
		r.Cover(t0, PlanReply{Calls: []PlannedCall{careful("c2", "ls", AskPlan{})}})
		require.Equal(t, Waiting, r.Calls[1].Stage)
	})
	t.Run("the run is not there any more", func(t *testing.T) {
		s, _ := cascading(t)
		s.Turn.Cascades[0].Run = 9
		_, _, ok := s.Turn.NextCascade()
		require.False(t, ok)
	})
}

// TestCascadeInOtherTurns: calls of turns that are put aside wait as well.
func TestCascadeInOtherTurns(t *testing.T) {
	for _, first := range []string{"a1", "b1"} {
		t.Run(first, func(t *testing.T) {
			s := newState("alice")
			step(t, s, begin(t, s, "e1", "go").Runs[0], "", careful("a1", "ls", AskPlan{}), careful("a2", "ls", AskPlan{}))
			step(t, s, beside(t, s, "v1").Runs[0], "", careful("b1", "ls", AskPlan{}), careful("b2", "ls", AskPlan{}))
			forTheSession(t, s, first)
			looked := map[string][]string{}
			for turn := s.Cascading(); turn != nil; turn = s.Cascading() {
				_, in, ok := turn.NextCascade()
				require.True(t, ok)
				require.Equal(t, turn.Item.ID, in.EventID)
				looked[turn.Item.ID] = append(looked[turn.Item.ID], in.Only...)
				turn.Cascaded()
			}
			want := map[string][]string{"e1": {"a2"}, "v1": {"b1", "b2"}}
			if first == "b1" {
				want = map[string][]string{"e1": {"a1", "a2"}, "v1": {"b2"}}
			}
			require.Equal(t, want, looked)
		})
	}
}
