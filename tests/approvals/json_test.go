package approvals

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestJSONOverTemporal sends a thread ambiguous or too deep JSON, like a plain Temporal client. Its
// only effect is an audit record, and the thread continues.
func TestJSONOverTemporal(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {}`)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	decide := func(rest string) string {
		return fmt.Sprintf(`{"toolCallId":%q,"decision":"approve",%s}`, q.ToolCallID, rest)
	}
	message := func(fields string) string {
		return fmt.Sprintf(`{"payload":{"threadId":%q,"senderType":"user",%s}}`, c.id, fields)
	}
	attacks := []struct{ name, payload, problem string }{
		{signals.SignalDecide, decide(`"by":"ann","By":"eve"`), "By: is not by: upper and lower case matter"},
		{signals.SignalDecide, decide(`"BY":"ann"`), "BY: is not by"},
		{signals.SignalDecide, decide(`"by":"eve","by":"ann"`), "by: is given twice"},
		{signals.SignalDecide, decide(`"by":"ann\u200b"`), "by: contains U+200B, which cannot be seen"},
		{signals.SignalDecide, decide(`"by":"ann","toolArgs":` + deep), "more than 64 levels"},
		{signals.SignalPost, message(`"senderId":"ann","content":"hello","Content":"bye"`), "payload.Content: is not content"},
		{signals.SignalPost, message(`"senderId":"ann","content":"\u200b \n"`), "payload.content: is required"},
		{signals.SignalPost, message(`"senderId":"ann\u202e","content":"hello"`), "payload.senderId: contains U+202E"},
		{signals.SignalPost, message(`"senderId":"ann","content":"hello","metadata":{"x":` + deep + `}`), "more than 64 levels"},
		{signals.SignalPost, `{"type":"order.placed","payload":` + deep + `}`, "more than 64 levels"},
		{signals.SignalPost, `{"type":"NEW_MESSAGE","payload":{}}`, `use "message"`},
		{signals.SignalCompleteTask, fmt.Sprintf(`{"taskId":%q,"result":%s}`, signals.TaskID(c.id, 1), deep), "more than 64 levels"},
		{signals.SignalControl, `{"action":"interrupt","by":"ann\u200b"}`, "by: contains U+200B"},
		{signals.SignalControl, `{"action":"retry","Action":"close"}`, "Action: is not action"},
	}
	for _, a := range attacks {
		c.signals(a.name, json.RawMessage(a.payload))
	}
	problems := strings.Join(c.audited(len(attacks)), "\n")
	for _, a := range attacks {
		assert.Contains(t, problems, a.problem)
	}
	for update, payload := range map[string]string{
		signals.UpdateDecide: decide(`"by":"ann","By":"eve"`),
		signals.UpdatePost:   message(`"senderId":"ann","content":"hello","metadata":{"x":` + deep + `}`),
	} {
		handle, err := c.Temporal.UpdateWorkflow(c.Ctx(), client.UpdateWorkflowOptions{
			WorkflowID: signals.WorkflowID(c.TaskQueue, c.id), UpdateName: update, Args: []any{json.RawMessage(payload)},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(c.Ctx(), nil)
		}
		require.Error(t, err, update)
	}
	c.undecided(q)
	require.Empty(t, s.Seen())
	c.decides(signals.DecideAccepted, check.Approving(q))
	c.completes(posted)
	require.Len(t, s.Seen(), 1)
}

// TestOneBadRecord stores unreadable records: they do not affect others.
func TestOneBadRecord(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {}`)
	c.decides(signals.DecideAccepted, granting(q))
	c.completes(posted)
	c.runsUnasked(`use spied {}`)
	var bad []event.Record
	for _, typ := range []string{
		event.TypeMessage, event.TypeApproval, event.TypeApprovalRequest, event.TypeHook, event.TypeToolCall, event.TypeEnv, event.TypeStatus,
		event.TypeTask, event.TypeError, event.TypeFinal, event.TypeLLMCall, event.TypeRejected, event.TypeClientCall,
	} {
		for i, payload := range []string{`7`, `{"id":[],"toolCallId":{},"content":{},"by":1,"status":{},"agent":[]}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
			bad = append(bad, event.Record{ID: fmt.Sprintf("bad.%s.%d", typ, i), Type: typ, Payload: json.RawMessage(payload), CreatedAt: q.RequestedAt})
		}
	}
	_, err := c.Store.Append(c.Ctx(), store.Key{Namespace: c.TaskQueue, ThreadID: c.id}, store.Batch{Records: bad})
	require.NoError(t, err)

	for _, path := range []string{"", "/messages", "/approvals", "/grants", "/decisions", "/tasks", "/queue", "/world/messages"} {
		status, out := check.Request(t, c.Harness, "GET", "/v1/threads/"+c.id+path, nil)
		require.Equal(t, 200, status, "%s: %v", path, out)
	}
	c.completes(c.post("hello"))
	c.denied(`use spied {}`) // a new request: the unreadable record may be a revocation
}
