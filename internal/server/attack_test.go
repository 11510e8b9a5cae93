package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/webhook"
)

// This file attacks every operation of the API's description, so that a new one is attacked as
// soon as it exists. [TestOperationsNeedTheirRoles] attacks them without credentials and
// [TestJSONHasOneMeaningOnEveryRoute] with JSON of several meanings.

// target of attacks: an operation, with a request that is right in itself.
type target struct {
	id, method, path string
	params           []string // of the path
	content          string   // type of the body, empty = none
	body             string
	required         bool // the body is
	streams          bool
}

// bodies are requests that the schema alone cannot make right.
var bodies = map[string]string{
	"addKnowledgeDocument": `{"source":"none","text":"x"}`,
	"uploadKnowledgeFile":  `{"x":1}`,
	"chat":                 `{"id":"none","trigger":"regenerate-message","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`,
	"chatRun":              `{"threadId":"none","runId":"r","resume":[{"interruptId":"none","status":"cancelled"}]}`,
	"chatConnect":          `{"threadId":"none","runId":"r"}`,
	"publish":              `{"type":"x","metadata":{"trigger_session_id":"none"}}`,
	"cancelTask":           `{"by":"ann"}`,
	"addToQueue":           `{"type":"message","payload":{"threadId":"none","senderId":"ann","senderType":"user","content":"x"}}`,
	"decide":               `{"decision":"deny","by":"ann"}`,
	"publishToolResult":    `{"tool_call_id":"c1","decision":"deny","by":"ann"}`,
	"eraseThread":          `{"threadId":"none","by":"ann"}`,
	"createKey":            `{"name":"ann","roles":["read"]}`,
	"createSchedule":       `{"threadId":"none","every":"1h","message":{"content":"x"}}`,
	"postToolResult":       `{"output":"x"}`,
	"answerInput":          `{"answers":{"q":{"action":"cancel"}},"by":"ann"}`,
	"putAgent":             `{"model":"demo/demo"}`,
	"receiveWebhook":       `{"x":1}`,
	"replaceSchedule":      `{"threadId":"none","every":"1h","message":{"content":"x"}}`,
	"seeThread":            `{"id":"w1","by":"ann"}`,
	"setEventStatus":       `{"status":"overwritten"}`,
	"mergeEntity":          `{"into":"none"}`,
	"updateThread":         `{"title":"x"}`,
	"createStreamTicket":   `{"threads":["none"]}`,
}

// targets reads the operations from the document that the server serves. A parameter or a body
// that it cannot make from its schema fails the test.
func targets(t testing.TB, w *world) []target {
	t.Helper()
	raw := []byte(w.call("GET", "/openapi.json", nil).text)
	var doc document
	require.NoError(t, json.Unmarshal(raw, &doc))
	var more struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name     string `json:"name"`
				In       string `json:"in"`
				Required bool   `json:"required"`
				Schema   schema `json:"schema"`
			} `json:"parameters"`
			RequestBody struct {
				Required bool `json:"required"`
			} `json:"requestBody"`
			Responses map[string]struct {
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(raw, &more))
	var all []target
	for at, methods := range doc.Paths {
		for method, op := range methods {
			o := target{id: op.OperationID, method: strings.ToUpper(method), path: at}
			for _, p := range more.Paths[at][method].Parameters {
				switch {
				case p.In == "path":
					require.Equal(t, "string", p.Schema.Type, "%s: parameter %s: say in targets how to make one", o.id, p.Name)
					o.params = append(o.params, p.Name)
				case p.In == "query" && p.Required:
					require.NotContains(t, o.path, "?", "%s: parameter %s: say in targets how to make one", o.id, p.Name)
					o.path += "?" + p.Name + "=none"
				default:
					require.False(t, p.Required, "%s: parameter %s: say in targets how to make one", o.id, p.Name)
				}
			}
			require.Len(t, o.params, strings.Count(at, "{"), o.id)
			for _, r := range more.Paths[at][method].Responses {
				_, ok := r.Content["text/event-stream"]
				o.streams = o.streams || ok
			}
			o.required = more.Paths[at][method].RequestBody.Required
			for content, body := range op.RequestBody.Content {
				require.Empty(t, o.content, "%s: the body has several types: say in targets which to send", o.id)
				o.content, o.body = content, bodies[o.id]
				if o.body == "" {
					raw, err := json.Marshal(doc.sample(body.Schema))
					require.NoError(t, err)
					o.body = string(raw)
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.id, b.id) })
	require.Greater(t, len(all), 50)
	for id := range bodies {
		require.True(t, slices.ContainsFunc(all, func(o target) bool { return o.id == id }), "there is no operation %s", id)
	}
	return all
}

