package tests

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

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestMessagesRefused posts invalid messages over every entry point.
func TestMessagesRefused(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, "hello")
	before, calls := w.Records(id), w.Provider.Calls()
	whole := map[string]any{"threadId": id, "senderId": "ann", "senderType": "user", "content": "hi"}
	for field := range whole {
		t.Run("S0-03 no "+field, func(t *testing.T) {
			part := map[string]any{}
			for k, v := range whole {
				if k != field {
					part[k] = v
				}
			}
			raw, err := json.Marshal(part)
			require.NoError(t, err)
			_, err = w.Threads.Post(w.Ctx(), id, signals.Post{ID: "bad", Payload: raw})
			require.ErrorContains(t, err, "payload."+field)
			_, err = w.Threads.Turn(w.Ctx(), id, signals.Post{ID: "bad", Payload: raw})
			require.ErrorContains(t, err, "payload."+field)
		})
	}
	t.Run("S0-03 no content over HTTP", func(t *testing.T) {
		status, problem := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/messages", map[string]any{"id": "bad", "sender": "ann"})
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Contains(t, fmt.Sprint(problem["errors"]), "content")
	})
	t.Run("S0-03 nothing is stored, queued or shown to the model", func(t *testing.T) {
		require.Equal(t, before, w.Records(id))
		q, err := w.Threads.Queue(w.Ctx(), id)
		require.NoError(t, err)
		require.Empty(t, q.Items)
		require.Equal(t, calls, w.Provider.Calls())
	})
	t.Run("S0-03 of a signal only the audit record stays", func(t *testing.T) {
		bad := signals.Post{ID: "bad", Payload: json.RawMessage(`{"content":"hi"}`)}
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalPost, bad))
		require.Eventually(t, func() bool { return len(w.Records(id)) > len(before) }, testenv.Patience, testenv.Tick)
		require.Equal(t, event.TypeRejected, check.Only(t, w.Records(id)[len(before):]).Type)
		require.Equal(t, calls, w.Provider.Calls())
	})
}

