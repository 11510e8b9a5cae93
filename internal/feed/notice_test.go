package feed_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// TestNoticeCostsNoRead: viewers in the process of the publisher get records without reading the store.
func TestNoticeCostsNoRead(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	w.StoreAll(feedtest.Said("go"))
	late := feed.From{Cursor: feed.Cursor{Seq: 1}}
	viewers := []*feed.Reader{w.Open(late), w.Open(late)}
	before := w.Store.Reads.Load()
	w.StoreAll(feedtest.LLMCall(), feedtest.Message("m1", "let me see"), feedtest.Calls("c1", "c2"))
	w.StoreAll(feedtest.Result("c1", "one"), feedtest.Result("c2", "two"))
	w.StoreAll(feedtest.Closed())
	var got [][]feed.Item
	for _, r := range viewers {
		got = append(got, w.UntilClosed(r))
	}
	assert.Equal(t, before, w.Store.Reads.Load())
	stored := w.Rest(late)
	for _, items := range got {
		assert.Equal(t, show(stored), show(items))
		for i := range items {
			assert.Equal(t, stored[i].Record, items[i].Record)
			assert.Equal(t, stored[i].TraceID, items[i].TraceID)
		}
	}
}

// TestNoticeWithoutItsRecords: a reader that cannot use the records of a notice reads the store.
func TestNoticeWithoutItsRecords(t *testing.T) {
	for name, publish := range map[string]func(w *feedtest.Thread, earlier, latest []event.Record){
		"no records": func(w *feedtest.Thread, _, _ []event.Record) { w.Word(4) },
		"an earlier notice was lost": func(w *feedtest.Thread, _, latest []event.Record) {
			w.Publish(stream.Entry{Stored: 4, Records: latest})
		},
		"notices overtook each other": func(w *feedtest.Thread, earlier, latest []event.Record) {
			w.Publish(stream.Entry{Stored: 4, Records: latest})
			w.Publish(stream.Entry{Stored: 3, Records: earlier})
		},
		"the newest is missing": func(w *feedtest.Thread, earlier, _ []event.Record) {
			w.Publish(stream.Entry{Stored: 4, Records: earlier})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := feedtest.New(t, feedtest.Options{})
			w.StoreAll(feedtest.Said("go"))
			r := w.Open(feed.From{Cursor: feed.Cursor{Seq: 1}})
			w.Append(feedtest.Message("m1", "one"), feedtest.Message("m2", "two"))
			w.Append(feedtest.Closed())
			stored, err := w.Store.Records(w.Ctx, w.Key, store.Query{After: 1})
			require.NoError(t, err)
			publish(w, stored[:2], stored[2:])
			assert.Equal(t, show(w.Rest(feed.From{Cursor: feed.Cursor{Seq: 1}})), show(w.UntilClosed(r)))
		})
	}
}

// TestReplacedRecords: who has not received a record before it was replaced gets the new text.
func TestReplacedRecords(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	w.StoreAll(feedtest.Said("go"))
	slow := w.Open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	w.StoreAll(feedtest.Said("on"))
	w.Next(slow)
	w.StoreAll(feedtest.Message("m1", "ann lives here"))
	forgotten := feedtest.Message("m1", "[erased]")
	forgotten.ID = "m1"
	require.NoError(t, w.Store.ReplaceRecords(w.Ctx, w.Key, forgotten))

	resumed := w.Open(feed.From{Cursor: feed.Cursor{Seq: 2}})
	assert.Equal(t, "[erased]", w.Next(resumed).Event.Message.Content, "later subscriptions read the store")

	require.NoError(t, w.Stream.Purge(w.Ctx, w.Key)) // as whoever replaces records does
	w.StoreAll(feedtest.Closed())
	items := w.UntilClosed(slow)
	assert.Equal(t, event.EventGap, items[0].Event.Type)
	assert.Equal(t, "[erased]", items[1].Event.Message.Content)
}
