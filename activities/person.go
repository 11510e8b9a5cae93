package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

const (
	// personThreads is the number of threads that a step looks at, and replaceAtOnce that of the records that it replaces at once.
	personThreads = 100
	replaceAtOnce = 50

	// forgetWithin is how long a step waits for a thread to continue as new and for runs to be deleted.
	// Temporal deletes a run that was closed just now up to 30 seconds later.
	forgetWithin = time.Minute
)

// personFind finds the threads of a page that have something of the person.
func (a *Activities) personFind(ctx context.Context, in job.PersonStep) (out job.FoundPerson, err error) {
	defer beating(ctx)()
	p, err := a.person(ctx, in)
	if errors.Is(err, store.ErrNotFound) {
		if _, err := erasures.LoadPerson(ctx, a.cfg.Store, in.Namespace, in.ID); err == nil {
			return out, nil // it has finished before
		}
		return out, configError(fmt.Errorf("there is no request for erasure %s", in.ID))
	}
	if err != nil {
		return out, err
	}
	if p == nil {
		return out, nil // nothing was found any more, and the person is not known since
	}
	if in.ThreadID == "" { // a look begins: what posts as the person ends first
		if out.Schedules, err = a.dropSchedules(ctx, p, in.Namespace); err != nil {
			return out, err
		}
	}
	ids, err := a.cfg.Store.ThreadIDs(ctx, in.Namespace, in.ThreadID, personThreads)
	if err != nil {
		return out, readError(err)
	}
	for _, id := range ids {
		found, err := a.lookFor(ctx, p, event.ThreadKey{Namespace: in.Namespace, ThreadID: id})
		if err != nil {
			return out, readError(err)
		}
		if found {
			out.Threads = append(out.Threads, id)
		}
	}
	if len(ids) == personThreads {
		out.Next = ids[len(ids)-1]
	}
	return out, nil
}

