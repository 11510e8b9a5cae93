package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// run runs the command line in the world with stdin, to its end.
func (w *world) run(stdin string, args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	w.t.Setenv("USER", "ann")
	var out, errs testenv.Buffer
	a := &app{
		stdin: strings.NewReader(stdin), stdout: term.New(&out, false), stderr: term.New(&errs, false), settle: w.settle, mindEvery: testenv.Tick, interrupts: osInterrupts,
		dial: func(context.Context, connection) (threads, func(), error) { return w, func() {}, nil },
	}
	code = a.run(w.t.Context(), append([]string{"--api", w.url}, args...))
	return code, out.String(), errs.String()
}

// ok runs the command line, which succeeds, and returns its output.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	code, out, errs := w.run("", args...)
	require.Equal(w.t, exitOK, code, errs)
	return out
}

// fails runs the command line, which fails without output, names the problem, and returns its errors.
func (w *world) fails(code int, problem string, args ...string) string {
	w.t.Helper()
	got, out, errs := w.run("", args...)
	require.Equal(w.t, code, got, errs)
	require.Empty(w.t, out)
	require.Contains(w.t, errs, problem)
	return errs
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, problem string }{
		{"sing", `unknown command "sing"; did you mean send?`},
		{"lst", `unknown command "lst"; did you mean list?`},
		{"send t1", "send takes <thread> <text>: missing <text>"},
		{"open a b", `open takes [id]: unexpected "b" (text with spaces needs quotes)`},
		{"list --sideways", "unknown flag: --sideways"},
		{"list --limit 0", "--limit is 0, must be 1 to 10000"},
		{"send t1 hi --on-busy shout", `--on-busy is "shout", must be enqueue, steer, interrupt or reject`},
		{"send t1 hi --id /", `--id: "/" must be 1 to 128 letters`},
		{"send t1 hi --id e.1", `--id: "e.1" must be 1 to 128 letters`},
		{"send t1 hi --ttl -1s", "--ttl is -1s, must be whole milliseconds, 0 or more, such as 90s"},
		{"send t1 hi --ttl 1us", "--ttl is 1µs, must be whole milliseconds"},
		{"send t1 hi --priority high", "invalid argument"},
		{"send t1 hi --agent no/slash", `agents[0]: "no/slash" must be 1 to 128 letters`},
		{"send t1 hi --tool a --no-tools", "--no-tools and --tool exclude each other"},
		{"interrupt t1 e/7", `eventId: "e/7" must be 1 to 128 letters`},
		{"queue sing", `unknown command "queue sing"`},
		{"queue list", "queue list takes <thread>: missing <thread>"},
		{"queue show t1", "queue show takes <thread> <eventId>: missing <eventId>"},
		{"queue next no/slash", `thread: "no/slash" must be 1 to 128 letters`},
		{"queue add t1", "queue add takes <thread> <type> [payload]: missing <type>"},
		{"queue add t1 llm_call", `type: "llm_call" events are created by the thread itself`},
		{"queue add t1 deploy prod", "the payload is not JSON (text needs quotes)"},
		{"queue add t1 message", "payload: is required"},
		{"queue add t1 message {}", "payload.senderId: is required"},
		{"send t1 hi --on-waiting shout", `--on-waiting is "shout", must be answer, hold or cancel`},
		{"queue add t1 deploy --on-busy shout", `--on-busy is "shout"`},
		{"queue set-status t1 e1 processing", `the status is "processing", must be pending, completed, failed, expired or overwritten`},
		{"send no/slash hi", `thread: "no/slash" must be 1 to 128 letters`},
		{"open t1 --metadata x", `--metadata is "x", must be key=value`},
		{"watch t1 --from yesterday", `--from is "yesterday", must be start or now`},
		{"chat --thoughts loud", `--thoughts is "loud", must be show, collapse or hide`},
		{"approve t1", "approve takes <thread> <toolCallId>: missing <toolCallId>"},
		{"show t1 --api localhost", "must be a URL such as"},
		{"list --timeout soon", "invalid argument"},
		{"list --timeout 0", "--timeout is 0s, must be more than 0, such as 20s"},
		{"list --timeout -1s", "--timeout is -1s, must be more than 0"},
		{"list t1 t2", `list takes no arguments, got "t1" "t2"`},
		{"open t1 --agent nobody", `--agent: unknown agent: "nobody"; known are [demo]`},
		{"chat --agent demo --agent nobody", `--agent: unknown agent: "nobody"; known are [demo]`},
		{"send t1 hi --create --agent nobody", `--agent: unknown agent: "nobody"`},
		{"update t1 --agent nobody", `--agent: unknown agent: "nobody"`},
		{"update t1 --add-agent nobody", `--add-agent: unknown agent: "nobody"`},
		{"queue add t1 deploy --agent nobody", `--agent: unknown agent: "nobody"`},
		{"schedule add t1 --every 15m -m hi --open --agent nobody", `--agent: unknown agent: "nobody"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errs := newWorld(t).run("", strings.Fields(c.args)...)
			require.Equal(t, exitUsage, code)
			require.Empty(t, out)
			require.Contains(t, errs, c.problem)
			require.Regexp(t, `Run "starter( \S+)* --help" for usage`, errs)
		})
	}
}

func TestAnEmptyMessageIsRefused(t *testing.T) {
	w := newWorld(t)
	code, _, errs := w.run("\n", "send", "t1", "-")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "message: content: is required")
	code, _, errs = w.run(strings.Repeat("x", signals.MaxPayload+9), "send", "t1", "-")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "must be at most 262144")
	require.Empty(t, w.posts)
}

func TestOpen(t *testing.T) {
	w := newWorld(t)
	out := w.ok("open", "t9", "--agent", "a", "--agent", "b", "--title", "T", "--metadata", "k=v=w", "-m", "hi", "--as", "bob")
	require.Equal(t, "t9\n", out)
	require.Equal(t, signals.Start{Agents: []string{"a", "b"}, Title: "T", Metadata: json.RawMessage(`{"k":"v=w"}`)}, w.opened[0])
	require.JSONEq(t, `{"threadId":"t9","senderId":"bob","senderType":"user","content":"hi"}`, string(w.posts[0].Payload))

	out = w.ok("open", "--json")
	var made opened
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.Len(t, made.ThreadID, 26)

	code, _, errs := w.run("", "open", "taken")
	require.Equal(t, exitFailed, code)
	require.Equal(t, `starter: thread "taken" already exists: "starter send taken …" or "starter chat taken" talks to it`+"\n", errs)
}

func TestSend(t *testing.T) {
	t.Run("from stdin, with an id of its own", func(t *testing.T) {
		w := newWorld(t)
		code, out, _ := w.run("two\nlines\n", "send", "t1", "-", "--id", "e7", "--on-busy", "steer", "--on-waiting", "cancel")
		require.Equal(t, exitOK, code)
		require.Equal(t, "e7\n", out)
		require.Equal(t, event.OnBusySteer, w.posts[0].OnBusy)
		require.Equal(t, event.OnWaitingCancel, w.posts[0].OnWaiting)
		require.Contains(t, string(w.posts[0].Payload), `two\nlines"`)
	})
	t.Run("S2-25 with options of its own", func(t *testing.T) {
		w := newWorld(t)
		out := w.ok("send", "t1", "hi", "--id", "e7", "--priority", "-2", "--ttl", "1m30s", "--agent", "a", "--agent", "b", "--tool", "x", "--tool", "y")
		require.Equal(t, "e7\n", out)
		want := signals.UserMessage("t1", "ann", "hi")
		want.ID, want.Priority, want.TTL, want.Agents, want.Tools = "e7", -2, 90_000, []string{"a", "b"}, []string{"x", "y"}
		require.Equal(t, want, w.posts[0])
		w.run("", "send", "t1", "hi", "--no-tools")
		require.Equal(t, []string{}, w.posts[1].Tools)
		w.run("", "send", "t1", "hi")
		require.Nil(t, w.posts[2].Tools)
		require.Empty(t, w.posts[2].Agents)
		w.run("", "send", "t1", "hi", "--create", "--agent", "a")
		require.Equal(t, []string{"a"}, w.posts[3].Agents, "it answers, whether the thread is new")
		require.Equal(t, []string{"a"}, w.opened[0].Agents, "or not")
	})
	t.Run("and wait", func(t *testing.T) {
		w := newWorld(t)
		out := w.ok("send", "t1", "hello", "--wait")
		require.Equal(t, "you said: hello\n", out)
		out = w.ok("send", "t1", "hello", "--wait", "--json", "--create")
		var result signals.TurnResult
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Equal(t, w.posts[1].ID, result.EventID)
		require.Len(t, w.posts, 2, "the same event twice is one")
	})
	t.Run("and wait across an outage", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(false, "send", "t1", "wait", "--wait")
		require.NoError(t, w.await(t.Context(), func() bool { return w.offset > 0 }))
		w.change(func() { w.down = true })
		require.Eventually(t, func() bool { return strings.Contains(p.err.String(), "does not answer") }, testenv.Patience, 5*time.Millisecond)
		w.change(func() { w.down = false })
		p.exits(exitOK)
		require.Equal(t, "one two\n", p.out.String())
		require.Len(t, w.posts, 1)
	})
	t.Run("a turn that fails", func(t *testing.T) {
		code, out, errs := newWorld(t).run("", "send", "t1", "fail sad", "--wait")
		require.Equal(t, exitFailed, code)
		require.Empty(t, out)
		require.Equal(t, "starter: the turn failed: the model is sad\n", errs)
	})
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t)
		w.fails(exitFailed, "refused: a turn runs", "send", "t1", "hi", "--on-busy", "reject")
		code, _, errs := w.run("", "send", "gone", "hi")
		require.Equal(t, exitFailed, code)
		require.Equal(t, `starter: there is no thread "gone" in namespace "default": "starter list" shows the threads, "starter open gone" makes it`+"\n", errs)
		w.fails(exitFailed, `thread "closed" is closed`, "send", "closed", "hi")
	})
}

