package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// say posts a message of a person, and waits for the end of its turn.
func say(w *harness.Harness, thread, who, text string) signals.TurnResult {
	w.T.Helper()
	out, err := w.Threads.Turn(w.Ctx(), thread, signals.UserMessage(thread, who, text))
	require.NoError(w.T, err)
	return out
}

// around returns the words that are in the files of a folder, each with what is around it.
func around(t *testing.T, folder string, words ...string) (texts []string) {
	t.Helper()
	contents := check.Contents(t, folder)
	for _, word := range words {
		if at := strings.Index(contents, word); at >= 0 {
			texts = append(texts, fmt.Sprintf("%q", contents[max(at-200, 0):min(at+200, len(contents))]))
		}
	}
	return texts
}

// TestErasedPerson erases a person who wrote alone in one thread, with others in a second one, and nothing in a third. In the second
// thread, sub-agents have worked for the person, and a call, a queued message and a background task wait. Nothing of the person is
// found in the files of both databases, and the others go on.
func TestErasedPerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := harness.New(t, harness.Options{Dir: dir, Agents: check.Team()})
	w.Rewritten = true
	const person, term = "annabelle", "Belle Zuckerkorn"
	alone, shared, others := w.Open(), w.Open(), w.Open()

	say(w, alone, person, "I am alone with zephyralone")
	say(w, shared, "bob", "bob begins with zephyrbob")
	say(w, shared, person, `use note {"text":"zephyrnote"}`)
	say(w, shared, person, `use call_agent {"agent":"HELPER","message":"tell zephyrsub","title":"About zephyrtitle"}`)
	sub := check.Sub(w, shared, 1)
	say(w, shared, "bob", "did belle  zuckerkorn, or belle, come?")
	say(w, others, "carol", "carol says zephyrcarol")
	_, err := w.Threads.Update(w.Ctx(), shared, signals.ThreadChange{Title: "The case of " + term, Metadata: json.RawMessage(`{"customer":"` + term + `","n":1}`)})
	require.NoError(t, err)
	for id, message := range map[string]map[string]any{
		"daily": {"content": "zephyrschedule", "sender": person}, "weekly": {"content": "What is on this week?"},
	} {
		status, body := check.Request(t, w, http.MethodPost, "/v1/schedules?by="+person, map[string]any{
			"id": id, "threadId": shared, "cron": []string{"@yearly"}, "message": message,
		})
		require.Equal(t, http.StatusCreated, status, body)
	}
	status, body := check.Request(t, w, http.MethodPost, "/v1/schedules/daily/trigger", nil)
	require.Less(t, status, http.StatusMultipleChoices, body)
	require.Eventually(t, func() bool { return strings.Contains(w.Transcript(shared), "zephyrschedule") }, testenv.Patience, testenv.Tick, "its run has posted")
	waiting := signals.UserMessage(shared, person, `use shell_cmd {"command":"echo zephyrwaiting"}`)
	_, err = w.Threads.Post(w.Ctx(), shared, waiting)
	require.NoError(t, err)
	w.AwaitApproval(shared, 1)

	gone := []string{person, "Zuckerkorn", "zuckerkorn", "zephyralone", "zephyrnote", "zephyrsub", "zephyrtitle", "zephyrwaiting", "zephyrschedule"}
	kept := []string{"zephyrbob", "zephyrcarol"}
	require.ElementsMatch(t, append(gone, kept...), found(t, dir, append(gone, kept...)...))

	receipt, err := w.Runtime.ErasePerson(w.Ctx(), person, []string{term}, "carol")
	require.NoError(t, err)
	require.Equal(t, []string{alone}, receipt.Erased)
	require.Equal(t, []string{shared}, receipt.Forgot)
	require.Equal(t, "carol", receipt.By)
	require.NotZero(t, receipt.Counts.Records)
	require.NotZero(t, receipt.Counts.ToolLogs)
	require.NotZero(t, receipt.Counts.Runs)
	require.Equal(t, 1, receipt.Counts.Schedules)
	requireGone(t, w, alone)
	var left []string
	require.Eventually(t, func() bool {
		require.NoError(t, w.Store.Scrub(w.Ctx()))
		left = around(t, dir, gone...)
		return len(left) == 0
	}, testenv.Patience, testenv.Tick, "words of the person are found: %v", &left)
	require.ElementsMatch(t, kept, found(t, dir, kept...))

	said := w.Transcript(shared)
	require.Contains(t, said, "bob begins with zephyrbob")
	require.Contains(t, said, "did [erased], or belle, come?")
	require.Contains(t, said, "user "+receipt.Pseudonym+": [erased]")
	require.Contains(t, w.Transcript(sub), "[erased]")
	status, body = check.Request(t, w, http.MethodGet, "/v1/schedules/daily/versions", nil)
	require.Equal(t, http.StatusNotFound, status, body)
	_, body = check.Request(t, w, http.MethodGet, "/v1/schedules/weekly/versions", nil)
	require.Equal(t, receipt.Pseudonym, body["versions"].([]any)[0].(map[string]any)["by"])
	row, err := w.Store.Thread(w.Ctx(), w.Key(shared))
	require.NoError(t, err)
	require.Equal(t, "The case of [erased]", row.Title)
	require.JSONEq(t, `{"customer":"[erased]","n":1}`, string(row.Metadata))
	w.AwaitApproval(shared, 0)
	asked := len(w.Provider.Requests())
	require.Equal(t, signals.TurnCompleted, say(w, shared, "bob", "still there?").Status)
	for _, r := range w.Provider.Requests()[asked:] {
		for _, word := range gone {
			require.NotContains(t, string(r.Body), word, "a worker keeps messages in memory")
		}
	}
	require.Equal(t, signals.TurnCompleted, say(w, others, "carol", "still there?").Status)

	got, err := erasures.LoadPerson(w.Ctx(), w.Store, w.TaskQueue, receipt.ID)
	require.NoError(t, err)
	require.Equal(t, receipt, got)
	_, err = erasures.Person(w.Ctx(), w.Store, w.TaskQueue, receipt.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "the request named the person")
}

