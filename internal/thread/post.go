package thread

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Reasons to reject a valid post.
var (
	ErrClosed = errors.New("the thread is closed")
	ErrFull   = fmt.Errorf("the queue is full: %d KiB wait; post again when some of it has been processed", maxQueueBytes>>10)
	ErrBusy   = errors.New("a turn is in progress and onBusy is reject")
)

// Has reports whether the thread remembers the event of a post. A post with its id and another content is an error; one without
// content only names the event.
func (in *Inbox) Has(p signals.Post) (bool, error) {
	digest, ok := in.digest(p.ID)
	if p.ID == "" || !ok {
		return false, nil
	}
	if len(p.Payload) > 0 && digest != "" && digest != digestOf(p) {
		return true, fmt.Errorf("%w: event %s", signals.ErrConflict, p.ID)
	}
	return true, nil
}

// Incoming is a valid post that was read.
type Incoming struct {
	signals.Post
	content signals.Content
}

// ReadPost validates and decodes a post. It does not read a post that was posted before.
func (s *State) ReadPost(p signals.Post) (Incoming, error) {
	if again, err := s.Inbox.Has(p); again {
		return Incoming{Post: p}, err
	}
	content, err := p.Read(s.ThreadID)
	return Incoming{p, content}, err
}

// ValidatePost reports why a post would be rejected. It changes nothing.
func (s *State) ValidatePost(p signals.Post) error {
	read, err := s.ReadPost(p)
	if err != nil {
		return err
	}
	return s.admit(read)
}

// admit reports why the thread does not take a valid post at the moment.
func (s *State) admit(p Incoming) error {
	if s.Closing != nil {
		return ErrClosed
	}
	if s.queuedBytes()+len(p.Payload)+len(p.Metadata) > maxQueueBytes {
		return ErrFull
	}
	if p.OnBusy == event.OnBusyReject && s.busy(p) && !s.Inbox.WasPosted(p.ID) {
		return ErrBusy
	}
	return nil
}

// Room returns for how many bytes of events the queue has room.
func (s *State) Room() int {
	if s.Closing != nil {
		return 0
	}
	return max(0, maxQueueBytes-s.queuedBytes())
}

// itemBytes is the approximate size of an item without its payload.
const itemBytes = 400

// queuedBytes returns the approximate size of the queue in bytes, including events still to be queued
// and the results of the turns that they belong to.
func (s *State) queuedBytes() int {
	n := len(s.Turns.Roots) * (itemBytes + maxCarriedOutcome)
	for _, q := range s.Inbox.Queue {
		n += q.bytes()
	}
	for _, t := range s.Turns.all() {
		for _, r := range t.Runs {
			for _, d := range r.Deferred {
				n += itemBytes + len(d.Event.Payload)
			}
		}
	}
	return n
}

func (q Queued) bytes() int {
	return itemBytes + len(q.User) + len(q.Item.Payload) + len(q.Item.Metadata) + len(q.Replaced) + q.Options.bytes()
}

func (o Options) bytes() int {
	n := 0
	for _, agent := range o.Agents {
		n += len(agent)
	}
	for _, tool := range o.Tools {
		n += len(tool)
	}
	return n
}

// Posted is the result of a post.
type Posted struct {
	EventID   string
	Duplicate bool

	// Interrupts is the queued message if it interrupts the turns in progress, once hooks have
	// passed it.
	Interrupts *Queued
}

// Post adds an event to the queue, unless its id was posted before. A rejected post changes
// nothing.
func (s *State) Post(now time.Time, p Incoming) (Posted, error) {
	if p.ID != "" && s.Inbox.WasPosted(p.ID) {
		return Posted{EventID: p.ID, Duplicate: true}, nil
	}
	if err := s.admit(p); err != nil {
		return Posted{}, err
	}
	q := s.newItem(now, p)
	p.ID = q.Item.ID
	if p.OnBusy == event.OnBusyInterrupt && len(s.Turns.all()) > 0 {
		// An interrupting message goes before others of the same priority.
		s.Inbox.addFirst(q)
		return Posted{EventID: p.ID, Interrupts: &q}, nil
	}
	s.Inbox.add(q)
	return Posted{EventID: p.ID}, nil
}

// Named returns the n-th post of an update with an id, if it has none. It does not depend on other posts: an update may
// come again, to a second run of its workflow task that handles more signals before.
func (s *State) Named(p signals.Post, updateID string, n int) signals.Post {
	if p.ID == "" {
		p.ID = eventID(s.Ref(), p, s.derivedID("update."+updateID, n))
	}
	return p
}

