package programs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// process is a worker in a separate process.
type process struct {
	*proc.Run
	t   *testing.T
	url string
}

// startProcess starts a worker with this environment only.
func startProcess(t *testing.T, path string, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, append([]string{"--http", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	cmd.Env = env
	return &process{Run: proc.Launch(t, cmd, `"msg":"started"`), t: t}
}

// logged returns the first log entry whose message contains text. A line that is no entry is a message.
func (p *process) logged(text string) map[string]any {
	for line := range strings.Lines(p.Stderr()) {
		entry := map[string]any{}
		if json.Unmarshal([]byte(line), &entry) != nil {
			entry["msg"] = line
		}
		if msg, ok := entry["msg"].(string); ok && strings.Contains(msg, text) {
			return entry
		}
	}
	return nil
}

// awaitReady waits until the process is ready.
func (p *process) awaitReady() *process {
	p.t.Helper()
	p.AwaitReady()
	p.url = p.logged("started")["http"].(string)
	require.Eventually(p.t, func() bool { return p.status("/readyz") == http.StatusOK }, testenv.Patience, testenv.Tick)
	return p
}

func (p *process) status(path string) int {
	res, err := http.Get(p.url + path)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

func (p *process) post(path, body string, want int) string {
	p.t.Helper()
	res, err := http.Post(p.url+path, "application/json", strings.NewReader(body))
	require.NoError(p.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, want, res.StatusCode, string(data))
	return string(data)
}

func (p *process) get(path string) string {
	p.t.Helper()
	res, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return string(data)
}

// watch reads the data lines of a thread's event stream, from the API at url, until it ends.
func watch(t *testing.T, url, thread string) (lines <-chan string, end <-chan error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/threads/"+thread+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	out, ended := make(chan string, 10_000), make(chan error, 1)
	go func() {
		defer res.Body.Close()
		scan := bufio.NewScanner(res.Body)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				out <- data
			}
		}
		ended <- scan.Err()
		close(out)
	}()
	return out, ended
}

// collect returns the lines up to the one that matches.
func collect(t *testing.T, lines <-chan string, until string) []string {
	t.Helper()
	match, limit := regexp.MustCompile(until), time.After(testenv.Patience)
	var seen []string
	for {
		select {
		case line, ok := <-lines:
			require.True(t, ok, "the stream ended before %q: %v", until, seen)
			seen = append(seen, line)
			if match.MatchString(line) {
				return seen
			}
		case <-limit:
			require.Failf(t, "no such event", "%q in %v", until, seen)
		}
	}
}

// TestWorkerAndAPIApart runs the roles in separate processes, on PostgreSQL and NATS.
func TestWorkerAndAPIApart(t *testing.T) {
	t.Parallel()
	path, queue := proc.BuildWorker(t), testenv.Name("q")
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	env := []string{
		"TEMPORAL_ADDRESS=" + harness.Temporal(t).Addr(), "DATABASE_URL=" + harness.Database(t), "NATS_URL=" + testenv.NATS(t),
		"OPENAI_API_KEY=test", "OPENAI_BASE_URL=" + provider.URL,
	}
	start := func(args ...string) *process {
		return startProcess(t, path, env, append([]string{"--task-queue", queue, "--namespace", queue}, args...)...)
	}
	api := start("--roles", "api").awaitReady()
	t.Run("without a worker, the API is degraded", func(t *testing.T) {
		require.Contains(t, api.get("/readyz"), `"status":"degraded"`)
		require.Contains(t, api.get("/readyz"), fmt.Sprintf(`no worker has polled task queue \"%s\" since 20`, queue))
		require.Contains(t, api.get("/v1/server"), `"polled":false,"since":"20`)
	})
	worker := start("--roles", "worker").awaitReady()
	require.Eventually(t, func() bool { return strings.Contains(api.get("/readyz"), `"worker":"ok"`) }, testenv.Patience, testenv.Tick)
	require.Contains(t, api.get("/v1/server"), `"polled":true`)

	t.Run("the worker serves its health and nothing else", func(t *testing.T) {
		require.Equal(t, http.StatusOK, worker.status("/healthz"))
		require.Equal(t, http.StatusOK, worker.status("/readyz"))
		require.Equal(t, http.StatusNotFound, worker.status("/v1/threads"))
	})
	api.post("/v1/threads", `{"id":"t1"}`, http.StatusCreated)
	lines, ended := watch(t, api.url, "t1")
	t.Run("a conversation over HTTP", func(t *testing.T) {
		api.post("/v1/threads/t1/messages", `{"content":"hello there"}`, http.StatusAccepted)
		seen := collect(t, lines, `"type":"message".*"role":"assistant"|"role":"assistant".*"type":"message"`)
		require.Contains(t, strings.Join(seen, "\n"), `"type":"stream"`, "tokens come live, from the other process")
		require.Contains(t, seen[len(seen)-1], "hello there")
	})
	t.Run("SIGTERM lets the running step finish", func(t *testing.T) {
		gate := provider.Block(3)
		defer gate.Release()
		api.post("/v1/threads/t1/messages", `{"content":"count 60"}`, http.StatusAccepted)
		seen := collect(t, lines, `"type":"stream"`)
		require.NoError(t, worker.Signal(syscall.SIGTERM))
		require.Eventually(t, func() bool { return worker.status("/readyz") == http.StatusServiceUnavailable }, testenv.Patience, testenv.Tick)
		require.Equal(t, http.StatusOK, worker.status("/healthz"), "it still runs")
		gate.Release()
		seen = append(seen, collect(t, lines, " 60\"")...)
		require.Zero(t, worker.AwaitExit())
		require.NotNil(t, worker.logged("stopped"))
		require.Nil(t, worker.logged("Activity error"))
		require.NotContains(t, strings.Join(seen, "\n"), `"type":"reset"`)

		start("--roles", "worker").awaitReady()
		body := api.post("/v1/threads/t1/messages?wait=true", `{"content":"still there"}`, http.StatusOK)
		require.Contains(t, body, "still there")
		collect(t, lines, "still there")
	})
	t.Run("SIGTERM ends event streams of the API cleanly", func(t *testing.T) {
		require.Zero(t, api.Terminate())
		require.NoError(t, <-ended)
	})
}

// TestWorkerRecovery kills a worker in the middle of a reply: its successor begins the reply again at once, and viewers learn
// that. Without recovery, the step would count as lost after an hour.
func TestWorkerRecovery(t *testing.T) {
	t.Parallel()
	path, queue, folder := proc.BuildWorker(t), testenv.Name("q"), filepath.Join(t.TempDir(), "recovery")
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
models: {openai: {type: openai, baseURL: `+provider.URL+`, apiKeyEnv: KEY}}
agents: [{name: assistant, model: openai/stand-in}]
temporal: {staleAfter: 1h}
`), 0o600))
	env := []string{"TEMPORAL_ADDRESS=" + harness.Temporal(t).Addr(), "DATABASE_URL=" + harness.Database(t), "NATS_URL=" + testenv.NATS(t), "KEY=test"}
	start := func(roles string, args ...string) *process {
		return startProcess(t, path, env, append([]string{"--config", file, "--task-queue", queue, "--namespace", queue, "--roles", roles}, args...)...).awaitReady()
	}
	journals := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, "*.tasks"))
		require.NoError(t, err)
		return found
	}
	env = append(env, program.EnvRecoveryDir+"="+folder)
	api := start("api")
	require.Empty(t, journals(), "it has no tasks")
	worker := start("worker")
	require.Len(t, journals(), 1)
	api.post("/v1/threads", `{"id":"t1"}`, http.StatusCreated)
	lines, _ := watch(t, api.url, "t1")
	gate := provider.Block(3)
	defer gate.Release()
	api.post("/v1/threads/t1/messages", `{"content":"count 6"}`, http.StatusAccepted)
	collect(t, lines, `"type":"stream"`)
	worker.Kill()
	gate.Release()

	worker = start("worker")
	seen := strings.Join(collect(t, lines, `"type":"final"`), "\n")
	require.Contains(t, seen, `"type":"reset"`)
	require.Contains(t, seen, `1 2 3 4 5 6`)
	freed := worker.logged("freed the tasks of a killed worker")
	require.Equal(t, "WARN", freed["level"])
	require.EqualValues(t, 1, freed["activities"])
	require.Zero(t, worker.Terminate())
	require.Empty(t, journals(), "nothing is left to do")

	t.Run("a folder that cannot be", func(t *testing.T) {
		p := startProcess(t, path, env, "--recovery-dir", file)
		require.Equal(t, 1, p.AwaitExit())
		require.NotNil(t, p.logged("worker: --recovery-dir: a folder for running tasks: "))
	})
}

// TestWorkerAlone runs both roles in one process with a file and without NATS.
func TestWorkerAlone(t *testing.T) {
	t.Parallel()
	path, address := proc.BuildWorker(t), "TEMPORAL_ADDRESS="+harness.Temporal(t).Addr()
	p := startProcess(t, path, []string{address}, "--sqlite", filepath.Join(t.TempDir(), "records.db"), "--task-queue", testenv.Name("q")).awaitReady()
	require.Equal(t, "WARN", p.logged("NATS_URL is not set")["level"])
	require.Contains(t, p.post("/v1/threads", `{"id":"`+testenv.Name("t")+`"}`, http.StatusCreated), `"status":"open"`)
	require.Zero(t, p.Terminate())

	t.Run("a worker that cannot work ends the process", func(t *testing.T) {
		p := startProcess(t, path, []string{address, "TEMPORAL_NAMESPACE=nowhere"}, "--sqlite", filepath.Join(t.TempDir(), "records.db"))
		require.Equal(t, 1, p.AwaitExit())
		require.NotNil(t, p.logged("worker: "))
	})
}
