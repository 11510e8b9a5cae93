package chat_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/chattest"
	"github.com/threadmill/threadmill/internal/turn"
)

// TestCallStates: what has become of a call, and whether the turn waits for somebody.
func TestCallStates(t *testing.T) {
	const c = "c"
	request, approve, deny := chattest.Request(c, 0), chattest.Decision(c, event.DecisionApprove, 0), chattest.Decision(c, event.DecisionDeny, 0)
	vote := chattest.Decision(c, event.DecisionApprove, 0)
	vote.Approval.Missing = 1
	for name, test := range map[string]struct {
		events []event.AgentEvent
		want   turn.State
		waits  bool
	}{
		"runs":                        {nil, turn.Running, false},
		"a request":                   {[]event.AgentEvent{request}, turn.WaitsForApproval, true},
		"one of two votes":            {[]event.AgentEvent{request, vote}, turn.WaitsForApproval, true},
		"approved":                    {[]event.AgentEvent{request, approve}, turn.Running, false},
		"asked again":                 {[]event.AgentEvent{request, approve, chattest.Request(c, 2)}, turn.WaitsForApproval, true},
		"a decision of before":        {[]event.AgentEvent{chattest.Request(c, 2), deny}, turn.WaitsForApproval, true},
		"taken back":                  {[]event.AgentEvent{request, approve, chattest.Decision(c, event.DecisionRevoked, 0)}, turn.Running, false},
		"denied, which has a result":  {[]event.AgentEvent{request, deny, chattest.Result(c, "denied")}, turn.Denied, false},
		"expired":                     {[]event.AgentEvent{request, chattest.Decision(c, event.DecisionExpired, 0)}, turn.Expired, false},
		"denied without a request":    {[]event.AgentEvent{deny}, turn.Denied, false},
		"for a client":                {[]event.AgentEvent{chattest.ForClient(c)}, turn.WaitsForClient, true},
		"for a client, once approved": {[]event.AgentEvent{request, approve, chattest.ForClient(c)}, turn.WaitsForClient, true},
		"answered by the client":      {[]event.AgentEvent{chattest.ForClient(c), chattest.Result(c, "x")}, turn.Done, false},
		"a question":                  {[]event.AgentEvent{chattest.Question(c, 1)}, turn.WaitsForInput, true},
		"another answer":              {[]event.AgentEvent{chattest.Question(c, 2), chattest.Answer(c, 1)}, turn.WaitsForInput, true},
		"an answer":                   {[]event.AgentEvent{chattest.Question(c, 1), chattest.Answer(c, 1)}, turn.Running, false},
		"a question, and the end":     {[]event.AgentEvent{chattest.Question(c, 1), chattest.Result(c, "x")}, turn.Done, false},
		"stopped":                     {[]event.AgentEvent{request, chattest.Ended("interrupted", "")}, turn.Interrupted, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := append([]event.AgentEvent{chattest.Asked("e"), chattest.Said("r", "bot", "a"), chattest.Call("r", c, "f")}, test.events...)
			got := chattest.Read(all...)
			assert.Equal(t, test.want, got.Answer("e").Parts[1].(*chat.Call).State())
			assert.Equal(t, test.waits, got.Waits("e"))
		})
	}
}

// TestWaits: a turn waits when nothing in it goes on.
func TestWaits(t *testing.T) {
	waiting := []event.AgentEvent{chattest.Asked("e"), chattest.Said("r", "bot", ""), chattest.Call("r", "c", "f"), chattest.Request("c", 0)}
	for name, c := range map[string]struct {
		more  []event.AgentEvent
		waits bool
	}{
		"all calls wait":              {[]event.AgentEvent{chattest.Call("r", "d", "f"), chattest.Request("d", 0)}, true},
		"another call runs":           {[]event.AgentEvent{chattest.Call("r", "d", "f")}, false},
		"another agent is called":     {[]event.AgentEvent{chattest.Piece("o", "other", "", 1)}, false},
		"a sub-agent works meanwhile": {[]event.AgentEvent{chattest.Call("r", "d", "call_agent")}, false},
		"a sub-agent waits":           {[]event.AgentEvent{chattest.Call("r", "d", "call_agent"), chattest.Request("s", 0)}, true},
		"a sub-agent goes on": {[]event.AgentEvent{
			chattest.Call("r", "d", "call_agent"), chattest.Request("s", 0), chattest.Decision("s", event.DecisionApprove, 0),
		}, false},
		"a sub-agent asks for input": {[]event.AgentEvent{chattest.Call("r", "d", "call_agent"), chattest.Question("s", 1)}, true},
		"a sub-agent asks for input, once approved": {[]event.AgentEvent{
			chattest.Call("r", "d", "call_agent"), chattest.Request("s", 0), chattest.Decision("s", event.DecisionApprove, 0), chattest.Question("s", 1),
		}, true},
		"a sub-agent goes on with the input": {[]event.AgentEvent{chattest.Call("r", "d", "call_agent"), chattest.Question("s", 1), chattest.Answer("s", 1)}, false},
		"a sub-agent needs no input any more": {[]event.AgentEvent{
			chattest.Call("r", "d", "call_agent"), chattest.Question("s", 1), chattest.Withdrawal("s", 1),
		}, false},
		"it has ended": {[]event.AgentEvent{chattest.Ended("completed", "")}, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.waits, chattest.Read(append(waiting, c.more...)...).Waits("e")) })
	}
}

