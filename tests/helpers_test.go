package tests

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const (
	waitLong = harness.Patience
	waitTick = harness.Tick

	// calm is a Config.StaleAfter for tests that count runs: longer than a machine stalls, so that
	// no step counts as lost and runs twice. It is well below waitLong, because the server may give
	// a step to a worker that has just stopped, which only this limit detects.
	calm = 40 * time.Second
)

// awaitMessages waits until a thread has n messages.
func awaitMessages(w *harness.Harness, thread string, n int) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		newest, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeMessage}, Limit: store.MaxLimit})
		return err == nil && len(newest) >= n
	}, waitLong, waitTick)
}

// runHistory returns the events of one run of a workflow; "" is the current one.
func runHistory(ctx context.Context, temporal client.Client, workflowID, runID string) ([]*history.HistoryEvent, error) {
	var out []*history.HistoryEvent
	it := temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
