package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// input starts a thread or, with State, continues one.
type input struct {
	signals.Start

	// Parent is the parent thread, in a sub-agent's thread.
	Parent *step.Parent  `json:"parent,omitempty"`
	State  *thread.State `json:"state,omitempty"`

	// Restore is what the store has of a sub-agent's thread that starts again.
	Restore json.RawMessage `json:"restore,omitempty"`

	// problem is the error of decoding the input of a new thread.
	problem error
}

// UnmarshalJSON decodes the input of a new thread, which any client may start, with
// [event.DecodeJSON], and the input of a continued thread leniently.
func (in *input) UnmarshalJSON(data []byte) error {
	type plain input // without this method
	var head struct {
		State json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(data, &head); err == nil && len(head.State) > 0 {
		return json.Unmarshal(data, (*plain)(in))
	}
	if err := event.DecodeJSON("", data, (*plain)(in)); err != nil {
		*in = input{problem: err}
	}
	return nil
}

// Workflows contains the workflows of threads.
type Workflows struct {
	// Hooks are the application's hooks and processors.
	Hooks *hook.Set

	// Rules are the rules for environment events. Nil = the default rules.
	Rules *rule.Set

	// Redact redacts what threads receive. Default: nothing is redacted.
	Redact *redact.Redactor

	// StaleAfter is the time after which a silent step counts as lost with its worker and is
	// retried. Default [DefaultStaleAfter].
	StaleAfter time.Duration

	// NameStep registers an activity under a second name, under which a thread runs it as a local activity. Nil = no activity has one,
	// and histories that have such names cannot be replayed: see [Unregistered].
	NameStep func(activity, name string)

	// Observer is told of turns. Default: none.
	Observer Observer

	// paces contains the quick steps of the threads of this worker.
	paces paces
}

// DefaultStaleAfter is the default of [Workflows].StaleAfter.
const DefaultStaleAfter = 12 * time.Second

// Registrar registers workflows: a Temporal worker or test environment.
type Registrar interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers every workflow under its published name.
func (w *Workflows) Register(r Registrar) {
	// On workers with a build id, threads stay on a build until they continue as new. The others are small, may wait for
	// days, and would keep a build alive for as long: they move to the current build with their next workflow task.
	pinned, moving := workflow.VersioningBehaviorPinned, workflow.VersioningBehaviorAutoUpgrade
	for _, one := range []struct {
		name     string
		workflow any
		behavior workflow.VersioningBehavior
	}{
		{signals.ThreadWorkflow, w.thread, pinned},
		{signals.DelegateWorkflow, w.delegate, pinned},
		{signals.HookWorkflow, w.hook, moving},
		{signals.TaskWorkflow, w.task, moving},
		{job.IngestWorkflow, w.ingest, moving},
		{job.ExtractWorkflow, w.extract, moving},
		{job.EmbedWorkflow, w.embed, moving},
		{job.DeliverWorkflow, deliver, moving},
		{job.ModelLimitWorkflow, modelLimit, moving},
		{job.EraseWorkflow, w.erase, moving},
		{job.ErasePersonWorkflow, w.erasePerson, moving},
		{job.RetainWorkflow, w.retain, moving},
	} {
		r.RegisterWorkflowWithOptions(one.workflow, workflow.RegisterOptions{Name: one.name, VersioningBehavior: one.behavior})
	}
}

// thread is the workflow of one conversation, from its first event until it is closed.
func (w *Workflows) thread(ctx workflow.Context, in input) error {
	ctx = w.context(ctx)
	in.Parent = nil
	t, err := w.open(ctx, in)
	if err != nil {
		return err
	}
	return t.live(ctx, signals.ThreadWorkflow)
}

// live processes events until the thread is closed, must continue as new, or is over.
func (t *conversation) live(ctx workflow.Context, typ string) error {
	if err := t.listen(ctx); err != nil {
		return err
	}
	t.watchTime(ctx)
	t.watchAhead(ctx)
	approvals{t}.watchDecisions(ctx)
	approvals{t}.watchStatus(ctx)
	t.watchTitle(ctx)
	t.storeOverdue(ctx)
	for {
		// Hooks that decide ahead of a turn report to the next run of the workflow.
		_ = workflow.Await(ctx, func() bool {
			return t.hasWork() || t.outdated(ctx) || t.forgets() || len(t.state.Turns.Deciding) > 0 && t.rollover(ctx)
		})
		// A cancelled workflow closes the thread, even if there is work left.
		switch cancelled := ctx.Err(); {
		case t.erased:
			return t.eraseLate(ctx)
		case cancelled != nil || t.state.Closing != nil:
			t.close(ctx)
			if t.erased {
				return t.eraseLate(ctx)
			}
			return cancelled
		case t.state.AnswerStored():
			return nil
		case t.rollover(ctx):
			return t.continueAsNew(ctx, typ)
		}
		t.act(ctx)
		t.show(ctx)
	}
}

// hasWork reports whether the thread has anything to do but wait.
func (t *conversation) hasWork() bool {
	s := t.state
	return t.erased || s.Closing != nil || s.Turns.Current != nil || s.HasNext() || s.Outbox.Unstored() || s.AnswerStored()
}

// act takes the next action of the thread.
func (t *conversation) act(ctx workflow.Context) {
	s := t.state
	switch s.NextAction(workflow.Now(ctx)) {
	case thread.ActionPark:
		s.Park()
	case thread.ActionUnpark:
		s.Turns.Unpark()
	case thread.ActionBegin:
		s.BeginNext(workflow.Now(ctx))
		t.runTurn(ctx)
	case thread.ActionRunTurn:
		t.runTurn(ctx)
	case thread.ActionLoad:
		t.load(ctx)
	case thread.ActionStore:
		t.record(ctx)
	case thread.ActionNone:
	}
}

// conversation is a thread in its workflow.
type conversation struct {
	state *thread.State

	// signals are the handlers of signals.
	signals []handler

	// hooks and ruleSet are those of the application.
	hooks      *hook.Set
	hooksShown string // the names of hooks, for the Web UI
	ruleSet    *rule.Set
	lastInline lastInline
	redactor   redactor

	// paces contains the quick steps of the worker's threads. A new thread inherits those of its group.
	paces     *paces
	group     group
	inherited bool

	// observer is told of turns.
	observer Observer

	// stop cancels the running steps of the current turn.
	stop workflow.CancelFunc

	// continuingAsNew is set when the thread only waits for its handlers before it continues as
	// new.
	continuingAsNew bool

	// subs are the running sub-agents that this workflow run started.
	subs map[string]workflow.ChildWorkflowFuture

	// stepsUnderWay counts the running steps of turns.
	stepsUnderWay int

	// people are those whom the thread is to forget, once they are needed.
	people []*forget.Person

	// erased means that the store refuses the thread, since it was erased.
	erased bool

	holder

	// pendingSends counts the running signals and requests to other workflows.
	pendingSends int
}

func (w *Workflows) open(ctx workflow.Context, in input) (*conversation, error) {
	if in.State != nil {
		inspect(ctx, in.State)
		t := w.conversation()
		t.begin(in.State)
		t.inherited = true
		return t, nil
	}
	namespace, threadID, err := signals.ParseWorkflowID(workflow.GetInfo(ctx).WorkflowExecution.ID)
	if err != nil {
		return nil, fmt.Errorf("starting a thread: %w", err)
	}
	if err := errors.Join(in.problem, in.Validate()); err != nil {
		return nil, temporal.NewNonRetryableApplicationError("starting a thread: "+err.Error(), signals.RefusedType, err)
	}
	t := w.conversation()
	if workflow.GetInfo(ctx).ParentWorkflowExecution == nil { // parents redact what they send
		in.Start = redacted(ctx, &t.redactor, in.Start)
	}
	t.begin(thread.New(namespace, threadID, in.Start, workflow.GetInfo(ctx).WorkflowStartTime, workflow.Now(ctx)))
	inspect(ctx, t.state)
	if in.Parent != nil {
		caller := workflow.GetInfo(ctx).ParentWorkflowExecution
		t.state.DelegatedBy(in.Parent, caller != nil && caller.ID == signals.WorkflowID(namespace, in.Parent.ThreadID))
	}
	t.state.Number(workflow.Now(ctx))
	if err := announce(ctx, t.state); err != nil {
		return nil, err
	}
	t.lifecycle(ctx, event.TypeSessionCreated, recordid.Opened(t.state.ThreadID))
	if in.First != nil {
		posts{t}.post(ctx, signals.SignalPost, *in.First)
		t.state.InheritUser()
	}
	var again signals.Restore
	if in.Parent != nil && len(in.Restore) > 0 && json.Unmarshal(in.Restore, &again) == nil { // the parent thread wrote it
		restores{t}.restore(ctx, signals.SignalRestore, again)
	}
	return t, nil
}

func (w *Workflows) conversation() *conversation {
	return &conversation{hooks: w.Hooks, ruleSet: w.Rules, observer: w.observer(), redactor: redactor{r: w.Redact}, paces: &w.paces}
}

func (t *conversation) begin(s *thread.State) { t.state, t.group = s, groupOf(s) }

// announce sets the search attributes and the memo of a thread that a plain client started.
func announce(ctx workflow.Context, s *thread.State) error {
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		if err := workflow.UpsertTypedSearchAttributes(ctx, searchattr.Open(s.Namespace, s.Roster.Agents)...); err != nil {
			return fmt.Errorf("setting the search attributes of a thread: %w", err)
		}
	}
	return nil
}

