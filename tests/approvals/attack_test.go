package approvals

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestDecisionsFromElsewhere decides on a call in threads where it does not wait.
func TestDecisionsFromElsewhere(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c, other := o.talk(t), o.talk(t)
	_, q := c.asks(`use spied {}`)
	other.Say(other.id, "hello")

	t.Run("S4-91 in another thread", func(t *testing.T) {
		for _, d := range []signals.Decide{check.Approving(q), check.Denying(q), granting(q)} {
			other.decides(signals.DecideNotPending, d)
			other.decidesByHTTP(http.StatusNotFound, signals.DecideNotPending, d)
			other.signals(signals.SignalDecide, d)
		}
		require.Equal(t, []string{"not_pending", "not_pending", "not_pending"}, other.audited(3))
		require.Empty(t, check.OfType(c.Harness, other.id, event.TypeApproval))
		other.denied(`use spied {}`)
	})
	t.Run("S4-91 in a thread of the same name in another namespace, over the same store", func(t *testing.T) {
		elsewhere := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Configure: func(cfg *threadmill.Config) { cfg.Store = o.Store }})
		elsewhere.Store = o.Store
		twin := talk{elsewhere, t, c.id}
		_, err := twin.Threads.Decide(twin.Ctx(), twin.id, check.Approving(q))
		require.ErrorIs(t, err, signals.ErrThreadNotFound)
		require.NoError(t, twin.Threads.Open(twin.Ctx(), twin.id, signals.Start{}, nil))
		twin.decides(signals.DecideNotPending, check.Approving(q))
		twin.decidesByHTTP(http.StatusNotFound, signals.DecideNotPending, check.Approving(q))
		c.undecided(q)
	})
	c.undecided(q)
	require.Empty(t, s.Seen())
}

// TestGrantsOfOtherNamespaces: a grant does not cover the same call by the same agent in a thread
// of the same name in another namespace.
func TestGrantsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {}`)
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)

	elsewhere := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Configure: func(cfg *threadmill.Config) { cfg.Store = o.Store }})
	elsewhere.Store = o.Store
	twin := talk{elsewhere, t, c.id}
	require.NoError(t, twin.Threads.Open(twin.Ctx(), twin.id, signals.Start{}, nil))
	posted, again := twin.asks(`use spied {}`)
	require.Equal(t, q.Digest, again.Digest)
	twin.decides(signals.DecideAccepted, check.Denying(again))
	twin.completes(posted)
	require.Len(t, s.Seen(), 1)
	c.runsUnasked(`use spied {}`)
}

// TestSwappedCalls decides on a call with the description of another one.
func TestSwappedCalls(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"spied"}}, {Name: "bob", Model: "openai/stand-in", Tools: []string{"spied"}},
	}})
	c := o.talk(t, "alice", "bob")
	posted, q := c.asks("@alice", `use spied {"path":"/tmp/x","n":1}`)
	for name, swap := range map[string]func(*signals.Decide){
		"S4-92 another agent's name":    func(d *signals.Decide) { d.Agent = "bob" },
		"S4-92 nobody's name":           func(d *signals.Decide) { d.Agent = "carol" },
		"another tool":                  func(d *signals.Decide) { d.ToolName = "note" },
		"another directory":             func(d *signals.Decide) { d.WorkingDirectory = "/" },
		"another digest":                func(d *signals.Decide) { d.Digest = "sha256:" + strings.Repeat("0", 64) },
		"another round":                 func(d *signals.Decide) { d.Round = 2 },
		"S4-93 X12 other arguments":     func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"path":"/etc/passwd","n":1}`) },
		"S4-93 fewer arguments":         func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"path":"/tmp/x"}`) },
		"S4-93 no arguments":            func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{}`) },
		"S4-93 more arguments":          func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"path":"/tmp/x","n":1,"f":true}`) },
		"S4-93 text for a number":       func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"path":"/tmp/x","n":"1"}`) },
		"S4-93 arguments that are none": func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`7`) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []signals.Decide{check.Approving(q), check.Denying(q)} {
				swap(&d)
				c.decides(signals.DecideMismatch, d)
				c.decidesByHTTP(http.StatusConflict, signals.DecideMismatch, d)
			}
			c.undecided(q)
		})
	}
	t.Run("S4-92 S4-93 all that is right is no mismatch, and runs as it was stored", func(t *testing.T) {
		d := check.Approving(q)
		d.Agent, d.ToolName, d.Digest, d.ToolArgs = "Alice", "Spied", q.Digest, json.RawMessage(`{ "n": 1, "path": "/tmp/x" }`)
		c.decides(signals.DecideAccepted, d)
		c.completes(posted)
		require.JSONEq(t, `{"path":"/tmp/x","n":1}`, check.Only(t, argumentsSeen(s, c.id)))
		require.Equal(t, "alice", check.Only(t, s.Seen()).Agent, "S4-92 the other agent never runs it")
	})
}

