package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Reader delivers a thread's sequence from a place on. It is for one goroutine.
type Reader struct {
	cfg     *Config
	key     store.Key
	view    View
	seen    *seen
	finite  bool
	whole   bool
	records []string

	// The place: all records up to last, part events of the next one, and the log up
	// to offset have been queued.
	last   int64
	part   int
	offset int64

	begun Cursor
	queue []Item // the items from next on are ready to be delivered
	next  int
	ahead []event.Record // read from the store, but not due yet
	due   int64          // records up to this one are due
	alone bool           // they are due without a word of the log

	held *stream.Entry  // waits until the records that it implies are queued
	back []stream.Entry // read from the log while looking for the place

	sub     stream.Subscription
	read    int64 // the last offset read from sub
	start   int64 // the newest offset when sub began
	head    int64 // the newest record when sub began
	joining bool  // not yet at start
	seeking bool  // looking for the entry that implies record last
	late    bool  // pieces of stored messages are of no interest
	unsure  bool  // began in the middle of the log: the attempts before are not known
	anew    bool  // the viewer has had no piece that the reader does not know

	failures int
	retryAt  time.Time
	checkAt  time.Time

	// Records up to missing are in the store. They come without their word when the
	// log has been read up to barrier and the grace is over.
	missing  int64
	barrier  int64
	graceEnd time.Time

	// ending: nothing is wanted beyond record end.
	ending bool
	end    int64
}

// Start is where the reader began: before its first item.
func (r *Reader) Start() Cursor { return r.begun }

// place is behind the last item queued.
func (r *Reader) place() Cursor {
	c := Cursor{Seq: r.last, Offset: r.offset}
	if r.part > 0 {
		c.Seq, c.Part = r.last+1, r.part
	}
	return c
}

// Show returns what the reader's viewer sees of an event that the reader does not deliver.
func (r *Reader) Show(ctx context.Context, e event.AgentEvent) event.AgentEvent {
	return r.view(ctx, e)
}

// Buffered reports whether Next has an item at hand.
func (r *Reader) Buffered() bool { return r.next < len(r.queue) }

// Close releases the reader.
func (r *Reader) Close() {
	if r.sub != nil {
		r.sub.Close()
		r.sub = nil
	}
}

// Next waits for the next event. It returns [ErrIdle] once in every heartbeat
// interval, and may be called again; io.EOF at the end of a finite reader; ctx's error
// when ctx ends; any other error when the store fails or the stream is closed: open a
// new reader behind the last item.
func (r *Reader) Next(ctx context.Context) (Item, error) {
	for {
		if r.next < len(r.queue) {
			item := r.queue[r.next]
			r.queue[r.next] = Item{} // its viewer may not read for long
			r.next++
			item.Event = r.view(ctx, item.Event)
			return item, nil
		}
		if err := r.step(ctx); err != nil {
			return Item{}, err
		}
	}
}

// End sets an end to a reader that has none: once all that leads up to record seq has
// been delivered, which must be in the store, Next returns io.EOF.
func (r *Reader) End(seq int64) { r.ending, r.end = true, seq }

// step does the next thing that may fill the queue.
func (r *Reader) step(ctx context.Context) error {
	r.queue, r.next = r.queue[:0], 0
	switch {
	case r.last < r.due:
		return r.fill(ctx)
	case r.held != nil:
		return r.release(ctx)
	case r.ending && r.last >= r.end:
		return io.EOF
	case r.sub != nil && r.joining && r.read >= r.start && !r.seeking && len(r.back) == 0:
		return r.joined()
	case r.finite && r.sub != nil && !r.joining:
		return io.EOF
	}
	now := time.Now()
	if r.ending && r.missing < r.end {
		r.await(r.end, r.logEnd(ctx), now)
	}
	if r.missing > 0 && !now.Before(r.graceEnd) && (r.sub == nil || r.offset >= r.barrier) {
		r.want(r.missing, true)
		r.missing = 0
		return nil
	}
	if !now.Before(r.checkAt) {
		return r.check(ctx, now)
	}
	if r.sub == nil {
		return r.reopen(ctx, now)
	}
	return r.receive(ctx)
}

// want makes the records up to seq due.
func (r *Reader) want(seq int64, alone bool) {
	if seq > r.last {
		r.due, r.alone = seq, alone
	}
}

