package threadmill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Erase erases a thread and the threads of its sub-agents for good: their records, their workflows in Temporal and all that was
// derived from them. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. by is the
// person or program that asks for it. See docs/erasure.md.
func (r *Runtime) Erase(ctx context.Context, threadID, by string) (signals.Erasure, error) {
	out, err := r.client.Erase(ctx, threadID, by)
	if err != nil {
		return out, fmt.Errorf("threadmill: %w", err)
	}
	return out, nil
}

// Erasure returns the receipt of the erasure of a thread. The error wraps [store.ErrNotFound] if there is none.
func (r *Runtime) Erasure(ctx context.Context, threadID string) (signals.Erasure, error) {
	e, err := erasures.Load(ctx, r.store, r.client.Namespace(), threadID)
	if err != nil {
		return e, fmt.Errorf("threadmill: reading the receipt of the erasure of thread %q: %w", threadID, err)
	}
	return e, nil
}

// ErasePerson erases a person in all threads of the namespace: threads in which nobody else wrote are erased, in the others the
// person is replaced. name is the name under which the person wrote and decided, terms are further words by which the person is
// known. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. An invalid name or term is
// an [*event.FieldError]. See docs/erasure.md.
func (r *Runtime) ErasePerson(ctx context.Context, name string, terms []string, by string) (signals.PersonErasure, error) {
	e, err := erasures.BeginPerson(ctx, r.store, r.client.Namespace(), erasures.PersonRequest{Person: name, Terms: terms}, by)
	if err != nil {
		return signals.PersonErasure{}, fmt.Errorf("threadmill: erasing a person: %w", err)
	}
	out, err := r.client.ErasePerson(ctx, e.ID, e.By)
	if err != nil {
		return out, fmt.Errorf("threadmill: %w", err)
	}
	return out, nil
}

// longWait is the time after which a thread for which the erasure of a person waits is worth a look.
const longWait = 10 * time.Minute

// checkErasures finds threads for which the erasure of a person waits.
func (r *Runtime) checkErasures(ctx context.Context) (found []doctor.Finding) {
	const check = "erasures"
	all, err := erasures.PeopleInProgress(ctx, r.store, r.client.Namespace())
	if err != nil {
		return nil // the check of the store tells it
	}
	for _, e := range all {
		for _, w := range e.Waiting {
			if time.Since(w.Since) > longWait {
				found = append(found, doctor.Odd(check, "end what it waits for, or close or erase the thread: the others are erased, and the receipt waits for this one",
					"a thread of a person's erasure waits: %s, of erasure %s, since %s: %s", w.ThreadID, e.ID, w.Since.Format(time.RFC3339), w.Why))
			}
		}
	}
	return found
}

// erased asks the store. While it is unavailable, a thread counts as one that exists: it refuses what comes for an erased one.
func (cfg *Config) erased(ctx context.Context, namespace, threadID string) (bool, error) {
	_, err := cfg.Store.Thread(ctx, event.ThreadKey{Namespace: namespace, ThreadID: threadID})
	return errors.Is(err, store.ErrErased), nil
}

// Retention says how long the threads of the namespace are kept: see docs/retention.md. The zero value keeps everything for ever.
type Retention struct {
	// ClosedThreads is the age at which a closed thread is erased, with the threads of its sub-agents. It counts from the thread's
	// last record. At least an hour; 0 = never.
	ClosedThreads time.Duration

	// IdleThreads is the age at which an open thread that has nothing to do, and waits for nobody, is closed. At least an hour;
	// 0 = never.
	IdleThreads time.Duration

	// ToolLogs is the age at which the log of a tool call is deleted: its arguments and its result as the tool returned it. The
	// messages of the thread stay. At least 48 hours, since steps look for the logs of earlier attempts; 0 = never.
	ToolLogs time.Duration

	// Every is the time between two passes, at least a minute. Default an hour.
	Every time.Duration
}

// Bounds of [Retention].
const (
	MinRetention        = time.Hour
	MinToolLogRetention = 48 * time.Hour
	MinRetentionEvery   = time.Minute

	defaultRetentionEvery = time.Hour
)

func (r Retention) validate() error {
	for _, limit := range []struct {
		field string
		value time.Duration
		least time.Duration
	}{
		{"ClosedThreads", r.ClosedThreads, MinRetention},
		{"IdleThreads", r.IdleThreads, MinRetention},
		{"ToolLogs", r.ToolLogs, MinToolLogRetention},
		{"Every", r.Every, MinRetentionEvery},
	} {
		if limit.value != 0 && limit.value < limit.least {
			return fmt.Errorf("threadmill: Config.Retention.%s is %s, must be at least %s, or 0", limit.field, limit.value, limit.least)
		}
	}
	return nil
}

// limits returns the retention with defaults.
func (r Retention) limits() job.RetainLimits {
	return job.RetainLimits{ClosedThreads: r.ClosedThreads, IdleThreads: r.IdleThreads, ToolLogs: r.ToolLogs, Every: cmp.Or(r.Every, defaultRetentionEvery)}
}

