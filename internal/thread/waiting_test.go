package thread

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// wakes is a rule that has the thread's agent handle what happens.
var wakes = rule.Spec{Name: "w", Events: []string{"file.*"}, Agent: &rule.Agent{}}

// beside lets an environment event happen, and be handled while the turn in progress waits.
func beside(t *testing.T, s *State, id string) *Turn {
	t.Helper()
	post(t, s, happens(id, "file.changed", `1`))
	require.True(t, s.Park(), "the turn in progress does not wait for people only")
	turn := next(t, s)
	require.Equal(t, id, turn.Item.ID)
	s.Turn.Enter(t0, pass, wakes)
	require.Len(t, turn.Runs, 1)
	return turn
}

// answer ends a run, and its turn.
func answer(t *testing.T, s *State) signals.TurnResult {
	t.Helper()
	for _, r := range s.Turn.Runs {
		if r.Phase != PhaseDone {
			r.ToolsDone(t0)
			require.Equal(t, PhaseModel, r.Phase, "a call has no result")
			step(t, s, r, "done")
		}
	}
	return s.Turn.End(t0)
}

// TestParkedTurn: an environment event is handled while a turn waits for a person, and a
// message that is held back waits.
func TestParkedTurn(t *testing.T) {
	s, waits := waiting(t, careful("c1", "ls", AskPlan{}))
	waits.OnWaiting = event.OnWaitingHold
	post(t, s, says("e2", "hello?"))
	require.False(t, s.Park(), "a message waits its turn")
	beside(t, s, "v1")
	s = copied(t, s)
	require.Equal(t, []string{"e1", "v1"}, []string{s.Parked[0].Item.ID, s.Turn.Item.ID}, "also in the next run of the workflow")
	require.Equal(t, []string{"c1"}, s.stepOf(t).OpenCalls, "what has no result is no part of a transcript")
	view := s.QueueView()
	require.Equal(t, "v1", view.Processing.ID)
	require.Equal(t, []string{"e1"}, ids(view.Waiting))
	require.Equal(t, []string{"e2"}, ids(view.Items))
	require.True(t, s.Awaits("e1"))
	require.True(t, s.InTurn("e1"))
	require.False(t, s.Idle())
	require.Equal(t, signals.WaitingApproval, s.View().Status)
	require.Len(t, s.Approvals(), 1, "people are still asked")

	require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
	require.False(t, s.HasNext(), "the message waits for its turn")
	_, ok := s.Next(t0)
	require.False(t, ok)
	require.False(t, s.Unpark())

	require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Approve)))
	require.True(t, s.HasNext())
	require.True(t, s.Unpark())
	require.Equal(t, "e1", s.Turn.Item.ID)
	r := s.Turn.Runs[0]
	require.Equal(t, "c1.decision", r.Calls[0].ToolStep(nil).DecisionID)
	s.ran(t0, r, r.Calls[0])
	require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
	require.True(t, s.HasNext())
	require.Equal(t, "e2", next(t, s).Item.ID)
}

// TestDecisionBesideATurn: what is decided on a call of a turn that is put aside is stored at once,
// as no step of the turn in progress may come for long.
func TestDecisionBesideATurn(t *testing.T) {
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	beside(t, s, "v1")
	s.stepOf(t)
	require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Approve)))
	require.True(t, s.Overdue(1, false))
}

// stepOf is the input of the next model call of the current turn.
func (s *State) stepOf(t *testing.T) ModelStep {
	t.Helper()
	in, ok := s.stepped(t0, s.Turn.Runs[0])
	require.True(t, ok)
	return in
}

