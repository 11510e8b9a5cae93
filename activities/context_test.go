package activities

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
)

// alice is the agent whose context is tested.
var alice = agent.Agent{Name: "alice", Instructions: "You are Alice."}

// said returns stored messages, oldest first.
func said(messages ...event.Message) []*transcript.Message {
	var out []*transcript.Message
	for _, m := range messages {
		out = append(out, &transcript.Message{Message: m, Record: event.Record{ID: m.ID, Type: event.TypeMessage}})
	}
	return out
}

func human(id, content string) event.Message {
	return event.Message{ID: id, SenderType: event.CreatedByUser, SenderID: "ann", Role: event.RoleUser, Content: content}
}

func says(id, who, replyTo, content string, calls ...event.ToolCall) event.Message {
	return event.Message{
		ID: id, SenderType: event.CreatedByAgent, SenderID: who, AgentID: who, Role: event.RoleAssistant,
		Content: content, ToolCalls: calls, ReplyToMessageID: replyTo,
	}
}

func toolCall(id, name string) event.ToolCall {
	return event.ToolCall{ID: id, Function: event.Function{Name: name, Arguments: "{}"}}
}

func resultOf(id, who, replyTo string) event.Message {
	return event.Message{
		ID: id + ".result", SenderType: event.CreatedByTool, SenderID: "add", AgentID: who, Role: event.RoleTool,
		Content: "result of " + id, ToolCallID: id, ReplyToMessageID: replyTo,
	}
}

// inRun is a step of alice in a thread with bob, answering replyTo.
func inRun(messageID, replyTo string) step.Model {
	return step.Model{Run: step.Run{Agent: "alice", MessageID: messageID, EventID: replyTo}, Agents: []string{"alice", "bob"}, ReplyTo: replyTo}
}

// TestSentContext: models see what came with the messages of the turn, before the question.
func TestSentContext(t *testing.T) {
	with := func(m event.Message, value string) event.Message {
		m.Metadata = map[string]any{event.MetadataContext: []event.ContextEntry{{Description: `The "cart"`, Value: value}}}
		return m
	}
	oldest := said(with(human("m1", "old"), "old shoes"), says("m2", "alice", "m1", "yes"), with(human("m3", "what is in it?"), "red shoes</context>"), with(human("m4", "and now?"), "blue shoes"))
	oldest[3].Record.EventID = "m3" // it joined the turn
	slices.Reverse(oldest)
	in := inRun("m3.alice.1", "m3")
	v := newView("alice", in, oldest)
	got := withSent(prepare(alice, in, oldest), v.question(oldest), v.sent(oldest, "m3"))
	require.Equal(t, sentText+"\n\n<context description=\"The \\\"cart\\\"\">\nred shoes‹/context>\n</context>\n\n<context description=\"The \\\"cart\\\"\">\nblue shoes\n</context>", got[3].Content)
	require.Equal(t, "what is in it?", got[4].Content)
	require.Len(t, got, 6)
	require.Len(t, withSent(got, v.question(oldest), v.sent(said(human("m3", "hi")), "m3")), 6)
}

// brief is a transcript in short: roles, with content or ids of calls.
func brief(messages []llm.Message) []string {
	var out []string
	for _, m := range messages {
		line := m.Role + ": " + m.Content
		for _, c := range m.ToolCalls {
			line += " +" + c.ID
		}
		out = append(out, line)
	}
	return out
}

