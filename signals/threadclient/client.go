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

	"github.com/threadmill/threadmill/signals"
)

// Client talks to threads through a Temporal client.
type Client struct {
	*conn
	*schedules
	posts *posts
}

// Config configures a [Client].
type Config struct {
	// Temporal is required.
	Temporal client.Client

	// Namespace of the threads. Default "default".
	Namespace string

	// TaskQueue where new threads run. Default "threadmill".
	TaskQueue string
}

// New makes a client for the threads of one namespace.
func New(cfg Config) (*Client, error) {
	if cfg.Temporal == nil {
		return nil, errors.New("threadclient: Config.Temporal is required")
	}
	cfg.Namespace = cmp.Or(cfg.Namespace, signals.DefaultNamespace)
	cfg.TaskQueue = cmp.Or(cfg.TaskQueue, signals.DefaultTaskQueue)
	if err := signals.ValidateID("namespace", cfg.Namespace); err != nil {
		return nil, err
	}
	return newClient(&conn{cfg.Temporal, cfg.Namespace, cfg.TaskQueue}, &lanes{of: map[string]*lane{}}), nil
}

func newClient(c *conn, l *lanes) *Client {
	return &Client{conn: c, posts: &posts{c, l}, schedules: &schedules{c}}
}

// Namespace is the namespace of the client's threads.
func (c *Client) Namespace() string { return c.namespace }

// Open starts a thread. With a post, the thread begins with it. A thread that
// exists already gives [signals.ErrThreadExists], one that was closed [signals.ErrThreadClosed].
func (c *Client) Open(ctx context.Context, threadID string, start signals.Start, first *signals.Post) error {
	if err := checkStart(threadID, start); err != nil {
		return err
	}
	if first != nil {
		// The thread begins with it, and could reject it only when it is open.
		if err := Prepare(threadID, first); err != nil {
			return err
		}
	}
	start.First = first
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

// checkStart checks with what a thread begins: its workflow would fail after it was started.
func checkStart(threadID string, start signals.Start) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	return start.Validate()
}

// Post adds an event, a message or one of another type, to the queue of a thread, and
// returns once the thread has accepted or rejected it. The error wraps [signals.ErrFull] if too
// much waits in the thread, and [signals.ErrOverloaded] if too many posts of this process wait for
// its answer: the same post is accepted later.
//
// If the thread does not answer for some seconds, because no worker runs, Temporal keeps the post
// as a signal, which the thread processes when it can. The status is "queued" then, also of a
// duplicate, which changes nothing; a post that finds the queue full when it arrives becomes a
// failed event that can be retried.
func (c *Client) Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error) {
	return c.post(ctx, threadID, p, nil)
}

// PostOrOpen is [Client.Post] to a thread that is opened first if it does not exist.
func (c *Client) PostOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) (signals.PostResult, error) {
	if err := checkStart(threadID, start); err != nil {
		return signals.PostResult{}, err
	}
	start.First = nil
	return c.post(ctx, threadID, p, &start)
}

func (c *Client) post(ctx context.Context, threadID string, p signals.Post, open *signals.Start) (signals.PostResult, error) {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return signals.PostResult{}, err
	}
	if err := named(&p); err != nil {
		return signals.PostResult{}, err
	}
	// Its thread would reject it, and a signal could not say so.
	if err := p.Validate(threadID); err != nil {
		return signals.PostResult{EventID: p.ID}, err
	}
	return c.posts.submit(ctx, threadID, p, open)
}

// PostSignal signals an event to a thread that exists, and returns its id as soon as Temporal has
// it. A thread that cannot queue it, because too much waits or it is about to close, keeps it as a
// failed event.
func (c *Client) PostSignal(ctx context.Context, threadID string, p signals.Post) (string, error) {
	if err := named(&p); err != nil {
		return "", err
	}
	return p.ID, c.signal(ctx, threadID, signals.SignalPost, p)
}

// Turn posts an event and waits until the turn that it triggers has ended, also
// across continue-as-new. Posting an event that was posted before waits for its
// turn and posts nothing; how a turn ended is kept for the last 32 events, after which the
// error wraps [signals.ErrProcessed].
func (c *Client) Turn(ctx context.Context, threadID string, p signals.Post) (signals.TurnResult, error) {
	if err := named(&p); err != nil {
		return signals.TurnResult{}, err
	}
	slot := c.posts.takeTurn(threadID)
	defer slot.leave()
	if !slot.direct() {
		// It takes its place in the queue before it waits.
		if _, err := c.Post(ctx, threadID, p); err != nil {
			return signals.TurnResult{}, err
		}
		if err := slot.wait(ctx); err != nil {
			return signals.TurnResult{}, c.explain(ctx, signals.UpdateTurn, threadID, err)
		}
	}
	return c.await(ctx, threadID, p)
}

// await waits for the end of a turn by update "turn".
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

// Control interrupts, closes or retries.
func (c *Client) Control(ctx context.Context, threadID string, ctl signals.Control) error {
	if err := ctl.Validate(); err != nil {
		return err
	}
	return c.signal(ctx, threadID, signals.SignalControl, ctl)
}

// Update changes a thread: its title, agents, turn limit or metadata. It returns the thread's state.
func (c *Client) Update(ctx context.Context, threadID string, change signals.ThreadChange) (signals.State, error) {
	return ask[signals.State](ctx, c, threadID, signals.UpdateThread, change)
}

// State asks a thread for its state.
func (c *Client) State(ctx context.Context, threadID string) (signals.State, error) {
	return query[signals.State](ctx, c, threadID, signals.QueryState)
}

// Summary is a thread as Temporal lists it.
type Summary struct {
	ThreadID string `json:"threadId"`

	// Status is "open" or "closed".
	Status string `json:"status"`

	// Waiting says that it waits for approval. Such a thread is open.
	Waiting bool `json:"waitingApproval,omitempty"`

	Title  string   `json:"title,omitempty"`
	Agents []string `json:"agents,omitempty"`

	// Parent is the thread for which this one works, if it is that of a sub-agent.
	Parent string `json:"parent,omitempty"`

	// StartTime is when the thread's current run began: its opening, or the last
	// time it continued as new.
	StartTime time.Time `json:"startTime"`
}

// named makes sure that a post has an id, and one that the thread will take: a
// signal that it rejects would only leave an audit record.
func named(p *signals.Post) error {
	if p.ID == "" {
		p.ID = signals.NewID()
	}
	return signals.ValidateEventID("id", p.ID)
}
