package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

type object = map[string]any

func TestOpenThread(t *testing.T) {
	w := newWorld(t)
	t.Run("with everything", func(t *testing.T) {
		got := w.call("POST", "/v1/threads", object{
			"id": "t1", "agent": "bot", "metadata": object{"team": "red"},
			"message": object{"content": "hello", "id": "e1", "sender": "ann"},
		})
		require.Equal(t, http.StatusCreated, got.status, got.text)
		assert.Equal(t, "/v1/threads/t1", got.header.Get("Location"))
		assert.Equal(t, "t1", got.body["id"])
		assert.Equal(t, "open", got.body["status"])
		assert.Equal(t, []any{"bot"}, got.body["agents"])
		assert.Equal(t, object{"team": "red"}, got.body["metadata"])
		assert.Equal(t, "e1", got.body["eventId"])
		start := w.threads.opens[0]
		assert.Equal(t, []string{"bot"}, start.Agents)
		assert.JSONEq(t, `{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}`, string(start.First.Payload))

		found := w.call("GET", "/v1/threads/t1", nil)
		assert.Equal(t, http.StatusOK, found.status)
		delete(got.body, "eventId")
		assert.Equal(t, got.body, found.body, "found at once")
	})
	t.Run("with large integers in its metadata", func(t *testing.T) {
		const metadata = `"metadata":{"list":[9007199254740993],"order":2512292042121000001}`
		given := json.RawMessage(`{"order":2512292042121000001,"list":[9007199254740993]}`)
		got := w.call("POST", "/v1/threads", object{"id": "numbers", "metadata": given}).ok(t, http.StatusCreated)
		assert.Contains(t, got.text, metadata)
		assert.Contains(t, `"metadata":`+string(w.threads.opens[len(w.threads.opens)-1].Metadata), metadata)
		assert.Contains(t, w.call("GET", "/v1/threads/numbers", nil).text, metadata)
		assert.Contains(t, w.call("GET", "/v1/threads", nil).text, metadata)
	})
	t.Run("with a title", func(t *testing.T) {
		got := w.call("POST", "/v1/threads", object{"id": "titled", "title": "The harbour"}).ok(t, http.StatusCreated)
		assert.Equal(t, "The harbour", w.threads.opens[len(w.threads.opens)-1].Title)
		assert.Equal(t, "The harbour", got.body["title"])
		assert.Equal(t, "The harbour", w.call("GET", "/v1/threads/titled", nil).body["title"], "found at once")
		assert.Contains(t, w.call("GET", "/v1/threads?q=harbour", nil).text, `"id":"titled"`)
	})
	t.Run("with nothing", func(t *testing.T) {
		got := w.call("POST", "/v1/threads", object{}).ok(t, http.StatusCreated)
		assert.Len(t, got.body["id"], 26)
		assert.Equal(t, []any{}, got.body["agents"])
	})
	t.Run("message as a string", func(t *testing.T) {
		got := w.call("POST", "/v1/threads", object{"message": "hello"}).ok(t, http.StatusCreated)
		first := w.threads.opens[len(w.threads.opens)-1].First
		assert.Contains(t, string(first.Payload), `"senderId":"user"`)
		assert.Equal(t, first.ID, got.body["eventId"])
	})
	t.Run("exists", func(t *testing.T) {
		w.call("POST", "/v1/threads", object{"id": "t1"}).problem(t, http.StatusConflict)
	})
	t.Run("was closed", func(t *testing.T) {
		w := newWorld(t)
		w.threads.open = func() error { return signals.ErrThreadClosed }
		w.call("POST", "/v1/threads", object{"id": "t1"}).refused(t, http.StatusConflict, "closed")
	})
	for name, test := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"unknown field":         {object{"ids": "x"}, 422, "body.ids"},
		"bad id":                {object{"id": "a/b"}, 422, "body.id"},
		"unknown agent":         {object{"agent": "nobody"}, 422, "body.agent"},
		"empty message":         {object{"message": ""}, 422, "body.message"},
		"message without text":  {object{"message": object{"content": ""}}, 422, "body.message"},
		"message with surplus":  {object{"message": object{"content": "x", "role": "y"}}, 422, "body.message"},
		"bad message id":        {object{"message": object{"content": "x", "id": " "}}, 422, "body.message.id"},
		"blank title":           {object{"title": " \u200b"}, 422, "body.title"},
		"title of two lines":    {object{"title": "a\nb"}, 422, "body.title"},
		"title too long":        {object{"title": strings.Repeat("é", 201)}, 422, "body.title"},
		"title far too long":    {object{"title": strings.Repeat("x", 401)}, 422, "body.title"},
		"metadata of any shape": {object{"metadata": "x"}, 422, "body.metadata"},
		"metadata too large":    {object{"metadata": object{"x": strings.Repeat("x", signals.MaxPayload)}}, 413, "body.metadata"},
		"not JSON":              {`{"id":`, 400, "body"},
		"two values":            {`{} {}`, 400, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call("POST", "/v1/threads", test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, test.status), got.text)
			if test.location == "body.title" {
				assert.Equal(t, []string{"body.title"}, w.call("PATCH", "/v1/threads/t1", test.body).problem(t, 422), "as in a change")
			}
		})
	}
	t.Run("body too large", func(t *testing.T) {
		w.call("POST", "/v1/threads", object{"metadata": object{"x": strings.Repeat("x", server.DefaultMaxBody)}}).problem(t, 413)
	})
	t.Run("no body", func(t *testing.T) { w.call("POST", "/v1/threads", nil).problem(t, 400) })
	t.Run("another media type", func(t *testing.T) {
		w.call("POST", "/v1/threads", "id=t1", "Content-Type", "application/x-www-form-urlencoded").problem(t, 415)
	})
}

