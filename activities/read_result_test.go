package activities_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// withResult changes the limit of an agent without tools.
func withResult(limit int) func(*activities.Config) {
	return func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Limits: agent.Limits{MaxResult: limit}}}
	}
}

// returned stores a call of an agent and its result.
func (w *fixture) returned(agentName, id, text string) {
	w.t.Helper()
	w.append(store.Batch{Records: []event.Record{
		message(event.Message{ID: "m" + id, SenderType: event.CreatedByAgent, AgentID: agentName, ToolCalls: []event.ToolCall{call(id, "look", `{}`)}}),
		message(event.Message{
			ID: recordid.Result(id), SenderType: event.CreatedByTool, Role: event.RoleTool, AgentID: agentName, ToolCallID: id, ToolName: "look",
			ReplyToMessageID: "m" + id, Content: text,
		}),
	}})
}

// readResult runs the tool.
func (w *fixture) readResult(arguments string) event.Message {
	w.t.Helper()
	id := fmt.Sprintf("read%d", len(w.records()))
	w.append(store.Batch{Records: []event.Record{message(event.Message{
		ID: "asks." + id, SenderType: event.CreatedByAgent, AgentID: "assistant", ToolCalls: []event.ToolCall{call(id, "read_result", arguments)},
	})}})
	_, err := w.runTool(step.Tool{
		Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "asks." + id},
		ToolCallID: id,
		ToolName:   "read_result",
	})
	require.NoError(w.t, err)
	return stored[event.Message](w, recordid.Result(id))
}

// haystack returns the text of a result, with a needle in its middle.
func haystack(size int) string {
	half := strings.Repeat("é hay\n", size/2/7)
	return half + "The Needle: 42\n" + half
}

func TestReadResult(t *testing.T) {
	const limit = 4 << 10
	w := newFixture(t, withResult(limit))
	text := haystack(64 << 10)
	w.returned("assistant", "c1", text)
	w.returned("bob", "c2", "a result of bob's")
	_, err := w.callModel(modelStep())
	require.NoError(t, err)

	t.Run("piece by piece", func(t *testing.T) {
		var read strings.Builder
		for offset, pieces := 0, 0; read.Len() < len(text); pieces++ {
			require.Less(t, pieces, 20)
			got := w.readResult(fmt.Sprintf(`{"call":"c1","offset":%d}`, offset))
			require.False(t, got.IsError)
			require.LessOrEqual(t, len(got.Content), limit)
			head, piece, _ := strings.Cut(got.Content, "\n")
			require.True(t, utf8.ValidString(piece))
			require.Contains(t, head, fmt.Sprintf("bytes %d to %d of %d", offset, offset+len(piece), len(text)))
			read.WriteString(piece)
			if offset += len(piece); offset < len(text) {
				require.Contains(t, head, fmt.Sprintf("the next offset is %d]", offset))
			} else {
				require.Contains(t, head, "it ends here]")
			}
		}
		require.Equal(t, text, read.String())
	})
	t.Run("within a character", func(t *testing.T) {
		require.Contains(t, w.readResult(`{"call":"c1","offset":1}`).Content, "[bytes 0 to ")
	})
	t.Run("found", func(t *testing.T) {
		at := strings.Index(text, "Needle")
		const hay = "é hay é hay é hay é hay é hay é hay é hay é hay "
		require.Equal(t, fmt.Sprintf("offset %d: … %sThe Needle: 42 %s…\n", at, hay, hay), w.readResult(`{"call":"c1","find":"nEEDLE"}`).Content)
		require.Equal(t, fmt.Sprintf("[not found in bytes %d to %[2]d of %[2]d]", at+1, len(text)),
			w.readResult(fmt.Sprintf(`{"call":"c1","find":"needle","offset":%d}`, at+1)).Content)
	})
	t.Run("found often", func(t *testing.T) {
		got := w.readResult(`{"call":"c1","find":"É HAY"}`).Content
		require.LessOrEqual(t, len(got), limit)
		require.Equal(t, 20, strings.Count(got, "offset ")-1)
		require.Contains(t, got, "[there are more, the next at offset 140]")
	})
	for name, tt := range map[string]struct{ arguments, problem string }{
		"no call":              {`{}`, "call: is required"},
		"an unknown call":      {`{"call":"c9"}`, `you have no call "c9" with a result in this conversation: pass the id that the note in the result tells`},
		"another agent's call": {`{"call":"c2"}`, `you have no call "c2"`},
		"no id":                {`{"call":"c1.result\u0000"}`, `you have no call "c1.result`},
		"beyond the end":       {fmt.Sprintf(`{"call":"c1","offset":%d}`, len(text)), fmt.Sprintf("offset is %d, but the result has %[1]d bytes", len(text))},
		"a negative offset":    {`{"call":"c1","offset":-1}`, "offset"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.readResult(tt.arguments)
			require.True(t, got.IsError)
			require.Contains(t, got.Content, tt.problem)
		})
	}
	t.Run("as hooks have left it", func(t *testing.T) {
		w.append(store.Batch{Records: []event.Record{decided("c1.result", event.Interception{EventID: "c1.result", EventType: event.TypeMessage, Outcome: event.OutcomeDropped})}})
		require.Contains(t, w.readResult(`{"call":"c1"}`).Content, "The result of this call was withheld.")
		w.append(store.Batch{Records: []event.Record{event.NewRecord(recordid.Withdrawal("c1.result"), event.TypeHook, "e1", "c1.result", time.Now(),
			event.Interception{EventID: "c1.result", Outcome: event.OutcomeWithdrawn})}})
		require.Contains(t, w.readResult(`{"call":"c1"}`).Content, `the result of the call "c1" is no longer available`)
	})
}

