package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// An orphan in its own session that ignores SIGTERM and has an empty environment.
const daemon = `(env -i setsid sh -c 'trap "" TERM HUP; echo $$ > pid; while :; do sleep 0.05; done' >/dev/null 2>&1 &);`

const untilStarted = ` until [ -s pid ]; do sleep 0.01; done; echo started`

func TestDaemonsAreStopped(t *testing.T) {
	t.Run("when the command ends", func(t *testing.T) {
		done, pid, _ := startStubborn(t, Config{}, shortGrace, daemon+untilStarted)
		require.Equal(t, Output{Stdout: "started\n"}, output(t, tooltest.Wait(t, done)))
		require.False(t, alive(pid))
	})
	t.Run("when the call is cancelled", func(t *testing.T) {
		done, pid, cancel := startStubborn(t, Config{}, shortGrace, daemon+untilStarted+"; sleep 1000")
		cancel()
		require.ErrorIs(t, tooltest.Wait(t, done).Err, context.Canceled)
		require.False(t, alive(pid))
	})
	t.Run("when the command kills its supervisor", func(t *testing.T) {
		done, pid, _ := startStubborn(t, Config{}, shortGrace,
			`sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done' >/dev/null 2>&1 &`+untilStarted+`; kill -9 $PPID; sleep 1000`)
		require.Equal(t, 137, output(t, tooltest.Wait(t, done)).ExitCode)
		requireDead(t, pid)
	})
}

// TestMain runs a worker instead of the tests if the environment requests one.
func TestMain(m *testing.M) {
	if raw := os.Getenv("SHELL_TEST_WORKER"); raw != "" {
		os.Exit(testWorker(raw))
	}
	os.Exit(m.Run())
}

// workerTask is the command that a worker runs.
type workerTask struct {
	Root, Command string
	Protect       bool
}

func testWorker(raw string) int {
	var task workerTask
	if err := json.Unmarshal([]byte(raw), &task); err != nil {
		panic(err)
	}
	if task.Protect {
		if err := ProtectProcess(); err != nil {
			panic(err)
		}
	}
	sh, err := newTool(Config{Root: task.Root}, shortGrace)
	if err != nil {
		panic(err)
	}
	in, err := json.Marshal(arguments{Command: strings.ReplaceAll(task.Command, "WORKER", fmt.Sprint(os.Getpid()))})
	if err != nil {
		panic(err)
	}
	res, err := sh.Call(context.Background(), tool.Call{ID: "c1", Arguments: string(in), OnProgress: func(any) {}})
	if err != nil {
		panic(err)
	}
	fmt.Print(res.Output)
	return 0
}

func newWorker(t *testing.T, task workerTask) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(task)
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SHELL_TEST_WORKER="+string(raw), "OPENAI_API_KEY=sk-secret")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestCommandEndsWithItsWorker(t *testing.T) {
	root := t.TempDir()
	worker := newWorker(t, workerTask{Root: root, Command: daemon + untilStarted + `; echo $$ > shell; sleep 1000`})
	require.NoError(t, worker.Start())
	pids := map[string]int{}
	for _, name := range []string{"pid", "shell"} {
		require.Eventually(t, func() bool {
			raw, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return false
			}
			pid := 0
			_, err = fmt.Sscan(string(raw), &pid)
			pids[name] = pid
			return err == nil
		}, testenv.Patience, time.Millisecond)
	}
	require.NoError(t, worker.Process.Signal(syscall.SIGKILL))
	require.Error(t, worker.Wait())
	for _, pid := range pids {
		requireDead(t, pid)
	}
}

func TestKeysOfTheWorkerAreHidden(t *testing.T) {
	read := func(t *testing.T, protect bool, credential *syscall.Credential) Output {
		t.Helper()
		root := t.TempDir()
		for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		worker := newWorker(t, workerTask{Root: root, Protect: protect, Command: `cat /proc/WORKER/environ; grep -c . /proc/WORKER/maps; cat /proc/$PPID/environ`})
		worker.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		var out bytes.Buffer
		worker.Stdout = &out
		require.NoError(t, worker.Run())
		var got Output
		require.NoError(t, json.Unmarshal(out.Bytes(), &got), out.String())
		return got
	}
	users := map[string]*syscall.Credential{"the user of the tests": nil}
	if os.Geteuid() == 0 {
		users["nobody"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for name, credential := range users {
		t.Run(name, func(t *testing.T) {
			if credential != nil || os.Geteuid() != 0 { // for root, dropping capabilities is sufficient
				require.Contains(t, read(t, false, credential).Stdout, "sk-secret", "without protection the attack works")
			}
			got := read(t, true, credential)
			require.NotContains(t, got.Stdout, "sk-secret")
			require.Contains(t, got.Stderr, "Permission denied")
		})
	}
}

func TestRunner(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "sub"), 0o750))
	runner := filepath.Join(root, "runner")
	require.NoError(t, os.WriteFile(runner, []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o700))
	tl := newShell(t, Config{Root: root, Runner: []string{runner, "--workdir={directory}", "sh", "-c"}})
	dir, err := filepath.EvalSymlinks(filepath.Join(root, "sub"))
	require.NoError(t, err)
	require.Equal(t, "--workdir="+dir+"|sh|-c|echo hi; rm -rf x|", output(t, tooltest.Run(t, tl, args(t, "echo hi; rm -rf x", "sub"))).Stdout)

	t.Run("gone when it is needed", func(t *testing.T) {
		require.NoError(t, os.Remove(runner))
		got := output(t, tooltest.Run(t, tl, args(t, "echo hi", "")))
		require.Equal(t, 127, got.ExitCode)
		require.Contains(t, got.Stderr, "the command could not be started")
	})
	t.Run("not there at the start", func(t *testing.T) {
		_, err := New(Config{Root: root, Runner: []string{"no-such-program"}})
		require.ErrorContains(t, err, "shell: runner: ")
		require.ErrorContains(t, err, "no-such-program")
	})
}
