package thread

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

func TestCallsHeard(t *testing.T) {
	const answered = "Not run: guard answered in place of the tool."
	for _, tc := range []struct {
		name     string
		decision Decision
		phase    Phase
		plan     []string
		runs     []string
		results  map[string]string
		queued   []string
		answered bool
	}{
		{"S0-11 pass", pass, PhaseTools, nil, []string{"c1", "c2", "c3"}, nil, nil, false},
		{"S0-13 edited arguments are planned anew", replaces("guard", calling("assistant", "c1", "c2", "c3")), PhaseCalls, []string{"c1", "c2", "c3"}, nil, nil, nil, false},
		{"S0-13 a call that is taken out never runs", replaces("guard", calling("assistant", "c1", "c3")), PhaseCalls, []string{"c1", "c3"}, nil, map[string]string{"c2": "Not run: guard took the call out."}, nil, false},
		{"S0-13 all are taken out", replaces("guard", calling("assistant")), PhaseTools, nil, nil, map[string]string{
			"c1": "Not run: guard took the call out.", "c2": "Not run: guard took the call out.", "c3": "Not run: guard took the call out.",
		}, nil, false},
		{"S0-16 a response in their place", answers("guard", "no"), PhaseDone, nil, nil, map[string]string{"c1": answered, "c2": answered, "c3": answered}, []string{"no"}, true},
		{"S2-29 produced events in their place", produces("guard", hook.Message(event.System, "p", "no")), PhaseDone, nil, nil, map[string]string{"c1": answered, "c2": answered, "c3": answered}, []string{"no"}, true},
		{"S2-34 a processor that makes nothing of them", swallows("guard"), PhaseDone, nil, nil, map[string]string{"c1": answered, "c2": answered, "c3": answered}, nil, true},
		{"S0-14 a message in their place", replaces("guard", saying(event.System, "guard", "denied")), PhaseDone, nil, nil, map[string]string{
			"c1": answered, "c2": answered, "c3": answered,
		}, []string{"denied"}, true},
		{"S0-23 a failure", refuses("guard", "hook guard failed: no"), PhaseDone, nil, nil, map[string]string{
			"c1": "Error: hook guard failed: no", "c2": "Error: hook guard failed: no", "c3": "Error: hook guard failed: no",
		}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, r := called(t, runs("c1"), runs("c2"), runs("c3"))
			r.ApplyCallsDecision(t0, tc.decision)
			require.Equal(t, tc.phase, r.Phase)
			require.Equal(t, tc.plan, r.Plan)
			var started []string
			for _, c := range r.Calls {
				require.Equal(t, Ready, c.Stage)
				started = append(started, c.Plan.ID)
			}
			require.Equal(t, tc.runs, started)
			if tc.results == nil {
				tc.results = map[string]string{}
			}
			require.Equal(t, tc.results, results(t, s), "S4-71")
			require.Equal(t, append([]string{}, tc.queued...), contents(t, s))
			require.Equal(t, tc.answered, r.Answered)
			if tc.answered {
				require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status, "S0-22 the agent is not run again")
			}
			if tc.decision.Outcome == event.HookFailed {
				require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
			}
		})
	}
}

func TestEditedCallsInTheRecord(t *testing.T) {
	s, r := called(t, runs("c1"), runs("c2"))
	r.ApplyCallsDecision(t0, replaces("guard", calling("assistant", "c2")))
	rec := heardOn(t, s, "e1.0.1.calls.hook")
	require.Equal(t, calling("assistant", "c2").ToolCalls, rec.ToolCalls, "S0-13 what runs is in the record")
	require.Equal(t, "assistant", rec.Agent)
	require.Equal(t, event.TypeToolCall, rec.EventType)

	step := r.PlanStep()
	require.Equal(t, "e1.0.1", step.MessageID)
	require.Equal(t, []string{"c2"}, step.Only)
	require.Equal(t, s.Flush(), step.Flush, "the record is stored before it is read")
	s.Flushed(step.Flush)
	r.Planned(t0, PlanReply{Agent: "assistant", Model: "demo/demo", MaxSteps: 7, Calls: []PlannedCall{runs("c2")}})
	require.Equal(t, PhaseTools, r.Phase)
	require.Equal(t, 7, r.MaxSteps)
	require.True(t, r.Calls[0].ToolStep(nil).Edited, "the tool reads what runs from the record")
	s.ran(t0, r, r.Calls[0])
	r.ToolsDone(t0)
	step2 := reply(t, s, r, nil, "", runs("c3"))
	require.Equal(t, "e1.0.2", step2.MessageID)
	r.ApplyCallsDecision(t0, pass)
	require.False(t, r.Calls[0].ToolStep(nil).Edited)
}

