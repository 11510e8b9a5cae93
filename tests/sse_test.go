package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
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
