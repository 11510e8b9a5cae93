package uistream_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/uistream"
)

func newTurn() *uistream.Turn {
	return uistream.NewTurn(uistream.Config{ThreadID: "t", EventID: "e", MessageID: "e", Static: []string{"known"}})
}

// chunks applies events of the turn "e" and returns the chunks, one line each.
func chunks(t *testing.T, turn *uistream.Turn, events ...event.AgentEvent) string {
	t.Helper()
	var lines []string
	for _, e := range events {
		e.EventID = "e"
		for _, c := range turn.Apply(e) {
			data, err := json.Marshal(c)
			require.NoError(t, err)
			lines = append(lines, string(data))
		}
	}
	return strings.Join(lines, "\n")
}

func piece(content string, attempt int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStream, MessageID: "r", Agent: "bot", Content: content, Attempt: attempt}
}

func said(content string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventMessage, MessageID: "r", Agent: "bot", Message: &event.Message{ID: "r", SenderType: event.CreatedByAgent, Content: content}}
}

func ended(turn, detail string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusTurnEnded, Turn: turn, Detail: detail}}
}

func TestTextArrivesOnce(t *testing.T) {
	const begins = `{"type":"start-step"}` + "\n" + `{"type":"data-agent","data":{"name":"bot"}}` + "\n" + `{"type":"text-start","id":"r"}` + "\n"
	for name, c := range map[string]struct {
		events []event.AgentEvent
		want   string
	}{
		"whole":       {[]event.AgentEvent{said("ab")}, `{"type":"text-delta","id":"r","delta":"ab"}` + "\n" + `{"type":"text-end","id":"r"}`},
		"in pieces":   {[]event.AgentEvent{piece("a", 1), piece("b", 1), said("ab")}, `{"type":"text-delta","id":"r","delta":"a"}` + "\n" + `{"type":"text-delta","id":"r","delta":"b"}` + "\n" + `{"type":"text-end","id":"r"}`},
		"with a rest": {[]event.AgentEvent{piece("a", 1), said("ab")}, `{"type":"text-delta","id":"r","delta":"a"}` + "\n" + `{"type":"text-delta","id":"r","delta":"b"}` + "\n" + `{"type":"text-end","id":"r"}`},
		"late pieces": {[]event.AgentEvent{said("ab"), piece("b", 1)}, `{"type":"text-delta","id":"r","delta":"ab"}` + "\n" + `{"type":"text-end","id":"r"}`},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, begins+c.want, chunks(t, newTurn(), c.events...)) })
	}
}

func TestTextThatIsVoid(t *testing.T) {
	turn := newTurn()
	chunks(t, turn, piece("a", 1))
	again := chunks(t, turn, event.AgentEvent{Type: event.EventReset, MessageID: "r", Attempt: 2}, piece("old", 1), piece("b", 2), said("b"))
	assert.Equal(t, `{"type":"text-end","id":"r"}
{"type":"data-reset","id":"r","data":{"attempt":2,"messageId":"r"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"b"}
{"type":"text-end","id":"r"}`, again)
	assert.Contains(t, chunks(t, turn, said("changed by a hook")), `"data-changed"`)
}

