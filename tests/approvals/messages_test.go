package approvals

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
	agentworld "github.com/threadmill/threadmill/world"
)

// spoken is the content of a message that decides on a call.
func (c talk) spoken(agentID string, d event.ToolResultData) string {
	c.t.Helper()
	content, err := d.Content(agentID)
	require.NoError(c.t, err)
	return content
}

// speaks are the ways in which people can post a message to a world.
func (c talk) speaks(chats *agentworld.World) map[string]func(sender, content string) {
	return map[string]func(sender, content string){
		"Go": func(sender, content string) {
			// A decision without effect is an error: the test checks its effect.
			_, _ = chats.PublishMessage(c.Ctx(), content, sender, c.id)
		},
		"HTTP": func(sender, content string) {
			status, out := check.Request(c.t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/world/messages", map[string]any{"sender": sender, "content": content})
			require.Contains(c.t, []int{http.StatusAccepted, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}, status, out)
		},
	}
}

// worldOf returns the chats of a world on the office's threads.
func worldOf(t *testing.T, o office) *agentworld.World {
	t.Helper()
	chats, err := agentworld.New(agentworld.Config{Client: o.Threads, Store: o.Store, Stream: o.Stream, Namespace: o.TaskQueue})
	require.NoError(t, err)
	t.Cleanup(chats.Stop)
	return chats
}

// TestDecisionsByMessage decides by messages of __type tool_result to a world.
func TestDecisionsByMessage(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"spied"}}, {Name: "bob", Model: "openai/stand-in", Tools: []string{"spied"}},
	}})
	chats := worldOf(t, o)
	for _, way := range []string{"Go", "HTTP"} {
		begins := func(t *testing.T) (c talk, posted string, q event.ApprovalRequest, say func(sender, content string)) {
			t.Helper()
			c = o.talk(t, "alice", "bob")
			posted, q = c.asks("@alice", `use spied {"n":1}`)
			return c, posted, q, c.speaks(chats)[way]
		}
		t.Run(way+": S4-T13 S4-T14 S4-T16 S4-T19 an approval runs the call, once, and the agent goes on", func(t *testing.T) {
			c, posted, q, say := begins(t)
			require.Len(t, c.Messages(c.id), 2)
			say("ann", c.spoken("alice", event.ToolResultData{ToolCallID: event.ApprovalCallID(q.ToolCallID, q.Round), Decision: event.DecisionApprove, Scope: event.ScopeOnce, ToolName: "spied"}))
			c.completes(posted)
			require.Equal(t, []string{`{"n":1}`}, argumentsSeen(s, c.id))
			messages := c.Messages(c.id)
			require.Len(t, messages, 4, "the decision itself is no message")
			require.Equal(t, q.ToolCallID, messages[2].ToolCallID)
			require.Equal(t, "spied returned: seen", messages[3].Content)
			decided := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
			require.Equal(t, []any{event.DecisionApprove, event.ScopeOnce, "ann"}, []any{decided.Decision, decided.Scope, decided.By})
			c.denied("@alice", `use spied {"n":1}`)
		})
		t.Run(way+": S4-T15 S4-T16 a denial does not", func(t *testing.T) {
			c, posted, q, say := begins(t)
			say("ann", c.spoken("", event.ToolResultData{ToolCallID: q.ToolCallID, Decision: event.DecisionDeny, ToolName: "spied"}))
			c.completes(posted)
			require.Empty(t, argumentsSeen(s, c.id))
			require.Equal(t, step.DeniedText, c.result(q).Content)
			require.Len(t, c.Messages(c.id), 4)
		})
		t.Run(way+": S4-T18 an approval for the session covers the next call", func(t *testing.T) {
			c, posted, q, say := begins(t)
			say("ann", c.spoken("alice", event.ToolResultData{
				ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, Scope: event.ScopeSession, ToolName: "SPIED", ToolArgs: json.RawMessage(`{"n":1}`),
			}))
			c.completes(posted)
			require.Equal(t, event.ScopeSession, check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)).Scope)
			c.runsUnasked("@alice", `use spied {"n":1}`)
			c.denied("@alice", `use spied {"n":2}`)
		})
		t.Run(way+": S4-T11 S4-T12 S4-T17 S4-91 S4-92 S4-93 what does not fit decides nothing", func(t *testing.T) {
			c, posted, q, say := begins(t)
			yes := event.ToolResultData{ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, ToolName: "spied"}
			other, args, tool, round, decision, scope := yes, yes, yes, yes, yes, yes
			other.ToolCallID, args.ToolArgs, tool.ToolName = "call_of_nobody", json.RawMessage(`{"n":2}`), "note"
			round.ToolCallID, decision.Decision, scope.Scope = event.ApprovalCallID(q.ToolCallID, 2), "yes", "always"
			for _, d := range []event.ToolResultData{other, args, tool, round, decision, scope} {
				say("ann", c.spoken("alice", d))
			}
			say("ann", c.spoken("bob", yes))
			say("alice", c.spoken("", yes))
			c.undecided(q)
			require.Len(t, c.Messages(c.id), 2)
			say("ann", c.spoken("alice", event.ToolResultData{ToolCallID: q.ToolCallID, Decision: event.DecisionDeny, ToolName: "spied"}))
			c.completes(posted)
			require.Empty(t, argumentsSeen(s, c.id))
		})
		t.Run(way+": S4-T11 what is no decision waits, and is answered", func(t *testing.T) {
			c, posted, q, say := begins(t)
			plain := []string{"@bob approve", "@bob {}", `@bob {"decision":"approve","tool_call_id":"` + q.ToolCallID + `"}`}
			for _, content := range plain {
				say("ann", content)
			}
			c.undecided(q)
			c.decides(signals.DecideAccepted, check.Denying(q))
			c.completes(posted)
			check.AwaitMessages(c.Harness, c.id, 4+2*len(plain))
			require.Empty(t, argumentsSeen(s, c.id))
		})
	}
}

