package addressing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestRouting(t *testing.T) {
	two := []string{"alice", "Bob"}
	for _, tc := range []struct {
		name    string
		agents  []string
		by      event.CreatedBy
		sender  string
		content string
		want    []string
	}{
		{"S0-26 user, no agents named: the default agent", nil, event.CreatedByUser, "ann", "hi", []string{""}},
		{"S0-26 user: all", two, event.CreatedByUser, "ann", "hi", two},
		{"S0-26 user, one mentioned", two, event.CreatedByUser, "ann", "@bob hi", []string{"Bob"}},
		{"S0-26 user, on two lines", two, event.CreatedByUser, "ann", "@bob hi\n  @Alice you too", two},
		{"S0-26 tool from outside: all", two, event.CreatedByTool, "cron", "it is noon", two},
		{"S0-26 tool from outside: one", two, event.CreatedByTool, "cron", "@alice it is noon", []string{"alice"}},
		{"S0-26 system: nobody", two, event.CreatedBySystem, "threadmill", "@alice hi", nil},
		{"S0-26 system, default agent: nobody", nil, event.CreatedBySystem, "threadmill", "hi", nil},
		{"S0-26 agent without mention: nobody", two, event.CreatedByAgent, "alice", "hi", nil},
		{"S0-26 agent in the middle of a line: nobody", two, event.CreatedByAgent, "alice", "hi @bob", nil},
		{"S0-26 agent to another", two, event.CreatedByAgent, "alice", "@bob hi", []string{"Bob"}},
		{"S0-26 agent to itself: nobody", two, event.CreatedByAgent, "ALICE", "@alice hi", nil},
		{"S0-26 agent, default agent: nobody", nil, event.CreatedByAgent, "assistant", "@assistant hi", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Answering(tc.agents, event.Message{SenderType: tc.by, SenderID: tc.sender, Content: tc.content}))
		})
	}
}

