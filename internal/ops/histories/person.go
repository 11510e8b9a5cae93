package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Has reports whether the history of a run has a value of which concerns says so. A run that does not exist has none.
func (h Histories) Has(ctx context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error) {
	return h.read(ctx, run, math.MaxInt, concerns)
}

// Began is [Histories.Has] for the first event of a run, with its input and its memo.
func (h Histories) Began(ctx context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error) {
	return h.read(ctx, run, 1, concerns)
}

func (h Histories) read(ctx context.Context, run job.WorkflowRun, first int, concerns func(json.RawMessage) bool) (found bool, err error) {
	read := reading{h.converter(), concerns, false}
	events := h.Temporal.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for ; first > 0 && events.HasNext() && !read.found; first-- {
		e, err := events.Next()
		if isGone(err) {
			return false, nil
		}
		if err == nil {
			err = proxy.VisitPayloads(ctx, e, proxy.VisitPayloadsOptions{SkipSearchAttributes: true, Visitor: read.payloads})
		}
		if err == nil {
			err = proxy.VisitFailures(ctx, e, proxy.VisitFailuresOptions{Visitor: read.failure})
		}
		if err != nil {
			return false, fmt.Errorf("reading run %s of workflow %s: %w", run.RunID, run.WorkflowID, err)
		}
	}
	return read.found, nil
}

// reading reads the values of events.
type reading struct {
	converter converter.DataConverter
	concerns  func(json.RawMessage) bool
	found     bool
}

func (r *reading) payloads(_ *proxy.VisitPayloadsContext, all []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range all {
		var raw converter.RawValue
		if err := r.converter.FromPayload(p, &raw); err != nil {
			return nil, err
		}
		r.found = r.found || r.concerns(raw.Payload().GetData())
	}
	return all, nil
}

func (r *reading) failure(_ *proxy.VisitFailuresContext, f *failurepb.Failure) error {
	for ; f != nil; f = f.GetCause() {
		text, err := json.Marshal(map[string]string{"error": f.GetMessage() + f.GetStackTrace()})
		if err != nil {
			return err
		}
		r.found = r.found || r.concerns(text)
	}
	return nil
}

func (h Histories) converter() converter.DataConverter {
	if h.Converter == nil {
		return converter.GetDefaultDataConverter()
	}
	return h.Converter
}

// Title returns the title that the memo of a thread's workflow has, "" if it has none or does not run.
func (h Histories) Title(ctx context.Context, namespace, threadID string) (title string, err error) {
	d, err := h.Temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(namespace, threadID), "")
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading thread %s: %w", threadID, err)
	}
	info := d.GetWorkflowExecutionInfo()
	kept, has := info.GetMemo().GetFields()[signals.MemoTitle]
	if !has || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	if err := h.converter().FromPayload(kept, &title); err != nil {
		return "", fmt.Errorf("reading the memo of thread %s: %w", threadID, err)
	}
	return title, nil
}

// Forget has a thread forget a person.
func (h Histories) Forget(ctx context.Context, namespace, threadID string, f job.Forget) error {
	err := h.Temporal.SignalWorkflow(ctx, signals.WorkflowID(namespace, threadID), "", job.SignalForget, f)
	if isGone(err) {
		return nil
	}
	return err
}

// Change changes a thread. Of one that does not run, it returns false.
func (h Histories) Change(ctx context.Context, namespace, threadID string, change signals.ThreadChange) (bool, error) {
	c, err := threadclient.New(threadclient.Config{Temporal: h.Temporal, Namespace: namespace})
	if err != nil {
		return false, err
	}
	_, err = c.Update(ctx, threadID, change)
	if signals.Gone(err) {
		return false, nil
	}
	return err == nil, err
}

// Resting reports whether a thread has nothing to do and no events in its queue, or no workflow.
func (h Histories) Resting(ctx context.Context, namespace, threadID string) (bool, error) {
	c, err := threadclient.New(threadclient.Config{Temporal: h.Temporal, Namespace: namespace})
	if err != nil {
		return false, err
	}
	q, err := c.Queue(ctx, threadID)
	if signals.Gone(err) {
		return true, nil
	}
	return err == nil && q.Processing == nil && len(q.Items)+len(q.Waiting) == 0, err
}

// SchedulesWhere returns the ids of the schedules of a namespace of which is says so.
func (h Histories) SchedulesWhere(ctx context.Context, namespace string, is func(signals.Schedule) bool) (ids []string, err error) {
	c, err := threadclient.New(threadclient.Config{Temporal: h.Temporal, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	found, err := c.SchedulesWhere(ctx, is)
	for _, s := range found {
		ids = append(ids, s.ID)
	}
	return ids, err
}
