package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
)

func TestProgressOfTask(t *testing.T) {
	const path = "/v1/tasks/t1~t1/progress"
	const piece = `{"type":"tool_progress","toolName":"build","data":{"subtype":"task_progress","taskId":"t1~t1","data":{"percent":40}},"agent":"bot","toolCallId":"call_1"}`
	for name, prepare := range map[string]func(*world){
		"of a stored task, whose thread is not asked": func(w *world) {
			w.put("t1", taskRecord("t1~t1", building))
			w.threads.tasks.has = nil
		},
		"of a task whose record is still to be stored": func(*world) {},
	} {
		t.Run("S3-54 "+name, func(t *testing.T) {
			w := taskWorld(t)
			prepare(w)
			live := w.watch("t1", "?from=now", "")
			got := w.call("POST", path, `{"data":{"percent":40}}`).ok(t, http.StatusAccepted)
			assert.Empty(t, got.text)
			assert.Equal(t, piece, live.mustNext().data)
			page := w.call("GET", "/v1/threads/t1/events", nil)
			assert.NotContains(t, page.text, "tool_progress", "nothing of it is stored")
		})
	}

	w := taskWorld(t)
	w.put("t1", taskRecord("t1~t1", building), taskRecord("t1~t2", building), taskRecord("t1~t2.ended", asking), record(event.TypeStatus, event.StatusChange{}))
	t.Run("any JSON is data", func(t *testing.T) {
		live := w.watch("t1", "?from=now", "")
		for _, data := range []string{"null", "40", `"half"`, `[12345678901234567890]`} {
			require.Equal(t, http.StatusAccepted, w.call("POST", path, `{"data":`+data+`}`).status)
			assert.Contains(t, live.mustNext().data, `"data":`+data+`}`)
		}
	})
	t.Run("what is too large once it is escaped", func(t *testing.T) {
		got := w.call("POST", path, `{"data":"`+strings.Repeat("<", signals.MaxPayload-2)+`"}`)
		assert.Equal(t, []string{"body.data"}, got.problem(t, http.StatusRequestEntityTooLarge))
	})
	t.Run("a task that has ended makes none", func(t *testing.T) {
		got := w.call("POST", "/v1/tasks/t1~t2/progress", `{"data":1}`)
		got.problem(t, http.StatusConflict)
		assert.Equal(t, "conflict", got.body["result"])
		assert.Contains(t, got.body["detail"], "it is failed")
	})
	for _, id := range []string{"t1~t9", "nobody~t1", "t1", "a%2Fb~t1"} {
		w.call("POST", "/v1/tasks/"+id+"/progress", `{"data":1}`).problem(t, http.StatusNotFound)
	}
	for name, c := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"no data":        {object{}, 422, "body.data"},
		"unknown field":  {object{"data": 1, "percent": 1}, 422, "body.percent"},
		"data too large": {object{"data": strings.Repeat("x", signals.MaxPayload)}, 413, "body.data"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, []string{c.location}, w.call("POST", path, c.body).problem(t, c.status))
		})
	}
}

// deaf is a live stream that takes nothing.
type deaf struct {
	stream.Stream
	err *error
}

func (d deaf) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	if *d.err != nil {
		return fmt.Errorf("publishing: %w", *d.err)
	}
	return d.Stream.Publish(ctx, key, e)
}

func TestProgressWithoutStream(t *testing.T) {
	var failure error
	w := taskWorld(t, func(c *server.Config) { c.Stream = deaf{c.Stream, &failure} })
	for err, status := range map[error]int{
		stream.ErrTooLarge: http.StatusRequestEntityTooLarge,
		stream.ErrLost:     http.StatusServiceUnavailable,
		stream.ErrClosed:   http.StatusServiceUnavailable,
		errors.New("away"): http.StatusServiceUnavailable,
	} {
		failure = err
		w.call("POST", "/v1/tasks/t1~t1/progress", `{"data":1}`).problem(t, status)
	}
	failure = nil
	assert.Equal(t, http.StatusAccepted, w.call("POST", "/v1/tasks/t1~t1/progress", `{"data":1}`).status)
}
