package threadmill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/tool"
)

// known returns the names to which the parts of the configuration may refer. Agents of a source may
// come at run time: changing.
func (cfg *Config) known(tools *tool.Set, hooks *hook.Set, changing bool) names.Known {
	var out names.Known
	if cfg.Models != nil {
		out.Fallbacks = append([]string{}, slices.Sorted(maps.Keys(cfg.Fallbacks))...)
	}
	if !cfg.ToolsElsewhere {
		out.Tools, out.Processors = append(builtin.Names(), tools.Names()...), hooks.Processors()
		out.Tools = append(out.Tools, cfg.serverTools()...)
	}
	if groups, fixed := cfg.ApproverGroups.(approval.FixedGroups); fixed || cfg.ApproverGroups == nil {
		out.Groups = append([]string{}, slices.Sorted(maps.Keys(groups))...)
	}
	if !changing {
		for _, a := range cfg.Agents {
			out.Agents = append(out.Agents, a.Name)
		}
	}
	return out
}

// checkNames reports the first name that means nothing, with its field.
func (cfg *Config) checkNames(known names.Known) error {
	for i, a := range cfg.Agents {
		if err := known.Agent(a).First(); err != nil {
			return fmt.Errorf("threadmill: Config.Agents[%d] (%s): %w", i, a.Name, err)
		}
	}
	if err := known.Rules(cfg.ApprovalRules).First(); err != nil {
		return fmt.Errorf("threadmill: Config.ApprovalRules: %w", err)
	}
	for i, h := range cfg.Hooks {
		if err := known.Filter(h.Filter).First(); err != nil {
			return fmt.Errorf("threadmill: Config.Hooks[%d] (%s): %w", i, h.Name, err)
		}
	}
	rules := cfg.Rules
	if cfg.RuleSource != nil {
		rules = append(rules[:len(rules):len(rules)], cfg.RuleSource.Rules()...)
	}
	for i, r := range rules {
		if err := known.Rule(r).First(); err != nil {
			return fmt.Errorf("threadmill: Config.Rules[%d] (%s): %w", i, r.Spec().Name, err)
		}
	}
	return nil
}

// warnOfAgents logs names of agents in rules and filters that the source does not have, or not yet.
func (r *Runtime) warnOfAgents(ctx context.Context) {
	warn := func(field string, list []string) {
		for _, name := range list {
			_, err := r.cfg.AgentSource.Agent(ctx, r.client.Namespace(), name)
			if name != "*" && errors.Is(err, agent.ErrUnknown) {
				r.cfg.Logger.WarnContext(ctx, "no agent has this name; what names it has no effect until one does", "field", field, "agent", name)
			}
		}
	}
	for _, rule := range r.cfg.ApprovalRules {
		warn("ApprovalRules."+rule.Name, rule.Agents)
	}
	for _, h := range r.cfg.Hooks {
		warn("Hooks."+h.Name, h.Filter.Agents)
	}
}
