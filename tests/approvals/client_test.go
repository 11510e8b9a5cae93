package approvals

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// atClient makes the agent call a client-side tool, and returns the call that the client gets.
func (c talk) atClient(lines ...string) (posted string, call event.ClientCall) {
	c.t.Helper()
	posted = c.post(lines...)
	call = c.awaitClient(1)[0]
	require.Eventually(c.t, func() bool {
		stored, err := c.Store.RecordsByID(c.Ctx(), c.Key(c.id), call.ToolCallID+".client")
		return err == nil && len(stored) == 1
	}, testenv.Patience, testenv.Tick)
	c.rests()
	return posted, c.awaitClient(1)[0]
}

func (c talk) awaitClient(n int) (calls []event.ClientCall) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		out, err := c.Threads.Approvals(c.Ctx(), c.id)
		calls = out.ClientCalls
		return err == nil && len(calls) == n
	}, testenv.Patience, testenv.Tick, "%d calls wait for a client", n)
	return calls
}

// answers returns a result of a call by update, and requires an outcome.
func (c talk) answers(want signals.DecideOutcome, r signals.ToolResult) {
	c.t.Helper()
	if r.By == "" {
		r.By = "browser"
	}
	out, err := c.Threads.ToolResult(c.Ctx(), c.id, r)
	require.NoError(c.t, check.Unrefused(err))
	require.Equal(c.t, want, out)
}

// answered checks the one result of a client's call.
func (c talk) answered(call event.ClientCall, output string, isError bool) {
	c.t.Helper()
	m := c.resultOf(call.ToolCallID)
	require.Equal(c.t, output, m.Content)
	require.Equal(c.t, isError, m.IsError)
	require.Equal(c.t, event.RoleTool, m.Role)
	require.Equal(c.t, call.ToolName, m.ToolName)
	require.Equal(c.t, call.MessageID, m.ReplyToMessageID)
}

// TestClientRunsTools lets a connected client run calls.
//
//ci:replayed
func TestClientRunsTools(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{NoWorker: true, Tools: check.ClientTools()})
	stop := o.StartWorker()
	t.Run("answered by update", func(t *testing.T) {
		c := o.talk(t)
		view := check.Watch(t, c.Harness, c.id, "")
		posted, call := c.atClient(`use photo {"of":"desk"}`)
		require.Equal(t, []string{"photo", `{"of":"desk"}`, "assistant"}, []string{call.ToolName, call.Arguments, call.Agent})
		require.Equal(t, tool.DefaultDeadline, call.ExpiresAt.Sub(call.RequestedAt))
		require.Equal(t, call, harness.Payload[event.ClientCall](c.Harness, check.Only(t, check.OfType(c.Harness, c.id, event.TypeClientCall))))
		shown := view.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventClientCall })
		require.Equal(t, call.ToolCallID, shown[len(shown)-1].Event.ClientCall.ToolCallID)
		require.Empty(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest))

		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a desk"})
		c.completes(posted)
		c.answered(call, "a desk", false)
		require.Equal(t, "browser", check.Results(c.Harness, c.id)[call.ToolCallID].Metadata["by"], "who has run it is kept")
		require.Contains(t, c.lastShown(), "a desk")
		c.awaitClient(0)
	})
	t.Run("answered by signal, with an error", func(t *testing.T) {
		c := o.talk(t)
		posted, call := c.atClient(`use photo {}`)
		c.signals(signals.SignalToolResult, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "no light", IsError: true, By: "browser"})
		c.completes(posted)
		c.answered(call, "no light", true)
	})
	t.Run("answered over the API", func(t *testing.T) {
		c := o.talk(t)
		posted, call := c.atClient(`use photo {}`)
		status, out := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/tool-calls/"+call.ToolCallID+"/result",
			map[string]any{"output": map[string]any{"desks": 1}, "by": "browser"})
		require.Equal(t, http.StatusOK, status, out)
		c.completes(posted)
		c.answered(call, `{"desks":1}`, false)
	})
	t.Run("arguments that do not fit never reach it", func(t *testing.T) {
		c := o.talk(t)
		c.completes(c.post(`use photo {"of":7}`))
		require.Empty(t, check.OfType(c.Harness, c.id, event.TypeClientCall))
		require.Contains(t, check.ResultIn(t, c.Harness, c.id, "photo").Content, "Tool parameter validation failed for photo")
	})
	t.Run("several calls, each by itself", func(t *testing.T) {
		c := o.talk(t)
		posted := c.post(`use photo {"of":"a"}`, `use photo {"of":"b"}`, "use note {}")
		calls := c.awaitClient(2)
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: calls[1].ToolCallID, Output: calls[1].Arguments})
		c.awaitClient(1)
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: calls[0].ToolCallID, Output: calls[0].Arguments})
		c.completes(posted)
		for _, call := range calls {
			c.answered(call, call.Arguments, false)
		}
		check.RequireSettled(t, c.Harness, c.id)
	})
	t.Run("the worker goes, and comes back", func(t *testing.T) {
		c := o.talk(t)
		posted, call := c.atClient(`use photo {}`)
		stop()
		c.signals(signals.SignalToolResult, signals.ToolResult{ToolCallID: "call_of_nobody", Output: "x", By: "browser"})
		o.StartWorker()
		require.Equal(t, call, c.awaitClient(1)[0])
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "still here"})
		c.completes(posted)
		c.answered(call, "still here", false)
		require.Equal(t, []string{"not_pending"}, c.audited(1))
	})
}