// TestTextDecidesNothing posts decisions as texts to a thread itself, for each kind of sender: only
// worlds read texts.
func TestTextDecidesNothing(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"spied"}}, {Name: "bob", Model: "openai/stand-in"},
	}}).talk(t, "alice", "bob")
	posted, q := c.asks("@alice", "use spied {}")
	content := c.spoken("alice", event.ToolResultData{ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, ToolName: "spied"})
	var ids []string
	for _, m := range []event.NewMessage{
		{SenderType: event.CreatedByUser, SenderID: "ann"},
		{SenderType: event.CreatedByAgent, SenderID: "bob"},
		{SenderType: event.CreatedByAgent, SenderID: "alice"},
		{SenderType: event.CreatedByTool, SenderID: "spied"},
		{SenderType: event.CreatedBySystem, SenderID: "system"},
	} {
		m.ThreadID, m.Content = c.id, content
		for _, sends := range []func(p signals.Post){
			func(p signals.Post) { c.signals(signals.SignalPost, p) },
			func(p signals.Post) {
				_, err := c.Threads.Post(c.Ctx(), c.id, p)
				require.NoError(t, err)
			},
		} {
			id := signals.NewID()
			sends(signals.NewPost(id, m))
			ids = append(ids, id)
			c.undecided(q)
		}
	}
	status, out := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/messages", map[string]any{"sender": "ann", "content": content})
	require.Equal(t, http.StatusAccepted, status, out)
	ids = append(ids, out["eventId"].(string))
	c.decides(signals.DecideAccepted, check.Denying(q))
	c.completes(posted)
	for _, id := range ids {
		check.Await(t, c.Harness, c.id, id)
	}
	require.Empty(t, s.Seen())
	require.Len(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID), 1)
}

