package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Input starts a thread, or, with State, goes on with one.
type Input struct {
	signals.Start
	State *thread.State `json:"state,omitempty"`
}

// Workflows are the workflows of threads.
type Workflows struct {
	// Hooks and processors of the application.
	Hooks *hook.Set

	// StaleAfter is how long a step may be silent before it counts as lost with its
	// worker, and is run again. Default [DefaultStaleAfter].
	StaleAfter time.Duration
}

// DefaultStaleAfter is the default of [Workflows].StaleAfter.
const DefaultStaleAfter = 12 * time.Second

// Registrar is what workflows register with: a Temporal worker or test environment.
type Registrar interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers every workflow under its published name.
func (w *Workflows) Register(r Registrar) {
	r.RegisterWorkflowWithOptions(w.Thread, workflow.RegisterOptions{Name: signals.ThreadWorkflow})
	r.RegisterWorkflowWithOptions(w.Hook, workflow.RegisterOptions{Name: signals.HookWorkflow})
}

// Thread is one conversation, from its first event until it is closed.
func (w *Workflows) Thread(ctx workflow.Context, in Input) error {
	ctx = staleAfter(ctx, w.StaleAfter)
	t, err := w.open(ctx, in)
	if err != nil {
		return err
	}
	if err := t.listen(ctx); err != nil {
		return err
	}
	for {
		_ = workflow.Await(ctx, t.hasWork)
		// A workflow that is cancelled closes the thread, also when there is work left.
		cancelled := ctx.Err()
		switch {
		case cancelled != nil || t.state.Closing != nil:
			t.close(ctx)
			return cancelled
		case t.rollover(ctx):
			return t.continueAsNew(ctx)
		case t.state.Turn != nil:
			t.turn(ctx)
		case t.hooked && t.state.Heavy():
			t.record(ctx)
		case t.begin(ctx):
			t.turn(ctx)
		case t.state.Unstored():
			t.record(ctx)
		}
		t.show(ctx)
	}
}

// conversation is a thread while its workflow runs.
type conversation struct {
	state *thread.State

	// hooks are the application's, if history says that this run asks them at all.
	hooks      *hook.Set
	hooked     bool
	lastInline lastInline

	// stop ends what the current turn has in flight.
	stop workflow.CancelFunc

	// moving is set when the thread only waits for its handlers to continue as new.
	moving bool
}

func (w *Workflows) open(ctx workflow.Context, in Input) (*conversation, error) {
	if in.State != nil {
		return &conversation{state: in.State, hooks: w.Hooks, hooked: asksHooks(ctx)}, nil
	}
	namespace, threadID, err := signals.ParseWorkflowID(workflow.GetInfo(ctx).WorkflowExecution.ID)
	if err != nil {
		return nil, fmt.Errorf("starting a thread: %w", err)
	}
	if err := thread.CheckStart(in.Start); err != nil {
		return nil, temporal.NewNonRetryableApplicationError("starting a thread: "+err.Error(), signals.RefusedType, err)
	}
	t := &conversation{state: thread.New(namespace, threadID, in.Start, workflow.Now(ctx)), hooks: w.Hooks}
	if err := announce(ctx, t.state); err != nil {
		return nil, err
	}
	t.hooked = asksHooks(ctx)
	if in.First != nil {
		t.post(ctx, signals.SignalPost, *in.First)
	}
	return t, nil
}

// asksHooks reports whether this run asks hooks. One that began before there were any
// does not; the thread's next run does.
func asksHooks(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, "hooks", workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// announce makes a thread that a plain client started as easy to find as any other.
func announce(ctx workflow.Context, s *thread.State) error {
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		if err := workflow.UpsertTypedSearchAttributes(ctx, threadclient.AttributeUpdates(s.Namespace, s.Agents)...); err != nil {
			return fmt.Errorf("setting the search attributes of a thread: %w", err)
		}
	}
	return nil
}

// hasWork reports whether the thread has anything to do but wait.
func (t *conversation) hasWork() bool {
	s := t.state
	return s.Closing != nil || s.Turn != nil || len(s.Queue) > 0 || s.Unstored()
}

// begin takes the next event from the queue.
func (t *conversation) begin(ctx workflow.Context) bool {
	next, ok := t.state.Next(workflow.Now(ctx))
	if ok {
		t.state.Begin(workflow.Now(ctx), next)
	}
	return ok
}

// maxHistory is the length of history, in events, at which a thread goes on in a new
// run, if the server has not suggested it before: turns get slower as history grows,
// and a worker that takes the thread over replays all of it. It is about a hundred
// plain turns.
const maxHistory = 1000

// rollover reports whether history has grown so long that the thread should go on
// in a new run.
func (t *conversation) rollover(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= maxHistory
}

// continueAsNew moves the thread to a new run, with all that it remembers.
func (t *conversation) continueAsNew(ctx workflow.Context) error {
	if t.hooked && t.state.Heavy() {
		t.record(ctx)
	}
	t.moving = true
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		t.close(ctx)
		return err
	}
	t.drain(ctx)
	return workflow.NewContinueAsNewError(ctx, signals.ThreadWorkflow, Input{State: t.state.Carried()})
}

// close settles what waits, stores what is left, and ends the thread.
func (t *conversation) close(ctx workflow.Context) {
	// The thread ends properly also when its workflow was cancelled.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.drain(ctx)
	if t.state.Closing == nil {
		t.state.Closing = &signals.Control{Action: signals.ControlClose, By: "temporal", Reason: "the workflow was cancelled"}
	}
	if t.state.Turn != nil {
		t.state.Interrupt(*t.state.Closing)
		t.turn(ctx)
	}
	t.state.Close(workflow.Now(ctx))
	t.record(ctx)
	if err := workflow.UpsertTypedSearchAttributes(ctx, threadclient.ClosedUpdate()); err != nil {
		workflow.GetLogger(ctx).Error("setting the search attribute of a closed thread", "thread", t.state.ThreadID, "error", err)
	}
	t.show(ctx)
	_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// show describes the thread in Temporal's Web UI. It writes nothing to history.
func (t *conversation) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, t.state.Details())
}
