package envview_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
)

// turn is a turn with reasoning, a tool and a final reply.
func turn() feedtest.Script {
	return feedtest.Script{
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: []string{"bot"}}))
		},
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.EnvRecord(feedtest.FileChanged), feedtest.Said("Observed event"))
		},
		func(w *feedtest.Thread) { w.Piece(3, "m1", 1, "let me ") },
		func(w *feedtest.Thread) { w.Piece(3, "m1", 1, "see") },
		func(w *feedtest.Thread) { w.Publish(feedtest.Thought(3, "m1", "hm")) },
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.CallOf("m1", 1), feedtest.WithCalls("m1", "let me see", "c1", "c2"), feedtest.Calls("c1", "c2"))
		},
		func(w *feedtest.Thread) { w.Publish(feedtest.Progress(6, "c1", "half")) },
		func(w *feedtest.Thread) { w.StoreAll(feedtest.Result("c1", "out")) },
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.Record(event.TypeMessage, event.Message{
				ID: "c2.result", SenderType: event.CreatedByTool, ToolName: "shell_cmd", ToolCallID: "c2", Content: "denied", IsError: true, AgentID: "bot",
			}))
		},
		func(w *feedtest.Thread) { w.Piece(8, "m2", 1, "it is ") },
		func(w *feedtest.Thread) { w.Piece(8, "m2", 1, "done") },
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.CallOf("m2", 1), feedtest.Message("m2", "it is done"), feedtest.Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m2"}))
		},
		func(w *feedtest.Thread) { w.StoreAll(feedtest.Closed()) },
	}
}

func TestEnvView(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	live := w.Perform(turn())
	t.Run("S3-34 S3-50 S3-52 S3-53 S3-56 S3-57 live, in order", func(t *testing.T) {
		assert.Equal(t, []string{
			"session.created t1", "file.changed",
			"stream.start m1", "stream.text m1 let me ", "stream.text m1 see", "stream.reasoning m1 hm",
			"stream.tool_call c1", "stream.tool_call c2",
			"tool.executed c1 out", "tool.error c2 denied",
			"stream.start m2", "stream.text m2 it is ", "stream.text m2 done", "stream.completed m2 it is done",
			"session.deleted t1",
		}, tell(live))
	})
	pages := w.Pages(100)
	t.Run("S3-34 S3-52 from the store", func(t *testing.T) {
		assert.Equal(t, []string{
			"session.created t1", "file.changed",
			"stream.start m1", "stream.text m1 let me see",
			"stream.tool_call c1", "stream.tool_call c2",
			"tool.executed c1 out", "tool.error c2 denied",
			"stream.start m2", "stream.text m2 it is done", "stream.completed m2 it is done",
			"session.deleted t1",
		}, tell(pages))
		assert.Equal(t, same(pages), same(w.Rest(projection.Cursor{})), "a late reader gets the same")
		for limit := 1; limit < 8; limit++ {
			assert.Equal(t, same(pages), same(w.Pages(limit)), "pages of %d", limit)
		}
	})
	t.Run("S3-04 an event has one id, however it is read", func(t *testing.T) {
		ids := map[string]string{}
		for _, i := range live {
			assert.NotContains(t, ids, i.Event.ID)
			ids[i.Event.ID] = i.Event.Type
		}
		for _, i := range pages {
			if i.Event.Type != event.TypeStreamText { // pieces differ live
				assert.Equal(t, i.Event.Type, ids[i.Event.ID])
			}
		}
	})
	t.Run("what was published comes as it was", func(t *testing.T) {
		raw, err := json.Marshal(live[1].Event)
		require.NoError(t, err)
		assert.JSONEq(t, `{"id":"file-1","type":"file.changed","timestamp":1600000000000,
			"metadata":{"trigger_session_id":"t1","source":"env","repo":"x"},"payload":{"path":"a.go","n":12345678901234567890}}`, string(raw))
		assert.Contains(t, string(raw), "12345678901234567890")
	})
	t.Run("S3-51 who watches agent events gets what they always did", func(t *testing.T) {
		items := w.Thread.Rest(feed.From{})
		for _, i := range items {
			assert.NotEmpty(t, i.Event.Type)
		}
		assert.Len(t, items, 11)
		page, _, err := w.Feed.Page(w.Ctx, w.Key, feed.Cursor{}, 100)
		require.NoError(t, err)
		for i := range page {
			assert.Equal(t, page[i].Event, items[i].Event)
		}
	})
	t.Run("cut at every position", func(t *testing.T) { w.CheckCuts(live, same) })
}

