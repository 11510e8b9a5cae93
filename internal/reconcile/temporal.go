package reconcile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/repair"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// repairer is who acts in records when nobody else is known.
const repairer = "threadmill"

// maxLook is the maximum number of records of a thread that are compared with its workflow, the newest.
const maxLook = 20_000

// withoutWorkflow compares a thread that Temporal does not know.
func (c *comparison) withoutWorkflow(ctx context.Context) error {
	if !c.stored {
		return nil
	}
	if erased, err := c.wasErased(ctx); erased || err != nil {
		if erased {
			c.eraseAgain(ctx, repair.Store)
		}
		return err
	}
	if c.row.Status == store.ThreadClosed {
		return nil
	}
	k, err := c.look(ctx, nil, "")
	if err != nil {
		return err
	}
	if parent := c.row.Parent; parent != "" {
		c.differ(ctx, repair.Difference{
			Kind: repair.Workflow, In: repair.Temporal, Detail: fmt.Sprintf("the thread of a sub-agent has no workflow; thread %s starts it again with what the store has, if its turn has not ended", parent),
		}, nil)
		return nil
	}
	c.differ(ctx, repair.Difference{
		Kind: repair.Workflow, In: repair.Temporal, Count: 1,
		Detail: "Temporal is older: it has no workflow of this open thread, which has " + k.describe(),
		Action: "start it; turns that had not ended continue with the results that the store has",
	}, func(ctx context.Context) error {
		start := signals.Start{Title: c.row.Title, Agents: c.row.Agents, Metadata: c.row.Metadata}
		for i, part := range split(k.restore()) {
			from := &start
			if i > 0 {
				from = nil
			}
			if err := c.cfg.Threads.Restore(ctx, c.key.ThreadID, from, part); err != nil {
				return err
			}
		}
		return nil
	})
	for _, what := range k.lost {
		c.differ(ctx, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: 1, Detail: what}, nil)
	}
	return nil
}

// wasErased reports whether Temporal has the erasure of a thread that the store still has.
func (c *comparison) wasErased(ctx context.Context) (bool, error) {
	_, err := c.cfg.Temporal.DescribeWorkflowExecution(ctx, signals.EraseWorkflowID(c.key.Namespace, c.key.ThreadID), "")
	if _, never := errors.AsType[*serviceerror.NotFound](err); never {
		return false, nil
	}
	return err == nil, err
}

// eraseAgain handles an erased thread of which one side has something again.
func (c *comparison) eraseAgain(ctx context.Context, has repair.Side) {
	other := map[repair.Side]repair.Side{repair.Store: repair.Temporal, repair.Temporal: repair.Store}[has]
	c.differ(ctx, repair.Difference{
		Kind: repair.Erased, In: other, Count: 1, Detail: fmt.Sprintf("the thread was erased, and %s has it again", has), Action: "erase it again, as soon as a worker runs",
	}, func(ctx context.Context) error {
		err := c.cfg.Erase(ctx, signals.EraseStep{Namespace: c.key.Namespace, ThreadID: c.key.ThreadID, By: repairer, Late: true})
		if _, running := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); running {
			return nil
		}
		return err
	})
}

// textOf returns a field of the metadata of a thread.
func textOf(metadata json.RawMessage, name string) (text string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) == nil {
		_ = json.Unmarshal(fields[name], &text) // not a text: not ours
	}
	return text
}

// olderTemporal finds what the store has and the workflow does not know.
func (c *comparison) olderTemporal(ctx context.Context) error {
	if !c.stored {
		return nil
	}
	state := c.last.state
	if !c.running() {
		if c.row.Status == store.ThreadOpen && c.info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED && state.Closing == nil {
			c.differ(ctx, repair.Difference{
				Kind: repair.Ended, In: repair.Temporal, Detail: fmt.Sprintf("the workflow of this open thread is %s; a post does not start it again", strings.ToLower(c.info.GetStatus().String())),
			}, nil)
		}
		return nil
	}
	if c.row.Status == store.ThreadClosed {
		return c.closedRuns(ctx)
	}
	k, err := c.look(ctx, state, "")
	if err != nil {
		return err
	}
	if k.changed, err = c.changes(ctx, state); err != nil || k.empty() && len(k.lost) == 0 {
		return err
	}
	c.differAll(ctx, k.differences(), func(ctx context.Context) error { return c.tell(ctx, k) })
	return nil
}

