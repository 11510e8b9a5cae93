package feed_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
)

// decided makes the record of a decision of hooks.
func decided(typ string, outcome event.Outcome, hooks []event.HookOutcome, change ...func(*event.Interception)) event.Record {
	d := event.Interception{EventID: "e", EventType: typ, Outcome: outcome, Hooks: hooks}
	for _, c := range change {
		c(&d)
	}
	return record(event.TypeHook, d)
}

func with(m event.Message) func(*event.Interception) {
	return func(d *event.Interception) { d.EventID, d.Message = m.ID, &m }
}

// did is what hooks did, in turns their names and outcomes.
func did(pairs ...string) []event.HookOutcome {
	var out []event.HookOutcome
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, event.HookOutcome{Name: pairs[i], Outcome: event.Outcome(pairs[i+1])})
	}
	return out
}

func reply(id, content string) event.Message {
	return event.Message{ID: id, ThreadID: "t1", SenderID: "bot", AgentID: "bot", SenderType: event.Agent, Role: event.RoleAssistant, Content: content}
}

// held is the record of a reply that hooks have to decide on.
func held(id, content string) event.Record {
	m := reply(id, content)
	m.Held = true
	return record(event.TypeMessage, m)
}

func TestEventsOfDecisions(t *testing.T) {
	status := func(detail string) string {
		return `{"type":"status","status":{"status":"intercepted","detail":"` + detail + `"}}`
	}
	toolResult := event.Message{
		ID: "c1.result", SenderID: "sh", SenderType: event.Tool, Role: event.RoleTool, Content: "[redacted]", ToolCallID: "c1", ToolName: "sh", AgentID: "bot",
	}
	stillHeld := reply("m1", "a secret")
	stillHeld.Held = true
	for name, test := range map[string]struct {
		record event.Record
		want   []string
	}{
		"a held message": {held("m1", "a secret"), nil},
		"a message that was replaced": {decided("message", event.Replaced, did("guard", "replaced"), with(reply("m1", "redacted"))), []string{
			`{"type":"message","messageId":"m1","agent":"bot","message":{"id":"m1","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"redacted","agentId":"bot"}}`,
			status("guard replaced the message"),
		}},
		"a held message that was let out": {decided("message", event.Passed, did("guard", "passed"), with(stillHeld)), []string{
			`{"type":"message","messageId":"m1","agent":"bot","message":{"id":"m1","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"a secret","agentId":"bot"}}`,
			status("guard let the message pass"),
		}},
		"a held message that was responded to": {decided("message", event.Responded, did("guard", "responded"), with(stillHeld)), []string{
			status("guard responded in place of the message"),
		}},
		"a tool's result that was replaced": {decided("message", event.Replaced, did("guard", "replaced"), with(toolResult)), []string{
			`{"type":"tool_result","toolName":"sh","output":"[redacted]","agent":"bot","toolCallId":"c1"}`,
			status("guard replaced the tool result"),
		}},
		"tool calls that were edited": {decided("tool_call", event.Replaced, did("dry", "replaced"), func(d *event.Interception) {
			d.Agent = "bot"
			d.ToolCalls = []event.ToolCall{
				{ID: "c1", Function: event.Function{Name: "sh", Arguments: `{"dry":true}`}}, {ID: "c2", Function: event.Function{Name: "sh", Arguments: `{}`}},
			}
		}), []string{
			`{"type":"tool_call","toolName":"sh","toolArgs":"{\"dry\":true}","messageId":"e","agent":"bot","toolCallId":"c1"}`,
			`{"type":"tool_call","toolName":"sh","toolArgs":"{}","messageId":"e","agent":"bot","toolCallId":"c2"}`,
			status("dry replaced the tool calls"),
		}},
		"a model call that was changed": {decided("llm_call", event.Replaced, did("cheap", "replaced"), func(d *event.Interception) {
			d.LLMCall = &event.LLMCallEvent{Model: "fake/small"}
		}), []string{status("cheap replaced the model call")}},
		"no decision": {event.Record{Type: event.TypeHook, Payload: json.RawMessage(`7`)}, nil},
	} {
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

func TestSentences(t *testing.T) {
	failed := func(name, problem string) event.HookOutcome {
		return event.HookOutcome{Name: name, Outcome: event.HookFailed, Error: problem}
	}
	for want, r := range map[string]event.Record{
		"guard responded in place of the tool calls":                   decided("tool_call", event.Responded, did("guard", "responded")),
		"approve let the message pass":                                 decided("message", event.Passed, did("approve", "passed")),
		"a and b let the message pass":                                 decided("message", event.Passed, did("a", "passed", "b", "passed")),
		"a, b and c let the tool calls pass":                           decided("tool_call", event.Passed, did("a", "passed", "b", "passed", "c", "passed")),
		"b replaced the message":                                       decided("message", event.Replaced, did("a", "passed", "b", "replaced", "c", "passed")),
		"a replaced the message; b responded in place of the message":  decided("message", event.Responded, did("a", "replaced", "b", "responded")),
		"order-processor made other events of the order.created event": decided("order.created", event.Produced, did("order-processor", "overwritten")),
		"audit failed (open): no connection":                           decided("message", event.Passed, []event.HookOutcome{failed("audit", "no connection"), {Name: "b", Outcome: event.Passed}}),
		"audit failed (open): x; guard replaced the message":           decided("message", event.Replaced, []event.HookOutcome{failed("audit", "x"), {Name: "guard", Outcome: event.Replaced}}),
		"audit failed (open): x; guard failed (closed): y":             decided("message", event.HookFailed, []event.HookOutcome{failed("audit", "x"), failed("guard", "y")}),
		"guard failed (closed)":                                        decided("message", event.HookFailed, []event.HookOutcome{failed("guard", "")}),
		"echo responded in place of the message; the message failed":   decided("message", event.HookFailed, did("echo", "responded")),
		"hooks failed on the message":                                  decided("message", event.HookFailed, nil),
		"hooks decided on the event":                                   decided("", "", nil),
	} {
		events := feed.Events(r)
		require.Len(t, events, 1, want)
		assert.Equal(t, event.StatusIntercepted, events[0].Status.Status)
		assert.Equal(t, want, events[0].Status.Detail)
	}
}

// intercepted is a turn whose reply, calls and result hooks have changed after they
// were stored, and a reply that was held.
func intercepted() script {
	redacted := result("c1", "[redacted]")
	var asResult event.Message
	if err := json.Unmarshal(redacted.Payload, &asResult); err != nil {
		panic(err)
	}
	edited := func(d *event.Interception) {
		d.Agent = "bot"
		d.ToolCalls = []event.ToolCall{
			{ID: "c1", Function: event.Function{Name: "shell_cmd", Arguments: `{"dry":true}`}}, {ID: "c2", Function: event.Function{Name: "shell_cmd", Arguments: `{}`}},
		}
	}
	put := func(records ...event.Record) func(*world) { return func(w *world) { w.storeAll(records...) } }
	say := func(after int64, id, text string) func(*world) { return func(w *world) { w.piece(after, id, 1, text) } }
	return script{
		put(said("go")),
		put(decided("message", event.Passed, did("audit", "passed"))),
		say(2, "m1", "a sec"), say(2, "m1", "ret"),
		put(llmCall(), message("m1", "a secret"), calls("c1", "c2")),
		put(decided("message", event.Replaced, did("guard", "replaced"), with(reply("m1", "redacted")))),
		say(6, "m1", "late"),
		put(decided("tool_call", event.Replaced, did("dry", "replaced"), edited)),
		func(w *world) { w.publish(progress(7, "c1", "half")) },
		put(result("c1", "a secret")),
		put(decided("message", event.Replaced, did("guard", "replaced"), with(asResult))),
		func(w *world) { w.publish(progress(9, "c1", "late")) },
		put(result("c2", "out")),
		put(held("m2", "held back")),
		put(decided("message", event.Responded, did("guard", "responded"))),
		put(held("m3", "not let out yet")),
		put(decided("message", event.Passed, did("guard", "passed"), with(reply("m3", "let out"))), record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m3"})),
		put(closed()),
	}
}

func TestSequenceOfDecisions(t *testing.T) {
	w := newWorld(t, options{})
	items := perform(w, intercepted())
	var got []string
	for _, item := range items {
		text := string(item.Event.Type)
		switch e := item.Event; e.Type {
		case event.EventMessage:
			text += " " + e.Message.Content
		case event.EventToolCall:
			text += " " + e.ToolCallID + " " + e.ToolArgs
		case event.EventToolResult:
			text += " " + e.ToolCallID + " " + e.Output
		case event.EventStatus:
			text += " " + e.Status.Status
		case event.EventStream:
			text += " " + e.Content
		}
		got = append(got, text)
	}
	require.Equal(t, []string{
		"message go", "status intercepted",
		"stream a sec", "stream ret", "message a secret", "tool_call c1 {}", "tool_call c2 {}",
		"message redacted", "status intercepted",
		`tool_call c1 {"dry":true}`, "tool_call c2 {}", "status intercepted",
		"tool_progress", "tool_result c1 a secret", "tool_result c1 [redacted]", "status intercepted",
		"tool_result c2 out",
		"status intercepted",
		"message let out", "status intercepted", "final",
		"status closed",
	}, got, "what supersedes comes to those who watch, and no piece comes after")
	checkRecords(t, w, items)
	checkCuts(t, w, items)
	checkLate(t, w, items)
	for limit := 1; limit < 5; limit++ {
		var paged []feed.Item
		var at feed.Cursor
		for next := &at; next != nil; {
			page, more, err := w.feed.Page(w.ctx, w.key, *next, limit)
			require.NoError(t, err)
			paged, next = append(paged, page...), more
		}
		require.Equal(t, show(facts(items)), show(paged), "pages of %d", limit)
	}
}

func TestPiecesOfAStoredMessageThatIsHeld(t *testing.T) {
	w := newWorld(t, options{})
	head := w.storeAll(said("go"))
	w.piece(head, "m1", 1, "of an attempt that was not held")
	head = w.storeAll(held("m1", "whole"))
	fromStart, fromHead := w.open(feed.From{}), w.open(feed.From{Cursor: feed.Cursor{Seq: head}})
	w.piece(head, "m1", 1, "of an attempt that was given up")
	w.storeAll(decided("message", event.Replaced, did("guard", "replaced"), with(reply("m1", "redacted"))), closed())
	assert.Equal(t, "go", w.next(fromStart).Event.Message.Content)
	for _, r := range []*feed.Reader{fromStart, fromHead} {
		got := w.untilClosed(r)
		require.Len(t, got, 3, "whoever comes after it was stored is not shown its pieces")
		assert.Equal(t, "redacted", got[0].Event.Message.Content)
	}
}
