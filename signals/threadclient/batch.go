package threadclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/semaphore"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/observe/tracing"
	"github.com/threadmill/threadmill/signals"
)

// Limits of the posts of one process that wait to be sent. Beyond them, the error wraps
// [signals.ErrOverloaded].
const (
	maxLanePosts = 1024
	maxLaneBytes = 4 << 20
	maxSentBytes = 64 << 20 // of all threads together
)

// Limits of the signals with posts of one process that Temporal has not confirmed, and how long a post waits to be one of them: what
// Temporal confirms in milliseconds is not limited, and what it confirms late is refused before it is saturated. The error wraps
// [signals.ErrOverloaded].
const (
	maxSignals     = 64
	signalPatience = 2 * time.Second
)

const (
	// answerWithin is the default of [Config].AnswerWithin. A thread with a worker answers in milliseconds.
	answerWithin = 10 * time.Second

	// answerPatience is the time after which a post that its thread has not answered is sent as a
	// signal.
	answerPatience = 3 * time.Second

	// turnsInFlight is the maximum number of updates "turn" of this process in one thread. Temporal
	// accepts 10 updates at the same time, of all processes together.
	turnsInFlight = 4

	// turnPatience is the time that a caller waits for a free update before it waits without one.
	turnPatience = 30 * time.Second
)

// lanes contains the lanes of a process, by workflow id.
type lanes struct {
	mu    sync.Mutex
	of    map[string]*lane
	bytes int

	// signals are those that Temporal has not confirmed.
	signals *semaphore.Weighted

	// rooms is what each thread may still be sent by signal, in bytes, and recent are the last posts that were.
	rooms  *simplelru.LRU[string, int]
	recent *simplelru.LRU[recentPost, struct{}]
}

func newLanes() *lanes {
	rooms, _ := simplelru.NewLRU[string, int](keptRooms, nil) // it fails without a size only
	recent, _ := simplelru.NewLRU[recentPost, struct{}](keptPosts, nil)
	return &lanes{of: map[string]*lane{}, signals: semaphore.NewWeighted(maxSignals), rooms: rooms, recent: recent}
}

// recentPost is a post that was sent by signal, of which the store may not know yet.
type recentPost struct{ workflowID, eventID string }

// Limits of what a thread is sent by signal before it is asked. Signals are not answered, so a sender would not learn that the queue
// is full.
const (
	firstRoom  = 16 << 10 // of a thread that this process has not asked yet, in bytes
	roomShare  = 4        // a process takes one part in so many of the room in the queue
	postWeight = 512      // what a post takes beside its content, in bytes
	keptRooms  = 10000    // threads
	keptPosts  = 10000    // of all threads together
)

// takeRoom reports whether a thread may be sent a post by signal. One that was sent before may not: its sender is told what became of
// it.
func (l *lanes) takeRoom(workflowID string, p signals.Post) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	post := recentPost{workflowID, p.ID}
	if l.recent.Contains(post) {
		return false
	}
	room, known := l.rooms.Get(workflowID)
	if !known {
		room = firstRoom
	}
	room -= p.Size() + postWeight
	if room < 0 {
		return false
	}
	l.rooms.Add(workflowID, room)
	l.recent.Add(post, struct{}{})
	return true
}

// forget forgets a post that was not taken. It may be sent once more, such as to a thread that is opened for it.
func (l *lanes) forget(workflowID, eventID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.Remove(recentPost{workflowID, eventID})
}

// setRoom notes how much room a thread has.
func (l *lanes) setRoom(workflowID string, room int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rooms.Add(workflowID, room/roomShare)
}

// lane batches the posts of one process to one thread. It sends one update at a time, and posts
// that arrive meanwhile are sent together in the next one: Temporal limits the updates in progress
// of a workflow, and each update costs the thread a workflow task.
type lane struct {
	waiting []*pendingPost
	bytes   int

	// sentAt is the time at which the update in progress was sent; zero if there is none.
	sentAt time.Time

	// seen is the last diagnosis of the thread when it did not answer.
	diagnosing sync.Mutex
	diagnosis  diagnosis

	// turns limits the updates "turn" in progress.
	turns chan struct{}
	users int
}

