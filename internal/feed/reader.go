package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Reader delivers a thread's sequence from a position on. It is for one goroutine.
type Reader struct {
	cfg     *Config
	key     store.Key
	view    View
	whole   bool
	starts  bool
	fresh   bool
	records []string
	start   Cursor

	at      position
	buffer  buffer
	backlog backlog
	pending *stream.Entry // waits until the records that it implies are buffered
	tail    tail
	pieces  *pieces
	grace   grace
	end     end
	checkAt time.Time // the next check for records that the log did not announce
	wait    sharedWait
}

// end is the condition under which a reader ends.
type end struct {
	finite bool  // when it has caught up with the log
	seq    int64 // when it has delivered this stored record and everything before it
}

const noEnd = math.MaxInt64

// Open opens a reader of a thread's sequence. It does not check that the thread exists.
func (f *Feed) Open(ctx context.Context, key store.Key, from From) (*Reader, error) {
	r := &Reader{
		cfg: &f.cfg, key: key, view: f.View(key), whole: from.Whole, starts: from.Starts, fresh: from.Fresh, records: from.Records,
		start: from.Cursor, at: positionOf(from.Cursor), pieces: newPieces(), end: end{from.Finite, noEnd},
	}
	r.pieces.complete = from.Cursor.IsZero() && !from.Now
	var err error
	if from.Now {
		err = r.beginNow(ctx)
	} else {
		err = r.begin(ctx, from.Head)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the feed of %s: %w", key, err)
	}
	return r, nil
}

// Start returns the reader's start: the cursor before its first item.
func (r *Reader) Start() Cursor { return r.start }

// Show returns an event that the reader does not deliver as its viewer sees it.
func (r *Reader) Show(ctx context.Context, e event.AgentEvent) event.AgentEvent {
	return r.view(ctx, e)
}

// Buffered reports whether Next returns without waiting.
func (r *Reader) Buffered() bool { return !r.buffer.empty() }

// Close releases the reader.
func (r *Reader) Close() {
	r.wait.end()
	r.tail.detach()
}

// End sets the end of a reader without one: Next returns io.EOF after everything up to record seq,
// which must be stored.
func (r *Reader) End(seq int64) { r.end.seq = seq }

// Next waits for the next event. It returns [ErrIdle] once in every heartbeat interval, and may
// then be called again; io.EOF at the end of a finite reader; ctx's error when ctx ends; and any
// other error when the store fails or the stream is closed: open a new reader at the cursor of the
// last item.
func (r *Reader) Next(ctx context.Context) (Item, error) {
	for r.buffer.empty() {
		if err := r.step(ctx); err != nil {
			return Item{}, err
		}
	}
	item := r.buffer.take()
	item.Event = r.view(ctx, item.Event)
	return item, nil
}

// step takes the next action that may fill the buffer.
func (r *Reader) step(ctx context.Context) error {
	r.buffer.reset()
	switch {
	case r.at.seq < r.backlog.due:
		return r.deliverRecords(ctx)
	case r.pending != nil:
		return r.deliverEntry(ctx)
	case r.at.seq >= r.end.seq:
		return io.EOF
	case r.tail.joined():
		r.join()
		return nil
	case r.end.finite && r.tail.attached() && r.tail.phase == following:
		return io.EOF
	}
	now := time.Now()
	if r.end.seq != noEnd && r.grace.seq < r.end.seq {
		r.await(r.end.seq, r.logEnd(ctx), now)
	}
	if at, ok := r.deadline(); ok && !now.Before(at) {
		r.want(r.grace.seq, true)
		r.grace = grace{}
		return nil
	}
	switch {
	case !now.Before(r.checkAt):
		return r.check(ctx, now)
	case !r.tail.attached():
		return r.reopen(ctx, now)
	}
	return r.receive(ctx)
}

// want makes the records up to seq due.
func (r *Reader) want(seq int64, unannounced bool) {
	if seq > r.at.seq {
		r.backlog.due, r.backlog.unannounced = seq, unannounced
	}
}

// await gives records up to seq time for their announcement.
func (r *Reader) await(seq, barrier int64, now time.Time) {
	r.grace = grace{seq, barrier, now.Add(r.cfg.Grace)}
}

// deadline returns the time at which the awaited records become due. Without a subscription they
// cannot be announced.
func (r *Reader) deadline() (at time.Time, ok bool) {
	if !r.tail.attached() {
		return r.grace.end, r.grace.seq > 0
	}
	return r.grace.deadline(r.at.offset)
}

// wakeBefore returns the time at which the reader has something else to do, at most until.
func (r *Reader) wakeBefore(until time.Time) time.Time {
	if r.checkAt.Before(until) {
		until = r.checkAt
	}
	if at, ok := r.deadline(); ok && at.Before(until) {
		until = at
	}
	return until
}

