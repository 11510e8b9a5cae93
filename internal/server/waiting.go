package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/turn"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// waitingLists list the calls that wait in a namespace. They read the records, which have a request a moment after its thread, and
// ask no thread: a query would cost each one an action, and a worker that may have to replay it.
type waitingLists struct {
	store     store.Store
	namespace string
}

// Numbers of threads that one query of the store reads.
const (
	waitingPage    = 200
	waitingRecords = 50
)

// maxListedArguments is how much of a call's arguments a list has, in bytes: as much as the thread itself keeps.
const maxListedArguments = 16 << 10

// list returns the waiting calls of the threads that wait the longest.
func (w waitingLists) list(ctx context.Context, q threadclient.ApprovalsQuery) (threadclient.Waiting, error) {
	rows, err := w.threads(ctx, q.Limit+1)
	if err != nil {
		return threadclient.Waiting{}, err
	}
	more := len(rows) > q.Limit
	var threads []threadclient.ThreadApprovals
	for some := range slices.Chunk(rows[:min(len(rows), q.Limit)], waitingRecords) {
		ids := make([]string, len(some))
		for i, t := range some {
			ids[i] = t.ID
		}
		records, err := w.store.WaitingRecords(ctx, w.namespace, ids...)
		if err != nil {
			return threadclient.Waiting{}, err
		}
		for _, t := range some {
			threads = append(threads, threadclient.ThreadApprovals{
				Thread: threadclient.Summary{ThreadID: t.ID, Title: t.Title, Parent: t.Parent}, Calls: waitingIn(records[t.ID]),
			})
		}
	}
	out := q.Select(threads)
	out.More = more
	return out, nil
}

// threads returns the threads that wait the longest, at most n.
func (w waitingLists) threads(ctx context.Context, n int) ([]store.Thread, error) {
	page := store.ThreadPage{Activity: store.ActivityWaiting, Order: store.OrderAttention}
	var rows []store.Thread
	for len(rows) < n {
		page.Limit = min(n-len(rows), waitingPage)
		some, err := w.store.Threads(ctx, w.namespace, page)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
		if len(some) < page.Limit {
			break
		}
		page = page.After(some[len(some)-1])
	}
	return rows, nil
}

// waitingIn returns what waits, from the records of a thread that [store.ThreadLists].WaitingRecords returns.
func waitingIn(records []event.Record) (out signals.Approvals) {
	for _, c := range feed.Calls(records).Waiting() {
		switch {
		case c.Input != nil:
			out.Inputs = append(out.Inputs, *c.Input)
		case c.Client != nil:
			out.ClientCalls = append(out.ClientCalls, *c.Client)
		default:
			out.Approvals = append(out.Approvals, listedRequest(c))
		}
	}
	return out
}

// listedRequest returns the request of a call as lists have it: with all votes, and not that it was repeated.
func listedRequest(c *turn.Call) event.ApprovalRequest {
	q := *c.Request
	q.Votes, q.Reminder = c.Votes, 0
	if whole := q.Arguments; len(whole) > maxListedArguments {
		kept := strings.ToValidUTF8(whole[:maxListedArguments], "")
		q.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", kept, len(whole))
	}
	return q
}