func TestThreads(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.open(fmt.Sprintf("t%d", i))
	}
	w.append("t2", closedBatch())
	var got []string
	path := "/v1/threads?limit=2"
	for range 3 {
		page := w.call("GET", path, nil).ok(t, http.StatusOK)
		for _, thread := range page.body["threads"].([]any) {
			got = append(got, thread.(object)["id"].(string))
		}
		next, more := page.body["next"]
		if !more {
			break
		}
		path = "/v1/threads?limit=2&cursor=" + next.(string)
	}
	assert.Equal(t, []string{"t2", "t4", "t3", "t1", "t0"}, got)
	assert.Len(t, w.call("GET", "/v1/threads?status=closed", nil).body["threads"], 1)
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads?cursor=x", nil).problem(t, 422))
	assert.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/threads?limit=1000", nil).problem(t, 422))
	assert.Equal(t, []string{"query.limits"}, w.call("GET", "/v1/threads?limits=1", nil).problem(t, 422))

	w.call("GET", "/v1/threads/nobody", nil).problem(t, 404)
	w.call("GET", "/v1/threads/a%2Fb", nil).problem(t, 404)
	w.threads.known["fresh"] = true
	fresh := w.call("GET", "/v1/threads/fresh", nil)
	assert.Equal(t, http.StatusOK, fresh.status, "a thread that was opened elsewhere and has stored nothing yet")
	assert.Equal(t, []any{"bot"}, fresh.body["agents"])
}