// TestCallsInOneReply follows three calls of one reply to their results.
func TestCallsInOneReply(t *testing.T) {
	t.Parallel()
	// The model's text is stored exactly, with its spaces and escapes.
	const arguments = `{ "text" :  "a\u00e9 <&>",   "n":1.0e3}`
	written := check.NewSpy("written")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{written, check.Failing}, NoWorker: true})
	var during struct {
		sync.Mutex
		asked, events int
		log           store.ToolStatus
	}
	written.WhenCalled(func(call tool.Call) {
		during.Lock()
		defer during.Unlock()
		for _, m := range w.Messages(call.ThreadID) {
			during.asked += len(m.ToolCalls)
		}
		during.events = len(check.OfType(w, call.ThreadID, event.TypeToolCall))
		log, err := w.Store.ToolLog(w.Ctx(), w.Key(call.ThreadID), call.ID)
		assert.NoError(t, err)
		during.log = log.Status
	})
	w.StartWorker()
	id := w.Open()
	view := check.Watch(t, w, id, "")
	w.Say(id, "use written "+arguments+"\nuse current_time {}\nuse failing {\"how\":\"softly\"}")
	frames := view.Until(t, check.IsFinal)
	w.Say(id, "thanks")

	reply := w.Messages(id)[1]
	calls := reply.ToolCalls
	require.Len(t, calls, 3)
	record := check.OfType(w, id, event.TypeToolCall)

	t.Run("S0-29 a reply with calls, and only that, makes a tool call event", func(t *testing.T) {
		require.Len(t, check.OfType(w, id, event.TypeLLMCall), 3)
		require.Len(t, record, 1)
	})
	t.Run("S0-06 S2-11 one event holds the calls of a reply, viewers see each", func(t *testing.T) {
		e, err := event.Unmarshal(check.Only(t, record).Payload)
		require.NoError(t, err)
		require.Equal(t, event.ToolCallEvent{ThreadID: id, AgentName: "assistant", ToolCalls: calls}, e)
		var seen []event.ToolCall
		for _, f := range frames {
			if f.Event.Type == event.EventToolCall {
				seen = append(seen, event.ToolCall{ID: f.Event.ToolCallID, Function: event.Function{Name: f.Event.ToolName, Arguments: f.Event.ToolArgs}})
			}
		}
		require.Equal(t, calls, seen)
	})
	t.Run("S0-04 the fields of a tool call event, as stored", func(t *testing.T) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(check.Only(t, record).Payload, &fields))
		require.Len(t, fields, 5)
		require.Equal(t, "tool_call", fields["type"])
		require.Equal(t, "agent", fields["createdBy"])
		require.Equal(t, id, fields["threadId"])
		require.Equal(t, "assistant", fields["agentName"])
		require.Len(t, fields["toolCalls"], 3)
	})
	t.Run("S0-05 arguments stay the string that the model wrote", func(t *testing.T) {
		if harness.Protocol() == "google" {
			t.Skip("the protocol carries objects")
		}
		require.Equal(t, arguments, calls[0].Function.Arguments, "in the store")
		require.Equal(t, arguments, check.Only(t, written.Seen()).Arguments, "for the tool")
		var again []string
		for _, m := range check.ModelCalls(w)[1].Messages {
			for _, c := range m.ToolCalls {
				again = append(again, c.Function.Arguments)
			}
		}
		if harness.Protocol() == "openai" { // the others carry objects
			require.Contains(t, again, arguments, "for the model")
		}
		_, page := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/messages", nil)
		answered := page["messages"].([]any)[1].(map[string]any)["toolCalls"].([]any)[0].(map[string]any)
		require.Equal(t, arguments, answered["function"].(map[string]any)["arguments"], "for clients")
	})
	t.Run("S0-35 S4-68 what is asked for is stored before it runs", func(t *testing.T) {
		require.Equal(t, 3, during.asked)
		require.Equal(t, 1, during.events)
		require.Equal(t, store.ToolStarted, during.log)
	})
	t.Run("S0-31 each call has its log with raw input and output", func(t *testing.T) {
		logs := map[string]store.ToolLog{}
		for _, l := range check.ToolLogs(w, id) {
			logs[l.ToolCallID] = l
		}
		require.Len(t, logs, 3)
		for i, want := range []struct {
			input  string
			output any
			status store.ToolStatus
		}{
			{arguments, "seen", store.ToolSucceeded},
			{`{}`, nil, store.ToolSucceeded},
			{`{"how":"softly"}`, "no softly", store.ToolFailed},
		} {
			l := logs[calls[i].ID]
			require.JSONEq(t, want.input, string(l.Input))
			require.Equal(t, want.status, l.Status)
			require.NotNil(t, l.FinishedAt)
			require.True(t, json.Valid(l.Output))
			if want.output != nil {
				var output any
				require.NoError(t, json.Unmarshal(l.Output, &output))
				require.Equal(t, want.output, output)
			}
		}
	})
	t.Run("S0-32 S4-22 each call has one message of a tool under its id", func(t *testing.T) {
		have := check.Results(w, id)
		require.Len(t, have, 3)
		for _, c := range calls {
			m := have[c.ID]
			require.Equal(t, event.CreatedByTool, m.SenderType)
			require.Equal(t, event.RoleTool, m.Role)
			require.Equal(t, c.Function.Name, m.ToolName)
		}
	})
	t.Run("S0-33 each result is an event of its own", func(t *testing.T) {
		require.Equal(t, 3, check.Count(frames, event.EventToolResult))
		ids := map[string]bool{}
		for _, f := range frames {
			if f.Event.Type == event.EventToolResult {
				ids[f.Event.ToolCallID] = true
			}
		}
		require.Len(t, ids, 3)
	})
	t.Run("S0-34 S2-13 the results bring the agent back, once", func(t *testing.T) {
		shown := check.ModelCalls(w)
		require.Len(t, shown, 3, "two for the first turn, one for the second")
		check.RequireAnswered(t, shown[1].Messages)
		require.Equal(t, event.RoleTool, shown[1].Messages[len(shown[1].Messages)-1].Role)
	})
}

