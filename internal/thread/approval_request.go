package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// expiredText is the result of a call that nobody has decided on in time.
const expiredText = "Nobody has decided on this call within %s. It was not run."

// duplicateText is the result of a call that the agent has made before.
const duplicateText = "Not run: this very call was made before, as call %s, and waits for a person. Its result comes later, in the conversation that it belongs to. Do not repeat it."

// DeniedByPolicy is the result of a call that a rule denies.
func DeniedByPolicy(why string) string {
	return fmt.Sprintf("Error: the policy denies this call (%s). It was not run.", why)
}

// Request is how people are asked about a planned call.
func (p PlannedCall) Request(agent, messageID, arguments string, now time.Time) event.ApprovalRequest {
	q := event.ApprovalRequest{
		ToolCallID: p.ID, ToolName: p.Name, Arguments: arguments, Agent: agent, MessageID: messageID,
		Reason: p.Reason, RequestedAt: now,
	}
	if g := p.Guard; g != nil {
		q.Digest, q.Definition, q.WorkingDirectory = g.Digest, g.Definition, g.WorkingDirectory
	}
	if ask := p.Ask; ask != nil {
		q.Approvers = ask.Approvers
		if ask.Quorum > 1 {
			q.Quorum = ask.Quorum
		}
		if ask.Expires > 0 {
			end := now.Add(ask.Expires)
			q.ExpiresAt = &end
		}
	}
	return q
}

// accept takes in how a call is to be run: it has to be approved, or was, or is denied, or
// may simply run.
func (c *Call) accept(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	switch p := c.Plan; {
	case p.Denied != "":
		made := c.approvalOf(now)
		made.Decision, made.By, made.Reason = event.Deny, p.DeniedBy, p.Denied
		t.record(now, event.DecisionID(p.ID, c.Round), event.TypeApproval, made)
		s.rememberSettled(p.ID, event.Deny)
		c.settleWithoutRunning(now, DeniedByPolicy(p.Denied))
	case p.Duplicate != "":
		c.settleWithoutRunning(now, fmt.Sprintf(duplicateText, p.Duplicate))
	case p.NeedsApproval:
		c.request(now)
	case p.Grant != nil:
		c.granted(now)
	}
}

// request lets a call wait for a decision. Its record is the planning step's.
func (c *Call) request(now time.Time) {
	r := c.run
	q := c.Plan.Request(r.Agent, r.MessageID, c.Plan.Arguments, now)
	c.Stage, c.Requested, c.Plan.Arguments = Waiting, &q, ""
	if c.Round > event.FirstRound {
		q.Round = c.Round
	}
	if ask := c.Plan.Ask; ask != nil && ask.Remind > 0 {
		at := now.Add(ask.Remind)
		c.RemindAt = &at
	}
	c.forwardRequest(*c.Requested)
}

// granted lets a call run that an approval before it covers. Nobody is asked, and the record
// says why.
func (c *Call) granted(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	g := c.Plan.Grant
	made := c.approvalOf(now)
	made.Decision, made.By, made.Grant = event.Approve, g.By, g.ID
	c.Stage, c.DecisionID, c.RemindAt = Ready, event.DecisionID(c.Plan.ID, c.Round), nil
	t.record(now, c.DecisionID, event.TypeApproval, made)
	s.rememberSettled(c.Plan.ID, event.Approve)
	if c.Requested != nil {
		s.notifyParentDecided(SubDecided{ToolCallID: c.Plan.ID, Approval: &made})
	}
}

// AskAgain lets a call wait that was approved, but whose approval did not hold when it was
// to run: p is how it is planned now.
func (c *Call) AskAgain(now time.Time, p PlannedCall) {
	t := c.run.turn
	c.Plan, c.DecisionID, c.Edited, c.Votes, c.Stage, c.Begun = p, "", "", nil, Ready, false
	c.Round = max(c.Round, event.FirstRound) + 1
	if !p.NeedsApproval || p.Denied != "" {
		c.accept(now)
		return
	}
	c.request(now)
	q := *c.Requested
	t.record(now, event.RequestID(q), event.TypeApprovalRequest, q)
}

