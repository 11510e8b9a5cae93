package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// eventsFake is what became of environment events. fail is what Temporal answers to all.
type eventsFake struct {
	posts map[string][]signals.Post // by thread
	fail  func(ctx context.Context) error
}

// Publish is that of the real client, on a Temporal that knows the same threads.
func (f *threads) Publish(ctx context.Context, id string, e event.EnvEvent, o threadclient.PublishOptions) (threadclient.PublishResult, error) {
	c, err := threadclient.New(threadclient.Config{Temporal: temporal{threads: f}})
	if err != nil {
		return threadclient.PublishResult{}, err
	}
	return c.Publish(ctx, id, e, o)
}

// temporal has what publishing needs of a Temporal client.
type temporal struct {
	client.Client
	threads *threads
}

func (c temporal) find(ctx context.Context, workflowID string) (id string, there, open bool, err error) {
	if fail := c.threads.events.fail; fail != nil {
		// It may wait for the context.
		c.threads.mu.Unlock()
		defer c.threads.mu.Lock()
		return "", false, false, fail(ctx)
	}
	_, id, err = signals.ParseWorkflowID(workflowID)
	open, there = c.threads.known[id]
	return id, there, open, err
}

func (c temporal) keep(id string, p signals.Post) (duplicate bool) {
	if c.threads.events.posts == nil {
		c.threads.events.posts = map[string][]signals.Post{}
	}
	for _, before := range c.threads.events.posts[id] {
		duplicate = duplicate || before.ID == p.ID
	}
	c.threads.events.posts[id] = append(c.threads.events.posts[id], p)
	return duplicate
}

func (c temporal) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	c.threads.mu.Lock()
	defer c.threads.mu.Unlock()
	id, _, open, err := c.find(ctx, o.WorkflowID)
	if err == nil && !open {
		err = serviceerror.NewNotFound("gone")
	}
	if err != nil {
		return nil, err
	}
	p := o.Args[0].(signals.Post)
	out := signals.PostResult{EventID: p.ID, Status: signals.PostQueued}
	if c.keep(id, p) {
		out.Status = signals.PostDuplicate
	}
	return accepted{result: out}, nil
}

// accepted is an update that was accepted.
type accepted struct {
	client.WorkflowUpdateHandle
	result signals.PostResult
}

func (a accepted) Get(_ context.Context, out any) error {
	*out.(*signals.PostResult) = a.result
	return nil
}

// starting is the start of an update with start.
type starting struct {
	client.WithStartWorkflowOperation
	start signals.Start
}

func (c temporal) NewWithStartWorkflowOperation(_ client.StartWorkflowOptions, _ any, args ...any) client.WithStartWorkflowOperation {
	return starting{start: args[0].(signals.Start)}
}

func (c temporal) UpdateWithStartWorkflow(ctx context.Context, o client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	c.threads.mu.Lock()
	id, there, open, err := c.find(ctx, o.UpdateOptions.WorkflowID)
	if err == nil && there && !open {
		err = &serviceerror.WorkflowExecutionAlreadyStarted{}
	}
	if err == nil && !there {
		c.threads.known[id] = true
		c.threads.opens = append(c.threads.opens, o.StartWorkflowOperation.(starting).start)
	}
	c.threads.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.UpdateWorkflow(ctx, o.UpdateOptions)
}

func (c temporal) DescribeWorkflowExecution(ctx context.Context, workflowID, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	c.threads.mu.Lock()
	defer c.threads.mu.Unlock()
	_, there, open, err := c.find(ctx, workflowID)
	if err == nil && !there {
		err = serviceerror.NewNotFound("gone")
	}
	info := &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}
	if open {
		info.Status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, err
}

func eventWorld(t *testing.T, change ...func(*server.Config)) *world {
	w := newWorld(t, change...)
	w.threads.known["t1"], w.threads.known["gone"] = true, false
	return w
}

func (w *world) published(thread string) []signals.Post { return w.threads.events.posts[thread] }