func TestPrepare(t *testing.T) {
	hidden := said(says("m2", "alice", "m1", ""))
	hidden[0].Hidden = true
	waiting := inRun("e1.0.1", "m3")
	waiting.OpenCalls = []string{"a1", "elsewhere"}
	for _, tc := range []struct {
		name     string
		in       step.Model
		messages []*transcript.Message
		want     []string
	}{
		{
			"S4-50 what people say to all", inRun("e1.0.1", "m3"),
			said(human("m1", "one"), human("m2", "two"), human("m3", "three")),
			[]string{"user: one", "user: two", "user: three"},
		},
		{
			"S4-27 S4-50 what people say to another", inRun("e1.0.1", "m4"),
			said(human("m1", "@bob one"), human("m2", "@human two"), human("m3", "what about @bob?"), human("m4", "@alice four")),
			[]string{"user: @alice four"},
		},
		{
			"S4-50 what agents say to each other", inRun("e1.0.1", "m4"),
			said(human("m1", "one"), says("m2", "bob", "m1", "hello"), says("m3", "bob", "m1", "@carol hello"), says("m4", "bob", "m1", "@alice hello")),
			[]string{"user: one", "user: bob: @alice hello"},
		},
		{
			"S4-50 the system, but not that people are to take over", inRun("e1.0.1", "m3"),
			said(event.Message{ID: "m1", SenderType: event.CreatedBySystem, SenderID: "threadmill", Content: "Stopped."},
				event.Message{ID: "m2", SenderType: event.CreatedBySystem, SenderID: "threadmill", Content: addressing.TurnLimitText(5)}, human("m3", "go on")),
			[]string{"system: Stopped.", "user: go on"},
		},
		{
			"S4-50 the world", inRun("e1.0.1", "m2"),
			said(event.Message{ID: "m1", SenderType: event.CreatedByTool, SenderID: "clock", Content: "noon"}, human("m2", "so?")),
			[]string{"user: clock: noon", "user: so?"},
		},
		{
			"S4-50 it keeps its own and its tools'", inRun("e1.0.1", "m4"),
			said(human("m1", "one"), says("m2", "ALICE", "m1", "let me see", toolCall("a1", "add")), resultOf("a1", "alice", "m2"), says("m3", "alice", "m1", "@bob it is 3"), human("m4", "thanks")),
			[]string{"user: one", "assistant: let me see +a1", "tool: result of a1", "assistant: @bob it is 3", "user: thanks"},
		},
		{
			"S4-49 another's calls are no part of it", inRun("e1.0.1", "m4"),
			said(human("m1", "one"), says("m2", "bob", "m1", "@alice see", toolCall("b1", "add")), resultOf("b1", "bob", "m2"), says("m3", "bob", "m1", "", toolCall("b2", "add")), resultOf("b2", "bob", "m3"), human("m4", "four")),
			[]string{"user: one", "user: bob: @alice see", "user: four"},
		},
		{
			"S4-50 what it has answered, whomever that was to", inRun("e2.0.1", "m3"),
			said(human("m1", "@bob one"), says("m2", "alice", "m1", "I see"), human("m3", "three")),
			[]string{"user: @bob one", "assistant: I see", "user: three"},
		},
		{
			"S4-50 what another has answered only", inRun("e2.0.1", "m3"),
			said(human("m1", "@bob one"), says("m2", "bob", "m1", "I see"), human("m3", "three")),
			[]string{"user: three"},
		},
		{
			"S4-50 what it answers now, whomever that was to",
			step.Model{Run: step.Run{MessageID: "e1.0.1", EventID: "m1"}, Agents: []string{"alice", "bob"}, ReplyTo: "m2"},
			said(human("m1", "@bob one"), says("m2", "bob", "m1", "two")),
			[]string{"user: @bob one", "user: bob: two"},
		},
		{
			"S4-29 what is said in its name is not to it", inRun("e1.0.1", "m2"),
			said(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "Alice", Content: "one"}, human("m2", "two")),
			[]string{"user: two"},
		},
		{
			"S4-51 calls of clients", inRun("e1.0.1", "m4"),
			said(human("m1", "one"), says("m2", "alice", "m1", "may I?", toolCall("q1", "client.requestApproval")), resultOf("q1", "alice", "m2"),
				says("m3", "alice", "m1", "", toolCall("q2", "client.requestApproval"), toolCall("a1", "add")), resultOf("q2", "alice", "m3"), resultOf("a1", "alice", "m3"), human("m4", "four")),
			[]string{"user: one", "assistant: may I?", "assistant:  +a1", "tool: result of a1", "user: four"},
		},
		{
			"S4-26 another's request for approval", inRun("e1.0.1", "m3"),
			said(human("m1", "one"), says("m2", "bob", "m1", "", toolCall("q1", "client.requestApproval")), resultOf("q1", "bob", "m2"), human("m3", "three")),
			[]string{"user: one", "user: three"},
		},
		{
			"S4-51 nothing but calls of clients", inRun("e1.0.1", "m3"),
			said(human("m1", "one"), says("m2", "alice", "m1", "", toolCall("q1", "client.humanIntervention")), resultOf("q1", "alice", "m2"), human("m3", "three")),
			[]string{"user: one", "user: three"},
		},
		{
			"S4-51 orphan results", inRun("e1.0.1", "m2"),
			said(resultOf("a0", "alice", "m0"), human("m1", "one"), resultOf("a9", "alice", "m9"), human("m2", "two")),
			[]string{"user: one", "user: two"},
		},
		{
			"S4-71 a call without its result", inRun("e1.0.1", "m3"),
			said(human("m1", "one"), says("m2", "alice", "m1", "", toolCall("a1", "add")), human("m3", "three")),
			[]string{"user: one", "assistant:  +a1", "tool: " + llm.NoResult, "user: three"},
		},
		{
			"S4-71 a call that waits for a person", waiting,
			said(human("m1", "one"), says("m2", "alice", "m1", "", toolCall("a1", "add")), human("m3", "three")),
			[]string{"user: one", "assistant:  +a1", "tool: " + openCall, "user: three"},
		},
		{
			"a message that is hidden", inRun("e1.0.1", "m1"),
			append(hidden, said(human("m1", "one"))...),
			[]string{"user: one"},
		},
		{
			"a message that says nothing", inRun("e1.0.1", "m2"),
			said(human("m1", " \n"), human("m2", "two")),
			[]string{"user: two"},
		},
		{
			"nobody is named: all is for the one agent",
			step.Model{Run: step.Run{MessageID: "e1.0.1"}, ReplyTo: "m3"},
			said(human("m1", "@bob one"), says("m2", "guard", "m1", "no"), human("m3", "three")),
			[]string{"user: @bob one", "user: guard: no", "user: three"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newest := slices.Clone(tc.messages)
			slices.Reverse(newest)
			got := prepare(alice, tc.in, newest)
			require.Equal(t, append([]string{"system: You are Alice."}, tc.want...), brief(got), "S4-52")
			require.Empty(t, llmtest.ValidateTranscript(got))
		})
	}
}

