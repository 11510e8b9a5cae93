package threadmill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/ops/queueowner"
	"github.com/threadmill/threadmill/store"
)

// Serve runs workers of your own, which [Runtime.Register] has made, while this configuration may poll [Config].TaskQueue. [Runtime.Run]
// does so itself.
//
// A task queue belongs to one program with one store, which the workers agree on through Temporal before they poll: else hooks and
// approvals would depend on who takes a task. Serve returns an error if the queue is another program's, and either a worker polls it or
// a workflow runs there. If a later configuration of the same program polls, with other hooks, processors, rules, redaction or
// approvals, the context of run ends after some seconds, and run is called again once that has gone.
func (r *Runtime) Serve(ctx context.Context, run func(ctx context.Context) error) error {
	return r.keeper.Serve(ctx, run)
}

// WorkerIdentity returns the Identity of a worker of your own for [Runtime.Register], which tells other processes whose it is.
func (r *Runtime) WorkerIdentity(ctx context.Context) (string, error) {
	return r.keeper.WorkerIdentity(ctx)
}

// keep makes the keeper of the task queue. records is the store without what observes it, and agents is the source without the agents
// in the store.
func (r *Runtime) keep(records store.Store, agents agent.Source) {
	cfg := &r.cfg
	var mu sync.Mutex
	known := ""
	idOf := func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		identified, ok := records.(store.Identified)
		if !ok || known != "" {
			return known, nil
		}
		id, err := identified.ID(ctx)
		known = id
		return id, err
	}
	r.keeper = &queueowner.Keeper{
		Client: cfg.Temporal, Namespace: cfg.TemporalNamespace, Queue: cfg.TaskQueue, Build: cfg.Deployment.Build, Take: cfg.TakeTaskQueue, Logger: cfg.Logger,
		Mine: func(ctx context.Context) (queueowner.Owner, error) {
			guards, err := r.guards(ctx, agents)
			if err != nil {
				return queueowner.Owner{}, fmt.Errorf("threadmill: %w", err)
			}
			id, err := idOf(ctx)
			if err != nil {
				return queueowner.Owner{}, fmt.Errorf("threadmill: %w", err)
			}
			return queueowner.Owner{Program: cfg.Program, Store: id, Guards: map[string]queueowner.Guards{cfg.Deployment.Build: guards}}, nil
		},
	}
}

// guards are what decides whether and how an event has an effect.
func (r *Runtime) guards(ctx context.Context, agents agent.Source) (queueowner.Guards, error) {
	cfg := &r.cfg
	redacts := cfg.Redact.Config()
	patterns := make([][]string, len(redacts.Patterns))
	for i, p := range redacts.Patterns {
		patterns[i] = []string{p.Name, p.Expression}
	}
	asking := map[string]bool{}
	for _, t := range cfg.Tools {
		if d := t.Definition(); d.NeedsApproval {
			asking[d.Name] = true
		}
	}
	groups, _ := cfg.ApproverGroups.(approval.FixedGroups)
	policies := map[string]any{}
	if lister, ok := agents.(agent.Lister); ok {
		all, err := lister.Agents(ctx, r.client.Namespace())
		if err != nil {
			return nil, fmt.Errorf("listing the agents: %w", err)
		}
		for _, a := range all {
			policies[a.Name] = []any{a.Approvals, a.ApprovalRules, a.ApprovalTerms}
		}
	}
	return queueowner.Guards{
		"hooks":     queueowner.Digest(r.workflows.Hooks.Specs()), // with the processors
		"rules":     queueowner.Digest(r.rules.Specs()),
		"redaction": queueowner.Digest([]any{patterns, redacts.Func != nil}),
		"approvals": queueowner.Digest([]any{cfg.ApprovalRules, groups, slices.Sorted(maps.Keys(asking)), policies}),
	}, nil
}
