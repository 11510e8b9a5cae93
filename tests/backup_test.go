package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// vault keeps copies of the folders of a world. The world is stopped when they are made.
type vault struct {
	t    *testing.T
	work string

	// dynamic are settings of Temporal, and converter is that of its clients.
	dynamic   map[string]any
	converter converter.DataConverter

	// order is a tool of the first agent.
	order tool.Tool
}

func newVault(t *testing.T) *vault {
	v := &vault{t: t, work: t.TempDir(), order: check.HandsOver("order", tool.Background())}
	for _, part := range []string{"temporal", "store", "files"} {
		v.put(part, "")
	}
	return v
}

// keep returns a copy of a folder.
func (v *vault) keep(part string) string {
	to := v.t.TempDir()
	require.NoError(v.t, os.CopyFS(to, os.DirFS(filepath.Join(v.work, part))))
	return to
}

// put replaces a folder by a copy, or by nothing.
func (v *vault) put(part, from string) {
	to := filepath.Join(v.work, part)
	require.NoError(v.t, os.RemoveAll(to))
	require.NoError(v.t, os.MkdirAll(to, 0o700))
	if from != "" {
		require.NoError(v.t, os.CopyFS(to, os.DirFS(from)))
	}
}

// live runs a world on the folders until do has returned.
func (v *vault) live(name string, do func(t *testing.T, w *harness.Harness)) {
	ok := v.t.Run(name, func(t *testing.T) {
		do(t, harness.New(t, harness.Options{
			Dir: v.work, Name: "drill", NoWorker: true, Agents: waitingAgents(check.Team("order")),
			Tools: append(waitingTools(), v.order), Dynamic: v.dynamic, Converter: v.converter,
		}))
	})
	require.True(v.t, ok, name)
}

// drill is what happens before and after the first backup, and what must hold when a part of it is restored.
type drill struct {
	// transcripts are the messages of each thread when the second backup was made.
	transcripts map[string]string

	// lost is what the store adds to them when it tells what it has lost.
	lost map[string]string

	task  event.Task
	asked event.ApprovalRequest
	early signals.Post

	// waiting are the events of the waits that are open.
	waiting map[string]string

	// interrupted is an event of the thread "queue" that leaves the queue without a turn.
	interrupted string
}

// before is the life until the first backup.
func (d *drill) before(t *testing.T, w *harness.Harness) {
	stop := w.StartWorker()
	for _, id := range []string{"idle", "turn", "queue", "decided", "asks", "task", "team", "sub", "changed", "closed"} {
		require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Agents: []string{"assistant"}, Title: "The thread " + id}, nil))
		require.Equal(t, signals.TurnCompleted, w.Say(id, "hello").Status)
	}
	w.Post("decided", check.Touches("decided"))
	d.asked = w.AwaitApproval("decided", 1)[0]
	d.task = check.StartTask(t, w, "task", "use order {}")
	d.waiting = map[string]string{}
	for _, x := range waits() {
		require.NoError(t, w.Threads.Open(w.Ctx(), x.thread, signals.Start{Agents: []string{x.agent}, Title: "The thread " + x.thread}, nil))
		d.waiting[x.thread] = x.begin(t, w)
	}
	for _, id := range []string{"turn", "queue"} {
		gate := w.Provider.Block(1)
		w.Post(id, "count 3")
		check.Arrives(t, gate.Reached(), "a reply in progress")
	}
	w.Post("queue", check.Touches("queue"))
	stop()
	// No worker has handled this signal when the repair sends its own.
	d.interrupted = w.Post("queue", "never mind")
}

