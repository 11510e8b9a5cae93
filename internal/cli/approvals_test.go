package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// approvalsFake has pending client calls, grants and people's decisions.
type approvalsFake struct {
	calls   []event.ClientCall
	all     threadclient.Waiting
	query   threadclient.ApprovalsQuery
	missing int
	results []signals.ToolResult
	inputs  []event.InputRequest
	answers []signals.InputAnswers
	grants  string
	revoked []string
}

// outcomeOf returns the outcome with which a call's id begins.
func outcomeOf(call string) signals.DecideOutcome {
	for prefix, outcome := range map[string]signals.DecideOutcome{
		"no": signals.DecideNotPending, "other": signals.DecideMismatch, "settled": signals.DecideConflict, "again": signals.DecideAlreadyResolved, "boss": signals.DecideNotAllowed, "odd": "odd",
	} {
		if strings.HasPrefix(call, prefix) {
			return outcome
		}
	}
	return signals.DecideAccepted
}

func (w *world) Decide(_ context.Context, id string, d signals.Decide) (signals.DecideResult, error) {
	if err := w.known(id); err != nil {
		return signals.DecideResult{}, err
	}
	out := signals.DecideResult{Result: outcomeOf(d.ToolCallID)}
	if out.Result == signals.DecideAccepted {
		w.change(func() { w.decisions[d.ToolCallID], out.Missing = d, w.approvals.missing })
	}
	return out, nil
}

func (w *world) ToolResult(_ context.Context, id string, r signals.ToolResult) (signals.DecideOutcome, error) {
	w.change(func() { w.approvals.results = append(w.approvals.results, r) })
	return outcomeOf(r.ToolCallID), w.known(id)
}

func (w *world) AnswerInput(_ context.Context, id string, a signals.InputAnswers) (signals.DecideOutcome, error) {
	w.change(func() { w.approvals.answers = append(w.approvals.answers, a) })
	return outcomeOf(a.ToolCallID), w.known(id)
}

func (w *world) Approvals(_ context.Context, id string) (signals.Approvals, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return signals.Approvals{Approvals: w.waiting, ClientCalls: w.approvals.calls, Inputs: w.approvals.inputs}, w.known(id)
}

func (w *world) ListApprovals(_ context.Context, q threadclient.ApprovalsQuery) (threadclient.Waiting, error) {
	w.approvals.query = q
	return w.approvals.all, nil
}

// serveGrants lists grants, and revokes those with certain ids.
func (w *world) serveGrants(rw http.ResponseWriter, r *http.Request) {
	_, call, one := strings.Cut(r.URL.Path, "/grants/")
	if strings.Contains(r.URL.Path, "/gone/") {
		problem(rw, http.StatusNotFound, `{"status":404,"detail":"there is no thread \"gone\""}`)
		return
	}
	if !one {
		w.approvals.revoked = append(w.approvals.revoked, "list "+r.URL.RawQuery)
		fmt.Fprintf(rw, `{"grants":%s}`, w.approvals.grants)
		return
	}
	w.approvals.revoked = append(w.approvals.revoked, r.Method+" "+call+" "+r.URL.Query().Get("by")+" "+r.URL.Query().Get("reason"))
	outcome := outcomeOf(call)
	if outcome != signals.DecideAccepted && outcome != signals.DecideAlreadyResolved {
		problem(rw, http.StatusNotFound, fmt.Sprintf(`{"status":404,"detail":"no","result":%q}`, outcome))
		return
	}
	fmt.Fprintf(rw, `{"result":%q}`, outcome)
}

func problem(rw http.ResponseWriter, status int, body string) {
	rw.Header().Set("Content-Type", "application/problem+json")
	rw.WriteHeader(status)
	fmt.Fprint(rw, body)
}

var (
	askedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	listing = event.ApprovalRequest{
		ToolCallID: "call_1", ToolName: "shell_cmd", Arguments: `{"command":"` + strings.Repeat("x", 60) + `"}`, Agent: "demo", RequestedAt: askedAt,
	}
	photo = event.ClientCall{ToolCallID: "call_2", ToolName: "camera", Arguments: `{}`, Agent: "demo", RequestedAt: askedAt, ExpiresAt: askedAt.Add(time.Hour)}
)

