package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	appenders = 8
	rounds    = 15
)

// RunShared appends to one thread from many goroutines through all of stores, which share their
// data, while a reader of each follows the thread. Readers see no gap, and records never change.
func RunShared(t *testing.T, stores ...store.Store) {
	total := appenders * rounds * 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, appenders+len(stores))
	var running sync.WaitGroup
	for n := range appenders {
		running.Go(func() { errs <- appendRounds(ctx, stores[n%len(stores)], n) })
	}
	seen := make([][]event.Record, len(stores))
	for n, s := range stores {
		running.Go(func() {
			var err error
			seen[n], err = follow(ctx, s, total)
			errs <- err
		})
	}
	for range appenders + len(stores) {
		if err := <-errs; err != nil {
			cancel()
			running.Wait()
			require.NoError(t, err)
		}
	}
	all := query(t, stores[0], key, store.Query{})
	got := requireDense(t, all)
	require.Len(t, got, total)
	for _, records := range seen {
		require.Equal(t, all, records, "a reader that follows has seen exactly what is there")
	}
	slices.Sort(got)
	require.Len(t, slices.Compact(got), total, "ids are unique")
}

func appendRounds(ctx context.Context, s store.Store, n int) error {
	for i := range rounds {
		batch := store.Batch{Records: series(fmt.Sprintf("w%d-%d-", n, i), 3)}
		a, err := s.Append(ctx, key, batch)
		if err != nil {
			return err
		}
		if first := a.Records[0].Seq; a.Records[1].Seq != first+1 || a.Records[2].Seq != first+2 || a.Head < first+2 {
			return fmt.Errorf("a batch got the places %v with head %d", seqs(a.Records), a.Head)
		}
	}
	return nil
}

// follow reads like a viewer: always the records after the last one.
func follow(ctx context.Context, s store.Store, total int) ([]event.Record, error) {
	var seen []event.Record
	for len(seen) < total {
		more, err := s.Records(ctx, key, store.Query{After: int64(len(seen)), Limit: 7})
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			if r.Seq != int64(len(seen))+1 {
				return nil, fmt.Errorf("a reader found %d after %d", r.Seq, len(seen))
			}
			seen = append(seen, r)
		}
	}
	return seen, nil
}

func testConcurrentRetries(t *testing.T, s whole) {
	results := make(chan []event.Record, appenders)
	errs := make(chan error, appenders)
	for range appenders {
		go func() {
			a, err := s.Append(t.Context(), key, store.Batch{Records: records("a", "b", "c")})
			errs <- err
			results <- a.Records
		}()
	}
	for range appenders {
		require.NoError(t, <-errs)
	}
	want := query(t, s, key, store.Query{})
	require.Equal(t, []string{"a", "b", "c"}, requireDense(t, want))
	for range appenders {
		require.Equal(t, want, <-results)
	}
}

func testConcurrentThreads(t *testing.T, s whole) {
	errs := make(chan error, appenders)
	of := func(n int) store.Key {
		return store.Key{Namespace: fmt.Sprint("ns", n%2), ThreadID: fmt.Sprint("t", n/2)}
	}
	for n := range appenders {
		go func() {
			var err error
			for i := range rounds {
				_, e := s.Append(t.Context(), of(n), store.Batch{Records: records(fmt.Sprint("r", i))})
				if e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range appenders {
		require.NoError(t, <-errs)
	}
	for n := range appenders {
		require.Len(t, requireDense(t, query(t, s, of(n), store.Query{})), rounds)
	}
}

// testID: a store has the same id each time, and another one has another.
func testID(t *testing.T, s, other store.Store) {
	id := func(s store.Store) string {
		t.Helper()
		identified, ok := s.(store.Identified)
		require.True(t, ok)
		id, err := identified.ID(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, id)
		return id
	}
	first := id(s)
	require.Equal(t, first, id(s))
	require.NotEqual(t, first, id(other))
}