// dropSchedules deletes the schedules that post as a person, and replaces the person in the versions of all.
func (a *Activities) dropSchedules(ctx context.Context, p *forget.Person, namespace string) (int, error) {
	posts := func(s signals.Schedule) bool {
		return s.Message != nil && p.Is(s.Message.SenderID) || s.Event != nil && p.Wrote(s.Event.Payload)
	}
	ids, err := a.cfg.Histories.SchedulesWhere(ctx, namespace, posts)
	if err != nil {
		return 0, err
	}
	// An attempt that was killed may have deleted a schedule without its runs. Its versions are still there.
	posting := map[string]bool{}
	err = scheduleversions.Edit(ctx, a.cfg.Store, namespace, func(v *scheduleversions.Version) bool {
		if v.Definition != nil {
			posting[v.Definition.ID] = posts(*v.Definition)
		}
		return true
	})
	if err != nil {
		return 0, readError(err)
	}
	for _, id := range slices.Sorted(maps.Keys(posting)) {
		if posting[id] && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if err := a.cfg.Histories.DeleteSchedules(ctx, namespace, ids); err != nil {
		return 0, err
	}
	return len(ids), scheduleversions.Edit(ctx, a.cfg.Store, namespace, func(v *scheduleversions.Version) bool {
		if p.Is(v.By) {
			v.By = p.Pseudonym
		}
		return v.Definition == nil || !posts(*v.Definition)
	})
}

// lookFor reports whether a thread has something of a person.
func (a *Activities) lookFor(ctx context.Context, p *forget.Person, key event.ThreadKey) (found bool, err error) {
	row, err := a.cfg.Store.Thread(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if p.Concerns(rowOf(row)) {
		return true, nil
	}
	err = transcript.EachRecord(ctx, a.cfg.Store, key, func(r event.Record) error {
		if _, has := p.Record(r); has {
			found = true
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

var errFound = errors.New("found")

func rowOf(row store.Thread) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"title": row.Title, "metadata": row.Metadata})
	return raw
}

// personForget replaces a person in a thread, and in the threads of its sub-agents. An attempt that fails leaves what it has counted to
// the next one; what one has counted that is killed is lost. Until one succeeds, the erasure tells why.
func (a *Activities) personForget(ctx context.Context, in job.PersonStep) (job.ForgotPerson, error) {
	p, err := a.person(ctx, in)
	if errors.Is(err, store.ErrNotFound) || err == nil && p == nil {
		return job.ForgotPerson{}, nil // there is no such erasure any more, as the next look tells
	}
	if err != nil {
		return job.ForgotPerson{}, err
	}
	wait, err := erasures.Waits(ctx, a.cfg.Store, in.Namespace, in.ID, in.ThreadID)
	if err != nil {
		return job.ForgotPerson{}, readError(err)
	}
	wait.ThreadID = in.ThreadID
	out, err := a.forgetIn(ctx, p, in, &wait)
	switch {
	case err == nil && wait.Why == "", ctx.Err() != nil:
		return out, err
	case err == nil:
		wait.Why = ""
	default:
		wait.Why, wait.Since = whyWaiting(err), time.Now().UTC()
	}
	changed, noted := erasures.WaitFor(ctx, a.cfg.Store, in.Namespace, in.ID, wait)
	if changed && err != nil {
		a.log.WarnContext(ctx, "the erasure of a person comes back to a thread", "erasure", in.ID, "thread", in.ThreadID, "error", err)
	}
	return out, cmp.Or(err, readErrorOf(noted))
}

// whyWaiting returns the message of an error, without what only the workflow needs.
func whyWaiting(err error) string {
	if known, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return step.Why(known.Message())
	}
	return step.Why(err.Error())
}

// forgetIn is one attempt of personForget. wait is what the attempts before it have waited for.
func (a *Activities) forgetIn(ctx context.Context, p *forget.Person, in job.PersonStep, wait *erasures.Wait) (out job.ForgotPerson, err error) {
	out.Counts = wait.Counts
	if activity.HasHeartbeatDetails(ctx) { // they have those too
		if err := activity.GetHeartbeatDetails(ctx, &out.Counts); err != nil {
			return out, err
		}
	}
	stop := beating(ctx, out.Counts)
	defer func() {
		if stop(); err != nil {
			activity.RecordHeartbeat(ctx, out.Counts)
			wait.Counts = out.Counts
		}
	}()
	key := event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID}
	if err := a.endedErasing(ctx, key); err != nil {
		return out, err
	}
	told := map[string]bool{}
	if wait.Continued == nil {
		wait.Continued = map[string]int{}
	}
	until := time.Now().Add(forgetWithin)
	var looks looks
	for first := true; ; first = false {
		f := forgetting{Activities: a, Person: p, counts: &out.Counts, told: told, continued: wait.Continued, seen: map[string]bool{}, first: first}
		alone, err := f.thread(ctx, key, p.Spoken(false))
		if err != nil {
			return out, err
		}
		if f.left == "" && f.blocked != "" { // nobody knows how long that takes, and the other threads go on
			return out, temporal.NewApplicationError(f.blocked, step.ErrTypeLeft)
		}
		if f.left == "" {
			// What was being published when the records were replaced is in the log by now.
			for id := range f.seen {
				if err := a.cfg.Stream.Purge(ctx, event.ThreadKey{Namespace: key.Namespace, ThreadID: id}); err != nil {
					return out, err
				}
			}
			if alone {
				out.Alone, err = a.alone(ctx, p, key)
			}
			return out, err
		}
		if time.Now().After(until) {
			return out, temporal.NewApplicationError(cmp.Or(f.blocked, f.left), step.ErrTypeLeft)
		}
		if err := looks.pause(ctx); err != nil {
			return out, err
		}
	}
}

// endedErasing returns an error while a thread is being erased as a whole.
func (a *Activities) endedErasing(ctx context.Context, key event.ThreadKey) error {
	_, err := a.cfg.Store.Thread(ctx, key)
	if !errors.Is(err, store.ErrErased) {
		return nil
	}
	_, err = erasures.Load(ctx, a.cfg.Store, key.Namespace, key.ThreadID)
	if errors.Is(err, store.ErrNotFound) {
		return temporal.NewApplicationError(fmt.Sprintf("thread %s is being erased, and has no receipt yet: if workflow %s does not run, erase the thread again",
			key.ThreadID, job.EraseWorkflowID(key.Namespace, key.ThreadID)), step.ErrTypeLeft)
	}
	return readErrorOf(err)
}

// alone reports whether nobody else has anything in a thread. What others have posted may be in its workflow only, until its turn has begun:
// the records are read when the thread rests.
func (a *Activities) alone(ctx context.Context, p *forget.Person, key event.ThreadKey) (bool, error) {
	resting, err := a.cfg.Histories.Resting(ctx, key.Namespace, key.ThreadID)
	if err != nil || !resting {
		return false, err
	}
	said, err := a.spoken(ctx, key, p.Spoken(false))
	return err == nil && said.Alone(), err
}

// spoken notes the records of a thread.
func (a *Activities) spoken(ctx context.Context, key event.ThreadKey, said *forget.Spoken) (*forget.Spoken, error) {
	err := transcript.EachRecord(ctx, a.cfg.Store, key, func(r event.Record) error {
		said.Note(r)
		return nil
	})
	return said, readErrorOf(err)
}

// forgetting is one look at a thread and its sub-agents.
type forgetting struct {
	*Activities
	*forget.Person
	counts *signals.PersonCounts
	seen   map[string]bool

	// first means that this is the first look of an attempt. The log is purged even if the look changes nothing: an earlier attempt
	// may have failed after it had replaced records, before it purged the log.
	first bool

	// told are the runs that were sent signal "forget". continued counts by thread those of them that had begun with something of the
	// person, although the run before may have forgotten.
	told      map[string]bool
	continued map[string]int

	// left says what was found, so that another look is needed. Empty = nothing. blocked says what no further look of this attempt ends.
	left, blocked string
}

// maxContinued is how often a thread is told to continue as new although that does not help.
const maxContinued = 4

// thread replaces what a thread has of the person. alone reports whether nobody else wrote there.
func (f *forgetting) thread(ctx context.Context, key event.ThreadKey, said *forget.Spoken) (alone bool, err error) {
	if f.seen[key.ThreadID] {
		return false, nil
	}
	f.seen[key.ThreadID] = true
	row, err := f.cfg.Store.Thread(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readError(err)
	}
	if said, err = f.spoken(ctx, key, said); err != nil {
		return false, err
	}
	changed, clean := false, false
	err = f.row(ctx, key, row, said, &changed)
	if err == nil {
		err = f.records(ctx, key, said, false, &changed)
	}
	if err == nil {
		err = f.logs(ctx, key, said, &changed)
	}
	if err == nil {
		clean, err = f.temporal(ctx, key, said)
	}
	if err == nil && clean && !changed {
		err = f.records(ctx, key, said, true, &changed)
	}
	if err == nil && changed {
		f.left = fmt.Sprintf("thread %s had something of the person", key.ThreadID)
	}
	if err == nil && (changed || f.first) {
		err = f.cfg.Stream.Purge(ctx, key)
	}
	if err != nil {
		return false, err
	}
	subs, err := f.cfg.Store.SubThreads(ctx, key)
	if err != nil {
		return false, readError(err)
	}
	for _, id := range subs {
		sub := event.ThreadKey{Namespace: key.Namespace, ThreadID: id}
		row, err := f.cfg.Store.Thread(ctx, sub)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, readError(err)
		}
		if _, err := f.thread(ctx, sub, said.Sub(row.Metadata)); err != nil {
			return false, err
		}
	}
	return said.Alone() && row.Parent == "", nil
}

