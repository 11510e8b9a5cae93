package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

func TestEnvOfDecisions(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	items := performEnv(w, intercepted())
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
	checkEnvCuts(t, w, items)
	late := w.restEnv(feed.EnvCursor{})
	assert.Equal(t, "stream.text m1 a secret", tell(late)[1])
	assert.Equal(t, got[3:], tell(late)[2:])
	for limit := 1; limit < 5; limit++ {
		require.Equal(t, same(late), same(w.envPages(limit)), "pages of %d", limit)
	}
}

func TestEnvOfRecords(t *testing.T) {
	interrupted := reply("m1", "half of")
	interrupted.Interrupted = true
	result := func(parent string, m event.Message) event.Record {
		m.SenderType, m.Role = event.Tool, event.RoleTool
		return event.NewRecord(m.ToolCallID+".result", event.TypeMessage, "trace", parent, fileChanged.Time(), m)
	}
	asked := reply("file-1.asked", "")
	asked.ToolCalls = []event.ToolCall{{ID: "call_file-1", Function: event.Function{Name: "get_event_info"}}}
	shows := record(event.TypeToolCall, event.ToolCallEvent{AgentName: "demo", ToolCalls: asked.ToolCalls})
	shows.ParentEventID = "file-1"
	made := event.EnvEvent{
		ID: signals.EventID("default", "t1", "c1", event.TypeToolError), Type: event.TypeToolError, Timestamp: 1,
		Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceTool}, Payload: json.RawMessage(`{"toolCallId":"c1"}`),
	}
	foreign := made
	foreign.ID = "e1"
	final := record(event.TypeFinal, event.Final{Agent: "bot"})
	final.ID = "m1.final"
	for name, test := range map[string]struct {
		records []event.Record
		want    []string
	}{
		"a person's message is no event":      {[]event.Record{said("hi")}, nil},
		"approvals are no events":             {[]event.Record{record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c"}), record(event.TypeApproval, event.Approval{ToolCallID: "c"})}, nil},
		"nor are calls for clients":           {[]event.Record{record(event.TypeClientCall, event.ClientCall{ToolCallID: "c"})}, nil},
		"nor what is no environment event":    {[]event.Record{record("order.created", 7), record(event.TypeEnv, 7)}, nil},
		"S3-34 a quiet reply starts, too":     {[]event.Record{callOf("m1", 1), message("m1", "hi")}, []string{"stream.start m1", "stream.text m1 hi", "stream.completed m1 hi"}},
		"S3-34 one with calls goes on":        {[]event.Record{callOf("m1", 1), withCalls("m1", "hi", "c1"), calls("c1")}, []string{"stream.start m1", "stream.text m1 hi", "stream.tool_call c1"}},
		"S3-34 one of calls alone":            {[]event.Record{callOf("m1", 1), withCalls("m1", "", "c1"), calls("c1")}, []string{"stream.start m1", "stream.tool_call c1"}},
		"S3-34 one that says nothing":         {[]event.Record{callOf("m1", 1), final}, []string{"stream.start m1", "stream.completed m1"}},
		"what a hook says in place of it":     {[]event.Record{message("m1", "hi")}, []string{"stream.start m1", "stream.text m1 hi", "stream.completed m1 hi"}},
		"S3-34 one that was cut off":          {[]event.Record{callOf("m1", 1), record(event.TypeMessage, interrupted), record(event.TypeStatus, event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "enough"})}, []string{"stream.start m1", "stream.text m1 half of", "stream.error interrupted by ann: enough"}},
		"S3-34 a turn that failed":            {[]event.Record{record(event.TypeError, event.Failure{Error: "no key"})}, []string{"stream.error no key"}},
		"an interrupt of nobody":              {[]event.Record{record(event.TypeStatus, event.StatusChange{Status: event.StatusInterrupted})}, []string{"stream.error interrupted"}},
		"other changes of status":             {[]event.Record{record(event.TypeStatus, event.StatusChange{Status: event.StatusRetried}), record(event.TypeStatus, event.StatusChange{Status: event.StatusUnmatched})}, nil},
		"a reply that nobody is shown":        {[]event.Record{callOf("m1", 1), held("m1", "a secret")}, nil},
		"what the model is shown of an event": {[]event.Record{envRecord(fileChanged), record(event.TypeMessage, asked), shows, result("file-1", event.Message{ToolCallID: "call_file-1", ToolName: "get_event_info", Content: "{}"})}, []string{"file.changed"}},
		"a person's message as hooks left it": {[]event.Record{said("hi"), decided("message", event.Replaced, did("guard", "replaced"), with(reply("said hi", "hello")))}, nil},
		"S3-56 a failure is told once":        {[]event.Record{result("e1", event.Message{ToolCallID: "c1", Content: "no", IsError: true}), envRecord(made)}, []string{"tool.error c1 no"}},
		"one that somebody else tells of":     {[]event.Record{envRecord(foreign)}, []string{"tool.error c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{})
			w.storeAll(test.records...)
			items := w.restEnv(feed.EnvCursor{})
			assert.Equal(t, test.want, tell(items))
			assert.Equal(t, same(items), same(w.envPages(1)))
		})
	}
}

