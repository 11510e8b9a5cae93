package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/page"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/store"
)

func TestPage(t *testing.T) {
	w := newWorld(t)
	index := w.call("GET", "/", nil)
	require.Equal(t, http.StatusOK, index.status)
	assert.Equal(t, "text/html; charset=utf-8", index.header.Get("Content-Type"))
	assert.Contains(t, index.text, "/page/app.js")
	w.call("GET", "/page/none.js", nil).problem(t, http.StatusNotFound)
	w.call("GET", "/page/", nil).problem(t, http.StatusNotFound)

	for _, f := range page.Files() {
		path := f.Pattern[len("GET "):]
		if path == "/{$}" {
			path = "/"
		}
		t.Run(path, func(t *testing.T) {
			got := w.call("GET", path, nil, "Accept-Encoding", "identity")
			require.Equal(t, http.StatusOK, got.status)
			assert.NotContains(t, got.text, "https://", "nothing is loaded from elsewhere")
			if !strings.HasSuffix(path, ".js") && !strings.HasSuffix(path, ".css") {
				policy := got.header.Get("Content-Security-Policy")
				assert.Contains(t, policy, "default-src 'none'")
				assert.Contains(t, policy, "script-src 'self'")
				assert.NotContains(t, policy, "unsafe")
			}
			assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			again := w.call("GET", path, nil, "If-None-Match", got.header.Get("Etag"))
			assert.Equal(t, http.StatusNotModified, again.status)
			assert.Empty(t, again.text)
			compressed := w.call("GET", path, nil, "Accept-Encoding", "gzip")
			assert.Equal(t, "gzip", compressed.header.Get("Content-Encoding"))
		})
	}
}

func TestServerInfo(t *testing.T) {
	w := newWorld(t, withBadges, func(c *server.Config) {
		c.Version, c.TemporalUI, c.TemporalNamespace = "1.2.3", "http://127.0.0.1", "default"
	})
	got := w.call("GET", "/v1/server", nil, bearer("ann read post")...)
	require.Equal(t, http.StatusOK, got.status, got.text)
	assert.Equal(t, object{
		"version": "1.2.3", "namespace": "default", "workflows": "http://127.0.0.1/namespaces/default/workflows",
		"name": "ann", "roles": []any{"read", "post"}, "worker": object{"taskQueue": "threadmill", "polled": true},
		"limits": object{
			"message": 262144., "reason": 4096., "title": 400., "name": 200., "id": 128., "note": 1000., "body": 1048576.,
			"agent": 262144., "agentName": 64., "agentModel": 256., "ruleName": 128., "ruleReason": 4096., "ruleWhen": 4096.,
			"documentSource": 2048., "documentTitle": 500., "documentCollection": 100.,
		},
	}, got.body)
	got = w.call("GET", "/v1/server", nil, bearer("eve admin")...)
	assert.Equal(t, []any{"read", "post", "approve", "operate", "send-as", "admin"}, got.body["roles"], "an admin may do everything")
}

func TestMarkdown(t *testing.T) {
	w := newWorld(t)
	got := w.call("POST", "/v1/markdown", object{"texts": []string{"**a**", "", "<script>alert(1)</script>"}})
	require.Equal(t, http.StatusOK, got.status, got.text)
	strong := object{"tag": "strong", "children": []any{object{"text": "a"}}}
	assert.Equal(t, []any{object{"tag": "p", "children": []any{strong}}, object{"text": "\n"}}, got.body["documents"].([]any)[0])
	assert.Equal(t, []any{}, got.body["documents"].([]any)[1])
	assert.NotContains(t, got.text, `"tag":"script"`)
	w.call("POST", "/v1/markdown", object{"texts": make([]string, 201)}).problem(t, 422)
}

func TestRecords(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", decisions()...)
	ids := func(target string) (ids []string, next any) {
		got := w.call("GET", "/v1/threads/t1/records"+target, nil)
		require.Equal(t, http.StatusOK, got.status, got.text)
		for _, r := range got.body["records"].([]any) {
			ids = append(ids, r.(object)["id"].(string))
		}
		return ids, got.body["next"]
	}
	first, next := ids("?limit=4")
	assert.Equal(t, []string{"m1", "m2", "m3", "m4"}, first)
	require.IsType(t, "", next)
	second, _ := ids("?limit=4&cursor=" + next.(string))
	assert.Equal(t, []string{"m5", "m6", "m2.hook", "m3.hook"}, second)
	hooks, next := ids("?type=" + event.TypeHook + "&limit=100")
	assert.Len(t, hooks, 5)
	assert.Nil(t, next, "that was the last page")
	some, _ := ids("?id=m3,m1,none")
	assert.ElementsMatch(t, []string{"m1", "m3"}, some)
	for _, id := range []string{"r1.llm", "r1.calls", "r1.calls.hook", "c1.result", "c1.result.hook", "c1.request"} {
		w.put("t1", event.NewRecord(id, event.TypeStatus, "", "", time.Unix(0, 0), event.StatusChange{}))
	}
	of, _ := ids("?of=m2,r1,c1,none")
	assert.ElementsMatch(t, []string{"m2", "m2.hook", "r1.llm", "r1.calls", "r1.calls.hook", "c1.result", "c1.result.hook"}, of)
	w.put("t1", event.NewRecord("e7", event.TypeMessage, "", "", time.Unix(0, 0), event.Message{}).In("e7"))
	turn, _ := ids("?turn=e7")
	assert.Equal(t, []string{"e7"}, turn)
	w.call("GET", "/v1/threads/none/records", nil).problem(t, 404)
	assert.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/threads/t1/records?limit=0", nil).problem(t, 422))
}

