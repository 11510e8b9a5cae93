package projection_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

// letters derives from a reply a letter in each of three places, the second of which is only for
// viewers who had no piece of it, and from each piece one letter. It records its input.
type letters struct{ got *[]string }

func (p letters) Project(_ context.Context, item feed.Item) (projection.Events[string], error) {
	text := func(s string) *string { return &s }
	switch e := item.Event; {
	case e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent:
		out := projection.Events[string]{text(e.MessageID + "a"), nil, text(e.MessageID + "c")}
		if item.Streamed == 0 {
			out[1] = text(e.MessageID + "b")
		}
		return out, nil
	case e.Type == event.EventStream:
		return projection.Events[string]{text(e.Content)}, nil
	case e.Type == event.EventGap:
		return projection.Events[string]{text("gap")}, nil
	case item.Record != nil:
		*p.got = append(*p.got, item.Record.Type)
	}
	return nil, nil
}

func newLetters(t *testing.T) (w *feedtest.Projected[string], got *[]string) {
	got = &[]string{}
	thread := feedtest.New(t, feedtest.Options{})
	return &feedtest.Projected[string]{Thread: thread, Projection: projection.Projection[string]{
		Feed: thread.Feed, New: func(projection.Viewer) projection.Projector[string] { return letters{got} },
	}}, got
}

func texts(items []projection.Item[string]) (events, cursors []string) {
	for _, item := range items {
		events, cursors = append(events, item.Event), append(cursors, item.Cursor.String())
	}
	return events, cursors
}

func TestPlaces(t *testing.T) {
	w, got := newLetters(t)
	w.StoreAll(feedtest.Said("go"), feedtest.LLMCall(), feedtest.Message("m", "hi"), feedtest.EnvRecord(feedtest.FileChanged), feedtest.Message("n", "bye"))
	items := w.Pages(100)
	events, cursors := texts(items)
	assert.Equal(t, []string{"ma", "mb", "mc", "na", "nb", "nc"}, events)
	assert.Equal(t, []string{"1~1", "1~2", "3", "4~1", "4~2", "5"}, cursors, "a model call has no place of its own")
	assert.Equal(t, []string{event.TypeMessage, event.TypeLLMCall, event.TypeEnv}, *got)
	for limit := 1; limit < 8; limit++ {
		require.Equal(t, items, w.Pages(limit), "pages of %d", limit)
	}
	w.CheckCuts(items, func(items []projection.Item[string]) []string { events, _ := texts(items); return events })
	*got = nil
	w.Rest(items[0].Cursor)
	assert.Equal(t, []string{event.TypeLLMCall, event.TypeEnv}, *got, "it is read again with what follows it")
}

func TestPlacesKeepTheirNumbers(t *testing.T) {
	w, _ := newLetters(t)
	head := w.StoreAll(feedtest.Said("go"))
	r := w.Open(projection.From{})
	w.Piece(head, "m", 1, "x")
	w.StoreAll(feedtest.Message("m", "x"), feedtest.Closed())
	var items []projection.Item[string]
	for range 3 {
		items = append(items, w.Next(r))
	}
	events, _ := texts(items)
	assert.Equal(t, []string{"x", "ma", "mc"}, events)
	assert.Equal(t, 1, items[1].Cursor.Sent)
	again, _ := texts(w.Rest(items[1].Cursor))
	assert.Equal(t, []string{"mc"}, again)
}

func TestGapCountsFromTheStart(t *testing.T) {
	w, _ := newLetters(t)
	w.StoreAll(feedtest.Message("m", "hi"))
	events, _ := texts(w.Rest(projection.Cursor{Cursor: feed.Cursor{Seq: 9}, Sent: 2}))
	assert.Equal(t, []string{"gap", "ma", "mb", "mc"}, events, "the place was one of another store")
}
