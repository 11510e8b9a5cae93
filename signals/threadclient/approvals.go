package threadclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// Decide sends a decision on a tool call. The result is its outcome and, for a call that needs several approvals, the number that is
// missing. A decision without effect is a [*signals.DecisionError], which says why, as it is for [Client.Revoke], [Client.ToolResult] and
// [Client.AnswerInput]. While the thread is behind what people see, for example after a restart, the error wraps [signals.ErrEarly]: send
// the decision again.
func (c *Client) Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error) {
	return decided(ctx, c, threadID, d.ToolCallID, signals.UpdateDecide, d)
}

// Revoke revokes an approval with its grant, and returns the outcome. It is idempotent.
func (c *Client) Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error) {
	out, err := decided(ctx, c, threadID, r.ToolCallID, signals.UpdateRevoke, r)
	return out.Result, err
}

// ToolResult sends the result of a tool call that a connected client ran, and returns the outcome.
// It is idempotent.
func (c *Client) ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error) {
	out, err := decided(ctx, c, threadID, r.ToolCallID, signals.UpdateToolResult, r)
	return out.Result, err
}

// AnswerInput sends a person's input for a tool call that waits for it, and returns the outcome. It is
// idempotent.
func (c *Client) AnswerInput(ctx context.Context, threadID string, a signals.InputAnswers) (signals.DecideOutcome, error) {
	out, err := decided(ctx, c, threadID, a.ToolCallID, signals.UpdateAnswerInput, a)
	return out.Result, err
}

// decided sends what a person decides or answers, and returns the outcome.
func decided(ctx context.Context, c *Client, threadID, callID, name string, in interface{ Validate() error }) (signals.DecideResult, error) {
	out, err := ask[signals.DecideResult](ctx, c, threadID, name, in)
	if err == nil && out.Result == signals.DecideNotPending || errors.Is(err, signals.ErrThreadNotFound) || errors.Is(err, signals.ErrEarly) {
		out, err = c.compared(ctx, threadID, name, in, out, err)
	}
	if err == nil {
		err = out.Err(threadID, callID)
	}
	return out, err
}

// compared returns the outcome of a decision on a call that the thread does not know, given what people see: if the store has the
// request and no end of it, the thread is behind the store, and the decision early. What the store does not have, nobody has seen.
func (c *conn) compared(ctx context.Context, threadID, name string, in any, out signals.DecideResult, err error) (signals.DecideResult, error) {
	r := shownAs(in)
	if c.known == nil || r.record == "" {
		return out, err
	}
	shown, failed := c.known(ctx, c.namespace, threadID, r.record)
	early := errors.Is(err, signals.ErrEarly)
	switch {
	case failed != nil:
		return out, cmp.Or(err, failed)
	case !shown && early && r.first:
		return signals.DecideResult{Result: signals.DecideNotPending}, nil
	case !shown || early:
		return out, err
	}
	for _, end := range r.ends {
		if ended, failed := c.known(ctx, c.namespace, threadID, end); ended || failed != nil {
			return out, cmp.Or(err, failed)
		}
	}
	return out, fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrEarly)
}

// shown is the record that shows people a request, and those that end it. first means that nobody can answer before it is stored.
type shown struct {
	record string
	first  bool
	ends   []string
}

func shownAs(in any) shown {
	switch in := in.(type) {
	case signals.Decide:
		request := recordid.Request(event.ApprovalRequest{ToolCallID: in.ToolCallID, Round: in.Round})
		return shown{request, true, []string{recordid.Decision(in.ToolCallID, in.Round), recordid.Result(in.ToolCallID)}}
	case signals.InputAnswers:
		round := max(in.Round, event.FirstRound)
		return shown{recordid.InputRequest(in.ToolCallID, round), true, []string{recordid.InputReceived(in.ToolCallID, round), recordid.Result(in.ToolCallID)}}
	case signals.ToolResult: // clients see the call in its message
		return shown{recordid.ClientCall(in.ToolCallID), false, []string{recordid.Result(in.ToolCallID)}}
	}
	return shown{}
}

// Approvals returns the tool calls of a thread that wait for a person or a connected client,
// including those of its sub-agents.
func (c *Client) Approvals(ctx context.Context, threadID string) (signals.Approvals, error) {
	return query[signals.Approvals](ctx, c, threadID, signals.QueryApprovals)
}