// maxForgetTurns and maxForgetTitles bound a signal.
const (
	maxForgetTurns  = 2000
	maxForgetTitles = 100
)

// records replaces records. Those that gave the thread a title come last: they tell which titles came of what the person said, after a
// kill too, as long as the row or a workflow may have one of them.
func (f *forgetting) records(ctx context.Context, key event.ThreadKey, s *forget.Spoken, titles bool, changed *bool) (err error) {
	var replaced []event.Record
	replace := func() error {
		if len(replaced) == 0 {
			return nil
		}
		ids := make([]string, len(replaced))
		for i, r := range replaced {
			ids[i] = r.ID
		}
		*changed = true
		err := f.cfg.Store.ForgetMessages(ctx, key, ids...)
		if err == nil {
			err = f.cfg.Store.ReplaceRecords(ctx, key, replaced...)
		}
		if err == nil {
			f.counts.Records += len(replaced)
		}
		replaced = nil
		return err
	}
	err = transcript.EachRecord(ctx, f.cfg.Store, key, func(r event.Record) error {
		clean, has := s.Clean(r)
		if !has || s.Tells(r) != titles {
			return nil
		}
		if replaced = append(replaced, clean); len(replaced) < replaceAtOnce {
			return nil
		}
		return replace()
	})
	if err == nil {
		err = replace()
	}
	return readErrorOf(err)
}

