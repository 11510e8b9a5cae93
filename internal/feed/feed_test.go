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
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

func TestEvents(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	tests := map[string]struct {
		record event.Record
		want   []string
	}{
		"message of a person": {feedtest.Said("hi"), []string{
			`{"type":"message","messageId":"said hi","message":{"id":"said hi","threadId":"t1","senderId":"ann","senderType":"user","role":"user","content":"hi"}}`,
		}},
		"S1-05 message of a tool": {feedtest.Result("c1", "out"), []string{
			`{"type":"tool_result","toolName":"shell_cmd","output":"out","agent":"bot","toolCallId":"c1"}`,
		}},
		"S1-25 message of a tool that failed": {feedtest.Record(event.TypeMessage, event.Message{
			SenderType: event.CreatedByTool, ToolName: "x", ToolCallID: "c", Content: "no", IsError: true,
		}), []string{
			`{"type":"tool_result","toolName":"x","output":"no","isError":true,"toolCallId":"c"}`,
		}},
		"S1-03 tool_call with two calls": {feedtest.Calls("c1", "c2"), []string{
			`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}","agent":"bot","toolCallId":"c1"}`,
			`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}","agent":"bot","toolCallId":"c2"}`,
		}},
		"approval_request": {feedtest.Record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c", ToolName: "x", Arguments: "{}", Agent: "bot", RequestedAt: at}), []string{
			`{"type":"approval_request","agent":"bot","request":{"toolCallId":"c","toolName":"x","arguments":"{}","agent":"bot","requestedAt":"2023-11-14T22:13:20Z"}}`,
		}},
		"approval": {feedtest.Record(event.TypeApproval, event.Approval{ToolCallID: "c", ToolName: "x", Agent: "bot", Decision: event.DecisionDeny, Scope: event.ScopeOnce, By: "ann", DecidedAt: at}), []string{
			`{"type":"approval","agent":"bot","approval":{"toolCallId":"c","toolName":"x","agent":"bot","decision":"deny","scope":"once","by":"ann","decidedAt":"2023-11-14T22:13:20Z"}}`,
		}},
		"status":                      {feedtest.Closed(), []string{`{"type":"status","status":{"status":"closed"}}`}},
		"S1-07 final":                 {feedtest.Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m"}), []string{`{"type":"final","messageId":"m","agent":"bot"}`}},
		"S1-08 error":                 {feedtest.Record(event.TypeError, event.Failure{Agent: "bot", Error: "broke"}), []string{`{"type":"error","error":"broke","agent":"bot"}`}},
		"llm_call":                    {feedtest.LLMCall(), nil},
		"rejected":                    {feedtest.Record(event.TypeRejected, event.Rejected{Signal: "post"}), nil},
		"custom type":                 {feedtest.Record("weather.changed", map[string]any{"to": "rain"}), nil},
		"payload of another type":     {event.Record{Type: event.TypeStatus, Payload: json.RawMessage(`[]`)}, nil},
		"tool_call that is no object": {event.Record{Type: event.TypeToolCall, Payload: json.RawMessage(`7`)}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range feed.Events(test.record) {
				raw, err := json.Marshal(e)
				require.NoError(t, err)
				got = append(got, feedtest.Undated(raw))
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

// ids returns cursors with the offsets replaced by their order in the log.
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
	w := feedtest.New(t, feedtest.Options{})
	r := w.Open(feed.From{})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "a")
	w.Piece(head, "m1", 1, "b")
	w.StoreAll(feedtest.LLMCall(), feedtest.Message("m1", "ab"), feedtest.Calls("c1", "c2", "c3"))
	w.StoreAll(feedtest.Closed())
	items := w.UntilClosed(r)
	assert.Equal(t, []string{"1", "1:1", "1:2", "3", "4.1", "4.2", "4", "5"}, ids(items))
}

func TestPage(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	want := perform(w, feedtest.Runs(feedtest.NewRand(7), 3))
	want = facts(want)
	for limit := 1; limit < 8; limit++ {
		var got []feed.Item
		var at feed.Cursor
		for {
			items, next, err := w.Feed.Page(w.Ctx, w.Key, at, limit)
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
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "done ")
	head = w.StoreAll(feedtest.Message("m1", "done "), feedtest.Calls("c1"))
	w.Publish(feedtest.Progress(head, "c1", "half"))
	head = w.StoreAll(feedtest.Result("c1", "out"))
	w.Piece(head, "m2", 1, "a")
	w.Piece(head, "m2", 1, "b")
	r := w.Open(feed.From{})
	var got []feed.Item
	for range 6 {
		got = append(got, w.Next(r))
	}
	assert.Equal(t, []string{"1", "2", "3", "4", "4:1", "4:2"}, ids(got), "pieces only of the message that is not stored")
	assert.Equal(t, "b", got[5].Event.Content)
	w.Piece(head, "m2", 1, "c")
	assert.Equal(t, "c", w.Next(r).Event.Content)
	w.StoreAll(feedtest.Message("m2", "abc"))
	assert.Equal(t, "abc", w.Next(r).Event.Message.Content)
}

func TestStoredMeanwhile(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "a")
	r := w.Open(feed.From{})
	w.Next(r)
	cut := w.Next(r)
	r.Close()
	w.Piece(head, "m1", 1, "b")
	w.Piece(head, "m1", 1, "c")
	w.StoreAll(feedtest.Message("m1", "abc"), feedtest.Closed())
	got := w.Rest(feed.From{Cursor: cut.Cursor})
	require.Len(t, got, 4)
	assert.Equal(t, "b", got[0].Event.Content)
	assert.Equal(t, "c", got[1].Event.Content)
	assert.Equal(t, "abc", got[2].Event.Message.Content)
}

func TestGap(t *testing.T) {
	small := func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }
	w := feedtest.New(t, feedtest.Options{Stream: small})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "a")
	r := w.Open(feed.From{})
	w.Next(r)
	cut := w.Next(r)
	r.Close()
	for range 3 {
		w.Piece(head, "m1", 1, "b")
	}
	head = w.StoreAll(feedtest.Message("m1", "abbb"))
	w.Piece(head, "m2", 1, "c")

	r = w.Open(feed.From{Cursor: cut.Cursor})
	lost := w.Next(r)
	assert.Equal(t, event.EventGap, lost.Event.Type)
	assert.NotEmpty(t, lost.Event.Detail)
	assert.Equal(t, cut.Cursor, lost.Cursor, "who is cut here is told again")
	assert.Equal(t, "abbb", w.Next(r).Event.Message.Content, "the message follows whole, without the rest of its pieces")
	assert.Equal(t, "c", w.Next(r).Event.Content)
	w.StoreAll(feedtest.Message("m2", "c"))
	assert.Equal(t, "c", w.Next(r).Event.Message.Content)
}