// Limits of [ApprovalsQuery].Limit.
const (
	DefaultApprovalsLimit = 100
	MaxApprovalsLimit     = 1000
)

// Limits of queries to many threads or schedules: the number at the same time, and the time for
// each.
const (
	askers    = 8
	askWithin = 5 * time.Second
)

// ApprovalsQuery selects threads that wait for approval. The zero value selects the newest.
type ApprovalsQuery struct {
	// Limit is the maximum number of threads to query. 0 = [DefaultApprovalsLimit]; at most
	// [MaxApprovalsLimit].
	Limit int

	// Agent and Tool select the calls of an agent and of a tool, among those of the threads that are queried. Empty = all.
	Agent, Tool string
}

func (q ApprovalsQuery) selects(agent, tool string) bool {
	return (q.Agent == "" || q.Agent == agent) && (q.Tool == "" || q.Tool == tool)
}

// Waiting contains the waiting calls of the threads of a namespace, oldest first.
type Waiting struct {
	// Calls that wait for a decision, the longest wait first.
	Approvals []WaitingApproval `json:"approvals" nullable:"false"`

	// Calls that wait for a connected client, in threads that also wait for a decision.
	ClientCalls []WaitingCall `json:"clientCalls" nullable:"false"`

	// Calls that wait for a person's input, the longest wait first.
	Inputs []WaitingInput `json:"inputs" nullable:"false"`

	// Waiting threads that did not answer in time. The HTTP API asks no thread, and leaves it out.
	Unanswered []string `json:"unanswered,omitempty"`

	// More threads wait than the limit.
	More bool `json:"more,omitempty"`
}

// WaitingApproval is a tool call that waits for a decision.
type WaitingApproval struct {
	// Where to decide on it. Of a sub-agent's call: the thread for which it works.
	ThreadID string `json:"threadId"`

	// The thread's title.
	Title string `json:"title,omitempty"`

	// What waits.
	Request event.ApprovalRequest `json:"request"`

	// The beginning of the thread's first message: see Thread.
	//
	// The HTTP API sets it.
	Preview string `json:"preview,omitempty"`
}

// WaitingCall is a tool call that waits for a connected client to run it.
type WaitingCall struct {
	// Where to answer it.
	ThreadID string `json:"threadId"`

	// The thread's title.
	Title string `json:"title,omitempty"`

	// What waits.
	Call event.ClientCall `json:"call"`

	// The beginning of the thread's first message: see Thread.
	//
	// The HTTP API sets it.
	Preview string `json:"preview,omitempty"`
}

// WaitingInput is a tool call that waits for a person's input.
type WaitingInput struct {
	// Where to answer it. Of a sub-agent's call: the thread for which it works.
	ThreadID string `json:"threadId"`

	// The thread's title.
	Title string `json:"title,omitempty"`

	// What the tool asks.
	Request event.InputRequest `json:"request"`

	// The beginning of the thread's first message: see Thread.
	//
	// The HTTP API sets it.
	Preview string `json:"preview,omitempty"`
}

// ListApprovals returns the waiting calls of the threads in the client's namespace that wait for
// approval. Visibility, which selects the threads, may lag by seconds; the calls come from the
// threads themselves. If no thread answers, the error is that of the first one.
func (c *Client) ListApprovals(ctx context.Context, q ApprovalsQuery) (Waiting, error) {
	if q.Limit == 0 {
		q.Limit = DefaultApprovalsLimit
	}
	if q.Limit < 0 || q.Limit > MaxApprovalsLimit {
		return Waiting{}, fmt.Errorf("listing approvals: limit is %d, must be 1 to %d threads", q.Limit, MaxApprovalsLimit)
	}
	// One more than the limit shows whether there are more.
	found, err := c.List(ctx, ListQuery{Waiting: true, Limit: q.Limit + 1})
	if err != nil {
		return Waiting{}, err
	}
	more := len(found) > q.Limit
	out, err := q.gather(c.askAll(ctx, found[:min(len(found), q.Limit)]))
	out.More = more
	return out, err
}

// ThreadApprovals are the waiting calls of a thread.
type ThreadApprovals struct {
	Thread Summary
	Calls  signals.Approvals
}

// asked is the answer of a thread.
type asked struct {
	ThreadApprovals
	err error
}

