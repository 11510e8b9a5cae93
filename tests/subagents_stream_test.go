package tests

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// progressOf joins the texts that viewers received as progress of a tool. Each must be a bare
// string.
func progressOf(t *testing.T, frames []frame, tool string) (text string, pieces int) {
	t.Helper()
	var b strings.Builder
	for _, f := range frames {
		if f.event.Type != event.EventToolProgress || f.event.ToolName != tool {
			continue
		}
		var piece string
		require.NoError(t, json.Unmarshal(f.event.Data, &piece), "%s", f.event.Data)
		b.WriteString(piece)
		pieces++
	}
	return b.String(), pieces
}

// TestSubAgentStreams watches a thread with a sub-agent: viewers receive its text as progress of
// the call, and nothing else of it.
func TestSubAgentStreams(t *testing.T) {
	t.Parallel()
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			o := b.options
			o.Agents = team()
			w := harness.New(t, o)
			id := w.Open()
			view := watch(t, w, id, "")
			w.Provider.Block(0).Release()
			begins := w.Provider.Block(1)
			w.Post(id, asks("helper", "think I begin", "count 30", `use note {"text":"milk"}`, "then", "and done")+"\nthen\nthat was it")
			arrives(t, begins.Reached(), "the model call")
			belowView := watch(t, w, sub(w, id, 1), "")
			begins.Release()
			frames := view.until(t, isFinal)
			below := belowView.until(t, isFinal)
			result := resultIn(t, w, id, "call-agent")

			t.Run("S1-28 what the sub-agent says is progress of the call, piece by piece, in order", func(t *testing.T) {
				text, pieces := progressOf(t, frames, "call-agent")
				require.Equal(t, result.Content, text)
				require.Equal(t, count(below, event.EventStream), pieces, "a piece for each of its own")
				require.Greater(t, pieces, 30)
				for _, f := range frames {
					if f.event.Type == event.EventToolProgress {
						require.Equal(t, "assistant", f.event.Agent)
						require.Equal(t, result.ToolCallID, f.event.ToolCallID)
					}
				}
			})
			t.Run("S1-29 its thoughts and calls are its own", func(t *testing.T) {
				require.Equal(t, []event.AgentEventType{
					event.EventToolCall, event.EventToolProgress, event.EventToolResult, event.EventStream, event.EventFinal,
				}, base(frames))
				require.Equal(t, 1, count(frames, event.EventToolCall))
				require.Equal(t, 1, count(frames, event.EventToolResult))
				require.Equal(t, 2, count(below, event.EventThought), "they are there, in its own thread")
				require.Equal(t, 1, count(below, event.EventToolCall))
			})
			t.Run("S1-30 the result is all that it has said, also between its tools", func(t *testing.T) {
				said := ""
				for _, m := range w.Messages(sub(w, id, 1)) {
					if m.SenderType == event.CreatedByAgent {
						said += m.Content
					}
				}
				require.Contains(t, result.Content, "29 30")
				require.True(t, strings.HasSuffix(result.Content, "note returned: noted: milk\nand done"), result.Content)
				require.Equal(t, said, result.Content)
				require.False(t, result.IsError)
				shown := modelCalls(w)
				require.Equal(t, result.Content, lastMessage(shown[len(shown)-1]).Content, "the model is shown it")
			})
			t.Run("S1-31 its end is not the end of the stream", func(t *testing.T) {
				require.Equal(t, 1, count(frames, event.EventFinal))
				require.Equal(t, 1, count(below, event.EventFinal))
				said := w.Messages(id)[3]
				require.Equal(t, said.Content, streamed(frames, said.ID), "what its own agent says follows")
				w.Post(id, "and now?")
				require.Equal(t, event.EventMessage, view.until(t, isFinal)[1].event.Type)
			})
			t.Run("S1-26 no progress comes before the call or after the result", func(t *testing.T) {
				begun, ended := 0, 0
				for i, f := range frames {
					switch f.event.Type {
					case event.EventToolCall:
						begun = i
					case event.EventToolResult:
						ended = i
					}
				}
				require.Less(t, begun, ended)
				require.Zero(t, count(frames[:begun], event.EventToolProgress)+count(frames[ended:], event.EventToolProgress))
			})
		})
	}
}

