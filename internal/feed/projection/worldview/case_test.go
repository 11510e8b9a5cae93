package worldview_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

func TestWorldOfRecords(t *testing.T) {
	join := func(parts ...[]event.Record) (all []event.Record) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	one := func(r event.Record) []event.Record { return []event.Record{r} }
	ask := asked("m1", "c1", "{}")
	request := []string{"sse start m1", "sse end m1", "message assistant m1", "tool-start c1", "message assistant c1.request"}
	then := func(events ...string) []string { return append(append([]string{}, request...), events...) }
	decided1 := []string{"crud update message c1.request", "crud update message m1"}
	text := func(decision, args string) string {
		return `message tool c1.decision approval_c1 {"decision":"` + decision + `","scope":"once","toolName":"shell_cmd","toolArgs":` + args + `,"workingDirectory":"/desk"}`
	}
	once := func(d event.Decision) func(*event.Approval) {
		return func(a *event.Approval) { a.Decision, a.Scope = d, event.ScopeOnce }
	}
	reminder := feedtest.Record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: "c1", ToolName: "shell_cmd", Reminder: 1})
	vote := approval("c1", func(a *event.Approval) { a.Missing = 1 })
	vote.ID = "c1.decision.vote.1"
	revoked := feedtest.Record(event.TypeApproval, event.Approval{ToolCallID: "c1", Decision: event.DecisionRevoked, By: "bob"})
	revoked.ID = "c1.revoked"
	noArgs := feedtest.Record(event.TypeToolCall, event.ToolCallEvent{AgentName: "bot", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "x", Arguments: "{broken"}}}})
	final := feedtest.Record(event.TypeFinal, event.Final{Agent: "bot"})
	final.ID = "m1.final"
	cutOff := feedtest.Reply("m1", "half of")
	cutOff.Interrupted = true
	shown := feedtest.Reply("file-1.asked", "")
	shown.ToolCalls = []event.ToolCall{{ID: "call_file-1", Function: event.Function{Name: "get_event_info"}}}
	shownMessage := event.NewRecord("file-1.asked", event.TypeMessage, "trace", "file-1", feedtest.FileChanged.Time(), shown)
	shownCalls := event.NewRecord("file-1.asked.calls", event.TypeToolCall, "trace", "file-1", feedtest.FileChanged.Time(), event.ToolCallEvent{AgentName: "bot", ToolCalls: shown.ToolCalls})
	shownResult := event.NewRecord("call_file-1.result", event.TypeMessage, "trace", "file-1", feedtest.FileChanged.Time(), event.Message{
		ID: "call_file-1.result", SenderType: event.CreatedByTool, Role: event.RoleTool, ToolCallID: "call_file-1", Content: "{}",
	})
	for name, test := range map[string]struct {
		records []event.Record
		want    []string
	}{
		"S4-82 denied, and not run": {
			join(ask, one(approval("c1", once(event.DecisionDeny))), one(returned("m1", "c1", "Tool execution was denied by the user.", true))),
			then(text("deny", "{}"), decided1[0], decided1[1], "tool-error c1 Tool execution was denied by the user.",
				"message tool c1.result c1 Tool execution was denied by the user.", "crud update message m1"),
		},
		"nobody has decided in time": {
			join(ask, one(approval("c1", once(event.DecisionExpired)))), then(text("deny", "{}"), decided1[0], decided1[1]),
		},
		"S4-90 S4-93 edited arguments are those that run": {
			join(ask, one(approval("c1", func(a *event.Approval) { a.Scope, a.Arguments = event.ScopeOnce, `{"command":"ls"}` })), one(returned("m1", "c1", "no", true))),
			then(text("approve", `{"command":"ls"}`), decided1[0], decided1[1], "tool-execution shell_cmd ls 1", "tool-error c1 no", "message tool c1.result c1 no", "crud update message m1"),
		},
		"a reminder is no message":       {join(ask, one(reminder)), then("system shell_cmd (c1) still waits for a decision")},
		"a vote is no decision":          {join(ask, one(vote)), then("system ann approves shell_cmd (c1); 1 more have to")},
		"an approval that holds no more": {join(ask, one(revoked)), then("system bob takes the approval of c1 back")},
		"asked again, the call is open again": {
			join(ask, one(approval("c1", nil)), one(requested("m1", "c1", "{}", 2))),
			then(`message tool c1.decision approval_c1 {"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":{},"workingDirectory":"/desk"}`,
				decided1[0], decided1[1], "message assistant c1.request.2", "crud update message m1"),
		},
		"S4-80 a grant asks nobody": {
			join(ask[:3], one(approval("c1", func(a *event.Approval) { a.Grant = "c0" })), one(returned("m1", "c1", "7", false))),
			append(append([]string{}, request[:4]...), "activity approval ann shell_cmd (c1) runs, as the approval of c0 grants",
				"tool-execution shell_cmd shell_cmd 0", "tool-result c1 7", "message tool c1.result c1 7", "crud update message m1"),
		},
		"nor does a rule that denies": {
			one(approval("c1", func(a *event.Approval) { a.Decision, a.By, a.Reason = event.DecisionDeny, "no-rm", "never" })),
			[]string{"activity approval no-rm shell_cmd (c1) is denied: never"},
		},
		"no approval, no tool-execution": {
			join(ask[:3], one(returned("m1", "c1", "7", false))),
			append(append([]string{}, request[:4]...), "tool-result c1 7", "message tool c1.result c1 7", "crud update message m1"),
		},
		"arguments that are no JSON": {one(noArgs), []string{"tool-start c1"}},
		"S4-32 the world says something": {
			one(feedtest.Record(event.TypeMessage, event.Message{ID: "m0", SenderID: "world", SenderType: event.CreatedByTool, Role: event.RoleTool, Content: "it rains"})),
			[]string{"message user m0 it rains"},
		},
		"X9 an agent is one by what it is": {
			one(feedtest.Record(event.TypeMessage, event.Message{ID: "m0", SenderID: "user-support", SenderType: event.CreatedByAgent, AgentID: "user-support", Content: "hi"})),
			[]string{"message assistant m0 hi"},
		},
		"S4-59 a reply that says nothing": {[]event.Record{feedtest.CallOf("m1", 1), final}, []string{"sse start m1", "sse end m1", "activity response-end bot"}},
		"a reply that was cut off": {
			[]event.Record{feedtest.CallOf("m1", 1), feedtest.Record(event.TypeMessage, cutOff), feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "enough"})},
			[]string{"sse start m1", "sse end m1", "message assistant m1 half of", "system interrupted by ann: enough"},
		},
		"what the model is shown of an event": {[]event.Record{feedtest.EnvRecord(feedtest.FileChanged), shownMessage, shownCalls, shownResult}, []string{"activity file.changed env file-1"}},
		"what is unreadable":                  {[]event.Record{feedtest.Record(event.TypeEnv, 7), feedtest.Record("order.created", 7), feedtest.Record(event.TypeApproval, 7)}, nil},
		"a call for a client": {
			one(feedtest.Record(event.TypeClientCall, event.ClientCall{ToolCallID: "c1", ToolName: "camera", Agent: "bot"})),
			[]string{"activity client-call bot camera (c1)"},
		},
		"requests for input": {
			[]event.Record{
				feedtest.Record(event.TypeInputRequest, event.InputRequest{ToolCallID: "c1", ToolName: "book", Agent: "bot", Round: 1}),
				feedtest.Record(event.TypeInputReceived, event.InputReceived{ToolCallID: "c1", ToolName: "book", Agent: "bot", Round: 1}),
				feedtest.Record(event.TypeInputReceived, event.InputReceived{ToolCallID: "c2", ToolName: "book", Agent: "bot", Round: 1, Withdrawn: true}),
			},
			[]string{"activity input-request bot book (c1)", "activity input-received bot book (c1)", "activity input-withdrawn bot book (c2)"},
		},
		"S4-07 changes of the thread": {
			[]event.Record{
				feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusUpdated, Agents: []string{"bot", "eve"}, By: "ann"}),
				feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusRetried, By: "ann", Detail: "again"}),
			},
			[]string{"crud update chat t1", "activity retried ann again"},
		},
		"a message as hooks left it": {
			[]event.Record{feedtest.Said("hi"), feedtest.Decided("message", event.OutcomeReplaced, feedtest.Did("guard", "replaced"), feedtest.With(feedtest.Reply("said hi", "hello")))},
			[]string{"message user said hi hi", "crud update message said hi", "activity intercepted guard replaced the message"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newThread(t, feedtest.Options{})
			w.StoreAll(test.records...)
			items := w.Rest(projection.Cursor{})
			assert.Equal(t, test.want, tell(items))
			assert.Equal(t, same(items), same(w.Pages(1)))
		})
	}
}

