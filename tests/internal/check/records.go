package check

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// AwaitMessages waits until a thread has n messages.
func AwaitMessages(w *harness.Harness, thread string, n int) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		newest, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeMessage}, Limit: store.MaxLimit})
		return err == nil && len(newest) >= n
	}, testenv.Patience, testenv.Tick)
}

// DecisionOn returns the decision on an event.
func DecisionOn(w *harness.Harness, thread, eventID string) event.Interception {
	w.T.Helper()
	found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), recordid.Interception(eventID))
	require.NoError(w.T, err)
	require.Len(w.T, found, 1, "a decision on event %s", eventID)
	return harness.Payload[event.Interception](w, found[0])
}

// RecordOf returns a record.
func RecordOf(w *harness.Harness, thread, id string) event.Record {
	w.T.Helper()
	found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), id)
	require.NoError(w.T, err)
	require.Len(w.T, found, 1, "record %s", id)
	return found[0]
}

// SaidIn are a thread's stored messages: "ann: hello".
func SaidIn(w *harness.Harness, thread string) []string {
	w.T.Helper()
	out := []string{}
	for _, m := range w.Messages(thread) {
		out = append(out, m.SenderID+": "+m.Content)
	}
	return out
}

// ItemOf queries an event in a thread's queue.
func ItemOf(w *harness.Harness, thread, eventID string) event.Item {
	w.T.Helper()
	it, err := w.Threads.Item(w.Ctx(), thread, eventID)
	require.NoError(w.T, err)
	return it
}

// FailedEvent returns an event that must have failed.
func FailedEvent(w *harness.Harness, thread, eventID string) event.Item {
	w.T.Helper()
	it := ItemOf(w, thread, eventID)
	require.Equal(w.T, event.ItemFailed, it.Status)
	return it
}

// decisionIn waits for a hook record.
func decisionIn(w *harness.Harness, thread, recordID string) event.Interception {
	w.T.Helper()
	var found []event.Record
	require.Eventually(w.T, func() bool {
		var err error
		found, err = w.Store.RecordsByID(w.Ctx(), w.Key(thread), recordID)
		return err == nil && len(found) == 1
	}, testenv.Patience, testenv.Tick, "record %s", recordID)
	require.Equal(w.T, event.TypeHook, found[0].Type)
	return harness.Payload[event.Interception](w, found[0])
}

// OfType returns a thread's records of one type.
func OfType(w *harness.Harness, thread, typ string) []event.Record {
	w.T.Helper()
	out, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{Types: []string{typ}})
	require.NoError(w.T, err)
	return out
}

// Newest returns a thread's last record.
func Newest(w *harness.Harness, thread string) event.Record {
	w.T.Helper()
	records := w.Records(thread)
	require.NotEmpty(w.T, records)
	return records[len(records)-1]
}

// ToolLogs returns a thread's tool logs.
func ToolLogs(w *harness.Harness, thread string) []store.ToolLog {
	w.T.Helper()
	out, err := w.Store.ToolLogs(w.Ctx(), w.Key(thread))
	require.NoError(w.T, err)
	return out
}

// Results returns the results of tool calls, by the calls' ids; none may have two.
func Results(w *harness.Harness, thread string) map[string]event.Message {
	w.T.Helper()
	out := map[string]event.Message{}
	for _, m := range w.Messages(thread) {
		if m.ToolCallID == "" {
			continue
		}
		require.NotContains(w.T, out, m.ToolCallID, "two results of one call")
		out[m.ToolCallID] = m
	}
	return out
}

// RequireSettled checks that every stored call of a thread has its one result.
func RequireSettled(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	have := Results(w, thread)
	asked := 0
	for _, m := range w.Messages(thread) {
		for _, c := range m.ToolCalls {
			asked++
			require.Contains(t, have, c.ID, "call %s of %s has no result", c.ID, c.Function.Name)
		}
	}
	require.Len(t, have, asked, "no result without a call")
}

// Closed closes a thread and returns all events that a late viewer receives. The stream of a closed
// thread ends.
func Closed(t *testing.T, w *harness.Harness, thread string) []string {
	t.Helper()
	require.NoError(t, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlClose, By: "ann"}))
	require.Eventually(t, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
		return err == nil && row.Status == store.ThreadClosed
	}, testenv.Patience, testenv.Tick)
	req, err := http.NewRequestWithContext(w.Ctx(), http.MethodGet, w.API.URL+"/v1/threads/"+thread+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(bufio.NewReader(res.Body))
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			out = append(out, strings.TrimSpace(data))
		}
	}
	return out
}

// Only returns the only element of a list.
func Only[T any](t *testing.T, list []T) T {
	t.Helper()
	require.Len(t, list, 1)
	return list[0]
}

// AllRecords returns a thread's records, however many.
func AllRecords(w *harness.Harness, thread string) []event.Record {
	w.T.Helper()
	return AllRecordsIn(w.Ctx(), w.T, w.Store, w.Key(thread))
}

// AllRecordsIn are the records of a thread in a store.
func AllRecordsIn(ctx context.Context, t testing.TB, s store.Store, key store.Key) (out []event.Record) {
	t.Helper()
	for after := int64(0); ; after = out[len(out)-1].Seq {
		page, err := s.Records(ctx, key, store.Query{After: after, Limit: store.MaxLimit})
		require.NoError(t, err)
		out = append(out, page...)
		if len(page) < store.MaxLimit {
			return out
		}
	}
}

// FailedDecision is a decision that failed.
func FailedDecision(w *harness.Harness, thread, eventID string) event.Interception {
	w.T.Helper()
	decisions := slices.DeleteFunc(OfType(w, thread, event.TypeHook), func(r event.Record) bool {
		d := harness.Payload[event.Interception](w, r)
		return d.EventID != eventID || d.Outcome != event.OutcomeFailed
	})
	require.Len(w.T, decisions, 1)
	return harness.Payload[event.Interception](w, decisions[0])
}

// RequireWhole checks that a thread's records, all of them in order, have no gap and nothing twice, and that
// every tool call has one result, unless it waits for people or a client.
func RequireWhole(t *testing.T, records []event.Record) {
	t.Helper()
	ids, results := map[string]bool{}, map[string]int{}
	var calls []string
	waits := map[string]bool{}
	for i, r := range records {
		require.Equal(t, int64(i+1), r.Seq, "no gap before record %s", r.ID)
		require.NotContains(t, ids, r.ID, "a record twice")
		ids[r.ID] = true
		if r.Type == event.TypeApprovalRequest || r.Type == event.TypeInputRequest || r.Type == event.TypeClientCall {
			waits[Decode[struct{ ToolCallID string }](t, r.Payload).ToolCallID] = true
		}
		if r.Type == event.TypeMessage {
			m := Decode[event.Message](t, r.Payload)
			for _, c := range m.ToolCalls {
				calls = append(calls, c.ID)
			}
			if m.ToolCallID != "" {
				results[m.ToolCallID]++
			}
		}
	}
	for _, call := range calls {
		if results[call] == 0 && waits[call] {
			continue
		}
		require.Equal(t, 1, results[call], "results of call %s", call)
	}
}
