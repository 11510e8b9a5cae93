package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTokensAreNotKept streams a reply and looks for its tokens everywhere.
func TestTokensAreNotKept(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	half := w.Provider.Block(5)
	e := w.Post(id, "think one two\ncount 8")
	<-half.Reached()

	t.Run("S2-10 who does not stream sees no token", func(t *testing.T) {
		status, page := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/events", nil)
		require.Equal(t, http.StatusOK, status)
		var types []string
		for _, e := range page["events"].([]any) {
			types = append(types, fmt.Sprint(e.(map[string]any)["type"]))
		}
		require.Equal(t, []string{"status", "message"}, types)
	})
	half.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
	frames := view.Until(t, check.IsFinal)
	t.Run("S2-10 who streams sees each", func(t *testing.T) {
		require.Equal(t, 2, check.Count(frames, event.EventThought))
		require.Equal(t, 8, check.Count(frames, event.EventStream))
	})
	t.Run("S2-01 messages and model calls are records, S2-02 tokens are not", func(t *testing.T) {
		require.Equal(t, []string{event.TypeStatus, event.TypeMessage, event.TypeLLMCall, event.TypePrompt, event.TypeMessage, event.TypeFinal, event.TypeTurnEnded}, w.Types(id))
		for _, r := range w.Records(id) {
			require.NotContains(t, string(r.Payload), "one two\"", "nor what was thought")
		}
	})
	t.Run("S2-02 queueing a token is refused", func(t *testing.T) {
		token := signals.Post{ID: "t1", Type: event.TypeToken, Payload: json.RawMessage(`{"token":"x"}`)}
		_, err := w.Threads.Post(w.Ctx(), id, token)
		require.ErrorContains(t, err, "tokens are never queued")
		before := len(w.Records(id))
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalPost, token))
		require.Eventually(t, func() bool { return len(w.Records(id)) > before }, testenv.Patience, testenv.Tick)
		require.Equal(t, event.TypeRejected, check.Only(t, w.Records(id)[before:]).Type)
		require.Empty(t, check.OfType(w, id, event.TypeToken))
	})
	t.Run("S2-01 S2-11 a tool call is a record too", func(t *testing.T) {
		w.Say(id, "use note {}")
		e, err := event.Unmarshal(check.Only(t, check.OfType(w, id, event.TypeToolCall)).Payload)
		require.NoError(t, err)
		require.Len(t, e.(event.ToolCallEvent).ToolCalls, 1)
	})
	t.Run("S2-10 a provider that does not stream gives the same message", func(t *testing.T) {
		w := harness.New(t, harness.Options{Provider: llmtest.Config{NoStream: true}})
		id := w.Open()
		view := check.Watch(t, w, id, "")
		w.Say(id, "count 8")
		frames := view.Until(t, check.IsFinal)
		require.LessOrEqual(t, check.Count(frames, event.EventStream), 1)
		require.Equal(t, "1 2 3 4 5 6 7 8", w.Messages(id)[1].Content)
	})
}

// TestSiblings runs a batch of calls, one of which is slow.
//
//ci:replayed
func TestSiblings(t *testing.T) {
	t.Parallel()
	slow := check.NewGate("slow")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{slow, check.Failing}})
	id := w.Open()
	e := w.Post(id, "use slow {}\nuse failing {\"how\":\"error\"}\nuse note {\"text\":\"x\"}\nuse nothing {}")
	<-slow.Reached
	check.AwaitMessages(w, id, 5)
	// When the thread waits only for the slow one, it has handled the others.
	require.Eventually(t, func() bool {
		state, err := w.Threads.State(w.Ctx(), id)
		return err == nil && state.Turn != nil && len(state.Turn.Runs) == 1 && len(state.Turn.Runs[0].Tools) == 1
	}, testenv.Patience, testenv.Tick)
	t.Run("S2-12 siblings do not wait for each other, nor fail together", func(t *testing.T) {
		var said []string
		for _, m := range check.Results(w, id) {
			said = append(said, fmt.Sprint(m.ToolName, " ", m.IsError))
		}
		require.ElementsMatch(t, []string{"failing true", "note false", "nothing true"}, said)
	})
	t.Run("S2-13 the model waits for the last of them", func(t *testing.T) {
		require.Equal(t, 1, w.Provider.Calls())
	})
	slow.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
	t.Run("S2-13 then it is called once, with all results", func(t *testing.T) {
		calls := check.ModelCalls(w)
		require.Len(t, calls, 2)
		check.RequireAnswered(t, calls[1].Messages)
		require.Len(t, w.Messages(id), 7)
		check.RequireSettled(t, w, id)
	})
}

