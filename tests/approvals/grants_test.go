package approvals

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// calls makes the agent call a tool with each of these arguments, in one reply, and returns the
// calls that need approval, which are then denied.
func (c talk) calls(name string, want int, arguments ...string) (asked []string) {
	c.t.Helper()
	var lines []string
	for _, a := range arguments {
		lines = append(lines, "use "+name+" "+a)
	}
	posted := c.post(lines...)
	for _, q := range c.AwaitApproval(c.id, want) {
		asked = append(asked, q.Arguments)
		c.decides(signals.DecideAccepted, check.Denying(q))
	}
	c.completes(posted)
	return asked
}

// commands are arguments with one text each.
func commands(texts ...string) (out []string) {
	for _, text := range texts {
		raw, err := json.Marshal(map[string]string{"command": text})
		if err != nil {
			panic(err) // a string can be marshalled
		}
		out = append(out, string(raw))
	}
	return out
}

// TestGrantForTheSessionDoesNotWiden: a grant does not cover calls that look like the granted one.
func TestGrantForTheSessionDoesNotWiden(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	const granted = `{"command":"cat Notes","path":"docs/a","n":1,"who":"café"}`
	posted, q := c.asks("use spied " + granted)
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)

	change := func(old, now string) string {
		require.Contains(t, granted, old)
		return strings.Replace(granted, old, now, 1)
	}
	others := []string{
		change("cat", "CAT"), change("Notes", "notes"), change("command", "Command"), // case
		change("docs/a", "docs/../docs/a"), change("docs/a", "./docs/a"), change("docs/a", "docs//a"), change("docs/a", "docs/a/"), // paths
		change("cat", "cаt"), change("cat", "ｃat"), change("cat", "c\u200bat"), change("é", "e\u0301"), change("at N", "at\u00a0N"), // look-alikes
		change("Notes", "Notes "), change("Notes", "Notes;id"), change("Notes", `Notes\nid`), change("Notes", `Notes\u0000`), // more
		change(`1`, `1.0`), change(`1`, `"1"`), change(`1`, `true`), change(`1`, `[1]`), change(`1`, `null`), change(`"n":1,`, ``), // types
		change(`1`, `1,"more":null`), change(`"docs/a"`, `["docs/a"]`), change(granted, `{"a":`+granted+`}`), // shapes
	}
	t.Run("S4-81 what only looks the same asks", func(t *testing.T) {
		require.ElementsMatch(t, others, c.calls("spied", len(others), others...))
		require.Len(t, s.Seen(), 1)
	})
	t.Run("one argument in two does not even ask", func(t *testing.T) {
		c.runsUnasked("use spied " + change(`1`, `1,"command":"rm"`))
		answers := check.ResultsOf(c.Harness, c.id, "spied")
		require.Contains(t, answers[len(answers)-1].Content, "command: is given twice")
		require.Len(t, s.Seen(), 1)
	})
	t.Run("S4-80 the same in other letters of JSON runs", func(t *testing.T) {
		c.runsUnasked("use spied "+change("cat", `c\u0061t`), `use spied { "who": "caf\u00e9", "n": 1, "path": "docs\/a", "command": "cat Notes" }`)
		require.Len(t, s.Seen(), 3)
	})
}