func TestDecide(t *testing.T) {
	w := newWorld(t)
	out := w.ok("approve", "t1", "call_1")
	require.Equal(t, "accepted\n", out)
	require.Equal(t, signals.Decide{ToolCallID: "call_1", Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann"}, w.decisions["call_1"])

	out = w.ok("deny", "t1", "call_2", "--reason", "no", "--by", "bob", "--json")
	require.JSONEq(t, `{"result":"accepted"}`, out)
	require.Equal(t, signals.Decide{ToolCallID: "call_2", Decision: event.DecisionDeny, Scope: event.ScopeOnce, By: "bob", Reason: "no"}, w.decisions["call_2"])

	code, _, errs := w.run("", "approve", "t1", "none")
	require.Equal(t, exitFailed, code)
	require.Equal(t, `starter: no tool call "none" waits for approval in this thread`+"\n", errs)
}

func TestControl(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"interrupt", "t1", "--reason", "enough"}, {"close", "t1", "--by", "bob"}, {"interrupt", "t1", "e7"}} {
		w.ok(args...)
	}
	require.Equal(t, []signals.Control{
		{Action: signals.ControlInterrupt, By: "ann", Reason: "enough"},
		{Action: signals.ControlClose, By: "bob"},
		{Action: signals.ControlInterrupt, By: "ann", EventID: "e7"},
	}, w.controls)
}

