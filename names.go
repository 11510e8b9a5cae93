package threadmill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
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

// agents finds agents in a source first, and then among those of the configuration.
type agents struct {
	source agent.Source
	fixed  agent.Fixed
}

// Agent implements [agent.Source].
func (a agents) Agent(ctx context.Context, namespace, name string) (agent.Agent, error) {
	found, err := a.source.Agent(ctx, namespace, name)
	if !errors.Is(err, agent.ErrUnknown) {
		return found, err
	}
	if own, missing := a.fixed.Agent(ctx, namespace, name); missing == nil {
		return own, nil
	}
	return found, err
}

// listedAgents are agents whose source lists its own.
type listedAgents struct {
	agents
	lister agent.Lister
}

// Agents implements [agent.Lister].
func (a listedAgents) Agents(ctx context.Context, namespace string) ([]agent.Agent, error) {
	list, err := a.lister.Agents(ctx, namespace)
	if err != nil {
		return nil, err
	}
	list = slices.Clone(list)
	for _, own := range a.fixed {
		if !slices.ContainsFunc(list, func(other agent.Agent) bool { return strings.EqualFold(own.Name, other.Name) }) {
			list = append(list, own)
		}
	}
	return list, nil
}

// withAgents returns a source of the agents of another one and of a list.
func withAgents(source agent.Source, fixed agent.Fixed) agent.Source {
	if len(fixed) == 0 {
		return source
	}
	all := agents{source, fixed}
	if lister, ok := source.(agent.Lister); ok {
		return listedAgents{all, lister}
	}
	return all
}

// serverTools returns patterns for the tools of the source's servers. A source that does not say which
// servers it has may have any.
func (cfg *Config) serverTools() []string {
	if cfg.ToolSource == nil {
		return nil
	}
	known, ok := cfg.ToolSource.(interface{ ServerNames() []string })
	if !ok {
		return []string{names.AnyServer}
	}
	var patterns []string
	for _, server := range known.ServerNames() {
		patterns = append(patterns, event.ToolPattern(server))
	}
	if d, ok := cfg.ToolSource.(interface{ Declared() *toolserver.Registry }); ok && d.Declared() != nil && d.Declared().Permitted().Servers {
		patterns = append(patterns, names.AnyServer)
	}
	return patterns
}

// runTools runs the source of tools, if it runs, until the returned function is called.
func (r *Runtime) runTools(ctx context.Context) (stop func()) {
	source, ok := r.cfg.ToolSource.(interface{ Run(context.Context) error })
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := source.Run(ctx); err != nil {
			r.cfg.Logger.Error("the source of tools has stopped: calls of its tools fail", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
