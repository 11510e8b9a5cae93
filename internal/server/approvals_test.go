package server_test

import (
	"cmp"
	"context"
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
	"github.com/threadmill/threadmill/store"
)

// approvalsFake is what waits in every thread, and what people have said about it. says
// answers all of them.
type approvalsFake struct {
	waiting  signals.Approvals
	decided  []signals.Decide
	revoked  []signals.Revoke
	results  []signals.ToolResult
	inputs   []signals.InputAnswers
	outcome  signals.DecideOutcome
	missing  int
	refusing error
}

func (f *threads) Decide(_ context.Context, id string, d signals.Decide) (signals.DecideResult, error) {
	f.approvals.decided = append(f.approvals.decided, d)
	if err := f.said(id); err != nil {
		return signals.DecideResult{}, err
	}
	out := signals.DecideResult{Result: f.approvals.outcome, Missing: f.approvals.missing}
	return out, out.Err(id, d.ToolCallID)
}

func (f *threads) Revoke(_ context.Context, id string, r signals.Revoke) (signals.DecideOutcome, error) {
	f.approvals.revoked = append(f.approvals.revoked, r)
	return f.decided(id, "c1")
}

func (f *threads) ToolResult(_ context.Context, id string, r signals.ToolResult) (signals.DecideOutcome, error) {
	f.approvals.results = append(f.approvals.results, r)
	return f.decided(id, "c1")
}

func (f *threads) AnswerInput(_ context.Context, id string, a signals.InputAnswers) (signals.DecideOutcome, error) {
	f.approvals.inputs = append(f.approvals.inputs, a)
	return f.decided(id, "c1")
}

func (f *threads) decided(id, call string) (signals.DecideOutcome, error) {
	out := signals.DecideResult{Result: f.approvals.outcome}
	return out.Result, cmp.Or(f.said(id), out.Err(id, call))
}

func (f *threads) said(id string) error {
	if f.approvals.refusing != nil {
		return f.approvals.refusing
	}
	return f.check(id)
}

func (f *threads) Approvals(_ context.Context, id string) (signals.Approvals, error) {
	return f.approvals.waiting, f.check(id)
}