func TestList(t *testing.T) {
	w := newWorld(t)
	out := w.ok("list", "--all", "--agent", "demo")
	require.Equal(t, `THREAD  STATUS  STARTED              AGENTS      TITLE
t2      failed  2026-01-02 03:04:05  demo,other  Two lines
t1      closed  2026-01-01 03:04:05  (default)   hello t1
`, out, "a thread without a title begins with a message")
	require.Equal(t, threadclient.ListQuery{All: true, Agent: "demo", Default: true, Limit: threadclient.DefaultListLimit}, w.query)
	w.run("", "list", "--agent", "Other")
	require.Equal(t, threadclient.ListQuery{Agent: "other", Limit: threadclient.DefaultListLimit}, w.query, "case does not matter")
	_, out, _ = w.run("", "list", "--json")
	var listed struct{ Threads []threadclient.Summary }
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Len(t, listed.Threads, 2)
	require.Contains(t, out, `"activity": "failing"`)
	require.Contains(t, out, `"preview": "hello t2"`)

	require.Regexp(t, `^THREAD .*\nt0 +failed .* About t0\nt2 +failed .* About t2\n$`, w.ok("list", "--failed"), "every page, and of this namespace only")
	require.Regexp(t, `^THREAD .*\nt1 +unanswered .*\nt3 +unanswered .*\n$`, w.ok("list", "--unanswered"))
	require.Equal(t, 2, strings.Count(w.ok("list", "--failed", "--limit", "1"), "\n"), "a head and a thread")
	code, _, errs := w.run("", "list", "--failed", "--all")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--failed and --unanswered exclude each other")
	w.url = "http://" + nobody
	_, out, errs = w.run("", "list")
	require.Contains(t, out, "t2      open")
	require.Contains(t, errs, "the list does not tell which threads failed, nor how they begin: the Threadmill API does not answer")
}

