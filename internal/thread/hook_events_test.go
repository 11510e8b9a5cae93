package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

func TestSubjects(t *testing.T) {
	s := newState()
	s.Default = "assistant"
	turn := arrive(t, s, says("e1", "hello"))
	check := func(e HookEvent, id, key string, want hook.Subject) {
		t.Helper()
		require.Equal(t, id, e.ID)
		require.Equal(t, key, e.Key)
		want.Namespace = "ns"
		require.Equal(t, want, s.Subject(e))
		require.Equal(t, hook.Context{
			Namespace: "ns", ThreadID: "t1", EventID: id, TraceID: "e1", ParentEventID: e.Parent, Agent: want.Agent,
		}, s.Turn.Context(e))
		step := s.Turn.HookStep(e, watch)
		require.Equal(t, id, step.EventID)
		require.Equal(t, e.Type, step.EventType)
		require.Equal(t, s.Flush(), step.Flush, "S0-35 the record is stored before the hook sees it")
		require.Equal(t, e.Type == event.TypeLLMCall, step.Event != nil, "what has no record is handed over")
	}
	check(s.Turn.ItemEvent(), "e1", "e1", hook.Subject{Type: "message", CreatedBy: event.User})
	s.Turn.Enter(t0, pass)
	r := turn.Runs[0]
	check(r.ModelCallEvent(), "e1.0.1.llm", "e1.0.1.llm", hook.Subject{Type: "llm_call", CreatedBy: event.Agent, Agent: "assistant"})
	reply(t, s, r, watch, "let me see", runs("c1"), PlannedCall{ID: "c2", Name: "clock"})
	require.Equal(t, "e1", r.ReplyEvent().Parent, "S2-41")
	check(r.ReplyEvent(), "e1.0.1", "e1.0.1", hook.Subject{Type: "message", CreatedBy: event.Agent, Agent: "assistant"})
	r.ApplyReplyDecision(t0, pass)
	check(r.CallsEvent(), "e1.0.1.calls", "e1.0.1.calls", hook.Subject{Type: "tool_call", CreatedBy: event.Agent, Agent: "assistant", Tools: []string{"note", "clock"}})
	r.ApplyCallsDecision(t0, pass)
	check(r.Calls[1].ResultEvent(), "c2.result", "c2.result", hook.Subject{Type: "message", CreatedBy: event.Tool, Agent: "assistant", Tools: []string{"clock"}})

	for sender, want := range map[event.CreatedBy]hook.Subject{
		event.Agent:  {Type: "message", CreatedBy: event.Agent, Agent: "x"},
		event.Tool:   {Type: "message", CreatedBy: event.Tool, Tools: []string{"x"}},
		event.System: {Type: "message", CreatedBy: event.System},
	} {
		s = newState()
		arrive(t, s, signals.NewPost("e1", event.NewMessage{ThreadID: "t1", SenderID: "x", SenderType: sender, Content: "hi"}))
		check(s.Turn.ItemEvent(), "e1", "e1", want)
	}
	s = newState()
	arrive(t, s, signals.Post{ID: "e1", Type: "file.changed", ParentEventID: "cause"})
	check(s.Turn.ItemEvent(), "e1", "e1", hook.Subject{Type: "file.changed"})
	require.Equal(t, "cause", s.Turn.ItemEvent().Parent)
}

// TestInlineHooksAreAskedByTheStep: what made the reply asks them about it, if there
// are no others.
func TestInlineHooksAreAskedByTheStep(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "hello").Runs[0]
	inline := []hook.Spec{{Name: "i", Kind: hook.KindInline}}
	in := r.NextModelStep(inline)
	require.Equal(t, inline, in.Inline)
	require.False(t, in.Gated, "what they let pass costs nothing")
	said := Decision{Outcome: event.Passed, Silent: true}
	asked := answers("i", "no")
	r.Replied(t0, ModelReply{
		Agent: "assistant", MaxSteps: 3, Message: event.Message{ID: in.MessageID, ThreadID: "t1", Content: "hi"},
		Calls: []PlannedCall{runs("c1")}, MessageDecision: &said, CallsDecision: &asked, Gated: true,
	})
	require.True(t, r.Gated)
	require.True(t, r.Decided())
	r.ApplyReplyDecision(t0, *r.Reply.MessageDecision)
	require.True(t, r.Decided())
	r.ApplyCallsDecision(t0, *r.Reply.CallsDecision)
	require.False(t, r.Decided())
	require.Equal(t, PhaseDone, r.Phase)
	in = r.NextModelStep(append(inline, watch...))
	require.Empty(t, in.Inline, "beside others they are asked with these")
	require.True(t, in.Gated)
}