// after is the life between the backups.
func (d *drill) after(t *testing.T, w *harness.Harness) {
	require.NoError(t, w.Threads.Control(w.Ctx(), "queue", signals.Control{Action: signals.ControlInterrupt, EventID: d.interrupted, By: "ann"}))
	stop := w.StartWorker()
	w.AwaitApproval("queue", 1)
	for _, x := range waits() {
		x.end(t, w, d.waiting[x.thread], 1, x.answers...)
		d.waiting[x.thread] = x.begin(t, w)
		x.answer(t, w, x.answers[:len(x.answers)-1]...)
	}
	d.early = check.Message("idle", "early", "use note {\"text\":\"once\"}")
	require.Equal(t, signals.TurnCompleted, check.Turn(w, "idle", d.early).Status)
	check.Approve(t, w, "decided", d.asked.ToolCallID)
	check.AwaitMessages(w, "decided", 6)
	_, err := w.Threads.Update(w.Ctx(), "changed", signals.ThreadChange{Agents: []string{"helper"}, Title: "Changed", By: "ann"})
	require.NoError(t, err)
	w.Post("asks", check.Touches("asks"))
	w.AwaitApproval("asks", 1)
	_, err = w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: d.task.ID, Result: json.RawMessage(`"shipped"`), By: "shop"})
	require.NoError(t, err)
	check.AwaitTold(t, w, d.task)
	require.Equal(t, signals.TurnCompleted, w.Say("team", check.Asks("helper", "use note {}")).Status)
	w.Post("sub", check.Asks("helper", check.Touches("sub"), check.Touches("sub")))
	first := w.AwaitApproval("sub", 2)[0].ToolCallID // both are calls of one reply
	check.Approve(t, w, "sub", first)
	require.Eventually(t, func() bool {
		asked := w.AwaitApproval("sub", 1)
		return asked[0].ToolCallID != first && check.Made(w, "sub") == "made\n"
	}, testenv.Patience, testenv.Tick, "one of the two calls waits")
	require.NoError(t, w.Threads.Open(w.Ctx(), "new", signals.Start{Agents: []string{"assistant"}, Title: "The thread new"}, nil))
	require.Equal(t, signals.TurnCompleted, w.Say("new", "use note {}").Status)
	require.NoError(t, w.Threads.CloseThread(w.Ctx(), "closed", "ann"))
	d.atRest(t, w)
	d.transcripts = map[string]string{}
	for _, id := range d.threads(t, w) {
		d.transcripts[id] = w.Transcript(id)
	}
	stop()
}

func (d *drill) threads(t *testing.T, w *harness.Harness) (ids []string) {
	rows, err := w.Store.Threads(w.Ctx(), w.TaskQueue, store.ThreadPage{Limit: 200})
	require.NoError(t, err)
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	slices.Sort(ids)
	return ids
}

// atRest waits until no thread has anything to do but wait for people and clients.
func (d *drill) atRest(t *testing.T, w *harness.Harness) {
	for _, id := range d.threads(t, w) {
		require.Eventually(t, func() bool {
			row, err := w.Store.Thread(w.Ctx(), w.Key(id))
			if err != nil || row.Status == store.ThreadClosed {
				return err == nil
			}
			s, err := w.Threads.State(w.Ctx(), id)
			if err != nil || s.QueueLength > 0 || row.Activity == store.ActivityRunning && id != "client" {
				return false
			}
			desc, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "")
			return err == nil && desc.GetPendingWorkflowTask() == nil && len(desc.GetPendingActivities()) == 0
		}, testenv.Patience, testenv.Tick, id)
	}
}

// mend runs the command until nothing differs, and returns what it told first.
func (d *drill) mend(t *testing.T, w *harness.Harness) map[string][]repair.Difference {
	told, code, problem := w.Starter("repair", "--json")
	require.Equal(t, 1, code, "%s%s", told, problem)
	var report repair.Comparison
	require.NoError(t, json.Unmarshal([]byte(told), &report))
	out := map[string][]repair.Difference{}
	for _, one := range report.Threads {
		out[one.ThreadID] = one.Differences
		for _, diff := range one.Differences {
			assert.Contains(t, []repair.State{repair.Found, repair.Unmendable}, diff.State, "%s: it only tells: %s", one.ThreadID, diff.Detail)
		}
	}
	printed, code, problem := w.Starter("repair", "--apply")
	require.Equal(t, 0, code, "%s%s", printed, problem)
	t.Log(printed)
	return out
}

