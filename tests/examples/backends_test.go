package examples

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestScenarios runs the main use cases on every combination of store and stream, over every entry
// point.
func TestScenarios(t *testing.T) {
	t.Parallel()
	backends := check.Backends
	if harness.StickyOff() || harness.StepsAsActivities() {
		backends = backends[:1] // these runs are about workflows
	}
	for _, b := range backends {
		t.Run(b.Name, func(t *testing.T) {
			o := b.Options
			// An interrupt does not wait for a heartbeat: here it could not arrive with one.
			o.Deaf = true
			w := harness.New(t, o)
			for how, d := range check.Drivers(w) {
				t.Run(how, func(t *testing.T) {
					s := scenario{t, w, d, strings.ReplaceAll(how, " ", "-")}
					t.Run("reply S0-38 S0-41 S2-05", s.reply)
					t.Run("tool S0-43 S2-12 S4-70", s.tool)
					t.Run("approval S4-78", s.approval)
					t.Run("denial S4-82", s.denial)
					t.Run("interrupt in mid-stream S1-37", s.interrupted)
					t.Run("two threads in parallel S0-T6", s.parallel)
				})
			}
			t.Run("a hundred threads at once", func(t *testing.T) { hundred(t, w) })
		})
	}
}

type scenario struct {
	t   *testing.T
	w   *harness.Harness
	d   check.Driver
	how string
}

func (s scenario) thread(t *testing.T, what string) string {
	id := s.how + "-" + what
	s.d.Open(t, id)
	return id
}

func (s scenario) reply(t *testing.T) {
	id := s.thread(t, "reply")
	s.d.Say(t, id, "e1", "hello there")
	out := check.Await(t, s.w, id, "e1")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "user ann: hello there\nassistant assistant: hello there\n", s.w.Transcript(id))
}

func (s scenario) tool(t *testing.T) {
	id := s.thread(t, "tool")
	s.d.Say(t, id, "e1", `use note {"text":"milk"}`+"\n"+`use current_time {"timezone":"UTC"}`)
	out := check.Await(t, s.w, id, "e1")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	messages := s.w.Messages(id)
	require.Len(t, messages, 5)
	require.Len(t, messages[1].ToolCalls, 2)
	require.Contains(t, messages[4].Content, "note returned: noted: milk")
	require.Contains(t, messages[4].Content, "current_time returned:")
}

func (s scenario) approval(t *testing.T) {
	id := s.thread(t, "approval")
	s.d.Say(t, id, "e1", `use shell_cmd {"command":"echo approved"}`)
	call := s.w.AwaitApproval(id, 1)[0]
	require.Equal(t, "shell_cmd", call.ToolName)
	require.JSONEq(t, `{"command":"echo approved"}`, call.Arguments)
	s.d.Decide(t, id, call.ToolCallID, event.DecisionApprove, "")
	out := check.Await(t, s.w, id, "e1")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	messages := s.w.Messages(id)
	require.Equal(t, call.ToolCallID, messages[2].ToolCallID, "the result answers the original call")
	require.Contains(t, messages[2].Content, "approved")
	require.Contains(t, messages[3].Content, "shell_cmd returned:")
	require.Equal(t, []string{
		event.TypeStatus, event.TypeMessage, event.TypeLLMCall, event.TypePrompt, event.TypeMessage, event.TypeToolCall, event.TypeApprovalRequest,
		event.TypeApproval, event.TypeMessage, event.TypeLLMCall, event.TypeMessage, event.TypeFinal, event.TypeTurnEnded,
	}, s.w.Types(id), "S4-95: request, decision and result are in history")
}

func (s scenario) denial(t *testing.T) {
	id := s.thread(t, "denial")
	s.d.Say(t, id, "e1", `use shell_cmd {"command":"touch ran"}`)
	call := s.w.AwaitApproval(id, 1)[0]
	s.d.Decide(t, id, call.ToolCallID, event.DecisionDeny, "not today")
	out := check.Await(t, s.w, id, "e1")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	messages := s.w.Messages(id)
	require.Equal(t, step.DeniedText+" Reason: not today", messages[2].Content)
	require.Contains(t, messages[3].Content, "denied by the user")
	require.NoFileExists(t, s.w.Shell+"/ran")
}

func (s scenario) interrupted(t *testing.T) {
	id := s.thread(t, "interrupt")
	gate := s.w.Provider.Block(5)
	defer gate.Release()
	s.d.Say(t, id, "e1", "count 1000")
	<-gate.Reached()
	// The provider's output may not have arrived yet.
	v := check.Watch(t, s.w, id, "")
	v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventStream && f.Event.Content == " 5" })
	v.Close()
	s.d.Interrupt(t, id)
	out := check.Await(t, s.w, id, "e1")
	require.Equal(t, signals.TurnInterrupted, out.Status, out.Error)
	require.Eventually(t, func() bool { return check.Newest(s.w, id).Type == event.TypeTurnEnded }, testenv.Patience, testenv.Tick)
	messages := s.w.Messages(id)
	require.Len(t, messages, 2)
	require.True(t, messages[1].Interrupted)
	require.Equal(t, "1 2 3 4 5", messages[1].Content, "what had been said is kept")
	gate.Release()
	s.d.Say(t, id, "e2", "hello again")
	require.Equal(t, signals.TurnCompleted, check.Await(t, s.w, id, "e2").Status, "the thread is usable")
}

func (s scenario) parallel(t *testing.T) {
	a, b := s.thread(t, "left"), s.thread(t, "right")
	gate := s.w.Provider.Block(2)
	defer gate.Release()
	s.d.Say(t, a, "e1", "count 5")
	<-gate.Reached()
	s.d.Say(t, a, "e2", "second")
	s.d.Say(t, b, "e1", "hello")
	require.Equal(t, signals.TurnCompleted, check.Await(t, s.w, b, "e1").Status, "one thread does not wait for another")
	gate.Release()
	require.Equal(t, signals.TurnCompleted, check.Await(t, s.w, a, "e2").Status)
	require.Equal(t, "user ann: count 5\nassistant assistant: 1 2 3 4 5\nuser ann: second\nassistant assistant: second\n",
		s.w.Transcript(a), "messages to one thread are answered one at a time, in order")
}

func hundred(t *testing.T, w *harness.Harness) {
	const n = 100
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprintf("crowd-%d", i)
			p := signals.UserMessage(id, "ann", "use note {}")
			p.ID = id + "-first"
			// A busy machine may not answer in time: the same post again is the same message.
			assert.Eventually(t, func() bool {
				_, err := w.Threads.PostOrOpen(w.Ctx(), id, signals.Start{}, p)
				return err == nil
			}, testenv.Patience, testenv.Tick, id)
		})
	}
	wg.Wait()
	for i := range n {
		check.AwaitMessages(w, fmt.Sprintf("crowd-%d", i), 4)
	}
}