// TestListByAttention: what Temporal does not know comes from the API, with its order and filters.
func TestListByAttention(t *testing.T) {
	w := newWorld(t)
	require.Regexp(t, `^THREAD .*\nt0 +failed .* About t0\nt1 +unanswered .*\nt2 .*\nt3 .*\n$`, w.ok("list", "--attention"))
	require.Zero(t, w.query, "Temporal is not asked")
	last := func() map[string]string {
		out := map[string]string{}
		for name, values := range w.listings[len(w.listings)-1] {
			out[name] = values[0]
		}
		delete(out, "limit")
		delete(out, "cursor")
		return out
	}
	require.Equal(t, map[string]string{"sort": "attention", "status": "open"}, last())
	for args, want := range map[string]map[string]string{
		"list --tool shell_cmd --waiting":         {"tool": "shell_cmd", "activity": "waiting", "status": "open"},
		"list --older-than 24h --agent x --all":   {"olderThan": "24h", "agent": "x"},
		"list --newer-than 1h --attention":        {"newerThan": "1h", "sort": "attention", "status": "open"},
		"list --expires-before 1h":                {"expiresBefore": "1h", "status": "open"},
		"list --min-tokens 5000":                  {"minTokens": "5000", "status": "open"},
		"list --failed --tool x --agent y":        {"activity": "failing", "tool": "x", "agent": "y", "status": "open"},
		"counts --tool shell_cmd --older-than 1h": {"tool": "shell_cmd", "olderThan": "1h"},
	} {
		w.run("", strings.Fields(args)...)
		require.Equal(t, want, last(), args)
	}
}

func TestCounts(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, `open         12
  waiting    4
  failing    0
  running    0
  unanswered 0
  idle       8
closed       3
`, w.ok("counts"))
	require.JSONEq(t, `{"open":12,"closed":3,"waiting":4,"failing":0,"running":0,"unanswered":0,"idle":8}`, w.ok("counts", "--json"))
}

// TestListOfNone: an empty list names what it would list.
func TestListOfNone(t *testing.T) {
	w := newWorld(t)
	w.listed = []threadclient.Summary{}
	for args, want := range map[string]string{
		"":                    "no open threads (--all has closed ones too)",
		"--all":               "no threads",
		"--waiting":           "no threads wait for approval",
		"--agent demo":        `no open threads of agent "demo" (--all has closed ones too)`,
		"--waiting --agent x": `no threads of agent "x" wait for approval`,
	} {
		code, out, errs := w.run("", append([]string{"list"}, strings.Fields(args)...)...)
		require.Equal(t, exitOK, code)
		require.Empty(t, out)
		require.Equal(t, want+` in namespace "default"`+"\n", errs)
	}
}

// TestListSubAgents shows the threads of sub-agents with their parents.
func TestListSubAgents(t *testing.T) {
	w := newWorld(t)
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	w.listed = []threadclient.Summary{
		{ThreadID: "t1.s1", Status: "open", Parent: "t1", Agents: []string{"reader"}, Title: "reader for demo", StartTime: started},
		{ThreadID: "t1", Status: "open", StartTime: started},
	}
	out := w.ok("list")
	require.Equal(t, `THREAD  PARENT  STATUS      STARTED              AGENTS     TITLE
t1.s1   t1      open        2026-01-02 03:04:05  reader     reader for demo
t1      -       unanswered  2026-01-02 03:04:05  (default)  hello t1
`, out)
	_, out, _ = w.run("", "list", "--json")
	require.Contains(t, out, `"parent": "t1"`)
}

