package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Histories deletes workflows of a namespace of Temporal.
type Histories struct {
	// Temporal is required. Namespace is its namespace, default "default".
	Temporal  client.Client
	Namespace string

	// TaskQueue is that of the threads. Default [signals.DefaultTaskQueue].
	TaskQueue string

	// Converter reads histories. Default: the SDK's default.
	Converter converter.DataConverter
}

// Stop ends the workflow of a thread without its consent: it starts nothing from then on.
func (h Histories) Stop(ctx context.Context, namespace, threadID string) error {
	err := h.Temporal.TerminateWorkflow(ctx, signals.WorkflowID(namespace, threadID), "", "the thread is erased")
	if isGone(err) {
		return nil
	}
	return err
}

// Find finds the workflows of a thread, and those of documents that were ingested from it and of schedules that post to it.
// others are the ids of further workflows.
func (h Histories) Find(ctx context.Context, namespace, threadID string, others, schedules []string) (job.FoundWorkflows, error) {
	id := signals.WorkflowID(namespace, threadID)
	s := newSearch(h)
	if err := s.chain(ctx, id, ""); err != nil {
		return job.FoundWorkflows{}, err
	}
	queries := []query{
		ofWorkflow(id), ofParent(id),
		beginsWith(signals.HookWorkflowID(namespace, threadID, "")),
		beginsWith(signals.TaskWorkflowID(namespace, threadID+"~t")),
	}
	for _, id := range schedules {
		queries = append(queries, ofSchedule(signals.ScheduleID(namespace, id)))
	}
	for _, q := range queries {
		if err := s.list(ctx, q); err != nil {
			return job.FoundWorkflows{}, err
		}
	}
	// What was listed may have started more, or be older than the chain.
	for _, run := range s.sorted() {
		if run.WorkflowID == id {
			if err := s.chain(ctx, id, run.RunID); err != nil {
				return job.FoundWorkflows{}, err
			}
		}
	}
	for _, run := range s.sorted() {
		s.children[run.WorkflowID] = true
	}
	for _, other := range others {
		s.children[other] = true
	}
	out := job.FoundWorkflows{}
	for _, child := range slices.Sorted(maps.Keys(s.children)) {
		_, sub, err := signals.ParseWorkflowID(child)
		switch {
		case child == id:
		case err == nil:
			out.Threads = append(out.Threads, sub)
		default:
			if !strings.HasPrefix(child, signals.HookWorkflowID(namespace, threadID, "")) {
				out.Others = append(out.Others, child)
			}
			if err := s.list(ctx, ofWorkflow(child)); err != nil {
				return job.FoundWorkflows{}, err
			}
			if _, err := s.exists(ctx, child, ""); err != nil {
				return job.FoundWorkflows{}, err
			}
		}
	}
	// The threads of sub-agents are looked for by their own ids.
	own := func(run job.WorkflowRun) bool {
		_, _, err := signals.ParseWorkflowID(run.WorkflowID)
		return err != nil || run.WorkflowID == id
	}
	for _, run := range s.sorted() {
		if own(run) {
			out.Runs = append(out.Runs, run)
		}
	}
	for _, run := range s.deleted {
		if own(run) {
			out.Listed++
		}
	}
	return out, nil
}

// Delete deletes runs, running ones too. It returns before Temporal has deleted them.
func (h Histories) Delete(ctx context.Context, runs []job.WorkflowRun) error {
	for _, run := range runs {
		_, err := h.Temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: h.namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.WorkflowID, RunId: run.RunID},
		})
		if err != nil && !isGone(err) {
			return fmt.Errorf("deleting run %s of workflow %s: %w", run.RunID, run.WorkflowID, err)
		}
	}
	return nil
}

