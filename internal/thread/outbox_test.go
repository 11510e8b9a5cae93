package thread

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

func TestFlushed(t *testing.T) {
	s := newState()
	post(t, s, says("e1", "x"))
	item, _ := s.Inbox.Next(t0)
	s.entered(t0, item)
	first := s.Outbox.Flush()
	require.Len(t, first.Records, 2)
	s.Reject(t0, "post", "x", event.ErrInvalid)
	s.Outbox.Flushed(first)
	require.Len(t, s.Outbox.Pending, 1, "what came after stays")
	require.Equal(t, event.TypeRejected, s.Outbox.Pending[0].Type)
	require.Nil(t, s.Outbox.Row)
	require.Len(t, first.Records, 2, "what was handed over is not touched")
	require.Equal(t, "e1", first.Records[1].ID)
	s.Outbox.Flushed(first)
	require.Len(t, s.Outbox.Pending, 1, "twice is once")
	s.Outbox.Flushed(step.Flush{})
	require.True(t, s.Outbox.Unstored())
}

func TestFlushedRow(t *testing.T) {
	s := newState()
	before := s.Outbox.Flush()
	s.Closing = &signals.Control{}
	s.Close(t0)
	s.Outbox.Flushed(before)
	require.NotNil(t, s.Outbox.Row, "a row that changed meanwhile is still to be stored")
	require.Equal(t, "closed", s.Outbox.Row.Status)
}

