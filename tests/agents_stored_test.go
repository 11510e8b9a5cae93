package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// shownLast returns the system message and the tool names of the last model call.
func shownLast(w *harness.Harness) (system string, tools []string) {
	w.T.Helper()
	calls := check.ModelCalls(w)
	last := calls[len(calls)-1]
	require.Equal(w.T, event.RoleSystem, last.Messages[0].Role)
	return last.Messages[0].Content, last.Offered()
}

// TestStoredAgentWhoseToolIsGone: a release has renamed a tool that a stored agent names. Its calls fail,
// and run nothing.
func TestStoredAgentWhoseToolIsGone(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	check.CallAPI(w, "PUT", "/v1/agents/clerk", `{"model": "openai/stand-in", "tools": ["note", "refund"]}`, 422)
	definition := `{"name":"clerk","model":"openai/stand-in","tools":["note","refund"],"approvals":{"refund":"always"}}`
	_, err := w.Store.SaveAgent(w.Ctx(), w.TaskQueue, store.AgentVersion{Name: "clerk", Definition: []byte(definition)}, -1)
	require.NoError(t, err)
	id := w.Open("clerk")
	require.Equal(t, signals.TurnCompleted, w.Say(id, "use refund {}").Status)
	var results []string
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByTool {
			results = append(results, m.Content)
		}
	}
	require.Len(t, results, 1)
	require.Contains(t, results[0], `unknown tool "refund"`)
}

// TestStoredAgents defines agents over the API while a thread runs.
func TestStoredAgents(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]harness.Options{"sqlite": {}, "postgres": {Postgres: true}} {
		t.Run("S4-47 S4-108 "+name, func(t *testing.T) {
			options.Agents = []agent.Agent{{Name: "clerk", Model: "openai/stand-in", Instructions: "As configured.", Tools: []string{"note"}}}
			storedAgents(t, harness.New(t, options))
		})
	}
}

func storedAgents(t *testing.T, w *harness.Harness) {
	id := w.Open("clerk")
	says := func(agent, text string) (system string, tools []string) {
		t.Helper()
		out := w.Say(id, text)
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, agent, out.Message.AgentID)
		return shownLast(w)
	}
	system, tools := says("clerk", "one")
	require.True(t, strings.HasPrefix(system, "As configured."), system)
	require.Equal(t, []string{"note"}, tools)

	check.CallAPI(w, "PUT", "/v1/agents/clerk?by=ann", `{"model": "openai/stand-in", "instructions": "As stored."}`, 201)
	system, tools = says("clerk", "two")
	require.Equal(t, "As stored.", system, "S4-47 an edited prompt applies to the next call")
	require.Empty(t, tools, "S4-47 and so do its tools")

	check.CallAPI(w, "PUT", "/v1/agents/clerk?ifVersion=1", `{"model": "openai/stand-in", "instructions": "As edited."}`, 200)
	system, _ = says("clerk", "three")
	require.Equal(t, "As edited.", system, "S4-47")

	check.CallAPI(w, "PUT", "/v1/agents/scribe", `{"model": "openai/stand-in", "instructions": "You write."}`, 201)
	_, err := w.Threads.Update(w.Ctx(), id, signals.ThreadChange{Agents: []string{"clerk", "scribe"}})
	require.NoError(t, err)
	system, _ = says("scribe", "@scribe four")
	require.Equal(t, "You write.", system, "an agent that nobody has configured takes part")

	check.CallAPI(w, "DELETE", "/v1/agents/clerk?by=bob", "", 204)
	system, tools = says("clerk", "@clerk five")
	require.True(t, strings.HasPrefix(system, "As configured."), "the configured one shows again: %s", system)
	require.Equal(t, []string{"note"}, tools)

	check.CallAPI(w, "DELETE", "/v1/agents/scribe", "", 204)
	out := w.Say(id, "@scribe six")
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "scribe")

	changes, err := w.Store.AgentChanges(w.Ctx(), w.TaskQueue, 0, 0)
	require.NoError(t, err)
	told := make([]string, len(changes))
	for i, c := range changes {
		told[i] = c.Name + " " + string(c.Type)
	}
	require.Equal(t, []string{
		"clerk agent.created", "clerk agent.updated", "scribe agent.created", "clerk agent.deleted", "scribe agent.deleted",
	}, told, "S4-07")
}