var (
	asked    = time.Unix(1700000000, 0).UTC()
	expires  = asked.Add(time.Hour)
	wantsTwo = event.ApprovalRequest{
		ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"ls"}`, Agent: "bot", MessageID: "m1", WorkingDirectory: "/desk",
		Digest: "sha256:1", Definition: "sha256:2", Reason: "it always asks", RequestedAt: asked, Round: 2,
		Approvers: []string{"ann", "bob"}, Quorum: 2, Votes: []event.Vote{{By: "ann", At: asked}}, ExpiresAt: &expires, Reminder: 1,
	}
	wantsPhoto = event.ClientCall{ToolCallID: "c2", ToolName: "camera", Arguments: "{}", Agent: "bot", MessageID: "m1", RequestedAt: asked, ExpiresAt: expires}
)

const (
	wantsTwoJSON = `{"toolCallId":"c1","toolName":"shell_cmd","arguments":"{\"command\":\"ls\"}","agent":"bot","messageId":"m1","workingDirectory":"/desk",
		"digest":"sha256:1","definition":"sha256:2","reason":"it always asks","requestedAt":"2023-11-14T22:13:20Z","round":2,"approvers":["ann","bob"],
		"quorum":2,"votes":[{"by":"ann","at":"2023-11-14T22:13:20Z"}],"expiresAt":"2023-11-14T23:13:20Z","reminder":1}`
	wantsPhotoJSON = `{"toolCallId":"c2","toolName":"camera","arguments":"{}","agent":"bot","messageId":"m1",
		"requestedAt":"2023-11-14T22:13:20Z","expiresAt":"2023-11-14T23:13:20Z"}`
)

// outcomes are the statuses with which they are answered.
var outcomes = map[signals.DecideOutcome]int{
	signals.DecideAccepted: 200, signals.DecideAlreadyResolved: 200, signals.DecideConflict: 409, signals.DecideMismatch: 409, signals.DecideNotPending: 404, signals.DecideNotAllowed: 403,
}

func TestApprovals(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.threads.known["gone"] = false
	assert.Equal(t, object{"approvals": []any{}, "clientCalls": []any{}, "inputs": []any{}}, w.call("GET", "/v1/threads/t1/approvals", nil).body)
	w.threads.approvals.waiting.Approvals = []event.ApprovalRequest{{ToolCallID: "c1", ToolName: "shell_cmd", Arguments: "{}", Agent: "bot", RequestedAt: asked}}
	assert.Equal(t, object{"approvals": []any{object{
		"toolCallId": "c1", "toolName": "shell_cmd", "arguments": "{}", "agent": "bot", "requestedAt": "2023-11-14T22:13:20Z",
	}}, "clientCalls": []any{}, "inputs": []any{}}, w.call("GET", "/v1/threads/t1/approvals", nil).body)
	w.call("GET", "/v1/threads/nobody/approvals", nil).problem(t, 404)
	t.Run("S4-77 all that is known of what waits", func(t *testing.T) {
		w.threads.approvals.waiting = signals.Approvals{Approvals: []event.ApprovalRequest{wantsTwo}, ClientCalls: []event.ClientCall{wantsPhoto}}
		assert.JSONEq(t, `{"approvals":[`+wantsTwoJSON+`],"clientCalls":[`+wantsPhotoJSON+`],"inputs":[]}`, w.call("GET", "/v1/threads/t1/approvals", nil).text)
	})

	const path = "/v1/threads/t1/approvals/c1"
	for result, status := range outcomes {
		t.Run(string(result), func(t *testing.T) {
			w.threads.approvals.outcome = result
			got := w.call("POST", path, object{"decision": "deny", "reason": "no", "by": "ann"})
			if status != 200 {
				got.problem(t, status)
			}
			assert.Equal(t, status, got.status, got.text)
			assert.Equal(t, string(result), got.body["result"])
			assert.NotContains(t, got.body, "missing")
		})
	}
	says := func() signals.Decide { return w.threads.approvals.decided[len(w.threads.approvals.decided)-1] }
	assert.Equal(t, signals.Decide{ToolCallID: "c1", Decision: event.DecisionDeny, Reason: "no", By: "ann"}, says())
	w.threads.approvals.outcome = signals.DecideAccepted
	for _, by := range []any{nil, "", "api", "Human", "threadmill"} {
		assert.Equal(t, []string{"body.by"}, w.call("POST", path, object{"decision": "approve", "by": by}).problem(t, 422), by)
	}
	assert.Equal(t, []string{"body.decision"}, w.call("POST", path, object{"decision": "maybe"}).problem(t, 422))
	assert.Equal(t, []string{"body.scope"}, w.call("POST", path, object{"decision": "deny", "scope": "ever"}).problem(t, 422))
	w.call("POST", "/v1/threads/nobody/approvals/c1", object{"decision": "deny", "by": "ann"}).problem(t, 404)
	w.call("POST", "/v1/threads/gone/approvals/c1", object{"decision": "deny", "by": "ann"}).problem(t, 409)
}

func TestDecideInFull(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	const path = "/v1/threads/t1/approvals/c1"
	w.threads.approvals.outcome = signals.DecideAccepted
	says := func() signals.Decide { return w.threads.approvals.decided[len(w.threads.approvals.decided)-1] }
	t.Run("S4-80 a session, and the request as it was seen", func(t *testing.T) {
		got := w.call("POST", path, object{
			"decision": "approve", "scope": "session", "by": "ann", "round": 2, "agent": "bot", "toolName": "shell_cmd",
			"toolArgs": object{"command": "ls"}, "workingDirectory": "/desk", "digest": "sha256:1",
		})
		require.Equal(t, http.StatusOK, got.status, got.text)
		assert.Equal(t, signals.Decide{
			ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann", Round: 2, Agent: "bot", ToolName: "shell_cmd",
			ToolArgs: []byte(`{"command":"ls"}`), WorkingDirectory: "/desk", Digest: "sha256:1",
		}, says())
	})
	t.Run("a pattern", func(t *testing.T) {
		w.call("POST", path, object{"by": "ann", "decision": "approve", "scope": "pattern", "pattern": object{"path": "docs/**"}}).ok(t, http.StatusOK)
		assert.Equal(t, event.ScopePattern, says().Scope)
		assert.Equal(t, map[string]string{"path": "docs/**"}, says().Pattern)
	})
	t.Run("S4-93 other arguments, to the letter", func(t *testing.T) {
		w.call("POST", path, `{"by":"ann","decision":"approve","args":{"n":1.50,"big":12345678901234567890}}`).ok(t, http.StatusOK)
		assert.Equal(t, `{"n":1.50,"big":12345678901234567890}`, string(says().Args))
	})
	t.Run("arguments as the request has them", func(t *testing.T) {
		w.call("POST", path, object{"by": "ann", "decision": "approve", "toolArgs": `{"command":"ls"}`}).ok(t, http.StatusOK)
		assert.Equal(t, `{"command":"ls"}`, string(says().ToolArgs))
	})
	t.Run("one of several", func(t *testing.T) {
		w.threads.approvals.missing = 2
		assert.JSONEq(t, `{"result":"accepted","missing":2}`, w.call("POST", path, object{"by": "ann", "decision": "approve"}).text)
	})
	sent := len(w.threads.approvals.decided)
	for name, test := range map[string]struct {
		body     any
		location string
	}{
		"a denial is for once":              {object{"by": "ann", "decision": "deny", "scope": "session"}, "body.scope"},
		"a pattern without globs":           {object{"by": "ann", "decision": "approve", "scope": "pattern"}, "body.pattern"},
		"globs without the scope":           {object{"by": "ann", "decision": "approve", "pattern": object{"a": "b"}}, "body.pattern"},
		"an empty glob":                     {object{"by": "ann", "decision": "approve", "scope": "pattern", "pattern": object{"a": ""}}, "body.pattern.a"},
		"arguments of a denial":             {object{"by": "ann", "decision": "deny", "args": object{}}, "body.args"},
		"arguments that are granted":        {object{"by": "ann", "decision": "approve", "scope": "session", "args": object{}}, "body.args"},
		"arguments that are no object":      {object{"by": "ann", "decision": "approve", "args": []int{1}}, "body.args"},
		"arguments that are too many":       {object{"by": "ann", "decision": "approve", "args": object{"a": strings.Repeat("x", 64<<10)}}, "body.args"},
		"arguments as text that is no JSON": {object{"by": "ann", "decision": "approve", "toolArgs": "ls -l"}, "body.toolArgs"},
		"arguments that are null":           {object{"by": "ann", "decision": "approve", "toolArgs": nil}, "body.toolArgs"},
		"arguments as empty text":           {object{"by": "ann", "decision": "approve", "toolArgs": ""}, "body.toolArgs"},
		"a round before the first":          {object{"by": "ann", "decision": "approve", "round": -1}, "body.round"},
		"a name that is too long":           {object{"decision": "approve", "by": strings.Repeat("é", 101)}, "body.by"},
		"a field that is not known":         {object{"by": "ann", "decision": "approve", "argz": object{}}, "body.argz"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, []string{test.location}, w.call("POST", path, test.body).problem(t, 422))
			assert.Len(t, w.threads.approvals.decided, sent, "the thread is not asked")
		})
	}
	t.Run("what the thread refuses says why", func(t *testing.T) {
		w.threads.approvals.refusing = signals.ErrRefused
		w.call("POST", path, object{"by": "ann", "decision": "approve", "args": object{"x": 1}}).problem(t, 422)
	})
}

// requests stores the requests of calls in a turn of a thread.
func (w *world) requests(thread string, payloads ...any) {
	w.t.Helper()
	turn := event.NewRecord("e", event.TypeMessage, "", "", asked, event.Message{ID: "e", Content: "go on in " + thread, SenderType: event.CreatedByUser}).In("e")
	records := []event.Record{turn}
	for i, p := range payloads {
		typ := map[string]string{
			"event.ApprovalRequest": event.TypeApprovalRequest, "event.Approval": event.TypeApproval, "event.InputRequest": event.TypeInputRequest,
			"event.InputReceived": event.TypeInputReceived, "event.ClientCall": event.TypeClientCall, "event.Message": event.TypeMessage,
		}[fmt.Sprintf("%T", p)]
		id := fmt.Sprintf("%s.%d", thread, i)
		if m, is := p.(event.Message); is {
			id = m.ToolCallID + ".result"
		}
		records = append(records, event.NewRecord(id, typ, "", "", asked, p).In("e"))
	}
	w.put(thread, records...)
}

// places are the calls of a list with their threads.
func places(body object) []string {
	out := []string{}
	for _, list := range []string{"approvals", "clientCalls", "inputs"} {
		for _, one := range body[list].([]any) {
			one := one.(object)
			call, _ := one["request"].(object)
			if call == nil {
				call = one["call"].(object)
			}
			out = append(out, fmt.Sprint(one["threadId"], " ", call["toolCallId"]))
		}
	}
	return out
}

func TestAllApprovals(t *testing.T) {
	w := newWorld(t)
	list := func(query string) object { return w.call("GET", "/v1/approvals"+query, nil).ok(t, http.StatusOK).body }
	assert.Equal(t, object{"approvals": []any{}, "clientCalls": []any{}, "inputs": []any{}}, list(""))
	t.Run("S4-77 of every thread, from the records alone", func(t *testing.T) {
		first := wantsTwo
		first.Votes, first.Reminder = nil, 0
		w.requests("t1", first, wantsPhoto, event.Approval{ToolCallID: "c1", Round: 2, Decision: event.DecisionApprove, By: "ann", Missing: 1, DecidedAt: asked, Reason: "fine"}, wantsTwo)
		w.append("t1", store.Batch{Thread: &store.ThreadUpdate{Title: new("Files")}})
		want := first
		want.Votes = []event.Vote{{By: "ann", At: asked, Reason: "fine"}}
		request, call := string(raws(t, []event.ApprovalRequest{want})[0]), string(raws(t, []event.ClientCall{wantsPhoto})[0])
		got := w.call("GET", "/v1/approvals", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"approvals":[{"threadId":"t1","title":"Files","preview":"go on in t1","request":`+request+`}],
			"clientCalls":[{"threadId":"t1","title":"Files","preview":"go on in t1","call":`+call+`}],"inputs":[]}`, got.text)
	})
	approve := event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann"}
	t.Run("what became of a call", func(t *testing.T) {
		w := newWorld(t)
		ask := event.ApprovalRequest{ToolCallID: "c1", ToolName: "sh", Agent: "bot"}
		again, question := ask, event.InputRequest{ToolCallID: "c1", ToolName: "sh", Agent: "bot", Round: 1}
		again.Round = 2
		vote := approve
		vote.Missing = 1
		reminder := ask
		reminder.Reminder, reminder.Votes = 1, []event.Vote{{By: "ann"}}
		for thread, payloads := range map[string][]any{
			"asked":             {ask},
			"reminded":          {ask, vote, reminder},
			"again":             {ask, approve, again},
			"again, late":       {ask, vote, again},
			"then asks":         {ask, approve, question},
			"approved":          {ask, approve},
			"withdrawn":         {ask, event.Approval{ToolCallID: "c1", Decision: event.DecisionWithdrawn}},
			"ran":               {ask, event.Message{ToolCallID: "c1", SenderType: event.CreatedByTool}},
			"answered":          {question, event.InputReceived{ToolCallID: "c1", Round: 1}},
			"revoked elsewhere": {ask, event.Approval{ToolCallID: "c1", Decision: event.DecisionRevoked}},
		} {
			w.requests(thread, payloads...)
		}
		w.requests("closed", ask)
		w.append("closed", closedBatch())
		got := w.call("GET", "/v1/approvals", nil).ok(t, http.StatusOK).body
		assert.ElementsMatch(t, []string{"asked c1", "reminded c1", "again c1", "again, late c1", "then asks c1", "revoked elsewhere c1"}, places(got))
		for _, one := range got["approvals"].([]any) {
			one := one.(object)
			votes, _ := one["request"].(object)["votes"].([]any)
			want := map[any]int{"reminded": 1}[one["threadId"]]
			assert.Len(t, votes, want, one["threadId"])
			_, second := one["request"].(object)["round"]
			assert.Equal(t, strings.HasPrefix(one["threadId"].(string), "again"), second, one["threadId"])
		}
	})
	t.Run("long arguments are shortened", func(t *testing.T) {
		w := newWorld(t)
		w.requests("t1", event.ApprovalRequest{ToolCallID: "c1", Arguments: strings.Repeat("x", 20<<10)})
		got := w.call("GET", "/v1/approvals", nil).body["approvals"].([]any)[0].(object)["request"].(object)["arguments"].(string)
		assert.Less(t, len(got), 17<<10)
		assert.Contains(t, got, "20480 bytes in all")
	})
	t.Run("those that wait the longest, up to the limit, and whether there are more", func(t *testing.T) {
		w := newWorld(t)
		for i := range 7 {
			w.requests(fmt.Sprint("t", i), event.ApprovalRequest{ToolCallID: fmt.Sprint("c", i), ToolName: fmt.Sprint("tool", i%2), Agent: fmt.Sprint("bot", i%3), RequestedAt: asked.Add(time.Duration(i))})
		}
		got := w.call("GET", "/v1/approvals?limit=3", nil).body
		assert.Equal(t, []string{"t0 c0", "t1 c1", "t2 c2"}, places(got))
		assert.Equal(t, true, got["more"])
		got = w.call("GET", "/v1/approvals?limit=7&agent=bot0&tool=tool0", nil).body
		assert.Equal(t, []string{"t0 c0", "t6 c6"}, places(got))
		assert.NotContains(t, got, "more")
	})
	for _, limit := range []string{"0", "1001", "x"} {
		assert.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/approvals?limit="+limit, nil).problem(t, 422), limit)
	}
}

