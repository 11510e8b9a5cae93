package activities

import (
	"context"
	"errors"
	"time"
)

// errIgnoredCancel is the error of a function that does not return after cancellation.
var errIgnoredCancel = errors.New("it does not stop")

// runWithGrace runs f until it returns, or until its context is done and it has not returned within
// the grace period, so that a function that ignores its context does not block the thread. The
// error then wraps errIgnoredCancel and the cause.
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

// ignoredCancelError has the message of the cause.
type ignoredCancelError struct{ cause error }

func (e *ignoredCancelError) Error() string   { return e.cause.Error() }
func (e *ignoredCancelError) Unwrap() []error { return []error{errIgnoredCancel, e.cause} }
