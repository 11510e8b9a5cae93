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

// Limits of a definition, in addition to those of [Agent.Validate].
const (
	maxTemperature     = 2
	maxMaxOutputTokens = 10_000_000
	maxContextMessages = 100_000
	maxTools           = 500
)

// Check reports the first invalid field of a definition, as a [*event.FieldError]. It rejects what
// [Agent.Validate] rejects and, for definitions in JSON, further mistakes that a compiler would
// find.
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

// part is an agent with at most one field of another agent, so that Validate can only report that
// field.
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

// located adds the field to an error of the part's Validate, unless the error already names it.
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