func TestApprovals(t *testing.T) {
	t.Run("S4-77 of one thread, to the letter", func(t *testing.T) {
		w := newWorld(t)
		w.waiting, w.approvals.calls = []event.ApprovalRequest{listing}, []event.ClientCall{photo}
		out := w.ok("approvals", "t1")
		lines := strings.Split(out, "\n")
		require.Len(t, lines, 6)
		require.Equal(t, strings.Fields("THREAD CALL TOOL ARGUMENTS AGENT REASON SINCE EXPIRES VOTES"), strings.Fields(lines[0]))
		require.Equal(t, append([]string{"t1", "call_1", "shell_cmd", listing.Arguments}, strings.Fields("demo - 2026-01-02 03:04:05 - -")...), strings.Fields(lines[1]))
		require.Empty(t, lines[2])
		require.Equal(t, `THREAD  CLIENT CALL  TOOL    ARGUMENTS  AGENT  SINCE                EXPIRES`, lines[3])
		require.Equal(t, `t1      call_2       camera  {}         demo   2026-01-02 03:04:05  2026-01-02 04:04:05`, lines[4])

		_, out, _ = w.run("", "approvals", "t1", "--json")
		var all signals.Approvals
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Equal(t, "call_1", all.Approvals[0].ToolCallID)
		require.Equal(t, "call_2", all.ClientCalls[0].ToolCallID)
	})
	t.Run("S4-77 of all threads", func(t *testing.T) {
		w := newWorld(t)
		w.approvals.all = threadclient.Waiting{
			Approvals:  []threadclient.WaitingApproval{{ThreadID: "t1", Title: "Files", Request: listing}, {ThreadID: "t2", Request: listing}},
			Unanswered: []string{"t3"}, More: true,
		}
		code, out, errs := w.run("", "approvals", "--limit", "7")
		require.Equal(t, exitOK, code)
		lines := strings.Split(out, "\n")
		require.Len(t, lines, 4)
		require.Contains(t, lines[1], "t1      call_1  shell_cmd  {\"command\":\"xxx")
		require.Contains(t, lines[1], "x…  demo")
		require.Contains(t, lines[2], "t2      call_1")
		require.Equal(t, `thread "t3" waits too, but did not answer: "starter approvals t3" asks it again`+"\nmore threads wait: --limit asks more than 7\n", errs)
		require.Equal(t, threadclient.ApprovalsQuery{Limit: 7}, w.approvals.query)

		_, out, _ = w.run("", "approvals", "--json")
		var all threadclient.Waiting
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Equal(t, "Files", all.Approvals[0].Title)
		require.Equal(t, threadclient.DefaultApprovalsLimit, w.approvals.query.Limit)
	})
	t.Run("none", func(t *testing.T) {
		w := newWorld(t)
		for args, want := range map[string]string{"approvals": `in namespace "default"`, "approvals t1": `in thread "t1"`} {
			code, out, errs := w.run("", strings.Fields(args)...)
			require.Equal(t, exitOK, code)
			require.Empty(t, out)
			require.Equal(t, "no tool calls wait "+want+"\n", errs)
		}
	})
	t.Run("a thread that is not there", func(t *testing.T) {
		code, _, errs := newWorld(t).run("", "approvals", "gone")
		require.Equal(t, exitFailed, code)
		require.Contains(t, errs, `there is no thread "gone"`)
	})
}

