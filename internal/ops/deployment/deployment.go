package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/signals"
)

// ErrNotFound means that no worker has polled as a build of the deployment.
var ErrNotFound = errors.New("there is no such worker deployment")

// Deployment is a Worker Deployment.
type Deployment struct {
	Client client.Client

	// Namespace is Temporal's, and Name that of the deployment in it.
	Namespace, Name string

	// TaskQueue is that of the threads. Default: Name.
	TaskQueue string
}

// BuildStatus says what Temporal does with a build.
type BuildStatus string

// The statuses of a build.
const (
	// Current builds get new threads, and the existing ones.
	Current BuildStatus = "current"

	// Ramping builds get a share of them.
	Ramping BuildStatus = "ramping"

	// Draining builds get none, and some still run on them.
	Draining BuildStatus = "draining"

	// Drained builds may be stopped.
	Drained BuildStatus = "drained"

	// Inactive builds never were current or ramping.
	Inactive BuildStatus = "inactive"
)

// Status describes a deployment.
type Status struct {
	Name    string    `json:"name" doc:"The name of the Worker Deployment"`
	Current string    `json:"current,omitempty" doc:"The build that gets new threads. Absent: workers without a build do"`
	Since   time.Time `json:"since,omitzero" doc:"Since when it does"`
	Ramping string    `json:"ramping,omitempty" doc:"The build that gets a share of the threads"`
	Percent float32   `json:"percent,omitempty" doc:"The share of the ramping build"`
	Builds  []Build   `json:"builds" nullable:"false" doc:"The builds that Temporal knows, the newest first"`

	// Unversioned, like the workers of builds, is only set by [Deployment.Inspect].
	Unversioned bool `json:"unversioned,omitempty" doc:"Whether a worker without a build id polls for threads"`
}

// Build is a build of a deployment.
type Build struct {
	ID      string      `json:"id" doc:"The build id"`
	Status  BuildStatus `json:"status" enum:"current,ramping,draining,drained,inactive" doc:"What Temporal does with the build"`
	Created time.Time   `json:"created" doc:"When its first worker polled"`
	Workers bool        `json:"workers" doc:"Whether a worker of the build has polled for threads within the last 90 seconds"`
	Waiting int64       `json:"waiting,omitempty" doc:"Threads on the build, if it has no workers: they wait until a worker of the build runs, or they are moved"`
}

// Find returns a build, or nil.
func (s Status) Find(id string) *Build {
	at := slices.IndexFunc(s.Builds, func(b Build) bool { return b.ID == id })
	if at < 0 {
		return nil
	}
	return &s.Builds[at]
}

// Left reports whether a build gets no threads any more, and another build or workers without a build do.
func (s Status) Left(id string) bool {
	b := s.Find(id)
	return b != nil && (b.Status == Draining || b.Status == Drained)
}

