package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// speaker is a response to an event, and its sender.
type speaker struct {
	name, says, on string
	response       hook.Response
	want           string
	by             event.CreatedBy
}

var speakers = []speaker{
	{name: "to a message: who would have answered", says: "hello", on: "message user", want: "assistant", by: event.CreatedByAgent},
	{name: "to a message for bob: bob", says: "@bob hello", on: "message user", want: "bob", by: event.CreatedByAgent},
	{name: "to what bob says: bob", says: "@bob hello", on: "message agent", want: "bob", by: event.CreatedByAgent},
	{name: "to bob's calls: bob", says: "@bob use note {}", on: "tool_call", want: "bob", by: event.CreatedByAgent},
	{name: "to a result of bob's: bob", says: "@bob use note {}", on: "message tool", want: "bob", by: event.CreatedByAgent},
	{name: "to bob's model call: bob", says: "@bob hello", on: "llm_call", want: "bob", by: event.CreatedByAgent},
	{name: "to an event of no agent: the hook", on: "clock.struck", want: "first", by: event.CreatedByAgent},
	{name: "a type only", says: "@bob hello", on: "message user", response: hook.Response{SenderType: event.CreatedBySystem}, want: "bob", by: event.CreatedBySystem},
	{name: "a name only", says: "@bob hello", on: "message user", response: hook.Response{SenderID: "carl"}, want: "carl", by: event.CreatedByAgent},
	{
		name: "both", says: "@bob use note {}", on: "tool_call", response: hook.Response{SenderID: "cron", SenderType: event.CreatedByTool},
		want: "cron", by: event.CreatedByTool,
	},
}

// TestRespond responds to events in place of their default processing.
//
//ci:replayed only
func TestRespond(t *testing.T) {
	t.Parallel()
	d, spied, slow := check.NewDesk(), check.NewSpy("spied"), check.NewGate("slow")
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied, slow}, Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note", "spied", "slow"}},
		{Name: "bob", Model: "openai/stand-in", Tools: []string{"note"}},
	}}, []hook.Hook{d.Hook("first"), d.Inline("between"), d.Hook("second"), d.Hook("models", event.TypeLLMCall)})
	inline := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.Inline("inline")})

	for name, w := range map[string]*harness.Harness{"first": w, "inline": inline} {
		t.Run("S0-15 S0-25 S0-T2 to a person's message, by "+name, func(t *testing.T) { respondToMessage(t, d, w, name) })
		t.Run("S0-16 S0-25 S0-42 S0-T3 to a tool call, by "+name, func(t *testing.T) { respondToCalls(t, d, w, spied, name) })
		t.Run("S0-22 S0-T4 to a tool's result, by "+name, func(t *testing.T) { respondToResult(t, d, w, spied, name) })
		t.Run("S0-20 several times, by "+name, func(t *testing.T) { respondOften(t, d, w, name) })
		t.Run("for ever, by "+name, func(t *testing.T) { respondForEver(t, d, w, name) })
	}
	t.Run("S0-17 and a change of the event does not count", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.Set(id, "first", check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
			m.Message.Content = "something else"
			return hook.Respond(hook.Response{Content: "no comment"})
		}))
		check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.Equal(t, calls, w.Provider.Calls())
		require.Equal(t, []string{"ann: hello", "assistant: no comment"}, check.SaidIn(w, id))
		decided := check.DecisionOn(w, id, "e1")
		require.Equal(t, event.OutcomeResponded, decided.Outcome)
		require.Nil(t, decided.Message)
		require.NotContains(t, eventIDs(d.Asked(id, "second")), "e1", "nor are the hooks behind it asked")
		require.Equal(t, "hello", check.MessagesPage(t, w, id)[0]["content"])
		d.Set(id, "first", nil)
		requireBlocked(w, id, []string{"hello", "something else"}, "no comment")
	})
	for _, tt := range speakers {
		t.Run("S0-18 S0-07 "+tt.name, func(t *testing.T) { respondFrom(t, d, w, tt) })
	}
	t.Run("S0-19 S2-40 S2-41 a response is an event like others", func(t *testing.T) { respondIsEvent(t, d, w) })
	t.Run("S0-21 before or after the tools", func(t *testing.T) { respondWhen(t, d, w, slow) })
	t.Run("S0-15 to what an agent says", func(t *testing.T) {
		id := w.Open("assistant", "bob")
		d.Set(id, "first", check.OnMessage(event.CreatedByAgent, func(m event.MessageEvent) hook.Result {
			if m.Message.SenderID == "assistant" && m.Message.Content != "never mind" {
				return hook.Respond(hook.Response{Content: "never mind"})
			}
			return hook.Pass()
		}))
		calls := w.Provider.Calls()
		// Unchanged, bob would answer it.
		out := check.Say(w, id, "@assistant use note {\"text\":\"\\n@bob hello\"}")
		require.Equal(t, "never mind", out.Message.Content)
		require.Equal(t, calls+2, w.Provider.Calls(), "bob is not asked")
	})
	t.Run("a thousand times", func(t *testing.T) {
		id := w.Open("assistant")
		flood := slices.Repeat([]hook.Response{{Content: "flood", SenderType: event.CreatedBySystem}}, 101)
		d.Set(id, "first", check.Responding(event.CreatedByUser, flood...))
		out := check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "the limit is 100")
		require.Len(t, w.Messages(id), 1, "none of them")
		check.FailedEvent(w, id, "e1")
	})
}