// TestClientAnswersThatDoNotFit: invalid results change nothing.
func TestClientAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{Tools: check.ClientTools(), Agents: []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"photo", "glance", "record"}}, {Name: "bob", Model: "openai/stand-in", Tools: []string{"photo"}},
	}})
	byHTTP := func(t *testing.T, c talk, status int, want signals.DecideOutcome, r signals.ToolResult) {
		t.Helper()
		body := map[string]any{"output": r.Output, "by": "browser"}
		if r.Agent != "" {
			body["agent"] = r.Agent
		}
		got, out := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/tool-calls/"+r.ToolCallID+"/result", body)
		require.Equal(t, status, got, out)
		require.Equal(t, string(want), out["result"])
	}
	t.Run("another agent's, another tool's, another thread's", func(t *testing.T) {
		c, other := o.talk(t, "alice", "bob"), o.talk(t, "alice", "bob")
		posted, call := c.atClient("@alice", "use photo {}")
		other.Say(other.id, "@alice hello")
		for _, r := range []signals.ToolResult{{Agent: "bob"}, {Agent: "carol"}, {ToolName: "record"}} {
			r.ToolCallID, r.Output = call.ToolCallID, "forged"
			c.answers(signals.DecideMismatch, r)
		}
		byHTTP(t, c, http.StatusConflict, signals.DecideMismatch, signals.ToolResult{ToolCallID: call.ToolCallID, Agent: "bob"})
		other.answers(signals.DecideNotPending, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "forged"})
		byHTTP(t, other, http.StatusNotFound, signals.DecideNotPending, signals.ToolResult{ToolCallID: call.ToolCallID})
		c.decides(signals.DecideNotPending, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		require.Equal(t, call, c.awaitClient(1)[0])
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "mine", Agent: "ALICE", ToolName: "Photo"})
		c.completes(posted)
		c.answered(call, "mine", false)
	})
	t.Run("the same twice, and another one then", func(t *testing.T) {
		c := o.talk(t, "alice")
		posted, call := c.atClient("use photo {}")
		first := signals.ToolResult{ToolCallID: call.ToolCallID, Output: "first", By: "browser"}
		c.answers(signals.DecideAccepted, first)
		c.answers(signals.DecideAlreadyResolved, first)
		byHTTP(t, c, http.StatusOK, signals.DecideAlreadyResolved, first)
		c.signals(signals.SignalToolResult, first)
		for _, r := range []signals.ToolResult{{Output: "second"}, {Output: "first", IsError: true}, {}} {
			r.ToolCallID, r.By = call.ToolCallID, "browser"
			c.answers(signals.DecideConflict, r)
			c.signals(signals.SignalToolResult, r)
		}
		c.completes(posted)
		c.answered(call, "first", false)
		require.Equal(t, []string{"conflict", "conflict", "conflict"}, c.audited(3))
	})
	t.Run("after its deadline", func(t *testing.T) {
		c := o.talk(t, "alice")
		c.completes(c.post("use glance {}"))
		// Looked up afterwards: the call may time out while a busy machine looks for it.
		call := harness.Payload[event.ClientCall](c.Harness, check.Only(t, check.OfType(c.Harness, c.id, event.TypeClientCall)))
		require.Equal(t, time.Second, call.ExpiresAt.Sub(call.RequestedAt))
		c.answered(call, "Error: no client has answered the call within 1s", true)
		c.tooLateFor(call)
		c.answered(call, "Error: no client has answered the call within 1s", true)
	})
	t.Run("after an interrupt", func(t *testing.T) {
		c := o.talk(t, "alice")
		posted, call := c.atClient("use photo {}")
		require.NoError(t, c.Threads.Control(c.Ctx(), c.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Await(t, c.Harness, c.id, posted).Status)
		c.answered(call, step.InterruptedText, true)
		c.awaitClient(0)
		c.tooLateFor(call)
		require.Equal(t, signals.TurnCompleted, c.Say(c.id, "are you well?").Status)
	})
	t.Run("after the thread was closed", func(t *testing.T) {
		c := o.talk(t, "alice")
		_, call := c.atClient("use photo {}")
		check.Closed(t, c.Harness, c.id)
		_, err := c.Threads.ToolResult(c.Ctx(), c.id, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "late", By: "browser"})
		require.ErrorIs(t, err, signals.ErrThreadClosed)
		check.RequireSettled(t, c.Harness, c.id)
	})
}

