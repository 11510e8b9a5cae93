package server

import (
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/signals/threadclient"
)

// Workers is the part of the thread client that looks for workers.
type Workers interface {
	Workers(ctx context.Context, threadID string) (threadclient.Workers, error)
}

// WorkerStatus tells whether the threads of the server can go on.
type WorkerStatus struct {
	TaskQueue string    `json:"taskQueue" doc:"The task queue of the threads or, with steps, of some of their steps"`
	Steps     bool      `json:"steps,omitempty" doc:"Threads run, but some of their steps wait for a worker on this task queue"`
	Polled    bool      `json:"polled" doc:"Whether a worker polls it. A worker that stops without notice counts for another 90 seconds"`
	Since     time.Time `json:"since,omitzero" doc:"Without a worker: since when, as far as the server knows"`
	Problem   string    `json:"problem,omitempty" doc:"Workers of another program or configuration poll the task queue of the threads"`
}

func (s WorkerStatus) String() string {
	if s.Polled {
		return up
	}
	waiting := "posts wait"
	if s.Steps {
		waiting = "the steps of threads that need it wait"
	}
	return fmt.Sprintf("no worker has polled task queue %q since %s: %s for one", s.TaskQueue, s.Since.UTC().Format(time.RFC3339), waiting)
}

// workersFor is the time for which the answer of Temporal is valid.
const workersFor = 2 * time.Second

// workerWatch knows whether a worker polls. All requests share one answer of Temporal.
type workerWatch struct {
	client Workers
	queue  func(context.Context) string // nil = nobody knows
	turn   chan struct{}                // the right to ask; it guards the fields below
	asked  time.Time
	last   *WorkerStatus // nil if Temporal did not answer
	since  time.Time     // when there was no worker for the first time, as far as Temporal does not know
}

func newWorkerWatch(client Workers, queue func(context.Context) string) *workerWatch {
	return &workerWatch{client: client, queue: queue, turn: make(chan struct{}, 1)}
}

// find returns nil if Temporal does not answer.
func (w *workerWatch) find(ctx context.Context) *WorkerStatus {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil
	}
	if time.Since(w.asked) < workersFor {
		return w.last
	}
	found, err := w.client.Workers(ctx, "")
	w.asked, w.last = time.Now(), nil
	if err != nil {
		return nil
	}
	switch {
	case found.Polled:
		w.since = time.Time{}
	case !found.LastPoll.IsZero():
		w.since = found.LastPoll
	case w.since.IsZero():
		w.since = w.asked
	}
	w.last = &WorkerStatus{TaskQueue: found.TaskQueue, Steps: found.Steps, Polled: found.Polled, Since: w.since}
	if w.queue != nil {
		w.last.Problem = w.queue(ctx)
	}
	return w.last
}
