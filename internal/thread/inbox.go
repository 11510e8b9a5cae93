package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// Inbox contains the posted events: those that are queued, and those that the thread remembers.
type Inbox struct {
	// Queue contains the pending items, in order of arrival.
	Queue []Queued `json:"queue,omitempty"`

	// Debounced are the events that rules debounce.
	Debounced []Debounced `json:"debounced,omitempty"`

	// Failed are the items that can be retried, oldest first. Ended are the last items that ended,
	// without payloads.
	Failed []Queued     `json:"failed,omitempty"`
	Ended  []event.Item `json:"ended,omitempty"`

	// Posted are the last posted events; posted has their digests by id.
	Posted []PostedEvent `json:"postedIds,omitempty"`
	posted map[string]string
}

// Queued is an item in the queue.
type Queued struct {
	Item   event.Item   `json:"item"`
	OnBusy event.OnBusy `json:"onBusy,omitempty"`

	// OnWaiting is the post's setting for turns that wait for people.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Options

	// User is the person who sent the item or, of a derived item, for whom it was derived. Empty if
	// no person did. In a turn, it is the last person whose message has joined. Hooks cannot change
	// it.
	User string `json:"user,omitempty"`

	// Traceparent is the trace context of the item's post. It is for spans only.
	Traceparent string `json:"traceparent,omitempty"`

	// Origin is set if hooks or processors derived the item.
	Origin *Origin `json:"origin,omitempty"`

	// Hooked means that hooks have already decided on the item. Replaced is the event with which
	// they replaced it.
	Hooked   bool            `json:"hooked,omitempty"`
	Replaced json.RawMessage `json:"replaced,omitempty"`

	// Stored means that the item's record may be in the store, so it cannot be changed.
	Stored bool `json:"stored,omitempty"`

	content *signals.Content // as read when it was posted; nil = not read yet in this run
}

// read returns the item's content, which was validated when it was posted. It decodes it if the item
// is one of an earlier run, or was derived from another.
func (q *Queued) read() signals.Content {
	if q.content == nil {
		q.content = &signals.Content{}
		if q.Item.Type == event.TypeMessage {
			q.content.Message = &event.NewMessage{}
			_ = json.Unmarshal(q.Item.Payload, q.content.Message)
		} else if e, ok := q.Item.Env(); ok {
			q.content.Env = &e
		}
	}
	return *q.content
}

// fromUser reports whether the item is a message of a user.
func (q *Queued) fromUser() bool {
	m := q.read().Message
	return m != nil && m.SenderType == event.CreatedByUser
}

// root returns the posted event that a queued item follows from.
func (q Queued) root() string {
	if q.Origin != nil {
		return q.Origin.Root
	}
	return q.Item.ID
}

// as returns a copy with another item.
func (q Queued) as(it event.Item) Queued {
	q.Item = it
	return q
}

// Options are the settings of a post for its turn.
type Options struct {
	// Agents answer instead of those that the message addresses. Empty = the thread's routing.
	Agents []string `json:"agents,omitempty"`

	// Tools restricts the tools that agents may call. Nil = no restriction.
	Tools []string `json:"tools,omitzero"`

	// Released is set if a rule has debounced or throttled the event.
	Released *Released `json:"released,omitempty"`

	// Rule is the name of the rule that handles the event, also in a retry.
	Rule string `json:"rule,omitempty"`

	// Recorded means that the event already has its record.
	Recorded bool `json:"recorded,omitempty"`

	// Unloaded means that only the store has the event's content. It is loaded before the event's
	// turn.
	Unloaded bool `json:"unloaded,omitempty"`
}

// Queue returns the result of query "queue".
func (s *State) Queue() signals.Queue {
	q := signals.Queue{Items: s.Inbox.items(), Failed: s.Inbox.failed(), Ended: append([]event.Item{}, s.Inbox.Ended...)}
	if turns := s.Turns.all(); len(turns) > 0 {
		q.Processing = &turns[0].Item
	}
	for _, t := range s.Turns.Parked {
		if q.Processing != &t.Item {
			it := t.Item
			it.Status = event.ItemPending
			q.Waiting = append(q.Waiting, it)
		}
	}
	return q
}