func TestForesee(t *testing.T) {
	spec := func(change func(*hook.Spec)) hook.Spec {
		s := hook.Spec{Name: "h", Kind: hook.KindFunc}
		change(&s)
		return s
	}
	for _, tc := range []struct {
		name                string
		spec                hook.Spec
		hold, inline, quiet bool
		firstReply          bool
	}{
		{"a hook for everything", spec(func(*hook.Spec) {}), true, false, false, true},
		{"an inline hook", spec(func(s *hook.Spec) { s.Kind = hook.KindInline }), false, true, false, false},
		{"held output", spec(func(s *hook.Spec) { s.HoldOutput = true }), true, false, true, true},
		{"held by an inline hook", spec(func(s *hook.Spec) { s.Kind, s.HoldOutput = hook.KindInline, true }), true, true, true, true},
		{"for people's messages", spec(func(s *hook.Spec) { s.Filter.CreatedBy = []event.CreatedBy{event.User} }), false, false, false, false},
		{"for tool calls", spec(func(s *hook.Spec) { s.Filter.Types = []string{event.TypeToolCall}; s.HoldOutput = true }), true, false, false, true},
		{"for calls of one tool", spec(func(s *hook.Spec) { s.Filter.Tools = []string{"pay"}; s.HoldOutput = true }), true, false, false, true},
		{"for model calls", spec(func(s *hook.Spec) { s.Filter.Types = []string{event.TypeLLMCall} }), false, false, false, false},
		{"for custom events", spec(func(s *hook.Spec) { s.Filter.Types = []string{"file.*"} }), false, false, false, false},
		{"for another namespace", spec(func(s *hook.Spec) { s.Filter.Namespaces = []string{"other"} }), false, false, false, false},
		{"for this agent", spec(func(s *hook.Spec) { s.Filter.Agents = []string{"Assistant"} }), true, false, false, true},
		{"for another agent", spec(func(s *hook.Spec) { s.Filter.Agents = []string{"bob"} }), false, false, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			r := begin(t, s, "e1", "hello").Runs[0]
			hold, _, _, _ := r.hookRequirements([]hook.Spec{tc.spec})
			require.Equal(t, tc.firstReply, hold, "nobody knows yet what the default agent is called")
			r.Agent = "assistant"
			hold, quiet, inline, _ := r.hookRequirements([]hook.Spec{tc.spec})
			require.Equal(t, []bool{tc.hold, tc.inline, tc.quiet}, []bool{hold, len(inline) > 0, quiet})
		})
	}
}

func TestInlineOnResults(t *testing.T) {
	inline, other := hook.Spec{Name: "i", Kind: hook.KindInline}, hook.Spec{Name: "o", Kind: hook.KindInline, Filter: hook.Filter{Tools: []string{"clock"}}}
	for want, specs := range map[bool][][]hook.Spec{
		true:  {{inline}, {inline, other}},
		false: {nil, watch, {other}, {inline, watch[0]}},
	} {
		for _, some := range specs {
			_, r := called(t, runs("c1"))
			r.ApplyCallsDecision(t0, pass)
			require.Equal(t, want, len(r.Calls[0].ToolStep(some).Inline) > 0, "%v", some)
		}
	}
}

func TestHookDecided(t *testing.T) {
	s := newState()
	require.Error(t, s.HookDecided(HookDecided{EventID: "e1"}), "there is no turn")
	arrive(t, s, says("e1", "hello"))
	seen := s.Turn.ItemEvent()
	_, asked := s.Turn.HooksPending(seen)
	require.False(t, asked)
	require.Error(t, s.HookDecided(HookDecided{EventID: "e1"}), "no hook was asked")
	s.Turn.HooksStarted(seen, watch...)
	d, asked := s.Turn.HooksPending(seen)
	require.True(t, asked)
	require.Nil(t, d)
	s = copied(t, s)
	require.NoError(t, s.HookDecided(HookDecided{EventID: "e1", Decision: answers("guard", "first")}))
	require.NoError(t, s.HookDecided(HookDecided{EventID: "e1", Decision: answers("guard", "second")}))
	s = copied(t, s)
	d, _ = s.Turn.HooksPending(seen)
	require.Equal(t, "first", d.Responses[0].Content, "S0-24 it is decided once")
	s.Turn.HooksFinished(seen)
	_, asked = s.Turn.HooksPending(seen)
	require.False(t, asked)
	require.Error(t, s.HookDecided(HookDecided{EventID: "e1"}))
}
