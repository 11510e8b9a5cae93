package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Histories deletes what Temporal has of threads: the runs of their workflows, and the schedules that post to them.
type Histories interface {
	Stop(ctx context.Context, namespace, threadID string) error
	Find(ctx context.Context, namespace, threadID string, others, schedules []string) (job.FoundWorkflows, error)
	Delete(ctx context.Context, runs []job.WorkflowRun) error
	Schedules(ctx context.Context, namespace string, threads ...string) (map[string][]string, error)
	DeleteSchedules(ctx context.Context, namespace string, ids []string) error

	// Erase starts the workflow that erases a thread. While one runs, it fails.
	Erase(ctx context.Context, in job.EraseStep) error

	// Has reports whether the history of a run has a value of which concerns says so, and Began whether its first event does.
	Has(ctx context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error)
	Began(ctx context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error)

	// Title returns the title that the memo of a thread's workflow has, "" if it has none or does not run.
	Title(ctx context.Context, namespace, threadID string) (string, error)

	// Forget has a thread forget a person, and Change changes one. Change returns false if the thread does not run.
	Forget(ctx context.Context, namespace, threadID string, f job.Forget) error
	Change(ctx context.Context, namespace, threadID string, change signals.ThreadChange) (bool, error)
	// Resting reports whether a thread has nothing to do, or no workflow.
	Resting(ctx context.Context, namespace, threadID string) (bool, error)
	SchedulesWhere(ctx context.Context, namespace string, is func(signals.Schedule) bool) ([]string, error)
}

// eraseFind reserves the key of a thread, so that nothing is stored for it from then on, stops its workflow and its steps, and
// finds what there is to delete.
func (a *Activities) eraseFind(ctx context.Context, in job.EraseStep) (job.EraseFound, error) {
	defer beating(ctx)()
	return a.findThread(ctx, in)
}

func (a *Activities) findThread(ctx context.Context, in job.EraseStep) (job.EraseFound, error) {
	key := event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID}
	h, err := a.histories(in)
	if err != nil {
		return job.EraseFound{}, err
	}
	if err := a.cfg.Store.MarkErased(ctx, key); err != nil {
		return job.EraseFound{}, err
	}
	if err := h.Stop(ctx, in.Namespace, in.ThreadID); err != nil {
		return job.EraseFound{}, err
	}
	// Steps that run notice it with their next heartbeat anyway.
	if err := a.cfg.Stream.Notify(ctx, key, stream.Notice{Reason: "the thread is erased"}); err != nil {
		a.log.WarnContext(ctx, "telling steps of an erased thread to stop", "thread", in.ThreadID, "error", err)
	}
	out := job.EraseFound{}
	contents, err := a.cfg.Store.ThreadContents(ctx, key)
	if err != nil {
		return out, err
	}
	if out.Documents, err = a.cfg.Store.ThreadDocuments(ctx, key); err != nil {
		return out, err
	}
	schedules, err := h.Schedules(ctx, in.Namespace, in.ThreadID)
	if err != nil {
		return out, err
	}
	out.Schedules = schedules[in.ThreadID]
	ingestions, err := a.ingestions(ctx, key, out.Documents)
	if err != nil {
		return out, err
	}
	found, err := h.Find(ctx, in.Namespace, in.ThreadID, ingestions, out.Schedules)
	if err != nil {
		return out, err
	}
	out.Threads, out.Workflows = found.Threads, found.Others
	stored, err := a.cfg.Store.SubThreads(ctx, key) // Temporal forgets closed workflows
	if err != nil {
		return out, err
	}
	out.Threads = append(out.Threads, stored...)
	if most := job.MaxErasedThreads + 1; len(out.Threads) > most {
		slices.Sort(out.Threads)
		out.Threads = slices.Compact(out.Threads)
		out.Threads = out.Threads[:min(len(out.Threads), most)] // the erasure notices that there is one too many
	}
	out.Counts = counted(contents)
	out.Counts.Runs, out.Counts.Schedules = len(found.Runs), len(out.Schedules)
	return out, nil
}

