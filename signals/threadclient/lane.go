package threadclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

// Bounds of the posts of one process that wait to be sent. Further ones get
// [signals.ErrOverloaded].
const (
	maxLanePosts = 1024
	maxLaneBytes = 4 << 20
	maxSentBytes = 64 << 20 // of all threads together
)

const (
	// sendWithin is how long a batch may take: a thread that can be processed answers in
	// milliseconds.
	sendWithin = 10 * time.Second

	// answerPatience is how long a post waits for its thread's answer before Temporal keeps it as
	// a signal instead.
	answerPatience = 3 * time.Second

	// turnsInFlight is how many updates "turn" one process has under way in one thread. Temporal
	// takes 10 updates at once, from all processes together.
	turnsInFlight = 4

	// turnPatience is how long a caller waits for others' turns to end before it waits beside them.
	turnPatience = 30 * time.Second
)

// lanes are the ways of one process to its threads, by workflow id.
type lanes struct {
	mu    sync.Mutex
	of    map[string]*lane
	bytes int
}

// lane takes the posts of one process to one thread, one update at a time: what arrives
// meanwhile goes together in the next one. Temporal bounds the updates under way in a workflow,
// and each update costs the thread a workflow task.
type lane struct {
	waiting []*posting
	bytes   int

	// sentAt is when the update under way was sent, zero if there is none.
	sentAt time.Time

	// seen is how the thread was found when it did not answer.
	seeing sync.Mutex
	seen   condition

	// turns are the updates "turn" under way.
	turns chan struct{}
	users int
}

// posting is a post that waits for its thread's answer.
type posting struct {
	post signals.Post

	// open is how the thread is opened if it does not exist; nil = it must exist.
	open *signals.Start
	done chan posted // takes one
}

type posted struct {
	result signals.PostResult
	err    error
}

// enter returns the lane to a thread. leave releases it.
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

