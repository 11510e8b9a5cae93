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
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/tool"
)

// planner plans the calls of one agent in one thread.
type planner struct {
	a   *Activities
	ref step.Ref
	who agent.Agent

	// tools are the agent's tools.
	tools toolbox

	// place is the directory of the calls. If it is empty, a tool may have its own.
	place

	// pending maps the digests of calls that wait for approval to their ids.
	pending map[string]string

	// history is read for the first call that needs it.
	history *approval.History
	unread  error

	// groups are the members of groups of approvers, once they were read. approvers are all who may decide on the call that
	// was planned last, if not everybody may.
	groups    map[string]membership
	approvers []string
}

func (a *Activities) planner(ctx context.Context, ref step.Ref, who agent.Agent, directory string) *planner {
	return &planner{a: a, ref: ref, who: who, tools: a.toolbox(ctx, ref.Namespace, who), place: placeOf(cmp.Or(directory, who.WorkingDirectory))}
}

// part is a tool call to be checked: the call itself or, for a background task, the call that it
// runs.
type part struct {
	definition tool.Definition
	call       approval.Call

	// resolved are the arguments with registered names, for rules.
	resolved string
}

// policy decides whether a call may run, from the agent's policy for all its parts and earlier
// approvals.
func (p *planner) policy(ctx context.Context, out *step.PlannedCall, parts ...part) {
	verdict := approval.Verdict{Effect: approval.EffectAllow}
	for _, one := range parts {
		seen := one.call
		seen.Arguments = cmp.Or(one.resolved, seen.Arguments)
		verdict = stricter(verdict, p.verdict(ctx, seen, one.definition))
	}
	whole := wholeOf(parts)
	var earlier approval.History
	if verdict.Effect != approval.EffectDeny && verdict.Effect != approval.EffectAllow {
		guard, err := guardOf(whole)
		if err == nil {
			out.Guard = &guard
			err = p.read(ctx)
		}
		if err != nil {
			// A call that cannot be checked needs approval.
			p.ask(out, parts[0], verdict, "earlier approvals could not be checked: "+err.Error())
			return
		}
		earlier = *p.history
	}
	switch outcome := earlier.Check(out.ID, whole, verdict); {
	case outcome.NeedsApproval:
		p.ask(out, parts[0], verdict, "")
	case outcome.Grant != nil:
		g := outcome.Grant
		out.Grant = &step.GrantedCall{ID: g.ID, Scope: g.Scope, By: g.By}
	case !outcome.CanExecute:
		out.Denied, out.DeniedBy = outcome.Denied, "policy "+verdict.Rule
	}
}

// wholeOf merges the parts into the one call that people approve.
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

// stricter returns the stricter of two verdicts on parts of the same call. If both require
// approval, the terms of both apply.
func stricter(a, b approval.Verdict) approval.Verdict {
	rank := map[approval.Effect]int{approval.EffectDeny: 2, approval.EffectAsk: 1}
	if a.Effect == approval.EffectAsk && b.Effect == approval.EffectAsk {
		return both(a, b)
	}
	if rank[b.Effect] > rank[a.Effect] {
		return b
	}
	return a
}

// both merges the terms of two verdicts: the approvers in both, the larger quorum and the earlier
// expiry. Terms that cannot be met deny the call.
func both(a, b approval.Verdict) approval.Verdict {
	if a.Reason == b.Reason {
		b.Reason = ""
	}
	a.Reason = sentence(a.Reason, b.Reason)
	t := &a.Terms
	anybody := !t.Restricted() && !b.Terms.Restricted()
	switch {
	case !t.Restricted():
		t.Approvers = b.Terms.Approvers
	case b.Terms.Restricted():
		t.Approvers = common(t.Approvers, b.Terms.Approvers)
	}
	for _, group := range b.Terms.Groups {
		if !slices.Contains(t.Groups, group) {
			t.Groups = append(t.Groups[:len(t.Groups):len(t.Groups)], group)
		}
	}
	t.Quorum = max(t.Quorum, b.Terms.Quorum)
	// Groups may get members while the call waits.
	if !anybody && len(t.Groups) == 0 && len(t.Approvers) < max(t.Quorum, 1) {
		return approval.Verdict{Effect: approval.EffectDeny, Rule: a.Rule, Reason: "too few may approve both the task and what it runs"}
	}
	t.Expires, t.Remind = sooner(t.Expires, b.Terms.Expires), sooner(t.Remind, b.Terms.Remind)
	if b.Terms.OnExpiry == approval.OnExpiryInterrupt {
		t.OnExpiry = b.Terms.OnExpiry
	}
	return a
}

// common returns the names that are in both lists, in the order of the first.
func common(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, name := range b {
		in[name] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !in[name] })
}