// eventIDs are the events of hooks' calls.
func eventIDs(book []check.Entry) (ids []string) {
	for _, e := range book {
		ids = append(ids, e.EventID)
	}
	return ids
}

func respondToMessage(t *testing.T, d *check.Desk, w *harness.Harness, by string) {
	id, calls := w.Open("assistant"), w.Provider.Calls()
	d.Set(id, by, check.Responding(event.CreatedByUser, hook.Response{Content: "I cannot help with that."}))
	out := check.Turn(w, id, check.Message(id, "e1", "tell me the password"))
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "I cannot help with that.", out.Message.Content)
	require.Equal(t, calls, w.Provider.Calls(), "no model is called")
	require.Empty(t, check.OfType(w, id, event.TypeLLMCall))
	require.Equal(t, []string{"ann: tell me the password", "assistant: I cannot help with that."}, check.SaidIn(w, id))
	decided := check.DecisionOn(w, id, "e1")
	require.Equal(t, event.OutcomeResponded, decided.Outcome)
	require.Equal(t, []string{out.Message.ID}, decided.Produced)
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, out.Message.ID).Status, "it was queued, and processed")
	require.Len(t, check.OfType(w, id, event.TypeFinal), 1, "viewers see one end")

	d.Set(id, by, nil)
	// S0-19 the response is in the history.
	requireBlocked(w, id, []string{"tell me the password"}, "I cannot help with that.")
}

func respondToCalls(t *testing.T, d *check.Desk, w *harness.Harness, spied *check.Spy, by string) {
	id, calls, ran := w.Open("assistant"), w.Provider.Calls(), len(spied.Seen())
	d.Set(id, by, check.OnCalls(func(_ event.ToolCallEvent) hook.Result {
		return hook.Respond(hook.Response{Content: "Tools are switched off.", SenderType: event.CreatedBySystem, SenderID: "guard"})
	}))
	out := check.Say(w, id, "use spied {}\nuse note {}")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Len(t, spied.Seen(), ran, "no tool runs")
	require.Empty(t, check.ToolLogs(w, id))
	require.Equal(t, calls+1, w.Provider.Calls(), "the agent does not go on")
	check.RequireSettled(t, w, id)
	for _, m := range check.Results(w, id) {
		require.True(t, m.IsError)
		require.Equal(t, "Not run: "+by+" answered in place of the tool.", m.Content)
	}
	messages := w.Messages(id)
	last := messages[len(messages)-1]
	require.Equal(t, "guard: Tools are switched off.", last.SenderID+": "+last.Content)
	require.Equal(t, event.CreatedBySystem, last.SenderType)
	require.Equal(t, last.ID, out.Message.ID)
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, last.ID).Status, "the system message was queued")

	d.Set(id, by, nil)
	requireBlocked(w, id, nil, "Tools are switched off.")
	shown := check.ModelCalls(w)[w.Provider.Calls()-1]
	check.RequireAnswered(t, shown.Messages)
	require.Less(t, strings.Index(shown.Raw, "answered in place"), strings.Index(shown.Raw, "Tools are switched off."), "the system's message keeps its place")
	require.Less(t, strings.Index(shown.Raw, "Tools are switched off."), strings.Index(shown.Raw, "and now"))
}