// load loads the content of the next event, which only the store has.
func (t *conversation) load(ctx workflow.Context) {
	input, ok := t.state.NextStored(workflow.Now(ctx))
	if !ok {
		return
	}
	// The content may not have been stored yet.
	t.record(ctx)
	var content step.LoadReply
	err := localFirst(ctx, activity, "load an event", step.ActivityLoadEvent, input, &content)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		why, _ := explain(err)
		t.state.NotLoaded(workflow.Now(ctx), input.EventID, why)
	default:
		t.state.Inbox.Loaded(input.EventID, content)
	}
}

// maxHistory is the length of history, in events, at which a thread continues as new if the server
// has not suggested it before: turns get slower as history grows, and a worker that takes over the
// thread replays all of it. It is about a hundred plain turns.
const maxHistory = 1000

// rollover reports whether the thread should continue as new: its history is long or has what is to be forgotten, or it belongs on another build.
func (t *conversation) rollover(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= maxHistory || t.outdated(ctx) || t.forgets()
}

// outdated reports whether the thread is pinned to a build, and new threads with its id would run on another one.
func (t *conversation) outdated(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetTargetWorkerDeploymentVersionChanged()
}

// continueAsNew continues the thread in a new workflow run, with its entire state.
func (t *conversation) continueAsNew(ctx workflow.Context, typ string) error {
	t.continuingAsNew = true
	t.requestSubReports(ctx)
	// What arrives during the last activity may again exceed the next run's input.
	for again := true; again; again = t.state.Outbox.Heavy() && !t.erased {
		if t.state.Outbox.Unstored() {
			t.record(ctx)
		}
		if err := workflow.Await(ctx, func() bool { return t.sendsDrained(ctx) }); err != nil {
			t.close(ctx)
			return err
		}
		t.drain(ctx)
	}
	var options workflow.ContinueAsNewErrorOptions // the next run stays on this build
	if t.outdated(ctx) {
		options.InitialVersioningBehavior = workflow.ContinueAsNewVersioningBehaviorAutoUpgrade
	}
	return workflow.NewContinueAsNewErrorWithOptions(ctx, options, typ, input{State: t.carried()})
}