// TestAllApprovalsInPages: more threads than the store returns at once.
func TestAllApprovalsInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 230 {
		w.requests(fmt.Sprint("t", i), event.ApprovalRequest{ToolCallID: "c"})
	}
	for limit, more := range map[int]bool{210: true, 229: true, 230: false, 1000: false} {
		got := w.call("GET", fmt.Sprint("/v1/approvals?limit=", limit), nil).ok(t, http.StatusOK).body
		assert.Len(t, got["approvals"], min(limit, 230))
		assert.Equal(t, more, got["more"] == true, limit)
	}
}

// TestTruncatedInputs: the API lists the questions of sub-agents whole, although their thread has no room for them.
func TestTruncatedInputs(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	whole := event.InputRequest{ToolCallID: "x1", ToolName: "book", Agent: "bob", Round: 2, Questions: []event.InputQuestion{
		{ID: "q", Kind: event.InputForm, Message: "When do you want to come?", Schema: json.RawMessage(`{"type":"object"}`)},
	}, RequestedAt: asked}
	brief := whole
	brief.Truncated, brief.Questions = true, []event.InputQuestion{{ID: "q", Kind: event.InputForm, Message: "When…"}}
	for _, want := range []event.InputRequest{brief, whole} {
		if !want.Truncated {
			stored := record(event.TypeInputRequest, whole)
			stored.ID = "x1.input.2"
			w.put("t1", stored)
		}
		w.threads.approvals.waiting = signals.Approvals{Inputs: []event.InputRequest{brief}}
		shown := string(raws(t, []event.InputRequest{want})[0])
		assert.JSONEq(t, `{"approvals":[],"clientCalls":[],"inputs":[`+shown+`]}`, w.call("GET", "/v1/threads/t1/approvals", nil).text)
	}
}

