package deployment

import (
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
)

// RecentPoll is the maximum time since the last poll of a running worker: a poll lasts up to a minute.
const RecentPoll = 90 * time.Second

// builds returns the builds of a deployment whose workers poll; "" are workers without a build.
func builds(pollers []*taskqueuepb.PollerInfo, name string) map[string]bool {
	out := map[string]bool{}
	for _, p := range pollers {
		if time.Since(p.GetLastAccessTime().AsTime()) > RecentPoll {
			continue
		}
		build := ""
		if own := p.GetDeploymentOptions(); own.GetWorkerVersioningMode() == enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			if own.GetDeploymentName() != name {
				continue
			}
			build = own.GetBuildId()
		}
		out[build] = true
	}
	return out
}

// Gets reports whether a worker gets the tasks of a thread: one that is pinned to a build or, if pinned is nil, a new one.
func Gets(p *taskqueuepb.PollerInfo, routing *taskqueuepb.TaskQueueVersioningInfo, pinned *deploymentpb.WorkerDeploymentVersion) bool {
	if pinned != nil {
		return is(p, pinned)
	}
	ramping := routing.GetRampingDeploymentVersion()
	return is(p, routing.GetCurrentDeploymentVersion()) || ramping != nil && is(p, ramping)
}

// is reports whether a worker is a build. Nil means workers without a build.
func is(p *taskqueuepb.PollerInfo, version *deploymentpb.WorkerDeploymentVersion) bool {
	own := p.GetDeploymentOptions()
	if own.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
		return version == nil
	}
	return own.GetDeploymentName() == version.GetDeploymentName() && own.GetBuildId() == version.GetBuildId()
}