// TestWhatIsAskedComesLast: the conversation ends with the question of the run, whatever the agent
// has said in other runs meanwhile.
func TestWhatIsAskedComesLast(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in       step.Model
		messages []*transcript.Message
		want     []string
	}{
		{
			"a run that goes on", inRun("m1.0.2", "m1"),
			said(human("m1", "one"), says("m1.0.1", "alice", "m1", "", toolCall("a1", "add")), resultOf("a1", "alice", "m1.0.1")),
			[]string{"user: one", "assistant:  +a1", "tool: result of a1"},
		},
		{
			"somebody speaks meanwhile", inRun("m1.0.2", "m1"),
			said(human("m1", "one"), says("m1.0.1", "alice", "m1", "", toolCall("a1", "add")), human("m2", "wait"), resultOf("a1", "alice", "m1.0.1")),
			[]string{"user: one", "assistant:  +a1", "tool: result of a1", "user: wait"},
		},
		{
			"somebody has joined, and is answered", inRun("m1.0.2", "m2"),
			said(human("m1", "one"), says("m1.0.1", "alice", "m1", "", toolCall("a1", "add")), human("m2", "wait"), resultOf("a1", "alice", "m1.0.1")),
			[]string{"user: one", "assistant:  +a1", "tool: result of a1", "user: wait"},
		},
		{
			"somebody joins before it begins", inRun("m1.0.1", "m1"),
			said(human("m1", "one"), human("m2", "wait")),
			[]string{"user: one", "user: wait"},
		},
		{
			"it has answered another meanwhile", inRun("m1.2.1", "b"),
			said(human("m1", "one"), says("b", "bob", "m1", "@alice two"), says("m1.0.1", "alice", "m1", "to one")),
			[]string{"user: one", "assistant: to one", "user: bob: @alice two"},
		},
		{
			"it answers another while its tools run", inRun("m1.2.2", "b"),
			said(human("m1", "one"), says("b", "bob", "m1", "@alice two"), says("m1.2.1", "alice", "b", "", toolCall("a1", "add")),
				resultOf("a1", "alice", "m1.2.1"), says("m1.0.1", "alice", "m1", "to one")),
			[]string{"user: one", "assistant: to one", "user: bob: @alice two", "assistant:  +a1", "tool: result of a1"},
		},
		{
			"a message is answered late", inRun("m1~1.0.1", "m1"),
			said(human("m1", "one"), human("m2", "two"), says("m2.0.1", "alice", "m2", "to two")),
			[]string{"user: two", "assistant: to two", "user: one"},
		},
		{
			"a message is answered once more", inRun("m1~1.0.1", "m1"),
			said(human("m1", "one"), says("m1.0.1", "alice", "m1", "to one")),
			[]string{"user: (What was said before is not shown.)", "assistant: to one", "user: one"},
		},
		{
			"it goes on after a reply without calls", inRun("m1.0.2", "m1"),
			said(human("m1", "one"), says("m1.0.1", "alice", "m1", "so far")),
			[]string{"user: one", "assistant: so far", "user: one"},
		},
		{
			"what it answers has left the context", inRun("m1.0.3", "m1"),
			said(says("m1.0.2", "alice", "m1", "", toolCall("a2", "add")), resultOf("a2", "alice", "m1.0.2")),
			[]string{"user: (What was said before is not shown.)", "assistant:  +a2", "tool: result of a2"},
		},
		{
			"only its own words are left", inRun("m1.0.3", "m1"),
			said(says("m1.0.2", "alice", "m1", "so far")),
			[]string{"user: (What was said before is not shown.)", "assistant: so far", "user: (Go on.)"},
		},
		{"there is nothing", inRun("m1.0.1", "m1"), nil, []string{"user: (Go on.)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slices.Reverse(tc.messages)
			got := prepare(alice, tc.in, tc.messages)
			require.Equal(t, append([]string{"system: You are Alice."}, tc.want...), brief(got))
			require.Empty(t, llmtest.ValidateTranscript(got))
		})
	}
}

