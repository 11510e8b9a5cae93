package approval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// ErrNoGroup means that a group of approvers does not exist.
var ErrNoGroup = errors.New("group does not exist")

// Groups knows the groups of people that [Terms] can name. Implementations are safe for concurrent use.
type Groups interface {
	// Members returns the names of a group's members, as in "by" of their decisions, or [ErrNoGroup]. It is called when
	// people are asked, when somebody decides who was not a member at that time, and right before an approved call runs. It has
	// five seconds, and returns at most [MaxMembers]; until it succeeds, nobody is a member.
	Members(ctx context.Context, namespace, group string) ([]string, error)
}

// GroupsFunc is a function as [Groups].
type GroupsFunc func(ctx context.Context, namespace, group string) ([]string, error)

// Members calls the function.
func (f GroupsFunc) Members(ctx context.Context, namespace, group string) ([]string, error) {
	return f(ctx, namespace, group)
}

// FixedGroups are the members of groups by the names of the groups, the same in all namespaces.
type FixedGroups map[string][]string

// Members implements [Groups].
func (g FixedGroups) Members(_ context.Context, _, group string) ([]string, error) {
	members, ok := g[group]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoGroup, group)
	}
	return members, nil
}

// Validate reports the first name of a group or a member that cannot be one, as a [*event.FieldError].
func (g FixedGroups) Validate() error {
	for _, group := range slices.Sorted(maps.Keys(g)) {
		if err := event.ValidateName("name", group); err != nil {
			return event.FieldErrorf(group, "%s", err)
		}
		if len(g[group]) > MaxMembers {
			return event.FieldErrorf(group, "has %d members, must have at most %d", len(g[group]), MaxMembers)
		}
		if err := checkPeople(group, g[group]); err != nil {
			return err
		}
	}
	return nil
}

// checkPeople rejects names of people that identify nobody, or that are duplicated.
func checkPeople(field string, people []string) error {
	seen := make(map[string]bool, len(people))
	for i, who := range people {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := event.ValidateName(at, who); err != nil {
			return err
		}
		if event.Anonymous(who) {
			return event.FieldErrorf(at, "%q identifies nobody: name people, as their API keys or a proxy do", who)
		}
		if seen[strings.ToLower(who)] {
			return event.FieldErrorf(at, "%q is duplicated and counts once: remove one", who)
		}
		seen[strings.ToLower(who)] = true
	}
	return nil
}