func TestModelCall(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	req := llm.Request{Model: "small", Messages: []llm.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "hello"}}}
	saw, common := modelcontext.Describe("bot", req, nil, event.ModelContext{Head: 1, Limit: 1})
	call := event.LLMCall{Agent: "bot", Model: "openai/small", MessageID: "e1.0.1", Step: 1, Attempt: 2, Context: saw}
	other := call
	other.Context = &event.ModelContext{Prompt: saw.Prompt, Head: 1, Limit: 1, Parts: []event.ContextPart{{First: 7, Last: 9}}, Digest: saw.Digest}
	at := time.Unix(0, 0)
	w.put("t1", event.NewRecord(saw.Prompt, event.TypePrompt, "", "", at, common),
		event.NewRecord("e1.0.1.llm", event.TypeLLMCall, "", "", at, call),
		event.NewRecord("old.llm", event.TypeLLMCall, "", "", at, event.LLMCall{MessageID: "old"}),
		event.NewRecord("other.llm", event.TypeLLMCall, "", "", at, other),
		event.NewRecord("e2.llm", event.TypeStatus, "", "", at, event.StatusChange{}))
	got := w.call("GET", "/v1/threads/t1/model-calls/e1.0.1", nil)
	require.Equal(t, http.StatusOK, got.status, got.text)
	assert.Equal(t, true, got.body["exact"])
	assert.InDelta(t, 2, got.body["attempt"], 0)
	assert.Equal(t, []any{object{"role": "system", "content": "Be brief."}, object{"role": "user", "content": "hello"}}, got.body["request"].(object)["messages"])
	got = w.call("GET", "/v1/threads/t1/model-calls/other", nil)
	assert.Equal(t, false, got.body["exact"], "messages are missing")
	for path, problem := range map[string]string{
		"t1/model-calls/e2":     `no model call of thread "t1" generated a message "e2"`,
		"t1/model-calls/none":   `no model call of thread "t1" generated a message "none"`,
		"t1/model-calls/old":    `the record of the model call for message "old" does not tell what the model saw`,
		"none/model-calls/none": `there is no thread "none"`,
	} {
		w.call("GET", "/v1/threads/"+path, nil).problem(t, 404)
		assert.Contains(t, w.call("GET", "/v1/threads/"+path, nil).text, strings.ReplaceAll(problem, `"`, `\"`))
	}
}

func TestToolCalls(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.open("t2")
	at := time.Unix(1700000000, 0)
	end := at.Add(1500 * time.Millisecond)
	log := store.ToolLog{ToolCallID: "c1", ToolName: "note", Agent: "bot", Input: json.RawMessage(`{"text":"secret"}`), Status: store.ToolStarted, Attempt: 2, StartedAt: at}
	w.append("t1", store.Batch{ToolStart: &log})
	path := "/v1/threads/t1/tool-calls?id=c2,none,c1"
	running := `{"toolCallId":"c1","toolName":"note","agent":"bot","status":"started","attempt":2,"startedAt":"2023-11-14T22:13:20Z"}`
	assert.JSONEq(t, `{"toolCalls":[`+running+`]}`, w.call("GET", path, nil).text)
	log.ToolCallID, log.Status, log.FinishedAt, log.Output = "c2", store.ToolFailed, &end, json.RawMessage(`"secret"`)
	w.append("t1", store.Batch{ToolFinish: &log})
	assert.JSONEq(t, `{"toolCalls":[{"toolCallId":"c2","toolName":"note","agent":"bot","status":"failed","attempt":2,"startedAt":"2023-11-14T22:13:20Z",
		"finishedAt":"2023-11-14T22:13:21.5Z"},`+running+`]}`, w.call("GET", path, nil).text)
	assert.JSONEq(t, `{"toolCalls":[]}`, w.call("GET", "/v1/threads/t2/tool-calls?id=c1", nil).text, "calls of another thread")
	w.call("GET", "/v1/threads/none/tool-calls?id=c1", nil).problem(t, 404)
	w.call("GET", "/v1/threads/t1/tool-calls", nil).problem(t, 422)
	w.call("GET", "/v1/threads/t1/tool-calls?id=c"+strings.Repeat(",c", 100), nil).problem(t, 422)
}

func TestRules(t *testing.T) {
	set, err := rule.NewSet(rule.Config{Rules: []rule.Rule{{
		Name: "big", Events: []string{"file.*"}, Priority: 30, Log: true,
		Where: []rule.Condition{{Field: "payload.size", Equals: "big"}},
	}}})
	require.NoError(t, err)
	w := newWorld(t, func(c *server.Config) { c.Rules = set })
	got := w.call("GET", "/v1/rules", nil)
	require.Equal(t, http.StatusOK, got.status, got.text)
	var names []string
	for _, r := range got.body["rules"].([]any) {
		names = append(names, r.(object)["name"].(string))
	}
	assert.Contains(t, names, "big")
	assert.Contains(t, names, "fallback")

	test := func(size string) object {
		got := w.call("POST", "/v1/rules/test", object{"type": "file.changed", "payload": object{"size": size}})
		require.Equal(t, http.StatusOK, got.status, got.text)
		return got.body
	}
	assert.Equal(t, "big", test("big")["rule"].(object)["name"])
	small := test("small")
	assert.Equal(t, "fallback", small["rule"].(object)["name"])
	for _, r := range small["rules"].([]any) {
		if tested := r.(object); tested["name"] == "big" {
			assert.Equal(t, true, tested["type"])
			assert.Equal(t, false, tested["matches"])
			assert.Equal(t, "payload.size", tested["failed"].(object)["field"])
		}
	}
	assert.Empty(t, w.threads.posts, "nothing is published")
	assert.Equal(t, []string{"body.type"}, w.call("POST", "/v1/rules/test", object{"payload": 1}).problem(t, 422))
}