// TestReplayedDecision repeats the decision of the first round in the second.
func TestReplayedDecision(t *testing.T) {
	t.Parallel()
	s := newRedefined("spied", nil)
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	posted, q := c.asks(`use spied {}`)
	s.redefine(func(d *tool.Definition) { d.Description = "Does something else." })
	c.decides(signals.DecideAccepted, check.Approving(q))
	next := c.again(q)
	require.Equal(t, 2, next.Round)
	require.Empty(t, s.Seen())
	c.decides(signals.DecideMismatch, check.Approving(q))
	c.decides(signals.DecideMismatch, granting(q))
	c.decidesByHTTP(http.StatusConflict, signals.DecideMismatch, check.Approving(q))
	c.signals(signals.SignalDecide, check.Approving(q))
	c.signals(signals.SignalDecide, check.Denying(q))
	ahead := check.Approving(q)
	ahead.Round = 3
	c.decides(signals.DecideMismatch, ahead)
	require.Equal(t, 2, c.AwaitApproval(c.id, 1)[0].Round, "it waits as before")
	c.decides(signals.DecideAccepted, check.Approving(next))
	c.decides(signals.DecideAlreadyResolved, check.Approving(next))
	c.completes(posted)
	require.Len(t, s.Seen(), 1)
	require.Equal(t, []string{"mismatch", "mismatch"}, c.audited(2))
	require.Len(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID), 2, "one decision for each round")
}

// TestLateDecisions decides on calls that already have their results.
//
//ci:replayed
func TestLateDecisions(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	with := func(name string, terms approval.Terms) agent.Agent {
		return agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"spied"}, ApprovalTerms: terms}
	}
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		with("patient", approval.Terms{}), with("hasty", approval.Terms{Expires: time.Second}),
		with("touchy", approval.Terms{Expires: time.Second, OnExpiry: approval.OnExpiryInterrupt}),
	}})
	tooLate := func(t *testing.T, c talk, q event.ApprovalRequest) {
		t.Helper()
		c.result(q)
		kept := check.Results(c.Harness, c.id)
		c.decides(signals.DecideConflict, check.Approving(q))
		c.decides(signals.DecideConflict, granting(q))
		c.decidesByHTTP(http.StatusConflict, signals.DecideConflict, check.Approving(q))
		c.signals(signals.SignalDecide, check.Approving(q))
		require.Equal(t, []string{"conflict"}, c.audited(1))
		c.Say(c.id, "are you well?")
		require.Equal(t, kept, check.Results(c.Harness, c.id))
	}
	for _, name := range []string{"hasty", "touchy"} {
		t.Run("after it expired: "+name, func(t *testing.T) {
			c := o.talk(t, name)
			_, q := c.expires(`use spied {}`)
			tooLate(t, c, q)
		})
	}
	t.Run("after an interrupt", func(t *testing.T) {
		c := o.talk(t, "patient")
		posted, q := c.asks(`use spied {}`)
		require.NoError(t, c.Threads.Control(c.Ctx(), c.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Await(t, c.Harness, c.id, posted).Status)
		tooLate(t, c, q)
	})
	t.Run("after the thread was closed", func(t *testing.T) {
		c := o.talk(t, "patient")
		_, q := c.asks(`use spied {}`)
		check.Closed(t, c.Harness, c.id)
		_, err := c.Threads.Decide(c.Ctx(), c.id, check.Approving(q))
		require.ErrorIs(t, err, signals.ErrThreadClosed)
		status, problem := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/approvals/"+q.ToolCallID, bodyOf(check.Approving(q)))
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, problem["detail"], "is closed")
		check.RequireSettled(t, c.Harness, c.id)
	})
	require.Empty(t, s.Seen())
}

