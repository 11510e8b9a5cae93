package server_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
)

// TestListsAreBounded: every list in a request has a maximum number of items.
func TestListsAreBounded(t *testing.T) {
	w := newWorld(t)
	type operation struct {
		OperationID string                       `json:"operationId"`
		Parameters  []struct{ Name, Schema any } `json:"parameters"`
		RequestBody struct {
			Content map[string]struct{ Schema any }
		} `json:"requestBody"`
	}
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(w.call("GET", "/openapi.json", nil).text), &doc))
	lists, seen := 0, map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		schema, ok := v.(map[string]any)
		if !ok {
			return
		}
		if ref, ok := schema["$ref"].(string); ok {
			name := ref[strings.LastIndex(ref, "/")+1:]
			if !seen[name] {
				seen[name] = true
				walk(name, doc.Components.Schemas[name])
			}
			return
		}
		types, several := schema["type"].([]any)
		if schema["type"] == "array" || several && slices.Contains(types, any("array")) {
			lists++
			assert.Contains(t, schema, "maxItems", at)
		}
		walk(at+"[]", schema["items"])
		walk(at+"{}", schema["additionalProperties"])
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			walk(at+"."+name, property)
		}
		for _, union := range []string{"oneOf", "anyOf", "allOf"} {
			members, _ := schema[union].([]any)
			for _, member := range members {
				walk(at, member)
			}
		}
	}
	for _, methods := range doc.Paths {
		for _, op := range methods {
			for _, p := range op.Parameters {
				walk(op.OperationID, p.Schema)
			}
			for _, content := range op.RequestBody.Content {
				walk(op.OperationID, content.Schema)
			}
		}
	}
	require.Greater(t, lists, 20)

	many := make([]string, 300)
	for i := range many {
		many[i] = "t"
	}
	messages := []object{{"id": "m", "role": "user", "parts": []object{{"type": "text", "text": "x"}}}}
	for _, body := range []object{
		{"id": "t1", "messages": messages, "tools": many},
		{"id": "t1", "messages": messages, "agents": many},
		{"id": "t1", "messages": []object{{"id": "m", "role": "user", "parts": make([]object, 1001)}}},
		{"id": "t1", "messages": messages, "tools": []string{strings.Repeat("x", 5000)}, "indexed": true},
	} {
		got := w.call("POST", "/v1/chat", body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.text)
	}
	got := w.call("POST", "/v1/ag-ui", object{"threadId": "t1", "runId": "r", "forwardedProps": object{"agents": many}})
	require.Equal(t, http.StatusUnprocessableEntity, got.status, got.text)
	require.Contains(t, got.text, "forwardedProps.agents: has 300 items, and may have 100")
	require.Empty(t, w.threads.opens)
}

// TestNamesHaveOneLimit: whoever acts may have a name as long as the server says, at every operation.
func TestNamesHaveOneLimit(t *testing.T) {
	w := inhabited(t)
	limits, _ := w.call("GET", "/v1/server", nil).ok(t, http.StatusOK).body["limits"].(object)
	longest, tooLong := strings.Repeat("x", event.MaxName), strings.Repeat("x", event.MaxName+1)
	require.EqualValues(t, event.MaxName, limits["name"])
	var doc document
	var more struct {
		Paths map[string]map[string]struct{ Parameters []struct{ Name string } }
	}
	raw := []byte(w.call("GET", "/openapi.json", nil).text)
	require.NoError(t, json.Unmarshal(raw, &doc))
	require.NoError(t, json.Unmarshal(raw, &more))
	asked := map[string]bool{}
	ask := func(id, method, path string, body func(name string) any, location string) {
		asked[id] = true
		assert.Equal(t, []string{location}, w.call(method, path, body(tooLong)).problem(t, http.StatusUnprocessableEntity), id)
		assert.NotContains(t, w.call(method, path, body(longest)).text, location, id)
	}
	for _, o := range targets(t, w) {
		at, method := strings.SplitN(o.path, "?", 2)[0], strings.ToLower(o.method)
		for _, p := range more.Paths[at][method].Parameters {
			if p.Name == "by" {
				for name, answers := range map[string]bool{tooLong: false, longest: true} {
					asked[o.id] = true
					got := w.attack(o, o.url(nil)+"?by="+name, o.body)
					assert.Equal(t, answers, !strings.Contains(got.text, `"query.by"`), "%s: %s", o.id, got.text)
				}
			}
		}
		properties := doc.resolve(doc.Paths[at][method].RequestBody.Content["application/json"].Schema).Properties
		for _, field := range []string{"by", "sender", "person"} {
			if _, ok := properties[field]; ok && o.id != "chat" {
				ask(o.id, o.method, o.url(nil), func(name string) any {
					body := object{}
					require.NoError(t, json.Unmarshal([]byte(o.body), &body), o.id)
					body[field] = name
					return body
				}, "body."+field)
			}
		}
	}
	for _, id := range []string{"decide", "closeThread", "interruptThread", "updateThread", "revokeGrant", "postMessage", "erasePerson", "seeThread"} {
		assert.Contains(t, asked, id)
	}
	ask("openThread", "POST", "/v1/threads", func(name string) any { return object{"message": object{"content": "x", "sender": name}} }, "body.message.sender")
	ask("createSchedule", "POST", "/v1/schedules", func(name string) any {
		return object{"threadId": "none", "every": "1h", "message": object{"content": "x", "sender": name}}
	}, "body.message.sender")
}

// TestStreamsEnd: the stream of a run that the thread does not have is refused, and one whose message
// no worker takes ends.
func TestStreamsEnd(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat, c.WaitLimit = 10*time.Millisecond, 50*time.Millisecond })
	run := func(thread, message, turn string) answer {
		id, err := json.Marshal(object{"t": thread, "m": message, "e": turn})
		require.NoError(t, err)
		return w.call("GET", "/v1/chat/~"+base64.RawURLEncoding.EncodeToString(id)+"/stream?startIndex=0", nil)
	}
	require.Equal(t, http.StatusNotFound, run("nobody", "m1", "").status)
	w.open("t1")
	require.Equal(t, http.StatusNotFound, run("t1", "m1", "").status)
	require.Equal(t, http.StatusNotFound, run("t1", "m1", "e1").status)
	hello := said("hello")
	hello.ID, hello.EventID = "m1", "e1"
	w.put("t1", hello)
	require.Equal(t, http.StatusNotFound, run("t1", "m1", "other").status)

	got := w.call("POST", "/v1/chat", object{"id": "t2", "messages": []object{{"id": "m", "role": "user", "parts": []object{{"type": "text", "text": "x"}}}}})
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.text, "no worker has taken the message yet")
	require.Contains(t, got.text, "[DONE]")
}
