package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
)

// run is what one workflow run of a thread has done.
type run struct {
	// previous is the id of the run that continued as this one, if there is one.
	previous string
	began    time.Time

	// state is the thread's state at the end. ended reports whether the run has ended.
	state *thread.State
	ended bool

	// steps are the steps in the order in which they were given records or returned results.
	steps []recordedStep
}

// step is a step of a thread. It either received records to store, or returned a result.
type recordedStep struct {
	at    time.Time
	input any

	// flush are the records that it received, nil if this is a result. done is a result that arrived;
	// a step without one is still running.
	flush *step.Flush
	reply any
	done  bool
}

// history reads the history of a run.
func history(ctx context.Context, c client.Client, workflowID, runID string) (*historypb.History, error) {
	events := c.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	h := &historypb.History{}
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}

// replay replays a history.
func (c *comparison) replay(h *historypb.History) (out *run, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("replaying the history: %v", p)
		}
	}()
	first, last := h.GetEvents()[0], h.GetEvents()[len(h.GetEvents())-1]
	out = &run{began: first.GetEventTime().AsTime(), previous: first.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(), ended: ends(last.GetEventType())}
	opts := c.cfg.Replay
	opts.Interceptors, opts.DisableDeadlockDetection = []interceptor.WorkerInterceptor{&watcher{run: out}}, true
	r, err := worker.NewWorkflowReplayerWithOptions(opts)
	if err != nil {
		return nil, err
	}
	c.cfg.Workflows.Register(r)
	err = r.ReplayWorkflowHistoryWithOptions(sdklog.NewStructuredLogger(discard), processed(h), worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: c.workflowID(), RunID: first.GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()},
	})
	if err != nil {
		return nil, fmt.Errorf("replaying the history: %w", err)
	}
	if out.state == nil {
		return nil, errors.New("replaying the history: it has no thread")
	}
	return out, nil
}

// processed returns a history whose last events are processed too. A replay leaves out the last workflow task unless
// another one follows, and no worker may have begun one since the last events arrived.
func processed(h *historypb.History) *historypb.History {
	events := h.GetEvents()
	last := events[len(events)-1]
	if ends(last.GetEventType()) {
		return h
	}
	out := &historypb.History{Events: slices.Clone(events)}
	add := func(typ enumspb.EventType, e *historypb.HistoryEvent) {
		e.EventId, e.EventType, e.EventTime = int64(len(out.Events))+1, typ, last.GetEventTime()
		out.Events = append(out.Events, e)
	}
	scheduled := func() {
		add(enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
			WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{},
		}})
	}
	started := func() {
		add(enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
			WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: int64(len(out.Events))},
		}})
	}
	if last.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED {
		if last.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			scheduled()
		}
		started()
	}
	add(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
		WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{StartedEventId: int64(len(out.Events))},
	}})
	scheduled()
	started()
	return out
}

// ends reports whether an event is the end of a run.
func ends(typ enumspb.EventType) bool {
	switch typ { //nolint:exhaustive // all other events are followed by more
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return true
	}
	return false
}

// watcher notes the steps of a replayed run.
type watcher struct {
	interceptor.WorkerInterceptorBase
	run *run
}

func (w *watcher) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &inbound{run: w.run}
	in.Next = next
	return in
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	run *run
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &outbound{run: i.run}
	out.Next = next
	return i.Next.Init(out)
}

func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	show := func(s *thread.State) { i.run.state = s }
	return i.Next.ExecuteWorkflow(workflow.WithValue(ctx, thread.Inspector{}, show), in)
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	run *run
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	f := o.Next.ExecuteActivity(ctx, name, args...)
	o.note(ctx, f, args)
	return f
}

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	f := o.Next.ExecuteLocalActivity(ctx, name, args...)
	o.note(ctx, f, args)
	return f
}

func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	f := o.Next.ExecuteChildWorkflow(ctx, name, args...)
	o.note(ctx, f, args)
	return f
}

