package transcript

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Recent keeps the newest messages of the threads in use in memory, and the newest records: the next model call of a thread then
// reads only what others have stored since.
type Recent struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[store.Key, recent]
	tails *simplelru.LRU[store.Key, tail]
}

const (
	// recentThreads is the number of threads of which a Recent keeps messages, those that were used last.
	recentThreads = 128

	// recentBytes is the maximum size of the payloads of a thread that is kept. In memory they take about four times as much.
	recentBytes = 256 << 10

	// tailBytes is the size of the payloads in a tail from which on it begins again.
	tailBytes = 64 << 10
)

// NewRecent returns a Recent that has nothing yet.
func NewRecent() *Recent {
	kept, _ := simplelru.NewLRU[store.Key, recent](recentThreads, nil) // it fails without a size only
	tails, _ := simplelru.NewLRU[store.Key, tail](recentThreads, nil)
	return &Recent{kept: kept, tails: tails}
}

// recent is a transcript without gaps.
type recent struct {
	*transcript
	replaced int64
}

// Read returns what the function [Read] returns; its messages must not be changed. replaced is [store.Appended].Replaced of an
// append to the thread. It returns [ErrTooLarge] if more than most bytes of payloads would have to be read; 0 = no limit.
func (c *Recent) Read(ctx context.Context, s Reader, key store.Key, replaced int64, w Window, most int) ([]*Message, error) {
	known, ok := c.take(key)
	if ok = ok && known.replaced == replaced; ok {
		known.most = most
		var err error
		if ok, err = known.follow(ctx, s, key, w); err != nil {
			return nil, err
		}
	}
	if !ok {
		t, err := readTranscript(ctx, s, key, w, most)
		if err != nil {
			return nil, err
		}
		known = recent{t, replaced}
	}
	out := known.in(w)
	c.keep(key, known)
	return out, nil
}

// Appended takes the records of an append, so that they need not be read.
func (c *Recent) Appended(key store.Key, done store.Appended) {
	c.extend(key, done)
	if known, ok := c.take(key); ok {
		known.extend(done.Records)
		c.keep(key, known)
	}
}

// extend adds those of the records that follow the transcript without a gap.
func (r *recent) extend(records []event.Record) {
	var next []event.Record // newest first
	for _, rec := range records {
		if rec.Seq != r.head+1 {
			continue
		}
		r.head = rec.Seq
		if slices.Contains(transcribed, rec.Type) {
			next = append([]event.Record{rec}, next...)
		}
	}
	if len(next) > 0 {
		r.add(next, Window{Bytes: r.room, Result: r.result})
	}
}

// follow adds the records that were stored since. It reports false if the transcript has to be read again: old messages may have
// changed, older ones are needed, or there are far more than needed.
func (r *recent) follow(ctx context.Context, s Reader, key store.Key, w Window) (bool, error) {
	if w.Head < r.head || w.Bytes != r.room || w.Result != r.result || !r.whole && w.Limit > r.limit || len(r.shown) > 2*w.Limit+100 {
		return false, nil
	}
	if w.Head > r.head {
		q := store.Query{After: r.head, Before: w.Head + 1, Types: transcribed, Newest: true, Limit: store.MaxLimit, MaxBytes: recentBytes}
		page, err := s.Records(ctx, key, q)
		if err != nil || !q.Complete(page) {
			return false, err
		}
		if slices.ContainsFunc(page, func(r event.Record) bool { return r.Type == event.TypeHook }) {
			return false, nil
		}
		r.add(page, w)
		r.head = w.Head
	}
	return true, r.complete(ctx, s, key, w)
}

// take removes the transcript of a thread, so that nobody else changes it meanwhile.
func (c *Recent) take(key store.Key) (recent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.kept.Get(key)
	c.kept.Remove(key)
	return r, ok
}

// keep keeps a transcript without decisions: a new decision can change any message, so most of what is kept would not be used again.
func (c *Recent) keep(key store.Key, r recent) {
	if r.sparse || len(r.found) > 0 || r.bytes > recentBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Add(key, r)
}

// tail are the newest records of a thread up to head, without gaps.
type tail struct {
	records        []event.Record
	bytes          int
	head, replaced int64
}

// extend adds the records of an append. If others were stored in between, the tail begins after those.
func (t *tail) extend(done store.Appended) {
	for _, r := range done.Records {
		if r.Seq > t.head+1 {
			t.records, t.bytes = nil, 0
		}
		if r.Seq > t.head {
			t.records, t.bytes, t.head = append(t.records, r), t.bytes+len(r.Payload), r.Seq
		}
	}
}

func (c *Recent) extend(key store.Key, done store.Appended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, _ := c.tails.Get(key)
	if t.bytes > tailBytes || t.replaced != done.Replaced {
		t = tail{replaced: done.Replaced}
	}
	if t.extend(done); t.bytes > recentBytes {
		t.records, t.bytes = nil, 0 // what is as large is read again
	}
	c.tails.Add(key, t)
}

// RecordsByID returns the records with these ids that exist, in order of Seq. None of them is older than the record with the id first.
// At is the result of an append to the thread.
func (c *Recent) RecordsByID(ctx context.Context, s Reader, key store.Key, at store.Appended, first string, ids ...string) ([]event.Record, error) {
	c.mu.Lock()
	t, _ := c.tails.Get(key)
	c.mu.Unlock()
	if t.head < at.Head || t.replaced != at.Replaced || !slices.ContainsFunc(t.records, func(r event.Record) bool { return r.ID == first }) {
		return s.RecordsByID(ctx, key, ids...)
	}
	var found []event.Record
	for _, r := range t.records {
		if slices.Contains(ids, r.ID) {
			found = append(found, r)
		}
	}
	return found, nil
}
