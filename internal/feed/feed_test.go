package feed_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

func TestEvents(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	tests := map[string]struct {
		record event.Record
		want   []string
	}{
		"message of a person": {said("hi"), []string{
			`{"type":"message","messageId":"said hi","message":{"id":"said hi","threadId":"t1","senderId":"ann","senderType":"user","role":"user","content":"hi"}}`,
		}},
		"S1-05 message of a tool": {result("c1", "out"), []string{
			`{"type":"tool_result","toolName":"shell_cmd","output":"out","agent":"bot","toolCallId":"c1"}`,
		}},
		"S1-25 message of a tool that failed": {record(event.TypeMessage, event.Message{
			SenderType: event.Tool, ToolName: "x", ToolCallID: "c", Content: "no", IsError: true,
		}), []string{
			`{"type":"tool_result","toolName":"x","output":"no","isError":true,"toolCallId":"c"}`,
		}},
		"S1-03 tool_call with two calls": {calls("c1", "c2"), []string{
			`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}","agent":"bot","toolCallId":"c1"}`,
			`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}","agent":"bot","toolCallId":"c2"}`,
		}},
		"approval_request": {record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c", ToolName: "x", Arguments: "{}", Agent: "bot", RequestedAt: at}), []string{
			`{"type":"approval_request","agent":"bot","request":{"toolCallId":"c","toolName":"x","arguments":"{}","agent":"bot","requestedAt":"2023-11-14T22:13:20Z"}}`,
		}},
		"approval": {record(event.TypeApproval, event.Approval{ToolCallID: "c", ToolName: "x", Agent: "bot", Decision: event.Deny, Scope: event.Once, By: "ann", DecidedAt: at}), []string{
			`{"type":"approval","agent":"bot","approval":{"toolCallId":"c","toolName":"x","agent":"bot","decision":"deny","scope":"once","by":"ann","decidedAt":"2023-11-14T22:13:20Z"}}`,
		}},
		"status":                      {closed(), []string{`{"type":"status","status":{"status":"closed"}}`}},
		"S1-07 final":                 {record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m"}), []string{`{"type":"final","messageId":"m","agent":"bot"}`}},
		"S1-08 error":                 {record(event.TypeError, event.Failure{Agent: "bot", Error: "broke"}), []string{`{"type":"error","error":"broke","agent":"bot"}`}},
		"llm_call":                    {llmCall(), nil},
		"rejected":                    {record(event.TypeRejected, event.Rejected{Signal: "post"}), nil},
		"custom type":                 {record("weather.changed", map[string]any{"to": "rain"}), nil},
		"payload of another type":     {event.Record{Type: event.TypeStatus, Payload: json.RawMessage(`[]`)}, nil},
		"tool_call that is no object": {event.Record{Type: event.TypeToolCall, Payload: json.RawMessage(`7`)}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range feed.Events(test.record) {
				raw, err := json.Marshal(e)
				require.NoError(t, err)
				got = append(got, undated(raw))
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestCursor(t *testing.T) {
	for text, want := range map[string]feed.Cursor{
		"0":             {},
		"12":            {Seq: 12},
		"12.3":          {Seq: 12, Part: 3},
		"12:1700000000": {Seq: 12, Offset: 1700000000},
		"0:5":           {Offset: 5},
		"12.3:5":        {Seq: 12, Part: 3, Offset: 5},
	} {
		got, err := feed.ParseCursor(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for text, problem := range map[string]string{
		"":                     "seq is missing",
		"x":                    "seq is not a number",
		"-1":                   "seq is not a number",
		"1 ":                   "seq is not a number",
		"99999999999999999999": "seq is too large",
		"1.":                   "n is missing",
		"1.0":                  "n must be from 1",
		"0.1":                  "seq at least 1",
		"1.9999999":            "n must be from 1",
		"1:":                   "offset is missing",
		"1:2:3":                "offset is not a number",
		"1:2.3":                "offset is not a number",
	} {
		_, err := feed.ParseCursor(text)
		var bad *feed.CursorError
		require.ErrorAs(t, err, &bad, text)
		assert.Contains(t, bad.Problem, problem, text)
	}
}

// ids are cursors with the offsets replaced by their order in the log.
func ids(items []feed.Item) []string {
	var out []string
	first := int64(0)
	for _, item := range items {
		c := item.Cursor
		if c.Offset > 0 {
			if first == 0 {
				first = c.Offset
			}
			c.Offset += 1 - first
		}
		out = append(out, c.String())
	}
	return out
}

func TestIDs(t *testing.T) {
	w := newWorld(t, options{})
	r := w.open(feed.From{})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "a")
	w.piece(head, "m1", 1, "b")
	w.storeAll(llmCall(), message("m1", "ab"), calls("c1", "c2", "c3"))
	w.storeAll(closed())
	items := w.untilClosed(r)
	assert.Equal(t, []string{"1", "1:1", "1:2", "3", "4.1", "4.2", "4", "5"}, ids(items))
}

func TestPage(t *testing.T) {
	w := newWorld(t, options{})
	want := perform(w, runs(newRand(7), 3))
	want = facts(want)
	for limit := 1; limit < 8; limit++ {
		var got []feed.Item
		var at feed.Cursor
		for {
			items, next, err := w.feed.Page(w.ctx, w.key, at, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(items), limit)
			got = append(got, items...)
			if next == nil {
				break
			}
			at = *next
		}
		require.Equal(t, show(want), show(got), "pages of %d", limit)
	}
}

func TestReaderInMidMessage(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "done ")
	head = w.storeAll(message("m1", "done "), calls("c1"))
	w.publish(progress(head, "c1", "half"))
	head = w.storeAll(result("c1", "out"))
	w.piece(head, "m2", 1, "a")
	w.piece(head, "m2", 1, "b")
	r := w.open(feed.From{})
	var got []feed.Item
	for range 6 {
		got = append(got, w.next(r))
	}
	assert.Equal(t, []string{"1", "2", "3", "4", "4:1", "4:2"}, ids(got), "pieces only of the message that is not stored")
	assert.Equal(t, "b", got[5].Event.Content)
	w.piece(head, "m2", 1, "c")
	assert.Equal(t, "c", w.next(r).Event.Content)
	w.storeAll(message("m2", "abc"))
	assert.Equal(t, "abc", w.next(r).Event.Message.Content)
}

func TestStoredMeanwhile(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "a")
	r := w.open(feed.From{})
	w.next(r)
	cut := w.next(r)
	r.Close()
	w.piece(head, "m1", 1, "b")
	w.piece(head, "m1", 1, "c")
	w.storeAll(message("m1", "abc"), closed())
	got := w.rest(feed.From{Cursor: cut.Cursor})
	require.Len(t, got, 4)
	assert.Equal(t, "b", got[0].Event.Content)
	assert.Equal(t, "c", got[1].Event.Content)
	assert.Equal(t, "abc", got[2].Event.Message.Content)
}

func TestGap(t *testing.T) {
	small := func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }
	w := newWorld(t, options{stream: small})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "a")
	r := w.open(feed.From{})
	w.next(r)
	cut := w.next(r)
	r.Close()
	for range 3 {
		w.piece(head, "m1", 1, "b")
	}
	head = w.storeAll(message("m1", "abbb"))
	w.piece(head, "m2", 1, "c")

	r = w.open(feed.From{Cursor: cut.Cursor})
	lost := w.next(r)
	assert.Equal(t, event.EventGap, lost.Event.Type)
	assert.NotEmpty(t, lost.Event.Detail)
	assert.Equal(t, cut.Cursor, lost.Cursor, "who is cut here is told again")
	assert.Equal(t, "abbb", w.next(r).Event.Message.Content, "the message follows whole, without the rest of its pieces")
	assert.Equal(t, "c", w.next(r).Event.Content)
	w.storeAll(message("m2", "c"))
	assert.Equal(t, "c", w.next(r).Event.Message.Content)
}

func TestLogIsGone(t *testing.T) {
	w := newWorld(t, options{})
	w.storeAll(said("one"))
	w.storeAll(said("two"), said("three"))
	w.stream = memory.New(memory.Config{})
	t.Cleanup(func() { _ = w.stream.Close() })
	var err error
	w.feed, err = feed.New(feed.Config{Store: w.store, Stream: w.stream, Grace: patience})
	require.NoError(t, err)
	got := w.rest(feed.From{Cursor: feed.Cursor{Seq: 1}})
	assert.Equal(t, []string{"2", "3"}, ids(got))

	r := w.open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	assert.Equal(t, "two", w.next(r).Event.Message.Content, "no grace for words that cannot come")
}

func TestStaleAttempts(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	r := w.open(feed.From{Cursor: feed.Cursor{Seq: head}})
	for _, e := range []stream.Entry{
		piece(head, "m1", 1, "old"),
		reset(head, "m1", 2),
		piece(head, "m1", 1, "stale"),
		piece(head, "m1", 2, "new"),
		reset(head, "m1", 1),
		piece(head, "m2", 1, "another"),
	} {
		w.publish(e)
	}
	head = w.storeAll(message("m1", "new"))
	w.piece(head, "m1", 2, "after its message")
	w.publish(reset(head, "m1", 3))
	w.storeAll(closed())
	var got []string
	for _, item := range w.untilClosed(r) {
		got = append(got, string(item.Event.Type)+" "+item.Event.Content)
	}
	assert.Equal(t, []string{"stream old", "reset ", "stream new", "stream another", "message ", "status "}, got)
}

func TestS1_26ProgressAfterItsResult(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(calls("c1"), result("c1", "outcome unknown"))
	r := w.open(feed.From{Cursor: feed.Cursor{Seq: head}})
	w.publish(progress(1, "c1", "a run that was given up goes on"))
	w.storeAll(closed())
	assert.Len(t, w.untilClosed(r), 1, "also when the result was sent before the reader began")
}

func TestLostWord(t *testing.T) {
	w := newWorld(t, options{heartbeat: 20 * time.Millisecond, grace: 5 * time.Millisecond})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "a")
	r := w.open(feed.From{})
	w.next(r)
	w.next(r)
	w.append(message("m1", "a"))
	got := w.next(r)
	assert.Equal(t, "a", got.Event.Message.Content)
	w.piece(1, "m2", 1, "of a publisher that knows less")
	w.storeAll(said("again"), closed())
	live := w.untilClosed(r)
	assert.Equal(t, show(live), show(w.rest(feed.From{Cursor: got.Cursor})), "the cursor is exact all the same")
}