// TestErasedPersonDoors: the HTTP API and the command line erase a person, and say what is wrong with a request.
func TestErasedPersonDoors(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	w.Rewritten = true
	id := w.Open()
	say(w, id, "annabelle", "hello")
	say(w, id, "bob", "hello")
	for want, body := range map[string]map[string]any{
		"body.person":   {"person": " x"},
		"body.terms[1]": {"person": "annabelle", "terms": []string{"long enough", "ab"}},
		"body.terms":    {"person": "annabelle", "terms": []string{"erased"}},
	} {
		status, out := check.Request(t, w, http.MethodPost, "/v1/person-erasures", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, out)
		raw, err := json.Marshal(out)
		require.NoError(t, err)
		require.Contains(t, string(raw), want)
	}
	_, code, problem := w.Starter("erase-person", "annabelle")
	require.NotZero(t, code)
	require.Contains(t, problem, "--yes")
	printed, code, problem := w.Starter("erase-person", "annabelle", "--term", "Belle Z", "--yes", "--by", "carol", "--json")
	require.Zero(t, code, problem)
	var receipt signals.PersonErasure
	require.NoError(t, json.Unmarshal([]byte(printed), &receipt))
	require.Equal(t, []string{id}, receipt.Forgot)
	status, out := check.Request(t, w, http.MethodGet, "/v1/person-erasures/"+receipt.ID, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "carol", out["by"])
	printed, code, problem = w.Starter("erasures", "--people")
	require.Zero(t, code, problem)
	require.Contains(t, printed, receipt.Pseudonym)
	require.NotContains(t, strings.ToLower(w.Transcript(id)), "annabelle")
	status, _ = check.Request(t, w, http.MethodGet, "/v1/person-erasures/none", nil)
	require.Equal(t, http.StatusNotFound, status)
}

// TestErasedPersonBeside: what others wait for stays. Another person's call waits for approval before and after, and then runs; a message
// that the person has queued behind it is gone. So is a title that only Temporal has, since a worker was killed before the store and Temporal
// agreed: the thread does not go on to continue as new with it.
func TestErasedPersonBeside(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	w.Rewritten = true
	id := w.Open()
	say(w, id, "annabelle", "zephyrfirst")
	_, err := w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "bob", `use shell_cmd {"command":"echo bobs"}`))
	require.NoError(t, err)
	before := w.AwaitApproval(id, 1)
	behind := signals.UserMessage(id, "annabelle", "zephyrqueued")
	behind.OnWaiting = event.OnWaitingHold
	_, err = w.Threads.Post(w.Ctx(), id, behind)
	require.NoError(t, err)
	_, err = w.Threads.Update(w.Ctx(), id, signals.ThreadChange{Title: "The case of Belle Zuckerkorn"})
	require.NoError(t, err)
	stored := func() string {
		row, err := w.Store.Thread(w.Ctx(), w.Key(id))
		require.NoError(t, err)
		return row.Title
	}
	require.Eventually(t, func() bool { return stored() != "" }, testenv.Patience, testenv.Tick)
	torn := "The case of [erased]"
	_, err = w.Store.Append(w.Ctx(), w.Key(id), store.Batch{Thread: &store.ThreadUpdate{Title: &torn}})
	require.NoError(t, err)
	run := check.CurrentRun(w, id)

	receipt, err := w.Runtime.ErasePerson(w.Ctx(), "annabelle", []string{"Belle Zuckerkorn"}, "carol")
	require.NoError(t, err)
	require.Equal(t, []string{id}, receipt.Forgot)
	require.NotEqual(t, run, check.CurrentRun(w, id), "it has continued as new")
	d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "")
	require.NoError(t, err)
	require.Equal(t, `"`+torn+`"`, string(d.GetWorkflowExecutionInfo().GetMemo().GetFields()[signals.MemoTitle].GetData()))
	require.Equal(t, torn, stored())
	after := w.AwaitApproval(id, 1)
	require.Equal(t, before[0].ToolCallID, after[0].ToolCallID)
	require.Equal(t, before[0].Digest, after[0].Digest)
	out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: after[0].ToolCallID, Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "bob"})
	require.NoError(t, err)
	require.Equal(t, signals.DecideAccepted, out.Result)
	require.Eventually(t, func() bool { return strings.Contains(w.Transcript(id), "shell_cmd returned: ") }, testenv.Patience, testenv.Tick, "%s", w.Transcript(id))
	require.NotContains(t, w.Transcript(id), "zephyr")
	queue, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Empty(t, queue.Items)
	raw, err := json.Marshal(queue)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "zephyr")
	require.NotContains(t, string(raw), "annabelle")
}