// logs replaces the logs of tool calls.
func (f *forgetting) logs(ctx context.Context, key event.ThreadKey, s *forget.Spoken, changed *bool) error {
	for after := ""; ; {
		page, err := f.cfg.Store.ToolLogPage(ctx, key, after, 50)
		if err != nil || len(page) == 0 {
			return readErrorOf(err)
		}
		var replaced []store.ToolLog
		for _, l := range page {
			in, out := f.CleanValue(l.Input, s.Calls[l.ToolCallID]), f.CleanValue(l.Output, s.Calls[l.ToolCallID])
			if string(in) != string(l.Input) || string(out) != string(l.Output) {
				l.Input, l.Output = in, out
				replaced = append(replaced, l)
			}
		}
		if len(replaced) > 0 {
			*changed = true
			if err := f.cfg.Store.ReplaceToolLogs(ctx, key, replaced...); err != nil {
				return readError(err)
			}
			f.counts.ToolLogs += len(replaced)
		}
		after = page[len(page)-1].ToolCallID
	}
}

// row replaces the title and the metadata of a thread. Its workflow may have another title than its row, one of them being behind: its
// memo is compared too, since it outlives the run when the thread continues as new.
func (f *forgetting) row(ctx context.Context, key event.ThreadKey, row store.Thread, s *forget.Spoken, changed *bool) error {
	kept, err := f.cfg.Histories.Title(ctx, key.Namespace, key.ThreadID)
	if err != nil {
		return err
	}
	var change signals.ThreadChange
	if s.Title(row.Title) != row.Title || s.Title(kept) != kept {
		change.Title = s.Title(cmp.Or(kept, row.Title))
	}
	before := rowOf(row)
	if was, clean := gjson.GetBytes(before, "metadata").Raw, gjson.GetBytes(f.Clean(before, false), "metadata").Raw; clean != was {
		change.Metadata = json.RawMessage(clean)
	}
	if change.Title == "" && len(change.Metadata) == 0 {
		return nil
	}
	*changed = true
	change.By = signals.Eraser
	ran, err := f.cfg.Histories.Change(ctx, key.Namespace, key.ThreadID, change)
	if err != nil || ran {
		return err
	}
	update := &store.ThreadUpdate{Metadata: change.Metadata}
	if change.Title != "" {
		update.Title = &change.Title
	}
	_, err = f.cfg.Store.Append(ctx, key, store.Batch{Thread: update})
	return readErrorOf(err)
}

// temporal deletes the closed runs that have something of the person, and has the thread continue as new if its own run does. clean
// reports that there are none.
func (f *forgetting) temporal(ctx context.Context, key event.ThreadKey, s *forget.Spoken) (clean bool, err error) {
	concerns := f.In(s.Turns, s.Titles, s.Inherited).Concerns
	h := f.cfg.Histories
	found, err := h.Find(ctx, key.Namespace, key.ThreadID, nil, nil)
	if err != nil {
		return false, err
	}
	clean = found.Listed == 0
	if !clean {
		f.left = fmt.Sprintf("thread %s has %d deleted runs that visibility lists", key.ThreadID, found.Listed)
	}
	var closed []job.WorkflowRun
	for _, run := range found.Runs {
		has, err := h.Has(ctx, run, concerns)
		clean = clean && !has
		switch {
		case err != nil:
			return false, err
		case !has:
		case !run.Open:
			closed = append(closed, run)
		case run.WorkflowID == signals.WorkflowID(key.Namespace, key.ThreadID):
			if err := f.tell(ctx, key, run, s, concerns); err != nil {
				return false, err
			}
		default:
			f.blocked = fmt.Sprintf("workflow %s is running, and has something of the person: it is deleted when it has ended", run.WorkflowID)
		}
	}
	if len(closed) > 0 {
		f.left = fmt.Sprintf("thread %s has %d closed runs", key.ThreadID, len(closed))
	}
	for i := range closed {
		if err := h.Delete(ctx, closed[i:i+1]); err != nil {
			return false, err
		}
		f.counts.Runs++
	}
	return clean, nil
}

