package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Publish accepts an event like any other post.
func (w *world) Publish(ctx context.Context, id string, e event.EnvEvent, o threadclient.PublishOptions) (threadclient.PublishResult, error) {
	out := threadclient.PublishResult{EventID: e.ID, ThreadID: id, Status: signals.PostQueued}
	if o.Open {
		_, err := w.PostOrOpen(ctx, id, o.Start, signals.EnvPost(e))
		return out, err
	}
	result, err := w.Post(ctx, id, signals.EnvPost(e))
	out.Status = result.Status
	return out, err
}

func TestPublish(t *testing.T) {
	w := newWorld(t)
	t.Run("S3-29 S3-55 with everything", func(t *testing.T) {
		code, out, errs := w.run("", "publish", "t1", "--type", "file.changed", "--payload", `{"n": 12345678901234567890}`, "--id", "e7",
			"--metadata", "trigger_agent_name=bot", "--metadata", "repo=a=b", "--source", "tool")
		require.Equal(t, exitOK, code, errs)
		require.Equal(t, "e7\n", out)
		p := w.posts[0]
		require.Equal(t, "e7", p.ID)
		require.Equal(t, "file.changed", p.Type)
		require.JSONEq(t, `{"trigger_agent_name":"bot","repo":"a=b","source":"tool"}`, string(p.Metadata), "S3-06 S3-07")
		require.Equal(t, `{"n": 12345678901234567890}`, string(p.Payload))
		require.Empty(t, w.opened)
	})
	t.Run("S3-04 with a type only", func(t *testing.T) {
		out := w.ok("publish", "t1", "--type", "ping", "--json")
		var result threadclient.PublishResult
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Equal(t, threadclient.PublishResult{EventID: w.posts[1].ID, ThreadID: "t1", Status: "queued"}, result)
		_, err := uuid.Parse(result.EventID)
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(w.posts[1].Metadata), "the client of the thread sets the defaults")
	})
	t.Run("S3-10 a duplicate is said to be one", func(t *testing.T) {
		code, out, errs := w.run("", "publish", "t1", "--type", "ping", "--id", "e7")
		require.Equal(t, exitOK, code)
		require.Equal(t, "e7\n", out)
		require.Equal(t, "the thread already has this event: nothing was published\n", errs)
	})
	t.Run("a payload from stdin, or from a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "push.json")
		require.NoError(t, os.WriteFile(file, []byte("{\"from\": \"file\"}\n"), 0o600))
		before := len(w.posts)
		code, _, errs := w.run("{\"from\": \"stdin\"}\n", "publish", "t1", "--type", "ping", "--payload", "-")
		require.Equal(t, exitOK, code, errs)
		w.ok("publish", "t1", "--type", "ping", "--payload-file", file)
		require.Equal(t, `{"from": "stdin"}`, string(w.posts[before].Payload))
		require.Equal(t, `{"from": "file"}`, string(w.posts[before+1].Payload))
	})
	t.Run("to a thread that is opened", func(t *testing.T) {
		w.ok("publish", "gone", "--type", "ping", "--open")
		require.Equal(t, []signals.Start{{}}, w.opened)
	})
	t.Run("to one that is not there", func(t *testing.T) {
		w.fails(exitFailed, `there is no thread "gone"`, "publish", "gone", "--type", "ping")
	})
}

func TestPublishUsage(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.json")
	require.NoError(t, os.WriteFile(large, []byte(`"`+strings.Repeat("x", signals.MaxPayload)+`"`), 0o600))
	for _, c := range []struct{ args, problem string }{
		{"publish", "publish takes <thread>: missing <thread>"},
		{"publish t1", "--type is required"},
		{"publish no/slash --type x", `thread: "no/slash" must be 1 to 128 letters`},
		{"publish t1 --type status", `type: "status" is not a type of environment event`},
		{"publish t1 --type x --id e.1", `id: "e.1" must be 1 to 128 letters`},
		{"publish t1 --type x --source moon", `metadata.source: "moon" is not one of tool, env, user, system, llm`},
		{"publish t1 --type x --metadata x", `--metadata is "x", must be key=value`},
		{"publish t1 --type x --metadata trigger_session_id=t2", `metadata.trigger_session_id: is "t2", but this thread is "t1"`},
		{"publish t1 --type x --payload prod", "the payload is not JSON (text needs quotes)"},
		{"publish t1 --type user_query --payload {}", "payload.content: is required"},
		{"publish t1 --type x --payload 1 --payload-file x", "--payload and --payload-file exclude each other"},
		{"publish t1 --type x --payload-file " + large, "the payload is more than 262144 bytes"},
		{"publish t1 --type x --payload-file " + large + ".gone", "reading the payload"},
		{"watch t1 --view all", `--view is "all", must be agent or env`},
	} {
		t.Run(c.args, func(t *testing.T) {
			w := newWorld(t)
			w.fails(exitUsage, c.problem, strings.Fields(c.args)...)
			require.Empty(t, w.posts)
		})
	}
}

// eventAPI serves environment events, some of them with each connection.
func eventAPI(t *testing.T, parts ...[]event.EnvEvent) string {
	at := 0
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("view") != "env" || at == len(parts) {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		for i, e := range parts[at] {
			data, err := json.Marshal(e)
			assertNoError(t, err)
			fmt.Fprintf(rw, "id: %d~%d\ndata: %s\n\n", at, i+1, data)
		}
		at++
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestWatchEnv(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local).UnixMilli()
	happened := func(typ, payload string, source event.Source) event.EnvEvent {
		return event.EnvEvent{ID: "id-" + typ, Type: typ, Timestamp: at, Payload: json.RawMessage(payload), Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: source}}
	}
	parts := [][]event.EnvEvent{
		{happened("file.changed", `{"path":"a.go"}`, event.SourceEnv), happened("session.deleted", `{"said":"by somebody"}`, event.SourceEnv)},
		{happened("stream.error", `{"type":"error","error":"no key"}`, event.SourceLLM), happened("session.deleted", `{"sessionId":"t1"}`, event.SourceSystem)},
	}
	t.Run("for people", func(t *testing.T) {
		w := newWorld(t)
		w.url = eventAPI(t, parts...)
		out := w.ok("watch", "t1", "--view", "env")
		require.Equal(t, `03:04:05  file.changed  {"path":"a.go"}
03:04:05  session.deleted  {"said":"by somebody"}
03:04:05  stream.error  {"type":"error","error":"no key"}
03:04:05  session.deleted  {"sessionId":"t1"}
`, out, "S3-53 until the thread is closed")
	})
	t.Run("as JSON", func(t *testing.T) {
		w := newWorld(t)
		w.url = eventAPI(t, parts...)
		out := w.ok("watch", "t1", "--view", "env", "--json")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 4)
		var got struct {
			ID    string
			Event event.EnvEvent
		}
		require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
		require.Equal(t, parts[0][0], got.Event)
		require.NotEmpty(t, got.ID)
	})
}