// fail keeps an item that can be retried. If the failed items are too large, the oldest lose their
// content, which the store has; if there are too many, the oldest are removed.
func (in *Inbox) fail(q Queued) {
	q.OnBusy, q.OnWaiting = "", ""
	items := keepLast(append(in.Failed, q), maxFailed)
	size := 0
	for _, it := range items {
		size += it.bytes() + len(it.Item.Error)
	}
	for i := 0; size > maxFailedBytes && i < len(items)-1; i++ {
		size -= len(items[i].Item.Payload) + len(items[i].Item.Metadata)
		items[i] = items[i].withoutContent()
	}
	for size > maxFailedBytes && len(items) > 1 {
		size -= items[0].bytes() + len(items[0].Item.Error)
		items = items[1:]
	}
	in.Failed = items
}

// withoutContent returns the item without its content, which the store has.
func (q Queued) withoutContent() Queued {
	q.Item.Payload, q.Item.Metadata, q.content, q.Unloaded = nil, nil, nil, true
	return q
}

func (in *Inbox) failed() []event.Item {
	out := make([]event.Item, len(in.Failed))
	for i, f := range in.Failed {
		out[i] = f.Item
	}
	return out
}

// rememberEnded keeps an item that ended, without its content.
func (in *Inbox) rememberEnded(it event.Item) {
	it.Payload, it.Metadata = nil, nil
	in.forgetEnded(it.ID)
	in.Ended = keepLast(append(in.Ended, it), maxEnded)
}

// ValidateSetStatus reports why a change of status is invalid.
func (s *State) ValidateSetStatus(c signals.SetStatus) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if s.Closing != nil {
		return ErrClosed
	}
	switch c.Status {
	case event.ItemPending, event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten:
	case event.ItemProcessing:
		return event.FieldErrorf("status", "cannot be set to processing: the thread starts events itself")
	default:
		return event.FieldErrorf("status", "%q is not one of pending, completed, failed, expired, overwritten", c.Status)
	}
	it, ok := s.Queue().Find(c.EventID)
	if slices.ContainsFunc(s.Turns.all(), func(t *Turn) bool { return t.Item.ID == c.EventID }) {
		it.Status = event.ItemProcessing
	}
	switch {
	case !ok:
		return event.FieldErrorf("eventId", "%q is neither queued nor a recently ended event; records of older events are in the store", c.EventID)
	case c.Priority != nil && it.Status == event.ItemProcessing:
		return event.FieldErrorf("priority", "of event %q cannot change: it is being processed", c.EventID)
	case it.Status == c.Status && c.Priority == nil && c.Content == "":
		return event.FieldErrorf("status", "of event %q is %s already", c.EventID, c.Status)
	case it.Status != event.ItemPending && it.Status != event.ItemProcessing && it.Status != event.ItemFailed:
		return event.FieldErrorf("status", "of event %q is %s: it has ended; post it again under another id", c.EventID, it.Status)
	case c.Content != "":
		_, err := s.edited(c)
		return err
	}
	return nil
}

