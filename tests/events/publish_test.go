package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// publisher is a way to publish an event to a thread. It returns the reason of a rejection.
type publisher func(t *testing.T, w *harness.Harness, thread string, e json.RawMessage) error

// publishers are all ways, by name.
var publishers = map[string]publisher{
	"signal": bySignal,
	"client": func(_ *testing.T, w *harness.Harness, thread string, e json.RawMessage) error {
		return byClient(w, thread, e)
	},
	"client, routed": func(_ *testing.T, w *harness.Harness, _ string, e json.RawMessage) error { return byClient(w, "", e) },
	"http": func(t *testing.T, w *harness.Harness, thread string, e json.RawMessage) error {
		return byHTTP(t, w, "/v1/threads/"+thread+"/events", e)
	},
	"http, to a thread that may be opened": func(t *testing.T, w *harness.Harness, thread string, e json.RawMessage) error {
		return byHTTP(t, w, "/v1/threads/"+thread+"/events?open=true", e)
	},
	"http, routed": func(t *testing.T, w *harness.Harness, _ string, e json.RawMessage) error {
		return byHTTP(t, w, "/v1/events", e)
	},
}

func byClient(w *harness.Harness, thread string, raw json.RawMessage) error {
	var e event.EnvEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	_, err := w.Threads.Publish(w.Ctx(), thread, e, threadclient.PublishOptions{})
	return err
}

// bySignal reads a rejection from the records: the sender of a signal gets no response.
func bySignal(t *testing.T, w *harness.Harness, thread string, raw json.RawMessage) error {
	t.Helper()
	before := len(check.OfType(w, thread, event.TypeRejected))
	signalled(w, thread, raw)
	fence(w, thread)
	for _, r := range check.OfType(w, thread, event.TypeRejected)[before:] {
		return fmt.Errorf("%s", harness.Payload[event.Rejected](w, r).Problem)
	}
	return nil
}

func byHTTP(t *testing.T, w *harness.Harness, path string, raw json.RawMessage) error {
	t.Helper()
	status, out := check.Request(t, w, http.MethodPost, path, raw)
	if status != http.StatusAccepted {
		return fmt.Errorf("%d %s", status, harness.JSON(t, out))
	}
	return nil
}

// TestPublish publishes events in every way.
func TestPublish(t *testing.T) {
	t.Parallel()
	l := newLedger()
	w := ruled(t, harness.Options{}, l.rule("files", "file.*"), l.rule("fence", "fence"))
	for name, publish := range publishers {
		t.Run(name, func(t *testing.T) {
			t.Run("S3-03 S3-06 S3-59 S3-publish_success stored and handled as it is", func(t *testing.T) { publishedAsIs(t, w, l, publish) })
			t.Run("S3-05 S3-07 what is no event is refused", func(t *testing.T) { publishRefused(t, w, publish) })
			t.Run("S3-07 of each source", func(t *testing.T) { publishedSources(t, w, publish) })
			t.Run("S3-04 S3-05 what it leaves out", func(t *testing.T) { publishedDefaults(t, w, publish) })
		})
	}
	t.Run("S3-03 a plain client opens a thread with an event", func(t *testing.T) {
		thread, id := signals.NewID(), signals.NewEventID()
		_, err := w.Temporal.SignalWithStartWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), signals.SignalPost, whole(thread, id),
			client.StartWorkflowOptions{TaskQueue: w.TaskQueue}, signals.ThreadWorkflow, map[string]any{})
		require.NoError(t, err)
		requireSameJSON(t, whole(thread, id), []byte(harness.JSON(t, awaitCalls(t, l, thread, 1)[0].event)))
	})
	t.Run("S3-59 what is kept can be read, and published once more elsewhere", func(t *testing.T) { publishedAgain(t, w, l) })
	t.Run("S3-29 S3-publishEvent_basic the runtime publishes", func(t *testing.T) {
		thread, e := w.Open(), check.Happened("file.changed", nil)
		e.Metadata.TriggerSessionID = thread
		out, err := w.Runtime.Publish(w.Ctx(), e)
		require.NoError(t, err)
		require.Equal(t, threadclient.PublishResult{EventID: e.ID, ThreadID: thread, Status: signals.PostQueued}, out)
		require.Eventually(t, func() bool { return len(l.calls(thread)) == 1 }, testenv.Patience, testenv.Tick)
	})
}

// whole is an event with all fields.
func whole(thread, id string) json.RawMessage {
	return json.RawMessage(`{"id":"` + id + `","type":"file.changed","timestamp":1700000000123,
		"metadata":{"trigger_session_id":"` + thread + `","trigger_agent_id":"a-7","trigger_agent_name":"assistant","env_name":"laptop",
			"source":"env","retries":1.50,"from":{"ip":"::1","hops":["a","b"]},"größe":null},
		"payload":{"path":"a <b> & \"c\".go","size":12345678901234567890,"none":null,"list":[1,2.0,true]}}`)
}