// cutOff begins a repair that ends after each of its first writes, as if the process were killed there.
func (d *drill) cutOff(t *testing.T, w *harness.Harness) {
	for last := range 3 {
		cut := &cutStore{Store: w.Store, left: last}
		r := w.Beside(func(c *threadmill.Config) { c.Store = cut })
		report := repaired(t, r, `{"threadId":"team","apply":true}`)
		require.Equal(t, repair.Failed, report.Threads[0].Differences[0].State)
	}
}

// cutStore is unavailable for writing after some appends.
type cutStore struct {
	teststore.Store
	left int
}

func (s *cutStore) Append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	if s.left--; s.left < 0 {
		return store.Appended{}, store.Unavailable(errors.New("cut off"))
	}
	return s.Store.Append(ctx, key, batch)
}

// nothing checks that nothing differs.
func (d *drill) nothing(t *testing.T, w *harness.Harness) {
	printed, code, problem := w.Starter("repair")
	require.Equal(t, 0, code, "%s%s", printed, problem)
	require.Contains(t, printed, "to mend: 0, failed: 0")
}

// whole checks that no thread has lost or doubled anything.
func (d *drill) whole(t *testing.T, w *harness.Harness) {
	for id, transcript := range d.transcripts {
		want, got := unescaped(transcript+d.lost[id]), unescaped(w.Transcript(id))
		if id == "queue" { // the interrupted event is stored while the reply before it is
			assert.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(got, "\n"), id)
		} else {
			assert.Equal(t, want, got, id)
		}
		if id == "sub" {
			continue // its call waits for the sub-agent
		}
		check.RequireWhole(t, check.AllRecords(w, id))
	}
	for _, id := range []string{"decided", "sub"} {
		if _, has := d.transcripts[id]; has {
			assert.Equal(t, "made\n", check.Made(w, id), "the tool ran once")
		}
	}
}

// unescaped writes a character of the arguments of a call as such: a history has the arguments, and not how the model escaped
// them.
func unescaped(transcript string) string { return strings.ReplaceAll(transcript, `\u003e`, ">") }

// goesOn checks that every thread does what it did, as if nothing had happened.
func (d *drill) goesOn(t *testing.T, w *harness.Harness) {
	calls := w.Provider.Calls()
	got, err := w.Threads.Post(w.Ctx(), "idle", d.early)
	require.NoError(t, err)
	assert.Equal(t, signals.PostDuplicate, got.Status, "its id is known")
	assert.Equal(t, calls, w.Provider.Calls())
	for _, id := range []string{"idle", "turn", "decided", "task", "team", "new"} {
		assert.Equal(t, signals.TurnCompleted, w.Say(id, "are you there?").Status, id)
	}
	for _, id := range []string{"asks", "queue"} {
		check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID)
		require.Eventually(t, func() bool { return check.Made(w, id) == "made\n" }, testenv.Patience, testenv.Tick)
	}
	for _, x := range waits() {
		x.end(t, w, d.waiting[x.thread], 2, x.answers[len(x.answers)-1])
	}
	require.Equal(t, "made\n", check.Made(w, "sub"), "the sub-agent waits with one call only")
	check.Approve(t, w, "sub", w.AwaitApproval("sub", 1)[0].ToolCallID)
	require.Eventually(t, func() bool { return check.Made(w, "sub") == "made\nmade\n" }, testenv.Patience, testenv.Tick)
	_, err = w.Threads.Post(w.Ctx(), "closed", signals.UserMessage("closed", "ann", "hello?"))
	require.Error(t, err, "it stays closed")
	row, err := w.Store.Thread(w.Ctx(), w.Key("closed"))
	require.NoError(t, err)
	assert.Equal(t, store.ThreadClosed, row.Status)
	d.atRest(t, w)
	for _, id := range d.threads(t, w) {
		check.RequireWhole(t, check.AllRecords(w, id))
	}
	d.nothing(t, w)
}