// SetStatus sets the status of a queued event by hand. It reports whether the current turn must be
// interrupted.
func (s *State) SetStatus(now time.Time, c signals.SetStatus) (it event.Item, interrupt bool, err error) {
	if err := s.ValidateSetStatus(c); err != nil {
		return event.Item{}, false, err
	}
	for _, t := range s.Turns.all() {
		if t.Item.ID == c.EventID {
			t.SetStatus = &c
			it = t.Item
			it.Status = c.Status
			return it, true, nil
		}
	}
	for i, f := range s.Inbox.Failed {
		if f.Item.ID != c.EventID {
			continue
		}
		if c.Status == event.ItemPending {
			if c.Priority != nil {
				s.Inbox.Failed[i].Item.Priority = *c.Priority
			}
			err := s.Retry(now, signals.Control{Action: signals.ControlRetry, EventID: c.EventID, By: c.By})
			it, _ = s.Queue().Find(c.EventID)
			return it, false, err
		}
		s.Inbox.takeFailed(c.EventID)
		return s.setStatusOf(now, f, c), false, nil
	}
	for i, q := range s.Inbox.Queue {
		if q.Item.ID == c.EventID {
			if c.Status == event.ItemPending {
				it, err = s.change(now, c)
				return it, false, err
			}
			s.Inbox.takeAt(i)
			it = s.setStatusOf(now, q, c)
			s.endDropped(now, q, signals.TurnResult{EventID: it.ID, Status: turnStatus(c.Status), Error: it.Error})
			return it, false, nil
		}
	}
	return event.Item{}, false, event.FieldErrorf("eventId", "is not known")
}

// change gives an event that waits another text, another priority, or both.
func (s *State) change(now time.Time, c signals.SetStatus) (event.Item, error) {
	if c.Content != "" {
		if err := s.edit(now, c); err != nil {
			return event.Item{}, err
		}
	}
	q := s.Inbox.find(c.EventID)
	if c.Priority == nil {
		return q.Item, nil
	}
	q.Item.Priority, q.Item.UpdatedAt = *c.Priority, now
	s.Outbox.recordIn(q.root(), recordid.StatusSet(q.Item.ID, s.nextID("status")), event.TypeStatus, q.Item.TraceID, q.Item.ID, now,
		event.StatusChange{Status: string(event.ItemPending), Detail: fmt.Sprintf("priority %d", q.Item.Priority), By: c.By})
	return q.Item, nil
}

// setStatusOf sets the status of an item that is not processed any further.
func (s *State) setStatusOf(now time.Time, q Queued, c signals.SetStatus) event.Item {
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = c.Status, c.Reason, now
	// Record the item in case its turn has never started.
	s.recordItem(now, q.as(it))
	s.Outbox.recordIn(q.root(), recordid.StatusSet(it.ID, s.nextID("status")), event.TypeStatus, it.TraceID, it.ID, now,
		event.StatusChange{Status: string(c.Status), Detail: it.ID, By: c.By})
	if c.Status == event.ItemOverwritten || c.Status == event.ItemExpired {
		s.withdraw(now, q)
	}
	if c.Status == event.ItemFailed {
		s.Inbox.fail(q.as(it))
		return it
	}
	s.Inbox.rememberEnded(it)
	return it
}

// withdraw hides the message of an item that hooks have passed.
func (s *State) withdraw(now time.Time, q Queued) {
	if it := q.Item; q.Hooked {
		s.record(recordid.Withdrawal(it.ID), event.TypeHook, it.TraceID, it.ID, now,
			event.Interception{EventID: it.ID, EventType: it.Type, Outcome: event.OutcomeWithdrawn, Hooks: []event.HookOutcome{}})
	}
}

// endDropped ends an event that was removed from the queue. If it was to be processed again, its
// derived events may still be pending.
func (s *State) endDropped(now time.Time, q Queued, out signals.TurnResult) {
	if root := s.Turns.rootOf(out.EventID); root != nil {
		root.Result = out
	} else {
		s.announceUnprocessed(now, q, out)
	}
	s.settleRoots(now)
}

// turnStatus returns the turn status of an event that ended without a turn.
func turnStatus(st event.ItemStatus) signals.TurnStatus {
	switch st {
	case event.ItemFailed:
		return signals.TurnFailed
	case event.ItemExpired:
		return signals.TurnExpired
	case event.ItemCompleted, event.ItemOverwritten:
		return signals.TurnCompleted
	case event.ItemPending, event.ItemProcessing:
	}
	return signals.TurnInterrupted
}

