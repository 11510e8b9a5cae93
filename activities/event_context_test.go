package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

const uuid = "550e8400-e29b-41d4-a716-446655440000"

// changed is an environment event.
func changed() event.EnvEvent {
	return event.EnvEvent{
		ID: uuid, Type: "file.changed", Timestamp: time.Date(2026, 2, 16, 10, 0, 0, 5e6, time.UTC).UnixMilli(),
		Metadata: event.EnvMetadata{
			TriggerSessionID: "t1", EnvName: "os", Source: event.SourceEnv, Extra: map[string]json.RawMessage{"host": json.RawMessage(`"a & b"`)},
		},
		Payload: json.RawMessage(`{"path":"a.go","diff":"<b> \\u003c","n":10000000000000001}`),
	}
}

func envRecord(e event.EnvEvent) event.Record {
	return event.NewRecord(e.ID, event.TypeEnv, "e1", "", time.Now(), e)
}

// observeStep is the first step of a run that handles an event.
func observeStep(e event.EnvEvent) step.Model {
	return step.Model{
		Run:     step.Run{Thread: ref, TraceID: "e1", EventID: e.ID, MessageID: e.ID + ".0.1", Flush: step.Flush{Records: []event.Record{envRecord(e)}}},
		ReplyTo: recordid.Observed(e.ID),
		Step:    1,
		Observe: &step.Observe{EventID: e.ID, Type: e.Type, Query: "Process event: " + e.Type},
	}
}

// observation are the messages about changed in the model's context, and the query.
func observation() []llm.Message {
	return []llm.Message{
		{
			Role: "user", Name: "os", Content: "Observed event: file.changed\nEvent ID: " + uuid + "\nTime: 2026-02-16T10:00:00.005Z",
			Parts: []string{"Observed event: file.changed", "Event ID: " + uuid, "Time: 2026-02-16T10:00:00.005Z"},
		},
		{Role: "assistant", ToolCalls: []event.ToolCall{call("call_"+uuid, "get_event_info", `{"event_ids":["`+uuid+`"]}`)}},
		{
			Role: "tool", ToolCallID: "call_" + uuid, Content: `{"event_id":"` + uuid + `","event_type":"file.changed","timestamp":1771236000005,` +
				`"metadata":{"env_name":"os","host":"a & b","source":"env","trigger_session_id":"t1"},` +
				`"payload":{"path":"a.go","diff":"<b> \\u003c","n":10000000000000001}}`,
		},
		{Role: "user", Content: "Process event: file.changed"},
	}
}

// observedIDs are the ids of the records about a handled event.
var observedIDs = []string{uuid, uuid + ".observed", uuid + ".asked", uuid + ".asked.calls", "call_" + uuid + ".result"}

// lastShown is the model's last context, without its instructions.
func (w *fixture) lastShown() []llm.Message {
	w.t.Helper()
	require.NotEmpty(w.t, w.model.requests)
	out := w.model.requests[len(w.model.requests)-1].Messages
	for len(out) > 0 && out[0].Role == event.RoleSystem {
		out = out[1:]
	}
	return out
}

func TestObservation(t *testing.T) {
	w := newFixture(t, nil)
	w.append(store.Batch{Records: says("m1", "watch the files").Records})
	_, err := w.callModel(observeStep(changed()))
	require.NoError(t, err)
	require.Equal(t, append(append([]string{"m1"}, observedIDs...), uuid+".0.1.llm", uuid+".0.1", uuid+".0.1.final"), w.ids(), "S3-41 three messages")
	shown := observation()
	t.Run("S3-38 what was observed", func(t *testing.T) {
		require.Equal(t, event.Message{
			ID: uuid + ".observed", ThreadID: "t1", SenderID: "os", SenderType: event.CreatedByUser, Role: "user",
			Content: shown[0].Content, Parts: event.TextParts(shown[0].Parts...),
		}, stored[event.Message](w, uuid+".observed"))
	})
	t.Run("S3-39 X6 the call", func(t *testing.T) {
		require.Equal(t, event.Message{
			ID: uuid + ".asked", ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, Role: "assistant",
			ToolCalls: shown[1].ToolCalls, AgentID: "assistant", ReplyToMessageID: uuid + ".observed",
		}, stored[event.Message](w, uuid+".asked"))
	})
	t.Run("S3-40 X6 its result", func(t *testing.T) {
		require.Equal(t, event.Message{
			ID: "call_" + uuid + ".result", ThreadID: "t1", SenderID: "get_event_info", SenderType: event.CreatedByTool, Role: "tool",
			Content: shown[2].Content, ToolCallID: "call_" + uuid, ToolName: "get_event_info", AgentID: "assistant", ReplyToMessageID: uuid + ".asked",
		}, stored[event.Message](w, "call_"+uuid+".result"))
	})
	t.Run("S3-41 S3-42 X5 the model sees all of it, and is asked once", func(t *testing.T) {
		require.Equal(t, append([]llm.Message{{Role: "user", Name: "ann", Content: "watch the files"}}, shown...), w.lastShown())
	})
	for _, r := range w.records()[2:5] {
		require.Equal(t, "e1", r.TraceID)
		require.Equal(t, uuid, r.ParentEventID)
	}
}

