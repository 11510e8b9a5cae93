package queueowner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Serve runs the workers of this process while its configuration is the one that serves the queue, until ctx or run ends. A later
// configuration of the same program takes the queue over, and this one pauses: run is told to end, and starts again once the queue
// is this one's again, or nobody serves it any more.
func (k *Keeper) Serve(ctx context.Context, run func(ctx context.Context) error) error {
	for {
		if err := k.claim(ctx, k.Take); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if overtaken, err := k.runOnce(ctx, run); !overtaken || err != nil || ctx.Err() != nil {
			k.release(ctx)
			return err
		}
		k.await(ctx)
		if k.paused.Store(nil); ctx.Err() != nil {
			return nil
		}
		k.Logger.Info("the workers continue", "taskQueue", k.Queue)
	}
}

// Problem says what is wrong with the queue: another configuration serves it, or others poll it, too. Empty = nothing, as far as
// Temporal tells.
func (k *Keeper) Problem(ctx context.Context) string {
	if by := k.paused.Load(); by != nil {
		return fmt.Sprintf("the workers of this process pause, since task queue %q is served by %s with a later configuration", k.Queue, *by)
	}
	if _, strangers, err := k.Check(ctx); err == nil && len(strangers) > 0 {
		return fmt.Sprintf("task queue %q is also polled by %s: threads run there without the guards of this program, or fail", k.Queue, strings.Join(strangers, ", "))
	}
	return ""
}

// runOnce runs the workers until they end, or until another configuration serves the queue.
func (k *Keeper) runOnce(ctx context.Context, run func(ctx context.Context) error) (overtaken bool, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	tick := time.NewTicker(cmp.Or(k.Every, defaultEvery))
	defer tick.Stop()
	before, _ := k.Mine(ctx)
	for seen := 0; ; {
		select {
		case err := <-ended:
			return false, err
		case <-tick.C:
		}
		mine, err := k.Mine(ctx)
		if err != nil {
			continue
		}
		found, err := k.look(ctx)
		switch {
		case err != nil: // Temporal does not answer, and gives no work either
			err = nil
		case found == nil: // it was ended, by a person or for the next one, who comes at once
			err = k.start(ctx, mine)
		case found.is(mine) && (found.Guards[k.Build] == nil || !before.serves(mine, k.Build)): // this process is configured anew
			if err = k.claim(ctx, false); err == nil {
				before, seen = mine, 0
			}
		case found.serves(mine, k.Build):
			seen = 0
		default:
			if seen++; seen < looks {
				continue
			}
			k.paused.Store(&found.Owner)
			k.Logger.Error("another configuration serves the task queue: the workers of this process pause", "taskQueue", k.Queue,
				"by", found.String(), "differs in", cmp.Or(differ(found.Guards[k.Build], mine.Guards[k.Build]), "program or store"))
			stop()
			return true, <-ended
		}
		if err != nil && !errors.Is(err, errLost) && ctx.Err() == nil {
			k.Logger.Warn("the owner of the task queue cannot be told from others; it is tried again", "taskQueue", k.Queue, "error", err)
		}
	}
}

// await waits until the workers of this process may run again.
func (k *Keeper) await(ctx context.Context) {
	paused, _ := k.Mine(ctx)
	for ended := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cmp.Or(k.Every, defaultEvery)):
		}
		mine, err := k.Mine(ctx)
		if err != nil {
			continue
		}
		found, err := k.look(ctx)
		if found != nil {
			ended = 0
		}
		switch {
		case err != nil:
		case found == nil: // if nobody comes after it
			if ended++; ended == looks {
				return
			}
		case found.serves(mine, k.Build), found.is(mine) && !paused.serves(mine, k.Build):
			return
		case found.is(mine):
			if served, err := k.served(ctx, found.Owner); err == nil && !served {
				return
			}
		}
	}
}

// served reports whether a worker of the owner polls the queue. This process does not.
func (k *Keeper) served(ctx context.Context, o Owner) (bool, error) {
	polling, err := k.pollers(ctx)
	return slices.ContainsFunc(polling, func(identity string) bool { return keyOf(identity) == o.key(k.Build) }), err
}

// releaseWithin is how long the end of the workers may wait for Temporal.
const releaseWithin = 5 * time.Second

// release leaves the queue to whoever comes, if nothing is left there: no other worker, and no workflow.
func (k *Keeper) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	mine, err := k.Mine(ctx)
	if err != nil {
		return
	}
	polling, err := k.pollers(ctx)
	if err != nil || slices.ContainsFunc(polling, func(identity string) bool { return !strings.HasPrefix(identity, k.process()+"@") }) {
		return
	}
	if open, err := k.open(ctx); err != nil || open > 0 {
		return
	}
	if found, err := k.look(ctx); err == nil && found != nil && found.serves(mine, k.Build) {
		if err := k.end(ctx, *found); err != nil {
			k.Logger.Debug("the task queue is not released; another program that wants it is refused until nobody polls it", "taskQueue", k.Queue, "error", err)
		}
	}
}
