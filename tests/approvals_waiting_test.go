package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/world"
	"github.com/threadmill/threadmill/tool"
)

// happens publishes an event and waits until it is handled.
func (c talk) happens(id, typ string) signals.TurnResult {
	c.t.Helper()
	out, err := c.Threads.Turn(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{ID: id, Type: typ, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"path":"a.go"}`)}))
	require.NoError(c.t, err)
	return out
}

// TestWhileACallWaits has things happen, and people speak, while a call waits for approval.
func TestWhileACallWaits(t *testing.T) {
	s := newSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, world.Options{Tools: append(clientTools(), s)})
	for name, begin := range map[string]func(c talk) (posted, call string, end func()){
		"for approval": func(c talk) (string, string, func()) {
			posted, q := c.asks("use spied {}")
			return posted, q.ToolCallID, func() { c.decides(signals.Accepted, approving(q)) }
		},
		"for a client": func(c talk) (string, string, func()) {
			posted, call := c.atClient("use photo {}")
			return posted, call.ToolCallID, func() {
				c.answers(signals.Accepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a photo"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := o.talk(t)
			posted, call, end := begin(c)
			said := c.post("hello")
			require.Equal(t, signals.TurnCompleted, c.happens("changed", "file.changed").Status, "an event is handled meanwhile")
			var told *shownMessage
			last := modelCalls(c.World)[len(modelCalls(c.World))-1]
			for i, m := range last.Messages {
				if m.ToolCallID == call {
					told = &last.Messages[i]
				}
			}
			require.NotNil(t, told, "its agent is shown the call")
			require.Contains(t, told.Content, "Do not repeat the call.")
			require.Contains(t, last.raw, "file.changed")

			require.NotContains(t, results(c.World, c.id), call, "and the call waits on")
			queue, err := c.Threads.Queue(c.Ctx(), c.id)
			require.NoError(t, err)
			require.Equal(t, said, only(t, queue.Items).ID, "what people say waits its turn")
			require.False(t, slices.ContainsFunc(c.Messages(c.id), func(m event.Message) bool { return m.ID == said }))

			end()
			c.completes(posted)
			c.completes(said)
			var order []string
			for _, m := range c.Messages(c.id) {
				if m.ID == said || m.ToolCallID == call {
					order = append(order, m.ID)
				}
			}
			require.Equal(t, []string{call + ".result", said}, order)
			requireSettled(t, c.World, c.id)
		})
	}
}

// TestQuestionsWaitTheirTurn asks an agent, by an event, for the call that waits.
func TestQuestionsWaitTheirTurn(t *testing.T) {
	s := newSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, world.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}}}})
	c := o.talk(t)
	posted, q := c.asks("use spied {}")
	happened, err := c.Threads.StartTurn(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{
		ID: "asked", Type: event.TypeUserQuery, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"content":"use spied {}"}`),
	}))
	require.NoError(t, err)
	require.Equal(t, q.ToolCallID, c.AwaitApproval(c.id, 1)[0].ToolCallID, "what a person asks for waits its turn")
	c.decides(signals.Accepted, granting(q))
	c.completes(posted)
	out, err := happened.Result(c.Ctx())
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Len(t, s.seen(), 2, "by then it was granted")
}