// approvalOf is the record of a decision on a call, as far as the call goes.
func (c *Call) approvalOf(now time.Time) event.Approval {
	r := c.run
	out := event.Approval{ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Agent: r.Agent, Scope: event.Once, DecidedAt: now}
	if c.Round > event.FirstRound {
		out.Round = c.Round
	}
	if g := c.Plan.Guard; g != nil {
		out.Digest, out.Definition, out.WorkingDirectory = g.Digest, g.Definition, g.WorkingDirectory
	}
	return out
}

// Guarded reports whether a call that is not run by an activity of its own has to be looked at
// again before it has an effect: it was approved.
func (c *Call) Guarded() bool {
	return c.Plan.Guard != nil && c.Plan.By != "" && c.DecisionID != ""
}

// GuardStep is the input of the planning that looks at an approved call again.
func (c *Call) GuardStep() PlanStep {
	r := c.run
	step := r.PlanStep()
	step.Only, step.Again, step.Decisions = []string{c.Plan.ID}, true, map[string]string{c.Plan.ID: c.DecisionID}
	return step
}

// Guard goes on with a call that was looked at again: p is how it is planned now. It
// reports whether its approval holds.
func (c *Call) Guard(now time.Time, p PlannedCall) bool {
	if p.Denied != "" || p.NeedsApproval || p.Lapsed {
		c.AskAgain(now, p)
		return false
	}
	p.Grant = c.Plan.Grant
	c.Plan = p
	return true
}

// waiters are the calls of a run that a new grant of one of them may cover: those of the
// same tool that wait, too.
func (r *Run) waiters(granted *Call) []string {
	var ids []string
	for _, c := range r.Calls {
		if c.Stage == Waiting && c != granted && strings.EqualFold(c.Plan.Name, granted.Plan.Name) {
			ids = append(ids, c.Plan.ID)
		}
	}
	return ids
}

// Cascade is a run with calls that a new grant may cover.
type Cascade struct {
	Run   int      `json:"run"`
	Calls []string `json:"calls"`
}

// cascade has the calls of the same agent looked at anew that wait, in whatever turn, when
// more than itself was approved for one.
func (c *Call) cascade() {
	for _, t := range c.run.turn.thread.turns() {
		for _, r := range t.Runs {
			if t.Interrupted != nil || !strings.EqualFold(r.Agent, c.run.Agent) {
				continue
			}
			if ids := r.waiters(c); len(ids) > 0 {
				t.Cascades = append(t.Cascades, Cascade{Run: r.Slot, Calls: ids})
			}
		}
	}
}

// Cascading is a turn in progress in which a new grant may cover calls, if there is one.
func (ts *Turns) Cascading() *Turn {
	for _, t := range ts.turns() {
		if len(t.Cascades) > 0 {
			return t
		}
	}
	return nil
}

// NextCascade is the turn's next run with calls to be looked at anew.
func (t *Turn) NextCascade() (run *Run, step PlanStep, ok bool) {
	next := t.Cascades[0]
	for _, r := range t.Runs {
		if r.Slot == next.Run {
			step = r.PlanStep()
			step.Only, step.Again = next.Calls, true
			return r, step, true
		}
	}
	return nil, step, false
}

// Cascaded forgets the first of the turn's cascades.
func (t *Turn) Cascaded() { t.Cascades = slices.Delete(t.Cascades, 0, 1) }

// Cover lets the calls run that a new grant covers, if their turn is still in progress. The
// others go on waiting.
func (r *Run) Cover(now time.Time, reply PlanReply) {
	t, s := r.turn, r.turn.thread
	if t.Interrupted == nil && slices.Contains(s.turns(), t) {
		r.cover(now, reply)
	}
}

func (r *Run) cover(now time.Time, reply PlanReply) {
	for _, p := range reply.Calls {
		for _, c := range r.Calls {
			if c.Plan.ID == p.ID && c.Stage == Waiting && p.Grant != nil && p.Denied == "" && !p.NeedsApproval {
				c.Plan.Grant, c.Plan.Guard = p.Grant, p.Guard
				c.granted(now)
			}
		}
	}
}

