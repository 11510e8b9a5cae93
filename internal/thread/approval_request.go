package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// duplicateText is the result of a call that the agent has already made.
const duplicateText = "Not run: this very call was made before, as call %s, and waits for a person. Its result comes later, in the conversation that it belongs to. Do not repeat it."

// accept starts a call as its plan says: it is denied, waits for approval, was already approved, or
// runs.
func (c *Call) accept(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	switch p := c.Plan; {
	case p.Denied != "":
		made := c.approvalOf(now)
		made.Decision, made.By, made.Reason = event.DecisionDeny, p.DeniedBy, p.Denied
		t.record(now, recordid.Decision(p.ID, c.Round), event.TypeApproval, made)
		s.Decisions.rememberSettled(p.ID, event.DecisionDeny)
		c.settleWithoutRunning(now, step.DeniedByPolicy(p.Denied))
	case p.Duplicate != "":
		c.settleWithoutRunning(now, fmt.Sprintf(duplicateText, p.Duplicate))
	case p.NeedsApproval:
		c.request(now)
	case p.Grant != nil:
		c.granted(now)
	}
}

// request makes a call wait for a decision. The step that planned the call stores the request.
func (c *Call) request(now time.Time) {
	r := c.run
	q := c.Plan.Request(r.Agent, r.MessageID, c.Plan.Arguments, now)
	c.Stage, c.Requested, c.Plan.Arguments = CallWaiting, &q, ""
	if c.Round > event.FirstRound {
		q.Round = c.Round
	}
	if ask := c.Plan.Approval; ask != nil && ask.Remind > 0 {
		at := now.Add(ask.Remind)
		c.RemindAt = &at
	}
	c.forwardRequest(*c.Requested)
}

// granted lets a call run that an earlier approval covers. The record names that approval.
func (c *Call) granted(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	g := c.Plan.Grant
	made := c.approvalOf(now)
	made.Decision, made.By, made.Grant = event.DecisionApprove, g.By, g.ID
	if c.Stage == CallWaiting {
		c.Ended = &RequestEnd{now, made.Decision}
	}
	c.Stage, c.DecisionID, c.RemindAt = CallReady, recordid.Decision(c.Plan.ID, c.Round), nil
	t.record(now, c.DecisionID, event.TypeApproval, made)
	s.Decisions.rememberSettled(c.Plan.ID, event.DecisionApprove)
	if c.Requested != nil {
		s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID, Approval: &made})
	}
}

// RequestAgain makes an approved call wait again, because its approval was no longer valid when it was
// about to run. p is its new plan.
func (c *Call) RequestAgain(now time.Time, p step.PlannedCall) {
	t := c.run.turn
	c.Plan, c.DecisionID, c.Edited, c.Votes, c.Stage, c.Started = p, "", "", nil, CallReady, false
	c.Round = max(c.Round, event.FirstRound) + 1
	if !p.NeedsApproval || p.Denied != "" {
		c.accept(now)
		return
	}
	c.request(now)
	q := *c.Requested
	t.record(now, recordid.Request(q), event.TypeApprovalRequest, q)
}

// approvalOf returns an approval record with the fields that depend on the call.
func (c *Call) approvalOf(now time.Time) event.Approval {
	r := c.run
	out := event.Approval{ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Agent: r.Agent, Scope: event.ScopeOnce, DecidedAt: now}
	if c.Round > event.FirstRound {
		out.Round = c.Round
	}
	if g := c.Plan.Guard; g != nil {
		out.Digest, out.Definition, out.WorkingDirectory = g.Digest, g.Definition, g.WorkingDirectory
	}
	return out
}

// Guarded reports whether the approval of a call must be checked again before it takes effect.
// Calls that an activity runs are checked by that activity.
func (c *Call) Guarded() bool {
	return c.Plan.Guard != nil && c.Plan.By != "" && c.DecisionID != ""
}

// GuardStep returns the input of the planning step that checks an approved call again.
func (c *Call) GuardStep() step.Plan {
	r := c.run
	input := r.PlanStep()
	input.Only, input.Again, input.Decisions = []string{c.Plan.ID}, true, map[string]string{c.Plan.ID: c.DecisionID}
	return input
}

// Guard continues a call whose approval was checked again. p is its new plan. Guard reports whether
// the approval is still valid.
func (c *Call) Guard(now time.Time, p step.PlannedCall) bool {
	if p.Denied != "" || p.NeedsApproval || p.Lapsed {
		c.RequestAgain(now, p)
		return false
	}
	p.Grant = c.Plan.Grant
	c.Plan = p
	return true
}

