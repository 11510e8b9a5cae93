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
	"github.com/threadmill/threadmill/signals"
)

// Decide decides on a tool call that waits. The result is the outcome and, of a call that needs
// several approvals, how many are missing.
func (c *Client) Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error) {
	var out signals.DecideResult
	err := c.update(ctx, threadID, signals.UpdateDecide, d, &out)
	return out, err
}

// Revoke takes an approval back, with all that it grants, and returns what became of that.
// It may be called again.
func (c *Client) Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error) {
	out, err := ask[signals.DecideResult](ctx, c, threadID, signals.UpdateRevoke, r)
	return out.Result, err
}

// ToolResult answers a tool call that waits for a connected client, and returns what became
// of the answer. It may be called again.
func (c *Client) ToolResult(ctx context.Context, threadID string, r signals.ToolResult) (signals.DecideOutcome, error) {
	out, err := ask[signals.DecideResult](ctx, c, threadID, signals.UpdateToolResult, r)
	return out.Result, err
}

// Approvals asks a thread for the tool calls that wait for people, or for a connected
// client. Those of its sub-agents are among them.
func (c *Client) Approvals(ctx context.Context, threadID string) (signals.Approvals, error) {
	return query[signals.Approvals](ctx, c, threadID, signals.QueryApprovals)
}

// Bounds of [ApprovalsQuery].Limit.
const (
	DefaultApprovalsLimit = 100
	MaxApprovalsLimit     = 1000
)

// How threads and schedules are asked: so many at once, each with so long to answer.
const (
	askers    = 8
	askWithin = 5 * time.Second
)

// ApprovalsQuery selects threads that wait for approval. The zero value is the newest of
// them.
type ApprovalsQuery struct {
	// Limit is how many threads are asked. 0 = [DefaultApprovalsLimit]; at most
	// [MaxApprovalsLimit].
	Limit int
}

// Waiting is what waits in the threads of a namespace, the longest first.
type Waiting struct {
	Approvals   []WaitingApproval `json:"approvals" nullable:"false" doc:"Calls that wait for a decision, the longest wait first"`
	ClientCalls []WaitingCall     `json:"clientCalls" nullable:"false" doc:"Calls that wait for a connected client, in threads that also wait for a decision"`
	Unanswered  []string          `json:"unanswered,omitempty" doc:"Waiting threads that did not answer in time"`
	More        bool              `json:"more,omitempty" doc:"More threads wait than were asked"`
}

// WaitingApproval is a tool call that waits for a decision.
type WaitingApproval struct {
	ThreadID string                `json:"threadId" doc:"Where to decide on it. Of a sub-agent's call: the thread for which it works"`
	Title    string                `json:"title,omitempty" doc:"The thread's title"`
	Request  event.ApprovalRequest `json:"request"`
}

// WaitingCall is a tool call that waits for a connected client to run it.
type WaitingCall struct {
	ThreadID string           `json:"threadId" doc:"Where to answer it"`
	Title    string           `json:"title,omitempty" doc:"The thread's title"`
	Call     event.ClientCall `json:"call"`
}

// ListApprovals returns what waits in those threads of the client's namespace that wait for
// approval. Visibility, which knows them, may lag behind by moments; what waits the threads
// are asked themselves. The error is that of the first thread if none has answered.
func (c *Client) ListApprovals(ctx context.Context, q ApprovalsQuery) (Waiting, error) {
	if q.Limit == 0 {
		q.Limit = DefaultApprovalsLimit
	}
	if q.Limit < 0 || q.Limit > MaxApprovalsLimit {
		return Waiting{}, fmt.Errorf("listing approvals: limit is %d, must be 1 to %d threads", q.Limit, MaxApprovalsLimit)
	}
	// One more, to know whether there is one.
	found, err := c.List(ctx, ListQuery{Waiting: true, Limit: q.Limit + 1})
	if err != nil {
		return Waiting{}, err
	}
	more := len(found) > q.Limit
	out, err := gather(c.askAll(ctx, found[:min(len(found), q.Limit)]))
	out.More = more
	return out, err
}

// asked is what a thread has answered.
type asked struct {
	thread Summary
	answer signals.Approvals
	err    error
}

// askAll asks threads for what waits in them.
func (c *Client) askAll(ctx context.Context, found []Summary) []asked {
	return mapped(found, func(s Summary) asked {
		within, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		answer, err := c.Approvals(within, s.ThreadID)
		return asked{s, answer, err}
	})
}

// mapped returns what f makes of each item of a list, of [askers] at once.
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

// gather makes one list of what threads have answered.
func gather(answers []asked) (Waiting, error) {
	out := Waiting{Approvals: []WaitingApproval{}, ClientCalls: []WaitingCall{}}
	var failed error
	for _, a := range answers {
		// In one that has been closed meanwhile nothing waits any more.
		if a.err != nil && !errors.Is(a.err, signals.ErrThreadNotFound) && !errors.Is(a.err, signals.ErrThreadClosed) {
			out.Unanswered = append(out.Unanswered, a.thread.ThreadID)
			failed = cmp.Or(failed, a.err)
		}
	}
	if failed != nil && len(out.Unanswered) == len(answers) {
		return Waiting{}, failed
	}
	seen := lookOver(answers)
	for _, a := range answers {
		id, title := a.thread.ThreadID, a.thread.Title
		for _, r := range a.answer.Approvals {
			if !seen.above(id, r.ToolCallID) {
				out.Approvals = append(out.Approvals, WaitingApproval{id, title, r})
			}
		}
		for _, r := range a.answer.ClientCalls {
			if !seen.above(id, r.ToolCallID) {
				out.ClientCalls = append(out.ClientCalls, WaitingCall{id, title, r})
			}
		}
	}
	slices.SortStableFunc(out.Approvals, func(a, b WaitingApproval) int {
		return a.Request.RequestedAt.Compare(b.Request.RequestedAt)
	})
	slices.SortStableFunc(out.ClientCalls, func(a, b WaitingCall) int {
		return a.Call.RequestedAt.Compare(b.Call.RequestedAt)
	})
	return out, nil
}

// overview knows which thread shows which calls. A thread shows those of its sub-agents
// too, which are listed once: where the topmost thread shows them. Calls of threads that do
// not work for each other are different ones, whatever their ids.
type overview struct {
	calls   map[string]map[string]bool
	parents map[string]string
}

func lookOver(answers []asked) overview {
	o := overview{calls: map[string]map[string]bool{}, parents: map[string]string{}}
	for _, a := range answers {
		calls := map[string]bool{}
		for _, r := range a.answer.Approvals {
			calls[r.ToolCallID] = true
		}
		for _, r := range a.answer.ClientCalls {
			calls[r.ToolCallID] = true
		}
		o.calls[a.thread.ThreadID], o.parents[a.thread.ThreadID] = calls, a.thread.Parent
	}
	return o
}

// above reports whether a thread that the given one works for shows a call.
func (o overview) above(threadID, call string) bool {
	up := o.parents[threadID]
	// A memo can name any parent, but a chain has no more links than there are threads.
	for links := 0; up != "" && up != threadID && links < len(o.parents); links++ {
		if o.calls[up][call] {
			return true
		}
		up = o.parents[up]
	}
	return false
}
