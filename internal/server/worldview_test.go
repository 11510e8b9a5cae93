package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
)

func TestPublishMessage(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	const path = "/v1/threads/t1/world/messages"
	payload := func(body object) object {
		t.Helper()
		got := w.call("POST", path, body).ok(t, http.StatusAccepted)
		post := w.threads.posts[len(w.threads.posts)-1]
		assert.Equal(t, object{"messageId": post.ID}, got.body)
		var out object
		require.NoError(t, json.Unmarshal(post.Payload, &out))
		return out
	}
	t.Run("S4-01 S4-03 with its id", func(t *testing.T) {
		assert.Equal(t, object{"threadId": "t1", "senderId": "ann", "senderType": "user", "content": "hi"},
			payload(object{"content": "hi", "sender": "ann", "messageId": "my-id"}))
		assert.Equal(t, "my-id", w.threads.posts[0].ID)
	})
	for sender, want := range map[string]string{
		"": "user human", "user-7": "user user-7", "Ann B.": "user Ann B.", "BOT": "agent bot", "system": "system system", "world": "tool world",
	} {
		t.Run("S4-02 X9 the role of "+sender, func(t *testing.T) {
			got := payload(object{"content": "hi", "sender": sender})
			assert.Equal(t, want, fmt.Sprint(got["senderType"], " ", got["senderId"]))
		})
	}
	t.Run("S4-17 a decision without a call is a message", func(t *testing.T) {
		assert.Equal(t, `{"__type":"tool_result"}`, payload(object{"content": `{"__type":"tool_result"}`})["content"])
	})
	t.Run("S4-15 a decision", func(t *testing.T) {
		w.threads.approvals.outcome = signals.DecideAccepted
		got := w.call("POST", path, object{
			"content": `{"__type":"tool_result","tool_call_id":"approval_c1","agentId":"bot","content":"{\"decision\":\"deny\",\"toolName\":\"x\"}"}`, "sender": "ann",
		})
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		assert.Equal(t, object{"messageId": "c1.decision", "result": "accepted"}, got.body)
		assert.Equal(t, []signals.Decide{{ToolCallID: "c1", Decision: event.DecisionDeny, By: "ann", Agent: "bot", ToolName: "x"}}, w.threads.approvals.decided)
	})
	t.Run("S4-91 one that changes nothing", func(t *testing.T) {
		w.threads.approvals.outcome = signals.DecideNotPending
		got := w.call("POST", path, object{"sender": "ann", "content": `{"__type":"tool_result","tool_call_id":"c1","content":{"decision":"deny"}}`})
		got.problem(t, 404)
		assert.Equal(t, "not_pending", got.body["result"])
	})
	for name, test := range map[string]struct {
		body     object
		status   int
		location string
	}{
		"no content":            {object{"sender": "ann"}, 422, "body.content"},
		"empty content":         {object{"content": ""}, 422, "body.content"},
		"a bad id":              {object{"content": "x", "messageId": "a.b"}, 422, "body.messageId"},
		"unknown field":         {object{"content": "x", "role": "tool"}, 422, "body.role"},
		"too large":             {object{"content": strings.Repeat("x", signals.MaxPayload+1)}, 413, "body"},
		"a decision of nobody":  {object{"content": `{"__type":"tool_result","tool_call_id":"c1","content":{"decision":"deny"}}`}, 422, "body.sender"},
		"a decision of nothing": {object{"sender": "ann", "content": `{"__type":"tool_result","tool_call_id":"c1","content":"yes"}`}, 422, "body.decision"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call("POST", path, test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, test.status), got.text)
		})
	}
	w.threads.known["gone"] = false
	w.call("POST", "/v1/threads/nobody/world/messages", object{"content": "x"}).problem(t, 404)
	w.call("POST", "/v1/threads/a%2Fb/world/messages", object{"content": "x"}).problem(t, 404)
	w.call("POST", "/v1/threads/gone/world/messages", object{"content": "x"}).problem(t, 409)
}

