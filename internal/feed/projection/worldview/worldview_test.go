package worldview_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

// approved is a turn with an approved call, a streamed reply, and other events of a thread.
func approved() feedtest.Script {
	put := func(records ...event.Record) func(*feedtest.Thread) {
		return func(w *feedtest.Thread) { w.StoreAll(records...) }
	}
	last := feedtest.Message("m2", "it is done")
	return feedtest.Script{
		put(feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: []string{"bot"}})),
		put(feedtest.EnvRecord(feedtest.FileChanged), feedtest.Said("go")),
		put(asked("m1", "c1", `{"command":"ls -la","directory":"src"}`)...),
		put(approval("c1", nil)),
		func(w *feedtest.Thread) { w.Publish(feedtest.Progress(8, "c1", "half")) },
		put(returned("m1", "c1", `{"stdout":"a","stderr":"","exitCode":0}`, false)),
		func(w *feedtest.Thread) { w.Publish(feedtest.Thought(9, "m2", "hm")) },
		func(w *feedtest.Thread) { w.Piece(9, "m2", 1, "it is ") },
		func(w *feedtest.Thread) { w.Piece(9, "m2", 1, "done") },
		put(feedtest.CallOf("m2", 1), last, feedtest.Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m2"})),
		put(feedtest.Record(event.TypeError, event.Failure{Agent: "bot", Error: "no key"})),
		put(feedtest.Closed()),
	}
}

const (
	decisionText = `{"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":{"command":"ls -la","directory":"src"},"workingDirectory":"/desk"}`
	outputText   = `{"stdout":"a","stderr":"","exitCode":0}`
)

func TestWorldView(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	live := w.Perform(approved())
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
		assert.Equal(t, append(got, stored[16:]...), tell(live))
	})
	pages := w.Pages(100)
	t.Run("S4-98 what is stored can be read again", func(t *testing.T) {
		assert.Equal(t, stored, tell(pages))
		assert.Equal(t, same(pages), same(w.Rest(projection.Cursor{})), "a late reader gets the same")
		for limit := 1; limit < 8; limit++ {
			assert.Equal(t, same(pages), same(w.Pages(limit)), "pages of %d", limit)
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
		for _, i := range live {
			assert.NotContains(t, seen, i.Event.ID)
			seen[i.Event.ID] = jsonOf(i.Event)
		}
		for _, i := range pages {
			if s, ok := i.Event.Data.(event.WorldSSE); !ok || s.Type == event.WorldSSEEnd {
				assert.Equal(t, seen[i.Event.ID], jsonOf(i.Event))
			}
			assert.Contains(t, seen, i.Event.ID)
		}
	})
	t.Run("cut at every position", func(t *testing.T) { w.CheckCuts(live, same) })
}

func TestWorldSequence(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("cut at every position, seed %d", seed), func(t *testing.T) {
			w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
			items := w.Perform(feedtest.Runs(rand.New(rand.NewPCG(seed, 9)), 1+int(seed%3)))
			w.CheckCuts(items, same)
			require.Equal(t, same(w.Pages(3)), same(w.Rest(projection.Cursor{})))
		})
	}
}

func TestWorldShapes(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	live := w.Perform(approved())
	data := map[string]string{}
	for n, i := range live {
		data[tell(live)[n]] = jsonOf(i.Event.Data)
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
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	r := w.Open(projection.From{})
	w.StoreAll(feedtest.Said("go"))
	w.StoreAll(asked("m1", "c1", "{}")...)
	for range 6 {
		w.Next(r)
	}
	t.Run("S4-101 a piece needs no store", func(t *testing.T) {
		w.Store.FailLookups.Store(1)
		w.Piece(5, "m2", 1, "still here")
		assert.Equal(t, []string{"sse start m2", "sse chunk m2 still here"}, tell([]item{w.Next(r), w.Next(r)}))
	})
	t.Run("S4-101 what could not be looked up comes at the next try, and nothing is lost", func(t *testing.T) {
		w.StoreAll(approval("c1", nil))
		w.Piece(6, "m2", 1, "and on")
		_, err := r.Next(w.Ctx)
		require.ErrorIs(t, err, feedtest.ErrLookup)
		var got []item
		for range 4 {
			got = append(got, w.Next(r))
		}
		told := tell(got)
		assert.Contains(t, told[0], "message tool c1.decision")
		assert.Equal(t, "sse chunk m2 and on", told[3])
	})
}