// Describe returns the status of the deployment, or [ErrNotFound].
func (d Deployment) Describe(ctx context.Context) (Status, error) {
	out := Status{Name: d.Name, Builds: []Build{}}
	found, err := d.describe(ctx)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return out, fmt.Errorf("worker deployment %q: %w", d.Name, ErrNotFound)
	}
	if err != nil {
		return out, fmt.Errorf("describing worker deployment %q: %w", d.Name, err)
	}
	info := found.GetWorkerDeploymentInfo()
	routing := info.GetRoutingConfig()
	if out.Current = routing.GetCurrentDeploymentVersion().GetBuildId(); out.Current != "" {
		out.Since = routing.GetCurrentVersionChangedTime().AsTime()
	}
	out.Ramping, out.Percent = routing.GetRampingDeploymentVersion().GetBuildId(), routing.GetRampingVersionPercentage()
	for _, v := range info.GetVersionSummaries() {
		out.Builds = append(out.Builds, Build{ID: v.GetDeploymentVersion().GetBuildId(), Status: status(v), Created: v.GetCreateTime().AsTime()})
	}
	slices.SortFunc(out.Builds, func(a, b Build) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// Pauses while the server is busy with a deployment: with another change or description of it.
const (
	busyPause    = 50 * time.Millisecond
	busyMaxPause = 2 * time.Second
)

// describe asks again for some seconds if the server is busy.
func (d Deployment) describe(ctx context.Context) (*workflowservice.DescribeWorkerDeploymentResponse, error) {
	for pause := busyPause; ; pause *= 2 {
		found, err := d.Client.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{
			Namespace: d.Namespace, DeploymentName: d.Name,
		})
		if _, busy := errors.AsType[*serviceerror.ResourceExhausted](err); !busy || pause > busyMaxPause {
			return found, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Inspect describes the deployment with the workers of its builds, and counts the threads on builds without workers.
func (d Deployment) Inspect(ctx context.Context) (Status, error) {
	out, err := d.Describe(ctx)
	if err != nil {
		return out, err
	}
	name := cmp.Or(d.TaskQueue, d.Name)
	queue, err := d.Client.DescribeTaskQueue(ctx, name, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return out, fmt.Errorf("describing task queue %q: %w", name, err)
	}
	polled := builds(queue.GetPollers(), d.Name)
	out.Unversioned = polled[""]
	for i := range out.Builds {
		b := &out.Builds[i]
		if b.Workers = polled[b.ID]; b.Workers || b.Status == Drained || b.Status == Inactive {
			continue
		}
		if b.Waiting, err = d.count(ctx, d.on(b.ID)+" AND "+areThreads); err != nil {
			return out, err
		}
	}
	return out, nil
}

func status(v *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary) BuildStatus {
	switch v.GetStatus() {
	case enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT:
		return Current
	case enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING:
		return Ramping
	case enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING:
		return Draining
	case enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED:
		return Drained
	case enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_UNSPECIFIED, enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_INACTIVE, enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_CREATED:
	}
	return Inactive
}

// Running counts what still runs on a build.
type Running struct {
	Threads int64 `json:"threads" doc:"Threads that run on the build, sub-agents included"`
	Pinned  int64 `json:"pinned" doc:"Other workflows that are pinned to the build, such as those of the application"`
	Others  int64 `json:"others" doc:"Other workflows, such as tasks and hooks, whose last step ran there. They do not need the build: their next step runs elsewhere"`
}

// Needed reports whether something needs the build.
func (r Running) Needed() bool { return r.Threads > 0 || r.Pinned > 0 }

// Running counts the workflows whose last step ran on a build. Temporal's visibility may lag by seconds.
func (d Deployment) Running(ctx context.Context, build string) (out Running, err error) {
	for _, c := range []struct {
		n     *int64
		query string
	}{
		{&out.Threads, areThreads},
		{&out.Pinned, areOthers + " AND " + arePinned},
		{&out.Others, areOthers},
	} {
		if *c.n, err = d.count(ctx, d.on(build)+" AND "+c.query); err != nil {
			return Running{}, err
		}
	}
	out.Others = max(0, out.Others-out.Pinned)
	return out, nil
}

func (d Deployment) count(ctx context.Context, query string) (int64, error) {
	n, err := d.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: d.Namespace, Query: query})
	if err != nil {
		return 0, fmt.Errorf("counting workflows of worker deployment %q: %w", d.Name, err)
	}
	return n.GetCount(), nil
}

var areThreads = fmt.Sprintf("WorkflowType IN (%q, %q)", signals.ThreadWorkflow, signals.DelegateWorkflow)

var areOthers = fmt.Sprintf("WorkflowType NOT IN (%q, %q)", signals.ThreadWorkflow, signals.DelegateWorkflow)

const arePinned = `TemporalWorkflowVersioningBehavior = "Pinned"`

// on is the visibility query for what runs on a build.
func (d Deployment) on(build string) string {
	return fmt.Sprintf("TemporalWorkerDeploymentVersion = %q AND ExecutionStatus = %q", d.Name+":"+build, "Running")
}

// MaxID is the maximum length of the name of a deployment and of a build id, in bytes.
const MaxID = 200

// ValidateName reports whether a deployment may have a name.
func ValidateName(name string) error {
	if strings.ContainsAny(name, ".:") {
		return fmt.Errorf("%q must not contain a dot or a colon", name)
	}
	return ValidateBuild(name)
}

// ValidateBuild reports whether a string may be a build id.
func ValidateBuild(id string) error {
	switch {
	case id == "" || len(id) > MaxID:
		return fmt.Errorf("%q must have 1 to %d bytes", id, MaxID)
	case strings.HasPrefix(id, "__"):
		return fmt.Errorf("%q must not begin with __", id)
	case strings.ContainsAny(id, "\"\\") || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%q must not contain spaces, quotes, backslashes or control characters", id)
	}
	return nil
}
