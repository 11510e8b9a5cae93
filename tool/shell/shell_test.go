//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// shortGrace is the grace period of commands that use all of it.
const shortGrace = 200 * time.Millisecond

func newShell(t *testing.T, cfg Config) tool.Tool {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = t.TempDir()
	}
	tl, err := New(cfg)
	require.NoError(t, err)
	return tl
}

func args(t *testing.T, command, directory string) string {
	t.Helper()
	raw, err := json.Marshal(arguments{Command: command, Directory: directory})
	require.NoError(t, err)
	return string(raw)
}

func output(t *testing.T, out tooltest.Outcome) Output {
	t.Helper()
	require.NoError(t, out.Err)
	var got Output
	require.NoError(t, json.Unmarshal([]byte(out.Result.Output), &got), out.Result.Output)
	return got
}

func shown(p *tooltest.Progress, subtype string) string {
	var text strings.Builder
	for _, item := range p.Items() {
		if c, ok := item.(Chunk); ok && c.Subtype == subtype {
			text.WriteString(c.Content)
		}
	}
	return text.String()
}

func TestDefinition(t *testing.T) {
	tl, err := New(Config{Root: t.TempDir()})
	require.NoError(t, err)
	tooltest.Conforms(t, tl)
	d := tl.Definition()
	require.Equal(t, "shell_cmd", d.Name)
	require.True(t, d.NeedsApproval)
	require.Equal(t, "runs a command on the server", d.ApprovalReason)
	require.False(t, d.Idempotent)
	require.False(t, d.Quick)
	require.Greater(t, d.Timeout, DefaultTimeout+grace, "the tool itself must be first to end a run")
	require.Equal(t, "run", newShell(t, Config{Name: "run"}).Definition().Name)
}

func TestResult(t *testing.T) {
	t.Run("S4-106 exit 0", func(t *testing.T) {
		out := tooltest.Run(t, newShell(t, Config{}), args(t, "echo '<hi>'; echo oops >&2", ""))
		require.NoError(t, out.Err)
		require.Equal(t, tool.Result{Output: `{"stdout":"<hi>\n","stderr":"oops\n","exitCode":0}`}, out.Result)
	})
	t.Run("S4-106 non-zero exit is a failure", func(t *testing.T) {
		out := tooltest.Run(t, newShell(t, Config{}), args(t, "echo half; echo why >&2; exit 3", ""))
		require.NoError(t, out.Err)
		require.Equal(t, tool.Result{Output: `{"stdout":"half\n","stderr":"why\n","exitCode":3}`, IsError: true}, out.Result)
	})
	t.Run("S4-106 ended by a signal", func(t *testing.T) {
		out := tooltest.Run(t, newShell(t, Config{}), args(t, "kill -9 $$", ""))
		require.Equal(t, 137, output(t, out).ExitCode)
		require.True(t, out.Result.IsError)
	})
	t.Run("unknown command", func(t *testing.T) {
		got := output(t, tooltest.Run(t, newShell(t, Config{}), args(t, "no-such-command-here", "")))
		require.Equal(t, 127, got.ExitCode)
		require.Contains(t, got.Stderr, "no-such-command-here")
	})
	t.Run("no input", func(t *testing.T) {
		require.Empty(t, output(t, tooltest.Run(t, newShell(t, Config{}), args(t, "cat", ""))).Stdout)
	})
	t.Run("empty command", func(t *testing.T) {
		require.EqualError(t, tooltest.Run(t, newShell(t, Config{}), args(t, " ", "")).Err, "command: is empty")
	})
	t.Run("S4-73 no command", func(t *testing.T) {
		require.Equal(t, "Error: Tool parameter validation failed for shell_cmd: command: is required",
			tooltest.Run(t, newShell(t, Config{}), `{}`).Result.Output)
	})
}

