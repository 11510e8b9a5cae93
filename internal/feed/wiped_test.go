package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store/sqlite"
)

// TestStoreIsWiped while viewers watch: they are told, and get what there is then.
func TestStoreIsWiped(t *testing.T) {
	w := newWorld(t, options{heartbeat: 10 * time.Millisecond, grace: time.Millisecond})
	w.storeAll(message("m1", "one"), message("m2", "two"), message("m3", "three"))
	r := w.open(feed.From{})
	for range 3 {
		w.next(r)
	}
	env := w.openEnv(feed.EnvFrom{Cursor: feed.EnvCursor{Cursor: feed.Cursor{Seq: 3}}})

	db, err := sqlite.Open(w.ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w.store.swap(db)
	w.append(message("m9", "anew"))
	gap := w.next(r)
	require.Equal(t, event.EventGap, gap.Event.Type)
	require.True(t, gap.Cursor.IsZero())
	after := w.next(r)
	require.Equal(t, "anew", after.Event.Message.Content)
	require.EqualValues(t, 1, after.Cursor.Seq)
	w.storeAll(message("m10", "and on"))
	require.Equal(t, "and on", w.next(r).Event.Message.Content)

	require.Equal(t, "stream.gap", w.nextEnv(env).Event.Type)
	require.Equal(t, "stream.start", w.nextEnv(env).Event.Type)
}