// retain tells the limits to the workflow that deletes what is too old. It starts the workflow unless it runs: there is one for
// all processes, and the limits of the process that started last apply.
func (r *Runtime) retain(ctx context.Context) {
	namespace, limits := r.client.Namespace(), r.cfg.Retention.limits()
	id := job.RetainWorkflowID(namespace)
	var err error
	if limits.Off() {
		err = r.cfg.Temporal.SignalWorkflow(ctx, id, "", job.SignalRetain, limits)
		if _, none := errors.AsType[*serviceerror.NotFound](err); none {
			return
		}
	} else {
		_, err = r.cfg.Temporal.SignalWithStartWorkflow(ctx, id, job.SignalRetain, limits, client.StartWorkflowOptions{
			ID: id, TaskQueue: r.cfg.TaskQueue, StaticSummary: "deletes what is older than the retention of " + namespace,
		}, job.RetainWorkflow, job.RetainStep{Namespace: namespace, Limits: limits})
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.Error("setting the retention: the limits apply when a worker starts again", "error", err)
	}
}

// closeIdle asks a thread to close if it is idle.
func (r *Runtime) closeIdle(ctx context.Context, threadID string) error {
	return r.client.Control(ctx, threadID, signals.Control{Action: signals.ControlClose, By: "retention", Reason: "the thread was idle", IfIdle: true})
}

// maxDue is the number of threads that a dry run counts.
const maxDue = 10_000

// due tells what the next pass of the retention would do.
func (r *Runtime) due(ctx context.Context) (out retention.Due, err error) {
	if out, err = r.dueBy(ctx, r.cfg.Retention); err == nil {
		out.Last, err = r.lastReceipt(ctx)
	}
	return out, err
}

// dueBy tells what the next pass of a retention would do.
func (r *Runtime) dueBy(ctx context.Context, keep Retention) (out retention.Due, err error) {
	limits := keep.limits()
	out = retention.Due{Enabled: !limits.Off(), Close: []string{}, Erase: []string{}, Every: signals.Duration(limits.Every).String()}
	now := time.Now()
	for _, kind := range []struct {
		status string
		age    time.Duration
		ids    *[]string
		named  *string
	}{
		{store.ThreadOpen, limits.IdleThreads, &out.Close, &out.IdleThreads},
		{store.ThreadClosed, limits.ClosedThreads, &out.Erase, &out.ClosedThreads},
	} {
		if kind.age == 0 {
			continue
		}
		*kind.named = signals.Duration(kind.age).String()
		if *kind.ids, err = r.dueThreads(ctx, kind.status, now.Add(-kind.age)); err != nil {
			return out, err
		}
	}
	if limits.ToolLogs > 0 {
		out.ToolLogAge = signals.Duration(limits.ToolLogs).String()
		if out.ToolLogs, err = r.store.OldToolLogs(ctx, r.client.Namespace(), now.Add(-limits.ToolLogs)); err != nil {
			return out, err
		}
	}
	return out, nil
}

// lastReceipt returns the receipt of the last pass, or nil if there was none.
func (r *Runtime) lastReceipt(ctx context.Context) (*signals.Retained, error) {
	last, err := r.store.Document(ctx, r.client.Namespace(), retention.Kind, retention.Last)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	out := &signals.Retained{}
	return out, json.Unmarshal(last.Content, out)
}

// lastPass is an [observe.LastPass].
func (r *Runtime) lastPass(ctx context.Context) (last time.Time, kept bool, err error) {
	if r.cfg.Retention.limits().Off() {
		return last, true, nil
	}
	receipt, err := r.lastReceipt(ctx)
	if receipt != nil {
		last = receipt.FinishedAt
	}
	return last, false, err
}

func (r *Runtime) dueThreads(ctx context.Context, status string, before time.Time) ([]string, error) {
	due := []string{}
	page := store.ThreadPage{Status: status, Limit: 200, CursorUpdatedAt: before}
	for {
		rows, err := r.store.Threads(ctx, r.client.Namespace(), page)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if retention.Old(row, before) {
				due = append(due, row.ID)
			}
			page.CursorUpdatedAt, page.CursorID = row.UpdatedAt, row.ID
		}
		if len(rows) < page.Limit || len(due) >= maxDue {
			return due, nil
		}
	}
}

// checkRetention compares the retention with that of Temporal.
func (r *Runtime) checkRetention(ctx context.Context) []doctor.Finding {
	const check = "retention"
	limits := r.cfg.Retention
	if limits.limits().Off() {
		return nil
	}
	got, err := r.cfg.Temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: r.cfg.TemporalNamespace})
	if err != nil {
		return nil // the check of the namespace tells it
	}
	kept := got.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if limits.ToolLogs > 0 && kept > limits.ToolLogs {
		return []doctor.Finding{doctor.Odd(check, fmt.Sprintf("lower it: temporal operator namespace update --namespace %s --retention %dh", r.cfg.TemporalNamespace, int(limits.ToolLogs.Hours())),
			"logs of tool calls are deleted after %s, and namespace %q keeps the histories of closed runs, which have their first 16 KiB, for %s", limits.ToolLogs, r.cfg.TemporalNamespace, kept)}
	}
	if limits.ClosedThreads > 0 && kept < limits.ClosedThreads {
		return []doctor.Finding{doctor.Good(check, "closed threads are erased after %s; Temporal forgets their workflows before, after %s", limits.ClosedThreads, kept)}
	}
	return []doctor.Finding{doctor.Good(check, "it agrees with that of Temporal, which keeps closed workflows for %s", kept)}
}