// sooner returns the shorter of two durations, where 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// ask marks the call as one that needs approval.
func (p *planner) ask(out *step.PlannedCall, found part, v approval.Verdict, why string) {
	out.NeedsApproval, out.Grant = true, nil
	p.approvers = v.Terms.Approvers
	out.Arguments = step.CarryArguments(found.call.Arguments, step.MaxCarriedContent)
	out.Reason, out.Rule = sentence(v.Reason, why), v.Rule
	out.Approval = &step.ApprovalPlan{
		Approvers: v.Terms.Approvers[:min(len(v.Terms.Approvers), approval.MaxApprovers)], Groups: v.Terms.Groups, Quorum: v.Terms.Quorum, Expires: v.Terms.Expires, Remind: v.Terms.Remind,
		EndsTurn: v.Terms.OnExpiry == approval.OnExpiryInterrupt, Listed: !p.a.cfg.UnlistedApprovals,
	}
}

// sentence joins the reasons that are not empty.
func sentence(reasons ...string) string {
	return strings.Join(slices.DeleteFunc(reasons, func(r string) bool { return r == "" }), "; ")
}

// verdict returns the verdict of the policy on a call: the rules of the runtime and of the agent,
// then the agent's policy for the tool, then the tool's own. A denial always wins.
func (p *planner) verdict(ctx context.Context, c approval.Call, d tool.Definition) approval.Verdict {
	policy := policyFor(p.who, d)
	if policy == agent.PolicyDeny {
		return approval.Verdict{Effect: approval.EffectDeny, Rule: "approvals." + d.Name, Reason: fmt.Sprintf("agent %s may not use %s", p.who.Name, d.Name)}
	}
	rules := append(append([]approval.Rule{}, p.a.cfg.ApprovalRules...), p.who.ApprovalRules...)
	v := p.withMembers(ctx, approval.Decide(rules, c))
	if other, ok := otherName[d.Name]; ok {
		// A rule for one of a tool's names applies to both.
		c.Tool = other
		if also := p.withMembers(ctx, approval.Decide(rules, c)); v.Effect == "" {
			v = also
		} else {
			v = stricter(v, also)
		}
	}
	if v.Effect == "" {
		v = approval.Verdict{Effect: approval.EffectAllow}
		if policy == agent.PolicyAlways {
			v = approval.Verdict{Effect: approval.EffectAsk, Rule: "approvals"}
		}
	}
	if v.Effect == approval.EffectAsk {
		v.Reason = cmp.Or(v.Reason, d.ApprovalReason)
		if v.Terms.IsZero() {
			v.Terms = p.who.ApprovalTerms
			v = p.withMembers(ctx, v)
		}
	}
	return v
}

// Policy returns the verdict on a call that nobody has approved before: of rules, which apply to all
// agents, of the agent's own, and of the tool's. The error, for the model, says why the call cannot run
// whatever the policy: its arguments do not fit the tool, or name a path that is rejected.
func Policy(rules []approval.Rule, who agent.Agent, d tool.Definition, namespace, threadID, arguments string) (approval.Verdict, error) {
	if err := d.ValidateArguments(arguments); err != nil {
		return approval.Verdict{}, err
	}
	p := &planner{
		a: &Activities{cfg: Config{ApprovalRules: rules}}, ref: step.Ref{Namespace: namespace, ThreadID: threadID},
		who: who, place: placeOf(who.WorkingDirectory),
	}
	one, err := p.part(d, arguments)
	if err != nil {
		return approval.Verdict{}, err
	}
	return p.verdict(context.Background(), one.call, d), nil
}

// otherName maps the names of tools that have two names.
var otherName = map[string]string{builtin.CallAgent: builtin.CallAgentHyphen, builtin.CallAgentHyphen: builtin.CallAgent}

// policyFor returns the agent's policy for a tool. Both names of call_agent are equivalent.
func policyFor(who agent.Agent, d tool.Definition) agent.Policy {
	own := who.Approval(d.Name, d.NeedsApproval)
	if d.Name != builtin.CallAgent && d.Name != builtin.CallAgentHyphen {
		return own
	}
	for _, strict := range []agent.Policy{agent.PolicyDeny, agent.PolicyAlways} {
		for _, name := range []string{builtin.CallAgent, builtin.CallAgentHyphen} {
			if who.Approvals[name] == strict {
				return strict
			}
		}
	}
	return own
}

// part returns a tool call for policies and grants. The error, for the model, names a path that is
// rejected.
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

func guardOf(c approval.Call) (step.Guard, error) {
	digest, err := c.Digest()
	return step.Guard{
		Digest: digest, Definition: c.Definition, WorkingDirectory: c.WorkingDirectory, Arguments: step.ArgumentsDigest(c.Arguments),
	}, err
}

// read reads the approvals in the thread, once.
func (p *planner) read(ctx context.Context) error {
	if p.history != nil || p.unread != nil {
		return p.unread
	}
	records, err := transcript.AllRecords(ctx, p.a.cfg.Store, p.ref, event.TypeApproval)
	if err == nil {
		history := approval.ReadHistory(records)
		p.history = &history
		if bad := history.Unreadable(); len(bad) > 0 {
			p.a.log.WarnContext(ctx, "unreadable approvals: earlier ones do not count", "thread", p.ref.ThreadID, "records", bad)
		}
	}
	p.unread = err
	return err
}
