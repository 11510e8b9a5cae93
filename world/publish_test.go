package world_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/world"
)

func TestPublishMessage(t *testing.T) {
	b := newFixture(t)
	messages := watch(b, b.world.SubscribeToMessages)
	b.start("bot", "Planner")
	t.Run("S4-01 one message event", func(t *testing.T) {
		id, err := b.world.PublishMessage(b.ctx, "hello", "ann", "t1")
		require.NoError(t, err)
		m := next(b, messages)
		assert.Equal(t, world.Message{Sender: "ann", Content: "hello", Role: "user", Timestamp: m.Timestamp, MessageID: id, ChatID: "t1"}, m)
		assert.False(t, m.Timestamp.IsZero())
		assert.Empty(t, messages)
	})
	t.Run("S4-03 with its id", func(t *testing.T) {
		id, err := b.world.PublishMessageWithID(b.ctx, "hello", "ann", "my-id", "t1")
		require.NoError(t, err)
		assert.Equal(t, "my-id", id)
		assert.Equal(t, "my-id", next(b, messages).MessageID)
	})
	for sender, want := range map[string]struct {
		kind event.CreatedBy
		id   string
		role string
	}{
		"ann":          {event.CreatedByUser, "ann", "user"},
		"human":        {event.CreatedByUser, "human", "user"},
		"user-7":       {event.CreatedByUser, "user-7", "user"},
		"user-support": {event.CreatedByAgent, "user-support", "assistant"},
		"BOT":          {event.CreatedByAgent, "bot", "assistant"},
		"planner":      {event.CreatedByAgent, "Planner", "assistant"},
		"system":       {event.CreatedBySystem, "system", "system"},
		"World":        {event.CreatedByTool, "world", "user"},
	} {
		t.Run("S4-02 X9 the role of "+sender, func(t *testing.T) {
			_, err := b.world.PublishMessage(b.ctx, "hi", sender, "t1")
			require.NoError(t, err)
			post := b.threads.posts[len(b.threads.posts)-1]
			assert.Equal(t, want.kind, post.SenderType)
			assert.Equal(t, want.id, post.SenderID)
			assert.Equal(t, want.role, next(b, messages).Role)
		})
	}
	for _, content := range []string{"{", `{"a":1}`, `{"__type":"text"}`, " {\n \"a\" : 1.0 }\n", "  two\n\nlines \n"} {
		t.Run("S4-16 taken as it is: "+content, func(t *testing.T) {
			_, err := b.world.PublishMessage(b.ctx, content, "ann", "t1")
			require.NoError(t, err)
			m := next(b, messages)
			assert.Equal(t, content, m.Content)
			assert.Equal(t, "user", m.Role)
		})
	}
	t.Run("S4-17 a decision without a call is a message, and a warning", func(t *testing.T) {
		content := `{"__type":"tool_result","content":"{}"}`
		_, err := b.world.PublishMessage(b.ctx, content, "ann", "t1")
		require.NoError(t, err)
		assert.Equal(t, content, next(b, messages).Content)
		assert.Contains(t, b.log.String(), "has no tool_call_id")
		assert.Empty(t, b.threads.says)
	})
	for name, test := range map[string]struct{ content, sender, id, chat, want string }{
		"no content": {"", "ann", "", "t1", "payload.content: is required"},
		"no sender":  {"hi", "", "", "t1", "sender: is required"},
		"a bad id":   {"hi", "ann", "a.b", "t1", `id: "a.b" must be`},
		"no chat":    {"hi", "ann", "", "", `chatId: "" must be`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.world.PublishMessageWithID(b.ctx, test.content, test.sender, test.id, test.chat)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestSender(t *testing.T) {
	t.Run("X9 a chat that has stored nothing yet is asked", func(t *testing.T) {
		b := newFixture(t)
		b.threads.agents = []string{"writer"}
		_, err := b.world.PublishMessage(b.ctx, "hi", "Writer", "t2")
		require.NoError(t, err)
		assert.Equal(t, event.CreatedByAgent, b.threads.posts[0].SenderType)
		b.threads.stateErr = signals.ErrThreadNotFound
		_, err = b.world.PublishMessage(b.ctx, "hi", "ann", "t3")
		require.ErrorIs(t, err, signals.ErrThreadNotFound)
	})
	t.Run("X9 nobody is taken for a person while the registry does not answer", func(t *testing.T) {
		b := newFixture(t, func(c *world.Config) { c.Agents = down{} })
		_, err := b.world.PublishMessage(b.ctx, "hi", "bot", "t1")
		require.ErrorIs(t, err, errDown)
		assert.Empty(t, b.threads.posts)
	})
	t.Run("X9 without a registry, by the chat", func(t *testing.T) {
		b := newFixture(t, func(c *world.Config) { c.Agents = nil })
		b.put("t1", store.ThreadUpdate{Agents: []string{"bot"}})
		for _, sender := range []string{"bot", "user-support"} {
			_, err := b.world.PublishMessage(b.ctx, "hi", sender, "t1")
			require.NoError(t, err)
		}
		assert.Equal(t, event.CreatedByAgent, b.threads.posts[0].SenderType)
		assert.Equal(t, event.CreatedByUser, b.threads.posts[1].SenderType)
	})
}

var errDown = errors.New("the registry is down")

type down struct{}

func (down) Agent(context.Context, string, string) (agent.Agent, error) {
	return agent.Agent{}, errDown
}

func TestPublishToolResult(t *testing.T) {
	b := newFixture(t)
	b.start("bot")
	b.asks()
	messages := watch(b, b.world.SubscribeToMessages)
	args := `{"command":"ls","env":{"list":[1,{"deep":true}]}}`
	id, err := b.world.PublishToolResult(b.ctx, "bot", world.ToolResultData{
		ToolCallID: "approval_c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, ToolName: "shell_cmd",
		ToolArgs: json.RawMessage(args), WorkingDirectory: "/desk",
	}, "t1")
	require.NoError(t, err)
	m := next(b, messages)
	for m.Role != event.RoleTool { // the request may be there first
		m = next(b, messages)
	}
	t.Run("S4-04 S4-T1 it decides on the call", func(t *testing.T) {
		assert.Equal(t, []signals.Decide{{
			ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "human", Agent: "bot", ToolName: "shell_cmd",
			ToolArgs: json.RawMessage(args), WorkingDirectory: "/desk",
		}}, b.threads.says)
		assert.Equal(t, "human", m.Sender)
		assert.Equal(t, "bot", m.AgentID)
	})
	t.Run("S4-T2 role tool", func(t *testing.T) { assert.Equal(t, "tool", m.Role) })
	t.Run("S4-T3 the call", func(t *testing.T) { assert.Equal(t, "approval_c1", m.ToolCallID) })
	t.Run("S4-T4 S4-T10 JSON content, nested arguments", func(t *testing.T) {
		assert.Equal(t, `{"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":`+args+`,"workingDirectory":"/desk"}`, m.Content)
	})
	t.Run("S4-T5 one event", func(t *testing.T) {
		_, err := b.world.PublishMessage(b.ctx, "after it", "ann", "t1")
		require.NoError(t, err)
		assert.Equal(t, "after it", next(b, messages).Content)
	})
	t.Run("S4-T6 its id", func(t *testing.T) {
		assert.Equal(t, "c1.decision", id)
		assert.Equal(t, id, m.MessageID)
	})
	t.Run("S4-T7 it can be parsed", func(t *testing.T) {
		var d world.ToolResultData
		require.NoError(t, json.Unmarshal([]byte(m.Content), &d))
		assert.Equal(t, event.DecisionApprove, d.Decision)
		assert.JSONEq(t, args, string(d.ToolArgs))
	})
	t.Run("S4-T9 the current chat", func(t *testing.T) { assert.Equal(t, "t1", m.ChatID) })
	t.Run("S4-T8 as little as a denial", func(t *testing.T) {
		out, err := b.world.PublishToolResultAs(b.ctx, "ann", "", world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny, ToolName: "shell_cmd"}, "t1")
		require.NoError(t, err)
		assert.Equal(t, world.Published{MessageID: "c1.decision", Result: signals.DecideAccepted}, out)
		assert.Equal(t, signals.Decide{ToolCallID: "c1", Decision: event.DecisionDeny, By: "ann", ToolName: "shell_cmd"}, b.threads.says[1])
	})
	t.Run("S4-15 the same as a message", func(t *testing.T) {
		content, err := world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny, ToolName: "shell_cmd"}.Content("bot")
		require.NoError(t, err)
		_, err = b.world.PublishMessage(b.ctx, content, "bob", "t1")
		require.NoError(t, err)
		assert.Equal(t, signals.Decide{ToolCallID: "c1", Decision: event.DecisionDeny, By: "bob", Agent: "bot", ToolName: "shell_cmd"}, b.threads.says[2])
	})
}

func TestDecisionsThatChangeNothing(t *testing.T) {
	b := newFixture(t)
	b.start("bot")
	approve := world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionApprove, ToolName: "shell_cmd"}
	for _, outcome := range []signals.DecideOutcome{signals.DecideMismatch, signals.DecideConflict, signals.DecideNotPending, signals.DecideNotAllowed} {
		t.Run("S4-91 S4-92 "+string(outcome), func(t *testing.T) {
			b.threads.outcome = outcome
			_, err := b.world.PublishToolResult(b.ctx, "eve", approve, "t1")
			var refused *signals.DecisionError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, signals.DecisionError{ThreadID: "t1", ToolCallID: "c1", Outcome: outcome}, *refused)
		})
	}
	t.Run("S4-94 the same again is no error", func(t *testing.T) {
		b.threads.outcome = signals.DecideAlreadyResolved
		id, err := b.world.PublishToolResult(b.ctx, "bot", approve, "t1")
		require.NoError(t, err)
		assert.Equal(t, "c1.decision", id)
	})
	for _, sender := range []string{"bot", "USER-SUPPORT", "system", "world"} {
		t.Run("X9 people decide, not "+sender, func(t *testing.T) {
			asked := len(b.threads.says)
			_, err := b.world.PublishToolResultAs(b.ctx, sender, "bot", approve, "t1")
			var refused *signals.DecisionError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, signals.DecideNotAllowed, refused.Outcome)
			assert.Len(t, b.threads.says, asked, "the thread is not even asked")
		})
	}
	for name, test := range map[string]struct {
		data world.ToolResultData
		want string
	}{
		"no call":                    {world.ToolResultData{Decision: event.DecisionDeny}, "tool_call_id: is required"},
		"no decision":                {world.ToolResultData{ToolCallID: "c1"}, `decision: "" is neither approve nor deny`},
		"a scope that is none":       {world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionApprove, Scope: "ever"}, `scope: "ever" is not`},
		"arguments that are no JSON": {world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny, ToolArgs: json.RawMessage("{")}, "toolArgs: is not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.world.PublishToolResult(b.ctx, "bot", test.data, "t1")
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.ErrorContains(t, err, test.want)
		})
	}
}
