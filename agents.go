package threadmill

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
)

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
