package events

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// risky is a tool that needs approval.
var risky = check.NewSpy("risky", tool.NeedsApproval("it is risky"))

// watchful are an agent for rules and another one.
func watchful() []agent.Agent {
	return []agent.Agent{
		{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "risky", "failing"}},
		{Name: "bob", Instructions: "You are bob.", Model: "openai/stand-in"},
	}
}

// wakes is a rule with an agent, above the default ones.
func wakes(name, events string, a rule.Agent) rule.Rule {
	return rule.Rule{Name: name, Events: []string{events}, Priority: 30, Agent: &a}
}

// TestEventAgent covers rules with agents.
func TestEventAgent(t *testing.T) {
	t.Parallel()
	w := ruled(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}},
		wakes("files", "file.*", rule.Agent{SystemPrompt: "You are a file expert.", Prompt: "Say what has changed."}),
		wakes("builds", "build.*", rule.Agent{Name: "bob", Prompt: "Look at the build."}))
	t.Run("what it is shown", func(t *testing.T) { eventShown(t, w) })
	t.Run("S3-23 S3-35 each event has an agent of its own", func(t *testing.T) { eventsApart(t, w) })
	t.Run("which agent it is", func(t *testing.T) { eventFor(t, w) })
	t.Run("S3-23 S3-44 S3-55 S3-agent_handler it answers, and viewers see it", func(t *testing.T) { eventAnswered(t, w) })
	t.Run("S3-44 it calls tools", func(t *testing.T) { eventTools(t, w) })
	t.Run("S3-44 it asks a person", func(t *testing.T) { eventAsks(t, w) })
	t.Run("S3-44 it looks at events again", func(t *testing.T) { eventsLookedAt(t, w) })
	t.Run("an interrupt keeps what it has said", func(t *testing.T) { eventCut(t, w) })
	t.Run("a model that fails can be asked again", func(t *testing.T) { eventRetried(t, w) })
}

func eventShown(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	check.Say(w, thread, "hello")
	before := w.Messages(thread)
	w.Provider.Reset()
	e := check.Happened("file.changed", map[string]any{"path": "a.go", "do": "use note {\"text\":\"changed\"}"}, func(e *event.EnvEvent) {
		e.Metadata = event.EnvMetadata{
			TriggerSessionID: thread, Source: event.SourceEnv, EnvName: "laptop", Extra: map[string]json.RawMessage{"retries": json.RawMessage("2")},
		}
	})
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
	calls := check.ModelCalls(w)
	require.Len(t, calls, 2, "the event, and the result of its tool")
	seen := calls[0].Messages
	require.Len(t, seen, 1+len(before)+3+1)
	observed, asked, told, query := seen[3], seen[4], seen[5], seen[6]

	t.Run("S3-43 X7 the prompts of its rule", func(t *testing.T) {
		require.Equal(t, event.RoleSystem, seen[0].Role)
		require.Equal(t, "You help.\n\nYou are a file expert.\n\nSay what has changed.", calls[0].Instructions())
	})
	t.Run("S3-38 S3-handle_constructs_messages S3-handle_message_content what was observed, in three parts", func(t *testing.T) {
		require.Equal(t, event.RoleUser, observed.Role)
		parts := observed.Parts
		if harness.Protocol() != "openai" { // which has parts
			parts = strings.Split(observed.Content, "\n")
		}
		require.Equal(t, []string{"Observed event: file.changed", "Event ID: " + e.ID, "Time: 2023-11-14T22:13:20.123Z"}, parts)
	})
	t.Run("S3-39 that it asks for the event", func(t *testing.T) {
		require.Equal(t, event.RoleAssistant, asked.Role)
		require.Empty(t, asked.Content)
		call := check.Only(t, asked.ToolCalls)
		require.Equal(t, event.Function{Name: "get_event_info", Arguments: `{"event_ids":["` + e.ID + `"]}`}, call.Function)
		stored := harness.Payload[event.Message](w, check.RecordOf(w, thread, e.ID+".asked"))
		require.Equal(t, []event.ToolCall{{ID: "call_" + e.ID, Function: call.Function}}, stored.ToolCalls)
		var wire struct {
			Messages []struct {
				ToolCalls []struct {
					Type string `json:"type"`
				} `json:"tool_calls"`
			} `json:"messages"`
		}
		require.NoError(t, json.Unmarshal([]byte(calls[0].Raw), &wire))
		if harness.Protocol() == "openai" {
			require.Equal(t, "function", check.Only(t, wire.Messages[4].ToolCalls).Type)
		}
	})
	t.Run("S3-40 the event", func(t *testing.T) {
		require.Equal(t, event.RoleTool, told.Role)
		require.Equal(t, asked.ToolCalls[0].ID, told.ToolCallID, "which a provider may be given in a shorter form")
		require.Equal(t, "call_"+e.ID, harness.Payload[event.Message](w, check.RecordOf(w, thread, "call_"+e.ID+".result")).ToolCallID)
		requireSameJSON(t, []byte(`{"event_id":"`+e.ID+`","event_type":"file.changed","timestamp":1700000000123,"payload":`+string(e.Payload)+`,
			"metadata":{"trigger_session_id":"`+thread+`","source":"env","env_name":"laptop","retries":2}}`), []byte(told.Content))
	})
	t.Run("S3-42 S3-handle_calls_handle_query X5 it is asked once, behind all of that", func(t *testing.T) {
		require.Equal(t, llm.Message{Role: event.RoleUser, Content: "Process event: file.changed"}, query)
	})
	t.Run("S3-41 S3-handle_inserts_to_session X6 the three are in the history, calls and results in pairs", func(t *testing.T) {
		after := w.Messages(thread)
		require.Len(t, after, len(before)+3+3, "a call, its result and a reply behind them")
		for i, id := range []string{e.ID + ".observed", e.ID + ".asked", "call_" + e.ID + ".result"} {
			require.Equal(t, id, after[len(before)+i].ID)
		}
		check.RequireSettled(t, w, thread)
		check.Say(w, thread, "what was that?")
		calls := check.ModelCalls(w)
		again := calls[len(calls)-1].Messages
		check.RequireAnswered(t, again)
		require.Equal(t, seen[1:6], again[1:6], "and stay there")
		require.NotContains(t, calls[len(calls)-1].Raw, "Process event: ", "what it was asked is no part of the conversation")
	})
}