func TestPublishToolResult(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	const path = "/v1/threads/t1/world/tool-results"
	body := func(change object) object {
		out := object{"agentId": "bot", "tool_call_id": "c1", "decision": "approve", "toolName": "shell_cmd", "by": "ann"}
		for k, v := range change {
			out[k] = v
		}
		return out
	}
	t.Run("S4-04 a decision with everything", func(t *testing.T) {
		w.threads.approvals.outcome, w.threads.approvals.missing = signals.DecideAccepted, 1
		got := w.call("POST", path, body(object{
			"scope": "session", "toolArgs": object{"command": "ls"}, "workingDirectory": "/desk", "by": "ann", "tool_call_id": "approval2_c1",
		}))
		require.Equal(t, http.StatusOK, got.status, got.text)
		assert.Equal(t, object{"messageId": "c1.decision.2", "result": "accepted", "missing": 1.0}, got.body)
		d := w.threads.approvals.decided[0]
		assert.JSONEq(t, `{"command":"ls"}`, string(d.ToolArgs))
		d.ToolArgs = nil
		assert.Equal(t, signals.Decide{
			ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann", Agent: "bot", ToolName: "shell_cmd", WorkingDirectory: "/desk", Round: 2,
		}, d)
	})
	t.Run("S4-T8 as little as a denial", func(t *testing.T) {
		w.threads.approvals.outcome, w.threads.approvals.missing = signals.DecideAlreadyResolved, 0
		got := w.call("POST", path, object{"tool_call_id": "c1", "decision": "deny", "by": "ann"})
		assert.Equal(t, object{"messageId": "c1.decision", "result": "already_resolved"}, got.body)
		assert.Equal(t, signals.Decide{ToolCallID: "c1", Decision: event.DecisionDeny, By: "ann"}, w.threads.approvals.decided[1])
	})
	for outcome, status := range map[signals.DecideOutcome]int{
		signals.DecideConflict: 409, signals.DecideMismatch: 409, signals.DecideNotPending: 404, signals.DecideNotAllowed: 403,
	} {
		t.Run("S4-92 S4-93 "+string(outcome), func(t *testing.T) {
			w.threads.approvals.outcome = outcome
			got := w.call("POST", path, body(nil))
			got.problem(t, status)
			assert.Equal(t, string(outcome), got.body["result"])
		})
	}
	t.Run("X9 an agent does not decide", func(t *testing.T) {
		asked := len(w.threads.approvals.decided)
		got := w.call("POST", path, body(object{"by": "Bot"}))
		got.problem(t, 403)
		assert.Equal(t, "not_allowed", got.body["result"])
		assert.Len(t, w.threads.approvals.decided, asked)
	})
	for name, test := range map[string]struct {
		body     object
		location string
	}{
		"no call":             {object{"decision": "deny"}, "body.tool_call_id"},
		"no decision":         {object{"tool_call_id": "c1"}, "body.decision"},
		"another word":        {body(object{"decision": "approve_once"}), "body.decision"},
		"a scope too far":     {body(object{"scope": "pattern"}), "body.scope"},
		"a denial for ever":   {body(object{"decision": "deny", "scope": "session"}), "body.scope"},
		"another field":       {body(object{"args": object{}}), "body.args"},
		"a name that is long": {body(object{"by": strings.Repeat("x", 201)}), "body.by"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call("POST", path, test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, 422), got.text)
		})
	}
	w.call("POST", "/v1/threads/nobody/world/tool-results", body(nil)).problem(t, 404)
}

// approved makes what a thread stores that asks for an approval and gets it.
func (w *world) approved(thread string) {
	request := record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c1", ToolName: "x", Arguments: "{}", Agent: "bot", MessageID: "m1"})
	request.ID = "c1.request"
	decision := record(event.TypeApproval, event.Approval{ToolCallID: "c1", ToolName: "x", Agent: "bot", Decision: event.DecisionDeny, Scope: event.ScopeOnce, By: "ann"})
	decision.ID = "c1.decision"
	w.put(thread, said("go"), request)
	w.put(thread, decision)
}

