package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

const ruleAgents = "agents: [{name: assistant, model: demo/demo}, {name: Reviewer, model: demo/demo}]\n"

func parseRules(t *testing.T, text string) []rule.Rule {
	t.Helper()
	c, err := Parse("f", []byte(ruleAgents+text), "", Env(env()))
	require.NoError(t, err)
	return c.Rules
}

// TestRules is row S3-58: rules come from the configuration file.
func TestRules(t *testing.T) {
	above, below, no := 10.5, -3.0, false
	rules := parseRules(t, `
rules:
  - events: file.changed
    priority: 30
  - name: everything
    events: [github.*, "*"]
    where:
      - {field: payload.branch, equals: main}
      - {field: payload.draft, not: true}
      - {field: payload.id, in: [1, 2.5, "3", null, 9007199254740993, 184467440737095516160, "184467440737095516160"]}
      - {field: payload.size, above: 10.5}
      - {field: payload.size, below: -3}
      - {field: payload.ref, prefix: refs/}
      - {field: payload.labels, contains: {name: bug, at: [1, {}]}}
      - {field: metadata.env_name, exists: false}
      - field: payload.text
        equals: |
          two
          lines
    priority: 1000000
    enabled: true
    debounce: 1m30s
    log: true
    agent:
      name: reviewer
      prompt: Review the push.
      systemPrompt: |
        You are strict.
  - {name: orders, events: order.*, priority: 11, throttle: 24h, processor: orders, log: false}
  - {events: order.lost, enabled: false}
  - {events: [order.found], priority: 20, agent: {}}
  - {name: fallback, events: "*", priority: -7}
`)
	require.Equal(t, []rule.Rule{
		{Events: []string{"file.changed"}, Priority: 30},
		{
			Name: "everything", Events: []string{"github.*", "*"}, Priority: 1000000, Debounce: 90 * time.Second, Log: true,
			Where: []rule.Condition{
				{Field: "payload.branch", Equals: "main"},
				{Field: "payload.draft", Not: true},
				{Field: "payload.id", In: []any{
					json.Number("1"), 2.5, "3", nil, json.Number("9007199254740993"), json.Number("184467440737095516160"), "184467440737095516160",
				}},
				{Field: "payload.size", Above: &above},
				{Field: "payload.size", Below: &below},
				{Field: "payload.ref", Prefix: "refs/"},
				{Field: "payload.labels", Contains: map[string]any{"name": "bug", "at": []any{json.Number("1"), map[string]any{}}}},
				{Field: "metadata.env_name", Exists: &no},
				{Field: "payload.text", Equals: "two\nlines\n"},
			},
			Agent: &rule.Agent{Name: "reviewer", Prompt: "Review the push.", SystemPrompt: "You are strict.\n"},
		},
		{Name: "orders", Events: []string{"order.*"}, Priority: 11, Throttle: 24 * time.Hour, Processor: "orders"},
		{Events: []string{"order.lost"}, Disabled: true},
		{Events: []string{"order.found"}, Priority: 20, Agent: &rule.Agent{}},
		{Name: "fallback", Events: []string{"*"}, Priority: -7},
	}, rules)

	set, err := rule.NewSet(rule.Config{Source: fixed(rules)})
	require.NoError(t, err)
	for typ, want := range map[string]string{"file.changed": "file.changed", "order.found": "order.found", "order.lost": "orders", "x": "fallback"} {
		got, ok := rule.Match(set.Specs(), event.EnvEvent{Type: typ})
		require.True(t, ok)
		require.Equal(t, want, got.Name)
	}
	require.Nil(t, parseRules(t, ""))
	require.Empty(t, parseRules(t, "rules: []\n"))
}

type fixed []rule.Rule

func (f fixed) Rules() []rule.Rule { return f }