func eventsApart(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	w.Provider.Reset()
	check.Handle(w, thread, check.Happened("file.changed", nil))
	check.Handle(w, thread, check.Happened("build.ended", nil))
	check.Say(w, thread, "hello")
	var systems []string
	for _, c := range check.ModelCalls(w) {
		systems = append(systems, c.Instructions())
	}
	require.Equal(t, []string{
		"You help.\n\nYou are a file expert.\n\nSay what has changed.", "You are bob.\n\nLook at the build.", "You help.",
	}, systems)
}

func eventFor(t *testing.T, w *harness.Harness) {
	about := func(name, id string) func(*event.EnvEvent) {
		return func(e *event.EnvEvent) { e.Metadata.TriggerAgentName, e.Metadata.TriggerAgentID = name, id }
	}
	for name, tt := range map[string]struct {
		agents []string
		e      event.EnvEvent
		want   string
	}{
		"that of the rule":                    {[]string{"assistant"}, check.Happened("build.ended", nil, about("assistant", "")), "bob"},
		"that of the event, by name":          {[]string{"assistant", "bob"}, check.Happened("file.changed", nil, about("Bob", "")), "bob"},
		"that of the event, by id":            {[]string{"assistant", "bob"}, check.Happened("file.changed", nil, about("", "bob")), "bob"},
		"one that takes no part is not asked": {[]string{"assistant"}, check.Happened("file.changed", nil, about("bob", "")), "assistant"},
		"the first of the thread":             {[]string{"bob", "assistant"}, check.Happened("file.changed", nil), "bob"},
		"the default agent":                   {nil, check.Happened("file.changed", nil), "assistant"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, check.Handle(w, w.Open(tt.agents...), tt.e).Message.SenderID)
		})
	}
}

func eventAnswered(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	viewer, env := check.Watch(t, w, thread, ""), watchEnv(t, w, thread)
	e := asking("file.changed", "The file is fine.")
	out := check.Handle(w, thread, e)
	require.Equal(t, "The file is fine.", out.Message.Content)
	require.Equal(t, e.ID+".observed", out.Message.ReplyToMessageID)
	messages := w.Messages(thread)
	require.Equal(t, "The file is fine.", messages[len(messages)-1].Content, "it is stored")
	frames := viewer.Until(t, check.IsFinal)
	require.Equal(t, "The file is fine.", check.Streamed(frames, out.Message.ID))
	require.Equal(t, []string{
		"session.created", "file.changed", "stream.start", "stream.text", "stream.text", "stream.text", "stream.text", "stream.completed",
	}, env.until(t, event.TypeStreamCompleted))
}

func eventTools(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	out := check.Handle(w, thread, asking("file.changed", "use note {\"text\":\"one\"}\nuse failing {\"how\":\"error\"}\nthen\nuse note {\"text\":\"two\"}\nthen\nall done"))
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "note returned: noted: two\nall done", out.Message.Content)
	check.RequireSettled(t, w, thread)
	calls := check.ModelCalls(w)
	last := calls[len(calls)-1]
	check.RequireAnswered(t, last.Messages)
	require.Equal(t, []string{"note", "risky", "failing", "get_event_info"}, last.Offered(), "the stand-in calls any, other models only these")
}

