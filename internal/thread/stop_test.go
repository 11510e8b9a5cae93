package thread

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// TestStopInEveryPhase interrupts a run wherever it can be: each call that is stored has
// exactly one result then, and viewers are told of exactly one end.
func TestStopInEveryPhase(t *testing.T) {
	start := func(t *testing.T) (*State, *AgentRun) {
		s := newState()
		return s, begin(t, s, "e1", "go").Runs[0]
	}
	withReply := func(content string, specs []hook.Spec) func(*testing.T) (*State, *AgentRun) {
		return func(t *testing.T) (*State, *AgentRun) {
			s, r := start(t)
			reply(t, s, r, specs, content, runs("c1"), asks("c2"))
			return s, r
		}
	}
	for _, tc := range []struct {
		name    string
		reach   func(*testing.T) (*State, *AgentRun)
		results []string
	}{
		{"the model is asked", start, nil},
		{"hooks decide on the model call", func(t *testing.T) (*State, *AgentRun) {
			s, r := start(t)
			s.Turns.Current.HooksStarted(r.ModelCallEvent(), watch...)
			return s, r
		}, nil},
		{"hooks have decided on the model call", func(t *testing.T) (*State, *AgentRun) {
			s, r := start(t)
			require.True(t, r.ApplyModelCallDecision(t0, pass))
			return s, r
		}, nil},
		{"hooks decide on the reply", withReply("let me see", watch), []string{"c1", "c2"}},
		{"no hook may see the reply", withReply("let me see", nil), []string{"c1", "c2"}},
		{"hooks decide on the calls", withReply("", watch), []string{"c1", "c2"}},
		{"the calls are to be planned", func(t *testing.T) (*State, *AgentRun) {
			s, r := withReply("", watch)(t)
			r.ApplyCallsDecision(t0, replaces("guard", calling("assistant", "c2")))
			require.Equal(t, []string{"c2"}, r.Plan)
			return s, r
		}, []string{"c1", "c2"}},
		{"the calls are planned", func(t *testing.T) (*State, *AgentRun) {
			s, r := withReply("", watch)(t)
			r.ApplyCallsDecision(t0, pass)
			r.Planned(t0, step.PlanReply{Agent: "assistant", MaxSteps: 3, Calls: []step.PlannedCall{runs("c1"), asks("c2")}})
			return s, r
		}, []string{"c1", "c2"}},
		{"a person was asked, and a call has run", func(t *testing.T) (*State, *AgentRun) {
			s, r := withReply("", nil)(t)
			r.ApplyCallsDecision(t0, pass)
			r.Calls[0].CallRan(step.ToolReply{Status: "succeeded"})
			require.Equal(t, []CallStage{CallRan, CallWaiting}, []CallStage{r.Calls[0].Stage, r.Calls[1].Stage})
			return s, r
		}, []string{"c2"}},
		{"a result was heard", func(t *testing.T) (*State, *AgentRun) {
			s, r := withReply("", nil)(t)
			r.ApplyCallsDecision(t0, pass)
			s.ran(t0, r, r.Calls[0])
			return s, r
		}, []string{"c2"}},
		{"a hook has put calls in the place of the message", func(t *testing.T) (*State, *AgentRun) {
			s := newState()
			turn := arrive(t, s, says("e1", "go"))
			s.Turns.Current.Enter(t0, replaces("route", calling("assistant", "x1")))
			return s, turn.Runs[0]
		}, []string{""}},
	} {
		t.Run("S4-71 "+tc.name, func(t *testing.T) {
			s, _ := tc.reach(t)
			s.Outbox.Flushed(s.Outbox.Flush())
			s = copied(t, s)
			r := s.Turns.Current.Runs[0]
			want := tc.results
			if len(want) == 1 && want[0] == "" {
				want = r.Plan
			}
			require.True(t, s.Turns.Interrupt(signals.Control{By: "ann"}))
			r.StopRun(t0)
			require.True(t, r.Done())
			require.Nil(t, r.Reply)
			got := []string{}
			for id, text := range results(t, s) {
				got = append(got, id)
				if text != step.NotBegunText {
					require.Equal(t, "Not run: guard took the call out.", text)
				}
			}
			already := map[string]bool{}
			if tc.name == "the calls are to be planned" {
				// That of the call that was taken out is stored already.
				already["c1"] = true
			}
			var missing []string
			for _, id := range want {
				if !already[id] {
					missing = append(missing, id)
				}
			}
			require.ElementsMatch(t, missing, got)
			require.Equal(t, signals.TurnInterrupted, s.Turns.Current.End(t0).Status)
			require.Len(t, terminals(s), 1, "S1-37")
			require.True(t, s.Turns.Idle())
		})
	}
}