func TestProgress(t *testing.T) {
	t.Run("S1-19 stdout_chunk while the command runs", func(t *testing.T) {
		dir := t.TempDir()
		done, progress, _ := tooltest.Start(t, newShell(t, Config{Root: dir}),
			args(t, "echo first; echo warn >&2; until [ -e go ]; do sleep 0.01; done; echo last", ""))
		progress.Await(func(item any) bool { return item == Chunk{Subtype: "stdout_chunk", Content: "first\n"} })
		progress.Await(func(item any) bool { return item == Chunk{Subtype: "stderr_chunk", Content: "warn\n"} })
		require.Contains(t, progress.JSON(), `{"subtype":"stdout_chunk","content":"first\n"}`)
		require.Empty(t, done, "the command had ended before")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		require.Equal(t, "first\nlast\n", output(t, tooltest.Wait(t, done)).Stdout)
		require.Equal(t, "first\nlast\n", shown(progress, Stdout))
	})
	t.Run("S1-19 no rune is split", func(t *testing.T) {
		dir := t.TempDir()
		done, progress, _ := tooltest.Start(t, newShell(t, Config{Root: dir}),
			args(t, `printf 'a\342\202'; until [ -e go ]; do sleep 0.01; done; printf '\254b\342'`, ""))
		progress.Await(func(item any) bool { return item == Chunk{Subtype: Stdout, Content: "a"} })
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		require.Equal(t, "a€b\uFFFD", output(t, tooltest.Wait(t, done)).Stdout)
		require.Equal(t, "a€b\uFFFD", shown(progress, Stdout))
	})
	t.Run("bounded", func(t *testing.T) {
		out := tooltest.Run(t, newShell(t, Config{MaxProgress: 1000}), args(t, "yes | head -c 300000", ""))
		got := shown(out.Progress, Stdout)
		require.Less(t, len(got), 40_000, "at most the one write that goes over the bound")
		require.Equal(t, 1, strings.Count(got, "more output follows"))
	})
}

