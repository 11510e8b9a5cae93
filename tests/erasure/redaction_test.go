package erasure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestEveryDoor sends the number of a card through each door, and lets the model, a tool, a hook and a rule write it. Then it looks for
// the number wherever something is kept.
func TestEveryDoor(t *testing.T) {
	w := newWorld(t, harness.Options{})
	const thread = "doors"
	w.call("POST", "/v1/threads", `{"id":"`+thread+`","metadata":{"card":`+card+`},"message":{"content":"first `+card+`","sender":"ann"}}`)
	viewed := w.view(thread)

	text := "I pay with " + card + ", " + canary
	w.call("POST", "/v1/threads/"+thread+"/messages?wait=true", `{"content":"`+text+`","sender":"ann"}`)
	w.call("PATCH", "/v1/threads/"+thread, `{"title":"Now `+card+`","metadata":{"n":`+card+`}}`)
	w.call("POST", "/v1/chat", `{"id":"`+thread+`","sender":"ann","messages":[{"id":"chat1","role":"user","parts":[{"type":"text","text":"`+text+`"}]}]}`)
	w.call("POST", "/v1/webhooks/shop", `{"thread":"`+thread+`","card":`+card+`,"note":"`+text+`"}`)
	w.call("POST", "/v1/threads/"+thread+"/events", `{"type":"paid","timestamp":1,"metadata":{"note":"`+text+`"},"payload":{"card":"`+card+`"}}`)
	w.call("POST", "/v1/threads/"+thread+"/queue", `{"type":"custom","payload":{"card":"`+card+`"},"tools":["`+card+`"]}`)
	w.idle(thread)

	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	require.NoError(t, os.WriteFile(file, []byte("redact: {cards: true}"), 0o600))
	printed, code, problem := w.Starter("send", thread, "typed "+cardSpaced, "--wait", "--redact", file)
	require.Zero(t, code, problem)
	assert.Contains(t, printed, "typed [card]")

	turn, err := w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: thread, SenderID: "ann", Content: "sent " + card}, threadmill.SendOptions{Ack: threadmill.AckOnComplete})
	require.NoError(t, err)
	assert.Equal(t, thread, turn.ThreadID())
	for _, said := range []string{"leak", "pay", "fail", "invent", "respond", "replace", "produce", "break"} {
		_, err := w.Threads.Post(w.Ctx(), thread, signals.UserMessage(thread, "ann", said+" it, "+cardSpaced))
		require.NoError(t, err)
		if said == "pay" {
			request := w.AwaitApproval(thread, 1)[0]
			assert.JSONEq(t, `{"card":"[card]"}`, request.Arguments)
			w.call("POST", "/v1/threads/"+thread+"/approvals/"+request.ToolCallID, `{"decision":"approve","by":"ann","args":{"card":"the other, `+card+`"}}`)
		}
		w.idle(thread)
	}

	_, err = w.Threads.Post(w.Ctx(), thread, signals.UserMessage(thread, "ann", "ask me"))
	require.NoError(t, err)
	var asked event.InputRequest
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), thread)
		if err == nil && len(out.Inputs) == 1 {
			asked = out.Inputs[0]
		}
		return asked.ToolCallID != ""
	}, testenv.Patience, testenv.Tick)
	assert.Equal(t, "Is it [card]?", asked.Questions[0].Message)
	_, err = w.Threads.AnswerInput(w.Ctx(), thread, signals.InputAnswers{ToolCallID: asked.ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{
		"q": {Action: event.InputAccept, Content: json.RawMessage(`{"card":` + card + `}`)},
	}})
	require.NoError(t, err)
	w.idle(thread)

	result := w.Say(thread, "later, please")
	require.Equal(t, signals.TurnCompleted, result.Status)
	tasks, err := w.Threads.Tasks(w.Ctx(), thread)
	require.NoError(t, err)
	require.Len(t, tasks.Tasks, 1)
	w.call("POST", "/v1/tasks/"+tasks.Tasks[0].ID+"/progress", `{"data":{"card":"`+card+`"}}`)
	w.call("POST", "/v1/tasks/"+tasks.Tasks[0].ID+"/complete", `{"result":{"card":"`+card+`"},"by":"ann"}`)
	_, err = w.Threads.CreateSchedule(w.Ctx(), signals.Schedule{
		ID: "daily", ThreadID: thread, Every: signals.Duration(24 * 3600e9), Message: &event.NewMessage{Content: "scheduled " + card}, Note: "for " + card,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Threads.DeleteSchedule(w.Ctx(), "daily")) })
	require.NoError(t, w.Threads.TriggerSchedule(w.Ctx(), "daily"))
	require.Eventually(t, func() bool { return strings.Contains(w.Transcript(thread), "scheduled [card]") }, testenv.Patience, testenv.Tick)
	require.NoError(t, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "because of " + card}))
	_, err = w.Runtime.Documents().Add(w.Ctx(), threadmill.NewDocument{Source: "prices.md", Title: "Prices " + card, Content: []byte("# Prices\n\nPay with " + card + ".")})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Contains(w.call("GET", "/v1/knowledge/search?q=pay", ""), "Pay with [card].")
	}, testenv.Patience, testenv.Tick)
	w.idle(thread)

	schedule, err := w.Threads.Schedule(w.Ctx(), "daily")
	require.NoError(t, err)
	rawSchedule, err := json.Marshal(schedule)
	require.NoError(t, err)
	queue, err := w.Threads.Queue(w.Ctx(), thread)
	require.NoError(t, err)
	rawQueue, err := json.Marshal(queue)
	require.NoError(t, err)
	state := w.call("GET", "/v1/threads/"+thread, "")
	w.close(thread, "because of "+card)
	require.Eventually(t, func() bool { return strings.Contains(viewed.String(), `"status":"closed"`) }, testenv.Patience, testenv.Tick, "the stream has everything")

	for name, kept := range map[string]string{
		"Temporal": w.histories(), "the store": w.files(), "the stream": viewed.String(), "what models got": w.asked(),
	} {
		assert.Contains(t, kept, canary, "%s has nothing of the thread", name)
		lacks(t, kept, card, name)
		lacks(t, kept, cardSpaced, name)
	}
	for name, kept := range map[string]string{"the log": w.log.String(), "the schedule": string(rawSchedule), "the queue": string(rawQueue), "the state": state} {
		assert.Contains(t, kept, "[card]", name)
		lacks(t, kept, card, name)
	}
	transcript := w.Transcript(thread)
	for _, want := range []string{
		"ann: I pay with [card], " + canary, "clerk: Your card is [card], is it not?", `[pay {"card":"[card]"}]`, `{"charged":"[card]","canary":"` + canary + `"}`,
		"Error: declined: [card]", `unknown tool "[card]"`, "hooks know [card]", `the answer is {"card":"[card]"}`, "produced [card]",
	} {
		assert.Contains(t, transcript, want)
	}
}

