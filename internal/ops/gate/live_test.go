package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/signals"
)

// server is a Temporal whose runs have the id of their workflow.
type server struct {
	client.Client
	lists func(query string, page int32) ([]string, error)

	lengths      map[string]int64
	pinned, auto map[string]string // the builds of runs
	failing      map[string]error
	unreadable   map[string]error
	asked        []string
}

func (f *server) ListWorkflow(_ context.Context, req *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.asked = append(f.asked, req.GetQuery())
	ids, err := f.lists(req.GetQuery(), req.GetPageSize())
	if err != nil {
		return nil, err
	}
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range ids {
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: id}})
	}
	return out, nil
}

func (f *server) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if err := f.failing[id]; err != nil {
		return nil, err
	}
	info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run}, HistoryLength: f.lengths[run]}
	on := func(build string, how enumspb.VersioningBehavior) {
		info.VersioningInfo = &workflowpb.WorkflowExecutionVersioningInfo{Behavior: how, DeploymentVersion: &deploymentpb.WorkerDeploymentVersion{BuildId: build}}
	}
	if build := f.pinned[run]; build != "" {
		on(build, enumspb.VERSIONING_BEHAVIOR_PINNED)
	}
	if build := f.auto[run]; build != "" {
		on(build, enumspb.VERSIONING_BEHAVIOR_AUTO_UPGRADE)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

func (f *server) GetWorkflowHistory(_ context.Context, id, _ string, _ bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &events{list: completed("same", id).GetEvents(), err: f.unreadable[id]}
}

type events struct {
	list []*history.HistoryEvent
	err  error
}

func (e *events) HasNext() bool { return len(e.list) > 0 }

func (e *events) Next() (*history.HistoryEvent, error) {
	next := e.list[0]
	e.list = e.list[1:]
	return next, e.err
}

// replayer replays everything.
type replayer struct{ worker.WorkflowReplayer }

func (replayer) ReplayWorkflowHistoryWithOptions(sdklog.Logger, *history.History, worker.ReplayWorkflowHistoryOptions) error {
	return nil
}

// live replays what the server has, and returns the results as "why workflow".
func (f *server) live(t *testing.T, sample int) (out []string, err error) {
	t.Helper()
	g := Gate{Replayer: replayer{}, Each: func(r Result) {
		require.Equal(t, r.Workflow, r.Run)
		out = append(out, r.Why+": "+r.Workflow)
	}}
	err = g.Live(t.Context(), Live{Client: f, TaskQueue: "q", Sample: sample})
	return out, err
}

func kind(query string) string {
	switch {
	case strings.Contains(query, signals.StatusWaitingApproval):
		return "waiting"
	case strings.Contains(query, "StartTime"):
		return "old"
	case strings.Contains(query, "NOT IN"):
		return "others"
	case strings.Contains(query, "WorkflowType IN"):
		return "newest"
	}
	return strings.Trim(query[strings.LastIndex(query, " ")+1:], `"`)
}

// TestLive: each kind is replayed, each run once, under the first reason for which it was chosen.
func TestLive(t *testing.T) {
	f := &server{lengths: map[string]int64{"t3": 5, "t4": 9, "t5": 5}, lists: func(query string, _ int32) ([]string, error) {
		return map[string][]string{
			"newest": {"t1", "t2"}, "waiting": {"t2", "t3"}, "old": {"t1"}, signals.HookWorkflow: {"h"}, "others": {"own"},
			signals.ThreadWorkflow: {"t1", "t5", "t3", "t4"},
		}[kind(query)], nil
	}}
	got, err := f.live(t, 2)
	require.NoError(t, err)
	require.Equal(t, []string{
		"newest: t1", "newest: t2", "waiting for approval: t3", signals.HookWorkflow + " workflows: h", "other workflows: own", "longest: t4", "longest: t5",
	}, got, "of histories of the same length, the newest first")
	for _, query := range f.asked {
		require.True(t, strings.HasPrefix(query, `TaskQueue = "q" AND ExecutionStatus = "Running" AND `), query)
	}
}

func TestLiveSample(t *testing.T) {
	pages := map[string]int32{}
	f := &server{lists: func(query string, page int32) ([]string, error) {
		pages[kind(query)] = page
		if kind(query) == "newest" {
			return []string{"a", "b", "c"}, nil // more than a page, as a server may have it
		}
		return nil, nil
	}}
	got, err := f.live(t, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"newest: a", "newest: b"}, got)
	require.Equal(t, int32(2), pages["newest"])
	require.Equal(t, int32(2*candidates), pages[signals.ThreadWorkflow], "the longest are looked for among more")
	_, err = f.live(t, 5000)
	require.NoError(t, err)
	require.Equal(t, int32(1000), pages["newest"], "no page is larger than Temporal's limit")
}

