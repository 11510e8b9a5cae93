package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// approved is a record of an approval; id is that of its call.
func approved(id string, scope event.Scope, change ...func(*event.Approval)) event.Record {
	a := event.Approval{
		ToolCallID: id, ToolName: "shell_cmd", Agent: "bot", Decision: event.DecisionApprove, Scope: scope, By: "ann", DecidedAt: asked,
		Digest: "sha256:" + id, Definition: "sha256:def", WorkingDirectory: "/desk",
	}
	for _, c := range change {
		c(&a)
	}
	r := record(event.TypeApproval, a)
	r.ID = id + ".decision"
	return r
}

func taken(id, by string) event.Record {
	r := approved(id, event.ScopeSession, func(a *event.Approval) {
		a.Decision, a.By, a.DecidedAt = event.DecisionRevoked, by, asked.Add(time.Minute)
	})
	r.ID = id + ".revoked"
	return r
}

func grantWorld(t *testing.T) *world {
	w := newWorld(t)
	w.open("t1")
	w.put("t1",
		said("hello"),
		approved("c1", event.ScopeOnce),
		approved("c2", event.ScopeSession),
		approved("c3", event.ScopePattern, func(a *event.Approval) {
			a.Pattern, a.Rest, a.Reason = map[string]string{"path": "docs/**"}, "sha256:rest", "docs only"
		}),
		taken("c2", "bob"),
		approved("c4", event.ScopeOnce, func(a *event.Approval) { a.Decision, a.Reason = event.DecisionDeny, "no" }),
		approved("c5", event.ScopeOnce, func(a *event.Approval) { a.Missing = 1 }),
	)
	return w
}

const c3JSON = `{"id":"c3","scope":"pattern","agent":"bot","toolName":"shell_cmd","digest":"sha256:c3","pattern":{"path":"docs/**"},"rest":"sha256:rest",
	"definition":"sha256:def","workingDirectory":"/desk","reason":"docs only","by":"ann","grantedAt":"2023-11-14T22:13:20Z"}`

func TestGrants(t *testing.T) {
	w := grantWorld(t)
	t.Run("those that hold", func(t *testing.T) {
		got := w.call("GET", "/v1/threads/t1/grants", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"grants":[`+c3JSON+`]}`, got.text)
	})
	t.Run("and those that were revoked", func(t *testing.T) {
		got := w.call("GET", "/v1/threads/t1/grants?revoked=true", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"grants":[{"id":"c2","scope":"session","agent":"bot","toolName":"shell_cmd","digest":"sha256:c2","definition":"sha256:def",
			"workingDirectory":"/desk","by":"ann","grantedAt":"2023-11-14T22:13:20Z","revokedAt":"2023-11-14T22:14:20Z","revokedBy":"bob"},`+c3JSON+`]}`, got.text)
	})
	t.Run("none is a list", func(t *testing.T) {
		w.open("t2")
		assert.Equal(t, object{"grants": []any{}}, w.call("GET", "/v1/threads/t2/grants", nil).body)
	})
	w.call("GET", "/v1/threads/nobody/grants", nil).problem(t, 404)
	assert.Equal(t, []string{"query.revoked"}, w.call("GET", "/v1/threads/t1/grants?revoked=perhaps", nil).problem(t, 422))
}

func TestRevoke(t *testing.T) {
	w := grantWorld(t)
	for result, status := range map[signals.DecideOutcome]int{
		signals.DecideAccepted: 200, signals.DecideAlreadyResolved: 200, signals.DecideNotPending: 404, signals.DecideConflict: 409, signals.DecideNotAllowed: 403,
	} {
		t.Run(string(result), func(t *testing.T) {
			w.threads.approvals.outcome = result
			got := w.call("DELETE", "/v1/threads/t1/grants/c3?by=bob&reason="+url.QueryEscape("too wide"), nil)
			if status != 200 {
				got.problem(t, status)
			}
			assert.Equal(t, status, got.status, got.text)
			assert.Equal(t, string(result), got.body["result"])
			said := w.threads.approvals.revoked
			assert.Equal(t, signals.Revoke{ToolCallID: "c3", By: "bob", Reason: "too wide"}, said[len(said)-1])
		})
	}
	w.threads.approvals.outcome = signals.DecideAccepted
	t.Run("an approval of one call, too", func(t *testing.T) {
		require.Equal(t, http.StatusOK, w.call("DELETE", "/v1/threads/t1/grants/c1", nil).status)
		said := w.threads.approvals.revoked
		assert.Equal(t, signals.Revoke{ToolCallID: "c1", By: "api"}, said[len(said)-1])
	})
	said := len(w.threads.approvals.revoked)
	t.Run("what was revoked before", func(t *testing.T) {
		got := w.call("DELETE", "/v1/threads/t1/grants/c2", nil).ok(t, http.StatusOK)
		assert.Equal(t, "already_resolved", got.body["result"])
	})
	for name, call := range map[string]string{"unknown": "c9", "denied": "c4", "one vote of two": "c5"} {
		t.Run("no approval: "+name, func(t *testing.T) {
			got := w.call("DELETE", "/v1/threads/t1/grants/"+call, nil)
			got.problem(t, 404)
			assert.Equal(t, "not_pending", got.body["result"])
			assert.Contains(t, got.body["detail"], "GET /v1/threads/t1/grants lists")
		})
	}
	w.call("DELETE", "/v1/threads/nobody/grants/c3", nil).problem(t, 404)
	assert.Equal(t, []string{"query.by"}, w.call("DELETE", "/v1/threads/t1/grants/c3?by="+strings.Repeat("x", 201), nil).problem(t, 422))
	assert.Len(t, w.threads.approvals.revoked, said, "the thread is not asked")
	t.Run("what was revoked and is asked about again may be approved anew, as only the thread knows", func(t *testing.T) {
		again := record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c2", ToolName: "shell_cmd", Agent: "bot", Round: 2})
		again.ID = "c2.request.2"
		w.put("t1", again)
		got := w.call("DELETE", "/v1/threads/t1/grants/c2?by=bob", nil).ok(t, http.StatusOK)
		assert.Equal(t, "accepted", got.body["result"])
		require.Len(t, w.threads.approvals.revoked, said+1)
		assert.Equal(t, signals.Revoke{ToolCallID: "c2", By: "bob"}, w.threads.approvals.revoked[said])
		w.threads.known["t1"] = false
		got = w.call("DELETE", "/v1/threads/t1/grants/c2", nil).ok(t, http.StatusOK)
		assert.Equal(t, "already_resolved", got.body["result"], "a closed thread has stored all that it knows")
		w.threads.known["t1"] = true
		said = len(w.threads.approvals.revoked)
	})
	t.Run("what was revoked and approved anew", func(t *testing.T) {
		again := approved("c2", event.ScopeSession, func(a *event.Approval) { a.Round = 2 })
		again.ID = "c2.decision.2"
		w.put("t1", again)
		require.Equal(t, http.StatusOK, w.call("DELETE", "/v1/threads/t1/grants/c2", nil).status)
		assert.Len(t, w.threads.approvals.revoked, said+1)
	})
	t.Run("closed", func(t *testing.T) {
		w.threads.known["t1"] = false
		w.call("DELETE", "/v1/threads/t1/grants/c3", nil).problem(t, 409)
	})
}

