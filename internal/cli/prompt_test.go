package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// asks records an approval request.
func (w *world) asks(r event.ApprovalRequest) {
	r.ToolName, r.Arguments, r.Agent = "shell_cmd", `{}`, "demo"
	w.record(event.AgentEvent{Type: event.EventApprovalRequest, Request: &r})
}

func (w *world) decides(a event.Approval) {
	a.ToolName = "shell_cmd"
	w.record(event.AgentEvent{Type: event.EventApproval, Approval: &a})
}

func (w *world) said(call string) signals.Decide {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.decisions[call]
}

const question = "Allow? [y]es once / [s]ession / [n]o / reason\n"

func TestChatAsks(t *testing.T) {
	t.Run("S4-80 for the session, about what was shown", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		w.asks(event.ApprovalRequest{ToolCallID: "c1", Digest: "sha256:1"})
		p.shows("shell_cmd {} wants to run. " + question + "allow? › ")
		p.types("s\n")
		require.NoError(t, w.await(t.Context(), func() bool { return w.decisions["c1"].By != "" }))
		require.Equal(t, signals.Decide{
			ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann", Agent: "demo", ToolName: "shell_cmd", Digest: "sha256:1",
		}, w.said("c1"))
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann"})
		p.shows("✓ shell_cmd approved by ann for the session\n")
		p.types("/quit\n")
		p.exits(exitOK)
	})
	t.Run("S4-79 anew, in another round", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		w.asks(event.ApprovalRequest{ToolCallID: "c1"})
		p.shows("wants to run. " + question)
		p.types("y\n")
		require.NoError(t, w.await(t.Context(), func() bool { return w.decisions["c1"].By != "" }))
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann"})
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionRevoked, By: "bob"})
		p.shows("was revoked by bob")
		w.asks(event.ApprovalRequest{ToolCallID: "c1", Round: 2})
		p.shows("shell_cmd {} wants to run, asked again (round 2). " + question)
		p.types("yes\n")
		require.NoError(t, w.await(t.Context(), func() bool { return w.decisions["c1"].Round == 2 }))
		p.types("/quit\n")
		p.exits(exitOK)
	})
	t.Run("though another has voted, and not again once this one has", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		two := event.ApprovalRequest{ToolCallID: "c1", Quorum: 3}
		w.asks(two)
		p.shows("(0 of 3 have approved). " + question)
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, By: "bob", Missing: 2})
		p.shows("✓ shell_cmd approved by bob, 2 more to approve\nallow? › ")
		p.types("y\n")
		require.NoError(t, w.await(t.Context(), func() bool { return w.decisions["c1"].By != "" }))
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann", Missing: 1})
		two.Reminder, two.Votes = 1, []event.Vote{{By: "bob"}, {By: "ann"}}
		w.asks(two)
		p.shows("? shell_cmd {} still waits, reminder 1 (2 of 3 have approved: bob, ann)\n")
		w.change(func() { w.waiting = []event.ApprovalRequest{two} })
		p.types("/approvals\n")
		p.shows("1 waiting, for others\n")
		require.Equal(t, 1, strings.Count(p.out.String(), question))
		p.types("/quit\n")
		p.exits(exitOK)
	})
	t.Run("S4-77 and reminds", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		w.asks(event.ApprovalRequest{ToolCallID: "c1"})
		p.shows("wants to run. " + question)
		w.asks(event.ApprovalRequest{ToolCallID: "c1", Reminder: 1})
		p.shows("shell_cmd {} still waits, reminder 1. " + question)
		w.decides(event.Approval{ToolCallID: "c1", Decision: event.DecisionExpired})
		p.shows("✗ shell_cmd expired: no decision in time\n› ")
		p.types("hello\n")
		p.shows("you said: hello")
		p.types("/quit\n")
		p.exits(exitOK)
		require.Empty(t, w.said("c1").By, "it was no answer any more")
	})
	t.Run("S4-77 on coming back, and shows what waits for a client", func(t *testing.T) {
		w := newWorld(t)
		w.state.Turn = &signals.TurnState{}
		w.approvals.calls = []event.ClientCall{photo}
		p := w.start(true, "chat", "t1")
		p.shows("? camera {} waits for a client to run it (until 2026-01-02 04:04:05)\n")
		p.types("/approvals\n")
		p.shows("1 waiting, for others\n")
		p.types("/quit\n")
		p.exits(exitOK)
	})
	t.Run("S4-95 whoever may not decide is told", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		w.asks(event.ApprovalRequest{ToolCallID: "boss", Approvers: []string{"bob"}})
		p.shows("(for bob to decide). " + question)
		p.types("y\n")
		p.shows(`ann may not decide on tool call "boss"`)
		p.types("/quit\n")
		p.exits(exitOK)
	})
}