func TestWorldExecutions(t *testing.T) {
	ended := func(status store.ToolStatus) store.Batch {
		return store.Batch{ToolFinish: &store.ToolLog{ToolCallID: "c1", ToolName: "shell_cmd", Agent: "bot", Status: status}}
	}
	toClient := feedtest.Record(event.TypeClientCall, event.ClientCall{ToolCallID: "c1", ToolName: "shell_cmd", Agent: "bot"})
	toClient.ID = "c1.client"
	answer := func(metadata map[string]any) event.Record {
		r := returned("m1", "c1", "no", true)
		var msg event.Message
		require.NoError(t, json.Unmarshal(r.Payload, &msg))
		msg.Metadata = metadata
		return event.NewRecord(r.ID, r.Type, r.TraceID, r.ParentEventID, r.CreatedAt, msg)
	}
	for name, test := range map[string]struct {
		log    store.Batch
		before []event.Record
		result event.Record
		ran    bool
	}{
		"it has failed":                      {ended(store.ToolFailed), nil, returned("m1", "c1", "no", true), true},
		"it was cut short":                   {ended(store.ToolInterrupted), nil, returned("m1", "c1", "no", true), true},
		"denied right before it ran":         {ended(store.ToolDenied), nil, returned("m1", "c1", "no", true), false},
		"a task has begun, and was denied":   {ended(store.ToolDenied), nil, returned("m1", "c1", "begun", false), true},
		"the client says that it has failed": {store.Batch{}, []event.Record{toClient}, answer(map[string]any{"by": "editor"}), true},
		"no client has answered in time":     {store.Batch{}, []event.Record{toClient}, answer(nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newThread(t, feedtest.Options{})
			w.StoreAll(append(asked("m1", "c1", "{}"), approval("c1", nil))...)
			w.StoreAll(append(test.before, test.result)...)
			_, err := w.Store.Append(w.Ctx, w.Key, test.log)
			require.NoError(t, err)
			items := w.Rest(projection.Cursor{})
			told := strings.Join(tell(items), "\n")
			assert.Equal(t, test.ran, strings.Contains(told, "tool-execution"), told)
			assert.Contains(t, told, "message tool c1.result", "the result comes all the same")
			assert.Equal(t, same(items), same(w.Pages(1)))
		})
	}
}