func TestDecideInFull(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args  []string
		stdin string
		want  signals.Decide
	}{
		{
			[]string{"approve", "t1", "c", "--scope", "session", "--round", "2", "--digest", "sha256:1"},
			"",
			signals.Decide{Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann", Round: 2, Digest: "sha256:1"},
		},
		{
			[]string{"approve", "t1", "c", "--pattern", "path=docs/**", "--pattern", "mode=a=b", "--by", "bob"},
			"",
			signals.Decide{Decision: event.DecisionApprove, Scope: event.ScopePattern, By: "bob", Pattern: map[string]string{"path": "docs/**", "mode": "a=b"}},
		},
		{
			[]string{"approve", "t1", "c", "--args", `{"n":1.50}`, "--reason", "rounded"},
			"",
			signals.Decide{Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann", Args: json.RawMessage(`{"n":1.50}`), Reason: "rounded"},
		},
		{
			[]string{"approve", "t1", "c", "--args", "-"},
			"{\"a\":\n1}\n",
			signals.Decide{Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann", Args: json.RawMessage("{\"a\":\n1}")},
		},
		{[]string{"deny", "t1", "c", "--round", "3"}, "", signals.Decide{Decision: event.DecisionDeny, Scope: event.ScopeOnce, By: "ann", Round: 3}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, errs := w.run(c.stdin, c.args...)
			require.Equal(t, exitOK, code, errs)
			require.Equal(t, "accepted\n", out)
			c.want.ToolCallID = "c"
			require.Equal(t, c.want, w.decisions["c"])
		})
	}
	t.Run("one of several", func(t *testing.T) {
		w.approvals.missing = 2
		_, out, _ := w.run("", "approve", "t1", "c")
		require.Equal(t, "accepted, 2 more to approve\n", out)
		_, out, _ = w.run("", "approve", "t1", "c", "--json")
		require.JSONEq(t, `{"result":"accepted","missing":2}`, out)
	})
	for args, want := range map[string]string{
		"approve t1 c --scope ever":                  `scope: "ever" is not one of once, session, pattern`,
		"approve t1 c --scope pattern":               "pattern: and scope pattern require each other",
		"approve t1 c --scope session --pattern a=b": "pattern: and scope pattern require each other",
		"approve t1 c --pattern docs":                `--pattern is "docs", must be name=glob`,
		"approve t1 c --pattern a=b --pattern a=c":   `--pattern is "a=c", must be name=glob, and each name once`,
		"approve t1 c --pattern a=":                  "pattern.a: must be a glob",
		"approve t1 c --args 7":                      "args: must be a JSON object",
		"approve t1 c --args {} --scope session":     "args: require scope once",
		"approve t1 c --round -1":                    "round: must not be negative",
		"deny t1 c --scope session":                  "unknown flag: --scope",
		"approvals --limit 0":                        "--limit is 0, must be 1 to 1000 threads",
		"approvals a/b":                              `thread: "a/b" must be`,
		"grants a/b":                                 `thread: "a/b" must be`,
		"revoke t1":                                  "revoke takes <thread> <grant>: missing <grant>",
		"tool-result t1 c":                           "tool-result takes <thread> <toolCallId> <output>: missing <output>",
		"open t1 --turn-limit 1001":                  "turnLimit: is 1001, must be 1 to 1000",
		"update t1 --agent a --add-agent b":          "agents: replace all agents",
		"update t1 --add-agent no/slash":             `addAgents[0]: "no/slash" must be`,
		"update t1 --turn-limit -1":                  "turnLimit: is -1, must be 1 to 1000",
	} {
		t.Run(args, func(t *testing.T) {
			w.fails(exitUsage, want, strings.Fields(args)...)
		})
	}
}

// TestEmptyFlags: a flag with an empty value, as from an empty variable or file, is not an omitted
// one.
func TestEmptyFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"arguments":              {[]string{"approve", "t1", "c", "--args", ""}, "", "--args is empty, must be a JSON object"},
		"blank arguments":        {[]string{"approve", "t1", "c", "--args", " \t"}, "", "--args is empty, must be a JSON object"},
		"arguments from stdin":   {[]string{"approve", "t1", "c", "--args", "-"}, "", "--args is empty, must be a JSON object"},
		"blank lines from stdin": {[]string{"approve", "t1", "c", "--args", "-"}, " \n\n", "--args is empty, must be a JSON object"},
		"digest":                 {[]string{"approve", "t1", "c", "--digest", ""}, "", "--digest is empty, must be the request's"},
		"blank digest":           {[]string{"approve", "t1", "c", "--digest", " "}, "", "--digest is empty, must be the request's"},
		"digest of a denial":     {[]string{"deny", "t1", "c", "--digest", ""}, "", "--digest is empty, must be the request's"},
		"pattern":                {[]string{"approve", "t1", "c", "--pattern", ""}, "", `--pattern is "", must be name=glob`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			code, _, errs := w.run(c.stdin, c.args...)
			require.Equal(t, exitUsage, code)
			require.Contains(t, errs, c.want)
			require.Empty(t, w.decisions)
		})
	}
}