// add puts a post behind those that wait. It reports whether the caller has to start sending,
// and how long the update under way has been without an answer.
func (l *lanes) add(ln *lane, p *posting) (send bool, silent time.Duration, err error) {
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

// withdraw takes a post out of those that wait, if it has not been sent.
func (l *lanes) withdraw(ln *lane, p *posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(ln.waiting, p); i >= 0 {
		ln.waiting = slices.Delete(ln.waiting, i, i+1)
		l.release(ln, p)
	}
}

func (l *lanes) release(ln *lane, p *posting) {
	ln.bytes, l.bytes = ln.bytes-p.post.Size(), l.bytes-p.post.Size()
}

// next takes the posts of the next update: those in front that open the thread, or those that
// do not.
func (l *lanes) next(ln *lane) []*posting {
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

// posts sends what is posted to threads.
type posts struct {
	*conn
	lanes *lanes
}

// submit posts by update, together with what others post at the same time. The post of a caller
// whose context ends before it was sent is not sent.
//
// A thread that does not answer, because no worker runs, is sent a signal instead: Temporal keeps
// it, and a thread never drops a signal that is a valid post.
func (c *posts) submit(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	id := signals.WorkflowID(c.namespace, threadID)
	ln := c.lanes.enter(id)
	defer c.lanes.leave(id, ln)
	in := &posting{post: p, open: open, done: make(chan posted, 1)}
	send, silent, err := c.lanes.add(ln, in)
	if err != nil {
		return signals.PostResult{}, fmt.Errorf("%s to thread %q: %w", signals.UpdatePost, threadID, err)
	}
	if send {
		// The sender works for those that come later, too.
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
			if !unanswered(out.err) || p.OnBusy == signals.OnBusyReject {
				return out.result, out.err
			}
			return c.leaveSignal(ctx, threadID, p, open, ln.look(c.conn, threadID), out.err)
		case <-ctx.Done():
			c.lanes.withdraw(ln, in)
			err := ctx.Err()
			if !errors.Is(err, context.Canceled) {
				err = &UnansweredError{ThreadID: threadID, Reason: ln.look(c.conn, threadID).reason, Err: err}
			}
			return signals.PostResult{}, c.explain(ctx, signals.UpdatePost, threadID, err)
		case <-timer.C:
			// A signal could not say that the thread is busy. What cannot be looked at may be
			// slow only: the update goes on.
			if state := ln.look(c.conn, threadID); p.OnBusy != signals.OnBusyReject && state.reachable && !state.working {
				c.lanes.withdraw(ln, in)
				return c.leaveSignal(ctx, threadID, p, open, state, context.DeadlineExceeded)
			}
			timer.Reset(lookAgain)
		}
	}
}

// Bounds of the history of a thread that does not answer, up to which it is left signals. Temporal
// terminates a workflow at about 50 MiB.
const (
	maxSilentEvents = 5000
	maxSilentBytes  = 16 << 20
)

// leaveSignal lets Temporal keep a post for a thread for which no worker runs. silence is the error
// of the update.
func (c *posts) leaveSignal(ctx context.Context, threadID string, p signals.Post, open *signals.Start, state condition, silence error) (signals.PostResult, error) {
	var err error
	switch {
	case ctx.Err() != nil || !state.reachable || state.working || state.historyEvents > maxSilentEvents || state.historyBytes > maxSilentBytes:
		if !is[*UnansweredError](silence) {
			silence = &UnansweredError{ThreadID: threadID, Reason: state.reason, Err: silence}
		}
		return signals.PostResult{}, c.explain(ctx, signals.UpdatePost, threadID, silence)
	case open != nil:
		err = c.signalOrOpen(ctx, threadID, *open, p)
	default:
		err = c.signal(ctx, threadID, signals.SignalPost, p)
	}
	if err != nil {
		return signals.PostResult{}, err
	}
	return signals.PostResult{EventID: p.ID, Status: signals.PostQueued}, nil
}

// send sends one batch and tells each of its posts what became of it.
func (c *posts) send(threadID string, batch []*posting) {
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin)
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

// sendBatch sends one update. A single post needs no batch: it looks in Temporal's Web UI as what
// it is.
func (c *posts) sendBatch(ctx context.Context, threadID string, batch []*posting) ([]signals.PostOutcome, error) {
	if len(batch) == 1 {
		opts := c.updateOptions(threadID, signals.UpdatePost, batch[0].post)
		var out signals.PostResult
		err := c.sendUpdate(ctx, threadID, opts, batch[0].open, &out)
		if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == signals.DuplicateType {
			return []signals.PostOutcome{{EventID: batch[0].post.ID, Status: signals.PostDuplicate}}, nil
		}
		if err != nil {
			return nil, c.explain(ctx, signals.UpdatePost, threadID, c.reasoned(ctx, threadID, err))
		}
		return []signals.PostOutcome{{EventID: out.EventID, Status: out.Status}}, nil
	}
	posts := make([]signals.Post, len(batch))
	for i, p := range batch {
		posts[i] = p.post
	}
	opts := c.updateOptions(threadID, signals.UpdatePostBatch, signals.PostBatch{Posts: posts})
	var out signals.PostBatchResult
	err := c.sendUpdate(ctx, threadID, opts, batch[0].open, &out)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == signals.NothingPostedType {
		err = app.Details(&out)
	}
	return out.Results, c.explain(ctx, signals.UpdatePostBatch, threadID, c.reasoned(ctx, threadID, err))
}

// outcome is the result of a post of a batch as that of update "post".
func outcome(threadID, eventID string, o signals.PostOutcome) (signals.PostResult, error) {
	if o.Status == signals.PostQueued || o.Status == signals.PostDuplicate {
		return signals.PostResult{EventID: o.EventID, Status: o.Status}, nil
	}
	return signals.PostResult{EventID: eventID}, rejection(signals.UpdatePost, threadID, o.Status, o.Error)
}

// takeTurn bounds the updates "turn" of this process in a thread. A caller that may not send its
// own at once posts first, and then waits. It calls leave when its update has ended.
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

// turnSlot is a caller's place among those that wait for turns of a thread.
type turnSlot struct {
	lane  *lane
	leave func()

	mu          sync.Mutex
	taken, left bool
}

// take takes a place that has become free, unless nobody waits for it any more.
func (t *turnSlot) take() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		<-t.lane.turns
		return
	}
	t.taken = true
}

// direct reports whether the update can be sent at once.
func (t *turnSlot) direct() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// wait waits for one of the updates under way to end, for a while.
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
