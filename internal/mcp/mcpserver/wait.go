package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
)

// turnResult is the state of a turn.
type turnResult struct {
	Status    string     `json:"status" enum:"completed,waiting_for_approval,waiting_for_input,running,failed" jsonschema:"completed: text has the answer. waiting_for_approval: approvals have the calls on which a person has to decide. waiting_for_input: inputs have the questions that a person has to answer. running: the turn goes on without the caller. failed: error says why"`
	Thread    string     `json:"thread" jsonschema:"The thread: for wait_for_turn, and for further messages of the same conversation"`
	Event     string     `json:"event" jsonschema:"The event of the message: for wait_for_turn"`
	Text      string     `json:"text,omitempty" jsonschema:"The final message of the turn. Of several agents, each after its name"`
	Truncated bool       `json:"truncated,omitempty" jsonschema:"Whether the text was cut: read_thread has more of it"`
	Replies   []reply    `json:"replies,omitempty" jsonschema:"The final messages of the agents, if several answered"`
	Approvals []approval `json:"approvals,omitempty" jsonschema:"The calls that wait for a decision"`
	Inputs    []input    `json:"inputs,omitempty" jsonschema:"The calls that wait for a person's input"`
	Outcome   string     `json:"outcome,omitempty" jsonschema:"How the turn ended: completed, failed, interrupted, expired or unanswered"`
	Error     string     `json:"error,omitempty" jsonschema:"Why the turn failed"`
	Next      string     `json:"next,omitempty" jsonschema:"How to continue, if the turn has not ended"`
}

type waitArgs struct {
	Thread string `json:"thread" jsonschema:"The thread" maxLength:"128"`
	Event  string `json:"event" jsonschema:"The event: the result of ask_agent, open_thread or post_message names it" maxLength:"128"`
	Wait   int    `json:"waitSeconds,omitempty" jsonschema:"How long to wait, in seconds, at most the server's limit. Default: 50" minimum:"1" maximum:"3600"`
}

func (s *server) waitTool() tool {
	return define("wait_for_turn", "Wait for a turn",
		"Continues to wait for the turn of a message: after ask_agent returned running or waiting_for_approval, after post_message, or after a call was cut off. "+
			"Returns the same result as ask_agent. It changes nothing, and may be called as often as needed.",
		reads, true, []auth.Role{auth.RoleRead},
		func(ctx context.Context, c *call, in waitArgs) (turnResult, error) {
			return s.wait(ctx, c, turnOf{thread: in.Thread, event: in.Event, since: time.Now()}, s.limit(in.Wait))
		})
}

// limit returns the time of a wait.
func (s *server) limit(seconds int) time.Duration {
	return min(cmp.Or(time.Duration(seconds)*time.Second, DefaultWait), s.waitLimit)
}

const (
	// settleTime is the time for which a request for a decision has to stand: one that is read from
	// the past is followed by its decision.
	settleTime = 100 * time.Millisecond

	// askAgain is the delay after which pending approvals are read again if the server does not
	// answer.
	askAgain = 2 * time.Second
)

// turnOf identifies a turn. The client knows what happened in it before since.
type turnOf struct {
	thread, event string
	since         time.Time

	// posted means that this call has posted the message, so a server that is lost now is waited for.
	posted bool
}

// wait follows a turn until it ends or waits for a person, or the time is over.
func (s *server) wait(ctx context.Context, c *call, of turnOf, limit time.Duration) (turnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	w := &waiter{server: s, call: c, turn: newTurn(of.event), thread: of.thread, since: of.since, posted: of.posted}
	return w.follow(ctx)
}

// waiter waits for one turn.
type waiter struct {
	*server
	call   *call
	turn   *awaited
	thread string
	since  time.Time
	posted bool
}

// watch reads the events from that of the turn on.
func (w *waiter) watch(ctx context.Context) (<-chan event.AgentEvent, <-chan error) {
	events, done := make(chan event.AgentEvent), make(chan error, 1)
	opts := api.WatchOptions{
		Event: w.turn.event, FailFast: !w.posted,
		Lost: func(err error) { w.call.progress(ctx, problem(err, "event").Error()) },
	}
	go func() {
		done <- w.api.Watch(ctx, w.thread, opts, func(item api.Item) error {
			select {
			case events <- item.Event:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return events, done
}

func (w *waiter) follow(ctx context.Context) (turnResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, done := w.watch(ctx)
	alive, settle := time.NewTicker(aliveEvery), time.NewTimer(aliveEvery)
	defer alive.Stop()
	defer settle.Stop()
	for {
		select {
		case e := <-events:
			if line := w.turn.apply(e); e.CreatedAt.IsZero() || e.CreatedAt.After(w.since) {
				w.call.progress(ctx, line)
			}
			if w.turn.ended != nil {
				return w.turn.result(w.result()), nil
			}
			if (e.Type == event.EventApprovalRequest || e.Type == event.EventInputRequest) && len(w.turn.waiting()) > 0 {
				settle.Reset(settleTime)
			}
			alive.Reset(aliveEvery)
		case <-settle.C:
			if out := w.pending(ctx, settle); out.Status != "" {
				return out, nil
			}
		case <-alive.C:
			w.call.progress(ctx, "still running")
		case err := <-done:
			return w.stopped(ctx, err)
		}
	}
}

// pending returns the result of a turn whose calls wait for a person, or one without a status: what was
// read from the past may not wait any more.
func (w *waiter) pending(ctx context.Context, again *time.Timer) turnResult {
	out := w.turn.texts(w.result())
	waiting := w.turn.waiting()
	if len(waiting) == 0 {
		return out
	}
	all, err := w.api.Approvals(ctx, w.thread)
	if err != nil {
		again.Reset(askAgain)
		return out
	}
	how := ""
	for _, q := range all.Inputs {
		if waiting[q.ToolCallID] {
			out.Status, how = statusInput, "A person has to answer the questions: with answer_input, if that is the caller."
			out.Inputs = append(out.Inputs, inputOf(w.thread, q))
		}
	}
	for _, r := range all.Approvals {
		if waiting[r.ToolCallID] {
			out.Status, how = statusWaiting, "A person has to decide: with decide_approval, if that is the caller."
			out.Approvals = append(out.Approvals, approvalOf(w.thread, r))
		}
	}
	out.Next = fmt.Sprintf("%s Then call wait_for_turn with thread %q and event %q for the result.", how, w.thread, w.turn.event)
	return out
}

// stopped returns the result of a wait whose events have ended.
func (w *waiter) stopped(ctx context.Context, err error) (turnResult, error) {
	out := w.turn.texts(w.result())
	switch {
	case ctx.Err() != nil:
		out.Status = statusRunning
		out.Next = fmt.Sprintf("The turn goes on. Call wait_for_turn with thread %q and event %q for its result.", w.thread, w.turn.event)
	case errors.Is(err, api.ErrClosed):
		out.Status, out.Error = statusFailed, "the thread is closed, and the turn has no end: read_thread shows what it contains"
	default:
		return out, problem(err, "event")
	}
	return out, nil
}

func (w *waiter) result() turnResult { return turnResult{Thread: w.thread, Event: w.turn.event} }