func TestTruncatedOutput(t *testing.T) {
	t.Run("the middle is cut", func(t *testing.T) {
		got := output(t, tooltest.Run(t, newShell(t, Config{MaxOutput: 1000}), args(t, "echo start; yes | head -c 300000; echo end", "")))
		require.True(t, got.StdoutTruncated)
		require.False(t, got.StderrTruncated)
		require.True(t, strings.HasPrefix(got.Stdout, "start\ny\n"))
		require.True(t, strings.HasSuffix(got.Stdout, "y\nend\n"))
		require.Contains(t, got.Stdout, fmt.Sprintf("\n[… %d bytes cut …]\n", 300_000+len("start\nend\n")-1000))
		require.Less(t, len(got.Stdout), 1050)
	})
	t.Run("no rune is cut in two", func(t *testing.T) {
		for offset := range 3 {
			got := output(t, tooltest.Run(t, newShell(t, Config{MaxOutput: 300}),
				args(t, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; yes € | head -n 500 | tr -d '\\n'", offset), "")))
			require.True(t, got.StdoutTruncated)
			require.True(t, utf8.ValidString(got.Stdout))
			require.NotContains(t, got.Stdout, "\uFFFD")
			var cut int
			start := strings.Index(got.Stdout, "[…")
			_, err := fmt.Sscanf(got.Stdout[start:], "[… %d bytes cut …]", &cut)
			require.NoError(t, err)
			notice := len(fmt.Sprintf("\n[… %d bytes cut …]\n", cut))
			require.Equal(t, offset+1500, len(got.Stdout)-notice+cut, "what is left and what is cut is all there was")
		}
	})
	t.Run("exactly the bound is whole", func(t *testing.T) {
		got := output(t, tooltest.Run(t, newShell(t, Config{MaxOutput: 1000}), args(t, "yes | head -c 1000", "")))
		require.False(t, got.StdoutTruncated)
		require.Len(t, got.Stdout, 1000)
	})
}

func TestDirectory(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o750))
	require.NoError(t, os.Mkdir(filepath.Join(parent, "root-but-not"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	for link, target := range map[string]string{"out": parent, "up": "..", "in": "a/b", "dangling": "nowhere", "chain": "out"} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	viaLink := filepath.Join(parent, "link")
	require.NoError(t, os.Symlink(root, viaLink))
	tl := newShell(t, Config{Root: viaLink})
	resolved, err := filepath.EvalSymlinks(root)
	require.NoError(t, err)

	for named, want := range map[string]string{
		"": "", ".": "", "a": "a", "a/b": "a/b", "a/..": "", "in": "a/b",
		filepath.Join(resolved, "a"): "a", filepath.Join(viaLink, "a"): "a",
	} {
		got := output(t, tooltest.Run(t, tl, args(t, "pwd -P", named)))
		require.Equal(t, filepath.Join(resolved, want)+"\n", got.Stdout, "directory %q", named)
	}
	for named, want := range map[string]string{
		"..": "leads out of", "../root-but-not": "leads out of", "a/../../..": "leads out of", "/": "leads out of",
		parent: "leads out of", root + "-but-not": "leads out of", "../nowhere": "leads out of",
		"out": "leads out of", "up": "leads out of", "chain": "leads out of", "out/root-but-not": "leads out of",
		"nowhere": "does not exist", "dangling": "does not exist", "file": "is not a directory",
	} {
		out := tooltest.Run(t, tl, args(t, "touch ran", named))
		require.ErrorContains(t, out.Err, fmt.Sprintf("directory: %q ", named))
		require.ErrorContains(t, out.Err, want)
		if !filepath.IsAbs(named) {
			require.NotContains(t, out.Err.Error(), parent, "the error tells where the root is")
		}
	}
	for _, dir := range []string{parent, root, filepath.Join(parent, "root-but-not")} {
		require.NoFileExists(t, filepath.Join(dir, "ran"))
	}
}

// TestDirectoryBehindALink: approvals and the tool resolve a directory in the same way if the root
// is a link.
func TestDirectoryBehindALink(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(parent, "root", "a"), 0o750))
	require.NoError(t, os.Mkdir(filepath.Join(parent, "links"), 0o750))
	link := filepath.Join(parent, "links", "root")
	require.NoError(t, os.Symlink(filepath.Join(parent, "root"), link))
	tl := newShell(t, Config{Root: link})
	resolved, err := filepath.EvalSymlinks(link)
	require.NoError(t, err)
	require.Equal(t, resolved, tl.Definition().PathRoot)
	require.Equal(t, filepath.Join(resolved, "a")+"\n", output(t, tooltest.Run(t, tl, args(t, "pwd -P", "../root/a"))).Stdout)
	require.ErrorContains(t, tooltest.Run(t, tl, args(t, "pwd -P", "../../root/a")).Err, "leads out of")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("SHELL_TEST_EXTRA", "extra")
	t.Setenv("LANG", "C.UTF-8")
	got := output(t, tooltest.Run(t, newShell(t, Config{}), args(t, "env", "")))
	require.NotContains(t, got.Stdout, "OPENAI_API_KEY")
	require.NotContains(t, got.Stdout, "sk-secret")
	require.NotContains(t, got.Stdout, "SHELL_TEST_EXTRA")
	require.Contains(t, got.Stdout, "LANG=C.UTF-8\n")
	require.Contains(t, got.Stdout, "PATH=")

	got = output(t, tooltest.Run(t, newShell(t, Config{Env: []string{"SHELL_TEST_EXTRA"}}), args(t, "env", "")))
	require.Contains(t, got.Stdout, "SHELL_TEST_EXTRA=extra\n")
	require.NotContains(t, got.Stdout, "sk-secret")
}

// A grandchild that ignores SIGTERM, in a pipeline of a subshell.
const stubborn = `(sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done' | cat) & wait`

func startStubborn(t *testing.T, cfg Config, grace time.Duration, command string) (<-chan tooltest.Outcome, int, context.CancelFunc) {
	t.Helper()
	cfg.Root = t.TempDir()
	tl, err := newTool(cfg, grace)
	require.NoError(t, err)
	done, _, cancel := tooltest.Start(t, tl, args(t, command, ""))
	var pid int
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(filepath.Join(cfg.Root, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
		return err == nil
	}, testenv.Patience, time.Millisecond)
	t.Cleanup(func() {
		if alive(pid) { // clean up after a failed test
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return done, pid, cancel
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		_, noProc := os.Stat("/proc/self/stat")
		return noProc != nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func requireDead(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, testenv.Patience, time.Millisecond, "process %d lives on", pid)
}

func TestCancelKillsGrandchildren(t *testing.T) {
	for name, command := range map[string]string{
		"holding the output": stubborn,
		"without the output": `sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done' >/dev/null 2>&1 & wait`,
		"shell ignores too":  `trap "" TERM; sh -c 'echo $$ > pid; while :; do sleep 0.05; done'`,
	} {
		t.Run(name, func(t *testing.T) {
			done, pid, cancel := startStubborn(t, Config{}, shortGrace, command)
			cancel()
			out := tooltest.Wait(t, done)
			require.ErrorIs(t, out.Err, context.Canceled)
			require.ErrorContains(t, out.Err, "the command was stopped")
			requireDead(t, pid)
		})
	}
}

func TestCancelLetsProcessesCleanUp(t *testing.T) {
	root := t.TempDir()
	tl, err := newTool(Config{Root: root}, 20*time.Second)
	require.NoError(t, err)
	done, progress, cancel := tooltest.Start(t, tl,
		args(t, `trap 'touch cleaned; exit 1' TERM; echo ready; while :; do sleep 0.05; done`, ""))
	progress.Await(func(item any) bool { return item == Chunk{Subtype: Stdout, Content: "ready\n"} })
	cancel()
	out := tooltest.Wait(t, done)
	require.ErrorIs(t, out.Err, context.Canceled)
	require.Contains(t, out.Result.Output, `"stdout":"ready\n"`, "what it said so far is kept")
	require.FileExists(t, filepath.Join(root, "cleaned"))
}

func TestTimeoutKeepsTheOutput(t *testing.T) {
	done, pid, _ := startStubborn(t, Config{Timeout: 10 * time.Second}, shortGrace, "echo so far; "+stubborn)
	out := tooltest.Wait(t, done)
	require.True(t, out.Result.IsError)
	got := output(t, out)
	require.Equal(t, "so far\n", got.Stdout)
	require.Equal(t, "stopped: it took longer than 10s", got.Error)
	require.NotZero(t, got.ExitCode)
	requireDead(t, pid)
}

func TestNothingStaysBehind(t *testing.T) {
	// The grace also limits the wait for the output.
	done, pid, _ := startStubborn(t, Config{}, 3*time.Second, stubborn[:len(stubborn)-len(" wait")]+" until [ -s pid ]; do sleep 0.01; done; echo started")
	out := tooltest.Wait(t, done)
	require.False(t, out.Result.IsError, out.Result.Output)
	require.Equal(t, Output{Stdout: "started\n"}, output(t, out))
	requireDead(t, pid)
}

func TestCancelledBefore(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call, _ := tooltest.NewCall(t, args(t, "touch ran", ""))
	_, err := newShell(t, Config{Root: root}).Call(ctx, call)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(root, "ran"))
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for want, cfg := range map[string]Config{
		"shell: root is required":                         {},
		"is not a directory":                              {Root: file},
		"shell: root " + filepath.Join(dir, "x"):          {Root: filepath.Join(dir, "x")},
		"shell: timeout is -1s, must be positive":         {Root: dir, Timeout: -time.Second},
		"shell: maxOutput is 10, must be at least 256":    {Root: dir, MaxOutput: 10},
		"shell: maxProgress is -1, must be at least 256":  {Root: dir, MaxProgress: -1},
		`shell: env "A=b" must be the name of a variable`: {Root: dir, Env: []string{"A=b"}},
		`tool name "a b": use 1 to 64 letters`:            {Root: dir, Name: "a b"},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestWorkingDirectory: commands start in the agent's working directory, which approvers see.
func TestWorkingDirectory(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sub", "deep"), 0o750))
	sh, err := New(Config{Root: root})
	require.NoError(t, err)
	at := func(working, directory string) (tool.Result, error) {
		return sh.Call(context.Background(), tool.Call{
			ID: "c1", WorkingDirectory: working, Arguments: `{"command":"pwd","directory":"` + directory + `"}`,
			Exec: event.NewExecutionContext(context.Background(), "t"), OnProgress: func(any) {},
		})
	}
	for working, wants := range map[string][2]string{"": {"", root}, filepath.Join(root, "sub"): {"deep", filepath.Join(root, "sub", "deep")}} {
		res, err := at(working, wants[0])
		require.NoError(t, err)
		real, err := filepath.EvalSymlinks(wants[1])
		require.NoError(t, err)
		require.Contains(t, res.Output, real)
	}
	res, err := at(t.TempDir(), "")
	require.True(t, err != nil || res.IsError, "outside of the root nothing runs")
}
