package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// looked are the newest records of a thread, oldest first. known is the number of those at their end in which
// every event may be unknown to the workflow.
type looked struct {
	records []event.Record
	unknown int

	// cut reports whether older records were not read although their turns may be unknown.
	cut bool
}

// records reads the records of a thread back to an event whose turn the workflow has ended, and to those whose turns
// it has in progress.
func (c *comparison) records(ctx context.Context, state *thread.State) (out looked, err error) {
	need := map[string]bool{}
	if state != nil {
		for _, t := range turns(state) {
			need[t.Item.ID] = true
		}
	}
	reached := false
	q := store.Query{Newest: true, Before: c.row.Head + 1, Limit: recordsPerPage}
	for len(out.records) < maxLook {
		page, err := c.cfg.Store.Records(ctx, c.key, q)
		if err != nil {
			return out, err
		}
		for _, r := range page {
			delete(need, r.ID)
			if state != nil && posted(r) && state.Inbox.WasPosted(r.ID) && !state.Awaits(r.ID) {
				reached = true
			}
		}
		out.records = append(out.records, page...)
		if !reached || out.unknown == 0 {
			out.unknown = len(out.records)
		}
		if q.Complete(page) || reached && len(need) == 0 {
			break
		}
		out.cut = len(out.records) >= maxLook && !reached
		q.Before = page[len(page)-1].Seq
	}
	slices.Reverse(out.records)
	return out, nil
}

// posted reports whether a record is that of a posted event.
func posted(r event.Record) bool {
	return r.EventID != "" && r.EventID == r.ID && r.Type != event.TypeStatus
}

func turns(state *thread.State) []*thread.Turn {
	if state.Turns.Current == nil {
		return state.Turns.Parked
	}
	return append([]*thread.Turn{state.Turns.Current}, state.Turns.Parked...)
}