// pendingPost is a post that waits for the answer of its thread.
type pendingPost struct {
	post signals.Post

	// open is the input for a thread that does not exist yet; nil = the thread must exist.
	open *signals.Start
	done chan posted // takes one
}

type posted struct {
	result signals.PostResult
	err    error
}

// enter returns the lane of a thread. The caller must release it with leave.
func (l *lanes) enter(workflowID string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.of[workflowID]
	if ln == nil {
		ln = &lane{turns: make(chan struct{}, turnsInFlight)}
		l.of[workflowID] = ln
	}
	ln.users++
	return ln
}

func (l *lanes) leave(workflowID string, ln *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.users--; ln.users == 0 {
		delete(l.of, workflowID)
	}
}

// add appends a post to the waiting ones. It reports whether the caller must start the sender, and
// for how long the update in progress has had no answer.
func (l *lanes) add(ln *lane, p *pendingPost) (send bool, silent time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := p.post.Size()
	if len(ln.waiting) >= maxLanePosts || ln.bytes+size > maxLaneBytes || l.bytes+size > maxSentBytes {
		return false, 0, signals.ErrOverloaded
	}
	ln.waiting, ln.bytes, l.bytes = append(ln.waiting, p), ln.bytes+size, l.bytes+size
	if ln.sentAt.IsZero() {
		ln.sentAt = time.Now()
		return true, 0, nil
	}
	return false, time.Since(ln.sentAt), nil
}

// withdraw removes a waiting post that has not been sent.
func (l *lanes) withdraw(ln *lane, p *pendingPost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(ln.waiting, p); i >= 0 {
		ln.waiting = slices.Delete(ln.waiting, i, i+1)
		l.release(ln, p)
	}
}

func (l *lanes) release(ln *lane, p *pendingPost) {
	ln.bytes, l.bytes = ln.bytes-p.post.Size(), l.bytes-p.post.Size()
}

// next removes the posts of the next update: the first ones that open the thread, or the first ones
// that do not.
func (l *lanes) next(ln *lane) []*pendingPost {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for ; n < len(ln.waiting) && n < signals.MaxBatchPosts; n++ {
		p := ln.waiting[n]
		size += p.post.Size()
		if n > 0 && (size > signals.MaxBatchBytes || (p.open == nil) != (ln.waiting[0].open == nil)) {
			break
		}
	}
	batch := slices.Clone(ln.waiting[:n])
	ln.waiting = slices.Delete(ln.waiting, 0, n)
	for _, p := range batch {
		l.release(ln, p)
	}
	ln.sentAt = time.Time{}
	if n > 0 {
		ln.sentAt = time.Now()
	}
	return batch
}

// posts sends posts to threads.
type posts struct {
	*conn
	lanes *lanes
}

// unasked reports whether a post is sent by signal, since nothing depends on the answer of the thread. fresh is set if the id of the
// post is new.
func (c *posts) unasked(ctx context.Context, threadID string, p signals.Post, fresh bool) bool {
	if p.OnBusy == event.OnBusyReject {
		return false
	}
	if !fresh {
		if c.known == nil {
			return false
		}
		if known, err := c.known(ctx, c.namespace, threadID, p.ID); known || err != nil {
			return false
		}
	}
	return c.lanes.takeRoom(signals.WorkflowID(c.namespace, threadID), p)
}