func TestObservationOfAnEventThatSaysLittle(t *testing.T) {
	w := newFixture(t, nil)
	in := observeStep(event.EnvEvent{ID: "e9", Type: "ping"})
	in.Observe.Held, in.Observe.Since = 3, new(time.Date(2026, 2, 16, 11, 0, 0, 0, time.FixedZone("", 3600)))
	_, err := w.callModel(in)
	require.NoError(t, err)
	m := stored[event.Message](w, "e9.observed")
	require.Equal(t, "environment", m.SenderID)
	require.Equal(t, []event.Part{
		{Type: "text", Text: "Observed event: ping"},
		{Type: "text", Text: "Event ID: e9"},
		{Type: "text", Text: "Time: 1970-01-01T00:00:00.000Z"},
		{Type: "text", Text: "Held back before it: 3 events since 2026-02-16T10:00:00.000Z; get_event_info shows earlier events by their ids"},
	}, m.Parts)
	require.Equal(t, `{"event_id":"e9","event_type":"ping","timestamp":0,"metadata":{},"payload":null}`, stored[event.Message](w, "call_e9.result").Content)

	in = observeStep(event.EnvEvent{ID: "e10", Type: "ping"})
	in.Observe.Held = 1
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Contains(t, stored[event.Message](w, "e10.observed").Content, "Held back before it: 1 event; ")
}

// TestQueryKeepsItsPlace follows a run that calls a tool, and the turn after it.
func TestQueryKeepsItsPlace(t *testing.T) {
	w := newFixture(t, nil, add)
	in := observeStep(changed())
	w.replies("", call("x", "add", `{"a":1,"b":2}`))
	reply, err := w.callModel(in)
	require.NoError(t, err)
	id := reply.Calls[0].ID
	first := w.lastShown()
	require.Equal(t, observation(), first)
	_, err = w.runTool(step.Tool{
		Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: uuid, MessageID: in.MessageID},
		ToolCallID: id,
		ToolName:   "add",
	})
	require.NoError(t, err)

	in.MessageID, in.Step, in.Flush = uuid+".0.2", 2, says("steered", "and b.go, too")
	w.replies("done")
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, append(observation(),
		llm.Message{Role: "assistant", ToolCalls: []event.ToolCall{call(id, "add", `{"a":1,"b":2}`)}},
		llm.Message{Role: "tool", ToolCallID: id, Content: "3"},
		llm.Message{Role: "user", Name: "ann", Content: "and b.go, too"},
	), w.lastShown(), "S3-42 S3-44 X5 asked once, where it was asked before")

	_, err = w.callModel(modelStep())
	require.NoError(t, err)
	later := w.lastShown()
	require.Equal(t, observation()[:3], later[:3], "S3-41 what was observed stays in the conversation")
	for _, m := range later {
		require.NotContains(t, m.Content, "Process event", "the query does not")
	}
}