// close ends pending work, stores the remaining records, and ends the thread.
func (t *conversation) close(ctx workflow.Context) {
	// The thread is also closed properly when its workflow was cancelled.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.drain(ctx)
	t.state.StartClosing(signals.Control{Action: signals.ControlClose, By: "temporal", Reason: "the workflow was cancelled"})
	t.state.Turns.Interrupt(*t.state.Closing)
	for t.state.Turns.Current != nil || t.state.Turns.Unpark() {
		t.runTurn(ctx)
	}
	t.endWork(ctx)
	t.record(ctx)
	t.finish(ctx)
}

// endWork ends the background tasks and sub-agents of a closed thread.
func (t *conversation) endWork(ctx workflow.Context) {
	t.lifecycle(ctx, event.TypeSessionDeleted, "")
	for _, task := range t.state.CloseTasks(workflow.Now(ctx)) {
		t.stopTask(ctx, task)
	}
	t.state.Close(workflow.Now(ctx))
}

// finish ends a thread whose records are stored.
func (t *conversation) finish(ctx workflow.Context) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, searchattr.Closed()); err != nil {
		workflow.GetLogger(ctx).Error("setting the search attribute of a closed thread", "thread", t.state.ThreadID, "error", err)
	}
	t.show(ctx)
	_ = workflow.Await(ctx, func() bool { return t.sendsDrained(ctx) })
	// Signals that arrived since the last records were stored.
	for t.drain(ctx); t.state.Outbox.Unstored() && !t.erased; t.drain(ctx) {
		t.record(ctx)
	}
}

