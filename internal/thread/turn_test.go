package thread

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestTurn(t *testing.T) {
	s := newState()
	turn := begin(t, s, "e1", "hello")
	require.False(t, s.Idle())
	require.Equal(t, []*Run{{Phase: PhaseModel, ReplyTo: "e1"}}, bare(turn.Runs))

	in, ok := s.stepped(t0, turn.Runs[0])
	require.True(t, ok)
	require.Equal(t, "e1.0.1", in.MessageID)
	require.Equal(t, 1, in.Step)
	require.Equal(t, "open", in.Flush.Row.Status)
	require.Equal(t, []string{"t1.opened", "e1"}, recordIDs(in.Flush.Records), "what was said is stored before the model is called")
	said := payload[event.Message](t, in.Flush.Records[1])
	require.Equal(t, event.Message{ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.User, Role: "user", Content: "hello"}, said, "S4-18")
	s.Flushed(in.Flush)
	require.False(t, s.Unstored())

	s.took(t0, turn.Runs[0], ModelReply{
		Agent: "assistant", Model: "demo/demo", MaxSteps: 25, Calls: []PlannedCall{runs("c1"), runs("c2")}, Usage: event.Usage{InputTokens: 3},
		Message: event.Message{ID: in.MessageID},
	})
	r := turn.Runs[0]
	require.Equal(t, PhaseTools, r.Phase)
	require.Equal(t, "assistant", r.Agent)
	first := r.Calls[0].ToolStep(nil)
	require.Equal(t, ToolStep{Thread: s.Ref(), Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "e1.0.1", ToolCallID: "c1", ToolName: "note"}, first)
	s.ran(t0, r, r.Calls[0])
	r.ToolsDone(t0)
	require.Equal(t, PhaseTools, r.Phase, "S2-13 the model waits for the last call")
	s.ran(t0, r, r.Calls[1])
	r.ToolsDone(t0)
	require.Equal(t, PhaseModel, r.Phase)

	in = step(t, s, r, "the end")
	require.Equal(t, "e1.0.2", in.MessageID)
	require.Equal(t, PhaseDone, r.Phase)
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "the end", out.Message.Content)
	require.Equal(t, 3, s.Usage.InputTokens)
	require.True(t, s.Idle())
	require.False(t, s.Unstored(), "the last activity has written the terminal record")
}

func recordIDs(records []event.Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

func TestUnansweredTurns(t *testing.T) {
	for _, p := range []signals.Post{
		signals.NewPost("e1", event.NewMessage{ThreadID: "t1", SenderID: "x", SenderType: event.System, Content: "hi"}),
		{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`{"path":"a"}`)},
		{ID: "e1", Type: "file.changed"},
	} {
		s := newState()
		post(t, s, p)
		item, _ := s.Next(t0)
		require.Empty(t, s.entered(t0, item).Runs)
		want, at := signals.TurnUnanswered, 2
		if p.Type != event.TypeMessage {
			want, at = signals.TurnUnhandled, 3
		}
		require.Equal(t, signals.TurnResult{EventID: "e1", Status: want}, s.Turn.End(t0), "S0-26")
		last := s.Pending[len(s.Pending)-at]
		require.Equal(t, "e1", last.ID, "it is recorded all the same")
		require.True(t, json.Valid(last.Payload))
	}
}

func TestStepLimit(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	for range 3 {
		step(t, s, r, "", runs("c"+name(r.Step)))
		s.ran(t0, r, r.Calls[0])
		r.ToolsDone(t0)
	}
	_, ok := s.stepped(t0, r)
	require.False(t, ok)
	require.Equal(t, PhaseDone, r.Phase)
	messages := pending(s, event.TypeMessage)
	limit := payload[event.Message](t, messages[len(messages)-1])
	require.Equal(t, event.System, limit.SenderType)
	for _, word := range []string{"3 model calls", "assistant", "limits.maxSteps"} {
		require.Contains(t, limit.Content, word)
	}
	failure := payload[event.Failure](t, pending(s, event.TypeError)[0])
	require.Equal(t, limit.Content, failure.Error)
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Equal(t, limit.Content, out.Error)
}