// TestOutcomes: a rejected decision is explained, with the way out.
func TestOutcomes(t *testing.T) {
	for args, want := range map[string]string{
		"approve t1 settled":       `tool call "settled" already has a conflicting decision`,
		"approve t1 other":         `which needs its --round; "starter approvals t1" shows it`,
		"approve t1 boss":          `ann may not decide on tool call "boss": the request names its approvers`,
		"deny t1 odd":              `the thread answers "odd"`,
		"tool-result t1 settled x": `tool call "settled" has another result already`,
		"tool-result t1 none x":    `"starter approvals t1" lists those that do`,
		"tool-result t1 boss x":    "agents of the thread never may",
		"revoke t1 none":           `this thread has no approval of a tool call "none"; "starter grants t1" lists what is granted`,
		"revoke t1 settled":        "there is nothing to revoke",
		"revoke t1 boss":           "ann may not revoke",
		"revoke gone c":            `there is no thread "gone"`,
		"grants gone":              `there is no thread "gone"`,
	} {
		t.Run(args, func(t *testing.T) {
			code, out, errs := newWorld(t).run("", strings.Fields(args)...)
			require.Equal(t, exitFailed, code)
			require.Empty(t, out)
			require.Contains(t, errs, want)
		})
	}
}

func TestGrants(t *testing.T) {
	w := newWorld(t)
	w.approvals.grants = `[{"id":"call_1","scope":"session","toolName":"shell_cmd","agent":"demo","by":"ann","grantedAt":"2026-01-02T03:04:05Z","digest":"sha256:1"}]`
	out := w.ok("grants", "t1")
	require.Contains(t, out, "call_1  session  shell_cmd  demo   the same call  ann")
	out = w.ok("grants", "t1", "--revoked", "--json")
	require.JSONEq(t, `{"grants":`+w.approvals.grants+`}`, out)
	out = w.ok("revoke", "t1", "call_1", "--reason", "too wide")
	require.Equal(t, "accepted\n", out)
	out = w.ok("revoke", "t1", "again", "--by", "bob", "--json")
	require.JSONEq(t, `{"result":"already_resolved"}`, out)
	require.Equal(t, []string{"list ", "list revoked=true", "DELETE call_1 ann too wide", "DELETE again bob "}, w.approvals.revoked)

	w.approvals.grants = `[]`
	code, out, errs := w.run("", "grants", "t1")
	require.Equal(t, exitOK, code)
	require.Empty(t, out)
	require.Equal(t, `nothing is granted in thread "t1"`+"\n", errs)
	w.url = "http://" + nobody
	w.fails(exitFailed, "the Threadmill API does not answer at", "grants", "t1")
}

func TestToolResult(t *testing.T) {
	w := newWorld(t)
	out := w.ok("tool-result", "t1", "call_2", "a photo")
	require.Equal(t, "accepted\n", out)
	code, out, _ := w.run("no\nlight\n", "tool-result", "t1", "again", "-", "--error", "--by", "phone", "--json")
	require.Equal(t, exitOK, code)
	require.JSONEq(t, `{"result":"already_resolved"}`, out)
	require.Equal(t, []signals.ToolResult{
		{ToolCallID: "call_2", Output: "a photo", By: "ann"},
		{ToolCallID: "again", Output: "no\nlight", IsError: true, By: "phone"},
	}, w.approvals.results)
	code, _, errs := w.run(strings.Repeat("x", signals.MaxPayload+1), "tool-result", "t1", "c", "-")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "output: is 262145 bytes")
	require.Len(t, w.approvals.results, 2)
}

func TestParticipants(t *testing.T) {
	w := newWorld(t)
	w.ok("open", "t1", "--agent", "a", "--agent", "b", "--turn-limit", "3")
	require.Equal(t, []signals.Start{{Agents: []string{"a", "b"}, TurnLimit: 3}}, w.opened)
	w.ok("update", "t1", "--add-agent", "c", "--add-agent", "d", "--remove-agent", "a", "--turn-limit", "7")
	require.Equal(t, []signals.ThreadChange{{AddAgents: []string{"c", "d"}, RemoveAgents: []string{"a"}, TurnLimit: 7, By: "ann"}}, w.changes)
	w.state.TurnLimit, w.state.LLMCalls = 7, map[string]int{"demo": 7, "": 2}
	_, out, _ := w.run("", "show", "t1")
	require.Contains(t, out, "\n  model calls since the last user message: default agent 2/7, demo 7/7 (turn limit)\n")
}

