package threadclient

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// queueClient is a client of a thread "t1" that answers query "queue".
func queueClient(t *testing.T, q any) (*Client, *mocks.Client) {
	t.Helper()
	c, m := listClient(t)
	answer := client.NewValue(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, q)}})
	m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryQueue).Return(answer, nil).Maybe()
	return c, m
}

// answers lets update "set_status" answer with item, or with err, and returns what was asked.
func answers(t *testing.T, m *mocks.Client, item event.Item, err error) *client.UpdateWorkflowOptions {
	t.Helper()
	asked := &client.UpdateWorkflowOptions{}
	handle := &mocks.WorkflowUpdateHandle{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		args.Get(1).(*signals.SetStatusResult).Item = item
	}).Return(err)
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*asked = args.Get(1).(client.UpdateWorkflowOptions)
	}).Return(handle, nil)
	return asked
}

var fullQueue = signals.Queue{
	Processing: &event.Item{ID: "e1", Payload: json.RawMessage(`1`), Status: event.ItemProcessing},
	Items:      []event.Item{{ID: "e2", Payload: json.RawMessage(`2`), Status: event.ItemPending, Priority: 5}, {ID: "e3", Status: event.ItemPending}},
	Failed:     []event.Item{{ID: "e4", Status: event.ItemFailed}, {ID: "e5", Status: event.ItemFailed, Error: "no key"}},
	Ended:      []event.Item{{ID: "e6", Status: event.ItemExpired}},
}

func TestQueueIsInspected(t *testing.T) {
	ctx := context.Background()
	t.Run("S2-44 what is being processed", func(t *testing.T) {
		c, _ := queueClient(t, fullQueue)
		item, ok, err := c.Processing(ctx, "t1")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, *fullQueue.Processing, item)
	})
	t.Run("S2-45 what comes next", func(t *testing.T) {
		c, _ := queueClient(t, fullQueue)
		item, ok, err := c.Next(ctx, "t1")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, fullQueue.Items[0], item)
	})
	t.Run("S2-39 S2-45 what is past its ttl does not come next", func(t *testing.T) {
		late := fullQueue.Items[0]
		late.ID, late.TTL, late.CreatedAt = "late", 1, time.Now().Add(-time.Minute)
		soon := late
		soon.ID, soon.TTL = "soon", time.Hour.Milliseconds()
		c, _ := queueClient(t, signals.Queue{Items: []event.Item{late, soon}})
		item, ok, err := c.Next(ctx, "t1")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "soon", item.ID)
		c, _ = queueClient(t, signals.Queue{Items: []event.Item{late}})
		_, ok, err = c.Next(ctx, "t1")
		require.NoError(t, err)
		require.False(t, ok)
	})
	t.Run("S2-16 one event, whatever its status", func(t *testing.T) {
		c, _ := queueClient(t, fullQueue)
		for id, status := range map[string]event.ItemStatus{"e1": event.ItemProcessing, "e3": event.ItemPending, "e5": event.ItemFailed, "e6": event.ItemExpired} {
			item, err := c.Item(ctx, "t1", id)
			require.NoError(t, err)
			require.Equal(t, id, item.ID)
			require.Equal(t, status, item.Status)
		}
	})
	t.Run("an unknown event is told from an unknown thread", func(t *testing.T) {
		c, _ := queueClient(t, fullQueue)
		_, err := c.Item(ctx, "t1", "e0")
		require.ErrorIs(t, err, signals.ErrEventNotFound)
		var unknown *UnknownEventError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, UnknownEventError{ThreadID: "t1", EventID: "e0"}, *unknown)
		require.ErrorContains(t, err, `thread "t1" does not know event "e0"`)
		require.ErrorContains(t, err, "in its records", "it says where to look")
		require.NotContains(t, err.Error(), signals.ErrThreadNotFound.Error(), "the thread is there")
	})
	t.Run("nothing there", func(t *testing.T) {
		c, _ := queueClient(t, map[string]any{"items": nil})
		q, err := c.Queue(ctx, "t1")
		require.NoError(t, err)
		raw, err := json.Marshal(q)
		require.NoError(t, err)
		require.JSONEq(t, `{"items":[],"failed":[],"ended":[]}`, string(raw))
		_, ok, err := c.Processing(ctx, "t1")
		require.NoError(t, err)
		require.False(t, ok, "S2-44")
		_, ok, err = c.Next(ctx, "t1")
		require.NoError(t, err)
		require.False(t, ok, "S2-45")
	})
	t.Run("no such thread", func(t *testing.T) {
		c, m := listClient(t)
		m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryQueue).Return(nil, serviceerror.NewNotFound("gone"))
		m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(nil, serviceerror.NewNotFound("gone"))
		for name, ask := range map[string]func() error{
			"queue":      func() error { _, err := c.Queue(ctx, "t1"); return err },
			"item":       func() error { _, err := c.Item(ctx, "t1", "e1"); return err },
			"processing": func() error { _, _, err := c.Processing(ctx, "t1"); return err },
			"next":       func() error { _, _, err := c.Next(ctx, "t1"); return err },
			"retry":      func() error { _, err := c.Retry(ctx, "t1", "", "ann"); return err },
		} {
			err := ask()
			require.ErrorIs(t, err, signals.ErrThreadNotFound, "S2-42 %s asks in the client's namespace only", name)
			var unknown *UnknownEventError
			require.NotErrorAs(t, err, &unknown, name)
		}
	})
}