// TestConflictingDecisions approves and denies the same call concurrently.
func TestConflictingDecisions(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	posted, q := c.asks(`use spied {}`)
	type said struct {
		decision event.Decision
		outcome  signals.DecideOutcome
	}
	var wg sync.WaitGroup
	all := make(chan said, 8)
	for i := range cap(all) {
		wg.Go(func() {
			d := []signals.Decide{check.Approving(q), check.Denying(q)}[i%2]
			out, err := c.Threads.Decide(context.Background(), c.id, d)
			assert.NoError(t, check.Unrefused(err))
			all <- said{d.Decision, out.Result}
		})
	}
	wg.Wait()
	close(all)
	c.completes(posted)
	stands := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)).Decision
	tally := map[said]int{}
	for one := range all {
		tally[one]++
	}
	against := map[event.Decision]event.Decision{event.DecisionApprove: event.DecisionDeny, event.DecisionDeny: event.DecisionApprove}[stands]
	require.Equal(t, map[said]int{{stands, signals.DecideAccepted}: 1, {stands, signals.DecideAlreadyResolved}: 3, {against, signals.DecideConflict}: 4}, tally)
	require.Len(t, s.Seen(), map[event.Decision]int{event.DecisionApprove: 1, event.DecisionDeny: 0}[stands])
}

// TestWhoMayDecideOnCalls: decisions of others than the approvers are rejected.
func TestWhoMayDecideOnCalls(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}, ApprovalTerms: approval.Terms{Approvers: []string{"ann", "ben"}}},
		{Name: "critic", Model: "openai/stand-in", Tools: []string{"spied"}},
	}})
	c := o.talk(t, "clerk", "critic")
	refused := func(q event.ApprovalRequest, who ...string) {
		t.Helper()
		before := len(check.OfType(c.Harness, c.id, event.TypeRejected))
		for _, name := range who {
			for _, d := range []signals.Decide{check.Approving(q), check.Denying(q)} {
				d.By = name
				c.decides(signals.DecideNotAllowed, d)
				c.decidesByHTTP(http.StatusForbidden, signals.DecideNotAllowed, d)
			}
			c.undecided(q)
		}
		d := check.Approving(q)
		d.By = who[0]
		c.signals(signals.SignalDecide, d)
		c.undecided(q)
		d.By = "ann"
		c.decides(signals.DecideAccepted, d)
		require.Eventually(t, func() bool { return len(s.Seen()) > 0 }, testenv.Patience, testenv.Tick)
		require.Contains(t, c.audited(before+1), "not_allowed")
	}
	posted, q := c.asks("@critic", `use spied {}`)
	refused(q, "critic", "CRITIC", "clerk", "Clerk") // the agents of the thread
	c.completes(posted)
	posted, q = c.asks("@clerk", `use spied {}`)
	require.Equal(t, []string{"ann", "ben"}, q.Approvers)
	refused(q, "cleo", "ANN", "аnn", "ann,ben", "clerk") // the third with a Cyrillic letter
	c.completes(posted)
	require.Len(t, s.Seen(), 2)
}

// TestSamePersonTwice: two approvals of one person do not make a quorum of two.
func TestSamePersonTwice(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}, ApprovalTerms: approval.Terms{Quorum: 2}},
	}}).talk(t)
	posted, q := c.asks(`use spied {}`)
	require.Equal(t, 1, c.decides(signals.DecideAccepted, check.Approving(q)).Missing)
	for _, by := range []string{"ann", "ANN"} {
		d := check.Approving(q)
		d.By = by
		require.Equal(t, 1, c.decides(signals.DecideAlreadyResolved, d).Missing)
		c.signals(signals.SignalDecide, d)
	}
	require.Equal(t, "ann", check.Only(t, c.AwaitApproval(c.id, 1)[0].Votes).By)
	require.Empty(t, s.Seen())
	d := check.Approving(q)
	d.By = "ben"
	require.Zero(t, c.decides(signals.DecideAccepted, d).Missing)
	c.completes(posted)
	require.Len(t, s.Seen(), 1)
}
