package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// judge has somebody decide on a call that waits, who may or may not.
func (m *machine) judge() {
	if all := m.s.Approvals(); len(all) > 0 {
		by := []string{"ann", "ann", "bea", "bea", "eve", "alice", "BOB"}[m.rnd.IntN(7)]
		m.rule(all[m.rnd.IntN(len(all))], by, []event.Decision{event.DecisionApprove, event.DecisionApprove, event.DecisionDeny}[m.rnd.IntN(3)])
	}
	m.goOn()
}

// rule is a decision that is right in all but who makes it.
func (m *machine) rule(q event.ApprovalRequest, by string, what event.Decision) {
	c := m.crowd
	d := signals.Decide{ToolCallID: q.ToolCallID, Decision: what, By: by, Round: q.Round, Digest: q.Digest, ToolName: q.ToolName, Agent: q.Agent}
	checked := step.CheckReply{}
	switch {
	case what == event.DecisionDeny || q.Quorum > 1:
	case m.one(4):
		d.Args = json.RawMessage(`{"command":"cat"}`)
		checked.Guard = &step.Guard{Digest: "digest of cat", Definition: "definition"}
	case m.one(2):
		d.Scope = event.ScopeSession
	}
	agent := slices.ContainsFunc(append([]string{q.Agent}, m.s.Roster.Agents...), func(name string) bool { return strings.EqualFold(name, by) })
	want := signals.DecideAccepted
	switch {
	case m.late(q):
		want = signals.DecideConflict
	case agent || len(q.Approvers) > 0 && !slices.Contains(q.Approvers, by):
		want = signals.DecideNotAllowed
	case what == event.DecisionApprove && q.Quorum > 1 && c.votes[q.ToolCallID][by]:
		want = signals.DecideAlreadyResolved
	}
	require.Equal(m.t, want, m.s.ReadDecision(d).Apply(m.now, checked).Result)
	if want != signals.DecideAccepted {
		return
	}
	c.made = append(c.made, d)
	if what == event.DecisionApprove {
		c.votes[q.ToolCallID][by] = true
		c.approved[q.ToolCallID] = len(c.votes[q.ToolCallID]) >= q.Quorum
	}
}

// late reports whether people have had their time to decide on a call.
func (m *machine) late(q event.ApprovalRequest) bool {
	return q.ExpiresAt != nil && !q.ExpiresAt.After(m.now)
}

// misjudge has somebody decide wrongly: on no call that waits, on another, or once more.
func (m *machine) misjudge() {
	before := asJSON(m.t, m.s)
	d := signals.Decide{ToolCallID: fmt.Sprintf("c%d", m.rnd.IntN(m.calls+2)), Decision: event.DecisionApprove, By: "ann"}
	if made := m.crowd.made; len(made) > 0 && m.one(2) {
		d = made[m.rnd.IntN(len(made))]
	}
	if q := slices.IndexFunc(m.s.Approvals(), func(q event.ApprovalRequest) bool { return q.ToolCallID == d.ToolCallID }); q >= 0 {
		if m.late(m.s.Approvals()[q]) {
			return
		}
		d.Scope, d.Round = "", max(m.s.Approvals()[q].Round, 1)
		wrong := []func(){
			func() { d.Round++ }, func() { d.ToolName = "other" }, func() { d.Digest = "other" }, func() { d.Agent = "dora" },
			func() { d.ToolArgs = json.RawMessage(`{"command":"other"}`) }, func() { d.Args = json.RawMessage(`{"command":"unchecked"}`) },
		}
		wrong[m.rnd.IntN(len(wrong))]()
	}
	require.NotEqual(m.t, signals.DecideAccepted, m.s.decideUnchecked(m.now, d), "%+v", d)
	require.Equal(m.t, before, asJSON(m.t, m.s), "S4-91 it changes nothing")
}

// client has a connected client answer, or somebody who is not asked.
func (m *machine) client() {
	res := signals.ToolResult{ToolCallID: fmt.Sprintf("c%d", m.rnd.IntN(m.calls+1)), By: "editor", IsError: m.one(3)}
	all := m.s.Turns.ClientCalls()
	waits := slices.ContainsFunc(all, func(c event.ClientCall) bool { return c.ToolCallID == res.ToolCallID })
	if len(all) > 0 && m.one(2) {
		res.ToolCallID, waits = all[0].ToolCallID, true
	}
	require.Equal(m.t, waits, m.s.ReadResult(res).Apply(m.now) == signals.DecideAccepted)
	m.goOn()
}

// lookAgain looks at calls that a new grant may cover.
func (m *machine) lookAgain() {
	t := m.s.Turns.Cascading()
	if t == nil {
		return
	}
	r := t.NextCascade()
	require.NotNil(m.t, r)
	in := r.CascadeStep()
	m.flush(in.Flush)
	t.Cascaded()
	var reply step.PlanReply
	for _, id := range in.Only {
		p := careful(id, "ls", step.ApprovalPlan{})
		waits := slices.ContainsFunc(m.s.Approvals(), func(q event.ApprovalRequest) bool { return q.ToolCallID == id })
		if m.one(2) {
			p = covered(id, "ls", "c0")
			m.crowd.needs[id] = m.crowd.needs[id] && !waits
		}
		reply.Calls = append(reply.Calls, p)
	}
	r.Cover(m.now, reply)
	m.goOn()
}