var inlineHooks = []hook.Spec{{Name: "redact", Kind: hook.KindInline}}

// TestInterruptOfTheLastReply: what was complete, and no hook was to see, was said.
func TestInterruptOfTheLastReply(t *testing.T) {
	t.Run("no hook may see it", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "go").Runs[0]
		reply(t, s, r, nil, "all said")
		s.Outbox.Flushed(s.Outbox.Flush())
		s.Turns.Interrupt(signals.Control{By: "ann"})
		r.StopRun(t0)
		out := s.Turns.Current.End(t0)
		require.Equal(t, signals.TurnCompleted, out.Status, "there was nothing left to interrupt")
		require.Equal(t, "all said", out.Message.Content)
		require.Empty(t, terminals(s), "S1-23 the model call has written the end")
	})
	t.Run("but for those whom it addresses", func(t *testing.T) {
		s := newState("assistant", "bob")
		r := begin(t, s, "e1", "@assistant go").Runs[0]
		reply(t, s, r, nil, "@bob your turn")
		s.Turns.Interrupt(signals.Control{By: "ann"})
		r.StopRun(t0)
		require.Len(t, s.Turns.Current.Runs, 1)
		require.Equal(t, signals.TurnInterrupted, s.Turns.Current.End(t0).Status)
		require.Empty(t, terminals(s))
	})
	t.Run("S0-24 what hooks have decided before that stands", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "go").Runs[0]
		in := r.NextModelStep(inlineHooks)
		require.NotEmpty(t, in.Inline)
		s.Outbox.Flushed(in.Flush)
		said := replaces("redact", saying(event.CreatedByAgent, "assistant", "[gone]"))
		r.Replied(t0, step.ModelReply{
			Agent: "assistant", MaxSteps: 3, MessageDecision: &said, CallsDecision: &pass, Gated: true,
			Message: event.Message{ID: in.MessageID, ThreadID: "t1", Content: "a secret"},
		})
		s.Turns.Interrupt(signals.Control{By: "ann"})
		r.StopRun(t0)
		require.Equal(t, "[gone]", heardOn(t, s, "e1.0.1.hook").Message.Content)
		out := s.Turns.Current.End(t0)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "[gone]", out.Message.Content)
		require.Len(t, terminals(s), 1)
	})
	t.Run("S0-24 also on a result", func(t *testing.T) {
		s, r := called(t, runs("c1"), runs("c2"))
		r.ApplyCallsDecision(t0, pass)
		redacted := replaces("redact", saying(event.CreatedByTool, "note", "[gone]"))
		r.Calls[0].CallRan(step.ToolReply{Status: "succeeded", Decision: &redacted})
		s.Turns.Interrupt(signals.Control{By: "ann"})
		r.StopRun(t0)
		require.Equal(t, "[gone]", heardOn(t, s, "c1.result.hook").Message.Content)
		require.Equal(t, map[string]string{"c2": step.NotBegunText}, results(t, s), "S4-71")
	})
	t.Run("hooks have not decided on it", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "go").Runs[0]
		reply(t, s, r, watch, "all said")
		s.Turns.Interrupt(signals.Control{By: "ann"})
		r.StopRun(t0)
		out := s.Turns.Current.End(t0)
		require.Equal(t, signals.TurnInterrupted, out.Status)
		require.Nil(t, out.Message)
		require.Len(t, terminals(s), 1)
	})
}

func TestInterruptWhileHooksDecideOnTheItem(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "go"))
	s.Turns.Current.HooksStarted(s.Turns.Current.ItemEvent(), watch...)
	s.Turns.Interrupt(signals.Control{By: "ann", Reason: "enough"})
	out := s.Turns.Current.End(t0)
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Equal(t, "enough", out.Error)
	it, _ := s.Inbox.View().Find("e1")
	require.Equal(t, event.ItemCompleted, it.Status)
	require.Error(t, s.Turns.HookDecided(step.HookDecided{EventID: "e1", Decision: answers("guard", "late")}), "what is decided after that has no effect")
	require.True(t, s.Turns.Idle())
}