// note notes what a step received, and its result when it arrives.
func (o *outbound) note(ctx workflow.Context, f workflow.Future, args []any) {
	if len(args) != 1 {
		return
	}
	flush, reply := parts(args[0])
	if flush != nil {
		o.run.steps = append(o.run.steps, recordedStep{at: workflow.Now(ctx), input: args[0], flush: flush})
	}
	if reply == nil {
		return
	}
	i := len(o.run.steps)
	o.run.steps = append(o.run.steps, recordedStep{at: workflow.Now(ctx), input: args[0]})
	waits, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(waits, "watch a step", func(ctx workflow.Context) {
		if f.Get(ctx, reply) == nil {
			// The result has its place in the order of results.
			o.run.steps[i].input = nil
			o.run.steps = append(o.run.steps, recordedStep{at: workflow.Now(ctx), input: args[0], reply: reply, done: true})
		} else {
			o.run.steps[i].input = nil
		}
	})
}

// parts returns the records that a step receives, and a pointer to a value for its result. A step
// has neither if it stores nothing.
func parts(input any) (*step.Flush, any) {
	switch in := input.(type) {
	case step.Model:
		return &in.Flush, &step.ModelReply{}
	case step.Tool:
		return &in.Flush, &step.ToolReply{}
	case step.Plan:
		return &in.Flush, &step.PlanReply{}
	case step.Title:
		return &in.Flush, &step.TitleReply{}
	case step.End:
		return &in.Flush, &step.EndReply{}
	case step.Event:
		return &in.Flush, new(any)
	case step.Record:
		return &in.Flush, nil
	case step.Hook:
		return &in.Flush, nil
	case step.Delegate:
		return nil, &step.DelegateReply{}
	case step.Task:
		return nil, &step.TaskReply{}
	}
	return nil, nil
}

// written is what one step has stored.
type written struct {
	activities.Rebuilt
	row *step.Row

	// result means that the records are those of its result.
	result bool
}

// written returns what the run has stored, in order. What is still pending at the end is not part of it. h is what this run and
// later ones tell: a call may have its result in a later run.
func (r *run) written(h activities.History) (out []written) {
	seen := map[string]bool{}
	for _, rec := range r.state.Outbox.Pending {
		seen[rec.ID] = true
	}
	h.Records = nil
	rows := int64(0)
	for _, s := range r.steps {
		var w written
		switch {
		case s.flush != nil:
			h.Records = append(h.Records, s.flush.Records...)
			for _, rec := range s.flush.Records {
				if !seen[rec.ID] {
					seen[rec.ID] = true
					w.Records = append(w.Records, rec)
				}
			}
			row := s.flush.Row
			if row != nil && row.Number > rows && (r.state.Outbox.Row == nil || r.state.Outbox.Row.Number != row.Number) {
				rows, w.row = row.Number, row
			}
		case s.done:
			w = written{Rebuilt: h.Rebuild(s.input, s.reply, s.at), result: true}
			if len(w.Before) > 0 && !seen[w.Before[0].ID] {
				seen[w.Before[0].ID] = true
				out = append(out, written{Rebuilt: activities.Rebuilt{Records: w.Before}, result: true})
			}
		}
		if len(w.Records)+len(w.Logs) > 0 || w.row != nil {
			out = append(out, w)
		}
	}
	return out
}

// tell adds what the run tells beside its steps.
func (r *run) tell(h activities.History) {
	for _, s := range r.steps {
		if s.flush != nil {
			for _, rec := range s.flush.Records {
				h.Answered[rec.ID] = true
			}
		}
		in, tool := s.input.(step.Tool)
		reply, ok := s.reply.(*step.ToolReply)
		if !tool || !ok || !s.done {
			continue
		}
		// A call with a decision may have run with the arguments of a person.
		if in.DecisionID == "" && !reply.Truncated && reply.Arguments != "" {
			h.Arguments[reply.ToolCallID] = reply.Arguments
		}
		if reply.Status != "" {
			h.Answered[recordid.Result(reply.ToolCallID)] = true
		}
	}
}
