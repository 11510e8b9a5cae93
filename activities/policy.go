package activities

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// planner plans the calls of one agent in one thread.
type planner struct {
	a   *Activities
	ref thread.Ref
	who agent.Agent

	// place is where the calls work, unless it is empty: a tool may have a place of its own.
	place

	// pending are calls that wait for approval, by their digests.
	pending map[string]string

	// history is read when the first call needs it.
	history *approval.History
	unread  error
}

func (a *Activities) planner(ref thread.Ref, who agent.Agent, directory string) *planner {
	return &planner{a: a, ref: ref, who: who, place: placeOf(cmp.Or(directory, who.WorkingDirectory))}
}

// part is what a call would have run: the tool itself, and behind a background task what
// that runs.
type part struct {
	definition tool.Definition
	call       approval.Call

	// resolved are the arguments with the names in them as they are registered, for rules.
	resolved string
}

// policy says whether a call may run, by what the agent's policy says of all its parts and
// what people have approved before.
func (p *planner) policy(ctx context.Context, out *thread.PlannedCall, parts ...part) {
	verdict := approval.Verdict{Effect: approval.Allow}
	for _, one := range parts {
		seen := one.call
		seen.Arguments = cmp.Or(one.resolved, seen.Arguments)
		verdict = stricter(verdict, p.verdict(seen, one.definition))
	}
	switch verdict.Effect {
	case approval.Deny:
		out.Denied, out.DeniedBy = cmp.Or(verdict.Reason, "no reason is given"), "policy "+verdict.Rule
		return
	case approval.Ask:
	case approval.Allow:
		return
	}
	whole := wholeOf(parts)
	guard, err := guardOf(whole)
	if err == nil {
		out.Guard = &guard
		err = p.read(ctx)
	}
	if err != nil {
		// What cannot be checked asks.
		p.ask(out, parts[0], verdict, "earlier approvals could not be checked: "+err.Error())
		return
	}
	if g, ok := p.history.FindFor(whole, verdict.Terms); ok && !p.history.Revoked(out.ID) {
		out.Grant = &thread.GrantedCall{ID: g.ID, Scope: g.Scope, By: g.By}
		return
	}
	p.ask(out, parts[0], verdict, "")
}

// wholeOf is the one call that people approve: with the tool behind a background task, where
// that works and what it works on.
func wholeOf(parts []part) approval.Call {
	whole := parts[0].call
	paths := maps.Clone(whole.Paths)
	for _, inner := range parts[1:] {
		whole.Definition += " " + inner.call.Definition
		whole.WorkingDirectory = cmp.Or(whole.WorkingDirectory, inner.call.WorkingDirectory)
		for name, path := range inner.call.Paths {
			if paths == nil {
				paths = map[string]string{}
			}
			paths["arguments."+name] = path
		}
	}
	whole.Paths = paths
	return whole
}

// stricter is the stricter of two verdicts on parts of the same call. Of two that ask, people
// are asked on the terms of both.
func stricter(a, b approval.Verdict) approval.Verdict {
	rank := map[approval.Effect]int{approval.Deny: 2, approval.Ask: 1}
	if a.Effect == approval.Ask && b.Effect == approval.Ask {
		return both(a, b)
	}
	if rank[b.Effect] > rank[a.Effect] {
		return b
	}
	return a
}