func TestFailureAndRetry(t *testing.T) {
	s := newState()
	p := says("e1", "go")
	p.TTL = 1000
	post(t, s, p)
	item, _ := s.Next(t0)
	r := s.entered(t0, item).Runs[0]
	in, _ := s.stepped(t0, r)
	s.Flushed(in.Flush)
	r.Fail(t0, "no such model", false)
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnResult{EventID: "e1", Status: signals.TurnFailed, Error: "no such model"}, out)
	require.Equal(t, event.Failure{EventID: "e1", MessageID: "e1.0.1", Error: "no such model"}, payload[event.Failure](t, pending(s, event.TypeError)[0]))
	require.Empty(t, pending(s, event.TypeFinal), "S1-23 one terminal event")
	require.Equal(t, event.Failed, s.Failed[0].Item.Status, "S2-16")
	require.Equal(t, "no such model", s.Failed[0].Item.Error)

	require.Equal(t, Posted{EventID: "e1", Duplicate: true}, post(t, s, says("e1", "go")), "posting again does not retry")
	requireField(t, "eventId", s.Retry(at(60), signals.Control{EventID: "e9"}))
	s = copied(t, s)
	require.NoError(t, s.Retry(at(60), signals.Control{By: "ann"}))
	require.Empty(t, s.Failed)
	requireField(t, "eventId", s.Retry(at(60), signals.Control{}))
	_, known := s.Outcome("e1")
	require.False(t, known, "the old outcome is gone")
	require.True(t, s.Awaits("e1"))

	item, ok := s.Next(at(61))
	require.True(t, ok, "S2-17 its ttl does not count any more")
	require.Equal(t, 1, item.Item.Attempt)
	require.Empty(t, item.Item.Error)
	r = s.entered(at(61), item).Runs[0]
	in = step(t, s, r, "fine")
	require.Equal(t, "e1~1.0.1", in.MessageID, "a new call of the model")
	require.Equal(t, signals.TurnCompleted, s.Turn.End(at(62)).Status)
}

func TestRetryPicks(t *testing.T) {
	s := newState()
	for i := range 3 {
		r := begin(t, s, name(i), "x").Runs[0]
		r.Fail(t0, "no", true)
		s.Turn.End(t0)
	}
	require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}))
	require.NoError(t, s.Retry(t0, signals.Control{}))
	require.Equal(t, []string{"e1", "e2"}, ids(s.Ordered()), "the one that was named, then the one that failed last")
	require.Equal(t, []string{"e0"}, ids(s.failed()))
}

func TestInterruptWhileToolsRun(t *testing.T) {
	s := newState()
	require.False(t, s.Interrupt(signals.Control{}), "nothing to interrupt")
	r := begin(t, s, "e1", "go").Runs[0]
	step(t, s, r, "", runs("done"), runs("running"), asks("waiting"))
	s.ran(t0, r, r.Calls[0])
	r.Calls[1].ToolStep(nil)
	require.True(t, s.Interrupt(signals.Control{By: "ann", Reason: "enough"}))
	require.False(t, s.Interrupt(signals.Control{By: "bob"}), "once is enough")
	r.StopRun(t0)
	var settled []string
	for _, rec := range pending(s, event.TypeMessage) {
		m := payload[event.Message](t, rec)
		settled = append(settled, m.ToolCallID)
		require.Equal(t, map[string]string{"running": InterruptedText, "waiting": NotBegunText}[m.ToolCallID], m.Content)
		require.True(t, m.IsError)
	}
	require.Equal(t, []string{"running", "waiting"}, settled, "S4-71 every call has a result, none has two")
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Equal(t, "enough", out.Error)
	require.Len(t, pending(s, event.TypeFinal), 1, "S1-37 the stream ends with a terminal event")
	status := payload[event.StatusChange](t, pending(s, event.TypeStatus)[0])
	require.Equal(t, event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "enough"}, status)
	require.Empty(t, s.Failed)
}

func TestInterruptedReply(t *testing.T) {
	for _, tc := range []struct {
		name, content string
	}{{"keeps the partial text", "half a sen"}, {"that said nothing is no message", ""}} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			r := begin(t, s, "e1", "go").Runs[0]
			in, _ := s.stepped(t0, r)
			s.Flushed(in.Flush)
			s.Interrupt(signals.Control{})
			s.took(t0, r, ModelReply{Agent: "assistant", MaxSteps: 3, Message: event.Message{ID: in.MessageID, Content: tc.content, Interrupted: true}})
			require.Equal(t, PhaseDone, r.Phase)
			out := s.Turn.End(t0)
			require.Equal(t, signals.TurnInterrupted, out.Status)
			if tc.content == "" {
				require.Nil(t, out.Message)
			} else {
				require.Equal(t, tc.content, out.Message.Content)
				require.True(t, out.Message.Interrupted)
			}
			require.Len(t, pending(s, event.TypeFinal), 1)
		})
	}
}

