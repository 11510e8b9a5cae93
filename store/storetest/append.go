package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

func testAppend(t *testing.T, s whole) {
	first := add(t, s, key, store.Batch{Records: records("a", "b")})
	require.Equal(t, []string{"a", "b"}, requireDense(t, first.Records))
	require.EqualValues(t, 2, first.Head)
	require.False(t, first.Started)

	second := add(t, s, key, store.Batch{Records: records("c")})
	require.EqualValues(t, 3, second.Records[0].Seq)
	require.EqualValues(t, 3, second.Head)
	require.Equal(t, []string{"a", "b", "c"}, requireDense(t, query(t, s, key, store.Query{})))
	require.EqualValues(t, 3, thread(t, s, key).Head)
}

func testIdempotent(t *testing.T, s whole) {
	batch := store.Batch{Records: records("a", "b", "c")}
	first := add(t, s, key, batch)
	row := thread(t, s, key)

	changed := store.Batch{Records: records("a", "b", "c")}
	changed.Records[1].Payload = json.RawMessage(`{"content":"another text"}`)
	changed.Records[1].CreatedAt = start.Add(time.Hour)
	require.Equal(t, first, add(t, s, key, changed), "a retry returns what is stored")
	require.Equal(t, row, thread(t, s, key), "a retry leaves the thread as it is")

	overlap := add(t, s, key, store.Batch{Records: records("d", "b", "e", "a")})
	require.Equal(t, []string{"d", "b", "e", "a"}, ids(overlap.Records), "in the order given")
	require.Equal(t, []int64{4, 2, 5, 1}, seqs(overlap.Records))
	require.Equal(t, first.Records[1], overlap.Records[1])
	require.EqualValues(t, 5, overlap.Head)

	old := add(t, s, key, store.Batch{Records: records("b")})
	require.EqualValues(t, 2, old.Records[0].Seq)
	require.EqualValues(t, 5, old.Head, "the head is the thread's, not the batch's")
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, requireDense(t, query(t, s, key, store.Query{})))
}

func testTwiceInBatch(t *testing.T, s whole) {
	batch := store.Batch{Records: records("a", "b", "a")}
	batch.Records[2].Payload = json.RawMessage(`{"content":"another text"}`)
	a := add(t, s, key, batch)
	require.Equal(t, []int64{1, 2, 1}, seqs(a.Records))
	require.Equal(t, a.Records[0], a.Records[2])
	require.Equal(t, []string{"a", "b"}, requireDense(t, query(t, s, key, store.Query{})))
}

func testRefused(t *testing.T, s whole) {
	with := func(change func(r *event.Record)) store.Batch {
		batch := store.Batch{Records: records("a", "b")}
		change(&batch.Records[1])
		return batch
	}
	log := toolLog("call")
	finished := log
	finished.Status = store.ToolSucceeded
	other := toolLog("other")
	other.Status = store.ToolSucceeded
	for name, test := range map[string]struct {
		key   store.Key
		batch store.Batch
		want  string
	}{
		"S2-02 token":     {key, with(func(r *event.Record) { r.Type = event.TypeToken }), "tokens go to the live stream"},
		"no id":           {key, with(func(r *event.Record) { r.ID = "" }), "id"},
		"no type":         {key, with(func(r *event.Record) { r.Type = "" }), "type"},
		"payload":         {key, with(func(r *event.Record) { r.Payload = json.RawMessage(`{"a":`) }), "payload"},
		"id not text":     {key, with(func(r *event.Record) { r.ID = "a\xff" }), "id"},
		"id with NUL":     {key, with(func(r *event.Record) { r.ID = "a\x00" }), "id"},
		"trace with NUL":  {key, with(func(r *event.Record) { r.TraceID = "a\x00" }), "traceId"},
		"one id, 2 types": {key, store.Batch{Records: []event.Record{record("a"), typed("a", event.TypeFinal)}}, "type"},
		"no namespace":    {store.Key{ThreadID: "t"}, store.Batch{Records: records("a")}, "namespace"},
		"no thread":       {store.Key{Namespace: "n"}, store.Batch{Records: records("a")}, "threadId"},
		"thread status":   {key, store.Batch{Thread: &store.ThreadUpdate{Status: "ajar"}}, "ajar"},
		"update number":   {key, store.Batch{Thread: &store.ThreadUpdate{Number: -1}}, "number of the thread's update"},
		"metadata":        {key, store.Batch{Thread: &store.ThreadUpdate{Metadata: json.RawMessage("{")}}, "metadata"},
		"tool call id":    {key, store.Batch{ToolStart: &store.ToolLog{ToolName: "x"}}, "toolCallId"},
		"finished start":  {key, store.Batch{ToolStart: &finished}, "succeeded"},
		"started finish":  {key, store.Batch{ToolFinish: &log}, "started"},
		"two calls":       {key, store.Batch{ToolStart: &log, ToolFinish: &other}, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Append(t.Context(), test.key, test.batch)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, test.key.String())
			requireNoThread(t, s, test.key)
		})
	}
}

