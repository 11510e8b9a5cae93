package tests

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestMentionOfNobody: a message that no agent answers is visible in its thread and in the list of
// threads, until a later message is answered.
func TestMentionOfNobody(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in"}, {Name: "bob", Model: "openai/stand-in"},
	}})
	id := w.Open("alice", "bob")
	listed := func(activity string) string {
		return check.CallAPI(w, http.MethodGet, "/v1/threads?activity="+activity, "", http.StatusOK)
	}
	says := func(content, detail string) {
		t.Helper()
		require.Equal(t, signals.TurnUnanswered, w.Say(id, content).Status)
		records := check.OfType(w, id, event.TypeStatus)
		var last event.StatusChange
		require.NoError(t, json.Unmarshal(records[len(records)-1].Payload, &last))
		require.Equal(t, event.StatusChange{Status: event.StatusUnanswered, Detail: detail}, last)
		require.Contains(t, listed("unanswered"), id)
	}
	says("@Nobody hi\n@carol too", "no agent of the thread is named nobody, carol; the agents are alice, bob")
	require.Equal(t, signals.TurnCompleted, w.Say(id, "@bob hi").Status)
	require.NotContains(t, listed("unanswered"), id)
	require.Contains(t, listed("idle"), id)
	require.Equal(t, signals.TurnUnanswered, w.Say(id, "what @bob said").Status)
	require.Contains(t, listed("idle"), id, "it mentions nobody at the start of a line")
}