// url is the path of things that may be there, with some parameters replaced.
func (o target) url(params map[string]string) string {
	path := o.path
	for _, name := range o.params {
		value, ok := params[name]
		if !ok {
			value = "none"
		}
		path = strings.Replace(path, "{"+name+"}", value, 1)
	}
	return path
}

// attack sends the request of an operation, changed by header, which may be pairs.
func (w *world) attack(o target, path, body string, header ...string) answer {
	w.t.Helper()
	if o.content == "" {
		return w.call(o.method, path, nil, header...)
	}
	return w.call(o.method, path, body, header...)
}

// requireRejected demands that a server rejects a request, in words.
func requireRejected(t *testing.T, o target, got answer, statuses ...int) {
	t.Helper()
	require.Contains(t, statuses, got.status, "%s: %s", o.id, got.text)
	require.NotContains(t, got.text, "goroutine ")
	require.NotContains(t, got.text, ".go:")
	if strings.HasPrefix(o.id, "prompt") && got.status != http.StatusMisdirectedRequest && got.header.Get("Content-Type") == "application/json" {
		require.NotEmpty(t, got.body["error"], o.id)
		return
	}
	if strings.Contains(strings.ToLower(o.id), "chat") && got.header.Get("Content-Type") == "text/plain; charset=utf-8" {
		require.NotEmpty(t, got.text, o.id)
		return
	}
	got.problem(t, got.status)
}

// inhabited is a world with a thread "none", which does what it is asked to.
func inhabited(t *testing.T, change ...func(*server.Config)) *world {
	compares := func(c *server.Config) {
		c.CompareConfig = func(context.Context, []byte, []webhook.Endpoint) (configdiff.Diff, error) {
			return configdiff.Diff{}, nil
		}
	}
	w := newWorld(t, append(change, withWebhook, compares)...)
	w.threads.known["none"] = true
	w.threads.approvals.outcome = signals.DecideAccepted
	w.threads.queue.change = func() (event.Item, error) { return event.Item{}, nil }
	w.threads.schedules.has = map[string]signals.ScheduleView{}
	return w
}

// untouchable is what a request that is rejected at the door must not reach: each call of it
// panics, and so would be a 500.
func untouchable(c *server.Config) {
	c.Threads, c.Store = struct{ server.Threads }{}, struct{ teststore.Store }{}
	c.Agents = agent.Fixed{{Name: "bot"}}
}

func withWebhook(c *server.Config) {
	unsigned := webhook.Endpoint{Name: "none", Unsigned: true, Event: webhook.Event{Type: "x", Thread: "none", Open: true}}
	c.Webhooks = []webhook.Endpoint{unsigned}
}

// TestTargetsAreRight: the requests that the attacks change would otherwise be accepted, or name
// things that are not there.
func TestTargetsAreRight(t *testing.T) {
	shared := inhabited(t)
	for _, o := range targets(t, shared) {
		t.Run(o.id, func(t *testing.T) {
			w := shared
			if o.id == "followThreads" {
				w = inhabited(t)
				delete(w.threads.known, "none") // the stream of a thread that exists does not end
			}
			got := w.attack(o, o.url(nil), o.body)
			require.NotContains(t, []int{400, 405, 406, 408, 413, 415, 421, 422}, got.status, "give the operation a request in bodies: %s", got.text)
			require.NotContains(t, got.text, "nothing at this path")
			require.Less(t, got.status, 500, got.text)
		})
	}
}

