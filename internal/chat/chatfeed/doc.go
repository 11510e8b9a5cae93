// Package chatfeed reads the chats of threads: it finds answers and pages of messages, and follows an answer for one client
// as it goes on.
//
// The clients' protocols are encoders, see packages aisdk and agui. What the store has decides what a client sees; the thread is
// asked only whether more will follow.
package chatfeed

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Feed reads the chats of a namespace.
type Feed struct {
	Namespace string
	Store     store.Store
	Events    *feed.Feed
	Threads   Threads

	// WaitLimit is the time after which a stream ends if no worker has taken its message.
	WaitLimit time.Duration
}

// Threads asks threads, which must answer in time.
type Threads interface {
	State(ctx context.Context, threadID string) (signals.State, error)
	Approvals(ctx context.Context, threadID string) (signals.Approvals, error)
}

func (f *Feed) key(threadID string) store.Key {
	return store.Key{Namespace: f.Namespace, ThreadID: threadID}
}