func TestWorldExecutionAsShown(t *testing.T) {
	views := 0
	w := newThread(t, feedtest.Options{
		View: func(store.Key) feed.View {
			views++
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent {
				e.ToolArgs = strings.ReplaceAll(e.ToolArgs, "secret", "***")
				if e.Message != nil {
					m := *e.Message
					m.ToolCalls = nil
					e.Message = &m
				}
				return e
			}
		},
	})
	records := asked("m1", "c1", `{"command":"echo secret"}`)[:3] // no request
	w.StoreAll(append(records, approval("c1", func(a *event.Approval) { a.Grant = "c0" }), returned("m1", "c1", "7", false))...)
	for name, read := range map[string]func() []item{
		"a stream": func() []item { return w.Rest(projection.Cursor{}) },
		"a page": func() []item {
			items, _, err := w.Projection.Page(w.Ctx, w.Key, projection.Cursor{}, 100)
			require.NoError(t, err)
			return items
		},
	} {
		t.Run("S0-10 the arguments of a call that a grant covers, in "+name, func(t *testing.T) {
			views = 0
			items := read()
			assert.Contains(t, tell(items), "tool-execution shell_cmd echo *** 0")
			for _, i := range items {
				assert.NotContains(t, jsonOf(i.Event), "secret")
			}
			assert.Equal(t, 1, views, "a reader has one view")
		})
	}
}