// TestTwoTurnsWait has calls of two turns wait at the same time: a grant of one covers the
// other.
func TestTwoTurnsWait(t *testing.T) {
	s := newSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, world.Options{Tools: []tool.Tool{s}, Provider: llmtest.Config{Script: func(req llm.Request) string {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == event.RoleUser && strings.Contains(last.Content, "Process event: file.changed") {
			return "use spied {}"
		}
		return ""
	}}})
	c := o.talk(t)
	posted, first := c.asks("use spied {}")
	_, err := c.Threads.PostUpdate(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{ID: "changed", Type: "file.changed", Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{}`)}))
	require.NoError(t, err)
	waiting := c.AwaitApproval(c.id, 2)
	second := waiting[slices.IndexFunc(waiting, func(q event.ApprovalRequest) bool { return q.ToolCallID != first.ToolCallID })]
	require.Equal(t, first.Digest, second.Digest)
	c.decides(signals.Accepted, granting(first))
	c.completes(posted)
	c.completes("changed")
	require.Len(t, s.seen(), 2)
	require.Equal(t, first.ToolCallID, only(t, approvalsOf(c.World, c.id, second.ToolCallID)).Grant)
	requireSettled(t, c.World, c.id)
}

// TestWaitingIsListed lists what waits across threads, and finds it in Temporal.
func TestWaitingIsListed(t *testing.T) {
	s := newSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, world.Options{Tools: []tool.Tool{s}})
	first, second, quiet := o.talk(t), o.talk(t), o.talk(t)
	quiet.Say(quiet.id, "hello")
	first.hasStatus(signals.StatusOpen)

	postedFirst, one := first.asks("use spied {}")
	postedSecond, two := second.asks("use spied {}")
	first.hasStatus(signals.StatusWaitingApproval)
	second.hasStatus(signals.StatusWaitingApproval)
	quiet.hasStatus(signals.StatusOpen)
	require.Equal(t, []string{first.id + " " + one.ToolCallID, second.id + " " + two.ToolCallID}, first.listed(2), "the longest first")

	first.decides(signals.Accepted, denying(one))
	first.completes(postedFirst)
	first.hasStatus(signals.StatusOpen)
	require.Equal(t, []string{second.id + " " + two.ToolCallID}, first.listed(1))

	second.decides(signals.Accepted, approving(two))
	second.completes(postedSecond)
	require.Empty(t, second.listed(0))
	second.hasStatus(signals.StatusOpen)
	_, three := second.asks("use spied {}")
	second.hasStatus(signals.StatusWaitingApproval)
	require.Equal(t, []string{second.id + " " + three.ToolCallID}, second.listed(1))
	closed(t, second.World, second.id)
	second.hasStatus(signals.StatusClosed)
	require.Empty(t, second.listed(0))
}

// hasStatus waits until Temporal's visibility finds the thread by a status.
func (c talk) hasStatus(status string) {
	c.t.Helper()
	query := fmt.Sprintf("WorkflowId = %q AND %s = %q", signals.WorkflowID(c.TaskQueue, c.id), signals.AttributeStatus, status)
	require.Eventually(c.t, func() bool {
		found, err := c.Temporal.ListWorkflow(c.Ctx(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		return err == nil && len(found.GetExecutions()) == 1
	}, waitLong, waitTick, "thread %s is %s", c.id, status)
}

// listed waits until n calls are listed across threads, and names them with their threads. A
// thread that is slow to answer is left out for once, and without any other it is an error.
func (c talk) listed(n int) (calls []string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		status, out := request(c.t, c.World, http.MethodGet, "/v1/approvals", nil)
		if status != http.StatusOK {
			return false
		}
		calls = nil
		for _, one := range objects(c.t, out["approvals"]) {
			asked := objects(c.t, []any{one["request"]})[0]
			calls = append(calls, fmt.Sprintf("%s %s", one["threadId"], asked["toolCallId"]))
		}
		return len(calls) == n
	}, waitLong, waitTick, "%d calls are listed", n)
	return calls
}

// objects reads a list of JSON objects.
func objects(t *testing.T, list any) (out []map[string]any) {
	t.Helper()
	items, isList := list.([]any)
	require.True(t, isList, "%v is a list", list)
	for _, item := range items {
		object, isObject := item.(map[string]any)
		require.True(t, isObject, "%v is an object", item)
		out = append(out, object)
	}
	return out
}

// TestRevokedMeansStored takes grants back: from the answer on, no call runs by them.
func TestRevokedMeansStored(t *testing.T) {
	s := newSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, world.Options{Tools: []tool.Tool{s}}).talk(t)
	for n := range 3 {
		call := fmt.Sprintf(`use spied {"n":%d}`, n)
		posted, q := c.asks(call)
		c.decides(signals.Accepted, granting(q))
		c.completes(posted)
		path := "/v1/threads/" + c.id + "/grants"
		_, out := request(t, c.World, http.MethodGet, path, nil)
		require.Equal(t, q.ToolCallID, only(t, objects(c.t, out["grants"]))["id"])

		status, out := request(t, c.World, http.MethodDelete, path+"/"+q.ToolCallID+"?by=ben&reason=too+wide", nil)
		require.Equal(t, http.StatusOK, status, out)
		require.Equal(t, "accepted", out["result"])
		all := approvalsOf(c.World, c.id, q.ToolCallID)
		require.Len(t, all, 2, "by now it is stored")
		require.Equal(t, []any{event.ApprovalRevoked, "ben", "too wide"}, []any{all[1].Decision, all[1].By, all[1].Reason})
		_, out = request(t, c.World, http.MethodGet, path, nil)
		require.Empty(t, out["grants"])
		c.denied(call)

		status, out = request(t, c.World, http.MethodDelete, path+"/"+q.ToolCallID, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "already_resolved", out["result"])
	}
	status, out := request(t, c.World, http.MethodDelete, "/v1/threads/"+c.id+"/grants/call_of_nobody", nil)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "not_pending", out["result"])
	require.Len(t, s.seen(), 3)
}
