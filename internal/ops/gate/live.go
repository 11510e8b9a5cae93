package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/signals"
)

// Live selects running workflows of a task queue.
type Live struct {
	Client    client.Client
	TaskQueue string

	// Sample is how many of each kind are replayed. At least 1.
	Sample int
}

// candidates are, for each workflow of the sample, how many are looked at for the longest ones.
const candidates = 10

// selection is a kind of running workflows.
type selection struct {
	why   string
	query string
}

// selections are the kinds: threads of all ages, those that wait for people, and each further type of workflow.
func selections(now time.Time) []selection {
	threads := fmt.Sprintf("WorkflowType IN (%q, %q)", signals.ThreadWorkflow, signals.DelegateWorkflow)
	older := func(age time.Duration) string {
		return threads + fmt.Sprintf(" AND StartTime < %q", now.Add(-age).UTC().Format(time.RFC3339Nano))
	}
	const day = 24 * time.Hour
	out := []selection{
		{"newest", threads},
		{"waiting for approval", threads + fmt.Sprintf(" AND %s = %q", signals.AttributeStatus, signals.StatusWaitingApproval)},
		{"older than an hour", older(time.Hour)},
		{"older than a day", older(day)},
		{"older than a week", older(7 * day)},
		{"older than a month", older(30 * day)},
	}
	own := []string{signals.ThreadWorkflow, signals.DelegateWorkflow}
	for _, typ := range []string{
		signals.HookWorkflow, signals.TaskWorkflow, job.IngestWorkflow, job.ExtractWorkflow, job.EmbedWorkflow,
		job.DeliverWorkflow, job.ModelLimitWorkflow,
	} {
		own = append(own, typ)
		out = append(out, selection{typ + " workflows", fmt.Sprintf("WorkflowType = %q", typ)})
	}
	quoted := make([]string, len(own))
	for i, typ := range own {
		quoted[i] = fmt.Sprintf("%q", typ)
	}
	return append(out, selection{"other workflows", "WorkflowType NOT IN (" + strings.Join(quoted, ", ") + ")"})
}

// Live replays a sample of the running workflows, each once, until ctx ends.
func (g Gate) Live(ctx context.Context, l Live) error {
	done := map[string]bool{}
	for _, s := range selections(time.Now()) {
		found, err := l.list(ctx, s.query, l.Sample)
		if err != nil {
			return err
		}
		if err := g.runs(ctx, l, s.why, found, done); err != nil {
			return err
		}
	}
	longest, err := l.longest(ctx)
	if err != nil {
		return err
	}
	return g.runs(ctx, l, "longest", longest, done)
}

// Threads replays all threads on the build From of a deployment, until ctx ends.
func (g Gate) Threads(ctx context.Context, d deployment.Deployment) error {
	var found []*workflowpb.WorkflowExecutionInfo
	for info, err := range d.Threads(ctx, g.From) {
		if err != nil {
			return err
		}
		found = append(found, info)
	}
	return g.runs(ctx, Live{Client: d.Client}, "on build "+g.From, found, map[string]bool{})
}

func (g Gate) runs(ctx context.Context, l Live, why string, found []*workflowpb.WorkflowExecutionInfo, done map[string]bool) error {
	for _, info := range found {
		run := info.GetExecution().GetRunId()
		if done[run] {
			continue
		}
		done[run] = true
		r := Result{Workflow: info.GetExecution().GetWorkflowId(), Run: run, Why: why}
		h, build, err := l.history(ctx, r.Workflow, run)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			continue // it ended, and is no longer kept
		}
		if err != nil {
			return err
		}
		if build != g.From {
			r.Build = build
		}
		g.replay(h, r)
	}
	return nil
}

func (l Live) list(ctx context.Context, query string, limit int) ([]*workflowpb.WorkflowExecutionInfo, error) {
	page, err := l.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("TaskQueue = %q AND ExecutionStatus = %q AND %s", l.TaskQueue, "Running", query), PageSize: int32(min(limit, 1000)),
	})
	if err != nil {
		return nil, fmt.Errorf("listing running workflows (%s): %w", query, err)
	}
	return page.GetExecutions()[:min(limit, len(page.GetExecutions()))], nil
}

// longest returns those with the longest histories among some running threads: visibility does not know the length of an open
// history.
func (l Live) longest(ctx context.Context) ([]*workflowpb.WorkflowExecutionInfo, error) {
	found, err := l.list(ctx, fmt.Sprintf("WorkflowType = %q", signals.ThreadWorkflow), candidates*l.Sample)
	if err != nil {
		return nil, err
	}
	length := map[string]int64{}
	for _, info := range found {
		d, err := l.Client.DescribeWorkflowExecution(ctx, info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId())
		if err == nil {
			length[info.GetExecution().GetRunId()] = d.GetWorkflowExecutionInfo().GetHistoryLength()
		} else if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	slices.SortStableFunc(found, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return int(length[b.GetExecution().GetRunId()] - length[a.GetExecution().GetRunId()])
	})
	return found[:min(l.Sample, len(found))], nil
}

// history returns the history of a run, and the build to which it is pinned.
func (l Live) history(ctx context.Context, id, run string) (*history.History, string, error) {
	d, err := l.Client.DescribeWorkflowExecution(ctx, id, run)
	if err != nil {
		return nil, "", fmt.Errorf("describing workflow %q: %w", id, err)
	}
	build := ""
	if v := d.GetWorkflowExecutionInfo().GetVersioningInfo(); v.GetBehavior() == enumspb.VERSIONING_BEHAVIOR_PINNED {
		build = v.GetDeploymentVersion().GetBuildId()
	}
	h := &history.History{}
	for it := l.Client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			return nil, "", fmt.Errorf("reading the history of workflow %q: %w", id, err)
		}
		h.Events = append(h.Events, e)
	}
	return h, build, nil
}