func TestPostMessage(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.threads.known["gone"] = false
	const path = "/v1/threads/t1/messages"
	t.Run("accepted", func(t *testing.T) {
		got := w.call("POST", path, object{"content": "hi", "id": "e1", "sender": "ann", "onBusy": "steer"}).ok(t, http.StatusAccepted)
		assert.Equal(t, object{"eventId": "e1"}, got.body)
		post := w.threads.posts[0]
		assert.Equal(t, event.OnBusySteer, post.OnBusy)
		assert.JSONEq(t, `{"threadId":"t1","senderId":"ann","senderType":"user","content":"hi"}`, string(post.Payload))
	})
	t.Run("defaults", func(t *testing.T) {
		got := w.call("POST", path, object{"content": "hi"})
		assert.Len(t, got.body["eventId"], 26)
		assert.Contains(t, string(w.threads.posts[1].Payload), `"senderId":"user"`)
		assert.Nil(t, w.threads.posts[1].Tools, "all tools")
	})
	t.Run("S2-25 options of one message", func(t *testing.T) {
		body := object{"content": "hi", "priority": -3, "ttl": 1500, "agents": []string{"bot"}, "tools": []string{"clock"}}
		w.call("POST", path, body).ok(t, http.StatusAccepted)
		post := w.threads.posts[len(w.threads.posts)-1]
		assert.Equal(t, -3, post.Priority)
		assert.EqualValues(t, 1500, post.TTL)
		assert.Equal(t, []string{"bot"}, post.Agents)
		assert.Equal(t, []string{"clock"}, post.Tools)
		w.call("POST", path, object{"content": "hi", "tools": []string{}})
		assert.Equal(t, []string{}, w.threads.posts[len(w.threads.posts)-1].Tools, "no tools")
	})
	for name, test := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"no content":    {object{}, 422, "body.content"},
		"empty content": {object{"content": ""}, 422, "body.content"},
		"wrong type":    {object{"content": 7}, 422, "body.content"},
		"unknown field": {object{"content": "x", "role": "user"}, 422, "body.role"},
		"bad id":        {object{"content": "x", "id": "?"}, 422, "body.id"},
		"bad onBusy":    {object{"content": "x", "onBusy": "wait"}, 422, "body.onBusy"},
		"too large":     {object{"content": strings.Repeat("x", signals.MaxPayload)}, 413, "body.content"},
		"not JSON":      {`hello`, 400, "body"},

		"S2-25 bad ttl":       {object{"content": "x", "ttl": -1}, 422, "body.ttl"},
		"S2-25 long ttl":      {object{"content": "x", "ttl": int64(1) << 60}, 422, "body.ttl"},
		"S2-25 bad priority":  {object{"content": "x", "priority": "high"}, 422, "body.priority"},
		"S2-25 bad agent":     {object{"content": "x", "agents": []string{"no good"}}, 422, "body.agents[0]"},
		"S2-25 unknown agent": {object{"content": "x", "agents": []string{"bot", "nobody"}}, 422, "body.agents[1]"},
		"S2-25 bad tools":     {object{"content": "x", "tools": "all"}, 422, "body.tools"},
	} {
		t.Run(name, func(t *testing.T) {
			posts := len(w.threads.posts)
			got := w.call("POST", path, test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, test.status), got.text)
			assert.Len(t, w.threads.posts, posts, "nothing was posted")
			assert.Less(t, len(got.text), 2000, "what was sent is not sent back")
		})
	}
	t.Run("unknown thread", func(t *testing.T) {
		w.call("POST", "/v1/threads/nobody/messages", object{"content": "x"}).problem(t, 404)
		w.call("POST", "/v1/threads/nobody/messages?wait=true", object{"content": "x"}).problem(t, 404)
	})
	t.Run("closed thread", func(t *testing.T) {
		w.call("POST", "/v1/threads/gone/messages", object{"content": "x"}).problem(t, 409)
	})
	t.Run("busy and rejected", func(t *testing.T) {
		w.threads.postUpdate = func() error { return fmt.Errorf("post: %w", signals.ErrBusy) }
		w.call("POST", path, object{"content": "x", "onBusy": "reject"}).problem(t, 409)
	})
}

// TestPostAndWait: the feed tells the end of the turn of a new message.
func TestPostAndWait(t *testing.T) {
	const path = "/v1/threads/t1/messages?wait=true"
	w := newWorld(t, func(c *server.Config) { c.AnswerWithin = time.Hour })
	w.open("t1")
	w.threads.turn = func(context.Context, signals.Post) (signals.TurnResult, error) {
		return signals.TurnResult{}, errors.New("the thread is asked")
	}
	w.threads.posted = func(id string, p signals.Post) {
		w.put(id, event.NewRecord("m1", event.TypeMessage, p.ID, p.ID, time.Now(), event.Message{ID: "m1", Content: "hello"}))
		w.put(id, event.NewRecord(p.ID+".turn_ended", event.TypeTurnEnded, p.ID, p.ID, time.Now(), event.TurnEnded{EventID: p.ID, Status: "completed", Replies: []string{"m1"}}).In(p.ID))
	}
	got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusOK)
	assert.Equal(t, "e1", got.body["eventId"])
	assert.Equal(t, "completed", got.body["status"])
	assert.Equal(t, "hello", got.body["message"].(object)["content"])
	assert.NotContains(t, got.body, "lastRecord")
}

