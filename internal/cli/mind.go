package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// mindEvery is the interval at which a command that waits looks for workers, or for a login.
const mindEvery = 3 * time.Second

// againText says that a worker runs again.
const againText = "a worker runs again"

// mind looks for workers while a command waits. It calls told with a problem when none polls, and with
// "" when one does again. Stop ends it.
func (a *app) mind(ctx context.Context, find func(context.Context) (threadclient.Workers, error), told func(problem string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		missing := false
		for {
			select {
			case <-time.After(cmp.Or(a.mindEvery, mindEvery)):
			case <-ctx.Done():
				return
			}
			found, err := find(ctx)
			if err != nil || found.Polled != missing {
				continue
			}
			if missing = !found.Polled; missing {
				told(workerless(found))
			} else {
				told("")
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// mindThread is [app.mind] for a thread, by Temporal.
func (a *app) mindThread(ctx context.Context, t workers, thread string, told func(problem string)) (stop func()) {
	return a.mind(ctx, func(ctx context.Context) (threadclient.Workers, error) { return t.Workers(ctx, thread) }, told)
}

// workerless says that no worker runs the threads, since when, and the way out.
func workerless(found threadclient.Workers) string {
	since := "polls it"
	if !found.LastPoll.IsZero() {
		since = "has polled it since " + found.LastPoll.Local().Format(time.TimeOnly)
	}
	if found.Steps {
		return fmt.Sprintf("task queue %q has no worker: none %s, and a step of the thread waits for one; start a worker that serves it (--tool-queues, or limits of a model)", found.TaskQueue, since)
	}
	return fmt.Sprintf("task queue %q has no worker: none %s, and messages wait for one; start one with %q", found.TaskQueue, since, startWorker(found.TaskQueue))
}

// startWorker is the command that starts a worker. A devserver has its own worker, so it is not the
// devserver.
func startWorker(queue string) string {
	command := "go run ./worker"
	if queue != signals.DefaultTaskQueue {
		command += " --task-queue " + shellWord(queue)
	}
	return command
}
