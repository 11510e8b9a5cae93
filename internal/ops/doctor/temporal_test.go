package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/signals"
)

// server is a Temporal that is as it should be, until a test changes it.
type server struct {
	client.Client
	down, undescribed, unlisted, uncounted error

	retention  time.Duration
	attributes map[string]enumspb.IndexedValueType
	queues     map[string]*workflowservice.DescribeTaskQueueResponse

	deployment *deploymentpb.WorkerDeploymentInfo // nil = none
	running    map[string]int64                   // by a part of the query
}

func healthy() *server {
	return &server{
		retention: minRetention, attributes: searchattr.Types(), running: map[string]int64{},
		queues: map[string]*workflowservice.DescribeTaskQueueResponse{"q": {Pollers: []*taskqueuepb.PollerInfo{poller("", 0)}}},
	}
}

func (f *server) WorkflowService() workflowservice.WorkflowServiceClient { return service{of: f} }
func (f *server) OperatorService() operatorservice.OperatorServiceClient { return operator{of: f} }

func (f *server) GetSearchAttributes(context.Context) (*workflowservice.GetSearchAttributesResponse, error) {
	return nil, f.unlisted
}

func (f *server) DescribeTaskQueue(_ context.Context, name string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if q := f.queues[name]; q != nil {
		return q, nil
	}
	return nil, serviceerror.NewPermissionDenied("no", "")
}

func (f *server) CountWorkflow(_ context.Context, req *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	out := &workflowservice.CountWorkflowExecutionsResponse{}
	for part, n := range f.running {
		if strings.Contains(req.GetQuery(), part) {
			out.Count = n
		}
	}
	return out, f.uncounted
}

type operator struct {
	operatorservice.OperatorServiceClient
	of *server
}

func (o operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.of.attributes}, o.of.unlisted
}

type service struct {
	workflowservice.WorkflowServiceClient
	of *server
}

func (s service) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest, ...grpc.CallOption) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.2.3"}, s.of.down
}

func (s service) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(s.of.retention)}}, s.of.undescribed
}

func (s service) DescribeTaskQueue(ctx context.Context, req *workflowservice.DescribeTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return s.of.DescribeTaskQueue(ctx, req.GetTaskQueue().GetName(), req.GetTaskQueueType())
}

func (s service) DescribeWorkerDeployment(context.Context, *workflowservice.DescribeWorkerDeploymentRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkerDeploymentResponse, error) {
	if s.of.deployment == nil {
		return nil, serviceerror.NewNotFound("no deployment")
	}
	return &workflowservice.DescribeWorkerDeploymentResponse{WorkerDeploymentInfo: s.of.deployment}, nil
}

// poller is a worker of a build, which polled some time ago.
func poller(build string, ago time.Duration) *taskqueuepb.PollerInfo {
	mode := enumspb.WORKER_VERSIONING_MODE_VERSIONED
	if build == "" {
		mode = enumspb.WORKER_VERSIONING_MODE_UNVERSIONED
	}
	return &taskqueuepb.PollerInfo{
		LastAccessTime:    timestamppb.New(time.Now().Add(-ago)),
		DeploymentOptions: &deploymentpb.WorkerDeploymentOptions{DeploymentName: "q", BuildId: build, WorkerVersioningMode: mode},
	}
}

// found returns what the checks of a kind find.
func (f *server) found(t *testing.T, check string) (out []Finding) {
	t.Helper()
	for _, one := range (Temporal{Client: f, Namespace: "ns", TaskQueue: "q"}).Check(t.Context()) {
		if one.Check == check {
			require.Equal(t, one.Status == OK, one.Advice == "", "whoever has a problem is told what to do: %+v", one)
			out = append(out, one)
		}
	}
	return out
}

func TestTemporal(t *testing.T) {
	checks := func(f *server) (out []string) {
		for _, one := range (Temporal{Client: f, Namespace: "ns", TaskQueue: "q", StepQueues: []string{"q"}}).Check(t.Context()) {
			out = append(out, one.Check+" "+string(one.Status))
		}
		return out
	}
	require.Equal(t, []string{"temporal ok", "namespace ok", "search attributes ok", "workers ok", "workers ok"}, checks(healthy()))
	f := healthy()
	f.down = serviceerror.NewUnavailable("refused")
	require.Equal(t, []string{"temporal failed"}, checks(f), "nothing else can be known")
	f = healthy()
	f.undescribed = serviceerror.NewNamespaceNotFound("ns")
	require.Equal(t, []string{"temporal ok", "namespace failed"}, checks(f))
	f.undescribed = serviceerror.NewPermissionDenied("no", "")
	require.Equal(t, []string{"temporal ok", "namespace warning", "search attributes ok", "workers ok", "workers ok"}, checks(f), "a client may not be permitted to look")
}

