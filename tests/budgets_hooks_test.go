package tests

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// ready waits until a thread has seen the start of its hook workflow: on a busy machine it might
// see start and end together, which costs less.
func ready(ctx context.Context, temporal client.Client, deps hook.Deps) error {
	tick := time.NewTicker(testenv.Tick)
	defer tick.Stop()
	for {
		events, err := check.RunHistory(ctx, temporal, signals.WorkflowID(deps.Context.Namespace, deps.Context.ThreadID), "")
		begun := slices.ContainsFunc(events, func(e *history.HistoryEvent) bool {
			key := e.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution().GetWorkflowId()
			return key == signals.HookWorkflowID(deps.Context.Namespace, deps.Context.ThreadID, deps.Context.EventID)
		})
		if err != nil || begun && !check.TaskOpen(events) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passing lets messages pass, of all senders or of some.
func passing(c *threadmill.Config, name string, by ...event.CreatedBy) hook.Hook {
	temporal := c.Temporal
	return hook.Hook{
		Name:    name,
		Filter:  hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: by},
		Timeout: testenv.Patience,
		Func: func(ctx context.Context, _ event.Event) (hook.Result, error) {
			return hook.Pass(), ready(ctx, temporal, hook.DepsOf(ctx))
		},
	}
}

// inlineFor is an inline hook for messages of people.
func inlineFor(name string, f func(event.MessageEvent) hook.Result) hook.Hook {
	h := hook.Inline(name, func(_ hook.Context, e event.Event) (hook.Result, error) {
		return f(e.(event.MessageEvent)), nil
	})
	h.Filter = hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}
	return h
}

// louder adds an exclamation mark.
func louder(m event.MessageEvent) hook.Result {
	m.Message.Content += "!"
	return hook.Replace(m)
}

// noting is a processor that turns a note into a system message, which no agent answers.
func noting(c *threadmill.Config) hook.Processor {
	temporal := c.Temporal
	p := hook.Process("note.taken", func(ctx context.Context, in struct {
		Text string `json:"text"`
	}, deps hook.Deps,
	) ([]hook.Produced, error) {
		return []hook.Produced{hook.Message(event.CreatedBySystem, "notes", in.Text)}, ready(ctx, temporal, deps)
	})
	p.Timeout = testenv.Patience
	return p
}

// hookRuns returns the histories of the hook workflows whose starts are among events.
func hookRuns(w *harness.Harness, events []*history.HistoryEvent) (runs [][]*history.HistoryEvent) {
	w.T.Helper()
	for _, e := range events {
		if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a.GetWorkflowType().GetName() == signals.HookWorkflow {
			run, err := check.RunHistory(w.Ctx(), w.Temporal, a.GetWorkflowExecution().GetWorkflowId(), a.GetWorkflowExecution().GetRunId())
			require.NoError(w.T, err)
			runs = append(runs, run)
		}
	}
	return runs
}

