package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/signals"
)

// TestErasureIsNamed: whatever Temporal answers, the response to a request for an erasure names it, and the same request finds it. An
// erasure in progress has no zero times, and says which threads it waits for.
func TestErasureIsNamed(t *testing.T) {
	w := newWorld(t)
	ask := func() answer {
		return w.call(http.MethodPost, "/v1/person-erasures", object{"person": "ann", "terms": []string{"Ann Smith", "ann@example.com"}})
	}
	w.threads.startsErasing = context.DeadlineExceeded
	problem := ask()
	require.Equal(t, []string{"id"}, problem.problem(t, http.StatusServiceUnavailable))
	id := problem.body["errors"].([]any)[0].(map[string]any)["value"].(string)
	require.Contains(t, problem.body["detail"], "erasure "+id+" is stored and may have begun: the same request begins or finds it")
	require.Equal(t, "5", problem.header.Get("Retry-After"))

	_, err := erasures.WaitFor(w.ctx, w.store, "default", id, erasures.Wait{PersonWait: signals.PersonWait{ThreadID: "t1", Why: "its task runs", Since: time.Now()}})
	require.NoError(t, err)
	w.threads.startsErasing = nil
	for _, err := range []error{serviceerror.NewUnavailable("no connection"), context.DeadlineExceeded} {
		w.threads.erases = err
		for name, got := range map[string]answer{"begun": ask().ok(t, http.StatusAccepted), "listed": w.call(http.MethodGet, "/v1/person-erasures", nil).ok(t, http.StatusOK)} {
			require.NotContains(t, got.text, "0001-01-01", name)
			require.NotContains(t, got.text, "finishedAt", name)
			require.NotContains(t, got.text, "Smith", name)
			for _, want := range []string{`"id":"` + id, `"requestedAt":"2`, `"threadId":"t1","why":"its task runs"`} {
				require.Contains(t, got.text, want, name)
			}
		}
	}
	w.threads.erases = serviceerror.NewInternal("broken")
	ask().refused(t, http.StatusInternalServerError, "erasure "+id+" has begun")
	w.threads.erases = nil
	require.Equal(t, id, ask().ok(t, http.StatusOK).body["id"])

	whole := func() answer { return w.call(http.MethodPost, "/v1/erasures", object{"threadId": "t1"}) }
	w.threads.startsErasing = context.DeadlineExceeded
	whole().refused(t, http.StatusServiceUnavailable, "its erasure may have begun: the same request begins or finds it")
	w.threads.startsErasing, w.threads.erases = nil, context.DeadlineExceeded
	require.NotContains(t, whole().ok(t, http.StatusAccepted).text, "0001-01-01")
}