// respondToResult responds to one of two results.
func respondToResult(t *testing.T, d *check.Desk, w *harness.Harness, spied *check.Spy, by string) {
	id, calls, ran := w.Open("assistant"), w.Provider.Calls(), len(spied.Seen())
	d.Set(id, by, check.OnMessage(event.CreatedByTool, func(m event.MessageEvent) hook.Result {
		if m.Message.SenderID == "note" {
			return hook.Respond(hook.Response{Content: "that will do"})
		}
		return hook.Pass()
	}))
	out := check.Say(w, id, "use note {\"text\":\"x\"}\nuse spied {}")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "that will do", out.Message.Content)
	require.Len(t, spied.Seen(), ran+1, "the tools run")
	require.Equal(t, calls+1, w.Provider.Calls(), "the agent is not run on their results")
	check.RequireSettled(t, w, id)
	for _, m := range check.Results(w, id) {
		require.False(t, m.IsError, "and what they returned is kept: %s", m.Content)
	}
	logs := check.ToolLogs(w, id)
	require.Len(t, logs, 2)
	for _, l := range logs {
		require.Equal(t, store.ToolSucceeded, l.Status)
	}
	records, at := w.Records(id), map[string]int64{}
	for _, r := range records {
		at[r.ID] = r.Seq
	}
	for _, m := range check.Results(w, id) {
		require.Less(t, at[m.ID], at[out.Message.ID], "S0-21 the response follows all results")
		_, err := w.Threads.Item(w.Ctx(), id, m.ID)
		require.Error(t, err, "no result is in the queue")
	}
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, out.Message.ID).Status, "the response was")

	d.Set(id, by, nil)
	requireBlocked(w, id, []string{"noted: x"}, "that will do")
	check.RequireAnswered(t, check.ModelCalls(w)[w.Provider.Calls()-1].Messages)
}

func respondOften(t *testing.T, d *check.Desk, w *harness.Harness, by string) {
	id := w.Open("assistant")
	var responses []hook.Response
	want := []string{"ann: hello"}
	for i := range 6 {
		when := []hook.EnqueueAfter{"", hook.EnqueueImmediately, hook.EnqueueAfterToolResults}[i%3]
		responses = append(responses, hook.Response{Content: fmt.Sprint("no ", i), EnqueueAfter: when, SenderID: "guard", SenderType: event.CreatedBySystem})
		want = append(want, fmt.Sprint("guard: no ", i))
	}
	rule := check.Responding(event.CreatedByUser, responses...)
	before, first := check.NewHalt(), check.NewHalt()
	if by == "first" {
		rule = before.Before("message user", rule)
	}
	d.Set(id, by, rule)
	d.Set(id, "second", first.Before("message system", nil))
	add(w, id, check.Message(id, "e1", "hello"))
	if by == "first" {
		<-before.Reached
		add(w, id, check.Custom("later", "comes.later", 1))
		before.Release()
		<-first.Reached
		waiting := idsOf(queueOf(w, id).Items)
		require.Len(t, waiting, 6, "five wait")
		require.Equal(t, "later", waiting[5], "ahead of what came from outside meanwhile")
		first.Release()
	}
	out := check.Wholly(w, id, w.Await(id, "e1"))
	require.Equal(t, "no 5", out.Message.Content)
	require.Equal(t, want, check.SaidIn(w, id), "in the order in which they were given")
	require.Len(t, check.DecisionOn(w, id, "e1").Produced, 6)
	d.Set(id, by, nil)
	requireBlocked(w, id, []string{"hello"}, "no 0", "no 1", "no 2", "no 3", "no 4", "no 5")
}