// TestGrantByPatternDoesNotWiden: a grant by pattern does not cover calls beside it.
func TestGrantByPatternDoesNotWiden(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {"command":"git log"}`)
	d := check.Approving(q)
	d.Scope, d.Pattern = event.ScopePattern, map[string]string{"command": "git log*"}
	c.decides(signals.DecideAccepted, d)
	c.completes(posted)

	t.Run("what fits runs unasked", func(t *testing.T) {
		c.runsUnasked("use spied " + strings.Join(commands("git log", "git log --oneline -n 5", "git log main..topic"), "\nuse spied "))
		require.Len(t, s.Seen(), 4)
	})
	t.Run("what a shell makes more of asks", func(t *testing.T) {
		others := commands(
			"git log; rm -r x", "git log && id", "git log || id", "git log | sh", "git log & id", "git log > x", "git log < x",
			"git log $(id)", "git log `id`", "git log ${IFS}x", "git log $HOME", "git log\nid", "git log\r\nid", "git log\tx", "git log \\\nx",
			"git log 'x'", `git log "x"`, "git log ~root", "git log *", "git log ?", "git log [a]", "git log {a,b}", "git log !x", "git log #x",
			"git log ../..", "git log %2e%2e", "git log a/b", "git log \x00", "git log \u202eid", "git log \u200b", "git log ；id", "git log ＆ id",
		)
		require.ElementsMatch(t, others, c.calls("spied", len(others), others...))
	})
	t.Run("what begins otherwise asks", func(t *testing.T) {
		others := commands("GIT LOG", "git  log", " git log", "git\u00a0log", "gіt log", "git lo", "id;git log", "")
		require.ElementsMatch(t, others, c.calls("spied", len(others), others...))
	})
	t.Run("other arguments are not free", func(t *testing.T) {
		others := []string{
			`{"command":"git log -1","directory":"/"}`, `{"command":["git log -1"]}`, `{"command":{"git log":1}}`, `{"Command":"git log -1"}`, `{}`,
		}
		require.ElementsMatch(t, others, c.calls("spied", len(others), others...))
	})
	t.Run("another thread asks", func(t *testing.T) { o.talk(t).denied(`use spied {"command":"git log"}`) })
	require.Len(t, s.Seen(), 4)
}

// TestGrantsAreOfOneAgent: a grant does not cover calls of another agent.
func TestGrantsAreOfOneAgent(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"spied"}}, {Name: "bob", Model: "openai/stand-in", Tools: []string{"spied"}},
	}}).talk(t, "alice", "bob")
	posted, q := c.asks("@alice", "use spied {}")
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)
	c.runsUnasked("@alice", "use spied {}")
	c.denied("@bob", "use spied {}")
	require.Len(t, s.Seen(), 2)
}

// TestToolChangesAfterApproval: a changed definition of the tool ends approvals.
func TestToolChangesAfterApproval(t *testing.T) {
	t.Parallel()
	parameters := func(d *tool.Definition) {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{"force":{"type":"boolean","default":true}},"additionalProperties":true}`)
	}
	description := func(d *tool.Definition) { d.Description = "Remembers, and deletes." }
	for name, change := range map[string]func(*tool.Definition){"its description": description, "its parameters": parameters} {
		t.Run(name, func(t *testing.T) {
			s := newRedefined("spied", nil)
			c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
			posted, q := c.asks("use spied {}")
			s.redefine(change)
			c.decides(signals.DecideAccepted, granting(q))
			next := c.again(q)
			require.Contains(t, next.Reason, "the tool has changed since the call was approved")
			require.Equal(t, q.Digest, next.Digest, "it is the same call")
			require.NotEqual(t, q.Definition, next.Definition)
			require.Empty(t, s.Seen())
			c.decides(signals.DecideAccepted, granting(next))
			c.completes(posted)
			require.Len(t, s.Seen(), 1)
			c.runsUnasked("use spied {}")

			s.redefine(func(d *tool.Definition) { d.Description = "Is another one." })
			c.denied("use spied {}")
			s.redefine(change)
			c.runsUnasked("use spied {}")
			require.Len(t, s.Seen(), 3)
		})
	}
}

// barrier holds the calls of a thread between their plan and their effect.
type barrier struct {
	reached, open chan struct{}
}

func newBarrier() *barrier {
	return &barrier{make(chan struct{}, 100), make(chan struct{}, 100)}
}