// waiters returns the run's waiting calls that a new grant may cover: those of the same tool.
func (r *AgentRun) waiters(granted *Call) []string {
	var ids []string
	for _, c := range r.Calls {
		if c.Stage == CallWaiting && c != granted && strings.EqualFold(c.Plan.Name, granted.Plan.Name) {
			ids = append(ids, c.Plan.ID)
		}
	}
	return ids
}

// Cascade is a run with waiting calls that a new grant may cover.
type Cascade struct {
	Run   int      `json:"run"`
	Calls []string `json:"calls"`
}

// cascade schedules another check of the agent's waiting calls in all turns, because a grant may
// cover them.
func (c *Call) cascade() {
	for _, t := range c.run.turn.thread.Turns.all() {
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

// Cascading returns a turn with pending cascades, or nil.
func (ts *Turns) Cascading() *Turn {
	for _, t := range ts.all() {
		if len(t.Cascades) > 0 {
			return t
		}
	}
	return nil
}

// NextCascade returns the run of the turn's next cascade, or nil if that run is gone.
func (t *Turn) NextCascade() *AgentRun {
	for _, r := range t.Runs {
		if r.Slot == t.Cascades[0].Run {
			return r
		}
	}
	return nil
}

// CascadeStep returns the input of the planning step of a run's cascade, the next of its turn.
func (r *AgentRun) CascadeStep() step.Plan {
	input := r.PlanStep()
	input.Only, input.Again = r.turn.Cascades[0].Calls, true
	return input
}

// Cascaded removes the turn's first cascade.
func (t *Turn) Cascaded() { t.Cascades = slices.Delete(t.Cascades, 0, 1) }

// Cover lets the calls run that a new grant covers, if their turn is still in progress. The other
// calls keep waiting.
func (r *AgentRun) Cover(now time.Time, reply step.PlanReply) {
	t, s := r.turn, r.turn.thread
	if t.Interrupted == nil && slices.Contains(s.Turns.all(), t) {
		r.cover(now, reply)
	}
}

func (r *AgentRun) cover(now time.Time, reply step.PlanReply) {
	for _, p := range reply.Calls {
		for _, c := range r.Calls {
			if c.Plan.ID == p.ID && c.Stage == CallWaiting && p.Grant != nil && p.Denied == "" && !p.NeedsApproval {
				c.Plan.Grant, c.Plan.Guard = p.Grant, p.Guard
				c.granted(now)
			}
		}
	}
}

// Revoke revokes an approval. Calls that it covers and that have not run need a new approval, which
// is checked immediately before they run. Revoke returns the id of the record.
func (s *State) Revoke(now time.Time, v signals.Revoke) (recordID string) {
	recordID = recordid.Revocation(v.ToolCallID, s.nextID("revoked"))
	s.record(recordID, event.TypeApproval, "", v.ToolCallID, now, event.Approval{
		ToolCallID: v.ToolCallID, Decision: event.DecisionRevoked, Scope: event.ScopeOnce, By: v.By, Reason: v.Reason, DecidedAt: now,
	})
	return recordID
}

// ListingDue reports whether the thread's search attribute no longer says whether it waits for a person.
func (s *State) ListingDue() bool { return s.Closing == nil && s.listable() != s.Decisions.Listed }

// List returns whether the thread waits for a person, as its search attribute says from now on.
func (s *State) List() bool {
	s.Decisions.Listed = s.listable()
	return s.Decisions.Listed
}

// Unlist records that the search attribute was set to that of an open thread that waits for nobody.
func (ds *Decisions) Unlist() { ds.Listed = false }

// listable reports whether the thread waits for a person. A sub-agent's thread is never listed; its
// parent thread is.
func (s *State) listable() bool {
	if s.ParentLink.Parent != nil {
		return false
	}
	listed := slices.ContainsFunc(s.Children.SubAgents, func(sub SubAgent) bool { return sub.Listed && len(sub.Approvals) > 0 || len(sub.Inputs) > 0 })
	s.Turns.eachCall(func(c *Call) {
		listed = listed || c.Stage == CallWaiting && c.listed() || c.Stage == CallAtInput
	})
	return listed
}

func (c *Call) listed() bool { return c.Plan.Approval != nil && c.Plan.Approval.Listed }
