package tests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const (
	heldSays   = "think hm\ncount 5"
	heldSecret = "1 2 3 4 5"
	heldShown  = "1 2 x 4 5"
)

// agentsSaid are the messages of agents that viewers received.
func agentsSaid(frames []frame) []string {
	var out []string
	for _, f := range frames {
		if f.event.Type == event.EventMessage && f.event.Message.SenderType == event.CreatedByAgent {
			out = append(out, f.event.Message.Content)
		}
	}
	return out
}

// requireHidden checks that viewers received nothing of a held reply.
func requireHidden(t *testing.T, frames []frame) {
	t.Helper()
	for _, f := range frames {
		raw, err := json.Marshal(f.event)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "1 2 3")
	}
	require.Zero(t, count(frames, event.EventStream)+count(frames, event.EventThought)+count(frames, event.EventReset))
}

// TestHeldOutput holds back an agent's reply until hooks have decided on it.
func TestHeldOutput(t *testing.T) {
	t.Parallel()
	d := newDesk()
	agents := []agent.Agent{}
	for _, name := range []string{"guarded", "watched", "plain"} {
		agents = append(agents, agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"note"}})
	}
	keeper, inline := d.hook("keeper"), d.inline("keeper-inline")
	keeper.HoldOutput, inline.HoldOutput, keeper.MaxAttempts = true, true, 1
	keeper.Filter = hook.Filter{Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByAgent}, Agents: []string{"guarded"}}
	inline.Filter = keeper.Filter
	inline.Filter.Agents = []string{"watched"}
	w := d.open(t, harness.Options{Agents: agents}, []hook.Hook{keeper, inline})

	t.Run("whoever is not held is seen as it speaks", func(t *testing.T) {
		id := w.Open("plain")
		view := watch(t, w, id, "")
		say(w, id, heldSays)
		frames := view.until(t, isFinal)
		require.Equal(t, 5, count(frames, event.EventStream))
		require.Equal(t, []string{heldSecret}, agentsSaid(frames))
	})
	t.Run("S0-12 no token and no message before the decision, the redacted message after it", func(t *testing.T) {
		id, wait := w.Open("guarded"), newHalt()
		d.set(id, "keeper", wait.before("message agent", saying(event.CreatedByAgent, "3", "x")))
		heldRedacted(t, w, id, func() {
			<-wait.reached
			require.Equal(t, heldSecret, w.Messages(id)[1].Content, "it is stored")
			require.Len(t, page(t, w, id), 1, "and shown to nobody who asks")
			wait.release()
		})
	})
	t.Run("S0-12 nor with an inline hook", func(t *testing.T) {
		id := w.Open("watched")
		d.set(id, "keeper-inline", saying(event.CreatedByAgent, "3", "x"))
		heldRedacted(t, w, id, nil)
	})
	t.Run("S0-12 nor when the model call is tried again", func(t *testing.T) {
		id := w.Open("guarded")
		d.set(id, "keeper", saying(event.CreatedByAgent, "3", "x"))
		w.Provider.Fail(llmtest.Drop(4))
		heldRedacted(t, w, id, nil)
	})
	for agent, name := range map[string]string{"guarded": "keeper", "watched": "keeper-inline"} {
		t.Run("S0-11 what "+name+" lets pass is shown then", func(t *testing.T) {
			id := w.Open(agent)
			view := watch(t, w, id, "")
			require.Equal(t, heldSecret, say(w, id, heldSays).Message.Content)
			frames := view.until(t, isFinal)
			require.Zero(t, count(frames, event.EventStream))
			require.Equal(t, []string{heldSecret}, agentsSaid(frames), "once")
			require.Equal(t, heldSecret, page(t, w, id)[1]["content"])
		})
		t.Run("S0-15 what "+name+" answers itself is never shown", func(t *testing.T) {
			id := w.Open(agent)
			d.set(id, name, onMessage(event.CreatedByAgent, func(m event.MessageEvent, respond hook.Respond) event.Event {
				if m.Message.Content == heldSecret {
					respond(hook.Response{Content: "I would rather not say."})
				}
				return nil
			}))
			view := watch(t, w, id, "")
			require.Equal(t, "I would rather not say.", say(w, id, heldSays).Message.Content)
			frames := view.until(t, isFinal)
			requireHidden(t, frames)
			require.Equal(t, []string{"I would rather not say."}, agentsSaid(frames))
			say(w, id, "go on")
			last := modelCalls(w)[w.Provider.Calls()-1].raw
			require.Contains(t, last, "I would rather not say.")
			require.NotContains(t, last, heldSecret, "not even the model is reminded of it")
		})
	}
	t.Run("S0-23 nor is what the hook failed on", func(t *testing.T) {
		id := w.Open("guarded")
		d.set(id, "keeper", failsOn("message agent"))
		view := watch(t, w, id, "")
		require.Equal(t, signals.TurnFailed, say(w, id, heldSays).Status)
		frames := view.until(t, func(f frame) bool { return f.event.Terminal() })
		require.Equal(t, event.EventError, frames[len(frames)-1].event.Type)
		requireHidden(t, frames)
		require.Empty(t, agentsSaid(frames))
		require.Len(t, page(t, w, id), 1)
	})
	t.Run("nor what was interrupted before the decision", func(t *testing.T) { heldInterrupted(t, d, w) })
	t.Run("S0-14 calls beside what is held run when it was decided", func(t *testing.T) {
		id, wait := w.Open("guarded"), newHalt()
		d.set(id, "keeper", wait.before("message agent", saying(event.CreatedByAgent, "3", "x")))
		view := watch(t, w, id, "")
		e := w.Post(id, "count 5\nuse note {}")
		<-wait.reached
		require.Empty(t, toolLogs(w, id))
		wait.release()
		require.Equal(t, signals.TurnCompleted, wholly(w, id, await(t, w, id, e)).Status)
		frames := view.until(t, isFinal)
		requireHidden(t, frames)
		require.Equal(t, []string{heldShown, "note returned: noted: "}, agentsSaid(frames))
		requireSettled(t, w, id)
	})
}

