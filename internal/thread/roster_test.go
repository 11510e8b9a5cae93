package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// limited is a thread of two agents, each of which may make two LLM calls.
func limited() *State {
	return New("ns", "t1", signals.Start{Agents: []string{"alice", "Bob"}, TurnLimit: 2}, t0)
}

// saidBy is the post of somebody's message.
func saidBy(id string, by event.CreatedBy, sender, content string) signals.Post {
	return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: sender, SenderType: by, Content: content})
}

// starts begins the turn of a post.
func starts(t *testing.T, s *State, p signals.Post) *Turn {
	t.Helper()
	turn := arrive(t, s, p)
	s.Turn.Enter(t0, pass)
	return turn
}

// notices are what the thread has said itself, by the ids of the records.
func notices(t *testing.T, s *State) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, rec := range pending(s, event.TypeMessage) {
		if m := payload[event.Message](t, rec); m.SenderType == event.System {
			require.Equal(t, rec.ID, m.ID)
			require.Empty(t, Answering(s.Agents, m), "S4-31 nobody answers it")
			out[rec.ID] = m.Content
		}
	}
	return out
}

// TestCallsOfTheDefaultAgent: its name is known from its first reply on.
func TestCallsOfTheDefaultAgent(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "hello").Runs[0]
	s.stepped(t0, r)
	require.Equal(t, map[string]int{"": 1}, s.LLMCalls)
	s.took(t0, r, ModelReply{Agent: "Assistant", MaxSteps: 3, Message: event.Message{ID: "e1.0.1"}, Calls: []PlannedCall{asks("c1")}})
	require.Equal(t, map[string]int{"assistant": 1}, s.LLMCalls, "S4-43 all of them are one agent's")
	s.Decide(t0, decision("c1", event.Deny))
	r.ToolsDone(t0)
	s.stepped(t0, r)
	require.Equal(t, map[string]int{"assistant": 2}, s.LLMCalls)
}

// TestCallOfAnotherRun: an agent that two others address has two runs. The model of the one is
// told which calls of the other are not done, so that it does not make them again.
func TestCallOfAnotherRun(t *testing.T) {
	s := newState("alice", "bob", "carol")
	turn := begin(t, s, "e1", "@bob @carol go\n@carol go")
	step(t, s, turn.Runs[0], "@alice deploy it")
	step(t, s, turn.Runs[1], "@alice deploy it")
	require.Len(t, turn.Runs, 4)
	first, second := turn.Runs[2], turn.Runs[3]
	in := first.NextModelStep(nil)
	require.Empty(t, in.OpenCalls)
	first.Replied(t0, ModelReply{
		Agent: "alice", MaxSteps: 3, Message: event.Message{ID: in.MessageID, Content: "on it"}, Calls: []PlannedCall{asks("c1"), runs("c2")},
	})
	require.Equal(t, []string{"c1", "c2"}, second.NextModelStep(nil).OpenCalls, "hooks are looking at them")
	first.ApplyReplyDecision(t0, pass)
	first.ApplyCallsDecision(t0, pass)
	require.Equal(t, []string{"c1", "c2"}, second.NextModelStep(nil).OpenCalls, "one waits, one runs")
	require.Equal(t, []string(nil), first.NextModelStep(nil).OpenCalls, "its own are its own")
	s.ran(t0, first, first.Calls[1])
	require.Equal(t, []string{"c1"}, second.NextModelStep(nil).OpenCalls)
	require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Deny)))
	require.Empty(t, second.NextModelStep(nil).OpenCalls)
}

func TestCallsAreCounted(t *testing.T) {
	s := limited()
	turn := begin(t, s, "e1", "hello")
	alice, bob := turn.Runs[0], turn.Runs[1]
	in := alice.NextModelStep(nil)
	require.Equal(t, map[string]int{"alice": 1}, s.LLMCalls, "S4-43 before the call is made")
	require.Equal(t, map[string]int{"alice": 1}, copied(t, s).LLMCalls, "S4-43 kept in whatever run comes next")
	s.took(t0, alice, ModelReply{Agent: "Alice", MaxSteps: 9, Message: event.Message{ID: in.MessageID}, Calls: []PlannedCall{asks("c1")}})
	bob.NextModelStep(nil)
	require.Equal(t, map[string]int{"alice": 1, "bob": 1}, s.LLMCalls, "each for itself")

	require.Equal(t, signals.Accepted, s.Decide(t0, decision("c1", event.Approve)))
	s.ran(t0, alice, alice.Calls[0])
	alice.ToolsDone(t0)
	for range 3 {
		_, ok := s.stepped(t0, alice)
		require.True(t, ok, "S4-44 a run in progress goes on: its own limit is that of its steps")
	}
	require.Equal(t, 4, s.View().LLMCalls["alice"], "S4-43 also after an approval")
	require.Equal(t, 2, s.View().TurnLimit)
	require.Equal(t, signals.DefaultTurnLimit, newState().View().TurnLimit)
}

