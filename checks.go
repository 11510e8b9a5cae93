package threadmill

import (
	"context"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/ops/doctor"
)

// check checks the parts of the installation that this process reaches.
func (r *Runtime) check(ctx context.Context, callModels bool) []doctor.Finding {
	temporal := make(chan []doctor.Finding, 1)
	go func() {
		temporal <- doctor.Temporal{
			Client: r.cfg.Temporal, Namespace: r.cfg.TemporalNamespace, TaskQueue: r.cfg.TaskQueue, StepQueues: r.queuesOfSteps, Deployment: r.cfg.Deployment.Name,
			Owner: r.keeper.Check,
		}.Check(ctx)
	}()
	models := r.checkModels(ctx, callModels)
	return slices.Concat(<-temporal, r.checkRetention(ctx), r.checkErasures(ctx), models)
}

func (r *Runtime) checkModels(ctx context.Context, call bool) []doctor.Finding {
	used, err := r.usedModels(ctx)
	if err != nil {
		return []doctor.Finding{doctor.Bad("models", "check the store, and the agents of the configuration", "the agents cannot be listed: %s", err)}
	}
	return doctor.Models{Providers: r.cfg.Models, Used: used, Call: call}.Check(ctx)
}

// usedModels returns the models of all agents, of titles and of knowledge, with those of chains.
func (r *Runtime) usedModels(ctx context.Context) ([]string, error) {
	k := r.cfg.Knowledge
	names := []string{r.cfg.TitleModel, k.ContextModel, k.EntityModel}
	if lister, ok := r.cfg.AgentSource.(agent.Lister); ok {
		agents, err := lister.Agents(ctx, r.client.Namespace())
		if err != nil {
			return nil, err
		}
		for _, a := range agents {
			names = append(names, a.Model)
		}
	}
	var used []string
	for _, name := range names {
		switch chain, isChain := r.cfg.Fallbacks[name]; {
		case isChain:
			used = append(used, chain.Chain...)
		case strings.Contains(name, "/"):
			used = append(used, name)
		}
	}
	return used, nil
}