func worldTypes(t *testing.T, events []seen) []string {
	t.Helper()
	out := make([]string, len(events))
	for i, e := range events {
		var got event.WorldEvent
		require.NoError(t, json.Unmarshal([]byte(e.data), &got))
		out[i] = string(got.Type)
	}
	return out
}

func TestWorldStream(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 50 * time.Millisecond })
	w.open("t1")
	v := w.watch("t1", "?view=world", "")
	w.answered("t1")
	w.approved("t1")
	want := []string{
		"crud", "activity", "message", "sse", "sse", "sse", "sse", "message", "activity",
		"message", "message", "message", "crud", "crud",
	}
	var live []seen
	for range want {
		live = append(live, v.mustNext())
	}
	t.Run("S4-01 S4-05 events in order, each as soon as it is there", func(t *testing.T) {
		assert.Equal(t, want, worldTypes(t, live))
		var text event.WorldEvent
		require.NoError(t, json.Unmarshal([]byte(live[4].data), &text))
		assert.Equal(t, object{"agentName": "bot", "type": "chunk", "content": "do", "messageId": "m1", "chatId": "t1"}, text.Data)
		assert.Equal(t, "t1", text.ChatID)
	})
	w.append("t1", closedBatch())
	live = append(live, v.rest()...)
	t.Run("resumed at every event", func(t *testing.T) {
		for i, e := range live[:len(live)-1] {
			got := w.watch("t1", "?view=world", e.id).rest()
			assert.Equal(t, worldTypes(t, live[i+1:]), worldTypes(t, got), "behind %s", e.id)
		}
	})
	t.Run("S4-98 a page has what is stored", func(t *testing.T) {
		page := w.call("GET", "/v1/threads/t1/events?view=world", nil).ok(t, http.StatusOK)
		var got []string
		for _, e := range page.body["events"].([]any) {
			got = append(got, e.(object)["type"].(string))
		}
		assert.Equal(t, []string{"crud", "activity", "message", "sse", "sse", "message", "activity", "message", "message", "message", "crud", "crud", "crud"}, got)
		assert.Equal(t, "10", page.body["lastEventId"])
		first := w.call("GET", "/v1/threads/t1/events?view=world&limit=4", nil)
		assert.Equal(t, "3~1", first.body["next"], "in the middle of a reply")
		assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/events?view=world&cursor=1~x", nil).problem(t, 400))
	})
}

func TestWorldMessages(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.approved("t1")
	page := w.call("GET", "/v1/threads/t1/world/messages", nil).ok(t, http.StatusOK)
	var roles []string
	for _, m := range page.body["messages"].([]any) {
		roles = append(roles, m.(object)["role"].(string))
	}
	assert.Equal(t, []string{"user", "assistant", "tool"}, roles)
	request := page.body["messages"].([]any)[1].(object)
	assert.Equal(t, "m1", request["replyToMessageId"])
	status := request["toolCallStatus"].(object)["approval_c1"].(object)
	assert.Equal(t, true, status["complete"], "S4-89")
	assert.Equal(t, "deny", status["result"].(object)["decision"], "S4-89")
	assert.NotContains(t, page.body, "next")

	first := w.call("GET", "/v1/threads/t1/world/messages?limit=2", nil)
	assert.Len(t, first.body["messages"], 2)
	assert.Len(t, w.call("GET", "/v1/threads/t1/world/messages?limit=2&cursor="+first.body["next"].(string), nil).body["messages"], 1)
	w.open("t2")
	assert.Equal(t, object{"messages": []any{}}, w.call("GET", "/v1/threads/t2/world/messages", nil).body)
	w.call("GET", "/v1/threads/nobody/world/messages", nil).problem(t, 404)
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/world/messages?cursor=x", nil).problem(t, 422))
}