// TestWaitForAKnownTurn: a thread that had the message before is asked how its turn ended.
func TestWaitForAKnownTurn(t *testing.T) {
	quick := func(c *server.Config) { c.AnswerWithin = 20 * time.Millisecond }
	brief := func(c *server.Config) { c.WaitLimit = 200 * time.Millisecond }
	const path = "/v1/threads/t1/messages?wait=true"
	blocks := func(ctx context.Context, _ signals.Post) (signals.TurnResult, error) {
		<-ctx.Done()
		return signals.TurnResult{}, fmt.Errorf("turn: %w", ctx.Err())
	}
	t.Run("completed", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = func(_ context.Context, p signals.Post) (signals.TurnResult, error) {
			return signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted, Message: &event.Message{ID: "m1", Content: "hello"}}, nil
		}
		got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusOK)
		assert.Equal(t, "e1", got.body["eventId"])
		assert.Equal(t, "completed", got.body["status"])
		assert.Equal(t, "hello", got.body["message"].(object)["content"])
	})
	t.Run("failed", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = func(_ context.Context, p signals.Post) (signals.TurnResult, error) {
			return signals.TurnResult{EventID: p.ID, Status: signals.TurnFailed, Error: "no key"}, nil
		}
		got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusOK)
		assert.Equal(t, object{"eventId": "e1", "status": "failed", "error": "no key"}, got.body)
	})
	t.Run("takes too long", func(t *testing.T) {
		w := newWorld(t, quick, brief)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = blocks
		got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusAccepted)
		assert.Equal(t, object{"eventId": "e1"}, got.body)
	})
	t.Run("ended while others waited", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = func(context.Context, signals.Post) (signals.TurnResult, error) {
			return signals.TurnResult{}, fmt.Errorf("turn: %w", signals.ErrProcessed)
		}
		got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusOK)
		assert.Equal(t, object{"eventId": "e1", "status": "processed"}, got.body, "whoever goes on waiting would wait for ever")
	})
	t.Run("no worker", func(t *testing.T) {
		w := newWorld(t, quick)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = blocks
		w.threads.state = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		got := w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusAccepted)
		assert.Equal(t, object{"eventId": "e1"}, got.body, "the message is kept")
	})
	t.Run("too many at once", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.threads.duplicate = true
		w.threads.turn = func(context.Context, signals.Post) (signals.TurnResult, error) {
			return signals.TurnResult{}, serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "limit of updates reached")
		}
		got := w.call("POST", path, object{"content": "hi"}).refused(t, http.StatusServiceUnavailable, "limit of updates reached")
		assert.NotEmpty(t, got.header.Get("Retry-After"))
	})
	t.Run("ends while the thread is asked", func(t *testing.T) {
		w := newWorld(t, quick)
		w.open("t1")
		w.threads.duplicate = true
		asked := make(chan struct{})
		w.threads.state = func(context.Context) error {
			close(asked)
			<-w.ctx.Done()
			return w.ctx.Err()
		}
		w.threads.turn = func(_ context.Context, p signals.Post) (signals.TurnResult, error) {
			<-asked
			return signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted}, nil
		}
		w.call("POST", path, object{"content": "hi", "id": "e1"}).ok(t, http.StatusOK)
	})
	t.Run("client goes", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.threads.duplicate = true
		begun, gone := make(chan struct{}), make(chan struct{})
		w.threads.turn = func(ctx context.Context, p signals.Post) (signals.TurnResult, error) {
			close(begun)
			defer close(gone)
			return blocks(ctx, p)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		req, err := http.NewRequestWithContext(ctx, "POST", w.url+path, strings.NewReader(`{"content":"hi"}`))
		require.NoError(t, err)
		go func() { <-begun; cancel() }()
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
		select {
		case <-gone:
		case <-w.ctx.Done():
			t.Fatal("the turn is still being waited for")
		}
	})
}

