package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/webhook"
)

// badge authenticates requests by what stands behind Bearer: "<name> <roles>", or "broken" or
// "elsewhere".
func badge(r *http.Request) (auth.Principal, error) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case text == "broken":
		return auth.Principal{}, errors.New("the store is down")
	case text == "elsewhere":
		return auth.Principal{Name: "eve", Namespace: "other", Roles: auth.Roles{auth.RoleAdmin}, Kind: auth.KindKey}, nil
	case !ok:
		return auth.Principal{}, fmt.Errorf("%w: show a badge", auth.ErrUnauthenticated)
	}
	name, roles, _ := strings.Cut(text, " ")
	set, err := auth.ParseRoles(strings.Fields(roles))
	if err != nil {
		return auth.Principal{}, err
	}
	return auth.Principal{Name: name, Namespace: "default", Roles: set, Kind: auth.KindKey}, nil
}

func withBadges(c *server.Config) { c.Authenticator = auth.Func(badge) }

func bearer(text string) []string { return []string{"Authorization", "Bearer " + text} }

// operation is an operation of the API's description.
type operation struct {
	id, method, path string
	role             auth.Role // empty = public
	statuses         []string
}

// operations reads them from the document that the server serves.
func operations(t testing.TB, w *world) []operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                `json:"operationId"`
			Role        auth.Role             `json:"x-role"`
			Security    []map[string][]string `json:"security"`
			Responses   map[string]any        `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.call("GET", "/openapi.json", nil).text), &doc))
	var all []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{id: op.OperationID, method: strings.ToUpper(method), path: path, role: op.Role}
			require.Equal(t, op.Role != "", len(op.Security) > 0, o.id)
			for status := range op.Responses {
				o.statuses = append(o.statuses, status)
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	require.Greater(t, len(all), 50)
	return all
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// target is a path without parameters, of things that are not there.
func (o operation) target() string { return pathParam.ReplaceAllString(o.path, "none") }

// roleTable says, for reviewers, which role each operation needs. It is what docs/authentication.md
// promises; an operation that is missing here fails the test.
var roleTable = map[auth.Role]string{
	"": "healthz readyz receiveWebhook",
	auth.RoleRead: "agentChanges chatConnect countThreads createStreamTicket events followThreads getAgent getCurrentEvent getEntity getEvent getKnowledge getKnowledgeDocument getMCPServer getNextEvent getQueue getSchedule getServer getTask getThread listAgentVersions " +
		"listAgents listAllApprovals listApprovals listChatMessages listDecisions listEntities listEntityMentions listEntityMerges listGrants listKnowledgeChunks listKnowledgeDocuments listMCPPrompts listMCPResources listMCPServers listMessages listRules listRunMessages listScheduleVersions listSchedules listTasks listThreads listWebhooks listWorldMessages " +
		"loginMCPServer logoutMCPServer renderMarkdown resumeChat searchKnowledge seeThread testRules",
	auth.RolePost:    "addKnowledgeDocument answerInput chat chatRun completeTask getMCPPrompt openThread postMessage postToolResult prompt promptUnversioned publish publishMessage publishToThread reportProgress stopChat uploadKnowledgeFile",
	auth.RoleApprove: "decide publishToolResult revokeGrant",
	auth.RoleOperate: "addToQueue cancelTask closeThread createSchedule deleteEntity deleteKnowledgeDocument deleteSchedule exportThread getModelCall interruptThread listRecords listToolCalls mergeEntity pauseSchedule readMCPResource reindexKnowledgeDocument replaceSchedule restartMCPServer resumeSchedule " +
		"retryEvent setEventStatus triggerSchedule undoEntityMerge updateThread",
	auth.RoleAdmin: "createKey deleteAgent deleteMCPServer diffConfig erasePerson eraseThread exportPerson getErasure getPersonErasure getRetention listErasures listKeys listPersonErasures putAgent putMCPServer repair revokeKey rotateKey runChecks",
}

// TestOperationsNeedTheirRoles calls every operation of the API's description without
// credentials, with other credentials, and with a key of each single role.
func TestOperationsNeedTheirRoles(t *testing.T) {
	w := newWorld(t, withBadges)
	declared := map[auth.Role][]string{}
	for _, op := range operations(t, w) {
		declared[op.role] = append(declared[op.role], op.id)
		t.Run(op.id, func(t *testing.T) {
			var body any
			if op.method != http.MethodGet && op.method != http.MethodDelete {
				body = object{}
			}
			if op.role == "" {
				got := w.call(op.method, op.target(), body)
				assert.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, got.text)
				return
			}
			for _, status := range []string{"401", "403", "503"} {
				assert.Contains(t, op.statuses, status, "documented")
			}
			denied := func(status int, header ...string) {
				got := w.call(op.method, op.target(), body, header...)
				require.Equal(t, status, got.status, got.text)
				if strings.Contains(strings.ToLower(op.id), "chat") && op.id != "listChatMessages" {
					assert.NotEmpty(t, got.text)
					assert.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
				} else if strings.HasPrefix(op.id, "prompt") {
					assert.NotEmpty(t, got.body["error"])
					assert.Equal(t, "application/json", got.header.Get("Content-Type"))
				} else {
					got.problem(t, status)
				}
				if status == http.StatusUnauthorized {
					assert.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
				}
				if status == http.StatusServiceUnavailable {
					assert.NotEmpty(t, got.header.Get("Retry-After"))
				}
			}
			denied(http.StatusUnauthorized)
			denied(http.StatusUnauthorized, "Authorization", "Basic YW5uOnNlY3JldA==")
			denied(http.StatusForbidden, bearer("elsewhere")...)
			denied(http.StatusServiceUnavailable, bearer("broken")...)
			for _, role := range auth.AllRoles() {
				if role != op.role && role != auth.RoleAdmin {
					denied(http.StatusForbidden, bearer("ann "+string(role))...)
					continue
				}
				also := ""
				if op.id == "chat" || op.id == "chatRun" {
					also = " read" // the response is a stream
				}
				got := w.call(op.method, op.target(), body, bearer("ann "+string(role)+also)...)
				assert.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s", role, got.text)
			}
		})
	}
	for role, ids := range declared {
		assert.Equal(t, roleTable[role], strings.Join(ids, " "), "operations that need the role %q", role)
	}
}

func TestPublicRoutes(t *testing.T) {
	w := newWorld(t, withBadges)
	for _, path := range []string{"/docs", "/docs/docs.js", "/docs/docs.css", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml", "/", "/page/app.js", "/page/client/threadmill.js"} {
		assert.Equal(t, http.StatusOK, w.call("GET", path, nil).status, path)
	}
	w.call("GET", "/nothing", nil).problem(t, http.StatusNotFound)
	w.call("PUT", "/v1/threads", nil).problem(t, http.StatusMethodNotAllowed)

	assert.Equal(t, object{"status": "ok"}, w.call("GET", "/readyz", nil).body, "no details for strangers")
	assert.Equal(t, object{"status": "ok"}, w.call("GET", "/readyz", nil, bearer("ann post")...).body)
	assert.Equal(t, object{"store": "ok", "stream": "ok", "worker": "ok"}, w.call("GET", "/readyz", nil, bearer("ann read")...).body["components"])
	assert.Equal(t, object{"status": "ok"}, w.call("GET", "/readyz", nil, bearer("broken")...).body)
}

// TestUndeclaredRoute: what was added to the mux without a role is closed.
func TestUndeclaredRoute(t *testing.T) {
	require.Equal(t, http.StatusForbidden, server.UndeclaredRoute())
}

// TestActors: a principal acts under its own name, wherever a request can name somebody.
func TestActors(t *testing.T) {
	w := newWorld(t, withBadges)
	ann := bearer("ann admin")
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, ann...).status)
	for _, c := range []struct {
		method, path, location string
		body                   object
	}{
		{"POST", "/v1/threads", "body.message.sender", object{"message": object{"content": "x", "sender": "eve"}}},
		{"POST", "/v1/threads/t1/messages", "body.sender", object{"content": "x", "sender": "eve"}},
		{"POST", "/v1/threads/t1/messages", "body.sender", object{"content": "x", "sender": "Ann"}},
		{"POST", "/v1/threads/t1/messages?wait=true", "body.sender", object{"content": "x", "sender": "eve"}},
		{"POST", "/v1/threads/t1/queue", "body.payload.senderId", object{"type": "message", "payload": object{"senderId": "eve", "senderType": "user", "content": "x"}}},
		{"POST", "/v1/threads/t1/queue", "body.payload", object{"type": "message", "payload": object{"senderID": "eve", "senderId": "ann", "senderType": "user", "content": "x"}}},
		{"POST", "/v1/threads/t1/queue", "body.payload.userId", object{"type": "user_query", "payload": object{"userId": "eve", "content": "x"}}},
		{"PATCH", "/v1/threads/t1/queue/e1", "body.by", object{"status": "pending", "by": "eve"}},
		{"POST", "/v1/threads/t1/queue/e1/retry", "body.by", object{"by": "eve"}},
		{"POST", "/v1/threads/t1/interrupt", "body.by", object{"by": "eve"}},
		{"PATCH", "/v1/threads/t1", "body.by", object{"title": "x", "by": "eve"}},
		{"POST", "/v1/threads/t1/presence", "body.by", object{"id": "w1", "by": "eve"}},
		{"POST", "/v1/threads/t1/approvals/c1", "body.by", object{"decision": "approve", "by": "eve"}},
		{"DELETE", "/v1/threads/t1/grants/c1?by=eve", "query.by", nil},
		{"DELETE", "/v1/threads/t1?by=eve", "query.by", nil},
		{"POST", "/v1/threads/t1/tool-calls/c1/result", "body.by", object{"output": "x", "by": "eve"}},
		{"POST", "/v1/threads/t1/events", "body.metadata.published_by", object{"type": "x", "metadata": object{"published_by": "eve"}}},
		{"POST", "/v1/threads/t1/events", "body.payload.userId", object{"type": "user_query", "payload": object{"userId": "eve", "content": "x"}}},
		{"POST", "/v1/events", "body.payload.userId", object{"type": "user_query", "payload": object{"userId": "eve", "content": "x"}}},
		{"POST", "/v1/threads/t1/world/messages", "body.sender", object{"content": "x", "sender": "system"}},
		{"POST", "/v1/threads/t1/world/tool-results", "body.by", object{"tool_call_id": "c1", "decision": "approve", "by": "eve"}},
		{"POST", "/v1/tasks/t1~t1/complete", "body.by", object{"by": "eve"}},
		{"POST", "/v1/tasks/t1~t1/cancel", "body.by", object{"by": "eve"}},
		{"POST", "/v1/schedules", "body.message.sender", object{"threadId": "t1", "every": "1h", "message": object{"content": "x", "sender": "eve"}}},
		{"PUT", "/v1/schedules/s1", "body.message.sender", object{"threadId": "t1", "every": "1h", "message": object{"content": "x", "sender": "eve"}}},
		{"POST", "/v1/schedules", "body.event.metadata.published_by", object{"threadId": "t1", "every": "1h", "event": object{"type": "x", "metadata": object{"published_by": "eve"}}}},
		{"POST", "/v1/schedules?by=eve", "query.by", object{"threadId": "t1", "every": "1h", "message": object{"content": "x"}}},
		{"PUT", "/v1/schedules/s1?by=eve", "query.by", object{"threadId": "t1", "every": "1h", "message": object{"content": "x"}}},
		{"DELETE", "/v1/schedules/s1?by=eve", "query.by", nil},
		{"PUT", "/v1/agents/clerk?by=eve", "query.by", object{"model": "demo/demo"}},
		{"DELETE", "/v1/agents/clerk?by=eve", "query.by", nil},
	} {
		t.Run(c.method+" "+c.path+" "+c.location, func(t *testing.T) {
			var body any
			if c.body != nil {
				body = c.body
			}
			got := w.call(c.method, c.path, body, ann...)
			status := http.StatusForbidden
			if c.location == "body.payload" { // a field in another case
				status = http.StatusUnprocessableEntity
			}
			assert.Equal(t, []string{c.location}, got.problem(t, status), got.text)
		})
	}
	require.Empty(t, w.threads.posts, "nothing was posted")
	require.Empty(t, w.threads.ctls)

	said := func() string { return string(w.threads.posts[len(w.threads.posts)-1].Payload) }
	require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/messages", object{"content": "x"}, ann...).status)
	assert.Contains(t, said(), `"senderId":"ann"`)
	require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/messages", object{"content": "x", "sender": "ann"}, ann...).status)
	w.call("POST", "/v1/threads/t1/queue", object{"type": "message", "payload": object{"senderType": "user", "content": "x"}}, ann...).ok(t, http.StatusAccepted)
	assert.Contains(t, said(), `"senderId":"ann"`)
	require.Equal(t, http.StatusAccepted, w.call("DELETE", "/v1/threads/t1", nil, ann...).status)
	require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/interrupt", nil, ann...).status)
	for _, c := range w.threads.ctls {
		assert.Equal(t, "ann", c.By)
	}
	w.call("POST", "/sessions/t1/prompt", object{"content": "x"}, ann...).ok(t, http.StatusOK)
	published := w.threads.events.posts["t1"][0]
	assert.JSONEq(t, `{"sessionId":"t1","content":"x","userId":"ann"}`, string(published.Payload))
	assert.Contains(t, string(published.Metadata), `"published_by":"ann"`)
}

// TestSenderTypes: only the role send-as sends messages that are not a person's.
func TestSenderTypes(t *testing.T) {
	w := newWorld(t, withBadges)
	w.threads.schedules.has = map[string]signals.ScheduleView{}
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, bearer("ann post")...).status)
	schedule := func(sender string) object {
		return object{"threadId": "t1", "every": "1h", "message": object{"content": "x", "senderType": sender}}
	}
	for _, c := range []struct {
		method, path, location string
		body                   func(sender string) object
	}{
		{"POST", "/v1/threads/t1/queue", "body.payload.senderType", func(sender string) object {
			return object{"type": "message", "payload": object{"senderType": sender, "content": "x"}}
		}},
		{"POST", "/v1/schedules", "body.message.senderType", schedule},
		{"PUT", "/v1/schedules/s1", "body.message.senderType", schedule},
	} {
		for _, sender := range []string{"agent", "tool", "system"} {
			got := w.call(c.method, c.path, c.body(sender), bearer("ann read post approve operate")...)
			assert.Equal(t, []string{c.location}, got.problem(t, http.StatusForbidden), got.text)
		}
	}
	require.Empty(t, w.threads.posts)
	for _, sender := range []string{"user", "agent", "tool", "system"} {
		w.call("POST", "/v1/threads/t1/queue", object{"type": "message", "payload": object{"senderType": sender, "content": "x"}}, bearer("ann operate send-as")...).ok(t, http.StatusAccepted)
		w.call("POST", "/v1/schedules", schedule(sender), bearer("ann operate send-as")...).ok(t, http.StatusCreated)
	}
	require.Len(t, w.threads.posts, 4)
	t.Run("an agent of the thread that is configured nowhere", func(t *testing.T) {
		require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t2"}, bearer("ann post")...).status)
		_, err := w.store.Append(w.ctx, store.Key{Namespace: "default", ThreadID: "t2"}, store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"bob"}}})
		require.NoError(t, err)
		const path = "/v1/threads/t2/world/messages"
		assert.Equal(t, []string{"body.sender"}, w.call("POST", path, object{"content": "x"}, bearer("bob post")...).problem(t, http.StatusForbidden))
		w.call("POST", path, object{"content": "x"}, bearer("bob post send-as")...).ok(t, http.StatusAccepted)
	})
}

// TestNamesOfKeysAndAgents: nobody has the name of an agent, whichever came first.
func TestNamesOfKeysAndAgents(t *testing.T) {
	configured := auth.TokenFor("ci")
	w := newWorld(t, func(c *server.Config) {
		keys, err := auth.NewKeys(auth.KeysConfig{Store: teststore.Of(c.Store), Keys: []auth.Key{{Name: "ci", Roles: auth.Roles{auth.RoleAdmin}, Hash: configured.Hash()}}})
		require.NoError(t, err)
		c.Authenticator = keys
	})
	root := bearer(configured.Reveal())
	create := func(name string, roles ...string) answer {
		return w.call("POST", "/v1/keys", object{"name": name, "roles": roles}, root...)
	}
	secret := func(got answer) []string { return bearer(got.ok(t, http.StatusCreated).body["token"].(string)) }
	ann := secret(create("ann", "read", "post", "approve", "operate", "send-as"))
	assert.Equal(t, []string{"body.name"}, create("BOT", "post").problem(t, 422), "a configured agent")
	w.call("PUT", "/v1/agents/clerk", object{"model": "demo/demo"}, root...).ok(t, http.StatusCreated)
	assert.Equal(t, []string{"body.name"}, create("clerk", "post").problem(t, 422), "a stored agent")
	for _, name := range []string{"Ann", "ci"} {
		assert.Equal(t, []string{"path.name"}, w.call("PUT", "/v1/agents/"+name, object{"model": "demo/demo"}, root...).problem(t, 422), name)
	}

	// An agent that another way has given the name, such as the configuration of a worker.
	_, err := w.store.SaveAgent(w.ctx, "default", store.AgentVersion{Name: "Ann", Definition: []byte(`{"name":"Ann","model":"demo/demo"}`), By: "x"}, -1)
	require.NoError(t, err)
	for _, o := range operations(t, w) {
		if o.role == auth.RoleRead || o.role == auth.RoleAdmin || o.role == "" {
			continue
		}
		got := w.call(o.method, o.target(), object{}, ann...)
		assert.Equal(t, http.StatusForbidden, got.status, o.id)
		assert.Contains(t, got.text, "an agent has its name", o.id)
	}
	w.call("GET", "/v1/threads", nil, ann...).ok(t, http.StatusOK)
}

// TestPartsNeedTheirRoles: what a route does on demand needs the role of that as well.
func TestPartsNeedTheirRoles(t *testing.T) {
	w := newWorld(t, withBadges)
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, bearer("ann post")...).status)
	wait := w.call("POST", "/v1/threads/t1/messages?wait=true", object{"content": "x"}, bearer("ann post")...)
	assert.Equal(t, []string{"query.wait"}, wait.problem(t, http.StatusForbidden))
	decision := object{"content": `{"__type":"tool_result","tool_call_id":"c1","decision":"approve"}`}
	got := w.call("POST", "/v1/threads/t1/world/messages", decision, bearer("ann post")...)
	assert.Equal(t, []string{"body.content"}, got.problem(t, http.StatusForbidden))
	require.Empty(t, w.threads.posts)
}

func TestUnsignedWebhookNeedsKey(t *testing.T) {
	unsigned := webhook.Endpoint{Name: "hub", Unsigned: true, Event: webhook.Event{Type: "x", Thread: "t1", Open: true}}
	w := newWorld(t, withBadges, func(c *server.Config) {
		c.Webhooks = []webhook.Endpoint{unsigned}
	})
	w.call("POST", "/v1/webhooks/hub", object{}).problem(t, http.StatusUnauthorized)
	w.call("POST", "/v1/webhooks/hub", object{}, bearer("ann read")...).problem(t, http.StatusForbidden)
	w.call("POST", "/v1/webhooks/hub", object{}, bearer("ann post")...).ok(t, http.StatusAccepted)
	assert.Contains(t, string(w.threads.events.posts["t1"][0].Metadata), `"published_by":"ann"`)
}

// TestRevokedWhileItLasts: a stream, and a request that waits, end when their principal has lost
// its access.
func TestRevokedWhileItLasts(t *testing.T) {
	var revoked atomic.Bool
	var failing atomic.Bool
	var checks atomic.Int64
	w := newWorld(t, func(c *server.Config) {
		c.AuthCheckInterval, c.WaitLimit = 5*time.Millisecond, testenv.Patience
		c.Authenticator = auth.Func(func(r *http.Request) (auth.Principal, error) {
			checks.Add(1)
			switch {
			case failing.Load():
				return auth.Principal{}, errors.New("the store is down")
			case revoked.Load():
				return auth.Principal{}, fmt.Errorf("%w: the key is revoked", auth.ErrUnauthenticated)
			}
			return badge(r)
		})
	})
	ann := bearer("ann admin")
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, ann...).status)
	for _, path := range []string{"/v1/threads/t1/events", "/v1/threads/t1/events?view=world", "/v1/threads/t1/events?view=env", "/v1/agents/changes"} {
		t.Run(path, func(t *testing.T) {
			revoked.Store(false)
			req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.url+path, nil)
			require.NoError(t, err)
			req.Header.Set("Accept", "text/event-stream")
			req.Header.Set(ann[0], ann[1])
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			require.Equal(t, http.StatusOK, res.StatusCode)

			failing.Store(true)
			before := checks.Load()
			require.Eventually(t, func() bool { return checks.Load() > before+2 }, testenv.Patience, time.Millisecond, "a check that fails ends nothing")
			failing.Store(false)
			revoked.Store(true)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err, "the stream ends")
			require.Equal(t, http.StatusUnauthorized, w.call("GET", path, nil, ann...).status)
		})
	}
	t.Run("wait", func(t *testing.T) {
		revoked.Store(false)
		w.threads.duplicate = true
		w.threads.turn = func(ctx context.Context, _ signals.Post) (signals.TurnResult, error) {
			revoked.Store(true)
			<-ctx.Done()
			return signals.TurnResult{}, ctx.Err()
		}
		got := w.call("POST", "/v1/threads/t1/messages?wait=true", object{"content": "x"}, ann...)
		got.problem(t, http.StatusUnauthorized)
	})
}

// TestNoSecretsInLog: neither log nor answers repeat credentials.
func TestNoSecretsInLog(t *testing.T) {
	log := &bytes.Buffer{}
	const secret = "tmk_abc_0123456789abcdefghijklmnopqrstuvwxyz"
	w := newWorld(t, func(c *server.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Authenticator = auth.Func(func(r *http.Request) (auth.Principal, error) {
			if r.URL.Query().Has("fail") {
				return auth.Principal{}, errors.New("the store is down")
			}
			return auth.Principal{}, fmt.Errorf("%w: unknown", auth.ErrUnauthenticated)
		})
	})
	for _, path := range []string{"/v1/threads", "/v1/threads?fail=1", "/v1/threads?access_token=" + secret, "/healthz", "/nothing"} {
		got := w.call("GET", path, nil, "Authorization", "Bearer "+secret)
		assert.NotContains(t, got.text, secret)
	}
	assert.Contains(t, log.String(), "cannot be authenticated")
	assert.NotContains(t, log.String(), secret)
}
