package deploying

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/deployment"
	"github.com/threadmill/threadmill/internal/doctor"
	"github.com/threadmill/threadmill/internal/server"
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
		}, harness.Patience, harness.Tick, "%+v", &want)
		require.Contains(t, found.Detail, want.Detail)
		require.Contains(t, found.Advice, want.Advice)
	}
	ready := func(status string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var body struct{ Status string }
			f.get("/readyz", &body)
			return body.Status == status
		}, harness.Patience, harness.Tick)
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
	require.Equal(t, "nothing runs on build 1: stop its workers once it is drained\n", printed)
	require.Equal(t, "2", f.BuildOf(thread))
	stopOne()
	_, _, problem = f.Starter("deployment", "move", "nope")
	require.Contains(t, problem, `there is no build "nope"`)
	_, _, problem = f.Starter("deployment", "show", "--deployment", "elsewhere")
	require.Contains(t, problem, `worker deployment "elsewhere": there is no such worker deployment: its workers start with --build`)
}

func (f fleet) get(path string, out any) {
	f.T.Helper()
	res, err := http.Get(f.API.URL + path)
	require.NoError(f.T, err)
	defer res.Body.Close()
	require.NoError(f.T, json.NewDecoder(res.Body).Decode(out))
}
