package store

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/event"
)

// ThreadLists lists the threads of a namespace.
type ThreadLists interface {
	// Threads returns the threads that page selects, in its order.
	Threads(ctx context.Context, namespace string, page ThreadPage) ([]Thread, error)

	// CountThreads counts the threads that the filter selects, by status and activity. Without a filter it reads an index entry
	// for each thread of the namespace, with one the rows.
	CountThreads(ctx context.Context, namespace string, f ThreadFilter) (ThreadCounts, error)

	// Previews returns the beginning of the first message of each of these threads, by thread id: on one line, of at most
	// [PreviewLength] characters, without NUL characters. The message is the first that a person
	// or an agent wrote and that hooks do not hide, as they replaced it, among the first [PreviewRecords] records. Threads without one are left out. It reads the records themselves, so it shows nothing that was erased or replaced.
	Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error)

	// WaitingRecords returns the records of the calls that wait in each of these threads, by thread id and in order of Seq: the
	// requests for approval and input of calls with a mark of [ActivityWaiting] and the approvals of them, from the turn of the
	// mark, and the requests to clients of turns that have not ended, unless the call has its result.
	WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error)

	// SubThreads returns the ids of the threads that have a thread as [ThreadUpdate].Parent, in order: those of its sub-agents.
	// Threads that are marked as erased are among them, since some of their contents may be left.
	SubThreads(ctx context.Context, key Key) ([]string, error)

	// ThreadIDs returns the ids of the threads of a namespace, in order, after one of them; at most limit, which is at most [MaxLimit].
	// Unlike the order of Threads, this one does not change.
	ThreadIDs(ctx context.Context, namespace, after string, limit int) ([]string, error)
}

// ThreadFilter selects threads. The zero value selects all.
type ThreadFilter struct {
	// Search selects threads whose id, title or agents contain the text, or one of whose messages
	// does, as hooks left it. Case does not matter in ASCII. Empty = all.
	Search string

	// Agent selects threads with this agent. DefaultAgent means that it is the default agent, so threads without named agents
	// have it. Empty = all.
	Agent        string
	DefaultAgent bool

	// Tool selects threads in which a call of this tool waits for a person. Empty = all.
	Tool string

	// ExpiresBefore selects threads in which a call waits for an approval that expires before this time; with Tool, a call of
	// that tool. Zero = all.
	ExpiresBefore time.Time

	// MinTokens selects threads with at least so many Tokens. 0 = no bound.
	MinTokens int64

	// UpdatedBefore and UpdatedAfter select threads by their UpdatedAt. Zero = no bound.
	UpdatedBefore, UpdatedAfter time.Time
}

// ThreadOrder is the order of a list of threads.
type ThreadOrder string

// The orders.
const (
	// OrderActive lists the most recently active threads first. It is the default.
	OrderActive ThreadOrder = ""

	// OrderAttention lists waiting threads first and then failing ones, each by ActivitySince, the longest first. The others
	// follow in the order of OrderActive.
	OrderAttention ThreadOrder = "attention"
)

// ThreadPage selects a page of threads.
type ThreadPage struct {
	// Status selects threads with this status. Empty = all.
	Status string

	// Activity selects open threads with this activity. Empty = all.
	Activity Activity

	ThreadFilter

	Order ThreadOrder

	// Limit is the maximum number of threads. Default 50, at most 200.
	Limit int

	// CursorUpdatedAt and CursorID are the UpdatedAt and the ID of the last thread of the previous
	// page. In OrderAttention, CursorActivity is its Activity, and CursorUpdatedAt the ActivitySince of a waiting or failing
	// thread: see [ThreadPage.After].
	CursorActivity  Activity
	CursorUpdatedAt time.Time
	CursorID        string
}

// After returns the page that follows a page whose last thread is t.
func (p ThreadPage) After(t Thread) ThreadPage {
	p.CursorActivity, p.CursorUpdatedAt, p.CursorID = "", t.UpdatedAt, t.ID
	if p.Order == OrderAttention {
		p.CursorActivity = t.Activity
		if attentionGroup(t.Activity) < len(Attention) {
			p.CursorUpdatedAt = t.ActivitySince
		}
	}
	return p
}

// Attention are the activities that come first in [OrderAttention].
var Attention = []Activity{ActivityWaiting, ActivityFailing}

func attentionGroup(a Activity) int {
	for i, one := range Attention {
		if one == a {
			return i
		}
	}
	return len(Attention)
}

// ThreadCounts counts threads by status, and open threads by activity.
type ThreadCounts struct {
	// Open threads.
	Open int `json:"open"`

	// Closed threads.
	Closed int `json:"closed"`

	// Open threads in which a call waits for a person.
	Waiting int `json:"waiting"`

	// Open threads whose last turn failed.
	Failing int `json:"failing"`

	// Open threads with a turn, or an event that waits for its turn.
	Running int `json:"running"`

	// Open threads whose last message mentions no agent.
	Unanswered int `json:"unanswered"`

	// Open threads with nothing left to do.
	Idle int `json:"idle"`
}

// Add adds n threads with a status and an activity.
func (c *ThreadCounts) Add(status string, activity Activity, n int) {
	if status == ThreadClosed {
		c.Closed += n
		return
	}
	c.Open += n
	switch activity {
	case ActivityWaiting:
		c.Waiting += n
	case ActivityFailing:
		c.Failing += n
	case ActivityRunning:
		c.Running += n
	case ActivityUnanswered:
		c.Unanswered += n
	case ActivityIdle:
		c.Idle += n
	}
}

// Limits of [ThreadLists].Previews.
const (
	// PreviewLength is the maximum length of a preview, in characters.
	PreviewLength = 200

	// PreviewRecords is the number of records at the beginning of a thread among which the first message is.
	PreviewRecords = 100
)