// TestGrantsOfALongThread has more approvals than are read at once.
func TestGrantsOfALongThread(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	const many = 1001
	records := make([]event.Record, many)
	for i := range records {
		records[i] = approved(fmt.Sprint("c", i), event.ScopeSession)
	}
	w.put("t1", records...)
	assert.Len(t, w.call("GET", "/v1/threads/t1/grants", nil).body["grants"], many)
	w.threads.approvals.outcome = signals.DecideAccepted
	assert.Equal(t, http.StatusOK, w.call("DELETE", fmt.Sprint("/v1/threads/t1/grants/c", many-1), nil).status)
}

func TestDecisions(t *testing.T) {
	w := grantWorld(t)
	t.Run("S4-95 every one, with actor, time, scope and digest", func(t *testing.T) {
		var got []string
		path := "/v1/threads/t1/decisions?limit=4"
		for next := ""; ; {
			page := w.call("GET", path+next, nil).ok(t, http.StatusOK)
			for _, d := range page.body["decisions"].([]any) {
				d := d.(object)
				got = append(got, fmt.Sprintln(d["seq"], d["toolCallId"], d["decision"], d["scope"], d["by"], d["decidedAt"], d["digest"]))
			}
			cursor, more := page.body["next"].(string)
			if !more {
				break
			}
			next = "&cursor=" + cursor
		}
		const at, later = "2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z"
		assert.Equal(t, []string{
			"2 c1 approve once ann " + at + " sha256:c1\n",
			"3 c2 approve session ann " + at + " sha256:c2\n",
			"4 c3 approve pattern ann " + at + " sha256:c3\n",
			"5 c2 revoked session bob " + later + " sha256:c2\n",
			"6 c4 deny once ann " + at + " sha256:c4\n",
			"7 c5 approve once ann " + at + " sha256:c5\n",
		}, got)
	})
	t.Run("S4-95 with all fields", func(t *testing.T) {
		w.open("t2")
		w.put("t2", approved("d1", event.ScopePattern, func(a *event.Approval) {
			a.Reason, a.Round, a.Arguments, a.Grant = "fine", 2, `{"dry":true}`, "c3"
			a.Pattern, a.Rest, a.Missing = map[string]string{"a": "b"}, "sha256:rest", 1
			a.Votes = []event.Vote{{By: "ann", At: asked, Reason: "fine"}}
		}))
		assert.JSONEq(t, `{"decisions":[{"seq":1,"toolCallId":"d1","toolName":"shell_cmd","agent":"bot","decision":"approve","scope":"pattern","reason":"fine","by":"ann",
			"decidedAt":"2023-11-14T22:13:20Z","digest":"sha256:d1","definition":"sha256:def","workingDirectory":"/desk","round":2,"arguments":"{\"dry\":true}",
			"pattern":{"a":"b"},"rest":"sha256:rest","grant":"c3","missing":1,"votes":[{"by":"ann","at":"2023-11-14T22:13:20Z","reason":"fine"}]}]}`,
			w.call("GET", "/v1/threads/t2/decisions", nil).text)
	})
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/decisions?cursor=-1", nil).problem(t, 422))
	assert.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/threads/t1/decisions?limit=201", nil).problem(t, 422))
	w.call("GET", "/v1/threads/nobody/decisions", nil).problem(t, 404)
}