func TestNamespace(t *testing.T) {
	f := healthy()
	require.Equal(t, []Finding{Good("namespace", `namespace "ns" keeps closed workflows for 24h0m0s`)}, f.found(t, "namespace"))
	f.retention--
	require.Equal(t, Warning, f.found(t, "namespace")[0].Status)
	require.Equal(t, "raise it: temporal operator namespace update --namespace ns --retention 7d", f.found(t, "namespace")[0].Advice)
}

// TestAttributes: a wrong type cannot be mended by registering, so that it comes before what is missing.
func TestAttributes(t *testing.T) {
	f := healthy()
	require.Equal(t, []Finding{Good("search attributes", "all 3 are registered")}, f.found(t, "search attributes"))
	delete(f.attributes, signals.AttributeStatus)
	delete(f.attributes, signals.AttributeAgents)
	require.Equal(t, []Finding{Bad("search attributes",
		"start a worker, which registers them, or run: temporal operator search-attribute create --name ThreadmillAgents --type KeywordList --name ThreadmillStatus --type Keyword",
		"ThreadmillAgents, ThreadmillStatus missing: threads cannot start")}, f.found(t, "search attributes"))
	f.attributes[signals.AttributeNamespace] = enumspb.INDEXED_VALUE_TYPE_TEXT
	require.Equal(t, []Finding{Bad("search attributes", "use another namespace of Temporal: the type of an attribute cannot be changed",
		"ThreadmillNamespace is a Text, must be a Keyword")}, f.found(t, "search attributes"))
	f.unlisted = errors.New("no")
	require.Equal(t, Warning, f.found(t, "search attributes")[0].Status)
}

func TestWorkers(t *testing.T) {
	stats := func(waiting int64, age time.Duration) *taskqueuepb.TaskQueueStats {
		return &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: waiting, ApproximateBacklogAge: durationpb.New(age)}
	}
	for name, tt := range map[string]struct {
		pollers []*taskqueuepb.PollerInfo
		stats   *taskqueuepb.TaskQueueStats
		check   string
		status  Status
		detail  string
	}{
		"one":                        {[]*taskqueuepb.PollerInfo{poller("", 0)}, nil, "workers", OK, `1 worker polls task queue "q"`},
		"two, and one that has gone": {[]*taskqueuepb.PollerInfo{poller("", 0), poller("", time.Hour), poller("", time.Minute)}, nil, "workers", OK, `2 workers poll task queue "q"`},
		"none":                       {nil, stats(3, 0), "workers", Failed, `no worker has polled task queue "q" within the last minutes; 3 tasks wait`},
		"one that has gone":          {[]*taskqueuepb.PollerInfo{poller("", deployment.RecentPoll)}, nil, "workers", Failed, `no worker has polled task queue "q" since 20`},
		"too few":                    {[]*taskqueuepb.PollerInfo{poller("", 0)}, stats(3, oldTask+time.Second), "workers", Warning, `3 tasks wait on task queue "q", the oldest for 1m1s`},
		"just enough":                {[]*taskqueuepb.PollerInfo{poller("", 0)}, stats(3, oldTask), "workers", OK, "1 worker polls"},
		"a poll in the future":       {[]*taskqueuepb.PollerInfo{poller("", -time.Minute)}, nil, "clocks", Failed, "the clock of Temporal is 1m0s ahead of that of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.queues["q"] = &workflowservice.DescribeTaskQueueResponse{Pollers: tt.pollers, Stats: tt.stats}
			found := f.found(t, tt.check)
			require.Len(t, found, 1)
			require.Equal(t, tt.status, found[0].Status)
			require.Contains(t, found[0].Detail, tt.detail)
		})
	}
	t.Run("each queue of steps", func(t *testing.T) {
		found := (Temporal{Client: healthy(), TaskQueue: "q", StepQueues: []string{"gpu"}}).workers(t.Context())
		require.Equal(t, []Status{OK, Warning}, []Status{found[0].Status, found[1].Status})
		require.Equal(t, `task queue "gpu" cannot be described: no`, found[1].Detail)
	})
}