func TestSeveralAgents(t *testing.T) {
	s := newState("alice", "bob")
	turn := begin(t, s, "e1", "hello all")
	require.Len(t, turn.Runs, 2)
	alice, bob := turn.Runs[0], turn.Runs[1]
	a, _ := s.stepped(t0, alice)
	b, _ := s.stepped(t0, bob)
	require.Equal(t, []string{"e1.0.1", "e1.1.1"}, []string{a.MessageID, b.MessageID})
	require.Equal(t, a.Flush.Records, b.Flush.Records, "whoever comes first stores what was said")
	s.Flushed(a.Flush)
	s.Flushed(b.Flush)
	require.False(t, s.Unstored())
	reply := func(r *Run, id, content string) {
		s.took(t0, r, ModelReply{Agent: r.Agent, MaxSteps: 3, Message: event.Message{ID: id, SenderType: event.Agent, Content: content}})
	}
	reply(alice, a.MessageID, "@bob what do you think?")
	reply(bob, b.MessageID, "nothing")
	require.Len(t, turn.Runs, 3, "an agent that is addressed has another run")
	require.Equal(t, &Run{turn: turn, Agent: "bob", Slot: 2, Phase: PhaseModel, ReplyTo: a.MessageID, Answers: "alice"}, turn.Runs[2])
	c, _ := s.stepped(t0, turn.Runs[2])
	require.Equal(t, "e1.2.1", c.MessageID)
	turn.Runs[2].Fail(t0, "no", true)
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnFailed, out.Status, "a turn in which one run failed has failed")
	require.Equal(t, b.MessageID, out.Message.ID)
	require.Len(t, out.Replies, 2)
	require.Equal(t, []string{a.MessageID, b.MessageID}, []string{out.Replies[0].ID, out.Replies[1].ID}, "the caller hears of all replies")
}

func TestReplies(t *testing.T) {
	m := func(id string, size int) event.Message {
		return event.Message{ID: id, SenderType: event.Agent, Content: strings.Repeat("x", size)}
	}
	var out signals.TurnResult
	addReply(&out, m("m1", 1))
	require.Empty(t, out.Replies, "one reply is the message")
	require.Equal(t, []event.Message{m("m1", 1)}, out.AllReplies())
	addReply(&out, m("m2", maxReplies-1))
	require.Equal(t, []event.Message{m("m1", 1), m("m2", maxReplies-1)}, out.AllReplies())
	addReply(&out, m("m3", 2*maxCarriedOutcome))
	require.True(t, out.Replies[2].Truncated, "their text has a bound")
	require.Len(t, out.Replies[2].Content, maxCarriedOutcome)
	require.Equal(t, "m3", out.Message.ID)
	carry(&out)
	require.Len(t, out.Replies[1].Content, maxCarriedOutcome, "what another run of the workflow is given is less still")

	out = signals.TurnResult{Message: &event.Message{ID: "e1", SenderType: event.User}}
	addReply(&out, m("m1", 1))
	require.Empty(t, out.Replies, "what a person said is no reply")
}

// TestAgentsNamedTwice: whatever a post says, no agent answers a message twice.
func TestAgentsNamedTwice(t *testing.T) {
	s := newState("bob", "carol")
	p := says("e1", "hello")
	p.Agents = []string{"bob", "carol", "Bob"}
	post(t, s, p)
	turn := next(t, s)
	s.Turn.Enter(t0, pass)
	require.Len(t, turn.Runs, 2, "each answers once")
}

