// Package presence knows who looks at a thread now, in all processes of a namespace. It tells notices of the live stream: nothing of it is stored.
package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill/stream"
)

const (
	// TTL is how long a viewer counts as present after it was seen.
	TTL = 30 * time.Second

	// maxThreads and maxViewers bound what a process remembers: threads that are looked at, and viewers of one.
	maxThreads = 10_000
	maxViewers = 100

	// maxOfOne and maxInThread bound the viewers of one principal: in this process, and of one thread.
	maxOfOne    = maxThreads / 10
	maxInThread = maxViewers / 10

	// sweepEvery is how often what is over is forgotten, at most.
	sweepEvery = time.Second

	// tellWithin bounds the time for a notice.
	tellWithin = 5 * time.Second
)

// ErrFull means that the process cannot remember more threads or viewers, and ErrShare that it would remember too many of one
// principal.
var (
	ErrFull  = errors.New("too many viewers")
	ErrShare = errors.New("too many viewers of one principal")
)

// Viewer is somebody who looks at a thread.
type Viewer = stream.Viewer

// Room knows who looks at which thread.
type Room struct {
	stream stream.Stream
	now    func() time.Time
	logger *slog.Logger

	mu      sync.Mutex
	threads map[stream.Key]*thread
	swept   time.Time

	// held counts the viewers of each principal.
	held map[string]int
}

// thread is what a process knows of a thread at which one of its clients looks.
type thread struct {
	// ready is closed once the process listens, or has failed to.
	ready chan struct{}
	err   error
	stop  func()

	viewers map[string]seen

	// telling orders what this process tells of its viewers: nobody is told to be here after they were told to have left.
	// Whoever holds it tells within a deadline, so nobody waits for it much beyond their own.
	telling sync.Mutex
}

type seen struct {
	Viewer
	at time.Time

	// here means that a client of this process is the viewer, and of is its principal.
	here bool
	of   string
}

// New returns a room without viewers. now is the clock.
func New(s stream.Stream, now func() time.Time, logger *slog.Logger) *Room {
	return &Room{stream: s, now: now, logger: logger, threads: map[stream.Key]*thread{}, held: map[string]int{}}
}

// See notes that a viewer looks at a thread, tells all processes, and returns the others who do, the first to come first.
// Those of other processes may be missing in the first response. of is the principal of the viewer, who leaves room for those of
// others; "" = it need not.
func (r *Room) See(ctx context.Context, key stream.Key, v Viewer, of string) ([]Viewer, error) {
	t, err := r.enter(ctx, key, v, of)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	others := t.others(v.ID, r.now())
	r.mu.Unlock()
	return others, r.tellHere(ctx, key, t, v.ID)
}

// tellHere tells that a viewer of this process is here, unless it has left.
func (r *Room) tellHere(ctx context.Context, key stream.Key, t *thread, id string) error {
	t.telling.Lock()
	defer t.telling.Unlock()
	r.mu.Lock()
	s, ok := t.viewers[id]
	s.Ago = r.now().Sub(s.at)
	r.mu.Unlock()
	if !ok || !s.here {
		return nil
	}
	return r.tell(ctx, key, s.Viewer)
}

// Leave notes that a viewer has left a thread, and tells all processes.
func (r *Room) Leave(ctx context.Context, key stream.Key, id string) error {
	r.mu.Lock()
	t := r.threads[key]
	r.mu.Unlock()
	r.hear(key, Viewer{ID: id, Left: true})
	r.sweep()
	if t != nil {
		t.telling.Lock()
		defer t.telling.Unlock()
	}
	return r.tell(ctx, key, Viewer{ID: id, Left: true})
}

