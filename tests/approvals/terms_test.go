package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTermsOfAsking covers expiry, reminders and quorums.
func TestTermsOfAsking(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	on := func(name string, terms approval.Terms) agent.Agent {
		return agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"spied", "note"}, ApprovalTerms: terms}
	}
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		on("brief", approval.Terms{Expires: time.Second}),
		on("touchy", approval.Terms{Expires: time.Second, OnExpiry: approval.OnExpiryInterrupt}),
		on("eager", approval.Terms{Expires: 10 * time.Second, Remind: time.Second}),
		on("calm", approval.Terms{Expires: time.Hour, Remind: time.Minute}),
		on("careful", approval.Terms{Approvers: []string{"ann", "ben", "cleo"}, Quorum: 2}),
	}})
	t.Run("what nobody decides on in time is denied", func(t *testing.T) { expiresDenied(t, o.talk(t, "brief")) })
	t.Run("or ends the turn", func(t *testing.T) { expiresInterrupts(t, o.talk(t, "touchy")) })
	t.Run("people are reminded until then", func(t *testing.T) { expiresReminded(t, o.talk(t, "eager")) })
	t.Run("a decision in time ends it all", func(t *testing.T) {
		c := o.talk(t, "calm")
		posted, q := c.asks("use spied {}")
		c.decides(signals.DecideAccepted, check.Approving(q))
		c.completes(posted)
		require.Equal(t, []string{`{}`}, argumentsSeen(s, c.id))
	})
	t.Run("two of three", func(t *testing.T) { quorumApproves(t, o.talk(t, "careful"), s) })
	t.Run("one denial denies", func(t *testing.T) {
		c := o.talk(t, "careful")
		posted, q := c.asks("use spied {}")
		c.decides(signals.DecideAccepted, check.Approving(q))
		d := check.Denying(q)
		d.By = "cleo"
		c.decides(signals.DecideAccepted, d)
		c.completes(posted)
		require.Empty(t, argumentsSeen(s, c.id))
		all := check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)
		require.Len(t, all, 2)
		require.Equal(t, "ann", check.Only(t, all[1].Votes).By, "the vote that it goes against is kept with it")
		d.By = "ben"
		c.decides(signals.DecideAlreadyResolved, d)
		d.Decision = event.DecisionApprove
		c.decides(signals.DecideConflict, d)
	})
	t.Run("several approve a call as it is, and no more", func(t *testing.T) {
		c := o.talk(t, "careful")
		posted, q := c.asks("use spied {}")
		for field, d := range map[string]signals.Decide{
			"scope": granting(q), "args": {ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, By: "ann", Args: json.RawMessage(`{"a":1}`)},
		} {
			_, err := c.Threads.Decide(c.Ctx(), c.id, d)
			require.ErrorContains(t, err, field+": ")
		}
		c.decides(signals.DecideAccepted, check.Denying(q))
		c.completes(posted)
	})
}

func expiresDenied(t *testing.T, c talk) {
	out, q := c.expires("use spied {}\nuse note {}")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, time.Second, q.ExpiresAt.Sub(q.RequestedAt))
	require.Equal(t, "Nobody has decided on this call within 1s. It was not run.", c.result(q).Content)
	require.Contains(t, c.lastShown(), "Nobody has decided on this call within 1s.", "the agent goes on, and knows")
	decided := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
	require.Equal(t, event.DecisionExpired, decided.Decision)
	require.Equal(t, "threadmill", decided.By)
	require.Equal(t, q.Digest, decided.Digest)
	require.False(t, decided.DecidedAt.Before(*q.ExpiresAt))
	check.RequireSettled(t, c.Harness, c.id)
}

func expiresInterrupts(t *testing.T, c talk) {
	out, q := c.expires("use spied {}\nuse note {}")
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Equal(t, "Nobody has decided on this call within 1s. It was not run.", c.result(q).Content)
	require.NotContains(t, c.lastShown(), "Nobody has decided on this call", "the model is not called again")
	require.Equal(t, event.DecisionExpired, check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)).Decision)
	check.RequireSettled(t, c.Harness, c.id)
	require.Equal(t, signals.TurnCompleted, c.Say(c.id, "hello").Status, "the thread goes on")
}

