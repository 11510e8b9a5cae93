package names_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names"
)

func TestServerTools(t *testing.T) {
	known := names.Known{Tools: []string{"clock", "files__*", "web__*"}}
	good := agent.Agent{
		Name: "a", Tools: []string{"clock", "files__*", "web__get"},
		Approvals:     map[string]agent.Policy{"files__*": agent.PolicyAlways, "files__read": agent.PolicyNever, "web__*": agent.PolicyDeny},
		ApprovalRules: []approval.Rule{{Name: "r", Effect: approval.EffectAsk, Tools: []string{"files__*", "web__get"}, When: `tool == "files__write"`}},
	}
	require.Empty(t, known.Agent(good))
	require.Empty(t, known.Filter(hook.Filter{Tools: []string{"files__*", "web__get"}}))

	for name, tt := range map[string]struct {
		known names.Known
		agent agent.Agent
		want  string
	}{
		"unknown server": {known, agent.Agent{Tools: []string{"file__*"}}, `tools[0]: unknown MCP server "file" of the tool "file__*"; did you mean "files"?`},
		"no server":      {names.Known{Tools: []string{"clock"}}, agent.Agent{Tools: []string{"files__read"}}, `tools[0]: unknown MCP server "files" of the tool "files__read"; none exists`},
		"not the agent's": {
			known,
			agent.Agent{Tools: []string{"files__*"}, Approvals: map[string]agent.Policy{"web__get": agent.PolicyAlways}},
			`approvals.web__get: the agent does not have the tool "web__get": add it to the agent's tools or remove it here ("*" is for all others)`,
		},
		"not a pattern": {known, agent.Agent{Tools: []string{"files_*"}}, `tools[0]: unknown tool "files_*"; did you mean "files__*"?`},
		"one mistake": {
			known,
			agent.Agent{Tools: []string{"file__*"}, Approvals: map[string]agent.Policy{"files__read": agent.PolicyAlways}},
			`tools[0]: unknown MCP server "file" of the tool "file__*"; did you mean "files"?`,
		},
	} {
		problems := tt.known.Agent(tt.agent)
		require.Len(t, problems, 1, name)
		require.EqualError(t, problems[0], tt.want, name)
	}

	later := names.Known{Tools: []string{"clock", names.AnyServer}}
	require.Empty(t, later.Agent(agent.Agent{Tools: []string{"files__*", "web__get"}}), "servers can be declared at run time")
	require.NotEmpty(t, later.Agent(agent.Agent{Tools: []string{"cloc"}}))
	require.Empty(t, names.Known{}.Agent(good))
}
