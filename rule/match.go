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
	matched := s.explain(seen)
	return matched.Type && matched.Failed == nil
}

// Explanation says whether a rule matches an event, and why not.
type Explanation struct {
	// Type reports whether a pattern matches the event's type.
	Type bool

	// Failed is the first condition that does not hold. Nil if all hold, or if no pattern matches.
	Failed *Condition
}

// Explain says whether a rule matches an event, and why not. [Match] selects among those that do.
func Explain(s Spec, e event.EnvEvent) Explanation { return s.explain(&view{event: e}) }

func (s Spec) explain(seen *view) Explanation {
	if !slices.ContainsFunc(s.Events, func(pattern string) bool { return covers(pattern, seen.event.Type) }) {
		return Explanation{}
	}
	for i, c := range s.Where {
		if !c.holds(seen) {
			return Explanation{Type: true, Failed: &s.Where[i]}
		}
	}
	return Explanation{Type: true}
}

// covers reports whether a pattern matches a type, or everything that another pattern matches.
func covers(pattern, typ string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(typ, prefix)
	}
	return pattern == typ
}
