package thread

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

func TestDecisionOnItem(t *testing.T) {
	custom := event.CustomEvent{Type: "note.taken", ThreadID: "t1", Payload: json.RawMessage(`{"a":1}`)}
	for _, tc := range []struct {
		name     string
		decision Decision
		record   string
		outcome  event.Outcome
		runs     int
		queued   []string
		status   signals.TurnStatus
	}{
		{"S0-11 an inline pass leaves no record", pass, "", "", 1, nil, ""},
		{"S0-11 a pass goes on with the event", decides("guard", event.Passed), "e1.hook", event.Passed, 1, nil, ""},
		{"no hook was asked", Decision{}, "", "", 1, nil, ""},
		{"S0-12 another text", replaces("guard", saying(event.User, "ann", "other")), "e1.hook", event.Replaced, 1, nil, ""},
		{"S0-14 another type is processed as such", replaces("guard", custom), "e1.hook", event.Replaced, 0, []string{"note.taken"}, signals.TurnCompleted},
		{"S0-15 S0-25 a response keeps the agent out", answers("guard", "no"), "e1.hook", event.Responded, 0, []string{"no"}, signals.TurnCompleted},
		{"S2-24 S2-29 produced events", produces("p", hook.Message(event.System, "p", "no")), "e1.hook", event.Produced, 0, []string{"no"}, signals.TurnCompleted},
		{"S2-34 a processor in place of the default", swallows("p"), "e1.hook", event.Passed, 0, nil, signals.TurnUnanswered},
		{"S0-23 a failure", refuses("guard", "hook guard failed: no"), "e1.hook.failed", event.HookFailed, 0, nil, signals.TurnFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			turn := arrive(t, s, says("e1", "hello"))
			require.Equal(t, []string{"t1.opened", "e1"}, recordIDs(s.Pending), "S0-35 the record comes before the hook")
			s.Turn.Enter(t0, tc.decision)
			require.NotEqual(t, ItemArrived, turn.Stage)
			require.Len(t, turn.Runs, tc.runs)
			require.Equal(t, append([]string{}, tc.queued...), contents(t, s))
			if tc.record == "" {
				require.Empty(t, pending(s, event.TypeHook))
			} else {
				rec := heardOn(t, s, tc.record)
				require.Equal(t, tc.outcome, rec.Outcome)
				require.Equal(t, "e1", rec.EventID)
				require.Equal(t, event.TypeMessage, rec.EventType)
				require.Equal(t, tc.decision.Hooks, rec.Hooks)
				require.ElementsMatch(t, ids(s.Ordered()), rec.Produced)
			}
			if tc.status != "" {
				require.Equal(t, tc.status, s.Turn.End(t0).Status)
			}
		})
	}
}

func TestStatusOfDecidedItem(t *testing.T) {
	for _, tc := range []struct {
		decision Decision
		want     event.Status
	}{
		{answers("guard", "no"), event.Completed},
		{produces("p", hook.NewProduced("note.taken", 1)), event.Overwritten},
		{refuses("guard", "hook guard failed: no"), event.Failed},
		{swallows("p"), event.Completed},
	} {
		t.Run("S2-37 "+string(tc.decision.Outcome), func(t *testing.T) {
			s := newState()
			arrive(t, s, says("e1", "hello"))
			s.Turn.Enter(t0, tc.decision)
			s.Turn.End(t0)
			it, ok := s.QueueView().Find("e1")
			require.True(t, ok)
			require.Equal(t, tc.want, it.Status)
			require.Equal(t, tc.decision.Error, it.Error, "S2-16")
		})
	}
}

