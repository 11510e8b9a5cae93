package envview_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

func TestEnvOfDecisions(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	items := w.Perform(feedtest.Intercepted())
	got := tell(items)
	require.Equal(t, []string{
		"stream.start m1", "stream.text m1 a sec", "stream.text m1 ret", "stream.completed m1 a secret",
		"stream.tool_call c1", "stream.tool_call c2",
		"stream.reset m1", "stream.text m1 redacted", "stream.completed m1 redacted",
		"stream.tool_call c1", "stream.tool_call c2",
		"tool.executed c1 a secret", "tool.executed c1 [redacted]",
		"tool.executed c2 out",
		"stream.start m3", "stream.text m3 let out", "stream.completed m3 let out",
		"session.deleted t1",
	}, got, "what supersedes comes to those who watch, and what is held back to nobody")
	for _, leaked := range []string{"held back", "not let out yet", "late"} {
		assert.NotContains(t, strings.Join(got, "\n"), leaked)
	}
	w.CheckCuts(items, same)
	late := w.Rest(projection.Cursor{})
	assert.Equal(t, "stream.text m1 a secret", tell(late)[1])
	assert.Equal(t, got[3:], tell(late)[2:])
	for limit := 1; limit < 5; limit++ {
		require.Equal(t, same(late), same(w.Pages(limit)), "pages of %d", limit)
	}
}

func TestEnvOfRecords(t *testing.T) {
	interrupted := feedtest.Reply("m1", "half of")
	interrupted.Interrupted = true
	result := func(parent string, m event.Message) event.Record {
		m.SenderType, m.Role = event.CreatedByTool, event.RoleTool
		return event.NewRecord(m.ToolCallID+".result", event.TypeMessage, "trace", parent, feedtest.FileChanged.Time(), m)
	}
	asked := feedtest.Reply("file-1.asked", "")
	asked.ToolCalls = []event.ToolCall{{ID: "call_file-1", Function: event.Function{Name: "get_event_info"}}}
	shows := feedtest.Record(event.TypeToolCall, event.ToolCallEvent{AgentName: "demo", ToolCalls: asked.ToolCalls})
	shows.ParentEventID = "file-1"
	made := event.EnvEvent{
		ID: signals.EventID("default", "t1", "c1", event.TypeToolError), Type: event.TypeToolError, Timestamp: 1,
		Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceTool}, Payload: json.RawMessage(`{"toolCallId":"c1"}`),
	}
	foreign := made
	foreign.ID = "e1"
	final := feedtest.Record(event.TypeFinal, event.Final{Agent: "bot"})
	final.ID = "m1.final"
	for name, test := range map[string]struct {
		records []event.Record
		want    []string
	}{
		"a person's message is no event":      {[]event.Record{feedtest.Said("hi")}, nil},
		"approvals are no events":             {[]event.Record{feedtest.Record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c"}), feedtest.Record(event.TypeApproval, event.Approval{ToolCallID: "c"})}, nil},
		"nor are calls for clients":           {[]event.Record{feedtest.Record(event.TypeClientCall, event.ClientCall{ToolCallID: "c"})}, nil},
		"nor what is no environment event":    {[]event.Record{feedtest.Record("order.created", 7), feedtest.Record(event.TypeEnv, 7)}, nil},
		"S3-34 a quiet reply starts, too":     {[]event.Record{feedtest.CallOf("m1", 1), feedtest.Message("m1", "hi")}, []string{"stream.start m1", "stream.text m1 hi", "stream.completed m1 hi"}},
		"S3-34 one with calls goes on":        {[]event.Record{feedtest.CallOf("m1", 1), feedtest.WithCalls("m1", "hi", "c1"), feedtest.Calls("c1")}, []string{"stream.start m1", "stream.text m1 hi", "stream.tool_call c1"}},
		"S3-34 one of calls alone":            {[]event.Record{feedtest.CallOf("m1", 1), feedtest.WithCalls("m1", "", "c1"), feedtest.Calls("c1")}, []string{"stream.start m1", "stream.tool_call c1"}},
		"S3-34 one that says nothing":         {[]event.Record{feedtest.CallOf("m1", 1), final}, []string{"stream.start m1", "stream.completed m1"}},
		"what a hook says in place of it":     {[]event.Record{feedtest.Message("m1", "hi")}, []string{"stream.start m1", "stream.text m1 hi", "stream.completed m1 hi"}},
		"S3-34 one that was cut off":          {[]event.Record{feedtest.CallOf("m1", 1), feedtest.Record(event.TypeMessage, interrupted), feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "enough"})}, []string{"stream.start m1", "stream.text m1 half of", "stream.error interrupted by ann: enough"}},
		"S3-34 a turn that failed":            {[]event.Record{feedtest.Record(event.TypeError, event.Failure{Error: "no key"})}, []string{"stream.error no key"}},
		"an interrupt of nobody":              {[]event.Record{feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusInterrupted})}, []string{"stream.error interrupted"}},
		"other changes of status":             {[]event.Record{feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusRetried}), feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusUnmatched})}, nil},
		"a reply that nobody is shown":        {[]event.Record{feedtest.CallOf("m1", 1), feedtest.Held("m1", "a secret")}, nil},
		"what the model is shown of an event": {[]event.Record{feedtest.EnvRecord(feedtest.FileChanged), feedtest.Record(event.TypeMessage, asked), shows, result("file-1", event.Message{ToolCallID: "call_file-1", ToolName: "get_event_info", Content: "{}"})}, []string{"file.changed"}},
		"a person's message as hooks left it": {[]event.Record{feedtest.Said("hi"), feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(feedtest.Reply("said hi", "hello")))}, nil},
		"S3-56 a failure is told once":        {[]event.Record{result("e1", event.Message{ToolCallID: "c1", Content: "no", IsError: true}), feedtest.EnvRecord(made)}, []string{"tool.error c1 no"}},
		"one that somebody else tells of":     {[]event.Record{feedtest.EnvRecord(foreign)}, []string{"tool.error c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newThread(t, feedtest.Options{})
			w.StoreAll(test.records...)
			items := w.Rest(projection.Cursor{})
			assert.Equal(t, test.want, tell(items))
			assert.Equal(t, same(items), same(w.Pages(1)))
		})
	}
}

