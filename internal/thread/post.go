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

// Incoming is a valid post that was read.
type Incoming struct {
	signals.Post
	content signals.Content
}

// Read validates and decodes a post. It does not read a post whose id was posted before: only the id
// of such a duplicate matters.
func (in *Inbox) Read(p signals.Post) (Incoming, error) {
	if p.ID != "" && in.WasPosted(p.ID) {
		return Incoming{Post: p}, nil
	}
	content, err := p.Read(in.thread.ThreadID)
	return Incoming{p, content}, err
}

// ValidatePost reports why a post would be rejected. It changes nothing.
func (in *Inbox) ValidatePost(p signals.Post) error {
	read, err := in.Read(p)
	if err != nil {
		return err
	}
	return in.admit(read)
}

// admit reports why the thread does not take a valid post at the moment.
func (in *Inbox) admit(p Incoming) error {
	s := in.thread
	if s.Closing != nil {
		return ErrClosed
	}
	if in.queued()+len(p.Payload)+len(p.Metadata) > maxQueueBytes {
		return ErrFull
	}
	if p.OnBusy == event.OnBusyReject && in.busy(p) && !in.WasPosted(p.ID) {
		return ErrBusy
	}
	return nil
}

// itemBytes is the approximate size of an item without its payload.
const itemBytes = 400

