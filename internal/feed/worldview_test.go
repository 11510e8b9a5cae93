package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// approved is a turn with a call that is approved, a reply that is streamed, and what else
// a thread tells of.
func approved() script {
	put := func(records ...event.Record) func(*world) {
		return func(w *world) { w.storeAll(records...) }
	}
	last := message("m2", "it is done")
	return script{
		put(record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: []string{"bot"}})),
		put(envRecord(fileChanged), said("go")),
		put(asked("m1", "c1", `{"command":"ls -la","directory":"src"}`)...),
		put(approval("c1", nil)),
		func(w *world) { w.publish(progress(8, "c1", "half")) },
		put(returned("m1", "c1", `{"stdout":"a","stderr":"","exitCode":0}`, false)),
		func(w *world) { w.publish(thought(9, "m2", "hm")) },
		func(w *world) { w.piece(9, "m2", 1, "it is ") },
		func(w *world) { w.piece(9, "m2", 1, "done") },
		put(callOf("m2", 1), last, record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m2"})),
		put(record(event.TypeError, event.Failure{Agent: "bot", Error: "no key"})),
		put(closed()),
	}
}

const (
	decisionText = `{"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":{"command":"ls -la","directory":"src"},"workingDirectory":"/desk"}`
	outputText   = `{"stdout":"a","stderr":"","exitCode":0}`
)

func TestWorldView(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	live := performWorld(w, approved())
	stored := []string{
		"crud create chat t1", "activity file.changed env file-1", "message user said go go",
		"sse start m1", "sse end m1", "message assistant m1", "tool-start c1", "message assistant c1.request",
		"message tool c1.decision approval_c1 " + decisionText, "crud update message c1.request", "crud update message m1",
		"tool-execution shell_cmd ls -la 0", "tool-result c1 " + outputText, "message tool c1.result c1 " + outputText, "crud update message m1",
		"sse start m2", "sse end m2", "message assistant m2 it is done", "activity response-end bot",
		"system no key", "crud update chat t1",
	}
	t.Run("S4-05 S4-58 S4-76 live, in order", func(t *testing.T) {
		got := append([]string{}, stored[:11]...)
		got = append(got, `tool-progress c1 "half"`)
		got = append(append(got, stored[11:16]...), "sse chunk m2 it is", "sse chunk m2 done")
		assert.Equal(t, append(got, stored[16:]...), tellWorld(live))
	})
	pages := w.worldPages(100)
	t.Run("S4-98 what is stored can be read again", func(t *testing.T) {
		assert.Equal(t, stored, tellWorld(pages))
		assert.Equal(t, sameWorld(pages), sameWorld(w.restWorld(feed.EnvCursor{})), "a late reader gets the same")
		for limit := 1; limit < 8; limit++ {
			assert.Equal(t, sameWorld(pages), sameWorld(w.worldPages(limit)), "pages of %d", limit)
		}
	})
	t.Run("S4-99 chunks and progress are not stored", func(t *testing.T) {
		assert.Len(t, live, len(pages)+3)
	})
	t.Run("S4-100 the end carries usage, and events say where they belong", func(t *testing.T) {
		end := pages[4].Event
		assert.Equal(t, &event.Usage{InputTokens: 12, OutputTokens: 3}, end.Data.(event.WorldSSE).Usage)
		assert.Equal(t, &event.WorldMeta{
			TraceID: "trace", ThreadRootID: "m1", ReplyToMessageID: "said go", Agents: []string{"bot"}, ToolCallIDs: []string{"c1"},
		}, pages[5].Event.Meta)
		assert.Equal(t, []string{"c1"}, pages[6].Event.Meta.ToolCallIDs, "a tool's event names its call")
		assert.Equal(t, "said go", pages[13].Event.Meta.ThreadRootID)
		assert.Nil(t, live[11].Event.Meta, "what is live only is of no record")
	})
	t.Run("an event has one id, however it is read", func(t *testing.T) {
		seen := map[string]string{}
		for _, item := range live {
			assert.NotContains(t, seen, item.Event.ID)
			seen[item.Event.ID] = jsonOf(item.Event)
		}
		for _, item := range pages {
			if s, ok := item.Event.Data.(event.WorldSSE); !ok || s.Type == event.WorldSSEEnd {
				assert.Equal(t, seen[item.Event.ID], jsonOf(item.Event))
			}
			assert.Contains(t, seen, item.Event.ID)
		}
	})
	t.Run("cut at every position", func(t *testing.T) { checkWorldCuts(t, w, live) })
}

