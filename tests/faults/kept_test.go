package faults

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/webhook"
)

// submission is one way to post over HTTP.
type submission struct {
	path string // of the thread %s
	body func(thread, id, text string) any

	// unnamed posts have an id of the server's.
	unnamed bool
}

// submissions are all ways to post over HTTP that do not wait for the turn.
var submissions = map[string]submission{
	"message": {path: "/v1/threads/%s/messages", body: func(_, id, text string) any { return map[string]any{"id": id, "content": text} }},
	"prompt":  {path: "/v1/sessions/%s/prompt", unnamed: true, body: func(_, _, text string) any { return map[string]any{"content": text} }},
	"event": {path: "/v1/threads/%s/events", body: func(_, id, text string) any {
		return map[string]any{"id": id, "type": "tick", "payload": text}
	}},
	"event that opens": {path: "/v1/threads/%s/events?open=true", body: func(_, id, text string) any {
		return map[string]any{"id": id, "type": "tick", "payload": text}
	}},
	"webhook": {path: "/v1/webhooks/ticks?thread=%s", body: func(thread, id, text string) any {
		return map[string]any{"thread": thread, "id": id, "text": text}
	}},
	"queue": {path: "/v1/threads/%s/queue", body: func(_, id, text string) any {
		return map[string]any{"id": id, "type": "message", "payload": map[string]any{"senderId": "ann", "senderType": "user", "content": text}}
	}},
	"world": {path: "/v1/threads/%s/world/messages", body: func(_, id, text string) any {
		return map[string]any{"messageId": id, "content": text}
	}},
}

// request returns the request of a submission, signed like a webhook's.
func (s submission) request(ctx context.Context, api, thread, id, text string) (*http.Request, error) {
	body, err := json.Marshal(s.body(thread, id, text))
	if err != nil {
		return nil, err
	}
	path := s.path
	if strings.Contains(path, "%s") {
		path, _, _ = strings.Cut(fmt.Sprintf(path, thread), "?thread=")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, api+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	mac := hmac.New(sha256.New, []byte("k"))
	mac.Write(body)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return req, nil
}

// submit posts, and returns the response.
func submit(t *testing.T, w *harness.Harness, thread string, s submission, id, text string) (*http.Response, string) {
	t.Helper()
	req, err := s.request(w.Ctx(), w.API.URL, thread, id, text)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text2, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text2)
}

// insist repeats a post as long as it is rejected with Retry-After.
func insist(t *testing.T, w *harness.Harness, thread string, s submission, id, text string) (res *http.Response, body string) {
	t.Helper()
	for later := true; later && w.Ctx().Err() == nil; {
		res, body = submit(t, w, thread, s, id, text)
		later = res.Header.Get("Retry-After") != ""
	}
	return res, body
}

func kept(t *testing.T, o harness.Options) *harness.Harness {
	o.Configure = func(c *threadmill.Config) {
		c.Rules = []rule.Rule{{Name: "log", Events: []string{"tick"}, Priority: 20}}
	}
	o.Serve = func(_ threadmill.Config, c *httpapi.Config) {
		c.Webhooks = []webhook.Endpoint{{
			Name: "ticks", Signature: webhook.Signature{Scheme: webhook.SchemeGitHub}, Secrets: []webhook.Secret{"k"},
			Event: webhook.Event{Type: "tick", Thread: "{payload.thread}", ID: "{payload.id}", Open: true},
		}}
	}
	return harness.New(t, o)
}

// keptTexts counts the texts that a thread has stored as messages and events, and those in failed
// events.
func keptTexts(w *harness.Harness, thread string) map[string]int {
	w.T.Helper()
	out := map[string]int{}
	unqueued := map[string]string{}
	done := map[string]bool{}
	for _, r := range check.AllRecords(w, thread) {
		switch r.Type {
		case event.TypeMessage:
			m := harness.Payload[event.Message](w, r)
			if m.SenderType == event.CreatedByUser {
				out[m.Content]++
			}
			done[r.ID] = true
		case event.TypeEnv:
			if e := harness.Payload[event.EnvEvent](w, r); e.Type == "tick" { // a prompt is a message, too
				out[textOf(e.Payload)]++
			}
			done[r.ID] = true
		case event.TypeUnqueued:
			it := harness.Payload[event.Unqueued](w, r).Event
			unqueued[it.ID] = textOf(it.Payload)
		case event.TypeRejected:
			w.T.Errorf("%s: %s", r.Type, r.Payload)
		}
	}
	for id, text := range unqueued {
		if !done[id] {
			out[text]++
		}
	}
	return out
}

