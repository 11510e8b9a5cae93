package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// shelf is a store with what reconciling reads, which notes what is appended. Threads are by id.
type shelf struct {
	teststore.Store
	threads  map[string]store.Thread
	erased   map[string]bool
	records  map[string][]event.Record
	logs     map[string]store.ToolLog
	subs     map[string][]string
	appended []store.Batch
	err      error
}

// put adds records to a thread, and gives them their numbers.
func (s *shelf) put(threadID string, records ...event.Record) {
	for _, r := range records {
		r.Seq = int64(len(s.records[threadID])) + 1
		s.records[threadID] = append(s.records[threadID], r)
	}
	row := s.threads[threadID]
	row.ID, row.Head = threadID, int64(len(s.records[threadID]))
	s.threads[threadID] = row
}

func (s *shelf) Records(_ context.Context, key store.Key, q store.Query) (out []event.Record, _ error) {
	all := s.records[key.ThreadID][:q.Before-1]
	out = slices.Clone(all[max(0, len(all)-q.Limit):])
	slices.Reverse(out)
	return out, s.err
}

func (s *shelf) RecordsByID(_ context.Context, key store.Key, ids ...string) (out []event.Record, _ error) {
	for _, r := range s.records[key.ThreadID] {
		if slices.Contains(ids, r.ID) {
			out = append(out, r)
		}
	}
	return out, s.err
}

func (s *shelf) Thread(_ context.Context, key store.Key) (store.Thread, error) {
	row, ok := s.threads[key.ThreadID]
	switch {
	case s.err != nil:
		return row, s.err
	case s.erased[key.ThreadID]:
		return row, fmt.Errorf("%w: %w", store.ErrNotFound, store.ErrErased)
	case !ok:
		return row, store.ErrNotFound
	}
	return row, nil
}

func (s *shelf) Threads(_ context.Context, _ string, p store.ThreadPage) (out []store.Thread, _ error) {
	for _, row := range s.threads {
		if p.CursorID == "" || row.UpdatedAt.Before(p.CursorUpdatedAt) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b store.Thread) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return out[:min(len(out), p.Limit)], s.err
}

func (s *shelf) SubThreads(_ context.Context, key store.Key) ([]string, error) {
	return s.subs[key.ThreadID], s.err
}

func (s *shelf) ToolLog(_ context.Context, _ store.Key, id string) (store.ToolLog, error) {
	log, ok := s.logs[id]
	if !ok {
		return log, store.ErrNotFound
	}
	return log, s.err
}

func (s *shelf) Append(_ context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	if s.err != nil {
		return store.Appended{}, s.err
	}
	s.appended = append(s.appended, batch)
	s.put(key.ThreadID, batch.Records...)
	if batch.ToolFinish != nil {
		s.logs[batch.ToolFinish.ToolCallID] = *batch.ToolFinish
	}
	if update := batch.Thread; update != nil {
		row := s.threads[key.ThreadID]
		row.Status = cmp.Or(update.Status, row.Status)
		if update.Title != nil {
			row.Title = *update.Title
		}
		if update.Agents != nil {
			row.Agents = update.Agents
		}
		if update.Metadata != nil {
			row.Metadata = update.Metadata
		}
		s.threads[key.ThreadID] = row
	}
	return store.Appended{}, nil
}

// temporal is a Temporal with workflows by id, and runs by run id. It notes what it is asked to change.
type temporal struct {
	client.Client
	workflows map[string]*workflowservice.DescribeWorkflowExecutionResponse
	runs      map[string][]*historypb.HistoryEvent
	lists     []*workflowservice.ListWorkflowExecutionsResponse
	errs      map[string]error // by workflow or run

	query      *workflowservice.ListWorkflowExecutionsRequest
	terminated []string
	restored   []signals.Restore
	started    []signals.Start
}

// add adds a workflow whose current run has the id "run".
func (f *temporal) add(id string, status enumspb.WorkflowExecutionStatus, history ...*historypb.HistoryEvent) *workflowservice.DescribeWorkflowExecutionResponse {
	desc := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run"}, Status: status,
	}}
	f.workflows[id], f.runs["run"] = desc, history
	return desc
}

func (f *temporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if err := f.errs[id]; err != nil {
		return nil, err
	}
	if desc := f.workflows[id]; desc != nil {
		return desc, nil
	}
	return nil, serviceerror.NewNotFound("no such workflow")
}

func (f *temporal) ListWorkflow(_ context.Context, req *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.query = req
	if err := f.errs["list"]; err != nil {
		return nil, err
	}
	page := f.lists[0]
	f.lists = f.lists[1:]
	return page, nil
}

