package thread

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

func TestTurnGoesOnWithWhatWasMade(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "hello"))
	s.Turn.Enter(t0, responds("guard", hook.Response{Content: "please ask", SenderType: event.User}, hook.Response{Content: "bye", SenderType: event.System}))
	s.Turn.End(t0)
	_, known := s.Outcome("e1")
	require.False(t, known, "its turn has not ended")
	require.True(t, s.Awaits("e1"))
	require.Empty(t, terminals(s))

	s = copied(t, s)
	r := func() *Run { next(t, s); s.Turn.Enter(t0, pass); return s.Turn.Runs[0] }()
	made := s.Turn.Item.ID
	require.True(t, s.InTurn("e1"), "an interrupt of the event ends what follows from it")
	step(t, s, r, "an answer")
	s.Turn.End(t0)
	require.Equal(t, "an answer", ended(t, s, made).Message.Content)
	require.True(t, s.Awaits("e1"))
	s = copied(t, s)
	next(t, s)
	s.Turn.Enter(t0, pass)
	s.Turn.End(t0)
	out := ended(t, s, "e1")
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "bye", out.Message.Content, "the last that was said")
	require.Empty(t, s.Roots)
	require.Empty(t, terminals(s), "the model call has written the end")
}

// TestEndOfRoot: the turn of an event ends exactly once, whatever becomes of what was
// made of it.
func TestEndOfRoot(t *testing.T) {
	for _, tc := range []struct {
		name  string
		end   func(t *testing.T, s *State, made string)
		want  signals.TurnStatus
		final bool
	}{
		{"it is processed", func(t *testing.T, s *State, _ string) { next(t, s); s.Turn.Enter(t0, pass); s.Turn.End(t0) }, signals.TurnCompleted, true},
		{"it fails", func(t *testing.T, s *State, _ string) {
			next(t, s)
			s.Turn.Enter(t0, refuses("h", "no"))
			s.Turn.End(t0)
		}, signals.TurnFailed, false},
		{"it is interrupted", func(t *testing.T, s *State, _ string) {
			next(t, s)
			require.True(t, s.Interrupt(signals.Control{Reason: "stop"}))
			s.Turn.End(t0)
		}, signals.TurnInterrupted, true},
		{"it is cancelled", func(t *testing.T, s *State, made string) {
			require.True(t, s.Cancel(t0, signals.Control{EventID: made}))
		}, signals.TurnCompleted, true},
		{"its time runs out", func(t *testing.T, s *State, _ string) { _, ok := s.Next(at(100)); require.False(t, ok) }, signals.TurnCompleted, true},
		{"it is completed by hand", func(t *testing.T, s *State, made string) {
			_, _, err := s.SetStatus(t0, signals.SetStatus{EventID: made, Status: event.Completed, By: "ann"})
			require.NoError(t, err)
		}, signals.TurnCompleted, true},
		{"it is retried by hand while it is processed", func(t *testing.T, s *State, made string) {
			next(t, s)
			_, interrupt, err := s.SetStatus(t0, signals.SetStatus{EventID: made, Status: event.Pending, By: "ann"})
			require.NoError(t, err)
			require.True(t, interrupt)
			s.Interrupt(signals.Control{})
			s.Turn.End(t0)
			require.True(t, s.Awaits(made), "it is processed again")
			_, known := s.Outcome("e1")
			require.False(t, known, "and is part of the same turn")
			require.Empty(t, withEvent(s.Outcomes, made), "how that ends is open")
			next(t, s)
			s.Turn.Enter(t0, pass)
			s.Turn.End(t0)
			require.Equal(t, signals.TurnUnhandled, ended(t, s, made).Status)
		}, signals.TurnCompleted, true},
		{"the thread is closed", func(_ *testing.T, s *State, _ string) {
			s.Closing = &signals.Control{Action: signals.ControlClose}
			s.Close(t0)
		}, signals.TurnCompleted, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			arrive(t, s, says("e1", "hello"))
			s.Turn.Enter(t0, produces("p", hook.Produced{Type: "note.taken", Payload: json.RawMessage(`1`), TTL: 50_000}))
			s.Turn.End(t0)
			made := s.Ordered()[0].ID
			s = copied(t, s)
			tc.end(t, s, made)
			require.Equal(t, tc.want, ended(t, s, "e1").Status)
			require.False(t, s.Awaits(made))
			require.Empty(t, s.Roots)
			if tc.final {
				require.Equal(t, []string{"e1.final"}, terminals(s), "S1-23")
			} else {
				require.Len(t, terminals(s), 1, "S1-23")
			}
			require.Len(t, withEvent(s.Outcomes, "e1"), 1)
		})
	}
}

func withEvent(outcomes []signals.TurnResult, id string) (out []signals.TurnResult) {
	for _, o := range outcomes {
		if o.EventID == id {
			out = append(out, o)
		}
	}
	return out
}