// askAll queries the waiting calls of threads.
func (c *Client) askAll(ctx context.Context, found []Summary) []asked {
	return mapped(found, func(s Summary) asked {
		within, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		answer, err := c.Approvals(within, s.ThreadID)
		return asked{ThreadApprovals{s, answer}, err}
	})
}

// mapped applies f to each item of a list, [askers] at a time.
func mapped[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	free := make(chan struct{}, askers)
	var all sync.WaitGroup
	for i, item := range list {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			out[i] = f(item)
		})
	}
	all.Wait()
	return out
}

// gather merges the answers of threads.
func (q ApprovalsQuery) gather(answers []asked) (Waiting, error) {
	var (
		threads    []ThreadApprovals
		unanswered []string
		failed     error
	)
	for _, a := range answers {
		threads = append(threads, a.ThreadApprovals)
		// A thread that has been closed since has no waiting calls.
		if a.err != nil && !signals.Gone(a.err) {
			unanswered = append(unanswered, a.Thread.ThreadID)
			failed = cmp.Or(failed, a.err)
		}
	}
	if failed != nil && len(unanswered) == len(answers) {
		return Waiting{}, failed
	}
	out := q.Select(threads)
	out.Unanswered = unanswered
	return out, nil
}

// Select returns the calls of these threads that the query selects, the longest wait first. A call that a thread shows for a
// sub-agent, whose thread is among them too, is listed once, in the topmost thread.
func (q ApprovalsQuery) Select(threads []ThreadApprovals) Waiting {
	out := Waiting{Approvals: []WaitingApproval{}, ClientCalls: []WaitingCall{}, Inputs: []WaitingInput{}}
	seen := newOverview(threads)
	for _, a := range threads {
		id, title := a.Thread.ThreadID, a.Thread.Title
		for _, r := range a.Calls.Approvals {
			if q.selects(r.Agent, r.ToolName) && !seen.shownAbove(id, r.ToolCallID) {
				out.Approvals = append(out.Approvals, WaitingApproval{ThreadID: id, Title: title, Request: r})
			}
		}
		for _, r := range a.Calls.ClientCalls {
			if q.selects(r.Agent, r.ToolName) && !seen.shownAbove(id, r.ToolCallID) {
				out.ClientCalls = append(out.ClientCalls, WaitingCall{ThreadID: id, Title: title, Call: r})
			}
		}
		for _, r := range a.Calls.Inputs {
			if q.selects(r.Agent, r.ToolName) && !seen.shownAbove(id, r.ToolCallID) {
				out.Inputs = append(out.Inputs, WaitingInput{ThreadID: id, Title: title, Request: r})
			}
		}
	}
	slices.SortStableFunc(out.Inputs, func(a, b WaitingInput) int {
		return a.Request.RequestedAt.Compare(b.Request.RequestedAt)
	})
	slices.SortStableFunc(out.Approvals, func(a, b WaitingApproval) int {
		return a.Request.RequestedAt.Compare(b.Request.RequestedAt)
	})
	slices.SortStableFunc(out.ClientCalls, func(a, b WaitingCall) int {
		return a.Call.RequestedAt.Compare(b.Call.RequestedAt)
	})
	return out
}

// overview records which thread shows which calls. A thread also shows the calls of its sub-agents;
// they are listed once, in the topmost thread. Calls of unrelated threads are different even if
// their ids are equal.
type overview struct {
	calls   map[string]map[string]bool
	parents map[string]string
}

func newOverview(threads []ThreadApprovals) overview {
	o := overview{calls: map[string]map[string]bool{}, parents: map[string]string{}}
	for _, a := range threads {
		calls := map[string]bool{}
		for _, r := range a.Calls.Approvals {
			calls[r.ToolCallID] = true
		}
		for _, r := range a.Calls.ClientCalls {
			calls[r.ToolCallID] = true
		}
		for _, r := range a.Calls.Inputs {
			calls[r.ToolCallID] = true
		}
		o.calls[a.Thread.ThreadID], o.parents[a.Thread.ThreadID] = calls, a.Thread.Parent
	}
	return o
}

// shownAbove reports whether an ancestor of a thread shows a call.
func (o overview) shownAbove(threadID, call string) bool {
	up := o.parents[threadID]
	// A memo can name any parent, but a chain is no longer than the list of threads.
	for links := 0; up != "" && up != threadID && links < len(o.parents); links++ {
		if o.calls[up][call] {
			return true
		}
		up = o.parents[up]
	}
	return false
}
