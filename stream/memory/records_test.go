package memory_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// size is that of a record, far more than what counts besides its payload.
const size = 20 << 10

// notice announces one record of a size.
func notice(seq int64, size int) stream.Entry {
	return stream.Entry{Stored: seq, Records: []event.Record{{Seq: seq, Payload: json.RawMessage(strings.Repeat("x", size))}}}
}

func announce(t *testing.T, s stream.Stream, seqs ...int64) {
	t.Helper()
	for _, seq := range seqs {
		require.NoError(t, s.Publish(t.Context(), key, notice(seq, size)))
	}
}

func requireKept(t *testing.T, s *memory.Stream, records int) {
	t.Helper()
	counted, kept := s.Kept()
	require.Equal(t, counted, kept)
	if records == 0 {
		require.Zero(t, kept)
		return
	}
	require.Equal(t, records, kept/size)
}

func TestRecordsAreKeptUntilTheyAreRead(t *testing.T) {
	s := memory.New(memory.Config{})
	announce(t, s, 1)
	requireKept(t, s, 0)
	fast, slow, gone := subscribe(t, s, stream.From{}), subscribe(t, s, stream.From{}), subscribe(t, s, stream.From{Now: true})
	require.Empty(t, next(t, fast).Records)
	announce(t, s, 2, 3)
	requireKept(t, s, 2)
	require.EqualValues(t, 2, next(t, fast).Records[0].Seq)
	require.EqualValues(t, 3, next(t, fast).Records[0].Seq)

	late := subscribe(t, s, stream.From{})
	for range 3 {
		require.Empty(t, next(t, late).Records, "records are not replayed")
	}
	require.EqualValues(t, 1, next(t, slow).Stored)
	require.EqualValues(t, 2, next(t, slow).Records[0].Seq)
	requireKept(t, s, 2)
	gone.Close()
	requireKept(t, s, 1)
	require.EqualValues(t, 3, next(t, slow).Records[0].Seq)
	requireKept(t, s, 0)
}

func TestRecordsAreKeptDespiteAClosedReader(t *testing.T) {
	s := memory.New(memory.Config{})
	gone, slow := subscribe(t, s, stream.From{}), subscribe(t, s, stream.From{})
	announce(t, s, 1)
	gone.Close()
	e, err := memory.Take(gone)
	require.NoError(t, err)
	require.Empty(t, e.Records)
	require.Len(t, next(t, slow).Records, 1)
	requireKept(t, s, 0)
}

func TestRecordsOfSlowReaderAreBounded(t *testing.T) {
	s := memory.New(memory.Config{})
	slow := subscribe(t, s, stream.From{})
	for seq := range int64(20) {
		announce(t, s, seq)
	}
	requireKept(t, s, 12) // 256 KiB
	for seq := range int64(20) {
		e := next(t, slow)
		require.Equal(t, seq, e.Stored)
		require.Equal(t, seq < 12, len(e.Records) == 1)
	}
	requireKept(t, s, 0)
	announce(t, s, 6)
	require.Len(t, next(t, slow).Records, 1, "a reader that has caught up gets records again")
}

func TestRemovedEntriesKeepNoRecords(t *testing.T) {
	c := newClock()
	for name, remove := range map[string]func(s *memory.Stream){
		"purged":          func(s *memory.Stream) { require.NoError(t, s.Purge(t.Context(), key)) },
		"over the limit":  func(s *memory.Stream) { publish(t, s, key, "a", "b", "c") },
		"older than kept": func(s *memory.Stream) { c.advance(time.Hour); publish(t, s, key, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.Config{MaxEntries: 3, Retention: time.Minute, Now: c.now})
			slow := subscribe(t, s, stream.From{})
			announce(t, s, 1, 2, 3)
			requireKept(t, s, 3)
			remove(s)
			requireKept(t, s, 0)
			_, err := slow.Next(t.Context())
			require.ErrorIs(t, err, stream.ErrLagged)
			slow.Close()
			requireKept(t, s, 0)
		})
	}
}

// TestRecordsOfManyReaders: readers that come, read and go at any time leave no records.
func TestRecordsOfManyReaders(t *testing.T) {
	s := memory.New(memory.Config{})
	ctx, stop := context.WithCancel(t.Context())
	var publishers, readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				sub, err := s.Subscribe(t.Context(), key, stream.From{Now: random.IntN(2) == 0})
				if err != nil {
					t.Error(err)
					return
				}
				reading := make(chan struct{})
				go func() {
					defer close(reading)
					for {
						if _, err := sub.Next(ctx); err != nil {
							return
						}
					}
				}()
				for range random.IntN(100) {
					_ = sub.Start()
				}
				sub.Close() // while it reads
				<-reading
			}
		})
	}
	for range 2 {
		publishers.Go(func() {
			for seq := range int64(2000) {
				if err := s.Publish(t.Context(), key, notice(seq, size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	publishers.Wait()
	stop()
	readers.Wait()
	requireKept(t, s, 0)
}