func TestEnvOfAttempts(t *testing.T) {
	t.Run("a start that was marked again", func(t *testing.T) {
		w := newWorld(t, options{})
		head := w.storeAll(said("go"))
		r := w.openEnv(feed.EnvFrom{})
		for _, text := range []string{"a", "b"} { // the publisher has lost pieces, and does not know which
			e := piece(head, "m1", 1, text)
			e.Begins = true
			w.publish(reset(head, "m1", 1))
			w.publish(e)
		}
		w.storeAll(callOf("m1", 1), message("m1", "b"), closed())
		items := w.envUntilClosed(r)
		assert.Equal(t, []string{
			"stream.reset m1", "stream.start m1", "stream.text m1 a", "stream.reset m1", "stream.text m1 b", "stream.completed m1 b", "session.deleted t1",
		}, tell(items))
		checkEnvCuts(t, w, items)
	})
	t.Run("an attempt of which no piece came", func(t *testing.T) {
		w := newWorld(t, options{stream: newMarking})
		head := w.storeAll(said("go"))
		r := w.openEnv(feed.EnvFrom{})
		w.piece(head, "m1", 1, "old")
		w.publish(reset(head, "m1", 2))
		w.storeAll(callOf("m1", 2), message("m1", "new"), closed())
		items := w.envUntilClosed(r)
		assert.Equal(t, []string{
			"stream.start m1", "stream.text m1 old", "stream.reset m1", "stream.start m1", "stream.text m1 new", "stream.completed m1 new", "session.deleted t1",
		}, tell(items))
		checkEnvCuts(t, w, items)
	})
	t.Run("only thoughts, and nothing to say", func(t *testing.T) {
		w := newWorld(t, options{stream: newMarking})
		head := w.storeAll(said("go"))
		r := w.openEnv(feed.EnvFrom{})
		w.publish(thought(head, "m1", "hm"))
		final := record(event.TypeFinal, event.Final{Agent: "bot"})
		final.ID = "m1.final"
		w.storeAll(callOf("m1", 1), final, closed())
		items := w.envUntilClosed(r)
		assert.Equal(t, []string{"stream.start m1", "stream.reasoning m1 hm", "stream.completed m1", "session.deleted t1"}, tell(items))
		checkEnvCuts(t, w, items)
	})
}