// Revoke takes an approval back. What was approved by it and has not run asks again: that
// is seen right before it runs. It returns the id of the record.
func (ds *Decisions) Revoke(now time.Time, v signals.Revoke) (recordID string) {
	s := ds.thread
	recordID = event.RevocationID(v.ToolCallID, s.newID(now))
	s.record(recordID, event.TypeApproval, "", v.ToolCallID, now, event.Approval{
		ToolCallID: v.ToolCallID, Decision: event.ApprovalRevoked, Scope: event.Once, By: v.By, Reason: v.Reason, DecidedAt: now,
	})
	return recordID
}

// dueCalls is when the next thing is due about a call that waits, if ever.
func (ts *Turns) dueCalls() (at time.Time, ok bool) {
	sooner := func(t *time.Time) {
		if t != nil && (!ok || t.Before(at)) {
			at, ok = *t, true
		}
	}
	ts.eachCall(func(c *Call) {
		if c.Stage == Waiting {
			sooner(c.Requested.ExpiresAt)
			sooner(c.RemindAt)
		}
		if c.Stage == AtClient {
			sooner(&c.Client.ExpiresAt)
		}
	})
	return at, ok
}

// eachCall visits the calls of the turns in progress, those that people are asked about
// among them.
func (ts *Turns) eachCall(visit func(*Call)) {
	for _, t := range slices.Clone(ts.turns()) {
		if t.Interrupted != nil {
			continue
		}
		for _, r := range t.Runs {
			for _, c := range r.Calls {
				visit(c)
			}
		}
	}
}

// releaseCalls reminds people, and ends what has waited for its time.
func (ts *Turns) releaseCalls(now time.Time) {
	ts.eachCall(func(c *Call) {
		switch {
		case c.expired(now):
			c.expireCall(now)
		case c.run.turn.Interrupted != nil:
			// One that expired has just ended the turn.
		case c.Stage == Waiting && c.RemindAt != nil && !c.RemindAt.After(now):
			c.remind(now)
		case c.Stage == AtClient && !c.Client.ExpiresAt.After(now):
			c.CallFailed(now, fmt.Sprintf("no client has answered the call within %s", c.Plan.ClientTime))
		}
	})
}

// expired reports whether people have had their time to decide on a call.
func (c *Call) expired(now time.Time) bool {
	return c.Stage == Waiting && c.Requested.ExpiresAt != nil && !c.Requested.ExpiresAt.After(now)
}

func (c *Call) expireCall(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	made := c.approvalOf(now)
	made.Decision, made.By, made.Votes = event.ApprovalExpired, "threadmill", c.Votes
	t.record(now, event.DecisionID(c.Plan.ID, c.Round), event.TypeApproval, made)
	s.notifyParentDecided(SubDecided{ToolCallID: c.Plan.ID, Approval: &made})
	s.rememberSettled(c.Plan.ID, event.ApprovalExpired)
	text := fmt.Sprintf(expiredText, c.Plan.Ask.Expires)
	c.settleWithoutRunning(now, text)
	if c.Plan.Ask.EndsTurn {
		s.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "threadmill", Reason: text, EventID: t.Item.ID})
	}
}

// remind asks people again, who have not answered yet.
func (c *Call) remind(now time.Time) {
	t := c.run.turn
	c.Reminders++
	at := now.Add(c.Plan.Ask.Remind)
	c.RemindAt = &at
	q := *c.Requested
	q.Votes, q.Reminder = c.Votes, c.Reminders
	t.record(now, event.RequestID(q), event.TypeApprovalRequest, q)
	c.forwardRequest(q)
}

// Listable reports whether the thread is to be found among those that wait for approval. A
// sub-agent's is found as the one that it works for.
func (ds *Decisions) Listable() bool {
	s := ds.thread
	if s.Parent != nil {
		return false
	}
	listed := slices.ContainsFunc(s.Subs, func(sub Sub) bool { return sub.Listed && len(sub.Asks) > 0 })
	s.eachCall(func(c *Call) {
		listed = listed || c.Stage == Waiting && c.listed()
	})
	return listed
}

func (c *Call) listed() bool { return c.Plan.Ask != nil && c.Plan.Ask.Listed }
