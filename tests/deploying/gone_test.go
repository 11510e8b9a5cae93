package deploying

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/app"
	"github.com/threadmill/threadmill/internal/ops/gate"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// programEnv makes the test binary a program of package app.
const programEnv = "THREADMILL_TESTS_PROGRAM"

// oddOnes is the prefix of the ids of threads that only the build "1" of [asBuild] can replay.
const oddOnes = "odd"

// asBuild makes a worker a build.
func asBuild(w killing.Worker, cfg *threadmill.Config) error {
	build := w.Data["build"]
	options := client.Options{HostPort: w.Temporal}
	if build == "1" {
		options.Interceptors = []interceptor.ClientInterceptor{&oddly{prefix: oddOnes}}
	}
	var err error
	cfg.Temporal, err = client.Dial(options)
	cfg.Deployment, cfg.StaleAfter = threadmill.Deployment{Build: build}, killing.StaleAfter
	return err
}

// TestWorkersOfBuildKilled kills the only worker of a build with SIGKILL in the middle of a turn, for ever. The threads that the current
// build can replay move there, and lose nothing; the other is named, and goes on once a worker of its build runs again.
func TestWorkersOfBuildKilled(t *testing.T) {
	t.Parallel()
	w := killing.New(t, harness.Options{}, "build")
	f := fleet{Harness: w.Harness}
	as := func(build string) killing.Worker {
		v := w.Worker
		v.Data = map[string]string{"build": build}
		return v
	}
	w.StartAs(as("1"))
	f.Switch("1")
	posted := map[string][]string{}
	post := func(thread, id, text string) {
		w.PostMessage(thread, id, text)
		posted[thread] = append(posted[thread], id)
	}
	first := map[string]string{}
	const busy, idle, odd = "busy", "idle", oddOnes
	for _, id := range []string{busy, idle, odd} {
		require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Agents: []string{"assistant"}}, nil))
		post(id, id+"-hello", "hello")
		require.Equal(t, signals.TurnCompleted, w.Await(id, id+"-hello").Status)
		require.Equal(t, "1", check.BuildOf(f.Harness, id))
		first[id] = check.CurrentRun(f.Harness, id)
	}
	reached := w.Hold("act", "once")
	post(busy, "act", `use act {"how":"once"}`)
	check.Arrives(t, reached, "the tool runs")
	w.Kill()
	post(odd, "late", "are you there?")
	w.StartAs(as("2"))
	f.Switch("2")

	f.awaitWaiting("1", 3)
	report, code, problem := f.replay("--from", "1")
	require.Equal(t, 1, code, problem)
	require.Equal(t, 3, report.Replayed)
	require.Empty(t, report.Moved)
	require.Equal(t, "1", check.BuildOf(f.Harness, idle), "a replay changes nothing")

	report, code, problem = f.replay("--from", "1", "--move", "--build", "2")
	require.Equal(t, 1, code, problem)
	require.ElementsMatch(t, []string{signals.WorkflowID(f.TaskQueue, busy), signals.WorkflowID(f.TaskQueue, idle)}, report.Moved)
	require.Len(t, report.Failed, 1)
	require.Equal(t, signals.WorkflowID(f.TaskQueue, odd), report.Failed[0].Workflow)
	require.Contains(t, report.Failed[0].Error, "TMPRL1100")

	require.Equal(t, signals.TurnCompleted, w.Await(busy, "act").Status)
	post(idle, "again", "hello again")
	require.Equal(t, signals.TurnCompleted, w.Await(idle, "again").Status)
	for _, id := range []string{busy, idle} {
		require.Equal(t, "2", check.BuildOf(f.Harness, id))
		require.Len(t, f.RequireSound(id, first[id]), 1, "the build replays the run")
	}
	require.Equal(t, "1", check.BuildOf(f.Harness, odd))

	as("1").Start(t)
	require.Equal(t, signals.TurnCompleted, w.Await(odd, "late").Status)
	printed, code, problem := f.Starter("deployment", "move", "1")
	require.Zero(t, code, problem)
	require.Contains(t, printed, "nothing needs build 1")
	require.Equal(t, "2", check.BuildOf(f.Harness, odd))
	f.RequireSound(odd, first[odd])
	f.requireOneAnswerEach(posted)
	require.Equal(t, 1, w.Asked("act", "once"), "a tool that is not idempotent does not run again")
}

// TestMoveWithdrawn: the program can replay a thread, and the workers of its build cannot. The thread stays on the former build, and goes on
// there.
func TestMoveWithdrawn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{})
	stop := f.Start("1", false)
	f.Switch("1")
	thread := f.Open("assistant")
	f.Moved(thread, "1")
	stop()
	f.Start("2", true)
	f.Switch("2")
	f.awaitWaiting("1", 1)
	report, code, problem := f.replay("--from", "1", "--move", "--build", "2", "--within", "10s")
	require.Equal(t, 1, code, problem)
	require.Empty(t, report.Failed)
	require.Empty(t, report.Moved)
	d, err := f.Temporal.DescribeWorkflowExecution(f.Ctx(), signals.WorkflowID(f.TaskQueue, thread), "")
	require.NoError(t, err)
	require.Nil(t, d.GetWorkflowExecutionInfo().GetVersioningInfo().GetVersioningOverride())
	require.Equal(t, "1", check.BuildOf(f.Harness, thread))
	f.Start("1", false)
	require.Equal(t, signals.TurnCompleted, f.Say(thread, "still there?").Status)
}

// awaitWaiting waits until threads wait on a build without workers. Temporal may know a worker that has gone for up to 90 seconds, and its list of
// what runs on a build lags.
func (f fleet) awaitWaiting(build string, threads int64) {
	f.T.Helper()
	require.Eventually(f.T, func() bool {
		status, err := f.deployment().Inspect(f.Ctx())
		return err == nil && status.Find(build).Waiting == threads
	}, testenv.Patience, 10*testenv.Tick)
}

// replay runs the command replay of a program without anything of its own.
func (f fleet) replay(args ...string) (report gate.Report, code int, problem string) {
	f.T.Helper()
	path, err := os.Executable()
	require.NoError(f.T, err)
	cmd := exec.CommandContext(f.Ctx(), path, append([]string{"replay", "--json", "--task-queue", f.TaskQueue}, args...)...)
	cmd.Dir = f.T.TempDir()
	cmd.Env = []string{programEnv + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "TEMPORAL_ADDRESS=" + f.Server.Addr()}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		require.NoError(f.T, err)
	}
	if len(out) > 0 {
		require.NoError(f.T, json.Unmarshal(out, &report), errs.String())
	}
	return report, cmd.ProcessState.ExitCode(), errs.String()
}

// TestMain turns the test binary into a worker or a program, for tests that need processes.
func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		app.Main(app.Config{Name: "program"})
	}
	killing.Main(m, map[string]killing.Kind{"build": asBuild})
}
