package histories

import (
	"context"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Has reports whether the history of a run has a value of which concerns says so. A run that does not exist has none.
func (h Histories) Has(ctx context.Context, run signals.WorkflowRun, concerns func(json.RawMessage) bool) (found bool, err error) {
	read := reading{h.Converter, concerns, false}
	if read.converter == nil {
		read.converter = converter.GetDefaultDataConverter()
	}
	events := h.Temporal.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() && !read.found {
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

// Forget has a thread forget a person.
func (h Histories) Forget(ctx context.Context, namespace, threadID string, f signals.Forget) error {
	err := h.Temporal.SignalWorkflow(ctx, signals.WorkflowID(namespace, threadID), "", signals.SignalForget, f)
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
