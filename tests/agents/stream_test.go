package agents

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
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// progressOf joins the texts that viewers received as progress of a tool. Each must be a bare
// string.
func progressOf(t *testing.T, frames []check.Frame, tool string) (text string, pieces int) {
	t.Helper()
	var b strings.Builder
	for _, f := range frames {
		if f.Event.Type != event.EventToolProgress || f.Event.ToolName != tool {
			continue
		}
		var piece string
		require.NoError(t, json.Unmarshal(f.Event.Data, &piece), "%s", f.Event.Data)
		b.WriteString(piece)
		pieces++
	}
	return b.String(), pieces
}

// TestSubAgentStreams watches a thread with a sub-agent: viewers receive its text as progress of
// the call, and nothing else of it.
func TestSubAgentStreams(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			o := b.Options
			o.Agents = check.Team()
			w := harness.New(t, o)
			id := w.Open()
			view := check.Watch(t, w, id, "")
			w.Provider.Block(0).Release()
			begins := w.Provider.Block(1)
			w.Post(id, check.Asks("helper", "think I begin", "count 30", `use note {"text":"milk"}`, "then", "and done")+"\nthen\nthat was it")
			check.Arrives(t, begins.Reached(), "the model call")
			belowView := check.Watch(t, w, check.Sub(w, id, 1), "")
			begins.Release()
			frames := view.Until(t, check.IsFinal)
			below := belowView.Until(t, check.IsFinal)
			result := check.ResultIn(t, w, id, "call-agent")

			t.Run("S1-28 what the sub-agent says is progress of the call, piece by piece, in order", func(t *testing.T) {
				text, pieces := progressOf(t, frames, "call-agent")
				require.Equal(t, result.Content, text)
				require.Equal(t, check.Count(below, event.EventStream), pieces, "a piece for each of its own")
				require.Greater(t, pieces, 30)
				for _, f := range frames {
					if f.Event.Type == event.EventToolProgress {
						require.Equal(t, "assistant", f.Event.Agent)
						require.Equal(t, result.ToolCallID, f.Event.ToolCallID)
					}
				}
			})
			t.Run("S1-29 its thoughts and calls are its own", func(t *testing.T) {
				require.Equal(t, []event.AgentEventType{
					event.EventToolCall, event.EventToolProgress, event.EventToolResult, event.EventStream, event.EventFinal,
				}, check.Base(frames))
				require.Equal(t, 1, check.Count(frames, event.EventToolCall))
				require.Equal(t, 1, check.Count(frames, event.EventToolResult))
				require.Equal(t, 2, check.Count(below, event.EventThought), "they are there, in its own thread")
				require.Equal(t, 1, check.Count(below, event.EventToolCall))
			})
			t.Run("S1-30 the result is all that it has said, also between its tools", func(t *testing.T) {
				said := ""
				for _, m := range w.Messages(check.Sub(w, id, 1)) {
					if m.SenderType == event.CreatedByAgent {
						said += m.Content
					}
				}
				require.Contains(t, result.Content, "29 30")
				require.True(t, strings.HasSuffix(result.Content, "note returned: noted: milk\nand done"), result.Content)
				require.Equal(t, said, result.Content)
				require.False(t, result.IsError)
				shown := check.ModelCalls(w)
				require.Equal(t, result.Content, lastMessage(shown[len(shown)-1]).Content, "the model is shown it")
			})
			t.Run("S1-31 its end is not the end of the stream", func(t *testing.T) {
				require.Equal(t, 1, check.Count(frames, event.EventFinal))
				require.Equal(t, 1, check.Count(below, event.EventFinal))
				said := w.Messages(id)[3]
				require.Equal(t, said.Content, check.Streamed(frames, said.ID), "what its own agent says follows")
				w.Post(id, "and now?")
				require.Equal(t, event.EventMessage, view.Until(t, check.IsFinal)[1].Event.Type)
			})
			t.Run("S1-26 no progress comes before the call or after the result", func(t *testing.T) {
				begun, ended := 0, 0
				for i, f := range frames {
					switch f.Event.Type {
					case event.EventToolCall:
						begun = i
					case event.EventToolResult:
						ended = i
					}
				}
				require.Less(t, begun, ended)
				require.Zero(t, check.Count(frames[:begun], event.EventToolProgress)+check.Count(frames[ended:], event.EventToolProgress))
			})
		})
	}
}

