package approvals

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
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// happens publishes an event and waits until it is handled.
func (c talk) happens(id, typ string) signals.TurnResult {
	c.t.Helper()
	out, err := c.Threads.Turn(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{ID: id, Type: typ, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"path":"a.go"}`)}))
	require.NoError(c.t, err)
	return out
}

// TestWhileACallWaits publishes events and posts messages while a call waits for approval.
func TestWhileACallWaits(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: append(check.ClientTools(), s)})
	for name, begin := range map[string]func(c talk) (posted, call string, end func()){
		"for approval": func(c talk) (string, string, func()) {
			posted, q := c.asks("use spied {}")
			return posted, q.ToolCallID, func() { c.decides(signals.DecideAccepted, check.Approving(q)) }
		},
		"for a client": func(c talk) (string, string, func()) {
			posted, call := c.atClient("use photo {}")
			return posted, call.ToolCallID, func() {
				c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a photo"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := o.talk(t)
			posted, call, end := begin(c)
			shownPending := func(text string) {
				t.Helper()
				var told *llm.Message
				last := check.ModelCalls(c.Harness)[len(check.ModelCalls(c.Harness))-1]
				for i, m := range last.Messages {
					if m.ToolCallID == call {
						told = &last.Messages[i]
					}
				}
				require.NotNil(t, told, "its agent is shown the call")
				require.Contains(t, told.Content, "Do not repeat the call.")
				require.Contains(t, last.Raw, text)
			}
			require.Equal(t, signals.TurnCompleted, c.happens("changed", "file.changed").Status, "an event is handled meanwhile")
			shownPending("file.changed")
			steers := check.Message(c.id, "steers", "are you there?")
			steers.OnBusy = event.OnBusySteer
			for _, p := range []signals.Post{check.Message(c.id, "says", "hello"), steers} {
				out, err := c.Threads.Turn(c.Ctx(), c.id, p)
				require.NoError(t, err)
				require.Equal(t, signals.TurnCompleted, out.Status, "what people say is answered meanwhile")
				require.NotEmpty(t, out.Message.Content)
				shownPending("hello")
			}
			require.NotContains(t, check.Results(c.Harness, c.id), call, "and the call waits on")

			end()
			c.completes(posted)
			require.Contains(t, c.lastShown(), "are you there?", "the agent knows both conversations")
			var order []string
			for _, m := range c.Messages(c.id) {
				if m.ID == "steers" || m.ToolCallID == call {
					order = append(order, m.ID)
				}
			}
			require.Equal(t, []string{"steers", call + ".result"}, order)
			check.RequireSettled(t, c.Harness, c.id)
		})
	}
}

// TestSameCallWhileItWaits: when a message and an event make the agent repeat a pending call, there
// is no second request, and the call runs once.
func TestSameCallWhileItWaits(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{{Name: "clerk", Model: "openai/stand-in", Tools: []string{"spied"}}}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {"a":1,"b":2}`)
	c.completes(c.post(`use spied { "b": 2, "a": 1 }`))
	require.Contains(t, c.lastShown(), "as call "+q.ToolCallID, "the agent is told")
	happened, err := c.Threads.StartTurn(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{
		ID: "asked", Type: event.TypeUserQuery, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{"content":"use spied {\"a\":1,\"b\":2}"}`),
	}))
	require.NoError(t, err)
	out, err := happened.Result(c.Ctx())
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, out.Status)
	check.Only(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest))

	other := c.post(`use spied {"a":2}`)
	require.Len(t, c.AwaitApproval(c.id, 2), 2, "another call asks")
	c.decides(signals.DecideAccepted, check.Approving(q))
	c.completes(posted)
	for _, waits := range c.AwaitApproval(c.id, 1) {
		c.decides(signals.DecideAccepted, check.Denying(waits))
	}
	c.completes(other)
	require.Len(t, s.Seen(), 1)
	check.RequireSettled(t, c.Harness, c.id)
}

// TestOnWaiting covers onWaiting of agents and of posts.
//
//ci:replayed
func TestOnWaiting(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	on := func(name string, o event.OnWaiting) agent.Agent {
		return agent.Agent{Name: name, Model: "openai/stand-in", Tools: []string{"spied"}, OnWaiting: o}
	}
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		on("answers", ""), on("holds", event.OnWaitingHold), on("cancels", event.OnWaitingCancel),
	}})
	say := func(c talk, id, onWaiting string) {
		body := map[string]any{"id": id, "sender": "ann", "content": "hello " + id}
		if onWaiting != "" {
			body["onWaiting"] = onWaiting
		}
		status, out := check.Request(c.t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/messages", body)
		require.Equal(c.t, http.StatusAccepted, status, out)
	}
	for _, tc := range []struct{ agent, post string }{{"holds", ""}, {"answers", "hold"}, {"cancels", "hold"}} {
		t.Run("held, agent "+tc.agent+" post "+tc.post, func(t *testing.T) {
			c := o.talk(t, tc.agent)
			posted, q := c.asks("use spied {}")
			say(c, "m2", tc.post)
			require.Equal(t, signals.TurnCompleted, c.happens("changed", "file.changed").Status, "events are handled")
			queue, err := c.Threads.Queue(c.Ctx(), c.id)
			require.NoError(t, err)
			require.Equal(t, "m2", check.Only(t, queue.Items).ID)
			c.decides(signals.DecideAccepted, check.Approving(q))
			c.completes(posted)
			c.completes("m2")
			check.RequireSettled(t, c.Harness, c.id)
		})
	}
	for _, tc := range []struct{ agent, post string }{{"cancels", ""}, {"answers", "cancel"}} {
		t.Run("cancelled, agent "+tc.agent+" post "+tc.post, func(t *testing.T) {
			c := o.talk(t, tc.agent)
			seen := len(s.Seen())
			posted, q := c.asks("use spied {}")
			viewer := check.Watch(t, c.Harness, c.id, "")
			say(c, "m2", tc.post)
			viewer.Shows(t, q.ToolCallID, event.EventApproval, event.EventToolResult)
			c.completes(posted)
			c.completes("m2")
			made := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
			require.Equal(t, event.DecisionDeny, made.Decision)
			require.Contains(t, made.Reason, "m2")
			require.Contains(t, c.result(q).Content, "because ann wrote a message instead")
			require.Contains(t, c.lastShown(), "hello m2")
			c.decides(signals.DecideConflict, check.Approving(q))
			require.Len(t, s.Seen(), seen)
			require.Len(t, check.OfType(c.Harness, c.id, event.TypeLLMCall), 2, "one reply answers both")
			check.RequireSettled(t, c.Harness, c.id)
		})
	}
	t.Run("refused", func(t *testing.T) {
		status, out := check.Request(t, o.Harness, http.MethodPost, "/v1/threads/"+o.Open()+"/messages",
			map[string]any{"sender": "ann", "content": "x", "onWaiting": "shout"})
		require.Equal(t, http.StatusUnprocessableEntity, status, out)
	})
}

// TestTwoTurnsWait: a grant in one waiting turn covers a call in another.
//
//ci:replayed
func TestTwoTurnsWait(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Provider: llmtest.Config{Script: func(req llm.Request) string {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == event.RoleUser && strings.Contains(last.Content, "Process event: file.changed") {
			return `use spied {"n":"b"}`
		}
		return ""
	}}})
	c := o.talk(t)
	posted, first := c.asks(`use spied {"n":"a"}`)
	_, err := c.Threads.Post(c.Ctx(), c.id, signals.EnvPost(event.EnvEvent{ID: "changed", Type: "file.changed", Timestamp: 1_700_000_000_000, Payload: json.RawMessage(`{}`)}))
	require.NoError(t, err)
	waiting := c.AwaitApproval(c.id, 2)
	second := waiting[slices.IndexFunc(waiting, func(q event.ApprovalRequest) bool { return q.ToolCallID != first.ToolCallID })]
	d := check.Approving(first)
	d.Scope, d.Pattern = event.ScopePattern, map[string]string{"n": "*"}
	c.decides(signals.DecideAccepted, d)
	c.completes(posted)
	c.completes("changed")
	require.Len(t, s.Seen(), 2)
	require.Equal(t, first.ToolCallID, check.Only(t, check.ApprovalsOf(c.Harness, c.id, second.ToolCallID)).Grant)
	check.RequireSettled(t, c.Harness, c.id)
}

// TestWaitingIsListed lists pending requests across threads, and finds the threads in Temporal.
func TestWaitingIsListed(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	first, second, quiet := o.talk(t), o.talk(t), o.talk(t)
	quiet.Say(quiet.id, "hello")
	first.hasStatus(signals.StatusOpen)

	postedFirst, one := first.asks("use spied {}")
	postedSecond, two := second.asks("use spied {}")
	first.hasStatus(signals.StatusWaitingApproval)
	second.hasStatus(signals.StatusWaitingApproval)
	quiet.hasStatus(signals.StatusOpen)
	require.Equal(t, []string{first.id + " " + one.ToolCallID, second.id + " " + two.ToolCallID}, first.listed(2), "the longest first")

	first.decides(signals.DecideAccepted, check.Denying(one))
	first.completes(postedFirst)
	first.hasStatus(signals.StatusOpen)
	require.Equal(t, []string{second.id + " " + two.ToolCallID}, first.listed(1))

	second.decides(signals.DecideAccepted, check.Approving(two))
	second.completes(postedSecond)
	require.Empty(t, second.listed(0))
	second.hasStatus(signals.StatusOpen)
	_, three := second.asks("use spied {}")
	second.hasStatus(signals.StatusWaitingApproval)
	require.Equal(t, []string{second.id + " " + three.ToolCallID}, second.listed(1))
	check.Closed(t, second.Harness, second.id)
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
	}, testenv.Patience, testenv.Tick, "thread %s is %s", c.id, status)
}

// listed waits until n calls are listed across threads, and names them with their threads. A slow
// thread may be missing for a moment, and if no other is listed the response is an error.
func (c talk) listed(n int) (calls []string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		status, out := check.Request(c.t, c.Harness, http.MethodGet, "/v1/approvals", nil)
		if status != http.StatusOK {
			return false
		}
		calls = nil
		for _, one := range objects(c.t, out["approvals"]) {
			asked := objects(c.t, []any{one["request"]})[0]
			calls = append(calls, fmt.Sprintf("%s %s", one["threadId"], asked["toolCallId"]))
		}
		return len(calls) == n
	}, testenv.Patience, testenv.Tick, "%d calls are listed", n)
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

// TestRevokedMeansStored: after the response to a revocation, no call runs by the grant.
func TestRevokedMeansStored(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	for n := range 3 {
		call := fmt.Sprintf(`use spied {"n":%d}`, n)
		posted, q := c.asks(call)
		c.decides(signals.DecideAccepted, granting(q))
		c.completes(posted)
		path := "/v1/threads/" + c.id + "/grants"
		_, out := check.Request(t, c.Harness, http.MethodGet, path, nil)
		require.Equal(t, q.ToolCallID, check.Only(t, objects(c.t, out["grants"]))["id"])

		status, out := check.Request(t, c.Harness, http.MethodDelete, path+"/"+q.ToolCallID+"?by=ben&reason=too+wide", nil)
		require.Equal(t, http.StatusOK, status, out)
		require.Equal(t, "accepted", out["result"])
		all := check.ApprovalsOf(c.Harness, c.id, q.ToolCallID)
		require.Len(t, all, 2, "by now it is stored")
		require.Equal(t, []any{event.DecisionRevoked, "ben", "too wide"}, []any{all[1].Decision, all[1].By, all[1].Reason})
		_, out = check.Request(t, c.Harness, http.MethodGet, path, nil)
		require.Empty(t, out["grants"])
		c.denied(call)

		status, out = check.Request(t, c.Harness, http.MethodDelete, path+"/"+q.ToolCallID, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "already_resolved", out["result"])
	}
	status, out := check.Request(t, c.Harness, http.MethodDelete, "/v1/threads/"+c.id+"/grants/call_of_nobody", nil)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "not_pending", out["result"])
	require.Len(t, s.Seen(), 3)
}
