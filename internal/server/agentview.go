package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/registry"
	"github.com/threadmill/threadmill/store"
)

func agentSummary(e registry.Entry) agent.Summary {
	out := agent.Summary{
		Name: e.Name, Model: e.Model, Description: e.Description, Source: string(e.Source),
		Version: e.Version, By: e.By, At: e.At,
	}
	if e.Problem != nil {
		out.Problem = e.Problem.Error()
	}
	return out
}

func (h *agentHandlers) agentDetail(e registry.Entry) agent.Detail {
	out := agent.Detail{Summary: agentSummary(e)}
	if e.Problem != nil {
		return out
	}
	definition := e.Definition()
	out.Definition, out.Warnings = &definition, h.agentWarnings(e.Agent)
	return out
}

// agentWarnings lists the tools and providers that an agent names and the workers do not have. They
// are not errors, since the next release of the workers may have them.
func (h *agentHandlers) agentWarnings(a agent.Agent) []string {
	var out []string
	provider, _, _ := strings.Cut(a.Model, "/")
	if h.models != nil && !slices.Contains(h.models, provider) {
		out = append(out, fmt.Sprintf("model: there is no provider %q, so that the agent cannot answer; there are %s", provider, strings.Join(h.models, ", ")))
	}
	if h.tools == nil {
		return out
	}
	for i, name := range a.Tools {
		if !slices.Contains(h.tools, name) {
			out = append(out, fmt.Sprintf("tools[%d]: there is no tool %q; the agent does without", i, name))
		}
	}
	return append(out, policyWarnings(a, slices.Concat(h.tools, a.Tools))...)
}

// policyWarnings lists the policies and rules of an agent that match none of these tools and so
// have no effect.
func policyWarnings(a agent.Agent, tools []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Approvals)) {
		if name == "*" || slices.Contains(tools, name) {
			continue
		}
		warning := fmt.Sprintf("approvals.%s: there is no tool %q; the policy is for no call", name, name)
		if at := slices.IndexFunc(tools, func(tool string) bool { return strings.EqualFold(tool, name) }); at >= 0 {
			warning += fmt.Sprintf(". Upper and lower case differ here, and the tool is called %q", tools[at])
		}
		out = append(out, warning)
	}
	for i, r := range a.ApprovalRules {
		for j, name := range r.Tools {
			// Rules match names case-insensitively.
			if name != "*" && !slices.ContainsFunc(tools, func(tool string) bool { return strings.EqualFold(tool, name) }) {
				out = append(out, fmt.Sprintf("approvalRules[%d].tools[%d]: there is no tool %q; the rule sees no call of it", i, j, name))
			}
		}
	}
	return out
}

func agentVersion(v store.AgentVersion) agent.Version {
	out := agent.Version{Name: v.Name, Version: v.Version, Deleted: v.Deleted, By: v.By, At: v.At, Seq: v.Seq}
	if v.Deleted {
		return out
	}
	a, err := registry.Read(v)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	definition := a.Definition()
	out.Definition = &definition
	return out
}