// TestRetryAfterHooks: a decision is made once, also for an event that fails later.
func TestRetryAfterHooks(t *testing.T) {
	fail := func(t *testing.T, d step.HookDecision) *State {
		s := newState("alice", "bob")
		turn := arrive(t, s, says("e1", "@alice hello"))
		s.Turns.Current.Enter(t0, d)
		for _, r := range turn.Runs {
			r.Fail(t0, "no such model", false)
		}
		require.Equal(t, signals.TurnFailed, s.Turns.Current.End(t0).Status)
		s.Outbox.Flushed(s.Outbox.Flush())
		s = copied(t, s)
		require.NoError(t, s.Inbox.Retry(t0, signals.Control{}))
		return copied(t, s)
	}
	again := func(t *testing.T, s *State) *Turn {
		turn := next(t, s)
		d, seen := turn.DecidedBefore()
		require.True(t, seen, "S0-24 they are not asked again")
		s.Turns.Current.Enter(t0, d)
		require.Empty(t, pending(s, event.TypeHook), "S0-24 nothing is recorded twice")
		return turn
	}
	t.Run("passed", func(t *testing.T) {
		turn := again(t, fail(t, decides("guard", event.OutcomePassed)))
		require.Equal(t, "alice", turn.Runs[0].Agent)
	})
	t.Run("replaced by a message", func(t *testing.T) {
		turn := again(t, fail(t, replaces("guard", saying(event.CreatedByUser, "ann", "@bob hello"))))
		require.Equal(t, "bob", turn.Runs[0].Agent, "S0-12 the replacement holds")
	})
	t.Run("replaced by a long one", func(t *testing.T) {
		long := saying(event.CreatedByUser, "ann", "@bob "+strings.Repeat("ü", 100<<10))
		long.Message.Metadata = map[string]any{"a": strings.Repeat("x", 1000)}
		s := fail(t, replaces("guard", long))
		require.Less(t, len(s.Inbox.Queue[0].Replaced), step.MaxCarriedContent+500, "all of it is in the store")
		require.Equal(t, "bob", again(t, s).Runs[0].Agent)
	})
	t.Run("a second time", func(t *testing.T) {
		s := fail(t, replaces("guard", saying(event.CreatedByUser, "ann", "@bob hello")))
		turn := again(t, s)
		turn.Runs[0].Fail(t0, "no such model", false)
		s.Turns.Current.End(t0)
		_, _, err := s.Inbox.SetStatus(t0, setTo("e1", event.ItemPending))
		require.NoError(t, err)
		require.Equal(t, "bob", again(t, s).Runs[0].Agent)
		require.Equal(t, 2, s.Turns.Current.Item.Attempt)
	})
	t.Run("S2-46 also when it is put back while it is processed", func(t *testing.T) {
		s := newState("alice", "bob")
		arrive(t, s, says("e1", "@alice hello"))
		s.Turns.Current.Enter(t0, replaces("guard", saying(event.CreatedByUser, "ann", "@bob hello")))
		_, _, err := s.Inbox.SetStatus(t0, setTo("e1", event.ItemPending))
		require.NoError(t, err)
		s.Turns.Interrupt(signals.Control{})
		s.Turns.Current.Runs[0].StopRun(t0)
		s.Turns.Current.End(t0)
		s.Outbox.Flushed(s.Outbox.Flush())
		require.Equal(t, "bob", again(t, copied(t, s)).Runs[0].Agent)
	})
	t.Run("S0-23 but hooks that failed are asked again", func(t *testing.T) {
		s := newState()
		arrive(t, s, says("e1", "hello"))
		s.Turns.Current.Enter(t0, refuses("guard", "it broke"))
		s.Turns.Current.End(t0)
		require.Equal(t, []string{"e1.error"}, terminals(s))
		require.NoError(t, s.Inbox.Retry(t0, signals.Control{}))
		turn := next(t, s)
		_, seen := turn.DecidedBefore()
		require.False(t, seen)
		require.Equal(t, "e1~1", s.Turns.Current.ItemEvent().Key, "in a hook workflow of their own")
		s.Turns.Current.Enter(t0, answers("guard", "no"))
		s.Turns.Current.End(t0)
		records := recordIDs(pending(s, event.TypeHook))
		require.Equal(t, []string{"e1.hook.failed", "e1.hook"}, records, "the failure stays, the decision is the event's")
	})
}