func TestSetStatus(t *testing.T) {
	ctx := context.Background()
	change := signals.SetStatus{EventID: "e2", Status: event.ItemCompleted, By: "ann", Reason: "done by hand"}
	t.Run("S2-46 the thread's answer comes back", func(t *testing.T) {
		c, m := listClient(t)
		want := event.Item{ID: "e2", Status: event.ItemCompleted}
		asked := answers(t, m, want, nil)
		item, err := c.SetStatus(ctx, "t1", change)
		require.NoError(t, err)
		require.Equal(t, want, item)
		require.Equal(t, "thread/acme/t1", asked.WorkflowID)
		require.Equal(t, signals.UpdateSetStatus, asked.UpdateName)
		require.Equal(t, []any{change}, asked.Args)
		require.Equal(t, client.WorkflowUpdateStageCompleted, asked.WaitForStage)
	})
	t.Run("S2-46 refused", func(t *testing.T) {
		c, m := listClient(t)
		answers(t, m, event.Item{}, temporal.NewNonRetryableApplicationError("eventId: no such event", signals.RefusedType, nil))
		_, err := c.SetStatus(ctx, "t1", change)
		require.ErrorIs(t, err, signals.ErrRefused)
		require.ErrorContains(t, err, `set_status to thread "t1"`)
		require.ErrorContains(t, err, "eventId: no such event")
	})
	t.Run("closed", func(t *testing.T) {
		c, m := listClient(t)
		m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("completed"))
		m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		}, nil)
		_, err := c.SetStatus(ctx, "t1", change)
		require.ErrorIs(t, err, signals.ErrThreadClosed)
	})
	c, _ := listClient(t)
	_, err := c.SetStatus(ctx, "no/slash", change)
	require.ErrorIs(t, err, event.ErrInvalid)
}

func TestRetry(t *testing.T) {
	ctx := context.Background()
	for name, eventID := range map[string]string{"by its id": "e4", "the one that failed last": ""} {
		t.Run("S2-17 "+name, func(t *testing.T) {
			c, m := queueClient(t, fullQueue)
			want := event.Item{ID: "e", Status: event.ItemPending, Attempt: 1}
			asked := answers(t, m, want, nil)
			item, err := c.Retry(ctx, "t1", eventID, "ann")
			require.NoError(t, err)
			require.Equal(t, want, item)
			if eventID == "" {
				eventID = "e5"
			}
			require.Equal(t, []any{signals.SetStatus{EventID: eventID, Status: event.ItemPending, By: "ann"}}, asked.Args)
		})
	}
	// The thread is asked for nothing in these: the mock refuses calls that it does not expect.
	for _, id := range []string{"e1", "e2", "e6"} {
		c, _ := queueClient(t, fullQueue)
		_, err := c.Retry(ctx, "t1", id, "ann")
		require.ErrorIs(t, err, signals.ErrRefused, "S2-17 only what has failed, not %s", id)
		require.ErrorContains(t, err, "only a failed event is retried")
	}
	var unknown *UnknownEventError
	c, _ := queueClient(t, fullQueue)
	_, err := c.Retry(ctx, "t1", "e0", "ann")
	require.ErrorAs(t, err, &unknown)
	c, _ = queueClient(t, signals.Queue{})
	_, err = c.Retry(ctx, "t1", "", "ann")
	require.ErrorAs(t, err, &unknown)
	require.EqualError(t, err, `no event of thread "t1" has failed`)
}

