package tests

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/world"
)

const (
	waitLong = world.Patience
	waitTick = world.Tick
)

// awaitMessages waits until a thread has n messages.
func awaitMessages(w *world.World, thread string, n int) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		newest, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeMessage}, Limit: store.MaxLimit})
		return err == nil && len(newest) >= n
	}, waitLong, waitTick)
}
