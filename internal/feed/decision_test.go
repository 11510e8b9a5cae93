package feed_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

func TestEventsOfDecisions(t *testing.T) {
	status := func(detail string) string {
		return `{"type":"status","status":{"status":"intercepted","detail":"` + detail + `"}}`
	}
	toolResult := event.Message{
		ID: "c1.result", SenderID: "sh", SenderType: event.CreatedByTool, Role: event.RoleTool, Content: "[redacted]", ToolCallID: "c1", ToolName: "sh", AgentID: "bot",
	}
	stillHeld := feedtest.Reply("m1", "a secret")
	stillHeld.Held = true
	for name, test := range map[string]struct {
		record event.Record
		want   []string
	}{
		"a held message": {feedtest.Held("m1", "a secret"), nil},
		"a message that was replaced": {feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(feedtest.Reply("m1", "redacted"))), []string{
			`{"type":"message","messageId":"m1","agent":"bot","message":{"id":"m1","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"redacted","agentId":"bot"}}`,
			status("guard replaced the message"),
		}},
		"a held message that was let out": {feedtest.Decided("message", event.OutcomePassed, feedtest.Did("guard", "passed"), feedtest.With(stillHeld)), []string{
			`{"type":"message","messageId":"m1","agent":"bot","message":{"id":"m1","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"a secret","agentId":"bot"}}`,
			status("guard let the message pass"),
		}},
		"a held message that was responded to": {feedtest.Decided("message", event.OutcomeResponded, feedtest.Did("guard", "responded"), feedtest.With(stillHeld)), []string{
			status("guard responded in place of the message"),
		}},
		"a tool's result that was replaced": {feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(toolResult)), []string{
			`{"type":"tool_result","toolName":"sh","output":"[redacted]","agent":"bot","toolCallId":"c1"}`,
			status("guard replaced the tool result"),
		}},
		"tool calls that were edited": {feedtest.Decided("tool_call", event.OutcomeReplaced, feedtest.Did("dry", "replaced"), func(d *event.Interception) {
			d.Agent = "bot"
			d.ToolCalls = []event.ToolCall{
				{ID: "c1", Function: event.Function{Name: "sh", Arguments: `{"dry":true}`}}, {ID: "c2", Function: event.Function{Name: "sh", Arguments: `{}`}},
			}
		}), []string{
			`{"type":"tool_call","toolName":"sh","toolArgs":"{\"dry\":true}","messageId":"e","agent":"bot","toolCallId":"c1"}`,
			`{"type":"tool_call","toolName":"sh","toolArgs":"{}","messageId":"e","agent":"bot","toolCallId":"c2"}`,
			status("dry replaced the tool calls"),
		}},
		"a model call that was changed": {feedtest.Decided("llm_call", event.OutcomeReplaced, feedtest.Did("cheap", "replaced"), func(d *event.Interception) {
			d.LLMCall = &event.LLMCallEvent{Model: "fake/small"}
		}), []string{status("cheap replaced the model call")}},
		"no decision": {event.Record{Type: event.TypeHook, Payload: json.RawMessage(`7`)}, nil},
	} {
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

func TestSentences(t *testing.T) {
	failed := func(name, problem string) event.HookOutcome {
		return event.HookOutcome{Name: name, Outcome: event.OutcomeFailed, Error: problem}
	}
	for want, r := range map[string]event.Record{
		"guard responded in place of the tool calls":                   feedtest.Decided("tool_call", event.OutcomeResponded, feedtest.Did("guard", "responded")),
		"approve let the message pass":                                 feedtest.Decided("message", event.OutcomePassed, feedtest.Did("approve", "passed")),
		"a and b let the message pass":                                 feedtest.Decided("message", event.OutcomePassed, feedtest.Did("a", "passed", "b", "passed")),
		"a, b and c let the tool calls pass":                           feedtest.Decided("tool_call", event.OutcomePassed, feedtest.Did("a", "passed", "b", "passed", "c", "passed")),
		"b replaced the message":                                       feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("a", "passed", "b", "replaced", "c", "passed")),
		"a replaced the message; b responded in place of the message":  feedtest.Decided("message", event.OutcomeResponded, feedtest.Did("a", "replaced", "b", "responded")),
		"order-processor made other events of the order.created event": feedtest.Decided("order.created", event.OutcomeOverwritten, feedtest.Did("order-processor", "overwritten")),
		"audit failed (open): no connection":                           feedtest.Decided("message", event.OutcomePassed, []event.HookOutcome{failed("audit", "no connection"), {Name: "b", Outcome: event.OutcomePassed}}),
		"audit failed (open): x; guard replaced the message":           feedtest.Decided("message", event.OutcomeReplaced, []event.HookOutcome{failed("audit", "x"), {Name: "guard", Outcome: event.OutcomeReplaced}}),
		"audit failed (open): x; guard failed (closed): y":             feedtest.Decided("message", event.OutcomeFailed, []event.HookOutcome{failed("audit", "x"), failed("guard", "y")}),
		"guard failed (closed)":                                        feedtest.Decided("message", event.OutcomeFailed, []event.HookOutcome{failed("guard", "")}),
		"echo responded in place of the message; the message failed":   feedtest.Decided("message", event.OutcomeFailed, feedtest.Did("echo", "responded")),
		"hooks failed on the message":                                  feedtest.Decided("message", event.OutcomeFailed, nil),
		"hooks decided on the event":                                   feedtest.Decided("", "", nil),
	} {
		events := feed.Events(r)
		require.Len(t, events, 1, want)
		assert.Equal(t, event.StatusIntercepted, events[0].Status.Status)
		assert.Equal(t, want, events[0].Status.Detail)
	}
}

func TestSequenceOfDecisions(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	items := perform(w, feedtest.Intercepted())
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
			page, more, err := w.Feed.Page(w.Ctx, w.Key, *next, limit)
			require.NoError(t, err)
			paged, next = append(paged, page...), more
		}
		require.Equal(t, show(facts(items)), show(paged), "pages of %d", limit)
	}
}

func TestPiecesOfAStoredMessageThatIsHeld(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "of an attempt that was not held")
	head = w.StoreAll(feedtest.Held("m1", "whole"))
	fromStart, fromHead := w.Open(feed.From{}), w.Open(feed.From{Cursor: feed.Cursor{Seq: head}})
	w.Piece(head, "m1", 1, "of an attempt that was given up")
	w.StoreAll(feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(feedtest.Reply("m1", "redacted"))), feedtest.Closed())
	assert.Equal(t, "go", w.Next(fromStart).Event.Message.Content)
	for _, r := range []*feed.Reader{fromStart, fromHead} {
		got := w.UntilClosed(r)
		require.Len(t, got, 3, "whoever comes after it was stored is not shown its pieces")
		assert.Equal(t, "redacted", got[0].Event.Message.Content)
	}
}
