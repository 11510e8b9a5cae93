package deploying

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestViews: doctor, /readyz, /v1/server and "starter deployment" see which builds get threads, run and drain.
func TestViews(t *testing.T) {
	f := newFleet(t, harness.Options{})
	stopOne := f.Start("1", true)
	finding := func(want doctor.Finding) {
		t.Helper()
		var found doctor.Finding
		require.Eventually(t, func() bool {
			printed, _, problem := f.Starter("doctor", "--json")
			var out struct{ Findings []doctor.Finding }
			require.NoError(t, json.Unmarshal([]byte(printed), &out), problem)
			for _, one := range out.Findings {
				if one.Check == "deployment" && one.Status == want.Status {
					found = one
					return true
				}
			}
			return false
		}, testenv.Patience, testenv.Tick, "%+v", &want)
		require.Contains(t, found.Detail, want.Detail)
		require.Contains(t, found.Advice, want.Advice)
	}
	ready := func(status string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var body struct{ Status string }
			f.get("/readyz", &body)
			return body.Status == status
		}, testenv.Patience, testenv.Tick)
	}
	finding(doctor.Bad("deployment", "set-current-version --deployment-name "+f.TaskQueue+" --build-id 1", "no build of"))
	ready("degraded")
	printed, _, _ := f.Starter("deployment", "show")
	require.Contains(t, printed, "inactive")
	require.Contains(t, printed, "no build is current")

	f.Switch("1")
	ready("ok")
	thread := f.Open("assistant")
	f.Moved(thread, "1")
	finding(doctor.Good("deployment", `build "1" is current`))
	_, code, problem := f.Starter("deployment", "move", "1")
	require.NotZero(t, code)
	require.Contains(t, problem, `build "1" is current, and gets threads`)

	f.Start("2", false)
	f.Switch("2")
	finding(doctor.Good("deployment", `build "2" is current, draining: 1 (1 threads left)`))
	var info server.ServerInfo
	f.get("/v1/server", &info)
	require.Equal(t, "2", info.Deployment.Current)
	require.Equal(t, deployment.Draining, info.Deployment.Find("1").Status)

	printed, code, problem = f.Starter("deployment", "move", "1")
	require.Zero(t, code, problem)
	require.Equal(t, "nothing needs build 1: stop its workers once it is drained\n", printed)
	require.Equal(t, "2", check.BuildOf(f.Harness, thread))
	stopOne()
	_, _, problem = f.Starter("deployment", "move", "nope")
	require.Contains(t, problem, `there is no build "nope"`)
	_, _, problem = f.Starter("deployment", "show", "--deployment", "elsewhere")
	require.Contains(t, problem, `worker deployment "elsewhere": there is no such worker deployment: its workers start with --build`)
}

// TestBuildWithoutWorkers: "starter deployment", doctor and /v1/server say how many threads wait on a build without workers, and how they
// move.
func TestBuildWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{})
	stop := f.Start("1", false)
	f.Switch("1")
	thread := f.Open("assistant")
	f.Moved(thread, "1")
	stop()
	f.Start("2", false)
	f.Switch("2")
	const advice = "worker replay --from 1 --move --build 2"
	build := func() deployment.Build {
		var info server.ServerInfo
		f.get("/v1/server", &info)
		if info.Deployment == nil {
			return deployment.Build{} // Temporal was busy
		}
		return *info.Deployment.Find("1")
	}
	// Temporal may know a worker that has gone for up to 90 seconds.
	require.Eventually(t, func() bool { b := build(); return !b.Workers && b.Waiting == 1 }, testenv.Patience, 10*testenv.Tick)
	printed, code, problem := f.Starter("deployment", "show")
	require.Zero(t, code, problem)
	require.Contains(t, printed, "1 threads wait on build 1, which has no workers")
	require.Contains(t, printed, advice)
	_, code, problem = f.Starter("deployment", "move", "1")
	require.NotZero(t, code)
	require.Contains(t, problem, "1 threads and 0 pinned workflows are on build 1, and no worker of it polls")
	require.Contains(t, problem, advice)
	printed, _, _ = f.Starter("doctor")
	require.Contains(t, printed, `1 threads and 0 pinned workflows are on build "1", and no worker of it polls`)
	require.Contains(t, printed, advice)

	report, code, problem := f.replay("--from", "1", "--move", "--build", "1")
	require.Equal(t, 1, code)
	require.Contains(t, problem, `--move: build "1" is not current`)
	require.Empty(t, report.Moved)
	report, code, problem = f.replay("--from", "1", "--move", "--build", "2")
	require.Zero(t, code, problem)
	require.Len(t, report.Moved, 1)
	require.Equal(t, "2", check.BuildOf(f.Harness, thread), "an idle thread is woken")
}

func (f fleet) get(path string, out any) {
	f.T.Helper()
	res, err := http.Get(f.API.URL + path)
	require.NoError(f.T, err)
	defer res.Body.Close()
	require.NoError(f.T, json.NewDecoder(res.Body).Decode(out))
}

// TestOthers: a build is still needed by workflows that are pinned to it, and not by tasks that wait. A deployment may have a name
// of its own.
func TestOthers(t *testing.T) {
	f := newFleet(t, harness.Options{})
	const name = "threads-of-acme"
	named := func(build string) func(*threadmill.Config) {
		return func(cfg *threadmill.Config) {
			cfg.Deployment = threadmill.Deployment{Build: build, Name: name}
			cfg.RegisterWith = func(r worker.Registry) {
				waits := func(ctx workflow.Context) error {
					return workflow.Await(ctx, func() bool { return workflow.GetSignalChannel(ctx, "end").ReceiveAsync(nil) })
				}
				r.RegisterWorkflowWithOptions(waits, workflow.RegisterOptions{Name: "pinned"})
				r.RegisterWorkflowWithOptions(waits, workflow.RegisterOptions{Name: "moving", VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
			}
		}
	}
	f.Start("1", false, named("1"))
	printed, _, _ := f.Starter("doctor")
	require.NotContains(t, printed, "deployment")
	t.Setenv("TEMPORAL_DEPLOYMENT_NAME", name)
	require.Eventually(t, func() bool {
		printed, _, _ := f.Starter("doctor")
		return strings.Contains(printed, `no build of "`+name+`" is current`)
	}, testenv.Patience, testenv.Tick)

	check.MakeCurrent(f.Harness, name, "1")
	for _, typ := range []string{"pinned", "moving"} {
		_, err := f.Temporal.ExecuteWorkflow(f.Ctx(), client.StartWorkflowOptions{ID: typ, TaskQueue: f.TaskQueue}, typ)
		require.NoError(t, err)
	}
	d := f.deployment()
	d.Name = name
	running := func(want deployment.Running) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, err := d.Running(f.Ctx(), "1")
			require.NoError(t, err)
			return got == want
		}, testenv.Patience, testenv.Tick, "%+v", want)
	}
	running(deployment.Running{Pinned: 1, Others: 1})
	f.Start("2", false, named("2"))
	check.MakeCurrent(f.Harness, name, "2")
	require.NoError(t, f.Temporal.SignalWorkflow(f.Ctx(), "pinned", "", "end", nil))
	running(deployment.Running{Others: 1})
	printed, code, problem := f.Starter("deployment", "move", "1")
	require.Zero(t, code, problem)
	require.Equal(t, "nothing needs build 1: stop its workers once it is drained\n", printed)
}
