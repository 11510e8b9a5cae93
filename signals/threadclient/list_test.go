package threadclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

var listStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

// execution is a run that began so many minutes after listStart.
func execution(id string, minutes int, status enumspb.WorkflowExecutionStatus) *workflowpb.WorkflowExecutionInfo {
	return &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id},
		Status:    status,
		StartTime: timestamppb.New(listStart.Add(time.Duration(minutes) * time.Minute)),
	}
}

func listClient(t *testing.T) (*Client, *mocks.Client) {
	t.Helper()
	temporal := mocks.NewClient(t)
	c, err := New(Config{Temporal: temporal, Namespace: "acme"})
	require.NoError(t, err)
	return c, temporal
}

func TestListQueries(t *testing.T) {
	for _, c := range []struct {
		query ListQuery
		want  string
		size  int32
	}{
		{ListQuery{}, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus = "Running"`, 100},
		{ListQuery{All: true, Limit: 7}, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus != "ContinuedAsNew"`, 7},
		{ListQuery{Agent: "demo", Default: true}, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus = "Running" AND (ThreadmillAgents = "demo" OR ThreadmillAgents IS NULL)`, 100},
		{ListQuery{Agent: "demo", Limit: 9000}, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus = "Running" AND ThreadmillAgents = "demo"`, 500},
		{ListQuery{Waiting: true, All: true}, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus = "Running" AND ThreadmillStatus = "waiting_approval"`, 100},
	} {
		client, temporal := listClient(t)
		var asked *workflowservice.ListWorkflowExecutionsRequest
		temporal.On("ListWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			asked = args.Get(1).(*workflowservice.ListWorkflowExecutionsRequest)
		}).Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
		got, err := client.List(context.Background(), c.query)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, c.want, asked.GetQuery())
		require.Equal(t, c.size, asked.GetPageSize())
	}
}

func TestList(t *testing.T) {
	client, temporal := listClient(t)
	running := execution("thread/acme/a", 1, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	running.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{signals.MemoTitle: payload(t, "A talk")}}
	running.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{signals.AttributeAgents: payload(t, []string{"x", "y"})}}
	one := execution("thread/acme/b", 9, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	one.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{signals.MemoParent: payload(t, "a")}}
	one.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{signals.AttributeAgents: payload(t, "x")}}
	pages := [][]*workflowpb.WorkflowExecutionInfo{
		{execution("thread/acme/a", 5, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED), one},
		{running, execution("thread/acme/b", 2, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)},
	}
	for i, page := range pages {
		token := []byte("next")
		if i == len(pages)-1 {
			token = nil
		}
		temporal.On("ListWorkflow", mock.Anything, mock.Anything).Once().Return(
			&workflowservice.ListWorkflowExecutionsResponse{Executions: page, NextPageToken: token}, nil)
	}
	got, err := client.List(context.Background(), ListQuery{All: true})
	require.NoError(t, err)
	require.Equal(t, []Summary{
		{ThreadID: "b", Status: signals.StatusClosed, Agents: []string{"x"}, Parent: "a", StartTime: listStart.Add(9 * time.Minute)},
		{ThreadID: "a", Status: signals.StatusOpen, Title: "A talk", Agents: []string{"x", "y"}, StartTime: listStart.Add(time.Minute)},
	}, got)
}

// A thread that waits is open, whatever else visibility says of it.
func TestListWaiting(t *testing.T) {
	closed := waitingThread(t, "b", "", "", 2)
	closed.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	open := waitingThread(t, "c", "", "", 1)
	open.SearchAttributes.IndexedFields[signals.AttributeStatus] = payload(t, signals.StatusOpen)
	client, m := listClient(t)
	lists(m, waitingThread(t, "a", "", "", 3), closed, open)
	got, err := client.List(context.Background(), ListQuery{All: true})
	require.NoError(t, err)
	require.Equal(t, []Summary{
		{ThreadID: "a", Status: signals.StatusOpen, Waiting: true, StartTime: listStart.Add(3 * time.Minute)},
		{ThreadID: "b", Status: signals.StatusClosed, StartTime: listStart.Add(2 * time.Minute)},
		{ThreadID: "c", Status: signals.StatusOpen, StartTime: listStart.Add(time.Minute)},
	}, got)
}

func TestListStopsAtItsLimit(t *testing.T) {
	client, temporal := listClient(t)
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).Once().Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflowpb.WorkflowExecutionInfo{
			execution("thread/acme/a", 3, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
			execution("thread/acme/b", 2, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
			execution("thread/acme/c", 1, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
		},
		NextPageToken: []byte("more"),
	}, nil)
	got, err := client.List(context.Background(), ListQuery{Limit: 2})
	require.NoError(t, err)
	require.Len(t, got, 2)
}

func TestListErrors(t *testing.T) {
	client, temporal := listClient(t)
	_, err := client.List(context.Background(), ListQuery{Limit: MaxListLimit + 1})
	require.ErrorContains(t, err, "limit is 10001, must be 1 to 10000")
	_, err = client.List(context.Background(), ListQuery{Agent: `x" OR "1`})
	require.ErrorIs(t, err, event.ErrInvalid)
	broken := errors.New("broken")
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, broken)
	_, err = client.List(context.Background(), ListQuery{})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `listing threads of namespace "acme"`)
}
