package thread

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestDecidedTooLate: nobody decides when the time is up, also if the timer has not rung
// because no worker ran.
func TestDecidedTooLate(t *testing.T) {
	for _, d := range []event.Decision{event.Approve, event.Deny} {
		t.Run("S4-91 "+string(d), func(t *testing.T) {
			s, r := waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute}))
			require.Equal(t, signals.Conflict, s.Decide(at(60), votes("ann", d)))
			require.Equal(t, CallSettled, r.Calls[0].Stage)
			require.Equal(t, map[string]string{"c1": fmt.Sprintf(expiredText, time.Minute)}, results(t, s))
			require.Equal(t, event.ApprovalExpired, approvals(t, s)["c1.decision"].Decision)
		})
	}
	s, _ := waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute}))
	require.Equal(t, signals.Accepted, s.Decide(at(59), votes("ann", event.Approve)), "in time")
	s, _ = waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute, EndsTurn: true}))
	require.Equal(t, signals.Conflict, s.Decide(at(60), votes("ann", event.Approve)))
	require.NotNil(t, s.Turn.Interrupted, "the turn ends as it would have")
}

func TestRequestExpires(t *testing.T) {
	for name, moves := range map[string]bool{"denies the call": false, "also in the next run of the workflow": true} {
		t.Run(name, func(t *testing.T) {
			s, r := waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute, Quorum: 2}), runs("c2"))
			s.Decide(at(1), votes("bea", event.Approve))
			s.Flushed(s.Flush())
			if moves {
				s = copied(t, s)
				r = s.Turn.Runs[0]
			}
			due, ok := s.NextDue()
			require.True(t, ok)
			require.Equal(t, at(60), due)
			s.Release(at(59))
			require.Empty(t, s.Pending, "not before")

			s.Release(at(60))
			require.Equal(t, CallSettled, r.Calls[0].Stage)
			require.Equal(t, map[string]string{"c1": "Nobody has decided on this call within 1m0s. It was not run."}, results(t, s), "S4-71")
			made := approvals(t, s)["c1.decision"]
			require.Equal(t, event.ApprovalExpired, made.Decision)
			require.Equal(t, "threadmill", made.By)
			require.Equal(t, []event.Vote{{By: "bea", At: at(1), Reason: "bea says so"}}, made.Votes)
			require.Empty(t, s.Approvals())
			for _, d := range []event.Decision{event.Approve, event.Deny} {
				require.Equal(t, signals.Conflict, s.Decide(at(61), votes("ann", d)), "too late")
			}
			_, ok = s.NextDue()
			require.False(t, ok)
			require.Nil(t, s.Turn.Interrupted)
			s.ran(at(61), r, r.Calls[1])
			r.ToolsDone(at(61))
			require.Equal(t, PhaseModel, r.Phase, "the model goes on")
		})
	}
}

// TestExpiryEndsTheTurn: if the terms say so, and no other turn.
func TestExpiryEndsTheTurn(t *testing.T) {
	s, _ := waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute, EndsTurn: true, Remind: time.Minute}), careful("c2", "ls", AskPlan{Remind: time.Minute}))
	step(t, s, beside(t, s, "v1").Runs[0], "", careful("c3", "ls", AskPlan{}))
	s.Flushed(s.Flush())
	s.Release(at(60))
	require.Nil(t, s.Turn.Interrupted)
	ended := s.Parked[0]
	require.Equal(t, "threadmill", ended.Interrupted.By)
	require.Equal(t, "Nobody has decided on this call within 1m0s. It was not run.", ended.Interrupted.Reason)
	require.Empty(t, pending(s, event.TypeApprovalRequest), "nobody is reminded of what has ended")
	require.Equal(t, "c3", s.Approvals()[0].ToolCallID)
	require.Len(t, s.Approvals(), 1)

	require.True(t, s.Park(), "it ends now, whatever waits")
	require.True(t, s.Unpark())
	require.Equal(t, "e1", s.Turn.Item.ID)
	s.Turn.Runs[0].StopRun(at(60))
	require.Equal(t, signals.TurnInterrupted, s.Turn.End(at(60)).Status)
	require.Equal(t, NotBegunText, results(t, s)["c2"], "S4-71")
	require.Len(t, results(t, s), 2)
}