// queued returns the approximate size of the queue in bytes, including events still to be queued
// and the results of the turns that they belong to.
func (in *Inbox) queued() int {
	s := in.thread
	n := len(s.Turns.Roots) * (itemBytes + maxCarriedOutcome)
	for _, q := range in.Queue {
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
	if o.Tools != nil {
		for _, tool := range *o.Tools {
			n += len(tool)
		}
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
func (in *Inbox) Post(now time.Time, p Incoming) (Posted, error) {
	s := in.thread
	if p.ID != "" && in.WasPosted(p.ID) {
		return Posted{EventID: p.ID, Duplicate: true}, nil
	}
	if err := in.admit(p); err != nil {
		return Posted{}, err
	}
	q := in.queue(now, p)
	p.ID = q.Item.ID
	if p.OnBusy == event.OnBusyInterrupt && len(s.Turns.all()) > 0 {
		// An interrupting message goes before others of the same priority.
		in.Queue = append([]Queued{q}, in.Queue...)
		return Posted{EventID: p.ID, Interrupts: &q}, nil
	}
	in.Queue = append(in.Queue, q)
	return Posted{EventID: p.ID}, nil
}

// queue returns the item of a post and remembers its id.
func (in *Inbox) queue(now time.Time, read Incoming) Queued {
	s, p := in.thread, read.Post
	if p.ID == "" {
		p.ID = s.nextID("post")
		if p.IsEnv() {
			p.ID = signals.EventID(s.Namespace, s.ThreadID, p.ID)
		}
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
	if content.Env != nil {
		e := *content.Env
		e.ID, e.Metadata.TriggerSessionID = p.ID, s.ThreadID
		e.Timestamp = cmp.Or(p.Timestamp, now.UnixMilli())
		p.Timestamp, p.Metadata, content.Env = e.Timestamp, rawJSON(e.Metadata), &e
	}
	in.rememberPosted(p.ID)
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
func (in *Inbox) PostFailed(now time.Time, p Incoming, problem error) {
	s := in.thread
	q := in.queue(now, p)
	if s.Closing != nil {
		if s.closed {
			in.unprocessed(now, q)
			return
		}
		// The thread is about to close and ends its queued events.
		in.Queue = append(in.Queue, q)
		return
	}
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemFailed, problem.Error(), now
	s.Outbox.recordIn(q.root(), recordid.Unqueued(it.ID), event.TypeUnqueued, it.TraceID, it.ID, now, event.Unqueued{Event: it, Error: it.Error})
	s.Outbox.recordIn(q.root(), recordid.Error(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: it.Error, Retryable: true})
	in.fail(q.as(it).withoutContent())
	s.Turns.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: it.Error})
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

// Next removes the next item from the queue: the oldest of those with the highest priority. It
// first expires the items whose TTL is over.
func (in *Inbox) Next(now time.Time) (Queued, bool) {
	best := in.pick(now)
	if best < 0 {
		return Queued{}, false
	}
	next := in.Queue[best]
	if best == 0 {
		in.Queue[0] = Queued{}
		in.Queue = in.Queue[1:]
	} else {
		in.Queue = slices.Delete(in.Queue, best, best+1)
	}
	next.Item.Status, next.Item.UpdatedAt = event.ItemProcessing, now
	return next, true
}

// pick returns the index of the next item, or -1.
func (in *Inbox) pick(now time.Time) int {
	s := in.thread
	in.expire(now)
	if len(s.Turns.Parked) > 0 {
		return in.nextPassingWaiting()
	}
	return in.best(everything)
}

// NextStored returns the step that loads the next item's content, if only the store has it.
func (in *Inbox) NextStored(now time.Time) (step.Load, bool) {
	s := in.thread
	best := in.pick(now)
	if best < 0 || !in.Queue[best].Unloaded {
		return step.Load{}, false
	}
	return step.Load{Thread: s.Ref(), EventID: in.Queue[best].Item.ID}, true
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
func (in *Inbox) NotLoaded(now time.Time, eventID, why string) {
	s := in.thread
	for i, q := range in.Queue {
		if q.Item.ID != eventID {
			continue
		}
		in.Queue = slices.Delete(in.Queue, i, i+1)
		it := q.Item
		it.Status, it.Error, it.UpdatedAt = event.ItemFailed, step.Why(why), now
		s.Outbox.recordIn(q.root(), recordid.Error(recordid.Turn(it.ID, it.Attempt)), event.TypeError, it.TraceID, it.ID, now,
			event.Failure{EventID: it.ID, Error: it.Error, Retryable: true})
		in.fail(q.as(it))
		in.endDropped(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: it.Error})
		return
	}
}

// expires returns the time at which a queued item expires. ok is false if it has no TTL.
func (q Queued) expires() (at time.Time, ok bool) {
	return q.Item.CreatedAt.Add(time.Duration(q.Item.TTL) * time.Millisecond), q.Item.TTL > 0
}

// expire removes the items whose TTL is over.
func (in *Inbox) expire(now time.Time) {
	s := in.thread
	over := func(q Queued) bool {
		at, ok := q.expires()
		return ok && !now.Before(at)
	}
	if !slices.ContainsFunc(in.Queue, over) {
		s.Turns.settleRoots(now)
		return
	}
	kept := in.Queue[:0:0]
	for _, q := range in.Queue {
		if !over(q) {
			kept = append(kept, q)
			continue
		}
		// Its message is not stored, since agents would see it.
		it := q.Item
		detail := fmt.Sprintf("event %s waited longer than its ttl of %d ms", it.ID, it.TTL)
		s.Outbox.recordIn(q.root(), recordid.Expired(it.ID), event.TypeStatus, it.TraceID, it.ID, now, event.StatusChange{Status: string(event.ItemExpired), Detail: detail})
		in.withdraw(now, q)
		s.Turns.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnExpired, Error: detail})
		it.Status, it.Error, it.UpdatedAt = event.ItemExpired, detail, now
		in.rememberEnded(it)
	}
	in.Queue = kept
	s.Turns.settleRoots(now)
}

// Ordered returns the queue in processing order.
func (in *Inbox) Ordered() []event.Item {
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
func (in *Inbox) Retry(now time.Time, ctl signals.Control) error {
	for i := len(in.Failed) - 1; i >= 0; i-- {
		q := in.Failed[i]
		if ctl.EventID != "" && q.Item.ID != ctl.EventID {
			continue
		}
		in.Failed = append(in.Failed[:i:i], in.Failed[i+1:]...)
		in.requeue(now, q, ctl.By)
		return nil
	}
	if ctl.EventID == "" {
		return event.FieldErrorf("eventId", "no event of this thread has failed")
	}
	return event.FieldErrorf("eventId", "no failed event %q in this thread", ctl.EventID)
}

// requeue queues an item again.
func (in *Inbox) requeue(now time.Time, q Queued, by string) {
	s := in.thread
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
	in.Queue = append(in.Queue, q)
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