// kinds are the kinds of differences by thread, in alphabetical order, with those of its sub-agents.
func kinds(told map[string][]repair.Difference) map[string]string {
	words := map[string][]string{}
	for id, all := range told {
		id, _, _ = strings.Cut(id, ".s")
		for _, d := range all {
			words[id] = append(words[id], string(d.Kind))
		}
	}
	out := map[string]string{}
	for id, all := range words {
		slices.Sort(all)
		out[id] = strings.Join(all, " ")
	}
	return out
}

// TestRestore saves the store and Temporal at different moments and restores them apart, in both orders.
func TestRestore(t *testing.T) {
	v, d := newVault(t), &drill{}
	v.live("before", d.before)
	olderStore, olderTemporal := v.keep("store"), v.keep("temporal")
	v.live("after", d.after)
	newerStore, newerTemporal, files := v.keep("store"), v.keep("temporal"), v.keep("files")

	v.live("nothing differs", func(t *testing.T, w *harness.Harness) {
		d.nothing(t, w)
		d.whole(t, w)
	})
	for _, c := range []struct {
		name, store, temporal string
		told                  map[string]string
	}{
		{"the store is older", olderStore, newerTemporal, map[string]string{
			"idle": "records", "turn": "records", "decided": "records", "asks": "records", "task": "records", "team": "records records", "sub": "records records", "changed": "records", "new": "records", "closed": "records",
			"client": "records", "input": "lost lost records", "quorum": "records", "pair": "records", "queue": "records",
		}},
		{"Temporal is older", newerStore, olderTemporal, map[string]string{
			"idle": "events", "decided": "answers", "asks": "turns", "task": "events tasks", "team": "events", "sub": "turns turns workflow", "changed": "row", "new": "workflow", "closed": "closed",
			"client": "answers turns", "input": "answers turns", "quorum": "answers turns", "pair": "answers turns", "queue": "turns",
		}},
		{"Temporal is empty", newerStore, "", map[string]string{
			"idle": "workflow", "turn": "workflow", "decided": "workflow", "asks": "workflow", "task": "workflow", "team": "workflow", "sub": "workflow workflow", "changed": "workflow", "new": "workflow",
			"client": "workflow", "input": "workflow", "quorum": "workflow", "pair": "workflow", "queue": "workflow",
		}},
		{"the store is empty", "", newerTemporal, map[string]string{
			"idle": "records", "turn": "records", "decided": "records", "asks": "records", "task": "lost records", "team": "records records", "sub": "records records", "changed": "records", "new": "records", "closed": "records",
			"client": "records", "input": "lost lost records", "quorum": "records", "pair": "records", "queue": "records",
		}},
	} {
		v.put("store", c.store)
		v.put("temporal", c.temporal)
		v.put("files", files)
		v.live(c.name, func(t *testing.T, w *harness.Harness) {
			d.lost = map[string]string{}
			if c.told["new"] == "records" {
				d.cutOff(t, w)
				for _, x := range waits() {
					d.lost[x.thread] = x.lost
				}
			}
			told := d.mend(t, w)
			assert.Equal(t, c.told, kinds(told))
			d.nothing(t, w)
			d.whole(t, w)
			stop := w.StartWorker()
			d.atRest(t, w)
			assert.Zero(t, w.Provider.Calls(), "no reply is requested twice")
			d.whole(t, w)
			d.goesOn(t, w)
			stop()
		})
	}
}

