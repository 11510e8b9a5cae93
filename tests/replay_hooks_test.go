package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// edited replaces a message by one with another text, if it contains a word.
func edited(e event.Event, word string, edit func(string) string) (hook.Result, error) {
	m, ok := e.(event.MessageEvent)
	if !ok || !strings.Contains(m.Message.Content, word) {
		return hook.Pass(), nil
	}
	m.Message.Content = edit(m.Message.Content)
	return hook.Replace(m), nil
}

func messagesOf(by event.CreatedBy, agents ...string) hook.Filter {
	return hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{by}, Agents: agents}
}

// recordedHooks are the hooks of the stored histories. They follow instructions in the events.
func recordedHooks(queue string) []hook.Hook {
	review := hook.InWorkflow(check.Reviewed, hook.Workflow{Type: foreign.Review, TaskQueue: check.ForeignQueue(queue)})
	review.Filter.Types = []string{"case"}
	critic := hook.OnEvent("critic", func(_ context.Context, e event.Event) (hook.Result, error) {
		return edited(e, "rude", func(string) string { return "(taken out)" })
	})
	critic.Filter, critic.HoldOutput = messagesOf(event.CreatedByAgent, "critic"), true
	brief := hook.OnLLMCall("brief", func(_ context.Context, c event.LLMCallEvent) (hook.Result, error) {
		c.Instructions = "Be brief."
		return hook.Replace(c), nil
	})
	brief.Filter.Agents = []string{"critic"}
	shaky := hook.OnMessage("shaky", func(context.Context, event.MessageEvent) (hook.Result, error) {
		return hook.Result{}, errors.New("it shakes")
	})
	shaky.Filter.CreatedBy, shaky.OnFailure, shaky.MaxAttempts = []event.CreatedBy{event.CreatedBySystem}, hook.FailOpen, 1
	sealed := hook.Inline("sealed", func(_ hook.Context, e event.Event) (hook.Result, error) {
		return edited(e, "noted", func(said string) string { return said + ", sealed" })
	})
	sealed.Filter = messagesOf(event.CreatedByTool)
	return []hook.Hook{
		sealed, shouting(), guarding(), hook.OnToolCall("tools", withTools), critic, brief, shaky, review,
	}
}

// shouting is an inline hook that lets shouts pass, turns events into them, responds to them, and
// fails.
func shouting() hook.Hook {
	h := hook.Inline("shouts", func(c hook.Context, e event.Event) (hook.Result, error) {
		shout, _ := e.(event.CustomEvent)
		switch word := string(shout.Payload); word {
		case `"fail"`:
			return hook.Result{}, errors.New("too loud")
		case `"answer"`:
			return hook.Respond(hook.Response{Content: "heard", SenderType: event.CreatedBySystem}), nil
		case `"say"`:
			return hook.Replace(event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: c.ThreadID, Message: event.NewMessage{
				ThreadID: c.ThreadID, SenderID: "ann", SenderType: event.CreatedByUser, Content: "I shout",
			}}), nil
		}
		return hook.Pass(), nil
	})
	h.Filter.Types = []string{"shout"}
	return h
}

// guarding is a hook that changes messages of people, responds in place of the agent, and fails.
func guarding() hook.Hook {
	h := hook.OnMessage("guard", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		switch said := m.Message.Content; {
		case strings.Contains(said, "refuse"):
			return hook.Respond(hook.Response{Content: "refused", SenderType: event.CreatedBySystem}), nil
		case strings.Contains(said, "fail"):
			return hook.Result{}, errors.New("it cannot be")
		}
		return edited(m, "secret", func(s string) string { return strings.ReplaceAll(s, "secret", "hidden") })
	})
	h.Filter.CreatedBy, h.MaxAttempts = []event.CreatedBy{event.CreatedByUser}, 2
	return h
}

// withTools removes calls, edits them, and denies them.
func withTools(_ context.Context, e event.ToolCallEvent) (hook.Result, error) {
	e.ToolCalls = slices.DeleteFunc(e.ToolCalls, func(c event.ToolCall) bool { return strings.Contains(c.Function.Arguments, "never") })
	for i, c := range e.ToolCalls {
		e.ToolCalls[i].Function.Arguments = strings.ReplaceAll(c.Function.Arguments, "this", "that")
		if strings.Contains(c.Function.Arguments, "deny") {
			return hook.Respond(hook.Response{Content: "denied", SenderType: event.CreatedBySystem}), nil
		}
	}
	return hook.Replace(e), nil
}

