package activities

import (
	"context"
	"errors"
	"time"
)

// errIgnoredCancel is returned for what has been told to stop and does not.
var errIgnoredCancel = errors.New("it does not stop")

// runWithGrace runs f until it ends, or until its context has ended and it has not stopped
// within the grace: one that ignores its context must not hold up the thread. The error
// then wraps errDeaf and the cause of the context's end.
func runWithGrace[T any](ctx context.Context, grace time.Duration, f func() (T, error)) (T, error) {
	type end struct {
		out T
		err error
	}
	ended := make(chan end, 1)
	go func() {
		out, err := f()
		ended <- end{out, err}
	}()
	select {
	case e := <-ended:
		return e.out, e.err
	case <-ctx.Done():
	}
	left := time.NewTimer(grace)
	defer left.Stop()
	select {
	case e := <-ended:
		return e.out, e.err
	case <-left.C:
		var none T
		return none, &ignoredCancelError{context.Cause(ctx)}
	}
}

// ignoredCancelError reads like the cause.
type ignoredCancelError struct{ cause error }

func (e *ignoredCancelError) Error() string   { return e.cause.Error() }
func (e *ignoredCancelError) Unwrap() []error { return []error{errIgnoredCancel, e.cause} }
