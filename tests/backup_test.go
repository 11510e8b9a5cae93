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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/repair"
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

	// dynamic are settings of Temporal.
	dynamic map[string]any
}

func newVault(t *testing.T) *vault {
	v := &vault{t: t, work: t.TempDir()}
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
		agents := check.Team()
		agents[0].Tools = append(agents[0].Tools, "order")
		do(t, harness.New(t, harness.Options{
			Dir: v.work, Name: "drill", NoWorker: true, Agents: agents,
			Tools: []tool.Tool{check.HandsOver("order", tool.Background())}, Dynamic: v.dynamic,
		}))
	})
	require.True(v.t, ok, name)
}

// drill is what happens before and after the first backup, and what must hold when a part of it is restored.
type drill struct {
	// transcripts are the messages of each thread when the second backup was made.
	transcripts map[string]string
	task        event.Task
	asked       event.ApprovalRequest
	early       signals.Post
}

// before is the life until the first backup.
func (d *drill) before(t *testing.T, w *harness.Harness) {
	stop := w.StartWorker()
	for _, id := range []string{"idle", "turn", "decided", "asks", "task", "team", "closed"} {
		require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Agents: []string{"assistant"}, Title: "The thread " + id}, nil))
		require.Equal(t, signals.TurnCompleted, w.Say(id, "hello").Status)
	}
	w.Post("decided", check.Touches("decided"))
	d.asked = w.AwaitApproval("decided", 1)[0]
	d.task = check.StartTask(t, w, "task", "use order {}")
	gate := w.Provider.Block(1)
	w.Post("turn", "count 3")
	check.Arrives(t, gate.Reached(), "a reply in progress")
	stop()
}

// after is the life between the backups.
func (d *drill) after(t *testing.T, w *harness.Harness) {
	stop := w.StartWorker()
	d.early = check.Message("idle", "early", "use note {\"text\":\"once\"}")
	require.Equal(t, signals.TurnCompleted, check.Turn(w, "idle", d.early).Status)
	check.Approve(t, w, "decided", d.asked.ToolCallID)
	check.AwaitMessages(w, "decided", 6)
	w.Post("asks", check.Touches("asks"))
	w.AwaitApproval("asks", 1)
	_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: d.task.ID, Result: json.RawMessage(`"shipped"`), By: "shop"})
	require.NoError(t, err)
	check.AwaitTold(t, w, d.task)
	require.Equal(t, signals.TurnCompleted, w.Say("team", check.Asks("helper", "use note {}")).Status)
	require.NoError(t, w.Threads.Open(w.Ctx(), "new", signals.Start{Agents: []string{"assistant"}, Title: "The thread new"}, nil))
	require.Equal(t, signals.TurnCompleted, w.Say("new", "use note {}").Status)
	require.NoError(t, w.Threads.Close(w.Ctx(), "closed", "ann"))
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

// atRest waits until no thread has anything to do but wait for people.
func (d *drill) atRest(t *testing.T, w *harness.Harness) {
	for _, id := range d.threads(t, w) {
		require.Eventually(t, func() bool {
			row, err := w.Store.Thread(w.Ctx(), w.Key(id))
			if err != nil || row.Status == store.ThreadClosed {
				return err == nil
			}
			s, err := w.Threads.State(w.Ctx(), id)
			return err == nil && s.QueueLength == 0 && (s.Status == signals.ThreadIdle || s.Status == signals.ThreadWaitingApproval) && row.Activity != store.ActivityRunning
		}, harness.Patience, harness.Tick, id)
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
		rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/repair", strings.NewReader(`{"threadId":"team","apply":true}`))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/json")
		r.Handler().ServeHTTP(rec, req)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
		require.Contains(t, rec.Body.String(), `"state":"failed"`)
	}
}

// cutStore is unavailable for writing after some appends.
type cutStore struct {
	store.Store
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
	require.Contains(t, printed, "0 to mend, 0 failed")
}

// whole checks that no thread has lost or doubled anything.
func (d *drill) whole(t *testing.T, w *harness.Harness) {
	for id, transcript := range d.transcripts {
		assert.Equal(t, transcript, w.Transcript(id), id)
		check.RequireWhole(t, check.AllRecords(w, id))
	}
	assert.Equal(t, "made\n", check.Made(w, "decided"), "the tool ran once")
}

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
	waits := w.AwaitApproval("asks", 1)[0]
	check.Approve(t, w, "asks", waits.ToolCallID)
	require.Eventually(t, func() bool { return check.Made(w, "asks") == "made\n" }, harness.Patience, harness.Tick)
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

// kinds are the kinds of differences by thread, without the changing part of the ids of sub-agents' threads.
func kinds(told map[string][]repair.Difference) map[string]string {
	out := map[string]string{}
	for id, all := range told {
		var words []string
		for _, d := range all {
			words = append(words, string(d.Kind))
		}
		id, _, _ = strings.Cut(id, ".s")
		out[id] = strings.TrimSpace(out[id] + " " + strings.Join(words, " "))
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
			"idle": "records", "turn": "records", "decided": "records", "asks": "records", "task": "records", "team": "records records", "new": "records", "closed": "records",
		}},
		{"Temporal is older", newerStore, olderTemporal, map[string]string{
			"idle": "events", "decided": "answers", "asks": "turns", "task": "events tasks", "team": "events", "new": "workflow", "closed": "closed",
		}},
		{"Temporal is empty", newerStore, "", map[string]string{
			"idle": "workflow", "turn": "workflow", "decided": "workflow", "asks": "workflow", "task": "workflow", "team": "workflow", "new": "workflow",
		}},
		{"the store is empty", "", newerTemporal, map[string]string{
			"idle": "records", "turn": "records", "decided": "records", "asks": "records", "task": "records lost", "team": "records records", "new": "records", "closed": "records",
		}},
	} {
		v.put("store", c.store)
		v.put("temporal", c.temporal)
		v.put("files", files)
		v.live(c.name, func(t *testing.T, w *harness.Harness) {
			if c.temporal != "" && c.told["new"] == "records" {
				d.cutOff(t, w)
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
