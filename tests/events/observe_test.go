package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// awaitPublished waits until a thread has handled an event of a type that it has published itself,
// and everything that follows from it is stored.
func awaitPublished(w *harness.Harness, thread, typ string) (event.EnvEvent, signals.TurnResult) {
	w.T.Helper()
	var e event.EnvEvent
	require.Eventually(w.T, func() bool {
		for _, got := range published(w, thread) {
			if got.Type == typ {
				e = got
				return true
			}
		}
		return false
	}, testenv.Patience, testenv.Tick)
	return e, awaitEvent(w, thread, e)
}

// TestObserve: agents see events that nobody waited for.
func TestObserve(t *testing.T) {
	t.Parallel()
	build := check.NewGate("build", tool.Background())
	broken := tool.MustFunc("broken", "Fails.", func(context.Context, tool.Call, struct{}) (string, error) {
		return "", errors.New("the disk is full")
	}, tool.Background())
	agents := []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"build", "broken", "note"}}}
	w := ruled(t, harness.Options{Agents: agents, Tools: []tool.Tool{build, broken}})

	t.Run("S3-01 S3-A2 a long tool returns at once, and its end reaches the agent", func(t *testing.T) {
		thread := w.Open()
		out := check.Say(w, thread, "use build {}")
		require.Equal(t, signals.TurnCompleted, out.Status)
		tasks, err := w.Threads.Tasks(w.Ctx(), thread)
		require.NoError(t, err)
		id := check.Only(t, tasks.Tasks).ID
		require.Contains(t, out.Message.Content, "Started in the background as task "+id)
		<-build.Reached
		require.Equal(t, "hello", check.Say(w, thread, "hello").Message.Content, "they go on talking while it runs")
		require.Empty(t, published(w, thread))
		before := w.Messages(thread)

		build.Release()
		e, out := awaitPublished(w, thread, event.TypeBackgroundTaskCompleted)
		require.Equal(t, "Process event: background_task.completed", out.Message.Content)
		require.Equal(t, event.SourceTool, e.Metadata.Source)
		require.JSONEq(t, `{"taskId":"`+id+`","title":"build","tool":"build","result":"open"}`, string(e.Payload))
		after := w.Messages(thread)
		require.Len(t, after, len(before)+4, "the event as three messages, and what the agent says to it")
		for _, m := range after[len(before):] {
			require.NotEqual(t, "ann", m.SenderID, "nobody has asked")
		}
		check.RequireSettled(t, w, thread)
	})
	for what, tt := range map[string]struct {
		typ     string
		happens func(t *testing.T, thread string)
	}{
		"asynchronous completion": {event.TypeBackgroundTaskCompleted, func(_ *testing.T, thread string) {
			build.Release()
			check.Say(w, thread, "use build {}")
		}},
		"execution failure": {event.TypeBackgroundTaskFailed, func(_ *testing.T, thread string) { check.Say(w, thread, "use broken {}") }},
		"user feedback": {"feedback.given", func(_ *testing.T, thread string) {
			publish(w, thread, check.Happened("feedback.given", map[string]any{"stars": 2}, func(e *event.EnvEvent) { e.Metadata.Source = event.SourceUser }))
		}},
		"environment change": {"file.changed", func(t *testing.T, thread string) {
			status, _ := check.Request(t, w, http.MethodPost, "/v1/threads/"+thread+"/events", map[string]any{"type": "file.changed", "payload": map[string]any{"path": "a.go"}})
			require.Equal(t, http.StatusAccepted, status)
		}},
	} {
		t.Run("S3-02 S3-55 "+what, func(t *testing.T) {
			thread := w.Open()
			tt.happens(t, thread)
			e, out := awaitPublished(w, thread, tt.typ)
			require.Equal(t, signals.TurnCompleted, out.Status)
			require.Equal(t, "Process event: "+tt.typ, out.Message.Content)
			told := harness.Payload[event.Message](w, check.RecordOf(w, thread, "call_"+e.ID+".result")).Content
			require.Contains(t, told, `"payload":`+string(e.Payload))
		})
	}
}