// hook waits at calls whose arguments ask for it.
func (b *barrier) hook() hook.Hook {
	h := hook.OnToolCall("barrier", func(ctx context.Context, e event.ToolCallEvent) (hook.Result, error) {
		if !slices.ContainsFunc(e.ToolCalls, func(c event.ToolCall) bool { return strings.Contains(c.Function.Arguments, "barrier") }) {
			return hook.Pass(), nil
		}
		b.reached <- struct{}{}
		select {
		case <-b.open:
			return hook.Pass(), nil
		case <-ctx.Done():
			return hook.Result{}, ctx.Err()
		}
	})
	h.Timeout = testenv.Patience
	return h
}

// TestRevokedBeforeItRuns revokes an approval before the call has begun to run.
func TestRevokedBeforeItRuns(t *testing.T) {
	t.Parallel()
	s, b := check.NewSpy("spied", tool.NeedsApproval("")), newBarrier()
	o := newOffice(t, harness.Options{NoWorker: true, Tools: []tool.Tool{s}, Configure: func(cfg *threadmill.Config) { cfg.Hooks = []hook.Hook{b.hook()} }})
	stop := o.StartWorker()
	t.Run("an approval, while no worker runs", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asks("use spied {}")
		stop()
		c.signals(signals.SignalDecide, check.Approving(q))
		c.signals(signals.SignalRevoke, signals.Revoke{ToolCallID: q.ToolCallID, By: "ben"})
		o.StartWorker()
		next := c.again(q)
		require.Contains(t, next.Reason, "the approval was taken back")
		require.Empty(t, s.Seen())
		c.decides(signals.DecideMismatch, check.Approving(q))
		c.decides(signals.DecideAccepted, check.Denying(next))
		c.completes(posted)
		require.Empty(t, s.Seen())
	})
	t.Run("a grant, when the next call was planned by it", func(t *testing.T) {
		c := o.talk(t)
		const call = `use spied {"at":"barrier"}`
		posted := c.post(call)
		<-b.reached
		b.open <- struct{}{}
		q := c.AwaitApproval(c.id, 1)[0]
		c.decides(signals.DecideAccepted, granting(q))
		c.completes(posted)
		require.Len(t, s.Seen(), 1)

		posted = c.post(call)
		<-b.reached
		out, err := c.Threads.Revoke(c.Ctx(), c.id, signals.Revoke{ToolCallID: q.ToolCallID, By: "ben", Reason: "too wide"})
		require.NoError(t, err)
		require.Equal(t, signals.DecideAccepted, out)
		b.open <- struct{}{}
		next := c.AwaitApproval(c.id, 1)[0]
		require.NotEqual(t, q.ToolCallID, next.ToolCallID)
		require.Equal(t, 2, next.Round, "it was covered, and is not any more")
		require.Contains(t, next.Reason, "the approval that covered the call holds no more")
		require.Len(t, s.Seen(), 1)
		c.decides(signals.DecideAccepted, check.Approving(next))
		c.completes(posted)
		require.Len(t, s.Seen(), 2)
	})
}

// TestDenyRuleAddedLater changes an agent's policy while its approved call waits to run.
func TestDenyRuleAddedLater(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}},
	}}).talk(t, "clerk")
	posted, q := c.asks("use spied {}")
	check.CallAPI(c.Harness, http.MethodPut, "/v1/agents/clerk", `{"model":"openai/stand-in","tools":["spied"],"approvalRules":[
		{"name":"closed","effect":"deny","tools":["spied"],"reason":"nobody spies any more"}]}`, http.StatusCreated)
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)
	require.Empty(t, s.Seen(), "it was approved, but the rule wins")
	require.Contains(t, c.result(q).Content, "nobody spies any more")
	require.Contains(t, c.lastShown(), "nobody spies any more")
	require.Equal(t, store.ToolDenied, check.Only(t, check.ToolLogs(c.Harness, c.id)).Status)

	c.completes(c.post("use spied {}"))
	require.Empty(t, s.Seen(), "what was granted is denied as well")
	check.CallAPI(c.Harness, http.MethodDelete, "/v1/agents/clerk", "", http.StatusNoContent)
	c.runsUnasked("use spied {}")
	require.Len(t, s.Seen(), 1)
}