func eventAsks(t *testing.T, w *harness.Harness) {
	thread, e := w.Open(), asking("file.changed", "use risky {}")
	publish(w, thread, e)
	request := w.AwaitApproval(thread, 1)[0]
	require.Equal(t, "risky", request.ToolName)
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, thread, request.ToolCallID))
	require.Equal(t, "risky returned: seen", awaitEvent(w, thread, e).Message.Content)

	t.Run("in words", func(t *testing.T) {
		require.Equal(t, "Shall I revert it?", check.Handle(w, thread, asking("file.changed", "Shall I revert it?")).Message.Content)
		require.Equal(t, "note returned: noted: reverted", check.Say(w, thread, `use note {"text":"reverted"}`).Message.Content)
		calls := check.ModelCalls(w)
		require.True(t, slices.ContainsFunc(calls[len(calls)-1].Messages, func(m llm.Message) bool { return m.Content == "Shall I revert it?" }),
			"it knows what it has asked")
	})
}

func eventsLookedAt(t *testing.T, w *harness.Harness) {
	thread, first := w.Open(), check.Happened("file.changed", map[string]string{"path": "a.go"})
	check.Handle(w, thread, first)
	out := check.Handle(w, thread, asking("file.changed", `use get_event_info {"event_ids":["`+first.ID+`"]}`))
	require.Contains(t, out.Message.Content, `get_event_info returned: {"event_id":"`+first.ID+`","event_type":"file.changed"`)
	require.Contains(t, out.Message.Content, `"payload":{"path":"a.go"}`)
}

func eventCut(t *testing.T, w *harness.Harness) {
	thread, e := w.Open(), asking("file.changed", "count 5")
	gate := w.Provider.Block(2)
	publish(w, thread, e)
	<-gate.Reached()
	require.NoError(t, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, awaitEvent(w, thread, e).Status)
	gate.Release()
	messages := w.Messages(thread)
	require.Len(t, messages, 4)
	require.Equal(t, "1 2", messages[3].Content)
	require.True(t, messages[3].Interrupted)
	require.Equal(t, "hello", check.Say(w, thread, "hello").Message.Content)
}

func eventRetried(t *testing.T, w *harness.Harness) {
	thread, e := w.Open(), asking("file.changed", "The file is fine.")
	w.Provider.Fail(check.Failing400)
	require.Equal(t, signals.TurnFailed, check.Handle(w, thread, e).Status)
	_, err := w.Threads.Retry(w.Ctx(), thread, e.ID, "ann")
	require.NoError(t, err)
	out := awaitEvent(w, thread, e)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "The file is fine.", out.Message.Content)
	require.Len(t, w.Messages(thread), 4, "the event is shown once")
	require.Len(t, published(w, thread), 1)
}

// TestEventNowhere publishes events that name no thread.
func TestEventNowhere(t *testing.T) {
	t.Parallel()
	log := &check.Logbook{}
	w := ruled(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}, Configure: func(c *threadmill.Config) { log.Keep(t, c) }})
	there := w.Open()
	gone := w.Open()
	check.Closed(t, w, gone)
	for row, tt := range map[string]struct{ thread, warning string }{
		"S3-36 S3-handle_no_session_id without trigger_session_id": {"", "No trigger_session_id in the metadata of event "},
		"S3-37 S3-handle_session_not_found of an unknown session":  {"nobody", "is not there"},
		"S3-37 of a session that is over":                          {gone, "is closed"},
	} {
		t.Run(row, func(t *testing.T) {
			e := check.Happened("file.changed", nil, func(e *event.EnvEvent) { e.Metadata.TriggerSessionID = tt.thread })
			out, err := w.Runtime.Publish(w.Ctx(), e)
			require.NoError(t, err)
			require.Equal(t, threadclient.PublishIgnored, out.Status)
			require.Contains(t, out.Warning, tt.warning)

			status, answer := check.Request(t, w, http.MethodPost, "/v1/events", e)
			require.Equal(t, http.StatusAccepted, status)
			require.Equal(t, "ignored", answer["status"])
			require.Contains(t, answer["warning"], tt.warning)
			lines := log.Lines(e.ID)
			require.Len(t, lines, 2, "either says so in its log")
			for _, line := range lines {
				require.Contains(t, line, `"level":"WARN"`)
			}
		})
	}
	require.Zero(t, w.Provider.Calls(), "nothing has changed")
	require.Empty(t, published(w, there))
	require.Empty(t, published(w, gone))
}
