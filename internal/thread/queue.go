package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// QueueView is the answer to query "queue".
func (s *State) QueueView() signals.Queue {
	q := signals.Queue{Items: s.Ordered(), Failed: s.failed(), Ended: append([]event.Item{}, s.Ended...)}
	if turns := s.turns(); len(turns) > 0 {
		q.Processing = &turns[0].Item
	}
	for _, t := range s.Parked {
		if q.Processing != &t.Item {
			q.Waiting = append(q.Waiting, t.Item)
		}
	}
	return q
}

func (s *State) failed() []event.Item {
	out := make([]event.Item, len(s.Failed))
	for i, f := range s.Failed {
		out[i] = f.Item
	}
	return out
}

// end remembers an item that is done with, without what it carried.
func (s *State) end(it event.Item) {
	it.Payload, it.Metadata = nil, nil
	s.Ended = slices.DeleteFunc(s.Ended, func(e event.Item) bool { return e.ID == it.ID })
	s.Ended = keepLast(append(s.Ended, it), maxEnded)
}

// CheckSetStatus reports why a change of status would be refused.
func (s *State) CheckSetStatus(c signals.SetStatus) error {
	if err := signals.CheckSetStatus(c); err != nil {
		return err
	}
	if s.Closing != nil {
		return ErrClosed
	}
	switch c.Status {
	case event.Pending, event.Completed, event.Failed, event.Expired, event.Overwritten:
	case event.Processing:
		return &event.FieldError{Field: "status", Problem: "cannot be set to processing: the thread takes events on by itself"}
	default:
		return &event.FieldError{Field: "status", Problem: fmt.Sprintf("%q is not one of pending, completed, failed, expired, overwritten", c.Status)}
	}
	it, ok := s.QueueView().Find(c.EventID)
	switch {
	case !ok:
		return &event.FieldError{Field: "eventId", Problem: fmt.Sprintf("%q is neither queued nor among the events that ended last; if it ever came, its records are in the store", c.EventID)}
	case it.Status == c.Status:
		return &event.FieldError{Field: "status", Problem: fmt.Sprintf("of event %q is %s already", c.EventID, c.Status)}
	case it.Status != event.Pending && it.Status != event.Processing && it.Status != event.Failed:
		return &event.FieldError{Field: "status", Problem: fmt.Sprintf("of event %q is %s: it is done with; post it anew under another id", c.EventID, it.Status)}
	}
	return nil
}

// SetStatus changes the status of a queued event by hand. It reports whether the turn
// in progress has to end for that.
func (s *State) SetStatus(now time.Time, c signals.SetStatus) (it event.Item, interrupt bool, err error) {
	if err := s.CheckSetStatus(c); err != nil {
		return event.Item{}, false, err
	}
	for _, t := range s.turns() {
		if t.Item.ID == c.EventID {
			t.SetStatus = &c
			it = t.Item
			it.Status = c.Status
			return it, true, nil
		}
	}
	for i, f := range s.Failed {
		if f.ID != c.EventID {
			continue
		}
		if c.Status == event.Pending {
			err := s.Retry(now, signals.Control{Action: signals.ControlRetry, EventID: c.EventID, By: c.By})
			it, _ = s.QueueView().Find(c.EventID)
			return it, false, err
		}
		s.Failed = slices.Delete(s.Failed, i, i+1)
		return s.put(now, f.queued(), c), false, nil
	}
	for i, q := range s.Queue {
		if q.Item.ID == c.EventID {
			s.Queue = slices.Delete(s.Queue, i, i+1)
			it = s.put(now, q, c)
			s.dropped(now, q, signals.TurnResult{EventID: it.ID, Status: turnStatus(c.Status), Error: it.Error})
			return it, false, nil
		}
	}
	return event.Item{}, false, &event.FieldError{Field: "eventId", Problem: "is not known"}
}

// setEnd gives the item of a turn that was ended by hand the status that it shall have.
func (s *State) setEnd(now time.Time, t *Turn, it event.Item) {
	if t.SetStatus.Status != event.Pending {
		s.put(now, t.queued(it), *t.SetStatus)
		return
	}
	s.again(now, t.queued(it), t.SetStatus.By)
}