func TestMessages(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	call := event.ToolCall{ID: "c1", Function: event.Function{Name: "x", Arguments: "{}"}}
	asks := record(event.TypeMessage, event.Message{ID: "m2", ThreadID: "t1", SenderID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, ToolCalls: []event.ToolCall{call}})
	out := record(event.TypeMessage, event.Message{ID: "m3", ThreadID: "t1", SenderID: "x", SenderType: event.CreatedByTool, Role: event.RoleTool, Content: "out", ToolCallID: "c1"})
	w.put("t1", said("one"), record(event.TypeLLMCall, event.LLMCall{}), asks, out)
	page := w.call("GET", "/v1/threads/t1/messages?limit=2", nil).ok(t, http.StatusOK)
	list := page.body["messages"].([]any)
	require.Len(t, list, 2)
	assert.Equal(t, object{
		"id": "m-one", "threadId": "t1", "seq": 1.0, "role": "user", "senderId": "ann", "senderType": "user",
		"content": "one", "createdAt": "2023-11-14T22:13:20Z",
	}, list[0])
	assert.EqualValues(t, 3, list[1].(object)["seq"])
	assert.Equal(t, []any{object{"id": "c1", "function": object{"name": "x", "arguments": "{}"}}}, list[1].(object)["toolCalls"])
	rest := w.call("GET", "/v1/threads/t1/messages?limit=2&cursor="+page.body["next"].(string), nil)
	require.Len(t, rest.body["messages"], 1)
	assert.Equal(t, "c1", rest.body["messages"].([]any)[0].(object)["toolCallId"])
	assert.NotContains(t, rest.body, "next")
	w.call("GET", "/v1/threads/nobody/messages", nil).problem(t, 404)
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/messages?cursor=-1", nil).problem(t, 422))
}

func TestControl(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.threads.known["gone"] = false
	assert.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/interrupt", nil).status)
	assert.Equal(t, signals.Control{Action: signals.ControlInterrupt, By: "api"}, w.threads.ctls[0])
	assert.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/interrupt", object{"by": "ann", "reason": "enough"}).status)
	assert.Equal(t, signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "enough"}, w.threads.ctls[1])
	w.call("POST", "/v1/threads/gone/interrupt", nil).problem(t, 409)
	w.call("POST", "/v1/threads/nobody/interrupt", nil).problem(t, 404)
	assert.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/interrupt", object{"eventId": "e2"}).status)
	ctls := len(w.threads.ctls)
	assert.Equal(t, signals.Control{Action: signals.ControlInterrupt, By: "api", EventID: "e2"}, w.threads.ctls[ctls-1])
	assert.Equal(t, []string{"body.eventId"}, w.call("POST", "/v1/threads/t1/interrupt", object{"eventId": "e/2"}).problem(t, 422))
	assert.Len(t, w.threads.ctls, ctls, "no signal was sent")

	assert.Equal(t, http.StatusAccepted, w.call("DELETE", "/v1/threads/t1", nil).status)
	assert.Equal(t, http.StatusAccepted, w.call("DELETE", "/v1/threads/gone", nil).status, "closing twice changes nothing")
	w.call("DELETE", "/v1/threads/nobody", nil).problem(t, 404)
}

func TestHealth(t *testing.T) {
	var broken error
	w := newWorld(t, func(c *server.Config) {
		c.Ready = func(context.Context) map[string]error { return map[string]error{"temporal": broken} }
	})
	assert.Equal(t, http.StatusOK, w.call("GET", "/healthz", nil).status)
	ready := w.call("GET", "/readyz", nil)
	assert.Equal(t, http.StatusOK, ready.status)
	assert.Equal(t, object{"status": "ok", "components": object{"store": "ok", "stream": "ok", "temporal": "ok", "worker": "ok"}}, ready.body)
	broken = errors.New("secret address refused")
	ready = w.call("GET", "/readyz", nil)
	assert.Equal(t, http.StatusServiceUnavailable, ready.status)
	assert.Equal(t, object{"store": "ok", "stream": "ok", "temporal": "unavailable", "worker": "ok"}, ready.body["components"])
}

