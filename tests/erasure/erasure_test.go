// Package erasure tests that nothing is found of erased threads, that nothing else is missing, and that nothing is kept of
// text that is redacted.
package erasure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures/export"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// word returns a word that only one thread contains.
func word(thread string) string { return "zephyr" + strings.ToLower(thread) + "quartz" }

// found reports which words are in the files of a folder.
func found(t *testing.T, folder string, words ...string) (in []string) {
	t.Helper()
	contents := check.Contents(t, folder)
	for _, w := range words {
		if strings.Contains(contents, w) {
			in = append(in, w)
		}
	}
	return in
}

func requireGone(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	_, err := w.Store.Thread(w.Ctx(), w.Key(thread))
	require.ErrorIs(t, err, store.ErrErased)
	contents, err := w.Store.ThreadContents(w.Ctx(), w.Key(thread))
	require.NoError(t, err)
	require.Zero(t, contents)
	_, err = w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "")
	require.ErrorContains(t, err, "not found")
}

// TestErasedFiles erases threads that talk, run tools, ask sub-agents and wait for approval, while others run. Their words are
// in the files of both databases before, and in none after.
func TestErasedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := harness.New(t, harness.Options{Dir: dir, Agents: check.Team()})
	var gone, kept, goneWords, keptWords []string
	subs := map[string]string{}
	for i := range 6 {
		id := w.Open()
		w.Say(id, `use note {"text":"`+word(id)+`"}`)
		w.Say(id, `use call_agent {"agent":"HELPER","message":"tell `+word(id)+`","title":"About `+word(id)+`"}`)
		subs[id] = check.Sub(w, id, 1)
		if i%2 == 0 {
			gone, goneWords = append(gone, id), append(goneWords, word(id))
		} else {
			kept, keptWords = append(kept, id), append(keptWords, word(id))
		}
	}
	require.ElementsMatch(t, append(goneWords, keptWords...), found(t, dir, append(goneWords, keptWords...)...))

	// The others go on meanwhile.
	ctx, cancel := context.WithCancel(w.Ctx())
	var load sync.WaitGroup
	for _, id := range kept {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := w.Threads.Turn(w.Ctx(), id, signals.UserMessage(id, "ann", fmt.Sprintf("more %d", n)))
				if err != nil {
					t.Errorf("a thread that stays: %v", err)
					return
				}
			}
		})
	}
	var erasing sync.WaitGroup
	for _, id := range gone {
		erasing.Go(func() {
			receipt, err := w.Runtime.Erase(w.Ctx(), id, "ann")
			if err != nil {
				t.Errorf("erasing: %v", err)
				return
			}
			if receipt.Left != (signals.ErasedCounts{}) || receipt.Erased.Records == 0 || receipt.Erased.ToolLogs == 0 || receipt.Erased.Runs < 2 {
				t.Errorf("the receipt %+v", receipt)
			}
		})
	}
	erasing.Wait()
	cancel()
	load.Wait()
	for _, id := range gone {
		requireGone(t, w, id)
		requireGone(t, w, subs[id])
		receipt, err := w.Runtime.Erasure(w.Ctx(), id)
		require.NoError(t, err)
		require.Equal(t, []string{id, subs[id]}, receipt.Threads)
		require.Equal(t, "ann", receipt.By)
		require.NotEmpty(t, receipt.Remains)
	}
	// Temporal's write-ahead log is emptied now and then.
	require.Eventually(t, func() bool {
		require.NoError(t, w.Store.Scrub(w.Ctx()))
		return len(found(t, dir, goneWords...)) == 0
	}, testenv.Patience, testenv.Tick, "words of erased threads are found")
	require.ElementsMatch(t, keptWords, found(t, dir, keptWords...))
	for _, id := range kept {
		require.Contains(t, w.Transcript(id), word(id))
		require.Equal(t, signals.TurnCompleted, w.Say(id, "still there?").Status)
	}
}