func TestPublishToThread(t *testing.T) {
	const path = "/v1/threads/t1/events"
	t.Run("S3-55 with everything", func(t *testing.T) {
		w := eventWorld(t)
		got := w.call("POST", path, `{"id":"e1","type":"file.changed","timestamp":1700000000000,
			"metadata":{"trigger_agent_name":"bot","env_name":"os","source":"tool","repo":{"n":12345678901234567890}},"payload":{"path":"a.go","n":12345678901234567890}}`)
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		assert.Equal(t, object{"eventId": "e1", "threadId": "t1", "status": "queued"}, got.body)
		p := w.published("t1")[0]
		assert.Equal(t, "file.changed", p.Type)
		assert.Equal(t, int64(1700000000000), p.Timestamp)
		assert.JSONEq(t, `{"path":"a.go","n":12345678901234567890}`, string(p.Payload))
		assert.Contains(t, string(p.Payload), "12345678901234567890", "payloads keep their form")
		assert.JSONEq(t, `{"trigger_session_id":"t1","trigger_agent_name":"bot","env_name":"os","source":"tool","repo":{"n":12345678901234567890}}`, string(p.Metadata), "S3-06")
		assert.Contains(t, string(p.Metadata), "12345678901234567890")
	})
	t.Run("S3-03 with a type only", func(t *testing.T) {
		w := eventWorld(t)
		before := time.Now().UnixMilli()
		got := w.call("POST", path, object{"type": "webhook.received"}).ok(t, http.StatusAccepted)
		p := w.published("t1")[0]
		assert.Equal(t, p.ID, got.body["eventId"])
		_, err := uuid.Parse(p.ID)
		require.NoError(t, err, "S3-04")
		assert.GreaterOrEqual(t, p.Timestamp, before, "S3-05")
		assert.JSONEq(t, `{"trigger_session_id":"t1","source":"env"}`, string(p.Metadata), "S3-07")
	})
	t.Run("S3-10 twice", func(t *testing.T) {
		w := eventWorld(t)
		body := object{"id": "e1", "type": "file.changed"}
		assert.Equal(t, "queued", w.call("POST", path, body).body["status"])
		again := w.call("POST", path, body)
		assert.Equal(t, http.StatusAccepted, again.status)
		assert.Equal(t, object{"eventId": "e1", "threadId": "t1", "status": "duplicate"}, again.body)
	})
	t.Run("to a thread that is not there", func(t *testing.T) {
		w := eventWorld(t)
		body := object{"id": "e1", "type": "file.changed"}
		w.call("POST", "/v1/threads/t2/events", body).problem(t, 404)
		w.call("POST", "/v1/threads/no%20id/events?open=true", body).problem(t, 404)
		got := w.call("POST", "/v1/threads/t2/events?open=true", body).ok(t, http.StatusAccepted)
		assert.Equal(t, "queued", got.body["status"])
		assert.Equal(t, []signals.Start{{}}, w.threads.opens)
		assert.Len(t, w.published("t2"), 1)
	})
	t.Run("to one that is closed", func(t *testing.T) {
		w := eventWorld(t)
		for _, query := range []string{"", "?open=true"} {
			w.call("POST", "/v1/threads/gone/events"+query, object{"type": "x"}).problem(t, 409)
		}
	})
	t.Run("Temporal cannot be reached", func(t *testing.T) {
		w := eventWorld(t)
		w.threads.events.fail = func(context.Context) error { return serviceerror.NewUnavailable("down") }
		got := w.call("POST", path, object{"type": "x"})
		got.problem(t, 503)
		assert.NotEmpty(t, got.header.Get("Retry-After"))
	})
}

