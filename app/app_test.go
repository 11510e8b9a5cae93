package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/program"
)

func newCommand(t *testing.T, cfg Config) *cobra.Command {
	t.Helper()
	cmd, err := command(cfg)
	require.NoError(t, err)
	return cmd
}

func TestMistakes(t *testing.T) {
	for _, name := range []string{
		config.EnvAPIKey, config.EnvBaseURL, config.EnvModel, program.EnvBuild, program.EnvDeployment, "TEMPORAL_PROFILE", "TEMPORAL_API_KEY", "TEMPORAL_NAMESPACE",
	} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := l.Addr().String()
	const nobody = "127.0.0.1:1" // no system assigns this port
	t.Setenv("TEMPORAL_ADDRESS", nobody)
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "temporal.toml"))

	const database = "postgres://me@db/threadmill"
	file := []string{"--http", "127.0.0.1:0", "--sqlite", "records.db"}
	with := func(args ...string) []string { return append(append([]string{}, file...), args...) }
	for _, c := range []struct {
		name     string
		database string
		args     []string
		code     int
		line     string
	}{
		{"no store", "", nil, 2, "DATABASE_URL is not set: "},
		{"two stores", database, file, 2, "--sqlite: DATABASE_URL is set as well"},
		{"a role alone", database, []string{"--roles", "api"}, 2, "NATS_URL is not set: with --roles api "},
		{"unknown role", database, []string{"--roles", "worker,chef"}, 2, `--roles: "chef" is none of worker, api, tools, repair`},
		{"a repair beside workers", database, []string{"--roles", "worker,repair"}, 2, "--roles: repair goes alone"},
		{"tools without queues", database, []string{"--roles", "tools"}, 2, "--tool-queues: name the task queues"},
		{"queues without workers", database, []string{"--roles", "api", "--tool-queues", "gpu"}, 2, "--tool-queues: needs --roles worker or tools"},
		{"no role", database, []string{"--roles", ""}, 2, "--roles: name at least one"},
		{"no folder for tasks", "", with("--recovery-dir", "records.db/tasks", "--log-level", "error"), 1, "--recovery-dir: a folder for running tasks: "},
		{"no drain", "", with("--drain", "0s"), 2, "--drain: 0s must be more than 0"},
		{"no task queue", "", with("--task-queue", ""), 2, "--task-queue: must not be empty"},
		{"namespace", "", with("--namespace", "a/b"), 2, `--namespace: "a/b" must be`},
		{"a deployment without a build", "", with("--deployment", "threads"), 2, "--deployment: needs --build"},
		{"no build id", "", with("--build", "a b"), 2, "threadmill: Config.Deployment.Build: \"a b\" must not contain spaces"},
		{"no name", "", with("--build", "1.2", "--deployment", "threads.eu"), 2, "threadmill: Config.Deployment.Name (default: that of the task queue): \"threads.eu\" must not contain a dot"},
		{"format", "", with("--log-format", "xml"), 2, `--log-format: "xml" is neither`},
		{"unknown flag", "", with("--nope"), 2, "unknown flag: --nope (see worker --help)"},
		{"no host", "", with("--allowed-hosts", "http://a"), 2, `--allowed-hosts: "http://a" is not a host name`},
		{"no port", "", with("--http", "here"), 2, `--http: "here" is not host:port`},
		{"port taken", "", with("--http", taken), 1, "--http: cannot listen on " + taken + ": address already in use; "},
		{"nobody is asked who they are", "", with("--http", ":0", "--log-level", "error"), 2, "--http: [::]:"},
		{"a proxy's header without a proxy", "", with("--auth-header", "X-User"), 2, "--auth-header: goes with --auth proxy only"},
		{"no header", "", with("--auth", "proxy", "--auth-header", "X User"), 2, `--auth-header: "X User" is not the name of a header`},
		{"others, with keys", "", with("--http", ":0", "--auth", "keys", "--log-level", "error"), 1, "TEMPORAL_ADDRESS: Temporal does not answer at "},
		{"others, with a proxy", "", with("--http", ":0", "--auth", "proxy", "--log-level", "error"), 1, "TEMPORAL_ADDRESS: Temporal does not answer at "},
		{"others, without the API", "", with("--http", ":0", "--roles", "worker"), 2, "NATS_URL is not set: "},
		{"no configuration", "", with("--config", "nope.yaml"), 2, "--config: reading the configuration nope.yaml: "},
		{"no profile", "", with("--profile", "nope"), 2, "Temporal's configuration (TEMPORAL_*, --profile): "},
		{"no Temporal", "", with("--log-level", "error"), 1, "TEMPORAL_ADDRESS: Temporal does not answer at " + nobody + ": "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(program.EnvDatabaseURL, c.database)
			t.Setenv(program.EnvNATSURL, "")
			cmd, stderr := newCommand(t, Config{Name: "worker"}), &bytes.Buffer{}
			cmd.SetArgs(append([]string{}, c.args...)) // nil would mean the arguments of the test binary
			cmd.SetErr(stderr)
			require.Equal(t, c.code, program.Execute(t.Context(), cmd), stderr)
			require.Regexp(t, `^worker: [^\n]*\n$`, stderr.String(), "one line")
			require.Contains(t, stderr.String(), "worker: "+c.line)
		})
	}
}

