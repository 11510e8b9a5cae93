package hooks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const (
	heldSays   = "think hm\ncount 5"
	heldSecret = "1 2 3 4 5"
	heldShown  = "1 2 x 4 5"
)

// agentsSaid are the messages of agents that viewers received.
func agentsSaid(frames []check.Frame) []string {
	var out []string
	for _, f := range frames {
		if f.Event.Type == event.EventMessage && f.Event.Message.SenderType == event.CreatedByAgent {
			out = append(out, f.Event.Message.Content)
		}
	}
	return out
}

// requireHidden checks that viewers received nothing of a held reply.
func requireHidden(t *testing.T, frames []check.Frame) {
	t.Helper()
	for _, f := range frames {
		raw, err := json.Marshal(f.Event)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "1 2 3")
	}
	require.Zero(t, check.Count(frames, event.EventStream)+check.Count(frames, event.EventThought)+check.Count(frames, event.EventReset))
}

// TestHeldOutput holds back an agent's reply until hooks have decided on it.
func TestHeldOutput(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	agents := []agent.Agent{}
	for _, name := range []string{"guarded", "watched", "plain"} {
		agents = append(agents, agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"note"}})
	}
	keeper, inline := d.Hook("keeper"), d.Inline("keeper-inline")
	keeper.HoldOutput, inline.HoldOutput, keeper.MaxAttempts = true, true, 1
	keeper.Filter = hook.Filter{Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByAgent}, Agents: []string{"guarded"}}
	inline.Filter = keeper.Filter
	inline.Filter.Agents = []string{"watched"}
	w := d.Open(t, harness.Options{Agents: agents}, []hook.Hook{keeper, inline})

	t.Run("whoever is not held is seen as it speaks", func(t *testing.T) {
		id := w.Open("plain")
		view := check.Watch(t, w, id, "")
		check.Say(w, id, heldSays)
		frames := view.Until(t, check.IsFinal)
		require.Equal(t, 5, check.Count(frames, event.EventStream))
		require.Equal(t, []string{heldSecret}, agentsSaid(frames))
	})
	t.Run("S0-12 no token and no message before the decision, the redacted message after it", func(t *testing.T) {
		id, wait := w.Open("guarded"), check.NewHalt()
		d.Set(id, "keeper", wait.Before("message agent", check.Saying(event.CreatedByAgent, "3", "x")))
		heldRedacted(t, w, id, func() {
			<-wait.Reached
			require.Equal(t, heldSecret, w.Messages(id)[1].Content, "it is stored")
			require.Len(t, check.MessagesPage(t, w, id), 1, "and shown to nobody who asks")
			wait.Release()
		})
	})
	t.Run("S0-12 nor with an inline hook", func(t *testing.T) {
		id := w.Open("watched")
		d.Set(id, "keeper-inline", check.Saying(event.CreatedByAgent, "3", "x"))
		heldRedacted(t, w, id, nil)
	})
	t.Run("S0-12 nor when the model call is tried again", func(t *testing.T) {
		id := w.Open("guarded")
		d.Set(id, "keeper", check.Saying(event.CreatedByAgent, "3", "x"))
		w.Provider.Fail(llmtest.Drop(4))
		heldRedacted(t, w, id, nil)
	})
	for agent, name := range map[string]string{"guarded": "keeper", "watched": "keeper-inline"} {
		t.Run("S0-11 what "+name+" lets pass is shown then", func(t *testing.T) {
			id := w.Open(agent)
			view := check.Watch(t, w, id, "")
			require.Equal(t, heldSecret, check.Say(w, id, heldSays).Message.Content)
			frames := view.Until(t, check.IsFinal)
			require.Zero(t, check.Count(frames, event.EventStream))
			require.Equal(t, []string{heldSecret}, agentsSaid(frames), "once")
			require.Equal(t, heldSecret, check.MessagesPage(t, w, id)[1]["content"])
		})
		t.Run("S0-15 what "+name+" answers itself is never shown", func(t *testing.T) {
			id := w.Open(agent)
			d.Set(id, name, check.OnMessage(event.CreatedByAgent, func(m event.MessageEvent) hook.Result {
				if m.Message.Content == heldSecret {
					return hook.Respond(hook.Response{Content: "I would rather not say."})
				}
				return hook.Pass()
			}))
			view := check.Watch(t, w, id, "")
			require.Equal(t, "I would rather not say.", check.Say(w, id, heldSays).Message.Content)
			frames := view.Until(t, check.IsFinal)
			requireHidden(t, frames)
			require.Equal(t, []string{"I would rather not say."}, agentsSaid(frames))
			check.Say(w, id, "go on")
			last := check.ModelCalls(w)[w.Provider.Calls()-1].Raw
			require.Contains(t, last, "I would rather not say.")
			require.NotContains(t, last, heldSecret, "not even the model is reminded of it")
		})
	}
	t.Run("S0-23 nor is what the hook failed on", func(t *testing.T) {
		id := w.Open("guarded")
		d.Set(id, "keeper", failsOn("message agent"))
		view := check.Watch(t, w, id, "")
		require.Equal(t, signals.TurnFailed, check.Say(w, id, heldSays).Status)
		frames := view.Until(t, func(f check.Frame) bool { return f.Event.Terminal() })
		require.Equal(t, event.EventError, frames[len(frames)-1].Event.Type)
		requireHidden(t, frames)
		require.Empty(t, agentsSaid(frames))
		require.Len(t, check.MessagesPage(t, w, id), 1)
	})
	t.Run("nor what was interrupted before the decision", func(t *testing.T) { heldInterrupted(t, d, w) })
	t.Run("S0-14 calls beside what is held run when it was decided", func(t *testing.T) {
		id, wait := w.Open("guarded"), check.NewHalt()
		d.Set(id, "keeper", wait.Before("message agent", check.Saying(event.CreatedByAgent, "3", "x")))
		view := check.Watch(t, w, id, "")
		e := w.Post(id, "count 5\nuse note {}")
		<-wait.Reached
		require.Empty(t, check.ToolLogs(w, id))
		wait.Release()
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, check.Await(t, w, id, e)).Status)
		frames := view.Until(t, check.IsFinal)
		requireHidden(t, frames)
		require.Equal(t, []string{heldShown, "note returned: noted: "}, agentsSaid(frames))
		check.RequireSettled(t, w, id)
	})
}