func TestLogIsGone(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	w.StoreAll(feedtest.Said("one"))
	w.StoreAll(feedtest.Said("two"), feedtest.Said("three"))
	w.Stream = memory.New(memory.Config{})
	t.Cleanup(func() { _ = w.Stream.Close() })
	var err error
	w.Feed, err = feed.New(feed.Config{Store: w.Store, Stream: w.Stream, Grace: testenv.Patience})
	require.NoError(t, err)
	got := w.Rest(feed.From{Cursor: feed.Cursor{Seq: 1}})
	assert.Equal(t, []string{"2", "3"}, ids(got))

	r := w.Open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	assert.Equal(t, "two", w.Next(r).Event.Message.Content, "no grace for words that cannot come")
}

func TestStaleAttempts(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	r := w.Open(feed.From{Cursor: feed.Cursor{Seq: head}})
	for _, e := range []stream.Entry{
		feedtest.Piece(head, "m1", 1, "old"),
		feedtest.Reset(head, "m1", 2),
		feedtest.Piece(head, "m1", 1, "stale"),
		feedtest.Piece(head, "m1", 2, "new"),
		feedtest.Reset(head, "m1", 1),
		feedtest.Piece(head, "m2", 1, "another"),
	} {
		w.Publish(e)
	}
	head = w.StoreAll(feedtest.Message("m1", "new"))
	w.Piece(head, "m1", 2, "after its message")
	w.Publish(feedtest.Reset(head, "m1", 3))
	w.StoreAll(feedtest.Closed())
	var got []string
	for _, item := range w.UntilClosed(r) {
		got = append(got, string(item.Event.Type)+" "+item.Event.Content)
	}
	assert.Equal(t, []string{"stream old", "reset ", "stream new", "stream another", "message ", "status "}, got)
}

func TestS1_26ProgressAfterItsResult(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Calls("c1"), feedtest.Result("c1", "outcome unknown"))
	r := w.Open(feed.From{Cursor: feed.Cursor{Seq: head}})
	w.Publish(feedtest.Progress(1, "c1", "a run that was given up goes on"))
	w.StoreAll(feedtest.Closed())
	assert.Len(t, w.UntilClosed(r), 1, "also when the result was sent before the reader began")
}

