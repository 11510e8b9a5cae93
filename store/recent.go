package store

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/threadmill/threadmill/event"
)

// Recent keeps the newest messages of the threads in use in memory: the transcript of a thread's next model call then needs only the
// records that were stored since.
type Recent struct {
	mu   sync.Mutex
	kept *simplelru.LRU[Key, recent]
}

const (
	// recentThreads is the number of threads of which a Recent keeps messages, those that were used last.
	recentThreads = 128

	// recentBytes is the maximum size of the payloads of a thread that is kept. In memory they take about four times as much.
	recentBytes = 256 << 10
)

// NewRecent returns a Recent that has nothing yet.
func NewRecent() *Recent {
	kept, _ := simplelru.NewLRU[Key, recent](recentThreads, nil) // it fails without a size only
	return &Recent{kept: kept}
}

// recent is a transcript without gaps.
type recent struct {
	*transcript
	replaced int64
}

// Transcript returns what the function [Transcript] returns; its messages must not be changed. replaced is [Appended].Replaced of an
// append to the thread.
func (c *Recent) Transcript(ctx context.Context, s Reader, key Key, replaced int64, w Window) ([]*Message, error) {
	known, ok := c.take(key)
	if ok = ok && known.replaced == replaced; ok {
		var err error
		if ok, err = known.follow(ctx, s, key, w); err != nil {
			return nil, err
		}
	}
	if !ok {
		t, err := readTranscript(ctx, s, key, w)
		if err != nil {
			return nil, err
		}
		known = recent{t, replaced}
	}
	out := known.in(w)
	// With decisions, most of what is kept would not be used again: a new one can change any message.
	if !known.sparse && len(known.found) == 0 && known.bytes <= recentBytes {
		c.keep(key, known)
	}
	return out, nil
}

// follow adds the records that were stored since. It reports false if the transcript has to be read again: old messages may have
// changed, older ones are needed, or there are far more than needed.
func (r *recent) follow(ctx context.Context, s Reader, key Key, w Window) (bool, error) {
	if w.Head < r.head || !r.whole && w.Limit > r.limit || len(r.shown) > 2*w.Limit+100 {
		return false, nil
	}
	if w.Head > r.head {
		q := Query{After: r.head, Before: w.Head + 1, Types: transcribed, Newest: true, Limit: MaxLimit}
		page, err := s.Records(ctx, key, q)
		if err != nil || !q.Complete(page) {
			return false, err
		}
		if slices.ContainsFunc(page, func(r event.Record) bool { return r.Type == event.TypeHook }) {
			return false, nil
		}
		r.add(page)
		r.head = w.Head
	}
	return true, r.complete(ctx, s, key, w)
}

// take removes the transcript of a thread, so that nobody else changes it meanwhile.
func (c *Recent) take(key Key) (recent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.kept.Get(key)
	c.kept.Remove(key)
	return r, ok
}

func (c *Recent) keep(key Key, r recent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Add(key, r)
}