// TestEveryPointSurvivesANewRun takes a turn through everything that hooks can do, once
// in one run of the workflow, and once with a new run after each step.
func TestEveryPointSurvivesANewRun(t *testing.T) {
	low := -3
	first := func(s *State) *AgentRun { return s.Turns.Current.Runs[0] }
	story := []func(t *testing.T, s *State){
		func(t *testing.T, s *State) { post(t, s, says("e1", "@alice go")); post(t, s, says("e9", "waits")) },
		func(t *testing.T, s *State) { next(t, s) },
		func(_ *testing.T, s *State) { s.Turns.Current.HooksStarted(s.Turns.Current.ItemEvent(), watch...) },
		func(t *testing.T, s *State) {
			require.NoError(t, s.Turns.HookDecided(step.HookDecided{EventID: "e1", Decision: replaces("guard", saying(event.CreatedByUser, "ann", "@bob go"))}))
		},
		func(t *testing.T, s *State) {
			d, asked := s.Turns.Current.HooksPending(s.Turns.Current.ItemEvent())
			require.True(t, asked)
			s.Turns.Current.HooksFinished(s.Turns.Current.ItemEvent())
			s.Turns.Current.Enter(t0, *d)
		},
		func(t *testing.T, s *State) {
			p := says("e2", "and mind the gap")
			p.OnBusy = event.OnBusySteer
			post(t, s, p)
			q, ok := s.Turns.Current.NextSteered(t0)
			require.True(t, ok)
			s.Turns.Current.HooksStarted(s.Turns.Current.SteeredEvent(q), watch...)
			s.Turns.Current.PutBack(t0, q)
		},
		func(t *testing.T, s *State) {
			q, ok := s.Turns.Current.NextSteered(t0)
			require.True(t, ok)
			_, asked := s.Turns.Current.HooksPending(s.Turns.Current.SteeredEvent(q))
			require.True(t, asked)
			s.Turns.Current.HooksFinished(s.Turns.Current.SteeredEvent(q))
			s.Turns.Current.Join(t0, q, decides("guard", event.OutcomePassed))
		},
		func(t *testing.T, s *State) {
			require.True(t, first(s).ApplyModelCallDecision(t0, replaces("tune", event.LLMCallEvent{ThreadID: "t1", AgentName: "bob", Step: 1, Instructions: "Be brief."})))
		},
		func(t *testing.T, s *State) {
			in := reply(t, s, first(s), watch, "let me see", runs("c1"), asks("c2"), runs("c3"))
			require.Equal(t, "Be brief.", in.Instructions)
		},
		func(_ *testing.T, s *State) { s.Turns.Current.HooksStarted(first(s).ReplyEvent(), watch...) },
		func(_ *testing.T, s *State) {
			s.Turns.Current.HooksFinished(first(s).ReplyEvent())
			first(s).ApplyReplyDecision(t0, replaces("guard", saying(event.CreatedByAgent, "assistant", "wait")))
		},
		func(_ *testing.T, s *State) {
			first(s).ApplyCallsDecision(t0, replaces("guard", calling("assistant", "c1", "c2")))
		},
		func(_ *testing.T, s *State) {
			first(s).Planned(t0, step.PlanReply{Agent: "assistant", MaxSteps: 3, Calls: []step.PlannedCall{runs("c1"), asks("c2")}})
		},
		func(_ *testing.T, s *State) {
			first(s).Calls[0].CallRan(step.ToolReply{ToolCallID: "c1", Status: "succeeded"})
		},
		func(_ *testing.T, s *State) { s.Turns.Current.HooksStarted(first(s).Calls[0].ResultEvent(), watch...) },
		func(_ *testing.T, s *State) {
			c := first(s).Calls[0]
			s.Turns.Current.HooksFinished(c.ResultEvent())
			c.ApplyResultDecision(t0, responds("guard", hook.Response{Content: "later"}, hook.Response{Content: "now", EnqueueAfter: hook.EnqueueImmediately}))
		},
		func(_ *testing.T, s *State) { s.Decide(t0, decision("c2", event.DecisionDeny)) },
		func(_ *testing.T, s *State) { first(s).ToolsDone(t0) },
		func(_ *testing.T, s *State) { s.Turns.Current.End(t0) },
		func(t *testing.T, s *State) { next(t, s) },
		func(_ *testing.T, s *State) {
			s.Turns.Current.Enter(t0, produces("p", hook.Produced{Type: "note.taken", Payload: []byte(`1`), Priority: &low}))
		},
		func(_ *testing.T, s *State) { s.Turns.Current.End(t0) },
		func(t *testing.T, s *State) { next(t, s); s.Turns.Current.Enter(t0, pass); s.Turns.Current.End(t0) },
		func(t *testing.T, s *State) {
			require.Equal(t, "e9", next(t, s).Item.ID)
			s.Turns.Current.Enter(t0, refuses("guard", "it broke"))
			s.Turns.Current.End(t0)
		},
		func(t *testing.T, s *State) {
			require.True(t, s.Turns.Awaits("e1"))
			next(t, s)
			s.Turns.Current.Enter(t0, pass)
			s.Turns.Current.End(t0)
		},
	}
	one, many := newState("alice", "bob"), newState("alice", "bob")
	for i, tell := range story {
		tell(t, one)
		many = copied(t, many)
		tell(t, many)
		require.Equal(t, asJSON(t, one), asJSON(t, many), "step %d", i)
	}
	require.Equal(t, signals.TurnCompleted, ended(t, one, "e1").Status)
	require.Equal(t, signals.TurnCompleted, ended(t, one, "e2").Status)
	require.Equal(t, signals.TurnFailed, ended(t, one, "e9").Status)
	require.Empty(t, one.Inbox.Queue)
	require.Empty(t, one.Turns.Roots)
}
