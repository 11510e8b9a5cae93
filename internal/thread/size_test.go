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

// TestHookedStateFitsIntoTheNextRun fills a thread with the largest events that hooks may
// make and put in the place of others.
func TestHookedStateFitsIntoTheNextRun(t *testing.T) {
	long := strings.Repeat("x", signals.MaxPayload-1000)
	s := newState()
	fill := func() {
		for {
			if _, err := postAt(s, t0, says("", long)); err != nil {
				require.ErrorIs(t, err, ErrFull)
				return
			}
		}
	}
	fill()
	for range 3 {
		turn := next(t, s)
		s.Turns.Current.Enter(t0, replaces("guard", saying(event.CreatedByUser, "ann", long)))
		turn.Runs[0].fail(t0, strings.Repeat("y", 100<<10), true)
		require.Less(t, len(turn.Runs[0].Error), 5<<10)
		s.Turns.Current.End(t0)
		s.Outbox.Flushed(s.Outbox.Flush())
		fill()
	}
	turn := next(t, s)
	s.Turns.Current.Enter(t0, replaces("guard", saying(event.CreatedByUser, "ann", long)))
	require.True(t, s.Outbox.Heavy(), "what waits to be stored is stored before the next run begins")
	s.Outbox.Flushed(s.Outbox.Flush())
	in := reply(t, s, turn.Runs[0], []hook.Spec{{Name: "i", HoldOutput: true}}, strings.Repeat("z", step.MaxWholeContent))
	require.True(t, in.Quiet)
	s.Turns.Current.HooksStarted(turn.Runs[0].ReplyEvent(), watch...)
	require.NoError(t, s.Turns.HookDecided(step.HookDecided{EventID: in.MessageID, Decision: replaces("guard", saying(event.CreatedByAgent, "assistant", long))}))
	fill()
	require.Less(t, len(asJSON(t, s.Carried())), 2<<20)
}

// TestOverloaded: what hooks put in the place of many results is more than one step takes.
func TestOverloaded(t *testing.T) {
	var calls []step.PlannedCall
	for i := range 12 {
		calls = append(calls, runs(name(i)))
	}
	s, r := called(t, calls...)
	r.ApplyCallsDecision(t0, pass)
	stored := 0
	for _, c := range r.Calls {
		c.CallRan(step.ToolReply{Status: "succeeded"})
		c.ApplyResultDecision(t0, replaces("guard", saying(event.CreatedByTool, "note", strings.Repeat("x", 200<<10))))
		if s.Outbox.Overloaded() {
			stored++
			s.Outbox.Flushed(s.Outbox.Flush())
		}
		require.Less(t, len(asJSON(t, c.ToolStep(nil))), 2<<20)
	}
	require.Equal(t, 2, stored)
}

// TestSmallEventsFitIntoTheNextRun: what is kept beside an event's payload counts, too.
func TestSmallEventsFitIntoTheNextRun(t *testing.T) {
	agents, tools := make([]string, 100), make([]string, 200)
	for i := range tools {
		tools[i] = strings.Repeat("t", 100)
		agents[i/2] = strings.Repeat("a", 100)
	}
	for name, p := range map[string]signals.Post{
		"nothing but events": {Type: "file.changed", Payload: []byte(`1`)},
		"with long options":  {Type: "file.changed", Payload: []byte(`1`), Agents: agents, Tools: tools},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			var err error
			for n := 0; err == nil && n < 20_000; n++ {
				_, err = postAt(s, t0, p)
			}
			require.ErrorIs(t, err, ErrFull)
			require.Less(t, len(asJSON(t, s.Carried())), 2<<20)
		})
	}
}

// TestLongFailuresFitIntoTheNextRun: so does why events have failed.
func TestLongFailuresFitIntoTheNextRun(t *testing.T) {
	s := newState()
	for range maxFailed {
		r := begin(t, s, "", "x").Runs[0]
		r.fail(t0, strings.Repeat("y", 100<<10), true)
		s.Turns.Current.End(t0)
		s.Outbox.Flushed(s.Outbox.Flush())
	}
	require.Less(t, len(asJSON(t, s.Inbox.Failed)), maxFailedBytes+maxFailed*itemBytes)
	require.Less(t, len(asJSON(t, s.Carried())), 1<<20)
}

// TestQuestionsOfManySubAgents: a thread keeps the questions of sub-agents whole while it has room, and can check the answers to
// all of them. The records have the rest.
func TestQuestionsOfManySubAgents(t *testing.T) {
	s, r := called(t, runs("c"))
	r.ApplyCallsDecision(t0, pass)
	r.Calls[0].Plan.SubAgent = &step.SubAgentPlan{Agent: "bob", Message: "do it"}
	id, _ := r.Calls[0].Delegate()
	const many = 20
	asks := func(i int) event.InputRequest {
		return event.InputRequest{ToolCallID: name(i), ToolName: "book", Agent: "bob", Round: 1, Questions: []event.InputQuestion{
			{ID: "q", Kind: event.InputForm, Message: strings.Repeat("m", 1000), Schema: rawJSON(strings.Repeat("s", 9000))},
			{ID: "r", Kind: event.InputURL, Message: "Visit it.", URL: "https://example.com"},
		}}
	}
	for i := range many {
		q := asks(i)
		s.SubAgentRequested(step.SubAgentRequest{ThreadID: id, Input: &q})
	}
	kept := s.InputRequests()
	require.Len(t, kept, many)
	require.Equal(t, asks(0), kept[0])
	require.Less(t, len(rawJSON(kept)), maxRequestTotal+many*1000)
	brief := kept[many-1]
	require.True(t, brief.Truncated)
	require.Empty(t, brief.Questions[0].Schema)
	require.Less(t, len(brief.Questions[0].Message), 200)
	require.Equal(t, asks(0).Questions[1], brief.Questions[1], "people visit the address")
	for i, q := range kept {
		one := signals.InputAnswers{ToolCallID: q.ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}}
		_, err := s.ReadAnswer(one).Forward(t0)
		require.ErrorContains(t, err, "answers.r: is required", "question %d", i)
		one.Answers["r"] = event.InputAnswer{Action: event.InputDecline}
		f, err := s.ReadAnswer(one).Forward(t0)
		require.NoError(t, err)
		require.Equal(t, signals.DecideAccepted, f.Outcome)
	}
	call := wants(id, "x")
	call.Request.Arguments = strings.Repeat("a", maxRequestArguments)
	s.SubAgentRequested(call)
	require.Equal(t, call.Request, s.Approvals()[0], "questions take no room of the arguments that people decide on")
	records := pending(s, event.TypeInputRequest)
	require.Len(t, records, many)
	for i, rec := range records {
		require.JSONEq(t, asJSON(t, asks(i)), string(rec.Payload))
	}
	for i := range many {
		got := withdrawn(t0, asks(i))
		s.SubAgentDecided(t0, step.SubAgentDecision{ThreadID: id, ToolCallID: name(i), Input: &got})
	}
	_, room := s.Children.room()
	require.Equal(t, maxRequestTotal, room)
}