// TestWhatParks: a turn is put aside only if there is nothing to do in it before people
// have decided, or clients have answered.
func TestWhatParks(t *testing.T) {
	ask := careful("c1", "ls", AskPlan{})
	for _, tc := range []struct {
		name  string
		calls []PlannedCall
		then  func(s *State, r *Run)
		parks bool
	}{
		{name: "it waits for approval", calls: []PlannedCall{ask}, parks: true},
		{name: "it waits for a client", calls: []PlannedCall{atClient("c2")}, then: func(s *State, r *Run) { r.Calls[0].AskClient(t0) }, parks: true},
		{name: "a client was not asked yet", calls: []PlannedCall{atClient("c2")}},
		{name: "another call runs", calls: []PlannedCall{ask, runs("c2")}},
		{name: "another call has run", calls: []PlannedCall{ask, runs("c2")}, then: func(s *State, r *Run) { s.ran(t0, r, r.Calls[1]) }, parks: true},
		{name: "hooks decide on a result", calls: []PlannedCall{ask, runs("c2")}, then: func(s *State, r *Run) {
			r.Calls[1].CallRan(ToolReply{ToolCallID: "c2", Status: "succeeded"})
		}},
		{name: "a sub-agent works", calls: []PlannedCall{ask, subCall("c2").Plan}, then: func(s *State, r *Run) { r.Calls[1].Delegate() }},
		{name: "a new grant may cover a call", calls: []PlannedCall{ask, careful("c2", "ls", AskPlan{})}, then: func(s *State, r *Run) {
			s.DecideChecked(t0, signals.Decide{ToolCallID: "c1", Decision: event.Approve, Scope: event.Session, By: "ann"}, CheckReply{})
			s.ran(t0, r, r.Calls[0])
		}},
		{name: "the model speaks", calls: []PlannedCall{runs("c1")}, then: func(s *State, r *Run) {
			s.ran(t0, r, r.Calls[0])
			r.ToolsDone(t0)
		}},
		{name: "it is over"},
		{name: "it was interrupted", calls: []PlannedCall{ask}, then: func(s *State, _ *Run) { s.Interrupt(signals.Control{}) }},
		{name: "the thread is closed", calls: []PlannedCall{ask}, then: func(s *State, _ *Run) { s.Closing = &signals.Control{} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, r := waiting(t, tc.calls...)
			require.False(t, s.CanPark(), "there is nothing else to do")
			post(t, s, happens("v1", "file.changed", `1`))
			if tc.then != nil {
				tc.then(s, r)
			}
			require.Equal(t, tc.parks, s.CanPark())
			require.Equal(t, tc.parks, s.Park())
			require.Equal(t, tc.parks, s.Turn == nil)
		})
	}
	t.Run("hooks decide on the item", func(t *testing.T) {
		s := newState()
		arrive(t, s, says("e1", "go"))
		post(t, s, happens("v1", "file.changed", `1`))
		require.False(t, s.Park())
	})
	t.Run("another agent has not begun", func(t *testing.T) {
		s := newState("alice", "bob")
		step(t, s, begin(t, s, "e1", "go").Runs[0], "", ask)
		post(t, s, happens("v1", "file.changed", `1`))
		require.False(t, s.Park())
		step(t, s, s.Turn.Runs[1], "done")
		require.True(t, s.Park())
	})
}

func TestNothingToParkFor(t *testing.T) {
	require.False(t, newState().Park(), "there is no turn")
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	query := happens("v1", event.TypeUserQuery, `{"content":"hello"}`)
	post(t, s, query)
	require.True(t, s.CanPark(), "what a person asks by an event is answered as what a person says")
	s.Turn.Runs[0].OnWaiting = event.OnWaitingHold
	require.False(t, s.CanPark(), "and waits as that does")
}

// TestSeveralParkedTurns: each goes on as soon as it can, whatever else waits.
func TestSeveralParkedTurns(t *testing.T) {
	three := func(t *testing.T) *State {
		t.Helper()
		s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
		step(t, s, beside(t, s, "v1").Runs[0], "", careful("c2", "ls", AskPlan{}))
		step(t, s, beside(t, s, "v2").Runs[0], "", careful("c3", "ls", AskPlan{}))
		return copied(t, s)
	}
	for name, order := range map[string][]string{"first come": {"c1", "c2", "c3"}, "last come": {"c3", "c2", "c1"}, "in between": {"c2", "c3", "c1"}} {
		t.Run(name, func(t *testing.T) {
			s := three(t)
			require.Len(t, s.Approvals(), 3)
			for i, id := range order {
				require.Equal(t, signals.Accepted, s.Decide(t0, decision(id, event.Deny)), id)
				if s.CanPark() {
					require.True(t, s.Park())
				}
				require.True(t, s.Turn != nil || s.Unpark(), "a turn that can go on is not kept by those that wait")
				require.Equal(t, map[string]string{"c1": "e1", "c2": "v1", "c3": "v2"}[id], s.Turn.Item.ID)
				require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
				require.Len(t, s.Approvals(), 2-i)
				require.Empty(t, s.Turn)
			}
			require.True(t, s.Idle())
		})
	}
	t.Run("not more than fit", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
		for i := range maxParked {
			step(t, s, beside(t, s, name(100+i)).Runs[0], "", careful(name(i), "ls", AskPlan{}))
		}
		require.Len(t, s.Parked, maxParked)
		post(t, s, happens("more", "file.changed", `1`))
		require.False(t, s.Park(), "what happens now waits")
		require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Deny)))
		require.True(t, s.Park(), "but for the turn that can go on")
		require.True(t, s.Unpark())
		require.Equal(t, "e1", s.Turn.Item.ID)
		require.Len(t, s.Parked, maxParked)
	})
	t.Run("not more than the next run of the workflow takes", func(t *testing.T) {
		s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
		large := func(id string) PlannedCall {
			p := careful(id, "ls", AskPlan{})
			p.Reason = strings.Repeat("x", maxParkedBytes/5) // which stands in the request, too
			return p
		}
		for i := range 3 {
			step(t, s, beside(t, s, name(100+i)).Runs[0], "", large(name(i)))
		}
		post(t, s, happens("more", "file.changed", `1`))
		require.False(t, s.Park(), "the third large one stays")
	})
}