func expiresReminded(t *testing.T, c talk) {
	out, q := c.expires("use spied {}")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	want := []string{q.ToolCallID + ".request"}
	all := check.OfType(c.Harness, c.id, event.TypeApprovalRequest)
	for n, r := range all[1:] {
		want = append(want, fmt.Sprintf("%s.reminder.%d", q.ToolCallID, n+1))
		asked := harness.Payload[event.ApprovalRequest](c.Harness, r)
		require.Equal(t, n+1, asked.Reminder)
		asked.Reminder, asked.RequestedAt, asked.ExpiresAt = 0, q.RequestedAt, q.ExpiresAt
		require.Equal(t, q, asked, "it is the same request")
	}
	var ids []string
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	require.Equal(t, want, ids)
	// The next reminder is due a second after the last one, which may be late on a busy machine.
	require.GreaterOrEqual(t, len(all), 1+2, "a reminder, and another one")
	require.LessOrEqual(t, len(all), 1+9, "none after the end")
	require.Equal(t, event.DecisionExpired, check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)).Decision)
}

func quorumApproves(t *testing.T, c talk, s *check.Spy) {
	posted, q := c.asks("use spied {}")
	require.Equal(t, 2, q.Quorum)
	require.Equal(t, 1, c.decides(signals.DecideAccepted, check.Approving(q)).Missing)
	require.Equal(t, "ann", check.Only(t, c.AwaitApproval(c.id, 1)[0].Votes).By)
	require.Empty(t, argumentsSeen(s, c.id))
	d := check.Approving(q)
	d.By, d.Reason = "cleo", "looks well"
	require.Zero(t, c.decides(signals.DecideAccepted, d).Missing)
	c.completes(posted)
	require.Equal(t, []string{`{}`}, argumentsSeen(s, c.id))

	all := check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)
	require.Len(t, all, 2)
	require.Equal(t, 1, all[0].Missing, "a vote")
	require.Equal(t, "ann", all[0].By)
	require.Zero(t, all[1].Missing, "and the decision")
	require.Len(t, all[1].Votes, 2)
	require.Equal(t, []string{"ann", "cleo", "looks well"}, []string{all[1].Votes[0].By, all[1].Votes[1].By, all[1].Votes[1].Reason})
}

// TestTermsTightenedLater changes the approvers before an approved call runs.
func TestTermsTightenedLater(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}},
	}}).talk(t, "clerk")
	posted, q := c.asks("use spied {}")
	check.CallAPI(c.Harness, http.MethodPut, "/v1/agents/clerk", `{"model":"openai/stand-in","tools":["spied"],
		"approvalTerms":{"approvers":["ann","eve"],"quorum":2}}`, http.StatusCreated)
	d := check.Approving(q)
	d.By = "bob"
	c.decides(signals.DecideAccepted, d)
	next := c.again(q)
	require.Contains(t, next.Reason, "others have to approve it by now")
	require.Equal(t, []string{"ann", "eve"}, next.Approvers)
	require.Equal(t, 2, next.Quorum)
	require.Empty(t, s.Seen())
	d.Round = next.Round
	c.decides(signals.DecideNotAllowed, d)
	c.decides(signals.DecideAccepted, check.Approving(next))
	d.By = "eve"
	c.decides(signals.DecideAccepted, d)
	c.completes(posted)
	require.Len(t, s.Seen(), 1, "and nobody is asked a third time")
}