// show describes the thread in Temporal's Web UI. It adds nothing to history.
func (t *conversation) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, t.state.Details())
}

// sleep waits, and returns an error if ctx is cancelled meanwhile. The Web UI shows why.
func sleep(ctx workflow.Context, d time.Duration, why string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: why}).Get(ctx, nil)
}

// awaitFor waits until a condition holds or the timeout is over, and reports whether the condition
// holds. Unlike workflow.AwaitWithTimeout, it cancels its timer.
func awaitFor(ctx workflow.Context, timeout time.Duration, why string, holds func() bool) (bool, error) {
	timed, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timed, timeout, workflow.TimerOptions{Summary: why})
	err := workflow.Await(ctx, func() bool { return holds() || timer.IsReady() })
	return holds(), err
}

// watchTime runs a durable timer for the next time at which the thread must act.
func (t *conversation) watchTime(ctx workflow.Context) {
	workflow.GoNamed(ctx, "timers", func(ctx workflow.Context) {
		for {
			var due time.Time
			var what string
			waits := func() (ok bool) {
				due, what, ok = t.state.NextDue()
				return ok
			}
			if workflow.Await(ctx, waits) != nil {
				return
			}
			sooner := func() bool {
				at, _, ok := t.state.NextDue()
				return !ok || at.Before(due)
			}
			if _, err := awaitFor(ctx, due.Sub(workflow.Now(ctx)), brief(what), sooner); err != nil {
				return
			}
			t.state.Release(workflow.Now(ctx))
			if s := t.state; s.Turns.Current != nil && s.Turns.Current.Interrupted != nil && t.stop != nil {
				t.stop()
			}
		}
	})
}

// awaitSent waits until a signal or request to another workflow is delivered. The thread does not
// continue as new or end before, which would lose it.
func (t *conversation) awaitSent(ctx workflow.Context, sent workflow.Future) error {
	t.pendingSends++
	defer func() { t.pendingSends-- }()
	return sent.Get(ctx, nil)
}

// sendsDrained reports whether all sends are delivered and no handler is running.
func (t *conversation) sendsDrained(ctx workflow.Context) bool {
	return t.pendingSends == 0 && workflow.AllHandlersFinished(ctx)
}
