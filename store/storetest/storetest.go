package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// Run runs the suite. open returns a new, empty store for each test and closes it after the test;
// the suite may close it earlier.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	tests := []suiteTest{
		{"append gives seq and keeps records", testAppend},
		{"append is idempotent", testIdempotent},
		{"append once stores all or finds what is there", testOnce},
		{"append of one id twice in a batch stores it once", testTwiceInBatch},
		{"append checks the batch; S2-02 TOKEN is never persisted", testRefused},
		{"append is all or nothing", testAtomic},
		{"append of nothing makes the thread", testAppendNothing},
		{"append returns what queries find", testRoundTrip},
		{"append with an ended context stores nothing", testEndedContext},
		{"appenders at once leave no gap that a reader sees", func(t *testing.T, s whole) { RunShared(t, s) }},
		{"retries at once store a batch once", testConcurrentRetries},
		{"threads at once do not mix", testConcurrentThreads},
		{"query bounds, types, order and limit", testQuery},
		{"query limit is bounded", testQueryLimit},
		{"query ends with the record that reaches its bytes", testQueryBytes},
		{"query of what is not there finds nothing", testQueryNothing},
		{"records by id", testRecordsByID},
		{"thread row", testThreadRow},
		{"thread row updates", testThreadUpdate},
		{"thread row updates keep their order", testThreadUpdateOrder},
		{"thread row updates at once end with the last", testThreadUpdateConcurrent},
		{"thread pages", testThreadPages},
		{"thread page limits", testThreadPageLimits},
		{"namespaces keep apart", testNamespaces},
		{"S0-31 tool log keeps raw input and output", testToolLog},
		{"tool start is stored once", testToolStart},
		{"tool start at once is stored once", testToolStartConcurrent},
		{"a tool call that waited for input starts again", testToolWaits},
		{"tool finish is stored once", testToolFinish},
		{"tool finish without start makes the log", testToolFinishAlone},
		{"tool logs by start", testToolLogs},
		{"tool logs are part of the transaction", testToolAtomic},
		{"content of any kind", testContent},
		{"content that is not text is sanitised", testSanitised},
		{"identifiers of any kind", testIdentifiers},
		{"no answer in time is marked as unavailable", testUnavailable},
		{"ping and close", testClose},
		{"each call runs within what is around it, by its name", testAround},
		{"a store has an id of its own", func(t *testing.T, s whole) { testID(t, s, opened(t, open)) }},
	}
	for _, test := range slices.Concat(tests, activities, agents, apiKeys, documents, entities, erasures, forgettings, threadLists) {
		t.Run(test.name, func(t *testing.T) { test.run(t, opened(t, open)) })
	}
}

// whole is a store with all that the suite tests.
type whole = teststore.Store

func opened(t *testing.T, open func(t *testing.T) store.Store) whole {
	s, err := store.Ask[whole](open(t))
	require.NoError(t, err)
	return s
}

// suiteTest is a test of the suite, with its own store.
type suiteTest struct {
	name string
	run  func(t *testing.T, s whole)
}

var key = store.Key{Namespace: "default", ThreadID: "t1"}

// start is a time with more precision than any store keeps.
var start = time.Date(2026, 3, 4, 5, 6, 7, 891234567, time.FixedZone("", 3600))

func record(id string) event.Record { return typed(id, event.TypeMessage) }

func typed(id, typ string) event.Record {
	return event.NewRecord(id, typ, "trace", "parent", start, map[string]string{"content": "text of " + id})
}

func records(ids ...string) []event.Record {
	all := make([]event.Record, len(ids))
	for i, id := range ids {
		all[i] = record(id)
	}
	return all
}

// series returns n records with the ids prefix1 to prefixN.
func series(prefix string, n int) []event.Record {
	all := make([]event.Record, n)
	for i := range all {
		all[i] = record(fmt.Sprintf("%s%d", prefix, i+1))
	}
	return all
}

func add(t *testing.T, s whole, k store.Key, b store.Batch) store.Appended {
	t.Helper()
	a, err := s.Append(t.Context(), k, b)
	require.NoError(t, err)
	return a
}

func query(t *testing.T, s store.Store, k store.Key, q store.Query) []event.Record {
	t.Helper()
	found, err := s.Records(t.Context(), k, q)
	require.NoError(t, err)
	return found
}

func thread(t *testing.T, s whole, k store.Key) store.Thread {
	t.Helper()
	row, err := s.Thread(t.Context(), k)
	require.NoError(t, err)
	return row
}

func ids(records []event.Record) []string {
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = r.ID
	}
	return all
}

// requireDense checks that seq is 1, 2, 3, … and returns the ids.
func requireDense(t *testing.T, records []event.Record) []string {
	t.Helper()
	for i, r := range records {
		require.EqualValues(t, i+1, r.Seq, "record %s", r.ID)
	}
	return ids(records)
}

func requireNoThread(t *testing.T, s whole, k store.Key) {
	t.Helper()
	_, err := s.Thread(t.Context(), k)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, query(t, s, k, store.Query{}))
}

func testClose(t *testing.T, s whole) {
	require.NoError(t, s.Ping(t.Context()))
	add(t, s, key, store.Batch{Records: records("a")})
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again")

	require.Error(t, s.Ping(t.Context()))
	_, err := s.Append(t.Context(), key, store.Batch{Records: records("b")})
	require.ErrorContains(t, err, key.String())
	_, err = s.Records(t.Context(), key, store.Query{})
	require.ErrorContains(t, err, key.String())
	_, err = s.Thread(t.Context(), key)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
}

func testEndedContext(t *testing.T, s whole) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Append(ctx, key, store.Batch{Records: records("a")})
	require.ErrorIs(t, err, context.Canceled)
	requireNoThread(t, s, key)
}

func object(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}
