package threadclient

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// takes lets update "post" of thread "t1" answer, and returns what was posted.
func takes(t *testing.T, m *mocks.Client, err error) *signals.Post {
	t.Helper()
	posted := &signals.Post{}
	handle := &mocks.WorkflowUpdateHandle{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*args.Get(1).(*signals.PostResult) = signals.PostResult{EventID: posted.ID, Status: signals.PostQueued}
	}).Return(err)
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		o := args.Get(1).(client.UpdateWorkflowOptions)
		require.Equal(t, "thread/acme/t1", o.WorkflowID)
		require.Equal(t, signals.UpdatePost, o.UpdateName)
		*posted = o.Args[0].(signals.Post)
	}).Return(handle, nil)
	return posted
}

// missing is a thread that is not there, or that has been closed.
func missing(m *mocks.Client, closed bool) {
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("gone"))
	describe := m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "")
	if !closed {
		describe.Return(nil, serviceerror.NewNotFound("gone"))
		return
	}
	describe.Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
	}, nil)
}

// changed is an event that leaves out what it can.
var changed = event.EnvEvent{Type: "file.changed", Payload: json.RawMessage(`{"n":12345678901234567890}`)}

func forThread(id string) event.EnvEvent {
	e := changed
	e.ID, e.Metadata.TriggerSessionID = "e1", id
	return e
}

func TestPublish(t *testing.T) {
	ctx := context.Background()
	t.Run("S3-29 with all its defaults", func(t *testing.T) {
		c, m := listClient(t)
		posted := takes(t, m, nil)
		before := time.Now().UnixMilli()
		got, err := c.Publish(ctx, "t1", changed, PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, PublishResult{EventID: posted.ID, ThreadID: "t1", Status: "queued"}, got)
		_, err = uuid.Parse(got.EventID)
		require.NoError(t, err, "S3-04 the id is a UUID")
		require.Equal(t, "file.changed", posted.Type)
		require.JSONEq(t, `{"trigger_session_id":"t1","source":"env"}`, string(posted.Metadata))
		require.GreaterOrEqual(t, posted.Timestamp, before, "S3-05 milliseconds")
		require.LessOrEqual(t, posted.Timestamp, time.Now().UnixMilli())
		require.JSONEq(t, string(changed.Payload), string(posted.Payload))
		require.Contains(t, string(posted.Payload), "12345678901234567890")
	})
	t.Run("a user_query comes from a user", func(t *testing.T) {
		c, m := listClient(t)
		posted := takes(t, m, nil)
		asks := event.EnvEvent{Type: event.TypeUserQuery, Payload: json.RawMessage(`{"content":"hello"}`)}
		_, err := c.Publish(ctx, "t1", asks, PublishOptions{})
		require.NoError(t, err)
		require.JSONEq(t, `{"trigger_session_id":"t1","source":"user"}`, string(posted.Metadata))
	})
	t.Run("S3-06 what the event says stands", func(t *testing.T) {
		c, m := listClient(t)
		posted := takes(t, m, nil)
		e := forThread("t1")
		e.Timestamp, e.Metadata.Source = 1700000000000, event.SourceTool
		e.Metadata.Extra = map[string]json.RawMessage{"repo": json.RawMessage(`"x"`)}
		_, err := c.Publish(ctx, "t1", e, PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, "e1", posted.ID)
		require.Equal(t, int64(1700000000000), posted.Timestamp)
		require.JSONEq(t, `{"trigger_session_id":"t1","source":"tool","repo":"x"}`, string(posted.Metadata))
	})
	t.Run("S3-10 a duplicate is told", func(t *testing.T) {
		c, m := listClient(t)
		takes(t, m, temporal.NewNonRetryableApplicationError("seen", signals.DuplicateType, nil))
		got, err := c.Publish(ctx, "t1", forThread(""), PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, PublishResult{EventID: "e1", ThreadID: "t1", Status: "duplicate"}, got)
	})
	t.Run("it finds its thread by itself", func(t *testing.T) {
		c, m := listClient(t)
		takes(t, m, nil)
		got, err := c.Publish(ctx, "", forThread("t1"), PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, PublishResult{EventID: "e1", ThreadID: "t1", Status: "queued"}, got)
	})
	t.Run("a refusal is an error", func(t *testing.T) {
		for _, threadID := range []string{"t1", ""} {
			c, m := listClient(t)
			takes(t, m, temporal.NewNonRetryableApplicationError("the queue is full", signals.RefusedType, nil))
			_, err := c.Publish(ctx, threadID, forThread("t1"), PublishOptions{})
			require.ErrorIs(t, err, signals.ErrRefused)
		}
	})
}