func TestTurnLimit(t *testing.T) {
	atLimit := func(t *testing.T) *State {
		t.Helper()
		s := limited()
		turn := begin(t, s, "e1", "@alice go")
		step(t, s, turn.Runs[0], "", runs("c1"))
		s.ran(t0, turn.Runs[0], turn.Runs[0].Calls[0])
		turn.Runs[0].ToolsDone(t0)
		step(t, s, turn.Runs[0], "well")
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
		require.Equal(t, 2, s.LLMCalls["alice"])
		s.Flushed(s.Flush())
		return s
	}
	t.Run("S4-44 an agent at its limit is not asked, people are", func(t *testing.T) {
		for _, s := range []*State{atLimit(t), copied(t, atLimit(t))} {
			turn := starts(t, s, saidBy("e2", event.Agent, "Bob", "@alice and now?"))
			require.Empty(t, turn.Runs)
			require.Equal(t, map[string]string{"e2.limit.alice": "@human Turn limit reached (2 LLM calls). Please take control of the conversation."}, notices(t, s))
			require.Equal(t, signals.TurnUnanswered, s.Turn.End(t0).Status)
		}
	})
	t.Run("S4-44 each time, and others are", func(t *testing.T) {
		s := atLimit(t)
		for _, id := range []string{"e2", "e3"} {
			turn := starts(t, s, saidBy(id, event.Agent, "carol", "@Alice\n@bob what do you think?"))
			require.Len(t, turn.Runs, 1)
			require.Equal(t, "Bob", turn.Runs[0].Agent)
			s.Interrupt(signals.Control{})
			turn.Runs[0].StopRun(t0)
			s.Turn.End(t0)
		}
		require.Len(t, notices(t, s), 2)
	})
	t.Run("S4-44 by an answer in the turn itself", func(t *testing.T) {
		s := limited()
		turn := begin(t, s, "e1", "@bob go")
		s.LLMCalls = map[string]int{"alice": 2}
		in := step(t, s, turn.Runs[0], "@alice your turn")
		require.Len(t, turn.Runs, 1)
		require.Equal(t, map[string]string{in.MessageID + ".limit.alice": TurnLimitText(2)}, notices(t, s))
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
	})
	for _, tc := range []struct {
		name   string
		post   signals.Post
		resets bool
	}{
		{"S4-45 a person", saidBy("e2", event.User, "ann", "@alice go on"), true},
		{"S4-45 a person who speaks to nobody", saidBy("e2", event.User, "ann", "@human is this so?"), true},
		{"S4-45 the world", saidBy("e2", event.Tool, "the world", "it is noon"), true},
		{"S4-45 not the system", saidBy("e2", event.System, "threadmill", "it is noon"), false},
		{"S4-45 not an agent", saidBy("e2", event.Agent, "carol", "@alice go on"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := atLimit(t)
			starts(t, s, tc.post)
			s = copied(t, s)
			require.Equal(t, tc.resets, s.LLMCalls["alice"] == 0, "kept, also in the next run of the workflow")
			require.Empty(t, s.LLMCalls["bob"])
		})
	}
	for source, resets := range map[event.Source]bool{event.SourceEnv: true, event.SourceUser: true, event.SourceSystem: true, event.SourceTool: false, event.SourceLLM: false} {
		t.Run("S4-45 what happens in the world, not what agents bring about: "+string(source), func(t *testing.T) {
			s := atLimit(t)
			arrive(t, s, about("v1", fmt.Sprintf(`{"source":%q}`, source)))
			s.Turn.Enter(t0, pass, wakes)
			require.Equal(t, resets, s.LLMCalls["alice"] == 0)
			require.Len(t, s.Turn.Runs, 1)
		})
	}
	t.Run("S4-45 a person who joins a turn", func(t *testing.T) {
		s := limited()
		turn := begin(t, s, "e1", "@alice go")
		step(t, s, turn.Runs[0], "", runs("c1"))
		p := says("e2", "and mind the gap")
		p.OnBusy = signals.Steer
		post(t, s, p)
		require.True(t, s.joined(t0))
		require.Empty(t, s.LLMCalls)
	})
}