// Schedules returns the ids of the schedules that post to threads, by thread.
func (h Histories) Schedules(ctx context.Context, namespace string, threads ...string) (map[string][]string, error) {
	c, err := threadclient.New(threadclient.Config{Temporal: h.Temporal, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return c.SchedulesOf(ctx, threads...)
}

// Erase starts the workflow that erases a thread. While one runs, it fails.
func (h Histories) Erase(ctx context.Context, in job.EraseStep) error {
	return jobclient.Client{Temporal: h.Temporal, TaskQueue: h.TaskQueue}.EraseLate(ctx, in)
}

// DeleteSchedules deletes schedules.
func (h Histories) DeleteSchedules(ctx context.Context, namespace string, ids []string) error {
	for _, id := range ids {
		id := signals.ScheduleID(namespace, id)
		if err := h.Temporal.ScheduleClient().GetHandle(ctx, id).Delete(ctx); err != nil && !isGone(err) {
			return fmt.Errorf("deleting schedule %s: %w", id, err)
		}
		// Its own runs, and those that it has started, have what it posted.
		if err := h.deleteScheduler(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// schedulerPrefix begins the ids of the workflows with which Temporal runs schedules.
const schedulerPrefix = "temporal-sys-scheduler:"

// deleteScheduler deletes the runs of the workflow of a schedule, and those that it has started. A server that runs schedules without
// workflows has none of the former.
func (h Histories) deleteScheduler(ctx context.Context, schedule string) error {
	s, id := newSearch(h), schedulerPrefix+schedule
	if _, err := s.exists(ctx, id, ""); err != nil {
		return err
	}
	of := ofWorkflow(id)
	of.text += " AND TemporalNamespaceDivision = 'TemporalScheduler'" // visibility hides them otherwise
	for _, q := range []query{of, ofSchedule(schedule)} {
		if err := s.list(ctx, q); err != nil {
			return err
		}
	}
	return h.Delete(ctx, s.sorted())
}

func (h Histories) namespace() string {
	if h.Namespace == "" {
		return client.DefaultNamespace
	}
	return h.Namespace
}

// search gathers runs.
type search struct {
	h        Histories
	runs     map[string]job.WorkflowRun
	children map[string]bool

	// deleted are the runs that visibility still lists.
	deleted map[string]job.WorkflowRun

	// read are the ids of the runs whose history was read.
	read map[string]bool
}

func newSearch(h Histories) *search {
	return &search{h: h, runs: map[string]job.WorkflowRun{}, deleted: map[string]job.WorkflowRun{}, children: map[string]bool{}, read: map[string]bool{}}
}

func (s *search) sorted() []job.WorkflowRun {
	out := make([]job.WorkflowRun, 0, len(s.runs))
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		out = append(out, s.runs[id])
	}
	return out
}

// list adds the runs that a query of visibility selects.
func (s *search) list(ctx context.Context, q query) error {
	req := &workflowservice.ListWorkflowExecutionsRequest{Query: q.text, PageSize: 500}
	for {
		page, err := s.h.Temporal.ListWorkflow(ctx, req)
		if err != nil {
			return fmt.Errorf("listing workflows where %s: %w", q.text, err)
		}
		for _, info := range page.GetExecutions() {
			if !q.selects(info) {
				continue
			}
			run := job.WorkflowRun{WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId()}
			exists, err := s.exists(ctx, run.WorkflowID, run.RunID)
			if err != nil {
				return err
			}
			if exists == "" {
				s.deleted[run.RunID] = run
			}
		}
		if len(page.GetNextPageToken()) == 0 {
			return nil
		}
		req.NextPageToken = page.GetNextPageToken()
	}
}

// exists adds a run, if it exists, and returns its id. Without a run id it is the current one of the workflow.
func (s *search) exists(ctx context.Context, id, runID string) (string, error) {
	if _, known := s.runs[runID]; known {
		return runID, nil
	}
	d, err := s.h.Temporal.DescribeWorkflowExecution(ctx, id, runID)
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading workflow %s: %w", id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	run := info.GetExecution()
	s.runs[run.GetRunId()] = job.WorkflowRun{
		WorkflowID: run.GetWorkflowId(), RunID: run.GetRunId(), Open: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	return run.GetRunId(), nil
}

// chain adds a run and those that it continues, and the children that they have started. An empty runID is the current run.
func (s *search) chain(ctx context.Context, id, runID string) error {
	for {
		found, err := s.exists(ctx, id, runID)
		if err != nil || found == "" || s.read[found] {
			return err
		}
		s.read[found] = true
		runID, err = s.history(ctx, id, found)
		switch {
		case isGone(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading the history of %s: %w", id, err)
		case runID == "":
			return nil
		}
	}
}

// history reads the history of a run: what it has started, and the run that it continues.
func (s *search) history(ctx context.Context, id, runID string) (before string, err error) {
	events := s.h.Temporal.GetWorkflowHistory(ctx, id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return "", err
		}
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
			before = started.GetContinuedExecutionRunId()
		}
		if child := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); child != nil {
			s.children[child.GetWorkflowId()] = true
		}
	}
	return before, nil
}

func isGone(err error) bool {
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	return gone
}

// query is a query of visibility. The SQL databases of Temporal compare without regard to case, so what a query lists is compared
// again.
type query struct {
	text    string
	selects func(*workflowpb.WorkflowExecutionInfo) bool
}

func ofWorkflow(id string) query {
	return query{"WorkflowId = " + quoted(id), func(w *workflowpb.WorkflowExecutionInfo) bool { return w.GetExecution().GetWorkflowId() == id }}
}

func beginsWith(prefix string) query {
	return query{"WorkflowId STARTS_WITH " + quoted(prefix), func(w *workflowpb.WorkflowExecutionInfo) bool {
		return strings.HasPrefix(w.GetExecution().GetWorkflowId(), prefix)
	}}
}

func ofParent(id string) query {
	return query{"ParentWorkflowId = " + quoted(id), func(w *workflowpb.WorkflowExecutionInfo) bool { return w.GetParentExecution().GetWorkflowId() == id }}
}

func ofSchedule(id string) query {
	return query{scheduledBy + " = " + quoted(id), func(w *workflowpb.WorkflowExecutionInfo) bool {
		var by string
		err := converter.GetDefaultDataConverter().FromPayload(w.GetSearchAttributes().GetIndexedFields()[scheduledBy], &by)
		return err == nil && by == id
	}}
}

// scheduledBy is the search attribute that Temporal sets on the runs of a schedule.
const scheduledBy = "TemporalScheduledById"

// quoted returns a value in a query. Ids of threads and namespaces have no quotes.
func quoted(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