// TestRestoreLongThread: the records that several workflow runs have written are written again.
func TestRestoreLongThread(t *testing.T) {
	v := newVault(t)
	v.dynamic = map[string]any{"limit.historyCount.suggestContinueAsNew": 60}
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		require.NoError(t, w.Threads.Open(w.Ctx(), "long", signals.Start{}, nil))
		w.Say("long", "hello")
		stop()
	})
	older := v.keep("store")
	var transcript string
	v.live("after", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		first := check.CurrentRun(w, "long")
		for i := range 20 {
			require.Equal(t, signals.TurnCompleted, w.Say("long", fmt.Sprintf("use note {\"text\":\"%d\"}", i)).Status)
		}
		require.NotEqual(t, first, check.CurrentRun(w, "long"))
		stop()
		transcript = w.Transcript("long")
	})
	v.put("store", older)
	v.live("restored", func(t *testing.T, w *harness.Harness) {
		d := &drill{transcripts: map[string]string{"long": transcript}}
		assert.Equal(t, map[string]string{"long": "records"}, kinds(d.mend(t, w)))
		d.nothing(t, w)
		require.Equal(t, transcript, w.Transcript("long"))
		check.RequireWhole(t, check.AllRecords(w, "long"))
		stop := w.StartWorker()
		require.Equal(t, signals.TurnCompleted, w.Say("long", "still there?").Status)
		d.nothing(t, w)
		stop()
	})
}

// TestRepairAfterPruning: repair of an older store does not bring back what retention has deleted from it.
func TestRepairAfterPruning(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	live := func(name string, do func(t *testing.T, w *harness.Harness)) {
		require.True(t, t.Run(name, func(t *testing.T) {
			agents := check.Team()
			agents[0].Tools = append(agents[0].Tools, "chore")
			do(t, harness.New(t, harness.Options{Dir: v.work, Name: "pruned", NoWorker: true, Agents: agents, Tools: []tool.Tool{check.NewSpy("chore", tool.Background())}}))
		}))
	}
	live("pruned", func(t *testing.T, w *harness.Harness) {
		defer w.StartWorker()()
		require.NoError(t, w.Threads.Open(w.Ctx(), "logs", signals.Start{Agents: []string{"assistant"}, Title: "Logs"}, nil))
		require.Equal(t, signals.TurnCompleted, w.Say("logs", "use note {}").Status)
		check.AwaitTold(t, w, check.StartTask(t, w, "logs", "use chore {}"))
		n, err := w.Store.PruneToolLogs(w.Ctx(), w.TaskQueue, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
	older := v.keep("store")
	live("later", func(t *testing.T, w *harness.Harness) {
		defer w.StartWorker()()
		require.Equal(t, signals.TurnCompleted, w.Say("logs", "use note {}").Status)
	})
	v.put("store", older)
	live("restored", func(t *testing.T, w *harness.Harness) {
		printed, code, problem := w.Starter("repair", "--apply")
		require.Equal(t, 0, code, "%s%s", printed, problem)
		logs, err := w.Store.ToolLogs(w.Ctx(), w.Key("logs"))
		require.NoError(t, err)
		require.Len(t, logs, 1, "the log of the call that the store had lost")
		require.Equal(t, "note", logs[0].ToolName)
	})
}

// TestRestoreEncrypted: histories are read with the converters of the clients. Without them, the repair fails, rather than to
// call everything lost.
func TestRestoreEncrypted(t *testing.T) {
	v := newVault(t)
	v.converter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true}))
	var transcript string
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		require.NoError(t, w.Threads.Open(w.Ctx(), "secret", signals.Start{}, nil))
		require.Equal(t, signals.TurnCompleted, w.Say("secret", "hello").Status)
		stop()
		transcript = w.Transcript("secret")
	})
	v.put("store", "")
	v.live("the store is empty", func(t *testing.T, w *harness.Harness) {
		without := w.Beside(func(c *threadmill.Config) { c.Replay.DataConverter = nil })
		report := repaired(t, without, `{"threadId":"secret"}`)
		require.Len(t, report.Threads, 1)
		assert.Equal(t, repair.Failed, report.Threads[0].Differences[0].State)
		d := &drill{transcripts: map[string]string{"secret": transcript}}
		assert.Equal(t, map[string]string{"secret": "records"}, kinds(d.mend(t, w)))
		d.nothing(t, w)
		d.whole(t, w)
	})
}