// awayStream is a live stream that cannot be reached.
type awayStream struct{ stream.Stream }

func (awayStream) Ping(context.Context) error { return stream.ErrUnavailable }

func (awayStream) Subscribe(context.Context, stream.Key, stream.From) (stream.Subscription, error) {
	return nil, stream.ErrUnavailable
}

// TestReadiness: a process is ready as long as it can do its work, as the table in docs/operations.md says.
func TestReadiness(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n| without |")
	table, _, _ = strings.Cut(table, "\n\n")
	said := map[string]string{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, " | ")
		said[strings.TrimPrefix(cells[0], "| ")] = cells[1]
	}
	found := map[string]string{}
	for without, change := range map[string]func(*server.Config){
		"the store":       func(c *server.Config) { c.Store = broken(c.Store, errors.New("refused")) },
		"the live stream": func(c *server.Config) { c.Stream = awayStream{c.Stream} },
		"Temporal": func(c *server.Config) {
			c.Ready = func(context.Context) map[string]error { return map[string]error{"temporal": errors.New("refused")} }
		},
		"a worker": func(*server.Config) {},
	} {
		w := newWorld(t, change)
		w.threads.idle = without == "a worker"
		ready := w.call("GET", "/readyz", nil)
		found[without] = fmt.Sprintf("%d `%s`", ready.status, ready.body["status"])
	}
	assert.Equal(t, said, found)
}

// TestAPIWithoutStream: posts are taken, and what is stored is read.
func TestAPIWithoutStream(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Stream = awayStream{c.Stream} })
	w.open("t1")
	w.put("t1", replied("m1", "before"))
	assert.Equal(t, "unavailable: turns go on, and viewers get what is stored, without tokens", w.call("GET", "/readyz", nil).body["components"].(object)["stream"])
	assert.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t1/messages", object{"content": "hello"}).status)
	for _, view := range []string{"agent", "base", "env", "world"} {
		read := w.call("GET", "/v1/threads/t1/events?view="+view, nil, "Accept", "application/json")
		assert.Equal(t, http.StatusOK, read.status, view)
		assert.Contains(t, read.text, "before", view)
		await(t, bufio.NewReader(w.viewer("/v1/threads/t1/events?view="+view).Body), "before")
	}
}

// broken returns a store whose Ping fails.
func broken(s store.Store, err error) store.Store {
	return teststore.Before(s, func(context.Context) error { return err }, "ping")
}

// TestHealthOfFullStore: the reason is for operators, the error may contain secrets.
func TestHealthOfFullStore(t *testing.T) {
	w := newWorld(t, func(c *server.Config) {
		c.Store = broken(c.Store, fmt.Errorf("ping: %w", store.UnavailableBecause(store.ReasonFull, errors.New("secret path"))))
	})
	ready := w.call("GET", "/readyz", nil)
	assert.Equal(t, http.StatusServiceUnavailable, ready.status)
	assert.Equal(t, "unavailable: the disk or the database is full", ready.body["components"].(object)["store"])
	assert.NotContains(t, ready.text, "secret")
}

// TestHealthWithoutWorker: the API keeps what is posted, so that it is ready, and says that nobody
// works on it.
func TestHealthWithoutWorker(t *testing.T) {
	w := newWorld(t)
	w.threads.idle, w.threads.lastPoll = true, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ready := w.call("GET", "/readyz", nil)
	assert.Equal(t, http.StatusOK, ready.status)
	assert.Equal(t, "degraded", ready.body["status"])
	assert.Equal(t, `no worker has polled task queue "threadmill" since 2026-01-02T03:04:05Z: posts wait for one`, ready.body["components"].(object)["worker"])
	assert.Equal(t, object{"taskQueue": "threadmill", "polled": false, "since": "2026-01-02T03:04:05Z"}, w.call("GET", "/v1/server", nil).body["worker"])

	w = newWorld(t)
	assert.Equal(t, object{"taskQueue": "threadmill", "polled": true}, w.call("GET", "/v1/server", nil).body["worker"])
	w = newWorld(t)
	w.threads.idle = true
	assert.NotEmpty(t, w.call("GET", "/v1/server", nil).body["worker"].(object)["since"], "it is at least since now")
}

