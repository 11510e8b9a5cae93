package check

import (
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// MakeCurrent makes a build of a deployment current once a worker of it has polled. "" = workers without a build.
func MakeCurrent(w *harness.Harness, deployment, build string) {
	w.T.Helper()
	handle := w.Temporal.WorkerDeploymentClient().GetHandle(deployment)
	var last error
	require.Eventually(w.T, func() bool {
		_, last = handle.SetCurrentVersion(w.Ctx(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
		return last == nil
	}, testenv.Patience, testenv.Tick, "switching to %q: %v", build, &last)
}

// BuildOf returns the build on which the last step of a thread has run.
func BuildOf(w *harness.Harness, thread string) string {
	w.T.Helper()
	d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "")
	require.NoError(w.T, err)
	return d.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId()
}
