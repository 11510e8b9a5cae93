package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// Observer observes turns, for traces and metrics. Its methods must not block, and must not change what the
// workflow does: they are called again when a worker replays a thread, and then should record nothing. workflow.IsReplaying does not
// report every replay: a worker that answers a query from the history also executes the workflow task in progress.
type Observer interface {
	// Turn returns the context for the steps of a turn. It is called whenever the turn begins or continues.
	Turn(ctx workflow.Context, t ObservedTurn) workflow.Context

	// TurnEnded is called when a turn has ended.
	TurnEnded(ctx workflow.Context, t ObservedTurn, outcome signals.TurnStatus)

	// Run returns the context for the steps of an agent in a turn, and is told when the agent is done. It is called
	// whenever the run begins or continues.
	Run(ctx workflow.Context, r ObservedRun) (steps workflow.Context, done func(ObservedRun))

	// Decided is called once for each approval request that has ended by a decision, an expiry or a grant, when the turn
	// continues. Requests of interrupted turns are not observed.
	Decided(ctx workflow.Context, d ObservedDecision)

	// Traceparent returns the trace context that a sub-agent, which ctx starts, continues. Empty = none.
	Traceparent(ctx workflow.Context) string
}

// ObservedTurn describes a turn to an [Observer].
type ObservedTurn struct {
	Namespace, ThreadID, EventID, TraceID, Traceparent string

	// ID is unique in the thread.
	ID string

	// Waiting is the number of events that wait behind the turn.
	Waiting int

	// PostedAt and StartedAt are the times at which the event arrived and its turn began. First reports whether
	// the turn has just begun.
	PostedAt, StartedAt time.Time
	First               bool
}

// ObservedRun describes a run of an agent to an [Observer].
type ObservedRun struct {
	Turn ObservedTurn

	// Agent is empty for the default agent before its first reply. Slot tells the runs of a turn apart.
	Agent string
	Slot  int

	StartedAt time.Time

	// Error is the reason why the run failed.
	Error string
}

// ObservedDecision describes the end of an approval request to an [Observer].
type ObservedDecision struct {
	Turn             ObservedTurn
	ToolCallID, Tool string

	RequestedAt, DecidedAt time.Time
	Decision               event.Decision
}

func (w *Workflows) observer() Observer {
	if w.Observer == nil {
		return noObserver{}
	}
	return w.Observer
}

func (t *activeTurn) observed() ObservedTurn {
	q := t.turn
	return ObservedTurn{
		Namespace: t.state.Namespace, ThreadID: t.state.ThreadID, EventID: q.Item.ID, TraceID: q.Item.TraceID, Traceparent: q.Traceparent,
		ID: q.TurnID(), Waiting: len(t.state.Inbox.Queue), PostedAt: q.Item.CreatedAt, StartedAt: q.StartedAt, First: q.Stage == thread.ItemArrived,
	}
}

// observeRun is told of a run that begins or continues. The caller must call end when it pauses or ends.
func (t *activeTurn) observeRun(ctx workflow.Context, r *thread.AgentRun) (steps workflow.Context, end func()) {
	r.Begin(workflow.Now(ctx))
	now := func() ObservedRun {
		return ObservedRun{Turn: t.observed(), Agent: r.Agent, Slot: r.Slot, StartedAt: r.StartedAt, Error: r.Error}
	}
	steps, done := t.observer.Run(ctx, now())
	return steps, func() {
		if r.Done() {
			done(now())
		}
	}
}

// observeDecision observes the end of a call's approval request, if it has ended since the last time.
func (t *activeTurn) observeDecision(ctx workflow.Context, c *thread.Call) {
	if end := c.TakeEnded(); end != nil {
		t.observer.Decided(ctx, ObservedDecision{Turn: t.observed(), ToolCallID: c.Plan.ID, Tool: c.Plan.Name, RequestedAt: c.Requested.RequestedAt, DecidedAt: end.At, Decision: end.Decision})
	}
}

type noObserver struct{}

func (noObserver) Turn(ctx workflow.Context, _ ObservedTurn) workflow.Context { return ctx }

func (noObserver) TurnEnded(workflow.Context, ObservedTurn, signals.TurnStatus) {}

func (noObserver) Run(ctx workflow.Context, _ ObservedRun) (workflow.Context, func(ObservedRun)) {
	return ctx, func(ObservedRun) {}
}

func (noObserver) Decided(workflow.Context, ObservedDecision) {}

func (noObserver) Traceparent(workflow.Context) string { return "" }
