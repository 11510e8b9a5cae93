package programs

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/searchattr"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	temporalserver "github.com/threadmill/threadmill/threadmilltest/embedded"
)

// TestRefundDesk runs examples/refunds as a process, with a Temporal server that keeps its data in a file. A customer writes the number
// of a card: neither database, nor the log, nor the stream has it.
func TestRefundDesk(t *testing.T) {
	t.Parallel()
	const card = "4111 1111 1111 1111"
	path := proc.BuildProgram(t, "examples/refunds")
	temporal, records, name := t.TempDir(), t.TempDir(), testenv.Name("desk")
	server, err := temporalserver.Start(t.Context(), temporalserver.Config{DataDir: temporal, Addr: "127.0.0.1:0", SearchAttributes: searchattr.Types(), Logger: harness.Quiet})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	p := startProcess(t, path, []string{"TEMPORAL_ADDRESS=" + server.Addr(), "REFUNDS_WEBHOOK_SECRET=secret"},
		"--sqlite", filepath.Join(records, "records.db"), "--task-queue", name, "--namespace", name, "--log-level", "debug").awaitReady()

	p.post("/v1/threads", `{"id":"ann","agents":["triage","clerk"]}`, http.StatusCreated)
	lines, ended := p.watch("ann")
	p.post("/v1/threads/ann/messages?wait=true", `{"sender":"ann","content":"@clerk use refund {\"order\": \"A-1\", \"euros\": 20}\nI paid with `+card+`."}`, http.StatusOK)
	streamed := strings.Join(collect(t, lines, "turn_ended"), "\n")
	require.Contains(t, p.get("/refunds"), `"order":"A-1"`)
	p.terminate()
	require.Zero(t, p.awaitExit())
	require.NoError(t, <-ended)
	log, err := json.Marshal(p.log)
	require.NoError(t, err)

	for where, kept := range map[string]string{"Temporal": check.Contents(t, temporal), "the store": check.Contents(t, records), "the stream": streamed} {
		require.Contains(t, kept, "I paid with [card].", where)
		require.NotContains(t, kept, card, where)
	}
	require.NotContains(t, string(log), card)
}