func TestAllCallsTakenOut(t *testing.T) {
	s, r := called(t, runs("c1"))
	r.ApplyCallsDecision(t0, replaces("guard", calling("assistant")))
	r.ToolsDone(t0)
	require.Equal(t, PhaseModel, r.Phase, "S0-34 the model hears that nothing ran, and goes on")
	step(t, s, r, "I see")
	require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
}

// TestApprovalsAfterHooks: people are asked about what will run.
func TestApprovalsAfterHooks(t *testing.T) {
	t.Run("a reply that hooks may see has its requests planned after them", func(t *testing.T) {
		s, r := called(t, asks("c1"), runs("c2"))
		require.True(t, r.Gated)
		require.Empty(t, s.Approvals())
		r.ApplyCallsDecision(t0, pass)
		require.Equal(t, []string{"c1", "c2"}, r.Plan)
		require.Empty(t, s.Approvals())
		r.Planned(t0, PlanReply{Agent: "assistant", MaxSteps: 3, Calls: []PlannedCall{asks("c1"), runs("c2")}})
		require.Len(t, s.Approvals(), 1)
		require.Equal(t, []Stage{Waiting, Ready}, []Stage{r.Calls[0].Stage, r.Calls[1].Stage})
	})
	t.Run("what nothing else looks at again meets the policy of then", func(t *testing.T) {
		for by, plans := range map[RunBy]bool{ByAgent: true, ByClient: true, "": false} {
			p := runs("c1")
			p.By = by
			_, r := called(t, p)
			r.ApplyCallsDecision(t0, pass)
			require.Equal(t, plans, len(r.Plan) == 1, by)
		}
	})
	t.Run("edited arguments need an approval of their own", func(t *testing.T) {
		s, r := called(t, runs("c1"))
		r.ApplyCallsDecision(t0, replaces("guard", calling("assistant", "c1")))
		edited := asks("c1")
		edited.Arguments = `{"text":"edited"}`
		r.Planned(t0, PlanReply{Agent: "assistant", MaxSteps: 3, Calls: []PlannedCall{edited}})
		require.Equal(t, `{"text":"edited"}`, s.Approvals()[0].Arguments, "S4-93")
	})
	t.Run("a decision that came ahead meets the call once it is planned", func(t *testing.T) {
		s, r := called(t, asks("c1"), runs("c2"))
		require.True(t, s.IsEarly("c1"))
		require.True(t, s.BufferEarly(decision("c1", event.Approve)))
		r.ApplyCallsDecision(t0, pass)
		require.True(t, s.IsEarly("c1"))
		s = copied(t, s)
		r = s.Turn.Runs[0]
		r.Planned(t0, PlanReply{Agent: "assistant", MaxSteps: 3, Calls: []PlannedCall{asks("c1"), runs("c2")}})
		require.Equal(t, Ready, r.Calls[0].Stage)
		require.Empty(t, s.EarlyDecisions)
	})
	t.Run("one on a call that was taken out meets none", func(t *testing.T) {
		s, r := called(t, asks("c1"))
		require.True(t, s.BufferEarly(decision("c1", event.Approve)))
		r.ApplyCallsDecision(t0, replaces("guard", calling("assistant")))
		require.Empty(t, s.EarlyDecisions)
		require.Len(t, pending(s, event.TypeRejected), 1, "S4-91")
		require.Empty(t, r.Calls)
	})
}

