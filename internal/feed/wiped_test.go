package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/store/sqlite"
)

// TestStoreIsWiped: when the store is replaced, viewers get a gap and then the new records.
func TestStoreIsWiped(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{Heartbeat: 10 * time.Millisecond, Grace: time.Millisecond})
	w.StoreAll(feedtest.Message("m1", "one"), feedtest.Message("m2", "two"), feedtest.Message("m3", "three"))
	r := w.Open(feed.From{})
	for range 3 {
		w.Next(r)
	}

	db, err := sqlite.Open(w.Ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w.Store.Replace(db)
	w.Append(feedtest.Message("m9", "anew"))
	gap := w.Next(r)
	require.Equal(t, event.EventGap, gap.Event.Type)
	require.True(t, gap.Cursor.IsZero())
	after := w.Next(r)
	require.Equal(t, "anew", after.Event.Message.Content)
	require.EqualValues(t, 1, after.Cursor.Seq)
	w.StoreAll(feedtest.Message("m10", "and on"))
	require.Equal(t, "and on", w.Next(r).Event.Message.Content)
}
