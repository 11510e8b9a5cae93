package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
)

// begin subscribes after the reader's position. Head is the thread's newest record, 0 if it is to be read.
func (r *Reader) begin(ctx context.Context, head int64) error {
	if head == 0 {
		var err error
		if head, err = r.storeHead(ctx); err != nil {
			return err
		}
	}
	if r.start.Seq > head {
		r.startOver()
		r.start = Cursor{}
	}
	if err := r.noteDelivered(ctx); err != nil {
		return err
	}
	r.checkAt = time.Now().Add(r.cfg.HeartbeatInterval)
	r.resume()
	return r.connect(ctx, head)
}

// resume makes the log continue from the reader's position.
func (r *Reader) resume() {
	r.tail.read = r.at.offset
	if r.at.offset > 0 && !r.fresh {
		r.pieces.unknown = earlierAttempts
	}
}

// beginNow subscribes to new events only.
func (r *Reader) beginNow(ctx context.Context) error {
	// The head is read before the subscription: no piece of the messages up to it follows. Records
	// in between are not announced any more.
	head, err := r.storeHead(ctx)
	if err != nil {
		return err
	}
	r.at = position{seq: head}
	r.checkAt = time.Now().Add(r.cfg.HeartbeatInterval)
	if err := r.noteDelivered(ctx); err != nil {
		return err
	}
	sub, err := r.cfg.Stream.Subscribe(ctx, r.key, stream.From{Now: true})
	if err != nil {
		r.start = r.at.cursor()
		return r.detached(ctx, head, err)
	}
	r.tail.sub, r.tail.head, r.tail.phase = sub, head, following
	r.at.offset = sub.Start().Last
	r.resume()
	r.start = r.at.cursor()
	if head, err = r.storeHead(ctx); err != nil {
		r.Close()
		return err
	}
	r.want(head, true)
	return nil
}

// subscribe opens the live log at the reader's position. The head of the store has been read before:
// pieces of the messages up to it are in the log by then.
func (r *Reader) subscribe(ctx context.Context, head int64) error {
	fromStart := r.tail.read == 0
	sub, err := r.cfg.Stream.Subscribe(ctx, r.key, stream.From{Offset: r.tail.read})
	if err != nil {
		return err
	}
	r.grace = grace{}
	at := r.at.cursor()
	switch gap := r.tail.attach(sub, head, at); {
	case gap:
		r.buffer.push(Item{Cursor: at, Event: gapEvent("live pieces were lost; the messages they belong to follow whole")})
		r.at.offset = 0
		r.pieces.restart()
	case fromStart && at.IsZero():
		r.pieces.unknown = storedMessages
	case fromStart:
		r.pieces.unknown = nothing
	}
	return nil
}

// startOver starts again with the first record: the store has fewer records than the position, so
// it is another one. The gap has the zero cursor, so that a viewer that reconnects after it starts
// over, too.
func (r *Reader) startOver() {
	r.cfg.delivered.Remove(r.key)
	r.tail.detach()
	r.tail = tail{retry: r.tail.retry}
	r.at, r.backlog, r.grace, r.pending = position{}, backlog{}, grace{}, nil
	r.pieces = newPieces()
	r.pieces.restart()
	r.buffer.push(Item{Event: beyondHead()})
}

func beyondHead() event.AgentEvent {
	return gapEvent("the thread does not have the event that the id names: its records were removed or restored since; everything that is stored follows from the beginning")
}

func gapEvent(detail string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventGap, Detail: detail}
}

// connect subscribes, or goes on without the live log.
func (r *Reader) connect(ctx context.Context, head int64) error {
	if err := r.subscribe(ctx, head); err != nil {
		return r.detached(ctx, head, err)
	}
	r.cfg.outage.Up()
	return nil
}

// detached goes on without the live log, to which it could not subscribe: records up to the head of the store come without their
// announcement, and a finite reader ends with them.
func (r *Reader) detached(ctx context.Context, head int64, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, stream.ErrClosed):
		return fmt.Errorf("reading the feed of %s: %w", r.key, err)
	}
	r.lose(err)
	switch {
	case r.end.finite:
		r.want(head, true)
		r.end.seq = 0
	case errors.Is(err, stream.ErrUnavailable):
		r.want(head, true) // no announcement comes
	case head > r.at.seq && r.grace.seq == 0:
		r.await(head, 0, time.Now())
	}
	return nil
}

// lose drops a broken subscription.
func (r *Reader) lose(err error) {
	if errors.Is(err, stream.ErrLagged) {
		r.cfg.Logger.Debug("reader fell behind the live log", "thread", r.key.ThreadID, "error", err)
	} else {
		r.cfg.outage.Down(err)
	}
	r.tail.detach()
	r.tail.retry.failed(time.Now())
}

// reopen subscribes again, now or when the backoff allows it.
func (r *Reader) reopen(ctx context.Context, now time.Time) error {
	if until := r.tail.retry.until; now.Before(until) {
		return Sleep(ctx, r.wakeBefore(until).Sub(now))
	}
	head, err := r.storeHead(ctx)
	if err != nil { // the next check says so
		r.tail.retry.failed(time.Now())
		return ctx.Err()
	}
	return r.connect(ctx, head)
}

// StoreRetry is the interval at which a reader asks an unavailable store again.
const StoreRetry = time.Second

// Sleep waits. The error is that of the context.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