// notBegun compares a thread whose workflow no worker has begun. A post has started it before this repair, or a repair, which may
// have been killed before it had told all.
func (c *comparison) notBegun(ctx context.Context, h *historypb.History) error {
	if !c.stored || c.row.Status == store.ThreadClosed || !c.running() {
		return nil
	}
	if h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
		return nil // it continues a run that knows what is stored
	}
	k, err := c.look(ctx, nil, "")
	if err != nil {
		return err
	}
	for _, e := range h.GetEvents() {
		if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal.GetSignalName() == signals.SignalRestore {
			var r signals.Restore
			if err := c.read(signal.GetInput(), &r); err != nil {
				return fmt.Errorf("reading signal %s: %w", signals.SignalRestore, err)
			}
			k.told(r)
		}
	}
	if k.empty() {
		return nil
	}
	c.differAll(ctx, k.differences(), func(ctx context.Context) error { return c.tell(ctx, k) })
	return nil
}

// tell tells a workflow that runs what the store has.
func (c *comparison) tell(ctx context.Context, k *known) error {
	r := k.restore()
	r.Title, r.Agents, r.Metadata = c.row.Title, c.row.Agents, c.row.Metadata
	for _, part := range split(r) {
		if err := c.cfg.Threads.Restore(ctx, c.key.ThreadID, nil, part); err != nil {
			return err
		}
	}
	return nil
}

// told removes what an earlier repair told.
func (k *known) told(r signals.Restore) {
	ids := map[string]bool{}
	for _, id := range r.Known {
		ids[id] = true
	}
	for _, p := range r.Posts {
		ids[p.ID] = true
	}
	k.ended = slices.DeleteFunc(k.ended, func(id string) bool { return ids[id] })
	k.open = slices.DeleteFunc(k.open, func(p signals.Post) bool { return ids[p.ID] })
	k.decisions, k.results, k.inputs = without(k.decisions, r.Decisions), without(k.results, r.Results), without(k.inputs, r.Inputs)
	k.subs = slices.DeleteFunc(k.subs, func(sub signals.RestoredSubAgent) bool {
		return slices.ContainsFunc(r.SubAgents, func(o signals.RestoredSubAgent) bool { return o.ToolCallID == sub.ToolCallID })
	})
}

func without[T any](all, told []T) []T {
	return slices.DeleteFunc(all, func(one T) bool {
		return slices.ContainsFunc(told, func(o T) bool { return bytes.Equal(encoded(o), encoded(one)) })
	})
}

// changes names the parts of the thread's row that the workflow does not know.
func (c *comparison) changes(ctx context.Context, state *thread.State) (out []string, err error) {
	if state.Outbox.Row != nil || c.older {
		return nil, nil // the workflow is newer
	}
	// The workflow may have stored changes while its history was read.
	if c.row, err = c.cfg.Store.Thread(ctx, c.key); err != nil {
		return nil, err
	}
	if c.row.Title != "" && c.row.Title != state.Title {
		out = append(out, "title")
	}
	if len(c.row.Agents) > 0 && !slices.Equal(c.row.Agents, state.Roster.Agents) {
		out = append(out, "agents")
	}
	if len(c.row.Metadata) > 0 && !sameJSON(c.row.Metadata, state.Metadata) {
		out = append(out, "metadata")
	}
	return out, nil
}

func sameJSON(a, b json.RawMessage) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// differAll notes differences that are mended together.
func (c *comparison) differAll(ctx context.Context, all []repair.Difference, mend func(context.Context) error) {
	var err error
	for i, d := range all {
		once := func(ctx context.Context) error {
			if i == 0 {
				err = mend(ctx)
			}
			return err
		}
		if d.Kind == repair.Lost {
			c.differ(ctx, d, nil)
			continue
		}
		c.differ(ctx, d, once)
	}
}

// closedRuns handles a thread that the store has as closed and whose workflow runs, since it is older. A thread
// that is just closing is left alone.
func (c *comparison) closedRuns(ctx context.Context) error {
	if c.last.state.Closing != nil || c.last.state.ParentLink.Parent != nil && c.last.state.ParentLink.AnswerStored() {
		return nil
	}
	c.differ(ctx, repair.Difference{
		Kind: repair.Closed, In: repair.Temporal, Count: 1,
		Detail: "Temporal is older: the workflow of this closed thread runs", Action: "terminate it; the store has its end",
	}, func(ctx context.Context) error {
		return c.cfg.Temporal.TerminateWorkflow(ctx, c.workflowID(), c.info.GetExecution().GetRunId(), "threadmill repair: the thread is closed, and its workflow is older than that")
	})
	return nil
}

