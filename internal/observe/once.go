package observe

import (
	"crypto/sha256"
	"strings"
	"sync"

	"go.temporal.io/sdk/workflow"
)

// identity names something in a thread.
type identity [sha256.Size]byte

func identityOf(parts ...string) identity {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// maxRecent is how many records of turns a process remembers: a query runs for seconds.
const maxRecent = 1 << 14

// recent are the last things that were recorded. A worker that answers a query from the history also executes the
// workflow task in progress, which the SDK does not report as a replay; the task itself executes it again.
type recent struct {
	mu    sync.Mutex
	known map[identity]bool
	order []identity
	next  int
}

// first reports whether something is to be recorded: ctx does not replay it, and it was not recorded before.
func (r *recent) first(ctx workflow.Context, id identity) bool {
	return !workflow.IsReplaying(ctx) && r.add(id)
}

func (r *recent) add(id identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id] {
		return false
	}
	if r.known == nil {
		r.known = map[identity]bool{}
	}
	r.known[id] = true
	if len(r.order) < maxRecent {
		r.order = append(r.order, id)
		return true
	}
	delete(r.known, r.order[r.next])
	r.order[r.next] = id
	r.next = (r.next + 1) % maxRecent
	return true
}
