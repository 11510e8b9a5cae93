package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// subRef is the thread of a sub-agent that works for the thread of ref.
var subRef = step.Ref{Namespace: "ns", ThreadID: "t1.s1"}

func parent() step.Parent {
	return step.Parent{
		ThreadID: "t1", Agent: "assistant", ToolName: "call-agent", ToolCallID: "c1", MessageID: "e1.0.1", TraceID: "e1", EventID: "e1", Depth: 1,
	}
}

// spoke stores messages in the thread of the sub-agent, by default of agents.
func (w *fixture) spoke(messages ...event.Message) {
	w.t.Helper()
	var records []event.Record
	for i, m := range messages {
		if m.ID == "" {
			m.ID = fmt.Sprintf("m%d", i)
		}
		if m.SenderType == "" {
			m.SenderType, m.AgentID = event.CreatedByAgent, "bob"
		}
		records = append(records, event.NewRecord(m.ID, event.TypeMessage, "e1", "", time.Now(), m))
	}
	_, err := w.store.Append(context.Background(), subRef, store.Batch{Records: records})
	require.NoError(w.t, err)
}

func endStep(status signals.TurnStatus) step.End {
	return step.End{Thread: subRef, Parent: parent(), EventID: "first", Status: status}
}

func (w *fixture) endDelegate(in step.End) (step.EndReply, error) {
	w.t.Helper()
	var out step.EndReply
	v, err := w.env.ExecuteActivity(step.ActivityEndDelegate, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

func TestEndDelegate(t *testing.T) {
	w := newFixture(t, nil)
	w.spoke(
		event.Message{SenderType: event.CreatedByUser, SenderID: "assistant", Content: "do it"},
		event.Message{Content: "Let me see. "},
		event.Message{SenderType: event.CreatedByTool, Content: "noted", ToolCallID: "x1"},
		event.Message{Content: "Done."},
	)
	in := endStep(signals.TurnCompleted)
	in.Flush.Records = []event.Record{event.NewRecord("t1.s1.closed", event.TypeStatus, "", "", time.Now(), event.StatusChange{Status: event.StatusClosed})}
	for range 2 {
		out, err := w.endDelegate(in)
		require.NoError(t, err)
		require.Equal(t, step.EndReply{Answer: "Let me see. Done."}, out, "history has the answer")
	}
	require.Equal(t, []string{"c1.result"}, w.ids(), "S2-51 once, however often it is tried")
	require.Equal(t, event.Message{
		ID: "c1.result", ThreadID: "t1", SenderID: "call-agent", SenderType: event.CreatedByTool, Role: event.RoleTool, Content: "Let me see. Done.",
		ToolCallID: "c1", ToolName: "call-agent", AgentID: "assistant", ReplyToMessageID: "e1.0.1", Metadata: map[string]any{"threadId": "t1.s1"},
	}, stored[event.Message](w, "c1.result"), "S1-30 all that it has said, and nothing else")
	require.Equal(t, "e1", w.records()[0].ParentEventID)
	require.Equal(t, "e1", w.records()[0].TraceID, "S1-38")
	log := w.toolLog("c1")
	require.Equal(t, store.ToolSucceeded, log.Status)
	require.Equal(t, "assistant", log.Agent)
	require.Equal(t, `"Let me see. Done."`, string(log.Output))
	below, err := w.store.Records(context.Background(), subRef, store.Query{Types: []string{event.TypeStatus}})
	require.NoError(t, err)
	require.Len(t, below, 1, "what was handed over is stored where it belongs")
}

func TestWhatASubAgentHasSaid(t *testing.T) {
	w := newFixture(t, nil)
	w.spoke(event.Message{Content: "Let me see. "}, event.Message{ID: "hidden", Content: "a secret", Held: true}, event.Message{ID: "changed", Content: "rude"})
	kept := event.Message{ID: "changed", SenderType: event.CreatedByAgent, AgentID: "bob", Content: "polite"}
	_, err := w.store.Append(context.Background(), subRef, store.Batch{Records: []event.Record{
		decided("hidden", event.Interception{Outcome: event.OutcomeResponded}),
		decided("changed", event.Interception{Outcome: event.OutcomeReplaced, Message: &kept}),
		event.NewRecord("other", event.TypeMessage, "another", "", time.Now(), event.Message{ID: "other", SenderType: event.CreatedByAgent, Content: "to somebody else"}),
	}})
	require.NoError(t, err)
	_, err = w.endDelegate(endStep(signals.TurnCompleted))
	require.NoError(t, err)
	require.Equal(t, "Let me see. polite", stored[event.Message](w, "c1.result").Content, "what hooks have let out, in this turn")
}

// TestLongTalk: a thread may have more messages than the store returns at once.
func TestLongTalk(t *testing.T) {
	w := newFixture(t, nil)
	messages := make([]event.Message, store.MaxLimit+5)
	for i := range messages {
		messages[i].Content = "x"
	}
	w.spoke(messages...)
	_, err := w.endDelegate(endStep(signals.TurnCompleted))
	require.NoError(t, err)
	require.Len(t, stored[event.Message](w, "c1.result").Content, len(messages))
}

func TestSubAgentThatDidNotAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status signals.TurnStatus
		why    string
		said   string
		want   string
	}{
		{"it failed", signals.TurnFailed, "the model is away", "", "Error: the sub-agent failed: the model is away"},
		{"it failed after some words", signals.TurnFailed, "the model is away", "Let me see.", "Error: the sub-agent failed: the model is away\nLet me see."},
		{"it was interrupted", signals.TurnInterrupted, "", "", "Error: the sub-agent was interrupted."},
		{"nobody was addressed", signals.TurnUnanswered, "", "", "Error: nobody answered."},
		{"its turn never came", signals.TurnExpired, "it waited too long", "", "Error: the sub-agent failed: it waited too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t, nil)
			if tc.said != "" {
				w.spoke(event.Message{Content: tc.said})
			}
			in := endStep(tc.status)
			in.Error = tc.why
			out, err := w.endDelegate(in)
			require.NoError(t, err)
			require.True(t, out.Failed)
			m := stored[event.Message](w, "c1.result")
			require.Equal(t, tc.want, m.Content)
			require.True(t, m.IsError, "S1-25")
			require.Equal(t, store.ToolFailed, w.toolLog("c1").Status)

			in.Parent.Background = &event.Task{ID: "t1~t1"}
			out, err = w.endDelegate(in)
			require.NoError(t, err)
			require.Equal(t, step.EndReply{Error: tc.want}, out)
		})
	}
}

