package events

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestRules publishes events of many types to one running thread, and checks which rule's function
// was called.
func TestRules(t *testing.T) {
	t.Parallel()
	l := newLedger()
	high, disabled, mains, fallback := l.rule("high", "prio.high"), l.rule("disabled", "github.*"), l.rule("mains", "github.push"), l.rule(rule.NameFallback, "*")
	high.Priority, disabled.Priority, disabled.Disabled, mains.Priority, fallback.Priority = 40, 90, true, 50, 10
	mains.Where = []rule.Condition{{Field: "payload.branch", Equals: "main"}, {Field: "metadata.source", Equals: "env"}}
	w := ruled(t, harness.Options{},
		l.rule("exact", "file.changed"), l.rule("array", "build.started", "build.ended"), l.rule("prefix", "github.*"),
		l.rule("low", "prio.*"), l.rule("equal", "prio.*"), high, disabled, mains, fallback)
	thread := w.Open()
	branch := func(name string) any { return map[string]string{"branch": name} }
	for _, tt := range []struct {
		row, typ string
		payload  any
		want     string
	}{
		{"S3-15 S3-rule_matching_exact the type itself", "file.changed", nil, "exact"},
		{"S3-15 no longer one", "file.changed.twice", nil, rule.NameFallback},
		{"S3-15 upper and lower case differ", "File.changed", nil, rule.NameFallback},
		{"S3-16 S3-rule_matching_array the first of an array", "build.started", nil, "array"},
		{"S3-16 the last of an array", "build.ended", nil, "array"},
		{"S3-16 none of an array", "build.paused", nil, rule.NameFallback},
		{"S3-17 what begins so", "github.issue", nil, "prefix"},
		{"S3-17 and has more parts", "github.issue.closed", nil, "prefix"},
		{"S3-17 what does not begin so", "githubs.issue", nil, rule.NameFallback},
		{"S3-18 S3-rule_matching_wildcard anything else", "moon.rises", nil, rule.NameFallback},
		{"S3-19 S3-rule_priority of several the highest", "prio.high", nil, "high"},
		{"S3-19 of equals the first", "prio.low", nil, "low"},
		{"S3-20 a disabled one is not asked", "github.star", nil, "prefix"},
		{"conditions that hold", "github.push", branch("main"), "mains"},
		{"conditions that do not", "github.push", branch("dev"), "prefix"},
	} {
		t.Run(tt.row, func(t *testing.T) {
			e := check.Happened(tt.typ, tt.payload)
			require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
			require.Equal(t, []string{tt.want}, l.by(e.ID), "one rule handles it, and only that")
		})
	}
	require.Zero(t, w.Provider.Calls())

	t.Run("S3-21 one that is registered holds for the next event", func(t *testing.T) {
		before, after := check.Happened("late.one", nil), check.Happened("late.two", nil)
		check.Handle(w, thread, before)
		require.Equal(t, []string{rule.NameFallback}, l.by(before.ID))
		late := l.rule("late", "late.*")
		require.NoError(t, w.Runtime.RegisterRule(late))
		check.Handle(w, thread, after)
		require.Equal(t, []string{"late"}, l.by(after.ID))
		t.Run("and they are sorted again", func(t *testing.T) {
			higher, e := l.rule("higher", "late.*"), check.Happened("late.three", nil)
			higher.Priority = 31
			require.NoError(t, w.Runtime.RegisterRule(higher))
			check.Handle(w, thread, e)
			require.Equal(t, []string{"higher"}, l.by(e.ID))
		})
		var field *event.FieldError
		require.ErrorAs(t, w.Runtime.RegisterRule(late), &field, "its name is taken")
		require.Equal(t, "name", field.Field)
	})
	t.Run("S3-22 S3-function_handler the function has the event, and what it is about", func(t *testing.T) {
		e := check.Happened("file.changed", map[string]string{"path": "a.go"})
		e.Metadata.Extra = map[string]json.RawMessage{"retries": json.RawMessage("2")}
		check.Handle(w, thread, e)
		calls := l.calls(thread)
		got := calls[len(calls)-1]
		e.Metadata.TriggerSessionID = thread
		require.Equal(t, e, got.event)
		require.Equal(t, rule.Context{Rule: "exact", Namespace: w.TaskQueue, ThreadID: thread, TraceID: e.ID, Attempt: 1}, got.Context)
	})
}

// TestRuleChanges: a thread keeps the rule with which it has started to handle an event.
func TestRuleChanges(t *testing.T) {
	t.Parallel()
	l := newLedger()
	w := ruled(t, harness.Options{}, l.rule("files", "file.*"))
	thread, e := w.Open(), check.Happened("file.changed", nil)
	halt := l.halts(e.ID)
	publish(w, thread, e)
	<-halt.Reached
	higher := l.rule("higher", "file.*")
	higher.Priority = 90
	require.NoError(t, w.Runtime.RegisterRule(higher))
	halt.Release()
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, e).Status)
	require.Equal(t, []string{"files"}, l.by(e.ID))
	next := check.Happened("file.changed", nil)
	check.Handle(w, thread, next)
	require.Equal(t, []string{"higher"}, l.by(next.ID))
}

// TestRuleFile covers rules in a configuration file.
func TestRuleFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "threadmill.yaml")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	const head = `
models:
  openai: {type: demo}
agents:
  - {name: assistant, model: openai/stand-in, instructions: You help.}
`
	ruleOf := func(prompt string) string {
		return head + "rules:\n  - {name: files, events: file.*, priority: 30, agent: {name: assistant, prompt: " + prompt + "}}\n"
	}
	write(ruleOf("Look at the file."))
	log := &check.Logbook{}
	source, err := config.Open(path, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	w := ruled(t, harness.Options{Configure: func(c *threadmill.Config) { c.RuleSource = source }})
	thread := w.Open()
	system := func() string {
		t.Helper()
		w.Provider.Reset()
		require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, check.Happened("file.changed", nil)).Status)
		return check.Only(t, check.ModelCalls(w)).Instructions()
	}
	t.Run("S3-58 rules are read from a file", func(t *testing.T) {
		require.Equal(t, "You help.\n\nLook at the file.", system())
	})
	t.Run("S3-58 an edit holds for the next event of a running thread", func(t *testing.T) {
		write(ruleOf("Leave the file alone."))
		require.Eventually(t, func() bool { return strings.Contains(system(), "Leave the file alone.") }, testenv.Patience, testenv.Tick)
		require.Equal(t, "You help.\n\nLeave the file alone.", system())
	})
	t.Run("S3-58 a mistake changes nothing", func(t *testing.T) {
		write(head + "rules:\n  - {events: 7}\n")
		require.Eventually(t, func() bool {
			system()
			return len(log.Lines("the configuration has mistakes")) == 1
		}, testenv.Patience, testenv.Tick)
		require.Equal(t, "You help.\n\nLeave the file alone.", system())
	})
	t.Run("S3-58 without rules the default ones are back", func(t *testing.T) {
		write(head)
		require.Eventually(t, func() bool { return strings.Contains(system(), rule.FallbackPrompt) }, testenv.Patience, testenv.Tick)
	})
}
