package approvals

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// clerk is an agent whose model sees few messages besides those of the running turn.
func clerk(window int, tools ...string) []agent.Agent {
	return []agent.Agent{{Name: "clerk", Model: "openai/stand-in", Tools: tools, Limits: agent.Limits{ContextMessages: window}}}
}

// shownCall returns the call and the result in the last model call.
func (c talk) shownCall(id string) (called, answered bool) {
	c.t.Helper()
	calls := check.ModelCalls(c.Harness)
	for _, m := range calls[len(calls)-1].Messages {
		answered = answered || m.Role == event.RoleTool && m.ToolCallID == id && !strings.Contains(m.Content, llm.NoResult)
		for _, call := range m.ToolCalls {
			called = called || call.ID == id
		}
	}
	return called, answered
}

// TestApprovedCallStaysInItsTurn: more messages than the model sees are answered while a call waits.
// Then the call runs, and the model of its turn knows it.
func TestApprovedCallStaysInItsTurn(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(event.ApprovalRequest) signals.Decide{"once": check.Approving, "for the session": granting} {
		t.Run(name, func(t *testing.T) {
			s := check.NewSpy("spied", tool.NeedsApproval(""))
			c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: clerk(100, "spied")}).talk(t)
			first, q := c.asks("use spied {}\nthen\nthe first is done")
			second := c.post("use spied {\"n\":2}\nthen\nthe second is done")
			waiting := c.AwaitApproval(c.id, 2)
			other := waiting[0]
			if other.ToolCallID == q.ToolCallID {
				other = waiting[1]
			}
			for i := range 101 {
				out := c.Say(c.id, fmt.Sprintf("message %d", i))
				require.Equal(t, signals.TurnCompleted, out.Status)
			}
			for _, end := range []struct {
				q      event.ApprovalRequest
				posted string
				says   string
			}{{other, second, "the second is done"}, {q, first, "the first is done"}} {
				c.decides(signals.DecideAccepted, decide(end.q))
				out := check.Await(t, c.Harness, c.id, end.posted)
				require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
				require.Equal(t, "spied returned: seen\n"+end.says, out.Message.Content)
				called, answered := c.shownCall(end.q.ToolCallID)
				require.True(t, called, "the model is shown its call")
				require.True(t, answered, "and its result")
			}
			require.Len(t, s.Seen(), 2, "each call ran once")
			require.Len(t, check.OfType(c.Harness, c.id, event.TypeLLMCall), 101+4)
			check.RequireSettled(t, c.Harness, c.id)
		})
	}
}

// TestTurnIsLongerThanItsWindow: a turn with more messages than the model sees.
func TestTurnIsLongerThanItsWindow(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied")
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: clerk(3, "spied")}).talk(t)
	c.Say(c.id, "an earlier message")
	var lines []string
	for i := range 8 {
		lines = append(lines, fmt.Sprintf(`use spied {"n":%d}`, i), fmt.Sprintf(`use spied {"m":%d}`, i), "then")
	}
	out := c.Say(c.id, strings.Join(append(lines, "all done"), "\n"))
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Contains(t, out.Message.Content, "all done")
	require.Len(t, s.Seen(), 16, "no call was repeated")
	require.Len(t, check.OfType(c.Harness, c.id, event.TypeLLMCall), 1+9)
	for _, call := range s.Seen() {
		called, answered := c.shownCall(call.ID)
		require.True(t, called && answered, "the model is shown all of the turn")
	}
	require.NotContains(t, c.lastShown(), "an earlier message")
	check.RequireSettled(t, c.Harness, c.id)
}

// TestSteeredMessageStaysInItsTurn: a message that joined the turn is part of it.
func TestSteeredMessageStaysInItsTurn(t *testing.T) {
	t.Parallel()
	g := check.NewGate("held")
	s := check.NewSpy("spied")
	c := newOffice(t, harness.Options{Tools: []tool.Tool{g, s}, Agents: clerk(1, "held", "spied")}).talk(t)
	posted := c.post("use held {}")
	<-g.Reached
	steers := check.Message(c.id, "steers", "use spied {}\nthen\nuse spied {\"n\":2}\nthen\nboth done")
	steers.OnBusy = event.OnBusySteer
	_, err := c.Threads.Post(c.Ctx(), c.id, steers)
	require.NoError(t, err)
	g.Release()
	c.completes(posted)
	require.Len(t, s.Seen(), 2)
	require.Contains(t, c.lastShown(), "both done", "the message that joined is shown")
	require.Contains(t, c.lastShown(), "use held {}", "and the one before it")
	check.RequireSettled(t, c.Harness, c.id)
}