// TestHooksOnTheThreadsQueue: the file is checked against the task queue of the flag.
func TestHooksOnTheThreadsQueue(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(program.EnvDatabaseURL, "")
	t.Setenv(program.EnvNATSURL, "")
	require.NoError(t, os.WriteFile("hooks.yaml", []byte("agents: [{name: a, model: demo/demo}]\n"+
		"hooks: [{name: guard, workflow: {type: Guard, taskQueue: mine}}]\n"), 0o600))
	cmd, stderr := newCommand(t, Config{Name: "worker"}), &bytes.Buffer{}
	cmd.SetArgs([]string{"--http", "127.0.0.1:0", "--sqlite", "records.db", "--config", "hooks.yaml", "--task-queue", "mine"})
	cmd.SetErr(stderr)
	require.Equal(t, program.ExitUsage, program.Execute(t.Context(), cmd), stderr)
	require.Contains(t, stderr.String(), `hooks.yaml:2:58: hooks[0].workflow.taskQueue: "mine" is where the threads themselves run`)
}

// TestConfigure: what a program declares is checked like what the flags say, before anything is connected.
func TestConfigure(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(program.EnvDatabaseURL, "")
	t.Setenv(program.EnvNATSURL, "")
	execute := func(cfg Config, args ...string) (code int, stderr string) {
		cfg.Name = "refunds"
		cmd, out := newCommand(t, cfg), &bytes.Buffer{}
		cmd.SetArgs(append([]string{"--http", "127.0.0.1:0", "--sqlite", "records.db", "--log-level", "error"}, args...))
		cmd.SetErr(out)
		code = program.Execute(t.Context(), cmd)
		return code, out.String()
	}
	t.Run("an error of Configure", func(t *testing.T) {
		code, says := execute(Config{Configure: func(*threadmill.Config) error { return errors.New("the ledger is closed") }})
		require.Equal(t, program.ExitFailed, code)
		require.Equal(t, "refunds: the ledger is closed\n", says)
	})
	t.Run("own flags are parsed before", func(t *testing.T) {
		var limit int
		code, says := execute(Config{
			Flags:     func(f *flag.FlagSet) { f.IntVar(&limit, "limit", 100, "euros that need nobody") },
			Configure: func(*threadmill.Config) error { return fmt.Errorf("the limit is %d", limit) },
		}, "--limit", "7")
		require.Equal(t, program.ExitFailed, code)
		require.Equal(t, "refunds: the limit is 7\n", says)
	})
	t.Run("the flags of every program as well", func(t *testing.T) {
		var got threadmill.Config
		execute(Config{Configure: func(cfg *threadmill.Config) error {
			got = *cfg
			return errors.New("enough")
		}}, "--namespace", "acme", "--task-queue", "mine", "--tool-queues", "gpu", "--drain", "7s")
		require.Equal(t, []any{"acme", "mine", []string{"gpu"}, 7 * time.Second}, []any{got.Namespace, got.TaskQueue, got.ToolQueues, got.StopTimeout})
	})
	t.Run("names that clash", func(t *testing.T) {
		_, err := command(Config{Name: "refunds", Flags: func(f *flag.FlagSet) { f.String("http", "", "") }})
		require.ErrorContains(t, err, "--http is a flag of every program")
	})
	t.Run("own authentication and --auth", func(t *testing.T) {
		code, says := execute(Config{API: func(cfg *httpapi.Config) error {
			cfg.Authenticator = auth.Func(func(*http.Request) (auth.Principal, error) { return auth.Local(), nil })
			return nil
		}}, "--auth", "keys")
		require.Equal(t, program.ExitUsage, code)
		require.Equal(t, "refunds: --auth: the program authenticates requests itself\n", says)
	})
}

// TestBackground: work beside the workers ends with the program, and its error ends the program.
func TestBackground(t *testing.T) {
	stop, failed := startBackground(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	stop()
	require.Empty(t, failed, "an end that was asked for is none")
	gone := errors.New("the folder is gone")
	stop, failed = startBackground(func(context.Context) error { return gone })
	require.ErrorIs(t, <-failed, gone)
	stop()
	forever := make(chan struct{})
	defer close(forever)
	within(time.Millisecond, func() { <-forever }, slog.New(slog.DiscardHandler))
}

// TestVersion: a program says the version of its own module.
func TestVersion(t *testing.T) {
	cmd := newCommand(t, Config{Name: "refunds"})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	require.NoError(t, cmd.Execute())
	require.Equal(t, "refunds version "+buildinfo.Version()+"\n", out.String())
}
