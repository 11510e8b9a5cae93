package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// listen answers queries and updates, and takes in signals as they come, whatever
// the thread is doing.
func (t *conversation) listen(ctx workflow.Context) error {
	err := errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, signals.QueryState, func() (signals.State, error) {
			v := t.state.View()
			v.HistoryEvents = workflow.GetInfo(ctx).GetCurrentHistoryLength()
			return v, nil
		}, workflow.QueryHandlerOptions{Description: "what the thread is doing"}),
		workflow.SetQueryHandlerWithOptions(ctx, signals.QueryQueue, func() (signals.Queue, error) {
			return t.state.QueueView(), nil
		}, workflow.QueryHandlerOptions{Description: "the events that wait, in order"}),
		workflow.SetQueryHandlerWithOptions(ctx, signals.QueryApprovals, func() (signals.Approvals, error) {
			return signals.Approvals{Approvals: t.state.Approvals(), ClientCalls: t.state.ClientCalls()}, nil
		}, workflow.QueryHandlerOptions{Description: "the tool calls that wait for approval, or for a client"}),
		workflow.SetQueryHandlerWithOptions(ctx, signals.QueryTasks, func() (signals.Tasks, error) {
			return t.state.TasksView(), nil
		}, workflow.QueryHandlerOptions{Description: "the background tasks"}),

		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdatePost, inOrder(t, t.updatePost), workflow.UpdateHandlerOptions{
			Description: "post an event", Validator: validate(t.validatePost),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdatePostBatch, inOrder(t, t.updatePostBatch), workflow.UpdateHandlerOptions{
			Description: "post several events, in order", Validator: validate(t.validatePostBatch),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateTurn, inOrder(t, t.updateTurn), workflow.UpdateHandlerOptions{
			Description: "post an event and wait for the end of its turn", Validator: validate(t.validateTurn),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateDecide, inOrder(t, t.updateDecide), workflow.UpdateHandlerOptions{
			Description: "decide on a tool call", Validator: validate(signals.CheckDecide),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateRevoke, inOrder(t, t.updateRevoke), workflow.UpdateHandlerOptions{
			Description: "take an approval back", Validator: validate(signals.CheckRevoke),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateToolResult, inOrder(t, t.updateToolResult), workflow.UpdateHandlerOptions{
			Description: "answer a call that a connected client runs", Validator: validate(signals.CheckToolResult),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateSetStatus, inOrder(t, t.updateSetStatus), workflow.UpdateHandlerOptions{
			Description: "change the status of a queued event", Validator: validate(t.state.CheckSetStatus),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateThread, inOrder(t, t.updateThread), workflow.UpdateHandlerOptions{
			Description: "change the thread's title, agents or metadata", Validator: validate(t.state.CheckChange),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateCompleteTask, inOrder(t, t.updateCompleteTask), workflow.UpdateHandlerOptions{
			Description: "complete a background task", Validator: validate(signals.CheckCompleteTask),
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, signals.UpdateCancelTask, inOrder(t, t.updateCancelTask), workflow.UpdateHandlerOptions{
			Description: "cancel a background task", Validator: validate(signals.CheckCancelTask),
		}),
	)
	if err != nil {
		return err
	}
	workflow.GoNamed(ctx, "signals", func(ctx workflow.Context) {
		// Not a Selector: one that waits takes a signal out of its channel before this
		// coroutine runs, where drain does not find it, and continue-as-new would lose it.
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		inboxes := t.inboxes(ctx)
		arrived := func() bool {
			return slices.ContainsFunc(inboxes, func(in inbox) bool { return in.channel.Len() > 0 })
		}
		for workflow.Await(ctx, arrived) == nil {
			t.drain(ctx)
		}
	})
	return nil
}

// inbox is one signal: receive takes one of it from its channel, if one is there.
type inbox struct {
	channel workflow.ReceiveChannel
	receive func(workflow.Context, workflow.ReceiveChannel) bool
}

func (t *conversation) inboxes(ctx workflow.Context) []inbox {
	in := []inbox{
		{workflow.GetSignalChannel(ctx, signals.SignalPost), receive(t, signals.SignalPost, t.post)},
		{workflow.GetSignalChannel(ctx, signals.SignalDecide), receive(t, signals.SignalDecide, t.decide)},
		{workflow.GetSignalChannel(ctx, signals.SignalRevoke), receive(t, signals.SignalRevoke, t.revoke)},
		{workflow.GetSignalChannel(ctx, signals.SignalToolResult), receive(t, signals.SignalToolResult, t.toolResult)},
		{workflow.GetSignalChannel(ctx, signals.SignalControl), receive(t, signals.SignalControl, t.control)},
		{workflow.GetSignalChannel(ctx, signals.SignalHookDecided), receive(t, signals.SignalHookDecided, t.hookDecided)},
		{workflow.GetSignalChannel(ctx, signals.SignalCompleteTask), receive(t, signals.SignalCompleteTask, t.completeTask)},
		{workflow.GetSignalChannel(ctx, signals.SignalTaskReport), receive(t, signals.SignalTaskReport, t.taskReported)},
		{workflow.GetSignalChannel(ctx, signals.SignalSubEnded), receive(t, signals.SignalSubEnded, t.subEnded)},
		{workflow.GetSignalChannel(ctx, signals.SignalSubAsks), receive(t, signals.SignalSubAsks, t.subAsks)},
		{workflow.GetSignalChannel(ctx, signals.SignalSubDecided), receive(t, signals.SignalSubDecided, t.subDecided)},
	}
	if t.state.Parent != nil {
		in = append(in, inbox{workflow.GetSignalChannel(ctx, signals.SignalReport), t.called})
	}
	return in
}

// receive makes the receiver of a signal. What cannot be read leaves an audit
// record: a signal has nobody else to tell.
func receive[T any](t *conversation, name string, handle func(workflow.Context, string, T)) func(workflow.Context, workflow.ReceiveChannel) bool {
	return func(ctx workflow.Context, c workflow.ReceiveChannel) bool {
		var raw converter.RawValue
		if !c.ReceiveAsync(&raw) {
			return false
		}
		var in exact[T]
		if err := errors.Join(converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &in), in.problem); err != nil {
			t.state.Reject(workflow.Now(ctx), name, string(raw.Payload().GetData()), err)
			return true
		}
		handle(ctx, name, in.value)
		return true
	}
}

// drain takes in every signal that has arrived, also while it takes others in.
func (t *conversation) drain(ctx workflow.Context) {
	for again := true; again; {
		again = false
		for _, in := range t.inboxes(ctx) {
			for in.receive(ctx, in.channel) {
				again = true
			}
		}
	}
}

// inOrder makes the handler of an update take in first what was sent before it: the SDK
// runs the handlers of a workflow task's updates ahead of all else, and so a message of
// somebody who does not wait would come after one of theirs that does.
func inOrder[A, R any](t *conversation, handle func(workflow.Context, A) (R, error)) func(workflow.Context, exact[A]) (R, error) {
	return func(ctx workflow.Context, arg exact[A]) (R, error) {
		t.drain(ctx)
		return handle(ctx, arg.value)
	}
}

// validate makes the validator of an update.
func validate[A any](check func(A) error) func(workflow.Context, exact[A]) error {
	return func(_ workflow.Context, arg exact[A]) error {
		if arg.problem != nil {
			return refuse(arg.problem)
		}
		return refuse(check(arg.value))
	}
}

// tell waits until another workflow has taken what this one has to tell it: the thread
// does not move or end before. What it has not taken is lost.
func (t *conversation) tell(ctx workflow.Context, sent workflow.Future) error {
	t.telling++
	defer func() { t.telling-- }()
	return sent.Get(ctx, nil)
}

// told reports whether all is told, and no handler is at work.
func (t *conversation) told(ctx workflow.Context) bool {
	return t.telling == 0 && workflow.AllHandlersFinished(ctx)
}

func (t *conversation) post(ctx workflow.Context, name string, p signals.Post) {
	if d, ok := t.state.DecisionIn(p); ok {
		t.state.SawDecision(p)
		t.decide(ctx, name, d)
		return
	}
	posted, err := t.state.Post(workflow.Now(ctx), p)
	switch {
	case errors.Is(err, thread.ErrFull), errors.Is(err, thread.ErrClosed):
		// Nobody can be told to post again.
		t.state.PostFailed(workflow.Now(ctx), p, err)
		return
	case err != nil:
		t.state.Reject(workflow.Now(ctx), name, p, err)
		return
	}
	if posted.Interrupt {
		t.interruptTurn(ctx, signals.Control{Action: signals.ControlInterrupt, Reason: "interrupted by message " + posted.EventID})
	}
}

func (t *conversation) control(ctx workflow.Context, name string, c signals.Control) {
	err := signals.CheckControl(c)
	switch {
	case err != nil:
	case c.Action == signals.ControlInterrupt:
		err = t.interruptEvent(ctx, c)
	case c.Action == signals.ControlClose:
		if t.state.Closing == nil {
			c.EventID = ""
			t.state.Closing = &c
			t.interrupt(c)
		}
	case c.Action == signals.ControlRetry:
		err = t.state.Retry(workflow.Now(ctx), c)
	}
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, c, err)
	}
}

// interruptEvent ends the turn that is meant, or takes its event out of the queue.
func (t *conversation) interruptEvent(ctx workflow.Context, c signals.Control) error {
	switch {
	case c.EventID == "" || t.state.InTurn(c.EventID):
		t.interruptTurn(ctx, c)
	case !t.state.Cancel(workflow.Now(ctx), c):
		return &event.FieldError{Field: "eventId", Problem: fmt.Sprintf("event %q is neither processed nor queued", c.EventID)}
	}
	return nil
}

func (t *conversation) hookDecided(ctx workflow.Context, name string, d thread.HookDecided) {
	if err := t.state.HookDecided(d); err != nil {
		t.state.Reject(workflow.Now(ctx), name, d, err)
	}
}

func (t *conversation) updateSetStatus(ctx workflow.Context, c signals.SetStatus) (signals.SetStatusResult, error) {
	it, interrupt, err := t.state.SetStatus(workflow.Now(ctx), c)
	if err != nil {
		return signals.SetStatusResult{}, refuse(err)
	}
	if interrupt {
		t.interrupt(signals.Control{Action: signals.ControlInterrupt, By: c.By, Reason: c.Reason, EventID: c.EventID})
	}
	return signals.SetStatusResult{Item: it}, nil
}

// updateThread changes the thread itself.
func (t *conversation) updateThread(ctx workflow.Context, c signals.ThreadChange) (signals.State, error) {
	s := t.state
	// It may have been closed since it was checked.
	if err := s.CheckChange(c); err != nil {
		return signals.State{}, refuse(err)
	}
	changed := s.Change(workflow.Now(ctx), c)
	if err := t.describe(ctx, c); err != nil {
		return signals.State{}, err
	}
	t.lifecycle(ctx, event.TypeSessionUpdated, changed)
	return s.View(), nil
}

// describe makes a thread that was changed easy to find as what it is now.
func (t *conversation) describe(ctx workflow.Context, c signals.ThreadChange) error {
	memo := map[string]any{}
	if c.Title != "" {
		memo[signals.MemoTitle] = c.Title
	}
	if len(c.Agents)+len(c.AddAgents)+len(c.RemoveAgents) > 0 {
		memo[signals.MemoAgents] = t.state.Agents
		if err := workflow.UpsertTypedSearchAttributes(ctx, threadclient.AttributeUpdates(t.state.Namespace, t.state.Agents)...); err != nil {
			return err
		}
		// These say that it is open.
		t.state.Listed = false
	}
	if len(memo) == 0 {
		return nil
	}
	return workflow.UpsertMemo(ctx, memo)
}

// interruptTurn ends the turn in progress, if there is one, with all that was made of its
// event and waits.
func (t *conversation) interruptTurn(ctx workflow.Context, c signals.Control) {
	t.interrupt(c)
	t.state.CancelMade(workflow.Now(ctx), c)
}

// interrupt ends what is being processed, if anything is.
func (t *conversation) interrupt(c signals.Control) {
	if t.state.Interrupt(c) && t.stop != nil {
		t.stop()
	}
}

func (t *conversation) updatePost(ctx workflow.Context, p signals.Post) (signals.PostResult, error) {
	if d, ok := t.state.DecisionIn(p); ok {
		return t.postDecision(ctx, p, d)
	}
	posted, err := t.state.Post(workflow.Now(ctx), p)
	if err != nil {
		return signals.PostResult{}, refuse(err)
	}
	if posted.Interrupt {
		t.interruptTurn(ctx, signals.Control{Action: signals.ControlInterrupt, Reason: "interrupted by message " + posted.EventID})
	}
	if posted.Duplicate {
		return signals.PostResult{EventID: posted.EventID, Status: signals.PostDuplicate}, nil
	}
	return signals.PostResult{EventID: posted.EventID, Status: signals.PostQueued}, nil
}

// updatePostBatch takes the posts of a batch in order. Decisions among them are looked into
// beside the others.
func (t *conversation) updatePostBatch(ctx workflow.Context, b signals.PostBatch) (signals.PostBatchResult, error) {
	out := signals.PostBatchResult{Results: make([]signals.PostOutcome, len(b.Posts))}
	decisions := workflow.NewWaitGroup(ctx)
	for i, p := range b.Posts {
		if _, decides := t.state.DecisionIn(p); !decides {
			out.Results[i] = outcome(t.updatePost(ctx, p))
			continue
		}
		decisions.Add(1)
		workflow.GoNamed(ctx, "decision "+p.ID, func(ctx workflow.Context) {
			defer decisions.Done()
			out.Results[i] = outcome(t.updatePost(ctx, p))
		})
	}
	decisions.Wait(ctx)
	return out, nil
}

// outcome is the answer of update "post" as part of a batch.
func outcome(r signals.PostResult, err error) signals.PostOutcome {
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app):
		return signals.PostOutcome{Status: app.Type(), Error: app.Message()}
	case err != nil:
		return signals.PostOutcome{Status: signals.RefusedType, Error: err.Error()}
	}
	return signals.PostOutcome{EventID: r.EventID, Status: r.Status}
}

// validatePostBatch rejects a batch in which no post changes anything.
func (t *conversation) validatePostBatch(b signals.PostBatch) error {
	if err := signals.CheckBatch(b); err != nil {
		return refuse(err)
	}
	out := signals.PostBatchResult{Results: make([]signals.PostOutcome, len(b.Posts))}
	for i, p := range b.Posts {
		err := t.validatePost(p)
		if err == nil {
			return nil
		}
		if out.Results[i] = outcome(signals.PostResult{}, err); out.Results[i].Status == signals.DuplicateType {
			out.Results[i] = signals.PostOutcome{EventID: p.ID, Status: signals.PostDuplicate}
		}
	}
	return temporal.NewNonRetryableApplicationError("no post of the batch is accepted", signals.NothingPostedType, nil, out)
}

// updateTurn waits for the end of the turn of an event, which it posts unless the
// thread has it already. It sends the caller away only when the thread is about to
// move: a caller that asks again at once must not find it still there.
func (t *conversation) updateTurn(ctx workflow.Context, p signals.Post) (signals.TurnResult, error) {
	if _, err := t.updatePost(ctx, p); err != nil {
		return signals.TurnResult{}, err
	}
	var out signals.TurnResult
	err := workflow.Await(ctx, func() bool {
		var ended bool
		out, ended = t.state.Outcome(p.ID)
		return ended || t.moving || !t.state.Awaits(p.ID)
	})
	switch {
	case err != nil || out.Status != "":
		return out, err
	case !t.state.Awaits(p.ID):
		return out, refuse(signals.ErrProcessed)
	}
	return signals.TurnResult{EventID: p.ID, Status: signals.TurnContinues}, nil
}

func (t *conversation) validatePost(p signals.Post) error {
	if t.state.HasSeen(p.ID) {
		return temporal.NewNonRetryableApplicationError("event "+p.ID+" was posted before", signals.DuplicateType, nil)
	}
	return refuse(t.state.CheckPost(p))
}

func (t *conversation) validateTurn(p signals.Post) error {
	if p.ID == "" {
		return refuse(&event.FieldError{Field: "id", Problem: "is required to wait for a turn"})
	}
	if t.state.HasSeen(p.ID) {
		if _, known := t.state.Outcome(p.ID); !known && !t.state.Awaits(p.ID) {
			return refuse(signals.ErrProcessed)
		}
		return nil
	}
	return refuse(t.state.CheckPost(p))
}

// refuse turns a refusal into the error that an update's caller gets.
func refuse(err error) error {
	var known *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, thread.ErrClosed):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ClosedType, nil)
	case errors.Is(err, thread.ErrFull):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.FullType, nil)
	case errors.Is(err, signals.ErrProcessed):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ProcessedType, nil)
	case errors.Is(err, thread.ErrBusy):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.BusyType, nil)
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), signals.RefusedType, nil)
}
