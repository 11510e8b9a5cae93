package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
)

func TestApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		policies map[string]agent.Policy
		toolAsks bool
		want     agent.Policy
	}{
		"the tool asks":                    {nil, true, agent.PolicyAlways},
		"the tool does not ask":            {nil, false, agent.PolicyNever},
		"the agent's word counts more":     {map[string]agent.Policy{"rm": agent.PolicyNever}, true, agent.PolicyNever},
		"a star is for all others":         {map[string]agent.Policy{"*": agent.PolicyAlways}, false, agent.PolicyAlways},
		"a name counts more than the star": {map[string]agent.Policy{"*": agent.PolicyNever, "rm": agent.PolicyAlways}, false, agent.PolicyAlways},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, agent.Agent{Approvals: tc.policies}.Approval("rm", tc.toolAsks))
		})
	}
}

func TestFixed(t *testing.T) {
	f := agent.Fixed{{Name: "first"}, {Name: "Second"}}
	for name, want := range map[string]string{"": "first", "first": "first", "second": "Second"} {
		a, err := f.Agent(context.Background(), "default", name)
		require.NoError(t, err)
		require.Equal(t, want, a.Name)
	}
	_, err := f.Agent(context.Background(), "default", "third")
	require.ErrorIs(t, err, agent.ErrUnknown)
	require.ErrorContains(t, err, "Second", "the error says which there are")
	_, err = agent.Fixed{}.Agent(context.Background(), "default", "")
	require.ErrorIs(t, err, agent.ErrUnknown)
}

func TestLimitsWithDefaults(t *testing.T) {
	require.Equal(t, agent.Limits{MaxSteps: 25, ModelTimeout: 10 * time.Minute, ContextMessages: 200, MaxToolCalls: 64, MaxReplyBytes: 2 << 20, MaxResult: 128 << 10}, agent.Limits{}.WithDefaults())
	set := agent.Limits{MaxSteps: 1, ModelTimeout: time.Second, ContextMessages: 2, MaxToolCalls: 3, MaxReplyBytes: 4096, MaxResult: 2048}
	require.Equal(t, set, set.WithDefaults())
}

func TestApprovalOfServers(t *testing.T) {
	a := agent.Agent{Approvals: map[string]agent.Policy{
		"files__read": agent.PolicyNever, "files__*": agent.PolicyAlways, "web__*": agent.PolicyDeny, "*": agent.PolicyNever,
	}}
	for tool, want := range map[string]agent.Policy{
		"files__read": agent.PolicyNever, "files__write": agent.PolicyAlways, "web__get": agent.PolicyDeny, "clock": agent.PolicyNever, "file__x": agent.PolicyNever,
	} {
		require.Equal(t, want, a.Approval(tool, true), tool)
	}
}