// TestEndOfABackgroundSubAgent: its workflow notifies the parent thread.
func TestEndOfABackgroundSubAgent(t *testing.T) {
	for said, want := range map[string]string{"All done.": `"All done."`, `{"ok":true}`: `{"ok":true}`, "": `""`} {
		w := newFixture(t, nil)
		if said != "" {
			w.spoke(event.Message{Content: said})
		}
		in := endStep(signals.TurnCompleted)
		in.Parent.Background = &event.Task{ID: "t1~t1"}
		out, err := w.endDelegate(in)
		require.NoError(t, err)
		require.Equal(t, want, string(out.Result))
		require.Empty(t, w.ids(), "its call has had its result")
	}
	w := newFixture(t, nil)
	w.spoke(event.Message{Content: strings.Repeat("x", signals.MaxPayload)})
	in := endStep(signals.TurnCompleted)
	in.Parent.Background = &event.Task{ID: "t1~t1"}
	out, err := w.endDelegate(in)
	require.NoError(t, err)
	require.Less(t, len(out.Result), signals.MaxPayload/2)
	require.Contains(t, string(out.Result), `"truncated":true`)
}

// TestAnswerThatComesTooLate: the call was interrupted and has a result.
func TestAnswerThatComesTooLate(t *testing.T) {
	w := newFixture(t, nil)
	w.append(store.Batch{Records: []event.Record{message(event.Message{ID: "c1.result", SenderType: event.CreatedByTool, ToolCallID: "c1", Content: step.InterruptedText})}})
	w.spoke(event.Message{Content: "Done."})
	_, err := w.endDelegate(endStep(signals.TurnCompleted))
	require.NoError(t, err)
	require.Equal(t, step.InterruptedText, stored[event.Message](w, "c1.result").Content)
}

func TestEndDelegateWhenTheStoreIsAway(t *testing.T) {
	w := newFixture(t, nil)
	require.NoError(t, w.store.Close())
	_, err := w.endDelegate(endStep(signals.TurnCompleted))
	app := appError(t, err)
	require.Equal(t, step.ErrTypeRetry, app.Type())
	require.False(t, app.NonRetryable())
}

// TestViewersAboveSeeWhatASubAgentSays: viewers of the parent thread see each piece as progress of
// the call.
func TestViewersAboveSeeWhatASubAgentSays(t *testing.T) {
	w := newFixture(t, nil)
	w.model.answer = func(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		onDelta(llm.Delta{Thought: "hm"})
		onDelta(llm.Delta{Text: "Let me"})
		onDelta(llm.Delta{Text: " see."})
		return llm.Response{Content: "Let me see."}, nil
	}
	w.append(store.Batch{Records: []event.Record{message(event.Message{ID: "e1.0.1", SenderType: event.CreatedByAgent, ToolCalls: []event.ToolCall{call("c1", "call-agent", "{}")}})}})
	in := modelStep()
	in.Thread, in.MessageID = subRef, "first.0.1"
	up := parent()
	in.Parent = &up
	_, err := w.callModel(in)
	require.NoError(t, err)
	var shown []string
	for _, e := range w.live() {
		if e.Event == nil {
			continue
		}
		require.Equal(t, event.EventToolProgress, e.Event.Type, "S1-29 what it thinks is not shown")
		require.Equal(t, "call-agent", e.Event.ToolName)
		require.Equal(t, "c1", e.Event.ToolCallID)
		require.Equal(t, "assistant", e.Event.Agent)
		require.Equal(t, "e1", e.TraceID)
		require.EqualValues(t, 1, e.After, "it comes behind the call")
		var text string
		require.NoError(t, json.Unmarshal(e.Event.Data, &text))
		shown = append(shown, text)
	}
	require.Equal(t, []string{"Let me", " see."}, shown, "S1-28")
}