// enter adds a viewer of this process to a thread, to which the process then listens.
func (r *Room) enter(ctx context.Context, key stream.Key, v Viewer, of string) (*thread, error) {
	r.sweep()
	t, listens, err := r.admit(key, v, of)
	if err != nil {
		return nil, err
	}
	if !listens {
		stop, err := r.stream.Listen(ctx, notices(key), func(n stream.Notice) {
			if n.Viewer != nil {
				r.hear(key, *n.Viewer)
			}
		})
		r.mu.Lock()
		t.stop, t.err = stop, err
		if err != nil {
			for id := range t.viewers {
				r.remove(t, id)
			}
			delete(r.threads, key)
		}
		r.mu.Unlock()
		close(t.ready)
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.err != nil {
		return nil, fmt.Errorf("listen to the viewers of %s: %w", key, t.err)
	}
	return t, nil
}

// admit adds a viewer to a thread if there is room. listens reports whether the process listens to the thread, or is about to.
func (r *Room) admit(key stream.Key, v Viewer, of string) (t *thread, listens bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, listens = r.threads[key]; !listens {
		t = &thread{ready: make(chan struct{}), viewers: map[string]seen{}}
	}
	before, known := t.viewers[v.ID]
	switch {
	case known && before.here:
	case of != "" && (r.held[of] >= maxOfOne || t.viewersOf(of) >= maxInThread):
		return nil, false, ErrShare
	case !listens && len(r.threads) >= maxThreads, !known && len(t.viewers) >= maxViewers:
		return nil, false, ErrFull
	}
	v.Since = r.now()
	if known {
		v.Since = before.Since
	}
	r.remove(t, v.ID)
	r.held[of]++
	t.viewers[v.ID] = seen{v, r.now(), true, of}
	r.threads[key] = t
	return t, listens, nil
}

// viewersOf counts the viewers of a principal.
func (t *thread) viewersOf(of string) (n int) {
	for _, s := range t.viewers {
		if s.here && s.of == of {
			n++
		}
	}
	return n
}

// remove removes a viewer from a thread. The lock is held.
func (r *Room) remove(t *thread, id string) {
	s := t.viewers[id]
	delete(t.viewers, id)
	if s.here {
		if r.held[s.of]--; r.held[s.of] == 0 {
			delete(r.held, s.of)
		}
	}
}

// hear notes what a process has told. Its viewer, if new, is told who is here.
func (r *Room) hear(key stream.Key, v Viewer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.threads[key]
	if t == nil {
		return
	}
	if v.Left {
		r.remove(t, v.ID)
		return
	}
	at := r.now().Add(-v.Ago)
	before, known := t.viewers[v.ID]
	if !known && len(t.viewers) >= maxViewers || at.Before(before.at) {
		return
	}
	t.viewers[v.ID] = seen{v, at, before.here, before.of}
	if known {
		return
	}
	for id, s := range t.viewers {
		if s.here {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), tellWithin)
				defer cancel()
				if err := r.tellHere(ctx, key, t, id); err != nil {
					r.logger.Debug("telling who looks at a thread failed; it is told again soon", "thread", key.ThreadID, "error", err)
				}
			}()
		}
	}
}

// sweep forgets viewers who were not seen for long, and threads that nobody looks at in this process.
func (r *Room) sweep() {
	r.mu.Lock()
	now, over := r.now(), []func(){}
	if now.Sub(r.swept) < sweepEvery {
		r.mu.Unlock()
		return
	}
	r.swept = now
	for key, t := range r.threads {
		here := false
		for id, s := range t.viewers {
			if now.Sub(s.at) > TTL {
				r.remove(t, id)
			} else {
				here = here || s.here
			}
		}
		if !here && t.stop != nil {
			over = append(over, t.stop)
			delete(r.threads, key)
		}
	}
	r.mu.Unlock()
	for _, stop := range over {
		stop()
	}
}

// others returns who looks at the thread besides one viewer.
func (t *thread) others(id string, now time.Time) []Viewer {
	others := []Viewer{}
	for _, s := range t.viewers {
		if s.ID != id && now.Sub(s.at) <= TTL {
			others = append(others, s.Viewer)
		}
	}
	slices.SortFunc(others, func(a, b Viewer) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return others
}

func (r *Room) tell(ctx context.Context, key stream.Key, v Viewer) error {
	if err := r.stream.Notify(ctx, notices(key), stream.Notice{Viewer: &v}); err != nil {
		return fmt.Errorf("tell who looks at %s: %w", key, err)
	}
	return nil
}

// notices is the key of the notices on the viewers of a thread. No thread has such an id, and steps do not hear them.
func notices(key stream.Key) stream.Key {
	return stream.Key{Namespace: key.Namespace, ThreadID: key.ThreadID + "/viewers"}
}