// CancelEvent removes an event from the queue and, if it was already processed, the events derived from
// it. It reports whether it removed anything.
func (s *State) CancelEvent(now time.Time, ctl signals.Control) bool {
	waits := s.Inbox.find(ctl.EventID) != nil
	taken := s.Inbox.take(func(q Queued) bool { return q.Item.ID == ctl.EventID || !waits && q.holds(ctl.EventID) })
	if q, held := s.Inbox.cancelDebounced(ctl.EventID); held {
		s.Turns.forgetOutcome(q.Item.ID)
		taken = append(taken, q)
	}
	const why = "it was interrupted before its turn came"
	if root := s.Turns.rootOf(ctl.EventID); root != nil && !waits && len(taken) > 0 {
		root.join(signals.TurnResult{Status: signals.TurnInterrupted, Error: why})
	}
	for _, q := range taken {
		it := q.Item
		it.Status, it.UpdatedAt, it.Error = event.ItemCompleted, now, why
		s.recordItem(now, q)
		s.Outbox.recordIn(q.root(), recordid.Interrupted(it.ID), event.TypeStatus, it.TraceID, it.ID, now,
			event.StatusChange{Status: event.StatusInterrupted, By: ctl.By, Detail: ctl.Reason})
		s.Inbox.rememberEnded(it)
		s.endDropped(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: it.Error})
	}
	return len(taken) > 0
}

// CancelDerived removes from the queue the events derived from those of the turns that ctl interrupts.
func (s *State) CancelDerived(now time.Time, ctl signals.Control) {
	for _, t := range s.Turns.all() {
		if ctl.EventID == "" || t.has(ctl.EventID) {
			made := ctl
			made.EventID = t.root()
			s.CancelEvent(now, made)
		}
	}
}

// WasPosted reports whether the thread remembers an event with this id.
func (in *Inbox) WasPosted(id string) bool {
	_, ok := in.digest(id)
	return ok
}

// digest returns the digest of a posted event, or "" if it is not known.
func (in *Inbox) digest(id string) (digest string, posted bool) {
	if in.posted == nil {
		in.posted = make(map[string]string, len(in.Posted))
		for _, known := range in.Posted {
			in.posted[known.ID] = known.Digest
		}
	}
	digest, posted = in.posted[id]
	return digest, posted
}

// rememberPosted adds an event to the posted events. The digest is "" if nobody may post the event again.
func (in *Inbox) rememberPosted(id, digest string) {
	if in.WasPosted(id) {
		return
	}
	in.posted[id] = digest
	in.Posted = append(in.Posted, PostedEvent{id, digest})
	if n := len(in.Posted) - maxPostedIDs; n > 0 {
		delete(in.posted, in.Posted[0].ID)
		in.Posted = in.Posted[n:]
	}
}

// shownWait is the shortest wait in the queue that the record of a message tells.
const shownWait = time.Second

// recordItem adds the record of an item, before hooks decide on it, unless it was added before.
func (s *State) recordItem(now time.Time, q Queued) {
	if !q.Unloaded && !(q.Stored && q.Item.Attempt == 0) {
		s.recordItemIn(now, q.root(), &q)
	}
}

func (s *State) recordItemIn(now time.Time, eventID string, q *Queued) {
	it := q.Item
	switch read := q.read(); {
	case read.Message != nil:
		m := q.message()
		if it.Attempt == 0 && now.Sub(it.CreatedAt) >= shownWait { // a retry has waited since its failure
			m.PostedAt = it.CreatedAt
		}
		s.Outbox.recordUndecided(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, m)
	case read.Env != nil:
		s.Outbox.recordUndecided(eventID, it.ID, event.TypeEnv, it.TraceID, it.ParentEventID, now, *read.Env)
	default:
		s.Outbox.recordIn(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, it.Payload)
	}
}

// unprocessed fails an event that was never processed. Its record has its content.
func (s *State) unprocessed(now time.Time, q Queued) {
	const why = "the thread was closed before its turn came"
	s.recordItem(now, q)
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemFailed, why, now
	s.Inbox.fail(q.as(it).withoutContent())
	s.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: why})
}