func TestTurnWaits(t *testing.T) {
	call := event.AgentEvent{Type: event.EventToolCall, MessageID: "r", Agent: "bot", ToolCallID: "c", ToolName: "known", ToolArgs: `{"a":1}`}
	other := event.AgentEvent{Type: event.EventToolCall, MessageID: "r", Agent: "bot", ToolCallID: "d", ToolName: "other", ToolArgs: `no JSON`}
	request := event.AgentEvent{Type: event.EventApprovalRequest, Request: &event.ApprovalRequest{ToolCallID: "c"}}
	turn := newTurn()
	out := chunks(t, turn, call, other)
	assert.Contains(t, out, `{"type":"tool-input-available","toolCallId":"c","toolName":"known","input":{"a":1}}`)
	assert.Contains(t, out, `{"type":"tool-input-error","toolCallId":"d","toolName":"other","dynamic":true,"input":"no JSON"`)
	chunks(t, turn, request)
	assert.False(t, turn.Waits(), "another call runs")
	chunks(t, turn, event.AgentEvent{Type: event.EventToolResult, ToolCallID: "d", Output: "failed", IsError: true})
	assert.True(t, turn.Waits())
	chunks(t, turn, event.AgentEvent{Type: event.EventApproval, Approval: &event.Approval{ToolCallID: "c", Decision: event.DecisionApprove, Missing: 1}})
	assert.True(t, turn.Waits(), "one more has to approve")
	out = chunks(t, turn, event.AgentEvent{Type: event.EventApproval, Approval: &event.Approval{ToolCallID: "c", Decision: event.DecisionDeny}},
		event.AgentEvent{Type: event.EventToolResult, ToolCallID: "c", Output: "denied", IsError: true})
	assert.Contains(t, out, `{"type":"tool-output-denied","toolCallId":"c"}`)
	assert.NotContains(t, out, "tool-output-error", "the denial has said it")
	assert.False(t, turn.Waits())
}

func TestTurnEnds(t *testing.T) {
	for turn, want := range map[string]string{
		"completed":   `{"type":"finish","finishReason":"stop","messageMetadata":{"turn":"completed"}}`,
		"failed":      `{"type":"error","errorText":"why"}` + "\n" + `{"type":"finish","finishReason":"error","messageMetadata":{"turn":"failed"}}`,
		"interrupted": `{"type":"abort","reason":"why"}` + "\n" + `{"type":"finish","finishReason":"other","messageMetadata":{"turn":"interrupted"}}`,
	} {
		one := newTurn()
		assert.Equal(t, want, chunks(t, one, ended(turn, "why")))
		assert.True(t, one.Ended())
		assert.Empty(t, chunks(t, one, said("late")))
	}
	other := said("of another turn")
	other.EventID = "f"
	assert.Empty(t, newTurn().Apply(other))
}

func TestVersion7TakesTextBack(t *testing.T) {
	newTurn := func() *uistream.Turn {
		return uistream.NewTurn(uistream.Config{ThreadID: "t", EventID: "e", MessageID: "e", Version: 7})
	}
	reset := event.AgentEvent{Type: event.EventReset, MessageID: "r", Agent: "bot", Attempt: 2}
	turn := newTurn()
	chunks(t, turn, piece("a", 1))
	assert.Equal(t, `{"type":"text-end","id":"r"}
{"type":"reset-step"}
{"type":"data-agent","data":{"name":"bot"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"b"}`, chunks(t, turn, reset, piece("b", 2)))

	other := piece("x", 1)
	other.MessageID, other.Agent = "other", "other"
	for name, more := range map[string]event.AgentEvent{
		"a later step of another agent": other,
		"an event of the world":         {Type: event.EventEnvironment, Env: &event.EnvEvent{ID: "w"}},
	} {
		t.Run(name, func(t *testing.T) {
			turn := newTurn()
			chunks(t, turn, piece("a", 1), more)
			assert.Contains(t, chunks(t, turn, reset), "data-reset", "the step has more than the reply")
		})
	}
}

func TestAgentsAreNamedWhereTheirPartsBegin(t *testing.T) {
	of := func(e event.AgentEvent) event.AgentEvent {
		e.MessageID, e.Agent = "o", "other"
		if e.Message != nil {
			e.Message.ID = "o"
		}
		return e
	}
	assert.Equal(t, `{"type":"start-step"}
{"type":"data-agent","data":{"name":"bot"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"a"}
{"type":"start-step"}
{"type":"data-agent","data":{"name":"other"}}
{"type":"text-start","id":"o"}
{"type":"text-delta","id":"o","delta":"x"}
{"type":"text-delta","id":"r","delta":"b"}
{"type":"text-end","id":"o"}
{"type":"text-end","id":"r"}`, chunks(t, newTurn(), piece("a", 1), of(piece("x", 1)), piece("b", 1), of(said("x")), said("ab")))
}

