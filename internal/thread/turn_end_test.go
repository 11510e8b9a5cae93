package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// announced are the ends of turns that wait to be stored.
func announced(t *testing.T, s *State) []event.TurnEnded {
	t.Helper()
	out := []event.TurnEnded{}
	for _, r := range pending(s, event.TypeTurnEnded) {
		require.Equal(t, payload[event.TurnEnded](t, r).EventID, r.EventID)
		out = append(out, payload[event.TurnEnded](t, r))
	}
	return out
}

// TestTurnEnded: the end of a turn is announced once, after its last record, by whoever
// stores that.
func TestTurnEnded(t *testing.T) {
	t.Run("by the last model call of the only agent", func(t *testing.T) {
		s := newState("alice")
		turn := begin(t, s, "e1", "hello")
		in := step(t, s, turn.Runs[0], "", runs("c1"))
		require.Equal(t, "e1.turn_ended", in.Ends, "it may be the last")
		s.ran(t0, turn.Runs[0], turn.Runs[0].Calls[0])
		turn.Runs[0].ToolsDone(t0)
		in = step(t, s, turn.Runs[0], "done")
		require.Equal(t, "e1.turn_ended", in.Ends)
		s.Turn.End(t0)
		require.False(t, s.Unstored(), "the end of the turn costs no step of its own")
		out, _ := s.Outcome("e1")
		require.Equal(t, "e1.turn_ended", out.LastRecord)
	})
	t.Run("by the thread, when several agents answer", func(t *testing.T) {
		s := newState("alice", "bob")
		turn := begin(t, s, "e1", "hello")
		require.Len(t, turn.Runs, 2)
		alice, bob := turn.Runs[0].NextModelStep(nil), turn.Runs[1].NextModelStep(nil)
		require.Empty(t, alice.Ends+bob.Ends, "none of them knows who is the last")
		for i, in := range []ModelStep{alice, bob} {
			s.Flushed(in.Flush)
			s.took(t0, turn.Runs[i], ModelReply{Agent: turn.Runs[i].Agent, MaxSteps: 3, Message: event.Message{ID: in.MessageID, Content: "hi"}})
		}
		s.Turn.End(t0)
		require.Equal(t, []event.TurnEnded{{EventID: "e1", Status: "completed"}}, announced(t, s))
	})
	t.Run("by the last of those who hand on to each other", func(t *testing.T) {
		s := newState("alice", "bob")
		turn := begin(t, s, "e1", "@alice hello")
		in := step(t, s, turn.Runs[0], "@bob hello")
		require.NotEmpty(t, in.Ends)
		require.Len(t, turn.Runs, 2, "the turn goes on")
		require.False(t, turn.Ended)
		step(t, s, turn.Runs[1], "bye")
		s.Turn.End(t0)
		require.Empty(t, announced(t, s), "bob's model call has said it")
	})
	t.Run("with the events that joined it", func(t *testing.T) {
		s := newState("alice")
		turn := begin(t, s, "e1", "hello")
		p := says("e2", "and this")
		p.OnBusy = signals.Steer
		post(t, s, p)
		in := step(t, s, turn.Runs[0], "done")
		require.Equal(t, []string{"e2"}, in.Joined)
		require.Equal(t, "e1", in.Flush.Records[len(in.Flush.Records)-1].EventID, "a message that joined belongs to the turn")
	})
	t.Run("after what hooks have made of the event", func(t *testing.T) {
		s := newState("alice")
		arrive(t, s, says("e1", "hello"))
		s.Turn.Enter(t0, responds("guard", hook.Response{Content: "no"}))
		s.Turn.End(t0)
		require.Empty(t, announced(t, s))
		made, _ := s.Next(t0)
		require.Empty(t, s.entered(t0, made).Runs)
		s.Turn.End(t0)
		require.Equal(t, []event.TurnEnded{{EventID: "e1", Status: "completed"}}, announced(t, s), "once, under the id that was posted")
		require.Equal(t, event.TypeTurnEnded, s.Pending[len(s.Pending)-1].Type)
		for _, r := range s.Pending[1:] {
			require.Equal(t, "e1", r.EventID, r.ID)
		}
	})
	t.Run("with what went wrong", func(t *testing.T) {
		s := newState("alice")
		turn := begin(t, s, "e1", "hello")
		s.stepped(t0, turn.Runs[0])
		turn.Runs[0].Fail(t0, "no such model", false)
		s.Turn.End(t0)
		require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}))
		q, _ := s.Next(t0)
		turn = s.entered(t0, q)
		in := step(t, s, turn.Runs[0], "done")
		require.Equal(t, "e1~1.turn_ended", in.Ends, "a retry is another turn")
	})
	t.Run("interrupted", func(t *testing.T) {
		s := newState("alice")
		turn := begin(t, s, "e1", "hello")
		post(t, s, says("e2", "waits"))
		s.stepped(t0, turn.Runs[0])
		s.Interrupt(signals.Control{Action: signals.ControlInterrupt, Reason: "stop"})
		turn.Runs[0].StopRun(t0)
		s.Turn.End(t0)
		s.Cancel(t0, signals.Control{EventID: "e2"})
		require.Equal(t, []event.TurnEnded{
			{EventID: "e1", Status: "interrupted", Error: "stop"},
			{EventID: "e2", Status: "interrupted", Error: "it was interrupted before its turn came"},
		}, announced(t, s))
	})
	t.Run("expired", func(t *testing.T) {
		s := newState("alice")
		p := says("e1", "hello")
		p.TTL = 1
		post(t, s, p)
		_, ok := s.Next(at(9))
		require.False(t, ok)
		require.Equal(t, "expired", announced(t, s)[0].Status)
	})
	t.Run("not if an agent was added while its reply addressed it", func(t *testing.T) {
		s := newState("alice")
		turn := begin(t, s, "e1", "hello")
		in, _ := s.stepped(t0, turn.Runs[0])
		s.Flushed(in.Flush)
		s.Change(t0, signals.ThreadChange{AddAgents: []string{"bob"}})
		s.took(t0, turn.Runs[0], ModelReply{Agent: "alice", MaxSteps: 3, Ended: true, Message: event.Message{ID: in.MessageID, Content: "@bob hi"}})
		require.Len(t, turn.Runs, 1, "the end of the turn was announced")
	})
}
