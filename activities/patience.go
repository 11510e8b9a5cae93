package activities

import (
	"context"
	"errors"
	"time"
)

// errDeaf is returned for what has been told to stop and does not.
var errDeaf = errors.New("it does not stop")

// untilDeaf runs f until it ends, or until its context has ended and it has not stopped
// within the grace: one that ignores its context must not hold up the thread. The error
// then wraps errDeaf and the cause of the context's end.
func untilDeaf[T any](ctx context.Context, grace time.Duration, f func() (T, error)) (T, error) {
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
		return none, &deafError{context.Cause(ctx)}
	}
}

// deafError reads like the cause.
type deafError struct{ cause error }

func (e *deafError) Error() string   { return e.cause.Error() }
func (e *deafError) Unwrap() []error { return []error{errDeaf, e.cause} }
