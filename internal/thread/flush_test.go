package thread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestFlushed(t *testing.T) {
	s := newState()
	post(t, s, says("e1", "x"))
	item, _ := s.Next(t0)
	s.entered(t0, item)
	first := s.Flush()
	require.Len(t, first.Records, 2)
	s.Reject(t0, "post", "x", event.ErrInvalid)
	s.Flushed(first)
	require.Len(t, s.Pending, 1, "what came after stays")
	require.Equal(t, event.TypeRejected, s.Pending[0].Type)
	require.Nil(t, s.Row)
	require.Len(t, first.Records, 2, "what was handed over is not touched")
	require.Equal(t, "e1", first.Records[1].ID)
	s.Flushed(first)
	require.Len(t, s.Pending, 1, "twice is once")
	s.Flushed(Flush{})
	require.True(t, s.Unstored())
}

func TestFlushedRow(t *testing.T) {
	s := newState()
	before := s.Flush()
	s.Closing = &signals.Control{}
	s.Close(t0)
	s.Flushed(before)
	require.NotNil(t, s.Row, "a row that changed meanwhile is still to be stored")
	require.Equal(t, "closed", s.Row.Status)
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
		{"changed once the first is stored", func(s *State) *State { s.Flushed(s.Flush()); rename(s, t0); return s }},
		{"changed twice before it is handed over", func(s *State) *State { rename(s, t0); rename(s, t0); return s }},
		{"changed in the next run", func(s *State) *State { s = copied(t, s.Carried()); rename(s, t0); return s }},
		{"changed in a run of before, and in the next", func(s *State) *State {
			s.Version = VersionApprovals - 1
			rename(s, t0)
			s.Flushed(s.Flush())
			s = copied(t, s.Carried())
			rename(s, t0)
			return s
		}},
		{"changed after a run that knew no numbers", func(s *State) *State {
			s.RowNumber = 0
			rename(s, t0.Add(time.Second))
			return s
		}},
		{"closed", func(s *State) *State { s.Closing = &signals.Control{}; s.Close(t0); return s }},
		{"of a thread of the same id", func(*State) *State { return New("ns", "t1", signals.Start{}, t0.Add(time.Second)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("alice")
			before := s.Flush().Row
			as := *before
			after := tc.then(s).Flush().Row
			require.Positive(t, before.Number)
			require.Greater(t, after.Number, before.Number)
			require.Equal(t, as, *before, "what was handed over is not touched")
		})
	}
	t.Run("of before there were numbers", func(t *testing.T) {
		s := newState("alice")
		s.Row.Number, s.RowNumber = 0, 0
		s = copied(t, s.Carried())
		before := s.Flush().Row
		require.Positive(t, before.Number)
		require.Equal(t, before, s.Flush().Row, "a row has one number")
		rename(s, t0)
		require.Greater(t, s.Flush().Row.Number, before.Number)
	})
}
