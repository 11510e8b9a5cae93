package programs

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestOwnMain runs examples/own-main as a process, as a test of package app.
func TestOwnMain(t *testing.T) {
	t.Parallel()
	path := proc.BuildProgram(t, "examples/own-main")
	file, err := filepath.Abs("../../examples/own-main/threadmill.yaml")
	require.NoError(t, err)
	address := "TEMPORAL_ADDRESS=" + harness.Temporal(t).Addr()
	start := func(args ...string) *process {
		records := filepath.Join(t.TempDir(), "records.db")
		return startProcess(t, path, []string{address}, append([]string{"--sqlite", records, "--task-queue", testenv.Name("q"), "--namespace", testenv.Name("n")}, args...)...)
	}
	p := start("--config", file).awaitReady()

	t.Run("the tool, the hook and the handler of the program", func(t *testing.T) {
		require.Contains(t, p.post("/refunds", `use refund {"order": "A-1", "euros": 20}`, http.StatusOK), "paid back 20 euros for A-1")
		require.Contains(t, p.post("/refunds", `use refund {"order": "A-2", "euros": 900}`, http.StatusOK), "More than 100 euros need a manager.")
	})
	t.Run("the API beside it", func(t *testing.T) {
		require.Contains(t, p.get("/v1/agents"), `"clerk"`)
		require.Equal(t, http.StatusOK, p.status("/healthz"))
		require.Equal(t, http.StatusMethodNotAllowed, p.status("/refunds"))
	})
	t.Run("SIGTERM lets a running turn finish", func(t *testing.T) {
		thread := testenv.Name("t")
		p.post("/v1/threads", `{"id":"`+thread+`"}`, http.StatusCreated)
		lines, ended := watch(t, p.url, thread)
		p.post("/v1/threads/"+thread+"/messages", `{"content":"count 40 every 50ms"}`, http.StatusAccepted)
		collect(t, lines, `"type":"stream"`)
		require.NoError(t, p.Signal(syscall.SIGTERM))
		require.Eventually(t, func() bool { return p.status("/readyz") == http.StatusServiceUnavailable }, testenv.Patience, testenv.Tick)
		collect(t, lines, ` 40"`)
		require.NoError(t, <-ended)
		require.Zero(t, p.AwaitExit())
		require.NotNil(t, p.logged("stopped"))
	})
	t.Run("authentication", func(t *testing.T) {
		p := start("--config", file, "--auth", "keys").awaitReady()
		require.Contains(t, p.post("/refunds", "hello", http.StatusUnauthorized), "not authenticated")
	})
	t.Run("the roles apart", func(t *testing.T) {
		env := []string{address, "DATABASE_URL=" + harness.Database(t), "NATS_URL=" + testenv.NATS(t)}
		name := testenv.Name("q")
		common := []string{"--config", file, "--task-queue", name, "--namespace", name}
		worker := startProcess(t, path, env, append([]string{"--roles", "worker"}, common...)...).awaitReady()
		api := startProcess(t, path, env, append([]string{"--roles", "api"}, common...)...).awaitReady()
		require.Contains(t, api.post("/refunds", `use refund {"order": "A-4", "euros": 4}`, http.StatusOK), "paid back 4 euros for A-4")
		require.Equal(t, http.StatusNotFound, worker.status("/refunds"))
		require.Equal(t, http.StatusOK, worker.status("/healthz"))
	})
	t.Run("a role that needs more", func(t *testing.T) {
		p := start("--config", file, "--roles", "worker", "--http", "127.0.0.1:0")
		require.Equal(t, 2, p.AwaitExit())
		require.NotNil(t, p.logged("refunds: NATS_URL is not set: with --roles worker"))
	})
	t.Run("without a file, the agent of the environment has the tool", func(t *testing.T) {
		p := start().awaitReady()
		require.Contains(t, p.post("/refunds", `use refund {"order": "A-3", "euros": 1}`, http.StatusOK), "paid back 1 euros for A-3")
	})
	t.Run("a mistake is one line", func(t *testing.T) {
		p := start("--nope")
		require.Equal(t, 2, p.AwaitExit())
		require.NotNil(t, p.logged("refunds: unknown flag: --nope (see refunds --help)"))
		require.Regexp(t, `^.+\n$`, p.Stderr())

		wrong := filepath.Join(t.TempDir(), "wrong.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(wrong, []byte(strings.ReplaceAll(string(text), "[refund]", "[refunds]")), 0o600))
		p = start("--config", wrong)
		require.Equal(t, 2, p.AwaitExit())
		require.NotNil(t, p.logged(`unknown tool "refunds"; did you mean "refund"?`))
	})
}
