package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// LastPass returns when the last pass of retention was complete, or zero if there was none. kept reports that there is no retention.
type LastPass func(context.Context) (last time.Time, kept bool, err error)

// Retained counts what a pass of retention has done.
func (o *Observer) Retained(ctx context.Context, pass signals.Retained) {
	if o != nil {
		o.meters.retain(ctx, pass)
	}
}

// retentionAge measures the time since the last pass, or since this process began if there was none.
func (o *Observer) retentionAge(ctx context.Context, began time.Time, last LastPass) error {
	at, kept, err := last(ctx)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = began
	}
	age := max(time.Since(at).Seconds(), 0)
	if kept {
		age = 0
	}
	o.meters.retentionAge.Record(ctx, age)
	return nil
}

// CountWaiting measures the requests for approval that wait in all threads of a namespace, and the age of the last pass of retention, until ctx ends.
// It returns at once if this process is not to do so. The caller must call the result to wait for the end.
func (o *Observer) CountWaiting(ctx context.Context, s store.Store, namespace string, last LastPass, log *slog.Logger) (wait func()) {
	if o == nil || o.cfg.CountWaiting == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(o.cfg.CountWaiting)
		defer tick.Stop()
		for began := time.Now(); ; {
			pending, err := s.PendingApprovals(ctx, namespace)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Warn("counting the approvals that wait", "error", err)
			default:
				age := 0.0
				if pending.Count > 0 {
					age = max(time.Since(pending.Oldest).Seconds(), 0)
				}
				o.meters.approvals.Record(ctx, int64(pending.Count))
				o.meters.approvalAge.Record(ctx, age)
			}
			if err := o.retentionAge(ctx, began, last); err != nil && ctx.Err() == nil {
				log.Warn("looking for the last pass of retention", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { <-ended }
}