// TestInterruptWithParkedTurns: the one that is meant, or all.
func TestInterruptWithParkedTurns(t *testing.T) {
	for _, tc := range []struct {
		name, eventID string
		current       bool
		interrupted   []bool // e1, v1, v2
	}{
		{"all", "", true, []bool{true, true, true}},
		{"the current one", "v2", true, []bool{false, false, true}},
		{"one that is put aside", "e1", false, []bool{true, false, false}},
		{"another", "v1", false, []bool{false, true, false}},
		{"none", "e9", false, []bool{false, false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
			step(t, s, beside(t, s, "v1").Runs[0], "", careful("c2", "ls", AskPlan{}))
			beside(t, s, "v2")
			turns := []*Turn{s.Parked[0], s.Parked[1], s.Turn}
			require.Equal(t, tc.current, s.Interrupt(signals.Control{Action: signals.ControlInterrupt, EventID: tc.eventID, By: "ann"}))
			for i, turn := range turns {
				require.Equal(t, tc.interrupted[i], turn.Interrupted != nil, turn.Item.ID)
			}
			want := 0
			for _, turn := range turns[:2] {
				if turn.Interrupted == nil {
					want++
				}
			}
			require.Len(t, s.Approvals(), want, "nobody is asked about what has ended")
			if s.Turn.Interrupted != nil {
				s.Turn.Runs[0].StopRun(t0)
				require.Equal(t, signals.TurnInterrupted, s.Turn.End(t0).Status)
			} else {
				step(t, s, s.Turn.Runs[0], "done")
				require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
			}
			for s.Unpark() {
				s.Turn.Runs[0].StopRun(t0)
				require.Equal(t, signals.TurnInterrupted, s.Turn.End(t0).Status)
			}
			require.Len(t, s.Parked, want)
		})
	}
}

// TestRootOfAParkedTurn: the turn of an event has not ended while one that was made of it
// waits for people, whatever else is made of it.
func TestRootOfAParkedTurn(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "go"))
	s.Turn.Enter(t0, produces("h", hook.Message(event.User, "h", "look into it"), hookEvent("file.changed")))
	s.Turn.End(t0)
	next(t, s)
	s.Turn.Enter(t0, pass)
	step(t, s, s.Turn.Runs[0], "", careful("c1", "ls", AskPlan{}))
	require.True(t, s.Park())
	next(t, s)
	s.Turn.Enter(t0, pass, wakes)
	require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
	require.True(t, s.Awaits("e1"), "it goes on")
	s = copied(t, s)
	s.Decide(t0, decision("c1", event.Deny))
	require.True(t, s.Unpark())
	answer(t, s)
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status)
	require.Empty(t, s.Roots)
}

// TestSteerWhileATurnIsParked: a message that is held back is meant for that, not for what is handled
// meanwhile.
func TestSteerWhileATurnIsParked(t *testing.T) {
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	p := says("e2", "and mind the gap")
	p.OnBusy, p.OnWaiting = signals.Steer, event.OnWaitingHold
	post(t, s, p)
	beside(t, s, "v1")
	require.False(t, s.joined(t0))
	step(t, s, s.Turn.Runs[0], "", careful("c2", "ls", AskPlan{}))
	s.Decide(t0, decision("c1", event.Deny))
	require.True(t, s.Park())
	require.True(t, s.Unpark())
	s.Turn.Runs[0].ToolsDone(t0)
	require.True(t, s.joined(t0))
	require.Equal(t, "e2", s.Turn.Runs[0].ReplyTo)
}