// repaired returns the report of a repair by one runtime.
func repaired(t *testing.T, r *threadmill.Runtime, body string) (out repair.Comparison) {
	t.Helper()
	rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/repair", strings.NewReader(body))
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	harness.API(t, r).ServeHTTP(rec, req)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &out))
	return out
}

// TestRestoreOfStartedThreads: a post or a repair that was killed may have started a workflow before the repair.
func TestRestoreOfStartedThreads(t *testing.T) {
	v, ids := newVault(t), []string{"posted", "half"}
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		for _, id := range ids {
			require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Agents: []string{"assistant"}, Title: "The thread " + id}, nil))
			require.Equal(t, signals.TurnCompleted, w.Say(id, "hello").Status)
			w.Post(id, check.Touches(id))
			w.AwaitApproval(id, 1)
		}
		stop()
	})
	v.put("temporal", "")
	v.live("Temporal is empty", func(t *testing.T, w *harness.Harness) {
		p := check.Message("posted", "late", "hello again")
		require.NoError(t, w.Threads.Open(w.Ctx(), "posted", signals.Start{Agents: []string{"assistant"}}, &p))
		require.NoError(t, w.Threads.Restore(w.Ctx(), "half", &signals.Start{Agents: []string{"assistant"}}, signals.Restore{Title: "The thread half"}))
		d := &drill{}
		assert.Equal(t, map[string]string{"posted": "events turns", "half": "events turns"}, kinds(d.mend(t, w)))
		d.nothing(t, w)
		stop := w.StartWorker()
		for _, id := range ids {
			check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID)
			require.Eventually(t, func() bool { return check.Made(w, id) == "made\n" }, testenv.Patience, testenv.Tick)
		}
		d.atRest(t, w)
		for _, id := range ids {
			check.RequireWhole(t, check.AllRecords(w, id))
			s, err := w.Threads.State(w.Ctx(), id)
			require.NoError(t, err)
			assert.Equal(t, "The thread "+id, s.Title)
		}
		d.nothing(t, w)
		stop()
	})
}

// TestRestoreOfTasks: a background task whose arguments are lost does not run without them.
func TestRestoreOfTasks(t *testing.T) {
	v := newVault(t)
	began, seen := make(chan string, 10), []string{}
	var hold atomic.Bool
	hold.Store(true)
	v.order = tool.MustFunc("order", "Orders.", func(ctx context.Context, _ tool.Call, in map[string]any) (string, error) {
		raw, err := json.Marshal(in)
		began <- string(raw)
		if hold.Load() {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "done", err
	}, tool.Background(), tool.Idempotent(), tool.MaxAttempts(5))
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		require.NoError(t, w.Threads.Open(w.Ctx(), "task", signals.Start{Agents: []string{"assistant"}}, nil))
		require.Equal(t, signals.TurnCompleted, w.Say("task", `use order {"sku":"A1"}`).Status)
		seen = append(seen, <-began)
		stop()
	})
	hold.Store(false)
	v.put("store", "")
	v.live("the store is empty", func(t *testing.T, w *harness.Harness) {
		d := &drill{}
		assert.Equal(t, map[string]string{"task": "lost records records"}, kinds(d.mend(t, w)))
		stop := w.StartWorker()
		require.Eventually(t, func() bool {
			s, err := w.Threads.State(w.Ctx(), "task")
			return err == nil && s.Tasks == 0 && s.Status == signals.ThreadIdle && s.QueueLength == 0
		}, testenv.Patience, testenv.Tick, "the task ends")
		stop()
		assert.Contains(t, w.Transcript("task"), "the arguments of this call were lost")
	})
	for len(began) > 0 {
		seen = append(seen, <-began)
	}
	assert.NotContains(t, seen, "{}", "it did not run without arguments")
}
