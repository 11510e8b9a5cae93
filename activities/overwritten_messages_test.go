package activities_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

func decided(on string, d event.Interception) event.Record {
	return event.NewRecord(recordid.Interception(on), event.TypeHook, "e1", on, time.Now(), d)
}

func TestModelSeesMessagesAsHooksHaveLeftThem(t *testing.T) {
	w := newFixture(t, nil, add)
	held := func(id, content string, calls ...event.ToolCall) event.Record {
		return message(event.Message{
			ID: id, SenderType: event.CreatedByAgent, SenderID: "assistant", AgentID: "assistant", Content: content, ToolCalls: calls, Held: true,
		})
	}
	w.append(store.Batch{Records: []event.Record{
		message(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "my password is 1234"}),
		held("m2", "hidden for good", call("a1", "add", "{}")),
		message(event.Message{ID: "a1.result", SenderType: event.CreatedByTool, SenderID: "add", AgentID: "assistant", ToolCallID: "a1", Content: "a secret"}),
		held("m3", "hidden altogether"),
		held("m4", "let out"),
		held("m5", "not decided yet"),
		message(event.Message{ID: "m6", SenderType: event.CreatedByAgent, SenderID: "bob", AgentID: "bob", Content: "bob's, hidden", ToolCalls: []event.ToolCall{call("b1", "add", "{}")}, Held: true}),
		decided("m1", event.Interception{Outcome: event.OutcomeReplaced, Message: &event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "my password is …"}}),
		decided("m2", event.Interception{Outcome: event.OutcomeResponded}),
		decided("m3", event.Interception{Outcome: event.OutcomeOverwritten}),
		decided("m4", event.Interception{Outcome: event.OutcomePassed, Message: &event.Message{ID: "m4", SenderType: event.CreatedByAgent, SenderID: "assistant", AgentID: "assistant", Content: "let out"}}),
		decided("a1.result", event.Interception{Outcome: event.OutcomeReplaced, Message: &event.Message{
			ID: "a1.result", SenderType: event.CreatedByTool, SenderID: "add", AgentID: "assistant", ToolCallID: "a1", Content: "[redacted]",
		}}),
	}})
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, []llm.Message{
		{Role: "system", Content: "You help.\n\n" + activities.ToolRules},
		{Role: "user", Name: "ann", Content: "my password is …"},
		{Role: "assistant", ToolCalls: []event.ToolCall{call("a1", "add", "{}")}},
		{Role: "tool", ToolCallID: "a1", Content: "[redacted]"},
		{Role: "assistant", Content: "let out"},
		{Role: "user", Name: "ann", Content: "hello"},
	}, w.model.requests[0].Messages)
	require.Equal(t, "my password is 1234", stored[event.Message](w, "m1").Content, "what was stored stays")
}

func TestDecisionThatCannotBeRead(t *testing.T) {
	w := newFixture(t, nil)
	w.append(store.Batch{Records: []event.Record{
		message(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "a secret"}),
		event.NewRecord(recordid.Interception("m1"), event.TypeHook, "", "", time.Now(), "no decision"),
	}})
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	shown, err := json.Marshal(w.model.requests)
	require.NoError(t, err)
	require.NotContains(t, string(shown), "a secret", "the model is not shown what a hook may have kept from it")
}

// TestMessageThatCannotBeRead: the thread continues without it.
func TestMessageThatCannotBeRead(t *testing.T) {
	w := newFixture(t, nil)
	for i, payload := range []string{`"no message"`, `{"content":7}`, `[]`, strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)} {
		w.append(store.Batch{Records: []event.Record{
			message(event.Message{ID: fmt.Sprint("m", i), SenderType: event.CreatedByUser, SenderID: "ann", Content: fmt.Sprint("said ", i)}),
			{ID: fmt.Sprint("bad", i), Type: event.TypeMessage, Payload: json.RawMessage(payload), CreatedAt: time.Now()},
		}})
	}
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	shown, err := json.Marshal(w.model.requests[0].Messages)
	require.NoError(t, err)
	for i := range 4 {
		require.Contains(t, string(shown), fmt.Sprint("said ", i))
	}
}