// TestErasedPersonTask: the erasure waits for a background task of the person, and replaces what comes of it.
func TestErasedPersonTask(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	w.Rewritten = true
	id := w.Open()
	say(w, id, "bob", "hello")
	say(w, id, "annabelle", `use task {"tool":"wait","title":"zephyrtask"}`)
	check.Arrives(t, g.Reached, "the task")
	later := w.Open() // after the thread that waits
	for later < id {
		later = w.Open()
	}
	say(w, later, "annabelle", "zephyrlater")
	erasure, err := erasures.BeginPerson(w.Ctx(), w.Store, w.TaskQueue, erasures.PersonRequest{Person: "annabelle"}, "carol")
	require.NoError(t, err)
	require.NoError(t, w.Threads.StartErasePerson(w.Ctx(), erasure.ID, "carol"))
	require.Eventually(t, func() bool {
		printed, code, problem := w.Starter("erasures", "--people")
		require.Zero(t, code, problem)
		return strings.Contains(printed, "in progress") && strings.Contains(printed, "thread "+id+" since ") && strings.Contains(printed, "is running, and has something of the person")
	}, 2*testenv.Patience, testenv.Tick, "the erasure says what it waits for")
	require.Eventually(t, func() bool {
		_, err := erasures.Load(w.Ctx(), w.Store, w.TaskQueue, later)
		return err == nil
	}, 2*testenv.Patience, testenv.Tick, "the other threads do not wait")
	g.Release()
	receipt, err := w.Threads.ErasePerson(w.Ctx(), erasure.ID, "")
	require.NoError(t, err)
	require.Equal(t, []string{id}, receipt.Forgot)
	require.Equal(t, []string{later}, receipt.Erased)
	require.NotZero(t, receipt.Counts.Records)
	require.Empty(t, receipt.Waiting)
	require.True(t, receipt.RequestedAt.Before(receipt.FinishedAt))
	for _, r := range w.Records(id) {
		require.NotContains(t, string(r.Payload), "zephyr", r.Type)
		require.NotContains(t, string(r.Payload), "annabelle", r.Type)
	}
}

// TestExportedPerson: an export has what came of the person's messages, that of sub-agents included, and what has a term, and nothing else.
func TestExportedPerson(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	shared, others := w.Open(), w.Open()
	say(w, shared, "bob", "zephyrbob")
	say(w, shared, "annabelle", `use call_agent {"agent":"HELPER","message":"use note {\"text\":\"zephyrsub\"}","title":"About"}`)
	check.Sub(w, shared, 1)
	say(w, shared, "bob", "where is Belle Z. now?")
	say(w, others, "carol", "zephyrcarol")
	file := t.TempDir() + "/out.jsonl"
	_, code, problem := w.Starter("export-person", "annabelle", "--term", "Belle Z.", "--file", file)
	require.Zero(t, code, problem)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(raw)
	for word, want := range map[string]bool{"annabelle": true, "zephyrsub": true, "where is Belle Z.": true, "zephyrbob": false, "zephyrcarol": false, `"kind":"toolLog"`: true} {
		require.Equal(t, want, strings.Contains(text, word), word)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Contains(t, lines[len(lines)-1], `"kind":"end"`)
	require.Contains(t, lines[len(lines)-1], `"threads":2`)
}

// failingStore fails once after it has replaced records.
type failingStore struct {
	teststore.Store
	replaced, failed atomic.Bool
}

func (s *failingStore) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	s.replaced.Store(true)
	return s.Store.ReplaceRecords(ctx, key, records...)
}

func (s *failingStore) SubThreads(ctx context.Context, key store.Key) ([]string, error) {
	if s.replaced.Load() && s.failed.CompareAndSwap(false, true) {
		return nil, errors.New("no connection")
	}
	return s.Store.SubThreads(ctx, key)
}

// TestErasedPersonCounts: what an attempt has found before it failed is in the receipt.
func TestErasedPersonCounts(t *testing.T) {
	t.Parallel()
	failing := &failingStore{}
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		failing.Store, c.Store = teststore.Of(c.Store), failing
	}})
	w.Rewritten = true
	id := w.Open()
	say(w, id, "ann", `use note {"text":"of ann"}`)
	say(w, id, "bob", "bob was here")
	receipt, err := w.Runtime.ErasePerson(w.Ctx(), "ann", nil, "carol")
	require.NoError(t, err)
	require.True(t, failing.failed.Load())
	require.NotZero(t, receipt.Counts.Records)
	require.Equal(t, 1, receipt.Counts.ToolLogs)
}