func TestToolResults(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.threads.known["gone"] = false
	const path = "/v1/threads/t1/tool-calls/c2/result"
	for result, status := range outcomes {
		t.Run(string(result), func(t *testing.T) {
			w.threads.approvals.outcome = result
			got := w.call("POST", path, object{"output": "a photo", "by": "phone"})
			if status != 200 {
				got.problem(t, status)
			}
			assert.Equal(t, status, got.status, got.text)
			assert.Equal(t, string(result), got.body["result"])
		})
	}
	w.threads.approvals.outcome = signals.DecideAccepted
	for name, test := range map[string]struct {
		body string
		want signals.ToolResult
	}{
		"a text":       {`{"output":"a\nphoto","by":"phone","agent":"bot","toolName":"camera"}`, signals.ToolResult{Output: "a\nphoto", By: "phone", Agent: "bot", ToolName: "camera"}},
		"an object":    {`{"output":{"bytes": 12.0}}`, signals.ToolResult{Output: `{"bytes": 12.0}`, By: "api"}},
		"an error":     {`{"output":"no light","isError":true}`, signals.ToolResult{Output: "no light", IsError: true, By: "api"}},
		"an empty one": {`{"output":""}`, signals.ToolResult{By: "api"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.call("POST", path, test.body).ok(t, http.StatusOK)
			test.want.ToolCallID = "c2"
			assert.Equal(t, test.want, w.threads.approvals.results[len(w.threads.approvals.results)-1])
		})
	}
	sent := len(w.threads.approvals.results)
	assert.Equal(t, []string{"body.output"}, w.call("POST", path, object{"by": "phone"}).problem(t, 422))
	assert.Equal(t, []string{"body.output"}, w.call("POST", path, object{"output": strings.Repeat("x", signals.MaxPayload+1)}).problem(t, 413))
	assert.Len(t, w.threads.approvals.results, sent)
	w.call("POST", "/v1/threads/nobody/tool-calls/c2/result", object{"output": ""}).problem(t, 404)
	w.call("POST", "/v1/threads/gone/tool-calls/c2/result", object{"output": ""}).problem(t, 409)
}