// TestSteeredRoot: who has joined a turn waits for all that follows from it.
func TestSteeredRoot(t *testing.T) {
	steer := func(id string) signals.Post {
		p := says(id, "and mind the gap")
		p.OnBusy = signals.Steer
		return p
	}
	s := newState()
	r := begin(t, s, "e1", "hello").Runs[0]
	post(t, s, steer("e2"))
	require.True(t, s.joined(t0))
	require.False(t, r.ApplyModelCallDecision(t0, responds("guard", hook.Response{Content: "no", SenderType: event.User})))
	s.Turn.End(t0)
	require.True(t, s.Awaits("e1"))
	require.True(t, s.Awaits("e2"))

	s = copied(t, s)
	next(t, s)
	s.Turn.Enter(t0, pass)
	post(t, s, steer("e3"))
	require.True(t, s.joined(t0), "also one that joins what was made")
	step(t, s, s.Turn.Runs[0], "fine")
	s.Turn.End(t0)
	for _, id := range []string{"e1", "e2", "e3"} {
		require.Equal(t, "fine", ended(t, s, id).Message.Content, id)
		require.Len(t, withEvent(s.Outcomes, id), 1)
	}
}

// TestRetriedRoot retries an event that has failed while something that was made of it
// still waits.
func TestRetriedRoot(t *testing.T) {
	s := newState("alice", "bob")
	turn := begin(t, s, "e1", "hello")
	steered := says("e2", "and this")
	steered.OnBusy = signals.Steer
	post(t, s, steered)
	require.True(t, s.joined(t0))
	low := -5
	require.False(t, turn.Runs[0].ApplyModelCallDecision(t0, produces("p", hook.Produced{Type: "note.taken", Payload: json.RawMessage(`1`), Priority: &low})))
	turn.Runs[1].Fail(t0, "no such model", false)
	s.Turn.End(t0)
	require.True(t, s.Awaits("e1"))
	require.NoError(t, s.Retry(t0, signals.Control{}))
	s = copied(t, s)

	require.Equal(t, "e1", next(t, s).Item.ID)
	s.Turn.Enter(t0, pass)
	for _, r := range s.Turn.Runs {
		step(t, s, r, "fine")
	}
	s.Turn.End(t0)
	require.True(t, s.Awaits("e1"))
	next(t, s)
	s.Turn.Enter(t0, pass)
	s.Turn.End(t0)
	for _, id := range []string{"e1", "e2"} {
		require.Equal(t, signals.TurnCompleted, ended(t, s, id).Status, "what counts is how it ended in the end")
		require.Len(t, withEvent(s.Outcomes, id), 1)
	}
	require.Empty(t, s.Roots)
}

func TestRootWaitsForItsOwnRetry(t *testing.T) {
	s := newState("alice", "bob")
	turn := begin(t, s, "e1", "hello")
	require.False(t, turn.Runs[0].ApplyModelCallDecision(t0, produces("p", hook.NewProduced("note.taken", 1))))
	turn.Runs[1].Fail(t0, "no such model", false)
	s.Turn.End(t0)
	require.NoError(t, s.Retry(t0, signals.Control{}))
	require.Equal(t, "note.taken", next(t, s).Item.Type)
	s.Turn.Enter(t0, pass)
	s.Turn.End(t0)
	_, known := s.Outcome("e1")
	require.False(t, known, "it is to be processed again")
	require.True(t, s.Awaits("e1"))
	next(t, s)
	s.Turn.Enter(t0, pass)
	for _, r := range s.Turn.Runs {
		require.False(t, r.ApplyModelCallDecision(t0, answers("guard", "no")))
	}
	s.Turn.End(t0)
	for range 2 {
		require.True(t, s.Awaits("e1"))
		next(t, s)
		s.Turn.Enter(t0, pass)
		s.Turn.End(t0)
	}
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status)
	require.Empty(t, s.Roots)
}

// TestDroppedRoot takes an event out of the queue that was to be processed again, while
// something that was made of it still waits.
func TestDroppedRoot(t *testing.T) {
	for name, drop := range map[string]func(*State){
		"cancelled": func(s *State) { s.Cancel(t0, signals.Control{EventID: "e1"}) },
		"set":       func(s *State) { _, _, _ = s.SetStatus(t0, setTo("e1", event.Completed)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newState("alice", "bob")
			turn := begin(t, s, "e1", "hello")
			require.False(t, turn.Runs[0].ApplyModelCallDecision(t0, produces("p", hook.NewProduced("note.taken", 1))))
			turn.Runs[1].Fail(t0, "no such model", false)
			s.Turn.End(t0)
			require.NoError(t, s.Retry(t0, signals.Control{}))
			drop(s)
			require.True(t, s.Awaits("e1"))
			_, known := s.Outcome("e1")
			require.False(t, known)
			next(t, s)
			s.Turn.Enter(t0, pass)
			s.Turn.End(t0)
			require.NotEqual(t, signals.TurnFailed, ended(t, s, "e1").Status)
			require.Len(t, withEvent(s.Outcomes, "e1"), 1)
			require.Empty(t, s.Roots)
		})
	}
}
