package rule

import (
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Match returns the rule that handles an event: the matching rule with the highest priority and, of
// equals, the first. It is deterministic, so workflows may call it.
func Match(specs []Spec, e event.EnvEvent) (Spec, bool) {
	seen := &view{event: e}
	best := -1
	for i, s := range specs {
		if (best < 0 || s.Priority > specs[best].Priority) && s.matches(seen) {
			best = i
		}
	}
	if best < 0 {
		return Spec{}, false
	}
	return specs[best], true
}

func (s Spec) matches(seen *view) bool {
	return slices.ContainsFunc(s.Events, func(pattern string) bool { return covers(pattern, seen.event.Type) }) &&
		!slices.ContainsFunc(s.Where, func(c Condition) bool { return !c.holds(seen) })
}

// covers reports whether a pattern matches a type, or everything that another pattern matches.
func covers(pattern, typ string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(typ, prefix)
	}
	return pattern == typ
}
