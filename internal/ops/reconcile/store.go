package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

const (
	// maxRuns limits the workflow runs of a thread that are read, from the newest one.
	maxRuns = 200

	// silent is the age from which on a step that runs has surely stored its start.
	silent = time.Minute

	idsPerRead     = 500
	recordsPerPage = 500
)

// begun reports whether a worker has processed something of a history.
func begun(events []*historypb.HistoryEvent) bool {
	return slices.ContainsFunc(events, func(e *historypb.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// olderStore finds the records that the workflow has written and the store does not have.
func (c *comparison) olderStore(ctx context.Context) error {
	all, lost, err := c.writings(ctx)
	if err != nil {
		return err
	}
	missing, err := c.missing(ctx, all)
	if err != nil {
		return err
	}
	records := 0
	var gone []string
	for _, w := range missing {
		records += len(w.Records)
		gone = append(gone, w.Lost...)
	}
	// The row may have changed while the history was read.
	row, err := c.cfg.Store.Thread(ctx, c.key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if records > 0 || err != nil && len(all) > 0 || closing(all) && row.Status == store.ThreadOpen {
		detail := fmt.Sprintf("the store is older: it lacks %d records that the workflow wrote", records)
		if records == 0 {
			detail = "the store is older: it lacks the last change of the thread itself"
		}
		c.differ(ctx, repair.Difference{
			Kind: repair.Records, In: repair.Store, Count: records, Detail: detail, Action: "write them again from the history",
		}, func(ctx context.Context) error { return c.write(ctx, all, missing) })
		slices.Sort(gone)
		for _, what := range slices.Compact(gone) { // a call loses the same with each of its requests for input
			c.differ(ctx, repair.Difference{Kind: repair.Lost, In: repair.Store, Detail: what + ": the history does not have it"}, nil)
		}
	}
	c.older = records > 0
	if lost != "" && records > 0 {
		c.differ(ctx, repair.Difference{Kind: repair.Lost, In: repair.Store, Detail: lost}, nil)
	}
	return c.startedTools(ctx, records > 0)
}

// writings returns what the thread's runs have written, from the first run of which the store lacks anything.
// lost says what cannot be told.
func (c *comparison) writings(ctx context.Context) (all []written, lost string, err error) {
	r := c.last
	told := activities.History{Namespace: c.key.Namespace, Arguments: map[string]string{}, Answered: map[string]bool{}, Running: map[string]bool{}}
	for _, task := range r.state.Tasks.Running {
		told.Running[task.ToolCallID] = true
	}
	for i := 0; ; i++ {
		r.tell(told)
		one := r.written(told)
		all = append(one, all...)
		if r.previous == "" {
			return all, "", nil
		}
		if any, err := c.hasAny(ctx, one); any || err != nil {
			return all, "", err
		}
		if i == maxRuns {
			return all, fmt.Sprintf("what the thread wrote before %s: it is more than %d workflow runs ago", r.began.UTC().Format(time.RFC3339), maxRuns), nil
		}
		h, err := history(ctx, c.cfg.Temporal, c.workflowID(), r.previous)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return all, fmt.Sprintf("what the thread wrote before %s: Temporal's retention has removed the workflow run", r.began.UTC().Format(time.RFC3339)), nil
		}
		if err != nil {
			return nil, "", err
		}
		if r, err = c.replay(h); err != nil {
			return all, fmt.Sprintf("what the thread wrote before %s: %s", c.last.began.UTC().Format(time.RFC3339), err), nil //nolint:nilerr // it is part of the report
		}
	}
}

// present returns which records the store has.
func (c *comparison) present(ctx context.Context, all []written) (map[string]bool, error) {
	var ids []string
	for _, w := range all {
		for _, rec := range w.Records {
			ids = append(ids, rec.ID)
		}
	}
	has := map[string]bool{}
	for some := range slices.Chunk(ids, idsPerRead) {
		found, err := c.cfg.Store.RecordsByID(ctx, c.key, some...)
		if err != nil {
			return nil, err
		}
		for _, rec := range found {
			has[rec.ID] = true
		}
	}
	return has, nil
}

func (c *comparison) hasAny(ctx context.Context, all []written) (bool, error) {
	has, err := c.present(ctx, all)
	return len(has) > 0, err
}

// missing returns what the store lacks. No retention removes single records of a thread, so also what it lacks before the
// newest record that it has was lost, such as when a worker ran before the repair.
func (c *comparison) missing(ctx context.Context, all []written) ([]written, error) {
	has, err := c.present(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []written
	for _, w := range all {
		var kept []event.Record
		for _, rec := range w.Records {
			if !has[rec.ID] {
				kept = append(kept, rec)
			}
		}
		// The records of a result are stored together.
		partly := w.result && len(kept) < len(w.Records)
		titled := w.Title != "" && c.row.Title != ""
		if partly || titled || len(kept) == 0 && len(w.Records) > 0 {
			continue
		}
		if len(w.Records) == 0 && len(w.Logs) > 0 {
			if has[w.LogsBefore] {
				continue // the store had the logs, and retention has removed them
			}
			if w.Logs, err = c.missingLogs(ctx, w.Logs); err != nil {
				return nil, err
			}
			if len(w.Logs) == 0 {
				continue
			}
		}
		w.Records = kept
		out = append(out, w)
	}
	return out, nil
}

// missingLogs returns the logs of calls that the store lacks or has unfinished.
func (c *comparison) missingLogs(ctx context.Context, logs []store.ToolLog) (out []store.ToolLog, err error) {
	for _, log := range logs {
		has, err := c.cfg.Store.ToolLog(ctx, c.key, log.ToolCallID)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && has.FinishedAt == nil && log.FinishedAt != nil:
			out = append(out, log)
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

// closing reports whether the thread wrote its end.
func closing(all []written) bool {
	for _, w := range slices.Backward(all) {
		if w.row != nil && w.row.Status != "" {
			return w.row.Status == store.ThreadClosed
		}
	}
	return false
}

// write writes what is missing, in order, and the thread's row.
func (c *comparison) write(ctx context.Context, all, missing []written) error {
	for _, w := range missing {
		for first := true; first || len(w.Records) > 0; first = false {
			n := min(len(w.Records), recordsPerPage)
			batch := store.Batch{Records: w.Records[:n]}
			w.Records = w.Records[n:]
			if w.Title != "" {
				batch.Thread = &store.ThreadUpdate{Title: &w.Title}
			}
			if len(w.Records) == 0 && len(w.Logs) > 0 {
				batch.ToolFinish = &w.Logs[0]
			}
			if err := c.append(ctx, batch); err != nil {
				return err
			}
		}
		for _, log := range w.Logs[min(1, len(w.Logs)):] {
			if err := c.append(ctx, store.Batch{ToolFinish: &log}); err != nil {
				return err
			}
		}
	}
	// An older row has no effect.
	for _, w := range all {
		if w.row == nil {
			continue
		}
		update := store.ThreadUpdate{Number: w.row.Number, Status: w.row.Status, Agents: w.row.Agents, Metadata: w.row.Metadata, Parent: w.row.Parent}
		if w.row.Title != "" {
			update.Title = &w.row.Title
		}
		if err := c.append(ctx, store.Batch{Thread: &update}); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) append(ctx context.Context, batch store.Batch) error {
	if len(batch.Records) == 0 && batch.ToolFinish == nil && batch.ToolStart == nil && batch.Thread == nil {
		return nil
	}
	_, err := c.cfg.Store.Append(ctx, c.key, batch)
	return err
}

// startedTools finds tools that a worker has begun to run although the store has no start of them. Without it
// they would run again.
func (c *comparison) startedTools(ctx context.Context, older bool) error {
	if !c.running() {
		return nil
	}
	begun, err := c.begunTools(ctx, older)
	if err != nil {
		return err
	}
	var logs []store.ToolLog
	for _, log := range begun {
		if _, err := c.cfg.Store.ToolLog(ctx, c.key, log.ToolCallID); errors.Is(err, store.ErrNotFound) {
			logs = append(logs, log)
		} else if err != nil {
			return err
		}
	}
	if len(logs) == 0 {
		return nil
	}
	var ids []string
	for _, log := range logs {
		ids = append(ids, log.ToolCallID)
	}
	c.differ(ctx, repair.Difference{
		Kind: repair.Records, In: repair.Store, Count: len(logs),
		Detail: "the store is older: it lacks the starts of the calls " + strings.Join(ids, ", "), Action: "write them again, so that only idempotent tools run again",
	}, func(ctx context.Context) error {
		for _, log := range logs {
			if err := c.append(ctx, store.Batch{ToolStart: &log}); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// begunTools returns the starts of the tools that a worker runs, for the thread's turns and for its background tasks.
func (c *comparison) begunTools(ctx context.Context, older bool) (out []store.ToolLog, err error) {
	for id := range begunActivities(c.desc, step.ActivityRunTool, older) {
		for _, e := range c.history.GetEvents() {
			scheduled := e.GetActivityTaskScheduledEventAttributes()
			if scheduled.GetActivityId() != id {
				continue
			}
			var input step.Tool
			if err := c.read(scheduled.GetInput(), &input); err != nil {
				return nil, fmt.Errorf("reading the input of activity %s: %w", id, err)
			}
			out = append(out, activities.RebuildStart(input, e.GetEventTime().AsTime()))
		}
	}
	for _, task := range c.last.state.Tasks.Running {
		if task.SubAgent != "" {
			continue
		}
		desc, err := c.cfg.Temporal.DescribeWorkflowExecution(ctx, signals.TaskWorkflowID(c.key.Namespace, task.ID), "")
		if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(begunActivities(desc, step.ActivityRunTask, older)) > 0 {
			out = append(out, activities.RebuildStart(step.Tool{
				Run: step.Run{Agent: task.Agent, TraceID: task.TraceID}, ToolCallID: task.ToolCallID, ToolName: task.Tool,
			}, task.StartedAt))
		}
	}
	return out, nil
}

// begunActivities returns the ids of the pending activities of a type that a worker has begun. older means that the store lacks
// records anyway.
func begunActivities(desc *workflowservice.DescribeWorkflowExecutionResponse, typ string, older bool) map[string]bool {
	out := map[string]bool{}
	for _, p := range desc.GetPendingActivities() {
		begun := p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED || p.GetAttempt() > 1
		if p.GetActivityType().GetName() == typ && begun && (older || time.Since(p.GetLastStartedTime().AsTime()) > silent) {
			out[p.GetActivityId()] = true
		}
	}
	return out
}
