package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// retainBatch is the number of threads that a step looks at.
const retainBatch = 100

// retainFind finds the next batch of what has become too old.
func (a *Activities) retainFind(ctx context.Context, in job.RetainStep) (job.RetainFound, error) {
	now := activity.GetInfo(ctx).StartedTime
	var out job.RetainFound
	next := in
	next.UpdatedAt, next.ThreadID = time.Time{}, ""
	var err error
	switch in.Phase {
	case "", job.RetainIdle:
		if next.Phase = job.RetainClosed; in.Limits.IdleThreads > 0 {
			out.Close, err = a.due(ctx, in, &next, store.ThreadOpen, now.Add(-in.Limits.IdleThreads))
		}
	case job.RetainClosed:
		if next.Phase = job.RetainToolLogs; in.Limits.ClosedThreads > 0 {
			out.Erase, err = a.due(ctx, in, &next, store.ThreadClosed, now.Add(-in.Limits.ClosedThreads))
		}
	case job.RetainToolLogs:
		if in.Limits.ToolLogs > 0 {
			out.ToolLogs, err = a.cfg.Store.PruneToolLogs(ctx, in.Namespace, now.Add(-in.Limits.ToolLogs))
		}
		if next.Phase = in.Phase; out.ToolLogs < store.EraseBatch {
			return out, readErrorOf(err)
		}
	}
	out.Next = &next
	return out, readErrorOf(err)
}

func readErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return readError(err)
}

// due returns the threads of a batch that are due, and sets the place of the next batch of the phase, if there is one.
func (a *Activities) due(ctx context.Context, in job.RetainStep, next *job.RetainStep, status string, before time.Time) ([]string, error) {
	page := store.ThreadPage{Status: status, Limit: retainBatch, CursorUpdatedAt: in.UpdatedAt, CursorID: in.ThreadID}
	if in.UpdatedAt.IsZero() {
		page.CursorUpdatedAt = before
	}
	rows, err := a.cfg.Store.Threads(ctx, in.Namespace, page)
	if err != nil {
		return nil, err
	}
	var due []string
	for _, row := range rows {
		if retention.Old(row, before) {
			due = append(due, row.ID)
		}
	}
	if len(rows) == retainBatch {
		last := rows[len(rows)-1]
		next.Phase, next.UpdatedAt, next.ThreadID = in.Phase, last.UpdatedAt, last.ID
		if next.Phase == "" {
			next.Phase = job.RetainIdle
		}
	}
	return due, nil
}

// retainClose closes a thread, unless it is no longer idle. It reports whether it has asked the thread to close.
func (a *Activities) retainClose(ctx context.Context, in job.RetainClose) (bool, error) {
	row, err := a.cfg.Store.Thread(ctx, event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readError(err)
	}
	if row.Status != store.ThreadOpen || in.IdleThreads <= 0 || !retention.Old(row, time.Now().Add(-in.IdleThreads)) || a.cfg.CloseIdle == nil {
		return false, nil
	}
	err = a.cfg.CloseIdle(ctx, in.ThreadID)
	switch {
	case errors.Is(err, signals.ErrThreadErased):
		return false, nil
	case signals.Gone(err):
		// Its workflow was terminated or has failed, and can no longer say so.
		_, err = a.cfg.Store.Append(ctx, event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID}, store.Batch{Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	}
	return err == nil, err
}

// retainCheck reports whether a closed thread is still due.
func (a *Activities) retainCheck(ctx context.Context, in job.RetainCheck) (bool, error) {
	row, err := a.cfg.Store.Thread(ctx, event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readError(err)
	}
	return row.Status == store.ThreadClosed && in.ClosedThreads > 0 && retention.Old(row, time.Now().Add(-in.ClosedThreads)), nil
}

// retainDone stores the receipt of a pass.
func (a *Activities) retainDone(ctx context.Context, in job.RetainStep) error {
	defer beating(ctx)()
	if in.Pass.Erased+in.Pass.ToolLogs+in.Pass.Failed > 0 {
		if err := a.cfg.Store.Scrub(ctx); err != nil {
			return readError(err)
		}
	}
	in.Pass.FinishedAt = activity.GetInfo(ctx).StartedTime.UTC()
	raw, err := json.Marshal(in.Pass)
	if err != nil {
		return err
	}
	for {
		had, err := a.cfg.Store.Document(ctx, in.Namespace, retention.Kind, retention.Last)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return readError(err)
		}
		var last signals.Retained
		if err == nil && json.Unmarshal(had.Content, &last) == nil && last.StartedAt.Equal(in.Pass.StartedAt) {
			return nil // an earlier attempt has stored it
		}
		_, err = a.cfg.Store.PutDocument(ctx, in.Namespace, store.Document{Kind: retention.Kind, Name: retention.Last, Content: raw, By: "retention"}, had.Version)
		if conflict, ok := errors.AsType[*store.ConflictError](err); ok && conflict != nil {
			continue
		}
		if err == nil && a.cfg.Retained != nil {
			a.cfg.Retained(ctx, in.Pass)
		}
		if p := in.Pass; err == nil && p.Closed+p.Erased+p.ToolLogs+p.Failed > 0 {
			a.log.InfoContext(ctx, "retention", "closed", p.Closed, "erased", p.Erased, "records", p.Contents.Records, "toolLogs", p.ToolLogs, "failed", p.Failed)
		}
		return err
	}
}
