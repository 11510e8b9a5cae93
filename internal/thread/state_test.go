package thread

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestNew(t *testing.T) {
	s := New("ns", "t1", signals.Start{Agents: []string{"alice"}, Title: "A title", Metadata: json.RawMessage(`{"a":1}`)}, t0)
	require.Equal(t, &Row{Number: t0.UnixMicro(), Title: "A title", Status: "open", Agents: []string{"alice"}, Metadata: json.RawMessage(`{"a":1}`)}, s.Row)
	require.Equal(t, event.StatusChange{Status: event.StatusOpened, Agents: []string{"alice"}}, payload[event.StatusChange](t, s.Pending[0]))
	v := s.View()
	require.Equal(t, signals.Idle, v.Status)
	require.Equal(t, "A title", v.Title)
	require.NotNil(t, newState().View().Agents, "a list, also when it is empty")
}

func TestCarried(t *testing.T) {
	s, _ := waiting(t, asks("c1"), runs("c2"))
	post(t, s, says("e2", "waits"))
	s.Reject(t0, "decide", "x", event.ErrInvalid)
	long := strings.Repeat("ü", maxCarriedOutcome)
	s.addOutcome(signals.TurnResult{EventID: "e0", Message: &event.Message{ID: "m0", Content: long}})
	s.addOutcome(signals.TurnResult{EventID: "short", Message: &event.Message{ID: "m1", Content: "short"}})
	c := s.Carried()
	out, _ := c.Outcome("e0")
	require.True(t, out.Message.Truncated)
	require.LessOrEqual(t, len(out.Message.Content), maxCarriedOutcome)
	require.True(t, strings.HasPrefix(long, out.Message.Content))
	out, _ = c.Outcome("short")
	require.False(t, out.Message.Truncated)
	out, _ = s.Outcome("e0")
	require.Equal(t, long, out.Message.Content, "the state itself keeps it whole")

	back := copied(t, c)
	require.Equal(t, asJSON(t, c), asJSON(t, back))
	require.Equal(t, s.Approvals(), back.Approvals())
	require.Equal(t, s.Ordered(), back.Ordered())
	require.Equal(t, recordIDs(s.Pending), recordIDs(back.Pending))
	require.Equal(t, s.newID(t0), back.newID(t0), "derived ids go on where they were")
}

func TestCarry(t *testing.T) {
	m := Carry(event.Message{Content: strings.Repeat("é", MaxCarriedContent), Metadata: map[string]any{"a": 1}, ToolCalls: []event.ToolCall{{ID: "c"}}})
	require.True(t, m.Truncated)
	require.Len(t, m.Content, MaxCarriedContent)
	require.Nil(t, m.Metadata)
	require.Nil(t, m.ToolCalls)
	require.Equal(t, event.Message{Content: "short"}, Carry(event.Message{Content: "short"}))
}

func TestBounds(t *testing.T) {
	s := newState()
	for i := range 250 {
		s.addOutcome(signals.TurnResult{EventID: name(i)})
		s.rememberSettled(name(i), event.Approve)
	}
	require.Len(t, s.Outcomes, maxOutcomes)
	require.Len(t, s.Settled, maxDecided)
	_, known := s.Outcome(name(249 - maxOutcomes))
	require.False(t, known)
	_, known = s.Outcome(name(249))
	require.True(t, known)
}

func TestView(t *testing.T) {
	s, r := waiting(t, asks("c1"), runs("c2"))
	post(t, s, says("e2", "waits"))
	s.ran(t0, r, r.Calls[1])
	v := s.View()
	require.Equal(t, signals.WaitingApproval, v.Status)
	require.Equal(t, 1, v.QueueLength)
	require.Equal(t, 1, v.Approvals)
	require.Equal(t, []signals.RunState{{Agent: "assistant", Step: 1, Doing: "tools", Tools: []string{"shell_cmd"}}}, v.Turn.Runs)
	details := s.Details()
	for _, word := range []string{"waiting approval", "1 in queue", "assistant: step 1", "`shell_cmd` (c1)"} {
		require.Contains(t, details, word)
	}
	r.Fail(t0, "it broke", true)
	s.Turn.End(t0)
	require.Contains(t, s.Details(), "failed: event e1: it broke")
}
