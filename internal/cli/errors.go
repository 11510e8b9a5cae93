package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// threadError is an error about a thread.
type threadError struct {
	thread string
	err    error
}

func (e *threadError) Error() string { return e.err.Error() }
func (e *threadError) Unwrap() error { return e.err }

func about(thread string, err error) error {
	if err == nil {
		return nil
	}
	return &threadError{thread, err}
}

const startServer = `start it with "go run ./devserver"`

// explain returns an error as a hint for people.
func (a *app) explain(err error) string {
	var dial *dialError
	var unavailable *serviceerror.Unavailable
	var namespace *serviceerror.NamespaceNotFound
	var unanswered *unansweredError
	var status *api.StatusError
	switch {
	case errors.As(err, &dial):
		return fmt.Sprintf("Temporal does not answer at %s: %s, or name another with --address or TEMPORAL_ADDRESS (%s)",
			dial.address, startServer, cause(dial.err))
	case errors.Is(err, api.ErrUnreachable):
		return fmt.Sprintf("the Threadmill API does not answer at %s: %s, or name another with --api or %s (%s)",
			a.flags.api, startServer, envAPI, cause(err))
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized:
		return fmt.Sprintf(`the API at %s wants an API key (%s): set %s, or name a file with --api-key-file; an administrator creates keys with "starter keys create", `+
			`or, with access to the database, by --database or --sqlite`, a.flags.api, status.Detail, envKey)
	case errors.As(err, &status) && status.Code == http.StatusForbidden && status.Result == "":
		return fmt.Sprintf(`the API at %s does not allow this: %s; an administrator creates keys with other roles with "starter keys create"`, a.flags.api, status.Detail)
	case errors.As(err, &namespace):
		return fmt.Sprintf("Temporal at %s has no namespace %q: name another with --temporal-namespace", *a.flags.dialled, namespace.Namespace)
	case errors.As(err, &unavailable):
		return fmt.Sprintf("Temporal at %s does not answer: %s (%s)", *a.flags.dialled, startServer, cause(err))
	case errors.As(err, &unanswered):
		return unanswered.explain(*a.flags.dialled)
	case noWorker(err):
		return fmt.Sprintf("Temporal at %s accepted the request, but no worker answered in time: try again, or wait longer with --timeout", *a.flags.dialled)
	case errors.Is(err, context.Canceled):
		return "stopped"
	}
	return a.explainThread(err)
}

// unansweredError means that no worker responded for a thread.
type unansweredError struct {
	workers threadclient.Workers
	err     error
}

func (e *unansweredError) Error() string { return e.err.Error() }
func (e *unansweredError) Unwrap() error { return e.err }

// explain names the command that starts a worker.
func (e *unansweredError) explain(address string) string {
	queue := e.workers.TaskQueue
	if e.workers.Steps {
		return fmt.Sprintf("Temporal at %s accepted the request, but a step of the thread waits for a worker on task queue %q: start one that serves it", address, queue)
	}
	if e.workers.Polled {
		return fmt.Sprintf("Temporal at %s accepted the request, but the worker on task queue %q did not answer in time: it is busy or has just stopped; try again, or wait longer with --timeout",
			address, queue)
	}
	return fmt.Sprintf("Temporal at %s accepted the request, but no worker runs on task queue %q: start one with %q", address, queue, startWorker(queue))
}

// workers reports on the workers of threads.
type workers interface {
	Workers(ctx context.Context, threadID string) (threadclient.Workers, error)
}

// diagnosed finds out why no worker responded, and which threads have names like one that does not
// exist, if that is the error.
func (a *app) diagnosed(ctx context.Context, t threads, err error) error {
	if err = nearThread(ctx, t, err); err == nil || refusal(err) || !noWorker(err) || ctx.Err() != nil {
		return err
	}
	id := ""
	if about, ok := errors.AsType[*threadError](err); ok {
		id = about.thread
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, problem := t.Workers(ctx, id)
	if problem != nil {
		return err
	}
	return &unansweredError{found, err}
}

// noWorker reports errors that mean that the task queue has no worker.
func noWorker(err error) bool {
	if precondition, ok := errors.AsType[*serviceerror.FailedPrecondition](err); ok {
		return strings.Contains(precondition.Message, "worker")
	}
	return errors.Is(err, context.DeadlineExceeded) || is[*serviceerror.DeadlineExceeded](err)
}

func (a *app) explainThread(err error) string {
	about, ok := errors.AsType[*threadError](err)
	if !ok {
		return err.Error()
	}
	id := about.thread
	var unknown *threadclient.UnknownEventError
	var task *threadclient.UnknownTaskError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf(`%v; "starter queue list --all %s" shows those that it knows`, unknown, id)
	case errors.As(err, &task):
		return fmt.Sprintf(`%v; "starter task list %s" shows those that it knows`, task, id)
	case errors.Is(err, signals.ErrThreadNotFound) || api.IsNotFound(err):
		return fmt.Sprintf(`there is no thread %q in namespace %q: "starter list" shows the threads, "starter open %s" makes it%s`, id, a.flags.namespace, id, didYouMean(nearNames(err)))
	case errors.Is(err, signals.ErrThreadClosed):
		return fmt.Sprintf(`thread %q is closed: "starter show %s" reads it, "starter open" makes a new one`, id, id)
	case errors.Is(err, signals.ErrThreadExists):
		return fmt.Sprintf(`thread %q already exists: "starter send %s …" or "starter chat %s" talks to it`, id, id, id)
	}
	return err.Error()
}

// transient reports errors after which the same request may succeed.
func transient(err error) bool {
	return is[*serviceerror.Unavailable](err) || is[*serviceerror.WorkflowNotReady](err) || is[*serviceerror.ResourceExhausted](err) ||
		is[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err) || noWorker(err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

const (
	minRetry = 200 * time.Millisecond
	maxRetry = 3 * time.Second
)

// persist repeats op, which must be idempotent, while Temporal does not respond. It calls lost with
// the first such error.
func persist(ctx context.Context, op func(context.Context) error, lost func(error)) error {
	for wait := minRetry; ; wait = min(wait*2, maxRetry) {
		err := op(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || refusal(err) || !transient(err):
			return err
		}
		if lost != nil {
			lost(err)
			lost = nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refusal reports errors that the thread itself returned.
func refusal(err error) bool {
	return slices.ContainsFunc([]error{
		signals.ErrThreadNotFound, signals.ErrThreadClosed, signals.ErrTaskNotFound, signals.ErrEventNotFound,
		signals.ErrScheduleNotFound, signals.ErrScheduleExists, signals.ErrRefused, event.ErrInvalid,
	}, func(answer error) bool { return errors.Is(err, answer) })
}

// cause returns the innermost error's text, on one line.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
				err = many.Unwrap()[len(many.Unwrap())-1]
				continue
			}
			return strings.Join(strings.Fields(err.Error()), " ")
		}
		err = inner
	}
}
