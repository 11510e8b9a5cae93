package approvals

import (
	"cmp"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestDecidedBesideAPendingCall decides on one of two calls. Viewers see the decision while the
// other call waits, and the agent continues once both have results.
func TestDecidedBesideAPendingCall(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	on := func(name string, terms approval.Terms) agent.Agent {
		return agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"spied", "photo"}, ApprovalTerms: terms}
	}
	o := newOffice(t, harness.Options{NoWorker: true, Tools: append(check.ClientTools(), s), Agents: []agent.Agent{
		on("plain", approval.Terms{}), on("brief", approval.Terms{Expires: 3 * time.Second}), on("several", approval.Terms{Quorum: 2}),
	}})
	stop := o.StartWorker()
	restart := func(talk) {
		stop()
		stop = o.StartWorker()
	}
	// move makes the thread continue as new, once its history is long enough.
	move := func(c talk) {
		begun := check.CurrentRun(c.Harness, c.id)
		for check.CurrentRun(c.Harness, c.id) == begun {
			for range 100 {
				c.signals(signals.SignalControl, signals.Control{Action: "dance"})
			}
			c.rests()
		}
	}
	both := []event.AgentEventType{event.EventApproval, event.EventToolResult}
	for _, tc := range []struct {
		name, agent string
		before      func(talk)
		decide      func(c talk, q event.ApprovalRequest)
		shown       []event.AgentEventType
		ran         string
	}{
		{name: "denied", decide: func(c talk, q event.ApprovalRequest) { c.decides(signals.DecideAccepted, check.Denying(q)) }, shown: both},
		{name: "approved", decide: func(c talk, q event.ApprovalRequest) {
			c.decidesByHTTP(http.StatusOK, signals.DecideAccepted, check.Approving(q))
		}, shown: both, ran: `{"n":1}`},
		{name: "denied by signal", decide: func(c talk, q event.ApprovalRequest) { c.signals(signals.SignalDecide, check.Denying(q)) }, shown: both},
		{name: "edited", shown: both, ran: `{"n":9}`, decide: func(c talk, q event.ApprovalRequest) {
			d := check.Approving(q)
			d.Args = json.RawMessage(`{"n":9}`)
			c.decides(signals.DecideAccepted, d)
		}},
		{name: "one of several, by update", agent: "several", shown: both[:1], decide: func(c talk, q event.ApprovalRequest) { c.decides(signals.DecideAccepted, check.Approving(q)) }},
		{name: "one of several, by signal", agent: "several", shown: both[:1], decide: func(c talk, q event.ApprovalRequest) { c.signals(signals.SignalDecide, check.Approving(q)) }},
		{name: "denied after a restart", before: restart, shown: both, decide: func(c talk, q event.ApprovalRequest) { c.decides(signals.DecideAccepted, check.Denying(q)) }},
		{name: "denied while no worker runs", shown: both, decide: func(c talk, q event.ApprovalRequest) {
			stop()
			c.signals(signals.SignalDecide, check.Denying(q))
			stop = o.StartWorker()
		}},
		{name: "denied after the thread has moved", before: move, shown: both, decide: func(c talk, q event.ApprovalRequest) { c.decides(signals.DecideAccepted, check.Denying(q)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := o.talk(t, cmp.Or(tc.agent, "plain"))
			viewer := check.Watch(t, c.Harness, c.id, "")
			posted := c.post(`use spied {"n":1}`, `use spied {"n":2}`)
			asked := c.AwaitApproval(c.id, 2)
			c.rests()
			if tc.before != nil {
				tc.before(c)
			}
			tc.decide(c, asked[0])
			viewer.Shows(t, asked[0].ToolCallID, tc.shown...)
			check.Watch(t, c.Harness, c.id, "").Shows(t, asked[0].ToolCallID, tc.shown...)
			waiting := c.AwaitApproval(c.id, 3-len(tc.shown))
			require.Equal(t, asked[1].ToolCallID, waiting[len(waiting)-1].ToolCallID, "the other waits")
			if tc.ran != "" {
				require.Equal(t, []string{tc.ran}, argumentsSeen(s, c.id))
			}
			for _, q := range waiting {
				c.decides(signals.DecideAccepted, check.Denying(q))
			}
			c.completes(posted)
			require.Len(t, check.OfType(c.Harness, c.id, event.TypeLLMCall), 2, "the agent goes on once")
			check.RequireSettled(t, c.Harness, c.id)
		})
	}
	t.Run("expired", func(t *testing.T) {
		c := o.talk(t, "brief")
		viewer := check.Watch(t, c.Harness, c.id, "")
		posted := c.post(`use spied {"n":1}`, `use photo {}`)
		call := c.awaitClient(1)[0]
		asked := harness.Payload[event.ApprovalRequest](c.Harness, check.Only(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest)))
		viewer.Shows(t, asked.ToolCallID, both...)
		require.Len(t, c.awaitClient(1), 1, "the other waits")
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a desk"})
		c.completes(posted)
	})
	t.Run("answered by a client", func(t *testing.T) {
		c := o.talk(t, "plain")
		viewer := check.Watch(t, c.Harness, c.id, "")
		posted := c.post(`use spied {"n":1}`, `use photo {}`)
		call, asked := c.awaitClient(1)[0], c.AwaitApproval(c.id, 1)[0]
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a desk"})
		viewer.Shows(t, call.ToolCallID, event.EventToolResult)
		c.decides(signals.DecideAccepted, check.Denying(asked))
		c.completes(posted)
	})
	t.Run("an approval from before is revoked", func(t *testing.T) {
		c := o.talk(t, "plain")
		posted, q := c.asks(`use spied {"n":1}`)
		c.decides(signals.DecideAccepted, granting(q))
		c.completes(posted)
		viewer := check.Watch(t, c.Harness, c.id, "")
		viewer.Shows(t, q.ToolCallID, both...)
		posted, other := c.asks(`use spied {"n":2}`)
		c.signals(signals.SignalRevoke, signals.Revoke{ToolCallID: q.ToolCallID, By: "ann"})
		viewer.Shows(t, q.ToolCallID, event.EventApproval)
		c.decides(signals.DecideAccepted, check.Denying(other))
		c.completes(posted)
	})
}
