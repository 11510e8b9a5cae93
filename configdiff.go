package threadmill

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/configdiff"
	"github.com/threadmill/threadmill/internal/registry"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Proposal is what a changed configuration file would make of the parts of a [Config] that have these names.
type Proposal struct {
	// Agents are those of the file; those of Config.Agents that it does not name remain.
	Agents []agent.Agent

	// ClientTools are the definitions of all tools of connected clients.
	ClientTools []tool.Definition

	ApprovalRules  []approval.Rule
	ApproverGroups approval.Groups
	Rules          []rule.Rule
	Hooks          []hook.Hook
	Webhooks       []webhook.Endpoint
	Knowledge      Knowledge
	Retention      Retention
	Redact         *redact.Redactor
}

// maxThreadsOfAgent is how many threads of a changed agent are counted.
const maxThreadsOfAgent = 1000

// compare says what a changed configuration file would do.
func (r *Runtime) compare(ctx context.Context, file []byte, webhooks []webhook.Endpoint) (configdiff.Diff, error) {
	if r.cfg.Propose == nil {
		return configdiff.Diff{}, configdiff.ErrNotChecked
	}
	p, err := r.cfg.Propose(file)
	if err != nil {
		return configdiff.Diff{}, err
	}
	before, err := r.runs(ctx, webhooks)
	if err != nil {
		return configdiff.Diff{}, err
	}
	after, err := r.would(ctx, p)
	if err != nil {
		return configdiff.Diff{}, err
	}
	waiting, err := r.client.ListApprovals(ctx, threadclient.ApprovalsQuery{Limit: threadclient.MaxApprovalsLimit})
	if err != nil {
		return configdiff.Diff{}, err
	}
	first, err := r.cfg.AgentSource.Agent(ctx, r.client.Namespace(), "")
	if err != nil && !errors.Is(err, agent.ErrUnknown) {
		return configdiff.Diff{}, err
	}
	return configdiff.Compare(ctx, r.client.Namespace(), activities.Policy, before, after, waiting, func(ctx context.Context, name string) (int, error) {
		found, err := r.client.List(ctx, threadclient.ListQuery{Agent: before.Agents[name].Name, Default: strings.EqualFold(first.Name, name), Limit: maxThreadsOfAgent})
		return len(found), err
	})
}

// runs is the configuration that runs, with these webhooks.
func (r *Runtime) runs(ctx context.Context, webhooks []webhook.Endpoint) (configdiff.Side, error) {
	out := configdiff.Side{
		ApprovalRules: r.cfg.ApprovalRules, Groups: r.cfg.ApproverGroups, Rules: r.rules.Specs(), Hooks: r.cfg.Hooks, Webhooks: webhooks,
		Knowledge: r.cfg.Knowledge, Redact: r.cfg.Redact,
	}
	for _, t := range r.cfg.Tools {
		if d := t.Definition(); d.Client {
			out.ClientTools = append(out.ClientTools, d)
		}
	}
	out.Tool = r.definition(out.ClientTools)
	var err error
	if out.Retention, err = r.dueBy(ctx, r.cfg.Retention); err != nil {
		return out, err
	}
	out.Agents, err = effective(ctx, r.cfg.AgentSource, r.client.Namespace())
	return out, err
}

// would is the configuration with a changed file.
func (r *Runtime) would(ctx context.Context, p Proposal) (configdiff.Side, error) {
	rules, err := rule.NewSet(rule.Config{Rules: p.Rules})
	if err != nil {
		return configdiff.Side{}, err
	}
	out := configdiff.Side{
		ApprovalRules: p.ApprovalRules, Groups: p.ApproverGroups, Rules: rules.Specs(), Hooks: p.Hooks, Webhooks: p.Webhooks,
		Knowledge: p.Knowledge, Redact: p.Redact, ClientTools: p.ClientTools, Tool: r.definition(p.ClientTools),
	}
	if out.Retention, err = r.dueBy(ctx, p.Retention); err != nil {
		return out, err
	}
	source := registry.New(withAgents(agent.Fixed(p.Agents), r.cfg.Agents), r.store, r.known)
	out.Agents, err = effective(ctx, source, r.client.Namespace())
	return out, err
}

// definition finds tools: those of connected clients in a list, and others among those that run.
func (r *Runtime) definition(clients []tool.Definition) func(string) (tool.Definition, bool) {
	return func(name string) (tool.Definition, bool) {
		for _, d := range clients {
			if d.Name == name {
				return d, true
			}
		}
		for _, t := range r.cfg.Tools {
			if d := t.Definition(); d.Name == name && !d.Client {
				return d, true
			}
		}
		return tool.Definition{}, false
	}
}

// effective returns the agents of a source, by their names in lower case.
func effective(ctx context.Context, source agent.Source, namespace string) (map[string]agent.Agent, error) {
	out := map[string]agent.Agent{}
	lister, ok := source.(agent.Lister)
	if !ok {
		return out, nil
	}
	list, err := lister.Agents(ctx, namespace)
	for _, a := range list {
		out[strings.ToLower(cmp.Or(a.Name, "-"))] = a
	}
	return out, err
}