func TestUntilNoMoreCalls(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	out := w.Say(id, strings.Repeat("use note {}\nuse note {}\nthen\n", 4)+"enough")
	t.Run("S2-14 S0-34 model and tools take turns until a reply asks for none", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, 5, w.Provider.Calls())
		require.Len(t, check.OfType(w, id, event.TypeToolCall), 4)
		require.Len(t, check.Results(w, id), 8)
		require.Contains(t, out.Message.Content, "enough")
		require.Empty(t, out.Message.ToolCalls)
		require.Len(t, check.OfType(w, id, event.TypeFinal), 1)
	})
}

// TestModelCallIsRetried breaks the connection to the provider during a reply.
func TestModelCallIsRetried(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	w.Provider.Fail(llmtest.Drop(4), llmtest.Status(503, "0"))
	out := w.Say(id, "count 10")
	frames := view.Until(t, check.IsFinal)
	const want = "1 2 3 4 5 6 7 8 9 10"

	t.Run("S2-51 there is one reply", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "user ann: count 10\nassistant assistant: "+want+"\n", w.Transcript(id))
		require.Equal(t, 3, w.Provider.Calls())
		call := harness.Payload[event.LLMCall](w, check.Only(t, check.OfType(w, id, event.TypeLLMCall)))
		require.Equal(t, 3, call.Attempt)
		require.Len(t, check.OfType(w, id, event.TypeFinal), 1)
	})
	t.Run("S2-51 S1-24 viewers discard what they saw of the first attempt", func(t *testing.T) {
		require.NotZero(t, check.Count(frames, event.EventReset))
		reply := w.Messages(id)[1].ID
		require.Equal(t, want, check.Streamed(frames, reply))
		attempts := map[int]string{}
		for _, f := range frames {
			if f.Event.Type == event.EventStream {
				attempts[f.Event.Attempt] += f.Event.Content
			}
		}
		require.Equal(t, map[int]string{1: "1 2 3 4", 3: want}, attempts)
		require.Equal(t, 2, check.Count(frames, event.EventMessage), "and the message supersedes it, once")
	})
	t.Run("S2-51 who comes later sees the reply only", func(t *testing.T) {
		later := check.Watch(t, w, id, "").Until(t, check.IsFinal)
		require.Equal(t, 2, check.Count(later, event.EventMessage))
		require.Zero(t, check.Count(later, event.EventStream)+check.Count(later, event.EventReset))
	})
}

// TestWorkerGoes stops the worker during a step and starts another.
func TestWorkerGoes(t *testing.T) {
	t.Parallel()
	slow, again := check.NewGate("slow"), check.NewGate("again", tool.Idempotent())
	w := harness.New(t, harness.Options{NoWorker: true, Tools: []tool.Tool{slow, again}})
	stop := w.StartWorker()
	id := w.Open()
	view := check.Watch(t, w, id, "")

	t.Run("S2-51 during a model call: one reply", func(t *testing.T) {
		half := w.Provider.Block(3)
		e := w.Post(id, "count 10")
		<-half.Reached()
		stop()
		stop = w.StartWorker()
		require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
		frames := view.Until(t, check.IsFinal)
		messages := w.Messages(id)
		require.Len(t, messages, 2)
		require.Equal(t, "1 2 3 4 5 6 7 8 9 10", messages[1].Content)
		require.Equal(t, messages[1].Content, check.Streamed(frames, messages[1].ID))
		require.Equal(t, 1, check.Count(frames, event.EventReset))
		half.Release()
	})
	t.Run("S2-51 during a tool: it does not run again", func(t *testing.T) {
		e := w.Post(id, "use slow {}")
		<-slow.Reached
		stop()
		stop = w.StartWorker()
		require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
		require.Empty(t, slow.Reached, "it ran once")
		m := w.Messages(id)
		require.Contains(t, m[len(m)-2].Content, "outcome is unknown")
		check.RequireSettled(t, w, id)
	})
	t.Run("S2-51 during an idempotent tool: it runs again, with one result", func(t *testing.T) {
		e := w.Post(id, "use again {}")
		<-again.Reached
		stop()
		stop = w.StartWorker()
		<-again.Reached
		again.Release()
		require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
		m := w.Messages(id)
		require.Equal(t, "open", m[len(m)-2].Content)
		check.RequireSettled(t, w, id)
	})
}

// TestTheSameEventTwice repeats posts that the thread already has.
func TestTheSameEventTwice(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	body := map[string]any{"id": "e1", "content": "use note {}", "sender": "ann"}
	for range 5 {
		status, out := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/messages?wait=true", body)
		require.Equal(t, http.StatusOK, status, out)
	}
	t.Run("S2-51 one effect", func(t *testing.T) {
		require.Len(t, w.Messages(id), 4)
		require.Equal(t, 2, w.Provider.Calls())
	})
}