// fill queues records that are due.
func (r *Reader) fill(ctx context.Context) error {
	if len(r.ahead) == 0 {
		bound := max(r.due, r.head)
		records, err := r.cfg.Store.Records(ctx, r.key, store.Query{
			After: r.last, Before: bound + 1, Limit: pageSize, MaxBytes: readBytes,
		})
		if err != nil {
			return fmt.Errorf("reading the records of %s after %d: %w", r.key, r.last, err)
		}
		if len(records) == 0 { // the log spoke too early: the next look will find them
			r.due = r.last
			return nil
		}
		r.ahead = records
	}
	if r.unsure {
		r.recall(ctx)
		r.unsure = false
	}
	var offset int64
	if r.alone {
		offset = r.offset
	}
	n, part := 0, r.part
	for ; n < len(r.ahead) && r.ahead[n].Seq <= r.due; n++ {
		r.queue = appendItems(r.queue, r.ahead[n], r.records, part, offset)
		part = 0
	}
	if err := date(ctx, r.cfg.Store, r.key, r.queue); err != nil {
		r.queue = r.queue[:0]
		return err
	}
	for i := range r.queue {
		item := &r.queue[i]
		item.Streamed = r.seen.begun[item.MessageID()]
		r.seen.finish(&item.Event)
	}
	if n > 0 {
		r.last, r.part = r.ahead[n-1].Seq, 0
	}
	clear(r.ahead[:n])
	if r.ahead = r.ahead[n:]; len(r.ahead) == 0 {
		r.ahead = nil
	}
	return nil
}

// release handles the held entry, now that the records it implies are queued.
func (r *Reader) release(ctx context.Context) error {
	e := r.held
	if r.late {
		if err := r.skipStored(ctx); err != nil {
			return err
		}
		r.late = false
	}
	if r.unsure && e.Event != nil && e.Event.MessageID != "" {
		r.recall(ctx)
		r.unsure = false
	}
	r.held = nil
	r.offset = e.Offset
	if e.Event == nil {
		return nil
	}
	begins := (e.Begins || r.anew) && r.seen.begins(e.Event)
	if r.seen.fresh(e.Event) && !(r.whole && isText(e.Event)) {
		r.queue = append(r.queue, Item{Cursor: r.place(), Event: *e.Event, TraceID: e.TraceID, Begins: begins})
	}
	return nil
}

// isText reports whether a piece is one of a message's text.
func isText(e *event.AgentEvent) bool {
	return e.Type == event.EventStream || e.Type == event.EventThought || e.Type == event.EventReset
}

// implied is the record that an entry of the log implies, with all before it.
func implied(e *stream.Entry) int64 { return max(e.Stored, e.After) }

// receive takes the next entry from the log.
func (r *Reader) receive(ctx context.Context) error {
	if !r.seeking && len(r.back) > 0 {
		r.hold(r.back[0])
		r.back = r.back[1:]
		return nil
	}
	if r.seeking && r.read >= r.start {
		// No entry implies the place: it was further back, all that is kept follows it.
		r.seeking = false
		return nil
	}
	until := r.checkAt
	if r.missing > 0 && r.offset >= r.barrier && r.graceEnd.Before(until) {
		until = r.graceEnd
	}
	wait, cancel := context.WithDeadline(ctx, until)
	e, err := r.sub.Next(wait)
	cancel()
	switch {
	case err == nil:
		r.failures = 0
		r.accept(e)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	r.lose(err)
	return nil
}

func (r *Reader) accept(e stream.Entry) {
	r.read = e.Offset
	if !r.seeking {
		r.hold(e)
		return
	}
	if implied(&e) < r.place().Seq {
		r.back = append(r.back, e)
		return
	}
	r.seeking = false
	for i := range r.back {
		if piece := r.back[i].Event; piece != nil {
			r.seen.fresh(piece)
		}
	}
	r.back = nil
	r.hold(e)
}

func (r *Reader) hold(e stream.Entry) {
	r.held = &e
	r.want(implied(&e), false)
}

// joined ends the catching up with what was there when the subscription began.
func (r *Reader) joined() error {
	r.joining = false
	switch {
	case r.head <= r.last:
	case r.finite || r.start == 0:
		r.want(r.head, true)
	default:
		r.await(r.head, r.start, time.Now())
	}
	return nil
}

// await gives the records up to seq some time for their word: they come at their
// place among the pieces then. Their pieces lie before the barrier.
func (r *Reader) await(seq, barrier int64, now time.Time) {
	r.missing, r.barrier, r.graceEnd = seq, barrier, now.Add(r.cfg.Grace)
}

// check looks for records that the log did not speak of.
func (r *Reader) check(ctx context.Context, now time.Time) error {
	r.checkAt = now.Add(r.cfg.HeartbeatInterval)
	head, err := r.storeHead(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrUnavailable):
		// Whoever gave us the store logs its outages.
	case err != nil:
		r.cfg.Logger.Warn("looking for records failed", "thread", r.key.ThreadID, "error", err)
	case head < r.last:
		r.startOver()
		return nil
	case head > r.last && r.missing == 0:
		r.await(head, r.logEnd(ctx), now)
	}
	return ErrIdle
}

// logEnd is the offset of the newest entry of the log, 0 if it cannot be had.
func (r *Reader) logEnd(ctx context.Context) int64 {
	sub, err := r.cfg.Stream.Subscribe(ctx, stream.Key(r.key), stream.From{Now: true})
	if err != nil {
		return 0
	}
	defer sub.Close()
	return sub.Start().Last
}

func (r *Reader) storeHead(ctx context.Context) (int64, error) {
	t, err := r.cfg.Store.Thread(ctx, r.key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return t.Head, err
}