// ingestions returns the ids of the workflows that may have ingested documents for a thread. The one of a newest revision may
// run for another thread.
func (a *Activities) ingestions(ctx context.Context, key event.ThreadKey, documents []string) (ids []string, err error) {
	for _, id := range documents {
		d, err := a.cfg.Store.KnowledgeDocument(ctx, key.Namespace, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for revision := 1; revision <= d.Revision; revision++ {
			if revision < d.Revision || d.ThreadID == key.ThreadID {
				ids = append(ids, job.IngestWorkflowID(key.Namespace, id, revision))
			}
		}
	}
	return ids, nil
}

// eraseDelete deletes what was found of a thread, and what has come since.
func (a *Activities) eraseDelete(ctx context.Context, in job.EraseDelete) error {
	defer beating(ctx)()
	return a.deleteThread(ctx, in)
}

func (a *Activities) deleteThread(ctx context.Context, in job.EraseDelete) error {
	key := event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID}
	h, err := a.histories(in.EraseStep)
	if err != nil {
		return err
	}
	if err := a.cfg.Store.EraseThread(ctx, key); err != nil {
		return err
	}
	if err := h.DeleteSchedules(ctx, in.Namespace, in.Found.Schedules); err != nil {
		return err
	}
	err = scheduleversions.Edit(ctx, a.cfg.Store, in.Namespace, func(v *scheduleversions.Version) bool {
		return v.Definition == nil || v.Definition.ThreadID != in.ThreadID
	})
	if err != nil {
		return err
	}
	if err := h.Stop(ctx, in.Namespace, in.ThreadID); err != nil {
		return err
	}
	if err := a.deleteRuns(ctx, h, in); err != nil {
		return err
	}
	return a.cfg.Stream.Purge(ctx, key)
}

// deletedWithin is how long a step waits for Temporal to delete runs. Temporal deletes a run that was closed just now after its queues
// have noted that, by default up to 30 seconds later.
const deletedWithin = 3 * time.Minute

// looks paces the looks of a step. Each makes several queries of visibility, of which Temporal answers 10 a second by default, so later
// ones are rare.
type looks struct{ last time.Duration }

const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
)

func (l *looks) pause(ctx context.Context) error {
	l.last = min(max(2*l.last, firstLook), lastLook)
	return pause(ctx, l.last)
}

