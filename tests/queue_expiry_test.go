package tests

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestEventsExpireOnTime: an event expires while the turn before it runs or waits, and its sender
// hears of it.
func TestEventsExpireOnTime(t *testing.T) {
	t.Parallel()
	g, s := check.NewGate("held"), check.NewSpy("spied", tool.NeedsApproval(""))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{g, s}})
	for name, begin := range map[string]func(id string) (end func()){
		"while a turn runs": func(id string) func() {
			w.Post(id, "use held {}")
			<-g.Reached
			return g.Release
		},
		"while a turn waits": func(id string) func() {
			w.Post(id, "use spied {}")
			q := w.AwaitApproval(id, 1)[0]
			return func() {
				_, err := w.Threads.Decide(w.Ctx(), id, check.Denying(q))
				require.NoError(t, err)
			}
		},
	} {
		t.Run("S2-39 "+name, func(t *testing.T) {
			id := w.Open()
			end := begin(id)
			status, out := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/messages?wait=true",
				map[string]any{"id": "short", "sender": "ann", "content": "x", "ttl": 50, "onWaiting": "hold"})
			require.Equal(t, http.StatusOK, status, out)
			require.Equal(t, string(signals.TurnExpired), out["status"], out)
			q, err := w.Threads.Queue(w.Ctx(), id)
			require.NoError(t, err)
			it, ok := q.Find("short")
			require.True(t, ok)
			require.Equal(t, event.ItemExpired, it.Status)
			require.NotNil(t, q.Processing, "the other turn is still in progress")
			require.Equal(t, "short.expired", check.RecordOf(w, id, "short.expired").ID, "its record is stored meanwhile")
			require.NotContains(t, w.Transcript(id), "ann: x")
			end()
		})
	}
}

// TestOneEventIsProcessed: while a turn waits and another one runs, one event is processing. What
// nothing handled says so.
func TestOneEventIsProcessed(t *testing.T) {
	t.Parallel()
	g, s := check.NewGate("held"), check.NewSpy("spied", tool.NeedsApproval(""))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{g, s}})
	id := w.Open()
	waits := w.Post(id, "use spied {}")
	w.AwaitApproval(id, 1)
	runs := w.Post(id, "use held {}")
	<-g.Reached
	q, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, runs, q.Processing.ID)
	require.Equal(t, event.ItemProcessing, q.Processing.Status)
	require.Equal(t, waits, check.Only(t, q.Waiting).ID)
	require.Equal(t, event.ItemPending, check.Only(t, q.Waiting).Status, "S2-47")
	status, out := check.Request(t, w, http.MethodPatch, "/v1/threads/"+id+"/queue/"+waits, map[string]any{"status": "pending", "priority": 3})
	require.Equal(t, http.StatusConflict, status, out)
	g.Release()

	_, err = w.Threads.Turn(w.Ctx(), id, check.Custom("nobody", "time.passes", 1))
	require.NoError(t, err)
	q, err = w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	it, _ := q.Find("nobody")
	require.Equal(t, event.ItemCompleted, it.Status)
	require.Contains(t, it.Error, "nothing handles events of type time.passes")
}
