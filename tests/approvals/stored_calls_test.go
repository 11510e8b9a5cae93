package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// has checks the fields of a message as clients get it: these values, and only these other fields.
func has(t *testing.T, m map[string]any, want map[string]any, others ...string) {
	t.Helper()
	for field, value := range want {
		require.Equal(t, value, m[field], field)
	}
	for field := range m {
		if _, known := want[field]; !known {
			require.Contains(t, others, field)
		}
	}
	for _, field := range []string{"id", "threadId", "role", "seq", "createdAt", "senderId", "senderType"} {
		require.NotEmpty(t, m[field], field)
	}
}

// TestStoredShapes reads a turn with an approval like a client of the API.
func TestStoredShapes(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	e := w.Post(id, `use shell_cmd {"command":"echo hi"}`)
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
	require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
	messages := check.MessagesPage(t, w, id)
	require.Len(t, messages, 4)
	asked := messages[1]

	t.Run("S4-18 a person's message", func(t *testing.T) {
		has(t, messages[0], map[string]any{
			"id": e, "role": "user", "senderType": "user", "senderId": "ann", "threadId": id, "content": `use shell_cmd {"command":"echo hi"}`,
		}, "seq", "createdAt")
	})
	t.Run("S4-20 an agent's tool call", func(t *testing.T) {
		has(t, asked, map[string]any{
			"role": "assistant", "content": "", "agentId": "assistant", "senderId": "assistant", "senderType": "agent", "threadId": id,
			"replyToMessageId": e, "toolCalls": []any{map[string]any{
				"id": call, "function": map[string]any{"name": "shell_cmd", "arguments": `{"command":"echo hi"}`},
			}},
		}, "id", "seq", "createdAt", "usage", "durationMs")
	})
	t.Run("S4-22 a tool's result", func(t *testing.T) {
		has(t, messages[2], map[string]any{
			"role": "tool", "senderType": "tool", "senderId": "shell_cmd", "toolName": "shell_cmd", "toolCallId": call,
			"agentId": "assistant", "threadId": id, "replyToMessageId": asked["id"],
		}, "id", "seq", "createdAt", "content", "metadata")
		require.Contains(t, messages[2]["content"], "hi")
	})
	t.Run("S4-19 S4-23 S4-78 the agent's last message, after the approval too", func(t *testing.T) {
		has(t, messages[3], map[string]any{
			"role": "assistant", "agentId": "assistant", "senderId": "assistant", "senderType": "agent", "threadId": id, "replyToMessageId": e,
		}, "id", "seq", "createdAt", "content", "usage", "durationMs")
		require.NotEmpty(t, messages[3]["usage"])
		require.Contains(t, messages[3]["content"], "shell_cmd returned:")
	})
}

// TestProviderOnlyTalks: a provider does not run tools.
func TestProviderOnlyTalks(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
	model, err := openai.New(openai.Config{APIKey: "test", BaseURL: w.Provider.URL})
	require.NoError(t, err)
	var pieces string
	out, err := model.Generate(w.Ctx(), llm.Request{
		Model: "stand-in", Messages: []llm.Message{{Role: event.RoleUser, Content: "so be it\nuse spied {}\nuse shell_cmd {}"}},
		Tools: []llm.Tool{{Name: "spied"}, {Name: "shell_cmd"}},
	}, func(d llm.Delta) { pieces += d.Text })
	require.NoError(t, err)
	t.Run("S4-64 it returns text and calls", func(t *testing.T) {
		require.Equal(t, llm.TypeToolCalls, out.Type)
		require.Len(t, out.ToolCalls, 2)
		require.Equal(t, "so be it", out.Content)
	})
	t.Run("S4-66 it streams by its callback", func(t *testing.T) { require.Equal(t, out.Content, pieces) })
	t.Run("S4-65 it runs, stores, announces and asks nothing", func(t *testing.T) {
		require.Empty(t, s.Seen())
		threads, err := w.Store.Threads(w.Ctx(), w.TaskQueue, store.ThreadPage{})
		require.NoError(t, err)
		require.Empty(t, threads)
	})
}