func TestPlanFailed(t *testing.T) {
	s, r := called(t, runs("c1"), runs("c2"))
	r.ApplyCallsDecision(t0, replaces("guard", calling("assistant", "c2")))
	r.PlanFailed(t0, "agent assistant is gone", false)
	require.Equal(t, map[string]string{"c1": "Not run: guard took the call out.", "c2": "Error: agent assistant is gone"}, results(t, s), "S4-71")
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Equal(t, "agent assistant is gone", out.Error)
}

// TestDeferredResponses: S0-21.
func TestDeferredResponses(t *testing.T) {
	ran := func(s *State, r *Run, i int, d Decision) {
		r.Calls[i].CallRan(ToolReply{Status: "succeeded"})
		r.Calls[i].ApplyResultDecision(t0, d)
	}
	start := func(t *testing.T) (*State, *Run) {
		s, r := called(t, runs("c1"), runs("c2"))
		r.ApplyCallsDecision(t0, pass)
		return s, r
	}
	both := responds("guard", hook.Response{Content: "after"}, hook.Response{Content: "now", EnqueueAfter: hook.Immediately}, hook.Response{Content: "too", EnqueueAfter: hook.ToolResults})
	t.Run("S0-21 on a result", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 0, both)
		require.Equal(t, []string{"now"}, contents(t, s))
		rec := heardOn(t, s, "c1.result.hook")
		require.Len(t, rec.Produced, 3, "S0-24 the record names all of them, in the order of the calls")
		s = copied(t, s)
		r = s.Turn.Runs[0]
		r.ToolsDone(t0)
		require.Equal(t, []string{"now"}, contents(t, s), "the other call still runs")
		ran(s, r, 1, pass)
		r.ToolsDone(t0)
		require.Equal(t, []string{"now", "after", "too"}, contents(t, s))
		require.ElementsMatch(t, rec.Produced, ids(s.Ordered()))
		require.Equal(t, PhaseDone, r.Phase, "S0-22 the agent is not run again on the results")
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
		require.True(t, s.Awaits("e1"))
	})
	t.Run("S0-21 on the calls themselves, which have results at once", func(t *testing.T) {
		s, r := called(t, runs("c1"))
		r.ApplyCallsDecision(t0, both)
		require.Equal(t, []string{"now", "after", "too"}, contents(t, s))
		require.Len(t, results(t, s), 1, "S0-42")
	})
	t.Run("S0-21 an interrupt does not lose them", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 0, both)
		s.Interrupt(signals.Control{})
		r.StopRun(t0)
		require.Equal(t, map[string]string{"c2": NotBegunText}, results(t, s), "S4-71")
		require.Equal(t, []string{"now", "after", "too"}, contents(t, s))
	})
	t.Run("S0-23 nor does a failure of another hook", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 0, both)
		ran(s, r, 1, refuses("other", "hook other failed: no"))
		require.Equal(t, PhaseTools, r.Phase)
		r.ToolsDone(t0)
		require.Equal(t, []string{"now", "after", "too"}, contents(t, s))
		require.Equal(t, "hook other failed: no", s.Turn.End(t0).Error)
	})
	t.Run("S0-23 the first failure counts, once all calls have results", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 1, refuses("one", "first"))
		r.ToolsDone(t0)
		require.Equal(t, PhaseTools, r.Phase)
		ran(s, r, 0, refuses("two", "second"))
		r.ToolsDone(t0)
		out := s.Turn.End(t0)
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Equal(t, "first", out.Error)
		require.Len(t, terminals(s), 1)
	})
	t.Run("S2-34 a processor that takes a result ends the agent's part, and viewers hear of it", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 0, swallows("p"))
		ran(s, r, 1, pass)
		r.ToolsDone(t0)
		require.Equal(t, PhaseDone, r.Phase)
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
		require.Equal(t, []string{"e1.final"}, terminals(s))
	})
	t.Run("S0-14 a result that becomes another event", func(t *testing.T) {
		s, r := start(t)
		ran(s, r, 0, replaces("guard", event.CustomEvent{Type: "note.taken", ThreadID: "t1"}))
		ran(s, r, 1, pass)
		r.ToolsDone(t0)
		require.Equal(t, PhaseDone, r.Phase)
		require.Equal(t, []string{"note.taken"}, contents(t, s))
	})
}