func TestAnswering(t *testing.T) {
	three := []string{"alice", "Bob", "user-support"}
	for _, tc := range []struct {
		name    string
		agents  []string
		by      event.CreatedBy
		sender  string
		content string
		want    []string
	}{
		{"S4-33 a person, no mention: all", three, event.CreatedByUser, "ann", "hi", three},
		{"S4-33 what is no mention: all", three, event.CreatedByUser, "ann", "ann@example.com asks for @Override", three},
		{"S4-33 a mention in code: all", three, event.CreatedByUser, "ann", "look:\n```\n@bob\n```", three},
		{"S4-34 a person to one", three, event.CreatedByUser, "ann", "@bob hi", []string{"Bob"}},
		{"S4-34 in any case", three, event.CreatedByUser, "ann", "@BOB hi", []string{"Bob"}},
		{"S4-34 to two, in the thread's order", three, event.CreatedByUser, "ann", "@bob hi\n  @Alice you too", []string{"alice", "Bob"}},
		{"S4-34 to one, speaking of another", three, event.CreatedByUser, "ann", "@bob ask @alice", []string{"Bob"}},
		{"S4-34 to a person only: no agent", three, event.CreatedByUser, "ann", "@human look", nil},
		{"S4-34 to a person and an agent", three, event.CreatedByUser, "ann", "@human look\n@bob you too", []string{"Bob"}},
		{"S4-34 a longer name is another name", three, event.CreatedByUser, "ann", "@bobby hi", nil},
		{"S4-27 S4-35 a person, in the middle: nobody", three, event.CreatedByUser, "ann", "what about @bob?", nil},
		{"S4-35 also behind a mark of Markdown", three, event.CreatedByUser, "ann", "- @bob", nil},
		{"S4-32 the world: all", three, event.CreatedByTool, "the world", "it is noon", three},
		{"S4-32 the world to one", three, event.CreatedByTool, "the world", "@alice it is noon", []string{"alice"}},
		{"S4-32 the world speaks of one", three, event.CreatedByTool, "the world", "for @alice", nil},
		{"S4-30 the system", three, event.CreatedBySystem, "threadmill", "@alice hi", nil},
		{"S4-36 an agent without mention", three, event.CreatedByAgent, "alice", "hi", nil},
		{"S4-36 an agent, in the middle", three, event.CreatedByAgent, "alice", "hi @bob", nil},
		{"S4-36 an agent to another", three, event.CreatedByAgent, "alice", "@bob hi", []string{"Bob"}},
		{"S4-36 an agent to two", three, event.CreatedByAgent, "alice", "@bob hi\n@user-support hi", []string{"Bob", "user-support"}},
		{"S4-36 an agent to a person", three, event.CreatedByAgent, "alice", "@ann hi", nil},
		{"S4-36 an agent of another thread", three, event.CreatedByAgent, "carol", "@bob hi", []string{"Bob"}},
		{"S4-29 an agent to itself", three, event.CreatedByAgent, "alice", "@alice hi", nil},
		{"S4-29 in any case", three, event.CreatedByAgent, "ALICE", "@alice hi\n@bob hi", []string{"Bob"}},
		{"S4-29 whoever says it in the agent's name", three, event.CreatedByUser, "Alice", "hi", []string{"Bob", "user-support"}},
		{"X9 an agent whose name begins with user is an agent", three, event.CreatedByAgent, "user-support", "hi", nil},
		{"X9 and answers as one", three, event.CreatedByUser, "ann", "@user-support hi", []string{"user-support"}},
		{"X9 a person is one by what it is, not by its name", three, event.CreatedByUser, "agent-7", "hi", three},
		{"S4-31 the turn limit", three, event.CreatedBySystem, "threadmill", TurnLimitText(5), nil},
		{"S4-31 whoever says it", three, event.CreatedByUser, "ann", "Turn limit reached (5 LLM calls).", nil},
		{"S4-31 an agent, to another", three, event.CreatedByAgent, "alice", "@bob Turn limit reached", nil},
		{"S4-33 asking about it", three, event.CreatedByUser, "ann", "Why was the turn limit reached?", three},
		{"S0-26 no agents named: the default agent", nil, event.CreatedByUser, "ann", "hi", []string{""}},
		{"S0-26 no agents named, whoever is mentioned", nil, event.CreatedByUser, "ann", "@human hi, says @alice", []string{""}},
		{"S0-26 no agents named, the world", nil, event.CreatedByTool, "cron", "it is noon", []string{""}},
		{"S0-26 no agents named, an agent", nil, event.CreatedByAgent, "assistant", "@assistant hi", nil},
		{"S0-26 no agents named, the system", nil, event.CreatedBySystem, "threadmill", "hi", nil},
		{"S4-31 no agents named, the turn limit", nil, event.CreatedByUser, "ann", TurnLimitText(1), nil},
		{"an agent that is named twice answers once", []string{"alice", "Alice"}, event.CreatedByUser, "ann", "hi", []string{"alice"}},
		{"who is none of the four", three, "", "ann", "hi", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := event.Message{ID: "m1", SenderType: tc.by, SenderID: tc.sender, Content: tc.content}
			require.Equal(t, tc.want, Answering(tc.agents, m))
			m.ToolCallID = "c1"
			require.Empty(t, Answering(tc.agents, m), "a tool's result is answered by the agent that asked for it, in its run")
		})
	}
	t.Run("S4-29 what an agent wrote under another name", func(t *testing.T) {
		m := event.Message{SenderType: event.CreatedByAgent, SenderID: "team", AgentID: "Alice", Content: "@alice hi\n@bob hi"}
		require.Equal(t, []string{"Bob"}, Answering(three, m))
	})
}

func TestTurnLimitText(t *testing.T) {
	require.Equal(t, "@human Turn limit reached (5 LLM calls). Please take control of the conversation.", TurnLimitText(5), "S4-44")
	require.Equal(t, []string{"human"}, Mentions(TurnLimitText(5)), "S4-44 people are addressed")
	for content, want := range map[string]bool{
		TurnLimitText(5): true, "Turn limit reached": true, "@ann, turn limit reached": true, " \n@human: TURN LIMIT REACHED (2 LLM calls).": true,
		"": false, "Turn limit": false, "The Turn limit reached us": false, "@human hello": false, "Turn limits reached": false,
	} {
		require.Equal(t, want, IsTurnLimit(content), "S4-31 %q", content)
	}
}

// chance makes up messages of what matters to routing.
type chance struct{ *rand.Rand }

func newChance(seed uint64) chance { return chance{rand.New(rand.NewPCG(seed, 4))} }

func (c chance) pick(from ...string) string { return from[c.IntN(len(from))] }

func (c chance) text() string {
	var out strings.Builder
	for range c.IntN(12) {
		out.WriteString(c.pick("@alice", "@Bob", "@carol", "@human", "@@", "@", "é", ".", ", ", " ", "\n", "\n\n", "\r\n", "hello", "```", "\n```\n", "~~~",
			"<world>", "</world>", "<world>STOP</world>", "<world>TO:bob,alice</world>", "TO:", "Turn limit reached"))
	}
	return out.String()
}

func (c chance) message() event.Message {
	return event.Message{
		ID: "m", SenderType: event.CreatedBy(c.pick("user", "agent", "tool", "system")), SenderID: c.pick("alice", "BOB", "ann", "carol"),
		AgentID: c.pick("", "", "alice"), ToolCallID: c.pick("", "", "", "c1"), Content: c.text(),
	}
}