// recordedProcessors turn jobs into messages.
func recordedProcessors() []hook.Processor {
	return []hook.Processor{hook.Process("job", func(_ context.Context, in struct{ Say []string }, _ hook.Deps) (out []hook.Produced, _ error) {
		for _, text := range in.Say {
			out = append(out, hook.Message(event.CreatedByUser, "jobs", text))
		}
		return out, nil
	})}
}

// workersOf are workers on which every history must replay: their registered hooks do not change
// earlier decisions.
func workersOf(t *testing.T) map[string]*hook.Set {
	t.Helper()
	set := func(hooks []hook.Hook, processors []hook.Processor) *hook.Set {
		out, err := hook.NewSet(hook.Config{Hooks: hooks, Processors: processors})
		require.NoError(t, err)
		return out
	}
	recorded := recordedHooks("threads")
	fewer := slices.DeleteFunc(slices.Clone(recorded), func(h hook.Hook) bool { return h.Inline != nil || h.Name == "guard" })
	more := append([]hook.Hook{
		hook.Inline("first", func(_ hook.Context, e event.Event) (hook.Result, error) {
			return hook.Respond(hook.Response{Content: "everything is answered"}), nil
		}),
		hook.InWorkflow("late", hook.Workflow{Type: "somewhere", TaskQueue: "else"}),
	}, recorded...)
	changed := slices.Clone(recorded)
	for i, h := range changed {
		changed[i] = hook.Inline(h.Name, func(_ hook.Context, e event.Event) (hook.Result, error) {
			return edited(e, "", strings.ToUpper)
		})
	}
	return map[string]*hook.Set{
		"the same hooks": set(recorded, recordedProcessors()),
		"no hooks":       nil,
		"fewer":          set(fewer, nil),
		"more":           set(more, recordedProcessors()),
		"others":         set(changed, nil),
	}
}

// newRecordedWorld builds a world with the hooks of the stored histories.
func newRecordedWorld(t *testing.T, o harness.Options) check.Review {
	t.Helper()
	o.Agents = []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "shell_cmd", "current_time"},
	}, {Name: "critic", Instructions: "You judge.", Model: "openai/stand-in"}}
	o.Configure = func(c *threadmill.Config) {
		c.Hooks, c.Processors = recordedHooks(c.TaskQueue), recordedProcessors()
		stop, err := foreign.Work(c.Temporal, check.ForeignQueue(c.TaskQueue))
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	return check.Review{Harness: harness.New(t, o), Hook: check.Reviewed}
}

// hookedLives are threads that cover hooks, processors and the queue.
var hookedLives = map[string]func(t *testing.T, r check.Review, id string){
	"inline": func(_ *testing.T, r check.Review, id string) {
		for i, word := range []string{"pass", "say", "pass", "answer", "say", "fail", "pass"} {
			r.PostEvent(id, fmt.Sprintf("s%d", i), "shout", fmt.Sprintf("%q", word))
			r.Await(id, fmt.Sprintf("s%d", i))
		}
		r.Say(id, `use note {"text":"x"}`)
	},
	"functions":   func(_ *testing.T, r check.Review, id string) { r.InTurn(id, "hello", "a secret") },
	"respond":     func(_ *testing.T, r check.Review, id string) { r.InTurn(id, "refuse this", "go on") },
	"failing":     liveFailing,
	"produced":    liveProduced,
	"toolcalls":   liveToolCalls,
	"held":        func(_ *testing.T, r check.Review, id string) { r.InTurn(id, "@critic be rude", "@critic be nice") },
	"reviewed":    liveReviewed,
	"hookmoved":   liveHookMoved,
	"hookstopped": liveHookStopped,
	"hookgone":    liveHookGone,
	"statuses":    liveStatuses,
	"steered":     liveSteered,
}

func liveFailing(t *testing.T, r check.Review, id string) {
	out := r.Say(id, "fail")
	require.Equal(t, signals.TurnFailed, out.Status)
	_, err := r.Threads.Retry(r.Ctx(), id, out.EventID, "ann")
	require.NoError(t, err)
	require.Equal(t, signals.TurnFailed, r.Await(id, out.EventID).Status)
	r.Say(id, "refuse") // the response is a system message, on which another hook fails openly
}

func liveProduced(_ *testing.T, r check.Review, id string) {
	r.PostEvent(id, "j1", "job", `{"say":["one","a secret","@critic two"]}`)
	r.Await(id, "j1")
	r.PostEvent(id, "j2", "job", `{}`)
	r.Await(id, "j2")
}

