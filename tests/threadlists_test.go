package tests

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestOpenedWithTitle: a thread keeps the title with which it was opened, over HTTP and in Go. It is redacted, and none is generated.
func TestOpenedWithTitle(t *testing.T) {
	t.Parallel()
	redactor, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	w := harness.New(t, harness.Options{Configure: func(cfg *threadmill.Config) { cfg.TitleModel, cfg.Redact = "openai/stand-in", redactor }})
	const card = "4111 1111 1111 1111"
	given := redactor.Text("Refund of " + card)
	require.NotContains(t, given, card)
	status, opened := check.Request(t, w, http.MethodPost, "/v1/threads", map[string]any{"title": "Refund of " + card})
	require.Equal(t, http.StatusCreated, status, opened)
	require.Equal(t, given, opened["title"])
	byHTTP, byGo, untitled := opened["id"].(string), w.Open()+".go", w.Open()
	require.NoError(t, w.Threads.Open(w.Ctx(), byGo, signals.Start{Title: "Refund of " + card}, nil))
	for _, id := range []string{byHTTP, byGo, untitled} {
		w.Say(id, "hello")
	}
	title := func(id string) any {
		status, thread := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"?state=true", nil)
		require.Equal(t, http.StatusOK, status, thread)
		return thread["title"]
	}
	require.Eventually(t, func() bool { return title(untitled) != nil }, testenv.Patience, testenv.Tick, "a title is generated for a thread without one")
	for _, id := range []string{byHTTP, byGo} {
		require.Equal(t, given, title(id))
		for _, e := range check.Settle(w, id) {
			require.NotEqual(t, step.ActivityTitleThread, e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName())
		}
	}
}

// TestAttentionOverTheAPI: threads that wait come first and begin with their message, and counts follow decisions.
func TestAttentionOverTheAPI(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "careful", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	first, second, idle := w.Open(), w.Open(), w.Open()
	w.Post(first, `use note {"text":"x"}`)
	call := check.Only(t, w.AwaitApproval(first, 1))
	w.Post(second, `use note {"text":"x"}`)
	w.AwaitApproval(second, 1)
	w.Say(idle, "hello")
	list := func(query string) (ids []string, previews []any) {
		status, body := check.Request(t, w, http.MethodGet, "/v1/threads?"+query, nil)
		require.Equal(t, http.StatusOK, status, body)
		for _, one := range body["threads"].([]any) {
			thread := one.(map[string]any)
			ids, previews = append(ids, thread["id"].(string)), append(previews, thread["preview"])
		}
		return ids, previews
	}
	counts := func(query string) map[string]any {
		status, body := check.Request(t, w, http.MethodGet, "/v1/thread-counts?"+query, nil)
		require.Equal(t, http.StatusOK, status, body)
		return body
	}
	// The store has the request a moment after the thread, and the end of a turn a moment after its result.
	require.Eventually(t, func() bool { c := counts(""); return c["waiting"] == 2. && c["idle"] == 1. }, testenv.Patience, testenv.Tick)
	ids, previews := list("sort=attention")
	require.Equal(t, []string{first, second, idle}, ids)
	require.Equal(t, []any{`use note {"text":"x"}`, `use note {"text":"x"}`, "hello"}, previews)
	ids, _ = list("tool=note&agent=careful&sort=attention")
	require.Equal(t, []string{first, second}, ids)
	require.EqualValues(t, 2, counts("tool=note")["waiting"])

	status, decided := check.Request(t, w, http.MethodPost, "/v1/threads/"+first+"/approvals/"+call.ToolCallID, map[string]any{"decision": "approve", "by": "ann"})
	require.Equal(t, http.StatusOK, status, decided)
	require.Eventually(t, func() bool { c := counts(""); return c["waiting"] == 1. && c["idle"] == 2. }, testenv.Patience, testenv.Tick)
	ids, _ = list("tool=note")
	require.Equal(t, []string{second}, ids)
}
