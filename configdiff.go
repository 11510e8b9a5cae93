package threadmill

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// maxThreadsOfAgent is how many threads of a changed agent are counted.
const maxThreadsOfAgent = 1000

// compare says what a changed configuration file would do.
func (r *Runtime) compare(ctx context.Context, file []byte, webhooks []webhook.Endpoint) (configdiff.Diff, error) {
	if r.cfg.Propose == nil {
		return configdiff.Diff{}, configdiff.ErrNotChecked
	}
	proposed, webhooksThen, err := r.cfg.Propose(file)
	if err != nil {
		return configdiff.Diff{}, err
	}
	rules, err := rule.NewSet(rule.Config{Rules: proposed.Rules})
	if err != nil {
		return configdiff.Diff{}, err
	}
	before, err := r.side(ctx, r.cfg, r.rules, webhooks, r.cfg.AgentSource)
	if err != nil {
		return configdiff.Diff{}, err
	}
	// Agents of the program that the file does not name remain.
	after, err := r.side(ctx, proposed, rules, webhooksThen, registry.New(withAgents(agent.Fixed(proposed.Agents), r.cfg.Agents), r.store, r.known))
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

// side is a configuration, with what its rules, webhooks and agents are.
func (r *Runtime) side(ctx context.Context, cfg Config, rules *rule.Set, webhooks []webhook.Endpoint, agents agent.Source) (configdiff.Side, error) {
	out := configdiff.Side{
		ApprovalRules: cfg.ApprovalRules, Groups: cfg.ApproverGroups, Rules: rules.Specs(), Hooks: cfg.Hooks, Webhooks: webhooks,
		Knowledge: cfg.Knowledge, Redact: cfg.Redact,
	}
	for _, t := range cfg.Tools {
		if d := t.Definition(); d.Client {
			out.ClientTools = append(out.ClientTools, d)
		}
	}
	out.Tool = r.definition(out.ClientTools)
	var err error
	if out.Retention, err = r.dueBy(ctx, cfg.Retention); err != nil {
		return out, err
	}
	out.Agents, err = effective(ctx, agents, r.client.Namespace())
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
