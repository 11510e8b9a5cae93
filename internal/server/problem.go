package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// refuse returns the problem document of one field.
func refuse(status int, location, problem string) error {
	return huma.NewError(status, location+": "+problem, &huma.ErrorDetail{Location: location, Message: problem})
}

// refuseField is [refuse] for the error of validating one value.
func refuseField(location string, err error) error {
	if field, ok := errors.AsType[*event.FieldError](err); ok {
		return refuse(http.StatusUnprocessableEntity, location, field.Problem)
	}
	return err
}

// problem converts the error of an operation on a thread to a problem document.
func (c *core) problem(ctx context.Context, threadID string, err error) error {
	var field *event.FieldError
	var exhausted *serviceerror.ResourceExhausted
	var unknown *threadclient.UnknownEventError
	switch {
	case err == nil, is[huma.StatusError](err):
		return err
	case errors.As(err, &field) && field.Field == "threadId":
		return notFound(threadID)
	case errors.As(err, &field):
		return refuse(http.StatusUnprocessableEntity, "body."+field.Field, field.Problem)
	case errors.As(err, &unknown):
		return huma.Error404NotFound(unknown.Error())
	case errors.Is(err, signals.ErrThreadErased), errors.Is(err, store.ErrErased):
		return huma.Error410Gone(fmt.Sprintf("thread %.128q was erased", threadID))
	case errors.Is(err, signals.ErrThreadNotFound), errors.Is(err, store.ErrNotFound):
		return notFound(threadID)
	case errors.Is(err, signals.ErrThreadClosed):
		return huma.Error409Conflict(fmt.Sprintf("thread %q is closed", threadID))
	case errors.Is(err, signals.ErrThreadExists):
		return huma.Error409Conflict(fmt.Sprintf("thread %q already exists", threadID))
	case errors.Is(err, signals.ErrConflict):
		return huma.Error409Conflict(fmt.Sprintf("thread %q already has an event with this id and another content: an event cannot be changed by posting it again; give another message another id, or none", threadID))
	case errors.Is(err, signals.ErrBusy):
		return huma.Error409Conflict(fmt.Sprintf("thread %q is busy with a turn, and onBusy is reject", threadID))
	case errors.Is(err, signals.ErrFull):
		return later(http.StatusTooManyRequests, "1", fmt.Sprintf(
			"the queue of thread %q is full; retry when it has processed some events", threadID))
	case errors.Is(err, signals.ErrEarly):
		return later(http.StatusServiceUnavailable, "1", fmt.Sprintf(
			"thread %q does not know this tool call yet: it is at work, or catches up after a restart; retry. If this lasts, compare it with the store: starter repair %s", threadID, threadID))
	case errors.Is(err, signals.ErrOverloaded):
		return later(http.StatusTooManyRequests, "1", fmt.Sprintf(
			"too many posts wait for thread %q, or for Temporal; retry", threadID))
	case errors.Is(err, signals.ErrNotAllowed):
		return huma.Error403Forbidden("this person may not decide on the tool call or answer it")
	case errors.Is(err, signals.ErrRefused):
		return huma.Error422UnprocessableEntity(err.Error())
	case errors.Is(err, store.ErrUnavailable):
		return storeUnavailable(ctx)
	case errors.Is(err, stream.ErrClosed):
		return huma.Error503ServiceUnavailable("the server is shutting down")
	case errors.As(err, &exhausted):
		// Temporal limits the updates in progress of a workflow, and its own load.
		return later(http.StatusServiceUnavailable, "1", fmt.Sprintf(
			"thread %q has too many requests under way, or Temporal has: %s", threadID, exhausted.Message))
	case unanswered(err), ctx.Err() != nil:
		if ended, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
			return problemOf(ended)
		}
		if ctx.Err() != nil {
			return clientGone()
		}
		if threadID == "" {
			c.logger.Warn("Temporal did not answer", "error", err)
			return later(http.StatusServiceUnavailable, "5", fmt.Sprintf("Temporal did not answer within %v", c.answerWithin))
		}
		c.logger.Warn("no worker answered for a thread", "thread", threadID, "error", err)
		reason := "no worker is polling its task queue, or its workers are busy, or Temporal cannot be reached"
		if silent, ok := errors.AsType[*threadclient.UnansweredError](err); ok {
			reason = silent.Reason
		}
		return later(http.StatusServiceUnavailable, "5", fmt.Sprintf("thread %q did not answer within %v: %s", threadID, c.answerWithin, reason))
	}
	c.logger.Error("request failed", "thread", threadID, "request", requestID(ctx), "error", err)
	return huma.Error500InternalServerError("internal error; see the server log for request " + requestID(ctx))
}

// storeUnavailable is the problem of a request while the store is unavailable, which is logged
// elsewhere.
func storeUnavailable(ctx context.Context) error {
	if ctx.Err() != nil {
		return clientGone()
	}
	return later(http.StatusServiceUnavailable, "5", "the database cannot be reached, or does not answer in time")
}

// later returns the problem document of a request that may succeed later, with the delay in
// seconds.
func later(status int, seconds, detail string) error {
	return huma.ErrorWithHeaders(huma.NewError(status, detail), http.Header{"Retry-After": {seconds}})
}

// clientGone is the problem of a request whose client has disconnected; its status is for the log.
func clientGone() error { return huma.NewError(499, "the client has gone") }

func notFound(threadID string) error {
	return huma.Error404NotFound(fmt.Sprintf("there is no thread %.128q", threadID))
}

// unanswered reports whether err means that no worker answered for the thread in time.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		is[*serviceerror.DeadlineExceeded](err) || is[*serviceerror.Canceled](err) || is[*serviceerror.Unavailable](err) ||
		is[*serviceerror.FailedPrecondition](err) || is[*serviceerror.WorkflowNotReady](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// completeProblem completes the location of a missing field, and removes the client's values from the
// problem document, except for short ones.
func completeProblem(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	before, after, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	for _, e := range model.Errors {
		if field, ok := strings.CutPrefix(e.Message, before); ok {
			e.Location += "." + strings.TrimSuffix(field, after)
		}
		switch value := e.Value.(type) {
		case bool, int, int64, float64:
		case string:
			if len(value) > maxEchoed || e.Location == "body" {
				e.Value = nil
			}
		default:
			e.Value = nil
		}
	}
	return model, nil
}

const maxEchoed = 64

// badCursor is the problem of an invalid cursor.
const badCursor = "Invalid cursor; use the `next` value of a previous page"

// writeError writes a problem document, with its headers.
func writeError(w http.ResponseWriter, err error) {
	if with, ok := errors.AsType[huma.HeadersError](err); ok {
		maps.Copy(w.Header(), with.GetHeaders())
	}
	status := http.StatusInternalServerError
	if known, ok := errors.AsType[huma.StatusError](err); ok {
		status = known.GetStatus()
	}
	writeProblem(w, status, err.Error())
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}
