package approval

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Limits of rules.
const (
	MaxRules     = 1000
	MaxWhen      = 4 << 10 // bytes
	MaxApprovers = 100

	MinExpires = time.Second
	MaxExpires = 365 * 24 * time.Hour

	maxName   = 128 // bytes
	maxReason = 4 << 10
	maxNames  = 1000
)

// Check reports the first invalid rule, as a [*event.FieldError] with its place:
// approvalRules[0].when.
func Check(rules []Rule) error {
	if len(rules) > MaxRules {
		return wrong("approvalRules", "are %d, at most %d are taken", len(rules), MaxRules)
	}
	first := map[string]int{}
	for i, r := range rules {
		field := fmt.Sprintf("approvalRules[%d]", i)
		if err := r.Validate(); err != nil {
			return within(field, r.Name, err)
		}
		if at, taken := first[lower(r.Name)]; taken {
			return wrong(field+".name", "%q is the name of rule %d already: it is kept with what the rule decides, so choose another", r.Name, at+1)
		}
		first[lower(r.Name)] = i
	}
	return nil
}

// CheckTerms reports invalid terms, as a [*event.FieldError] with its place: approvalTerms.quorum.
func CheckTerms(t Terms) error { return within("approvalTerms", "", t.validate()) }

func wrong(field, format string, args ...any) error {
	return &event.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// within prefixes an error with the place and the name of a rule.
func within(field, name string, err error) error {
	var problem *event.FieldError
	if !errors.As(err, &problem) {
		return err
	}
	if name != "" && problem.Field != "name" {
		return wrong(field+"."+problem.Field, "%s (rule %q)", problem.Problem, name)
	}
	return wrong(field+"."+problem.Field, "%s", problem.Problem)
}

// Validate reports the first invalid field, as a [*event.FieldError]: when, terms.quorum.
func (r Rule) Validate() error {
	switch err := event.CheckName("name", r.Name); {
	case strings.TrimSpace(r.Name) == "":
		return wrong("name", "is required: people see it, and it is kept with what the rule decides")
	case len(r.Name) > maxName:
		return wrong("name", "is %d bytes long, at most %d are taken", len(r.Name), maxName)
	case err != nil:
		return err
	case r.Effect == "":
		return wrong("effect", "is required: allow, ask or deny")
	case r.Effect != EffectAllow && r.Effect != EffectAsk && r.Effect != EffectDeny:
		return wrong("effect", "%q is not allow, ask or deny", r.Effect)
	case len(r.Reason) > maxReason:
		return wrong("reason", "is %d bytes, at most %d are taken", len(r.Reason), maxReason)
	case r.Effect != EffectAsk && !r.Terms.IsZero():
		return wrong("terms", "go with the effect ask only: nobody is asked otherwise")
	}
	if err := checkNames("tools", r.Tools); err != nil {
		return err
	}
	if err := checkNames("agents", r.Agents); err != nil {
		return err
	}
	if err := r.checkWhen(); err != nil {
		return err
	}
	return within("terms", "", r.Terms.validate())
}

func (r Rule) checkWhen() error {
	if r.When == "" {
		return nil
	}
	if _, err := compiled(r.When); err != nil {
		return wrong("when", "%s", err)
	}
	return nil
}

// nameForm is the form of the names of tools and agents.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkNames(field string, names []string) error {
	if len(names) > maxNames {
		return wrong(field, "are %d names, at most %d are taken", len(names), maxNames)
	}
	for i, name := range names {
		if name != "*" && !nameForm.MatchString(name) {
			return wrong(fmt.Sprintf("%s[%d]", field, i), `%q is neither a name (1 to 64 letters, digits, _ and -) nor "*", which stands for all`, name)
		}
	}
	return nil
}

func (t Terms) validate() error {
	if len(t.Approvers) > MaxApprovers {
		return wrong("approvers", "are %d, at most %d are taken", len(t.Approvers), MaxApprovers)
	}
	for i, who := range t.Approvers {
		field := fmt.Sprintf("approvers[%d]", i)
		if err := event.CheckName(field, who); err != nil {
			return err
		}
		if slices.Contains(t.Approvers[:i], who) {
			return wrong(field, "%q is in the list twice, and counts once: remove one", who)
		}
	}
	switch {
	case t.Quorum < 0 || t.Quorum > MaxApprovers:
		return wrong("quorum", "is %d, must be 1 to %d (default 1)", t.Quorum, MaxApprovers)
	case len(t.Approvers) > 0 && t.Quorum > len(t.Approvers):
		return wrong("quorum", "is %d, but only %d may approve: name more in approvers, or ask for fewer", t.Quorum, len(t.Approvers))
	case t.Expires != 0 && (t.Expires < MinExpires || t.Expires > MaxExpires):
		return wrong("expires", "is %s, must be %s to %s (or 0: never)", t.Expires, MinExpires, MaxExpires)
	case t.Remind != 0 && (t.Remind < MinExpires || t.Remind > MaxExpires):
		return wrong("remind", "is %s, must be %s to %s (or 0: never)", t.Remind, MinExpires, MaxExpires)
	case t.OnExpiry != "" && t.OnExpiry != OnExpiryDeny && t.OnExpiry != OnExpiryInterrupt:
		return wrong("onExpiry", "%q is not deny or interrupt", t.OnExpiry)
	}
	return nil
}