func TestPublishIgnored(t *testing.T) {
	ctx := context.Background()
	t.Run("S3-36 without a thread", func(t *testing.T) {
		c, _ := listClient(t) // the mock refuses every call
		for _, open := range []bool{false, true} {
			got, err := c.Publish(ctx, "", forThread(""), PublishOptions{Open: open})
			require.NoError(t, err)
			require.Equal(t, PublishResult{EventID: "e1", Status: PublishIgnored, Warning: "No trigger_session_id in the metadata of event e1"}, got)
		}
	})
	for name, test := range map[string]struct {
		closed bool
		state  string
		err    error
	}{
		"S3-37 an unknown thread":  {false, "is not there", signals.ErrThreadNotFound},
		"S3-37 one that is closed": {true, "is closed", signals.ErrThreadClosed},
	} {
		t.Run(name, func(t *testing.T) {
			c, m := listClient(t)
			missing(m, test.closed)
			got, err := c.Publish(ctx, "", forThread("t1"), PublishOptions{})
			require.NoError(t, err)
			require.Equal(t, PublishResult{
				EventID: "e1", ThreadID: "t1", Status: PublishIgnored,
				Warning: `Thread "t1", which trigger_session_id in the metadata of event e1 names, ` + test.state,
			}, got)
			_, err = c.Publish(ctx, "t1", forThread("t1"), PublishOptions{})
			require.ErrorIs(t, err, test.err, "who names it is told")
		})
	}
	t.Run("one that was erased", func(t *testing.T) {
		m := mocks.NewClient(t)
		c, err := New(Config{Temporal: m, Namespace: "acme", Erased: func(context.Context, string, string) (bool, error) { return true, nil }})
		require.NoError(t, err)
		m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("gone"))
		m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryApprovals).Return(nil, serviceerror.NewNotFound("gone"))
		got, err := c.Publish(ctx, "", forThread("t1"), PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, PublishIgnored, got.Status)
		require.Contains(t, got.Warning, "was erased")
		_, err = c.Publish(ctx, "t1", forThread("t1"), PublishOptions{})
		require.ErrorIs(t, err, signals.ErrThreadErased)
		out, err := ApprovalsQuery{}.gather(c.askAll(ctx, []Summary{{ThreadID: "t1"}}))
		require.NoError(t, err, "a list of approvals does without it")
		require.Empty(t, out.Unanswered)
	})
}

// opens lets update "post", which opens a thread with start, answer, and notes what was posted.
func opens(t *testing.T, m *mocks.Client, workflowID string, start signals.Start, posted *signals.Post, err error) {
	m.On("NewWithStartWorkflowOperation", mock.Anything, signals.ThreadWorkflow, start).Run(func(args mock.Arguments) {
		o := args.Get(0).(client.StartWorkflowOptions)
		assert.Equal(t, workflowID, o.ID)
		assert.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, o.WorkflowIDConflictPolicy)
	}).Return(nil).Once()
	handle := &mocks.WorkflowUpdateHandle{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*args.Get(1).(*signals.PostResult) = signals.PostResult{EventID: posted.ID, Status: signals.PostQueued}
	}).Return(nil).Maybe()
	m.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		o := args.Get(1).(client.UpdateWithStartWorkflowOptions).UpdateOptions
		assert.Equal(t, signals.UpdatePost, o.UpdateName)
		*posted = o.Args[0].(signals.Post)
	}).Return(handle, err).Once()
}

