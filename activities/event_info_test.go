package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// eventInfo runs the tool for an agent that does not list it.
func (w *fixture) eventInfo(arguments string) event.Message {
	w.t.Helper()
	id := fmt.Sprintf("c%d", len(w.records()))
	w.append(store.Batch{Records: []event.Record{message(event.Message{
		ID: "asks." + id, SenderType: event.CreatedByAgent, AgentID: "assistant", ToolCalls: []event.ToolCall{call(id, "get_event_info", arguments)},
	})}})
	_, err := w.runTool(step.Tool{
		Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "asks." + id},
		ToolCallID: id,
		ToolName:   "get_event_info",
	})
	require.NoError(w.t, err)
	return stored[event.Message](w, recordid.Result(id))
}

func TestEventInfo(t *testing.T) {
	w := newFixture(t, nil)
	hidden := event.EnvEvent{ID: "hidden", Type: "mail.received", Payload: json.RawMessage(`"a secret"`)}
	shown := event.EnvEvent{Type: "mail.received", Payload: json.RawMessage(`"[redacted]"`)}
	w.append(store.Batch{Records: []event.Record{
		envRecord(changed()), envRecord(event.EnvEvent{ID: "e2", Type: "ping"}), envRecord(hidden),
		decided("hidden", event.Interception{EventID: "hidden", Outcome: event.OutcomeReplaced, Env: &shown}),
		decided("e2", event.Interception{EventID: "e2", Outcome: event.OutcomePassed}),
		message(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "hello"}),
	}})
	_, err := w.store.Append(context.Background(), store.Key{Namespace: "ns", ThreadID: "t2"}, store.Batch{Records: []event.Record{envRecord(event.EnvEvent{ID: "others", Type: "ping"})}})
	require.NoError(t, err)

	known := observation()[2].Content
	const ping = `{"event_id":"e2","event_type":"ping","timestamp":0,"metadata":{},"payload":null}`
	missing := func(id string) string { return `{"event_id":` + id + `,"error":"not found in this thread"}` }
	for _, tt := range []struct{ name, ids, want string }{
		{"S3-40 one event", `"` + uuid + `"`, known},
		{"several, in the order of the ids", `"e2","` + uuid + `","e2"`, "[" + ping + "," + known + "," + ping + "]"},
		{"some are not there", `"e1","e2"`, "[" + missing(`"e1"`) + "," + ping + "]"},
		{"of another thread", `"others"`, missing(`"others"`)},
		{"no event", `"m1"`, missing(`"m1"`)},
		{"no id at all", `"","a.b<","\u0000"`, "[" + missing(`""`) + "," + missing(`"a.b<"`) + "," + missing(`"\u0000"`) + "]"},
		{"a very long id", `"` + strings.Repeat("x", 1000) + `"`, missing(`"` + strings.Repeat("x", 200) + `…"`)},
		{"as hooks have left it", `"hidden"`, `{"event_id":"hidden","event_type":"mail.received","timestamp":0,"metadata":{},"payload":"[redacted]"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.eventInfo(`{"event_ids":[` + tt.ids + `]}`)
			require.Equal(t, tt.want, got.Content)
			require.False(t, got.IsError)
		})
	}
	for name, tt := range map[string]struct{ arguments, problem string }{
		"no ids":        {`{}`, "event_ids: is required"},
		"an empty list": {`{"event_ids":[]}`, "event_ids: has 0 items, must have 1 to 20"},
		"too many":      {`{"event_ids":["e2"` + strings.Repeat(`,"e2"`, 20) + `]}`, "event_ids: has 21 items, must have 1 to 20"},
		"no list":       {`{"event_ids":"e2"}`, "event_ids: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.eventInfo(tt.arguments)
			require.True(t, got.IsError)
			require.Contains(t, got.Content, tt.problem)
		})
	}
	t.Run("an event that cannot be read", func(t *testing.T) {
		w.append(store.Batch{Records: []event.Record{event.NewRecord("broken", event.TypeEnv, "", "", time.Now(), "x")}})
		got := w.eventInfo(`{"event_ids":["broken"]}`)
		require.Contains(t, got.Content, "broken", "as one that is not there")
	})
}

// TestEventInfoIsBounded: events beyond the limit are omitted, and named.
func TestEventInfoIsBounded(t *testing.T) {
	const most = 64 << 10
	w := newFixture(t, nil)
	sized := func(id string, size int) event.Record {
		return envRecord(event.EnvEvent{ID: id, Type: "report", Payload: json.RawMessage(`"` + strings.Repeat(`\"`, size/2) + `"`)})
	}
	w.append(store.Batch{Records: []event.Record{sized("a", 30<<10), sized("b", 40<<10), sized("c", 30<<10), sized("d", 256<<10-2)}})

	t.Run("several", func(t *testing.T) {
		got := w.eventInfo(`{"event_ids":["a","b","c","d","e"]}`)
		require.LessOrEqual(t, len(got.Content), most)
		var list []map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.Content), &list))
		require.Len(t, list, 5)
		for i, payload := range []int{15 << 10, 0, 15 << 10, 0} {
			if payload > 0 {
				require.Equal(t, strings.Repeat(`"`, payload), list[i]["payload"])
				continue
			}
			require.Contains(t, list[i]["error"], "ask for it alone")
			require.NotContains(t, list[i], "payload")
		}
		require.Equal(t, "not found in this thread", list[4]["error"])
	})
	t.Run("one", func(t *testing.T) {
		got := w.eventInfo(`{"event_ids":["d"]}`)
		require.LessOrEqual(t, len(got.Content), most)
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.Content), &one))
		require.Equal(t, "report", one["event_type"])
		require.Contains(t, one["error"], "more than the 65536 that can be shown")
		require.True(t, strings.HasPrefix(one["start"].(string), `{"event_id":"d","event_type":"report"`))
		require.Len(t, one["start"], 24<<10)
	})
	t.Run("ids that are none", func(t *testing.T) {
		ids, err := json.Marshal(slices.Repeat([]string{strings.Repeat("\x01", 5000)}, 20))
		require.NoError(t, err)
		require.LessOrEqual(t, len(w.eventInfo(`{"event_ids":`+string(ids)+`}`).Content), most)
	})
}

