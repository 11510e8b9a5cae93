package approvals

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// camera is run by a connected client.
var camera = tool.ClientSide(tool.Definition{Name: "camera", Description: "Takes a photo."})

// waitingIn waits until GET /v1/approvals lists n calls, and returns them by thread. A slow thread
// may be missing for a moment, and if no other is listed the response is an error.
func waitingIn(t *testing.T, w *harness.Harness, n int) map[string]string {
	t.Helper()
	var out map[string]string
	require.Eventually(t, func() bool {
		status, body := check.Request(t, w, http.MethodGet, "/v1/approvals", nil)
		raw, err := json.Marshal(body["approvals"])
		var all []struct {
			ThreadID string
			Request  event.ApprovalRequest
		}
		if status != http.StatusOK || err != nil || json.Unmarshal(raw, &all) != nil {
			return false
		}
		out = map[string]string{}
		for _, a := range all {
			out[a.ThreadID] = a.Request.ToolCallID
		}
		return len(all) == n
	}, testenv.Patience, testenv.Tick, "%d calls are listed", n)
	return out
}

// TestApprovalsOverTheAPI decides on tool calls over HTTP.
func TestApprovalsOverTheAPI(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{camera}, Agents: []agent.Agent{{
		Name: "careful", Model: "openai/stand-in", Tools: []string{"note", "camera"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	const note = `use note {"text":"x"}`
	first, second, idle := w.Open(), w.Open(), w.Open()
	turns := []string{w.Post(first, note), w.Post(second, note)}
	w.Say(idle, "hello")
	mine, other := check.Only(t, w.AwaitApproval(first, 1)), check.Only(t, w.AwaitApproval(second, 1))
	at := func(path string) string { return "/v1/threads/" + first + path }

	t.Run("S4-77 all that waits is listed, across threads", func(t *testing.T) {
		require.Equal(t, map[string]string{first: mine.ToolCallID, second: other.ToolCallID}, waitingIn(t, w, 2))
	})
	command := check.CLI{World: w}
	t.Run("S4-77 on the command line, too", func(t *testing.T) {
		all := command.Run(t, "approvals")
		require.Contains(t, all, mine.ToolCallID)
		require.Contains(t, all, other.ToolCallID)
		require.NotContains(t, command.Run(t, "approvals", first), other.ToolCallID)
		require.Regexp(t, second+" +waiting_approval", command.Run(t, "list", "--waiting"))
	})
	t.Run("S4-80 approved for the session", func(t *testing.T) {
		status, body := check.Request(t, w, http.MethodPost, at("/approvals/"+mine.ToolCallID), map[string]any{
			"decision": "approve", "scope": "session", "by": "ann", "digest": mine.Digest, "toolArgs": mine.Arguments,
		})
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, "accepted", body["result"])
		require.Equal(t, signals.TurnCompleted, w.Await(first, turns[0]).Status)
		require.Equal(t, signals.TurnCompleted, w.Say(first, note).Status, "nobody is asked")
	})
	t.Run("S4-77 what does not wait is no longer listed", func(t *testing.T) {
		require.Equal(t, map[string]string{second: other.ToolCallID}, waitingIn(t, w, 1))
	})
	t.Run("what is granted", func(t *testing.T) {
		status, body := check.Request(t, w, http.MethodGet, at("/grants"), nil)
		require.Equal(t, http.StatusOK, status, body)
		grant := check.Only(t, body["grants"].([]any)).(map[string]any)
		require.Equal(t, mine.ToolCallID, grant["id"])
		require.Equal(t, "session", grant["scope"])
		require.Equal(t, "ann", grant["by"])
		require.Equal(t, mine.Digest, grant["digest"])
		require.Contains(t, command.Run(t, "grants", first), mine.ToolCallID+"  session  note")
	})
	t.Run("revoked, it asks again", func(t *testing.T) {
		status, body := check.Request(t, w, http.MethodDelete, at("/grants/"+mine.ToolCallID+"?by=bob&reason=enough"), nil)
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, "accepted", body["result"])
		require.Equal(t, "already_resolved\n", command.Run(t, "revoke", first, mine.ToolCallID, "--by", "bob"))
		_, body = check.Request(t, w, http.MethodGet, at("/grants"), nil)
		require.Empty(t, body["grants"])
		e := w.Post(first, note)
		again := check.Only(t, w.AwaitApproval(first, 1))
		status, body = check.Request(t, w, http.MethodPost, at("/approvals/"+again.ToolCallID), map[string]any{"decision": "approve", "by": "careful"})
		require.Equal(t, http.StatusForbidden, status, "an agent of the thread")
		require.Equal(t, "not_allowed", body["result"])
		status, _ = check.Request(t, w, http.MethodPost, at("/approvals/"+again.ToolCallID), map[string]any{"decision": "deny", "by": "bob"})
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, signals.TurnCompleted, w.Await(first, e).Status)
	})
	t.Run("S4-95 who allowed what, when, and how far", func(t *testing.T) {
		status, body := check.Request(t, w, http.MethodGet, at("/decisions"), nil)
		require.Equal(t, http.StatusOK, status, body)
		var got []string
		for _, d := range body["decisions"].([]any) {
			d := d.(map[string]any)
			require.NotEmpty(t, d["decidedAt"])
			got = append(got, d["decision"].(string)+" "+d["scope"].(string)+" "+d["by"].(string))
			if d["decision"] != "revoked" {
				require.Equal(t, mine.Digest, d["digest"], "of the same call")
			}
		}
		require.Equal(t, []string{"approve session ann", "approve once ann", "revoked once bob", "deny once bob"}, got)
	})
	t.Run("a call that a client runs", func(t *testing.T) {
		e := w.Post(first, "use camera {}")
		var call string
		require.Eventually(t, func() bool {
			_, body := check.Request(t, w, http.MethodGet, at("/approvals"), nil)
			calls, _ := body["clientCalls"].([]any)
			if len(calls) == 1 {
				call = calls[0].(map[string]any)["toolCallId"].(string)
			}
			return call != ""
		}, testenv.Patience, testenv.Tick)
		answer := map[string]any{"output": map[string]any{"photo": "a desk"}, "by": "phone"}
		for _, want := range []string{"accepted", "already_resolved"} {
			status, body := check.Request(t, w, http.MethodPost, at("/tool-calls/"+call+"/result"), answer)
			require.Equal(t, http.StatusOK, status, body)
			require.Equal(t, want, body["result"])
		}
		status, body := check.Request(t, w, http.MethodPost, at("/tool-calls/"+call+"/result"), map[string]any{"output": "another"})
		require.Equal(t, http.StatusConflict, status, body)
		require.Equal(t, signals.TurnCompleted, w.Await(first, e).Status)
		require.JSONEq(t, `{"photo":"a desk"}`, check.Results(w, first)[call].Content)
	})
	t.Run("who takes part, and how often", func(t *testing.T) {
		status, body := check.Request(t, w, http.MethodPatch, "/v1/threads/"+idle, map[string]any{"addAgents": []string{"careful"}, "turnLimit": 3, "by": "ann"})
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, []any{"careful"}, body["agents"])
		_, body = check.Request(t, w, http.MethodGet, "/v1/threads/"+idle+"?state=true", nil)
		require.EqualValues(t, 3, body["turnLimit"])
		status, body = check.Request(t, w, http.MethodPatch, "/v1/threads/"+idle, map[string]any{"removeAgents": []string{"careful"}})
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
		require.Contains(t, body["detail"], "removeAgents")
	})
}