// lacks fails if a text has a number, and shows where.
func lacks(t *testing.T, text, number, where string) {
	t.Helper()
	if at := strings.Index(text, number); at >= 0 {
		assert.Fail(t, where+" has "+number, "%q", text[max(0, at-300):min(len(text), at+100)])
	}
}

// asked returns the requests to the model.
func (w *world) asked() string {
	raw, err := json.Marshal(w.Provider.Requests())
	require.NoError(w.T, err)
	return string(raw)
}

// TestPlainSignals sends the number by signals of a plain Temporal client, of which Temporal keeps the payloads.
//
//ci:replayed
func TestPlainSignals(t *testing.T) {
	w := newWorld(t, harness.Options{})
	plain, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	const thread = "plain"
	first := signals.UserMessage(thread, "ann", "opened with "+bySignal+", "+canary)
	require.NoError(t, plain.Open(w.Ctx(), thread, signals.Start{Title: "Of " + bySignal}, &first))
	viewed := w.view(thread)
	for range 3 {
		_, err := plain.PostSignal(w.Ctx(), thread, signals.UserMessage(thread, "ann", "signalled "+bySignal))
		require.NoError(t, err)
		_, err = plain.PostSignal(w.Ctx(), thread, signals.UserMessage(thread, "ann", "nothing to redact"))
		require.NoError(t, err)
	}
	_, err = plain.Turn(w.Ctx(), thread, signals.UserMessage(thread, "ann", "by update "+bySignal))
	require.NoError(t, err)
	require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalPost, map[string]any{"no": "post with " + bySignal}))
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(w.Types(thread), " "), event.TypeRejected) }, testenv.Patience, testenv.Tick)
	w.idle(thread)
	require.Eventually(t, func() bool { return strings.Contains(viewed.String(), "by update [card]") }, testenv.Patience, testenv.Tick)
	w.close(thread, "")

	for name, kept := range map[string]string{"the store": w.files(), "the stream": viewed.String(), "what models got": w.asked()} {
		assert.Contains(t, kept, canary, "%s has nothing of the thread", name)
		lacks(t, kept, bySignal, name)
	}
	lacks(t, w.log.String(), bySignal, "the log")
	// Temporal has it where it was sent to, and nowhere else.
	for line := range strings.Lines(w.histories()) {
		if strings.Contains(line, bySignal) {
			assert.Regexp(t, "EVENT_TYPE_WORKFLOW_EXECUTION_(STARTED|SIGNALED|UPDATE_ACCEPTED)", line)
		}
	}
	replay(t, w, thread)
}

// TestLargeSignal: a signal whose redacted copy Temporal would not keep is rejected, and the thread goes on.
func TestLargeSignal(t *testing.T) {
	w := newWorld(t, harness.Options{})
	thread := w.Open()
	large := map[string]any{"no": card + strings.Repeat(`"`, 800_000)}
	require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalPost, large))
	require.Equal(t, signals.TurnCompleted, w.Say(thread, "hello").Status)
	require.Contains(t, w.Types(thread), event.TypeRejected)
	lacks(t, w.files(), card, "the store")
}