func TestLiveErrors(t *testing.T) {
	refused := serviceerror.NewPermissionDenied("no", "")
	one := func(string, int32) ([]string, error) { return []string{"a", "b"}, nil }
	t.Run("a list", func(t *testing.T) {
		_, err := (&server{lists: func(string, int32) ([]string, error) { return nil, refused }}).live(t, 1)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, "listing running workflows (WorkflowType IN")
	})
	t.Run("what ended meanwhile is left out", func(t *testing.T) {
		got, err := (&server{lists: one, failing: map[string]error{"a": serviceerror.NewNotFound("gone")}}).live(t, 2)
		require.NoError(t, err)
		require.Equal(t, []string{"newest: b"}, got)
	})
	t.Run("so is what is removed while it is read", func(t *testing.T) {
		got, err := (&server{lists: one, unreadable: map[string]error{"a": serviceerror.NewNotFound("gone")}}).live(t, 2)
		require.NoError(t, err)
		require.Equal(t, []string{"newest: b"}, got)
	})
	t.Run("any other error ends it: a gate that replays less than it says is none", func(t *testing.T) {
		got, err := (&server{lists: one, failing: map[string]error{"b": refused}}).live(t, 2)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, `describing workflow "b"`)
		require.Equal(t, []string{"newest: a"}, got)
		_, err = (&server{lists: one, unreadable: map[string]error{"a": refused}}).live(t, 2)
		require.ErrorContains(t, err, `reading the history of workflow "a"`)
	})
	t.Run("its end while it looks for the longest", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &server{failing: map[string]error{"a": refused}, lists: func(string, int32) ([]string, error) { cancel(); return []string{"a"}, nil }}
		_, err := Live{Client: f, Sample: 1}.longest(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestPinned: what is pinned to another build may fail, and threads of the build that is left may not, since they are to run with
// this program.
func TestPinned(t *testing.T) {
	f := &server{
		lists:  func(string, int32) ([]string, error) { return []string{"left", "kept", "free"}, nil },
		pinned: map[string]string{"left": "1", "kept": "0"}, auto: map[string]string{"free": "0"},
	}
	builds := map[string]string{}
	g := Gate{Replayer: replayer{}, From: "1", Each: func(r Result) {
		require.Equal(t, "on build 1", r.Why)
		builds[r.Workflow] = r.Build
	}}
	require.NoError(t, g.Threads(t.Context(), deployment.Deployment{Client: f, Name: "d"}))
	require.Equal(t, map[string]string{"left": "", "kept": "0", "free": ""}, builds)
	require.Equal(t, []string{`TemporalWorkerDeploymentVersion = "d:1" AND ExecutionStatus = "Running" AND WorkflowType IN ("thread", "delegate")`}, f.asked)
	t.Run("a list that fails", func(t *testing.T) {
		f.lists = func(string, int32) ([]string, error) { return nil, errors.New("no") }
		require.ErrorContains(t, g.Threads(t.Context(), deployment.Deployment{Client: f, Name: "d"}), "no")
	})
}

// TestSelections: every type of ours has a selection, and what is left is everything else.
func TestSelections(t *testing.T) {
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.FixedZone("elsewhere", 7200))
	all := selections(now)
	byWhy := map[string]string{}
	for _, s := range all {
		byWhy[s.why] = s.query
	}
	require.Len(t, byWhy, len(all), "each has its own reason, by which reports count")
	threads := `WorkflowType IN ("thread", "delegate")`
	require.Equal(t, threads, byWhy["newest"])
	require.Equal(t, threads+` AND StartTime < "2026-03-31T09:00:00Z"`, byWhy["older than an hour"], "in UTC")
	require.Equal(t, threads+` AND StartTime < "2026-03-30T10:00:00Z"`, byWhy["older than a day"])
	require.Equal(t, threads+` AND StartTime < "2026-03-24T10:00:00Z"`, byWhy["older than a week"])
	require.Equal(t, threads+` AND StartTime < "2026-03-01T10:00:00Z"`, byWhy["older than a month"])
	require.Equal(t, threads+fmt.Sprintf(` AND ThreadmillStatus = %q`, signals.StatusWaitingApproval), byWhy["waiting for approval"])
	others := all[len(all)-1]
	require.Equal(t, "other workflows", others.why)
	for _, s := range all {
		if typ, ok := strings.CutSuffix(s.why, " workflows"); ok && typ != "other" {
			require.Equal(t, fmt.Sprintf("WorkflowType = %q", typ), s.query)
			require.Contains(t, others.query, fmt.Sprintf("%q", typ), "nothing is selected twice")
		}
	}
	require.True(t, slices.ContainsFunc(all, func(s selection) bool { return s.why == signals.TaskWorkflow+" workflows" }))
}