// hookShapes are turns with hooks and processors. A plain turn costs 10 events and 2 actions.
var hookShapes = []struct {
	name string
	with func(c *threadmill.Config)

	// post is the type of the event, if it is not a message.
	post string

	// want is the cost in the thread's history, children in that of each hook workflow.
	want     costs
	children []costs
}{
	{name: "no hook", want: costs{cost{10, 2}, cost{5, 2}}},
	{
		name: "hooks that match nothing",
		with: func(c *threadmill.Config) {
			orders := passing(c, "orders")
			orders.Filter.Types = []string{"order.*"}
			c.Hooks = []hook.Hook{passing(c, "system", event.CreatedBySystem), orders}
		},
		want: costs{cost{10, 2}, cost{5, 2}},
	},
	{
		name: "an inline hook that lets the message pass",
		with: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{inlineFor("quiet", func(event.MessageEvent) hook.Result { return hook.Pass() })}
		},
		want: costs{cost{10, 2}, cost{5, 2}},
	},
	{
		name: "an inline hook that lets everything pass, replies too",
		with: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{hook.Inline("all", func(hook.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil })}
		},
		want: costs{cost{10, 2}, cost{5, 2}},
	},
	{
		name: "an inline hook that changes the reply: a marker for that and the end",
		with: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{hook.Inline("sign", func(_ hook.Context, e event.Event) (hook.Result, error) {
				m, ok := e.(event.MessageEvent)
				if !ok || m.CreatedBy != event.CreatedByAgent {
					return hook.Pass(), nil
				}
				m.Message.Content += " (signed)"
				return hook.Replace(m), nil
			})}
		},
		want: costs{cost{11, 3}, cost{6, 2}},
	},
	{
		name: "an inline hook that changes the message: a marker",
		with: func(c *threadmill.Config) { c.Hooks = []hook.Hook{inlineFor("louder", louder)} },
		want: costs{cost{11, 3}, cost{6, 3}},
	},
	{
		name: "three functions on a person's message: one hook workflow",
		with: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{passing(c, "one", event.CreatedByUser), passing(c, "two", event.CreatedByUser), passing(c, "three", event.CreatedByUser)}
		},
		want: costs{cost{10 + 9, 2 + 1}, cost{5 + 9, 2 + 1}}, children: []costs{{cost{11, 1}, cost{6, 1}}},
	},
	{
		name: "functions on an agent's reply: one hook workflow, and a marker for the end",
		with: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{passing(c, "one", event.CreatedByAgent), passing(c, "two", event.CreatedByAgent)}
		},
		want: costs{cost{10 + 9 + 1, 2 + 2}, cost{5 + 9 + 1, 2 + 2}}, children: []costs{{cost{11, 1}, cost{6, 1}}},
	},
	{
		name: "a processor whose event no agent answers",
		with: func(c *threadmill.Config) { c.Processors = []hook.Processor{noting(c)} },
		post: "note.taken", want: costs{cost{14, 3}, cost{14, 3}}, children: []costs{{cost{11, 1}, cost{6, 1}}},
	},
}

// TestBudgetsOfHooks checks the costs of hooks and processors.
func TestBudgetsOfHooks(t *testing.T) {
	inBothModes(t, func(t *testing.T, asActivities bool, want func(costs) cost) {
		for _, shape := range hookShapes {
			t.Run(shape.name, func(t *testing.T) {
				w := harness.New(t, harness.Options{StepsAsActivities: asActivities, Configure: shape.with})
				id := w.Open()
				turn := func() {
					if shape.post == "" {
						w.Post(id, "hello")
						return
					}
					_, err := w.Threads.PostSignal(w.Ctx(), id, signals.Post{Type: shape.post, Payload: []byte(`{"text":"x"}`)})
					require.NoError(t, err)
				}
				turn() // from now on, it is known how long its steps take
				check.AwaitRest(w, id)
				added, children := measureHooked(t, w, id, turn)
				require.Equal(t, want(shape.want), cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
				var costs []cost
				for _, child := range children {
					costs = append(costs, cost{len(child), billed(child)})
					t.Logf("a hook workflow:\n%s", check.Describe(child))
				}
				var each []cost
				for _, child := range shape.children {
					each = append(each, want(child))
				}
				require.Equal(t, each, costs, "events and actions of each hook workflow")
			})
		}
	})
}

// measureHooked is [measure], with the histories of the turn's hook workflows.
func measureHooked(t *testing.T, w *harness.Harness, id string, turn func()) (thread []*history.HistoryEvent, children [][]*history.HistoryEvent) {
	t.Helper()
	for range 5 {
		thread = measure(t, w, id, turn)
		children = hookRuns(w, thread)
		if !slices.ContainsFunc(children, check.Stalled) {
			return thread, children
		}
		t.Log("the machine was too busy; the next turn is measured")
	}
	require.Fail(t, "no turn could be measured")
	return nil, nil
}