// submit sends a post by update, in a batch with other waiting posts. It does not send a post whose
// context has ended before.
//
// If the thread does not answer because no worker runs, submit sends a signal instead: Temporal
// stores it, and a thread never drops a signal that is a valid post.
func (c *posts) submit(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	id := signals.WorkflowID(c.namespace, threadID)
	ln := c.lanes.enter(id)
	defer c.lanes.leave(id, ln)
	in := &pendingPost{post: p, open: open, done: make(chan posted, 1)}
	send, silent, err := c.lanes.add(ln, in)
	if err != nil {
		return signals.PostResult{}, fmt.Errorf("%s to thread %q: %w", signals.UpdatePost, threadID, err)
	}
	if send {
		// The sender also sends posts that arrive later, so it does not end with ctx.
		c.lanes.enter(id)
		go func() {
			defer c.lanes.leave(id, ln)
			for batch := c.lanes.next(ln); len(batch) > 0; batch = c.lanes.next(ln) {
				c.send(threadID, batch)
			}
		}()
	}
	patience := answerPatience
	if at, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(at)/2)
	}
	timer := time.NewTimer(max(patience-silent, 0))
	defer timer.Stop()
	for {
		select {
		case out := <-in.done:
			if !unanswered(out.err) || p.OnBusy == event.OnBusyReject {
				return out.result, out.err
			}
			return c.postBySignal(ctx, threadID, p, open, ln.diagnose(c.conn, threadID), out.err)
		case <-ctx.Done():
			c.lanes.withdraw(ln, in)
			err := ctx.Err()
			if !errors.Is(err, context.Canceled) {
				err = &UnansweredError{ThreadID: threadID, Reason: ln.diagnose(c.conn, threadID).reason, Err: err}
			}
			return signals.PostResult{}, c.explain(ctx, signals.UpdatePost, threadID, err)
		case <-timer.C:
			// The sender of a signal would not learn that the thread is busy. A thread without a
			// diagnosis may only be slow: the update continues.
			if state := ln.diagnose(c.conn, threadID); p.OnBusy != event.OnBusyReject && state.reachable && !state.working {
				c.lanes.withdraw(ln, in)
				return c.postBySignal(ctx, threadID, p, open, state, context.DeadlineExceeded)
			}
			timer.Reset(diagnosisAge)
		}
	}
}

// Limits on the history of a thread that does not answer, up to which posts are sent as signals.
// Temporal terminates a workflow at about 50 MiB.
const (
	maxSilentEvents = 5000
	maxSilentBytes  = 16 << 20
)

// postBySignal sends a post as a signal to a thread without a worker. silence is the error of the
// update.
func (c *posts) postBySignal(ctx context.Context, threadID string, p signals.Post, open *signals.Start, state diagnosis, silence error) (signals.PostResult, error) {
	if ctx.Err() != nil || !state.reachable || state.working || state.historyEvents > maxSilentEvents || state.historyBytes > maxSilentBytes {
		if !is[*UnansweredError](silence) {
			silence = &UnansweredError{ThreadID: threadID, Reason: state.reason, Err: silence}
		}
		return signals.PostResult{}, c.explain(ctx, signals.UpdatePost, threadID, silence)
	}
	return c.keep(ctx, threadID, p, open)
}

// admit sends a post as a signal when Temporal has confirmed enough of those before it.
func (c *posts) admit(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	within, cancel := context.WithTimeout(ctx, signalPatience)
	defer cancel()
	if c.lanes.signals.Acquire(within, 1) != nil {
		return signals.PostResult{}, fmt.Errorf("%s to thread %q: %w", signals.SignalPost, threadID, cmp.Or(ctx.Err(), signals.ErrOverloaded))
	}
	defer c.lanes.signals.Release(1)
	return c.keep(ctx, threadID, p, open)
}

// keep sends a post as a signal.
func (c *posts) keep(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	out := signals.PostResult{EventID: p.ID, Status: signals.PostQueued}
	if open != nil {
		return out, c.signalOrOpen(ctx, threadID, *open, p)
	}
	return out, c.signal(ctx, threadID, signals.SignalPost, p)
}