// TestModelIsShown checks the requests to the provider.
func TestModelIsShown(t *testing.T) {
	t.Parallel()
	tools := []string{"current_time", "note"}
	w := harness.New(t, harness.Options{Agents: []agent.Agent{
		{Name: "scribe", Instructions: "You write down.", Model: "openai/stand-in", Tools: tools},
	}})
	id := w.Open()
	p := signals.NewPost("e1", event.NewMessage{
		ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Content: "Let me see. <function_calls>" +
			`[{"name":"note","arguments":{"text":"milk"}}]</function_calls>`, Metadata: map[string]any{"secret": "kept-from-models"},
	})
	_, err := w.Threads.Turn(w.Ctx(), id, p)
	require.NoError(t, err)
	view := check.Watch(t, w, id, "")
	w.Say(id, "and now?")
	messages := w.Messages(id)
	require.Len(t, messages, 6)
	calls := check.ModelCalls(w)
	require.Len(t, calls, 3)

	t.Run("S0-27 S2-09 the agent's instructions, the whole history and its tools", func(t *testing.T) {
		last := calls[2]
		roles := make([]string, 0, len(last.Messages))
		for _, m := range last.Messages {
			roles = append(roles, m.Role)
		}
		require.Equal(t, []string{"system", "user", "assistant", "tool", "assistant", "user"}, roles)
		require.Equal(t, "You write down.", last.Instructions())
		require.Contains(t, last.Messages[0].Content, "Rules for tools:", "S4-57")
		require.Equal(t, "and now?", last.Messages[5].Content)
		check.RequireAnswered(t, last.Messages)
		require.Len(t, last.Tools, len(tools))
		for i, name := range tools {
			require.Equal(t, name, last.Tools[i].Name)
			require.NotEmpty(t, last.Tools[i].Description)
			require.Contains(t, string(last.Tools[i].Parameters), `"object"`)
		}
	})
	t.Run("S0-27 nothing of Threadmill's own is in the history", func(t *testing.T) {
		require.NotContains(t, calls[2].Raw, "kept-from-models")
		require.NotContains(t, calls[2].Raw, id)
		var body struct {
			Messages []map[string]any `json:"messages"`
		}
		require.NoError(t, json.Unmarshal([]byte(calls[2].Raw), &body))
		for _, m := range body.Messages {
			for key := range m {
				require.Contains(t, []string{"role", "content", "name", "tool_calls", "tool_call_id"}, key)
			}
		}
	})
	t.Run("S0-37 S0-28 S0-40 markup becomes calls, and the text is clean", func(t *testing.T) {
		require.Equal(t, "Let me see.", strings.TrimSpace(messages[1].Content))
		call := check.Only(t, messages[1].ToolCalls)
		require.Equal(t, "note", call.Function.Name)
		require.JSONEq(t, `{"text":"milk"}`, call.Function.Arguments)
		require.Equal(t, "noted: milk", messages[2].Content, "the call ran")
		for _, m := range messages[1:] {
			require.NotContains(t, m.Content, "function_calls")
		}
	})
	t.Run("S0-37 the model is shown calls, and viewers no markup", func(t *testing.T) {
		require.Equal(t, messages[1].ToolCalls[0].ID, calls[1].Messages[2].ToolCalls[0].ID)
		require.NotContains(t, calls[1].Messages[2].Content, "function_calls")
		for _, f := range view.Until(t, check.IsFinal) {
			require.NotContains(t, f.Event.Content, "function_calls")
		}
	})
}