// TestToolEvents: the ends of tools are events.
func TestToolEvents(t *testing.T) {
	t.Parallel()
	l := newLedger()
	executed, broken := l.rule("executed", event.TypeToolExecuted), l.rule("broken", event.TypeToolError)
	broken.Agent = &rule.Agent{Prompt: "Find another way."}
	t.Run("S3-56 S3-57 viewers of environment events see them", func(t *testing.T) {
		toolEventsShown(t, ruled(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}}))
	})
	w := ruled(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}}, executed, broken)
	t.Run("S3-57 a rule of one's own hears of success", func(t *testing.T) {
		thread := w.Open()
		check.Say(w, thread, "use note {}")
		e, _ := awaitPublished(w, thread, event.TypeToolExecuted)
		require.Equal(t, []string{e.ID}, l.handled(thread))
		require.Equal(t, event.EnvMetadata{TriggerSessionID: thread, TriggerAgentName: "assistant", Source: event.SourceTool}, e.Metadata)
		require.JSONEq(t, `{"toolCallId":"`+w.Messages(thread)[1].ToolCalls[0].ID+`","toolName":"note","agent":"assistant","isError":false}`, string(e.Payload))
	})
	t.Run("S3-56 a rule of one's own hears of failure, and its agent", func(t *testing.T) {
		thread := w.Open()
		require.Regexp(t, "^failing (returned|failed): ", check.Say(w, thread, "use failing {\"how\":\"error\"}").Message.Content, "whose turn goes on")
		e, out := awaitPublished(w, thread, event.TypeToolError)
		require.Equal(t, []string{e.ID}, l.handled(thread))
		require.Equal(t, "Process event: tool.error", out.Message.Content)
		calls := check.ModelCalls(w)
		require.Equal(t, "You help.\n\nFind another way.", calls[len(calls)-1].Instructions())
	})
	t.Run("S3-56 the agent falls back to another tool", func(t *testing.T) {
		thread := w.Open()
		out := check.Say(w, thread, "use failing {\"how\":\"panic\"}\nthen\nuse note {\"text\":\"instead\"}\nthen\nI have noted it instead.")
		require.Equal(t, "note returned: noted: instead\nI have noted it instead.", out.Message.Content)
		fence(w, thread)
		var types []string
		for _, e := range published(w, thread) {
			types = append(types, e.Type)
		}
		require.Equal(t, []string{event.TypeToolError, event.TypeToolExecuted, "fence"}, types)
	})
	t.Run("X3 what a handler of such events does wakes nobody", func(t *testing.T) {
		thread := w.Open()
		check.Handle(w, thread, asking(event.TypeToolError, "use failing {\"how\":\"error\"}"))
		fence(w, thread)
		require.Len(t, published(w, thread), 2)
	})
}

func toolEventsShown(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	env := watchEnv(t, w, thread)
	check.Say(w, thread, "use note {}\nuse failing {\"how\":\"error\"}")
	require.Equal(t, []string{"session.created", "stream.start", "stream.tool_call", "stream.tool_call"}, env.next(t, 4))
	require.ElementsMatch(t, []string{event.TypeToolExecuted, event.TypeToolError}, env.next(t, 2))
	require.Equal(t, "stream.start", env.next(t, 1)[0])
	_, last := eventsPage(t, w, thread)
	outputs := map[string]string{event.TypeToolExecuted: "noted: ", event.TypeToolError: "unexpected EOF"}
	for typ, output := range outputs {
		var e event.EnvEvent
		require.NoError(t, json.Unmarshal(last[typ], &e))
		require.Equal(t, event.SourceTool, e.Metadata.Source)
		var p struct {
			ToolName, Output string
			IsError          bool
		}
		require.NoError(t, json.Unmarshal(e.Payload, &p))
		require.Contains(t, p.Output, output)
		require.Equal(t, typ == event.TypeToolError, p.IsError)
	}
	require.Empty(t, published(w, thread), "no rule asks for them")
}