// TestSubAgentWithAParkedTurn: its thread does not end in the middle of a turn.
func TestSubAgentWithAParkedTurn(t *testing.T) {
	s, _ := tasking(t)
	id, start := of(s, subCall("c1")).Delegate()
	s = subOf(t, id, start)
	turn := next(t, s)
	s.Turn.Enter(t0, pass)
	step(t, s, turn.Runs[0], "", careful("x1", "ls", AskPlan{}))
	step(t, s, beside(t, s, "v1").Runs[0], "", careful("x2", "ls", AskPlan{}))
	s.Decide(t0, decision("x1", event.Deny))
	require.True(t, s.Park())
	require.True(t, s.Unpark())
	answer(t, s)
	require.False(t, s.SubAnswered(), "S4-71 x2 has no result yet")
	s.Decide(t0, decision("x2", event.Deny))
	require.True(t, s.Unpark())
	answer(t, s)
	require.True(t, s.SubAnswered())
}

// TestMessagesWhileATurnWaits: they are answered, held back, or cancel what waits, as the post
// says, or else the agent.
func TestMessagesWhileATurnWaits(t *testing.T) {
	const none, ans, hold, cancel = "", event.OnWaitingAnswer, event.OnWaitingHold, event.OnWaitingCancel
	for _, tc := range []struct{ agent, post, want event.OnWaiting }{
		{none, none, ans},
		{ans, none, ans},
		{hold, none, hold},
		{cancel, none, cancel},
		{hold, ans, ans},
		{cancel, ans, ans},
		{none, hold, hold},
		{cancel, hold, hold},
		{none, cancel, cancel},
		{hold, cancel, cancel},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprintf("agent %q post %q parked %t", tc.agent, tc.post, parked), func(t *testing.T) {
				s, r := waiting(t, careful("c1", "ls", AskPlan{}))
				r.OnWaiting = tc.agent
				if parked {
					beside(t, s, "v1")
					require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
				}
				p := says("e2", "hello?")
				p.OnWaiting = tc.post
				post(t, s, p)
				s = copied(t, s)
				require.Equal(t, tc.want == cancel, s.Superseded())
				require.Equal(t, tc.want == ans, s.CanPark() || parked && s.HasNext())
				if tc.want != cancel {
					return
				}
				s.Supersede(t0)
				require.False(t, s.Superseded())
				require.Empty(t, s.Approvals())
				made := approvals(t, s)["c1.decision"]
				require.Equal(t, event.Deny, made.Decision)
				require.Equal(t, "threadmill", made.By)
				require.Contains(t, made.Reason, "event e2")
				require.Contains(t, results(t, s)["c1"], "because ann wrote a message instead")
				require.Equal(t, signals.Conflict, s.Decide(t0, decision("c1", event.Approve)), "it is too late")
				if parked {
					require.True(t, s.Unpark())
				}
				s.Turn.Runs[0].ToolsDone(t0)
				require.True(t, s.joined(t0), "the turn goes on with the message")
				require.Equal(t, "e2", s.Turn.Runs[0].ReplyTo)
			})
		}
	}
}

