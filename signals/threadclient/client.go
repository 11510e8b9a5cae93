package threadclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/observe/tracing"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
)

// Client talks to threads through a Temporal client.
type Client struct {
	*conn
	posts *posts
}

// Config configures a [Client].
type Config struct {
	// Temporal is required.
	Temporal client.Client

	// Namespace of the threads. Default "default".
	Namespace string

	// TaskQueue where new threads run: that of the program whose workers run them. Default "threadmill", that of the devserver and
	// of command worker.
	TaskQueue string

	// Redact redacts what is sent to threads. Default: nothing is redacted.
	Redact *redact.Redactor

	// Erased reports whether a thread was erased. It is asked before a thread is opened, and for one that Temporal does not
	// have. Default: nobody is asked; an erased thread that is opened again ends at once, and is erased again.
	Erased func(ctx context.Context, namespace, threadID string) (bool, error)

	// Known reports whether the store has a record of a thread, such as that of an event. An event that it does not have is posted by
	// signal, which Temporal keeps within milliseconds, whatever the thread does; otherwise the thread is asked whether it has the
	// event, with the same content or another one. A decision on a request that the store has and the thread does not is early: see
	// [signals.ErrEarly]. Default: events to which the client gives the id are posted by signal, and the thread alone says what waits.
	Known func(ctx context.Context, namespace, threadID, recordID string) (bool, error)

	// Urgent is called when a thread is sent what must not wait for a step that runs as a local activity: it tells the
	// step to let the workflow task go. Default: the thread handles it within two seconds.
	Urgent func(ctx context.Context, namespace, threadID string)

	// StepQueues are further task queues on which steps of threads run, for [Client.Workers].
	StepQueues []string

	// AnswerWithin is the time in which a thread must answer a post. After it, the post fails, and can be repeated: posts are
	// idempotent. Default 10 seconds.
	AnswerWithin time.Duration
}

// New returns a client for the threads of one namespace.
func New(cfg Config) (*Client, error) {
	if cfg.Temporal == nil {
		return nil, errors.New("threadclient: Config.Temporal is required")
	}
	cfg.Namespace = cmp.Or(cfg.Namespace, signals.DefaultNamespace)
	cfg.TaskQueue = cmp.Or(cfg.TaskQueue, signals.DefaultTaskQueue)
	if err := signals.ValidateID("namespace", cfg.Namespace); err != nil {
		return nil, err
	}
	return newClient(&conn{cfg.Temporal, cfg.Namespace, cfg.TaskQueue, cfg.StepQueues, cfg.Redact, cfg.Erased, cfg.Known, cfg.Urgent, cmp.Or(cfg.AnswerWithin, answerWithin)}, newLanes()), nil
}

func newClient(c *conn, l *lanes) *Client {
	return &Client{conn: c, posts: &posts{c, l}}
}

// Namespace returns the namespace of the client's threads.
func (c *Client) Namespace() string { return c.namespace }

// Open starts a thread, with its first post if there is one. The error wraps
// [signals.ErrThreadExists] if the thread exists, and [signals.ErrThreadClosed] if it was closed.
func (c *Client) Open(ctx context.Context, threadID string, start signals.Start, first *signals.Post) error {
	if err := checkStart(threadID, start); err != nil {
		return err
	}
	if first != nil {
		// A thread could reject its first post only after it has started.
		if err := Prepare(threadID, first); err != nil {
			return err
		}
	}
	if err := c.refuseErased(ctx, threadID); err != nil {
		return err
	}
	if first != nil {
		traced(ctx, first)
	}
	start.First = first
	start = redaction.Payload(c.redact, start)
	opts := c.startOptions(threadID, start, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	_, err := c.temporal.ExecuteWorkflow(ctx, opts, signals.ThreadWorkflow, start)
	if is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		err = signals.ErrThreadExists
		if open, derr := c.isOpen(ctx, threadID); derr == nil && !open {
			err = signals.ErrThreadClosed
		}
	}
	if err != nil {
		return fmt.Errorf("opening thread %q: %w", threadID, err)
	}
	return nil
}

// checkStart validates the input of a thread, whose workflow would otherwise fail after its start.
func checkStart(threadID string, start signals.Start) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	return start.Validate()
}

// Post adds an event, such as a message, to the queue of a thread, and returns when Temporal keeps it. The error wraps
// [signals.ErrFull] if the thread's queue is full, and [signals.ErrOverloaded] if too many posts of this process wait for the
// thread or for Temporal; retry the same post later. It wraps [signals.ErrConflict] if the thread has an event with the same id and another content.
//
// A post is sent as a signal if nothing depends on the thread's answer: the store does not have the event, onBusy is not
// [event.OnBusyReject], and the thread has lately had room. The thread is asked by update otherwise, or, if it does not answer for some
// seconds because no worker runs, sent a signal, too. The status of what was sent by signal is "queued", even for a duplicate, which
// is still ignored. If the queue is full when a signal is processed, the post becomes a failed event that can be retried; if the thread
// has an event with the same id and another content, an audit record tells.
//
// An [*UncertainError] means that the thread may have the event. After any other error, it does not.
func (c *Client) Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error) {
	return c.post(ctx, threadID, p, nil)
}

// PostOrOpen is [Client.Post] to a thread that it opens if it does not exist.
func (c *Client) PostOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) (signals.PostResult, error) {
	if err := checkStart(threadID, start); err != nil {
		return signals.PostResult{}, err
	}
	start.First = nil
	return c.post(ctx, threadID, p, &start)
}

