package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/ops/gate"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/signals"
)

// histories are those that CI keeps of all kinds of threads.
const histories = "../tests/testdata/histories/v0.1"

func replayed(t *testing.T, cfg Config, args ...string) (code int, report gate.Report, stderr string) {
	t.Helper()
	cfg.Name = "refunds"
	cmd, out, errs := newCommand(t, cfg), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.SetArgs(append([]string{"replay", "--json"}, args...))
	cmd.SetOut(out)
	cmd.SetErr(errs)
	code = program.Execute(t.Context(), cmd)
	if out.Len() > 0 {
		require.NoError(t, json.Unmarshal(out.Bytes(), &report), out)
	}
	return code, report, errs.String()
}

// change writes a changed copy of a stored history into a folder.
func change(t *testing.T, name string, do func(*history.History)) (folder string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(histories, name))
	require.NoError(t, err)
	h := &history.History{}
	require.NoError(t, protojson.Unmarshal(data, h))
	do(h)
	data, err = protojson.Marshal(h)
	require.NoError(t, err)
	folder = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	return folder
}

// TestReplay: the program replays folders of histories, and says of each that it cannot replay what to do.
func TestReplay(t *testing.T) {
	stored, err := filepath.Abs(histories)
	require.NoError(t, err)
	code, report, stderr := replayed(t, Config{}, "--namespace", "acme", stored)
	require.Zero(t, code, stderr)
	require.True(t, report.Complete, "the flags are those of the workers")
	code, _, stderr = replayed(t, Config{}, "--namespace", "a/b", stored)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--namespace")
	broken := change(t, "tools.json", func(h *history.History) {
		for _, e := range h.GetEvents() {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				a.ActivityType.Name = "call_a_friend"
			}
		}
	})
	codec := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
	encoded := change(t, "tools.json", func(h *history.History) {
		require.NoError(t, proxy.VisitPayloads(t.Context(), h, proxy.VisitPayloadsOptions{
			SkipSearchAttributes: true,
			Visitor: func(_ *proxy.VisitPayloadsContext, p []*commonpb.Payload) ([]*commonpb.Payload, error) {
				return codec.Encode(p)
			},
		}))
	})
	own := change(t, "tools.json", func(h *history.History) {
		h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name = "guard"
		h.Events = h.GetEvents()[:4]
	})
	one := change(t, "tools.json", func(*history.History) {})
	t.Chdir(t.TempDir())

	code, report, stderr = replayed(t, Config{}, stored)
	require.Equal(t, program.ExitOK, code, stderr)
	require.Empty(t, report.Failed)
	require.Greater(t, report.Replayed, 100)
	require.True(t, report.Complete)

	code, report, stderr = replayed(t, Config{}, broken)
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, "refunds: histories cannot be replayed: do not give this program their threads\n", stderr)
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0].Error, "TMPRL1100")
	require.Contains(t, report.Failed[0].Advice, "workflow.GetVersion")

	_, report, _ = replayed(t, Config{}, encoded)
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0].Advice, "data converter", report.Failed[0].Error)
	code, report, stderr = replayed(t, Config{ClientOptions: func(o *client.Options) {
		o.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec)
	}}, encoded)
	require.Equal(t, program.ExitOK, code, "%s %v", stderr, report)

	_, report, _ = replayed(t, Config{}, own)
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0].Advice, "Config.RegisterWith")
	code, report, stderr = replayed(t, Config{Configure: func(cfg *threadmill.Config) error {
		cfg.RegisterWith = func(r worker.Registry) {
			r.RegisterActivity(func() error { return nil })
			r.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				return workflow.Await(ctx, func() bool { return false })
			}, workflow.RegisterOptions{Name: "guard"})
		}
		return nil
	}}, own)
	require.Equal(t, program.ExitOK, code, "%s %v", stderr, report)

	// The SDK adds the interceptors of the client to its workers.
	code, report, _ = replayed(t, Config{ClientOptions: func(o *client.Options) {
		o.Interceptors = append(o.Interceptors, &eager{})
	}}, one)
	require.Equal(t, program.ExitFailed, code)
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0].Error, "TMPRL1100")

	code, report, stderr = replayed(t, Config{}, "--within=1ns", stored)
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, gate.NewReport(), &report, "nothing was replayed, and the report is not complete")
	require.Equal(t, "refunds: not all histories were replayed within 1ns: raise --within\n", stderr)

	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{t.TempDir()}, "has no .json files: write them with temporal workflow show"},
		{[]string{"--sample=0"}, "--sample: 0 must be 1 to 1000"},
		{[]string{"--from=1", "--sample=20"}, "--sample: omit it with --from"},
		{[]string{"--from=1", stored}, "--from: omit the folders"},
		{[]string{"--move", "--build=2"}, "--move: needs --from"},
		{[]string{"--move", "--from=1"}, "--move: needs --from"},
		{[]string{"--move", "--from=1", "--build=a b"}, "must not contain spaces"},
	} {
		code, _, stderr := replayed(t, Config{}, c.args...)
		require.NotEqual(t, program.ExitOK, code)
		require.Contains(t, stderr, c.says)
	}
}