// TestGroupsOfApprovers: while a call waits, one joins the group and may approve, and another leaves it, whose approval no
// longer counts.
func TestGroupsOfApprovers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	finance := []string{"ann", "bob"}
	change := func(members ...string) {
		mu.Lock()
		defer mu.Unlock()
		finance = members
	}
	s := check.NewSpy("spied")
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Configure: func(cfg *threadmill.Config) {
		cfg.ApproverGroups = approval.GroupsFunc(func(_ context.Context, _, group string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if group != "finance" {
				return nil, approval.ErrNoGroup
			}
			return slices.Clone(finance), nil
		})
		cfg.ApprovalRules = []approval.Rule{{Name: "spending", Tools: []string{"spied"}, Effect: approval.EffectAsk, Terms: approval.Terms{Groups: []string{"finance"}, Quorum: 2}}}
	}}).talk(t)
	posted, q := c.asks("use spied {}")
	require.Equal(t, []string{"ann", "bob"}, q.Approvers)
	require.Equal(t, []string{"finance"}, q.Groups)
	by := func(name string, q event.ApprovalRequest) signals.Decide {
		d := check.Approving(q)
		d.By = name
		return d
	}
	c.decides(signals.DecideAccepted, by("ann", q))
	c.decides(signals.DecideNotAllowed, by("eve", q))
	change("bob", "eve")
	c.decides(signals.DecideAccepted, by("eve", q))
	next := c.again(q)
	require.Contains(t, next.Reason, "others have to approve it by now")
	require.Equal(t, []string{"bob", "eve"}, next.Approvers)
	require.Empty(t, s.Seen(), "ann has left the group")
	c.decides(signals.DecideNotAllowed, by("ann", next))
	c.decidesByHTTP(http.StatusOK, signals.DecideAccepted, by("bob", next))
	c.decidesByHTTP(http.StatusOK, signals.DecideAccepted, by("eve", next))
	c.completes(posted)
	require.Len(t, s.Seen(), 1)
}