func TestWaitingThreads(t *testing.T) {
	w := newWorld(t)
	w.listed = []threadclient.Summary{{ThreadID: "t1", Status: "open", Waiting: true, StartTime: askedAt}}
	out := w.ok("list", "--waiting")
	require.Contains(t, out, "t1      waiting_approval  2026-01-02 03:04:05")
	require.True(t, w.query.Waiting)

	w.state.Turn, w.approvals.calls = &signals.TurnState{}, []event.ClientCall{photo}
	_, out, _ = w.run("", "show", "t1")
	require.Contains(t, out, "? camera {} waits for a client to run it (until 2026-01-02 04:04:05)\n  starter tool-result t1 call_2 <output>\n")
	_, out, _ = w.run("", "show", "t1", "--json")
	var all shown
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Equal(t, "call_2", all.Calls[0].ToolCallID)
}

func TestAnswer(t *testing.T) {
	w := newWorld(t)
	w.approvals.inputs = []event.InputRequest{
		{ToolCallID: "call_1", ToolName: "book", Agent: "bot", Round: 1, RequestedAt: askedAt, Questions: []event.InputQuestion{{
			ID: "when", Kind: event.InputForm, Message: "When?\x1b[31m",
			Schema: json.RawMessage(`{"type":"object","properties":{"day":{"type":"string"},"seats":{"type":"integer","title":"How many"}},"required":["day"]}`),
		}}},
		{ToolCallID: "again", ToolName: "pay", Agent: "bot", Round: 2, RequestedAt: askedAt, Questions: []event.InputQuestion{
			{ID: "a", Kind: event.InputURL, Message: "Pay", URL: "https://pay.example"}, {ID: "b", Kind: event.InputForm, Message: "Why?"},
		}},
	}
	out := w.ok("approvals", "t1")
	require.Contains(t, out, "CALL THAT ASKS")
	require.Contains(t, out, "day (string); seats (integer), optional: How many")
	require.NotContains(t, out, "\x1b[31m")

	require.Equal(t, "accepted\n", w.ok("answer", "t1", "call_1", "day=next monday", "seats=2"))
	require.JSONEq(t, `{"result":"already_resolved"}`, w.ok("answer", "t1", "again", "--question", "b", "reason=fun", "--json", "--by", "bob"))
	w.ok("answer", "t1", "call_1", "--decline")
	w.ok("answer", "t1", "again", "--cancel")
	require.Equal(t, []signals.InputAnswers{
		{ToolCallID: "call_1", Round: 1, By: "ann", Answers: map[string]event.InputAnswer{"when": {Action: event.InputAccept, Content: json.RawMessage(`{"day":"next monday","seats":2}`)}}},
		{ToolCallID: "again", Round: 2, By: "bob", Answers: map[string]event.InputAnswer{"a": {Action: event.InputDecline}, "b": {Action: event.InputAccept, Content: json.RawMessage(`{"reason":"fun"}`)}}},
		{ToolCallID: "call_1", Round: 1, By: "ann", Answers: map[string]event.InputAnswer{"when": {Action: event.InputDecline}}},
		{ToolCallID: "again", Round: 2, By: "ann", Answers: map[string]event.InputAnswer{"a": {Action: event.InputCancel}, "b": {Action: event.InputCancel}}},
	}, w.approvals.answers)
	for args, want := range map[string]string{
		"call_1 seats=2":            "day: is required",
		"call_1 day=x seats=two":    "seats: must be an integer",
		"call_1 day":                `"day" must be field=value`,
		"call_1 day=x --decline":    "--decline takes no values",
		"again reason=x":            "--question is \"\", must be one of a, b",
		"again --question a x=y":    "visit it, and answer without values",
		"call_1 --decline --cancel": "exclude each other",
		"call_9 day=x":              `no tool call "call_9" waits for input`,
	} {
		_, _, errs := w.run("", append([]string{"answer", "t1"}, strings.Fields(args)...)...)
		require.Contains(t, errs, want, args)
	}
	require.Len(t, w.approvals.answers, 4)
}