func TestReplacedItem(t *testing.T) {
	t.Run("S0-14 its own text says who answers", func(t *testing.T) {
		s := newState("alice", "bob")
		turn := arrive(t, s, says("e1", "@alice hello"))
		s.Turn.Enter(t0, replaces("guard", saying(event.User, "ann", "@bob hello")))
		require.Len(t, turn.Runs, 1)
		require.Equal(t, "bob", turn.Runs[0].Agent)
		m := heardOn(t, s, "e1.hook").Message
		require.Equal(t, event.Message{ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.User, Role: "user", Content: "@bob hello"}, *m)
		require.Equal(t, "@alice hello", payload[event.Message](t, pending(s, event.TypeMessage)[0]).Content, "what was stored stays as it is")
	})
	t.Run("S0-26 so does its sender", func(t *testing.T) {
		s := newState()
		turn := arrive(t, s, says("e1", "hello"))
		s.Turn.Enter(t0, replaces("guard", saying(event.System, "guard", "hello")))
		require.Empty(t, turn.Runs, "nobody answers the system")
		m := heardOn(t, s, "e1.hook").Message
		require.Equal(t, event.RoleSystem, m.Role)
		require.Equal(t, "guard", m.SenderID)
	})
	t.Run("a custom event keeps its place in the record", func(t *testing.T) {
		s := newState()
		turn := arrive(t, s, signals.Post{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`{"path":"a"}`)})
		got := event.CustomEvent{Type: "file.changed", ThreadID: "t1", Payload: json.RawMessage(`{"path":"b"}`)}
		s.Turn.Enter(t0, replaces("guard", got))
		require.Equal(t, got, *heardOn(t, s, "e1.hook").Custom)
		require.Empty(t, turn.Runs)
	})
	t.Run("S0-14 a custom event that becomes a message is answered", func(t *testing.T) {
		s := newState()
		turn := arrive(t, s, signals.Post{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`{"path":"a"}`)})
		s.Turn.Enter(t0, replaces("guard", saying(event.User, "ann", "a has changed")))
		require.Empty(t, turn.Runs)
		rec := heardOn(t, s, "e1.hook")
		require.Equal(t, "file.changed", rec.EventType)
		require.Equal(t, ids(s.Ordered()), rec.Produced)
		s.Turn.End(t0)
		turn = next(t, s)
		s.Turn.Enter(t0, pass)
		require.Len(t, turn.Runs, 1, "as a message of its own")
	})
}

func TestReplacedResult(t *testing.T) {
	s, r := called(t, runs("c1"))
	r.ApplyCallsDecision(t0, pass)
	c := r.Calls[0]
	c.CallRan(ToolReply{ToolCallID: "c1", Status: "failed"})
	c.ApplyResultDecision(t0, replaces("redact", saying(event.Tool, "note", "[gone]")))
	require.Equal(t, event.Message{
		ID: "c1.result", ThreadID: "t1", SenderID: "note", SenderType: event.Tool, Role: "tool", Content: "[gone]", ToolCallID: "c1",
		ToolName: "note", IsError: true, AgentID: "assistant", ReplyToMessageID: "e1.0.1",
	}, *heardOn(t, s, "c1.result.hook").Message, "it is still the result of its call")
	r.ToolsDone(t0)
	require.Equal(t, PhaseModel, r.Phase, "S0-34 the agent goes on")

	s, r = called(t, runs("c1"))
	r.ApplyCallsDecision(t0, pass)
	decided := replaces("redact", saying(event.Tool, "note", "[gone]"))
	r.Calls[0].CallRan(ToolReply{ToolCallID: "c1", Status: "succeeded", Decision: &decided})
	require.Equal(t, &decided, r.Calls[0].Decision, "inline hooks were asked by the step")
	r.Calls[0].ApplyResultDecision(t0, decided)
	m := heardOn(t, s, "c1.result.hook").Message
	require.Equal(t, "c1", m.ToolCallID)
	require.Nil(t, m.Metadata, "what the hook leaves out is gone")
	require.Nil(t, r.Calls[0].Decision, "it is not carried any further")
}

// TestHeldReply: what nobody was shown yet is shown by the decision, or never.
func TestHeldReply(t *testing.T) {
	hold := []hook.Spec{{Name: "guard", Kind: hook.KindFunc, HoldOutput: true}}
	for _, tc := range []struct {
		name     string
		decision Decision
		shown    string
		final    string
	}{
		{"let out", decides("guard", event.Passed), "hi", "hi"},
		{"let out by an inline hook", Decision{Outcome: event.Passed, Silent: true, Hooks: []event.HookOutcome{{Name: "guard", Outcome: event.Passed}}}, "hi", "hi"},
		{"no hook wants to see it after all", pass, "hi", "hi"},
		{"replaced", replaces("guard", saying(event.Agent, "assistant", "hm")), "hm", "hm"},
		{"answered in its place", answers("guard", "no"), "", ""},
		{"taken by a processor", swallows("p"), "", ""},
		{"failed", refuses("guard", "no"), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			r := begin(t, s, "e1", "hello").Runs[0]
			in := reply(t, s, r, hold, "hi")
			require.True(t, in.Gated)
			require.True(t, in.Quiet)
			require.True(t, r.ReplyEvent().message.Held)
			r.ApplyReplyDecision(t0, tc.decision)
			shown := ""
			for _, rec := range pending(s, event.TypeHook) {
				if m := payload[event.Interception](t, rec).Message; m != nil {
					require.False(t, m.Held)
					shown = m.Content
				}
			}
			if tc.decision.NoDefault {
				require.Equal(t, "hi", shown, "it was let pass, though nothing more comes of it")
			} else {
				require.Equal(t, tc.shown, shown)
			}
			if tc.final == "" {
				require.Nil(t, r.Final)
			} else {
				require.Equal(t, tc.final, r.Final.Content)
			}
		})
	}
}

