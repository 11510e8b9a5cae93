package threadmill

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// AckMode is the time at which [Runtime.Send] returns.
type AckMode string

// The acknowledgement modes.
const (
	// AckImmediate returns when Temporal keeps the message. The default.
	AckImmediate AckMode = "immediate"
	// AckOnComplete returns when the turn has ended.
	AckOnComplete AckMode = "onComplete"
)

// SendOptions are the options of [Runtime.Send]. The zero value has the defaults.
type SendOptions struct {
	// Stream includes pieces of text, as they arrive, in the events of the turn. Otherwise
	// messages arrive whole.
	Stream bool

	// Ack is the time at which Send returns. Default [AckImmediate].
	Ack AckMode

	// TTL is the maximum time that the message waits for its turn before it expires. It is
	// rounded up to milliseconds. 0 = no limit.
	TTL time.Duration

	// Priority is the message's priority in the thread's queue, higher first. Default 0.
	Priority int

	// OnBusy is the effect of the message on a turn in progress. Default [event.OnBusyEnqueue].
	OnBusy event.OnBusy

	// OnWaiting is the effect of the message on turns that wait for people. Default: that of the
	// waiting agents.
	OnWaiting event.OnWaiting

	// Namespace of the thread. Default: the runtime's.
	Namespace string

	// Agents answer the message, whoever it mentions. They need not be members of the thread.
	// Default: the agents to whom the thread routes the message.
	Agents []string

	// Tools restricts the tools that agents may call in this turn. Nil = no restriction; empty =
	// no tools.
	Tools []string

	// Start configures the thread if it must be opened. First is ignored.
	Start signals.Start

	// EventID is an idempotency key: if the thread already has an event with this id, Send posts
	// nothing and returns the turn of that event, from its beginning. Default: a new id.
	EventID string

	// Callbacks apply to the events of this turn, after those of [Config].
	Callbacks Callbacks
}

// Turn is a message that was sent, its turn, and the turns of events that hooks and processors
// derive from it.
type Turn struct {
	threadID string
	eventID  string
	sender   string
	threads  *threadclient.Client
	events   *eventLog

	ended  chan struct{} // closed when result and err are set
	result signals.TurnResult
	err    error
}

// defaultSender is the person who sends messages and closes threads, if the caller names nobody.
const defaultSender = "user"

// UncertainError means that a message was sent and not answered. It has the id of its event.
type UncertainError = threadclient.UncertainError

// TurnError means that a turn has failed. The event can be retried.
type TurnError struct {
	ThreadID string
	EventID  string

	// Reason is the error as users see it.
	Reason string

	// Class is the kind of the failure if a model call failed and it is known, such as [llm.ClassRateLimit]: one of the Class constants of
	// package llm.
	Class string
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("the turn of event %q in thread %q failed: %s", e.EventID, e.ThreadID, e.Reason)
}

// ThreadID returns the id of the thread.
func (t *Turn) ThreadID() string { return t.threadID }

// EventID returns the id of the message's event.
func (t *Turn) EventID() string { return t.eventID }

// Events returns the events of the turn as they arrive, beginning with the first. The last one is
// the status event for which [event.AgentEvent.EndsTurn] is true. An error means that the turn
// continues but can no longer be watched. Events can be called several times.
func (t *Turn) Events() iter.Seq2[event.AgentEvent, error] {
	return func(yield func(event.AgentEvent, error) bool) {
		for i := 0; ; i++ {
			e, ok, err := t.events.at(i)
			switch {
			case err != nil:
				yield(event.AgentEvent{}, err)
				return
			case !ok || !yield(e, nil):
				return
			}
		}
	}
}

// Wait waits for the end of the turn and returns its result, with the reply as stored. The error is
// a [*TurnError] if the turn has failed. Any other error means that the result is unknown, because
// ctx or the context of Send has ended or Temporal does not answer: the turn may continue, and another
// Send with the same EventID waits for it. A turn that was interrupted, has expired or was not
// answered has a result. Wait can be called several times.
func (t *Turn) Wait(ctx context.Context) (signals.TurnResult, error) {
	select {
	case <-t.ended:
	case <-ctx.Done():
		return signals.TurnResult{}, fmt.Errorf("threadmill: waiting for the turn of event %q in thread %q: %w", t.eventID, t.threadID, ctx.Err())
	}
	if t.err == nil && t.result.Status == signals.TurnFailed {
		return t.result, &TurnError{ThreadID: t.threadID, EventID: t.eventID, Reason: t.result.Error, Class: t.result.Class}
	}
	return t.result, t.err
}

// Interrupt ends the turn, whose output up to then is kept, or removes the message from the queue.
// It returns when Temporal has stored the request; Wait then returns the result, with the status
// [signals.TurnInterrupted] unless the turn ended first. Interrupting a turn that has ended has no
// effect. The error wraps [signals.ErrThreadClosed] if the thread was closed meanwhile.
func (t *Turn) Interrupt(ctx context.Context) error {
	select {
	case <-t.ended:
		if t.err == nil {
			return nil
		}
	default:
	}
	err := t.threads.Control(ctx, t.threadID, signals.Control{
		Action: signals.ControlInterrupt, EventID: t.eventID, By: t.sender, Reason: "the sender interrupted the turn",
	})
	if err != nil {
		return fmt.Errorf("threadmill: interrupting the turn of event %q: %w", t.eventID, err)
	}
	return nil
}