// testAtomic appends batches while a reader checks that it sees each batch completely or not at
// all.
func testAtomic(t *testing.T, s whole) {
	const batches, size = 20, 5
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := range batches {
			title := string(rune('a' + i))
			log := toolLog(title)
			_, err := s.Append(t.Context(), key, store.Batch{
				Records: series(title, size), Thread: &store.ThreadUpdate{Title: &title}, ToolStart: &log,
			})
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	for head := int64(0); head < batches*size; {
		logs, err := s.ToolLogs(t.Context(), key)
		require.NoError(t, err)
		found := query(t, s, key, store.Query{})
		head = int64(len(found))
		require.Zero(t, head%size, "half a batch is visible")
		require.LessOrEqual(t, int64(len(logs)), head/size, "a tool log is visible before the records of its batch")
		if head > 0 {
			row := thread(t, s, key)
			require.GreaterOrEqual(t, row.Head, head)
			require.Equal(t, string(rune('a'+row.Head/size-1)), row.Title, "the row is of another batch than its head")
		}
		select {
		case err := <-failed:
			require.NoError(t, err)
		default:
		}
	}
	require.NoError(t, <-failed)
	logs, err := s.ToolLogs(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, logs, batches)
}

func testAppendNothing(t *testing.T, s whole) {
	a := add(t, s, key, store.Batch{})
	require.Empty(t, a.Records)
	require.Zero(t, a.Head)
	row := thread(t, s, key)
	require.Equal(t, store.ThreadOpen, row.Status)
	require.Zero(t, row.Head)
	add(t, s, key, store.Batch{})
	require.Equal(t, row, thread(t, s, key))

	add(t, s, key, store.Batch{Records: records("a", "b")})
	row = thread(t, s, key)
	require.Equal(t, store.Appended{Head: 2}, add(t, s, key, store.Batch{}), "it tells where the thread stands")
	require.Equal(t, row, thread(t, s, key))
}

func testRoundTrip(t *testing.T, s whole) {
	r := event.Record{
		ID: "a", Type: "custom.type", TraceID: "trace", ParentEventID: "parent", EventID: "event", CreatedAt: start,
		Payload: json.RawMessage(`{"z": 1, "a": [1.50, "x", null, true], "a": {"deep": "<&>"}, "n": 12345678901234567890}`),
	}
	bare := event.Record{ID: "b", Type: event.TypeStatus, CreatedAt: start}
	a := add(t, s, key, store.Batch{Records: []event.Record{r, bare}})

	stored := a.Records[0]
	require.Equal(t, string(r.Payload), string(stored.Payload), "payloads come back to the byte")
	require.Equal(t, start.UTC().Truncate(time.Microsecond), stored.CreatedAt)
	require.Equal(t, time.UTC, stored.CreatedAt.Location())
	require.Equal(t, r.TraceID, stored.TraceID)
	require.Equal(t, r.ParentEventID, stored.ParentEventID)
	require.Equal(t, r.EventID, stored.EventID)
	require.Equal(t, r.Type, stored.Type)
	require.Equal(t, "null", string(a.Records[1].Payload), "no payload is null")

	require.Equal(t, a.Records, query(t, s, key, store.Query{}))
	require.Equal(t, a.Records, add(t, s, key, store.Batch{Records: []event.Record{r, bare}}).Records)
}

func seqs(records []event.Record) []int64 {
	all := make([]int64, len(records))
	for i, r := range records {
		all[i] = r.Seq
	}
	return all
}