func TestEnvFromTheMiddle(t *testing.T) {
	t.Run("what is new only", func(t *testing.T) {
		w := newWorld(t, options{stream: newMarking})
		head := w.storeAll(said("go"))
		w.piece(head, "m1", 1, "a")
		r := w.openEnv(feed.EnvFrom{Now: true})
		begun := r.Start()
		w.piece(head, "m1", 1, "b")
		w.piece(head, "m2", 1, "c")
		w.storeAll(callOf("m1", 1), message("m1", "ab"), closed())
		items := w.envUntilClosed(r)
		assert.Equal(t, []string{"stream.text m1 b", "stream.start m2", "stream.text m2 c", "stream.completed m1 ab", "session.deleted t1"}, tell(items))
		assert.Equal(t, same(items), same(w.restEnv(begun)), "and the same from there")
	})
	t.Run("a log that keeps only the end of a message", func(t *testing.T) {
		w := newWorld(t, options{stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 1}) }})
		head := w.storeAll(said("go"))
		w.piece(head, "m1", 1, "b")
		r := w.openEnv(feed.EnvFrom{})
		assert.Equal(t, "stream.start", w.nextEnv(r).Event.Type, "it starts for whoever comes now")
		at := w.nextEnv(r).Cursor
		r = w.openEnv(feed.EnvFrom{Cursor: at})
		w.piece(head, "m1", 1, "c")
		assert.Equal(t, []string{"stream.text m1 c"}, tell([]feed.EnvItem{w.nextEnv(r)}), "not for whoever had it before")
	})
	t.Run("what was lost", func(t *testing.T) {
		w := newWorld(t, options{stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }})
		head := w.storeAll(said("go"))
		first := piece(head, "m1", 1, "a")
		first.Begins = true
		w.publish(first)
		r := w.openEnv(feed.EnvFrom{})
		started, text := w.nextEnv(r), w.nextEnv(r)
		r.Close()
		for range 4 {
			w.piece(head, "m1", 1, "b")
		}
		w.storeAll(callOf("m1", 1), message("m1", "abbbb"))
		r = w.openEnv(feed.EnvFrom{Cursor: text.Cursor})
		var items []feed.EnvItem
		for range 4 {
			items = append(items, w.nextEnv(r))
		}
		assert.Equal(t, []string{"stream.gap", "stream.start m1", "stream.text m1 abbbb", "stream.completed m1 abbbb"}, tell(items))
		assert.Equal(t, started.Event.ID, items[1].Event.ID, "the start has the id that it had before")
		assert.Equal(t, text.Cursor, items[0].Cursor, "who is cut at the gap is told again")
	})
	t.Run("what was lost between a start and its text", func(t *testing.T) {
		w := newWorld(t, options{stream: func() stream.Stream { return memory.New(memory.Config{MaxEntries: 3}) }})
		head := w.storeAll(said("go"))
		w.piece(head, "m1", 1, "a")
		w.piece(head, "m2", 1, "b")
		r := w.openEnv(feed.EnvFrom{})
		var items []feed.EnvItem
		for range 3 {
			items = append(items, w.nextEnv(r))
		}
		r.Close()
		require.Equal(t, []string{"stream.start m1", "stream.text m1 a", "stream.start m2"}, tell(items))
		w.piece(head, "m2", 1, "c")
		w.storeAll(callOf("m1", 1), message("m1", "a"))
		w.piece(head, "m2", 1, "d")
		w.piece(head, "m2", 1, "e")
		r = w.openEnv(feed.EnvFrom{Cursor: items[2].Cursor})
		items = nil
		for range 7 {
			items = append(items, w.nextEnv(r))
		}
		assert.Equal(t, []string{
			"stream.gap", "stream.start m1", "stream.text m1 a", "stream.completed m1 a",
			"stream.start m2", "stream.text m2 d", "stream.text m2 e",
		}, tell(items), "all of what follows comes")
	})
}

func TestEnvBuffered(t *testing.T) {
	w := newWorld(t, options{})
	w.storeAll(envRecord(fileChanged), said("what makes no event"), message("m1", "hi"), said("nor this"))
	r := w.openEnv(feed.EnvFrom{})
	var buffered []bool
	for range 4 {
		w.nextEnv(r)
		buffered = append(buffered, r.Buffered())
	}
	assert.Equal(t, []bool{true, true, true, false}, buffered, "only if an event is at hand")
}

func TestEnvThroughView(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	var err error
	w.feed, err = feed.New(feed.Config{
		Store: w.store, Stream: w.stream, HeartbeatInterval: 2 * patience, Grace: patience / 2,
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
	require.NoError(t, err)
	live := performEnv(w, turn())
	got := strings.Join(tell(live), "\n")
	assert.Contains(t, got, "stream.text m1 LET ME \n", "S0-10 what viewers are not to see comes in no view")
	assert.Contains(t, got, "stream.completed m2 IT IS DONE")
	assert.NotContains(t, got, "done")
	assert.Contains(t, string(live[6].Event.Payload), `{\"hidden\":true}`)
	assert.Contains(t, tell(w.envPages(3)), "stream.text m1 LET ME SEE")
}

func TestEnvStoreFails(t *testing.T) {
	w := newWorld(t, options{})
	w.storeAll(decided("message", event.Replaced, did("guard", "replaced"), with(reply("m1", "redacted"))))
	broken := &brokenLookup{countingStore: w.store}
	f, err := feed.New(feed.Config{Store: broken, Stream: w.stream})
	require.NoError(t, err)
	_, _, err = f.EnvPage(w.ctx, w.key, feed.EnvCursor{}, 10)
	require.ErrorIs(t, err, errLookup)
	r, err := f.OpenEnv(w.ctx, w.key, feed.EnvFrom{Finite: true})
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next(w.ctx)
	require.ErrorIs(t, err, errLookup)
}

var errLookup = errors.New("the store is down")

// brokenLookup is a store that finds no record by its id.
type brokenLookup struct{ *countingStore }

func (*brokenLookup) RecordsByID(context.Context, store.Key, ...string) ([]event.Record, error) {
	return nil, errLookup
}
