package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// posts handles posted events and changes of queued events.
type posts struct{ *conversation }

func (t posts) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalPost, t.post),
		onUpdate(t.conversation, signals.UpdatePost, "post an event", t.validatePost, t.updatePost),
		onUpdate(t.conversation, signals.UpdatePostBatch, "post several events, in order", t.validatePostBatch, t.updatePostBatch),
		onUpdate(t.conversation, signals.UpdateTurn, "post an event and wait for the end of its turn", t.validateTurn, t.updateTurn),
		onUpdate(t.conversation, signals.UpdateSetStatus, "change the status of a queued event", t.state.ValidateSetStatus, t.updateSetStatus),
		onQuery(signals.QueryQueue, "the events that wait, in order", func(workflow.Context) signals.Queue { return t.state.Queue() }),
	}
}

func (t posts) post(ctx workflow.Context, name string, p signals.Post) {
	read, err := t.state.ReadPost(p)
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, p, err)
		return
	}
	_, err = t.enqueue(ctx, read)
	switch {
	case errors.Is(err, thread.ErrFull), errors.Is(err, thread.ErrClosed):
		// The sender of a signal cannot be told to retry.
		t.state.PostFailed(workflow.Now(ctx), read, err)
	case err != nil:
		t.state.Reject(workflow.Now(ctx), name, p, err)
	}
}

// enqueue adds a post to the queue, and lets it interrupt the turns in progress if it requests that.
func (t posts) enqueue(ctx workflow.Context, p thread.Incoming) (thread.Posted, error) {
	posted, err := t.state.Post(workflow.Now(ctx), p)
	if posted.Interrupts != nil {
		t.affect(ctx, *posted.Interrupts)
	}
	return posted, err
}

func (t posts) updatePost(ctx workflow.Context, p signals.Post) (signals.PostResult, error) {
	return t.postedBy(ctx, p, 0)
}

// postedBy handles the n-th post of the current update.
func (t posts) postedBy(ctx workflow.Context, p signals.Post, n int) (signals.PostResult, error) {
	p = t.state.Named(p, workflow.GetCurrentUpdateInfo(ctx).ID, n)
	read, err := t.state.ReadPost(p)
	if err != nil {
		return signals.PostResult{}, refuse(err)
	}
	posted, err := t.enqueue(ctx, read)
	switch {
	case err != nil:
		return signals.PostResult{}, refuse(err)
	case posted.Duplicate:
		return signals.PostResult{EventID: posted.EventID, Status: signals.PostDuplicate}, nil
	}
	return signals.PostResult{EventID: posted.EventID, Status: signals.PostQueued, Room: t.state.Room()}, nil
}

// updatePostBatch handles the posts of a batch in order.
func (t posts) updatePostBatch(ctx workflow.Context, b signals.PostBatch) (signals.PostBatchResult, error) {
	out := signals.PostBatchResult{Results: make([]signals.PostOutcome, len(b.Posts))}
	for i, p := range b.Posts {
		out.Results[i] = outcome(t.postedBy(ctx, p, i))
	}
	out.Room = t.state.Room()
	return out, nil
}

// outcome converts the result of update "post" to a result of a batch.
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
func (t posts) validatePostBatch(b signals.PostBatch) error {
	if err := b.Validate(); err != nil {
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

// updateTurn waits for the end of an event's turn, and posts the event if the thread does not have
// it yet. It returns [signals.TurnContinues] only immediately before the thread continues as new,
// so that a caller that repeats the update reaches the next run.
func (t posts) updateTurn(ctx workflow.Context, p signals.Post) (signals.TurnResult, error) {
	if _, err := t.updatePost(ctx, p); err != nil {
		return signals.TurnResult{}, err
	}
	var out signals.TurnResult
	err := workflow.Await(ctx, func() bool {
		var ended bool
		out, ended = t.state.Turns.Outcome(p.ID)
		return ended || t.continuingAsNew || !t.state.Awaits(p.ID)
	})
	switch {
	case err != nil || out.Status != "":
		return out, err
	case !t.state.Awaits(p.ID):
		return out, refuse(signals.ErrProcessed)
	}
	return signals.TurnResult{EventID: p.ID, Status: signals.TurnContinues}, nil
}

func (t posts) validatePost(p signals.Post) error {
	switch again, err := t.state.Inbox.Has(p); {
	case err != nil:
		return refuse(err)
	case again:
		return temporal.NewNonRetryableApplicationError("event "+p.ID+" was posted before", signals.DuplicateType, nil)
	}
	return refuse(t.state.ValidatePost(p))
}

func (t posts) validateTurn(p signals.Post) error {
	if p.ID == "" {
		return refuse(event.FieldErrorf("id", "is required to wait for a turn"))
	}
	switch again, err := t.state.Inbox.Has(p); {
	case err != nil:
		return refuse(err)
	case again:
		if _, known := t.state.Turns.Outcome(p.ID); !known && !t.state.Awaits(p.ID) {
			return refuse(signals.ErrProcessed)
		}
		return nil
	}
	return refuse(t.state.ValidatePost(p))
}

func (t posts) updateSetStatus(ctx workflow.Context, c signals.SetStatus) (signals.SetStatusResult, error) {
	it, interrupt, err := t.state.SetStatus(workflow.Now(ctx), c)
	if err != nil {
		return signals.SetStatusResult{}, refuse(err)
	}
	if interrupt {
		t.interrupt(signals.Control{Action: signals.ControlInterrupt, By: c.By, Reason: c.Reason, EventID: c.EventID})
	}
	return signals.SetStatusResult{Item: it}, nil
}