// TestAnswerLists answers with lists of strings, and shows the values to choose from.
func TestAnswerLists(t *testing.T) {
	w := newWorld(t)
	w.approvals.inputs = []event.InputRequest{{ToolCallID: "call_1", ToolName: "order", Agent: "bot", Round: 1, RequestedAt: askedAt, Questions: []event.InputQuestion{{
		ID: "what", Kind: event.InputForm, Message: strings.Repeat("What do you eat? ", 20),
		Schema: json.RawMessage(`{"type":"object","properties":{
			"dishes":{"type":"array","items":{"anyOf":[{"const":"soup","title":"Soup\u001b[31m"},{"const":"12","title":"Salad"}]}},
			"drinks":{"type":"array","items":{"type":"string","enum":["tea","water"]},"title":"` + strings.Repeat("long ", 40) + `"},
			"seat":{"type":"string","oneOf":[{"const":"in","title":"Inside"},{"const":"out","title":"Outside"}]},
			"spice":{"type":"string","enum":["a","b"],"enumNames":["Mild"]}},"required":["seat"]}`),
	}}}}
	w.state.Turn = &signals.TurnState{}
	_, out, _ := w.run("", "show", "t1")
	require.Contains(t, out, `    dishes (array), optional, any of "soup" (Soup\u001b[31m), "12" (Salad)`+"\n")
	require.Contains(t, out, `, any of "tea", "water"`+"\n")
	require.Contains(t, out, `    seat (string), one of "in" (Inside), "out" (Outside)`+"\n")
	require.Contains(t, out, `    spice (string), optional, one of "a" (Mild), "b"`+"\n")
	for _, args := range [][]string{{"approvals", "t1"}, {"approvals"}} {
		for line := range strings.Lines(w.ok(args...)) {
			require.Less(t, len(line), 250)
		}
	}
	for args, want := range map[string]string{
		"dishes=soup,12":          `{"seat":"in","dishes":["soup","12"]}`,
		"dishes=12 drinks=tea":    `{"seat":"in","dishes":["12"],"drinks":["tea"]}`,
		"dishes=12 dishes=soup":   `{"seat":"in","dishes":["12","soup"]}`,
		`dishes=["soup"] drinks=`: `{"seat":"in","dishes":["soup"],"drinks":[]}`,
	} {
		w.ok(append([]string{"answer", "t1", "call_1", "seat=in"}, strings.Fields(args)...)...)
		require.JSONEq(t, want, string(w.approvals.answers[len(w.approvals.answers)-1].Answers["what"].Content), args)
	}
	for args, want := range map[string]string{"dishes=cake": "dishes", "seat=out": "each field once", "dishes=[] dishes=soup": "each field once"} {
		_, _, errs := w.run("", append([]string{"answer", "t1", "call_1", "seat=in"}, strings.Fields(args)...)...)
		require.Contains(t, errs, want, args)
	}
}

// TestLoginQuestion names the command by which a person logs in.
func TestLoginQuestion(t *testing.T) {
	w := newWorld(t)
	w.approvals.inputs = []event.InputRequest{{ToolCallID: "call_1", ToolName: "tracker__list", Agent: "bot", Round: 1, RequestedAt: askedAt, Questions: []event.InputQuestion{{
		ID: "login", Kind: event.InputURL, Message: "The MCP server tracker needs ann to log in.", URL: "https://threadmill.example/#/servers/tracker/login",
		Login: &event.InputLogin{Server: "tracker", User: "ann"},
	}}}}
	w.state.Turn = &signals.TurnState{}
	_, out, _ := w.run("", "show", "t1")
	require.Contains(t, out, "? tracker__list asks: The MCP server tracker needs ann to log in.\n    visit https://threadmill.example/#/servers/tracker/login\n"+
		"  starter servers login tracker   logs in; the call then goes on by itself\n")
	require.NotContains(t, out, "starter answer")
}
