package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/stream"
)

const (
	// soon is the maximum delay for which Temporal itself retries a model call. For a longer delay
	// the thread waits, so history shows it and the thread handles other events meanwhile.
	soon = 5 * time.Second

	// maxUnclassified is the maximum number of attempts at a call whose failure the driver does not
	// classify: it may be a bug in the driver.
	maxUnclassified = 6
)

func attemptsBefore(in step.Model) int {
	if in.Outage == nil {
		return 0
	}
	return in.Outage.Attempts
}

// retryPolicy returns the retry policy of the agent's provider.
func (c *modelCall) retryPolicy(classified bool) llm.Retry {
	provider, _, _ := strings.Cut(c.agent.Model, "/")
	r := c.a.cfg.ModelRetries[provider].WithDefaults()
	if !classified && (r.MaxAttempts == 0 || r.MaxAttempts > maxUnclassified) {
		r.MaxAttempts = maxUnclassified
	}
	return r
}

// fail decides how to continue after a failed call: with the next model of the chain, soon by
// Temporal, later by the thread, or not at all. Viewers are notified.
func (c *modelCall) fail(ctx context.Context, err error) (step.ModelReply, error) {
	e := asError(err)
	policy := c.retryPolicy(e != nil)
	now, since, delay := c.threadTime(ctx), time.Time{}, policy.Delay(c.attempt)
	message, cause := step.Why(err.Error()), err
	if message != err.Error() {
		cause = nil // history would contain all of it
	}
	outage := event.Retry{Attempts: c.attempt, Error: message}
	if e != nil {
		outage.Class, delay = e.Class(), max(delay, e.RetryAfter)
	}
	if c.in.Outage != nil {
		since = c.in.Outage.Since
	} else {
		since = now
		for n := 1; n < c.attempt; n++ {
			since = since.Add(-policy.Delay(n))
		}
	}
	chained, attempts := false, c.attempt
	if len(c.choices.models) > 1 {
		here := int(activity.GetInfo(ctx).Attempt)
		outage.Failed = failures(c.failed, event.FailedModel{Model: c.agent.Model, Attempts: here, Class: outage.Class, Error: message})
		attempts = outage.Failed[slices.IndexFunc(outage.Failed, func(f event.FailedModel) bool { return f.Model == c.agent.Model })].Attempts
		if e != nil {
			chained = c.choices.triggers(e, max(policy.Delay(here), e.RetryAfter))
		}
	}
	if chained {
		c.a.fell(c.choices, e, message)
		if outage.Next = c.choices.next(); outage.Next != "" {
			delay = 0
		}
	}
	outage.Since, outage.NextAttemptAt = since.UTC(), now.Add(delay).UTC()
	retry := outage.Next != "" || (e == nil || e.Retryable) && (policy.MaxAttempts == 0 || attempts < policy.MaxAttempts) &&
		outage.NextAttemptAt.Sub(since) <= policy.For
	c.a.log.Warn("model call failed", "thread", c.in.Thread.ThreadID, "agent", c.agent.Name, "event", c.in.EventID,
		"traceId", c.in.TraceID, "model", c.agent.Model, "attempt", c.attempt, "retryable", retry, "next", outage.Next, "error", message)
	if !retry {
		if c.attempt > 1 {
			message = fmt.Sprintf("%s (gave up after %d attempts)", message, c.attempt)
		}
		return step.ModelReply{}, temporal.NewApplicationErrorWithOptions(message, step.ModelErrorType(outage.Class),
			temporal.ApplicationErrorOptions{Cause: cause, NonRetryable: true})
	}
	c.showRetry(ctx, outage)
	if outage.Next != "" && c.thought.Len()+c.text.Len() > 0 {
		// The next model may have to wait for its turn.
		c.reset(ctx)
	}
	if chained || delay > soon || activity.GetInfo(ctx).IsLocalActivity {
		return step.ModelReply{Outage: &outage}, nil
	}
	return step.ModelReply{}, temporal.NewApplicationErrorWithOptions(message, step.ModelErrorType(outage.Class),
		temporal.ApplicationErrorOptions{Cause: cause, NextRetryDelay: delay})
}

// threadTime returns the time on the clock of Temporal's server, by which the thread decides when a retry
// is due. This worker's clock may differ, and in a test the thread's may be days ahead.
func (c *modelCall) threadTime(ctx context.Context) time.Time {
	if !c.in.Now.IsZero() {
		return c.in.Now.Add(time.Since(c.arrived))
	}
	return activity.GetInfo(ctx).StartedTime.Add(time.Since(c.arrived))
}

func (c *modelCall) showRetry(ctx context.Context, o event.Retry) {
	detail := fmt.Sprintf("%s (attempt %d, the next at %s)", o.Error, o.Attempts, o.NextAttemptAt.Format("15:04:05Z"))
	if o.Next != "" {
		detail = fmt.Sprintf("%s failed (%s); %s is called instead", c.agent.Model, o.Error, o.Next)
	}
	c.a.publish(ctx, c.in.Thread, stream.Entry{After: c.head, TraceID: c.in.TraceID, Event: &event.AgentEvent{
		Type: event.EventStatus, EventID: c.eventID(), Agent: c.agent.Name,
		Status: &event.StatusChange{Status: event.StatusRetrying, Detail: detail, Retry: &o},
	}})
}