// TestWhoCancels: only a message of a person does.
func TestWhoCancels(t *testing.T) {
	system := signals.NewPost("e2", event.NewMessage{ThreadID: "t1", SenderID: "cron", SenderType: event.System, Content: "tick"})
	for name, tc := range map[string]struct {
		post  signals.Post
		joins bool
	}{
		"a person":                        {says("e2", "stop"), true},
		"a person, to one agent":          {signals.Post{ID: "e2", Type: event.TypeMessage, Payload: says("", "stop").Payload, Agents: []string{"bob"}}, false},
		"a person's question about all":   {happens("e2", event.TypeUserQuery, `{"content":"hello"}`), false},
		"the system":                      {system, false},
		"an event":                        {happens("e2", "file.changed", `1`), false},
		"an event of a type of one's own": {signals.Post{ID: "e2", Type: "note.taken", Payload: []byte(`{}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := waiting(t, careful("c1", "ls", AskPlan{}), careful("c2", "pwd", AskPlan{}))
			r.OnWaiting = event.OnWaitingCancel
			person := strings.HasPrefix(name, "a person")
			post(t, s, tc.post)
			require.Equal(t, person, s.Superseded())
			require.Equal(t, !person, s.CanPark(), "what does not cancel is processed meanwhile")
			if !person {
				return
			}
			s.Supersede(t0)
			require.Len(t, results(t, s), 2, "all that waits")
			r.ToolsDone(t0)
			require.Equal(t, tc.joins, s.joined(t0))
		})
	}
	t.Run("a call of a client", func(t *testing.T) {
		s, r := waiting(t, PlannedCall{ID: "c1", Name: "photo", By: ByClient})
		r.OnWaiting = event.OnWaitingCancel
		r.Calls[0].AskClient(t0)
		post(t, s, says("e2", "stop"))
		s.Supersede(t0)
		require.Len(t, results(t, s), 1)
		require.Equal(t, signals.Conflict, s.ToolResult(t0, signals.ToolResult{ToolCallID: "c1", By: "editor"}))
	})
	t.Run("another agent that waits holds messages back", func(t *testing.T) {
		s := newState("alice", "bob")
		turn := begin(t, s, "e1", "go")
		step(t, s, turn.Runs[0], "", careful("c1", "ls", AskPlan{}))
		step(t, s, turn.Runs[1], "", careful("c2", "ls", AskPlan{}))
		turn.Runs[0].OnWaiting, turn.Runs[1].OnWaiting = event.OnWaitingCancel, event.OnWaitingHold
		post(t, s, says("e2", "stop"))
		s.Supersede(t0)
		require.Equal(t, "c2", s.Approvals()[0].ToolCallID)
		require.False(t, s.CanPark())
	})
}

// TestPartsOfAnEventWait: what hooks have made of the event of the turn that waits keeps its order.
func TestPartsOfAnEventWait(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "go"))
	s.Turn.Enter(t0, produces("h", hook.Message(event.User, "h", "first"), hook.Message(event.User, "h", "second")))
	s.Turn.End(t0)
	next(t, s)
	s.Turn.Enter(t0, pass)
	step(t, s, s.Turn.Runs[0], "", careful("c1", "ls", AskPlan{}))
	require.False(t, s.CanPark())
	post(t, s, says("e2", "hello?"))
	require.True(t, s.Park())
	require.Equal(t, "e2", next(t, s).Item.ID)
}

// TestBusyWhileATurnWaits: a message that is answered meanwhile is not refused.
func TestBusyWhileATurnWaits(t *testing.T) {
	rejects := func(o event.OnWaiting) signals.Post {
		p := says("e9", "hello?")
		p.OnBusy, p.OnWaiting = signals.Reject, o
		return p
	}
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	require.NoError(t, s.CheckPost(rejects("")))
	require.ErrorIs(t, s.CheckPost(rejects(event.OnWaitingHold)), ErrBusy)
	require.ErrorIs(t, s.CheckPost(rejects(event.OnWaitingCancel)), ErrBusy)
	post(t, s, says("e2", "first"))
	require.ErrorIs(t, s.CheckPost(rejects("")), ErrBusy, "another one is answered first")
	require.True(t, s.Park())
	next(t, s)
	s.Turn.Enter(t0, pass)
	require.ErrorIs(t, s.CheckPost(rejects("")), ErrBusy)
	answer(t, s)
	require.NoError(t, s.CheckPost(rejects("")))
	s.Decide(t0, decision("c1", event.Approve))
	require.ErrorIs(t, s.CheckPost(rejects("")), ErrBusy, "the turn goes on")
}

// TestSameCallAgain: while a call waits, its agent does not make it once more.
func TestSameCallAgain(t *testing.T) {
	s, _ := waiting(t, careful("c1", "ls", AskPlan{}))
	post(t, s, says("e2", "hello?"))
	require.True(t, s.Park())
	next(t, s)
	s.Turn.Enter(t0, pass)
	r := s.Turn.Runs[0]
	again := careful("c2", "ls", AskPlan{})
	in := step(t, s, r, "", PlannedCall{ID: "c2", Name: again.Name, Guard: again.Guard, Duplicate: "c1"})
	require.Equal(t, map[string]string{"digest of ls": "c1"}, in.Pending)
	require.Equal(t, []string{"c1"}, in.OpenCalls)
	require.Len(t, s.Approvals(), 1)
	require.Contains(t, results(t, s)["c2"], "as call c1")
	require.Equal(t, signals.TurnCompleted, answer(t, s).Status)
	s.Decide(t0, decision("c1", event.Deny))
	require.True(t, s.Unpark())
	s.Turn.Runs[0].ToolsDone(t0)
	require.Empty(t, s.stepOf(t).Pending)
}
