package erasure

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// age makes threads, and the logs of their tool calls, older.
func age(t *testing.T, dir string, by time.Duration, threads ...string) {
	t.Helper()
	ages(t, filepath.Join(dir, "store", "threadmill.db"), by, threads...)
}

// ages makes the threads of a database older.
func ages(t *testing.T, file string, by time.Duration, threads ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, id := range threads {
		_, err = db.ExecContext(t.Context(), `UPDATE threads SET updated_at = updated_at - ? WHERE id = ?`, by.Microseconds(), id)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `UPDATE tool_logs SET finished_at = finished_at - ? WHERE thread_id = ?`, by.Microseconds(), id)
		require.NoError(t, err)
	}
}

// TestRetention: closed threads are erased, idle ones closed and logs of tool calls pruned by their age, while other threads run.
// The words of what was erased are in no file.
func TestRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := harness.New(t, harness.Options{Dir: dir, Agents: check.Team()})
	threads := map[string]string{}
	for _, name := range []string{"closed long ago", "closed just now", "idle for long", "idle since now", "waits for long", "logs", "busy"} {
		id := w.Open()
		threads[name] = id
		w.Say(id, `use note {"text":"`+word(id)+`"}`)
	}
	old := threads["closed long ago"]
	w.Say(old, `use call_agent {"agent":"helper","message":"tell `+word(old)+`"}`)
	sub := check.Sub(w, old, 1)
	w.Post(threads["waits for long"], check.Touches("file"))
	waits := w.AwaitApproval(threads["waits for long"], 1)[0]
	for _, name := range []string{"closed long ago", "closed just now"} {
		require.NoError(t, w.Threads.CloseThread(w.Ctx(), threads[name], "ann"))
	}
	age(t, dir, 100*time.Hour, old, sub, threads["idle for long"], threads["waits for long"])
	age(t, dir, 60*time.Hour, threads["logs"])
	require.Len(t, found(t, dir, word(old)), 1)

	keeps := w.Beside(func(c *threadmill.Config) {
		c.Retention = threadmill.Retention{ClosedThreads: 90 * time.Hour, IdleThreads: 80 * time.Hour, ToolLogs: 48 * time.Hour}
	})
	due := dryRun(t, keeps)
	assert.Equal(t, []string{old}, due.Erase, "those of sub-agents go with their parents")
	assert.Equal(t, []string{threads["idle for long"]}, due.Close, "one that waits stays open")
	assert.Positive(t, due.ToolLogs)
	assert.Nil(t, due.Last)
	assert.Len(t, found(t, dir, word(old)), 1, "a dry run changes nothing")

	ctx, cancel := context.WithCancel(w.Ctx())
	var load sync.WaitGroup
	turns := 0
	load.Go(func() {
		for ; ctx.Err() == nil; turns++ {
			if out, err := w.Threads.Turn(w.Ctx(), threads["busy"], signals.UserMessage(threads["busy"], "ann", fmt.Sprintf("more %d", turns))); err != nil || out.Status != signals.TurnCompleted {
				t.Errorf("a thread that runs: %v %v", out.Status, err)
				return
			}
		}
	})
	// Several processes have one job.
	for range 2 {
		running, stop := context.WithCancel(w.Ctx())
		ended := make(chan error, 1)
		go func() { ended <- keeps.Run(running) }()
		t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	}
	require.Eventually(t, func() bool { return dryRun(t, keeps).Last != nil }, testenv.Patience, testenv.Tick, "a pass")
	cancel()
	load.Wait()
	last := dryRun(t, keeps).Last
	assert.Equal(t, 1, last.Erased)
	assert.Equal(t, 1, last.Closed)
	assert.Zero(t, last.Failed)
	assert.Positive(t, last.ToolLogs)
	assert.Positive(t, last.Contents.Records)
	assert.Positive(t, turns)

	requireGone(t, w, old)
	requireGone(t, w, sub)
	receipt, err := w.Runtime.Erasure(w.Ctx(), old)
	require.NoError(t, err)
	assert.Equal(t, "retention", receipt.By)
	require.Eventually(t, func() bool {
		require.NoError(t, w.Store.Scrub(w.Ctx()))
		return len(found(t, dir, word(old))) == 0
	}, testenv.Patience, testenv.Tick, "words of the erased thread are found")
	require.Eventually(t, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(threads["idle for long"]))
		return err == nil && row.Status == store.ThreadClosed
	}, testenv.Patience, testenv.Tick)
	logs, err := w.Store.ToolLogs(w.Ctx(), w.Key(threads["logs"]))
	require.NoError(t, err)
	assert.Empty(t, logs)
	assert.Contains(t, w.Transcript(threads["logs"]), word(threads["logs"]), "its messages stay")
	assert.Equal(t, signals.TurnCompleted, w.Say(threads["logs"], "still there?").Status)
	check.Approve(t, w, threads["waits for long"], waits.ToolCallID)
	row, err := w.Store.Thread(w.Ctx(), w.Key(threads["closed just now"]))
	require.NoError(t, err)
	assert.Equal(t, store.ThreadClosed, row.Status)

	printed, code, problem := w.Starter("retention")
	require.Equal(t, 0, code, problem)
	assert.Contains(t, printed, "Everything is kept for ever", "this process is not configured to delete anything")
}

func dryRun(t *testing.T, r *threadmill.Runtime) (out retention.Due) {
	t.Helper()
	w := serve(t, r, "GET", "/v1/retention", "")
	require.Equal(t, 200, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out
}

// TestRetentionIsValidated: limits that would delete what is still needed are refused.
func TestRetentionIsValidated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	for want, r := range map[string]threadmill.Retention{
		"Config.Retention.ClosedThreads is 1m0s, must be at least 1h0m0s": {ClosedThreads: time.Minute},
		"Config.Retention.IdleThreads is -1h0m0s, must be":                {IdleThreads: -time.Hour},
		"Config.Retention.ToolLogs is 24h0m0s, must be at least 48h":      {ToolLogs: 24 * time.Hour},
		"Config.Retention.Every is 1s, must be at least 1m0s":             {Every: time.Second},
	} {
		err := w.Refused(func(c *threadmill.Config) { c.Retention = r })
		require.ErrorContains(t, err, want)
		require.True(t, strings.HasPrefix(err.Error(), "threadmill: "))
	}
}

func serve(t *testing.T, r *threadmill.Runtime, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w, req := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "localhost"
	harness.API(t, r).ServeHTTP(w, req)
	return w
}
