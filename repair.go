package threadmill

import (
	"context"

	"github.com/threadmill/threadmill/internal/histories"
	"github.com/threadmill/threadmill/internal/reconcile"
	"github.com/threadmill/threadmill/internal/repair"
	"github.com/threadmill/threadmill/workflows"
)

// repair compares the store with Temporal, and mends what differs if the request says so. The task queue is then that of this store.
func (r *Runtime) repair(ctx context.Context, req repair.RepairRequest) (repair.Comparison, error) {
	replayed := workflows.Workflows{Hooks: r.workflows.Hooks, Rules: r.workflows.Rules, Redact: r.workflows.Redact, StaleAfter: r.workflows.StaleAfter, NameStep: workflows.Unregistered}
	if req.Apply && req.ThreadID == "" {
		if err := r.keeper.TakeOver(ctx); err != nil {
			return repair.Comparison{}, err
		}
	}
	return reconcile.New(reconcile.Config{
		Temporal: r.cfg.Temporal, TemporalNamespace: r.cfg.TemporalNamespace, Threads: r.client, Store: r.cfg.Store, Workflows: &replayed, Replay: r.cfg.Replay,
		Erase: histories.Histories{Temporal: r.cfg.Temporal, Namespace: r.cfg.TemporalNamespace, TaskQueue: r.cfg.TaskQueue}.Erase,
	}).Compare(ctx, req)
}
