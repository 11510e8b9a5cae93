package memory_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/stream/streamtest"
)

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(*testing.T) stream.Stream { return memory.New(memory.Config{}) })
}

func BenchmarkStream(b *testing.B) {
	s := memory.New(memory.Config{})
	defer s.Close()
	streamtest.Bench(b, s)
}

var key = stream.Key{Namespace: "ns", ThreadID: "thread"}

type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

func newClock() *clock { return &clock{at: time.Unix(1_700_000_000, 0)} }

func publish(t *testing.T, s stream.Stream, key stream.Key, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, s.Publish(t.Context(), key, streamtest.Piece(text)))
	}
}

func subscribe(t *testing.T, s stream.Stream, from stream.From) stream.Subscription {
	t.Helper()
	sub, err := s.Subscribe(t.Context(), key, from)
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

func next(t *testing.T, sub stream.Subscription) stream.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	e, err := sub.Next(ctx)
	require.NoError(t, err)
	return e
}

func TestOffsetsBeginAtTheTime(t *testing.T) {
	c := newClock()
	s := memory.New(memory.Config{Now: c.now})
	publish(t, s, key, "1", "2")
	sub := subscribe(t, s, stream.From{})
	require.Equal(t, c.at.UnixMicro(), next(t, sub).Offset)
	require.Equal(t, c.at.UnixMicro()+1, next(t, sub).Offset)
}

func TestRetentionByAge(t *testing.T) {
	c := newClock()
	s := memory.New(memory.Config{Retention: time.Minute, Now: c.now})
	publish(t, s, key, "1", "2")
	reader := subscribe(t, s, stream.From{})
	first, second := next(t, reader).Offset, next(t, reader).Offset
	c.advance(40 * time.Second)
	publish(t, s, key, "3")
	c.advance(20 * time.Second)

	sub := subscribe(t, s, stream.From{})
	require.False(t, sub.Start().Gap, "asking for the oldest is never a gap")
	require.Equal(t, "3", next(t, sub).Event.Content)

	require.True(t, subscribe(t, s, stream.From{Offset: first}).Start().Gap, "2 is gone")
	sub = subscribe(t, s, stream.From{Offset: second})
	require.False(t, sub.Start().Gap, "nothing that follows 2 is gone")
	require.Equal(t, "3", next(t, sub).Event.Content)
}

func TestReaderThatWasTrimmedLags(t *testing.T) {
	for name, cfg := range map[string]memory.Config{
		"by count": {MaxEntries: 5},
		"by bytes": {MaxBytes: 5 * streamtest.Piece("00").Size()},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(cfg)
			publish(t, s, key, "00")
			reader := subscribe(t, s, stream.From{})
			seen := next(t, reader).Offset
			for i := 1; i <= 5; i++ {
				publish(t, s, key, "0"+strconv.Itoa(i))
			}
			require.Equal(t, "01", next(t, reader).Event.Content, "all of the five are kept")
			publish(t, s, key, "06", "07")
			_, err := reader.Next(t.Context())
			require.ErrorIs(t, err, stream.ErrLagged)

			again := subscribe(t, s, stream.From{Offset: seen + 1})
			require.True(t, again.Start().Gap)
			for i := 3; i <= 7; i++ {
				require.Equal(t, "0"+strconv.Itoa(i), next(t, again).Event.Content)
			}
		})
	}
}

func TestNewestEntryIsKeptWhateverItsSize(t *testing.T) {
	s := memory.New(memory.Config{MaxBytes: 10})
	publish(t, s, key, "1", strings.Repeat("x", 1000))
	require.Len(t, next(t, subscribe(t, s, stream.From{})).Event.Content, 1000)
}

func TestIdleLogIsDroppedAndItsOffsetsAreOld(t *testing.T) {
	c := newClock()
	s := memory.New(memory.Config{Retention: time.Minute, Now: c.now})
	publish(t, s, key, "1")
	sub := subscribe(t, s, stream.From{})
	old := next(t, sub).Offset
	sub.Close()
	c.advance(2 * time.Minute)
	publish(t, s, stream.Key{ThreadID: "other"}, "sweep")
	require.Equal(t, 1, s.Logs())

	again := subscribe(t, s, stream.From{Offset: old})
	require.Equal(t, stream.Start{Gap: true}, again.Start())
	publish(t, s, key, "2")
	require.Greater(t, next(t, again).Offset, old)
}

func TestOffsetsGrowWhenTheClockGoesBack(t *testing.T) {
	c := newClock()
	s := memory.New(memory.Config{Retention: time.Minute, Now: c.now})
	publish(t, s, key, "1")
	sub := subscribe(t, s, stream.From{})
	old := next(t, sub).Offset
	sub.Close()
	c.advance(time.Hour)
	publish(t, s, stream.Key{ThreadID: "other"}, "sweep")
	c.advance(-24 * time.Hour)
	again := subscribe(t, s, stream.From{Offset: old})
	require.True(t, again.Start().Gap)
	publish(t, s, key, "2")
	require.Greater(t, next(t, again).Offset, old)
}

func TestReaderKeepsAnIdleLog(t *testing.T) {
	c := newClock()
	s := memory.New(memory.Config{Retention: time.Minute, Now: c.now})
	publish(t, s, key, "1")
	sub := subscribe(t, s, stream.From{})
	last := next(t, sub).Offset
	c.advance(time.Hour)
	publish(t, s, stream.Key{ThreadID: "other"}, "sweep")
	require.Equal(t, stream.Start{}, subscribe(t, s, stream.From{Offset: last}).Start(), "nothing has followed")
	publish(t, s, key, "2")
	require.Equal(t, last+1, next(t, sub).Offset)
}

func TestRestartGivesGap(t *testing.T) {
	c := newClock()
	before := memory.New(memory.Config{Now: c.now})
	publish(t, before, key, "1", "2")
	old := next(t, subscribe(t, before, stream.From{})).Offset
	require.NoError(t, before.Close())

	c.advance(time.Second)
	after := memory.New(memory.Config{Now: c.now})
	publish(t, after, key, "3")
	sub := subscribe(t, after, stream.From{Offset: old})
	require.True(t, sub.Start().Gap)
	e := next(t, sub)
	require.Equal(t, "3", e.Event.Content)
	require.Greater(t, e.Offset, old+1)
}
