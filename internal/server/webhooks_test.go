package server_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/webhook"
)

const pushed = `{"repository":{"full_name":"acme/shop"},"n":1}`

var github = webhook.Endpoint{
	Name: "github", Signature: webhook.Signature{Scheme: webhook.SchemeGitHub}, Secrets: []webhook.Secret{"k"},
	Event: webhook.Event{Type: "github.{header.X-GitHub-Event}", Thread: "{payload.repository.full_name}", ID: "{source}-{payload.n}"},
}

// published is what a thread was given.
type published struct {
	threadID string
	event    event.EnvEvent
	options  threadclient.PublishOptions
}

// publishing are threads that know which events they have had.
type publishing struct {
	*threads
	got []published

	// silent threads do not answer.
	silent bool

	erased bool
}

func (p *publishing) Publish(ctx context.Context, id string, e event.EnvEvent, o threadclient.PublishOptions) (threadclient.PublishResult, error) {
	if p.silent {
		<-ctx.Done()
		return threadclient.PublishResult{}, ctx.Err()
	}
	if p.erased {
		return threadclient.PublishResult{EventID: e.ID}, fmt.Errorf("thread %q: %w", id, signals.ErrThreadErased)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := signals.EnvPost(e).Validate(id); err != nil {
		return threadclient.PublishResult{}, err
	}
	if _, there := p.known[id]; !there && o.Open {
		p.known[id] = true
	}
	if err := p.check(id); err != nil {
		return threadclient.PublishResult{}, err
	}
	status := signals.PostQueued
	for _, before := range p.got {
		if before.threadID == id && before.event.ID == e.ID {
			if !bytes.Equal(before.event.Payload, e.Payload) {
				return threadclient.PublishResult{}, fmt.Errorf("event %s: %w", e.ID, signals.ErrConflict)
			}
			status = signals.PostDuplicate
		}
	}
	p.got = append(p.got, published{id, e, o})
	return threadclient.PublishResult{EventID: e.ID, ThreadID: id, Status: status}, nil
}

// hooked is a server with webhooks.
type hooked struct {
	*world
	publishing *publishing
	sources    []webhook.Endpoint
	log        bytes.Buffer
}

// Webhooks implements webhook.Source.
func (h *hooked) Webhooks() []webhook.Endpoint { return h.sources }

func newHooked(t *testing.T, sources ...webhook.Endpoint) *hooked {
	return newHookedWith(t, func(*server.Config) {}, sources...)
}

func newHookedWith(t *testing.T, change func(*server.Config), sources ...webhook.Endpoint) *hooked {
	h := &hooked{sources: sources}
	require.NoError(t, webhook.ValidateAll(sources))
	h.world = newWorld(t, change, func(c *server.Config) {
		h.publishing = &publishing{threads: c.Threads.(*threads)}
		c.Threads = h.publishing
		c.WebhookSource = h
		c.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	})
	return h
}

func sign(secret, signed string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return hex.EncodeToString(mac.Sum(nil))
}

// deliver sends a request as GitHub does.
func (h *hooked) deliver(body string, header ...string) answer {
	h.t.Helper()
	header = append([]string{"X-Hub-Signature-256", "sha256=" + sign("k", body), "X-GitHub-Event", "push"}, header...)
	return h.call("POST", "/v1/webhooks/github", body, header...)
}

func TestWebhook(t *testing.T) {
	h := newHooked(t, github)
	h.open("acme-shop")
	got := h.deliver(pushed)
	t.Run("S3-55 a signed request is an event of the thread", func(t *testing.T) {
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		require.Equal(t, object{"eventId": "github-1", "threadId": "acme-shop", "status": "queued"}, got.body)
		require.Len(t, h.publishing.got, 1)
		p := h.publishing.got[0]
		assert.Equal(t, "acme-shop", p.threadID)
		assert.Equal(t, "github.push", p.event.Type)
		assert.Equal(t, event.EnvMetadata{TriggerSessionID: "acme-shop", EnvName: "github", Source: event.SourceEnv}, p.event.Metadata)
		assert.JSONEq(t, pushed, string(p.event.Payload))
		assert.Equal(t, threadclient.PublishOptions{}, p.options)
	})
	t.Run("S3-55 delivered again it is a duplicate", func(t *testing.T) {
		got := h.deliver(pushed)
		require.Equal(t, http.StatusAccepted, got.status)
		require.Equal(t, object{"eventId": "github-1", "threadId": "acme-shop", "status": "duplicate"}, got.body)
	})
	t.Run("another delivery of what its id says is the same", func(t *testing.T) {
		got := h.deliver(strings.Replace(pushed, "{", `{"delivered":"again",`, 1))
		require.Equal(t, http.StatusAccepted, got.status)
		require.Equal(t, object{"eventId": "github-1", "threadId": "acme-shop", "status": "duplicate"}, got.body)
	})
	t.Run("a form", func(t *testing.T) {
		got := h.deliver(url.Values{"payload": {strings.Replace(pushed, "1", "2", 1)}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		require.Equal(t, "github-2", got.body["eventId"])
	})
	t.Run("a closed thread", func(t *testing.T) {
		h.threads.known["acme-shop"] = false
		h.deliver(pushed).problem(t, 409)
	})
	require.Empty(t, h.log.String())
	t.Run("an erased thread", func(t *testing.T) {
		h.publishing.erased = true
		got := h.deliver(pushed)
		require.Equal(t, http.StatusAccepted, got.status, "another answer would be repeated")
		require.Equal(t, "ignored", got.body["status"])
		require.Contains(t, h.log.String(), "was erased")
	})
}

// TestWebhookOfASilentThread: the sender is told to come back, and not that it has gone itself.
func TestWebhookOfASilentThread(t *testing.T) {
	h := newHookedWith(t, func(c *server.Config) { c.AnswerWithin = 20 * time.Millisecond }, github)
	h.open("acme-shop")
	h.publishing.silent = true
	got := h.deliver(pushed)
	got.problem(t, http.StatusServiceUnavailable)
	require.NotEmpty(t, got.header.Get("Retry-After"))
}

func TestWebhookThatOpensThreads(t *testing.T) {
	opening := github
	opening.Event.Open, opening.Event.Agents, opening.Event.Title = true, []string{"bot"}, "{payload.repository.full_name} by {source}"
	h := newHooked(t, opening)
	require.Equal(t, http.StatusAccepted, h.deliver(pushed).status)
	require.Equal(t, threadclient.PublishOptions{Open: true, Start: signals.Start{Agents: []string{"bot"}, Title: "acme/shop by github"}}, h.publishing.got[0].options)
	listed := h.call("GET", "/v1/webhooks", nil).ok(t, http.StatusOK).body["webhooks"].([]any)[0].(object)
	require.Equal(t, "{payload.repository.full_name} by {source}", listed["title"])
}

func TestWebhookRefusals(t *testing.T) {
	h := newHooked(t, github)
	right := sign("k", pushed)
	for _, c := range []struct {
		name     string
		status   int
		body     string
		header   []string
		location string
	}{
		{"no signature", 401, pushed, []string{"X-Hub-Signature-256", ""}, "header.X-Hub-Signature-256"},
		{"wrong signature", 401, pushed, []string{"X-Hub-Signature-256", "sha256=" + sign("other", pushed)}, "header.X-Hub-Signature-256"},
		{"tampered body", 401, pushed + " ", []string{"X-Hub-Signature-256", "sha256=" + right}, "header.X-Hub-Signature-256"},
		{"a field of the body is missing", 422, `{"n":1}`, nil, "payload.repository.full_name"},
		{"a type that no event has", 422, pushed, []string{"X-GitHub-Event", strings.Repeat("x", 200)}, "body.type"},
		{"JSON that is none", 422, "{", nil, "payload"},
		{"a large payload", 413, `{"repository":{"full_name":"a"},"n":1,"x":"` + strings.Repeat("x", signals.MaxPayload) + `"}`, nil, "event.payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := h.deliver(c.body, c.header...)
			require.Equal(t, []string{c.location}, got.problem(t, c.status))
			require.NotContains(t, got.text, right)
		})
	}
	t.Run("no such thread", func(t *testing.T) {
		got := h.deliver(pushed)
		got.problem(t, 404)
		require.Contains(t, got.body["detail"], "acme-shop")
	})
	t.Run("no such webhook", func(t *testing.T) {
		h.call("POST", "/v1/webhooks/gitlab", pushed).problem(t, 404)
	})
	t.Run("a body that is too large", func(t *testing.T) {
		h.deliver(strings.Repeat("x", server.DefaultMaxBody+1)).problem(t, 413)
	})
	t.Run("an empty body", func(t *testing.T) {
		h.deliver("").problem(t, 400)
	})
	t.Run("another method", func(t *testing.T) {
		h.call("GET", "/v1/webhooks/github", nil).problem(t, 405)
	})
	require.Empty(t, h.publishing.got)
	t.Run("the log says why", func(t *testing.T) {
		require.Contains(t, h.log.String(), `webhook=github`)
		require.Contains(t, h.log.String(), "payload.repository.full_name: is missing")
		require.NotContains(t, h.log.String(), right)
	})
	t.Run("there are none", func(t *testing.T) {
		newWorld(t).call("POST", "/v1/webhooks/github", pushed).problem(t, 404)
	})
}

func TestWebhookSources(t *testing.T) {
	h := newHooked(t, github)
	h.open("acme-shop")
	t.Run("rotation", func(t *testing.T) {
		rolled := github
		rolled.Secrets = []webhook.Secret{"new", "k"}
		h.sources = []webhook.Endpoint{rolled}
		require.Equal(t, http.StatusAccepted, h.deliver(pushed).status)
		rolled.Secrets = []webhook.Secret{"new"}
		h.sources = []webhook.Endpoint{rolled}
		h.deliver(pushed).problem(t, 401)
	})
	t.Run("taken away", func(t *testing.T) {
		h.sources = nil
		h.deliver(pushed).problem(t, 404)
	})
}

func TestSlackWebhook(t *testing.T) {
	slack := webhook.Endpoint{
		Name: "slack", Signature: webhook.Signature{Scheme: webhook.SchemeSlack}, Secrets: []webhook.Secret{"k"},
		Event: webhook.Event{Type: "slack.{payload.event.type}", Thread: "slack-{payload.event.channel}"},
	}
	h := newHooked(t, slack)
	h.open("slack-C1")
	send := func(body string, at time.Time) answer {
		sent := strconv.FormatInt(at.Unix(), 10)
		return h.call("POST", "/v1/webhooks/slack", body,
			"X-Slack-Request-Timestamp", sent, "X-Slack-Signature", "v0="+sign("k", fmt.Sprintf("v0:%s:%s", sent, body)))
	}
	const challenge = `{"type":"url_verification","challenge":"3eZbrw1a"}`
	t.Run("its challenge is answered", func(t *testing.T) {
		got := send(challenge, time.Now())
		require.Equal(t, http.StatusOK, got.status, got.text)
		require.Equal(t, object{"challenge": "3eZbrw1a"}, got.body)
		h.call("POST", "/v1/webhooks/slack", challenge).problem(t, 401)
		require.Empty(t, h.publishing.got)
	})
	const said = `{"type":"event_callback","event_id":"Ev1","event":{"type":"message","channel":"C1"}}`
	t.Run("S3-55 an event", func(t *testing.T) {
		got := send(said, time.Now())
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		require.Equal(t, object{"eventId": "Ev1", "threadId": "slack-C1", "status": "queued"}, got.body)
	})
	t.Run("a request that somebody has kept", func(t *testing.T) {
		got := send(said, time.Now().Add(-webhook.DefaultTolerance-time.Minute))
		require.Equal(t, []string{"header.X-Slack-Request-Timestamp"}, got.problem(t, 401))
		require.Contains(t, got.body["detail"], "is stale")
		require.Len(t, h.publishing.got, 1)
	})
}

func TestWebhooksAreListed(t *testing.T) {
	unsigned := webhook.Endpoint{Name: "alerts", Unsigned: true, Event: webhook.Event{Type: "alert", Thread: "ops", Open: true, Agents: []string{"bot"}}}
	w := newWorld(t, func(c *server.Config) {
		c.Threads, c.Webhooks = &publishing{threads: &threads{}}, []webhook.Endpoint{github, unsigned}
	})
	got := w.call("GET", "/v1/webhooks", nil)
	require.Equal(t, http.StatusOK, got.status, got.text)
	assert.JSONEq(t, `{"webhooks":[
		{"name":"alerts","path":"/v1/webhooks/alerts","signature":"unsigned","secrets":0,"type":"alert","thread":"ops","open":true,"agents":["bot"]},
		{"name":"github","path":"/v1/webhooks/github","signature":"github","secrets":1,"type":"github.{header.X-GitHub-Event}","thread":"{payload.repository.full_name}","eventId":"{source}-{payload.n}"}
	]}`, got.text)
}
