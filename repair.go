package threadmill

import (
	"context"

	"github.com/threadmill/threadmill/internal/ops/histories"
	"github.com/threadmill/threadmill/internal/ops/reconcile"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/workflows"
)

// Repair compares all threads with Temporal and mends what differs, like "starter repair --apply": after the store or Temporal has lost what the
// other one has, as databases do that do not wait for the disk when the power fails. Call it before [Runtime.Run], while no worker runs. It does
// not take the task queue over, returns the number of threads that differed, and logs them. An error is one of the store or of Temporal; Repair can be called again.
func (r *Runtime) Repair(ctx context.Context) (differed int, err error) {
	reconciler, compared := r.reconciler(), 0
	for req := (repair.RepairRequest{Apply: true}); ; {
		page, err := reconciler.Compare(ctx, req)
		if err != nil {
			return differed, err
		}
		differed, compared = differed+len(page.Threads), compared+page.Compared
		for _, t := range page.Threads {
			for _, d := range t.Differences {
				r.cfg.Logger.WarnContext(ctx, "the store and Temporal differed", "thread", t.ThreadID, "missingIn", d.In, "what", d.Detail, "state", d.State, "error", d.Error)
			}
		}
		r.cfg.Logger.InfoContext(ctx, "comparing the store with Temporal", "threads", compared, "differed", differed)
		if req.Cursor = page.Next; req.Cursor == "" {
			return differed, nil
		}
	}
}

// repair compares the store with Temporal, and mends what differs if the request says so. The task queue is then that of this store.
func (r *Runtime) repair(ctx context.Context, req repair.RepairRequest) (repair.Comparison, error) {
	if req.Apply && req.ThreadID == "" {
		if err := r.keeper.TakeOver(ctx); err != nil {
			return repair.Comparison{}, err
		}
	}
	return r.reconciler().Compare(ctx, req)
}

func (r *Runtime) reconciler() *reconcile.Reconciler {
	replayed := workflows.Workflows{Hooks: r.workflows.Hooks, Rules: r.workflows.Rules, Redact: r.workflows.Redact, StaleAfter: r.workflows.StaleAfter, NameStep: workflows.Unregistered}
	return reconcile.New(reconcile.Config{
		Temporal: r.cfg.Temporal, TemporalNamespace: r.cfg.TemporalNamespace, Threads: r.client, Store: r.cfg.Store, Workflows: &replayed, Replay: r.cfg.Replay,
		Erase: histories.Histories{Temporal: r.cfg.Temporal, Namespace: r.cfg.TemporalNamespace, TaskQueue: r.cfg.TaskQueue}.Erase,
	})
}