func (f *temporal) GetWorkflowHistory(_ context.Context, _, run string, _ bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	if events, ok := f.runs[run]; ok {
		return &historyOf{events: events, err: f.errs[run]}
	}
	return &historyOf{events: []*historypb.HistoryEvent{nil}, err: serviceerror.NewNotFound("no such run")}
}

type historyOf struct {
	events []*historypb.HistoryEvent
	err    error
}

func (h *historyOf) HasNext() bool { return len(h.events) > 0 }

func (h *historyOf) Next() (*historypb.HistoryEvent, error) {
	next := h.events[0]
	h.events = h.events[1:]
	return next, h.err
}

func (f *temporal) TerminateWorkflow(_ context.Context, id, run, _ string, _ ...any) error {
	f.terminated = append(f.terminated, id+" "+run)
	return nil
}

func (f *temporal) SignalWorkflow(_ context.Context, id, _, _ string, arg any) error {
	f.restored = append(f.restored, arg.(signals.Restore))
	return f.errs[id]
}

func (f *temporal) SignalWithStartWorkflow(_ context.Context, id, _ string, arg any, _ client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	f.restored, f.started = append(f.restored, arg.(signals.Restore)), append(f.started, args[0].(signals.Start))
	return nil, f.errs[id]
}

// fixture compares thread t of namespace acme.
type fixture struct {
	*comparison
	shelf    *shelf
	temporal *temporal
	erased   []job.EraseStep
	eraseErr error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		shelf: &shelf{threads: map[string]store.Thread{}, erased: map[string]bool{}, records: map[string][]event.Record{}, logs: map[string]store.ToolLog{}, subs: map[string][]string{}},
		temporal: &temporal{
			workflows: map[string]*workflowservice.DescribeWorkflowExecutionResponse{}, runs: map[string][]*historypb.HistoryEvent{}, errs: map[string]error{},
		},
	}
	threads, err := threadclient.New(threadclient.Config{Temporal: f.temporal, Namespace: "acme"})
	require.NoError(t, err)
	r := New(Config{Temporal: f.temporal, Threads: threads, Store: f.shelf, Erase: func(_ context.Context, in job.EraseStep) error {
		f.erased = append(f.erased, in)
		return f.eraseErr
	}})
	f.comparison = &comparison{Reconciler: r, key: r.key("t"), apply: true}
	return f
}

// stores puts the records into the store, and reads the row.
func (f *fixture) stores(records ...event.Record) *fixture {
	f.shelf.put("t", records...)
	f.row, f.stored = f.shelf.threads["t"], true
	return f
}

// runs has a workflow that runs, with this state.
func (f *fixture) runs(state *thread.State) *fixture {
	f.desc = f.temporal.add(f.workflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.info, f.last = f.desc.GetWorkflowExecutionInfo(), &run{state: state}
	return f
}

// record is a record of the turn of an event.
func record(id, typ, eventID string, payload any) event.Record {
	return event.NewRecord(id, typ, "trace", "", noon, payload).In(eventID)
}

// says is the record of a message of a person that was posted to thread t, or that joined the turn of another event.
func says(id, eventID string) event.Record { return saysIn("t", id, eventID) }

func saysIn(threadID, id, eventID string) event.Record {
	return record(id, event.TypeMessage, eventID, event.Message{ID: id, ThreadID: threadID, SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "text of " + id})
}

// replies is the reply of an agent with calls.
func replies(eventID string, calls ...string) event.Record {
	m := event.Message{ID: recordid.Reply(eventID, 0, 1), ThreadID: "t", SenderID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant}
	for _, id := range calls {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id})
	}
	return record(m.ID, event.TypeMessage, eventID, m)
}

// ended is the record of the end of a turn.
func ended(eventID string, status signals.TurnStatus) event.Record {
	return record(recordid.TurnEnded(eventID), event.TypeTurnEnded, eventID, event.TurnEnded{EventID: eventID, Status: string(status)})
}

// knows is the state of a thread to which these events were posted.
func knows(ids ...string) *thread.State {
	s := &thread.State{Namespace: "acme", ThreadID: "t"}
	for _, id := range ids {
		s.Inbox.Posted = append(s.Inbox.Posted, thread.PostedEvent{ID: id})
	}
	return s
}

// turnOf is a turn in progress, with one run.
func turnOf(eventID string, calls ...*thread.Call) *thread.Turn {
	return &thread.Turn{Queued: thread.Queued{Item: event.Item{ID: eventID}}, Runs: []*thread.AgentRun{{Step: 1, Calls: calls}}}
}

func encode(t *testing.T, values ...any) *commonpb.Payloads {
	t.Helper()
	out, err := converter.GetDefaultDataConverter().ToPayloads(values...)
	require.NoError(t, err)
	return out
}