func TestEventInfoIsPlanned(t *testing.T) {
	w := newFixture(t, nil)
	in := observeStep(changed())
	in.Tools = []string{}
	w.replies("", call("x", "get_event_info", `{"event_ids":["e2"]}`), call("y", "get_event_info", `{}`))
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.False(t, reply.Calls[0].Invalid, "S3-44 it may be called, whatever tools the turn allows")
	require.True(t, reply.Calls[0].Quick)
	require.False(t, reply.Calls[0].NeedsApproval)
	require.True(t, reply.Calls[1].Invalid)
}

// TestEventInfoOfTheApplication: an application's tool is for agents that list it.
func TestEventInfoOfTheApplication(t *testing.T) {
	own := tool.MustFunc("get_event_info", "The application's own.",
		func(context.Context, tool.Call, struct {
			EventIDs []string `json:"event_ids"`
		},
		) (string, error) {
			return "its own", nil
		})
	w := newFixture(t, nil, own)
	require.Equal(t, "its own", w.eventInfo(`{"event_ids":["e2"]}`).Content)
	_, err := w.callModel(observeStep(changed()))
	require.NoError(t, err)
	require.Equal(t, []string{"get_event_info"}, w.offered(), "it is not offered twice")
	require.Equal(t, "The application's own.", w.model.requests[0].Tools[0].Description)

	w = newFixture(t, func(c *activities.Config) { c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small"}} }, own)
	require.Contains(t, w.eventInfo(`{"event_ids":["e2"]}`).Content, "not found in this thread", "the others have the built-in one")
}

// offered are the names of the tools in the last model call.
func (w *fixture) offered() []string {
	names := []string{}
	for _, t := range w.model.requests[len(w.model.requests)-1].Tools {
		names = append(names, t.Name)
	}
	return names
}

func TestEventInfoIsOffered(t *testing.T) {
	lists := func(names ...string) func(*activities.Config) {
		return func(c *activities.Config) {
			c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: names}}
			set, err := tool.NewSet(add)
			require.NoError(t, err)
			c.Tools = set
		}
	}
	t.Run("to an agent that lists it", func(t *testing.T) {
		w := newFixture(t, lists("get_event_info", "add"))
		_, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, []string{"get_event_info", "add"}, w.offered())
	})
	t.Run("to an agent that handles an event", func(t *testing.T) {
		w := newFixture(t, lists("add"))
		in := observeStep(changed())
		in.Tools = []string{}
		_, err := w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, []string{"get_event_info"}, w.offered(), "providers refuse calls of tools that they do not know")
	})
	t.Run("also when the context is small", func(t *testing.T) {
		w := newFixture(t, func(c *activities.Config) {
			c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Limits: agent.Limits{ContextMessages: 1}}}
		})
		_, err := w.callModel(observeStep(changed()))
		require.NoError(t, err)
		require.Equal(t, observation(), w.lastShown())
		require.Equal(t, []string{"get_event_info"}, w.offered(), "it is how the agent learns of it")
	})
	t.Run("as long as the conversation has a call of it", func(t *testing.T) {
		w := newFixture(t, lists("add"))
		_, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, []string{"add"}, w.offered())
		_, err = w.callModel(observeStep(changed()))
		require.NoError(t, err)
		in := modelStep()
		in.MessageID = "e1.0.2"
		_, err = w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, []string{"add", "get_event_info"}, w.offered())
		d := w.model.requests[2].Tools[1]
		require.NotEmpty(t, d.Description)
		require.Contains(t, string(d.Parameters), `"required":["event_ids"]`)
	})
}