// TestAnswersAnAgent: a run knows whose message it answers, so that the answer finds its
// way back.
func TestAnswersAnAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		post signals.Post
		want string
	}{
		"S4-39 a person":                {saidBy("e1", event.User, "ann", "@alice hello"), ""},
		"S4-39 a person with that name": {saidBy("e1", event.User, "bob", "@alice hello"), ""},
		"S4-38 an agent of the thread":  {saidBy("e1", event.Agent, "BOB", "@alice hello"), "Bob"},
		"an agent of another thread":    {saidBy("e1", event.Agent, "carol", "@alice hello"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := limited()
			turn := starts(t, s, tc.post)
			in, ok := s.stepped(t0, turn.Runs[0])
			require.True(t, ok)
			require.Equal(t, tc.want, in.Answers)
			require.Equal(t, []string{"alice", "Bob"}, in.Agents)
			require.Equal(t, "e1", in.ReplyTo)
		})
	}
}

// TestSteerAddressed: a message that joins a turn and mentions agents is for them.
func TestSteerAddressed(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		replyTo       []string // by run: alice's, and bob's if there is one
	}{
		{"no mention: whoever is at work", "and mind the gap", []string{"e2"}},
		{"S4-34 the one at work", "@alice and mind the gap", []string{"e2"}},
		{"S4-34 another one, who gets a run", "@bob and mind the gap", []string{"e1", "e2"}},
		{"S4-34 both", "@bob and mind the gap\n@alice you too", []string{"e2", "e2"}},
		{"S4-34 people: no agent", "@human and mind the gap", []string{"e1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := limited()
			turn := begin(t, s, "e1", "@alice go")
			p := says("e2", tc.content)
			p.OnBusy = signals.Steer
			post(t, s, p)
			require.True(t, s.joined(t0))
			var got []string
			for _, r := range turn.Runs {
				got = append(got, r.ReplyTo)
			}
			require.Equal(t, tc.replyTo, got)
			require.Equal(t, "alice", turn.Runs[0].Agent)
			require.Equal(t, []string{"e2"}, turn.Steered)
		})
	}
	t.Run("as hooks have left it", func(t *testing.T) {
		s := limited()
		turn := begin(t, s, "e1", "@alice go")
		p := says("e2", "@alice go on")
		p.OnBusy = signals.Steer
		post(t, s, p)
		q, ok := s.Turn.NextSteered(t0)
		require.True(t, ok)
		s.Turn.Join(t0, q, replaces("guard", saying(event.User, "ann", "@bob go on")))
		require.Len(t, turn.Runs, 2)
		require.Equal(t, []string{"e1", "e2"}, []string{turn.Runs[0].ReplyTo, turn.Runs[1].ReplyTo})
	})
	t.Run("S4-44 one that is at its limit", func(t *testing.T) {
		s := limited()
		turn := begin(t, s, "e1", "@alice go")
		s.LLMCalls = map[string]int{"bob": 2}
		p := saidBy("e2", event.Agent, "carol", "@bob and you?")
		p.OnBusy = signals.Steer
		post(t, s, p)
		require.True(t, s.joined(t0))
		require.Len(t, turn.Runs, 1)
		require.Contains(t, notices(t, s), "e2.limit.bob")
	})
}

func TestWorkingDirectory(t *testing.T) {
	for metadata, want := range map[string]string{
		``: "", `{}`: "", `{"workingDirectory":"/desk"}`: "/desk", `{"workingDirectory":1}`: "",
		`{"workingDirectory":"/` + strings.Repeat("x", maxDirectory) + `"}`: "",
	} {
		s := New("ns", "t1", signals.Start{Metadata: json.RawMessage(metadata)}, t0)
		r := begin(t, s, "e1", "go").Runs[0]
		in, ok := s.stepped(t0, r)
		require.True(t, ok)
		require.Equal(t, want, in.WorkingDirectory, "%.40s", metadata)
		require.Equal(t, want, of(s, &Call{}).ToolStep(nil).WorkingDirectory)
	}
}
