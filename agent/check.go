package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Bounds of what a definition holds, beside those of [Agent.Validate].
const (
	maxTemperature     = 2
	maxMaxOutputTokens = 10_000_000
	maxContextMessages = 100_000
	maxTools           = 500
)

// Check reports the first field of a definition that is wrong, as a [*event.FieldError]. It
// refuses what [Agent.Validate] does and, since whoever writes JSON has no compiler, what
// nobody can mean.
func Check(a Agent) error {
	if err := checkMeant(a); err != nil {
		return err
	}
	for _, one := range parts(a) {
		if err := one.only.Validate(); err != nil {
			return one.located(err)
		}
	}
	return a.Validate()
}

func checkMeant(a Agent) error {
	provider, model, _ := strings.Cut(a.Model, "/")
	switch {
	case a.Name == "":
		return mistake("name", "is required")
	case a.Model == "":
		return mistake("model", `is required, as "provider/model"`)
	case provider == "" || model == "":
		return mistake("model", fmt.Sprintf(`%.128q is not of the form "provider/model"`, a.Model))
	case a.Temperature != nil && !(*a.Temperature >= 0 && *a.Temperature <= maxTemperature):
		return mistake("temperature", fmt.Sprintf("is %g, must be 0 to %d", *a.Temperature, maxTemperature))
	case a.MaxOutputTokens < 0 || a.MaxOutputTokens > maxMaxOutputTokens:
		return mistake("maxOutputTokens", fmt.Sprintf("is %d, must be 1 to %d; leave it out for the provider's default", a.MaxOutputTokens, maxMaxOutputTokens))
	case a.Limits.ContextMessages > maxContextMessages:
		return mistake("limits.contextMessages", fmt.Sprintf("is %d, must be 1 to %d", a.Limits.ContextMessages, maxContextMessages))
	case len(a.Tools) > maxTools:
		return mistake("tools", fmt.Sprintf("are %d, at most %d are taken", len(a.Tools), maxTools))
	}
	for i, name := range a.Tools {
		switch {
		case name == "":
			return mistake(fmt.Sprintf("tools[%d]", i), "is empty")
		case slices.Contains(a.Tools[:i], name):
			return mistake(fmt.Sprintf("tools[%d]", i), fmt.Sprintf("%q is in the list twice", name))
		}
	}
	return nil
}

// part is an agent with no more than one field of another, so that it can be wrong in
// nothing else.
type part struct {
	field string
	only  Agent
}

func parts(a Agent) []part {
	with := func(field string, set func(*Agent)) part {
		one := part{field, Agent{Name: "agent", Model: "provider/model"}}
		set(&one.only)
		return one
	}
	all := []part{
		with("name", func(p *Agent) { p.Name = a.Name }),
		with("limits.maxSteps", func(p *Agent) { p.Limits.MaxSteps = a.Limits.MaxSteps }),
		with("limits.modelTimeout", func(p *Agent) { p.Limits.ModelTimeout = a.Limits.ModelTimeout }),
		with("limits.contextMessages", func(p *Agent) { p.Limits.ContextMessages = a.Limits.ContextMessages }),
		with("approvalRules", func(p *Agent) { p.ApprovalRules = a.ApprovalRules }),
		with("approvalTerms", func(p *Agent) { p.ApprovalTerms = a.ApprovalTerms }),
		with("onWaiting", func(p *Agent) { p.OnWaiting = a.OnWaiting }),
	}
	for _, tool := range slices.Sorted(maps.Keys(a.Approvals)) {
		all = append(all, with("approvals."+tool, func(p *Agent) { p.Approvals = map[string]Policy{tool: a.Approvals[tool]} }))
	}
	return all
}

// located says where the error of the part's Validate stands, once: the error may say so
// as well.
func (p part) located(err error) error {
	field := p.field
	var known *event.FieldError
	problem := err.Error()
	if errors.As(err, &known) {
		field, problem = cmp.Or(known.Field, p.field), known.Problem
	}
	for _, prefix := range []string{fmt.Sprintf("agent %q: ", p.only.Name), "agent name ", p.field + " "} {
		problem = strings.TrimPrefix(problem, prefix)
	}
	return mistake(field, problem)
}