// eventID returns the id of a post that has none, from one that is unique in the thread.
func eventID(ref step.Ref, p signals.Post, id string) string {
	if p.IsEnv() {
		return signals.EventID(ref.Namespace, ref.ThreadID, id)
	}
	return id
}

// newItem returns the item of a post and remembers its id.
func (s *State) newItem(now time.Time, read Incoming) Queued {
	p := read.Post
	if p.ID == "" {
		p.ID = eventID(s.Ref(), p, s.nextID("post"))
	}
	if p.Type == "" {
		p.Type = event.TypeMessage
	}
	if p.TraceID == "" {
		p.TraceID = p.ID
	}
	if event.Background(p.Type) && p.Priority == 0 {
		p.Priority = event.BackgroundPriority
	}
	content := read.content
	if content.Env == nil {
		p.Metadata = nil // null is none
	} else {
		e := *content.Env
		e.ID, e.Metadata.TriggerSessionID = p.ID, s.ThreadID
		e.Timestamp = cmp.Or(p.Timestamp, now.UnixMilli())
		p.Timestamp, p.Metadata, content.Env = e.Timestamp, rawJSON(e.Metadata), &e
	}
	s.Inbox.rememberPosted(p.ID, digestOf(p))
	q := Queued{content: &content, OnBusy: p.OnBusy, OnWaiting: p.OnWaiting, Traceparent: p.Traceparent, Options: Options{Agents: p.Agents, Tools: p.Tools}, Item: event.Item{
		ID: p.ID, ThreadID: s.ThreadID, Type: p.Type, Payload: p.Payload, Timestamp: p.Timestamp, Metadata: p.Metadata, Status: event.ItemPending,
		Priority: p.Priority, TTL: p.TTL, TraceID: p.TraceID, ParentEventID: p.ParentEventID,
		Namespace: s.Namespace, CreatedAt: now, UpdatedAt: now,
	}}
	q.User = q.sender()
	return q
}

// PostFailed keeps a valid post that cannot be queued, and whose sender cannot be notified, as a
// failed event that can be retried. Its record has its content; the state does not.
func (s *State) PostFailed(now time.Time, p Incoming, problem error) {
	q := s.newItem(now, p)
	if s.Closing != nil {
		if s.closed {
			s.unprocessed(now, q)
			return
		}
		// The thread is about to close and ends its queued events.
		s.Inbox.add(q)
		return
	}
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemFailed, problem.Error(), now
	s.Outbox.recordIn(q.root(), recordid.Unqueued(it.ID), event.TypeUnqueued, it.TraceID, it.ID, now, event.Unqueued{Event: it, Error: it.Error})
	s.Outbox.recordIn(q.root(), recordid.Error(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: it.Error, Retryable: true})
	s.Inbox.fail(q.as(it).withoutContent())
	s.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: it.Error})
}

// maxAudit is the maximum size of the input in an audit record, in bytes.
const maxAudit = 1 << 10

// Reject adds the audit record of a signal that changed nothing.
func (s *State) Reject(now time.Time, signal string, input any, problem error) {
	raw, err := json.Marshal(input)
	if err != nil {
		raw = []byte(err.Error())
	}
	text := string(raw)
	if len(text) > maxAudit {
		text = step.Cut(text, maxAudit)
	}
	why := problem.Error()
	if len(why) > maxAudit {
		why = step.Cut(why, maxAudit)
	}
	s.record(s.nextID("rejected."+signal), event.TypeRejected, "", "", now,
		event.Rejected{Signal: signal, Problem: why, Input: text})
}

// next removes the next item from the queue: the oldest of those with the highest priority. It
// first expires the items whose TTL is over.
func (s *State) next(now time.Time) (Queued, bool) {
	best := s.pick(now)
	if best < 0 {
		return Queued{}, false
	}
	next := s.Inbox.takeAt(best)
	next.Item.Status, next.Item.UpdatedAt = event.ItemProcessing, now
	return next, true
}

// pick returns the index of the next item, or -1.
func (s *State) pick(now time.Time) int {
	s.expire(now)
	if len(s.Turns.Parked) > 0 {
		return s.Inbox.nextPassingWaiting(&s.Turns)
	}
	return s.Inbox.best(&s.Turns, everything)
}