func TestPublishOpens(t *testing.T) {
	ctx := context.Background()
	start := signals.Start{Agents: []string{"bot"}}
	opened := func(t *testing.T, err error) (*Client, *signals.Post) {
		c, m := listClient(t)
		posted := &signals.Post{}
		opens(t, m, "thread/acme/t1", start, posted, err)
		return c, posted
	}
	for name, threadID := range map[string]string{"by its id": "t1", "by the event": ""} {
		t.Run(name, func(t *testing.T) {
			c, posted := opened(t, nil)
			got, err := c.Publish(ctx, threadID, forThread("t1"), PublishOptions{Open: true, Start: start})
			require.NoError(t, err)
			require.Equal(t, PublishResult{EventID: "e1", ThreadID: "t1", Status: "queued"}, got)
			require.True(t, posted.IsEnv())
			require.Equal(t, "e1", posted.ID)
		})
	}
	t.Run("not what was closed", func(t *testing.T) {
		c, _ := opened(t, &serviceerror.WorkflowExecutionAlreadyStarted{})
		_, err := c.Publish(ctx, "t1", forThread("t1"), PublishOptions{Open: true, Start: start})
		require.ErrorIs(t, err, signals.ErrThreadClosed)
	})
	t.Run("not what cannot be reached", func(t *testing.T) {
		broken := errors.New("broken")
		c, _ := opened(t, broken)
		got, err := c.Publish(ctx, "", forThread("t1"), PublishOptions{Open: true, Start: start})
		require.ErrorIs(t, err, broken)
		require.Empty(t, got.Status)
	})
}

func TestPublishChecks(t *testing.T) {
	for name, test := range map[string]struct {
		thread, field string
		change        func(*event.EnvEvent)
	}{
		"thread":          {"no/slash", "threadId", func(*event.EnvEvent) {}},
		"routed thread":   {"", "metadata.trigger_session_id", func(e *event.EnvEvent) { e.Metadata.TriggerSessionID = "no/slash" }},
		"another thread":  {"t1", "metadata.trigger_session_id", func(e *event.EnvEvent) { e.Metadata.TriggerSessionID = "t2" }},
		"S3-04 id":        {"t1", "id", func(e *event.EnvEvent) { e.ID = "has.dots" }},
		"no type":         {"t1", "type", func(e *event.EnvEvent) { e.Type = "" }},
		"no type, no one": {"", "type", func(e *event.EnvEvent) { e.Type = "" }},
		"reserved type":   {"t1", "type", func(e *event.EnvEvent) { e.Type = event.TypeStatus }},
		"S3-05 timestamp": {"t1", "timestamp", func(e *event.EnvEvent) { e.Timestamp = 1 << 60 }},
		"S3-06 metadata":  {"t1", "metadata", func(e *event.EnvEvent) { e.Metadata.Extra = map[string]json.RawMessage{"x": json.RawMessage("{")} }},
		"S3-07 source":    {"t1", "metadata.source", func(e *event.EnvEvent) { e.Metadata.Source = "moon" }},
		"payload":         {"t1", "payload", func(e *event.EnvEvent) { e.Payload = json.RawMessage("{") }},
		"payload too large": {"t1", "payload", func(e *event.EnvEvent) {
			e.Payload = json.RawMessage(`"` + strings.Repeat("x", signals.MaxPayload) + `"`)
		}},
		"user_query": {"t1", "payload.content", func(e *event.EnvEvent) { e.Type, e.Payload = event.TypeUserQuery, json.RawMessage(`{}`) }},
		"query of another": {"t1", "payload.sessionId", func(e *event.EnvEvent) {
			e.Type, e.Payload = event.TypeUserQuery, json.RawMessage(`{"sessionId":"t2","content":"x"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := listClient(t) // the mock refuses every call
			e := changed
			test.change(&e)
			_, err := c.Publish(context.Background(), test.thread, e, PublishOptions{Open: true})
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, test.field, field.Field)
		})
	}
}
