package erasure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/erasures/export"
	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/workflows"
)

const (
	matrixPerson = "annabelle"
	matrixTerm   = "Belle Zuckerkorn"
)

// matrixWords are the person's.
var matrixWords = []string{matrixPerson, "Zuckerkorn", "zuckerkorn", "zephyr"}

// TestErasedPersonKilledAtEveryWrite erases a person once for each write of an erasure, in the store and in Temporal: the worker dies after
// that write. All of them run at the same time in one database. Each ends with one receipt, and nothing of the person is left.
func TestErasedPersonKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "threads.db")})
		require.NoError(t, err)
		killAtEveryWrite(t, db)
		require.Empty(t, around(t, dir, matrixWords...), "what was deleted is not in the files")
		require.NoError(t, db.Close())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url, schema := testenv.Postgres(t), testenv.Name("killed")
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema})
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		killAtEveryWrite(t, unscrubbed{db})
		rows := dump(t, url, schema)
		for _, word := range matrixWords {
			require.NotContains(t, rows, word)
		}
	})
}

// unscrubbed is a PostgreSQL of which only the rows are searched: VACUUM would make the erasures wait for one another.
type unscrubbed struct{ teststore.Store }

func (unscrubbed) Scrub(context.Context) error { return nil }

func killAtEveryWrite(t *testing.T, db store.Store) {
	t.Helper()
	// The first one is not killed, and tells how many writes there are.
	whole := newMatrix(t, db, "whole", -1)
	whole.erase()
	require.False(t, t.Failed())
	require.Greater(t, whole.writes, 25)
	var all sync.WaitGroup
	for n := 1; n <= whole.writes; n++ {
		m := newMatrix(t, db, fmt.Sprintf("n%d", n), n)
		all.Go(func() {
			m.erase()
			assert.GreaterOrEqual(t, m.writes, n, "it was killed")
		})
	}
	all.Wait()
}

// TestErasedPersonStuck: a thread that goes on to begin with something of the person, however often it continues as new, is told to do so
// a few times only. The erasure says which thread it waits for and why, the other threads are erased, and it ends when the thread is closed.
func TestErasedPersonStuck(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	m := newMatrix(t, db, "stuck", -1)
	stuck := m.threads["shared"]
	stuck.stubborn = true
	stuck.state.Outcomes = []json.RawMessage{[]byte(`{"eventId":"s1","content":"of ` + matrixTerm + `"}`)}
	stuck.begin(m.namespace)
	var waits []signals.PersonWait
	looks := 0
	stuck.looked = func() {
		if looks++; looks < 12 {
			return
		}
		all, err := erasures.PeopleInProgress(t.Context(), db, m.namespace)
		if err != nil {
			t.Error(err)
		}
		if assert.Len(t, all, 1) {
			waits = all[0].Waiting
		}
		assert.NotContains(t, m.contents("titled"), "zephyr", "the other threads do not wait")
		stuck.run().Open = false // somebody closes it
	}
	m.erase()
	require.Len(t, waits, 1)
	require.Equal(t, "shared", waits[0].ThreadID)
	require.Contains(t, waits[0].Why, "close or erase it")
	require.WithinDuration(t, time.Now(), waits[0].Since, testenv.Patience)
	require.Equal(t, 4, stuck.forgets)
}

// mortal is a process that dies after one of its writes: nothing works then until the next one starts.
type mortal struct {
	mu            sync.Mutex
	after, writes int
	dead          bool
}

var errKilled = errors.New("the process was killed")

func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	if m.writes++; m.writes == m.after {
		m.dead = true
		return errKilled
	}
	return nil
}

func (m *mortal) killed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// matrix is a namespace with its threads. Their Temporal is simulated: a change of a thread is stored before Temporal has it, so that a kill
// leaves the thread as it was.
type matrix struct {
	mortal
	teststore.Store
	activities.Histories
	t         testing.TB
	namespace string
	threads   map[string]*matrixThread
	schedules map[string]signals.Schedule
	scheduled map[string]string // what the runs of schedules have
}