// TestWorldApprovesOnce decides like a program that sees a thread as a chat of a world.
func TestWorldApprovesOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{})
	chats := worldOf(t, o)
	heard := make(chan agentworld.Message, 100)
	chats.SubscribeToMessages(agentworld.Sync(func(m agentworld.Message) { heard <- m }))
	c := talk{o, t, signals.NewID()}
	require.NoError(t, chats.Start(c.Ctx(), agentworld.Chat{ID: c.id}))
	// hears waits for a message of a kind.
	hears := func(what string, is func(agentworld.Message) bool) agentworld.Message {
		t.Helper()
		for {
			select {
			case m := <-heard:
				if is(m) {
					return m
				}
			case <-c.Ctx().Done():
				require.Fail(t, "nobody says "+what)
			}
		}
	}
	requested := func(m agentworld.Message) bool {
		return len(m.ToolCalls) == 1 && m.ToolCalls[0].Function.Name == event.RequestApproval
	}

	_, err := chats.PublishMessage(c.Ctx(), check.Touches("once"), "human", c.id)
	require.NoError(t, err)
	request := hears("a request", requested)
	var args event.RequestApprovalArgs
	require.NoError(t, json.Unmarshal([]byte(request.ToolCalls[0].Function.Arguments), &args))
	t.Run("S4-T20 the request comes", func(t *testing.T) {
		require.Equal(t, "shell_cmd", args.OriginalToolCall.Name)
		require.Equal(t, event.ApprovalOptions(), args.Options)
		require.False(t, request.ToolCallStatus[request.ToolCalls[0].ID].Complete)
		require.Empty(t, check.Made(c.Harness, "once"))
	})
	_, err = chats.PublishToolResult(c.Ctx(), "assistant", agentworld.ToolResultData{
		ToolCallID: request.ToolCalls[0].ID, Decision: event.DecisionApprove, Scope: event.ScopeOnce, ToolName: args.OriginalToolCall.Name, ToolArgs: args.OriginalToolCall.Args,
	}, c.id)
	require.NoError(t, err)
	t.Run("S4-T21 the tool has run, and its result is kept", func(t *testing.T) {
		result := hears("a result", func(m agentworld.Message) bool {
			return m.ToolCallID == args.OriginalToolCall.ID && m.Role == event.RoleTool
		})
		require.Equal(t, "assistant", result.AgentID)
		require.Equal(t, "made\n", check.Made(c.Harness, "once"))
	})
	t.Run("S4-T22 the agent has the last word", func(t *testing.T) {
		last := hears("a reply", func(m agentworld.Message) bool { return m.Role == event.RoleAssistant && len(m.ToolCalls) == 0 })
		require.Contains(t, last.Content, "shell_cmd returned:")
		require.Equal(t, c.id, last.ChatID)
		require.Contains(t, check.Results(c.Harness, c.id), args.OriginalToolCall.ID)
	})
	t.Run("S4-T22 the same again asks again", func(t *testing.T) {
		_, err := chats.PublishMessage(c.Ctx(), check.Touches("once"), "human", c.id)
		require.NoError(t, err)
		again := hears("a request", requested)
		require.NotEqual(t, request.ToolCalls[0].ID, again.ToolCalls[0].ID)
		require.Equal(t, "made\n", check.Made(c.Harness, "once"))
		_, err = chats.PublishToolResult(c.Ctx(), "assistant", agentworld.ToolResultData{ToolCallID: request.ToolCalls[0].ID, Decision: event.DecisionDeny, ToolName: "shell_cmd"}, c.id)
		var refused *signals.DecisionError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, signals.DecideConflict, refused.Outcome)
		_, err = chats.PublishToolResult(c.Ctx(), "assistant", agentworld.ToolResultData{ToolCallID: again.ToolCalls[0].ID, Decision: event.DecisionDeny, ToolName: "shell_cmd"}, c.id)
		require.NoError(t, err)
		hears("a reply", func(m agentworld.Message) bool { return m.Role == event.RoleAssistant && len(m.ToolCalls) == 0 })
		require.Equal(t, "made\n", check.Made(c.Harness, "once"))
	})
}