func TestAttackHosts(t *testing.T) {
	w := newWorld(t, untouchable)
	for _, o := range targets(t, w) {
		for _, host := range []string{"evil.example", "localhost.evil.example:80", "0.0.0.0:8080", "192.168.0.1"} {
			requireRejected(t, o, w.attack(o, o.url(nil), o.body, "Host", host), http.StatusMisdirectedRequest)
		}
	}
}

func TestAttackFromOtherSites(t *testing.T) {
	w := newWorld(t, untouchable)
	for _, o := range targets(t, w) {
		t.Run(o.id, func(t *testing.T) {
			if o.method == http.MethodGet {
				return // see TestGetsHaveNoEffects
			}
			for _, header := range [][]string{
				{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "same-site"},
				{"Origin", "http://evil.example"},
				{"Origin", "null"},
				{"Origin", "http://localhost.evil.example"},
			} {
				requireRejected(t, o, w.attack(o, o.url(nil), o.body, header...), http.StatusForbidden)
			}
			got := w.call(http.MethodOptions, o.url(nil), nil, "Origin", "http://evil.example", "Access-Control-Request-Method", o.method)
			require.GreaterOrEqual(t, got.status, 400)
			require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
		})
	}
}

// reads is all that a GET may do to threads: each other call panics.
type reads struct {
	server.Threads
	fake *threads
}

func (r reads) State(ctx ctx, id string) (signals.State, error) { return r.fake.State(ctx, id) }
func (r reads) Queue(ctx ctx, id string) (signals.Queue, error) { return r.fake.Queue(ctx, id) }
func (r reads) Tasks(ctx ctx, id string) (signals.Tasks, error) { return r.fake.Tasks(ctx, id) }
func (r reads) Task(ctx ctx, id string) (event.Task, error)     { return r.fake.Task(ctx, id) }
func (r reads) Item(ctx ctx, id, eventID string) (event.Item, error) {
	return r.fake.Item(ctx, id, eventID)
}

func (r reads) Workers(ctx ctx, id string) (threadclient.Workers, error) {
	return r.fake.Workers(ctx, id)
}

func (r reads) Approvals(ctx ctx, id string) (signals.Approvals, error) {
	return r.fake.Approvals(ctx, id)
}

func (r reads) Schedule(ctx ctx, id string) (signals.ScheduleView, error) {
	return r.fake.Schedule(ctx, id)
}

func (r reads) Schedules(ctx ctx, limit int) ([]signals.ScheduleView, error) {
	return r.fake.Schedules(ctx, limit)
}

type ctx = context.Context

// TestGetsHaveNoEffects: browsers send GETs for any site, and show that site nothing of the
// response as long as there is no CORS header.
func TestGetsHaveNoEffects(t *testing.T) {
	w := inhabited(t, func(c *server.Config) {
		c.Threads = reads{fake: c.Threads.(*threads)}
		c.Store = teststore.Before(c.Store, func(context.Context) error { panic("a GET has written to the store") },
			"append", "save_agent", "put_document", "begin_knowledge", "delete_knowledge", "create_api_key")
	})
	for _, o := range targets(t, w) {
		if o.method != http.MethodGet || o.streams {
			continue
		}
		got := w.attack(o, o.url(nil), "", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
		require.Less(t, got.status, 500, "%s: %s", o.id, got.text)
		for name := range got.header {
			require.NotContains(t, name, "Access-Control", o.id)
		}
	}
}

func TestAttackBodies(t *testing.T) {
	const limit = 4 << 10
	w := newWorld(t, untouchable, withWebhook, func(c *server.Config) { c.MaxBody, c.MaxUpload = limit, limit })
	for _, o := range targets(t, w) {
		t.Run(o.id, func(t *testing.T) {
			unknown := "?surely-unknown=1"
			if strings.Contains(o.path, "?") {
				unknown = "&" + unknown[1:]
			}
			got := w.attack(o, o.url(nil)+unknown, o.body)
			requireRejected(t, o, got, http.StatusUnprocessableEntity)
			if o.content == "" {
				return
			}
			got = w.attack(o, o.url(nil), o.body+strings.Repeat(" ", limit))
			requireRejected(t, o, got, http.StatusRequestEntityTooLarge)
			if o.content != "application/json" {
				return // a webhook takes what it is sent, and a file has any type
			}
			for _, content := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml"} {
				if strings.HasPrefix(o.id, "prompt") {
					break // S3-47: it does not look at the type
				}
				got = w.attack(o, o.url(nil), o.body, "Content-Type", content)
				requireRejected(t, o, got, http.StatusUnsupportedMediaType)
			}
			if o.required {
				requireRejected(t, o, w.attack(o, o.url(nil), ""), http.StatusBadRequest)
			}
			for _, body := range []string{"[]", "1", `"x"`, o.body + o.body, strings.TrimSuffix(o.body, "}"), "\x00", "\ufeff" + o.body} {
				got = w.attack(o, o.url(nil), body)
				requireRejected(t, o, got, http.StatusBadRequest, http.StatusUnprocessableEntity)
			}
		})
	}
}