func (c *Client) post(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	fresh := p.ID == ""
	p = redaction.Payload(c.redact, p) // what is checked is what the thread gets
	if err := check(threadID, &p); err != nil {
		return signals.PostResult{EventID: p.ID}, err
	}
	if err := ctx.Err(); err != nil {
		return signals.PostResult{EventID: p.ID}, fmt.Errorf("%s to thread %q: %w", signals.UpdatePost, threadID, err)
	}
	traced(ctx, &p)
	send := c.posts.submit
	if c.posts.unasked(ctx, threadID, p, fresh) {
		send = c.posts.admit
	}
	out, err := send(ctx, threadID, p, open)
	if err = uncertain(threadID, p.ID, err); err != nil && !is[*UncertainError](err) {
		c.posts.lanes.forget(signals.WorkflowID(c.namespace, threadID), p.ID)
	}
	return out, err
}

// PostSignal posts an event by signal to an existing thread, and returns its id when Temporal has
// stored the signal. If the thread cannot queue the event, because its queue is full or it is
// closing, it keeps it as a failed event.
func (c *Client) PostSignal(ctx context.Context, threadID string, p signals.Post) (string, error) {
	if err := check(threadID, &p); err != nil {
		return "", err
	}
	traced(ctx, &p)
	return p.ID, c.signal(ctx, threadID, signals.SignalPost, p)
}

// Turn posts an event and waits for the end of its turn, even across continue-as-new. For an event
// that was posted before, it only waits for the turn; then the post may have nothing but the id. The results of the last 200 turns are kept;
// for an older one, the error wraps [signals.ErrProcessed].
func (c *Client) Turn(ctx context.Context, threadID string, p signals.Post) (signals.TurnResult, error) {
	if err := named(&p); err != nil {
		return signals.TurnResult{}, err
	}
	traced(ctx, &p)
	slot := c.posts.takeTurn(threadID)
	defer slot.leave()
	if !slot.direct() {
		// The post takes its place in the queue before the caller waits.
		if _, err := c.Post(ctx, threadID, p); err != nil {
			return signals.TurnResult{}, err
		}
		if err := slot.wait(ctx); err != nil {
			return signals.TurnResult{}, c.explain(ctx, signals.UpdateTurn, threadID, err)
		}
	}
	return c.await(ctx, threadID, p)
}

// await waits for the end of a turn with update "turn".
func (c *Client) await(ctx context.Context, threadID string, p signals.Post) (signals.TurnResult, error) {
	for {
		var out signals.TurnResult
		if err := c.update(ctx, threadID, signals.UpdateTurn, p, &out); err != nil {
			return out, err
		}
		if out.Status != signals.TurnContinues {
			return out, nil
		}
	}
}

// Control interrupts a turn, closes the thread or retries an event.
func (c *Client) Control(ctx context.Context, threadID string, ctl signals.Control) error {
	if err := ctl.Validate(); err != nil {
		return err
	}
	if ctl.Action == signals.ControlClose {
		c.posts.lanes.setRoom(signals.WorkflowID(c.namespace, threadID), 0) // what follows is told that the thread is closed
	}
	return c.signal(ctx, threadID, signals.SignalControl, ctl)
}

// CloseThread closes a thread and waits until it has ended: pending work ends as interrupted. by is the
// person or program that closes it; empty = unknown. Closing a closed thread has no effect. The error
// wraps [signals.ErrThreadNotFound] if there is no such thread, and the error of ctx if the thread has
// not ended before; it then still closes as soon as a worker runs.
func (c *Client) CloseThread(ctx context.Context, threadID, by string) error {
	err := c.Control(ctx, threadID, signals.Control{Action: signals.ControlClose, By: by})
	if errors.Is(err, signals.ErrThreadClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.temporal.GetWorkflow(ctx, signals.WorkflowID(c.namespace, threadID), "").Get(ctx, nil)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // Temporal has another error for it
	}
	if err != nil {
		return fmt.Errorf("waiting for the end of thread %q: %w", threadID, err)
	}
	return nil
}

// Running returns nil if the workflow of a thread runs. Otherwise the error wraps [signals.ErrThreadNotFound],
// [signals.ErrThreadClosed] or [signals.ErrThreadErased], or is that of Temporal.
func (c *Client) Running(ctx context.Context, threadID string) error {
	open, err := c.isOpen(ctx, threadID)
	if err == nil && open {
		return nil
	}
	if err != nil && !is[*serviceerror.NotFound](err) {
		return fmt.Errorf("looking for thread %q: %w", threadID, err)
	}
	return fmt.Errorf("thread %q: %w", threadID, c.missing(ctx, threadID))
}

// Update changes a thread's title, agents, turn limit or metadata. It returns the thread's state.
func (c *Client) Update(ctx context.Context, threadID string, change signals.ThreadChange) (signals.State, error) {
	return ask[signals.State](ctx, c, threadID, signals.UpdateThread, change)
}

// State returns the state of a thread.
func (c *Client) State(ctx context.Context, threadID string) (signals.State, error) {
	return query[signals.State](ctx, c, threadID, signals.QueryState)
}

// Summary is a thread in Temporal's visibility.
type Summary struct {
	ThreadID string `json:"threadId"`

	// Status is "open" or "closed".
	Status string `json:"status"`

	// Waiting reports whether the thread is open and waits for approval.
	Waiting bool `json:"waitingApproval,omitempty"`

	Title  string   `json:"title,omitempty"`
	Agents []string `json:"agents,omitempty"`

	// Parent is the parent thread of a sub-agent's thread.
	Parent string `json:"parent,omitempty"`

	// StartTime is the start of the thread's current run: when it was opened or last continued as
	// new.
	StartTime time.Time `json:"startTime"`
}

// traced makes the turn of a post continue the trace of the caller, if there is one.
func traced(ctx context.Context, p *signals.Post) {
	if p.Traceparent == "" {
		p.Traceparent = tracing.Traceparent(ctx)
	}
}