// TestWhoAnswers posts messages of every kind of sender.
func TestWhoAnswers(t *testing.T) {
	t.Parallel()
	two := []agent.Agent{
		{Name: "alice", Model: "openai/stand-in", Tools: []string{"note"}, NoAutoMention: true},
		{Name: "bob", Model: "openai/stand-in", NoAutoMention: true},
	}
	for _, tc := range []struct {
		from    event.CreatedBy
		sender  string
		content string
		answers []string
	}{
		{event.CreatedByUser, "ann", "hello", []string{"alice", "bob"}},
		{event.CreatedByUser, "ann", "@bob hello", []string{"bob"}},
		{event.CreatedByAgent, "alice", "hello", nil},
		{event.CreatedByAgent, "alice", "@bob hello", []string{"bob"}},
		{event.CreatedByTool, "cron", "@alice it is noon", []string{"alice"}},
		{event.CreatedBySystem, "threadmill", "@alice hello", nil},
	} {
		t.Run(fmt.Sprintf("S0-26 S2-07 %s says %s", tc.from, tc.content), func(t *testing.T) {
			w := harness.New(t, harness.Options{Agents: two})
			id := w.Open("alice", "bob")
			m := event.NewMessage{ThreadID: id, SenderID: tc.sender, SenderType: tc.from, Content: tc.content}
			out, err := w.Threads.Turn(w.Ctx(), id, signals.NewPost("e1", m))
			require.NoError(t, err)
			out = check.Wholly(w, id, out)
			var answers []string
			for _, r := range w.Messages(id)[1:] {
				answers = append(answers, r.SenderID)
			}
			require.ElementsMatch(t, tc.answers, answers)
			require.Equal(t, len(tc.answers), w.Provider.Calls())
			want := signals.TurnCompleted
			if len(tc.answers) == 0 {
				want = signals.TurnUnanswered
			}
			require.Equal(t, want, out.Status, "the event is done with")
		})
	}
	t.Run("S0-28 S0-35 an agent's message is stored before another answers it", func(t *testing.T) {
		w := harness.New(t, harness.Options{Agents: two})
		id := w.Open("alice", "bob")
		// The result in alice's reply has bob's name at the beginning of a line.
		w.Provider.Block(0).Release()
		w.Provider.Block(0).Release()
		asked := w.Provider.Block(0)
		w.Post(id, `@alice use note {"text":"\n@bob are you there"}`)
		<-asked.Reached()
		stored := w.Messages(id)
		require.Len(t, stored, 4, "bob is asked, and alice's message is there")
		require.Equal(t, "alice", stored[3].SenderID)
		asked.Release()
		check.AwaitMessages(w, id, 5)
		answer := w.Messages(id)[4]
		require.Equal(t, "bob", answer.SenderID)
		require.Equal(t, stored[3].ID, answer.ReplyToMessageID)
	})
}

// checkedStream checks, before an entry is published, that the store has the records that it
// implies.
type checkedStream struct {
	stream.Stream
	store store.Store

	mu      sync.Mutex
	entries int
	early   []string
}

func (s *checkedStream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	early := s.tooEarly(ctx, key, e)
	s.mu.Lock()
	s.entries++
	if early != "" {
		s.early = append(s.early, early)
	}
	s.mu.Unlock()
	return s.Stream.Publish(ctx, key, e)
}

func (s *checkedStream) tooEarly(ctx context.Context, key stream.Key, e stream.Entry) string {
	head, err := s.store.Thread(ctx, key)
	switch {
	case err != nil:
		return err.Error()
	case head.Head < e.Stored:
		return fmt.Sprintf("record %d of %d", e.Stored, head.Head)
	case e.Event == nil:
		return ""
	}
	switch e.Event.Type {
	case event.EventThought, event.EventStream, event.EventToolProgress, event.EventReset:
		return "" // pieces, which have no records
	default:
		// All other entries are derived from stored records.
		return string(e.Event.Type)
	}
}

// check returns the number of entries, and those that were published too early.
func (s *checkedStream) check() (entries int, early []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries, slices.Clone(s.early)
}

