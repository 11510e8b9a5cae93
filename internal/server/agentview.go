package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/registry"
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

func (h *agentHandlers) agentDetail(ctx context.Context, e registry.Entry) agent.Detail {
	out := agent.Detail{Summary: agentSummary(e)}
	if e.Problem != nil {
		return out
	}
	definition := e.Definition()
	out.Definition, out.Warnings = &definition, append(h.agentWarnings(e.Agent), h.groupWarnings(ctx, e.Agent)...)
	return out
}

// agentWarnings lists the tools and providers that an agent names and the workers do not have, or no
// longer.
func (h *agentHandlers) agentWarnings(a agent.Agent) []string {
	var out []string
	provider, _, slash := strings.Cut(a.Model, "/")
	if slash && h.models != nil && !slices.Contains(h.models, provider) {
		out = append(out, fmt.Sprintf("model: there is no provider %q, so that the agent cannot answer; there are %s", provider, strings.Join(h.models, ", ")))
	}
	for _, p := range (names.Known{Tools: h.tools, Fallbacks: h.fallbacks}).Agent(a) {
		out = append(out, fmt.Sprintf("%s: %s; calls of it fail", p.Field, p.Problem))
	}
	return out
}

// groupsWithin bounds the time of asking for the groups that an agent names.
const groupsWithin = 5 * time.Second

// groupWarnings lists the groups of approvers that an agent names and nobody knows, or that cannot be read.
func (h *agentHandlers) groupWarnings(ctx context.Context, a agent.Agent) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, groupsWithin)
	defer cancel()
	read := map[string]error{}
	warn := func(field string, t approval.Terms) {
		for i, group := range t.Groups {
			err, ok := read[group]
			if !ok {
				err = approval.ErrNoGroup
				if h.groups != nil {
					_, err = h.groups.Members(ctx, h.namespace, group)
				}
				read[group] = err
			}
			switch {
			case errors.Is(err, approval.ErrNoGroup):
				out = append(out, fmt.Sprintf("%s.groups[%d]: there is no group %q, so that none of its members can decide", field, i, group))
			case err != nil:
				h.logger.WarnContext(ctx, "reading the members of a group of approvers", "group", group, "error", err)
				out = append(out, fmt.Sprintf("%s.groups[%d]: group %q could not be read", field, i, group))
			}
		}
	}
	warn("approvalTerms", a.ApprovalTerms)
	for i, r := range a.ApprovalRules {
		warn(fmt.Sprintf("approvalRules[%d].terms", i), r.Terms)
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
