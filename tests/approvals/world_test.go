package approvals

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/world"
)

// heard collects the events of a world's subscribers.
type heard struct {
	t    *testing.T
	ctx  context.Context
	from chan world.Event
	all  []world.Event
}

func listen(t *testing.T, w *harness.Harness) *heard {
	h := &heard{t: t, ctx: w.Ctx(), from: make(chan world.Event, 1000)}
	t.Cleanup(w.Runtime.World().Subscribe(world.Sync(func(e world.Event) { h.from <- e })))
	t.Cleanup(w.Runtime.World().Stop)
	return h
}

// until reads up to and including the first matching message.
func (h *heard) until(is func(world.Message) bool) world.Message {
	h.t.Helper()
	for {
		select {
		case e := <-h.from:
			h.all = append(h.all, e)
			if m, ok := e.Data.(world.Message); ok && is(m) {
				return m
			}
		case <-h.ctx.Done():
			require.FailNow(h.t, "no such message comes")
		}
	}
}

// find returns the first matching event.
func (h *heard) find(is func(world.Event) bool) world.Event {
	h.t.Helper()
	for _, e := range h.all {
		if is(e) {
			return e
		}
	}
	require.FailNow(h.t, "no such event has come")
	return world.Event{}
}

// TestWorldApproval requests, approves and runs a call by the messages of a world.
func TestWorldApproval(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	h, chat := listen(t, w), "world-approval"
	require.NoError(t, w.Runtime.World().Start(w.Ctx(), world.Chat{ID: chat, Agents: []string{"assistant"}}))
	said, err := w.Runtime.World().PublishMessage(w.Ctx(), `use shell_cmd {"command":"echo hi"}`, "ann", chat)
	require.NoError(t, err)
	request := h.until(func(m world.Message) bool {
		return len(m.ToolCalls) == 1 && m.ToolCalls[0].Function.Name == event.RequestApproval
	})
	var args event.RequestApprovalArgs
	require.NoError(t, json.Unmarshal([]byte(request.ToolCalls[0].Function.Arguments), &args))
	t.Run("S4-75 S4-76 the call, then the request", func(t *testing.T) {
		call := h.find(func(e world.Event) bool {
			m, ok := e.Data.(world.Message)
			return ok && m.MessageID == request.ReplyToMessageID
		}).Data.(world.Message)
		assert.Equal(t, said, call.ReplyToMessageID)
		assert.Equal(t, call.ToolCalls[0].ID, args.OriginalToolCall.ID)
		assert.JSONEq(t, `{"command":"echo hi"}`, string(args.OriginalToolCall.Args))
	})
	decision := world.ToolResultData{
		ToolCallID: request.ToolCalls[0].ID, Decision: event.DecisionApprove, Scope: event.ScopeSession,
		ToolName: "shell_cmd", ToolArgs: json.RawMessage(`{ "command": "echo ho" }`),
	}
	t.Run("S4-93 a decision on other arguments is a mismatch", func(t *testing.T) {
		_, err := w.Runtime.World().PublishToolResult(w.Ctx(), "assistant", decision, chat)
		var refused *signals.DecisionError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, signals.DecideMismatch, refused.Outcome)
	})
	decision.ToolArgs = json.RawMessage(`{ "command": "echo hi" }`)
	id, err := w.Runtime.World().PublishToolResult(w.Ctx(), "assistant", decision, chat)
	require.NoError(t, err)
	reply := h.until(func(m world.Message) bool { return m.Role == "assistant" && m.Content != "" })
	t.Run("S4-04 S4-89 the decision is a message", func(t *testing.T) {
		m := h.find(func(e world.Event) bool { m, ok := e.Data.(world.Message); return ok && m.MessageID == id }).Data.(world.Message)
		assert.Equal(t, "tool", m.Role)
		assert.Equal(t, "human", m.Sender)
		assert.Equal(t, event.ScopeSession, m.ToolCallStatus[request.ToolCalls[0].ID].Result.Scope)
	})
	t.Run("S4-90 the call has run", func(t *testing.T) {
		ran := h.find(func(e world.Event) bool { return e.Type == event.WorldToolExecutionEvent }).Data.(world.ToolExecution)
		assert.Equal(t, "echo hi", ran.Command)
		assert.NotEmpty(t, ran.Directory)
		assert.Equal(t, args.OriginalToolCall.WorkingDirectory, ran.Directory)
		assert.Zero(t, ran.ExitCode)
	})
	t.Run("S4-23 S4-78 the last reply is of the same chat", func(t *testing.T) {
		assert.Equal(t, chat, reply.ChatID)
		assert.Contains(t, reply.Content, "shell_cmd returned:")
	})
	t.Run("S4-05 S4-100 and each reply was streamed from its start to its end, with what it cost", func(t *testing.T) {
		end := h.find(func(e world.Event) bool {
			s, ok := e.Data.(world.SSE)
			return ok && s.Type == event.WorldSSEEnd && s.MessageID == reply.MessageID
		}).Data.(world.SSE)
		assert.Positive(t, end.Usage.OutputTokens)
	})
}

// TestWorldSenders: agents and people post to one chat.
func TestWorldSenders(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Model: "openai/stand-in"}, {Name: "user-support", Model: "openai/stand-in"}}})
	h, chat := listen(t, w), "world-senders"
	require.NoError(t, w.Runtime.World().Start(w.Ctx(), world.Chat{ID: chat, Agents: []string{"assistant"}}))
	t.Run("X9 an agent whose name begins with user is no person: nobody answers it unasked", func(t *testing.T) {
		id, err := w.Runtime.World().PublishMessage(w.Ctx(), "hello", "user-support", chat)
		require.NoError(t, err)
		assert.Equal(t, signals.TurnUnanswered, w.Await(chat, id).Status)
		assert.Equal(t, "assistant", h.until(func(m world.Message) bool { return m.MessageID == id }).Role)
	})
	t.Run("X9 a person is one by whatever name", func(t *testing.T) {
		id, err := w.Runtime.World().PublishMessage(w.Ctx(), "hello", "user-7", chat)
		require.NoError(t, err)
		assert.Equal(t, signals.TurnCompleted, w.Await(chat, id).Status)
	})
}