// TestReplayTellsWhatMoved: if a thread cannot be moved, the result says so, and which were.
func TestReplayTellsWhatMoved(t *testing.T) {
	var events []*history.HistoryEvent
	change(t, "tools.json", func(h *history.History) { events = h.GetEvents()[:4] })
	cfg := Config{TaskQueue: signals.DefaultTaskQueue, Configure: func(cfg *threadmill.Config) error {
		cfg.Temporal = stuck{history: events}
		return nil
	}}
	code, report, stderr := replayed(t, cfg, "--from=1", "--move", "--build=2")
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, stderr, "moving workflow \"w\": not permitted")
	require.True(t, report.Complete, stderr)
	require.Equal(t, 1, report.Replayed)
	require.Empty(t, report.Moved)
}

// stuck is a deployment with a thread on build 1 that may not be moved to build 2.
type stuck struct {
	client.Client

	history []*history.HistoryEvent
}

func (stuck) WorkflowService() workflowservice.WorkflowServiceClient { return builds{} }

type builds struct {
	workflowservice.WorkflowServiceClient
}

func (builds) DescribeWorkerDeployment(context.Context, *workflowservice.DescribeWorkerDeploymentRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkerDeploymentResponse, error) {
	build := func(id string, status enumspb.WorkerDeploymentVersionStatus) *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary {
		return &deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary{DeploymentVersion: &deploymentpb.WorkerDeploymentVersion{BuildId: id}, Status: status}
	}
	return &workflowservice.DescribeWorkerDeploymentResponse{WorkerDeploymentInfo: &deploymentpb.WorkerDeploymentInfo{
		VersionSummaries: []*deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary{
			build("1", enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING), build("2", enumspb.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT),
		},
	}}, nil
}

func (stuck) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{
		LastAccessTime: timestamppb.Now(),
		DeploymentOptions: &deploymentpb.WorkerDeploymentOptions{
			DeploymentName: signals.DefaultTaskQueue, BuildId: "2", WorkerVersioningMode: enumspb.WORKER_VERSIONING_MODE_VERSIONED,
		},
	}}}, nil
}

func (stuck) CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return &workflowservice.CountWorkflowExecutionsResponse{Count: 1}, nil
}

func (stuck) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{{Execution: &commonpb.WorkflowExecution{WorkflowId: "w", RunId: "r"}}}}, nil
}

func (stuck) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{}, nil
}

func (s stuck) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &s
}

func (s *stuck) HasNext() bool { return len(s.history) > 0 }

func (s *stuck) Next() (*history.HistoryEvent, error) {
	next := s.history[0]
	s.history = s.history[1:]
	return next, nil
}

func (stuck) UpdateWorkflowExecutionOptions(context.Context, client.UpdateWorkflowExecutionOptionsRequest) (client.WorkflowExecutionOptions, error) {
	return client.WorkflowExecutionOptions{}, errors.New("not permitted")
}

// TestReplayFlags: flags of the program that are named like those of the command stop this command alone.
func TestReplayFlags(t *testing.T) {
	own := Config{
		Flags:     func(f *flag.FlagSet) { f.Bool("json", false, "print receipts as JSON") },
		Configure: func(*threadmill.Config) error { return errors.New("configured") },
	}
	for _, args := range [][]string{{"--http=127.0.0.1:0", "--sqlite=records.db", "--json"}, {"replay", "--json"}} {
		own.Name = "refunds"
		cmd, errs := newCommand(t, own), &bytes.Buffer{}
		cmd.SetArgs(args)
		cmd.SetErr(errs)
		require.Equal(t, program.ExitFailed, program.Execute(t.Context(), cmd))
		says := "refunds: configured\n"
		if args[0] == "replay" {
			says = "refunds: Config.Flags: --json is a flag of the command \"replay\", which cannot run: choose another name\n"
		}
		require.Equal(t, says, errs.String())
	}
}

// eager gives workflows a command more.
type eager struct{ interceptor.InterceptorBase }

func (*eager) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &eagerInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type eagerInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *eagerInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	workflow.SideEffect(ctx, func(workflow.Context) any { return "eager" })
	return i.Next.ExecuteWorkflow(ctx, in)
}