// TestFullQueueMakesClientsWait: posts that a thread with a full queue accepts are processed, and
// others are rejected with the reason and Retry-After.
func TestFullQueueMakesClientsWait(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{})
	for name, s := range submissions {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			gate := w.Provider.Block(0)
			defer gate.Release()
			w.Post(id, "hello")
			check.Arrives(t, gate.Reached(), "a slow turn")
			var taken, refused []string
			for i := 0; len(refused) == 0; i++ {
				require.Less(t, i, 20, "the queue is never full")
				text := fmt.Sprintf("%d %s", i, strings.Repeat("x", 200<<10))
				res, body := submit(t, w, id, s, fmt.Sprintf("e%d", i), text)
				if res.StatusCode < 300 {
					taken = append(taken, text)
					continue
				}
				require.Equal(t, http.StatusTooManyRequests, res.StatusCode, body)
				require.NotEmpty(t, res.Header.Get("Retry-After"))
				require.Contains(t, body, "is full")
				refused = append(refused, text)
			}
			// Of a slow machine, Temporal keeps posts that its thread has not answered, which are more than the queue has room for.
			require.GreaterOrEqual(t, len(taken), 3, "as many as the queue has room for")
			gate.Release()
			require.Eventually(t, func() bool {
				res, _ := submit(t, w, id, s, "again", refused[0])
				return res.StatusCode < 300
			}, testenv.Patience, testenv.Tick, "posted again it is accepted")
			check.Settle(w, id)
			got := keptTexts(w, id)
			for _, text := range append(taken, refused...) {
				require.Equal(t, 1, got[text])
			}
		})
	}
}

// TestSignalsAreKept: signals that do not fit into the queue become failed events, which HTTP
// returns with their content and can retry.
func TestSignalsAreKept(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{})
	for name, burst := range map[string]struct{ count, size int }{"large": {12, 200 << 10}, "small": {300, 6 << 10}} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			gate := w.Provider.Block(0)
			defer gate.Release()
			w.Post(id, "hello")
			check.Arrives(t, gate.Reached(), "a slow turn")
			text := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", burst.size)) }
			for i := range burst.count {
				tick := event.EnvEvent{ID: fmt.Sprintf("e%d", i), Type: "tick", Payload: json.RawMessage(`"` + text(i) + `"`)}
				_, err := w.Threads.PostSignal(w.Ctx(), id, signals.EnvPost(tick))
				require.NoError(t, err)
			}
			var failed []any
			require.Eventually(t, func() bool {
				status, out := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/queue", nil)
				failed, _ = out["failed"].([]any)
				return status == http.StatusOK && len(failed) > 0
			}, testenv.Patience, testenv.Tick, "the thread, which is still busy, has seen more than fits")
			gate.Release()
			check.Settle(w, id)
			got := keptTexts(w, id)
			for i := range burst.count {
				require.Equal(t, 1, got[text(i)], "event %d", i)
			}
			item := failed[0].(map[string]any)["id"].(string)
			_, out := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/queue/"+item, nil)
			require.Greater(t, len(out["payload"].(string)), burst.size)
			status, _ := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/queue/"+item+"/retry", nil)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, signals.TurnCompleted, w.Await(id, item).Status)
			records, err := w.Store.RecordsByID(w.Ctx(), w.Key(id), item)
			require.NoError(t, err)
			require.Len(t, records, 1, "it has been processed")
		})
	}
}

