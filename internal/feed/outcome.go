package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Threads posts events to the threads of a namespace, and waits for turns, as a threadclient.Client does.
type Threads interface {
	Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error)
	Turn(ctx context.Context, threadID string, p signals.Post) (signals.TurnResult, error)
	Running(ctx context.Context, threadID string) error
}

// PostAndWait posts an event and waits for the end of its turn. The feed tells of the end, which costs the thread nothing. A thread that had
// the event before is asked, since the turn may have ended. kept is set if the thread has the event, whatever the error.
func (f *Feed) PostAndWait(ctx context.Context, threads Threads, key store.Key, p signals.Post) (out signals.TurnResult, kept bool, err error) {
	r, err := f.Open(ctx, key, From{Now: true, Whole: true})
	if err != nil {
		return out, false, err
	}
	defer r.Close()
	posted, err := threads.Post(ctx, key.ThreadID, p)
	if err != nil {
		return out, false, err
	}
	if posted.Status != signals.PostDuplicate {
		var end *event.Record
		err = r.Follow(ctx, func(item Item) bool {
			if item.EndsTurnOf(posted.EventID) {
				end = item.Record
			}
			return end != nil
		}, func() error { return threads.Running(ctx, key.ThreadID) })
		if err == nil {
			out, err = f.Outcome(ctx, key, posted.EventID, *end)
		}
		if err == nil || ctx.Err() != nil {
			return out, true, err
		}
	}
	out, err = threads.Turn(ctx, key.ThreadID, p)
	return out, true, err
}

// The pauses of [Reader.Follow] while the store does not answer.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Follow takes one item after the other, until take returns true, the feed ends, or ctx does. It goes on through an outage of the
// store. It calls idle once in every heartbeat interval without items, and ends if that says that the thread is gone.
func (r *Reader) Follow(ctx context.Context, take func(Item) bool, idle func() error) error {
	for pause := firstPause; ; {
		item, err := r.Next(ctx)
		switch {
		case err == nil:
			if take(item) {
				return nil
			}
			pause = firstPause
		case errors.Is(err, ErrIdle):
			if err := idle(); signals.Gone(err) {
				return err
			}
		case errors.Is(err, io.EOF), errors.Is(err, stream.ErrClosed), ctx.Err() != nil:
			return err
		default:
			// The reader keeps its position.
			r.cfg.Logger.Warn("reading a thread's feed", "thread", r.key.ThreadID, "error", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// EndsTurnOf reports whether the item is the end of the turn of an event, or of the turn that the event has joined. It looks at the
// record, since a view may hide the agent event.
func (i *Item) EndsTurnOf(eventID string) bool {
	if i.Record == nil || i.Record.Type != event.TypeTurnEnded {
		return false
	}
	var e event.TurnEnded
	return json.Unmarshal(i.Record.Payload, &e) == nil && (e.EventID == eventID || slices.Contains(e.Joined, eventID))
}

// Outcome returns the result of the turn of an event from the record of its end.
func (f *Feed) Outcome(ctx context.Context, key store.Key, eventID string, end event.Record) (signals.TurnResult, error) {
	var e event.TurnEnded
	if err := json.Unmarshal(end.Payload, &e); err != nil {
		return signals.TurnResult{}, fmt.Errorf("reading the end of the turn of event %s in %s: %w", eventID, key, err)
	}
	out := signals.TurnResult{EventID: eventID, Status: signals.TurnStatus(e.Status), Error: e.Error, Class: e.Class, Rule: e.Rule, LastRecord: end.ID}
	for _, id := range e.Replies {
		m, err := transcript.MessageByID(ctx, f.cfg.Store, key, id)
		switch {
		case errors.Is(err, store.ErrNotFound): // a processor answered with a message that is not stored
			continue
		case err != nil:
			return signals.TurnResult{}, fmt.Errorf("reading the reply to event %s in %s: %w", eventID, key, err)
		case m.Hidden:
			continue
		}
		out.Replies = append(out.Replies, m.Message)
	}
	switch n := len(out.Replies); n {
	case 0:
	case 1:
		out.Message, out.Replies = &out.Replies[0], nil
	default:
		out.Message = &out.Replies[n-1]
	}
	return out, nil
}