// send sends one batch and returns the result of each post to its caller.
func (c *posts) send(threadID string, batch []*pendingPost) {
	// The request belongs to the trace of the first post; the turn of each post to its own.
	ctx, cancel := context.WithTimeout(tracing.WithTraceparent(context.Background(), batch[0].post.Traceparent), c.answerWithin)
	defer cancel()
	results, err := c.sendBatch(ctx, threadID, batch)
	if err == nil && len(results) != len(batch) {
		err = fmt.Errorf("%s to thread %q: it answered %d posts, not %d", signals.UpdatePostBatch, threadID, len(results), len(batch))
	}
	for i, p := range batch {
		out := posted{err: err}
		if err == nil {
			out.result, out.err = outcome(threadID, p.post.ID, results[i])
		}
		p.done <- out
	}
}

// sendBatch sends one update. A single post is sent by update "post", which is easier to read in
// Temporal's Web UI.
func (c *posts) sendBatch(ctx context.Context, threadID string, batch []*pendingPost) ([]signals.PostOutcome, error) {
	if len(batch) == 1 {
		c.hurry(ctx, threadID, batch[0].post)
		opts := c.updateOptions(threadID, signals.UpdatePost, batch[0].post)
		var out signals.PostResult
		err := c.sendUpdate(ctx, threadID, opts, batch[0].open, &out)
		if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == signals.DuplicateType {
			return []signals.PostOutcome{{EventID: batch[0].post.ID, Status: signals.PostDuplicate}}, nil
		}
		if err != nil {
			return nil, c.explain(ctx, signals.UpdatePost, threadID, c.withReason(ctx, threadID, err))
		}
		c.lanes.setRoom(signals.WorkflowID(c.namespace, threadID), out.Room)
		return []signals.PostOutcome{{EventID: out.EventID, Status: out.Status}}, nil
	}
	posts := make([]signals.Post, len(batch))
	for i, p := range batch {
		posts[i] = p.post
	}
	if i := slices.IndexFunc(posts, urgent); i >= 0 {
		c.hurry(ctx, threadID, posts[i])
	}
	opts := c.updateOptions(threadID, signals.UpdatePostBatch, signals.PostBatch{Posts: posts})
	var out signals.PostBatchResult
	err := c.sendUpdate(ctx, threadID, opts, batch[0].open, &out)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == signals.NothingPostedType {
		err = app.Details(&out)
	}
	if err == nil {
		c.lanes.setRoom(signals.WorkflowID(c.namespace, threadID), out.Room)
	}
	return out.Results, c.explain(ctx, signals.UpdatePostBatch, threadID, c.withReason(ctx, threadID, err))
}

// outcome converts the result of a post in a batch to that of update "post".
func outcome(threadID, eventID string, o signals.PostOutcome) (signals.PostResult, error) {
	if o.Status == signals.PostQueued || o.Status == signals.PostDuplicate {
		return signals.PostResult{EventID: o.EventID, Status: o.Status}, nil
	}
	return signals.PostResult{EventID: eventID}, rejection(signals.UpdatePost, threadID, o.Status, o.Error)
}

// takeTurn reserves one of the updates "turn" of this process in a thread. A caller that does not
// get one first posts, and then waits for one. It must call leave at the end.
func (c *posts) takeTurn(threadID string) *turnSlot {
	id := signals.WorkflowID(c.namespace, threadID)
	t := &turnSlot{lane: c.lanes.enter(id)}
	t.leave = sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.left = true; t.taken {
			<-t.lane.turns
		}
		c.lanes.leave(id, t.lane)
	})
	select {
	case t.lane.turns <- struct{}{}:
		t.taken = true
	default:
	}
	return t
}

// turnSlot is the reservation of an update "turn".
type turnSlot struct {
	lane  *lane
	leave func()

	mu          sync.Mutex
	taken, left bool
}

// take uses a free slot, or returns it if the caller has left.
func (t *turnSlot) take() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		<-t.lane.turns
		return
	}
	t.taken = true
}

// direct reports whether the caller has a slot.
func (t *turnSlot) direct() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// wait waits for a free slot, at most turnPatience.
func (t *turnSlot) wait(ctx context.Context) error {
	if t.direct() {
		return nil
	}
	timer := time.NewTimer(turnPatience)
	defer timer.Stop()
	select {
	case t.lane.turns <- struct{}{}:
		t.take()
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