// TestRulesOverArguments decides by rules over arguments.
func TestRulesOverArguments(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("pay")
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Configure: func(cfg *threadmill.Config) {
		cfg.ApprovalRules = []approval.Rule{
			{Name: "small", Tools: []string{"pay"}, When: `args.amount < 10`, Effect: approval.EffectAllow},
			{Name: "large", Tools: []string{"pay"}, When: `args.amount < 1000`, Effect: approval.EffectAsk, Reason: "it is a lot"},
			{Name: "huge", When: `has(args.amount) && args.amount >= 1000`, Effect: approval.EffectDeny, Reason: "nobody pays that"},
		}
	}})
	c := o.talk(t)
	t.Run("allowed: it runs unasked", func(t *testing.T) {
		c.runsUnasked(`use pay {"amount":5}`)
		require.Len(t, s.Seen(), 1)
	})
	t.Run("asks, and says why", func(t *testing.T) {
		posted, q := c.asks(`use pay {"amount":50}`)
		require.Equal(t, "it is a lot", q.Reason)
		c.decides(signals.DecideAccepted, check.Approving(q))
		c.completes(posted)
		require.Len(t, s.Seen(), 2)
	})
	t.Run("denied: nobody is asked, and the model hears why", func(t *testing.T) {
		c.runsUnasked(`use pay {"amount":1e3}`)
		require.Len(t, s.Seen(), 2)
		answers := check.ResultsOf(c.Harness, c.id, "pay")
		last := answers[len(answers)-1]
		require.Contains(t, last.Content, "nobody pays that")
		require.Contains(t, c.lastShown(), "nobody pays that")
		decided := check.Only(t, check.ApprovalsOf(c.Harness, c.id, last.ToolCallID))
		require.Equal(t, event.DecisionDeny, decided.Decision)
		require.Equal(t, "policy huge", decided.By)
		c.decides(signals.DecideConflict, signals.Decide{ToolCallID: last.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	})
	for _, arguments := range []string{`{}`, `{"amount":"5"}`, `{"amount":null}`, `{"Amount":5}`, `{"amount":[5]}`} {
		t.Run("S4-88 what cannot be evaluated asks: "+arguments, func(t *testing.T) {
			posted, q := c.asks("use pay " + arguments)
			require.Contains(t, q.Reason, `rule "small" cannot be evaluated, so a person decides`)
			c.decides(signals.DecideAccepted, check.Denying(q))
			c.completes(posted)
			require.Len(t, s.Seen(), 2)
		})
	}
}

// TestGrantCascades: approving one of several calls for the session runs the equal ones.
//
//ci:replayed
func TestGrantCascades(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	posted := c.post(`use spied {"n":1}`, `use spied {"n":1}`, `use spied {"n":2}`)
	waiting := c.AwaitApproval(c.id, 3)
	first, second, other := waiting[0], waiting[1], waiting[2]
	require.Equal(t, first.Digest, second.Digest)
	c.decides(signals.DecideAccepted, granting(first))
	require.Equal(t, other.ToolCallID, c.AwaitApproval(c.id, 1)[0].ToolCallID, "it is another call, and waits on")
	require.Eventually(t, func() bool { return len(check.Results(c.Harness, c.id)) == 2 }, testenv.Patience, testenv.Tick)
	require.Equal(t, []string{`{"n":1}`, `{"n":1}`}, argumentsSeen(s, c.id))
	covered := check.Only(t, check.ApprovalsOf(c.Harness, c.id, second.ToolCallID))
	require.Equal(t, first.ToolCallID, covered.Grant)
	require.Equal(t, "ann", covered.By)
	c.decides(signals.DecideAlreadyResolved, check.Approving(second))
	c.decides(signals.DecideConflict, check.Denying(second))
	c.decides(signals.DecideAccepted, check.Denying(other))
	c.completes(posted)
	require.Len(t, s.Seen(), 2)
}

// TestEditedArguments approves a call with other arguments.
func TestEditedArguments(t *testing.T) {
	t.Parallel()
	c := newOffice(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.ApprovalRules = []approval.Rule{{Name: "no removal", When: `args.command.contains("rm ")`, Effect: approval.EffectDeny, Reason: "nothing is removed"}}
	}}).talk(t)
	const stored, edited = `{"command":"echo stored | tee -a out"}`, `{"command":"echo edited | tee -a out"}`
	posted, q := c.asks("use shell_cmd " + stored)
	edit := func(args string) signals.Decide {
		d := check.Approving(q)
		d.Args = json.RawMessage(args)
		return d
	}
	t.Run("what does not fit, or is denied, is refused, and the call waits", func(t *testing.T) {
		for args, why := range map[string]string{
			`{}`: "command", `{"command":7}`: "must be a string", `{"command":"rm -r x"}`: "nothing is removed",
		} {
			_, err := c.Threads.Decide(c.Ctx(), c.id, edit(args))
			require.ErrorContains(t, err, "args: ")
			require.ErrorContains(t, err, why)
			c.undecided(q)
		}
	})
	c.decides(signals.DecideAccepted, edit(edited))
	c.completes(posted)
	t.Run("they run in the place of its own", func(t *testing.T) {
		require.Equal(t, "edited\n", check.Made(c.Harness, "out"))
		log := check.Only(t, check.ToolLogs(c.Harness, c.id))
		require.JSONEq(t, edited, string(log.Input))
		require.Equal(t, store.ToolSucceeded, log.Status)
	})
	t.Run("the message keeps the call as it was made", func(t *testing.T) {
		require.Equal(t, stored, check.Only(t, c.Messages(c.id)[1].ToolCalls).Function.Arguments)
	})
	t.Run("the records have both", func(t *testing.T) {
		asked := harness.Payload[event.ApprovalRequest](c.Harness, check.Only(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest)))
		require.Equal(t, stored, asked.Arguments)
		decided := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
		require.Equal(t, edited, decided.Arguments)
		digest, err := approval.Call{Tool: "shell_cmd", Arguments: edited, WorkingDirectory: q.WorkingDirectory}.Digest()
		require.NoError(t, err)
		require.Equal(t, digest, decided.Digest, "of what was decided on")
		require.NotEqual(t, asked.Digest, decided.Digest)
	})
	t.Run("the model is told", func(t *testing.T) {
		require.Contains(t, c.result(q).Content, "A person has changed the arguments of this call to "+edited)
		require.Contains(t, check.ModelCalls(c.Harness)[1].Messages[len(check.ModelCalls(c.Harness)[1].Messages)-1].Content, edited)
	})
	t.Run("nothing else is granted", func(t *testing.T) {
		c.denied("use shell_cmd " + stored)
		c.denied("use shell_cmd " + edited)
		require.Equal(t, "edited\n", check.Made(c.Harness, "out"))
	})
	t.Run("over the API", func(t *testing.T) {
		posted, q := c.asks("use shell_cmd " + stored)
		status, out := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/approvals/"+q.ToolCallID,
			map[string]any{"by": "ann", "decision": "approve", "args": json.RawMessage(edited)})
		require.Equal(t, http.StatusOK, status, out)
		c.completes(posted)
		require.Equal(t, "edited\nedited\n", check.Made(c.Harness, "out"))
	})
}