func TestEnvOfAttempts(t *testing.T) {
	t.Run("a start that was marked again", func(t *testing.T) {
		w := newThread(t, feedtest.Options{})
		head := w.StoreAll(feedtest.Said("go"))
		r := w.Open(projection.From{})
		for _, text := range []string{"a", "b"} { // the publisher lost unknown pieces
			e := feedtest.Piece(head, "m1", 1, text)
			e.Begins = true
			w.Publish(feedtest.Reset(head, "m1", 1))
			w.Publish(e)
		}
		w.StoreAll(feedtest.CallOf("m1", 1), feedtest.Message("m1", "b"), feedtest.Closed())
		items := w.UntilClosed(r)
		assert.Equal(t, []string{
			"stream.reset m1", "stream.start m1", "stream.text m1 a", "stream.reset m1", "stream.text m1 b", "stream.completed m1 b", "session.deleted t1",
		}, tell(items))
		w.CheckCuts(items, same)
	})
	t.Run("an attempt of which no piece came", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
		head := w.StoreAll(feedtest.Said("go"))
		r := w.Open(projection.From{})
		w.Piece(head, "m1", 1, "old")
		w.Publish(feedtest.Reset(head, "m1", 2))
		w.StoreAll(feedtest.CallOf("m1", 2), feedtest.Message("m1", "new"), feedtest.Closed())
		items := w.UntilClosed(r)
		assert.Equal(t, []string{
			"stream.start m1", "stream.text m1 old", "stream.reset m1", "stream.start m1", "stream.text m1 new", "stream.completed m1 new", "session.deleted t1",
		}, tell(items))
		w.CheckCuts(items, same)
	})
	t.Run("only thoughts, and nothing to say", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
		head := w.StoreAll(feedtest.Said("go"))
		r := w.Open(projection.From{})
		w.Publish(feedtest.Thought(head, "m1", "hm"))
		final := feedtest.Record(event.TypeFinal, event.Final{Agent: "bot"})
		final.ID = "m1.final"
		w.StoreAll(feedtest.CallOf("m1", 1), final, feedtest.Closed())
		items := w.UntilClosed(r)
		assert.Equal(t, []string{"stream.start m1", "stream.reasoning m1 hm", "stream.completed m1", "session.deleted t1"}, tell(items))
		w.CheckCuts(items, same)
	})
}