// known is what the store has and the workflow does not know.
type known struct {
	// ended are events whose turns have ended, open those whose turns have not, oldest first.
	ended []string
	open  []signals.Post

	// changed names the parts of the row that the workflow does not know.
	changed []string

	// lost is what cannot be mended, for people.
	lost []string

	// failed counts the events that could be retried.
	failed int

	decisions   []signals.Decide
	results     []signals.ToolResult
	inputs      []signals.InputAnswers
	tasks       []signals.CompleteTask
	interrupts  []signals.Control
	subs        []signals.RestoredSubAgent
	taskNumber  int
	childNumber int
}

func (k *known) empty() bool {
	return len(k.ended)+len(k.open)+len(k.decisions)+len(k.results)+len(k.inputs)+len(k.tasks)+len(k.interrupts)+len(k.subs)+len(k.changed) == 0
}

func (k *known) describe() string {
	return fmt.Sprintf("%d events, %d of them with turns that have not ended", len(k.ended)+len(k.open), len(k.open))
}

func (k *known) restore() signals.Restore {
	return signals.Restore{
		Known: k.ended, Posts: k.open, Decisions: k.decisions, Results: k.results, Inputs: k.inputs, Tasks: k.tasks, Interrupts: k.interrupts,
		TaskNumber: k.taskNumber, ChildNumber: k.childNumber, SubAgents: k.subs,
	}
}

// differences tells what the workflow does not know.
func (k *known) differences() (out []repair.Difference) {
	add := func(kind repair.Kind, n int, what, action string) {
		if n > 0 {
			out = append(out, repair.Difference{Kind: kind, In: repair.Temporal, Count: n, Detail: fmt.Sprintf("Temporal is older: its workflow lacks %d "+what, n), Action: action})
		}
	}
	add(repair.Events, len(k.ended), "events whose turns have ended", "tell it their ids")
	add(repair.Turns, len(k.open), "events whose turns have not ended", "post them again; steps find their results in the store")
	add(repair.Turns, len(k.interrupts), "ends of turns that were interrupted or failed", "interrupt them")
	add(repair.Answers, len(k.decisions)+len(k.results)+len(k.inputs), "decisions and answers", "tell it; their calls find their results in the store")
	add(repair.Turns, len(k.subs), "sub-agents whose calls have not ended", "start the same again; steps find their results in the store")
	add(repair.Tasks, len(k.tasks), "ends of background tasks", "complete them")
	defer func() {
		for _, what := range k.lost {
			out = append(out, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: 1, Detail: what})
		}
	}()
	if len(k.changed) > 0 {
		out = append(out, repair.Difference{
			Kind: repair.Row, In: repair.Temporal, Count: len(k.changed), Detail: "Temporal is older: its workflow lacks changes of: " + strings.Join(k.changed, ", "), Action: "tell it",
		})
	}
	if k.failed > 0 && len(out) > 0 {
		out = append(out, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: k.failed, Detail: fmt.Sprintf("%d failed events can no longer be retried; post them again", k.failed)})
	}
	return out
}

// maxPart is the size of a signal to which nothing more is added, in bytes. Its parts are smaller than a quarter of that
// each, but for posts and results, whose own signals have the same bounds.
const maxPart = 256 << 10

// split splits what a thread is told into signals of limited size. Posts come last, when all else is known.
func split(r signals.Restore) []signals.Restore {
	out := []signals.Restore{{Title: r.Title, Agents: r.Agents, Metadata: r.Metadata, TaskNumber: r.TaskNumber, ChildNumber: r.ChildNumber}}
	size := 0
	part := func(n int) *signals.Restore {
		last := &out[len(out)-1]
		if size += n; size > maxPart && size > n || len(last.Known) == signals.MaxRestoreIDs || len(last.Posts) == signals.MaxRestorePosts {
			out, size = append(out, signals.Restore{}), n
			last = &out[len(out)-1]
		}
		return last
	}
	part(len(encoded(out[0])))
	for _, sub := range r.SubAgents {
		p := part(len(encoded(sub)))
		p.SubAgents = append(p.SubAgents, sub)
	}
	for _, id := range r.Known {
		p := part(len(id) + len(`"",`))
		p.Known = append(p.Known, id)
	}
	for _, d := range r.Decisions {
		p := part(len(encoded(d)))
		p.Decisions = append(p.Decisions, d)
	}
	for _, res := range r.Results {
		p := part(len(encoded(res)))
		p.Results = append(p.Results, res)
	}
	for _, in := range r.Inputs {
		p := part(len(encoded(in)))
		p.Inputs = append(p.Inputs, in)
	}
	for _, done := range r.Tasks {
		p := part(len(encoded(done)))
		p.Tasks = append(p.Tasks, done)
	}
	for _, c := range r.Interrupts {
		p := part(len(encoded(c)))
		p.Interrupts = append(p.Interrupts, c)
	}
	for _, post := range r.Posts {
		p := part(len(encoded(post)))
		p.Posts = append(p.Posts, post)
	}
	return out
}