// look finds what the store has and the workflow does not know. A nil state knows nothing. The turn of the event redo
// runs again although it may have ended: the thread receives it with its start.
func (c *comparison) look(ctx context.Context, state *thread.State, redo string) (*known, error) {
	found, err := c.records(ctx, state)
	if err != nil {
		return nil, err
	}
	k := &known{}
	if found.cut {
		k.lost = append(k.lost, fmt.Sprintf("turns that had not ended before the thread's newest %d records, which were not compared", maxLook))
	}
	open := unfinished(found.records)
	if redo != "" {
		open[redo] = true
	}
	var again []event.Record
	for i, r := range found.records {
		steered := joins(r)
		if !posted(r) && !steered || i < len(found.records)-found.unknown || state != nil && state.Inbox.WasPosted(r.ID) {
			continue
		}
		if r.ID == redo {
			continue
		}
		if open[r.EventID] {
			again = append(again, r)
		} else {
			k.ended = append(k.ended, r.ID)
		}
	}
	if k.open, k.lost, err = c.posts(ctx, again, k.lost); err != nil {
		return nil, err
	}
	reposted := map[string]bool{redo: true}
	for _, r := range again {
		reposted[r.EventID] = true
	}
	inProgress := func(eventID string) bool {
		return eventID != "" && (reposted[eventID] || state != nil && state.Awaits(eventID))
	}
	k.answered(found.records, state, inProgress)
	k.number(found.records, open)
	k.lostTasks(found.records, state, inProgress)
	if k.subs, err = c.lostSubs(ctx, found.records, state, inProgress); err != nil {
		return nil, err
	}
	for _, id := range c.subs {
		k.childNumber = max(k.childNumber, signals.SubThreadNumber(id))
	}
	if state != nil {
		k.endedTurns(found.records, state)
		if err := c.endedTasks(ctx, state, k); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// lostSubs returns the sub-agents that calls of turns in progress had started and that the workflow does not know: the calls
// start the same again, so that steps find what is stored.
func (c *comparison) lostSubs(ctx context.Context, records []event.Record, state *thread.State, inProgress func(eventID string) bool) (out []signals.RestoredSubAgent, err error) {
	if len(c.subs) == 0 {
		return nil, nil
	}
	made, known := map[string]bool{}, answersOf(state)
	for _, r := range records {
		var m event.Message
		if r.Type != event.TypeMessage || !inProgress(r.EventID) || json.Unmarshal(r.Payload, &m) != nil {
			continue
		}
		for _, call := range m.ToolCalls {
			made[call.ID] = known.lacksSub(call.ID, m.ID)
		}
	}
	for _, id := range c.subs {
		sub := &comparison{Reconciler: c.Reconciler, key: store.Key{Namespace: c.key.Namespace, ThreadID: id}, stored: true}
		if sub.row, err = c.cfg.Store.Thread(ctx, sub.key); err != nil {
			return nil, err
		}
		call := textOf(sub.row.Metadata, signals.MetadataParentCall)
		if !made[call] || known.subs[id] || len(out) == signals.MaxRestoreSubs {
			continue
		}
		if sub.subs, err = c.cfg.Store.SubThreads(ctx, sub.key); err != nil {
			return nil, err
		}
		k, err := sub.look(ctx, nil, thread.FirstIDOf(c.key.Namespace, id, call))
		if err != nil {
			return nil, err
		}
		r := k.restore()
		r.Known = r.Known[max(0, len(r.Known)-signals.MaxRestoreIDs):]
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if len(raw) > maxPart || len(r.Posts) > signals.MaxRestorePosts {
			raw = nil // the next repair tells it, when the workflow runs
		}
		out = append(out, signals.RestoredSubAgent{ToolCallID: call, ThreadID: id, Restore: raw})
	}
	return out, nil
}

// joins reports whether a record is a person's message that joined the turn of another event.
func joins(r event.Record) bool {
	var m event.Message
	return r.Type == event.TypeMessage && r.EventID != r.ID && r.EventID != "" && signals.ValidateEventID("id", r.ID) == nil &&
		json.Unmarshal(r.Payload, &m) == nil && m.SenderType == event.CreatedByUser
}

// unfinished returns the events whose turns have not ended, or that a rule debounces.
func unfinished(records []event.Record) map[string]bool {
	open := map[string]bool{}
	for _, ch := range store.MarkChanges(records) {
		if ch.Kind == store.ActivityRunning && !ch.Ends {
			open[ch.ID] = true
		}
	}
	for _, r := range records {
		var end event.TurnEnded
		if r.Type != event.TypeTurnEnded || json.Unmarshal(r.Payload, &end) != nil {
			continue
		}
		if held := end.Status == string(signals.TurnHeld); held {
			open[end.EventID] = true
		} else if _, was := open[end.EventID]; was && r.ID == recordid.TurnEnded(end.EventID) {
			delete(open, end.EventID)
		}
	}
	return open
}

// posts returns events as they were posted. It adds those that cannot be to lost.
func (c *comparison) posts(ctx context.Context, records []event.Record, lost []string) (out []signals.Post, _ []string, err error) {
	for _, r := range records {
		it, err := transcript.Content(ctx, c.cfg.Store, c.key, r.ID)
		if errors.Is(err, transcript.ErrUnreadable) || errors.Is(err, store.ErrNotFound) {
			lost = append(lost, fmt.Sprintf("event %s, whose turn has not ended: its content cannot be read", r.ID))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		p := signals.Post{
			ID: r.ID, Type: r.Type, Payload: it.Payload, Metadata: it.Metadata, Timestamp: it.Timestamp, TraceID: r.TraceID, ParentEventID: r.ParentEventID,
		}
		var env event.EnvEvent
		if r.Type == event.TypeEnv && json.Unmarshal(r.Payload, &env) == nil {
			p.Type = env.Type
		}
		if r.EventID != r.ID {
			p.OnBusy = event.OnBusySteer
		}
		if err := p.Validate(c.key.ThreadID); err != nil {
			lost = append(lost, fmt.Sprintf("event %s, whose turn has not ended: it cannot be posted again: %s", r.ID, err))
			continue
		}
		out = append(out, p)
	}
	return out, lost, nil
}

// answered finds the decisions of people, the results of clients and the input that the turns in progress lack.
func (k *known) answered(records []event.Record, state *thread.State, inProgress func(eventID string) bool) {
	has := answersOf(state)
	for _, r := range records {
		if !inProgress(r.EventID) {
			continue
		}
		switch r.Type {
		case event.TypeApproval:
			var a event.Approval
			if json.Unmarshal(r.Payload, &a) != nil || a.Grant != "" || a.ThreadID != "" || a.Decision == event.DecisionRevoked || has.decided(a) {
				continue
			}
			d := signals.Decide{ToolCallID: a.ToolCallID, Decision: a.Decision, Scope: a.Scope, Reason: a.Reason, By: a.By, Round: a.Round, Pattern: a.Pattern}
			if a.Arguments != "" {
				d.Args = json.RawMessage(a.Arguments)
			}
			if a.Decision == event.DecisionExpired {
				d.Decision, d.Scope, d.By, d.Reason = event.DecisionDeny, "", cmp.Or(a.By, repairer), "the request expired"
			}
			if d.Decision == event.DecisionDeny {
				d.Scope = ""
			}
			if d.Validate() == nil {
				k.decisions = append(k.decisions, d)
			}
		case event.TypeInputReceived:
			var a event.InputReceived
			if json.Unmarshal(r.Payload, &a) == nil && !a.Withdrawn && !has.settled[r.ID] && !has.inputs[r.ID] {
				k.inputs = append(k.inputs, signals.InputAnswers{ToolCallID: a.ToolCallID, Round: a.Round, Answers: a.Answers, By: a.By})
			}
		case event.TypeMessage:
			var m event.Message
			if json.Unmarshal(r.Payload, &m) != nil || m.ToolCallID == "" {
				continue
			}
			by, _ := m.Metadata["by"].(string)
			if by != "" && !has.results[m.ToolCallID] && has.lacksResult(m) {
				k.results = append(k.results, signals.ToolResult{ToolCallID: m.ToolCallID, Output: m.Content, IsError: m.IsError, By: by})
			}
		}
	}
}

// number finds the number from which tasks count, and that of the last sub-agent. The tasks of turns that run again get their
// own numbers again.
func (k *known) number(records []event.Record, open map[string]bool) {
	var tasks numbers
	for _, r := range records {
		switch r.Type {
		case event.TypeTask:
			var t event.Task
			if json.Unmarshal(r.Payload, &t) != nil || t.State != event.TaskRunning {
				continue
			}
			if _, n, err := signals.ParseTaskID(t.ID); err == nil {
				tasks.add(n, open[r.EventID])
			}
			k.childNumber = max(k.childNumber, signals.SubThreadNumber(t.ThreadID))
		case event.TypeMessage:
			var m event.Message
			if json.Unmarshal(r.Payload, &m) == nil && m.ToolCallID != "" {
				child, _ := m.Metadata["threadId"].(string)
				k.childNumber = max(k.childNumber, signals.SubThreadNumber(child))
			}
		}
	}
	k.taskNumber = tasks.last()
}

// lostTasks finds the background tasks that have not ended and whose workflows nothing starts again, since the turns that
// started them have ended.
func (k *known) lostTasks(records []event.Record, state *thread.State, inProgress func(eventID string) bool) {
	ended := map[string]bool{}
	for _, r := range slices.Backward(records) {
		var t event.Task
		if r.Type != event.TypeTask || json.Unmarshal(r.Payload, &t) != nil {
			continue
		}
		_, n, err := signals.ParseTaskID(t.ID)
		switch {
		case err != nil:
		case t.State != event.TaskRunning:
			ended[t.ID] = true
		case !ended[t.ID] && !inProgress(r.EventID) && (state == nil || n > state.Tasks.Count):
			k.lost = append(k.lost, fmt.Sprintf("background task %s (%s), which had not ended: it does not run again, and its end is not reported", t.ID, cmp.Or(t.Tool, t.SubAgent)))
		}
	}
}

// numbers are the greatest number of turns that have ended, the least of those that have not, and the greatest.
type numbers struct{ ended, open, all int }

func (n *numbers) add(number int, open bool) {
	if number == 0 {
		return
	}
	n.all = max(n.all, number)
	switch {
	case !open:
		n.ended = max(n.ended, number)
	case n.open == 0 || number < n.open:
		n.open = number
	}
}

func (n *numbers) last() int {
	if n.open > n.ended {
		return n.open - 1
	}
	return n.all
}

// endedTurns finds the turns in progress that, according to the store, were interrupted or have failed.
func (k *known) endedTurns(records []event.Record, state *thread.State) {
	running := map[string]bool{}
	for _, t := range turns(state) {
		if t.Interrupted == nil {
			running[recordid.TurnEnded(t.TurnID())] = true
		}
	}
	for _, q := range state.Inbox.Queue {
		running[recordid.TurnEnded(recordid.Turn(q.Item.ID, q.Item.Attempt))] = true
	}
	by := map[string]event.StatusChange{}
	for _, r := range records {
		var s event.StatusChange
		if r.Type == event.TypeStatus && json.Unmarshal(r.Payload, &s) == nil && s.Status == event.StatusInterrupted {
			by[r.EventID] = s
		}
		var end event.TurnEnded
		if r.Type != event.TypeTurnEnded || json.Unmarshal(r.Payload, &end) != nil {
			continue
		}
		if end.Status == string(signals.TurnFailed) {
			k.failed++
		}
		if running[r.ID] && (end.Status == string(signals.TurnInterrupted) || end.Status == string(signals.TurnFailed)) {
			c := signals.Control{Action: signals.ControlInterrupt, By: cmp.Or(by[r.EventID].By, repairer), Reason: cmp.Or(by[r.EventID].Detail, step.Why(end.Error)), EventID: end.EventID}
			if c.Validate() != nil {
				c.Reason = "the turn has ended"
			}
			k.interrupts = append(k.interrupts, c)
		}
	}
}

// endedTasks finds the background tasks that have ended according to the store.
func (c *comparison) endedTasks(ctx context.Context, state *thread.State, k *known) error {
	for _, t := range state.Tasks.Running {
		endID := signals.EventID(c.key.Namespace, t.ID, "ended")
		records, err := c.cfg.Store.RecordsByID(ctx, c.key, recordid.TaskEnded(t.ID), endID)
		if err != nil {
			return err
		}
		done := signals.CompleteTask{TaskID: t.ID}
		var end event.Task
		var told event.TaskEnd
		for _, r := range records {
			var env event.EnvEvent
			switch {
			case r.ID != endID:
				_ = json.Unmarshal(r.Payload, &end) // unreadable: not ended
			case json.Unmarshal(r.Payload, &env) == nil:
				_ = json.Unmarshal(env.Payload, &told)
			}
		}
		if end.ID == "" {
			continue
		}
		done.By, done.Error = end.By, end.Error
		if done.Error == "" {
			done.Result = told.Result
		}
		if done.Validate() == nil {
			k.tasks = append(k.tasks, done)
		}
	}
	return nil
}