func TestPublishRefused(t *testing.T) {
	w := eventWorld(t)
	for name, test := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"no type":             {object{}, 422, "body.type"},
		"empty type":          {object{"type": ""}, 422, "body.type"},
		"type of the thread":  {object{"type": "status"}, 422, "body.type"},
		"a message":           {object{"type": "message"}, 422, "body.type"},
		"S3-04 id with a dot": {object{"type": "x", "id": "a.b"}, 422, "body.id"},
		"S3-05 time as text":  {object{"type": "x", "timestamp": "now"}, 422, "body.timestamp"},
		"S3-05 far away":      {object{"type": "x", "timestamp": 1 << 60}, 422, "body.timestamp"},
		"S3-06 agent":         {object{"type": "x", "metadata": object{"trigger_agent_name": 7}}, 422, "body.metadata.trigger_agent_name"},
		"S3-07 source":        {object{"type": "x", "metadata": object{"source": "moon"}}, 422, "body.metadata.source"},
		"another thread":      {object{"type": "x", "metadata": object{"trigger_session_id": "t2"}}, 422, "body.metadata.trigger_session_id"},
		"metadata is a list":  {object{"type": "x", "metadata": []int{}}, 422, "body.metadata"},
		"surplus":             {object{"type": "x", "source": "env"}, 422, "body.source"},
		"query of nothing":    {object{"type": "user_query", "payload": object{}}, 422, "body.payload.content"},
		"payload too large":   {object{"type": "x", "payload": strings.Repeat("x", signals.MaxPayload)}, 413, "body.payload"},
		"not JSON":            {`{"type":`, 400, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call("POST", "/v1/threads/t1/events", test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, test.status), got.text)
		})
	}
	assert.Empty(t, w.threads.events.posts)
}

func TestPublishRouted(t *testing.T) {
	w := eventWorld(t)
	to := func(thread string) object {
		return object{"id": "e1", "type": "file.changed", "metadata": object{"trigger_session_id": thread}}
	}
	t.Run("to the thread that it names", func(t *testing.T) {
		got := w.call("POST", "/v1/events", to("t1")).ok(t, http.StatusAccepted)
		assert.Equal(t, object{"eventId": "e1", "threadId": "t1", "status": "queued"}, got.body)
		assert.Equal(t, "e1", w.published("t1")[0].ID)
		assert.Equal(t, "duplicate", w.call("POST", "/v1/events", to("t1")).body["status"])
	})
	for name, test := range map[string]struct {
		body any
		want object
	}{
		"S3-36 that names none": {object{"id": "e1", "type": "file.changed"}, object{
			"eventId": "e1", "status": "ignored", "warning": "No trigger_session_id in the metadata of event e1",
		}},
		"S3-37 that names an unknown one": {to("t2"), object{
			"eventId": "e1", "threadId": "t2", "status": "ignored",
			"warning": `Thread "t2", which trigger_session_id in the metadata of event e1 names, is not there`,
		}},
		"S3-37 that names a closed one": {to("gone"), object{
			"eventId": "e1", "threadId": "gone", "status": "ignored",
			"warning": `Thread "gone", which trigger_session_id in the metadata of event e1 names, is closed`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.threads.events.posts)
			got := w.call("POST", "/v1/events", test.body).ok(t, http.StatusAccepted)
			assert.Equal(t, test.want, got.body)
			assert.Len(t, w.threads.events.posts, before, "nothing has changed")
		})
	}
	t.Run("what is wrong is refused all the same", func(t *testing.T) {
		got := w.call("POST", "/v1/events", object{"type": "x", "metadata": object{"source": "moon"}})
		assert.Equal(t, []string{"body.metadata.source"}, got.problem(t, 422))
		got = w.call("POST", "/v1/events", to("no id"))
		assert.Equal(t, []string{"body.metadata.trigger_session_id"}, got.problem(t, 422))
	})
}

// env is the stored form of an environment event.
func env(e event.EnvEvent) event.Record {
	r := event.NewRecord(e.ID, event.TypeEnv, e.ID, "", time.Unix(1700000000, 0), e)
	return r
}

func fileChanged(id string) event.EnvEvent {
	return event.EnvEvent{
		ID: id, Type: "file.changed", Timestamp: 1700000000123, Payload: json.RawMessage(`{"path":"a.go"}`),
		Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceEnv},
	}
}