// TestRowNumbers: a row has a greater number than all that were handed over before it, so
// that a late retry of a step that took one of those along does not take the store back.
func TestRowNumbers(t *testing.T) {
	rename := func(s *State, at time.Time) { s.Change(at, signals.ThreadChange{Title: "Another"}) }
	for _, tc := range []struct {
		name string
		then func(*State) *State
	}{
		{"changed", func(s *State) *State { rename(s, t0.Add(time.Second)); return s }},
		{"changed at the same time", func(s *State) *State { rename(s, t0); return s }},
		{"changed when the clock was put back", func(s *State) *State { rename(s, t0.Add(-time.Hour)); return s }},
		{"changed once the first is stored", func(s *State) *State { s.Outbox.Flushed(s.Outbox.Flush()); rename(s, t0); return s }},
		{"changed twice before it is handed over", func(s *State) *State { rename(s, t0); rename(s, t0); return s }},
		{"changed in the next run", func(s *State) *State { s = copied(t, s); rename(s, t0); return s }},

		{"closed", func(s *State) *State { s.Closing = &signals.Control{}; s.Close(t0); return s }},
		{"of a thread of the same id", func(*State) *State { return New("ns", "t1", signals.Start{}, t0.Add(time.Second), t0.Add(time.Second)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("alice")
			before := s.Outbox.Flush().Row
			as := *before
			after := tc.then(s).Outbox.Flush().Row
			require.Positive(t, before.Number)
			require.Greater(t, after.Number, before.Number)
			require.Equal(t, as, *before, "what was handed over is not touched")
		})
	}
}

// TestOverdue: what people wait to see is stored by itself when no step takes it along.
func TestOverdue(t *testing.T) {
	ask := func(id string) step.PlannedCall {
		return careful(id, "ls", step.ApprovalPlan{Quorum: 2, EndsTurn: true})
	}
	for _, tc := range []struct {
		name     string
		calls    []step.PlannedCall
		then     func(*State, *AgentRun)
		underWay int
		leaving  bool
		want     bool
	}{
		{name: "nothing has happened", calls: []step.PlannedCall{ask("c1")}},
		{name: "the only call is denied: the model is next", calls: []step.PlannedCall{ask("c1")}, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
		}},
		{name: "the only call has one vote", calls: []step.PlannedCall{ask("c1")}, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, votes("ann", event.DecisionApprove))
		}},
		{name: "one of two is denied", calls: []step.PlannedCall{ask("c1"), ask("c2")}, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
		}},
		{name: "one of two is approved: it runs", calls: []step.PlannedCall{asks("c1"), ask("c2")}, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionApprove))
		}},
		{name: "the other runs already", calls: []step.PlannedCall{ask("c1"), runs("c2")}, underWay: 1, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
		}},
		{name: "the other runs, and has taken it along", calls: []step.PlannedCall{ask("c1"), runs("c2")}, underWay: 1, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
			s.Outbox.Flush()
		}},
		{name: "the step that took it along has failed", calls: []step.PlannedCall{ask("c1"), ask("c2")}, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
			s.Outbox.Flush()
		}},
		{name: "the result of the other is next", calls: []step.PlannedCall{ask("c1"), runs("c2")}, then: func(s *State, r *AgentRun) {
			r.Calls[1].CallRan(step.ToolReply{ToolCallID: "c2", Status: "succeeded"})
			s.Decide(t0, decision("c1", event.DecisionDeny))
		}},
		{name: "a client runs the other", calls: []step.PlannedCall{runs("c1"), ask("c2")}, want: true, then: func(s *State, r *AgentRun) {
			r.Calls[0].AskClient(t0)
		}},
		{name: "a sub-agent runs the other", calls: []step.PlannedCall{runs("c1"), ask("c2")}, want: true, then: func(s *State, r *AgentRun) {
			r.Calls[0].Stage = CallDelegated
			s.Decide(t0, decision("c2", event.DecisionDeny))
		}},
		{name: "an approval is revoked", calls: []step.PlannedCall{ask("c1")}, want: true, then: func(s *State, _ *AgentRun) {
			s.Revoke(t0, signals.Revoke{ToolCallID: "c0", By: "ann"})
		}},
		{name: "the thread has a new title", calls: []step.PlannedCall{ask("c1")}, want: true, then: func(s *State, _ *AgentRun) {
			s.Change(t0, signals.ThreadChange{Title: "new", By: "ann"})
		}},
		{name: "a new title that a step has taken along", calls: []step.PlannedCall{ask("c1"), runs("c2")}, underWay: 1, then: func(s *State, _ *AgentRun) {
			s.Change(t0, signals.ThreadChange{Title: "new", By: "ann"})
			s.Outbox.Flush()
		}},
		{name: "another row than the one that a step has taken along", calls: []step.PlannedCall{ask("c1"), runs("c2")}, underWay: 1, want: true, then: func(s *State, _ *AgentRun) {
			s.Outbox.changeRow(t0)
			s.Outbox.Flush()
			s.Outbox.changeRow(t0)
		}},
		{name: "the turn is interrupted: it ends", calls: []step.PlannedCall{ask("c1"), ask("c2")}, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
			s.Turns.Interrupt(signals.Control{})
		}},
		{name: "the turn is interrupted, and a step has yet to hear it", calls: []step.PlannedCall{ask("c1"), runs("c2")}, underWay: 1, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
			s.Turns.Interrupt(signals.Control{})
		}},
		{name: "the thread leaves: it stores by itself", calls: []step.PlannedCall{ask("c1"), ask("c2")}, leaving: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
		}},
		{name: "the thread leaves once a step has ended", calls: []step.PlannedCall{asks("c1"), runs("c2")}, leaving: true, underWay: 1, want: true, then: func(s *State, _ *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionApprove))
		}},
		{name: "a grant is looked for", calls: []step.PlannedCall{ask("c1"), ask("c2")}, then: func(s *State, r *AgentRun) {
			s.Decide(t0, decision("c1", event.DecisionDeny))
			r.Calls[0].cascade()
		}},
		{name: "the model speaks", underWay: 1, want: true, calls: []step.PlannedCall{runs("c1")}, then: func(s *State, r *AgentRun) {
			s.ran(t0, r, r.Calls[0])
			r.ToolsDone(t0)
			s.Reject(t0, "decide", 1, errors.New("no"))
		}},
		{name: "the model is about to speak", calls: []step.PlannedCall{runs("c1")}, then: func(s *State, r *AgentRun) {
			s.ran(t0, r, r.Calls[0])
			r.ToolsDone(t0)
			s.Reject(t0, "decide", 1, errors.New("no"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			r := begin(t, s, "e1", "go").Runs[0]
			takeStep(t, s, r, "", tc.calls...)
			s.Outbox.Flushed(s.Outbox.Flush())
			if tc.then != nil {
				tc.then(s, r)
			}
			require.Equal(t, tc.want, s.Turns.Overdue(tc.underWay, tc.leaving))
		})
	}
	t.Run("hooks see the item", func(t *testing.T) {
		s := newState()
		arrive(t, s, says("e1", "go"))
		require.False(t, s.Turns.Overdue(0, false), "they are about to")
		s.Outbox.Flush()
		require.False(t, s.Turns.Overdue(1, false), "they have taken it along")
		s.Reject(t0, "decide", 1, errors.New("no"))
		require.True(t, s.Turns.Overdue(1, false))
	})
	t.Run("the turn ends", func(t *testing.T) {
		s := newState()
		takeStep(t, s, begin(t, s, "e1", "go").Runs[0], "done")
		s.Reject(t0, "decide", 1, errors.New("no"))
		require.False(t, s.Turns.Overdue(0, false))
	})
	t.Run("between turns", func(t *testing.T) {
		s := newState()
		require.True(t, s.Outbox.Unstored())
		require.False(t, s.Turns.Overdue(0, false))
	})
	t.Run("before another turn", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "ls", step.ApprovalPlan{Quorum: 2}))
		s.Outbox.Flushed(s.Outbox.Flush())
		s.Decide(t0, votes("ann", event.DecisionApprove))
		post(t, s, happens("v1", "file.changed", `1`))
		require.True(t, s.Turns.CanPark())
		require.False(t, s.Turns.Overdue(0, false))
	})
}