// TestShowSubAgents shows the child threads that a thread waits for, and its parent.
func TestShowSubAgents(t *testing.T) {
	w := newWorld(t)
	w.state.Status, w.state.Parent = signals.ThreadRunning, "t0"
	w.state.Turn = &signals.TurnState{Runs: []signals.RunState{
		{Agent: "demo", Step: 1, Doing: "tools", Tools: []string{"call_agent", "call_agent"}, Threads: []string{"t1.s1", "t1.s2"}},
	}}
	out := w.ok("show", "t1")
	require.Contains(t, out, "thread t1 · running · demo\n  works for thread t0\n  demo: step 1, tools (call_agent, call_agent) in t1.s1, t1.s2\n")
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	w.say("m1", "ann", event.CreatedByUser, "hello")
	w.say("m2", "demo", event.CreatedByAgent, "hello, ann")
	w.state.Approvals, w.state.Title = 1, "A talk"
	w.state.Failed = []event.Item{{ID: "e1", Error: "no\nkey"}}
	w.waiting = []event.ApprovalRequest{{ToolCallID: "call_7", ToolName: "shell_cmd", Arguments: `{}`}}
	out := w.ok("show", "t1")
	require.Equal(t, `thread t1 · idle · demo · A talk
  waiting: 0 events, 1 approvals · tokens: 0 in (0 cached, 0 written to the cache), 0 out, 0 model calls · history: 0 events
  failed: e1: no key

ann › hello
demo › hello, ann
? shell_cmd {} wants to run
  starter approve t1 call_7   or   starter deny t1 call_7
`, out)
	_, out, _ = w.run("", "show", "t1", "--json")
	var all shown
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Equal(t, "hello, ann", all.Messages[1].Content)
	require.Equal(t, "call_7", all.Pending[0].ToolCallID)

	w.down = true
	code, out, errs := w.run("", "show", "t1")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "thread t1 · idle")
	require.Contains(t, errs, "the API answers 503")
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.say("m1", "ann", event.CreatedByUser, "hello")
	p := w.start(false, "watch", "t1")
	p.shows("ann › hello\n")
	w.change(func() { w.down = true })
	p.shows(lostText)
	w.change(func() { w.down = false })
	p.shows(backText)
	w.reply("e1", "some words")
	p.shows("demo › some words\n")
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed}})
	p.exits(exitOK)
	require.Equal(t, 1, strings.Count(p.out.String(), "hello"))

	out := w.ok("watch", "t1", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, len(w.events))
	for i, line := range lines {
		want, err := json.Marshal(map[string]any{"id": w.ids[i], "event": w.events[i]})
		require.NoError(t, err)
		require.JSONEq(t, string(want), line)
	}
	require.Equal(t, strings.Join(lines[2:], "\n"), strings.TrimSpace(w.ok("watch", "t1", "--json", "--after", w.ids[1])), "it goes on behind an id")

	last := w.ids[len(w.ids)-1]
	require.Equal(t, closedText+"\n", w.ok("watch", "t1", "--after", last), "there is nothing behind the end")
	require.Empty(t, w.ok("watch", "t1", "--json", "--after", last))
}

