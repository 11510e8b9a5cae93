package thread

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestPostFailed(t *testing.T) {
	s := newState()
	long := strings.Repeat("x", 200<<10)
	p := says("e1", long)
	p.Priority, p.Agents = 3, []string{"bob"}
	s.PostFailed(t0, p, ErrFull)
	u := payload[event.Unqueued](t, pending(s, event.TypeUnqueued)[0])
	require.JSONEq(t, string(p.Payload), string(u.Event.Payload))
	require.Equal(t, ErrFull.Error(), u.Error)
	require.Equal(t, event.Failure{EventID: "e1", Error: ErrFull.Error(), Retryable: true}, payload[event.Failure](t, pending(s, event.TypeError)[0]))
	require.True(t, s.WasPosted("e1"), "posted again it has no effect")
	require.Less(t, len(asJSON(t, s.Failed)), 1000, "the state does not keep the content")

	require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1", By: "ann"}))
	step, ok := s.NextStored(t0)
	require.True(t, ok)
	require.Equal(t, LoadStep{Thread: s.Ref(), EventID: "e1"}, step)

	s.NotLoaded(t0, "e1", "gone")
	require.Equal(t, "gone", s.QueueView().Failed[0].Error)
	require.True(t, s.Idle())

	require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1", By: "ann"}))
	s.Loaded("e1", LoadReply{Payload: p.Payload})
	_, ok = s.NextStored(t0)
	require.False(t, ok)
	turn := next(t, s)
	require.Equal(t, 3, turn.Item.Priority)
	require.Equal(t, []string{"bob"}, turn.Agents)
	require.JSONEq(t, string(p.Payload), string(turn.Item.Payload))
	require.Equal(t, long, payload[event.Message](t, pending(s, event.TypeMessage)[0]).Content)
}

// TestStoredEventsHaveNoRecordsWithoutContent: an event whose content is in the store only ends
// without a record of its own.
func TestStoredEventsHaveNoRecordsWithoutContent(t *testing.T) {
	for name, end := range map[string]func(*State){
		"cancelled": func(s *State) { s.Cancel(t0, signals.Control{EventID: "e1"}) },
		"overwritten": func(s *State) {
			_, _, _ = s.SetStatus(t0, signals.SetStatus{EventID: "e1", Status: event.Overwritten, By: "ann"})
		},
		"closed": func(s *State) {
			s.Closing = &signals.Control{Action: signals.ControlClose}
			s.Close(t0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			s.PostFailed(t0, says("e1", "x"), ErrFull)
			require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}))
			end(s)
			require.True(t, s.Idle())
			require.Empty(t, pending(s, event.TypeMessage))
		})
	}
}

// TestFailedEventsStay: failed events lose their content, which is stored, before they are
// forgotten.
func TestFailedEventsStay(t *testing.T) {
	s := newState()
	for i := range 20 {
		begin(t, s, name(i), strings.Repeat("x", 100<<10))
		s.Turn.Runs[0].Fail(t0, "no", true)
		s.Turn.End(t0)
		s.Flushed(s.Flush())
	}
	require.Len(t, s.Failed, 20)
	require.Less(t, len(asJSON(t, s.Failed)), maxFailedBytes+100<<10)
	require.True(t, s.Failed[0].Unloaded)
	require.False(t, s.Failed[19].Unloaded)
	for i := range 2000 {
		s.PostFailed(t0, says(name(100+i), "x"), ErrFull)
	}
	require.Less(t, len(asJSON(t, s.Failed)), maxFailedBytes+100<<10)
	require.Greater(t, len(s.Failed), 300)
}

func TestSeenForgetsTheOldest(t *testing.T) {
	s := newState()
	for i := range maxPostedIDs + 10 {
		s.rememberPosted(name(i))
	}
	require.Len(t, s.PostedIDs, maxPostedIDs)
	require.False(t, s.WasPosted(name(9)))
	require.True(t, s.WasPosted(name(10)))
	var back State
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, s)), &back))
	require.False(t, back.WasPosted(name(9)))
	require.True(t, back.WasPosted(name(maxPostedIDs+9)))
}
