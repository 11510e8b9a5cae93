package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/forget"
	"github.com/threadmill/threadmill/internal/scheduleversions"
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
func (a *Activities) personFind(ctx context.Context, in signals.PersonStep) (out signals.FoundPerson, err error) {
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
	err = store.EachRecord(ctx, a.cfg.Store, key, func(r event.Record) error {
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
// the next one; what one has counted that is killed is lost.
func (a *Activities) personForget(ctx context.Context, in signals.PersonStep) (out signals.ForgotPerson, err error) {
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &out.Counts); err != nil {
			return out, err
		}
	}
	stop := beating(ctx, out.Counts)
	defer func() {
		if stop(); err != nil {
			activity.RecordHeartbeat(ctx, out.Counts)
		}
	}()
	p, err := a.person(ctx, in)
	if err != nil {
		return out, err
	}
	key := event.ThreadKey{Namespace: in.Namespace, ThreadID: in.ThreadID}
	told := map[string]bool{}
	until := time.Now().Add(forgetWithin)
	var looks looks
	for first := true; ; first = false {
		f := forgetting{Activities: a, Person: p, counts: &out.Counts, told: told, seen: map[string]bool{}, first: first}
		alone, err := f.thread(ctx, key, p.Spoken(false))
		if err != nil {
			return out, err
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
			return out, temporal.NewApplicationError(f.left, erasures.LeftType)
		}
		if err := looks.pause(ctx); err != nil {
			return out, err
		}
	}
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
	err := store.EachRecord(ctx, a.cfg.Store, key, func(r event.Record) error {
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

	// told are the runs that were sent signal "forget".
	told map[string]bool

	// left says what was found, so that another look is needed. Empty = nothing.
	left string
}

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
	changed, title, err := f.records(ctx, key, row, said)
	if err == nil {
		err = f.logs(ctx, key, said, &changed)
	}
	if err == nil {
		err = f.row(ctx, key, row, title, &changed)
	}
	if err == nil {
		err = f.temporal(ctx, key, said.Turns[max(0, len(said.Turns)-maxForgetTurns):])
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

// maxForgetTurns bounds the turns in a signal.
const maxForgetTurns = 2000

// records replaces records. title is what becomes of the title that one of them had given the thread, "" if none had.
func (f *forgetting) records(ctx context.Context, key event.ThreadKey, row store.Thread, s *forget.Spoken) (changed bool, title string, err error) {
	var replaced []event.Record
	replace := func() error {
		if len(replaced) == 0 {
			return nil
		}
		ids := make([]string, len(replaced))
		for i, r := range replaced {
			ids[i] = r.ID
		}
		changed = true
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
	err = store.EachRecord(ctx, f.cfg.Store, key, func(r event.Record) error {
		clean, has := s.Clean(r)
		if !has {
			return nil
		}
		if r.Type == event.TypeStatus && row.Title != "" && gjson.GetBytes(r.Payload, "title").Str == row.Title {
			title = gjson.GetBytes(clean.Payload, "title").Str
		}
		if replaced = append(replaced, clean); len(replaced) < replaceAtOnce {
			return nil
		}
		return replace()
	})
	if err == nil {
		err = replace()
	}
	if s.Inherited && row.Title != "" {
		title = forget.Erased // the call of the sub-agent had given it
	}
	return changed, title, readErrorOf(err)
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

// row replaces the title and the metadata of a thread.
func (f *forgetting) row(ctx context.Context, key event.ThreadKey, row store.Thread, title string, changed *bool) error {
	var change signals.ThreadChange
	if title = cmp.Or(title, f.Text(row.Title)); title != row.Title {
		change.Title = title
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

// temporal deletes the closed runs that have something of the person, and has the thread continue as new if its own run does.
func (f *forgetting) temporal(ctx context.Context, key event.ThreadKey, turns []string) error {
	concerns := f.WithTurns(turns).Concerns
	h := f.cfg.Histories
	found, err := h.Find(ctx, key.Namespace, key.ThreadID, nil, nil)
	if err != nil {
		return err
	}
	if found.Listed > 0 {
		f.left = fmt.Sprintf("thread %s has %d deleted runs that visibility lists", key.ThreadID, found.Listed)
	}
	var closed []signals.WorkflowRun
	for _, run := range found.Runs {
		has, err := h.Has(ctx, run, concerns)
		switch {
		case err != nil:
			return err
		case !has:
		case !run.Open:
			closed = append(closed, run)
		case run.WorkflowID == signals.WorkflowID(key.Namespace, key.ThreadID):
			f.left = fmt.Sprintf("thread %s has not continued as new yet", key.ThreadID)
			if f.told[run.RunID] {
				continue
			}
			f.told[run.RunID] = true
			if err := h.Forget(ctx, key.Namespace, key.ThreadID, signals.Forget{Person: f.Name, Pseudonym: f.Pseudonym, Terms: f.Terms, Turns: turns}); err != nil {
				return err
			}
		default:
			f.left = fmt.Sprintf("workflow %s is running, and has something of the person", run.WorkflowID)
		}
	}
	if len(closed) > 0 {
		f.left = fmt.Sprintf("thread %s has %d closed runs", key.ThreadID, len(closed))
	}
	for i := range closed {
		if err := h.Delete(ctx, closed[i:i+1]); err != nil {
			return err
		}
		f.counts.Runs++
	}
	return nil
}

// personFinish deletes what the person has beside threads, cleans the files of the store and stores the receipt. The request, which
// names the person, is deleted last.
func (a *Activities) personFinish(ctx context.Context, in signals.PersonFinish) (out signals.PersonErasure, err error) {
	defer beating(ctx)()
	p, err := a.person(ctx, in.PersonStep)
	if errors.Is(err, store.ErrNotFound) {
		return erasures.LoadPerson(ctx, a.cfg.Store, in.Namespace, in.ID) // an earlier attempt has finished
	}
	if err != nil {
		return out, err
	}
	counts := in.Progress.Counts
	entities, err := a.cfg.Store.ForgetEntities(ctx, in.Namespace, p.Known)
	if err != nil {
		return out, readError(err)
	}
	if err := a.cfg.Store.Scrub(ctx); err != nil {
		return out, err
	}
	counts = counts.Add(signals.PersonCounts{Entities: entities})
	return erasures.FinishPerson(ctx, a.cfg.Store, signals.PersonErasure{
		ID: in.ID, Namespace: in.Namespace, Pseudonym: p.Pseudonym, By: in.By, RequestedAt: in.Progress.RequestedAt, FinishedAt: activity.GetInfo(ctx).StartedTime.UTC(),
		Erased: append([]string{}, in.Progress.Erased...), Forgot: append([]string{}, in.Progress.Forgot...), Counts: counts, Remains: erasures.PersonRemains(),
		Run: activity.GetInfo(ctx).WorkflowExecution.RunID,
	})
}

// person returns the person of an erasure, whom only the store knows.
func (a *Activities) person(ctx context.Context, in signals.PersonStep) (*forget.Person, error) {
	if a.cfg.Histories == nil {
		return nil, configError(errors.New("this worker does not erase people: activities.Config.Histories is not set"))
	}
	if err := in.Validate(); err != nil {
		return nil, configError(err)
	}
	return erasures.Person(ctx, a.cfg.Store, in.Namespace, in.ID)
}