func respondFrom(t *testing.T, d *check.Desk, w *harness.Harness, tt speaker) {
	id := w.Open("assistant", "bob")
	tt.response.Content = "instead"
	name := "first"
	if tt.on == "llm_call" {
		name = "models"
	}
	once := false
	d.Set(id, name, func(_ context.Context, e event.Event) (hook.Result, error) {
		if (check.Entry{Event: e}).What() == tt.on && !once {
			once = true
			return hook.Respond(tt.response), nil
		}
		return hook.Pass(), nil
	})
	post := check.Message(id, "e1", tt.says)
	if tt.says == "" {
		post = check.Custom("e1", tt.on, 12)
	}
	check.Turn(w, id, post)
	for _, m := range w.Messages(id) {
		if m.Content == "instead" {
			require.Equal(t, tt.want, m.SenderID)
			require.Equal(t, tt.by, m.SenderType)
			require.Equal(t, tt.by.Role(), m.Role)
			var blocked []string
			if tt.on == "message user" {
				blocked = []string{tt.says}
			}
			if tt.want == "bob" {
				requireBlockedFor(w, id, "@bob", blocked, "instead")
			} else {
				requireBlocked(w, id, blocked)
			}
			return
		}
	}
	require.Fail(t, "no response", w.Transcript(id))
}

// respondIsEvent: hooks see, change and respond to a response, and agents answer it.
func respondIsEvent(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, calls := w.Open("assistant", "bob"), w.Provider.Calls()
	d.Set(id, "first", check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		if m.Message.SenderID == "ann" {
			return hook.Respond(hook.Response{
				Content: "@bob ann asks", SenderID: "desk", SenderType: event.CreatedByUser, Metadata: map[string]any{"ticket": "seven"},
			})
		}
		return hook.Pass()
	}))
	d.Set(id, "second", check.Saying(event.CreatedByUser, "ann asks", "somebody asks"))
	post := check.Message(id, "e1", "@assistant hello")
	post.TraceID, post.ParentEventID, post.Priority = "trace-1", "cause-0", 3
	out := check.Turn(w, id, post)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, []string{"ann: @assistant hello", "desk: @bob ann asks", "bob: somebody asks"}, check.SaidIn(w, id), "it is stored, and routed as what it says")
	require.Equal(t, "bob", out.Message.SenderID, "the turn ends with what follows from the response")
	require.Equal(t, calls+1, w.Provider.Calls())
	response := w.Messages(id)[1]
	require.Equal(t, event.Metadata{"ticket": "seven"}, response.Metadata)

	seen := d.Asked(id, "first")
	require.Equal(t, []string{"message user", "message user", "message agent"}, d.Whats(id, "first"), "it passes the hooks")
	require.Equal(t, response.ID, seen[1].EventID)
	require.Equal(t, event.OutcomeReplaced, check.DecisionOn(w, id, response.ID).Outcome, "which can change it like any other")
	require.Equal(t, response.ID, w.Messages(id)[2].ReplyToMessageID)

	parents := map[string]string{}
	for _, r := range w.Records(id)[1:] {
		require.Equal(t, "trace-1", r.TraceID, "%s %s", r.Type, r.ID)
		parents[r.ID] = r.ParentEventID
	}
	require.Equal(t, "cause-0", parents["e1"])
	require.Equal(t, "e1", parents[response.ID])
	require.Equal(t, response.ID, parents[out.Message.ID])
	for _, e := range seen {
		require.Equal(t, "trace-1", e.TraceID)
		require.Equal(t, parents[e.EventID], e.ParentEventID, "hooks are told the same")
	}
	it := check.ItemOf(w, id, response.ID)
	require.Equal(t, "trace-1", it.TraceID)
	require.Equal(t, "e1", it.ParentEventID)
	require.Equal(t, 3, it.Priority, "as urgent as what it answers")

	check.Say(w, id, "@assistant go on")
	shown := check.ModelCalls(w)[w.Provider.Calls()-1].Raw
	require.Contains(t, shown, "@bob somebody asks", "it is in the history")
	require.NotContains(t, shown, "seven")
	d.Set(id, "first", nil)
	requireBlockedFor(w, id, "@bob", []string{"@assistant hello", "ann asks", "seven"}, "somebody asks")
}

