package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// handleEvent runs the function of a rule.
func (a *Activities) handleEvent(ctx context.Context, in step.Event) error {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return err
	}
	e, err := a.envEvent(ctx, in.Thread, in.EventID)
	if err != nil {
		return err
	}
	attempt := int(activity.GetInfo(ctx).Attempt)
	running := a.begin(ctx, in.Thread, in.TraceID, in.Timeout+2*a.grace)
	defer running.done()
	err = a.callRule(running.ctx, in, e, attempt)
	cause := context.Cause(running.ctx)
	switch {
	case err == nil && in.Ends != "":
		_, err = a.append(context.WithoutCancel(ctx), in.Thread, store.Batch{Records: []event.Record{
			ended(in.Ends, step.TurnEvent(in.Root, in.EventID), in.TraceID, nil, nil, in.Rule, time.Now()),
		}}, step.Flush{})
		return err
	case err == nil:
		return nil
	case cause != nil && !errors.Is(cause, errTimeout):
		return temporal.NewApplicationErrorWithCause("The rule was stopped before it had handled the event; it is retried.", step.ErrTypeRetry, cause)
	}
	a.log.WarnContext(ctx, "rule failed", "thread", in.Thread.ThreadID, "event", in.EventID, "traceId", in.TraceID,
		"rule", in.Rule, "attempt", attempt, "error", err)
	message := err.Error()
	if attempt >= in.MaxAttempts && attempt > 1 {
		message += fmt.Sprintf(" (gave up after %d attempts)", attempt)
	}
	return temporal.NewApplicationErrorWithOptions(message, step.ErrTypeRule,
		temporal.ApplicationErrorOptions{NonRetryable: attempt >= in.MaxAttempts, Cause: err})
}

// ended returns the record that announces the end of a completed turn, whose event a rule may have
// handled.
func ended(id, eventID, traceID string, joined, replies []string, byRule string, at time.Time) event.Record {
	return event.NewRecord(id, event.TypeTurnEnded, traceID, eventID, at, event.TurnEnded{
		EventID: eventID, Joined: joined, Status: string(signals.TurnCompleted), Replies: replies, Rule: byRule,
	}).In(eventID)
}

// endedBy returns the record of the end of a turn that a reply ends. An empty reply has no message.
func endedBy(in step.Model, final event.Final, at time.Time) event.Record {
	replies := in.Replies
	if len(replies) == 0 {
		replies = []string{in.MessageID}
	}
	if final.MessageID == "" {
		replies = slices.DeleteFunc(slices.Clone(replies), func(id string) bool { return id == in.MessageID })
	}
	return ended(in.Ends, step.TurnEvent(in.Root, in.EventID), in.TraceID, in.Joined, replies, in.HandledBy, at)
}

// callRule calls the function within its timeout. A function that ignores its context does not
// block the thread; a panic is a failure.
func (a *Activities) callRule(ctx context.Context, in step.Event, e event.EnvEvent, attempt int) error {
	r, ok := a.cfg.Rules.Rule(in.Rule)
	if !ok || r.Function == nil {
		return step.ErrUnregistered
	}
	limit := in.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	about := rule.Context{Rule: in.Rule, Namespace: in.Thread.Namespace, ThreadID: in.Thread.ThreadID, TraceID: in.TraceID, Attempt: attempt}
	_, err := runWithGrace(ctx, a.grace, func() (_ struct{}, err error) {
		defer func() {
			if p := recover(); p != nil {
				a.log.Error("rule panicked", "thread", in.Thread.ThreadID, "event", in.EventID, "rule", in.Rule, "stack", string(debug.Stack()))
				err = fmt.Errorf("it panicked: %v", p)
			}
		}()
		return struct{}{}, redaction.Text(a.cfg.Redact, r.Function(ctx, about, e))
	})
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("it took longer than its limit of %s", limit)
	}
	return err
}

// envEvent reads an environment event with the changes of hooks.
func (a *Activities) envEvent(ctx context.Context, ref step.Ref, eventID string) (event.EnvEvent, error) {
	records, err := a.cfg.Store.RecordsByID(ctx, ref, eventID, recordid.Interception(eventID), recordid.Withdrawal(eventID))
	if err != nil {
		return event.EnvEvent{}, readError(err)
	}
	e, ok := envEvents(records)[eventID]
	if !ok {
		return e, configError(fmt.Errorf("environment event %s is not in the store, or cannot be read", eventID))
	}
	return e, nil
}
