package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
)

func promptPath(session string) string { return "/sessions/" + session + "/prompt" }

func TestPrompt(t *testing.T) {
	for _, prefix := range []string{"", "/v1"} {
		t.Run("S3-45 S3-prompt_route_creates_event S3-prompt_route_includes_payload S3-prompt_route_includes_metadata it publishes a user_query at "+prefix+"/sessions", func(t *testing.T) {
			w := eventWorld(t)
			before := time.Now().UnixMilli()
			got := w.call("POST", prefix+promptPath("t1"), object{"content": "write a <sort>"})
			t.Run("S3-46 S3-prompt_route_returns_success exact answer", func(t *testing.T) {
				assert.Equal(t, http.StatusOK, got.status)
				assert.Equal(t, "application/json", got.header.Get("Content-Type"))
				assert.Equal(t, `{"success":true,"sessionId":"t1","message":"Processing started"}`, strings.TrimSpace(got.text))
			})
			require.Len(t, w.published("t1"), 1)
			p := w.published("t1")[0]
			_, err := uuid.Parse(p.ID)
			require.NoError(t, err)
			assert.Equal(t, event.TypeUserQuery, p.Type)
			assert.GreaterOrEqual(t, p.Timestamp, before)
			assert.LessOrEqual(t, p.Timestamp, time.Now().UnixMilli())
			assert.JSONEq(t, `{"trigger_session_id":"t1","source":"user"}`, string(p.Metadata))
			assert.JSONEq(t, `{"sessionId":"t1","content":"write a <sort>"}`, string(p.Payload))
		})
	}
	t.Run("S3-46 S3-49 X8 nobody waits for a turn, nor a worker", func(t *testing.T) {
		w := eventWorld(t)
		// What would wait fails the request instead.
		w.threads.turn = func(context.Context, signals.Post) (signals.TurnResult, error) {
			return signals.TurnResult{}, errors.New("the route waits")
		}
		w.threads.state = func(context.Context) error { return errors.New("the route asks") }
		w.call("POST", promptPath("t1"), object{"content": "hi"}).ok(t, http.StatusOK)
		assert.Empty(t, w.threads.posts, "it posts no message")
		assert.Len(t, w.published("t1"), 1, "it publishes an event")
	})
	t.Run("a session that is not there is opened", func(t *testing.T) {
		w := eventWorld(t)
		w.call("POST", promptPath("t9"), object{"content": "hi"}).ok(t, http.StatusOK)
		assert.Equal(t, []signals.Start{{}}, w.threads.opens)
		assert.Len(t, w.published("t9"), 1)
	})
	t.Run("two prompts are two events", func(t *testing.T) {
		w := eventWorld(t)
		w.call("POST", promptPath("t1"), object{"content": "hi"})
		w.call("POST", promptPath("t1"), object{"content": "hi"})
		require.Len(t, w.published("t1"), 2)
		assert.NotEqual(t, w.published("t1")[0].ID, w.published("t1")[1].ID)
	})
}

// fails asserts an answer that is an object with an error, and nothing else.
func (a answer) fails(t *testing.T, status int, text string) {
	t.Helper()
	assert.Equal(t, status, a.status, a.text)
	assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	assert.Equal(t, object{"error": text}, a.body)
}

func TestPromptRefused(t *testing.T) {
	w := eventWorld(t)
	for name, body := range map[string]any{
		"no content":        object{},
		"empty content":     object{"content": ""},
		"null content":      object{"content": nil},
		"content no text":   object{"content": 7},
		"no body":           nil,
		"null":              "null",
		"a list":            "[]",
		"broken JSON":       `{"content":`,
		"two values":        `{"content":"x"} {}`,
		"text that is none": "hello",
	} {
		t.Run("S3-47 S3-prompt_route_missing_content "+name, func(t *testing.T) {
			w.call("POST", promptPath("t1"), body).fails(t, 400, "Content is required")
		})
	}
	t.Run("S3-47 other fields are not looked at", func(t *testing.T) {
		w.call("POST", promptPath("t1"), object{"content": "x", "model": "y"}, "Content-Type", "text/plain").ok(t, http.StatusOK)
		delete(w.threads.events.posts, "t1")
	})
	t.Run("too large", func(t *testing.T) {
		got := w.call("POST", promptPath("t1"), object{"content": strings.Repeat("x", signals.MaxPayload)})
		assert.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		assert.Contains(t, got.body["error"], "content: is too large")
		got = w.call("POST", promptPath("t1"), object{"content": strings.Repeat("x", server.DefaultMaxBody)})
		got.fails(t, 413, "content: is too large: the body is more than 1048576 bytes")
	})
	t.Run("closed", func(t *testing.T) {
		w.call("POST", promptPath("gone"), object{"content": "x"}).fails(t, 409, `thread "gone" is closed`)
	})
	t.Run("an id that no session has", func(t *testing.T) {
		w.call("POST", promptPath("no%20id"), object{"content": "x"}).fails(t, 404, `there is no thread "no id"`)
	})
	assert.Empty(t, w.threads.events.posts)
}

func TestPromptWithoutSessions(t *testing.T) {
	w := eventWorld(t, func(c *server.Config) { c.AnswerWithin = 20 * time.Millisecond })
	// What an earlier request has left under way may still ask.
	fails := func(fail func(context.Context) error) {
		w.threads.mu.Lock()
		defer w.threads.mu.Unlock()
		w.threads.events.fail = fail
	}
	for name, fail := range map[string]func(context.Context) error{
		"Temporal is not there":    func(context.Context) error { return serviceerror.NewUnavailable("down") },
		"Temporal does not answer": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run("S3-48 S3-prompt_route_no_session_support "+name, func(t *testing.T) {
			fails(fail)
			got := w.call("POST", promptPath("t1"), object{"content": "x"})
			got.fails(t, 503, "Session support not available")
			assert.NotEmpty(t, got.header.Get("Retry-After"))
		})
	}
	t.Run("what went wrong inside is not told", func(t *testing.T) {
		fails(func(context.Context) error { return errors.New("a secret") })
		got := w.call("POST", promptPath("t1"), object{"content": "x"})
		assert.Equal(t, http.StatusInternalServerError, got.status)
		assert.Len(t, got.body, 1)
		assert.Contains(t, got.body["error"], got.header.Get("X-Request-Id"))
		assert.NotContains(t, got.text, "secret")
	})
	t.Run("no other method, no other site", func(t *testing.T) {
		w.call("GET", promptPath("t1"), nil).problem(t, 405)
		w.call("POST", promptPath("t1"), object{"content": "x"}, "Sec-Fetch-Site", "cross-site").problem(t, 403)
	})
}

func TestPromptIsDescribed(t *testing.T) {
	w := eventWorld(t)
	var api struct {
		Paths map[string]map[string]struct {
			Responses map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.call("GET", "/openapi.json", nil).text), &api))
	for _, path := range []string{"/sessions/{id}/prompt", "/v1/sessions/{id}/prompt"} {
		for _, status := range []string{"200", "400", "503"} {
			assert.Contains(t, api.Paths[path]["post"].Responses, status, path)
		}
	}
}