// TestPostsToAClosingThread: each post is stored with its content, or rejected with 409.
func TestPostsToAClosingThread(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	const hands, each = 8, 12
	var all sync.WaitGroup
	var mu sync.Mutex
	taken, late := []string{}, 0
	for hand := range hands {
		all.Go(func() {
			for i := range each {
				text := fmt.Sprintf("e%d-%d", hand, i)
				if hand == 0 && i == 2 {
					if err := w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}); err != nil {
						t.Error(err)
					}
				}
				ok := false
				if hand%2 == 0 {
					_, err := w.Threads.PostSignal(w.Ctx(), id, check.Message(id, text, text))
					ok = err == nil
				} else {
					res, body := submit(t, w, id, submissions["message"], text, text)
					ok = res.StatusCode == http.StatusAccepted
					assert.True(t, ok || res.StatusCode == http.StatusConflict, body)
				}
				mu.Lock()
				if ok {
					taken = append(taken, text)
				} else {
					late++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	awaitStoredEnd(t, w, id)
	got := keptTexts(w, id)
	for _, text := range taken {
		require.Equal(t, 1, got[text], text)
	}
	require.Positive(t, late)
	t.Logf("%d posts were accepted, %d came too late", len(taken), late)
}

func awaitStoredEnd(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "").Get(w.Ctx(), nil))
	row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
	require.NoError(t, err)
	require.Equal(t, store.ThreadClosed, row.Status)
}

// TestPostsWithoutAWorker: Temporal keeps accepted posts, in order, until a worker runs.
func TestPostsWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{NoWorker: true})
	id := signals.NewID()
	res, body := submit(t, w, id, submissions["event that opens"], "e0", "e0")
	require.Equal(t, http.StatusAccepted, res.StatusCode, body)
	for _, e := range []string{"e1", "e2", "e3"} {
		res, body := submit(t, w, id, submissions["message"], e, e)
		require.Equal(t, http.StatusAccepted, res.StatusCode, body)
	}
	w.StartWorker()
	check.Settle(w, id)
	var got []string
	for _, r := range check.AllRecords(w, id) {
		if r.Type == event.TypeEnv || r.Type == event.TypeMessage && !strings.Contains(r.ID, ".") {
			got = append(got, r.ID)
		}
	}
	require.Equal(t, []string{"e0", "e1", "e2", "e3"}, got, "once each")
}

// TestManyEventsFromManyConnections: each event is stored once, and those of a connection in order.
func TestManyEventsFromManyConnections(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{})
	id := w.Open()
	const connections, each = 50, 40
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() {
			for i := range each {
				event := fmt.Sprintf("c%d-%d", c, i)
				res, body := insist(t, w, id, submissions["event"], event, event)
				assert.Equal(t, http.StatusAccepted, res.StatusCode, body)
			}
		})
	}
	all.Wait()
	check.Settle(w, id)
	next := map[string]int{}
	for _, r := range check.AllRecords(w, id) {
		if r.Type != event.TypeEnv {
			continue
		}
		var n int
		c, _, _ := strings.Cut(r.ID, "-")
		_, err := fmt.Sscanf(r.ID, c+"-%d", &n)
		require.NoError(t, err)
		require.Equal(t, next[c], n, "the order of connection %s", c)
		next[c]++
	}
	require.Len(t, next, connections)
	for c, n := range next {
		require.Equal(t, each, n, c)
	}
}

// TestManyWaitAtOnce: more callers than Temporal's limit of concurrent updates wait for their
// turns.
func TestManyWaitAtOnce(t *testing.T) {
	t.Parallel()
	w := kept(t, harness.Options{})
	id := w.Open()
	gate := w.Provider.Block(0)
	defer gate.Release()
	const callers = 40
	wait := submissions["message"]
	wait.path += "?wait=true"
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			res, body := insist(t, w, id, wait, fmt.Sprintf("e%d", i), fmt.Sprintf("hello %d", i))
			assert.Equal(t, http.StatusOK, res.StatusCode, body)
			assert.Contains(t, body, `"status":"completed"`)
		})
	}
	require.Eventually(t, func() bool {
		s, err := w.Threads.State(w.Ctx(), id)
		return err == nil && s.QueueLength == callers-1
	}, testenv.Patience, testenv.Tick, "all are accepted while the first one is processed")
	gate.Release()
	all.Wait()
}