// deliverRecords buffers records that are due.
func (r *Reader) deliverRecords(ctx context.Context) error {
	if len(r.backlog.ahead) == 0 {
		records, err := r.dueRecords(ctx)
		if err != nil {
			return fmt.Errorf("reading the records of %s after %d: %w", r.key, r.at.seq, err)
		}
		if len(records) == 0 { // announced too early: the next check finds them
			r.backlog.due = r.at.seq
			return nil
		}
		r.backlog.ahead = records
	}
	if err := r.lookUp(ctx, earlierAttempts); err != nil {
		return err
	}
	var offset int64
	if r.backlog.unannounced {
		offset = r.at.offset
	}
	ready, part := r.backlog.ready(), r.at.part
	for _, rec := range ready {
		r.buffer.items = appendItems(r.buffer.items, rec, r.records, part, offset)
		part = 0
	}
	if err := date(ctx, r.cfg.Store, r.key, r.buffer.items); err != nil {
		r.buffer.reset()
		return err
	}
	for i := range r.buffer.items {
		item := &r.buffer.items[i]
		item.Streamed = r.pieces.streamed[item.MessageID()]
		r.pieces.finish(&item.Event)
	}
	if n := len(ready); n > 0 {
		r.at.seq, r.at.part = ready[n-1].Seq, 0
		r.backlog.drop(n)
	}
	return nil
}

// dueRecords returns records that are due: those of the pending notice if they are all that is due, or else those of
// the store.
func (r *Reader) dueRecords(ctx context.Context) ([]event.Record, error) {
	if r.pending != nil {
		if records := contiguous(r.pending.Records, r.at.seq, r.backlog.due); len(records) > 0 {
			return records, nil
		}
	}
	bound := max(r.backlog.due, r.tail.head)
	return r.cfg.Store.Records(ctx, r.key, store.Query{After: r.at.seq, Before: bound + 1, Limit: pageSize, MaxBytes: readBytes})
}

// deliverEntry buffers the piece of the pending entry, after the records that it implies.
func (r *Reader) deliverEntry(ctx context.Context) error {
	e := r.pending
	if err := r.lookUp(ctx, storedMessages); err != nil {
		return err
	}
	if e.Event != nil && e.Event.MessageID != "" {
		if err := r.lookUp(ctx, earlierAttempts); err != nil {
			return err
		}
	}
	r.pending = nil
	r.at.offset = e.Offset
	if e.Event == nil {
		return nil
	}
	item := Item{
		Cursor: r.at.cursor(), Event: *e.Event, TraceID: e.TraceID,
		Begins: r.pieces.begins(e.Event, e.Begins), Streamed: r.pieces.streamed[e.Event.MessageID],
	}
	if r.pieces.note(e.Event) && !(r.whole && isText(e.Event)) && (r.starts || !announces(e.Event)) {
		r.buffer.push(item)
	}
	return nil
}

// receive reads the next entry of the log.
func (r *Reader) receive(ctx context.Context) error {
	if e, ok := r.tail.replay(); ok {
		r.hold(e)
		return nil
	}
	e, err := r.tail.sub.Next(r.wait.until(ctx, r.wakeBefore(r.checkAt)))
	switch {
	case err == nil:
		r.tail.retry.failures = 0
		next, passed := r.tail.accept(&e, r.at.cursor().Seq)
		for i := range passed {
			if piece := passed[i].Event; piece != nil {
				r.pieces.note(piece)
			}
		}
		if next {
			r.hold(e)
		}
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	r.lose(err)
	return nil
}

// hold keeps an entry until the records that it implies have been delivered.
func (r *Reader) hold(e stream.Entry) {
	r.pending = &e
	r.want(implied(&e), false)
}

// join ends the phase of catching up with the log at the beginning of the subscription.
func (r *Reader) join() {
	r.tail.phase = following
	switch head := r.tail.head; {
	case head <= r.at.seq:
	case r.end.finite || r.tail.newest == 0:
		r.want(head, true)
	default:
		r.await(head, r.tail.newest, time.Now())
	}
}

// check reads records that the log did not announce.
func (r *Reader) check(ctx context.Context, now time.Time) error {
	r.checkAt = now.Add(r.cfg.HeartbeatInterval)
	head, err := r.storeHead(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrErased):
		r.erased()
		return nil
	case errors.Is(err, store.ErrUnavailable):
		// The owner of the store logs its outages.
	case err != nil:
		r.cfg.Logger.Warn("reading new records failed", "thread", r.key.ThreadID, "error", err)
	case head < r.at.seq:
		r.startOver()
		return nil
	case head > r.at.seq && r.grace.seq == 0:
		r.await(head, r.logEnd(ctx), now)
	}
	return ErrIdle
}

// logEnd returns the offset of the newest entry of the log, or 0 if it is unknown.
func (r *Reader) logEnd(ctx context.Context) int64 {
	sub, err := r.cfg.Stream.Subscribe(ctx, r.key, stream.From{Now: true})
	if err != nil {
		return 0
	}
	defer sub.Close()
	return sub.Start().Last
}

func (r *Reader) storeHead(ctx context.Context) (int64, error) {
	t, err := r.cfg.Store.Thread(ctx, r.key)
	if errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrErased) {
		return 0, nil
	}
	return t.Head, err
}

// erased ends the reader of a thread that was erased.
func (r *Reader) erased() {
	r.buffer.push(Item{Cursor: r.at.cursor(), Event: event.AgentEvent{
		Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed, Detail: "the thread was erased"},
	}})
	r.pending, r.backlog = nil, backlog{}
	r.end.seq = r.at.seq
}