// TestStatusOfTurnedItem: what hooks have made an event of another type of is overwritten by
// that.
func TestStatusOfTurnedItem(t *testing.T) {
	s := newState()
	arrive(t, s, signals.Post{ID: "e1", Type: "deploy", Payload: []byte(`{}`)})
	s.Turn.Enter(t0, replaces("h", saying(event.System, "h", "deploy?")))
	s.Turn.End(t0)
	require.Equal(t, event.Overwritten, s.Ended[0].Status, "S0-14 S2-37")
}

func TestReplyHeard(t *testing.T) {
	t.Run("S0-28 the thread writes the end of a reply that hooks may see", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "hello").Runs[0]
		reply(t, s, r, watch, "hi")
		require.Equal(t, PhaseReply, r.Phase)
		require.Empty(t, terminals(s), "not before they have decided")
		r.ApplyReplyDecision(t0, pass)
		require.Equal(t, []string{"e1.0.1.final"}, terminals(s))
		require.Equal(t, event.Final{Agent: "assistant", MessageID: "e1.0.1"}, payload[event.Final](t, pending(s, event.TypeFinal)[0]))
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
		require.Len(t, terminals(s), 1, "S1-23")
	})
	t.Run("a reply that no hook may see has its end already", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "hello").Runs[0]
		in := reply(t, s, r, nil, "hi")
		require.False(t, in.Gated)
		r.ApplyReplyDecision(t0, pass)
		s.Turn.End(t0)
		require.Empty(t, terminals(s))
	})
	t.Run("S0-12 what it says now is the turn's answer, and addresses others", func(t *testing.T) {
		s := newState("assistant", "bob")
		r := begin(t, s, "e1", "@assistant hello").Runs[0]
		reply(t, s, r, watch, "hi")
		r.ApplyReplyDecision(t0, replaces("guard", saying(event.Agent, "assistant", "@bob hi")))
		require.Equal(t, "@bob hi", r.Final.Content)
		require.Equal(t, "assistant", r.Final.AgentID)
		require.Equal(t, "bob", s.Turn.Runs[1].Agent)
	})
	t.Run("its calls are an event of their own", func(t *testing.T) {
		for _, d := range []Decision{pass, replaces("guard", saying(event.Agent, "assistant", "other")), answers("guard", "no")} {
			s := newState()
			r := begin(t, s, "e1", "hello").Runs[0]
			reply(t, s, r, watch, "let me see", runs("c1"))
			require.Equal(t, PhaseReply, r.Phase)
			r.ApplyReplyDecision(t0, d)
			require.Equal(t, PhaseCalls, r.Phase)
			require.Equal(t, []string{"note"}, r.CallsEvent().Tools)
		}
	})
	t.Run("S0-25 a response ends the agent's part", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "hello").Runs[0]
		reply(t, s, r, watch, "hi")
		r.ApplyReplyDecision(t0, answers("guard", "instead"))
		require.Equal(t, PhaseDone, r.Phase)
		require.Nil(t, r.Final)
		require.Equal(t, []string{"instead"}, contents(t, s))
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
	})
	t.Run("S0-14 S0-24 what became another event is processed as such, and not hooked again", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "hello").Runs[0]
		reply(t, s, r, watch, "hi")
		r.ApplyReplyDecision(t0, replaces("guard", event.CustomEvent{Type: "note.taken", ThreadID: "t1", Payload: json.RawMessage(`1`)}))
		require.Equal(t, []string{"note.taken"}, contents(t, s))
		require.True(t, s.Queue[0].Origin.Hooked)
		require.Equal(t, "guard", s.Queue[0].Origin.By)
		require.Equal(t, PhaseDone, r.Phase)
		require.Nil(t, r.Final)
		s.Turn.End(t0)
		next(t, s)
		require.Equal(t, []hook.Spec{{Name: "p", Kind: hook.KindProcessor}},
			s.Turn.ItemEvent().Processing([]hook.Spec{watch[0], {Name: "p", Kind: hook.KindProcessor}}), "only processors of what it became see it")
	})
	t.Run("S0-23 a failure fails the turn, and its calls have results", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "hello").Runs[0]
		reply(t, s, r, watch, "let me see", runs("c1"), asks("c2"))
		r.ApplyReplyDecision(t0, refuses("guard", "hook guard failed: no"))
		require.Equal(t, map[string]string{"c1": "Error: hook guard failed: no", "c2": "Error: hook guard failed: no"}, results(t, s))
		require.Equal(t, "e1.0.1.hook.failed", pending(s, event.TypeHook)[0].ID)
		out := s.Turn.End(t0)
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Equal(t, "hook guard failed: no", out.Error)
		require.Len(t, terminals(s), 1)
	})
	t.Run("S1-23 viewers are told of the end when a processor takes what an agent says", func(t *testing.T) {
		for _, d := range []Decision{swallows("p"), {Outcome: event.Replaced, NoDefault: true, By: "p", Hooks: pass.Hooks, Event: rawJSON(saying(event.Agent, "assistant", "hm"))}} {
			s := newState()
			r := begin(t, s, "e1", "hello").Runs[0]
			reply(t, s, r, watch, "hi")
			r.ApplyReplyDecision(t0, d)
			require.Nil(t, r.Final, "S2-34 the default is left out, whatever hooks have made of the event before")
			require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
			require.Equal(t, []string{"e1.final"}, terminals(s))
		}
	})
}