// matrixThread is the workflow of a thread.
type matrixThread struct {
	id    string
	state matrixState
	memo  string
	runs  []*matrixRun

	// began counts its runs, and forgets how often it was told to forget. looked is called when the beginning of a run is looked at.
	began, forgets int
	looked         func()

	// stubborn threads continue as new without having forgotten.
	stubborn bool
}

type matrixState struct {
	Title    string            `json:"title,omitempty"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Outcomes []json.RawMessage `json:"outcomes,omitempty"`
}

type matrixRun struct {
	job.WorkflowRun
	events []json.RawMessage
}

func (r *matrixRun) has(events int, concerns func(json.RawMessage) bool) bool {
	return slices.ContainsFunc(r.events[:min(events, len(r.events))], concerns)
}

// begun is the number of events with which a run begins: its input and its memo.
const begun = 2

func (th *matrixThread) run() *matrixRun { return th.runs[len(th.runs)-1] }

func (th *matrixThread) begin(namespace string) {
	if len(th.runs) > 0 {
		th.run().Open = false
	}
	state, _ := json.Marshal(th.state)
	memo, _ := json.Marshal(th.memo)
	run := job.WorkflowRun{WorkflowID: signals.WorkflowID(namespace, th.id), RunID: fmt.Sprintf("%s-%d", th.id, th.began), Open: true}
	th.began++
	th.runs = append(th.runs, &matrixRun{run, []json.RawMessage{state, memo}})
}

func newMatrix(t *testing.T, db store.Store, namespace string, after int) *matrix {
	t.Helper()
	m := &matrix{
		mortal: mortal{after: after}, Store: teststore.Of(db), t: t, namespace: namespace, threads: map[string]*matrixThread{},
		schedules: map[string]signals.Schedule{}, scheduled: map[string]string{},
	}
	m.thread("alone", "", "", said("a1", "a1", matrixPerson, event.CreatedByUser, "zephyralone"), said("a1.1", "a1", "assistant", event.CreatedByAgent, "zephyranswer"))
	m.thread("shared", "The case of "+matrixTerm, "",
		said("s1", "s1", "bob", event.CreatedByUser, "hello"), said("s2", "s2", matrixPerson, event.CreatedByUser, "zephyrshared"),
		said("s2.1", "s2", "assistant", event.CreatedByAgent, "zephyrcalls", event.ToolCall{ID: "call1"}))
	m.thread("shared.s1", "About zephyrsub", "shared", said("u1", "u1", "assistant", event.CreatedByUser, "zephyrtask"))
	m.thread("titled", "About zephyrtitle", "",
		said("t1", "t1", matrixPerson, event.CreatedByUser, "zephyrfirst"), said("t2", "t2", "bob", event.CreatedByUser, "hello"),
		event.NewRecord(recordid.Titled("titled", "1"), event.TypeStatus, "", "", time.Now(), event.StatusChange{Status: event.StatusUpdated, Title: "About zephyrtitle"}))
	m.thread("others", "bobs title", "", said("o1", "o1", "bob", event.CreatedByUser, "hello"))
	daily := signals.Schedule{ID: "daily", ThreadID: "others", Cron: []string{"@daily"}, Message: &event.NewMessage{SenderID: matrixPerson, Content: "zephyrschedule"}}
	_, err := scheduleversions.Note(t.Context(), teststore.Of(db), namespace, daily.ID, &daily, matrixPerson, time.Now())
	require.NoError(t, err)
	m.schedules[daily.ID], m.scheduled[daily.ID] = daily, "zephyrschedule of "+matrixPerson
	return m
}

func said(id, turn, who string, kind event.CreatedBy, text string, calls ...event.ToolCall) event.Record {
	return event.NewRecord(id, event.TypeMessage, "", "", time.Now(), event.Message{ID: id, SenderID: who, SenderType: kind, Content: text, ToolCalls: calls}).In(turn)
}

// thread adds a thread, of which a first run has the records, and the second one only its title.
func (m *matrix) thread(id, title, parent string, records ...event.Record) {
	th := &matrixThread{id: id, state: matrixState{Title: title}, memo: title}
	th.begin(m.namespace)
	b := store.Batch{Records: records, Thread: &store.ThreadUpdate{Title: &title, Status: store.ThreadOpen, Parent: parent}}
	if parent != "" {
		b.Thread.Metadata = json.RawMessage(`{"parentThreadId":"` + parent + `","parentToolCallId":"call1"}`)
	}
	if parent == "" && strings.Contains(title, matrixTerm) {
		b.Thread.Metadata = json.RawMessage(`{"customer":"` + matrixTerm + `"}`)
		th.state.Metadata = b.Thread.Metadata
		now := time.Now()
		b.ToolFinish = &store.ToolLog{
			ToolCallID: "call1", ToolName: "act", Input: json.RawMessage(`{"text":"zephyrlog"}`), Output: json.RawMessage(`"zephyrlog"`),
			Status: store.ToolSucceeded, StartedAt: now, FinishedAt: &now,
		}
	}
	for _, r := range records {
		outcome, _ := json.Marshal(map[string]any{"eventId": r.EventID, "message": json.RawMessage(r.Payload)})
		th.run().events = append(th.run().events, outcome)
	}
	_, err := m.Append(m.t.Context(), m.key(id), b)
	require.NoError(m.t, err)
	th.begin(m.namespace)
	m.threads[id] = th
}

func (m *matrix) key(id string) store.Key { return store.Key{Namespace: m.namespace, ThreadID: id} }

// erase erases the person with the workflow and the activities of a worker, and checks the result.
func (m *matrix) erase() {
	t := m.t
	request, err := erasures.BeginPerson(t.Context(), m.Store, m.namespace, erasures.PersonRequest{Person: matrixPerson, Terms: []string{matrixTerm}}, "carol")
	if err != nil {
		t.Error(err)
		return
	}
	live := memory.New(memory.Config{})
	defer func() { assert.NoError(t, live.Close()) }()
	all, err := activities.New(activities.Config{
		Agents: agent.Fixed{}, Store: mortalStore{m.Store, m}, Stream: live, Histories: m, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Error(err)
		return
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(testenv.Patience)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
	(&workflows.Workflows{}).Register(env)
	for name, do := range all.Functions() {
		env.RegisterActivityWithOptions(m.attempts(do), activity.RegisterOptions{Name: name})
	}
	env.ExecuteWorkflow(job.ErasePersonWorkflow, job.ErasePersonInput{PersonStep: job.PersonStep{Namespace: m.namespace, ID: request.ID, By: "carol"}})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("killed after write %d: %v", m.after, err)
		return
	}
	m.requireErased(request.ID)
}

// attempts makes each attempt at an activity a process. The result of one that is killed is lost.
func (m *matrix) attempts(do any) any {
	f := reflect.ValueOf(do)
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
		m.mu.Lock()
		m.dead = false
		m.mu.Unlock()
		out := f.Call(args)
		if m.killed() {
			out[len(out)-1] = reflect.ValueOf(&errKilled).Elem()
		}
		return out
	}).Interface()
}

func (m *matrix) requireErased(id string) {
	t, ctx := m.t, m.t.Context()
	receipt, err := erasures.LoadPerson(ctx, m.Store, m.namespace, id)
	if err != nil {
		t.Error(err)
	}
	assert.Equal(t, []string{"alone"}, receipt.Erased)
	assert.Equal(t, []string{"shared", "titled"}, slices.Sorted(slices.Values(receipt.Forgot)))
	assert.False(t, receipt.RequestedAt.IsZero() || receipt.FinishedAt.IsZero())
	if _, err = erasures.Load(ctx, m.Store, m.namespace, "alone"); err != nil {
		t.Errorf("the thread has no receipt of its own: %v", err)
	}
	all, err := erasures.ListPeople(ctx, m.Store, m.namespace)
	if err != nil {
		t.Error(err)
	}
	assert.Len(t, all, 1)
	for thread := range m.threads {
		left := m.contents(thread)
		for _, word := range matrixWords {
			assert.NotContains(t, left, word, "killed after write %d: thread %s", m.after, thread)
		}
		if thread == "others" {
			assert.Contains(t, left, "bobs title")
			assert.Len(t, m.threads[thread].runs, 2, "a thread that has nothing of the person is not touched")
		}
	}
	assert.Empty(t, m.schedules)
	assert.Empty(t, m.scheduled, "killed after write %d", m.after)
	versions, err := scheduleversions.Read(ctx, m.Store, m.namespace, "daily")
	if err != nil {
		t.Error(err)
	}
	assert.Empty(t, versions)
}

// contents returns all that the store and Temporal have of a thread.
func (m *matrix) contents(id string) string {
	var out bytes.Buffer
	if err := export.Thread(m.t.Context(), m.Store, m.key(id), &out); !errors.Is(err, store.ErrNotFound) {
		assert.NoError(m.t, err)
	}
	th := m.threads[id]
	fmt.Fprintf(&out, "memo %s\n", th.memo)
	for _, r := range th.runs {
		fmt.Fprintf(&out, "%s %s\n", r.RunID, r.events)
	}
	return out.String()
}

// Find returns the runs of a thread.
func (m *matrix) Find(_ context.Context, _, threadID string, _, _ []string) (out job.FoundWorkflows, err error) {
	for _, r := range m.threads[threadID].runs {
		out.Runs = append(out.Runs, r.WorkflowRun)
	}
	return out, nil
}

func (m *matrix) find(run job.WorkflowRun) (*matrixThread, *matrixRun) {
	for _, th := range m.threads {
		for _, r := range th.runs {
			if r.RunID == run.RunID {
				return th, r
			}
		}
	}
	return nil, &matrixRun{}
}

// Has searches a run.
func (m *matrix) Has(_ context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error) {
	_, r := m.find(run)
	return r.has(len(r.events), concerns), nil
}

// Began searches what a run begins with.
func (m *matrix) Began(_ context.Context, run job.WorkflowRun, concerns func(json.RawMessage) bool) (bool, error) {
	th, r := m.find(run)
	if th.looked != nil {
		th.looked()
	}
	return r.has(begun, concerns), nil
}

// Title returns the memo of a thread that runs.
func (m *matrix) Title(_ context.Context, _, threadID string) (string, error) {
	if th := m.threads[threadID]; len(th.runs) > 0 && th.run().Open {
		return th.memo, nil
	}
	return "", nil
}

// Resting reports that nothing waits.
func (m *matrix) Resting(context.Context, string, string) (bool, error) { return true, nil }

// Change stores a change of a thread, and then changes its workflow.
func (m *matrix) Change(ctx context.Context, _, threadID string, c signals.ThreadChange) (bool, error) {
	th := m.threads[threadID]
	if !th.run().Open {
		return false, nil
	}
	err := m.write(func() error {
		update := &store.ThreadUpdate{Metadata: c.Metadata}
		if c.Title != "" {
			update.Title = &c.Title
		}
		_, err := m.Append(ctx, m.key(threadID), store.Batch{Thread: update})
		return err
	})
	if err != nil {
		return true, err
	}
	return true, m.write(func() error {
		if c.Title != "" {
			th.state.Title, th.memo = c.Title, c.Title
		}
		if len(c.Metadata) > 0 {
			th.state.Metadata = c.Metadata
		}
		raw, err := json.Marshal(c)
		th.run().events = append(th.run().events, raw)
		return err
	})
}

// Forget has a thread continue as new without a person. It keeps its memo.
func (m *matrix) Forget(_ context.Context, _, threadID string, f job.Forget) error {
	return m.write(func() error {
		p, err := forget.New(f.Person, f.Pseudonym, f.Terms)
		if err != nil {
			return err
		}
		th := m.threads[threadID]
		th.forgets++
		raw, err := json.Marshal(f)
		if err != nil {
			return err
		}
		th.run().events = append(th.run().events, raw)
		state, err := json.Marshal(th.state)
		if err != nil {
			return err
		}
		if th.stubborn {
			th.begin(m.namespace)
			return nil
		}
		if err := json.Unmarshal(p.In(f.Turns, f.Titles, f.Inherited).Clean(state, false), &th.state); err != nil {
			return err
		}
		th.begin(m.namespace)
		return nil
	})
}

// Stop terminates a thread.
func (m *matrix) Stop(_ context.Context, _, threadID string) error {
	th := m.threads[threadID]
	if len(th.runs) == 0 || !th.run().Open {
		return nil
	}
	return m.write(func() error {
		th.run().Open = false
		return nil
	})
}

// Delete deletes runs, one after the other.
func (m *matrix) Delete(_ context.Context, runs []job.WorkflowRun) error {
	for _, run := range runs {
		err := m.write(func() error {
			th, _ := m.find(run)
			if th != nil {
				th.runs = slices.DeleteFunc(th.runs, func(r *matrixRun) bool { return r.RunID == run.RunID })
			}
			if th != nil && len(th.runs) == 0 {
				th.memo, th.state = "", matrixState{}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Schedules returns none: the one that there is posts as the person.
func (m *matrix) Schedules(context.Context, string, ...string) (map[string][]string, error) {
	return map[string][]string{}, nil
}

// SchedulesWhere selects schedules.
func (m *matrix) SchedulesWhere(_ context.Context, _ string, is func(signals.Schedule) bool) (ids []string, err error) {
	for id, s := range m.schedules {
		if is(s) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// DeleteSchedules deletes schedules, and then their runs.
func (m *matrix) DeleteSchedules(_ context.Context, _ string, ids []string) error {
	for _, id := range ids {
		err := m.write(func() error {
			delete(m.schedules, id)
			return nil
		})
		if err == nil {
			err = m.write(func() error {
				delete(m.scheduled, id)
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mortalStore is the store of a process.
type mortalStore struct {
	teststore.Store
	m *matrix
}

func (s mortalStore) Append(ctx context.Context, key store.Key, b store.Batch) (out store.Appended, err error) {
	err = s.m.write(func() (err error) {
		out, err = s.Store.Append(ctx, key, b)
		return err
	})
	return out, err
}

func (s mortalStore) MarkErased(ctx context.Context, key store.Key) error {
	return s.m.write(func() error { return s.Store.MarkErased(ctx, key) })
}

func (s mortalStore) EraseThread(ctx context.Context, key store.Key) error {
	return s.m.write(func() error { return s.Store.EraseThread(ctx, key) })
}

func (s mortalStore) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	return s.m.write(func() error { return s.Store.ReplaceRecords(ctx, key, records...) })
}

func (s mortalStore) ReplaceToolLogs(ctx context.Context, key store.Key, logs ...store.ToolLog) error {
	return s.m.write(func() error { return s.Store.ReplaceToolLogs(ctx, key, logs...) })
}

func (s mortalStore) ForgetMessages(ctx context.Context, key store.Key, ids ...string) error {
	return s.m.write(func() error { return s.Store.ForgetMessages(ctx, key, ids...) })
}

func (s mortalStore) ForgetEntities(ctx context.Context, namespace string, match func(string) bool) (n int, err error) {
	err = s.m.write(func() (err error) {
		n, err = s.Store.ForgetEntities(ctx, namespace, match)
		return err
	})
	return n, err
}

func (s mortalStore) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (out store.Document, err error) {
	err = s.m.write(func() (err error) {
		out, err = s.Store.PutDocument(ctx, namespace, d, after)
		return err
	})
	return out, err
}

func (s mortalStore) DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	return s.m.write(func() error { return s.Store.DeleteDocument(ctx, namespace, kind, name, after) })
}

func (s mortalStore) Scrub(ctx context.Context) error {
	return s.m.write(func() error { return s.Store.Scrub(ctx) })
}
