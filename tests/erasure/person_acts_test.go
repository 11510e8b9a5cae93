package erasure

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// inquirer is a tool that asks a person, and repeats the answer.
type inquirer struct{}

func (inquirer) Definition() tool.Definition {
	return tool.Definition{Name: "inquire", Description: "Asks a person.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (inquirer) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	if call.Input != nil {
		return tool.Result{Output: "they said " + string(call.Input.Answers["q"].Content)}, nil
	}
	return tool.Result{}, &tool.InputRequired{Questions: []event.InputQuestion{{
		ID: "q", Kind: event.InputForm, Message: "Who?", Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
	}}}
}

// TestErasedPersonActs: what a person said in the turns of others is erased with what came of it: an answer, the reason of a denial, a
// message that joined a turn. What came before in these turns stays.
func TestErasedPersonActs(t *testing.T) {
	t.Parallel()
	g := check.NewGate("held")
	w := harness.New(t, harness.Options{Agents: check.Team("inquire", "held"), Tools: []tool.Tool{inquirer{}, g}})
	w.Rewritten = true
	id := w.Open()
	post := func(p signals.Post) {
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
	}
	shows := func(text string, n int) {
		require.Eventually(t, func() bool { return strings.Count(w.Transcript(id), text) >= n }, testenv.Patience, testenv.Tick, text)
	}
	post(signals.UserMessage(id, "bob", "bobs question\nuse inquire {}"))
	var asked event.InputRequest
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), id)
		if err == nil && len(out.Inputs) == 1 {
			asked = out.Inputs[0]
		}
		return asked.ToolCallID != ""
	}, testenv.Patience, testenv.Tick)
	_, err := w.Threads.AnswerInput(w.Ctx(), id, signals.InputAnswers{
		ToolCallID: asked.ToolCallID, Round: asked.Round, By: "annabelle",
		Answers: map[string]event.InputAnswer{"q": {Action: event.InputAccept, Content: json.RawMessage(`{"text":"zephyranswer"}`)}},
	})
	require.NoError(t, err)
	shows("zephyranswer", 2)

	post(signals.UserMessage(id, "bob", `use shell_cmd {"command":"echo bobs command"}`))
	call := w.AwaitApproval(id, 1)[0]
	_, err = w.Threads.Decide(w.Ctx(), id, signals.Decide{
		ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, Scope: event.ScopeOnce, By: "annabelle", Reason: "zephyrreason",
	})
	require.NoError(t, err)
	shows("zephyrreason", 2)

	post(signals.UserMessage(id, "bob", "use held {}"))
	check.Arrives(t, g.Reached, "the tool")
	steers := signals.UserMessage(id, "annabelle", `use note {"text":"zephyrsteered"}`)
	steers.OnBusy = event.OnBusySteer
	post(steers)
	g.Release()
	shows("zephyrsteered", 3)
	say(w, id, "bob", "bobs end")

	receipt, err := w.Runtime.ErasePerson(w.Ctx(), "Annabelle", nil, "annabelle")
	require.NoError(t, err)
	require.Equal(t, []string{id}, receipt.Forgot)
	require.Equal(t, receipt.Pseudonym, receipt.By, "who asks for it may be the person")
	for _, r := range w.Records(id) {
		require.NotContains(t, string(r.Payload), "zephyr", r.Type)
		require.NotContains(t, string(r.Payload), "annabelle", r.Type)
	}
	logs, err := w.Store.ToolLogs(w.Ctx(), w.Key(id))
	require.NoError(t, err)
	require.Len(t, logs, 3, "a denied call has none")
	for _, l := range logs {
		require.NotContains(t, string(l.Input)+string(l.Output), "zephyr", l.ToolName)
	}
	said := w.Transcript(id)
	for _, kept := range []string{"bobs question", "echo bobs command", "bobs end", "use held {}"} {
		require.Contains(t, said, kept)
	}
	require.Equal(t, signals.TurnCompleted, say(w, id, "bob", "still there?").Status)
}

// TestErasedPersonKeepsOthers: what others posted behind the person's turn, what a program posted, and the work of a sub-agent for others is
// not lost, even if the client has given all of it one trace.
func TestErasedPersonKeepsOthers(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	w.Rewritten = true
	queued, programs, traced := w.Open(), w.Open(), w.Open()
	_, err := w.Threads.Post(w.Ctx(), queued, signals.UserMessage(queued, "annabelle", `use shell_cmd {"command":"echo anns"}`))
	require.NoError(t, err)
	w.AwaitApproval(queued, 1)
	behind := signals.UserMessage(queued, "bob", "bobs queued message")
	behind.OnWaiting = event.OnWaitingHold
	_, err = w.Threads.Post(w.Ctx(), queued, behind)
	require.NoError(t, err)

	say(w, programs, "annabelle", "zephyrhello")
	const payload = `{"Belle Zuckerkorn":1,"person":"Belle Zuckerkorn","user":"belle zuckerkorn","source":"Belle Zuckerkorn called","text":"of Belle Zuckerkorn","kept":"bobs build"}`
	_, err = w.Threads.Publish(w.Ctx(), programs, event.EnvEvent{Type: "build.done", Payload: json.RawMessage(payload)}, threadclient.PublishOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(check.SaidIn(w, programs)) >= 3 }, testenv.Patience, testenv.Tick)

	for who, text := range map[string]string{"annabelle": "zephyrtraced", "bob": `use call_agent {"agent":"HELPER","message":"bobs work","title":"bobs title"}`} {
		p := signals.UserMessage(traced, who, text)
		p.TraceID = "session-1"
		_, err := w.Threads.Turn(w.Ctx(), traced, p)
		require.NoError(t, err)
	}
	sub := check.Sub(w, traced, 1)

	receipt, err := w.Runtime.ErasePerson(w.Ctx(), "annabelle", []string{"Belle Zuckerkorn"}, "carol")
	require.NoError(t, err)
	require.Empty(t, receipt.Erased)
	require.ElementsMatch(t, []string{queued, programs, traced}, receipt.Forgot)
	require.Eventually(t, func() bool { return strings.Contains(w.Transcript(queued), "assistant: bobs queued message") }, testenv.Patience, testenv.Tick)
	require.Contains(t, w.Transcript(sub), "bobs work")
	row, err := w.Store.Thread(w.Ctx(), w.Key(sub))
	require.NoError(t, err)
	require.Equal(t, "bobs title", row.Title)
	kept := false
	for _, id := range []string{queued, programs, traced, sub} {
		for _, r := range w.Records(id) {
			text := string(r.Payload)
			for _, word := range []string{"annabelle", "zephyr", "Zuckerkorn", "zuckerkorn", "echo anns"} {
				require.NotContains(t, text, word, r.Type)
			}
			kept = kept || strings.Contains(text, "bobs build")
		}
	}
	require.True(t, kept, "what has no term stays")
}
