package approvals

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// deploys are the rules of a tool: anyone may approve the test system, only the boss the real one,
// and two people together all systems.
func deploys() []approval.Rule {
	on := func(where string, terms approval.Terms) approval.Rule {
		return approval.Rule{Name: where, Tools: []string{"deploy"}, When: `args.to == "` + where + `"`, Effect: approval.EffectAsk, Terms: terms}
	}
	return []approval.Rule{
		on("real", approval.Terms{Approvers: []string{"boss"}}), on("all", approval.Terms{Quorum: 2}),
	}
}

// TestApprovalReachesNoFurtherThanItsApprover: an approval does not cover a call that its approver
// could not have approved.
func TestApprovalReachesNoFurtherThanItsApprover(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("deploy", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"deploy"}, ApprovalRules: deploys()},
	}})
	to := func(where string) string { return `use deploy {"to":"` + where + `"}` }
	t.Run("by a pattern", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asks(to("test"))
		d := check.Approving(q)
		d.Scope, d.Pattern = event.ScopePattern, map[string]string{"to": "*"}
		c.decides(signals.DecideAccepted, d)
		c.completes(posted)
		c.runsUnasked(to("another test"))

		posted, q = c.asks(to("real"))
		c.decides(signals.DecideNotAllowed, check.Approving(q))
		boss := check.Denying(q)
		boss.By = "boss"
		c.decides(signals.DecideAccepted, boss)
		c.completes(posted)
		posted, q = c.asks(to("all"))
		require.Equal(t, 2, q.Quorum)
		c.decides(signals.DecideAccepted, check.Denying(q))
		c.completes(posted)
		require.Equal(t, []string{`{"to":"test"}`, `{"to":"another test"}`}, argumentsSeen(s, c.id))
	})
	t.Run("by a cascade", func(t *testing.T) {
		c := o.talk(t)
		posted := c.post(to("test"), to("real"), to("all"), to("test 2"))
		waiting := map[string]event.ApprovalRequest{}
		for _, q := range c.AwaitApproval(c.id, 4) {
			waiting[q.Arguments] = q
		}
		d := check.Approving(waiting[`{"to":"test"}`])
		d.Scope, d.Pattern = event.ScopePattern, map[string]string{"to": "*"}
		c.decides(signals.DecideAccepted, d)
		for _, q := range c.AwaitApproval(c.id, 2) {
			require.Contains(t, []string{`{"to":"real"}`, `{"to":"all"}`}, q.Arguments)
			no := check.Denying(q)
			no.By = "boss"
			c.decides(signals.DecideAccepted, no)
		}
		c.completes(posted)
		require.ElementsMatch(t, []string{`{"to":"test"}`, `{"to":"test 2"}`}, argumentsSeen(s, c.id))
	})
	for _, where := range []string{"real", "all"} {
		t.Run("by other arguments: "+where, func(t *testing.T) {
			c := o.talk(t)
			posted, q := c.asks(to("test"))
			d := check.Approving(q)
			d.Args = json.RawMessage(`{"to":"` + where + `"}`)
			_, err := c.Threads.Decide(c.Ctx(), c.id, d)
			require.ErrorContains(t, err, "args: ")
			c.undecided(q)
			c.decides(signals.DecideAccepted, check.Denying(q))
			c.completes(posted)
			require.Empty(t, argumentsSeen(s, c.id))
		})
	}
}

// TestTermsBecomeStricter changes the approvers after a call was approved or granted.
func TestTermsBecomeStricter(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("deploy", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"deploy"}},
	}}).talk(t, "clerk")
	const call = `use deploy {"to":"test"}`
	posted, q := c.asks(call)
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)
	c.runsUnasked(call)
	check.CallAPI(c.Harness, http.MethodPut, "/v1/agents/clerk",
		`{"model":"openai/stand-in","tools":["deploy"],"approvalTerms":{"approvers":["boss"]}}`, http.StatusCreated)
	posted, q = c.asks(call)
	require.Equal(t, []string{"boss"}, q.Approvers, "what ann has granted is not for her to grant any more")
	boss := granting(q)
	boss.By = "boss"
	c.decides(signals.DecideAccepted, boss)
	c.completes(posted)
	c.runsUnasked(call)
	require.Len(t, s.Seen(), 4)
}

// TestEditedCallsOfEveryKind edits calls that run outside a tool activity: the model sees the
// arguments that ran.
//
//ci:replayed
func TestEditedCallsOfEveryKind(t *testing.T) {
	t.Parallel()
	agents := check.Team("chore")
	agents[0].Approvals = map[string]agent.Policy{"call-agent": agent.PolicyAlways}
	chore := check.NewSpy("chore", tool.Background(), tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Agents: agents, Tools: []tool.Tool{chore}})
	edits := func(c talk, line, args string) event.Message {
		c.t.Helper()
		posted, q := c.asks(line)
		d := check.Approving(q)
		d.Args = json.RawMessage(args)
		c.decides(signals.DecideAccepted, d)
		c.completes(posted)
		require.Equal(c.t, args, check.Only(c.t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)).Arguments)
		return c.result(q)
	}
	const told = "A person has changed the arguments of this call to "
	t.Run("a background task", func(t *testing.T) {
		c := o.talk(t)
		got := edits(c, `use chore {"n":1}`, `{"n":2}`)
		require.Eventually(t, func() bool { return len(chore.Seen()) == 1 }, testenv.Patience, testenv.Tick)
		require.Equal(t, []string{`{"n":2}`}, argumentsSeen(chore, c.id))
		require.Contains(t, got.Content, told+`{"n":2}`)
	})
	t.Run("a sub-agent", func(t *testing.T) {
		c := o.talk(t)
		const edited = `{"agent":"helper","message":"say edited"}`
		got := edits(c, check.Asks("helper", "say stored"), edited)
		require.Contains(t, got.Content, "say edited", "what it was asked")
		require.NotContains(t, got.Content, "say stored")
		require.Contains(t, got.Content, told+edited)
	})
}

// TestAgentsAboveDecideNothing: an agent cannot approve calls of its sub-agent.
func TestAgentsAboveDecideNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{Agents: check.Team()})
	for name, agents := range map[string][]string{"the default agent": nil, "an agent by name": {"assistant", "manager"}} {
		t.Run(name, func(t *testing.T) {
			c := o.talk(t, agents...)
			posted, q := c.asks("@assistant", check.Asks("helper", check.Touches(c.id)))
			for _, by := range []string{"assistant", "Assistant", "helper"} {
				d := check.Approving(q)
				d.By = by
				c.decides(signals.DecideNotAllowed, d)
				talk{o, t, check.Sub(c.Harness, c.id, 1)}.decides(signals.DecideNotAllowed, d)
			}
			c.undecided(q)
			c.decides(signals.DecideAccepted, check.Denying(q))
			c.completes(posted)
			require.Empty(t, check.Made(c.Harness, c.id))
		})
	}
}