// TestAdopt: calls that a hook puts in the place of a message run as if the agent had
// asked for them.
func TestAdopt(t *testing.T) {
	s := newState("alice")
	turn := arrive(t, s, says("e1", "note this"))
	d := replaces("route", calling("alice", "x1", "x2"))
	s.Turn.Enter(t0, d)
	r := turn.Runs[0]
	require.Equal(t, PhaseCalls, r.Phase)
	require.Len(t, r.Plan, 2)
	said := pending(s, event.TypeMessage)[1]
	m := payload[event.Message](t, said)
	require.Equal(t, "e1.0.0", m.ID)
	require.Equal(t, "alice", m.AgentID)
	require.Equal(t, event.RoleAssistant, m.Role)
	require.Equal(t, "e1", m.ReplyToMessageID)
	require.Empty(t, m.Content)
	for i, c := range m.ToolCalls {
		require.Equal(t, r.Plan[i], c.ID)
		require.NotEqual(t, calling("alice", "x1", "x2").ToolCalls[i].ID, c.ID, "ids are the thread's own: a hook may use the same in each event")
		require.Regexp(t, "^call_[0-9a-z]{26}$", c.ID)
		require.Equal(t, `{"text":"edited"}`, c.Function.Arguments)
	}
	require.Equal(t, m.ToolCalls, payload[event.ToolCallEvent](t, pending(s, event.TypeToolCall)[0]).ToolCalls, "S0-29")

	s = copied(t, s)
	r = s.Turn.Runs[0]
	step1 := r.PlanStep()
	require.Equal(t, "alice", step1.Agent)
	require.Equal(t, "e1.0.0", step1.MessageID)
	s.Flushed(step1.Flush)
	calls := []PlannedCall{runs(r.Plan[0]), asks(r.Plan[1])}
	r.Planned(t0, PlanReply{Agent: "alice", Model: "demo/demo", MaxSteps: 3, Calls: calls})
	require.Len(t, s.Approvals(), 1)
	s.ran(t0, r, r.Calls[0])
	require.Equal(t, signals.Accepted, s.Decide(t0, decision(calls[1].ID, event.Deny)))
	r.ToolsDone(t0)
	in := step(t, s, r, "noted")
	require.Equal(t, "e1.0.1", in.MessageID, "S0-34 the agent goes on with the results")
	require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
}

func TestAdoptOfUnknownAgent(t *testing.T) {
	s := newState()
	turn := arrive(t, s, says("e1", "note this"))
	s.Turn.Enter(t0, replaces("route", calling("nobody", "x1")))
	r := turn.Runs[0]
	id := r.Plan[0]
	r.PlanFailed(t0, `unknown agent "nobody"`, false)
	require.Equal(t, map[string]string{id: `Error: unknown agent "nobody"`}, results(t, s), "S4-71")
	require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)

	require.NoError(t, s.Retry(t0, signals.Control{}))
	next(t, s)
	d, seen := s.Turn.DecidedBefore()
	require.True(t, seen)
	s.Turn.Enter(t0, d)
	require.Len(t, s.Turn.Runs, 1, "the calls are made again, as calls of their own")
	require.NotEqual(t, id, s.Turn.Runs[0].Plan[0])
	require.Equal(t, "e1~1.0.0", s.Turn.Runs[0].MessageID)
}

func TestLongReasons(t *testing.T) {
	_, r := called(t, runs("c1"))
	r.Fail(t0, strings.Repeat("ü", maxWhy), true)
	require.LessOrEqual(t, len(r.Error), maxWhy+len("…"))
	require.True(t, strings.HasSuffix(r.Error, "ü…"))
	require.Equal(t, "short", Why("short"))
}