// TestRulesTogether: mistakes that only all rules together have.
func TestRulesTogether(t *testing.T) {
	t.Run("they are too large", func(t *testing.T) {
		var text strings.Builder
		text.WriteString("agents: [{name: a, model: demo/demo}]\nrules:\n")
		for i := range 17 {
			fmt.Fprintf(&text, "  - {name: r%d, events: build.done, priority: 30, agent: {prompt: %s}}\n", i, strings.Repeat("x", rule.MaxPrompt))
		}
		_, err := Parse("f", []byte(text.String()), "", Env(env()))
		require.ErrorContains(t, err, "f:2:1: rules: is ")
		require.ErrorContains(t, err, "bytes as JSON, must be at most 262144: shorten prompts and lists")
	})
	t.Run("their conditions have too many values", func(t *testing.T) {
		in := "[" + strings.Repeat("1,", maxValues/2) + "1]"
		_, err := Parse("f", []byte(ruleAgents+"rules:\n  - events: x\n    priority: 30\n    where:\n"+
			"      - {field: payload.x, in: &many "+in+"}\n      - {field: payload.x, in: *many}\n      - {field: payload.x, in: *many}\n"), "", Env(env()))
		require.ErrorContains(t, err, "f:6:10037: rules[0].where[1].in[4999]: ")
		require.ErrorContains(t, err, "is too much: a file has at most 10000 values in its schemas and conditions, at most 20 deep")
		require.Equal(t, 1, strings.Count(err.Error(), "too much"), "said once")
	})
	t.Run("a rule that another one lets through is no mistake", func(t *testing.T) {
		require.Len(t, parseRules(t, "rules: [{events: file.changed}, {name: fallback, events: other, priority: 1}]\n"), 2)
	})
}

// TestSourceFollowsRules: unlike hooks, they apply at once.
func TestSourceFollowsRules(t *testing.T) {
	rules := func(list string) string { return prompt("one") + "rules: [" + list + "]\n" }
	f := follow(t, rules("{name: r, events: file.changed, priority: 30}"))
	set, err := rule.NewSet(rule.Config{Rules: []rule.Rule{{Name: "go", Events: []string{"file.changed"}, Priority: 25}}, Source: f.source})
	require.NoError(t, err)
	match := func() string {
		got, _ := rule.Match(set.Specs(), event.EnvEvent{Type: "file.changed"})
		return got.Name
	}
	require.Equal(t, "r", match())
	first := &f.source.Rules()[0]
	f.later()
	require.Same(t, first, &f.source.Rules()[0], "nothing has changed, and nobody has to look")

	f.write(f.path, rules("{name: r, events: file.deleted, priority: 30}"))
	require.Equal(t, "r", match(), "looked within the second")
	f.later()
	require.Equal(t, "go", match())

	f.write(f.path, rules("{name: s, events: file.changed, priority: 40}, {name: go, events: file.changed, priority: 50}"))
	f.later()
	require.Equal(t, "s", match(), "S3-58 a new rule; what is declared in Go keeps its name")
	require.Zero(t, f.logged("restart"), f.log.String())

	f.write(f.path, rules("{name: s, events: file.changed, priority: 5}"))
	f.later()
	require.Equal(t, "s", match(), "a broken file changes nothing")
	require.Equal(t, 1, f.logged(mistakes), f.log.String())
	require.Contains(t, f.log.String(), "rules[0].priority: 5 is below the default rule fallback")

	f.write(f.path, rules("{name: s, events: file.changed, priority: 50, agent: {name: b}}"))
	f.later()
	require.Equal(t, "s", match(), "an agent that is not there")
	require.Contains(t, f.log.String(), `rules[0].agent.name: unknown agent`)

	f.write(f.path, prompt("two"))
	require.Equal(t, "two", f.later().Instructions)
	require.Equal(t, "go", match(), "mended, and without rules")
}

// TestRulesOfTheDocs: examples that people copy are right.
func TestRulesOfTheDocs(t *testing.T) {
	for path, least := range map[string]int{"../../docs/rules.md": 3, "../../docs/configuration.md": 1} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		examples := 0
		for _, block := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
			if example := strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n"); strings.HasPrefix(example, "\nrules:") {
				require.NotEmpty(t, parseRules(t, example), example)
				examples++
			}
		}
		require.GreaterOrEqual(t, examples, least, path)
	}
	t.Run("and so is the mistake that they show", func(t *testing.T) {
		_, err := Parse("threadmill.yaml", []byte(ruleAgents+strings.Repeat("\n", 9)+"rules:\n  - events: file.changed\n"), "", Env(env()))
		text, readErr := os.ReadFile("../../docs/rules.md")
		require.NoError(t, readErr)
		require.ErrorContains(t, err, "threadmill.yaml:12:5: ")
		require.Contains(t, string(text), "\n"+err.Error()+"\n")
	})
}