// heldRedacted redacts an agent's reply, and checks it meanwhile.
func heldRedacted(t *testing.T, w *harness.Harness, id string, meanwhile func()) {
	t.Helper()
	view := check.Watch(t, w, id, "")
	post := check.Message(id, "e1", heldSays)
	if meanwhile != nil {
		_, err := w.Threads.Post(w.Ctx(), id, post)
		require.NoError(t, err)
		meanwhile()
	}
	require.Equal(t, heldShown, check.Turn(w, id, post).Message.Content)
	frames := view.Until(t, check.IsFinal)
	requireHidden(t, frames)
	require.Equal(t, []string{heldShown}, agentsSaid(frames))
	later := check.Watch(t, w, id, "").Until(t, check.IsFinal)
	requireHidden(t, later)
	require.Equal(t, []string{heldShown}, agentsSaid(later), "who comes later sees the same")
	require.Equal(t, heldShown, check.MessagesPage(t, w, id)[1]["content"])
	check.Say(w, id, "go on")
	last := check.ModelCalls(w)[w.Provider.Calls()-1].Raw
	require.Contains(t, last, heldShown)
	require.NotContains(t, last, heldSecret)
}

func heldInterrupted(t *testing.T, d *check.Desk, w *harness.Harness) {
	interrupt := func(id string) {
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	}
	deciding, wait := w.Open("guarded"), check.NewHalt()
	d.Set(deciding, "keeper", wait.Before("message agent", nil))
	speaking, half := w.Open("guarded"), w.Provider.Block(4)
	seen := map[string]*check.View{deciding: check.Watch(t, w, deciding, ""), speaking: check.Watch(t, w, speaking, "")}
	first := w.Post(speaking, heldSays)
	<-half.Reached()
	second := w.Post(deciding, heldSays)
	<-wait.Reached
	interrupt(speaking)
	interrupt(deciding)
	require.Equal(t, signals.TurnInterrupted, check.Wholly(w, speaking, check.Await(t, w, speaking, first)).Status)
	half.Release()
	require.Equal(t, signals.TurnInterrupted, check.Wholly(w, deciding, check.Await(t, w, deciding, second)).Status)
	for id, view := range seen {
		frames := view.Until(t, check.IsFinal)
		requireHidden(t, frames)
		require.Empty(t, agentsSaid(frames))
		require.Len(t, check.MessagesPage(t, w, id), 1)
	}
}