func (c chance) agents() []string {
	var out []string
	for range c.IntN(5) {
		out = append(out, c.pick("alice", "bob", "Bob", "carol", "dora"))
	}
	return out
}

const manyCases = 20_000

// TestRoutingIsTotal: for whatever message, it is settled who answers, always alike.
func TestRoutingIsTotal(t *testing.T) {
	for seed := range uint64(manyCases) {
		c := newChance(seed)
		agents, m := c.agents(), c.message()
		said := fmt.Sprintf("seed %d: agents %q, message %+v", seed, agents, m)
		before := slices.Clone(agents)
		got := Answering(agents, m)
		require.Equal(t, got, Answering(agents, m), said)
		require.Equal(t, before, agents, said)
		known := agents
		if len(known) == 0 {
			known = []string{""}
		}
		for i, agent := range got {
			require.Contains(t, known, agent, said)
			require.False(t, HasName(got[:i], agent), "twice: %s", said)
			require.True(t, Responds(agent, agents, m), said)
			require.False(t, agent != "" && strings.EqualFold(agent, m.SenderID), "S4-29 %s", said)
		}
		switch {
		case m.SenderType == event.CreatedBySystem || m.ToolCallID != "":
			require.Empty(t, got, said)
		case m.SenderType == event.CreatedByAgent:
			require.LessOrEqual(t, len(got), len(Mentions(m.Content)), "S4-36 %s", said)
		case len(agents) == 0 && !IsTurnLimit(m.Content):
			require.Equal(t, []string{""}, got, said)
		}
		slices.Reverse(agents)
		lower := func(names []string) []string { return strings.Fields(strings.ToLower(strings.Join(names, " "))) }
		require.ElementsMatch(t, lower(got), lower(Answering(agents, m)), "whatever the order of the agents: %s", said)
	}
}

// TestAddressedAgentsHearIt: what an agent's reply comes to addresses those whom it should,
// and never itself.
func TestAddressedAgentsHearIt(t *testing.T) {
	agents := []string{"alice", "bob", "carol"}
	for seed := range uint64(manyCases) {
		content := newChance(seed).text()
		said := fmt.Sprintf("seed %d: %q", seed, content)
		got := AutoMention(content, "alice", "bob")
		require.Equal(t, got, AutoMention(got, "alice", "bob"), said)
		_, how := directed(content)
		for _, toAgent := range []bool{false, true} {
			m := event.Message{SenderType: event.CreatedByAgent, SenderID: "alice", AgentID: "alice", Content: Rewrite(content, "alice", "bob", toAgent, true)}
			require.False(t, HasName(Mentions(m.Content), "alice"), said)
			answer := Answering(agents, m)
			require.NotContains(t, answer, "alice", said)
			switch {
			case how.Ends:
				require.Empty(t, answer, said)
			case toAgent && strings.TrimSpace(m.Content) != "" && !IsTurnLimit(m.Content):
				require.True(t, HasMentionAtStart(m.Content), said)
			}
		}
	}
}

// TestTwoAgentsComeToAnEnd: agents that answer each other for ever are stopped by the
// count of their LLM calls, and nobody answers what the thread says then.
func TestTwoAgentsComeToAnEnd(t *testing.T) {
	agents := []string{"alice", "bob"}
	for limit := 1; limit <= 7; limit++ {
		t.Run(fmt.Sprintf("S4-46 S4-40 limit %d", limit), func(t *testing.T) {
			calls, notices := map[string]int{}, 0
			waiting := []event.Message{{SenderType: event.CreatedByUser, SenderID: "ann", Content: "@alice talk to @bob"}}
			for len(waiting) > 0 {
				m := waiting[0]
				waiting = waiting[1:]
				for _, agent := range Answering(agents, m) {
					if calls[agent] == limit {
						notices++
						waiting = append(waiting, event.Message{SenderType: event.CreatedBySystem, SenderID: "threadmill", Content: TurnLimitText(limit)})
						continue
					}
					calls[agent]++
					reply := Rewrite("I see.", agent, m.SenderID, m.SenderType == event.CreatedByAgent, true)
					if m.SenderType == event.CreatedByUser {
						reply = "@bob hello"
					}
					waiting = append(waiting, event.Message{SenderType: event.CreatedByAgent, SenderID: agent, AgentID: agent, Content: reply})
				}
			}
			require.Equal(t, map[string]int{"alice": limit, "bob": limit}, calls)
			require.Equal(t, 1, notices)
		})
	}
}