func TestParticipants(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Agents = nil })
	t.Run("a thread of several, with a limit", func(t *testing.T) {
		got := w.call("POST", "/v1/threads", object{"id": "t1", "agents": []string{"planner", "critic"}, "turnLimit": 3}).ok(t, http.StatusCreated)
		assert.Equal(t, []any{"planner", "critic"}, got.body["agents"])
		start := w.threads.opens[0]
		assert.Equal(t, []string{"planner", "critic"}, start.Agents)
		assert.Equal(t, 3, start.TurnLimit)
	})
	t.Run("who comes and goes", func(t *testing.T) {
		w.threads.limit, w.threads.calls = 7, map[string]int{"planner": 2}
		got := w.call("PATCH", "/v1/threads/t1", object{"addAgents": []string{"writer"}, "removeAgents": []string{"critic"}, "turnLimit": 7, "by": "ann"}).ok(t, http.StatusOK)
		assert.Equal(t, signals.ThreadChange{AddAgents: []string{"writer"}, RemoveAgents: []string{"critic"}, TurnLimit: 7, By: "ann"}, w.threads.changes[0])
		assert.EqualValues(t, 7, got.body["turnLimit"])
		assert.Equal(t, object{"planner": 2.0}, got.body["llmCalls"])
	})
	t.Run("a thread tells its limit if it is asked", func(t *testing.T) {
		assert.NotContains(t, w.call("GET", "/v1/threads/t1", nil).body, "turnLimit")
		got := w.call("GET", "/v1/threads/t1?state=true", nil).ok(t, http.StatusOK)
		assert.EqualValues(t, 7, got.body["turnLimit"])
		assert.Equal(t, object{"planner": 2.0}, got.body["llmCalls"])
		assert.NotEmpty(t, got.body["createdAt"])
		w.call("GET", "/v1/threads/nobody?state=true", nil).problem(t, 404)
		w.threads.state = func(context.Context) error { return context.DeadlineExceeded }
		defer func() { w.threads.state = nil }()
		w.call("GET", "/v1/threads/t1?state=true", nil).problem(t, 503)
		assert.Equal(t, http.StatusOK, w.call("GET", "/v1/threads/t1", nil).status, "without a worker")
	})
	changes := len(w.threads.changes)
	for name, test := range map[string]struct {
		body     object
		location string
	}{
		"nothing":             {object{}, "body.title"},
		"all and some":        {object{"agents": []string{"a"}, "addAgents": []string{"b"}}, "body.agents"},
		"a limit of none":     {object{"turnLimit": 0}, "body.turnLimit"},
		"a limit without end": {object{"turnLimit": 1001}, "body.turnLimit"},
		"a name that is none": {object{"addAgents": []string{"a", "no good"}}, "body.addAgents[1]"},
		"one that cannot be":  {object{"removeAgents": []string{"no good"}}, "body.removeAgents[0]"},
		"more than there are": {object{"addAgents": make([]string, 101)}, "body.addAgents"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, []string{test.location}, w.call("PATCH", "/v1/threads/t1", test.body).problem(t, 422))
			assert.Len(t, w.threads.changes, changes, "the thread is not asked")
		})
	}
	t.Run("agents that are not there", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		assert.Equal(t, []string{"body.addAgents[1]"}, w.call("PATCH", "/v1/threads/t1", object{"addAgents": []string{"bot", "nobody"}}).problem(t, 422))
		assert.Equal(t, []string{"body.agents[0]"}, w.call("POST", "/v1/threads", object{"agents": []string{"nobody"}}).problem(t, 422))
		assert.Equal(t, []string{"body.agent"}, w.call("POST", "/v1/threads", object{"agent": "bot", "agents": []string{"bot"}}).problem(t, 422))
		assert.Equal(t, http.StatusOK, w.call("PATCH", "/v1/threads/t1", object{"removeAgents": []string{"nobody"}}).status, "whoever is gone can leave")
	})
}