// TestErasedWhileRunning: a step that runs while its thread is erased writes nothing later.
func TestErasedWhileRunning(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{g}})
	id := w.Open()
	w.Post(id, "use wait {}")
	check.Arrives(t, g.Reached, "the tool")
	status, body := check.Request(t, w, http.MethodPost, "/v1/schedules", map[string]any{
		"id": "daily", "threadId": id, "cron": []string{"@yearly"}, "message": map[string]any{"content": "x"},
	})
	require.Equal(t, http.StatusCreated, status, body)
	require.NoError(t, w.Threads.TriggerSchedule(w.Ctx(), "daily"))
	scheduled := func() int {
		query := "WorkflowId STARTS_WITH '" + job.DeliverWorkflowID(w.TaskQueue, "daily") + "'"
		found, err := w.Temporal.ListWorkflow(w.Ctx(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		return len(found.GetExecutions())
	}
	require.Eventually(t, func() bool { return scheduled() == 1 }, testenv.Patience, testenv.Tick)
	receipt, err := w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)
	require.NotZero(t, receipt.Erased.Records)
	require.Equal(t, 1, receipt.Erased.Schedules)
	require.Equal(t, 2, receipt.Erased.Runs, "the thread's, and that of the schedule")
	require.Zero(t, scheduled())
	_, err = w.Threads.Schedule(w.Ctx(), "daily")
	require.ErrorIs(t, err, signals.ErrScheduleNotFound)
	status, body = check.Request(t, w, http.MethodGet, "/v1/schedules/daily/versions", nil)
	require.Equal(t, http.StatusNotFound, status, "its versions are gone too: %v", body)
	requireGone(t, w, id)
	_, err = w.Store.Append(w.Ctx(), w.Key(id), store.Batch{Records: []event.Record{event.NewRecord("late", event.TypeMessage, "", "", receipt.FinishedAt, "x")}})
	require.ErrorIs(t, err, store.ErrErased)
	requireGone(t, w, id)
}

// TestErasedForeignParent: a thread whose client names another thread as its parent is not erased with that one.
func TestErasedForeignParent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	metadata, err := json.Marshal(map[string]string{signals.MetadataParent: id, signals.MetadataParentCall: "c"})
	require.NoError(t, err)
	other := id + "-other"
	require.NoError(t, w.Threads.Open(w.Ctx(), other, signals.Start{Metadata: metadata}, nil))
	w.Say(other, "of somebody else")
	var written bytes.Buffer
	require.NoError(t, export.Thread(w.Ctx(), w.Store, w.Key(id), &written))
	require.NotContains(t, written.String(), "of somebody else")
	receipt, err := w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)
	require.Equal(t, []string{id}, receipt.Threads)
	require.Contains(t, w.Transcript(other), "of somebody else")
	row, err := w.Store.Thread(w.Ctx(), w.Key(other))
	require.NoError(t, err)
	require.Empty(t, row.Parent)
	require.True(t, retention.Old(row, row.UpdatedAt.Add(1)), "retention does not spare it either")
}

// TestErasedStartedAgain: a client that knows nothing of the erasure starts the thread again. It is erased again.
func TestErasedStartedAgain(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	_, err := w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)
	_, err = w.Temporal.SignalWithStartWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), signals.SignalPost, signals.UserMessage(id, "ann", "again"),
		client.StartWorkflowOptions{TaskQueue: w.TaskQueue}, signals.ThreadWorkflow, signals.Start{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		receipt, err := w.Runtime.Erasure(w.Ctx(), id)
		return err == nil && receipt.Late == 1 && receipt.By == "ann"
	}, testenv.Patience, testenv.Tick)
	requireGone(t, w, id)
}