// TestReadResultIsOffered: as long as the conversation has a result that was cut, or a call of the tool. It may be called at any time.
func TestReadResultIsOffered(t *testing.T) {
	w := newFixture(t, withResult(2<<10))
	w.returned("assistant", "c1", strings.Repeat("x", 2<<10))
	w.returned("bob", "c2", haystack(64<<10))
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Empty(t, w.offered(), "the result fits, and that of another agent is not shown")

	w.returned("assistant", "c3", haystack(64<<10))
	w.replies("", call("x", "read_result", `{"call":"c3"}`), call("y", "read_result", `{}`))
	in := modelStep()
	in.MessageID, in.Tools = "e1.0.2", []string{}
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, []string{"read_result"}, w.offered(), "whatever tools the turn allows")
	require.False(t, reply.Calls[0].Invalid)
	require.True(t, reply.Calls[0].Quick)
	require.False(t, reply.Calls[0].NeedsApproval)
	require.True(t, reply.Calls[1].Invalid)
}

// TestResultFollowsTheWindow: after a refusal, a result is cut to a quarter of what fits, and is read in pieces of that size.
func TestResultFollowsTheWindow(t *testing.T) {
	const fits = 20_000
	w := newFixture(t, withResult(1<<20))
	w.model.answer = func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		size := 0
		for _, m := range req.Messages {
			size += len(m.Content)
		}
		if size > fits {
			return llm.Response{}, &llm.Error{Provider: "fake", StatusCode: 400, ContextOverflow: true, Message: "too long"}
		}
		return llm.Response{Type: llm.TypeText, Content: "it fits"}, nil
	}
	w.returned("assistant", "c1", haystack(1<<20))
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, "it fits", reply.Message.Content)
	seen := stored[event.LLMCall](w, recordid.LLMCall(reply.Message.ID)).Context
	require.Equal(t, seen.Bytes/4, seen.Result)
	shown := w.lastShown()
	i := 0
	for shown[i].ToolCallID != "c1" {
		i++
	}
	require.Contains(t, shown[i].Content, `call read_result with {"call":"c1","offset":`)
	require.LessOrEqual(t, len(shown[i].Content), seen.Result)
	require.LessOrEqual(t, len(w.readResult(`{"call":"c1","offset":5000}`).Content), seen.Result)
}