// TestQuestionsOfSubAgents: of a sub-agent's call, the turn has the questions only, unless the call needed approval.
func TestQuestionsOfSubAgents(t *testing.T) {
	events := []event.AgentEvent{
		chattest.Asked("e"), chattest.Said("r", "bot", ""), chattest.Call("r", "c", "call_agent"),
		chattest.Question("s", 1), chattest.Answer("s", 1), chattest.Question("s", 2), chattest.Withdrawal("s", 2), chattest.Question("s", 3),
	}
	c := chattest.Read(events...)
	parts := c.Answer("e").Parts
	require.Len(t, parts, 4)
	var open []bool
	for _, p := range parts[1:] {
		q := p.(*chat.Question)
		assert.True(t, q.Foreign)
		open = append(open, q.Open())
	}
	assert.Equal(t, []bool{false, false, true}, open)
	require.Len(t, c.Waiting("e"), 1)
	assert.Equal(t, "s", c.Waiting("e")[0].ID)
	assert.Equal(t, 1, c.Unsettled("e"), "the call that asks the sub-agent")

	parts = chattest.Read(append(events, chattest.Answer("s", 3), chattest.Request("s", 2))...).Answer("e").Parts
	assert.Equal(t, turn.WaitsForApproval, parts[4].(*chat.Call).State(), "it is shown when it needs approval")
}

// TestLiveAndStored: a chat that was followed is the same as one that was loaded.
func TestLiveAndStored(t *testing.T) {
	found := event.AgentEvent{Type: event.EventRetrieval, MessageID: "r", Retrieval: &event.Retrieval{MessageID: "r", Warning: "no vectors"}}
	said := chattest.Said("r", "bot", "ab")
	tail := []event.AgentEvent{chattest.Call("r", "c", "f"), chattest.Request("c", 0), chattest.Decision("c", event.DecisionApprove, 0), chattest.Result("c", "x")}
	stored := append([]event.AgentEvent{chattest.Asked("e"), found, said}, tail...)
	live := append([]event.AgentEvent{
		chattest.Asked("e"), chattest.Piece("r", "bot", "", 1), chattest.Piece("r", "bot", "old", 1), chattest.Reset("r", "bot", 2),
		chattest.Piece("r", "bot", "late", 1), chattest.Piece("r", "bot", "a", 2), found, said, chattest.Piece("r", "bot", "b", 2),
	}, tail...)
	plain := func(c *chat.Chat) []chat.Part {
		parts := c.Answer("e").Parts
		for _, p := range parts {
			if call, is := p.(*chat.Call); is {
				call.SettledAt = 0 // counts changes
			}
		}
		return parts
	}
	assert.Equal(t, plain(chattest.Read(stored...)), plain(chattest.Read(live...)))
}

// TestMessageThatJoins: what follows a message that joins a turn is another answer. Parts stay in theirs.
func TestMessageThatJoins(t *testing.T) {
	c := chattest.Read(chattest.Asked("e"), chattest.Said("r", "bot", "a"), chattest.Call("r", "c", "f"), chattest.Asked("j"), chattest.Result("c", "x"),
		chattest.Said("s", "bot", "b"), chattest.Ended("completed", ""))
	require.Len(t, c.Messages, 4)
	first, joined := c.Answer("e"), c.Answer("j")
	assert.True(t, first.Left && first.Over() && first.Ended == nil)
	assert.Len(t, first.Parts, 2)
	assert.Equal(t, turn.Done, first.Parts[1].(*chat.Call).State())
	assert.Equal(t, []chat.Part{&chat.Text{Reply: "s", Agent: "bot", Content: "b", Done: true}}, joined.Parts)
	assert.Equal(t, "completed", joined.Ended.Turn)
	assert.Equal(t, []string{"e", "e.reply", "j", "j.reply"}, []string{c.Messages[0].ID, c.Messages[1].ID, c.Messages[2].ID, c.Messages[3].ID})
}

// TestChangesByHooks: what hooks change later is changed in its place.
func TestChangesByHooks(t *testing.T) {
	changed := chattest.Call("r", "c", "f")
	changed.ToolArgs = `{"a":2}`
	c := chattest.Read(chattest.Asked("e"), chattest.Said("r", "bot", "a"), chattest.Call("r", "c", "f"), chattest.Said("r", "bot", "b"), changed)
	m := c.Answer("e")
	require.Len(t, m.Parts, 2)
	assert.Equal(t, "b", m.Parts[0].(*chat.Text).Content)
	assert.JSONEq(t, `{"a":2}`, m.Parts[1].(*chat.Call).Arguments)
	asked := chattest.Asked("e")
	asked.Message.Content, asked.EventID = "changed", "e"
	c.Apply(asked)
	require.Len(t, c.Messages, 2)
	assert.Equal(t, "changed", c.Messages[0].Content)
}

// TestErrorsHaveNoAddresses: those of providers are not for people in a chat.
func TestErrorsHaveNoAddresses(t *testing.T) {
	const problem = `shaky: Post "https://models.internal:8443/v1?key=x": connection refused`
	end := chattest.Ended("failed", problem)
	m := chattest.Read(chattest.Asked("e"), event.AgentEvent{Type: event.EventError, Agent: "bot", MessageID: "r", Error: problem}, end).Answer("e")
	assert.Equal(t, `shaky: Post "(address)": connection refused`, m.Ended.Detail)
	assert.Equal(t, m.Ended.Detail, m.Parts[0].(*chat.Failure).Error)
	assert.Equal(t, problem, end.Status.Detail, "the event is not changed")
	retrying := &event.StatusChange{Status: event.StatusRetrying, Retry: &event.Retry{Error: problem}}
	assert.NotContains(t, chat.Presentable(retrying).Retry.Error, "internal")
}
