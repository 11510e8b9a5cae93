package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestBuilds: builds of other deployments on the same task queue, and those that no longer poll, do not count.
func TestBuilds(t *testing.T) {
	poller := func(deployment, build string, ago time.Duration) *taskqueuepb.PollerInfo {
		mode := enumspb.WORKER_VERSIONING_MODE_VERSIONED
		if build == "" {
			mode = enumspb.WORKER_VERSIONING_MODE_UNVERSIONED
		}
		return &taskqueuepb.PollerInfo{
			LastAccessTime:    timestamppb.New(time.Now().Add(-ago)),
			DeploymentOptions: &deploymentpb.WorkerDeploymentOptions{DeploymentName: deployment, BuildId: build, WorkerVersioningMode: mode},
		}
	}
	pollers := []*taskqueuepb.PollerInfo{poller("acme", "1", 0), poller("acme", "2", time.Hour), poller("other", "3", 0), poller("", "", 0)}
	require.Equal(t, map[string]bool{"1": true, "": true}, builds(pollers, "acme"))
}