// put gives an item that is not processed any further its status.
func (s *State) put(now time.Time, q Queued, c signals.SetStatus) event.Item {
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = c.Status, c.Reason, now
	// It may not have been recorded yet; what was is not recorded twice.
	s.recordItem(now, q.as(it))
	s.recordIn(q.root(), event.StatusSetID(it.ID, s.newID(now)), event.TypeStatus, it.TraceID, it.ID, now,
		event.StatusChange{Status: string(c.Status), Detail: it.ID, By: c.By})
	if q.Hooked && (c.Status == event.Overwritten || c.Status == event.Expired) {
		s.record(event.WithdrawalID(it.ID), event.TypeHook, it.TraceID, it.ID, now,
			event.Interception{EventID: it.ID, EventType: it.Type, Outcome: event.Withdrawn, Hooks: []event.HookOutcome{}})
	}
	if c.Status == event.Failed {
		s.Failed = keepFailed(append(s.Failed, q.as(it).failed()))
		return it
	}
	s.end(it)
	return it
}

// dropped ends an event that was taken out of the queue. One that was to be processed
// again may still have something to wait for.
func (s *State) dropped(now time.Time, q Queued, out signals.TurnResult) {
	if root := s.rootOf(out.EventID); root != nil {
		root.Result = out
	} else {
		s.overUnprocessed(now, q, out)
	}
	s.settleRoots(now)
}

// turnStatus is what those are told who wait for the turn of an event that never had one.
func turnStatus(st event.Status) signals.TurnStatus {
	switch st {
	case event.Failed:
		return signals.TurnFailed
	case event.Expired:
		return signals.TurnExpired
	case event.Completed, event.Overwritten:
		return signals.TurnCompleted
	case event.Pending, event.Processing:
	}
	return signals.TurnInterrupted
}

// Cancel takes an event that waits out of the queue or, if that has had its turn, what
// hooks and processors have made of it. It reports whether there was any of that.
func (s *State) Cancel(now time.Time, ctl signals.Control) bool {
	waits := slices.ContainsFunc(s.Queue, func(q Queued) bool { return q.Item.ID == ctl.EventID })
	var taken []Queued
	s.Queue = slices.DeleteFunc(s.Queue, func(q Queued) bool {
		meant := q.Item.ID == ctl.EventID || !waits && q.holds(ctl.EventID)
		if meant {
			taken = append(taken, q)
		}
		return meant
	})
	if q, held := s.cancelHeld(ctl.EventID); held {
		s.forget(q.Item.ID)
		taken = append(taken, q)
	}
	const why = "it was interrupted before its turn came"
	if root := s.rootOf(ctl.EventID); root != nil && !waits && len(taken) > 0 {
		root.join(signals.TurnResult{Status: signals.TurnInterrupted, Error: why})
	}
	for _, q := range taken {
		it := q.Item
		it.Status, it.UpdatedAt, it.Error = event.Completed, now, why
		s.recordItem(now, q)
		s.recordIn(q.root(), event.InterruptedID(it.ID), event.TypeStatus, it.TraceID, it.ID, now,
			event.StatusChange{Status: event.StatusInterrupted, By: ctl.By, Detail: ctl.Reason})
		s.end(it)
		s.dropped(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: it.Error})
	}
	return len(taken) > 0
}

// CancelMade takes out of the queue what hooks and processors have made of the events that
// the turns in progress are about, as far as they are meant.
func (s *State) CancelMade(now time.Time, ctl signals.Control) {
	for _, t := range s.turns() {
		if ctl.EventID == "" || t.has(ctl.EventID) {
			made := ctl
			made.EventID = t.root()
			s.Cancel(now, made)
		}
	}
}

// InTurn reports whether an event is what a turn in progress is about, or joins it.
func (s *State) InTurn(eventID string) bool {
	return slices.ContainsFunc(s.turns(), func(t *Turn) bool { return t.has(eventID) })
}
