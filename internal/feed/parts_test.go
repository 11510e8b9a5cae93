package feed

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestPosition(t *testing.T) {
	for _, text := range []string{"0", "12", "12.3", "12:7", "0:5", "12.3:5"} {
		c, err := ParseCursor(text)
		require.NoError(t, err)
		assert.Equal(t, c, positionOf(c).cursor())
	}
	assert.EqualValues(t, 11, positionOf(Cursor{Seq: 12, Part: 3}).seq, "a record in part is not done")
}

func TestBuffer(t *testing.T) {
	var b buffer
	assert.True(t, b.empty())
	for seq := range int64(3) {
		b.push(Item{Cursor: Cursor{Seq: seq}})
	}
	for seq := range int64(3) {
		assert.False(t, b.empty())
		assert.Equal(t, seq, b.take().Cursor.Seq)
	}
	assert.True(t, b.empty())
	assert.Equal(t, make([]Item, 3), b.items, "what was taken is not kept")
	b.reset()
	b.push(Item{Cursor: Cursor{Seq: 9}})
	assert.EqualValues(t, 9, b.take().Cursor.Seq)
}

func TestBacklog(t *testing.T) {
	b := backlog{ahead: []event.Record{{Seq: 4}, {Seq: 6}, {Seq: 7}}, due: 3}
	assert.Empty(t, b.ready())
	b.due = 6
	assert.Len(t, b.ready(), 2)
	b.drop(2)
	assert.Empty(t, b.ready(), "what is not due waits")
	b.due = 100
	assert.Len(t, b.ready(), 1)
	b.drop(1)
	assert.Nil(t, b.ahead)
}

func TestContiguous(t *testing.T) {
	records := func(seqs ...int64) (out []event.Record) {
		for _, seq := range seqs {
			out = append(out, event.Record{Seq: seq})
		}
		return out
	}
	for name, test := range map[string]struct {
		given       []int64
		after, last int64
		want        []int64
	}{
		"all":                                {[]int64{4, 5}, 3, 5, []int64{4, 5}},
		"those that were not delivered":      {[]int64{3, 4, 5}, 4, 5, []int64{5}},
		"those that are due":                 {[]int64{4, 5, 6}, 3, 5, []int64{4, 5}},
		"among those of earlier batches":     {[]int64{2, 4, 1, 5, 3}, 3, 5, []int64{4, 5}},
		"none":                               {nil, 3, 5, nil},
		"the first is missing":               {[]int64{5}, 3, 5, nil},
		"the last is missing":                {[]int64{4, 5}, 3, 6, nil},
		"one in between is missing":          {[]int64{4, 6}, 3, 6, nil},
		"an earlier one instead":             {[]int64{4, 1, 6}, 3, 6, nil},
		"delivered already":                  {[]int64{4, 5}, 5, 6, nil},
		"the reader is ahead of another log": {[]int64{1}, 50, 51, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := records(test.given...)
			got := contiguous(given, test.after, test.last)
			assert.Equal(t, records(test.want...), got)
			clear(got)
			assert.Equal(t, records(test.given...), given, "other readers have the same records")
		})
	}
}

func TestGrace(t *testing.T) {
	end := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		grace  grace
		offset int64
		want   bool
	}{
		"of nothing":                       {grace{}, 9, false},
		"before their pieces are read":     {grace{5, 8, end}, 7, false},
		"once their pieces have been read": {grace{5, 8, end}, 8, true},
	} {
		at, ok := test.grace.deadline(test.offset)
		assert.Equal(t, test.want, ok, name)
		if ok {
			assert.Equal(t, end, at, name)
		}
	}
}

func TestPieces(t *testing.T) {
	piece := func(attempt int) *event.AgentEvent {
		return &event.AgentEvent{Type: event.EventStream, MessageID: "m1", Attempt: attempt}
	}
	t.Run("an attempt begins once", func(t *testing.T) {
		p := newPieces()
		assert.False(t, p.begins(piece(1), false), "the viewer may have had pieces of it")
		assert.True(t, p.begins(piece(1), true))
		p.restart()
		assert.True(t, p.begins(piece(1), false), "it has had none")
		assert.True(t, p.note(piece(1)))
		assert.False(t, p.begins(piece(1), true))
		assert.True(t, p.begins(piece(2), false))
		assert.Equal(t, 1, p.streamed["m1"])
	})
	t.Run("a thought begins a message, and a reset does not", func(t *testing.T) {
		p := newPieces()
		p.restart()
		e := piece(1)
		e.Type = event.EventReset
		assert.False(t, p.begins(e, false))
		assert.True(t, p.note(e))
		assert.Zero(t, p.streamed["m1"])
		e.Type = event.EventThought
		assert.True(t, p.begins(e, false))
	})
	t.Run("what a later attempt has replaced is stale", func(t *testing.T) {
		p := newPieces()
		assert.True(t, p.note(piece(2)))
		assert.False(t, p.note(piece(1)))
		assert.True(t, p.note(piece(2)))
	})
	t.Run("nothing of a message comes after it", func(t *testing.T) {
		p := newPieces()
		p.finish(&event.AgentEvent{Type: event.EventMessage, MessageID: "m1"})
		assert.False(t, p.note(piece(9)))
	})
	t.Run("only so many messages are remembered", func(t *testing.T) {
		p := newPieces()
		for i := range remembered + 1 {
			p.finish(&event.AgentEvent{Type: event.EventMessage, MessageID: strconv.Itoa(i)})
		}
		assert.Len(t, p.finished, remembered)
		assert.False(t, p.done(subject{id: "0"}), "the oldest is forgotten")
		assert.True(t, p.done(subject{id: "1"}))
	})
}
