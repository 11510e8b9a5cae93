package feed_test

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
	"github.com/threadmill/threadmill/stream"
)

// turn is a turn with reasoning, a tool and a final reply.
func turn() script {
	return script{
		func(w *world) {
			w.storeAll(record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: []string{"bot"}}))
		},
		func(w *world) { w.storeAll(envRecord(fileChanged), said("Observed event")) },
		func(w *world) { w.piece(3, "m1", 1, "let me ") },
		func(w *world) { w.piece(3, "m1", 1, "see") },
		func(w *world) { w.publish(thought(3, "m1", "hm")) },
		func(w *world) {
			w.storeAll(callOf("m1", 1), withCalls("m1", "let me see", "c1", "c2"), calls("c1", "c2"))
		},
		func(w *world) { w.publish(progress(6, "c1", "half")) },
		func(w *world) { w.storeAll(result("c1", "out")) },
		func(w *world) {
			w.storeAll(record(event.TypeMessage, event.Message{
				ID: "c2.result", SenderType: event.Tool, ToolName: "shell_cmd", ToolCallID: "c2", Content: "denied", IsError: true, AgentID: "bot",
			}))
		},
		func(w *world) { w.piece(8, "m2", 1, "it is ") },
		func(w *world) { w.piece(8, "m2", 1, "done") },
		func(w *world) {
			w.storeAll(callOf("m2", 1), message("m2", "it is done"), record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m2"}))
		},
		func(w *world) { w.storeAll(closed()) },
	}
}

func TestEnvView(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	live := performEnv(w, turn())
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
	pages := w.envPages(100)
	t.Run("S3-34 S3-52 from the store", func(t *testing.T) {
		assert.Equal(t, []string{
			"session.created t1", "file.changed",
			"stream.start m1", "stream.text m1 let me see",
			"stream.tool_call c1", "stream.tool_call c2",
			"tool.executed c1 out", "tool.error c2 denied",
			"stream.start m2", "stream.text m2 it is done", "stream.completed m2 it is done",
			"session.deleted t1",
		}, tell(pages))
		assert.Equal(t, same(pages), same(w.restEnv(feed.EnvCursor{})), "a late reader gets the same")
		for limit := 1; limit < 8; limit++ {
			assert.Equal(t, same(pages), same(w.envPages(limit)), "pages of %d", limit)
		}
	})
	t.Run("S3-04 an event has one id, however it is read", func(t *testing.T) {
		ids := map[string]string{}
		for _, item := range live {
			assert.NotContains(t, ids, item.Event.ID)
			ids[item.Event.ID] = item.Event.Type
		}
		for _, item := range pages {
			if item.Event.Type != event.TypeStreamText { // live it comes in pieces
				assert.Equal(t, item.Event.Type, ids[item.Event.ID])
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
		items := w.rest(feed.From{})
		for _, item := range items {
			assert.NotEmpty(t, item.Event.Type)
		}
		assert.Len(t, items, 10)
		page, _, err := w.feed.Page(w.ctx, w.key, feed.Cursor{}, 100)
		require.NoError(t, err)
		assert.Equal(t, show(items), show(page))
	})
	t.Run("cut at every position", func(t *testing.T) { checkEnvCuts(t, w, live) })
}

func checkEnvCuts(t *testing.T, w *world, items []feed.EnvItem) {
	for i, item := range items {
		at, err := feed.ParseEnvCursor(item.Cursor.String())
		require.NoError(t, err)
		require.Equal(t, item.Cursor, at)
		require.Equal(t, same(items[i+1:]), same(w.restEnv(at)), "resumed at %d, id %s", i, at)
	}
}

func TestEnvForms(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	head := w.storeAll(record(event.TypeStatus, event.StatusChange{Status: event.StatusUpdated, Agents: []string{"bot"}, By: "ann"}), said("go"))
	r := w.openEnv(feed.EnvFrom{})
	form := func() string {
		e := w.nextEnv(r).Event
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
	w.publish(thought(head, "m1", "hm"))
	w.piece(head, "m1", 1, "he")
	w.publish(reset(head, "m1", 2))
	w.storeAll(callOf("m1", 2), withCalls("m1", "hey", "c1"), calls("c1"), result("c1", "out"))
	w.storeAll(message("m2", "bye"))
	w.storeAll(record(event.TypeError, event.Failure{Agent: "bot", EventID: "e1", Error: "no key"}))
	task, err := event.Task{ID: "t1~t1", Tool: "build", Agent: "bot", ToolCallID: "c9"}.Progress(json.RawMessage(`{"percent":40}`))
	require.NoError(t, err)
	w.publish(stream.Entry{After: head, Event: &task})
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
			w := newWorld(t, options{stream: newMarking})
			items := performEnv(w, runs(rand.New(rand.NewPCG(seed, 6)), 1+int(seed%3)))
			t.Run("S3-52 a message starts once in each attempt, and is what its pieces say", func(t *testing.T) { checkStarts(t, items) })
			t.Run("cut at every position", func(t *testing.T) { checkEnvCuts(t, w, items) })
			late := w.restEnv(feed.EnvCursor{})
			t.Run("from the store too", func(t *testing.T) { checkStarts(t, late) })
			require.Equal(t, same(w.envPages(3)), same(late))
		})
	}
}

