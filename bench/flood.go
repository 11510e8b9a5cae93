package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	xrate "golang.org/x/time/rate"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// floodedNamespace is the one whose threads are sent more than they can take. Its threads are on the task queue of the others.
const floodedNamespace = "flooded"

// think is how long a person reads before the next message of a chat.
const think = time.Second

// flood compares turns of chats while messages are offered to threads of another namespace with turns without that.
func (m *meter) flood(ctx context.Context) (*floodRow, error) {
	ctx, cancel := context.WithTimeout(ctx, burstWithin)
	defer cancel()
	row := &floodRow{BurstOptions: m.Burst, Flooded: m.Flooded}
	runtime, err := m.world.runtime(millQueue, threadmill.Config{Namespace: floodedNamespace})
	if err != nil {
		return nil, err
	}
	chats := make([]thread, m.Burst.Threads)
	for i := range chats {
		chats[i] = m.world.mill.thread(shapes[0], byGo)
	}
	if _, err := together(chats, 1, func(t thread) error { return t.first(ctx) }); err != nil {
		return nil, fmt.Errorf("first turn: %w", err)
	}
	quiet, err := m.beside(ctx, chats, think, func() error { return pause(ctx, time.Duration(m.Burst.Seconds)*time.Second) })
	if err != nil {
		return nil, err
	}
	f := &flooding{client: runtime.Client(), accepted: make([]atomic.Int64, m.Flooded)}
	for i := range f.accepted {
		if err := f.client.Open(ctx, floodedID(i), signals.Start{}, nil); err != nil {
			return nil, err
		}
	}
	beside, err := m.beside(ctx, chats, think, func() error { return f.offer(ctx, m.Burst) })
	if err != nil {
		return nil, err
	}
	row.Offered, row.Refused = f.offered.Load(), f.refused.Load()
	row.Quiet, row.Beside = summarize(milliseconds(quiet)), summarize(milliseconds(beside))
	row.Accepted, err = m.checkFlood(ctx, f)
	m.say("flood: %d messages offered, %d accepted, %d refused; chats: %.0f ms, p95 %.0f ms; beside it %.0f ms, p95 %.0f ms",
		row.Offered, row.Accepted, row.Refused, row.Quiet.Median, row.Quiet.P95, row.Beside.Median, row.Beside.P95)
	return row, err
}

func floodedID(i int) string { return fmt.Sprintf("flooded%d", i) }

// flooding offers messages to threads.
type flooding struct {
	client           *threadclient.Client
	offered, refused atomic.Int64
	accepted         []atomic.Int64 // by thread
}

// offer offers messages at a rate, from connections of which each waits for its answer.
func (f *flooding) offer(ctx context.Context, o BurstOptions) error {
	over, cancel := context.WithTimeout(ctx, time.Duration(o.Seconds)*time.Second)
	defer cancel()
	limit := xrate.NewLimiter(xrate.Limit(o.Rate), 1)
	errs := make([]error, o.Connections)
	var connections sync.WaitGroup
	for c := range o.Connections {
		connections.Go(func() {
			for errs[c] == nil && limit.Wait(over) == nil {
				i := int(f.offered.Add(1)) % len(f.accepted)
				_, err := f.client.Post(ctx, floodedID(i), signals.UserMessage(floodedID(i), person, "hello"))
				switch {
				case err == nil:
					f.accepted[i].Add(1)
				case errors.Is(err, signals.ErrOverloaded), errors.Is(err, signals.ErrFull):
					f.refused.Add(1)
				default:
					errs[c] = fmt.Errorf("posting to thread %d: %w", i, err)
				}
			}
		})
	}
	connections.Wait()
	return errors.Join(errs...)
}

// checkFlood waits until the threads have processed what they accepted, and checks that each of these messages is stored once.
func (m *meter) checkFlood(ctx context.Context, f *flooding) (accepted int64, err error) {
	for i := range f.accepted {
		if err := awaitIdle(ctx, f.client, floodedID(i)); err != nil {
			return 0, err
		}
		stored := int64(0)
		for q := (store.Query{Types: []string{event.TypeMessage}}); ; {
			records, err := m.world.store.Records(ctx, store.Key{Namespace: floodedNamespace, ThreadID: floodedID(i)}, q)
			if err != nil {
				return 0, err
			}
			for _, r := range records {
				q.After = r.Seq
				var message event.Message
				if err := json.Unmarshal(r.Payload, &message); err != nil {
					return 0, fmt.Errorf("record %s: %w", r.ID, err)
				}
				if message.SenderType == event.CreatedByUser {
					stored++
				}
			}
			if q.Complete(records) {
				break
			}
		}
		if want := f.accepted[i].Load(); stored != want {
			return 0, fmt.Errorf("thread %d has stored %d of %d messages", i, stored, want)
		}
		accepted += stored
	}
	return accepted, nil
}
