package threadmill

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// AckMode says when [Runtime.Run] returns.
type AckMode string

// The ack modes.
const (
	// AckImmediate returns when the thread has taken the message. The default.
	AckImmediate AckMode = "immediate"
	// AckOnComplete returns when the turn has ended.
	AckOnComplete AckMode = "onComplete"
)

// ErrSignalled is what a [Run] fails with whose signal is closed from the start: nothing
// was posted.
var ErrSignalled = errors.New("the run's signal was closed before it began")

// RunOptions are options of a [Run]. The zero value has the defaults.
type RunOptions struct {
	// Stream includes the pieces of text, as they come, in the events of the run. Without
	// it messages come whole.
	Stream bool

	// Ack says when Run returns. Default [AckImmediate].
	Ack AckMode

	// Signal interrupts the turn when it is closed, or takes its event out of the queue.
	// What was said by then is kept.
	Signal <-chan struct{}

	// TTL is how long the message may wait for its turn; then it expires. In
	// milliseconds, rounded up. 0 = no limit.
	TTL time.Duration

	// Priority in the thread's queue: higher first. Default 0.
	Priority int

	// OnBusy says what the message does to a turn in progress. Default [signals.OnBusyEnqueue].
	OnBusy signals.OnBusy

	// OnWaiting says what the message does to turns that wait for people. Default: as the
	// agents that wait are configured.
	OnWaiting event.OnWaiting

	// Namespace of the thread. Default: the runtime's.
	Namespace string

	// Agents answer, whoever is addressed; they need not take part in the thread.
	// Default: as the thread routes the message.
	Agents []string

	// Tools are the only ones that agents may call in this turn, as far as they have
	// them. Nil = all that they have; empty = none.
	Tools *[]string

	// Start is what the thread begins with if it is not there yet. First is ignored.
	Start signals.Start

	// EventID makes the run idempotent: with an id that the thread has had before,
	// nothing is posted, and the run is that of the event, from its beginning. Default:
	// a new one.
	EventID string

	// Callbacks see the events of this run, behind those of [Config].
	Callbacks Callbacks

	// OnEvent gets the events of the run as they come: the same as [Run.Events]. It
	// must not wait for the run to end.
	OnEvent func(event.AgentEvent)
}

// Run is a message on its way through a thread: its turn, and what follows from it.
type Run struct {
	threadID string
	eventID  string
	events   *eventLog

	ended  chan struct{} // result and err are there
	result signals.TurnResult
	err    error
}

// TurnError says that a turn has failed. The event can be retried.
type TurnError struct {
	ThreadID string
	EventID  string

	// Reason is the error as people are told it.
	Reason string
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("the turn of event %q in thread %q failed: %s", e.EventID, e.ThreadID, e.Reason)
}

// ThreadID is the id of the thread.
func (r *Run) ThreadID() string { return r.threadID }

// EventID is the id of the message's event.
func (r *Run) EventID() string { return r.eventID }

// Events returns the events of the run, from the first one on, as they come: those that
// share its trace, and gaps. It ends when the run does, with the status event that announces
// the end of the turn, see [event.AgentEvent.EndsTurn]. An error means that the run goes on, and that
// nobody watches it any more. It may be called several times, and left early.
func (r *Run) Events() iter.Seq2[event.AgentEvent, error] {
	return func(yield func(event.AgentEvent, error) bool) {
		for i := 0; ; i++ {
			e, ok, err := r.events.at(i)
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

// Done waits for the end of the run and returns its result, whose message is as stored.
// The error is a [*TurnError] if the turn has failed; any other error says that the
// result is not known, because the context of the run has ended or Temporal does not
// answer: the run may go on, and another with the same EventID waits for it. A run
// that was interrupted, that has expired, or that nobody has answered, has a result.
func (r *Run) Done() (signals.TurnResult, error) {
	<-r.ended
	if r.err == nil && r.result.Status == signals.TurnFailed {
		return r.result, &TurnError{ThreadID: r.threadID, EventID: r.eventID, Reason: r.result.Error}
	}
	return r.result, r.err
}

// Run posts a message to a thread, which is opened if it is not there, and follows what
// comes of it. An empty ThreadID stands for a new thread, an empty SenderType for a
// user, and an empty SenderID for "user".
//
// A worker has to run: here, or in another process. The context is that of the whole
// run; when it ends, the run is no longer followed, but goes on. To stop it there is
// [RunOptions].Signal. The error says why the message was not taken: it is an
// [*event.FieldError] about a field, or wraps one of package signals, such as ErrClosed.
func (r *Runtime) Run(ctx context.Context, m event.NewMessage, o RunOptions) (*Run, error) {
	f, err := r.newFollower(m, o)
	if err != nil {
		return nil, fmt.Errorf("threadmill: running a message: %w", err)
	}
	run, err := f.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("threadmill: running a message: %w", err)
	}
	if o.Ack == AckOnComplete {
		<-run.ended
	}
	return run, nil
}

// newFollower checks a message and its options.
func (r *Runtime) newFollower(m event.NewMessage, o RunOptions) (*follower, error) {
	switch {
	case o.Ack != "" && o.Ack != AckImmediate && o.Ack != AckOnComplete:
		return nil, event.FieldErrorf("Ack", "%q is neither immediate nor onComplete", o.Ack)
	case o.TTL < 0:
		return nil, event.FieldErrorf("TTL", "%s is negative", o.TTL)
	}
	threads := r.client
	if o.Namespace != "" && o.Namespace != threads.Namespace() {
		var err error
		threads, err = threadclient.New(threadclient.Config{Temporal: r.cfg.Temporal, Namespace: o.Namespace, TaskQueue: r.cfg.TaskQueue})
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
		m.SenderID = "user"
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
