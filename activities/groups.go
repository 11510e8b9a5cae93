package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/step"
)

// groupTimeout bounds the time of asking for the members of a group.
const groupTimeout = 5 * time.Second

// withMembers adds the members of the groups of a verdict's terms to its approvers. A group that cannot be read has none
// for now: people are asked all the same, and the group is read again when one of them decides.
func (p *planner) withMembers(ctx context.Context, v approval.Verdict) approval.Verdict {
	if len(v.Terms.Groups) == 0 || p.a.cfg.ApproverGroups == nil {
		return v
	}
	people := slices.Clone(v.Terms.Approvers)
	known := make(map[string]bool, len(people))
	for _, name := range people {
		known[name] = true
	}
	for _, group := range v.Terms.Groups {
		members, err := p.members(ctx, group)
		if err != nil {
			v.Reason = sentence(v.Reason, err.Error())
		}
		for _, name := range members {
			if !known[name] {
				known[name], people = true, append(people, name)
			}
		}
	}
	v.Terms.Approvers = people
	return v
}

// membership is what is known of a group.
type membership struct {
	names []string
	err   error // may be shown to people
}

// members returns the members of a group, without names that identify nobody. It reads each group once.
func (p *planner) members(ctx context.Context, group string) ([]string, error) {
	known, ok := p.groups[group]
	if !ok {
		known = p.a.readGroup(ctx, p.ref, group)
		if p.groups == nil {
			p.groups = map[string]membership{}
		}
		p.groups[group] = known
	}
	return known.names, known.err
}

func (a *Activities) readGroup(ctx context.Context, ref step.Ref, group string) membership {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	names, err := a.cfg.ApproverGroups.Members(ctx, ref.Namespace, group)
	switch {
	case errors.Is(err, approval.ErrNoGroup):
		return membership{err: fmt.Errorf("%w: %q", approval.ErrNoGroup, group)}
	case err == nil && len(names) > approval.MaxMembers:
		err = fmt.Errorf("it has %d members, at most %d are read", len(names), approval.MaxMembers)
	}
	if err != nil {
		a.log.WarnContext(ctx, "reading the members of a group of approvers", "group", group, "thread", ref.ThreadID, "error", err)
		return membership{err: fmt.Errorf("the members of group %q could not be read", group)}
	}
	return membership{names: slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return event.ValidateName("name", name) != nil || event.Anonymous(name)
	})}
}

// unreadGroup returns why one of the groups that were needed could not be read, or nil. A group that does not exist has
// no members.
func (p *planner) unreadGroup() error {
	for _, group := range p.groups {
		if group.err != nil && !errors.Is(group.err, approval.ErrNoGroup) {
			return group.err
		}
	}
	return nil
}

// enough reports whether these approvals suffice for the call that was planned last. The agent's own never counts. It
// fails if a group that may decide this cannot be read.
func (p *planner) enough(ask step.ApprovalPlan, by ...string) (bool, error) {
	count := 0
	for _, name := range by {
		if p.may(ask, name) && !addressing.SamePerson(name, p.who.Name) {
			count++
		}
	}
	if count >= max(ask.Quorum, 1) {
		return true, nil
	}
	return false, p.unreadGroup()
}

// may reports whether a person may decide on the call that was planned last.
func (p *planner) may(ask step.ApprovalPlan, name string) bool {
	return len(ask.Approvers)+len(ask.Groups) == 0 || slices.Contains(p.approvers, name)
}

// groupError is the error of a step that needs a group which cannot be read now.
func groupError(err error) error {
	return temporal.NewApplicationErrorWithCause("The members of a group of approvers could not be read; the step is retried.", step.ErrTypeRetry, err)
}