func TestEnvFromTheMiddle(t *testing.T) {
	t.Run("what is new only", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
		head := w.StoreAll(feedtest.Said("go"))
		w.Piece(head, "m1", 1, "a")
		r := w.Open(projection.From{Now: true})
		begun := r.Start()
		w.Piece(head, "m1", 1, "b")
		w.Piece(head, "m2", 1, "c")
		w.StoreAll(feedtest.CallOf("m1", 1), feedtest.Message("m1", "ab"), feedtest.Closed())
		items := w.UntilClosed(r)
		assert.Equal(t, []string{"stream.text m1 b", "stream.start m2", "stream.text m2 c", "stream.completed m1 ab", "session.deleted t1"}, tell(items))
		assert.Equal(t, same(items), same(w.Rest(begun)), "and the same from there")
	})
	t.Run("a log that keeps only the end of a message", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 1}) }})
		head := w.StoreAll(feedtest.Said("go"))
		w.Piece(head, "m1", 1, "b")
		r := w.Open(projection.From{})
		assert.Equal(t, "stream.start", w.Next(r).Event.Type, "it starts for whoever comes now")
		at := w.Next(r).Cursor
		r = w.Open(projection.From{Cursor: at})
		w.Piece(head, "m1", 1, "c")
		assert.Equal(t, []string{"stream.text m1 c"}, tell([]item{w.Next(r)}), "not for whoever had it before")
	})
	t.Run("what was lost", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }})
		head := w.StoreAll(feedtest.Said("go"))
		first := feedtest.Piece(head, "m1", 1, "a")
		first.Begins = true
		w.Publish(first)
		r := w.Open(projection.From{})
		started, text := w.Next(r), w.Next(r)
		r.Close()
		for range 4 {
			w.Piece(head, "m1", 1, "b")
		}
		w.StoreAll(feedtest.CallOf("m1", 1), feedtest.Message("m1", "abbbb"))
		r = w.Open(projection.From{Cursor: text.Cursor})
		var items []item
		for range 4 {
			items = append(items, w.Next(r))
		}
		assert.Equal(t, []string{"stream.gap", "stream.start m1", "stream.text m1 abbbb", "stream.completed m1 abbbb"}, tell(items))
		assert.Equal(t, started.Event.ID, items[1].Event.ID, "the start has the id that it had before")
		assert.Equal(t, text.Cursor, items[0].Cursor, "who is cut at the gap is told again")
	})
	t.Run("what was lost between a start and its text", func(t *testing.T) {
		w := newThread(t, feedtest.Options{Stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }})
		head := w.StoreAll(feedtest.Said("go"))
		w.Piece(head, "m1", 1, "a")
		w.Piece(head, "m2", 1, "b")
		r := w.Open(projection.From{})
		var items []item
		for range 3 {
			items = append(items, w.Next(r))
		}
		r.Close()
		require.Equal(t, []string{"stream.start m1", "stream.text m1 a", "stream.start m2"}, tell(items))
		w.Piece(head, "m2", 1, "c")
		w.StoreAll(feedtest.CallOf("m1", 1), feedtest.Message("m1", "a"))
		w.Piece(head, "m2", 1, "d")
		w.Piece(head, "m2", 1, "e")
		r = w.Open(projection.From{Cursor: items[2].Cursor})
		items = nil
		for range 7 {
			items = append(items, w.Next(r))
		}
		assert.Equal(t, []string{
			"stream.gap", "stream.start m1", "stream.text m1 a", "stream.completed m1 a",
			"stream.start m2", "stream.text m2 d", "stream.text m2 e",
		}, tell(items), "all of what follows comes")
	})
}

func TestEnvBuffered(t *testing.T) {
	w := newThread(t, feedtest.Options{})
	w.StoreAll(feedtest.EnvRecord(feedtest.FileChanged), feedtest.Said("what makes no event"), feedtest.Message("m1", "hi"), feedtest.Said("nor this"))
	r := w.Open(projection.From{})
	var buffered []bool
	for range 4 {
		w.Next(r)
		buffered = append(buffered, r.Buffered())
	}
	assert.Equal(t, []bool{true, true, true, false}, buffered, "only if an event is at hand")
}

func TestEnvThroughView(t *testing.T) {
	w := newThread(t, feedtest.Options{
		Stream: feedtest.NewMarking,
		View: func(store.Key) feed.View {
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent {
				assert.NotEmpty(t, e.Type, "it is asked about agent events only")
				e.Content, e.ToolArgs = strings.ToUpper(e.Content), `{"hidden":true}`
				if e.Message != nil {
					m := *e.Message
					m.Content = strings.ToUpper(m.Content)
					e.Message = &m
				}
				return e
			}
		},
	})
	live := w.Perform(turn())
	got := strings.Join(tell(live), "\n")
	assert.Contains(t, got, "stream.text m1 LET ME \n", "S0-10 what viewers are not to see comes in no view")
	assert.Contains(t, got, "stream.completed m2 IT IS DONE")
	assert.NotContains(t, got, "done")
	assert.Contains(t, string(live[6].Event.Payload), `{\"hidden\":true}`)
	assert.Contains(t, tell(w.Pages(3)), "stream.text m1 LET ME SEE")
}

func TestEnvStoreFails(t *testing.T) {
	w := newThread(t, feedtest.Options{})
	w.StoreAll(feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(feedtest.Reply("m1", "redacted"))))
	w.Store.FailLookups.Store(2)
	_, _, err := w.Projection.Page(w.Ctx, w.Key, projection.Cursor{}, 10)
	require.ErrorIs(t, err, feedtest.ErrLookup)
	_, err = w.Open(projection.From{Finite: true}).Next(w.Ctx)
	require.ErrorIs(t, err, feedtest.ErrLookup)
}

// TestStoreIsWiped while a viewer watches.
func TestStoreIsWiped(t *testing.T) {
	w := newThread(t, feedtest.Options{Heartbeat: 10 * time.Millisecond, Grace: time.Millisecond})
	w.StoreAll(feedtest.Message("m1", "one"), feedtest.Message("m2", "two"), feedtest.Message("m3", "three"))
	r := w.Open(projection.From{Cursor: projection.Cursor{Cursor: feed.Cursor{Seq: 3}}})
	db, err := sqlite.Open(w.Ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w.Store.Replace(db)
	w.Append(feedtest.Message("m9", "anew"))
	require.Equal(t, "stream.gap", w.Next(r).Event.Type)
	require.Equal(t, "stream.start", w.Next(r).Event.Type)
}