func TestDescription(t *testing.T) {
	w := newWorld(t)
	api := w.call("GET", "/openapi.json", nil)
	require.Equal(t, http.StatusOK, api.status)
	assert.Equal(t, "3.1.0", api.body["openapi"])
	var got []string
	for path, item := range api.body["paths"].(object) {
		for method := range item.(object) {
			got = append(got, method+" "+path)
		}
	}
	assert.ElementsMatch(t, []string{
		"post /v1/threads", "get /v1/threads", "get /v1/thread-counts", "get /v1/threads/{id}", "patch /v1/threads/{id}", "delete /v1/threads/{id}", "post /v1/threads/{id}/presence",
		"post /v1/threads/{id}/messages", "get /v1/threads/{id}/messages", "get /v1/threads/{id}/events",
		"get /v1/approvals", "get /v1/threads/{id}/approvals", "post /v1/threads/{id}/approvals/{toolCallId}",
		"get /v1/threads/{id}/grants", "delete /v1/threads/{id}/grants/{toolCallId}", "get /v1/threads/{id}/decisions",
		"post /v1/threads/{id}/tool-calls/{toolCallId}/result", "post /v1/threads/{id}/tool-calls/{toolCallId}/input",
		"get /v1/mcp", "get /v1/mcp/{name}", "put /v1/mcp/{name}", "delete /v1/mcp/{name}", "post /v1/mcp/{name}/restart", "post /v1/mcp/{name}/login", "delete /v1/mcp/{name}/login",
		"get /v1/mcp/{name}/prompts", "post /v1/mcp/{name}/prompts/{prompt}", "get /v1/mcp/{name}/resources", "get /v1/mcp/{name}/resource",
		"post /v1/threads/{id}/world/messages", "get /v1/threads/{id}/world/messages", "post /v1/threads/{id}/world/tool-results",
		"post /v1/threads/{id}/interrupt", "get /healthz", "get /readyz",
		"get /v1/threads/{id}/queue", "post /v1/threads/{id}/queue", "get /v1/threads/{id}/queue/current", "get /v1/threads/{id}/queue/next",
		"get /v1/threads/{id}/queue/{eventId}", "patch /v1/threads/{id}/queue/{eventId}", "post /v1/threads/{id}/queue/{eventId}/retry",
		"post /v1/threads/{id}/events", "post /v1/events", "get /v1/events", "post /v1/stream-tickets", "post /sessions/{id}/prompt", "post /v1/sessions/{id}/prompt",
		"post /v1/schedules", "get /v1/schedules", "get /v1/schedules/{id}", "put /v1/schedules/{id}", "delete /v1/schedules/{id}",
		"post /v1/schedules/{id}/pause", "post /v1/schedules/{id}/resume", "post /v1/schedules/{id}/trigger", "get /v1/schedules/{id}/versions",
		"get /v1/threads/{id}/tasks", "get /v1/tasks/{id}", "post /v1/tasks/{id}/complete", "post /v1/tasks/{id}/cancel", "post /v1/tasks/{id}/progress",
		"post /v1/webhooks/{source}",
		"get /v1/agents", "get /v1/agents/{name}", "put /v1/agents/{name}", "delete /v1/agents/{name}", "get /v1/agents/{name}/versions", "get /v1/agents/changes",
		"post /v1/chat", "post /v1/ag-ui", "post /v1/ag-ui/connect", "get /v1/chat/{id}/stream", "post /v1/chat/{id}/stop", "get /v1/chat/{id}/messages", "get /v1/ag-ui/{id}/messages",
		"get /v1/checks", "post /v1/config/diff", "post /v1/repair", "get /v1/retention", "get /v1/server", "post /v1/markdown", "get /v1/threads/{id}/records", "get /v1/threads/{id}/model-calls/{messageId}", "get /v1/threads/{id}/tool-calls", "get /v1/rules", "post /v1/rules/test", "get /v1/webhooks",
		"get /v1/knowledge", "get /v1/knowledge/documents", "post /v1/knowledge/documents", "post /v1/knowledge/files", "get /v1/knowledge/search",
		"get /v1/knowledge/documents/{id}", "delete /v1/knowledge/documents/{id}", "post /v1/knowledge/documents/{id}/reindex", "get /v1/knowledge/documents/{id}/chunks",
		"get /v1/entities", "get /v1/entities/{id}", "delete /v1/entities/{id}", "get /v1/entities/{id}/mentions", "post /v1/entities/{id}/merge",
		"get /v1/entity-merges", "post /v1/entity-merges/{id}/undo",
		"get /v1/erasures", "post /v1/erasures", "get /v1/erasures/{threadId}", "get /v1/person-erasures", "post /v1/person-erasures", "get /v1/person-erasures/{id}", "post /v1/person-exports", "get /v1/threads/{id}/export",
		"get /v1/keys", "post /v1/keys", "post /v1/keys/{id}/rotate", "delete /v1/keys/{id}",
	}, got)
	post := api.body["paths"].(object)["/v1/threads/{id}/messages"].(object)["post"].(object)["responses"].(object)
	assert.Equal(t, post["202"].(object)["content"], post["200"].(object)["content"])
	assert.Equal(t, http.StatusOK, w.call("GET", "/openapi.yaml", nil).status)

	docs := w.call("GET", "/docs", nil)
	assert.Contains(t, docs.header.Get("Content-Security-Policy"), "default-src 'none'", "and nothing else is loaded")
	assert.Contains(t, docs.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	assert.Equal(t, http.StatusOK, docs.status)
	for _, file := range []string{docs.text, w.call("GET", "/docs/docs.js", nil).text, w.call("GET", "/docs/docs.css", nil).text} {
		assert.NotEmpty(t, file)
		assert.NotContains(t, file, "http://", "nothing is loaded from elsewhere")
		assert.NotContains(t, file, "https://", "nothing is loaded from elsewhere")
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.call("GET", "/v2/threads", nil).problem(t, 404)
	got := w.call("PUT", "/v1/threads/t1", object{})
	got.problem(t, 405)
	assert.Contains(t, got.header.Get("Allow"), "DELETE")
	w.call("POST", "/v1/threads/t1/interrupt", nil, "Sec-Fetch-Site", "cross-site").problem(t, 403)
	w.call("POST", "/v1/threads/t1/interrupt", nil, "Origin", "http://elsewhere.example").problem(t, 403)
	assert.Empty(t, w.threads.ctls)

	w.threads.known["fresh"] = true
	w.threads.state = func(context.Context) error { panic("a secret") }
	got = w.call("GET", "/v1/threads/fresh", nil)
	got.problem(t, 500)
	assert.NotContains(t, got.text, "secret")
	assert.Contains(t, got.body["detail"], got.header.Get("X-Request-Id"))

	w.threads.state = func(context.Context) error { return errors.New("a secret") }
	got = w.call("GET", "/v1/threads/fresh", nil)
	got.problem(t, 500)
	assert.NotContains(t, got.text, "secret")
}

func TestConfig(t *testing.T) {
	w := newWorld(t)
	whole := server.Config{Threads: w.threads, Backend: w.backend()}
	for field, change := range map[string]func(*server.Config){
		"Threads":      func(c *server.Config) { c.Threads = nil },
		"Store":        func(c *server.Config) { c.Store = nil },
		"Stream":       func(c *server.Config) { c.Stream = nil },
		"Library":      func(c *server.Config) { c.Library = nil },
		"MaxUpload":    func(c *server.Config) { c.MaxUpload = 1 << 30 },
		"MaxBody":      func(c *server.Config) { c.MaxBody = -1 },
		"Heartbeat":    func(c *server.Config) { c.Heartbeat = -1 },
		"AnswerWithin": func(c *server.Config) { c.AnswerWithin = -1 },
		"WaitLimit":    func(c *server.Config) { c.WaitLimit = -1 },
	} {
		cfg := whole
		change(&cfg)
		_, err := server.New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}