func publishedAsIs(t *testing.T, w *harness.Harness, l *ledger, publish publisher) {
	thread, id := w.Open(), signals.NewEventID()
	raw := whole(thread, id)
	require.NoError(t, publish(t, w, thread, raw))
	t.Run("S3-04 S3-10 S3-publish_idempotency published again in every way, it is ignored", func(t *testing.T) {
		for _, again := range publishers {
			require.NoError(t, again(t, w, thread, raw))
		}
	})
	fence(w, thread)
	var calls []handling
	for _, c := range l.calls(thread) {
		if c.event.Type != "fence" {
			calls = append(calls, c)
		}
	}
	call := check.Only(t, calls)
	requireSameJSON(t, raw, []byte(harness.JSON(t, call.event)))
	requireSameJSON(t, raw, check.RecordOf(w, thread, id).Payload)
	page, shown := eventsPage(t, w, thread)
	require.Contains(t, page, "file.changed")
	requireSameJSON(t, raw, shown["file.changed"])
}

func publishedAgain(t *testing.T, w *harness.Harness, l *ledger) {
	thread, copied := w.Open(), w.Open()
	for i := range 3 {
		check.Handle(w, thread, check.Happened("file.changed", i))
	}
	check.Closed(t, w, thread)
	for _, raw := range envEventsOf(t, w, thread) {
		var e event.EnvEvent
		require.NoError(t, json.Unmarshal(raw, &e))
		if e.Type == "file.changed" {
			e.Metadata.TriggerSessionID = copied
			require.Equal(t, signals.PostQueued, publish(w, copied, e))
		}
	}
	fence(w, copied)
	was, is := l.calls(thread), l.calls(copied)
	require.Len(t, was, 3)
	for i, c := range was {
		c.event.Metadata.TriggerSessionID = copied
		require.Equal(t, c.event, is[i].event, "the same is handled in the same order")
	}
}

// eventsPage returns the types of those events in order, and the last event of each type.
func eventsPage(t *testing.T, w *harness.Harness, thread string) (types []string, last map[string]json.RawMessage) {
	t.Helper()
	last = map[string]json.RawMessage{}
	for _, raw := range envEventsOf(t, w, thread) {
		var e event.EnvEvent
		require.NoError(t, json.Unmarshal(raw, &e))
		types, last[e.Type] = append(types, e.Type), raw
	}
	return types, last
}

// envEventsOf returns the environment events that a thread's API returns.
func envEventsOf(t *testing.T, w *harness.Harness, thread string) []json.RawMessage {
	t.Helper()
	req, err := http.NewRequestWithContext(w.Ctx(), http.MethodGet, w.API.URL+"/v1/threads/"+thread+"/events?view=env&limit=1000", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var page struct {
		Events []json.RawMessage `json:"events"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&page))
	return page.Events
}

func publishRefused(t *testing.T, w *harness.Harness, publish publisher) {
	thread := w.Open()
	for field, change := range map[string]string{
		"type":            `"type":"message"`,
		"timestamp":       `"timestamp":253402300800000`,
		"metadata.source": `"metadata":{"trigger_session_id":"` + thread + `","source":"moon"}`,
		"payload.content": `"type":"user_query","payload":{"content":""}`,
	} {
		e := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(whole(thread, signals.NewEventID()), &e))
		require.NoError(t, json.Unmarshal([]byte("{"+change+"}"), &e))
		require.ErrorContains(t, publish(t, w, thread, json.RawMessage(harness.JSON(t, e))), field)
	}
	for _, e := range published(w, thread) {
		require.Equal(t, "fence", e.Type, "nothing of it is stored")
	}
}

func publishedSources(t *testing.T, w *harness.Harness, publish publisher) {
	thread, want := w.Open(), []event.Source{}
	for _, source := range []event.Source{event.SourceTool, event.SourceEnv, event.SourceUser, event.SourceSystem, event.SourceLLM} {
		e := check.Happened("file.changed", nil, func(e *event.EnvEvent) {
			e.Metadata = event.EnvMetadata{Source: source, TriggerSessionID: thread}
		})
		require.NoError(t, publish(t, w, thread, json.RawMessage(harness.JSON(t, e))))
		want = append(want, source)
	}
	fence(w, thread)
	var got []event.Source
	for _, e := range published(w, thread) {
		if e.Type != "fence" {
			got = append(got, e.Metadata.Source)
		}
	}
	require.Equal(t, want, got)
}

func publishedDefaults(t *testing.T, w *harness.Harness, publish publisher) {
	thread, before, err := "", time.Now().UnixMilli(), error(nil)
	for range 5 { // if the machine stalls, in another thread: an event without an id would be another event
		thread = w.Open()
		err = publish(t, w, thread, json.RawMessage(`{"type":"file.changed","metadata":{"trigger_session_id":"`+thread+`"}}`))
		if err == nil || !strings.HasPrefix(err.Error(), "503 ") {
			break
		}
	}
	require.NoError(t, err)
	fence(w, thread)
	e := published(w, thread)[0]
	require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, e.ID, "a UUID")
	require.GreaterOrEqual(t, e.Timestamp, before, "milliseconds since 1970")
	require.LessOrEqual(t, e.Timestamp, time.Now().UnixMilli())
	require.Equal(t, thread, e.Metadata.TriggerSessionID)
	require.JSONEq(t, "null", string(e.Payload))
}
