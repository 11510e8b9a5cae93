package activities

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// callEvery is how long after a model call was sent its place is free for the next one. A turn takes about as long of a processor.
	callEvery = 10 * time.Millisecond

	// forgetsHalf is how long it takes until half of what a namespace has had counts no longer.
	forgetsHalf = time.Second

	// forgotten is what counts for nothing.
	forgotten = 0.01
)

// turns lets the model calls of a worker begin in the turns of their namespaces. No more begin at once than the processors can take:
// all the threads of a namespace that is flooded would otherwise be in progress, and the others would wait for each of them, at the
// processors, the store and Temporal. What waits for a provider takes no place.
//
// The next turn is that of the namespace which has had the fewest of late, so that chats of a namespace that begin together do not wait
// for one of a flooded one each.
type turns struct {
	mu   sync.Mutex
	free int

	// waiting are the calls that wait, by namespace.
	waiting map[string][]chan struct{}

	// had are the places that namespaces have had of late.
	had map[string]had
}

// had is a number of places that was true at a time, and half as large each forgetsHalf later.
type had struct {
	places float64
	at     time.Time
}

func (h had) now() float64 {
	return h.places * math.Exp2(-float64(time.Since(h.at))/float64(forgetsHalf))
}

func newTurns() *turns {
	return &turns{free: 2 * runtime.GOMAXPROCS(0), waiting: map[string][]chan struct{}{}, had: map[string]had{}}
}

// awaitTurn waits for the turn of the call. The caller must call sent when the call was sent, or has ended without that, also after an
// error; a second time does nothing. The error is that of await.
func (c *modelCall) awaitTurn(ctx context.Context) (sent func(), err error) {
	t, namespace := c.a.turns, c.in.Thread.Namespace
	if turn := t.ask(namespace); turn != nil {
		if err := c.await(ctx, "the turns of other model calls", func(ctx context.Context) error { return t.wait(ctx, namespace, turn) }); err != nil {
			return func() {}, err
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
		t.count(namespace)
		return nil
	}
	turn := make(chan struct{})
	t.waiting[namespace] = append(t.waiting[namespace], turn)
	return turn
}

// count counts a place that a namespace has.
func (t *turns) count(namespace string) {
	mine, known := t.had[namespace]
	if !known {
		maps.DeleteFunc(t.had, func(_ string, h had) bool { return h.now() < forgotten })
	}
	t.had[namespace] = had{mine.now() + 1, time.Now()}
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
	}
}

// leave gives a place to the namespace whose turn it is.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, fewest := "", math.Inf(1)
	for namespace := range t.waiting {
		if n := t.had[namespace].now(); n < fewest {
			next, fewest = namespace, n
		}
	}
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	t.count(next)
	first := t.waiting[next][0]
	t.keep(next, t.waiting[next][1:])
	close(first)
}