// encoded returns a part as JSON, which all parts have.
func encoded(v any) []byte {
	raw, _ := json.Marshal(v)
	return raw
}

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
			if state != nil && posted(r) && state.Inbox.WasPosted(r.ID) && !state.Turns.Awaits(r.ID) {
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
		return eventID != "" && (reposted[eventID] || state != nil && state.Turns.Awaits(eventID))
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
		it, err := store.Content(ctx, c.cfg.Store, c.key, r.ID)
		if errors.Is(err, store.ErrUnreadable) || errors.Is(err, store.ErrNotFound) {
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
			c := signals.Control{Action: signals.ControlInterrupt, By: cmp.Or(by[r.EventID].By, repairer), Reason: cmp.Or(by[r.EventID].Detail, thread.Why(end.Error)), EventID: end.EventID}
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

// answers are those that a workflow knows.
type answers struct {
	settled         map[string]bool
	votes           map[string]bool
	results, inputs map[string]bool
	calls           map[string]thread.CallStage
	subs            map[string]bool
	steps           map[string]int
}

func answersOf(state *thread.State) *answers {
	a := &answers{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]thread.CallStage{}, map[string]bool{}, map[string]int{}}
	if state == nil {
		return a
	}
	for _, sub := range state.Children.SubAgents {
		a.subs[sub.ThreadID] = true
	}
	for _, s := range state.Decisions.Settled {
		a.settled[s.Key] = true
	}
	for _, d := range slices.Concat(state.Decisions.Early, state.Decisions.ToCheck) {
		a.votes[vote(d.ToolCallID, d.Round, d.By)] = true
	}
	if r := state.Decisions.Restored; r != nil {
		for _, d := range r.Decisions {
			a.votes[vote(d.ToolCallID, d.Round, d.By)] = true
		}
		for _, res := range r.Results {
			a.results[res.ToolCallID] = true
		}
		for _, in := range r.Inputs {
			a.inputs[recordid.InputReceived(in.ToolCallID, max(in.Round, 1))] = true
		}
		for _, sub := range r.SubAgents {
			a.subs[sub.ToolCallID] = true
		}
	}
	for _, t := range turns(state) {
		for _, r := range t.Runs {
			a.steps[recordid.Reply(t.TurnID(), r.Slot, 0)] = r.Step
			for _, c := range r.Calls {
				a.calls[c.Plan.ID] = c.Stage
				if c.Stage != thread.CallWaiting && c.Stage != thread.CallReady {
					a.subs[c.Plan.ID] = true
				}
				for _, v := range c.Votes {
					a.votes[vote(c.Plan.ID, c.Round, v.By)] = true
				}
			}
		}
	}
	return a
}

func vote(toolCallID string, round int, by string) string {
	return fmt.Sprintf("%s/%d/%s", toolCallID, max(round, 1), by)
}

// decided reports whether the workflow knows a decision.
func (a *answers) decided(made event.Approval) bool {
	stage, known := a.calls[made.ToolCallID]
	by := made.By
	if made.Decision == event.DecisionExpired {
		by = cmp.Or(by, repairer)
	}
	if a.votes[vote(made.ToolCallID, made.Round, by)] {
		return true
	}
	return a.settled[made.ToolCallID] && stage != thread.CallWaiting || known && stage != thread.CallWaiting
}

// lacksResult reports whether the workflow waits for the result of a client, or has yet to make its call.
func (a *answers) lacksResult(m event.Message) bool {
	if stage, known := a.calls[m.ToolCallID]; known {
		return stage == thread.CallAtClient
	}
	return a.lacksStep(m.ReplyToMessageID)
}

// lacksSub reports whether the workflow has yet to start the sub-agent of a call.
func (a *answers) lacksSub(toolCallID, replyID string) bool {
	if _, known := a.calls[toolCallID]; known || a.subs[toolCallID] {
		return !a.subs[toolCallID]
	}
	return a.lacksStep(replyID)
}

// lacksStep reports whether the workflow has yet to receive a reply.
func (a *answers) lacksStep(replyID string) bool {
	run, step, ok := cutStep(replyID)
	made, known := a.steps[run]
	return !ok || !known || step > made
}

// cutStep splits the id of a reply into that of its run, with step 0, and the step.
func cutStep(replyID string) (run string, step int, ok bool) {
	i := strings.LastIndexByte(replyID, '.')
	if i < 0 {
		return "", 0, false
	}
	_, err := fmt.Sscanf(replyID[i+1:], "%d", &step)
	return replyID[:i] + ".0", step, err == nil
}
