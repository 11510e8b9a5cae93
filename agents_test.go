package threadmill

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
)

// unlisted is a source that cannot list its agents.
type unlisted struct{ agent.Source }

type failing struct{ err error }

func (f failing) Agent(context.Context, string, string) (agent.Agent, error) {
	return agent.Agent{}, f.err
}

func TestAgentsOfBoth(t *testing.T) {
	file := agent.Fixed{{Name: "clerk", Model: "file/1"}, {Name: "critic", Model: "file/2"}}
	own := agent.Fixed{{Name: "Clerk", Model: "own/1"}, {Name: "teller", Model: "own/2"}}
	both := withAgents(file, own)
	for name, model := range map[string]string{"": "file/1", "CLERK": "file/1", "critic": "file/2", "teller": "own/2"} {
		a, err := both.Agent(t.Context(), "default", name)
		require.NoError(t, err, name)
		require.Equal(t, model, a.Model, name)
	}
	_, err := both.Agent(t.Context(), "default", "nobody")
	require.ErrorIs(t, err, agent.ErrUnknown)
	list, err := both.(agent.Lister).Agents(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, []agent.Agent{file[0], file[1], own[1]}, list)

	_, lists := withAgents(unlisted{file}, own).(agent.Lister)
	require.False(t, lists)
	down := errors.New("the source is down")
	_, err = withAgents(failing{down}, own).Agent(t.Context(), "default", "teller")
	require.ErrorIs(t, err, down, "nobody knows whether the source has one of that name")
}
