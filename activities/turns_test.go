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

// TestTurns: where calls have to wait, the next one is of the namespace that has had the fewest of late, however many wait.
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
		require.Equal(t, "quiet", so())
		time.Sleep(10 * callEvery)
		require.Equal(t, "quiet quiet flooded flooded flooded flooded", so())
		time.Sleep(10 * forgetsHalf)
		require.Nil(t, turns.ask("busy"))
		for range 2 {
			wait(t.Context(), "busy")
			wait(t.Context(), "flooded")
		}
		turns.leave()
		time.Sleep(callEvery / 2)
		require.Equal(t, "quiet quiet flooded flooded flooded flooded flooded", so(), "what was long ago counts no longer")
		time.Sleep(10 * callEvery)
		turns.mu.Lock()
		defer turns.mu.Unlock()
		require.Equal(t, 1, turns.free)
		require.Empty(t, turns.waiting)
		turns.count("new")
		require.Len(t, turns.had, 3, "namespaces that have had nothing of late are forgotten")
	})
}
