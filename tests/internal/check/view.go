package check

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Frame is one event of an SSE stream.
type Frame struct {
	ID    string
	Event event.AgentEvent
}

// View is an open SSE stream.
type View struct {
	Lines *bufio.Reader
	Close func()
}

// Shows reads up to the end of a call: a decision on it, its result, or both.
func (v *View) Shows(t *testing.T, call string, types ...event.AgentEventType) {
	t.Helper()
	missing := slices.Clone(types)
	v.Until(t, func(f Frame) bool {
		id := f.Event.ToolCallID
		if f.Event.Approval != nil {
			id = f.Event.Approval.ToolCallID
		}
		if id == call {
			missing = slices.DeleteFunc(missing, func(typ event.AgentEventType) bool { return typ == f.Event.Type })
		}
		return len(missing) == 0
	})
}

// Base returns the events of the base protocol, without repetitions of a type.
func Base(frames []Frame) []event.AgentEventType {
	var out []event.AgentEventType
	for _, f := range frames {
		if slices.Contains(event.BaseEventTypes, f.Event.Type) {
			out = append(out, f.Event.Type)
		}
	}
	return slices.Compact(out)
}

// Streamed joins the streamed text of a message since its last reset.
func Streamed(frames []Frame, messageID string) string {
	var text strings.Builder
	for _, f := range frames {
		if f.Event.MessageID != messageID {
			continue
		}
		switch f.Event.Type {
		case event.EventReset:
			text.Reset()
		case event.EventStream:
			text.WriteString(f.Event.Content)
		}
	}
	return text.String()
}

// Watch opens the SSE stream of a thread, after lastID if it is set.
func Watch(t *testing.T, w *harness.Harness, thread, lastID string) *View {
	t.Helper()
	return WatchAt(t, w, "/v1/threads/"+thread+"/events", lastID)
}

// WatchAt opens the stream at a path.
func WatchAt(t *testing.T, w *harness.Harness, path, lastID string) *View {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.API.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	var res *http.Response
	require.Eventually(t, func() bool {
		res, err = http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			return true
		}
		_ = res.Body.Close() // the machine stalls
		return false
	}, testenv.Patience, testenv.Tick)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	return &View{bufio.NewReader(res.Body), func() {
		cancel()
		_ = res.Body.Close()
	}}
}

// Next reads one event.
func (v *View) Next(t *testing.T) Frame {
	t.Helper()
	var f Frame
	for {
		line, err := v.Lines.ReadString('\n')
		require.NoError(t, err)
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "id:"):
			f.ID = strings.TrimSpace(line[3:])
		case strings.HasPrefix(line, "data:"):
			require.NoError(t, json.Unmarshal([]byte(line[5:]), &f.Event))
		case line == "" && f.Event.Type != "":
			return f
		}
	}
}

// Until reads up to and including the first event for which done is true.
func (v *View) Until(t *testing.T, done func(Frame) bool) []Frame {
	t.Helper()
	var out []Frame
	for {
		f := v.Next(t)
		out = append(out, f)
		if done(f) {
			return out
		}
	}
}

// Count counts the frames with events of a type.
func Count(frames []Frame, typ event.AgentEventType) int {
	n := 0
	for _, f := range frames {
		if f.Event.Type == typ {
			n++
		}
	}
	return n
}

// IsFinal reports whether a frame is the end of a reply.
func IsFinal(f Frame) bool { return f.Event.Type == event.EventFinal }

// CountEvents counts the events of a type.
func CountEvents(events []event.AgentEvent, typ event.AgentEventType) int {
	n := 0
	for _, e := range events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// Kinds are the types of events, in order.
func Kinds(events []event.AgentEvent) []event.AgentEventType {
	out := []event.AgentEventType{}
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// IsTurnEnded reports whether a frame is the end of a turn.
func IsTurnEnded(f Frame) bool { return f.Event.EndsTurn() }
