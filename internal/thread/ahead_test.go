package thread

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestDecisionAheadOfItsCall decides on a call that people have seen before the
// thread has: the decision is held until the reply is in.
func TestDecisionAheadOfItsCall(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	begin := func(t *testing.T) (*State, *Run) {
		s := New("default", "t1", signals.Start{}, now)
		_, err := s.Post(now, signals.UserMessage("t1", "ann", "hello"))
		require.NoError(t, err)
		item, ok := s.Next(now)
		require.True(t, ok)
		return s, s.entered(now, item).Runs[0]
	}
	decision := signals.Decide{ToolCallID: "c1", Decision: event.Approve, By: "ann"}
	reply := ModelReply{Agent: "a", MaxSteps: 5, Message: event.Message{ID: "m"}, Calls: []PlannedCall{{ID: "c1", Name: "rm", NeedsApproval: true}}}

	t.Run("it is held, and applied once the call is known", func(t *testing.T) {
		s, r := begin(t)
		require.True(t, s.Early("c1"))
		require.True(t, s.Hold(decision))
		s.took(now, r, reply)
		require.Equal(t, Ready, r.Calls[0].Stage)
		require.False(t, s.Early("c1"))
		require.Empty(t, s.Ahead)
	})
	t.Run("S4-91 one that meets no call leaves an audit record", func(t *testing.T) {
		s, r := begin(t)
		require.True(t, s.Hold(signals.Decide{ToolCallID: "c2", Decision: event.Approve, By: "ann"}))
		s.took(now, r, reply)
		require.Equal(t, Waiting, r.Calls[0].Stage)
		require.Empty(t, s.Ahead)
		require.Equal(t, event.TypeRejected, s.Pending[len(s.Pending)-1].Type)
	})
	t.Run("none is held while no model is asked", func(t *testing.T) {
		s, r := begin(t)
		s.took(now, r, reply)
		require.False(t, s.Early("c2"))
		require.Equal(t, signals.NotPending, s.Decide(now, signals.Decide{ToolCallID: "c2", Decision: event.Approve, By: "ann"}))
	})
	t.Run("it does not outlive the turn", func(t *testing.T) {
		s, r := begin(t)
		require.True(t, s.Hold(decision))
		s.Fail(now, r, "no", false)
		s.End(now)
		require.Empty(t, s.Ahead)
		require.Equal(t, event.TypeRejected, s.Pending[len(s.Pending)-1].Type)
	})
	t.Run("only so many are held", func(t *testing.T) {
		s, _ := begin(t)
		for s.Hold(decision) {
			require.LessOrEqual(t, len(s.Ahead), 100)
		}
		require.Len(t, s.Ahead, 100)
	})
}

// TestStateFitsIntoTheNextRun fills a thread with the largest events that it takes.
func TestStateFitsIntoTheNextRun(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	s := New("default", "t1", signals.Start{}, now)
	large := strings.Repeat("x", signals.MaxPayload-200)
	var full error
	for range 10 {
		if _, full = s.Post(now, signals.UserMessage("t1", "ann", large)); full != nil {
			break
		}
	}
	require.ErrorIs(t, full, ErrFull)
	for range 3 {
		item, ok := s.Next(now)
		require.True(t, ok)
		r := s.entered(now, item).Runs[0]
		s.Fail(now, r, "no", true)
		s.End(now)
		s.Flushed(s.Flush())
		_, err := s.Post(now, signals.UserMessage("t1", "ann", large))
		require.NoError(t, err)
	}
	require.Len(t, s.Failed, 1, "the newest failed event is kept, whatever its size")
	item, _ := s.Next(now)
	s.entered(now, item)
	_, err := s.Post(now, signals.UserMessage("t1", "ann", large))
	require.NoError(t, err)
	carried, err := json.Marshal(s.Carried())
	require.NoError(t, err)
	require.Less(t, len(carried), 2<<20)
}