func checkWorldCuts(t *testing.T, w *world, items []feed.WorldItem) {
	for i, item := range items {
		at, err := feed.ParseEnvCursor(item.Cursor.String())
		require.NoError(t, err)
		require.Equal(t, sameWorld(items[i+1:]), sameWorld(w.restWorld(at)), "resumed at %d, id %s", i, at)
	}
}

func TestWorldSequence(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("cut at every position, seed %d", seed), func(t *testing.T) {
			w := newWorld(t, options{stream: newMarking})
			items := performWorld(w, runs(rand.New(rand.NewPCG(seed, 9)), 1+int(seed%3)))
			checkWorldCuts(t, w, items)
			require.Equal(t, sameWorld(w.worldPages(3)), sameWorld(w.restWorld(feed.EnvCursor{})))
		})
	}
}

func TestWorldShapes(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	live := performWorld(w, approved())
	data := map[string]string{}
	for i, item := range live {
		data[tellWorld(live)[i]] = jsonOf(item.Event.Data)
	}
	for name, test := range map[string]struct{ event, want string }{
		"S4-18 a person's message": {
			"message user said go go",
			`{"sender":"ann","content":"go","role":"user","timestamp":"2023-11-14T22:13:20Z","messageId":"said go","chatId":"t1"}`,
		},
		"S4-20 the original tool call": {
			"message assistant m1",
			`{"sender":"bot","content":"","role":"assistant","timestamp":"2023-11-14T22:13:20Z","messageId":"m1","chatId":"t1","agentName":"bot","agentId":"bot",
			"replyToMessageId":"said go","tool_calls":[{"id":"c1","function":{"name":"shell_cmd","arguments":"{\"command\":\"ls -la\",\"directory\":\"src\"}"}}],
			"toolCallStatus":{"c1":{"complete":false,"result":null}}}`,
		},
		"S4-21 S4-75 the request for approval": {
			"message assistant c1.request",
			`{"sender":"bot","content":"","role":"assistant","timestamp":"2023-11-14T22:13:20Z","messageId":"c1.request","chatId":"t1","agentName":"bot","agentId":"bot",
			"replyToMessageId":"m1","tool_calls":[{"id":"approval_c1","function":{"name":"client.requestApproval","arguments":
			"{\"originalToolCall\":{\"id\":\"c1\",\"name\":\"shell_cmd\",\"args\":{\"command\":\"ls -la\",\"directory\":\"src\"},\"workingDirectory\":\"/desk\"},\"message\":\"bot wants to run shell_cmd: runs a command\",\"options\":[\"deny\",\"approve_once\",\"approve_session\"]}"}}],
			"toolCallStatus":{"approval_c1":{"complete":false,"result":null}}}`,
		},
		"S4-22 S4-89 the decision": {
			"message tool c1.decision approval_c1 " + decisionText,
			`{"sender":"ann","content":"{\"decision\":\"approve\",\"scope\":\"session\",\"toolName\":\"shell_cmd\",\"toolArgs\":{\"command\":\"ls -la\",\"directory\":\"src\"},\"workingDirectory\":\"/desk\"}",
			"role":"tool","timestamp":"2023-11-14T22:13:20Z","messageId":"c1.decision","chatId":"t1","agentName":"bot","agentId":"bot","tool_call_id":"approval_c1","replyToMessageId":"c1.request",
			"toolCallStatus":{"approval_c1":{"complete":true,"result":{"decision":"approve","scope":"session","timestamp":"2023-11-14T22:15:00Z"}}}}`,
		},
		"S4-89 the status of the request": {
			"crud update message c1.request",
			`{"operation":"update","entityType":"message","entityId":"c1.request","timestamp":"2023-11-14T22:13:20Z","chatId":"t1","entityData":
			{"messageId":"c1.request","toolCallStatus":{"approval_c1":{"complete":true,"result":{"decision":"approve","scope":"session","timestamp":"2023-11-14T22:15:00Z"}}}}}`,
		},
		"S4-89 and of the call": {
			"crud update message m1",
			`{"operation":"update","entityType":"message","entityId":"m1","timestamp":"2023-11-14T22:13:20Z","chatId":"t1","entityData":
			{"messageId":"m1","toolCallStatus":{"c1":{"complete":true,"result":{"decision":"approve","scope":"session","timestamp":"2023-11-14T22:15:00Z"}}}}}`,
		},
		"S4-90 the call has run": {
			"tool-execution shell_cmd ls -la 0",
			`{"agentId":"bot","toolName":"shell_cmd","command":"ls -la","parameters":{"command":"ls -la","directory":"src"},"directory":"src","exitCode":0,"chatId":"t1"}`,
		},
		"S4-22 S4-89 its result": {
			"message tool c1.result c1 " + outputText,
			`{"sender":"shell_cmd","content":"{\"stdout\":\"a\",\"stderr\":\"\",\"exitCode\":0}","role":"tool","timestamp":"2023-11-14T22:13:20Z","messageId":"c1.result","chatId":"t1",
			"agentName":"bot","agentId":"bot","tool_call_id":"c1","replyToMessageId":"m1",
			"toolCallStatus":{"c1":{"complete":true,"result":{"decision":"approve","scope":"session","timestamp":"2023-11-14T22:15:00Z"}}}}`,
		},
		"S4-06 a tool starts":   {"tool-start c1", `{"agentName":"bot","type":"tool-start","messageId":"m1","toolExecution":{"toolName":"shell_cmd","toolCallId":"c1","input":{"command":"ls -la","directory":"src"}},"chatId":"t1"}`},
		"S4-06 its progress":    {`tool-progress c1 "half"`, `{"agentName":"bot","type":"tool-progress","toolExecution":{"toolName":"shell_cmd","toolCallId":"c1","progress":"half"},"chatId":"t1"}`},
		"S4-06 its result":      {"tool-result c1 " + outputText, `{"agentName":"bot","type":"tool-result","messageId":"m1","toolExecution":{"toolName":"shell_cmd","toolCallId":"c1","result":"{\"stdout\":\"a\",\"stderr\":\"\",\"exitCode\":0}"},"chatId":"t1"}`},
		"S4-05 a reply starts":  {"sse start m1", `{"agentName":"bot","type":"start","messageId":"m1","chatId":"t1"}`},
		"S4-05 a piece":         {"sse chunk m2 done", `{"agentName":"bot","type":"chunk","content":"done","messageId":"m2","chatId":"t1"}`},
		"S4-100 the end":        {"sse end m1", `{"agentName":"bot","type":"end","messageId":"m1","usage":{"inputTokens":12,"outputTokens":3},"chatId":"t1"}`},
		"S4-07 a thread":        {"crud create chat t1", `{"operation":"create","entityType":"chat","entityId":"t1","entityData":{"status":"open","agents":["bot"]},"timestamp":"2023-11-14T22:13:20Z","chatId":"t1"}`},
		"S4-07 its end":         {"crud update chat t1", `{"operation":"update","entityType":"chat","entityId":"t1","entityData":{"status":"closed"},"timestamp":"2023-11-14T22:13:20Z","chatId":"t1"}`},
		"S4-23 the final reply": {"message assistant m2 it is done", `{"sender":"bot","content":"it is done","role":"assistant","timestamp":"2023-11-14T22:13:20Z","messageId":"m2","chatId":"t1","agentName":"bot","agentId":"bot"}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, data, test.event)
			assert.JSONEq(t, test.want, data[test.event])
		})
	}
}

func TestWorldStoreFails(t *testing.T) {
	w := newWorld(t, options{stream: newMarking})
	failing := &failingLookup{countingStore: w.store}
	var err error
	w.feed, err = feed.New(feed.Config{Store: failing, Stream: w.stream, HeartbeatInterval: 2 * patience, Grace: patience / 2})
	require.NoError(t, err)
	r := w.openWorld(feed.EnvFrom{})
	w.storeAll(said("go"))
	w.storeAll(asked("m1", "c1", "{}")...)
	for range 6 {
		w.nextWorld(r)
	}
	t.Run("S4-101 a piece needs no store", func(t *testing.T) {
		failing.failures.Store(1)
		w.piece(5, "m2", 1, "still here")
		assert.Equal(t, []string{"sse start m2", "sse chunk m2 still here"}, tellWorld([]feed.WorldItem{w.nextWorld(r), w.nextWorld(r)}))
	})
	t.Run("S4-101 what could not be looked up comes at the next try, and nothing is lost", func(t *testing.T) {
		w.storeAll(approval("c1", nil))
		w.piece(6, "m2", 1, "and on")
		_, err := r.Next(w.ctx)
		require.ErrorIs(t, err, errLookup)
		var got []feed.WorldItem
		for range 4 {
			got = append(got, w.nextWorld(r))
		}
		told := tellWorld(got)
		assert.Contains(t, told[0], "message tool c1.decision")
		assert.Equal(t, "sse chunk m2 and on", told[3])
	})
}

// failingLookup is a store that fails so many times to find records by their ids.
type failingLookup struct {
	*countingStore
	failures atomic.Int64
}

func (s *failingLookup) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errLookup
	}
	return s.countingStore.RecordsByID(ctx, key, ids...)
}
