package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// recent is how many messages before the cursor a resuming reader knows as finished.
const recent = 100

// begin subscribes behind the reader's place.
func (r *Reader) begin(ctx context.Context) error {
	if r.begun.Seq > 0 {
		switch head, err := r.storeHead(ctx); {
		case err != nil:
			return err
		case r.begun.Seq > head:
			r.startOver()
			r.begun = Cursor{}
		}
	}
	if err := r.remember(ctx); err != nil {
		return err
	}
	r.checkAt = time.Now().Add(r.cfg.HeartbeatInterval)
	r.read, r.unsure = r.offset, r.offset > 0
	return r.subscribe(ctx)
}

// beginNow subscribes to what is new.
func (r *Reader) beginNow(ctx context.Context) error {
	// The head before the subscription: no piece of the messages up to it comes
	// after. Records between the two have no word to come.
	head, err := r.storeHead(ctx)
	if err != nil {
		return err
	}
	r.last, r.part, r.head = head, 0, head
	r.checkAt = time.Now().Add(r.cfg.HeartbeatInterval)
	if err := r.remember(ctx); err != nil {
		return err
	}
	sub, err := r.cfg.Stream.Subscribe(ctx, stream.Key(r.key), stream.From{Now: true})
	if err != nil {
		return err
	}
	r.sub = sub
	r.offset = sub.Start().Last
	r.read, r.unsure = r.offset, r.offset > 0
	r.begun = r.place()
	if head, err = r.storeHead(ctx); err != nil {
		r.Close()
		return err
	}
	r.want(head, true)
	return nil
}

// remember notes the messages just before the place as finished.
func (r *Reader) remember(ctx context.Context) error {
	if r.last == 0 {
		return nil
	}
	var subjects []event.AgentEvent
	q := store.Query{Before: r.last + 1, Types: []string{event.TypeMessage}, Newest: true, MaxBytes: readBytes}
	for {
		q.Limit = recent - len(subjects)
		records, err := r.cfg.Store.Records(ctx, r.key, q)
		if err != nil {
			return err
		}
		for _, rec := range records {
			subjects = append(subjects, finished(rec))
			q.Before = rec.Seq
		}
		if len(subjects) == recent || q.Complete(records) {
			break
		}
	}
	for _, e := range slices.Backward(subjects) {
		r.seen.finish(&e)
	}
	return nil
}

// finished is what [seen.finish] needs to know of the record of a message, also if nobody is
// shown it.
func finished(rec event.Record) event.AgentEvent {
	var m event.Message
	if json.Unmarshal(rec.Payload, &m) != nil {
		return event.AgentEvent{}
	}
	e := messageEvent(m)
	return event.AgentEvent{Type: e.Type, MessageID: strings.Clone(e.MessageID), ToolCallID: strings.Clone(e.ToolCallID)}
}

// subscribe opens the live log at the reader's place. The head of the store is read
// first: pieces of the messages up to it are in the log by then.
func (r *Reader) subscribe(ctx context.Context) error {
	head, err := r.storeHead(ctx)
	if err != nil {
		return err
	}
	sub, err := r.cfg.Stream.Subscribe(ctx, stream.Key(r.key), stream.From{Offset: r.read})
	if err != nil {
		return err
	}
	begun := sub.Start()
	r.sub, r.start, r.head, r.joining, r.missing = sub, begun.Last, head, true, 0
	switch at := r.place(); {
	case r.read == 0:
		r.seeking = at.Seq > 0 && begun.Last > 0
		r.late = at.IsZero()
	case begun.Gap:
		r.queue = append(r.queue, Item{Cursor: at, Event: gap()})
		r.read, r.offset, r.back = 0, 0, nil
		r.seeking, r.unsure, r.late, r.anew = false, false, true, true
	}
	return nil
}

// startOver begins again with the first record: the store is not the one that the place is
// of, since it has fewer records. The gap has the zero cursor, so that a viewer that is cut
// behind it starts over, too.
func (r *Reader) startOver() {
	r.Close()
	r.seen = newSeen()
	r.last, r.part, r.offset, r.read, r.due, r.missing = 0, 0, 0, 0, 0, 0
	r.ahead, r.held, r.back = nil, nil, nil
	r.joining, r.seeking, r.unsure, r.late, r.anew = false, false, false, true, true
	r.queue = append(r.queue, Item{Event: beyondHead()})
}

func beyondHead() event.AgentEvent {
	return event.AgentEvent{
		Type:   event.EventGap,
		Detail: "the thread does not have the event that the id names: its records were removed or restored since; everything that is stored follows from the beginning",
	}
}

func gap() event.AgentEvent {
	return event.AgentEvent{
		Type:   event.EventGap,
		Detail: "live pieces were lost; the messages they belong to follow whole",
	}
}

// skipStored marks the messages that are stored but not sent yet as finished: a
// late reader gets them whole.
func (r *Reader) skipStored(ctx context.Context) error {
	for after := r.last; after < r.head; {
		q := store.Query{After: after, Before: r.head + 1, Types: []string{event.TypeMessage}, MaxBytes: readBytes}
		records, err := r.cfg.Store.Records(ctx, r.key, q)
		if err != nil {
			return fmt.Errorf("reading the messages of %s after %d: %w", r.key, after, err)
		}
		for _, rec := range records {
			e := finished(rec)
			r.seen.finish(&e)
		}
		if q.Complete(records) {
			return nil
		}
		after = records[len(records)-1].Seq
	}
	return nil
}

// recall reads the log up to the reader's place, to know the attempts made so far.
// What cannot be read is let be: pieces carry their attempt.
func (r *Reader) recall(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Grace)
	defer cancel()
	sub, err := r.cfg.Stream.Subscribe(ctx, stream.Key(r.key), stream.From{})
	if err != nil {
		return
	}
	defer sub.Close()
	for end := min(r.offset, sub.Start().Last); end > 0; {
		e, err := sub.Next(ctx)
		if err != nil || e.Offset > end {
			return
		}
		if e.Event != nil {
			r.seen.fresh(e.Event)
		}
		if e.Offset == end {
			return
		}
	}
}

// lose drops a broken subscription.
func (r *Reader) lose(err error) {
	if errors.Is(err, stream.ErrLagged) {
		r.cfg.Logger.Debug("reader fell behind the live log", "thread", r.key.ThreadID, "error", err)
	} else {
		r.cfg.outage.Down(err)
	}
	r.Close()
	r.backOff()
}

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 2 * time.Second
)

func (r *Reader) backOff() {
	if r.failures > 0 {
		r.retryAt = time.Now().Add(min(firstRetry<<min(r.failures-1, 10), lastRetry))
	}
	r.failures++
}

// reopen subscribes again, now or when it is time to.
func (r *Reader) reopen(ctx context.Context, now time.Time) error {
	if until := r.retryAt; now.Before(until) {
		if r.checkAt.Before(until) {
			until = r.checkAt
		}
		return sleep(ctx, until.Sub(now))
	}
	err := r.subscribe(ctx)
	switch {
	case err == nil:
		r.cfg.outage.Up()
		return nil
	case errors.Is(err, store.ErrUnavailable):
		r.backOff()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, stream.ErrClosed):
		return fmt.Errorf("reading the feed of %s: %w", r.key, err)
	}
	r.cfg.outage.Down(err)
	r.backOff()
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
