package events

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestServers publishes to two servers, each with a worker and an API, over one store and one
// Temporal.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			one, two := newLedger(), newLedger()
			rules := func(l *ledger) []rule.Rule {
				return []rule.Rule{l.rule("files", "file.*"), l.rule("fence", "fence")}
			}
			o, second := b.Options, threadmill.Config{}
			o.NoWorker, o.Configure = true, func(c *threadmill.Config) {
				c.Rules, c.StaleAfter, c.StopTimeout = rules(one), check.Calm, 10*time.Millisecond
				second = *c
				second.Rules = rules(two)
			}
			w := harness.New(t, o)
			stop := w.StartWorker()
			check.Work(t, second)
			other, err := threadmill.New(second)
			require.NoError(t, err)
			api := httptest.NewServer(harness.API(t, other))
			t.Cleanup(api.Close)
			elsewhere := *w
			elsewhere.API = api
			// A worker that takes seconds to start counts as absent, and posts as kept.
			fence(w, w.Open())

			t.Run("S3-60 each event is handled once, in one order, whoever it was published to", func(t *testing.T) {
				serversShare(t, []*harness.Harness{w, &elsewhere}, []*ledger{one, two})
			})
			t.Run("S3-60 viewers of the one see what the other was told", func(t *testing.T) {
				thread := w.Open()
				env := watchEnv(t, &elsewhere, thread)
				require.NoError(t, byHTTP(t, w, "/v1/threads/"+thread+"/events", []byte(`{"type":"moon.rises"}`)))
				require.Equal(t, []string{"session.created", "moon.rises", "stream.start"}, env.next(t, 3))
			})
			t.Run("S3-60 when one is gone, the other goes on", func(t *testing.T) {
				stop()
				thread := w.Open()
				require.NoError(t, byHTTP(t, w, "/v1/threads/"+thread+"/events", []byte(`{"type":"file.changed"}`)))
				require.Len(t, awaitCalls(t, two, thread, 1), 1)
				require.Empty(t, one.calls(thread))
			})
		})
	}
}

func serversShare(t *testing.T, servers []*harness.Harness, ledgers []*ledger) {
	const threads, each = 8, 10
	w := servers[0]
	byBoth := make([]int, len(ledgers))
	for range threads {
		thread, ids := w.Open(), []string{}
		for i := range each {
			e := check.Happened("file.changed", i)
			ids = append(ids, e.ID)
			for attempt := range 2 { // the second is a duplicate, which the thread may not know yet
				server := servers[(i+attempt)%len(servers)]
				want := []string{signals.PostQueued, signals.PostDuplicate}[:attempt+1]
				begun := time.Now()
				status, answer := check.Request(t, server, http.MethodPost, fmt.Sprintf("/v1/threads/%s/events", thread), e)
				if time.Since(begun) > 2*time.Second { // what is not answered soon is sent again
					want = []string{signals.PostQueued, signals.PostDuplicate}
				}
				for until := time.Now().Add(testenv.Patience); status == http.StatusServiceUnavailable && time.Now().Before(until); {
					// On a machine that stalls, the worker counts as absent, and what was not acknowledged may have been kept.
					want = []string{signals.PostQueued, signals.PostDuplicate}
					status, answer = check.Request(t, server, http.MethodPost, fmt.Sprintf("/v1/threads/%s/events", thread), e)
				}
				require.Equal(t, http.StatusAccepted, status, answer)
				require.Contains(t, want, answer["status"])
			}
		}
		fence(w, thread)
		var calls []handling
		for i, l := range ledgers {
			byBoth[i] += len(l.calls(thread))
			calls = append(calls, l.calls(thread)...)
		}
		slices.SortFunc(calls, func(a, b handling) int { return a.at.Compare(b.at) })
		var handled []string
		for _, c := range calls {
			if c.event.Type != "fence" {
				handled = append(handled, c.event.ID)
			}
		}
		require.Equal(t, ids, handled)
		require.Len(t, check.OfType(w, thread, event.TypeEnv), each+1)
	}
	for i := range ledgers {
		require.Positive(t, byBoth[i], "each worker has done its part: %v", byBoth)
	}
}