// given says what an agent was given for a reply.
func given(reply string, passages ...string) event.AgentEvent {
	e := event.AgentEvent{Type: event.EventRetrieval, EventID: "e", Agent: "bot", MessageID: reply, Retrieval: &event.Retrieval{Agent: "bot", MessageID: reply}}
	for _, id := range passages {
		e.Retrieval.Passages = append(e.Retrieval.Passages, event.Passage{ID: id, Source: id + ".md", Path: []string{"A"}})
	}
	return e
}

// types returns the types of chunks, and the ids of sources.
func types(t *testing.T, turn *uistream.Turn, events ...event.AgentEvent) (out []string) {
	t.Helper()
	for _, e := range events {
		e.EventID = "e"
		for _, c := range turn.Apply(e) {
			out = append(out, strings.TrimSpace(c.Type+" "+c.SourceID))
		}
	}
	return out
}

func TestSourcesFollowTheirReply(t *testing.T) {
	after := []string{"data-retrieval", "source-document p", "source-document q"}
	live := types(t, newTurn(), piece("a", 1), given("r", "p", "q"), said("ab"))
	assert.Equal(t, append([]string{"start-step", "data-agent", "text-start", "text-delta", "text-delta", "text-end"}, after...), live)
	assert.Equal(t, append([]string{"start-step", "data-agent", "text-start", "text-delta", "text-end"}, after...), types(t, newTurn(), given("r", "p", "q"), said("ab")))
	assert.Equal(t, append([]string{"start-step", "data-agent"}, after...), types(t, newTurn(), given("r", "p", "q"), said("")), "a reply without text")
	assert.Empty(t, types(t, newTurn(), given("r", "p")), "a reply that has not come")
	assert.Contains(t, chunks(t, newTurn(), given("r", "p"), said("a")),
		`{"type":"source-document","sourceId":"p","mediaType":"text/plain","title":"p.md","filename":"p.md","providerMetadata":{"threadmill":{"number":1,"document":"","index":0,"section":"A"}}}`)

	t.Run("a passage is one source of a message", func(t *testing.T) {
		other := said("x")
		other.Message.ID = "s"
		turn := newTurn()
		types(t, turn, given("r", "p"), said("a"))
		assert.Equal(t, []string{"data-retrieval", "source-document q"}, types(t, turn, given("s", "p", "q"), other)[5:])
	})
	t.Run("facts and warnings are no sources", func(t *testing.T) {
		for _, found := range []event.Retrieval{{Facts: []event.Fact{{Name: "Sarah"}}}, {Warning: "the embedder failed"}} {
			e := given("r")
			e.Retrieval = &found
			assert.Equal(t, []string{"data-retrieval"}, types(t, newTurn(), e, said(""))[2:])
		}
		assert.NotContains(t, types(t, newTurn(), given("r"), said("a")), "data-retrieval", "nothing was found")
	})
	t.Run("text that a hook changes is taken back without them", func(t *testing.T) {
		turn := uistream.NewTurn(uistream.Config{ThreadID: "t", EventID: "e", MessageID: "e", Version: 7})
		assert.Contains(t, types(t, turn, piece("a", 1), given("r", "p"), said("b")), "reset-step")
	})
}

// TestSourcesOfAMessageThatJoins: each assistant message of a turn has its sources.
func TestSourcesOfAMessageThatJoins(t *testing.T) {
	list := uistream.NewMessages("t")
	for _, id := range []string{"r", "s"} {
		asked := event.AgentEvent{Type: event.EventMessage, EventID: "e", MessageID: "ask-" + id, Message: &event.Message{ID: "ask-" + id, Role: event.RoleUser, SenderType: event.CreatedByUser, Content: "?"}}
		reply := said("a")
		reply.EventID, reply.Message.ID = "e", id
		for _, e := range []event.AgentEvent{asked, given(id, "p"), reply} {
			list.Apply(e)
		}
	}
	messages := list.List()
	assert.Len(t, messages, 4)
	for _, m := range []*uistream.UIMessage{messages[1], messages[3]} {
		assert.Equal(t, "source-document", m.Parts[len(m.Parts)-1].Type)
	}
}
