package thread

import (
	"encoding/json"
	"slices"
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
		require.True(t, s.IsEarly("c1"))
		require.True(t, s.BufferEarly(decision))
		s.took(now, r, reply)
		require.Equal(t, Ready, r.Calls[0].Stage)
		require.False(t, s.IsEarly("c1"))
		require.Empty(t, s.EarlyDecisions)
	})
	t.Run("S4-91 one that meets no call leaves an audit record", func(t *testing.T) {
		s, r := begin(t)
		require.True(t, s.BufferEarly(signals.Decide{ToolCallID: "c2", Decision: event.Approve, By: "ann"}))
		s.took(now, r, reply)
		require.Equal(t, Waiting, r.Calls[0].Stage)
		require.Empty(t, s.EarlyDecisions)
		require.Equal(t, event.TypeRejected, s.Pending[len(s.Pending)-1].Type)
	})
	t.Run("none is held while no model is asked", func(t *testing.T) {
		s, r := begin(t)
		s.took(now, r, reply)
		require.False(t, s.IsEarly("c2"))
		require.Equal(t, signals.NotPending, s.Decide(now, signals.Decide{ToolCallID: "c2", Decision: event.Approve, By: "ann"}))
	})
	t.Run("it does not outlive the turn", func(t *testing.T) {
		s, r := begin(t)
		require.True(t, s.BufferEarly(decision))
		r.Fail(now, "no", false)
		s.Turn.End(now)
		require.Empty(t, s.EarlyDecisions)
		require.Equal(t, event.TypeRejected, s.Pending[len(s.Pending)-2].Type)
	})
	t.Run("only so many are held", func(t *testing.T) {
		s, _ := begin(t)
		for s.BufferEarly(decision) {
			require.LessOrEqual(t, len(s.EarlyDecisions), 100)
		}
		require.Len(t, s.EarlyDecisions, 100)
	})
	t.Run("and only so much of them", func(t *testing.T) {
		s, _ := begin(t)
		large := decision
		large.Args = json.RawMessage(`"` + strings.Repeat("x", maxDecisionBytes/3) + `"`)
		require.True(t, s.BufferEarly(large))
		require.True(t, s.BufferEarly(large))
		require.False(t, s.BufferEarly(large))
		require.True(t, s.BufferEarly(decision), "small ones go on")
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
		r.Fail(now, "no", true)
		s.Turn.End(now)
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

// TestResultAheadOfItsCall has a client answer a call that it has seen before the thread has:
// the result is held until the call waits for it, also by the next run.
func TestResultAheadOfItsCall(t *testing.T) {
	early := func(t *testing.T, results ...signals.ToolResult) (*State, *Run) {
		s := newState("assistant")
		r := begin(t, s, "e1", "go").Runs[0]
		for _, res := range results {
			s.TakeResult(t0, res)
		}
		s = copied(t, s)
		r = s.Turn.Runs[r.Slot]
		s.Flushed(s.Flush())
		return s, r
	}
	res := signals.ToolResult{ToolCallID: "c1", Output: "package a", By: "editor"}
	second, wrong := res, res
	second.Output, wrong.ToolName = "package b", "shell_cmd"
	asked := atClient("c1")
	asked.NeedsApproval, asked.Ask = true, &AskPlan{}

	for name, tc := range map[string]struct {
		results []signals.ToolResult
		calls   []PlannedCall
		problem string
		answer  string
	}{
		"S4-94 it counts once":                   {[]signals.ToolResult{res, res}, []PlannedCall{atClient("c1")}, "", "package a"},
		"the first of two counts":                {[]signals.ToolResult{res, second}, []PlannedCall{atClient("c1")}, "conflict", "package a"},
		"S4-92 another tool's":                   {[]signals.ToolResult{wrong}, []PlannedCall{atClient("c1")}, "mismatch", ""},
		"S4-91 of a call that is not made":       {[]signals.ToolResult{res}, []PlannedCall{atClient("c2")}, "not_pending", ""},
		"S4-91 of a call that no client runs":    {[]signals.ToolResult{res}, []PlannedCall{runs("c1")}, "not_pending", ""},
		"S4-91 of a call that waits for people":  {[]signals.ToolResult{res}, []PlannedCall{asked}, "not_pending", ""},
		"S4-91 of a turn that makes no calls":    {[]signals.ToolResult{res}, nil, "not_pending", ""},
		"S4-92 the right one behind another one": {[]signals.ToolResult{wrong, res}, []PlannedCall{atClient("c1")}, "mismatch", "package a"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := early(t, tc.results...)
			require.NotEmpty(t, s.EarlyResults)
			step(t, s, r, "", tc.calls...)
			s = copied(t, s)
			for _, r := range s.Turn.Runs {
				for _, c := range r.Calls {
					if c.Plan.By == ByClient && c.Stage == Ready {
						c.AskClient(at(1))
					}
				}
			}
			if len(tc.calls) == 0 {
				s.Turn.End(t0)
			}
			require.Empty(t, s.EarlyResults)
			var problems, answers string
			for _, rec := range pending(s, event.TypeRejected) {
				problems += payload[event.Rejected](t, rec).Problem
			}
			for _, rec := range pending(s, event.TypeMessage) {
				answers += payload[event.Message](t, rec).Content
			}
			require.Equal(t, tc.problem, problems)
			require.Equal(t, tc.answer, answers)
			if tc.answer != "" {
				require.Equal(t, Ran, s.Turn.Runs[0].Calls[0].Stage)
				require.Equal(t, []string{"c1.client", "c1.result"}, recordIDs(slices.DeleteFunc(slices.Clone(s.Pending), func(r event.Record) bool { return r.Type == event.TypeRejected })))
			}
		})
	}
	t.Run("S4-92 an agent's is not held", func(t *testing.T) {
		byAgent := res
		byAgent.By = " Assistant"
		s, _ := early(t)
		require.Equal(t, signals.NotAllowed, s.BufferEarlyResult(byAgent))
		s.TakeResult(t0, byAgent)
		require.Empty(t, s.EarlyResults)
		require.Equal(t, "not_allowed", payload[event.Rejected](t, s.Pending[0]).Problem)
	})
	t.Run("one from before people were asked again is of another call", func(t *testing.T) {
		s, r := early(t)
		step(t, s, r, "", asked)
		c := r.Calls[0]
		require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Approve)))
		s.TakeResult(t0, res)
		require.Len(t, s.EarlyResults, 1)
		c.AskAgain(t0, asked)
		again := decision("c1", event.Approve)
		again.Round = 2
		require.Equal(t, signals.Accepted, s.Decide(t0, again))
		require.False(t, s.IsEarlyResult("c1"), "a client that is asked again waits to be")
		c.AskClient(t0)
		require.Empty(t, s.EarlyResults)
		require.Equal(t, AtClient, c.Stage)
		require.Len(t, pending(s, event.TypeRejected), 1)
	})
	t.Run("none is held of a call that has its result", func(t *testing.T) {
		s, r, _ := clientCall(t)
		require.Equal(t, signals.Accepted, s.ToolResult(at(2), res))
		r.Calls[0].ApplyResultDecision(at(2), pass)
		r.ToolsDone(at(2))
		step(t, s, r, "", atClient("c2"))
		r.Phase = PhaseModel
		require.True(t, s.IsEarlyResult("c3"), "a model is asked")
		require.False(t, s.IsEarlyResult("c1"))
		s.TakeResult(at(3), second)
		require.Equal(t, "conflict", payload[event.Rejected](t, s.Pending[len(s.Pending)-1]).Problem)
	})
	t.Run("only so many are held", func(t *testing.T) {
		s, _ := early(t)
		for n := range maxEarly + 1 {
			s.TakeResult(t0, signals.ToolResult{ToolCallID: name(n), By: "editor"})
		}
		require.Len(t, s.EarlyResults, maxEarly)
		require.Equal(t, "not_pending", payload[event.Rejected](t, s.Pending[0]).Problem)
	})
	t.Run("only as much is held as the next run takes", func(t *testing.T) {
		s, _ := early(t)
		large := res
		large.Output = strings.Repeat("<", signals.MaxPayload)
		require.Equal(t, signals.NotPending, s.BufferEarlyResult(large), "as JSON it is six times as long")
		large.Output = strings.Repeat("x", signals.MaxPayload)
		require.Equal(t, signals.Accepted, s.BufferEarlyResult(large), "one finds room")
		large.Output = strings.Repeat("y", signals.MaxPayload)
		require.Equal(t, signals.NotPending, s.BufferEarlyResult(large))
		require.Equal(t, signals.Accepted, s.BufferEarlyResult(second), "a small one, too")
		require.Len(t, s.EarlyResults, 2)
		for {
			if _, err := s.Post(t0, says("", strings.Repeat("z", signals.MaxPayload-200))); err != nil {
				require.ErrorIs(t, err, ErrFull)
				break
			}
		}
		require.Less(t, len(asJSON(t, s.Carried())), 2<<20)
	})
}