func TestReplyIsPublished(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	w.Say(id, "hello")
	frames := view.Until(t, check.IsFinal)
	t.Run("S4-67 text is stored and announced", func(t *testing.T) {
		reply := w.Messages(id)[1]
		require.Equal(t, "hello", reply.Content)
		require.Equal(t, id, reply.ThreadID)
		announced := frames[len(frames)-2].Event
		require.Equal(t, event.EventMessage, announced.Type)
		require.False(t, announced.Message.CreatedAt.IsZero())
		announced.Message.CreatedAt = reply.CreatedAt
		require.Equal(t, reply, *announced.Message)
	})
	t.Run("S4-28 what is answered is stored before anything is made of it", func(t *testing.T) {
		types := w.Types(id)
		said, called := slices.Index(types, event.TypeMessage), slices.Index(types, event.TypeLLMCall)
		require.GreaterOrEqual(t, said, 0)
		require.Less(t, said, called)
		require.Equal(t, "ann", w.Messages(id)[0].SenderID)
	})
	t.Run("S4-67 nothing is announced when nothing was said", func(t *testing.T) {
		before := len(w.Messages(id))
		out := w.Say(id, "think about it")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		frames := view.Until(t, check.IsFinal)
		require.Equal(t, 1, check.Count(frames, event.EventMessage), "the person's own")
		require.Zero(t, check.Count(frames, event.EventStream))
		require.Len(t, w.Messages(id), before+1)
		require.Equal(t, signals.TurnCompleted, w.Say(id, "still there?").Status)
	})
}

// TestToolsRunByRegistry checks the input of a tool, and that agents have only their own tools.
func TestToolsRunByRegistry(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "able", Model: "openai/stand-in", Tools: []string{"spied"}},
		{Name: "plain", Model: "openai/stand-in", Tools: []string{"note"}},
	}})
	t.Run("S4-69 by name, with arguments and context", func(t *testing.T) {
		id := w.Open("able")
		w.Say(id, `use spied {"a":1}`)
		call := check.Only(t, s.Seen())
		require.Equal(t, `{"a":1}`, call.Arguments)
		require.Equal(t, []string{w.TaskQueue, id, "able"}, []string{call.Namespace, call.ThreadID, call.Agent})
		require.Equal(t, w.Messages(id)[1].ToolCalls[0].ID, call.ID)
		require.Equal(t, 1, call.Attempt)
		require.Equal(t, "seen", check.Results(w, id)[call.ID].Content)
	})
	t.Run("S4-69 S4-72 a tool that is not the agent's is unknown to it", func(t *testing.T) {
		id := w.Open("plain")
		out := w.Say(id, `use spied {}`)
		require.Len(t, s.Seen(), 1, "it did not run")
		m := w.Messages(id)[2]
		require.True(t, m.IsError)
		require.Contains(t, m.Content, `unknown tool "spied"`)
		require.Equal(t, signals.TurnCompleted, out.Status)
	})
}

// TestEveryCallIsAnswered: every kind of failed call has a result.
func TestEveryCallIsAnswered(t *testing.T) {
	t.Parallel()
	slow := check.NewGate("slow")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{slow, check.Failing}})
	answered := func(t *testing.T, id string) {
		check.RequireSettled(t, w, id)
		w.Provider.Reset()
		require.Equal(t, signals.TurnCompleted, w.Say(id, "are you well?").Status, "the thread is usable")
		check.RequireAnswered(t, check.Only(t, check.ModelCalls(w)).Messages)
	}
	for _, tc := range []struct{ name, says, want string }{
		{"an unknown tool", "use nothing {}", "unknown tool"},
		{"arguments that are not JSON", `use note {"text":`, "note"},
		{"arguments that do not fit", `use note {"text":7}`, "Error: Tool parameter validation failed for note"},
		{"an error", `use failing {"how":"error"}`, "unexpected EOF"},
		{"a panic", `use failing {"how":"panic"}`, "at the disco"},
		{"a result that says so", `use failing {"how":"luck"}`, "no luck"},
	} {
		if !json.Valid([]byte(tc.says[strings.Index(tc.says, "{"):])) && harness.Protocol() == "google" {
			continue // whose protocol has no such arguments
		}
		t.Run("S4-71 S4-72 X11 "+tc.name, func(t *testing.T) {
			id := w.Open()
			out := w.Say(id, tc.says+"\nuse note {}")
			require.Equal(t, signals.TurnCompleted, out.Status, "the loop goes on")
			require.Contains(t, out.Message.Content, "note returned:", "siblings too")
			m := check.Results(w, id)[w.Messages(id)[1].ToolCalls[0].ID]
			require.True(t, m.IsError)
			require.Contains(t, m.Content, tc.want)
			answered(t, id)
		})
	}
	t.Run("S4-71 an interrupt while one runs and one waits", func(t *testing.T) {
		id := w.Open()
		e := w.Post(id, "use slow {}\nuse shell_cmd {\"command\":\"touch ran\"}\nuse note {}")
		<-slow.Reached
		w.AwaitApproval(id, 1)
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, e).Status)
		require.Eventually(t, func() bool { return len(check.Results(w, id)) == 3 }, testenv.Patience, testenv.Tick)
		require.NoFileExists(t, w.Shell+"/ran")
		answered(t, id)
	})
	t.Run("S4-71 S4-82 a denial", func(t *testing.T) {
		id := w.Open()
		e := w.Post(id, "use shell_cmd {\"command\":\"touch ran\"}\nuse note {}")
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideAccepted, out.Result)
		require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
		require.Equal(t, "Tool execution was denied by the user.", check.Results(w, id)[call].Content)
		require.NoFileExists(t, w.Shell+"/ran")
		answered(t, id)
	})
	t.Run("S4-71 the thread is closed", func(t *testing.T) {
		id := w.Open()
		w.Post(id, "use shell_cmd {\"command\":\"touch ran\"}")
		w.AwaitApproval(id, 1)
		check.Closed(t, w, id)
		check.RequireSettled(t, w, id)
	})
}

