package agui_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/agui"
	"github.com/threadmill/threadmill/internal/chat/chattest"
)

var known = agui.Config{ThreadID: "t", RunID: "run", Version: "1.0"}

// run returns the events of a run about events that are stored, one a line.
func run(t *testing.T, cfg agui.Config, events ...event.AgentEvent) string {
	t.Helper()
	return jsonLines(t, agui.New(cfg).Sync(answer(events...)))
}

func answer(events ...event.AgentEvent) *chat.Message {
	return chattest.Read(append([]event.AgentEvent{chattest.Asked("e")}, events...)...).Answer("e")
}

func jsonLines(t *testing.T, events []agui.Event) string {
	t.Helper()
	var out []string
	for _, e := range events {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		out = append(out, string(data))
	}
	return strings.Join(out, "\n")
}

// holding is a client that has the question, and these messages of the answer.
func holding(messages ...*agui.Message) agui.Config {
	cfg := known
	cfg.Held = agui.Holds(append([]*agui.Message{{ID: "e", Role: "user", Content: "?"}}, messages...))
	return cfg
}

func said(content string) *agui.Message {
	return &agui.Message{ID: "r", Role: "assistant", Content: content}
}

func TestText(t *testing.T) {
	const start, end = `{"type":"TEXT_MESSAGE_START","messageId":"r","role":"assistant","name":"bot"}`, `{"type":"TEXT_MESSAGE_END","messageId":"r"}`
	content := func(delta string) string {
		return `{"type":"TEXT_MESSAGE_CONTENT","messageId":"r","delta":"` + delta + `"}`
	}
	for name, c := range map[string]struct {
		cfg  agui.Config
		want []string
	}{
		"nothing yet":          {known, []string{start, content("abc"), end}},
		"all of it":            {holding(said("abc")), nil},
		"the beginning of it":  {holding(said("ab")), []string{start, content("c"), end}},
		"something else":       {holding(said("x")), []string{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"e","role":"user","content":"?"},{"id":"r","role":"assistant","content":"abc","name":"bot"}]}`}},
		"more, that was void":  {holding(said("abcd")), []string{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"e","role":"user","content":"?"},{"id":"r","role":"assistant","content":"abc","name":"bot"}]}`}},
		"only the next answer": {holding(&agui.Message{ID: "f", Role: "user"}), []string{start, content("abc"), end}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, strings.Join(c.want, "\n"), run(t, c.cfg, chattest.Said("r", "bot", "abc")))
		})
	}
	encoder := agui.New(holding(said("abc")))
	c := chattest.Read(chattest.Asked("e"), chattest.Piece("r", "bot", "ab", 1))
	assert.Empty(t, encoder.Sync(c.Answer("e")), "the rest is still being read")
	chattest.Apply(c, chattest.Piece("r", "bot", "cd", 1))
	assert.Equal(t, start+"\n"+content("d"), jsonLines(t, encoder.Sync(c.Answer("e"))))
}

func TestCallsWithoutTextSayWhoseTheyAre(t *testing.T) {
	call := []event.AgentEvent{chattest.Said("r", "bot", ""), chattest.Call("r", "c", "f"), chattest.Call("r", "d", "f")}
	got := run(t, known, call...)
	assert.True(t, strings.HasPrefix(got, `{"type":"TEXT_MESSAGE_START","messageId":"r","role":"assistant","name":"bot"}
{"type":"TEXT_MESSAGE_END","messageId":"r"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"r"}
{"type":"TOOL_CALL_ARGS","delta":"{}","toolCallId":"c"}
{"type":"TOOL_CALL_END","toolCallId":"c"}`), got)
	assert.Equal(t, 1, strings.Count(got, "TEXT_MESSAGE_START"))
	assert.NotContains(t, run(t, holding(said("")), call...), "TEXT_MESSAGE", "the client has it")
}