// closedStream returns the events that a late viewer of a closed thread receives.
func closedStream(t *testing.T, w *harness.Harness, thread string) (frames []check.Frame) {
	t.Helper()
	awaitClosed(w, thread)
	isClosed := func(f check.Frame) bool {
		return f.Event.Type == event.EventStatus && f.Event.Status.Status == event.StatusClosed
	}
	view := check.Watch(t, w, thread, "")
	defer view.Close()
	return view.Until(t, isClosed)
}

func lastMessage(s check.Shown) llm.Message { return s.Messages[len(s.Messages)-1] }

// TestSubAgentsSpeakAtOnce asks two agents in one reply: each call has separate progress.
func TestSubAgentsSpeakAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	w.Post(id, check.Asks("helper", "count 20")+"\n"+check.Asks("manager", "count 25"))
	frames := view.Until(t, check.IsFinal)
	text := map[string]string{}
	for _, f := range frames {
		if f.Event.Type == event.EventToolProgress {
			var piece string
			require.NoError(t, json.Unmarshal(f.Event.Data, &piece))
			text[f.Event.ToolCallID] += piece
		}
	}
	results := check.ResultsOf(w, id, "call-agent")
	require.Len(t, results, 2)
	for _, r := range results {
		require.Equal(t, r.Content, text[r.ToolCallID], "S1-28 each call has what its agent says")
	}
	require.NotEqual(t, results[0].Content, results[1].Content)
}

// TestUnknownSubAgent calls agents that do not exist.
func TestUnknownSubAgent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	for name, tc := range map[string]struct{ call, want string }{
		"S1-32 an agent that is not there":   {check.Asks("nobody", "hello"), `unknown agent: "nobody"`},
		"S1-32 no agent":                     {`use call-agent {"agent":"","message":"hello"}`, "agent is required"},
		"nothing to do":                      {`use call-agent {"agent":"helper","message":""}`, "message is required"},
		"arguments that do not fit":          {`use call-agent {"agent":"helper"}`, "message"},
		"more than can be asked":             {check.Asks("helper", strings.Repeat("a", 128<<10-1)), "message is 131073 bytes as JSON, must be at most 131072"},
		"more than can be asked, by escapes": {check.Asks("helper", strings.Repeat(`"`, 60_000)+strings.Repeat("a", 20_000)), "message is 140002 bytes as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			view := check.Watch(t, w, id, "")
			w.Post(id, tc.call+"\nthen\nso be it")
			frames := view.Until(t, check.IsFinal)
			result := check.ResultIn(t, w, id, "call-agent")
			require.True(t, result.IsError)
			require.Contains(t, result.Content, tc.want)
			shown := frames[slices.IndexFunc(frames, func(f check.Frame) bool { return f.Event.Type == event.EventToolResult })]
			require.True(t, shown.Event.IsError, "viewers are told")
			require.Zero(t, check.Count(frames, event.EventError), "the turn goes on")
			require.Empty(t, check.Subs(w, id), "no thread was begun for it")
		})
	}
}

// TestSubAgentBeginsAnew aborts the sub-agent's reply: the result has the final text, once.
func TestSubAgentBeginsAnew(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	w.Provider.Fail(llmtest.Fault{}, llmtest.Drop(3))
	out := w.Say(id, check.Asks("helper", "count 6")+"\nthen\nwell")
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "1 2 3 4 5 6", check.ResultIn(t, w, id, "call-agent").Content)
	require.Equal(t, 1, check.Count(closedStream(t, w, check.Sub(w, id, 1)), event.EventFinal))
}

// TestSubAgentFails: a provider's error in a sub-agent is the result of the call, and the turn
// continues.
func TestSubAgentFails(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	w.Provider.Fail(llmtest.Fault{}, llmtest.Status(http.StatusBadRequest, "").WithError("policy", "not with me"))
	out := w.Say(id, check.Asks("helper", "count 6")+"\nthen\nso be it")
	require.Equal(t, signals.TurnCompleted, out.Status)
	result := check.ResultIn(t, w, id, "call-agent")
	require.True(t, result.IsError)
	require.Contains(t, result.Content, "Error: the sub-agent failed: ")
	require.Contains(t, result.Content, "not with me")
	require.Contains(t, out.Message.Content, "so be it")
	logs := check.ToolLogs(w, id)
	require.Equal(t, "failed", string(check.Only(t, logs).Status))
	require.Equal(t, 1, check.Count(closedStream(t, w, check.Sub(w, id, 1)), event.EventError), "its own thread says it, too")
}