// TestObservingTurnStaysWhole: whatever the window, the model sees all of the running turn.
func TestObservingTurnStaysWhole(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 6} {
		t.Run(fmt.Sprintf("S3-42 with a window of %d", limit), func(t *testing.T) {
			w := newFixture(t, func(c *activities.Config) {
				c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: []string{"add"}, Limits: agent.Limits{ContextMessages: limit}}}
			}, add)
			in := observeStep(changed())
			w.replies("", call("x", "add", `{"a":1,"b":2}`))
			reply, err := w.callModel(in)
			require.NoError(t, err)
			id := reply.Calls[0].ID
			_, err = w.runTool(step.Tool{
				Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: uuid, MessageID: in.MessageID},
				ToolCallID: id,
				ToolName:   "add",
			})
			require.NoError(t, err)
			in.MessageID, in.Step, in.Flush = uuid+".0.2", 2, says("m1", "hello")
			_, err = w.callModel(in)
			require.NoError(t, err)

			require.Equal(t, append(observation(),
				llm.Message{Role: "assistant", ToolCalls: []event.ToolCall{call(id, "add", `{"a":1,"b":2}`)}},
				llm.Message{Role: "tool", ToolCallID: id, Content: "3"},
				llm.Message{Role: "user", Name: "ann", Content: "hello"},
			), w.lastShown())
		})
	}
}

func TestEventThatIsHandledAgain(t *testing.T) {
	w := newFixture(t, nil)
	w.replies("I saw it")
	_, err := w.callModel(observeStep(changed()))
	require.NoError(t, err)
	w.append(store.Batch{Records: says("m1", "so what?").Records})

	in := observeStep(changed())
	in.MessageID = uuid + "~1.0.1"
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, append(observation()[:3],
		llm.Message{Role: "assistant", Content: "I saw it"},
		llm.Message{Role: "user", Name: "ann", Content: "so what?"},
		observation()[3],
	), w.lastShown(), "the event is in the conversation once; the model is asked anew")
	require.Equal(t, observedIDs, w.ids()[:5])
	require.Len(t, w.ids(), 5+3+1+3)
}

func TestPromptsSteer(t *testing.T) {
	w := newFixture(t, nil)
	in := observeStep(changed())
	in.Instructions = "You review code.\n\nSay what is wrong with the change."
	_, err := w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, llm.Message{Role: "system", Content: "You help.\n\nYou review code.\n\nSay what is wrong with the change.\n\n" + activities.ToolRules},
		w.model.requests[0].Messages[0], "S3-43 X7")

	_, err = w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, "You help.\n\n"+activities.ToolRules, w.model.requests[1].Messages[0].Content, "S3-35 no other call")
}

func TestObservationIsStoredOnce(t *testing.T) {
	t.Run("an attempt fails", func(t *testing.T) {
		w := newFixture(t, nil)
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			if len(w.model.requests) < 3 {
				return llm.Response{}, &llm.Error{Provider: "fake", Message: "cut", Retryable: true}
			}
			return llm.Response{Content: "ok"}, nil
		}
		require.NoError(t, w.retried(step.ActivityCallModel, observeStep(changed())))
		require.Equal(t, append(observedIDs[:5:5], uuid+".0.1.llm", uuid+".0.1", uuid+".0.1.final"), w.ids())
		require.Len(t, w.model.requests, 3)
		for i := range w.model.requests {
			require.Equal(t, observation(), w.model.requests[i].Messages[1:], "each attempt is shown the same")
		}
	})
	t.Run("the event was stored before", func(t *testing.T) {
		w := newFixture(t, nil)
		w.append(store.Batch{Records: []event.Record{envRecord(changed())}})
		in := observeStep(changed())
		in.Flush = step.Flush{}
		_, err := w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, observation(), w.lastShown())
		in.MessageID = uuid + ".0.2"
		_, err = w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, append(observedIDs[:5:5], uuid+".0.1.llm", uuid+".0.1", uuid+".0.1.final", uuid+".0.2.llm", uuid+".0.2", uuid+".0.2.final"), w.ids())
	})
	t.Run("the event is not there", func(t *testing.T) {
		w := newFixture(t, nil)
		in := observeStep(changed())
		in.Flush = says("m1", "hello")
		_, err := w.callModel(in)
		require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
		require.ErrorContains(t, err, uuid)
		require.Equal(t, []string{"m1"}, w.ids(), "what was handed over is stored all the same")
	})
	t.Run("the agent is not there", func(t *testing.T) {
		w := newFixture(t, nil)
		in := observeStep(changed())
		in.Agent = "nobody"
		_, err := w.callModel(in)
		require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
		require.Equal(t, []string{uuid}, w.ids(), "what was handed over is stored all the same")
	})
}