func TestPrepare(t *testing.T) {
	t.Run("S2-43 an event of any type", func(t *testing.T) {
		p := signals.Post{Type: "deploy", Payload: json.RawMessage(`{"env":"prod","n":12345678901234567890}`)}
		require.NoError(t, Prepare("t1", &p))
		require.Len(t, p.ID, 26)
		require.Equal(t, `{"env":"prod","n":12345678901234567890}`, string(p.Payload))
		require.NoError(t, Prepare("t1", &signals.Post{ID: "e1", Type: "ping"}), "without a payload")
	})
	t.Run("S2-43 a message may leave out its thread", func(t *testing.T) {
		p := signals.Post{ID: "e1", Payload: json.RawMessage(`{"senderId":"ops","senderType":"system","content":"a < b"}`)}
		require.NoError(t, Prepare("t1", &p))
		var m event.NewMessage
		require.NoError(t, json.Unmarshal(p.Payload, &m))
		require.Equal(t, event.NewMessage{ThreadID: "t1", SenderID: "ops", SenderType: event.CreatedBySystem, Content: "a < b"}, m)
		whole := string(p.Payload)
		require.NoError(t, Prepare("t1", &p))
		require.Equal(t, whole, string(p.Payload), "again changes nothing")
	})
	message := signals.UserMessage("t1", "ann", "hi").Payload
	tooMany := make([]string, 201)
	for name, c := range map[string]struct {
		thread, field string
		post          signals.Post
	}{
		"thread":           {"no/slash", "threadId", signals.Post{Payload: message}},
		"id":               {"t1", "id", signals.Post{ID: "e.1", Payload: message}},
		"reserved type":    {"t1", "type", signals.Post{Type: event.TypeLLMCall}},
		"no payload":       {"t1", "payload", signals.Post{}},
		"null payload":     {"t1", "payload", signals.Post{Payload: json.RawMessage(" null")}},
		"no message":       {"t1", "payload", signals.Post{Payload: json.RawMessage(`"hi"`)}},
		"another thread":   {"t2", "payload.threadId", signals.Post{Payload: message}},
		"no sender":        {"t1", "payload.senderId", signals.Post{Payload: json.RawMessage(`{"content":"x"}`)}},
		"too large":        {"t1", "payload", signals.Post{Type: "big", Payload: json.RawMessage(`"` + strings.Repeat("x", signals.MaxPayload) + `"`)}},
		"S2-25 ttl":        {"t1", "ttl", signals.Post{Payload: message, TTL: -1}},
		"S2-25 agents":     {"t1", "agents[1]", signals.Post{Payload: message, Agents: []string{"bot", "no good"}}},
		"S2-25 many":       {"t1", "agents", signals.Post{Payload: message, Agents: make([]string, 101)}},
		"S2-25 long ttl":   {"t1", "ttl", signals.Post{Payload: message, TTL: signals.MaxTTL + 1}},
		"S2-25 tools":      {"t1", "tools[0]", signals.Post{Payload: message, Tools: []string{"\x00"}}},
		"S2-25 many tools": {"t1", "tools", signals.Post{Payload: message, Tools: tooMany}},
		"S2-40 trace":      {"t1", "traceId", signals.Post{Payload: message, TraceID: strings.Repeat("x", 129)}},
		"S2-41 parent":     {"t1", "parentEventId", signals.Post{Payload: message, ParentEventID: "\xff"}},
		"token":            {"t1", "type", signals.Post{Type: event.TypeToken}},
		"long type":        {"t1", "type", signals.Post{Type: strings.Repeat("x", 129)}},
		"surplus":          {"t1", "payload.role", signals.Post{Payload: json.RawMessage(`{"role":"user"}`)}},
		"onBusy":           {"t1", "onBusy", signals.Post{Payload: message, OnBusy: "shout"}},
		"custom, not JSON": {"t1", "payload", signals.Post{Type: "x", Payload: json.RawMessage(`{`)}},
	} {
		t.Run(name, func(t *testing.T) {
			var field *event.FieldError
			err := Prepare(c.thread, &c.post)
			require.ErrorAs(t, err, &field)
			require.Equal(t, c.field, field.Field)
			if c.field != "threadId" {
				idle := thread.New("ns", c.thread, signals.Start{}, time.Now(), time.Now())
				require.Equal(t, err, idle.ValidatePost(c.post), "a thread says the same")
			}
		})
	}
	require.NoError(t, Prepare("t1", &signals.Post{Payload: message, OnBusy: event.OnBusyReject}), "only the thread knows whether it is busy")
}
