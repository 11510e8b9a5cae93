package activities

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// callEvery is how long after a model call was sent its place is free for the next one. A turn takes about as long of a processor.
const callEvery = 10 * time.Millisecond

// turns lets the model calls of a worker begin in the turns of their namespaces. No more begin at once than the processors can take:
// all the threads of a namespace that is flooded would otherwise be in progress, and the others would wait for each of them, at the
// processors and at Temporal. What waits for a provider takes no place.
type turns struct {
	mu   sync.Mutex
	free int

	// waiting are the calls that wait, by namespace, and order the namespaces that have some, that whose turn is next first.
	waiting map[string][]chan struct{}
	order   []string
}

func newTurns() *turns {
	return &turns{free: 2 * runtime.GOMAXPROCS(0), waiting: map[string][]chan struct{}{}}
}

// awaitTurn waits for the turn of the call. The caller must call sent when the call was sent, or has ended without that; a second time
// does nothing. The error is that of await.
func (c *modelCall) awaitTurn(ctx context.Context) (sent func(), err error) {
	t, namespace := c.a.turns, c.in.Thread.Namespace
	if turn := t.ask(namespace); turn != nil {
		if err := c.await(ctx, "the turns of other model calls", func(ctx context.Context) error { return t.wait(ctx, namespace, turn) }); err != nil {
			return nil, err
		}
	}
	return t.sent(), nil
}

// sent returns what gives a place back when its call was sent.
func (t *turns) sent() func() { return sync.OnceFunc(func() { time.AfterFunc(callEvery, t.leave) }) }

// ask takes a free place, or returns a channel that is closed when the call has one.
func (t *turns) ask(namespace string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		return nil
	}
	turn := make(chan struct{})
	if len(t.waiting[namespace]) == 0 {
		t.order = append(t.order, namespace)
	}
	t.waiting[namespace] = append(t.waiting[namespace], turn)
	return turn
}

// wait waits for a place.
func (t *turns) wait(ctx context.Context, namespace string, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		if !t.withdraw(namespace, turn) {
			t.leave()
		}
		return ctx.Err()
	}
}

// withdraw removes a call that waits. It reports false if the call has a place.
func (t *turns) withdraw(namespace string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[namespace], turn)
	if i < 0 {
		return false
	}
	t.keep(namespace, slices.Delete(t.waiting[namespace], i, i+1))
	return true
}

// keep notes which calls of a namespace wait.
func (t *turns) keep(namespace string, waiting []chan struct{}) {
	t.waiting[namespace] = waiting
	if len(waiting) == 0 {
		delete(t.waiting, namespace)
		t.order = slices.DeleteFunc(t.order, func(n string) bool { return n == namespace })
	}
}

// leave gives a place to the namespace whose turn it is. Its next turn comes after those of the others.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	namespace := t.order[0]
	t.order = append(t.order[1:], namespace)
	first := t.waiting[namespace][0]
	t.keep(namespace, t.waiting[namespace][1:])
	close(first)
}
