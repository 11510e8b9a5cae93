package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// recent is the number of messages before the cursor that a resuming reader knows as finished.
const recent = 100

// delivered are the newest messages of a thread up to a record, newest first.
type delivered struct {
	seq      int64
	subjects []subject
}

// keptDelivered is the number of threads of which a [Feed] keeps the newest messages: many viewers connect to the same thread.
const keptDelivered = 256

// noteDelivered marks the messages just before the position as finished.
func (r *Reader) noteDelivered(ctx context.Context) error {
	if r.at.seq == 0 || r.fresh {
		return nil
	}
	known, _ := r.cfg.delivered.Get(r.key)
	if known.seq > r.at.seq {
		known = delivered{}
	}
	var newest []subject
	q := store.Query{After: known.seq, Before: r.at.seq + 1, Types: []string{event.TypeMessage}, Newest: true, MaxBytes: readBytes}
	for known.seq < r.at.seq {
		q.Limit = recent - len(newest)
		records, err := r.cfg.Store.Records(ctx, r.key, q)
		if err != nil {
			return err
		}
		for _, rec := range records {
			e := finished(rec)
			newest = append(newest, subjectOf(&e))
			q.Before = rec.Seq
		}
		if len(newest) == recent || q.Complete(records) {
			break
		}
	}
	newest = append(newest, known.subjects...)
	newest = newest[:min(len(newest), recent)]
	r.cfg.delivered.Add(r.key, delivered{r.at.seq, newest})
	for _, id := range slices.Backward(newest) {
		r.pieces.finishSubject(id)
	}
	return nil
}

// noteStored marks messages that are stored but not delivered yet as finished: they arrive whole.
func (r *Reader) noteStored(ctx context.Context) error {
	head := r.tail.head
	for after := r.at.seq; after < head; {
		q := store.Query{After: after, Before: head + 1, Types: []string{event.TypeMessage}, MaxBytes: readBytes}
		records, err := r.cfg.Store.Records(ctx, r.key, q)
		if err != nil {
			return fmt.Errorf("reading the messages of %s after %d: %w", r.key, after, err)
		}
		for _, rec := range records {
			e := finished(rec)
			r.pieces.finish(&e)
		}
		if q.Complete(records) {
			return nil
		}
		after = records[len(records)-1].Seq
	}
	return nil
}

// finished returns the input of [pieces.finish] for the record of a message, even if viewers do not
// see it.
func finished(rec event.Record) event.AgentEvent {
	var m event.Message
	if json.Unmarshal(rec.Payload, &m) != nil {
		return event.AgentEvent{}
	}
	e := messageEvent(m)
	return event.AgentEvent{Type: e.Type, MessageID: strings.Clone(e.MessageID), ToolCallID: strings.Clone(e.ToolCallID)}
}

// noteAttempts reads the log up to the reader's position to learn the attempts so far. Unreadable
// entries are skipped: pieces carry their attempt.
func (r *Reader) noteAttempts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Grace)
	defer cancel()
	sub, err := r.cfg.Stream.Subscribe(ctx, r.key, stream.From{})
	if err != nil {
		return
	}
	defer sub.Close()
	for end := min(r.at.offset, sub.Start().Last); end > 0; {
		e, err := sub.Next(ctx)
		if err != nil || e.Offset > end {
			return
		}
		if e.Event != nil {
			r.pieces.note(e.Event)
		}
		if e.Offset == end {
			return
		}
	}
}

// lookUp reads what must be known before an item is delivered.
func (r *Reader) lookUp(ctx context.Context, want lookup) error {
	if r.pieces.unknown != want {
		return nil
	}
	switch want {
	case storedMessages:
		if err := r.noteStored(ctx); err != nil {
			return err
		}
	case earlierAttempts:
		r.noteAttempts(ctx)
	case nothing:
	}
	r.pieces.unknown = nothing
	return nil
}
