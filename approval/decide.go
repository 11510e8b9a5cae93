package approval

import (
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Decide evaluates rules for a call. A rule that denies always wins. A rule that cannot be
// evaluated requires approval. Otherwise the first rule that matches decides.
func Decide(rules []Rule, c Call) Verdict {
	in := input(c)
	var first, asks, broken *Rule
	var problem error
	for i := range rules {
		r := &rules[i]
		if !r.looksAt(c) {
			continue
		}
		matches, err := r.matches(in)
		switch {
		case err != nil && broken == nil:
			broken, problem = r, err
		case err != nil:
		case !matches:
			continue
		case r.Effect == EffectDeny:
			return r.verdict()
		case first == nil:
			first = r
		}
		if r.Effect == EffectAsk && asks == nil {
			asks = r
		}
	}
	switch {
	case broken != nil:
		v := Verdict{
			Effect: EffectAsk, Rule: broken.Name,
			Reason: fmt.Sprintf("rule %q cannot be evaluated, so a person decides: %v", broken.Name, problem),
		}
		if asks != nil {
			// The terms that would apply if all rules could be evaluated, or the default terms.
			v.Terms = asks.Terms
		}
		return v
	case first != nil:
		return first.verdict()
	}
	return Verdict{}
}

func (r *Rule) verdict() Verdict {
	return Verdict{Effect: r.Effect, Rule: r.Name, Reason: r.Reason, Terms: r.Terms}
}

// looksAt reports whether the rule applies to the call's tool and agent.
func (r *Rule) looksAt(c Call) bool {
	return named(r.Tools, c.Tool, event.MatchTool) && named(r.Agents, c.Agent, func(a, b string) bool { return a == b })
}

func named(names []string, name string, match func(pattern, name string) bool) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return n == "*" || match(lower(n), lower(name)) })
}

// matches reports whether the rule's condition is true. Rules that [ValidateRules] rejects cannot be
// evaluated.
func (r *Rule) matches(in activation) (bool, error) {
	if r.Effect != EffectAllow && r.Effect != EffectAsk && r.Effect != EffectDeny {
		return false, fmt.Errorf("its effect is %q, not allow, ask or deny", r.Effect)
	}
	if r.When == "" {
		return true, nil
	}
	return in.evaluate(r.When)
}