// deleteRuns deletes runs until none is found.
func (a *Activities) deleteRuns(ctx context.Context, h Histories, in job.EraseDelete) error {
	asked := map[string]bool{}
	var looks looks
	for until := time.Now().Add(deletedWithin); ; {
		found, err := h.Find(ctx, in.Namespace, in.ThreadID, in.Found.Workflows, in.Found.Schedules)
		if err != nil || len(found.Runs)+found.Listed == 0 {
			return err
		}
		// Each request is a task of its own for Temporal.
		fresh := slices.DeleteFunc(slices.Clone(found.Runs), func(run job.WorkflowRun) bool { return asked[run.RunID] })
		if err := h.Delete(ctx, fresh); err != nil {
			return err
		}
		for _, run := range fresh {
			asked[run.RunID] = true
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d runs of the workflows of thread %s are not deleted yet, and visibility lists %d others", len(found.Runs), in.ThreadID, found.Listed)
		}
		if err := looks.pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eraseFinish cleans the files of the store, looks at everything again and stores the receipt. The look comes last: a thread may
// be started again while the files are cleaned. What it finds is deleted, and cleaned by the next attempt.
func (a *Activities) eraseFinish(ctx context.Context, in job.EraseFinish) (signals.Erasure, error) {
	defer beating(ctx)()
	out := signals.Erasure{
		Namespace: in.Namespace, ThreadID: in.ThreadID, Threads: in.Progress.Threads, By: in.By, RequestedAt: in.Progress.RequestedAt,
		Erased: in.Progress.Erased, Remains: erasures.Remains(), Run: activity.GetInfo(ctx).WorkflowExecution.RunID,
	}
	if !in.Part {
		if err := a.cfg.Store.Scrub(ctx); err != nil {
			return out, err
		}
	}
	left, err := a.lookAgain(ctx, in)
	if err != nil {
		return out, err
	}
	if left != (signals.ErasedCounts{}) {
		raw, _ := json.Marshal(left)
		return out, temporal.NewApplicationError(fmt.Sprintf("thread %s was not erased yet, this was left: %s", in.ThreadID, raw), step.ErrTypeLeft)
	}
	if in.Progress.Beyond != "" {
		return out, temporal.NewNonRetryableApplicationError(fmt.Sprintf(
			"%d threads are erased, but thread %s has more threads of sub-agents than that: erase thread %s, and what else lists it as its parent",
			len(in.Progress.Threads), in.ThreadID, in.Progress.Beyond), step.ErrTypeLeft, nil)
	}
	out.FinishedAt = activity.GetInfo(ctx).StartedTime.UTC()
	return erasures.Save(ctx, a.cfg.Store, out, in.Late)
}

// lookAgain looks for what is left of the threads of an erasure, and deletes it.
func (a *Activities) lookAgain(ctx context.Context, in job.EraseFinish) (all signals.ErasedCounts, err error) {
	h, err := a.histories(in.EraseStep)
	if err != nil {
		return all, err
	}
	schedules, err := h.Schedules(ctx, in.Namespace, in.Progress.Threads...)
	if err != nil {
		return all, err
	}
	for _, id := range in.Progress.Threads {
		key := event.ThreadKey{Namespace: in.Namespace, ThreadID: id}
		// A step that ran when the thread was deleted may have published since.
		if err := a.cfg.Stream.Purge(ctx, key); err != nil {
			return all, err
		}
		contents, err := a.cfg.Store.ThreadContents(ctx, key)
		if err != nil {
			return all, err
		}
		own, others := schedules[id], []string(nil)
		if id == in.ThreadID {
			own, others = append(own, in.Progress.Schedules...), in.Progress.Workflows
		}
		found, err := h.Find(ctx, in.Namespace, id, others, own)
		if err != nil {
			return all, err
		}
		left := counted(contents)
		left.Runs, left.Schedules = len(found.Runs)+found.Listed, len(schedules[id])
		all = all.Add(left)
		if left == (signals.ErasedCounts{}) {
			continue
		}
		of := in.EraseStep
		of.ThreadID = id
		again, err := a.findThread(ctx, of)
		if err != nil {
			return all, err
		}
		again.Workflows, again.Schedules = append(again.Workflows, others...), append(again.Schedules, own...)
		if err := a.deleteThread(ctx, job.EraseDelete{EraseStep: of, Found: again}); err != nil {
			return all, err
		}
	}
	return all, nil
}

// eraseLate begins the erasure of a thread that was erased and has been started again.
func (a *Activities) eraseLate(ctx context.Context, in job.EraseStep) error {
	h, err := a.histories(in)
	if err != nil {
		return err
	}
	return h.Erase(ctx, in)
}

func (a *Activities) histories(in job.EraseStep) (Histories, error) {
	if a.cfg.Histories == nil {
		return nil, configError(errors.New("this worker does not erase threads: activities.Config.Histories is not set"))
	}
	if err := in.Validate(); err != nil {
		return nil, configError(err)
	}
	return a.cfg.Histories, nil
}

func counted(c store.ThreadContents) signals.ErasedCounts {
	return signals.ErasedCounts{Records: c.Records, ToolLogs: c.ToolLogs, Extractions: c.Extractions, Mentions: c.Mentions, Documents: c.Documents}
}
