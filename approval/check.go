package approval

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Limits of rules.
const (
	MaxRules     = 1000
	MaxWhen      = 4 << 10 // bytes
	MaxApprovers = 100
	MaxGroups    = 20
	MaxMembers   = 10_000

	MaxName   = 128     // bytes
	MaxReason = 4 << 10 // bytes

	MinExpires = time.Second
	MaxExpires = 365 * 24 * time.Hour

	maxNames = 1000
)

// ValidateRules reports the first invalid rule, as a [*event.FieldError] with its place:
// approvalRules[0].when.
func ValidateRules(rules []Rule) error {
	if len(rules) > MaxRules {
		return event.FieldErrorf("approvalRules", "has %d entries, must have at most %d", len(rules), MaxRules)
	}
	first := map[string]int{}
	for i, r := range rules {
		field := fmt.Sprintf("approvalRules[%d]", i)
		if err := r.Validate(); err != nil {
			return within(field, r.Name, err)
		}
		if at, taken := first[lower(r.Name)]; taken {
			return event.FieldErrorf(field+".name", "%q is already the name of rule %d: choose another, because decisions record it", r.Name, at+1)
		}
		first[lower(r.Name)] = i
	}
	return nil
}

// within prefixes an error with the place and the name of a rule.
func within(field, name string, err error) error {
	var problem *event.FieldError
	if !errors.As(err, &problem) {
		return err
	}
	if name != "" && problem.Field != "name" {
		return event.FieldErrorf(field+"."+problem.Field, "%s (rule %q)", problem.Problem, name)
	}
	return event.FieldErrorf(field+"."+problem.Field, "%s", problem.Problem)
}

// Validate reports the first invalid field, as a [*event.FieldError]: when, terms.quorum.
func (r Rule) Validate() error {
	switch err := event.ValidateName("name", r.Name); {
	case strings.TrimSpace(r.Name) == "":
		return event.FieldErrorf("name", "is required: people see it, and decisions record it")
	case len(r.Name) > MaxName:
		return event.FieldErrorf("name", "is %d bytes long, must be at most %d", len(r.Name), MaxName)
	case err != nil:
		return err
	case r.Effect == "":
		return event.FieldErrorf("effect", "is required: allow, ask or deny")
	case r.Effect != EffectAllow && r.Effect != EffectAsk && r.Effect != EffectDeny:
		return event.FieldErrorf("effect", "%q is not allow, ask or deny", r.Effect)
	case len(r.Reason) > MaxReason:
		return event.FieldErrorf("reason", "is %d bytes, must be at most %d", len(r.Reason), MaxReason)
	case r.Effect != EffectAsk && !r.Terms.IsZero():
		return event.FieldErrorf("terms", "require the effect ask: other effects request no approval")
	}
	if err := checkNames("tools", r.Tools, event.IsToolPattern); err != nil {
		return err
	}
	if err := checkNames("agents", r.Agents, func(string) bool { return false }); err != nil {
		return err
	}
	if err := r.checkWhen(); err != nil {
		return err
	}
	return event.WithinField("terms", r.Terms.Validate())
}

func (r Rule) checkWhen() error {
	if r.When == "" {
		return nil
	}
	if _, err := compiled(r.When); err != nil {
		return event.FieldErrorf("when", "%s", err)
	}
	return nil
}

// nameForm is the form of the names of tools and agents.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkNames(field string, names []string, pattern func(string) bool) error {
	if len(names) > maxNames {
		return event.FieldErrorf(field, "has %d names, must have at most %d", len(names), maxNames)
	}
	for i, name := range names {
		if name != "*" && !nameForm.MatchString(name) && !pattern(name) {
			return event.FieldErrorf(fmt.Sprintf("%s[%d]", field, i), `%q is neither a name (1 to 64 letters, digits, _ and -) nor "*", which stands for all`, name)
		}
	}
	return nil
}

// Validate reports the first invalid field, as a [*event.FieldError].
func (t Terms) Validate() error {
	if len(t.Approvers) > MaxApprovers {
		return event.FieldErrorf("approvers", "has %d entries, must have at most %d", len(t.Approvers), MaxApprovers)
	}
	if err := checkPeople("approvers", t.Approvers); err != nil {
		return err
	}
	if len(t.Groups) > MaxGroups {
		return event.FieldErrorf("groups", "has %d entries, must have at most %d", len(t.Groups), MaxGroups)
	}
	for i, group := range t.Groups {
		if err := event.ValidateName(fmt.Sprintf("groups[%d]", i), group); err != nil {
			return err
		}
	}
	switch {
	case t.Quorum < 0 || t.Quorum > MaxApprovers:
		return event.FieldErrorf("quorum", "is %d, must be 1 to %d (default 1)", t.Quorum, MaxApprovers)
	case len(t.Approvers) > 0 && len(t.Groups) == 0 && t.Quorum > len(t.Approvers):
		return event.FieldErrorf("quorum", "is %d, but only %d may approve: name more in approvers, or ask for fewer", t.Quorum, len(t.Approvers))
	case t.Expires != 0 && (t.Expires < MinExpires || t.Expires > MaxExpires):
		return event.FieldErrorf("expires", "is %s, must be %s to %s (or 0: never)", t.Expires, MinExpires, MaxExpires)
	case t.Remind != 0 && (t.Remind < MinExpires || t.Remind > MaxExpires):
		return event.FieldErrorf("remind", "is %s, must be %s to %s (or 0: never)", t.Remind, MinExpires, MaxExpires)
	case t.OnExpiry != "" && t.OnExpiry != OnExpiryDeny && t.OnExpiry != OnExpiryInterrupt:
		return event.FieldErrorf("onExpiry", "%q is not deny or interrupt", t.OnExpiry)
	}
	return nil
}