// NextStored returns the step that loads the next item's content, if only the store has it.
func (s *State) NextStored(now time.Time) (step.Load, bool) {
	best := s.pick(now)
	if best < 0 || !s.Inbox.Queue[best].Unloaded {
		return step.Load{}, false
	}
	return step.Load{Thread: s.Ref(), EventID: s.Inbox.Queue[best].Item.ID}, true
}

// Loaded sets the content of a queued item. It ignores items that have left the queue.
func (in *Inbox) Loaded(eventID string, content step.LoadReply) {
	for i := range in.Queue {
		if q := &in.Queue[i]; q.Item.ID == eventID && q.Unloaded {
			q.Item.Payload, q.Item.Metadata, q.content, q.Unloaded = content.Payload, content.Metadata, nil, false
		}
	}
}

// NotLoaded fails a queued item whose content cannot be loaded.
func (s *State) NotLoaded(now time.Time, eventID, why string) {
	at := s.Inbox.index(eventID)
	if at < 0 {
		return
	}
	q := s.Inbox.takeAt(at)
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemFailed, step.Why(why), now
	s.Outbox.recordIn(q.root(), recordid.Error(recordid.Turn(it.ID, it.Attempt)), event.TypeError, it.TraceID, it.ID, now,
		event.Failure{EventID: it.ID, Error: it.Error, Retryable: true})
	s.Inbox.fail(q.as(it))
	s.endDropped(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: it.Error})
}

// expires returns the time at which a queued item expires. ok is false if it has no TTL.
func (q Queued) expires() (at time.Time, ok bool) {
	return q.Item.CreatedAt.Add(time.Duration(q.Item.TTL) * time.Millisecond), q.Item.TTL > 0
}

// expire removes the items whose TTL is over.
func (s *State) expire(now time.Time) {
	over := func(q Queued) bool {
		at, ok := q.expires()
		return ok && !now.Before(at)
	}
	for _, q := range s.Inbox.take(over) {
		// Its message is not stored, since agents would see it.
		it := q.Item
		detail := fmt.Sprintf("event %s waited longer than its ttl of %d ms", it.ID, it.TTL)
		s.Outbox.recordIn(q.root(), recordid.Expired(it.ID), event.TypeStatus, it.TraceID, it.ID, now, event.StatusChange{Status: string(event.ItemExpired), Detail: detail})
		s.withdraw(now, q)
		s.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnExpired, Error: detail})
		it.Status, it.Error, it.UpdatedAt = event.ItemExpired, detail, now
		s.Inbox.rememberEnded(it)
	}
	s.settleRoots(now)
}

// items returns the items of the queue, in processing order.
func (in *Inbox) items() []event.Item {
	out := make([]event.Item, 0, len(in.Queue))
	for _, q := range in.ordered() {
		out = append(out, q.Item)
	}
	return out
}

func (in *Inbox) ordered() []Queued {
	out := slices.Clone(in.Queue)
	slices.SortStableFunc(out, func(a, b Queued) int { return cmp.Compare(b.Item.Priority, a.Item.Priority) })
	return out
}

// Retry returns a failed event to the queue. Without an EventID, it is the one that failed last.
func (s *State) Retry(now time.Time, ctl signals.Control) error {
	q, ok := s.Inbox.takeFailed(ctl.EventID)
	switch {
	case ok:
		s.requeue(now, q, ctl.By)
		return nil
	case ctl.EventID == "":
		return event.FieldErrorf("eventId", "no event of this thread has failed")
	}
	return event.FieldErrorf("eventId", "no failed event %q in this thread", ctl.EventID)
}

// requeue queues an item again.
func (s *State) requeue(now time.Time, q Queued, by string) {
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemPending, "", now
	it.Attempt++
	// The TTL does not apply to a manual retry.
	it.TTL = 0
	s.Turns.forgetOutcome(it.ID)
	q = q.as(it)
	if q.Origin != nil && s.Turns.rootOf(q.Origin.Root) == nil {
		// The turn that it was part of has ended.
		q = q.onItsOwn()
	}
	s.Inbox.add(q)
	s.Outbox.recordIn(q.root(), recordid.Retried(it.ID, it.Attempt), event.TypeStatus, it.TraceID, it.ID, now,
		event.StatusChange{Status: event.StatusRetried, Detail: it.ID, By: by})
}

// onItsOwn returns the item with a turn of its own, separate from that of its root.
func (q Queued) onItsOwn() Queued {
	if q.Origin != nil {
		origin := *q.Origin
		origin.Root = q.Item.ID
		q.Origin = &origin
	}
	return q
}