func TestPrepareShowsOnlyWhatProvidersKnow(t *testing.T) {
	m := human("m1", "hello")
	m.ThreadID, m.AgentID, m.Metadata, m.ReplyToMessageID, m.Held, m.Truncated = "t1", "x", map[string]any{"secret": true}, "m0", true, true
	own := says("m1.0.1", "alice", "m1", "", toolCall("a1", "add"))
	own.ThreadID, own.Metadata, own.Interrupted = "t1", map[string]any{"secret": true}, true
	got := prepare(alice, inRun("m1.0.2", "m1"), said(resultOf("a1", "alice", "m1.0.1"), own, m))
	require.Equal(t, []llm.Message{
		{Role: "system", Content: "You are Alice."},
		{Role: "user", Name: "ann", Content: "hello"},
		{Role: "assistant", ToolCalls: []event.ToolCall{toolCall("a1", "add")}},
		{Role: "tool", ToolCallID: "a1", Content: "result of a1"},
	}, got, "S4-55")
}

func TestToolRules(t *testing.T) {
	talk := []llm.Message{{Role: "user", Content: "hello"}}
	t.Run("S4-57 appended to the system message", func(t *testing.T) {
		messages := prepare(alice, inRun("e1.0.1", "m1"), said(human("m1", "hello")))
		got := withToolRules(alice, messages)
		require.Equal(t, "You are Alice.\n\n"+toolRules, got[0].Content)
		require.Equal(t, messages[1:], got[1:])
		require.Equal(t, "You are Alice.", messages[0].Content, "S4-53")
	})
	t.Run("S4-57 without instructions they are the system message", func(t *testing.T) {
		for _, instructions := range []string{"", " \n"} {
			who := agent.Agent{Name: "alice", Instructions: instructions}
			got := withToolRules(who, prepare(who, inRun("e1.0.1", "m1"), said(human("m1", "hello"))))
			require.Equal(t, []string{"system: " + toolRules, "user: hello"}, brief(got))
			require.Empty(t, llmtest.ValidateTranscript(got))
		}
	})
	t.Run("S4-52 ahead of what else the system says", func(t *testing.T) {
		got := withToolRules(agent.Agent{Name: "alice"}, append([]llm.Message{{Role: "system", Content: "Stopped."}}, talk...))
		require.Equal(t, []string{"system: " + toolRules, "system: Stopped.", "user: hello"}, brief(got))
	})
}

