package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

var guards = []hook.Spec{{Name: "guard"}, {Name: "audit"}}

// deciding is what the view says of an event while guards are asked about it.
func deciding(id, key, typ string) signals.Deciding {
	return signals.Deciding{EventID: id, EventType: typ, Hooks: []string{"guard", "audit"}, WorkflowID: "hook/ns/t1/" + key}
}

// requireDecides asks guards about an event: the view and the details say so until
// they have answered.
func requireDecides(t *testing.T, s *State, e HookEvent, doing []string) {
	t.Helper()
	require.Empty(t, s.View().Turn.Deciding)
	s.Turn.HooksStarted(e, guards...)
	v := copied(t, s).View()
	require.Equal(t, []signals.Deciding{deciding(e.ID, e.Key, e.Type)}, v.Turn.Deciding)
	require.Equal(t, signals.Running, v.Status)
	now := []string{}
	for _, r := range v.Turn.Runs {
		now = append(now, r.Doing)
	}
	require.Equal(t, doing, now)
	require.Contains(t, s.Details(), "- waits for hooks: guard, audit on "+e.Type+" `"+e.ID+"`")
	s.Turn.HooksFinished(e)
	require.Empty(t, s.View().Turn.Deciding)
	require.NotContains(t, s.Details(), "waits for hooks")
}

func runsOf(s *State) []signals.RunState { return s.View().Turn.Runs }

// TestViewOfHooks follows a turn from one event that hooks decide on to the next.
func TestViewOfHooks(t *testing.T) {
	s := newState()
	post(t, s, says("e1", "hello"))
	item, _ := s.Next(t0)
	turn := s.Begin(t0, item)
	requireDecides(t, s, s.Turn.ItemEvent(), []string{})

	s.Turn.Enter(t0, pass)
	r := turn.Runs[0]
	require.Equal(t, []signals.RunState{{Doing: "model"}}, runsOf(s))
	requireDecides(t, s, r.ModelCallEvent(), []string{"hooks"})
	require.Equal(t, []signals.RunState{{Doing: "model"}}, runsOf(s), "the hooks have decided on the call")

	in, ok := s.stepped(t0, r)
	require.True(t, ok)
	r.Replied(t0, ModelReply{
		Agent: "assistant", MaxSteps: 3, Calls: []PlannedCall{runs("c1"), {ID: "c2", Name: "clock"}},
		Message: event.Message{ID: in.MessageID, ThreadID: "t1", Content: "Let me see."},
	})
	requireDecides(t, s, r.ReplyEvent(), []string{"hooks"})
	r.ApplyReplyDecision(t0, pass)
	requireDecides(t, s, r.CallsEvent(), []string{"hooks"})
	require.Equal(t, []signals.RunState{{Agent: "assistant", Step: 1, Doing: "hooks", Tools: []string{"note", "clock"}}}, runsOf(s))

	r.ApplyCallsDecision(t0, pass)
	require.Equal(t, "tools", runsOf(s)[0].Doing)
	r.Calls[0].CallRan(ToolReply{ToolCallID: "c1", Status: "succeeded"})
	requireDecides(t, s, r.Calls[0].ResultEvent(), []string{"tools"})
	r.Calls[1].CallRan(ToolReply{ToolCallID: "c2", Status: "succeeded"})
	requireDecides(t, s, r.Calls[1].ResultEvent(), []string{"hooks"})

	r.Calls[0].ApplyResultDecision(t0, pass)
	r.Calls[1].ApplyResultDecision(t0, pass)
	r.ToolsDone(t0)
	step(t, s, r, "Done.")
	require.Equal(t, []signals.RunState{{Agent: "assistant", Step: 2, Doing: "done"}}, runsOf(s))
}

// TestViewOfPlanning: calls that hooks have changed are planned anew, which no hook
// has a part in.
func TestViewOfPlanning(t *testing.T) {
	s := newState()
	turn := begin(t, s, "e1", "hello")
	r := turn.Runs[0]
	in, _ := s.stepped(t0, r)
	r.Replied(t0, ModelReply{Agent: "assistant", MaxSteps: 3, Calls: []PlannedCall{runs("c1"), runs("c2")}, Message: event.Message{ID: in.MessageID}})
	r.ApplyCallsDecision(t0, Decision{
		Outcome: event.Replaced, Hooks: []event.HookOutcome{{Name: "guard", Outcome: event.Replaced}},
		Event: rawJSON(event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant", ToolCalls: []event.ToolCall{{ID: "c2", Function: event.Function{Name: "note"}}}}),
	})
	require.Equal(t, []signals.RunState{{Agent: "assistant", Step: 1, Doing: "tools", Tools: []string{"note"}}}, runsOf(s), "the call that was taken out does not wait")
}

// TestViewOfRetriedEvent: what is decided anew has a hook workflow of its own.
func TestViewOfRetriedEvent(t *testing.T) {
	s := newState()
	post(t, s, says("e1", "hello"))
	item, _ := s.Next(t0)
	item.Item.Attempt = 1
	s.Begin(t0, item)
	s.Turn.HooksStarted(s.Turn.ItemEvent(), guards...)
	s.Turn.HooksStarted(s.Turn.ItemEvent(), guards[0])
	require.Equal(t, []signals.Deciding{deciding("e1", "e1~1", "message")}, s.View().Turn.Deciding, "asked once")
}