// TestStoredBeforeShown: viewers and models receive only what is stored.
func TestStoredBeforeShown(t *testing.T) {
	t.Parallel()
	var live *checkedStream
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		live = &checkedStream{Stream: c.Stream, store: c.Store}
		c.Stream = live
	}})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	first, second := w.Provider.Block(0), w.Provider.Block(0)
	w.Post(id, "use note {}\nuse shell_cmd {\"command\":\"true\"}")

	<-first.Reached()
	t.Run("S0-38 S2-05 a person's message is stored before the model is called", func(t *testing.T) {
		require.Equal(t, event.RoleUser, check.Only(t, w.Messages(id)).Role)
	})
	first.Release()
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
	<-second.Reached()
	t.Run("S0-35 S2-13 S4-70 every result is stored before the model is called again", func(t *testing.T) {
		require.Len(t, check.Results(w, id), 2)
		require.Len(t, check.OfType(w, id, event.TypeApproval), 1)
	})
	second.Release()
	t.Run("S0-28 S0-35 S0-38 a record is in the store when viewers hear of it", func(t *testing.T) {
		for f := view.Next(t); !check.IsFinal(f); f = view.Next(t) {
			if f.Event.Type == event.EventMessage {
				stored, err := w.Store.RecordsByID(w.Ctx(), w.Key(id), f.Event.Message.ID)
				require.NoError(t, err)
				require.Len(t, stored, 1)
			}
			if f.Event.Type == event.EventToolResult {
				require.Contains(t, check.Results(w, id), f.Event.ToolCallID)
			}
		}
		entries, early := live.check()
		require.Empty(t, early)
		require.Greater(t, entries, 5, "each step has told of its records")
	})
}

// TestSameOrder posts the same input three times: normally, with restarting workers, and with a
// failing model.
func TestSameOrder(t *testing.T) {
	t.Parallel()
	const says = "think about it\nuse note {\"text\":\"a\"}\nuse note {\"text\":\"b\"}\nthen\nuse shell_cmd {\"command\":\"true\"}\nthen\ncount 20"
	// order is the sequence of events without ids and times.
	order := func(w *harness.Harness, id string) []string {
		var out []string
		for _, r := range w.Records(id) {
			line := r.Type
			if r.Type == event.TypeMessage {
				m := harness.Payload[event.Message](w, r)
				line += " " + m.Role + " " + m.ToolName
				if m.ToolName == "" { // results of a batch arrive in any order
					line += m.Content
				}
			}
			out = append(out, line)
		}
		return out
	}
	play := func(t *testing.T, disturb func(w *harness.Harness, at string)) []string {
		w := harness.New(t, harness.Options{NoWorker: true})
		id := w.Open()
		disturb(w, "begin")
		w.Post(id, says)
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		disturb(w, "approval")
		last := w.Provider.Block(3)
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		<-last.Reached()
		disturb(w, "stream")
		last.Release()
		require.Eventually(t, func() bool { return check.Newest(w, id).Type == event.TypeTurnEnded }, testenv.Patience, testenv.Tick)
		check.RequireSettled(t, w, id)
		return order(w, id)
	}

	want := play(t, func(w *harness.Harness, at string) {
		if at == "begin" {
			w.StartWorker()
		}
	})
	require.Len(t, want, 18, "%v", want)
	t.Run("S0-36 the same again", func(t *testing.T) {
		require.Equal(t, want, play(t, func(w *harness.Harness, at string) {
			if at == "begin" {
				w.StartWorker()
			}
		}))
	})
	t.Run("S0-36 with a new worker at each stage", func(t *testing.T) {
		stop := func() {}
		require.Equal(t, want, play(t, func(w *harness.Harness, _ string) {
			stop()
			stop = w.StartWorker()
		}))
	})
	t.Run("S0-36 with a model that fails on the way", func(t *testing.T) {
		require.Equal(t, want, play(t, func(w *harness.Harness, at string) {
			if at == "begin" {
				w.Provider.Fail(llmtest.Drop(1))
				w.StartWorker()
			}
		}))
	})
}