func TestWordUnderWay(t *testing.T) {
	w := newWorld(t, options{})
	w.storeAll(said("go"))
	w.piece(1, "m2", 1, "a")
	head := w.append(message("m1", "stored, and not yet announced"))
	r := w.open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	w.piece(1, "m2", 1, "b")
	w.word(head)
	w.storeAll(closed())
	items := w.untilClosed(r)
	assert.Equal(t, []string{"1:1", "1:2", "2", "3"}, ids(items), "the record comes where every reader has it")
}

func TestLostWordOfSlowReader(t *testing.T) {
	w := newWorld(t, options{heartbeat: 10 * time.Millisecond, grace: time.Nanosecond})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "first")
	r := w.open(feed.From{})
	w.next(r)
	w.next(r)
	for range 20 {
		w.piece(head, "m1", 1, "x")
	}
	w.append(message("m1", "whole"))
	_, err := w.open(feed.From{Now: true}).Next(w.ctx)
	require.ErrorIs(t, err, feed.ErrIdle, "by now it is time to look into the store")
	for range 20 {
		require.Equal(t, event.EventStream, w.next(r).Event.Type, "pieces that the reader has not read yet come first")
	}
	assert.Equal(t, "whole", w.next(r).Event.Message.Content)
}

func TestNowInMidRetry(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	w.publish(reset(head, "m1", 2))
	r := w.open(feed.From{Now: true})
	w.piece(head, "m1", 1, "stale")
	w.piece(head, "m1", 2, "new")
	assert.Equal(t, "new", w.next(r).Event.Content)
}