func TestLostWord(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{Heartbeat: 20 * time.Millisecond, Grace: 5 * time.Millisecond})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "a")
	r := w.Open(feed.From{})
	w.Next(r)
	w.Next(r)
	w.Append(feedtest.Message("m1", "a"))
	got := w.Next(r)
	assert.Equal(t, "a", got.Event.Message.Content)
	w.Piece(1, "m2", 1, "of a publisher that knows less")
	w.StoreAll(feedtest.Said("again"), feedtest.Closed())
	live := w.UntilClosed(r)
	assert.Equal(t, show(live), show(w.Rest(feed.From{Cursor: got.Cursor})), "the cursor is exact all the same")
}

func TestWordUnderWay(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	w.StoreAll(feedtest.Said("go"))
	w.Piece(1, "m2", 1, "a")
	head := w.Append(feedtest.Message("m1", "stored, and not yet announced"))
	r := w.Open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	w.Piece(1, "m2", 1, "b")
	w.Word(head)
	w.StoreAll(feedtest.Closed())
	items := w.UntilClosed(r)
	assert.Equal(t, []string{"1:1", "1:2", "2", "3"}, ids(items), "the record comes where every reader has it")
}

func TestLostWordOfSlowReader(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{Heartbeat: 10 * time.Millisecond, Grace: time.Nanosecond})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "first")
	r := w.Open(feed.From{})
	w.Next(r)
	w.Next(r)
	for range 20 {
		w.Piece(head, "m1", 1, "x")
	}
	w.Append(feedtest.Message("m1", "whole"))
	_, err := w.Open(feed.From{Now: true}).Next(w.Ctx)
	require.ErrorIs(t, err, feed.ErrIdle, "by now it is time to look into the store")
	for range 20 {
		require.Equal(t, event.EventStream, w.Next(r).Event.Type, "pieces that the reader has not read yet come first")
	}
	assert.Equal(t, "whole", w.Next(r).Event.Message.Content)
}

func TestNowInMidRetry(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	w.Publish(feedtest.Reset(head, "m1", 2))
	r := w.Open(feed.From{Now: true})
	w.Piece(head, "m1", 1, "stale")
	w.Piece(head, "m1", 2, "new")
	assert.Equal(t, "new", w.Next(r).Event.Content)
}

func TestPieceImpliesRecords(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	r := w.Open(feed.From{})
	head := w.Append(feedtest.Calls("c1"))
	w.Publish(feedtest.Progress(head, "c1", "S1-26: the call comes first though its word is lost"))
	assert.Equal(t, event.EventToolCall, w.Next(r).Event.Type)
	assert.Equal(t, event.EventToolProgress, w.Next(r).Event.Type)
}

func TestNow(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("old"))
	w.Piece(head, "m1", 1, "a")
	r := w.Open(feed.From{Now: true})
	start := r.Start()
	w.Piece(head, "m1", 1, "b")
	w.StoreAll(feedtest.Message("m1", "ab"), feedtest.Closed())
	live := w.UntilClosed(r)
	assert.Equal(t, []string{"1:1", "2", "3"}, ids(live))
	assert.Equal(t, "b", live[0].Event.Content)
	assert.Equal(t, show(live), show(w.Rest(feed.From{Cursor: start})), "who is cut before the first event misses nothing")
}

func TestHeartbeat(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{Heartbeat: 10 * time.Millisecond})
	r := w.Open(feed.From{})
	for range 3 {
		_, err := r.Next(w.Ctx)
		require.ErrorIs(t, err, feed.ErrIdle)
	}
	w.StoreAll(feedtest.Said("go"))
	assert.Equal(t, "go", w.Next(r).Event.Message.Content)
}

func TestPieceCostsNoRead(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	r := w.Open(feed.From{})
	w.Next(r)
	w.Piece(head, "m1", 1, "first")
	w.Next(r)
	before := w.Store.Reads.Load()
	for range 100 {
		w.Piece(head, "m1", 1, "x")
		w.Next(r)
	}
	assert.Equal(t, before, w.Store.Reads.Load())
}

func TestConfig(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	for field, cfg := range map[string]feed.Config{
		"Store":             {Stream: w.Stream},
		"Stream":            {Store: w.Store},
		"HeartbeatInterval": {Store: w.Store, Stream: w.Stream, HeartbeatInterval: -1},
		"Grace":             {Store: w.Store, Stream: w.Stream, Grace: -1},
	} {
		_, err := feed.New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

func TestStoreFails(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	r := w.Open(feed.From{})
	require.NoError(t, w.Store.Close())
	w.Word(1)
	_, err := r.Next(w.Ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, feed.ErrIdle)
}

func BenchmarkPiece(b *testing.B) {
	w := feedtest.New(b, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	r := w.Open(feed.From{})
	w.Next(r)
	b.ReportAllocs()
	for i := range b.N {
		w.Piece(head, "m1", 1, fmt.Sprint(i))
		if got := w.Next(r); got.Event.Type != event.EventStream {
			b.Fatal(got)
		}
	}
}