// heldRedacted redacts an agent's reply, and checks it meanwhile.
func heldRedacted(t *testing.T, w *harness.Harness, id string, meanwhile func()) {
	t.Helper()
	view := watch(t, w, id, "")
	post := message(id, "e1", heldSays)
	if meanwhile != nil {
		_, err := w.Threads.Post(w.Ctx(), id, post)
		require.NoError(t, err)
		meanwhile()
	}
	require.Equal(t, heldShown, turn(w, id, post).Message.Content)
	frames := view.until(t, isFinal)
	requireHidden(t, frames)
	require.Equal(t, []string{heldShown}, agentsSaid(frames))
	later := watch(t, w, id, "").until(t, isFinal)
	requireHidden(t, later)
	require.Equal(t, []string{heldShown}, agentsSaid(later), "who comes later sees the same")
	require.Equal(t, heldShown, page(t, w, id)[1]["content"])
	say(w, id, "go on")
	last := modelCalls(w)[w.Provider.Calls()-1].raw
	require.Contains(t, last, heldShown)
	require.NotContains(t, last, heldSecret)
}

func heldInterrupted(t *testing.T, d *desk, w *harness.Harness) {
	interrupt := func(id string) {
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	}
	deciding, wait := w.Open("guarded"), newHalt()
	d.set(deciding, "keeper", wait.before("message agent", nil))
	speaking, half := w.Open("guarded"), w.Provider.Block(4)
	seen := map[string]*view{deciding: watch(t, w, deciding, ""), speaking: watch(t, w, speaking, "")}
	first := w.Post(speaking, heldSays)
	<-half.Reached()
	second := w.Post(deciding, heldSays)
	<-wait.reached
	interrupt(speaking)
	interrupt(deciding)
	require.Equal(t, signals.TurnInterrupted, wholly(w, speaking, await(t, w, speaking, first)).Status)
	half.Release()
	require.Equal(t, signals.TurnInterrupted, wholly(w, deciding, await(t, w, deciding, second)).Status)
	for id, view := range seen {
		frames := view.until(t, isFinal)
		requireHidden(t, frames)
		require.Empty(t, agentsSaid(frames))
		require.Len(t, page(t, w, id), 1)
	}
}
