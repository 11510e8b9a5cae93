package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestEnvEventTypes(t *testing.T) {
	for got, want := range map[string]string{
		event.TypeUserQuery:               "user_query",
		event.TypeSessionCreated:          "session.created",
		event.TypeSessionUpdated:          "session.updated",
		event.TypeSessionDeleted:          "session.deleted",
		event.TypeBackgroundTaskCompleted: "background_task.completed",
		event.TypeBackgroundTaskFailed:    "background_task.failed",
		event.TypeToolExecuted:            "tool.executed",
		event.TypeToolError:               "tool.error",
		event.TypeStreamStart:             "stream.start",
		event.TypeStreamText:              "stream.text",
		event.TypeStreamCompleted:         "stream.completed",
		event.TypeStreamError:             "stream.error",
	} {
		t.Run("S3-08 "+want, func(t *testing.T) {
			require.Equal(t, want, got)
			require.False(t, event.Reserved(got), "anybody may publish it")
		})
	}
	require.True(t, event.Reserved(event.TypeEnv), "the record of an event is the thread's own")
}

func TestEnvEventJSON(t *testing.T) {
	for name, test := range map[string]struct {
		event  event.EnvEvent
		golden string
	}{
		"S3-03 five fields, always": {
			event.EnvEvent{ID: "e1", Type: "file.changed"},
			`{"id":"e1","type":"file.changed","timestamp":0,"metadata":{},"payload":null}`,
		},
		"S3-03 S3-04 S3-05 a UUID and milliseconds": {
			event.EnvEvent{
				ID: "550e8400-e29b-41d4-a716-446655440000", Type: "github.push", Timestamp: 1700000000123,
				Payload: json.RawMessage(`{"n":12345678901234567890,"x":[null]}`),
			},
			`{"id":"550e8400-e29b-41d4-a716-446655440000","type":"github.push","timestamp":1700000000123,"metadata":{},"payload":{"n":12345678901234567890,"x":[null]}}`,
		},
		"S3-06 all of the metadata": {
			event.EnvEvent{ID: "e1", Type: "x", Payload: json.RawMessage(`1`), Metadata: event.EnvMetadata{
				TriggerSessionID: "t1", TriggerAgentID: "a1", TriggerAgentName: "bot", EnvName: "os", Source: event.SourceTool,
				Extra: map[string]json.RawMessage{"repo": json.RawMessage(`{"id":12345678901234567890}`), "tags": json.RawMessage(`[]`)},
			}},
			`{"id":"e1","type":"x","timestamp":0,"metadata":{"env_name":"os","repo":{"id":12345678901234567890},"source":"tool","tags":[],` +
				`"trigger_agent_id":"a1","trigger_agent_name":"bot","trigger_session_id":"t1"},"payload":1}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.golden, asJSON(t, test.event))
			require.ElementsMatch(t, []string{"id", "type", "timestamp", "metadata", "payload"}, keys(t, asJSON(t, test.event)))
			var back event.EnvEvent
			require.NoError(t, json.Unmarshal([]byte(test.golden), &back))
			if test.event.Payload == nil {
				test.event.Payload = json.RawMessage("null")
			}
			require.Equal(t, test.event, back)
		})
	}
	t.Run("S3-06 a known key wins over an extra one", func(t *testing.T) {
		m := event.EnvMetadata{EnvName: "os", Extra: map[string]json.RawMessage{"env_name": json.RawMessage(`"other"`)}}
		require.Equal(t, `{"env_name":"os"}`, asJSON(t, m))
	})
	t.Run("S3-06 nothing is left of what was there before", func(t *testing.T) {
		m := event.EnvMetadata{EnvName: "os", Extra: map[string]json.RawMessage{"x": json.RawMessage(`1`)}}
		require.NoError(t, json.Unmarshal([]byte(`{"source":"env"}`), &m))
		require.Equal(t, event.EnvMetadata{Source: event.SourceEnv}, m)
	})
	for input, field := range map[string]string{
		`[]`:                        "metadata",
		`"os"`:                      "metadata",
		`{"trigger_session_id":1}`:  "metadata.trigger_session_id",
		`{"trigger_agent_name":[]}`: "metadata.trigger_agent_name",
		`{"source":{}}`:             "metadata.source",
	} {
		t.Run("S3-06 refused "+input, func(t *testing.T) {
			var m event.EnvMetadata
			var wrong *event.FieldError
			require.ErrorAs(t, json.Unmarshal([]byte(input), &m), &wrong)
			require.Equal(t, field, wrong.Field)
		})
	}
}

func TestSources(t *testing.T) {
	for _, s := range []event.Source{"tool", "env", "user", "system", "llm"} {
		require.True(t, s.Valid(), "S3-07 %s", s)
	}
	for _, s := range []event.Source{"", "ENV", "moon"} {
		require.False(t, s.Valid(), "S3-07 %q", s)
	}
}

func TestEnvEventValidate(t *testing.T) {
	good := event.EnvEvent{Type: "file.changed", Timestamp: 1700000000123, Metadata: event.EnvMetadata{Source: event.SourceEnv}, Payload: json.RawMessage(`{}`)}
	require.NoError(t, good.Validate())
	require.Equal(t, time.Date(2023, 11, 14, 22, 13, 20, 123e6, time.UTC), good.Time(), "S3-05")
	require.Equal(t, "file.changed", good.EventType())
	for name, test := range map[string]struct {
		change func(*event.EnvEvent)
		field  string // "" = valid
	}{
		"no payload":                 {func(e *event.EnvEvent) { e.Payload = nil }, ""},
		"S3-07 no source":            {func(e *event.EnvEvent) { e.Metadata.Source = "" }, ""},
		"S3-05 before 1970":          {func(e *event.EnvEvent) { e.Timestamp = -1 }, ""},
		"S3-05 at the end":           {func(e *event.EnvEvent) { e.Timestamp = 253402300799999 }, ""},
		"S3-05 behind the end":       {func(e *event.EnvEvent) { e.Timestamp = 253402300800000 }, "timestamp"},
		"S3-05 before the start":     {func(e *event.EnvEvent) { e.Timestamp = -62135596800001 }, "timestamp"},
		"S3-07 another source":       {func(e *event.EnvEvent) { e.Metadata.Source = "moon" }, "metadata.source"},
		"no type":                    {func(e *event.EnvEvent) { e.Type = "" }, "type"},
		"a message":                  {func(e *event.EnvEvent) { e.Type = event.TypeMessage }, "type"},
		"a record of the thread":     {func(e *event.EnvEvent) { e.Type = event.TypeStatus }, "type"},
		"the record of an event":     {func(e *event.EnvEvent) { e.Type = event.TypeEnv }, "type"},
		"payload that is no JSON":    {func(e *event.EnvEvent) { e.Payload = json.RawMessage(`{`) }, "payload"},
		"user_query":                 {query(`{"content":"hi"}`), ""},
		"user_query of text":         {query(`"hi"`), "payload"},
		"user_query of nothing":      {query(`{"sessionId":"t1"}`), "payload.content"},
		"user_query without payload": {query(``), "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			e := good
			test.change(&e)
			err := e.Validate()
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var wrong *event.FieldError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, test.field, wrong.Field)
		})
	}
}

func query(payload string) func(*event.EnvEvent) {
	return func(e *event.EnvEvent) { e.Type, e.Payload = event.TypeUserQuery, json.RawMessage(payload) }
}

func TestUserQuery(t *testing.T) {
	var e event.EnvEvent
	query(`{"sessionId":"t1","content":"hi"}`)(&e)
	q, err := e.Query()
	require.NoError(t, err)
	require.Equal(t, event.UserQuery{SessionID: "t1", Content: "hi", UserID: "user"}, q)
	query(`{"content":"hi","userId":"ann"}`)(&e)
	q, err = e.Query()
	require.NoError(t, err)
	require.Equal(t, "ann", q.UserID)
	require.Equal(t, `{"sessionId":"t1","content":"hi"}`, asJSON(t, event.UserQuery{SessionID: "t1", Content: "hi"}), "S3-45")
}

func TestEnvEventIsAnEvent(t *testing.T) {
	e, err := event.Unmarshal([]byte(`{"id":"e1","type":"file.changed","timestamp":5,"metadata":{"x":1},"payload":{}}`))
	require.NoError(t, err)
	require.Equal(t, event.EnvEvent{
		ID: "e1", Type: "file.changed", Timestamp: 5, Payload: json.RawMessage(`{}`),
		Metadata: event.EnvMetadata{Extra: map[string]json.RawMessage{"x": json.RawMessage(`1`)}},
	}, e)
	custom, err := event.Unmarshal([]byte(`{"type":"file.changed","threadId":"t1","payload":{}}`))
	require.NoError(t, err)
	require.IsType(t, event.CustomEvent{}, custom, "without a time it is one of the application's own")
}