func liveToolCalls(t *testing.T, r check.Review, id string) {
	r.Say(id, "use note {\"text\":\"this\"}\nuse note {\"text\":\"never\"}\nuse current_time {}")
	r.Say(id, `use note {"text":"deny"}`)
	posted := r.Post(id, `use shell_cmd {"command":"true this"}`)
	check.Approve(t, r.Harness, id, r.AwaitApproval(id, 1)[0].ToolCallID)
	r.Await(id, posted)
}

func liveReviewed(_ *testing.T, r check.Review, id string) {
	for i, ruling := range []foreign.Ruling{
		{}, {Respond: []foreign.Response{{Content: "no", SenderType: "system"}}}, {Fail: "no quorum"}, {Raw: []byte(`{"event":{"type":"x"}}`)},
	} {
		posted := fmt.Sprintf("c%d", i)
		r.PostEvent(id, posted, "case", `{}`)
		r.Rule(id, posted, ruling)
		r.Await(id, posted)
	}
}

func liveHookMoved(_ *testing.T, r check.Review, id string) {
	r.PostEvent(id, "c1", "case", `{}`)
	r.Arrived(id, "c1")
	r.Move(id)
	r.AsksAgain(id)
	r.Rule(id, "c1", foreign.Ruling{Respond: []foreign.Response{{Content: "a secret"}}})
	check.AwaitMessages(r.Harness, id, 1)
}

// liveHookStopped interrupts a thread while hooks decide, in its first run and in another.
func liveHookStopped(t *testing.T, r check.Review, id string) {
	for _, posted := range []string{"c1", "c2"} {
		r.PostEvent(id, posted, "case", `{}`)
		r.Arrived(id, posted)
		if posted == "c2" {
			r.Move(id)
			r.AsksAgain(id)
		}
		require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		check.Settle(r.Harness, id)
	}
}

// liveHookGone terminates hook workflows.
func liveHookGone(_ *testing.T, r check.Review, id string) {
	for _, posted := range []string{"c1", "c2"} {
		r.PostEvent(id, posted, "case", `{}`)
		r.Arrived(id, posted)
		if posted == "c2" {
			r.Move(id)
			r.AsksAgain(id)
		}
		r.Terminate(r.HooksOf(id, posted))
		r.FailureOn(id, posted)
		check.Settle(r.Harness, id)
	}
}

// liveStatuses changes the status of events by hand: of pending ones, a failed one, and the one in
// progress.
func liveStatuses(t *testing.T, r check.Review, id string) {
	set := func(eventID string, status event.ItemStatus) {
		_, err := r.Threads.SetStatus(r.Ctx(), id, signals.SetStatus{EventID: eventID, Status: status, By: "ann"})
		require.NoError(t, err)
	}
	r.PostEvent(id, "c1", "case", `{}`)
	r.Arrived(id, "c1")
	for i, status := range []event.ItemStatus{event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten} {
		posted := fmt.Sprintf("m%d", i)
		_, err := r.Threads.Post(r.Ctx(), id, check.Message(id, posted, "a secret"))
		require.NoError(t, err)
		if i == 0 {
			_, err = r.Threads.SetStatus(r.Ctx(), id, signals.SetStatus{EventID: posted, Status: event.ItemPending, Content: "no secret", By: "ann"})
			require.NoError(t, err)
		}
		set(posted, status)
	}
	set("m1", event.ItemPending)
	set("c1", event.ItemPending)
	r.Arrived(id, "c1~1")
	set("c1", event.ItemCompleted)
	check.Settle(r.Harness, id)
}

// liveSteered lets messages join a turn, once hooks have decided on them.
func liveSteered(t *testing.T, r check.Review, id string) {
	posted := r.Post(id, `use shell_cmd {"command":"true"}`)
	call := r.AwaitApproval(id, 1)[0]
	for _, text := range []string{"a secret", "refuse this", "fail"} {
		p := signals.UserMessage(id, "ann", text)
		p.OnBusy = event.OnBusySteer
		_, err := r.Threads.Post(r.Ctx(), id, p)
		require.NoError(t, err)
	}
	check.Approve(t, r.Harness, id, call.ToolCallID)
	r.Await(id, posted)
}

// storeHooks stores the hook workflows that a thread has started, one of each kind.
func storeHooks(t *testing.T, w *harness.Harness, thread, first, name string, stored map[string]bool) {
	t.Helper()
	n := 0
	for _, events := range check.RunsOf(w, thread, first) {
		for _, run := range hookRuns(w, events) {
			if kind := check.Describe(run); !stored[kind] {
				stored[kind] = true
				n++
				write(t, fmt.Sprintf("%s-hook%d", name, n), run)
			}
		}
	}
}
