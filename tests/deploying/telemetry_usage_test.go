package deploying

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestUsageOfAThread: a thread tells the tokens and calls of its models, with those of its sub-agents, in the API and the
// command line.
//
//ci:replayed
func TestUsageOfAThread(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open("assistant")
	require.Equal(t, signals.TurnCompleted, w.Say(id, check.Asks("helper", `use note {"text":"x"}`)).Status)

	var want event.Usage
	for _, thread := range append(check.Subs(w, id), id) {
		for _, r := range check.OfType(w, thread, event.TypeLLMCall) {
			u := harness.Payload[event.LLMCall](w, r).Usage
			u.ModelCalls = 1
			want = want.Add(u)
		}
	}
	require.Equal(t, 4, want.ModelCalls)
	require.Positive(t, want.InputTokens)

	_, body := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"?state=true", nil)
	raw, err := json.Marshal(body["usage"])
	require.NoError(t, err)
	var got event.Usage
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, want, got)
	_, body = check.Request(t, w, http.MethodGet, "/v1/threads/"+id, nil)
	require.NotContains(t, body, "usage", "the store does not know it")

	printed, code, problem := w.Starter("show", id)
	require.Zero(t, code, problem)
	require.Contains(t, printed, " 4 model calls ")
}