// Send sends a message to a thread, opens the thread if necessary, and follows the turn. An empty
// ThreadID opens a new thread. SenderType defaults to user and SenderID to "user".
//
// A worker must run, in this process or another one. The end of ctx ends the watching, not the
// turn: [Turn.Interrupt] ends that. An [*UncertainError] means that the thread may have the message: send it again, with
// [SendOptions].EventID, and nothing is posted twice. Any other error means that the message was not accepted.
// It is an [*event.FieldError] or wraps an error of package signals, such as
// [signals.ErrThreadClosed].
func (r *Runtime) Send(ctx context.Context, m event.NewMessage, o SendOptions) (*Turn, error) {
	f, err := r.newFollower(m, o)
	if err != nil {
		return nil, fmt.Errorf("threadmill: sending a message: %w", err)
	}
	turn, err := f.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("threadmill: sending a message: %w", err)
	}
	if o.Ack == AckOnComplete {
		<-turn.ended
	}
	return turn, nil
}

// Messages returns the messages of a thread as people see them, the oldest first: as hooks left them, without those that hooks hide. It
// reads the store in pages; a thread that does not exist has none. An error ends the sequence.
func (r *Runtime) Messages(ctx context.Context, threadID string) iter.Seq2[event.StoredMessage, error] {
	key := store.Key{Namespace: r.client.Namespace(), ThreadID: threadID}
	return func(yield func(event.StoredMessage, error) bool) {
		for m, err := range transcript.EachMessage(ctx, r.cfg.Store, key) {
			switch {
			case err != nil:
				yield(event.StoredMessage{}, fmt.Errorf("threadmill: reading the messages of thread %q: %w", threadID, err))
				return
			case m.Problem != nil:
				r.cfg.Logger.Warn("a message cannot be read, and is left out", "thread", threadID, "record", m.Record.ID, "error", m.Problem)
			case !m.Hidden && !yield(m.Stored(), nil):
				return
			}
		}
	}
}

// hasRecord asks the store for a record.
func (cfg *Config) hasRecord(ctx context.Context, namespace, threadID, recordID string) (bool, error) {
	records, err := cfg.Store.RecordsByID(ctx, event.ThreadKey{Namespace: namespace, ThreadID: threadID}, recordID)
	return len(records) > 0, err
}

// newFollower checks a message and its options.
func (r *Runtime) newFollower(m event.NewMessage, o SendOptions) (*follower, error) {
	switch {
	case o.Ack != "" && o.Ack != AckImmediate && o.Ack != AckOnComplete:
		return nil, event.FieldErrorf("Ack", "%q is neither immediate nor onComplete", o.Ack)
	case o.TTL < 0:
		return nil, event.FieldErrorf("TTL", "%s is negative", o.TTL)
	}
	threads := r.client
	if o.Namespace != "" && o.Namespace != threads.Namespace() {
		var err error
		threads, err = threadclient.New(threadclient.Config{Temporal: r.cfg.Temporal, Namespace: o.Namespace, TaskQueue: r.cfg.TaskQueue, Redact: r.cfg.Redact, Erased: r.cfg.erased, Known: r.cfg.hasRecord, Urgent: r.cfg.urgent, AnswerWithin: r.cfg.AnswerWithin})
		if err != nil {
			return nil, err
		}
	}
	f := &follower{runtime: r, options: o, threads: threads, fresh: m.ThreadID == ""}
	if f.fresh {
		m.ThreadID = signals.NewID()
	}
	if m.SenderType == "" {
		m.SenderType = event.CreatedByUser
	}
	if m.SenderID == "" {
		m.SenderID = defaultSender
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	f.message = m
	f.post = signals.NewPost(o.EventID, m)
	f.post.Priority, f.post.OnBusy, f.post.OnWaiting, f.post.Agents, f.post.Tools = o.Priority, o.OnBusy, o.OnWaiting, o.Agents, o.Tools
	f.post.TTL = int64((o.TTL + time.Millisecond - 1) / time.Millisecond)
	return f, threadclient.Prepare(m.ThreadID, &f.post)
}

// CloseThread closes a thread and waits until it has ended: pending work ends as interrupted. A worker must
// run. Closing a closed thread has no effect. The error wraps [signals.ErrThreadNotFound] if there is no
// such thread, and the error of ctx if the thread has not ended before; it then still closes.
// See [threadclient.Client.CloseThread] for threads of other namespaces.
func (r *Runtime) CloseThread(ctx context.Context, threadID string) error {
	if err := r.client.CloseThread(ctx, threadID, defaultSender); err != nil {
		return fmt.Errorf("threadmill: closing a thread: %w", err)
	}
	return nil
}