// respondWhen responds to a result twice while another call still runs.
func respondWhen(t *testing.T, d *check.Desk, w *harness.Harness, slow *check.Gate) {
	id, calls := w.Open("assistant"), w.Provider.Calls()
	d.Set(id, "first", check.OnMessage(event.CreatedByTool, func(m event.MessageEvent) hook.Result {
		if m.Message.SenderID == "note" {
			return hook.Respond(
				hook.Response{Content: "by default", SenderID: "guard", SenderType: event.CreatedBySystem},
				hook.Response{Content: "at once", SenderID: "guard", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueImmediately},
				hook.Response{Content: "after all", SenderID: "guard", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueAfterToolResults},
			)
		}
		return hook.Pass()
	}))
	e := w.Post(id, "use slow {}\nuse note {}")
	<-slow.Reached
	var waiting []event.Item
	require.Eventually(t, func() bool {
		q, err := w.Threads.Queue(w.Ctx(), id)
		waiting = q.Items
		return err == nil && len(waiting) > 0
	}, testenv.Patience, testenv.Tick)
	require.Len(t, waiting, 1, "one is queued without waiting for the other call")
	require.Contains(t, string(waiting[0].Payload), "at once")
	require.Len(t, check.Results(w, id), 1)
	slow.Release()
	out := check.Wholly(w, id, check.Await(t, w, id, e))
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, calls+1, w.Provider.Calls())
	said := check.SaidIn(w, id)
	require.Equal(t, []string{"guard: at once", "guard: by default", "guard: after all"}, said[len(said)-3:])
	check.RequireSettled(t, w, id)
	at := map[string]int{}
	for i, m := range w.Messages(id) {
		at[m.Content] = i
	}
	require.Greater(t, at["by default"], at["open"], "the others wait until every result is stored")
	for _, l := range check.ToolLogs(w, id) {
		require.NotNil(t, l.FinishedAt)
		require.True(t, l.FinishedAt.Before(check.RecordOf(w, id, out.Message.ID).CreatedAt), "and every log")
	}
	d.Set(id, "first", nil)
	requireBlocked(w, id, nil, "at once", "by default", "after all")
	check.RequireAnswered(t, check.ModelCalls(w)[w.Provider.Calls()-1].Messages)
}

// respondForEver responds to its own responses.
func respondForEver(t *testing.T, d *check.Desk, w *harness.Harness, by string) {
	id, calls := w.Open("assistant"), w.Provider.Calls()
	d.Set(id, by, check.Responding(event.CreatedByUser, hook.Response{Content: "and again", SenderType: event.CreatedByUser, SenderID: "echo"}))
	out := check.Turn(w, id, check.Message(id, "e1", "hello"))
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "hook "+by+" answers what hooks have made themselves: 10 events in a row")
	require.Len(t, w.Messages(id), 11)
	require.Equal(t, calls, w.Provider.Calls())
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	failed := check.Only(t, state.Failed)
	require.Equal(t, out.Error, failed.Error)
	require.Equal(t, event.OutcomeFailed, check.FailedDecision(w, id, failed.ID).Outcome)
	require.Equal(t, signals.ThreadIdle, state.Status)

	d.Set(id, by, nil)
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, "enough").Status, "the thread goes on")
}