// TestErasedDoors: what is posted to an erased thread gets a clear answer at each door.
func TestErasedDoors(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	_, err := w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)

	again, err := w.Runtime.Erase(w.Ctx(), id, "bob")
	require.NoError(t, err, "it can be repeated")
	require.Equal(t, "ann", again.By)
	_, err = w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "x"))
	require.ErrorIs(t, err, signals.ErrThreadErased)
	_, err = w.Threads.PostOrOpen(w.Ctx(), id, signals.Start{}, signals.UserMessage(id, "ann", "x"))
	require.ErrorIs(t, err, signals.ErrThreadErased)
	require.ErrorIs(t, w.Threads.Open(w.Ctx(), id, signals.Start{}, nil), signals.ErrThreadErased)
	_, err = w.Threads.CreateSchedule(w.Ctx(), signals.Schedule{ID: "daily", ThreadID: id, Cron: []string{"@daily"}, Open: true, Message: &event.NewMessage{Content: "x"}})
	require.ErrorIs(t, err, signals.ErrThreadErased)
	for _, path := range []string{"", "/messages", "/events", "/records", "/queue", "/approvals"} {
		status, body := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+path, nil)
		require.Equal(t, http.StatusGone, status, "%s: %v", path, body)
	}
	for path, body := range map[string]map[string]any{
		"/messages": {"content": "x"}, "/events": {"type": "tick", "payload": map[string]any{}},
	} {
		status, out := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+path, body)
		require.Equal(t, http.StatusGone, status, "%s: %v", path, out)
	}
	for path, in := range map[string]any{
		"/v1/sessions/" + id + "/prompt": map[string]any{"content": "x", "userId": "ann"},
		"/v1/schedules":                  map[string]any{"threadId": id, "every": "1h", "message": map[string]any{"content": "x"}},
		"/v1/chat": map[string]any{"id": id, "trigger": "submit-message", "messages": []any{
			map[string]any{"id": "m", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "x"}}},
		}},
	} {
		raw, err := json.Marshal(in)
		require.NoError(t, err)
		res, err := http.Post(w.API.URL+path, "application/json", bytes.NewReader(raw)) //nolint:noctx // the test's server answers
		require.NoError(t, err)
		said, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		require.Equal(t, http.StatusGone, res.StatusCode, "%s: %s", path, said)
	}
	routed := map[string]any{"type": "tick", "payload": map[string]any{}, "metadata": map[string]any{"trigger_session_id": id}}
	status, body := check.Request(t, w, http.MethodPost, "/v1/events", routed)
	require.Less(t, status, 300, body)
	require.Equal(t, "ignored", body["status"])
	require.Contains(t, body["warning"], "was erased")
	require.Eventually(t, func() bool {
		status, body = check.Request(t, w, http.MethodPost, "/v1/erasures", map[string]any{"threadId": id})
		return status == http.StatusOK // 202 if it takes long: the same request waits for it
	}, testenv.Patience, testenv.Tick)
	require.Equal(t, []any{id}, body["threads"])
	status, body = check.Request(t, w, http.MethodGet, "/v1/erasures/"+id, nil)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "ann", body["by"])
	status, _ = check.Request(t, w, http.MethodGet, "/v1/erasures/none", nil)
	require.Equal(t, http.StatusNotFound, status)
	printed, code, problem := w.Starter("erase", id, "--yes", "--by", "carol")
	require.Zero(t, code, problem)
	require.Contains(t, printed, "Erased "+id+", asked for by ann")
	_, code, problem = w.Starter("erase", id)
	require.Equal(t, 2, code)
	require.Contains(t, problem, "--yes")
	printed, code, problem = w.Starter("erasures")
	require.Zero(t, code, problem)
	require.Contains(t, printed, id)
	_, code, problem = w.Starter("send", id, "again")
	require.NotZero(t, code)
	require.Contains(t, problem, "was erased")
	status, _ = check.Request(t, w, http.MethodPost, "/v1/threads", map[string]any{"id": id})
	require.Equal(t, http.StatusGone, status)
	status, out := check.Request(t, w, http.MethodGet, "/v1/threads", nil)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, out["threads"])
}

// TestErasedViewers: a viewer of a thread that is erased is told so, and its stream ends.
func TestErasedViewers(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	req, err := http.NewRequestWithContext(w.Ctx(), http.MethodGet, w.API.URL+"/v1/threads/"+id+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, err = w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)
	sent, err := io.ReadAll(res.Body)
	require.NoError(t, err, "the stream ends")
	require.Contains(t, string(sent), "the thread was erased")
}

// TestExport exports a thread with that of its sub-agent, by the API and by the starter.
func TestExport(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id, other := w.Open(), w.Open()
	w.Say(other, "of another thread")
	w.Say(id, `use note {"text":"written"}`)
	w.Say(id, `use call_agent {"agent":"HELPER","message":"tell me","title":"Tells"}`)
	sub := check.Sub(w, id, 1)
	check.Settle(w, id)
	printed, code, problem := w.Starter("export", id)
	require.Zero(t, code, problem)
	kinds, last := map[string]int{}, export.Line{}
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		last = export.Line{}
		require.NoError(t, json.Unmarshal([]byte(line), &last), line)
		kinds[last.Kind]++
	}
	require.NotNil(t, last.End)
	require.Equal(t, export.End{Threads: 2, Records: kinds[export.KindRecord], ToolLogs: kinds[export.KindToolLog]}, *last.End)
	require.Equal(t, len(w.Records(id))+len(w.Records(sub)), kinds[export.KindRecord])
	require.GreaterOrEqual(t, kinds[export.KindToolLog], 1)
	require.NotContains(t, printed, "of another thread")
	file := filepath.Join(t.TempDir(), "thread.jsonl")
	_, code, problem = w.Starter("export", id, "--file", file)
	require.Zero(t, code, problem)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, printed, string(written))
	_, code, _ = w.Starter("export", "none")
	require.NotZero(t, code)
}