// TestLongConversation mixes turns of every kind in one thread.
//
//ci:replayed
func TestLongConversation(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{check.Failing}})
	id := w.Open()
	var want []string
	for round := range 3 {
		w.Say(id, fmt.Sprintf("plain %d", round))
		want = append(want, "user", "assistant")
		w.Say(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nuse current_time {}", round))
		want = append(want, "user", "assistant", "tool", "tool", "assistant")
		w.Say(id, "use failing {\"how\":\"error\"}\nthen\nuse note {}\nthen\nwell")
		want = append(want, "user", "assistant", "tool", "assistant", "tool", "assistant")
		e := w.Post(id, `use shell_cmd {"command":"echo hi"}`)
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, e).Status)
		want = append(want, "user", "assistant", "tool", "assistant")
	}
	messages := w.Messages(id)
	t.Run("S0-T5 nothing is lost, doubled or out of order", func(t *testing.T) {
		roles := make([]string, 0, len(messages))
		for _, m := range messages {
			roles = append(roles, m.Role)
		}
		require.Equal(t, want, roles)
		check.RequireSettled(t, w, id)
	})
	t.Run("S0-T5 S0-27 the model is shown all that came before, each time", func(t *testing.T) {
		for i, call := range check.ModelCalls(w) {
			check.RequireAnswered(t, call.Messages)
			if i > 0 {
				require.Greater(t, len(call.Messages), len(check.ModelCalls(w)[i-1].Messages))
			}
		}
		last := check.ModelCalls(w)[w.Provider.Calls()-1].Messages
		require.Len(t, last, len(messages), "the instructions, and all but the reply itself")
		said := check.Results(w, id)
		for i, m := range last[1:] {
			want := messages[i].Content
			if m.ToolCallID != "" { // in the order of the calls, not of arrival
				want = said[m.ToolCallID].Content
			}
			require.Equal(t, want, m.Content)
		}
	})
	t.Run("S1-23 each turn has one end", func(t *testing.T) {
		require.Len(t, check.OfType(w, id, event.TypeFinal), 12)
	})
}

// TestCrowdedThread: several people post to one thread at once.
func TestCrowdedThread(t *testing.T) {
	t.Parallel()
	const people, posts = 4, 5
	w := harness.New(t, harness.Options{})
	id := w.Open()
	var wg sync.WaitGroup
	for p := range people {
		wg.Go(func() {
			for n := range posts {
				post := check.Message(id, fmt.Sprintf("p%d-%d", p, n), fmt.Sprintf("person %d says %d", p, n))
				// On a machine that stalls, a thread may not answer in time.
				assert.EventuallyWithT(t, func(c *assert.CollectT) {
					_, err := w.Threads.Post(w.Ctx(), id, post)
					assert.NoError(c, err)
				}, testenv.Patience, testenv.Tick)
			}
		})
	}
	wg.Wait()
	check.AwaitMessages(w, id, 2*people*posts)
	t.Run("S0-T6 one at a time", func(t *testing.T) {
		messages := w.Messages(id)
		require.Len(t, messages, 2*people*posts)
		for i := 0; i < len(messages); i += 2 {
			require.Equal(t, event.RoleUser, messages[i].Role)
			require.Equal(t, messages[i].ID, messages[i+1].ReplyToMessageID)
			require.Equal(t, messages[i].Content, messages[i+1].Content)
		}
	})
	t.Run("S0-T6 in the order in which each was heard", func(t *testing.T) {
		next := map[string]int{}
		for _, m := range w.Messages(id) {
			if m.Role == event.RoleUser {
				who, _, _ := strings.Cut(m.ID, "-")
				require.Equal(t, fmt.Sprintf("%s-%d", who, next[who]), m.ID)
				next[who]++
			}
		}
		require.Len(t, next, people)
	})
	t.Run("S0-T6 no turn begins before the one before it has ended", func(t *testing.T) {
		trace, seen := "", map[string]bool{}
		for _, r := range w.Records(id) {
			if r.TraceID != "" && r.TraceID != trace {
				require.False(t, seen[r.TraceID], "the turn of %s goes on after another has begun", r.TraceID)
				trace, seen[r.TraceID] = r.TraceID, true
			}
		}
		require.Len(t, seen, people*posts)
	})
}
