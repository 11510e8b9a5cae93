package activities

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTurns: where calls have to wait, namespaces take turns, however many calls one of them has.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		for range turns.free {
			require.Nil(t, turns.ask("flooded"))
		}
		var mu sync.Mutex
		var began []string
		so := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(began, " ")
		}
		wait := func(ctx context.Context, namespace string) {
			go func() {
				if turns.wait(ctx, namespace, turns.ask(namespace)) == nil {
					mu.Lock()
					began = append(began, namespace)
					mu.Unlock()
					sent := turns.sent()
					sent()
					sent()
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		for range 4 {
			wait(t.Context(), "flooded")
		}
		wait(gone, "gone")
		wait(t.Context(), "quiet")
		wait(t.Context(), "quiet")
		leave()
		synctest.Wait()
		require.Empty(t, so())
		turns.leave() // from here on, there is one place
		time.Sleep(callEvery / 2)
		require.Equal(t, "flooded", so())
		time.Sleep(10 * callEvery)
		require.Equal(t, "flooded quiet flooded quiet flooded flooded", so())
		turns.mu.Lock()
		defer turns.mu.Unlock()
		require.Equal(t, 1, turns.free)
		require.Empty(t, turns.order)
		require.Empty(t, turns.waiting)
	})
}