func TestWorldOfDecisions(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	letOut := feedtest.Record(event.TypeHook, event.Interception{
		EventID: "m5", EventType: "message", Outcome: event.OutcomePassed, Message: &event.Message{ID: "m5", SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Content: "let out"},
	})
	call := feedtest.CallOf("m5", 1)
	call.ID = "m5.llm"
	s := feedtest.Intercepted()
	s = append(s[:len(s)-1], func(w *feedtest.Thread) {
		w.StoreAll(call, feedtest.Held("m5", "let out"), feedtest.Said("in between"))
	},
		func(w *feedtest.Thread) { w.StoreAll(letOut) }, s[len(s)-1])
	items := w.Perform(s)
	assert.Equal(t, []string{
		"message user said go go", "activity intercepted audit let the message pass",
		"sse start m1", "sse chunk m1 a sec", "sse chunk m1 ret", "message assistant m1 a secret", "tool-start c1", "tool-start c2",
		"crud update message m1", "activity intercepted guard replaced the message",
		"tool-start c1", "tool-start c2", "activity intercepted dry replaced the tool calls",
		`tool-progress c1 "half"`, "tool-result c1 a secret", "message tool m-c1 c1 a secret",
		"crud update message m-c1", "activity intercepted guard replaced the tool result",
		"tool-result c2 out", "message tool m-c2 c2 out",
		"activity intercepted guard responded in place of the message",
		"message assistant m3 let out", "activity intercepted guard let the message pass", "activity response-end bot",
		"message user said in between in between",
		"sse start m5", "sse end m5", "message assistant m5 let out", "activity intercepted hooks let the message pass",
		"crud update chat t1",
	}, tell(items), "what is held back comes once it is let out")
	w.CheckCuts(items, same)
	for limit := 1; limit < 5; limit++ {
		require.Equal(t, same(w.Rest(projection.Cursor{})), same(w.Pages(limit)), "pages of %d", limit)
	}
}

func TestWorldOfPieces(t *testing.T) {
	w := newThread(t, feedtest.Options{Stream: feedtest.NewMarking})
	head := w.StoreAll(feedtest.Said("go"))
	r := w.Open(projection.From{})
	w.Piece(head, "m1", 1, "")
	w.Piece(head, "m1", 1, "old")
	w.Publish(stream.Entry{After: head, Event: &event.AgentEvent{
		Type: event.EventStatus, Agent: "bot", Status: &event.StatusChange{Status: event.StatusRetrying, Detail: "busy"},
	}})
	w.Publish(feedtest.Reset(head, "m1", 2))
	w.Piece(head, "m1", 2, "")
	w.Piece(head, "m1", 2, "new")
	w.StoreAll(feedtest.CallOf("m1", 2), feedtest.Message("m1", "new"), feedtest.Closed())
	items := w.UntilClosed(r)
	assert.Equal(t, []string{
		"message user said go go", "sse start m1", "sse chunk m1 old", "activity retrying bot busy",
		"sse reset m1", "sse chunk m1 new", "sse end m1", "message assistant m1 new", "crud update chat t1",
	}, tell(items), "a message has one start, and a reset makes void what came before")
	w.CheckCuts(items, same)
}