func TestReminders(t *testing.T) {
	s, _ := waiting(t, careful("c1", "rm", AskPlan{Remind: time.Minute, Expires: 3 * time.Minute, Quorum: 2}))
	s.Flushed(s.Flush())
	due := func(want int) {
		t.Helper()
		got, ok := s.NextDue()
		require.True(t, ok)
		require.Equal(t, at(want), got)
	}
	due(60)
	s.Release(at(60))
	require.True(t, s.Overdue(0, false), "people wait to see it")
	s.Decide(at(61), votes("bea", event.Approve))
	s = copied(t, s)
	r := s.Turn.Runs[0]
	due(120)
	s.Release(at(125))
	due(180)
	require.Equal(t, []string{"c1.reminder.1", "c1.decision.vote.1", "c1.reminder.2"}, recordIDs(s.Pending))
	first, second := payload[event.ApprovalRequest](t, s.Pending[0]), payload[event.ApprovalRequest](t, s.Pending[2])
	require.Equal(t, []int{1, 2}, []int{first.Reminder, second.Reminder})
	require.Empty(t, first.Votes)
	require.Len(t, second.Votes, 1, "who has answered is known")
	require.Zero(t, s.Approvals()[0].Reminder, "it is one request")

	s.Decide(at(130), votes("ann", event.Approve))
	require.Equal(t, Ready, r.Calls[0].Stage)
	_, ok := s.NextDue()
	require.False(t, ok, "nobody is reminded of what was decided")
}

// TestRemindersGoOnCounting: in every round, for their records have ids of their own.
func TestRemindersGoOnCounting(t *testing.T) {
	terms := AskPlan{Remind: time.Minute}
	s, r := waiting(t, careful("c1", "rm", terms))
	s.Release(at(60))
	s.Decide(at(61), decision("c1", event.Approve))
	r.Calls[0].AskAgain(at(62), careful("c1", "rm", terms))
	s.Flushed(s.Flush())
	s.Release(at(121))
	require.Empty(t, s.Pending, "the time begins anew")
	s.Release(at(122))
	require.Equal(t, []string{"c1.reminder.2"}, recordIDs(s.Pending))
	require.Equal(t, 2, payload[event.ApprovalRequest](t, s.Pending[0]).Round)
}

// TestNothingIsDueAfterAnInterrupt: neither expiry nor a reminder.
func TestNothingIsDueAfterAnInterrupt(t *testing.T) {
	s, _ := waiting(t, careful("c1", "rm", AskPlan{Expires: time.Minute, Remind: time.Second}))
	s.Interrupt(signals.Control{})
	_, ok := s.NextDue()
	require.False(t, ok)
	s.Flushed(s.Flush())
	s.Release(at(60))
	require.Empty(t, s.Pending)
}

// TestListed: a thread is found among those that wait for approval as long as it does, if
// the terms say so.
func TestListed(t *testing.T) {
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	require.False(t, s.Listable(), "for those only who look at the thread")
	s, _ = waiting(t, careful("c1", "ls", AskPlan{Listed: true}))
	require.True(t, s.Listable())
	beside(t, s, "v1")
	require.True(t, copied(t, s).Listable(), "also while something else goes on")
	s.Decide(t0, decision("c1", event.Deny))
	require.False(t, s.Listable())

	sub, _ := waiting(t, careful("c1", "ls", AskPlan{Listed: true}))
	sub.Parent = &Parent{ThreadID: "t0"}
	require.False(t, sub.Listable(), "a sub-agent's is found as the one that it works for")
	above, _, _ := delegated(t)
	ask := wants("t1.s1", "x1")
	above.SubAsked(ask)
	require.False(t, above.Listable())
	ask.Request.ToolCallID, ask.Listed = "x2", true
	above.SubAsked(ask)
	require.True(t, above.Listable())
	above.SubDecided(t0, decided("t1.s1", "x1", event.Deny))
	above.SubDecided(t0, decided("t1.s1", "x2", event.Deny))
	require.False(t, above.Listable())
}
