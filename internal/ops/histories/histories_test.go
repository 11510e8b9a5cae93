package histories_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/internal/ops/histories"
	"github.com/threadmill/threadmill/signals"
)

// careless is a Temporal whose visibility lists every workflow for every query.
type careless struct {
	client.Client
	listed []*workflowpb.WorkflowExecutionInfo
	gone   []string // ids of runs that exist no longer
}

// add adds a workflow with one run, of the same id.
func (c *careless) add(id, parent, schedule string) string {
	info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: fmt.Sprintf("run-%d", len(c.listed))}}
	if parent != "" {
		info.ParentExecution = &commonpb.WorkflowExecution{WorkflowId: parent}
	}
	if schedule != "" {
		by, err := converter.GetDefaultDataConverter().ToPayload(schedule)
		if err != nil {
			panic(err)
		}
		info.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{"TemporalScheduledById": by}}
	}
	c.listed = append(c.listed, info)
	return info.GetExecution().GetRunId()
}

func (c *careless) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: c.listed}, nil
}

func (c *careless) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	for _, info := range c.listed {
		e := info.GetExecution()
		if e.GetWorkflowId() == id && (run == "" || run == e.GetRunId()) && !slices.Contains(c.gone, e.GetRunId()) {
			return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
		}
	}
	return nil, serviceerror.NewNotFound("no such workflow")
}

func (c *careless) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return noEvents{}
}

type noEvents struct{}

func (noEvents) HasNext() bool                          { return false }
func (noEvents) Next() (*historypb.HistoryEvent, error) { return nil, nil }

// TestFindIgnoresOthers: visibility lists too much, as SQL databases do for ids that differ in case. Nothing of another thread is
// found.
func TestFindIgnoresOthers(t *testing.T) {
	c := &careless{}
	var want []string
	id := signals.WorkflowID("acme", "ada")
	for _, own := range []struct{ id, parent, schedule string }{
		{id: id},
		{id: signals.HookWorkflowID("acme", "ada", "h1")},
		{id: signals.TaskWorkflowID("acme", "ada~t1")},
		{id: "own", parent: id},
		{id: "deliver/acme/daily-1", schedule: signals.ScheduleID("acme", "daily")},
	} {
		want = append(want, c.add(own.id, own.parent, own.schedule))
	}
	for _, thread := range []string{"Ada", "ADA", "ada2"} {
		other := signals.WorkflowID("acme", thread)
		c.add(other, "", "")
		c.add(signals.HookWorkflowID("acme", thread, "h1"), other, "")
		c.add(signals.TaskWorkflowID("acme", thread+"~t1"), other, "")
		c.add("of "+thread, other, "")
	}
	c.add(signals.WorkflowID("ACME", "ada"), "", "")
	c.add(signals.TaskWorkflowID("ACME", "ada~t1"), signals.WorkflowID("ACME", "ada"), "")
	c.add("deliver/acme/Daily-1", "", signals.ScheduleID("acme", "Daily"))

	found, err := histories.Histories{Temporal: c}.Find(t.Context(), "acme", "ada", nil, []string{"daily"})
	require.NoError(t, err)
	var got []string
	for _, run := range found.Runs {
		got = append(got, run.RunID)
	}
	require.ElementsMatch(t, want, got)
	require.Empty(t, found.Threads)
	require.Zero(t, found.Listed)

	c.gone = want[:2]
	found, err = histories.Histories{Temporal: c}.Find(t.Context(), "acme", "ada", nil, []string{"daily"})
	require.NoError(t, err)
	require.Len(t, found.Runs, len(want)-2)
	require.Equal(t, 2, found.Listed, "visibility still has their titles")
}