func TestTimestamps(t *testing.T) {
	w := newWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	m := &event.Message{ID: "m1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello\nyou"}
	w.record(event.AgentEvent{Type: event.EventMessage, Message: m, CreatedAt: at})
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed}, CreatedAt: at.Add(time.Minute)})
	require.Equal(t, "2026-01-02 03:04:05 ann › hello\nyou\n2026-01-02 03:05:05 · thread closed\n", w.ok("watch", "t1", "--timestamps"))
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^starter version \S+ go1\.\d+`, newWorld(t).ok("--version"))
}

func TestMisspelledNames(t *testing.T) {
	w := newWorld(t)
	w.listed = []threadclient.Summary{{ThreadID: "gone-2"}, {ThreadID: "other"}, {ThreadID: "gome"}}
	for args, want := range map[string]string{
		"send gone hi":           "did you mean gome, gone-2?",
		"chat gone":              "did you mean gome, gone-2?",
		"open --agent nobody":    "known are [demo]",
		"open --agent oter":      `no agent "oter"; did you mean other?`,
		"agents show dmo":        "did you mean demo?",
		"agents history dmeo":    "did you mean demo?",
		"agents delete othe":     "did you mean other?",
		"schedul list":           "did you mean schedule?",
		"agents shwo demo":       "did you mean show?",
		"send gone hi --timeotu": "unknown flag: --timeotu",
	} {
		t.Run(args, func(t *testing.T) {
			code, _, errs := w.run("", strings.Fields(args)...)
			require.NotEqual(t, exitOK, code)
			require.Contains(t, errs, want)
		})
	}
}

func TestWatchWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	w.url = srv.URL
	w.listed = []threadclient.Summary{{ThreadID: "gome"}}
	w.fails(exitFailed, `there is no thread "gone" in namespace "default": "starter list" shows the threads, "starter open gone" makes it; did you mean gome?`, "watch", "gone")
	w.url = "http://" + nobody
	errs := w.fails(exitFailed, "the Threadmill API does not answer at "+w.url+`: start it with "go run ./devserver"`, "watch", "t1")
	require.Equal(t, 1, strings.Count(errs, "\n"))
}

// nobody is an address without a listener: no system assigns this port.
const nobody = "127.0.0.1:1"

// The only test that dials.
func TestTemporalDoesNotAnswer(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", nobody)
	var out, errs testenv.Buffer
	code := Run(t.Context(), []string{"list"}, strings.NewReader(""), &out, &errs)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs.String(), "Temporal does not answer at "+nobody+`: start it with "go run ./devserver", or name another with --address or TEMPORAL_ADDRESS`)
	require.Equal(t, 1, strings.Count(errs.String(), "\n"))
}

func TestHelp(t *testing.T) {
	for command, names := range map[string]string{
		"--help":   "open send chat watch show list approve deny interrupt close retry queue publish",
		"queue":    "list show add current next set-status retry",
		"task":     "list show complete cancel",
		"schedule": "add list show pause resume trigger delete",
		"agents":   "list show set delete history",
	} {
		out := newWorld(t).ok(command)
		for _, name := range strings.Fields(names) {
			require.Contains(t, out, "\n  "+name+" ")
		}
	}
}

// TestNobodyAnswers: the error names the task queue of the thread, and the command that starts a
// worker.
func TestNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	w.polled = false
	w.fails(exitFailed, `no worker runs on task queue "queue of silent": start one with "go run ./worker --task-queue 'queue of silent'"`, "queue", "show", "silent", "e1")
	w.polled = true
	w.fails(exitFailed, `the worker on task queue "queue of silent" did not answer in time: it is busy or has just stopped`, "update", "silent", "--title", "new")
	p := w.start(false, "chat", "silent")
	p.exits(exitFailed)
	require.Contains(t, p.err.String(), `task queue "queue of silent"`)
}

// TestNobodyWorks: commands that wait say that no worker runs, and wait on.
func TestNobodyWorks(t *testing.T) {
	says := func(p *program, text fmt.Stringer, want string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(text.String(), want) }, testenv.Patience, testenv.Tick, "want %q in:\n%s", want, text)
	}
	const missing = `task queue "queue of t1" has no worker: none polls it, and messages wait for one; start one with "go run ./worker --task-queue 'queue of t1'"`
	t.Run("send", func(t *testing.T) {
		w := newWorld(t)
		w.polled = false
		p := w.start(false, "send", "t1", "wait", "--wait")
		says(p, p.err, missing+"\n")
		w.change(func() { w.polled = true })
		says(p, p.err, againText+"\n")
		w.change(func() { w.controls = append(w.controls, signals.Control{}) })
		p.exits(exitFailed)
		require.Equal(t, 1, strings.Count(p.err.String(), missing), "it is said once")
	})
	t.Run("chat", func(t *testing.T) {
		w := newWorld(t)
		w.polled = false
		p := w.start(false, "chat", "t1")
		p.types("wait\n")
		p.shows(missing)
		w.change(func() { w.polled = true })
		p.shows(againText)
		p.types("/interrupt\n/quit\n")
		p.exits(exitOK)
		require.Equal(t, 1, strings.Count(p.out.String(), missing))
	})
	t.Run("watch", func(t *testing.T) {
		w := newWorld(t)
		w.polled = false
		p := w.start(false, "watch", "t1")
		says(p, p.err, `task queue "common" has no worker: none has polled it since `)
		w.change(func() { w.polled = true })
		says(p, p.err, againText+"\n")
		w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed}})
		p.exits(exitOK)
	})
}

// TestAgentsAreTakenUnchecked: a command that Temporal can answer needs no API.
func TestAgentsAreTakenUnchecked(t *testing.T) {
	w := newWorld(t)
	w.url = "http://" + nobody
	code, out, errs := w.run("", "open", "t1", "--agent", "demo")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, "t1\n", out)
	require.Contains(t, errs, "could not check whether the agents exist: the Threadmill API does not answer at ")
	require.Equal(t, []string{"demo"}, w.opened[0].Agents)
}
