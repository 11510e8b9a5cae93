package feed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
)

// began is a subscription with a start and nothing else.
type began stream.Start

func (b began) Start() stream.Start                      { return stream.Start(b) }
func (began) Next(context.Context) (stream.Entry, error) { return stream.Entry{}, context.Canceled }
func (began) Close()                                     {}

func entry(offset, after int64) *stream.Entry {
	return &stream.Entry{Offset: offset, After: after, Event: &event.AgentEvent{Type: event.EventStream}}
}

func TestTailPhases(t *testing.T) {
	at := Cursor{Seq: 5}
	for name, test := range map[string]struct {
		tail  tail
		start stream.Start
		at    Cursor
		phase phase
		gap   bool
	}{
		"from the beginning":               {tail{}, stream.Start{Last: 3}, Cursor{}, joining, false},
		"behind a record":                  {tail{}, stream.Start{Last: 3}, at, seeking, false},
		"behind a record, an empty log":    {tail{}, stream.Start{}, at, joining, false},
		"in the log":                       {tail{read: 2}, stream.Start{Last: 3}, at, joining, false},
		"in what the log has lost":         {tail{read: 2}, stream.Start{Last: 9, Gap: true}, at, joining, true},
		"again, after it followed":         {tail{read: 2, phase: following}, stream.Start{Last: 3}, at, joining, false},
		"again, in search":                 {tail{read: 2, phase: seeking}, stream.Start{Last: 3}, at, seeking, false},
		"again, with nothing to search":    {tail{read: 3, phase: seeking}, stream.Start{Last: 3}, at, joining, false},
		"again, in search of what is gone": {tail{read: 2, phase: seeking}, stream.Start{Last: 9, Gap: true}, at, joining, true},
	} {
		t.Run(name, func(t *testing.T) {
			gap := test.tail.attach(began(test.start), 7, test.at)
			assert.Equal(t, test.gap, gap)
			assert.Equal(t, test.phase, test.tail.phase)
			assert.EqualValues(t, 7, test.tail.head)
			if gap {
				assert.Zero(t, test.tail.read, "all that is kept follows")
			}
		})
	}
}

func TestTailSeeks(t *testing.T) {
	attached := func() *tail {
		s := &tail{}
		s.attach(began{Last: 3}, 5, Cursor{Seq: 5})
		return s
	}
	t.Run("until an entry implies the position", func(t *testing.T) {
		s := attached()
		next, passed := s.accept(entry(1, 4), 5)
		assert.False(t, next)
		assert.Empty(t, passed)
		_, ok := s.replay()
		assert.False(t, ok, "nobody knows yet on which side of the position it lies")
		next, passed = s.accept(entry(2, 5), 5)
		assert.True(t, next)
		assert.Len(t, passed, 1)
		assert.False(t, s.joined())
		next, _ = s.accept(entry(3, 0), 5)
		assert.True(t, next, "it searches no more")
		assert.True(t, s.joined())
	})
	t.Run("in vain", func(t *testing.T) {
		s := attached()
		for i := range int64(3) {
			next, passed := s.accept(entry(i+1, 1), 5)
			assert.False(t, next)
			assert.Empty(t, passed)
		}
		assert.Equal(t, joining, s.phase)
		for i := range int64(3) {
			assert.False(t, s.joined(), "what was skipped comes first")
			e, ok := s.replay()
			assert.True(t, ok)
			assert.Equal(t, i+1, e.Offset)
		}
		assert.True(t, s.joined())
	})
	t.Run("on, when the subscription has broken", func(t *testing.T) {
		s := attached()
		s.accept(entry(1, 1), 5)
		s.detach()
		assert.False(t, s.joined())
		s.attach(began{Last: 4}, 6, Cursor{Seq: 5})
		_, passed := s.accept(entry(2, 5), 5)
		assert.Len(t, passed, 1)
	})
}

func TestBackoff(t *testing.T) {
	now := time.Unix(1700000000, 0)
	var b backoff
	b.failed(now)
	assert.True(t, b.until.IsZero(), "the first time is tried again at once")
	for _, want := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
		b.failed(now)
		assert.Equal(t, want, b.until.Sub(now))
	}
	for range 20 {
		b.failed(now)
	}
	assert.Equal(t, lastRetry, b.until.Sub(now))
}