func TestOutcomes(t *testing.T) {
	call := []event.AgentEvent{chattest.Said("r", "bot", ""), chattest.Call("r", "c", "f")}
	with := func(more ...event.AgentEvent) *chat.Message { return answer(append(call, more...)...) }
	soon := chattest.Request("c", 0)
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	soon.Request.ExpiresAt = &at
	pause, end := (*agui.Encoder).Pause, (*agui.Encoder).End
	for name, c := range map[string]struct {
		m          *chat.Message
		ends       func(*agui.Encoder, *chat.Message) []agui.Event
		now, older string // of clients of 1.0, and of those before
	}{
		"success":       {with(chattest.Result("c", "x"), chattest.Ended("completed", "")), end, `"outcome":{"type":"success"}}`, `"outcome":{"type":"success"}}`},
		"cancelled":     {with(chattest.Ended("interrupted", "")), end, `"outcome":{"type":"cancelled"}}`, `"outcome":{"type":"success"}}`},
		"failed":        {with(chattest.Ended("failed", "why")), end, `{"type":"RUN_ERROR","message":"why"}`, `{"type":"RUN_ERROR","message":"why"}`},
		"interrupt":     {with(chattest.Request("c", 0)), pause, `"interrupts":[{"id":"c","reason":"tool_approval","message":"bot wants to call f"`, `"interrupts":[{"id":"c","reason":"tool_approval","message":"bot wants to call f"`},
		"asked again":   {with(chattest.Request("c", 2)), pause, `"interrupts":[{"id":"approval2_c"`, `"interrupts":[{"id":"approval2_c"`},
		"expires":       {with(soon), pause, `"expiresAt":"2030-01-02T03:04:05.006Z"`, `"metadata":{"request":{`},
		"frontend tool": {with(chattest.ForClient("c")), pause, `"outcome":{"type":"success","pendingToolCallIds":["c"]}}`, `"outcome":{"type":"success"}}`},
		"input":         {with(chattest.Question("c", 1)), pause, `"reason":"input_required","message":"When?"`, `"reason":"input_required","message":"When?"`},
		"decided":       {with(chattest.Request("c", 0), chattest.Decision("c", event.DecisionApprove, 0)), pause, `"outcome":{"type":"success"}}`, `"outcome":{"type":"success"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for version, want := range map[string]string{"1.0": c.now, "": c.older} {
				e := agui.New(agui.Config{ThreadID: "t", RunID: "run", Version: version})
				e.Sync(c.m)
				got := jsonLines(t, c.ends(e, c.m))
				assert.Contains(t, got, want)
				if version == "" {
					assert.NotRegexp(t, `SUBAGENT|pendingToolCallIds|"cancelled"|},"expiresAt"`, got)
				}
			}
		})
	}
}

func TestSubAgents(t *testing.T) {
	call := chattest.Call("r", "c", "call_agent")
	call.ToolArgs = `{"agent":"helper"}`
	asks := []event.AgentEvent{chattest.Said("r", "bot", "a"), call}
	const started = `{"type":"SUBAGENT_STARTED","name":"helper","parentMessageId":"r","subagentRunId":"c","parentToolCallId":"c"}`
	assert.Contains(t, run(t, known, asks...), started)
	assert.NotContains(t, run(t, agui.Config{}, asks...), "SUBAGENT", "clients before 1.0")

	has := said("a")
	has.ToolCalls = []agui.ToolCall{{ID: "c", Function: agui.Function{Arguments: call.ToolArgs}}}
	encoder := agui.New(holding(has))
	c := chattest.Read(append([]event.AgentEvent{chattest.Asked("e")}, append(asks, chattest.Request("s", 0))...)...)
	got := jsonLines(t, encoder.Sync(c.Answer("e")))
	assert.Contains(t, got, started, "each run says what goes on")
	assert.Contains(t, got, `{"type":"TOOL_CALL_START","toolCallId":"s","toolCallName":"f","parentMessageId":"s.call"}`, "the request of the sub-agent")
	assert.Contains(t, jsonLines(t, encoder.Pause(c.Answer("e"))), `{"type":"SUBAGENT_FINISHED","outcome":{"type":"suspended"},"subagentRunId":"c"}`)

	c = chattest.Read(append([]event.AgentEvent{chattest.Asked("e")}, append(asks, chattest.Question("s", 1))...)...)
	encoder = agui.New(holding(has))
	assert.NotContains(t, jsonLines(t, encoder.Sync(c.Answer("e"))), "TOOL_CALL", "its question is an interrupt")
	got = jsonLines(t, encoder.Pause(c.Answer("e")))
	assert.Contains(t, got, `"interrupts":[{"id":"s.input.1","reason":"input_required","message":"When?","responseSchema":{`)
	assert.NotContains(t, strings.Split(got, `"metadata"`)[0], `"toolCallId"`, "the client does not have the call")
	chattest.Apply(c, chattest.Withdrawal("s", 1))
	assert.NotContains(t, jsonLines(t, encoder.Pause(c.Answer("e"))), "interrupts")

	failed := chattest.Result("c", "why")
	failed.IsError = true
	assert.Contains(t, run(t, holding(has), append(asks, failed)...), `{"type":"SUBAGENT_ERROR","message":"why","subagentRunId":"c"}`)
	result := &agui.Message{ID: "c.result", Role: "tool", ToolCallID: "c", Content: "why"}
	assert.Empty(t, run(t, holding(has, result), append(asks, failed)...))
}

func TestEventsOnce(t *testing.T) {
	found := event.AgentEvent{Type: event.EventRetrieval, MessageID: "r", Retrieval: &event.Retrieval{MessageID: "r", Warning: "no vectors"}}
	events := []event.AgentEvent{
		found, chattest.Said("r", "bot", "a"), chattest.Call("r", "c", "f"), chattest.Request("c", 0), chattest.Decision("c", event.DecisionApprove, 0),
		chattest.Result("c", "x"), chattest.Call("r", "d", "f"), chattest.Request("d", 0),
	}
	called := said("a")
	called.ToolCalls = []agui.ToolCall{{ID: "c", Function: agui.Function{Arguments: "{}"}}}
	result := &agui.Message{ID: "c.result", Role: "tool", ToolCallID: "c", Content: "x"}
	answers := holding(called)
	answers.Answered = map[string]bool{"d": true}
	for name, c := range map[string]struct {
		cfg                 agui.Config
		retrieval, decision bool
	}{
		"a client that has nothing":             {known, true, true},
		"one whose text was cut":                {holding(said("")), true, true},
		"one that waits for the decision":       {holding(called), false, true},
		"one that has the result":               {holding(called, result), false, false},
		"one that answers the second interrupt": {answers, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, c.cfg, events...)
			assert.Equal(t, c.retrieval, strings.Contains(got, "threadmill.retrieval"), got)
			assert.Equal(t, c.decision, strings.Contains(got, "threadmill.decision"), got)
		})
	}
	messages, told := agui.Snapshot(chattest.Read(append([]event.AgentEvent{chattest.Asked("e")}, events...)...))
	assert.Len(t, told, 2, "messages do not have them")
	connects := known
	connects.Held, connects.Connects, connects.Told = agui.Holds(messages), true, told
	assert.Empty(t, run(t, connects, events...))
}

// TestComplete: a client that says something new gets the end of the answer before, where it belongs.
func TestComplete(t *testing.T) {
	c := chattest.Read(chattest.Asked("e"), chattest.Said("r", "bot", "abc"), chattest.Said("s", "bot", "done"), chattest.Ended("completed", ""))
	ask := &agui.Message{ID: "f", Role: "user", Content: "and?"}
	const question, whole, next = `{"id":"e","role":"user","content":"?"}`, `{"id":"r","role":"assistant","content":"abc","name":"bot"},{"id":"s","role":"assistant","content":"done","name":"bot"}`, `{"id":"f","role":"user","content":"and?"}`
	assert.Equal(t, `{"type":"MESSAGES_SNAPSHOT","messages":[`+question+`,{"id":"r","role":"assistant","content":"abc","name":"bot"}]}
{"type":"MESSAGES_SNAPSHOT","messages":[`+question+`,`+whole+`,`+next+`]}`, jsonLines(t, agui.New(holding(said("ab"), ask)).Complete(c)), "clients append what they do not have")
	assert.Empty(t, agui.New(holding(said("abc"), &agui.Message{ID: "s", Role: "assistant", Content: "done"}, ask)).Complete(c))
	stranger := known
	stranger.Held = agui.Holds([]*agui.Message{ask})
	assert.Empty(t, agui.New(stranger).Complete(c), "a client that has nothing of a thread wants nothing of it")
}

// TestHeldTwice: a client may send anything, such as the same message twice.
func TestHeldTwice(t *testing.T) {
	twice := []*agui.Held{{ID: "a", Role: "user"}, {ID: "a", Role: "user"}, {ID: "b", Role: "assistant"}, {ID: "a", Role: "user"}, {ID: "b", Role: "assistant"}}
	_, held := agui.Replace(twice, []*agui.Message{{ID: "b"}, {ID: "a"}})
	assert.Len(t, held, 2)
	m := chattest.Read(chattest.Asked("a"), chattest.Said("b", "bot", "x")).Answer("a")
	e := agui.New(agui.Config{Held: twice})
	assert.NotPanics(t, func() {
		e.Sync(m)
		e.End(m)
	})
}
