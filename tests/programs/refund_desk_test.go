package programs

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/check"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestRefundDesk runs examples/refunds as a process, with a Temporal server that keeps its data in a file. A customer writes the number
// of a card: neither database, nor the log, nor the stream has it.
func TestRefundDesk(t *testing.T) {
	t.Parallel()
	const card = "4111 1111 1111 1111"
	path := proc.BuildProgram(t, "examples/refunds")
	temporal, records, name := t.TempDir(), t.TempDir(), testenv.Name("desk")
	server := proc.NewTemporal(t, proc.TemporalConfig{DataDir: temporal, SearchAttributes: searchattr.Types()})
	p := startProcess(t, path, []string{"TEMPORAL_ADDRESS=" + server.Addr(), "REFUNDS_WEBHOOK_SECRET=secret"},
		"--sqlite", filepath.Join(records, "records.db"), "--task-queue", name, "--namespace", name, "--log-level", "debug").awaitReady()

	p.post("/v1/threads", `{"id":"ann","agents":["triage","clerk"]}`, http.StatusCreated)
	lines, ended := watch(t, p.url, "ann")
	p.post("/v1/threads/ann/messages?wait=true", `{"sender":"ann","content":"@clerk use refund {\"order\": \"A-1\", \"euros\": 20}\nI paid with `+card+`."}`, http.StatusOK)
	streamed := strings.Join(collect(t, lines, "turn_ended"), "\n")
	require.Contains(t, p.get("/refunds"), `"order":"A-1"`)
	require.Zero(t, p.Terminate())
	require.NoError(t, <-ended)

	for where, kept := range map[string]string{"Temporal": check.Contents(t, temporal), "the store": check.Contents(t, records), "the stream": streamed} {
		require.Contains(t, kept, "I paid with [card].", where)
		require.NotContains(t, kept, card, where)
	}
	require.NotContains(t, p.Output(), card)
}
