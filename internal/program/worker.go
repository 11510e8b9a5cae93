package program

import (
	"context"

	"github.com/threadmill/threadmill"
)

// Worker is the running worker of a runtime.
type Worker struct {
	cancel context.CancelFunc
	failed chan error
	done   chan struct{}
}

// StartWorker runs the worker of a runtime.
func StartWorker(r *threadmill.Runtime) *Worker {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Worker{cancel: cancel, failed: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if err := r.Run(ctx); err != nil {
			w.failed <- err
		}
	}()
	return w
}

// Failed receives an error if the worker ends by itself.
func (w *Worker) Failed() <-chan error { return w.failed }

// Stop accepts no more work, waits up to the runtime's StopTimeout for running steps, and returns
// when the worker has ended.
func (w *Worker) Stop() {
	w.cancel()
	<-w.done
}