// TestDecisionsThatDoNotFit decides on calls that do not exist in the thread.
func TestDecisionsThatDoNotFit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	mine, other := w.Open(), w.Open()
	e := w.Post(mine, `use shell_cmd {"command":"touch ran"}`)
	call := w.AwaitApproval(mine, 1)[0].ToolCallID
	w.Say(other, "hello")
	before := w.Records(other)

	for _, id := range []string{call, "call_nobody_knows"} {
		t.Run("S4-91 nothing is changed by "+map[bool]string{true: "another thread's call", false: "an unknown call"}[id == call], func(t *testing.T) {
			require.Equal(t, signals.DecideNotPending, check.Approve(t, w, other, id))
			status, problem := check.Request(t, w, http.MethodPost, "/v1/threads/"+other+"/approvals/"+id, map[string]any{"by": "ann", "decision": "approve"})
			require.Equal(t, http.StatusNotFound, status, problem)
			require.Equal(t, "not_pending", problem["result"])
			require.Equal(t, before, w.Records(other))
		})
	}
	t.Run("S4-91 of a signal an audit record stays", func(t *testing.T) {
		signal(t, w, other, map[string]any{"toolCallId": call, "decision": "approve", "by": "eve"})
		require.Eventually(t, func() bool { return len(w.Records(other)) > len(before) }, testenv.Patience, testenv.Tick)
		r := harness.Payload[event.Rejected](w, check.Only(t, w.Records(other)[len(before):]))
		require.Equal(t, "decide", r.Signal)
		require.Equal(t, "not_pending", r.Problem)
		require.Contains(t, r.Input, "eve")
	})
	t.Run("S4-91 of another agent or tool neither", func(t *testing.T) {
		for _, d := range []signals.Decide{{Agent: "another"}, {ToolName: "note"}} {
			d.ToolCallID, d.Decision, d.By = call, event.DecisionApprove, "eve"
			out, err := w.Threads.Decide(w.Ctx(), mine, d)
			require.NoError(t, check.Unrefused(err))
			require.Equal(t, signals.DecideMismatch, out.Result)
		}
	})
	t.Run("S4-91 the call still waits, and has not run", func(t *testing.T) {
		require.Equal(t, call, w.AwaitApproval(mine, 1)[0].ToolCallID)
		require.NoFileExists(t, w.Shell+"/ran")
		require.Empty(t, check.ToolLogs(w, mine))
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, mine, call))
		require.Equal(t, signals.TurnCompleted, w.Await(mine, e).Status)
		require.FileExists(t, w.Shell+"/ran")
	})
}

// signal sends a decision like a plain client.
func signal(t *testing.T, w *harness.Harness, thread string, decision map[string]any) {
	t.Helper()
	require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalDecide, decision))
}

// TestStoredArgumentsRun: the stored arguments run, whatever a decision says.
func TestStoredArgumentsRun(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval("it spies"))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
	id := w.Open()
	e := w.Post(id, `use spied {"as":"stored"}`)
	call := w.AwaitApproval(id, 1)[0]
	t.Run("S4-93 the API takes no other call", func(t *testing.T) {
		status, problem := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/approvals/"+call.ToolCallID,
			map[string]any{"by": "ann", "decision": "approve", "toolArgs": map[string]any{"as": "told"}})
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "mismatch", problem["result"])
		require.Empty(t, s.Seen())
	})
	t.Run("S4-93 S4-95 those of a signal are not what runs", func(t *testing.T) {
		signal(t, w, id, map[string]any{
			"toolCallId": call.ToolCallID, "decision": "approve", "by": "eve", "arguments": `{"as":"told"}`, "parameters": `{"as":"told"}`,
		})
		require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
		require.Equal(t, `{"as":"stored"}`, check.Only(t, s.Seen()).Arguments)
		require.JSONEq(t, `{"as":"stored"}`, string(check.Only(t, check.ToolLogs(w, id)).Input))
		request := harness.Payload[event.ApprovalRequest](w, check.Only(t, check.OfType(w, id, event.TypeApprovalRequest)))
		require.Equal(t, `{"as":"stored"}`, request.Arguments, "what was shown is what ran")
		require.Equal(t, "it spies", request.Reason)
		decided := harness.Payload[event.Approval](w, check.Only(t, check.OfType(w, id, event.TypeApproval)))
		require.Equal(t, "eve", decided.By)
		require.Len(t, check.Results(w, id), 1)
	})
}