func TestWorldMessages(t *testing.T) {
	w := newThread(t, feedtest.Options{})
	decision := func(d event.Decision) event.ToolCallStatus {
		return event.ToolCallStatus{Complete: true, Result: &event.ToolCallDecision{Decision: d, Scope: event.ScopeSession, Timestamp: decidedAt}}
	}
	told := func() []string {
		var out []string
		for _, m := range worldMessages(w, 100) {
			out = append(out, m.Role+" "+m.MessageID+" "+jsonOf(m.ToolCallStatus))
		}
		return out
	}
	status := func(id string, s event.ToolCallStatus) string { return jsonOf(map[string]event.ToolCallStatus{id: s}) }
	w.StoreAll(feedtest.Said("go"), feedtest.Held("m0", "a secret"))
	w.StoreAll(asked("m1", "c1", "{}")...)
	t.Run("S4-21 a call waits", func(t *testing.T) {
		assert.Equal(t, []string{
			"user said go null", "assistant m1 " + status("c1", event.ToolCallStatus{}), "assistant c1.request " + status("approval_c1", event.ToolCallStatus{}),
		}, told(), "and nobody is shown what is held back")
	})
	w.StoreAll(approval("c1", nil))
	t.Run("S4-89 it is decided on", func(t *testing.T) {
		assert.Equal(t, []string{
			"user said go null", "assistant m1 " + status("c1", decision(event.DecisionApprove)), "assistant c1.request " + status("approval_c1", decision(event.DecisionApprove)),
			"tool c1.decision " + status("approval_c1", decision(event.DecisionApprove)),
		}, told())
	})
	w.StoreAll(requested("m1", "c1", "{}", 2))
	t.Run("asked again, it waits again", func(t *testing.T) {
		got := told()
		assert.Equal(t, "assistant m1 "+status("c1", event.ToolCallStatus{}), got[1])
		assert.Equal(t, "assistant c1.request "+status("approval_c1", decision(event.DecisionApprove)), got[2])
		assert.Equal(t, "assistant c1.request.2 "+status("approval2_c1", event.ToolCallStatus{}), got[4])
	})
	w.StoreAll(approval("c1", func(a *event.Approval) { a.Round, a.Decision = 2, event.DecisionDeny }), returned("m1", "c1", "denied", true))
	w.StoreAll(asked("m2", "c2", "{}")[:3]...)
	w.StoreAll(returned("m2", "c2", "7", false))
	whole := told()
	t.Run("S4-89 the last decision counts", func(t *testing.T) {
		assert.Equal(t, "assistant m1 "+status("c1", decision(event.DecisionDeny)), whole[1])
		assert.Equal(t, []string{
			"tool c1.decision.2 " + status("approval2_c1", decision(event.DecisionDeny)), "tool c1.result " + status("c1", decision(event.DecisionDeny)),
		}, whole[5:7])
	})
	t.Run("a result completes a call that nobody decided on", func(t *testing.T) {
		assert.Equal(t, []string{
			"assistant m2 " + status("c2", event.ToolCallStatus{Complete: true}), "tool c2.result " + status("c2", event.ToolCallStatus{Complete: true}),
		}, whole[7:])
	})
	t.Run("in pages", func(t *testing.T) {
		for limit := 1; limit < 6; limit++ {
			assert.Equal(t, jsonOf(worldMessages(w, 100)), jsonOf(worldMessages(w, limit)), "of %d", limit)
		}
	})
	t.Run("S4-23 all have their id, chat and role", func(t *testing.T) {
		for _, m := range worldMessages(w, 100) {
			assert.NotEmpty(t, m.MessageID)
			assert.Equal(t, "t1", m.ChatID)
			assert.NotEmpty(t, m.Role)
			assert.False(t, m.Timestamp.IsZero())
		}
	})
	t.Run("a store that fails", func(t *testing.T) {
		w.Store.FailLookups.Store(1)
		_, _, err := worldview.Messages(w.Ctx, w.Store, w.Key, 0, 10)
		require.ErrorIs(t, err, feedtest.ErrLookup)
	})
}
