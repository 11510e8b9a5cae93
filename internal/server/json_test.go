package server_test

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// schema is as much of a JSON schema as it takes to write a value that fits.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // a name, or a list of names
	Enum       []any             `json:"enum"`
	OneOf      []schema          `json:"oneOf"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	MinLength  int               `json:"minLength"`
	Minimum    float64           `json:"minimum"`
	Format     string            `json:"format"`
	Examples   []any             `json:"examples"`
}

type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		RequestBody struct {
			Content map[string]struct {
				Schema schema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

func (d document) resolve(s schema) schema {
	if s.Ref != "" {
		return d.resolve(d.Components.Schemas[path.Base(s.Ref)])
	}
	return s
}

// sample is a value that fits a schema.
func (d document) sample(s schema) any {
	s = d.resolve(s)
	if list, ok := s.Type.([]any); ok {
		s.Type = list[0]
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return d.sample(s.OneOf[0])
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case s.Type == "string":
		return strings.Repeat("x", max(s.MinLength, 1))
	case s.Type == "integer", s.Type == "number":
		return max(s.Minimum, 1)
	case s.Type == "boolean":
		return true
	case s.Type == "array":
		return []any{}
	}
	out := object{}
	for _, name := range s.Required {
		out[name] = d.sample(s.Properties[name])
	}
	return out
}

// TestJSONHasOneMeaningOnEveryRoute attacks every operation of the API's description that
// takes JSON.
func TestJSONHasOneMeaningOnEveryRoute(t *testing.T) {
	w := newWorld(t)
	w.open("none")
	var doc document
	require.NoError(t, json.Unmarshal([]byte(w.call("GET", "/openapi.json", nil).text), &doc))
	attacked := 0
	for at, methods := range doc.Paths {
		for method, op := range methods {
			content, ok := op.RequestBody.Content["application/json"]
			if !ok {
				continue
			}
			attacked++
			t.Run(op.OperationID, func(t *testing.T) {
				refused := func(body, why string) {
					t.Helper()
					got := w.call(strings.ToUpper(method), pathParam.ReplaceAllString(at, "none"), body)
					assert.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, got.status, got.text)
					assert.Contains(t, got.text, why, body)
				}
				shape := doc.resolve(content.Schema)
				raw, err := json.Marshal(doc.sample(content.Schema))
				require.NoError(t, err)
				whole := strings.TrimSuffix(string(raw), "}")
				if whole != "{" {
					whole += ","
				}
				require.NotEmpty(t, shape.Properties)
				prompt := strings.HasPrefix(op.OperationID, "prompt")
				for name, property := range shape.Properties {
					value, err := json.Marshal(doc.sample(property))
					require.NoError(t, err)
					variant := strings.ToUpper(name)
					if variant == name {
						variant = strings.ToLower(name)
					}
					refused(whole+`"`+variant+`":`+string(value)+`}`, "is not "+name+": upper and lower case matter")
				}
				if prompt {
					refused(whole+`"x":1,"x":2}`, "x: is given twice, keep one of them")
					refused(whole+`"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`, "more than 64 levels")
					refused(whole+`"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}`, "Content is required")
					return
				}
				refused(`{"x":1,"x":2}`, "x: is given twice, keep one of them")
				refused(`{"x":{"y":[{"z":1,"\u007a":2}]}}`, "x.y[0].z: is given twice, keep one of them")
				refused(`{"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}`, "more than 64 levels")
				refused(strings.Repeat(`{"x":`, 100_000), "more than 64 levels")
				refused(`{"x":"\ud800"}`, "half of a character")
				refused("{\"x\":\"\xff\"}", "not UTF-8")
				refused(`{"x":1e999}`, "out of range")
			})
		}
	}
	require.Greater(t, attacked, 15)
	require.Empty(t, w.threads.posts)
	require.Empty(t, w.threads.ctls)
	require.Len(t, w.threads.opens, 1, "the one of this test")
	require.Empty(t, w.threads.changes)
}

// TestNamesAreSeen: whoever acts has a name that people can tell from others.
func TestNamesAreSeen(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	for _, c := range []struct {
		method, path string
		body         object
		location     string
	}{
		{"POST", "/v1/threads/t1/messages", object{"content": "hi", "sender": "ann\u200b"}, "body.sender"},
		{"POST", "/v1/threads", object{"message": object{"content": "hi", "sender": "ann\u200b"}}, "body.message.sender"},
		{"POST", "/v1/threads/t1/world/messages", object{"content": "hi", "sender": "ann\u200b"}, "body.sender"},
		{"POST", "/v1/threads/t1/approvals/c1", object{"decision": "approve", "by": "ann\u200b"}, "body.by"},
		{"POST", "/v1/threads/t1/world/tool-results", object{"tool_call_id": "c1", "decision": "approve", "by": "ann\u200b"}, "body.by"},
		{"DELETE", "/v1/threads/t1/grants/c1?by=ann%E2%80%8B", nil, "query.by"},
		{"POST", "/v1/threads/t1/interrupt", object{"by": "ann\u200b"}, "body.by"},
		{"PATCH", "/v1/threads/t1", object{"title": "t", "by": "ann\u200b"}, "body.by"},
		{"PUT", "/v1/agents/bot2?by=ann%E2%80%8B", object{"model": "demo/x"}, "query.by"},
	} {
		var body any
		if c.body != nil {
			body = c.body
		}
		got := w.call(c.method, c.path, body)
		require.Equal(t, []string{c.location}, got.problem(t, http.StatusUnprocessableEntity), c.path)
		require.Contains(t, got.text, "U+200B", c.path)
	}
	require.Empty(t, w.threads.posts)
}

func TestBlankMessagesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	for _, blank := range []string{" ", "\n\t", "\u200b\u2060", "\u00a0"} {
		require.Equal(t, []string{"body.content"}, w.call("POST", "/v1/threads/t1/messages", object{"content": blank}).problem(t, 422))
		require.Equal(t, []string{"body.message.content"}, w.call("POST", "/v1/threads", object{"message": blank}).problem(t, 422))
		require.Equal(t, []string{"body.payload.content"}, w.call("POST", "/v1/threads/t1/queue", object{
			"type": "message", "payload": event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: blank},
		}).problem(t, 422))
		w.call("POST", "/v1/threads/t1/world/messages", object{"content": blank, "sender": "ann"}).problem(t, 422)
		got := w.call("POST", "/v1/sessions/t1/prompt", object{"content": blank})
		require.Equal(t, 400, got.status)
		require.Equal(t, "Content is required", got.body["error"])
		w.call("POST", "/v1/threads/t1/events", object{"type": "user_query", "payload": object{"content": blank}}).problem(t, 422)
	}
	require.Empty(t, w.threads.posts)
}