func TestModelCallHeard(t *testing.T) {
	start := func(t *testing.T) (*State, *Run) {
		s := newState()
		return s, begin(t, s, "e1", "hello").Runs[0]
	}
	t.Run("S0-11 pass", func(t *testing.T) {
		_, r := start(t)
		require.True(t, r.ApplyModelCallDecision(t0, pass))
		require.True(t, r.Asked)
		in := r.NextModelStep(nil)
		require.Empty(t, in.Instructions+in.Model)
	})
	t.Run("S2-18 other instructions for one call", func(t *testing.T) {
		s, r := start(t)
		require.True(t, r.ApplyModelCallDecision(t0, replaces("tune", event.LLMCallEvent{ThreadID: "t1", Step: 1, Instructions: "Be brief.", Model: "demo/small"})))
		require.Equal(t, "Be brief.", heardOn(t, s, "e1.0.1.llm.hook").LLMCall.Instructions)
		r = copied(t, s).Turn.Runs[0]
		in := s.Turn.Runs[0].NextModelStep(nil)
		require.Equal(t, "Be brief.", in.Instructions)
		require.Equal(t, "demo/small", in.Model)
		require.Equal(t, "Be brief.", r.Next.Instructions, "also in the next run of the workflow")
		r = s.Turn.Runs[0]
		s.took(t0, r, ModelReply{Agent: "assistant", MaxSteps: 3, Message: event.Message{ID: in.MessageID}, Calls: []PlannedCall{runs("c1")}})
		s.ran(t0, r, r.Calls[0])
		r.ToolsDone(t0)
		require.False(t, r.Asked, "the next call is asked about anew")
		in = r.NextModelStep(nil)
		require.Empty(t, in.Instructions+in.Model)
	})
	for name, d := range map[string]Decision{"a response": answers("guard", "no"), "a processor": swallows("p")} {
		t.Run("S0-15 "+name+" in its place", func(t *testing.T) {
			s, r := start(t)
			require.False(t, r.ApplyModelCallDecision(t0, d))
			require.Equal(t, PhaseDone, r.Phase)
			require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
			if d.NoDefault {
				require.Len(t, terminals(s), 1, "S1-23")
			}
		})
	}
	t.Run("S0-23 a failure", func(t *testing.T) {
		s, r := start(t)
		require.False(t, r.ApplyModelCallDecision(t0, refuses("guard", "no")))
		require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
	})
}