// closedStream returns the events that a late viewer of a closed thread receives.
func closedStream(t *testing.T, w *harness.Harness, thread string) (frames []frame) {
	t.Helper()
	awaitClosed(w, thread)
	isClosed := func(f frame) bool {
		return f.event.Type == event.EventStatus && f.event.Status.Status == event.StatusClosed
	}
	view := watch(t, w, thread, "")
	defer view.close()
	return view.until(t, isClosed)
}

func lastMessage(s shown) llm.Message { return s.Messages[len(s.Messages)-1] }

// TestSubAgentsSpeakAtOnce asks two agents in one reply: each call has separate progress.
func TestSubAgentsSpeakAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: team()})
	id := w.Open()
	view := watch(t, w, id, "")
	w.Post(id, asks("helper", "count 20")+"\n"+asks("manager", "count 25"))
	frames := view.until(t, isFinal)
	text := map[string]string{}
	for _, f := range frames {
		if f.event.Type == event.EventToolProgress {
			var piece string
			require.NoError(t, json.Unmarshal(f.event.Data, &piece))
			text[f.event.ToolCallID] += piece
		}
	}
	results := resultsOf(w, id, "call-agent")
	require.Len(t, results, 2)
	for _, r := range results {
		require.Equal(t, r.Content, text[r.ToolCallID], "S1-28 each call has what its agent says")
	}
	require.NotEqual(t, results[0].Content, results[1].Content)
}

// TestUnknownSubAgent calls agents that do not exist.
func TestUnknownSubAgent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: team()})
	for name, tc := range map[string]struct{ call, want string }{
		"S1-32 an agent that is not there":   {asks("nobody", "hello"), `unknown agent: "nobody"`},
		"S1-32 no agent":                     {`use call-agent {"agent":"","message":"hello"}`, "agent is required"},
		"nothing to do":                      {`use call-agent {"agent":"helper","message":""}`, "message is required"},
		"arguments that do not fit":          {`use call-agent {"agent":"helper"}`, "message"},
		"more than can be asked":             {asks("helper", strings.Repeat("a", 128<<10-1)), "message is 131073 bytes as JSON, must be at most 131072"},
		"more than can be asked, by escapes": {asks("helper", strings.Repeat(`"`, 60_000)+strings.Repeat("a", 20_000)), "message is 140002 bytes as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			view := watch(t, w, id, "")
			w.Post(id, tc.call+"\nthen\nso be it")
			frames := view.until(t, isFinal)
			result := resultIn(t, w, id, "call-agent")
			require.True(t, result.IsError)
			require.Contains(t, result.Content, tc.want)
			shown := frames[slices.IndexFunc(frames, func(f frame) bool { return f.event.Type == event.EventToolResult })]
			require.True(t, shown.event.IsError, "viewers are told")
			require.Zero(t, count(frames, event.EventError), "the turn goes on")
			require.Empty(t, subs(w, id), "no thread was begun for it")
		})
	}
}

// TestSubAgentBeginsAnew aborts the sub-agent's reply: the result has the final text, once.
func TestSubAgentBeginsAnew(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: team()})
	id := w.Open()
	w.Provider.Fail(llmtest.Fault{}, llmtest.Drop(3))
	out := w.Say(id, asks("helper", "count 6")+"\nthen\nwell")
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "1 2 3 4 5 6", resultIn(t, w, id, "call-agent").Content)
	require.Equal(t, 1, count(closedStream(t, w, sub(w, id, 1)), event.EventFinal))
}

// TestSubAgentFails: a provider's error in a sub-agent is the result of the call, and the turn
// continues.
func TestSubAgentFails(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: team()})
	id := w.Open()
	w.Provider.Fail(llmtest.Fault{}, llmtest.Status(http.StatusBadRequest, "").WithError("policy", "not with me"))
	out := w.Say(id, asks("helper", "count 6")+"\nthen\nso be it")
	require.Equal(t, signals.TurnCompleted, out.Status)
	result := resultIn(t, w, id, "call-agent")
	require.True(t, result.IsError)
	require.Contains(t, result.Content, "Error: the sub-agent failed: ")
	require.Contains(t, result.Content, "not with me")
	require.Contains(t, out.Message.Content, "so be it")
	logs := toolLogs(w, id)
	require.Equal(t, "failed", string(only(t, logs).Status))
	require.Equal(t, 1, count(closedStream(t, w, sub(w, id, 1)), event.EventError), "its own thread says it, too")
}
