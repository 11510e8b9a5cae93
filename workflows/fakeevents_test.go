package workflows_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// handleEvent acts like the activity, with the test's function.
func (f *fakes) handleEvent(ctx context.Context, in step.Event) error {
	f.flush(in.Flush)
	f.mu.Lock()
	f.handled = append(f.handled, in)
	f.mu.Unlock()
	if f.function != nil {
		if err := f.function(ctx, in); err != nil {
			return err
		}
	}
	if in.Ends != "" {
		f.flush(step.Flush{}, event.NewRecord(in.Ends, event.TypeTurnEnded, in.TraceID, in.EventID, time.Now(),
			event.TurnEnded{EventID: in.EventID, Status: "completed"}))
	}
	return nil
}

// runTask acts like the activity, with the test's tool.
func (f *fakes) runTask(ctx context.Context, in step.Task) (step.TaskReply, error) {
	f.mu.Lock()
	f.worked = append(f.worked, in)
	f.mu.Unlock()
	if f.work != nil {
		return f.work(ctx, in)
	}
	return step.TaskReply{Result: json.RawMessage(`"done"`)}, nil
}

// endDelegate acts like the activity, with the test's answer.
func (f *fakes) endDelegate(_ context.Context, in step.End) (step.EndReply, error) {
	f.flush(in.Flush)
	f.mu.Lock()
	f.ends = append(f.ends, in)
	f.mu.Unlock()
	reply, err := step.EndReply{}, error(nil)
	if f.end != nil {
		reply, err = f.end(in)
	}
	if err == nil && in.Parent.Background == nil {
		id := recordid.Result(in.Parent.ToolCallID)
		f.flush(step.Flush{}, event.NewRecord(id, event.TypeMessage, in.Parent.TraceID, in.Parent.EventID, time.Now(),
			event.Message{ID: id, SenderType: event.CreatedByTool, ToolCallID: in.Parent.ToolCallID, Content: "answered: " + string(in.Status)}))
	}
	return reply, err
}

// ruledWorld is a world with rules.
func ruledWorld(t *testing.T, f *fakes, rules ...rule.Rule) *fixture {
	t.Helper()
	return worldOf(t, f, &workflows.Workflows{Rules: rulesOf(t, rules...)})
}

func rulesOf(t *testing.T, rules ...rule.Rule) *rule.Set {
	t.Helper()
	set, err := rule.NewSet(rule.Config{Rules: rules})
	require.NoError(t, err)
	return set
}

// handling is a placeholder for the test's function.
func handling(context.Context, rule.Context, event.EnvEvent) error {
	panic("the fake answers in its place")
}

// happens is an environment event.
func happens(id, typ, payload string) event.EnvEvent {
	return event.EnvEvent{ID: id, Type: typ, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(payload)}
}

// publish sends an event as the input of signal "post".
func (w *fixture) publish(e event.EnvEvent) { w.SignalWorkflow(signals.SignalPost, e) }

// heardOf are the events that agents handled, in order.
func (f *fakes) heardOf() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, in := range f.models {
		if in.Observe != nil && in.Step == 1 {
			out = append(out, in.Observe.EventID)
		}
	}
	return out
}

// has reports whether a record was stored.
func (f *fakes) has(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[id]
}

func (f *fakes) idsOf(typ string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ids(slices.DeleteFunc(slices.Clone(f.records), func(r event.Record) bool { return r.Type != typ }))
}

func (w *fixture) tasks() (out signals.Tasks) {
	w.query(signals.QueryTasks, &out)
	return out
}

// forward delivers signals from child workflows to the thread, which the test environment does not
// do.
func (w *fixture) forward(names ...string) {
	for _, name := range names {
		w.OnSignalExternalWorkflow(mock.Anything, signals.WorkflowID("ns", "t1"), "", name, mock.Anything).
			Return(func(_, _, _, name string, arg any) error {
				w.SignalWorkflow(name, arg)
				return nil
			})
	}
}

// inbox keeps the signals from a workflow to another.
type inbox[T any] struct {
	mu  sync.Mutex
	got []T

	// err is the result of the signals.
	err error
}

func (b *inbox[T]) all() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// box accepts the signals to a workflow that does not exist.
func box[T any](w *fixture, workflowID, name string, err error) *inbox[T] {
	b := &inbox[T]{err: err}
	w.OnSignalExternalWorkflow(mock.Anything, workflowID, "", name, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			raw, err := json.Marshal(arg)
			if err != nil {
				return err
			}
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.got = append(b.got, v)
			return b.err
		})
	return b
}

// alone gives the workflow of the world another id than a thread's.
func (w *fixture) alone(workflowID string) {
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflowID, TaskQueue: "q"})
}

// failing is a retryable error of an activity.
func failing(why string) error { return temporal.NewApplicationError(why, step.ErrTypeRule) }
