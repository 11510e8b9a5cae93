package activities

import (
	"context"
	"strings"
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
		var began []string
		wait := func(ctx context.Context, namespace string) {
			go func() {
				if turns.wait(ctx, namespace, turns.ask(namespace)) == nil {
					began = append(began, namespace)
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
		require.Empty(t, began)
		turns.leave() // from here on, there is one place
		time.Sleep(callEvery / 2)
		synctest.Wait()
		require.Equal(t, "flooded", strings.Join(began, " "))
		time.Sleep(10 * callEvery)
		synctest.Wait()
		require.Equal(t, "flooded quiet flooded quiet flooded flooded", strings.Join(began, " "))
		require.Equal(t, 1, turns.free)
		require.Empty(t, turns.order)
		require.Empty(t, turns.waiting)
	})
}
