package rule

import (
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Reachable reports, as an [*event.FieldError] of its priority, that a rule can never handle an
// event because a default rule always comes first. The rules in beside may replace default rules. A
// disabled rule is always valid.
func Reachable(r Rule, beside []Rule) error {
	return reachable(r, defaults(false, names(append(slices.Clip(beside), r))))
}

// reachable checks the default rules in inPlace, highest priority first.
func reachable(r Rule, inPlace []Rule) error {
	if r.Disabled {
		return nil
	}
	var first *Rule
	for _, pattern := range r.Events {
		d := before(pattern, r.Priority, inPlace)
		if d == nil {
			return nil
		}
		if first == nil {
			first = d
		}
	}
	if first == nil {
		return nil
	}
	return event.FieldErrorf("priority", "%d is below the default rule %s (%s, priority %d), which would handle its events: set a priority above %[4]d",
		r.Priority, first.Name, strings.Join(first.Events, ", "), first.Priority)
}

// before returns the first rule above a priority that matches everything that a pattern matches, or
// nil.
func before(pattern string, priority int, inPlace []Rule) *Rule {
	for i, d := range inPlace {
		if d.Priority <= priority || len(d.Where) > 0 {
			continue
		}
		for _, of := range d.Events {
			if covers(of, pattern) {
				return &inPlace[i]
			}
		}
	}
	return nil
}

// names returns the names of the rules.
func names(rules []Rule) map[string]bool {
	taken := map[string]bool{}
	for _, r := range rules {
		taken[r.name()] = true
	}
	return taken
}