// checkStarts asserts that all of a message follows its start, and that nothing starts twice.
func checkStarts(t *testing.T, items []feed.EnvItem) {
	said, started, completed := map[string]string{}, map[string]bool{}, 0
	for _, item := range items {
		p := payloadOf(item)
		switch item.Event.Type {
		case event.TypeStreamStart:
			assert.False(t, started[item.Event.ID], "%s starts twice", p.MessageID)
			started[item.Event.ID], started[p.MessageID] = true, true
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
			w := newWorld(t, options{stream: newMarking})
			rng := rand.New(rand.NewPCG(seed, 7))
			got := make(chan []feed.EnvItem, 1)
			r := w.openEnv(feed.EnvFrom{})
			go func() {
				defer close(got)
				cuts := rand.New(rand.NewPCG(seed, 8))
				var out []feed.EnvItem
				for len(out) == 0 || !out[len(out)-1].Closed {
					if out = append(out, w.nextEnv(r)); cuts.IntN(3) == 0 {
						r.Close()
						r = w.openEnv(feed.EnvFrom{Cursor: out[len(out)-1].Cursor})
					}
				}
				r.Close()
				got <- out
			}()
			s := runs(rng, 1+rng.IntN(3))
			for i, step := range s {
				s[i] = func(w *world) { runtime.Gosched(); step(w) }
			}
			assert.Equal(t, same(performEnv(w, s)), same(<-got))
		})
	}
}

func TestEnvCursor(t *testing.T) {
	at := feed.Cursor{Seq: 12, Offset: 5}
	for text, want := range map[string]feed.EnvCursor{
		"0":      {},
		"12:5":   {Cursor: at},
		"12:5~1": {Cursor: at, Sent: 1},
		"0~2":    {Sent: 2},
	} {
		got, err := feed.ParseEnvCursor(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
		assert.Equal(t, want == feed.EnvCursor{}, got.IsZero())
	}
	for text, problem := range map[string]string{
		"":      "seq is missing",
		"~1":    "seq is missing",
		"1~":    "n is missing",
		"1~x":   "n is not a number",
		"1~0":   "n behind ~ must be from 1",
		"1~9":   "n behind ~ must be from 1",
		"1~1~1": "n is not a number",
	} {
		_, err := feed.ParseEnvCursor(text)
		var bad *feed.CursorError
		require.ErrorAs(t, err, &bad, text)
		assert.Contains(t, bad.Problem, problem, text)
	}
	_, err := feed.ParseCursor("12:5~1")
	require.ErrorContains(t, err, "offset is not a number", "no place among agent events")
}
