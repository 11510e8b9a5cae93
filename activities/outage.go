package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
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

func attemptsBefore(in thread.ModelStep) int {
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

// failed decides how to retry a failed call: soon by Temporal, later by the thread, or not at all.
// Viewers are notified.
func (c *modelCall) failed(ctx context.Context, err error) (thread.ModelReply, error) {
	var e *llm.Error
	classified := errors.As(err, &e)
	policy := c.retryPolicy(classified)
	now, since, delay := time.Now(), time.Time{}, policy.Delay(c.attempt)
	message, cause := thread.Why(err.Error()), err
	if message != err.Error() {
		cause = nil // history would contain all of it
	}
	outage := event.Retry{Attempts: c.attempt, Error: message}
	if classified {
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
	outage.Since, outage.NextAttemptAt = since.UTC(), now.Add(delay).UTC()
	retry := (!classified || e.Retryable) && (policy.MaxAttempts == 0 || c.attempt < policy.MaxAttempts) &&
		outage.NextAttemptAt.Sub(since) <= policy.For
	c.a.log.Warn("model call failed", "thread", c.in.Thread.ThreadID, "agent", c.agent.Name, "event", c.in.EventID,
		"traceId", c.in.TraceID, "attempt", c.attempt, "retryable", retry, "error", message)
	if !retry {
		if c.attempt > 1 {
			message = fmt.Sprintf("%s (gave up after %d attempts)", message, c.attempt)
		}
		return thread.ModelReply{}, temporal.NewApplicationErrorWithOptions(message, thread.ModelErrorType(outage.Class),
			temporal.ApplicationErrorOptions{Cause: cause, NonRetryable: true})
	}
	c.showRetry(ctx, outage)
	if delay > soon {
		return thread.ModelReply{Outage: &outage}, nil
	}
	return thread.ModelReply{}, temporal.NewApplicationErrorWithOptions(message, thread.ModelErrorType(outage.Class),
		temporal.ApplicationErrorOptions{Cause: cause, NextRetryDelay: delay})
}

func (c *modelCall) showRetry(ctx context.Context, o event.Retry) {
	c.a.publish(ctx, c.in.Thread, stream.Entry{After: c.head, TraceID: c.in.TraceID, Event: &event.AgentEvent{
		Type: event.EventStatus, EventID: c.eventID(), Agent: c.agent.Name,
		Status: &event.StatusChange{
			Status: event.StatusRetrying, Detail: fmt.Sprintf("%s (attempt %d, the next at %s)", o.Error, o.Attempts, o.NextAttemptAt.Format("15:04:05Z")),
			Retry: &o,
		},
	}})
}
