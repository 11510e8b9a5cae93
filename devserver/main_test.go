package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
)

func TestMemory(t *testing.T) {
	clean(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := start(t, "--memory")
	require.Contains(t, r.block, "Threadmill is ready.")
	require.Contains(t, r.row("Agents"), "assistant (demo/demo); the model is an offline stand-in: set OPENAI_API_KEY")
	require.Equal(t, "in memory", r.row("Data"))
	require.Contains(t, r.block, "go run ./starter chat --address ")
	require.Contains(t, r.block, " --api "+r.api)

	t.Run("everything answers", func(t *testing.T) {
		for _, url := range []string{r.row("Page"), r.row("API") + "/readyz", r.row("API docs"), r.row("Temporal UI")} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			require.NoError(t, err)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			_ = res.Body.Close()
			require.Equal(t, http.StatusOK, res.StatusCode, url)
		}
	})
	t.Run("a conversation", func(t *testing.T) {
		status, body := r.do(http.MethodPost, "/v1/threads", `{"id":"t1","message":"hello there"}`)
		require.Equal(t, http.StatusCreated, status, body)
		require.Eventually(t, func() bool { return len(r.contents("t1")) == 2 }, testenv.Patience, testenv.Tick)
		require.Contains(t, r.contents("t1")[1], "hello there")
	})
	t.Run("a command runs in a folder of its own", func(t *testing.T) {
		status, body := r.do(http.MethodPost, "/v1/threads/t1/messages", `{"content":"use shell_cmd {\"command\":\"pwd\"}"}`)
		require.Equal(t, http.StatusAccepted, status, body)
		require.Eventually(t, func() bool {
			_, body := r.do(http.MethodGet, "/v1/threads/t1/approvals", "")
			return strings.Contains(body, "toolCallId")
		}, testenv.Patience, testenv.Tick)
	})
	events := r.watch("t1")
	for events.Scan() && !strings.Contains(events.Text(), "hello there") {
	}
	require.Contains(t, events.Text(), "hello there")
	require.Equal(t, program.ExitOK, r.stop())
	for events.Scan() {
	}
	require.NoError(t, events.Err(), "the stream ends as if it were over, and is not cut")
	require.Empty(t, r.stderr.String(), "a healthy life prints no warning and no error")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRestart(t *testing.T) {
	clean(t)
	data := filepath.Join(t.TempDir(), "data")
	r := start(t, "--data", data)
	require.Equal(t, data, r.row("Data"))
	status, body := r.do(http.MethodPost, "/v1/threads", `{"id":"kept","message":"first"}`)
	require.Equal(t, http.StatusCreated, status, body)
	require.Eventually(t, func() bool { return len(r.contents("kept")) == 2 }, testenv.Patience, testenv.Tick)

	t.Run("the folder is in use", func(t *testing.T) {
		requireMistake(t, program.ExitFailed, "--data: folder "+data+" is in use by another devserver; ", slices.Concat(anyPort, []string{"--data", data})...)
	})
	before := r.contents("kept")
	require.Equal(t, program.ExitOK, r.stop())

	r = start(t, "--data", data, "--ui", "")
	require.NotContains(t, r.block, "Temporal UI")
	require.Equal(t, before, r.contents("kept"))
	status, body = r.do(http.MethodPost, "/v1/threads/kept/messages?wait=true", `{"content":"second"}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "second")
	require.Len(t, r.contents("kept"), 4)
	require.DirExists(t, filepath.Join(data, workspaceFolder))
	require.Equal(t, program.ExitOK, r.stop())
	require.Empty(t, r.stderr.String())
}

func TestConfigurationInTheFolder(t *testing.T) {
	clean(t)
	require.NoError(t, os.WriteFile(defaultConfig, []byte("agents: [{name: poet, model: demo/verse}]\n"), 0o600))
	r := start(t, "--memory")
	require.Equal(t, defaultConfig, r.row("Configuration"))
	require.Equal(t, "poet (demo/verse)", r.row("Agents"))
	require.Equal(t, program.ExitOK, r.stop())
}

// requireMistake runs the program, which must exit with the code and one line.
func requireMistake(t *testing.T, code int, line string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	stderr := &testenv.Buffer{}
	require.Equal(t, code, execute(ctx, io.Discard, stderr, args...), stderr)
	require.True(t, strings.HasPrefix(stderr.String(), "devserver: "+line), stderr)
	require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr)
}

func TestMistakes(t *testing.T) {
	clean(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := l.Addr().String()
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	with := func(args ...string) []string { return slices.Concat(anyPort, []string{"--memory"}, args) }
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		line string
	}{
		{"API's port is taken", nil, with("--http", taken), 1, "--http: cannot listen on " + taken + ": address already in use; "},
		{"Temporal's port is taken", nil, with("--temporal", taken), 1, "--temporal: cannot listen on " + taken + ": address already in use; "},
		{"UI's port is taken", nil, with("--ui", taken), 1, "--ui: cannot listen on " + taken + ": address already in use; "},
		{"no port", nil, with("--http", "localhost"), 2, `--http: "localhost" is not host:port`},
		{"nobody is asked who they are", nil, with("--http", "0.0.0.0:0"), 2, "--http: [::]:"},
		{"unknown authentication", nil, with("--auth", "none"), 2, `--auth: "none" is neither keys nor proxy`},
		{"keys that are none", []string{program.EnvAPIKeys, "root:admin:hunter2"}, with(), 2, "THREADMILL_API_KEYS: entry 1: the key is not an API key: "},
		{"a host name", nil, with("--temporal", "temporal.example:7233"), 2, `--temporal: the host of "temporal.example:7233" must be an IP address`},
		{"unknown flag", nil, with("--nope"), 2, "unknown flag: --nope (see devserver --help)"},
		{"an argument", nil, with("chat"), 2, `unknown command "chat"`},
		{"level", nil, with("--log-level", "loud"), 2, `invalid argument "loud" for "--log-level"`},
		{"memory and data", nil, with("--data", "x"), 2, "--memory: --data is given as well"},
		{"data is a file", nil, slices.Concat(anyPort, []string{"--data", "file"}), 1, "--data: mkdir file: "},
		{"no such configuration", nil, with("--config", "nope.yaml"), 2, "--config: reading the configuration nope.yaml: file does not exist"},
		{"a model without a provider", []string{config.EnvModel, "gpt-9"}, with(), 2, `THREADMILL_MODEL is "gpt-9", but neither`},
		{"database", []string{program.EnvDatabaseURL, "postgres://me:hunter2@" + deaf + "/db"}, with(), 1, "DATABASE_URL: postgres: opening db at 127.0.0.1: "},
		{"no database URL", []string{program.EnvDatabaseURL, "postgres://me:hunter2@[nowhere/db"}, with(), 1, "DATABASE_URL: postgres: Config.URL: "},
		{"NATS", []string{program.EnvNATSURL, "nats://me:hunter2@" + deaf}, with(), 1, "NATS_URL: connect to NATS"},
		{"no NATS URL", []string{program.EnvNATSURL, "nats://me:hunter2@[nowhere"}, with(), 2, "NATS_URL: is not the address of a server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != nil {
				t.Setenv(c.env[0], c.env[1])
			}
			requireMistake(t, c.code, c.line, c.args...)
		})
	}
	t.Run("broken configuration", func(t *testing.T) {
		require.NoError(t, os.WriteFile(defaultConfig, []byte("agents:\n  - name: poet\n    modle: demo/demo\n"), 0o600))
		stderr := &testenv.Buffer{}
		require.Equal(t, program.ExitUsage, execute(t.Context(), io.Discard, stderr, with()...))
		require.Contains(t, stderr.String(), `threadmill.yaml:3:5: agents[0].modle: unknown field; did you mean "model"?`)
		require.Contains(t, stderr.String(), "    3 |     modle: demo/demo\n")
	})
}

// deaf is an address without a listener, which the kernel never assigns.
const deaf = "127.0.0.1:1"
