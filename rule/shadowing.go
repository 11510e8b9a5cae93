package rule

import (
	"slices"
	"strings"
)

// Reachable reports, as an [*event.FieldError] of its priority, that a rule can never
// handle an event: whatever the event, a default rule comes before it. The rules beside it
// may have replaced that one. A disabled rule is not meant to handle any.
func Reachable(r Rule, beside []Rule) error {
	return reachable(r, defaults(false, names(append(slices.Clip(beside), r))))
}

// reachable looks at the default rules that are in place, the highest first.
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
	return fieldErrorf("priority", "%d is below the default rule %s (%s, priority %d), which would handle its events: set a priority above %[4]d",
		r.Priority, first.Name, strings.Join(first.Events, ", "), first.Priority)
}

// before returns the first rule that takes everything a pattern matches from rules of a
// priority, if there is one.
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

// names are those of the rules, which replace the default rules that are called so.
func names(rules []Rule) map[string]bool {
	taken := map[string]bool{}
	for _, r := range rules {
		taken[r.name()] = true
	}
	return taken
}