// tooLateFor returns a result of a call that already has one.
func (c talk) tooLateFor(call event.ClientCall) {
	c.t.Helper()
	kept := check.Results(c.Harness, c.id)
	late := signals.ToolResult{ToolCallID: call.ToolCallID, Output: "late", By: "browser"}
	c.answers(signals.DecideConflict, late)
	c.signals(signals.SignalToolResult, late)
	require.Equal(c.t, []string{"conflict"}, c.audited(1))
	require.Equal(c.t, kept, check.Results(c.Harness, c.id))
}

// TestClientRunsWhatIsApproved: a client gets a call only after its approval.
func TestClientRunsWhatIsApproved(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{Tools: check.ClientTools()})
	t.Run("approved: it waits for its client then", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asks(`use record {"of":"hall"}`)
		require.Equal(t, "people are seen", q.Reason)
		c.awaitClient(0)
		c.answers(signals.DecideNotPending, signals.ToolResult{ToolCallID: q.ToolCallID, Output: "ahead"})
		c.undecided(q)
		require.Empty(t, check.OfType(c.Harness, c.id, event.TypeClientCall))
		c.decides(signals.DecideAccepted, granting(q))
		call := c.awaitClient(1)[0]
		require.Equal(t, q.ToolCallID, call.ToolCallID)
		require.Equal(t, `{"of":"hall"}`, call.Arguments)
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a film"})
		c.completes(posted)
		c.answered(call, "a film", false)

		posted, call = c.atClient(`use record {"of":"hall"}`)
		require.Len(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest), 1, "it was granted")
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "another film"})
		c.completes(posted)
		c.denied(`use record {"of":"home"}`)
		require.Len(t, check.OfType(c.Harness, c.id, event.TypeClientCall), 2)
	})
	t.Run("denied: no client hears of it", func(t *testing.T) {
		c := o.talk(t)
		c.denied(`use record {}`)
		require.Empty(t, check.OfType(c.Harness, c.id, event.TypeClientCall))
		require.Equal(t, step.DeniedText, check.ResultIn(t, c.Harness, c.id, "record").Content)
	})
	t.Run("approved with other arguments: its client is given those", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asks(`use record {"of":"hall"}`)
		d := check.Approving(q)
		d.Args = json.RawMessage(`{"of":"door"}`)
		c.decides(signals.DecideAccepted, d)
		call := c.awaitClient(1)[0]
		require.Equal(t, `{"of":"door"}`, call.Arguments)
		c.answers(signals.DecideAccepted, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a door"})
		c.completes(posted)
		require.Contains(t, c.result(q).Content, "a door")
		require.Contains(t, c.result(q).Content, `{"of":"door"}`, "the model is told of it")
	})
}