// TestManyDecisions: ten people approve the same call concurrently, over every entry point.
//
//ci:replayed
func TestManyDecisions(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
	id := w.Open()
	e := w.Post(id, `use spied {}`)
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[signals.DecideOutcome]int{}
	tally := func(o signals.DecideOutcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[o]++
	}
	for range 10 {
		wg.Go(func() {
			out, err := w.Threads.Decide(context.Background(), id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
			if assert.NoError(t, err) {
				tally(out.Result)
			}
		})
		wg.Go(func() {
			_, out := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/approvals/"+call, map[string]any{"by": "ann", "decision": "approve"})
			tally(signals.DecideOutcome(fmt.Sprint(out["result"])))
		})
	}
	wg.Wait()
	for range 5 {
		signal(t, w, id, map[string]any{"toolCallId": call, "decision": "approve", "by": "ann"})
	}
	require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
	w.Say(id, "are you done?") // afterwards the thread has handled the last signal
	t.Run("S4-94 one execution", func(t *testing.T) {
		require.Len(t, s.Seen(), 1)
		require.Equal(t, map[signals.DecideOutcome]int{signals.DecideAccepted: 1, signals.DecideAlreadyResolved: 19}, outcomes)
	})
	t.Run("S4-94 S4-95 one decision and one result are kept", func(t *testing.T) {
		require.Len(t, check.OfType(w, id, event.TypeApproval), 1)
		require.Len(t, check.Results(w, id), 1)
		require.Len(t, check.ToolLogs(w, id), 1)
	})
	t.Run("S4-94 who decides otherwise is told so", func(t *testing.T) {
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny, By: "bob"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideConflict, out.Result)
	})
}

// TestAnyToolCanAsk requires approval for every tool.
func TestAnyToolCanAsk(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied")
	w := harness.New(t, harness.Options{NoWorker: true, Tools: []tool.Tool{s}, Agents: []agent.Agent{{
		Name: "careful", Model: "openai/stand-in", Tools: []string{"spied", "note", "current_time", "shell_cmd"},
		Approvals: map[string]agent.Policy{"*": agent.PolicyAlways, "shell_cmd": agent.PolicyNever},
	}}})
	stop := w.StartWorker()
	id := w.Open()
	view := check.Watch(t, w, id, "")
	e := w.Post(id, "use spied {}\nuse note {\"text\":\"x\"}\nuse current_time {}\nuse shell_cmd {\"command\":\"true\"}")
	waiting := w.AwaitApproval(id, 3)
	t.Run("S4-96 all wait that the policy names, none has run", func(t *testing.T) {
		var names []string
		for _, a := range waiting {
			names = append(names, a.ToolName)
		}
		slices.Sort(names)
		require.Equal(t, []string{"current_time", "note", "spied"}, names)
		require.Empty(t, s.Seen())
		require.Eventually(t, func() bool { return len(check.Results(w, id)) == 1 }, testenv.Patience, testenv.Tick)
		require.Len(t, check.OfType(w, id, event.TypeApprovalRequest), 3)
	})
	// The thread has handled the reply by now; before, a query may return another time than the
	// record has.
	waiting = w.AwaitApproval(id, 3)
	t.Run("S4-77 they still wait when the worker comes back", func(t *testing.T) {
		stop()
		w.StartWorker()
		require.Equal(t, waiting, w.AwaitApproval(id, 3))
		_, list := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/approvals", nil)
		raw, err := json.Marshal(list["approvals"])
		require.NoError(t, err)
		var shown []event.ApprovalRequest
		require.NoError(t, json.Unmarshal(raw, &shown))
		require.Equal(t, waiting, shown)
	})
	for _, a := range waiting {
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, a.ToolCallID))
	}
	require.Equal(t, signals.TurnCompleted, w.Await(id, e).Status)
	t.Run("S4-96 S4-78 X13 each runs once approved, under its own id", func(t *testing.T) {
		have := check.Results(w, id)
		for _, a := range waiting {
			require.False(t, have[a.ToolCallID].IsError, have[a.ToolCallID].Content)
			require.Equal(t, a.ToolName, have[a.ToolCallID].ToolName)
		}
		require.Len(t, s.Seen(), 1)
		require.Contains(t, w.Messages(id)[6].Content, "note returned: noted: x")
	})
	t.Run("S4-95 viewers see requests, decisions and results", func(t *testing.T) {
		frames := view.Until(t, check.IsFinal)
		require.Equal(t, 3, check.Count(frames, event.EventApprovalRequest))
		require.Equal(t, 3, check.Count(frames, event.EventApproval))
		require.Equal(t, 4, check.Count(frames, event.EventToolResult))
	})
}
