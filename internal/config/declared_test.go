package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/hook"
)

// TestDeclared: a file may name what the program itself has.
func TestDeclared(t *testing.T) {
	program := Declares(Declared{
		Tools: []string{"refund"}, Agents: []string{"clerk"}, Models: []string{"house"}, Fallbacks: []string{"main"}, Hooks: []string{"ceiling"},
	})
	env := Env(func(string) string { return "" })
	c, err := Parse("f.yaml", []byte(`
agents:
  - {name: teller, model: house/small, tools: [refund], approvals: {refund: always}}
  - {name: critic, model: main}
models: {other: {type: fallback, chain: [house/large, demo/demo]}}
hooks: [{name: ceiling}, {name: audit, workflow: {type: Audit, taskQueue: audits}, filter: {tools: [refund]}}]
approvalRules: [{name: r, effect: ask, tools: [refund], agents: [clerk]}]
`), "", program, env)
	require.NoError(t, err)
	require.Equal(t, []string{"ceiling", "audit"}, []string{c.Hooks[0].Name, c.Hooks[1].Name})
	require.Equal(t, hook.Hook{Name: "ceiling"}, c.Hooks[0])
	for _, p := range c.Models {
		require.NotEqual(t, "house", p.Name, "the program constructs it")
	}
	require.NoError(t, fits(c), "also when the file is read again")

	c, err = Parse("f.yaml", []byte("approvalRules: [{name: r, effect: deny, tools: [refund]}]\n"), "", program, env)
	require.NoError(t, err)
	require.Equal(t, agent.Fixed(nil), c.Agents, "the program has agents")

	const one = "agents: [{name: a, model: demo/demo}]\n"
	for text, says := range map[string]string{
		one + "hooks: [{name: other}]\n":                                    "hooks[0].workflow: is missing",
		one + "hooks: [{name: ceiling, timeout: 1m}]\n":                     `hooks[0].timeout: the hook "ceiling" is the program's`,
		one + "models: {house: {type: demo}}\n":                             "models.house: the program itself has a model provider",
		one + "models: {main: {type: fallback, chain: [demo/demo]}}\n":      "models.main: the program itself has",
		"agents: [{name: a, model: demo/demo, tools: [refunds]}]\n":         `unknown tool "refunds"; did you mean "refund"?`,
		one + "tools: {client: {name: refund}}\n":                           `a tool "refund" already exists`,
		one + "approvalRules: [{name: r, effect: deny, agents: [clerc]}]\n": `unknown agent "clerc"; did you mean "clerk"?`,
	} {
		_, err := Parse("f.yaml", []byte(text), "", program, env)
		require.ErrorContains(t, err, says)
	}
	_, err = Parse("f.yaml", []byte("titleModel: demo/demo\n"), "", env)
	require.ErrorContains(t, err, "agents: is missing", "without agents of the program")
}