// TestTwoAgentsDoNotTalkForEver: the turn limit ends it.
func TestTwoAgentsDoNotTalkForEver(t *testing.T) {
	t.Run("S4-46", func(t *testing.T) {
		s := newState("Alice", "Bob")
		turn := begin(t, s, "e1", "@alice hello")
		ran := 0
		for i := 0; i < len(turn.Runs) && i < 100; i++ {
			r := turn.Runs[i]
			other := "@bob your turn"
			if strings.EqualFold(r.Agent, "bob") {
				other = "@alice your turn"
			}
			in, ok := s.stepped(t0, r)
			require.True(t, ok)
			// The registry spells names in its own way.
			s.took(t0, r, ModelReply{Agent: strings.ToLower(r.Agent), MaxSteps: 3, Message: event.Message{ID: in.MessageID, Content: other}})
			ran++
		}
		require.Equal(t, 2*signals.DefaultTurnLimit, ran)
		said := pending(s, event.TypeMessage)
		last := payload[event.Message](t, said[len(said)-1])
		require.Equal(t, event.System, last.SenderType)
		require.Equal(t, TurnLimitText(signals.DefaultTurnLimit), last.Content, "the end is not silent")
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
	})
}

func TestInterruptAfterTheLastReply(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	step(t, s, r, "all said")
	require.True(t, s.Interrupt(signals.Control{By: "ann"}))
	require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status, "there was nothing left to interrupt")
	require.Empty(t, pending(s, event.TypeStatus))

	s = newState("alice", "bob")
	r = begin(t, s, "e1", "@alice go").Runs[0]
	require.True(t, s.Interrupt(signals.Control{By: "ann"}))
	step(t, s, r, "@bob your turn")
	require.Len(t, s.Turn.Runs, 1)
	require.Equal(t, signals.TurnInterrupted, s.Turn.End(t0).Status, "bob was not asked")
}

func TestClose(t *testing.T) {
	s := newState()
	in := s.Flush()
	s.Flushed(in)
	for _, p := range []signals.Post{says("e1", "one"), {ID: "e2", Type: "file.changed"}} {
		post(t, s, p)
	}
	s.Closing = &signals.Control{Action: signals.ControlClose, By: "ann", Reason: "done"}
	_, err := s.Post(t0, says("e3", "late"))
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, Posted{EventID: "e1", Duplicate: true}, post(t, s, says("e1", "one")))
	require.Equal(t, signals.Closed, s.View().Status)
	s.PostFailed(t0, says("e4", "by signal"), ErrClosed)
	s.Close(t0)
	require.True(t, s.Idle())
	require.Equal(t, []string{"e1", "e1.turn_ended", "e2", "e2.turn_ended", "e4", "e4.turn_ended"}, recordIDs(s.Pending[:6]), "nothing that was said is lost")
	require.Equal(t, "by signal", payload[event.Message](t, s.Pending[4]).Content)
	require.Contains(t, payload[event.TurnEnded](t, s.Pending[5]).Error, "was closed")
	require.Equal(t, event.StatusChange{Status: event.StatusClosed, By: "ann", Detail: "done"}, payload[event.StatusChange](t, s.Pending[6]))
	require.Equal(t, []string{"e1", "e2", "e4"}, ids(s.QueueView().Failed))
	s.PostFailed(t0, says("e5", "later"), ErrClosed)
	require.Equal(t, []string{"e5", "e5.turn_ended"}, recordIDs(s.Pending[7:]), "after the end, too")
	require.Equal(t, "closed", s.Row.Status)
	for _, id := range []string{"e1", "e2"} {
		out, known := s.Outcome(id)
		require.True(t, known)
		require.Equal(t, signals.TurnInterrupted, out.Status)
	}
	s = newState("alice")
	s.Closing = &signals.Control{}
	s.Close(t0)
	require.Equal(t, Row{Number: s.RowNumber, Status: "closed", Agents: []string{"alice"}}, *s.Row, "a row that was not stored yet keeps the rest")
}

func TestCallFailed(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	step(t, s, r, "", runs("c1"))
	r.Calls[0].CallFailed(t0, "lost")
	r.ToolsDone(t0)
	require.Equal(t, PhaseModel, r.Phase, "S1-25 the run goes on")
	m := payload[event.Message](t, pending(s, event.TypeMessage)[0])
	require.Equal(t, event.Message{
		ID: "c1.result", ThreadID: "t1", SenderID: "note", SenderType: event.Tool, Role: "tool", Content: "Error: lost", ToolCallID: "c1",
		ToolName: "note", IsError: true, AgentID: "assistant", ReplyToMessageID: "e1.0.1",
	}, m, "S4-22 S4-23")
}