// TestObservationAsHooksHaveLeftIt: content that hooks have removed from an event stays removed.
func TestObservationAsHooksHaveLeftIt(t *testing.T) {
	redacted := changed()
	redacted.ID, redacted.Type, redacted.Payload = "", "file.changed.safely", json.RawMessage(`{"path":"a.go"}`)
	decision := decided(uuid, event.Interception{EventID: uuid, EventType: "file.changed", Outcome: event.OutcomeReplaced, Env: &redacted})
	for name, before := range map[string][]event.Record{
		"all is handed over":     {},
		"the event was stored":   {envRecord(changed())},
		"both were stored":       {envRecord(changed()), decision},
		"the decision is stored": {decision},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			in := observeStep(changed())
			in.Observe.Type, in.Observe.Replaced = redacted.Type, true
			if len(before) > 0 {
				w.append(store.Batch{Records: before})
			}
			in.Flush = step.Flush{}
			for _, r := range []event.Record{envRecord(changed()), decision} {
				if !strings.Contains(strings.Join(w.ids(), " ")+" ", r.ID+" ") {
					in.Flush.Records = append(in.Flush.Records, r)
				}
			}
			_, err := w.callModel(in)
			require.NoError(t, err)
			shown := w.lastShown()
			require.Equal(t, []string{"Observed event: file.changed.safely", "Event ID: " + uuid, "Time: 2026-02-16T10:00:00.005Z"}, shown[0].Parts)
			require.Contains(t, shown[2].Content, `"event_id":"`+uuid+`","event_type":"file.changed.safely"`)
			require.Contains(t, shown[2].Content, `"payload":{"path":"a.go"}}`)
		})
	}
	for name, hook := range map[string][]event.Record{
		"the decision is missing":     nil,
		"the decision cannot be read": {event.NewRecord(recordid.Interception(uuid), event.TypeHook, "", "", time.Now(), "no decision")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			in := observeStep(changed())
			in.Observe.Replaced = true
			in.Flush.Records = append(in.Flush.Records, hook...)
			_, err := w.callModel(in)
			require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
			require.Empty(t, w.model.requests, "the model is not shown what a hook may have kept from it")
		})
	}
}

func TestOtherAgentsSeeThatAnEventWasObserved(t *testing.T) {
	w := newFixture(t, nil)
	_, err := w.callModel(observeStep(changed()))
	require.NoError(t, err)
	in := modelStep()
	in.Agent = "bob"
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, []llm.Message{
		observation()[0],
		{Role: "user", Name: "assistant", Content: "assistant: ok"},
		{Role: "user", Name: "ann", Content: "hello"},
	}, w.lastShown(), "S3-38 only the first message is for everybody")
	require.Empty(t, w.model.requests[1].Tools, "nor is the tool offered to those who have seen no call of it")
}

// TestProviderTakesObservation: a strict server of the protocol accepts every step of a run.
func TestProviderTakesObservation(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(s.Close)
	p, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: "test"})
	require.NoError(t, err)
	w := newFixture(t, func(c *activities.Config) { c.Models["fake"] = p })
	e := changed()
	e.Payload = json.RawMessage(`"` + strings.Repeat("é<", signals.MaxPayload/3-1) + `"`)
	in := observeStep(e)
	_, err = w.callModel(in)
	require.NoError(t, err, "S3-41 X6")
	in.MessageID, in.Step, in.Flush = uuid+".0.2", 2, step.Flush{}
	reply, err := w.callModel(in)
	require.NoError(t, err, "S3-41 X6")
	require.Equal(t, "Process event: file.changed", reply.Message.Content, "the stand-in repeats what it is asked")
	var shown struct {
		Event   string `json:"event_id"`
		Payload string `json:"payload"`
	}
	require.NoError(t, json.Unmarshal([]byte(stored[event.Message](w, "call_"+uuid+".result").Content), &shown))
	require.Equal(t, uuid, shown.Event)
	require.Equal(t, strings.Repeat("é<", signals.MaxPayload/3-1), shown.Payload, "the largest payload is shown whole")
}