func TestEnvForms(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	head := w.StoreAll(feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusUpdated, Agents: []string{"bot"}, By: "ann"}), feedtest.Said("go"))
	r := w.Open(projection.From{})
	form := func() string {
		e := w.Next(r).Event
		require.NotEmpty(t, e.ID)
		require.Positive(t, e.Timestamp)
		e.ID, e.Timestamp = "", 0
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		return string(raw)
	}
	llm := func(typ, payload string) string {
		return `{"id":"","type":"stream.` + typ + `","timestamp":0,"metadata":{"source":"llm","trigger_session_id":"t1"},"payload":` + payload + `}`
	}
	assert.Equal(t, `{"id":"","type":"session.updated","timestamp":0,"metadata":{"source":"system","trigger_session_id":"t1"},"payload":{"sessionId":"t1","agents":["bot"],"by":"ann"}}`, form())
	w.Publish(feedtest.Thought(head, "m1", "hm"))
	w.Piece(head, "m1", 1, "he")
	w.Publish(feedtest.Reset(head, "m1", 2))
	w.StoreAll(feedtest.CallOf("m1", 2), feedtest.WithCalls("m1", "hey", "c1"), feedtest.Calls("c1"), feedtest.Result("c1", "out"))
	w.StoreAll(feedtest.Message("m2", "bye"))
	w.StoreAll(feedtest.Record(event.TypeError, event.Failure{Agent: "bot", EventID: "e1", Error: "no key"}))
	task, err := event.Task{ID: "t1~t1", Tool: "build", Agent: "bot", ToolCallID: "c9"}.Progress(json.RawMessage(`{"percent":40}`))
	require.NoError(t, err)
	w.Publish(stream.Entry{After: head, Event: &task})
	for _, want := range []string{
		llm("start", `{"type":"start","messageId":"m1","attempt":1,"agent":"bot"}`),
		llm("reasoning", `{"type":"reasoning","content":"hm","messageId":"m1","attempt":1,"agent":"bot"}`),
		llm("text", `{"type":"text","content":"he","messageId":"m1","attempt":1,"agent":"bot"}`),
		llm("reset", `{"type":"reset","messageId":"m1","attempt":2,"agent":"bot"}`),
		llm("start", `{"type":"start","messageId":"m1","attempt":2,"agent":"bot"}`),
		llm("text", `{"type":"text","content":"hey","messageId":"m1","agent":"bot"}`),
		llm("tool_call", `{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}","toolCallId":"c1","agent":"bot"}`),
		`{"id":"","type":"tool.executed","timestamp":0,"metadata":{"source":"tool","trigger_session_id":"t1"},"payload":{"toolCallId":"c1","toolName":"shell_cmd","agent":"bot","output":"out","isError":false}}`,
		llm("start", `{"type":"start","messageId":"m2","attempt":1,"agent":"bot"}`),
		llm("text", `{"type":"text","content":"bye","messageId":"m2","agent":"bot"}`),
		llm("completed", `{"type":"completed","content":"bye","messageId":"m2","agent":"bot"}`),
		llm("error", `{"type":"error","error":"no key","agent":"bot"}`),
		`{"id":"","type":"background_task.progress","timestamp":0,"metadata":{"source":"tool","trigger_session_id":"t1"},"payload":{"taskId":"t1~t1","toolName":"build","agent":"bot","data":{"percent":40}}}`,
	} {
		assert.Equal(t, want, form())
	}
}

func TestEnvSequence(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
			items := w.Perform(feedtest.Runs(rand.New(rand.NewPCG(seed, 6)), 1+int(seed%3)))
			t.Run("S3-52 a message starts once in each attempt, and is what its pieces say", func(t *testing.T) { checkStarts(t, items) })
			t.Run("cut at every position", func(t *testing.T) { w.CheckCuts(items, same) })
			late := w.Rest(projection.Cursor{})
			t.Run("from the store too", func(t *testing.T) { checkStarts(t, late) })
			require.Equal(t, same(w.Pages(3)), same(late))
		})
	}
}

// checkStarts asserts that each message begins once, before the rest of it.
func checkStarts(t *testing.T, items []item) {
	said, started, completed := map[string]string{}, map[string]bool{}, 0
	for _, i := range items {
		p := payloadOf(i)
		switch i.Event.Type {
		case event.TypeStreamStart:
			assert.False(t, started[i.Event.ID], "%s starts twice", p.MessageID)
			started[i.Event.ID], started[p.MessageID] = true, true
			said[p.MessageID] = ""
		case "stream.reset":
			started[p.MessageID] = false
		case event.TypeStreamText:
			assert.True(t, started[p.MessageID], "%s has not started", p.MessageID)
			said[p.MessageID] += p.Content
		case event.TypeStreamCompleted:
			assert.True(t, started[p.MessageID], "%s has not started", p.MessageID)
			assert.Equal(t, p.Content, said[p.MessageID])
			completed++
		}
	}
	assert.NotZero(t, completed)
}

func TestEnvCutWhileRunning(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("S3-51 each event once, seed %d", seed), func(t *testing.T) {
			w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
			rng := rand.New(rand.NewPCG(seed, 7))
			got := make(chan []item, 1)
			r := w.Open(projection.From{})
			go func() {
				defer close(got)
				cuts := rand.New(rand.NewPCG(seed, 8))
				var out []item
				for len(out) == 0 || !out[len(out)-1].Closed {
					if out = append(out, w.Next(r)); cuts.IntN(3) == 0 {
						r.Close()
						r = w.Open(projection.From{Cursor: out[len(out)-1].Cursor})
					}
				}
				r.Close()
				got <- out
			}()
			s := feedtest.Runs(rng, 1+rng.IntN(3))
			for i, step := range s {
				s[i] = func(w *feedtest.Thread) { runtime.Gosched(); step(w) }
			}
			assert.Equal(t, same(w.Perform(s)), same(<-got))
		})
	}
}
