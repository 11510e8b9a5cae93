package event_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestDecodeJSONNamesTheField(t *testing.T) {
	for _, c := range []struct{ field, text, want string }{
		{"payload", `{"senderId":"ann","SenderID":"eve"}`, "payload.SenderID: is not senderId: upper and lower case matter"},
		{"payload", `{"content":"a","content":"b"}`, "payload.content: is given twice, keep one of them"},
		{"payload", `{"content":1.5}`, "payload.content: cannot be of type number"},
		{"payload", `[]`, "payload: cannot be of type array"},
		{"", `{"Content":"a"}`, "Content: is not content"},
		{"", nested(100), "input: there are more than 64 levels"},
		{"payload", `{`, "payload: is not valid JSON: unexpected end of JSON input"},
	} {
		err := event.DecodeJSON(c.field, []byte(c.text), new(event.NewMessage))
		require.ErrorIs(t, err, event.ErrInvalid)
		require.ErrorContains(t, err, c.want)
	}
	require.NoError(t, event.DecodeJSON("", []byte(`{"content":"a","other":1}`), new(event.NewMessage)))
	require.ErrorContains(t, event.DecodeKnownJSON("", []byte(`{"content":"a","other":1}`), new(event.NewMessage)), "other: is not known")
	require.NoError(t, event.ValidateJSON("payload", []byte(nested(event.MaxDepth))))
	require.ErrorContains(t, event.ValidateJSON("payload", []byte(nested(event.MaxDepth+1))), "payload: there are more than 64 levels")
}

func TestEventsHaveExactNames(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"message","createdBy":"user","CreatedBy":"agent"}`:                                  "CreatedBy: is not createdBy",
		`{"Type":"tool_call","type":"message"}`:                                                      "Type: is not type",
		`{"type":"message","createdBy":"user","message":{"content":"a","Content":"b"}}`:              "message.Content: is not content",
		`{"type":"note","payload":{"a":1,"a":2}}`:                                                    "payload.a: is given twice",
		`{"type":"note","timestamp":1,"metadata":{"source":"env","Source":"user"}}`:                  "metadata.Source: is not source",
		`{"type":"note","timestamp":1,"metadata":{},"payload":` + nested(10_000) + `}`:               "more than 64 levels",
		`{"type":"tool_call","createdBy":"agent","toolCalls":[{"id":"a","function":{"Name":"rm"}}]}`: "toolCalls[0].function.Name: is not name",
	} {
		_, err := event.Unmarshal([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestUserQueryHasOneMeaning(t *testing.T) {
	for payload, want := range map[string]string{
		`{"content":"a","Content":"b"}`:              "payload.Content: is not content",
		`{"content":"a","content":"b"}`:              "payload.content: is given twice",
		`{"content":" \u200b\n"}`:                    "payload.content: is required",
		`{"content":"hello","userId":"ann\u200b"}`:   "payload.userId: contains U+200B",
		`{"content":"a","other":` + nested(64) + `}`: "payload: there are more than 64 levels",
		`"hello"`: "payload: cannot be of type string",
	} {
		e := event.EnvEvent{Type: event.TypeUserQuery, Timestamp: 1, Payload: json.RawMessage(payload)}
		require.ErrorContains(t, e.Validate(), want, payload)
	}
}

func TestMessagesHaveSendersAndContent(t *testing.T) {
	m := event.NewMessage{ThreadID: "t", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}
	require.NoError(t, m.Validate())
	for _, content := range []string{" \n\t", "\u200b", "\ufeff \u2060"} {
		blank := m
		blank.Content = content
		require.EqualError(t, blank.Validate(), "content: is required")
	}
	m.SenderID = "ann\u200b"
	require.ErrorContains(t, m.Validate(), "senderId: contains U+200B")
}