// both asks on the terms of two: those may approve who may by both, as many as either asks
// for, and the request ends as soon as either does. Terms that nobody can meet deny.
func both(a, b approval.Verdict) approval.Verdict {
	a.Reason = sentence(a.Reason, b.Reason)
	t := &a.Terms
	anybody := len(t.Approvers) == 0 && len(b.Terms.Approvers) == 0
	switch {
	case len(t.Approvers) == 0:
		t.Approvers = b.Terms.Approvers
	case len(b.Terms.Approvers) > 0:
		t.Approvers = slices.DeleteFunc(slices.Clone(t.Approvers), func(name string) bool { return !slices.Contains(b.Terms.Approvers, name) })
	}
	t.Quorum = max(t.Quorum, b.Terms.Quorum)
	if !anybody && len(t.Approvers) < max(t.Quorum, 1) {
		return approval.Verdict{Effect: approval.Deny, Rule: a.Rule, Reason: "too few may approve both the task and what it runs"}
	}
	t.Expires, t.Remind = sooner(t.Expires, b.Terms.Expires), sooner(t.Remind, b.Terms.Remind)
	if b.Terms.OnExpiry == approval.EndTurn {
		t.OnExpiry = b.Terms.OnExpiry
	}
	return a
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// ask notes that a person has to approve the call.
func (p *planner) ask(out *thread.PlannedCall, asked part, v approval.Verdict, why string) {
	out.NeedsApproval, out.Grant = true, nil
	out.Arguments = thread.CarryArguments(asked.call.Arguments)
	out.Reason = sentence(v.Reason, why)
	out.Ask = &thread.AskPlan{
		Approvers: v.Terms.Approvers, Quorum: v.Terms.Quorum, Expires: v.Terms.Expires, Remind: v.Terms.Remind,
		EndsTurn: v.Terms.OnExpiry == approval.EndTurn, Listed: !p.a.cfg.UnlistedApprovals,
	}
}

// sentence joins reasons, as far as there are any.
func sentence(reasons ...string) string {
	return strings.Join(slices.DeleteFunc(reasons, func(r string) bool { return r == "" }), "; ")
}

// verdict is what the policy makes of a call: the rules of the runtime and of the agent,
// then what the agent says of the tool, then what the tool says of itself. What denies
// always wins.
func (p *planner) verdict(c approval.Call, d tool.Definition) approval.Verdict {
	policy := policyFor(p.who, d)
	if policy == agent.Forbidden {
		return approval.Verdict{Effect: approval.Deny, Rule: "approvals." + d.Name, Reason: fmt.Sprintf("agent %s may not use %s", p.who.Name, d.Name)}
	}
	rules := append(append([]approval.Rule{}, p.a.cfg.ApprovalRules...), p.who.ApprovalRules...)
	v := approval.Decide(rules, c)
	if other, ok := otherName[d.Name]; ok {
		// A rule for one of a tool's names is for both.
		c.Tool = other
		if also := approval.Decide(rules, c); v.Effect == "" {
			v = also
		} else {
			v = stricter(v, also)
		}
	}
	if v.Effect == "" {
		v = approval.Verdict{Effect: approval.Allow}
		if policy == agent.Always {
			v = approval.Verdict{Effect: approval.Ask, Rule: "approvals"}
		}
	}
	if v.Effect == approval.Ask {
		v.Reason = cmp.Or(v.Reason, d.ApprovalReason)
		if v.Terms.IsZero() {
			v.Terms = p.who.ApprovalTerms
		}
	}
	return v
}

// otherName are the names of tools that have two.
var otherName = map[string]string{builtin.CallAgent: builtin.CallAgentHyphen, builtin.CallAgentHyphen: builtin.CallAgent}

// policyFor is the agent's policy for a tool. The names of call_agent stand for each other.
func policyFor(who agent.Agent, d tool.Definition) agent.Policy {
	own := who.Approval(d.Name, d.NeedsApproval)
	if d.Name != builtin.CallAgent && d.Name != builtin.CallAgentHyphen {
		return own
	}
	for _, strict := range []agent.Policy{agent.Forbidden, agent.Always} {
		for _, name := range []string{builtin.CallAgent, builtin.CallAgentHyphen} {
			if who.Approvals[name] == strict {
				return strict
			}
		}
	}
	return own
}

// part is a call of a tool, as policies and grants see it. The error says which of its paths
// is refused, for the model.
func (p *planner) part(d tool.Definition, arguments string) (part, error) {
	at := p.place
	if at.dir == "" {
		at = placeOf(d.PathRoot)
	}
	paths, err := at.pathsOf(d, arguments)
	c := approval.Call{
		Namespace: p.ref.Namespace, ThreadID: p.ref.ThreadID, Agent: p.who.Name, Tool: d.Name,
		Arguments: arguments, WorkingDirectory: at.dir, Paths: paths, Definition: d.Digest(),
	}
	if at.lost != nil {
		c.Unclear = "the working directory " + at.lost.Error()
	}
	return part{definition: d, call: c}, err
}

func guardOf(c approval.Call) (thread.Guard, error) {
	digest, err := c.Digest()
	return thread.Guard{
		Digest: digest, Definition: c.Definition, WorkingDirectory: c.WorkingDirectory, Arguments: thread.ArgumentsSum(c.Arguments),
	}, err
}

// read reads what people have decided in the thread, once.
func (p *planner) read(ctx context.Context) error {
	if p.history != nil || p.unread != nil {
		return p.unread
	}
	records, err := p.a.approvals(ctx, p.ref)
	if err == nil {
		history := approval.ReadHistory(records)
		p.history = &history
		if bad := history.Unreadable(); len(bad) > 0 {
			p.a.log.WarnContext(ctx, "approvals cannot be read: none from before them holds", "thread", p.ref.ThreadID, "records", bad)
		}
	}
	p.unread = err
	return err
}

// approvals are a thread's approval records.
func (a *Activities) approvals(ctx context.Context, ref thread.Ref) ([]event.Record, error) {
	var out []event.Record
	q := store.Query{Types: []string{event.TypeApproval}, Limit: store.MaxLimit}
	for {
		page, err := a.cfg.Store.Records(ctx, store.Key(ref), q)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if len(page) < store.MaxLimit {
			return out, nil
		}
		q.After = page[len(page)-1].Seq
	}
}