func TestPieceImpliesRecords(t *testing.T) {
	w := newWorld(t, options{})
	r := w.open(feed.From{})
	head := w.append(calls("c1"))
	w.publish(progress(head, "c1", "S1-26: the call comes first though its word is lost"))
	assert.Equal(t, event.EventToolCall, w.next(r).Event.Type)
	assert.Equal(t, event.EventToolProgress, w.next(r).Event.Type)
}

func TestNow(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("old"))
	w.piece(head, "m1", 1, "a")
	r := w.open(feed.From{Now: true})
	start := r.Start()
	w.piece(head, "m1", 1, "b")
	w.storeAll(message("m1", "ab"), closed())
	live := w.untilClosed(r)
	assert.Equal(t, []string{"1:1", "2", "3"}, ids(live))
	assert.Equal(t, "b", live[0].Event.Content)
	assert.Equal(t, show(live), show(w.rest(feed.From{Cursor: start})), "who is cut before the first event misses nothing")
}

func TestHeartbeat(t *testing.T) {
	w := newWorld(t, options{heartbeat: 10 * time.Millisecond})
	r := w.open(feed.From{})
	for range 3 {
		_, err := r.Next(w.ctx)
		require.ErrorIs(t, err, feed.ErrIdle)
	}
	w.storeAll(said("go"))
	assert.Equal(t, "go", w.next(r).Event.Message.Content)
}

func TestPieceCostsNoRead(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	r := w.open(feed.From{})
	w.next(r)
	w.piece(head, "m1", 1, "first")
	w.next(r)
	before := w.store.reads.Load()
	for range 100 {
		w.piece(head, "m1", 1, "x")
		w.next(r)
	}
	assert.Equal(t, before, w.store.reads.Load())
}

func TestConfig(t *testing.T) {
	w := newWorld(t, options{})
	for field, cfg := range map[string]feed.Config{
		"Store":             {Stream: w.stream},
		"Stream":            {Store: w.store},
		"HeartbeatInterval": {Store: w.store, Stream: w.stream, HeartbeatInterval: -1},
		"Grace":             {Store: w.store, Stream: w.stream, Grace: -1},
	} {
		_, err := feed.New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

func TestStoreFails(t *testing.T) {
	w := newWorld(t, options{})
	r := w.open(feed.From{})
	require.NoError(t, w.store.Close())
	w.word(1)
	_, err := r.Next(w.ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, feed.ErrIdle)
}

func BenchmarkPiece(b *testing.B) {
	w := newWorld(b, options{})
	head := w.storeAll(said("go"))
	r := w.open(feed.From{})
	w.next(r)
	b.ReportAllocs()
	for i := range b.N {
		w.piece(head, "m1", 1, fmt.Sprint(i))
		if got := w.next(r); got.Event.Type != event.EventStream {
			b.Fatal(got)
		}
	}
}