// tell has a thread continue as new without the person, once for each run. If its runs go on to begin with something of the person, that
// does not help, and is not repeated.
func (f *forgetting) tell(ctx context.Context, key event.ThreadKey, run job.WorkflowRun, s *forget.Spoken, concerns func(json.RawMessage) bool) error {
	if !f.told[run.RunID] {
		began, err := f.cfg.Histories.Began(ctx, run, concerns)
		if err != nil {
			return err
		}
		if began && f.continued[key.ThreadID] >= maxContinued {
			f.blocked = fmt.Sprintf("thread %s has continued as new %d times, and still begins with something of the person: close or erase it", key.ThreadID, maxContinued)
			return nil
		}
		if began {
			f.continued[key.ThreadID]++
		}
		f.told[run.RunID] = true
		err = f.cfg.Histories.Forget(ctx, key.Namespace, key.ThreadID, job.Forget{
			Person: f.Name, Pseudonym: f.Pseudonym, Terms: f.Terms,
			Turns: newest(s.Turns, maxForgetTurns), Titles: newest(s.Titles, maxForgetTitles), Inherited: s.Inherited,
		})
		if err != nil {
			return err
		}
	}
	f.left = fmt.Sprintf("thread %s has not continued as new yet", key.ThreadID)
	return nil
}

func newest(all []string, most int) []string { return all[max(0, len(all)-most):] }

// personFinish deletes what the person has beside threads and the name in the request, cleans the files of the store and stores the
// receipt. The rest of the request is deleted last.
func (a *Activities) personFinish(ctx context.Context, in job.PersonFinish) (out signals.PersonErasure, err error) {
	defer beating(ctx)()
	p, err := a.person(ctx, in.PersonStep)
	if errors.Is(err, store.ErrNotFound) {
		return erasures.LoadPerson(ctx, a.cfg.Store, in.Namespace, in.ID) // an earlier attempt has finished
	}
	if err != nil {
		return out, err
	}
	counts := in.Progress.Counts
	if p != nil {
		if counts.Entities, err = a.cfg.Store.ForgetEntities(ctx, in.Namespace, p.Known); err != nil {
			return out, readError(err)
		}
		if err := erasures.ForgetRequest(ctx, a.cfg.Store, in.Namespace, in.ID); err != nil {
			return out, readError(err)
		}
	}
	if err := a.cfg.Store.Scrub(ctx); err != nil {
		return out, err
	}
	return erasures.FinishPerson(ctx, a.cfg.Store, signals.PersonErasure{
		ID: in.ID, Namespace: in.Namespace, Pseudonym: erasures.Pseudonym(in.ID), By: in.By, RequestedAt: in.Progress.RequestedAt, FinishedAt: activity.GetInfo(ctx).StartedTime.UTC(),
		Erased: append([]string{}, in.Progress.Erased...), Forgot: append([]string{}, in.Progress.Forgot...), Counts: counts, Remains: erasures.PersonRemains(),
		Run: activity.GetInfo(ctx).WorkflowExecution.RunID,
	})
}

// person returns the person of an erasure, whom only the store knows; nil if nothing was found any more.
func (a *Activities) person(ctx context.Context, in job.PersonStep) (*forget.Person, error) {
	if a.cfg.Histories == nil {
		return nil, configError(errors.New("this worker does not erase people: activities.Config.Histories is not set"))
	}
	if err := in.Validate(); err != nil {
		return nil, configError(err)
	}
	return erasures.Person(ctx, a.cfg.Store, in.Namespace, in.ID)
}
