package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

func listRuns(w *harness.Harness, thread string) *workflowservice.ListWorkflowExecutionsRequest {
	return &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", signals.WorkflowID(w.TaskQueue, thread)),
	}
}

// TestStreamCutAtRandom disconnects a viewer a hundred times while an agent counts to 500, and once
// more at the end: each token arrives exactly once, in order.
func TestStreamCutAtRandom(t *testing.T) {
	t.Parallel()
	const tokens, cuts = 500, 100
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			w := harness.New(t, b.Options)
			id := w.Open()
			random := rand.New(rand.NewPCG(1, 2))
			w.Post(id, fmt.Sprintf("count %d every 5ms", tokens))
			var seen []check.Frame
			last := ""
			for cut := 0; ; cut++ {
				v := check.Watch(t, w, id, last)
				take := 1 + random.IntN(2*tokens/cuts)
				for range take {
					f := v.Next(t)
					seen, last = append(seen, f), f.ID
					if check.IsFinal(f) {
						break
					}
				}
				v.Close()
				if check.IsFinal(seen[len(seen)-1]) {
					require.GreaterOrEqual(t, cut, cuts/2)
					break
				}
			}
			var text strings.Builder
			for _, f := range seen {
				if f.Event.Type == event.EventStream {
					text.WriteString(f.Event.Content)
				}
			}
			want := make([]string, tokens)
			for i := range want {
				want[i] = fmt.Sprint(i + 1)
			}
			require.Equal(t, strings.Join(want, " "), text.String())
			require.Equal(t, tokens, check.Count(seen, event.EventStream), "each token once")
			require.Equal(t, 2, check.Count(seen, event.EventMessage))
			require.Zero(t, check.Count(seen, event.EventGap))
			require.Equal(t, text.String(), w.Messages(id)[1].Content, "S1-24")
		})
	}
}

// feedReads counts the reads of a store by the viewers of threads.
type feedReads struct {
	teststore.Store
	n atomic.Int64
}

func (s *feedReads) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if q.After > 0 && q.Before > 0 && !q.Newest && len(q.Types) == 0 && q.EventID == "" {
		s.n.Add(1)
	}
	return s.Store.Records(ctx, key, q)
}

// TestViewersReadNoRecords: viewers in the process of the worker get the records of a turn without reading the store.
func TestViewersReadNoRecords(t *testing.T) {
	t.Parallel()
	var reads *feedReads
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		reads = &feedReads{Store: teststore.Of(c.Store)}
		c.Store = reads
	}})
	id := w.Open()
	viewers := []*check.View{check.Watch(t, w, id, ""), check.Watch(t, w, id, "")}
	turn := func() (shown [][]check.Frame) {
		w.Post(id, "use note {\"text\":\"a\"}")
		for _, v := range viewers {
			shown = append(shown, v.Until(t, func(f check.Frame) bool {
				return f.Event.Type == event.EventStatus && f.Event.Status.Status == event.StatusTurnEnded
			}))
		}
		return shown
	}
	turn() // its first notices may have come before the viewers
	// A stall of the machine between an append and its notice lets viewers read the store.
	for left := 5; ; left-- {
		require.Positive(t, left, "viewers read the store in each turn")
		before := reads.n.Load()
		shown := turn()
		require.Equal(t, shown[0], shown[1])
		require.Equal(t, 1, check.Count(shown[0], event.EventToolCall))
		require.Equal(t, 1, check.Count(shown[0], event.EventToolResult))
		require.Equal(t, 3, check.Count(shown[0], event.EventMessage))
		if reads.n.Load() == before {
			return
		}
	}
}
