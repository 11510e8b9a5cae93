package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
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

// waitingIn returns what waits, from the records of a thread that [store.ThreadLists].WaitingRecords returns. A call waits for its
// newest request.
func waitingIn(records []event.Record) signals.Approvals {
	var out signals.Approvals
	for _, r := range records {
		switch r.Type {
		case event.TypeApprovalRequest:
			var q event.ApprovalRequest
			if json.Unmarshal(r.Payload, &q) == nil {
				askApproval(&out, q)
			}
		case event.TypeInputRequest:
			var q event.InputRequest
			if json.Unmarshal(r.Payload, &q) == nil {
				removeRequests(&out, q.ToolCallID)
				out.Inputs = append(out.Inputs, q)
			}
		case event.TypeApproval:
			var a event.Approval
			if json.Unmarshal(r.Payload, &a) == nil {
				vote(&out, a)
			}
		case event.TypeClientCall:
			var c event.ClientCall
			if json.Unmarshal(r.Payload, &c) == nil {
				out.ClientCalls = append(out.ClientCalls, c)
			}
		}
	}
	return out
}

// askApproval adds a request. A reminder changes nothing but the votes, which have records of their own.
func askApproval(out *signals.Approvals, q event.ApprovalRequest) {
	if q.Reminder > 0 && requestAt(out, q.ToolCallID) >= 0 {
		return
	}
	removeRequests(out, q.ToolCallID)
	if whole := q.Arguments; len(whole) > maxListedArguments {
		kept := strings.ToValidUTF8(whole[:maxListedArguments], "")
		q.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", kept, len(whole))
	}
	out.Approvals = append(out.Approvals, q)
}

// vote adds an approval to the request that it is for, or ends it.
func vote(out *signals.Approvals, a event.Approval) {
	at := requestAt(out, a.ToolCallID)
	if at < 0 || a.Decision == event.DecisionRevoked || max(a.Round, event.FirstRound) != max(out.Approvals[at].Round, event.FirstRound) {
		return
	}
	q := &out.Approvals[at]
	switch {
	case a.Missing == 0:
		removeRequests(out, a.ToolCallID)
	case !slices.ContainsFunc(q.Votes, func(v event.Vote) bool { return addressing.SamePerson(v.By, a.By) }):
		q.Votes = append(q.Votes, event.Vote{By: a.By, At: a.DecidedAt, Reason: a.Reason})
	}
}

func requestAt(out *signals.Approvals, toolCallID string) int {
	return slices.IndexFunc(out.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == toolCallID })
}

// removeRequests removes the earlier requests of a call.
func removeRequests(out *signals.Approvals, toolCallID string) {
	out.Approvals = slices.DeleteFunc(out.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == toolCallID })
	out.Inputs = slices.DeleteFunc(out.Inputs, func(q event.InputRequest) bool { return q.ToolCallID == toolCallID })
}
