package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestChatJoinsBeginning: a client that comes while a turn has begun, and has stored nothing, gets the turn.
func TestChatJoinsBeginning(t *testing.T) {
	for _, stored := range []string{"nothing", "earlier turns"} {
		for _, target := range []string{"GET /v1/chat/t1/stream", "POST /v1/ag-ui/connect"} {
			t.Run(target+" of a thread with "+stored, func(t *testing.T) {
				w := newWorld(t)
				w.threads.known["t1"] = true
				if stored == "earlier turns" {
					w.put("t1", record(event.TypeMessage, written("m0", "earlier")).In("m0"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m0", Status: "completed"}).In("m0"))
				}
				w.threads.ofTurn = &signals.TurnState{EventID: "m1"}

				method, path, _ := strings.Cut(target, " ")
				req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, strings.NewReader(`{"threadId":"t1","runId":"r"}`))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				got, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				defer got.Body.Close()
				require.Equal(t, http.StatusOK, got.StatusCode)

				first := record(event.TypeMessage, written("m1", "hello"))
				first.ID = "m1"
				w.put("t1", first.In("m1"), replied("m2", "welcome").In("m1"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m1", Status: "completed"}).In("m1"))
				text, err := io.ReadAll(got.Body)
				require.NoError(t, err)
				assert.Contains(t, string(text), "welcome")
				assert.NotContains(t, string(text), "RUN_ERROR")
			})
		}
	}
}