func TestAttackWithDrippingBodies(t *testing.T) {
	const timeout = 200 * time.Millisecond
	w := newWorld(t, untouchable, withWebhook, func(c *server.Config) { c.Limits = guard.Limits{BodyTimeout: timeout} })
	for _, o := range targets(t, w) {
		if o.content == "" {
			continue
		}
		t.Run(o.id, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(testenv.Patience)))
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", o.method, o.url(nil))
			require.NoError(t, err)
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				drip := time.NewTicker(timeout / 10)
				defer drip.Stop()
				for {
					select {
					case <-stop:
						return
					case <-drip.C:
						if _, err := io.WriteString(conn, " "); err != nil {
							return
						}
					}
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer res.Body.Close()
			require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
			require.True(t, res.Close, "the connection ends")
		})
	}
}

func TestAttackIdentifiers(t *testing.T) {
	w := inhabited(t)
	for _, o := range targets(t, w) {
		for _, name := range o.params {
			for _, value := range []string{"%00", "a%0Ab", "a%1B%5B2J", "a%E2%80%8Bb", "a%E2%80%AEb", "a%C2%ADb", "%FF", "a%F3%A0%81%81"} {
				requireRejected(t, o, w.attack(o, o.url(map[string]string{name: value}), o.body), http.StatusBadRequest)
			}
			for _, value := range []string{"%20", "..%2F..%2Fetc", "a%2Fb", "%C3%A4", "'%3B--", "%25s", strings.Repeat("x", 5000)} {
				got := w.attack(o, o.url(map[string]string{name: value}), o.body)
				require.Less(t, got.status, 500, "%s: %s", o.id, got.text)
			}
		}
	}
	require.Empty(t, w.threads.opens)
}

// TestAttackWithoutStore: while the store is down, no operation fails as if the server were wrong.
func TestAttackWithoutStore(t *testing.T) {
	log := &lines{}
	o := &outage{}
	w := inhabited(t, func(c *server.Config) {
		c.Store, c.Logger = o.of(c.Store), slog.New(slog.NewTextHandler(log, nil))
	})
	all := targets(t, w)
	o.down.Store(true)
	unavailable := map[string]bool{}
	for _, op := range all {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			if accept != "application/json" && !op.streams {
				continue
			}
			got := w.attack(op, op.url(nil), op.body, "Accept", accept)
			require.NotEqual(t, http.StatusInternalServerError, got.status, "%s: %s", op.id, got.text)
			if got.status < 500 || op.id == "readyz" {
				continue
			}
			unavailable[op.id] = true
			requireRejected(t, op, got, http.StatusServiceUnavailable)
			assert.NotEmpty(t, got.header.Get("Retry-After"), op.id)
		}
	}
	for _, id := range []string{"agentChanges", "events", "getThread", "listAgents", "listKeys", "listMessages", "listThreads", "putAgent"} {
		assert.True(t, unavailable[id], "%s does without the store: %v", id, slices.Sorted(maps.Keys(unavailable)))
	}
	assert.Equal(t, 1, log.count("store unavailable"))
	assert.Equal(t, 1, log.count("level="), log.String())
}