// TestDeployment: new threads need a build with workers, and so do those that are on an older one.
func TestDeployment(t *testing.T) {
	const (
		current  = enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT
		ramping  = enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING
		draining = enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING
		drained  = enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED
	)
	builds := func(all ...enumspb.WorkerDeploymentVersionStatus) *deploymentpb.WorkerDeploymentInfo {
		out := &deploymentpb.WorkerDeploymentInfo{RoutingConfig: &deploymentpb.RoutingConfig{}}
		for i, status := range all {
			version := &deploymentpb.WorkerDeploymentVersion{DeploymentName: "q", BuildId: string(rune('a' + i))}
			switch status {
			case current:
				out.RoutingConfig.CurrentDeploymentVersion = version
			case ramping:
				out.RoutingConfig.RampingDeploymentVersion, out.RoutingConfig.RampingVersionPercentage = version, 25
			}
			out.VersionSummaries = append(out.VersionSummaries, &deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary{
				DeploymentVersion: version, Status: status, CreateTime: timestamppb.New(time.Unix(int64(i), 0)),
			})
		}
		return out
	}
	for name, tt := range map[string]struct {
		deployment *deploymentpb.WorkerDeploymentInfo
		workers    []string
		running    map[string]int64
		want       []Status
		detail     string
		advice     string
	}{
		"no builds":                       {nil, []string{""}, nil, nil, "", ""},
		"the current one":                 {builds(current), []string{"a"}, nil, []Status{OK}, `build "a" is current`, ""},
		"workers without a build":         {builds(drained), []string{""}, nil, []Status{OK}, "workers without a build get new threads", ""},
		"none is current":                 {builds(drained, drained), []string{"b"}, nil, []Status{Failed}, `no build of "q" is current`, "--deployment-name q --build-id b"},
		"the current one has no workers":  {builds(current, drained), []string{"b"}, nil, []Status{Failed}, `build "a" of "q" is current, and no worker of it polls`, "start workers with --build a"},
		"a ramp":                          {builds(current, ramping), []string{"a", "b"}, nil, []Status{OK}, `build "a" is current, "b" gets 25%`, ""},
		"a ramp to nobody":                {builds(current, ramping), []string{"a"}, nil, []Status{Failed}, `build "b" of "q" gets 25% of the threads, and no worker of it polls`, "or end the ramp"},
		"one drains":                      {builds(draining, current), []string{"a", "b"}, map[string]int64{`"q:a" AND ExecutionStatus = "Running" AND WorkflowType IN`: 4}, []Status{OK}, "draining: a (4 threads left)", ""},
		"one drains without workers":      {builds(draining, current), []string{"b"}, map[string]int64{`"q:a" AND ExecutionStatus = "Running" AND WorkflowType IN`: 4}, []Status{Failed}, `4 threads and 0 pinned workflows are on build "a"`, "start workers with --build a again"},
		"one has drained without workers": {builds(draining, current), []string{"b"}, nil, []Status{OK}, "draining: a (0 threads left)", ""},
		"pinned workflows wait too":       {builds(draining, current), []string{"b"}, map[string]int64{`= "Pinned"`: 2}, []Status{Failed}, `0 threads and 2 pinned workflows`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.deployment, f.running, f.queues["q"] = tt.deployment, tt.running, &workflowservice.DescribeTaskQueueResponse{}
			for _, build := range tt.workers {
				f.queues["q"].Pollers = append(f.queues["q"].Pollers, poller(build, 0))
			}
			var got []Status
			for _, one := range f.found(t, "deployment") {
				got = append(got, one.Status)
				require.Contains(t, one.Detail, tt.detail)
				require.Contains(t, one.Advice, tt.advice)
			}
			require.Equal(t, tt.want, got)
		})
	}
	t.Run("what may not be looked at is a warning", func(t *testing.T) {
		f := healthy()
		f.deployment, f.uncounted = builds(draining, current), serviceerror.NewPermissionDenied("no", "")
		f.queues["q"].Pollers = []*taskqueuepb.PollerInfo{poller("a", 0), poller("b", 0)}
		require.Equal(t, Warning, f.found(t, "deployment")[0].Status)
	})
}