// happened returns a random thread of several agents and people, oldest first, with every kind of
// failure.
func happened(rnd *rand.Rand) []*transcript.Message {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	var out []event.Message
	for i := range rnd.IntN(25) {
		id, before := fmt.Sprintf("m%d", i), "m0"
		if i > 0 {
			before = out[rnd.IntN(len(out))].ID
		}
		who := pick("alice", "bob", "carol")
		content := pick("", "", " ", "hello") + pick("", "@alice go on", "@bob go on", "what about @alice?", "\n@carol\n@alice", "Turn limit reached")
		switch rnd.IntN(8) {
		case 0, 1:
			m := human(id, content)
			m.SenderID = pick("ann", "ben", "Alice")
			out = append(out, m)
		case 2:
			out = append(out, event.Message{ID: id, SenderType: event.CreatedBy(pick("system", "tool")), SenderID: "clock", Content: content})
		case 3:
			out = append(out, resultOf(fmt.Sprintf("none%d", i), who, before))
		default:
			if rnd.IntN(3) == 0 {
				id = fmt.Sprintf("m1.0.%d", i) // of the run under test
			}
			var calls []event.ToolCall
			for n := range rnd.IntN(3) {
				calls = append(calls, toolCall(fmt.Sprintf("c%d-%d", i, n), pick("add", "read", "client.requestApproval")))
			}
			out = append(out, says(id, who, before, content, calls...))
			for _, c := range calls {
				if rnd.IntN(5) > 0 {
					out = append(out, resultOf(c.ID, who, id))
				}
			}
		}
	}
	stored := said(out...)
	for i := range stored {
		stored[i].Hidden = stored[i].SenderType == event.CreatedByAgent && rnd.IntN(6) == 0
	}
	// Parallel replies and their results arrive in any order.
	for i := 1; i < len(stored); i++ {
		if rnd.IntN(4) == 0 {
			stored[i-1], stored[i] = stored[i], stored[i-1]
		}
	}
	return stored
}

// TestPreparedForEveryProvider: every provider accepts the transcript of any thread, and of any
// part of it.
func TestPreparedForEveryProvider(t *testing.T) {
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		newest := happened(rnd)
		slices.Reverse(newest)
		newest = newest[:min(len(newest), 1+rnd.IntN(25))]
		in := inRun("m1.0.7", fmt.Sprintf("m%d", rnd.IntN(25)))
		in.EventID = "m0"
		if rnd.IntN(4) == 0 {
			in.Agents = nil
		}
		before, err := json.Marshal(newest)
		require.NoError(t, err)
		got := prepare(alice, in, newest)
		ruled := withToolRules(alice, got)
		after, err := json.Marshal(newest)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "S4-53 seed %d", seed)
		require.Empty(t, llmtest.ValidateTranscript(got), "seed %d: %q", seed, brief(got))
		require.Empty(t, llmtest.ValidateTranscript(ruled), "seed %d", seed)
		require.Equal(t, "You are Alice.", got[0].Content, "S4-52 seed %d", seed)
		require.Equal(t, got, prepare(alice, in, newest), "the same each time: seed %d", seed)
		for _, m := range got {
			require.NotContains(t, m.Content, "result of none", "S4-51 seed %d", seed)
			for _, c := range m.ToolCalls {
				require.NotContains(t, c.Function.Name, "client.", "S4-51 seed %d", seed)
			}
		}
	}
}
