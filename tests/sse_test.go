package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// frame is one event of an SSE stream.
type frame struct {
	id    string
	event event.AgentEvent
}

// view is an open SSE stream.
type view struct {
	lines *bufio.Reader
	close func()
}

// watch opens the SSE stream of a thread, after lastID if it is set.
func watch(t *testing.T, w *harness.Harness, thread, lastID string) *view {
	t.Helper()
	return watchAt(t, w, "/v1/threads/"+thread+"/events", lastID)
}

// watchAt opens the stream at a path.
func watchAt(t *testing.T, w *harness.Harness, path, lastID string) *view {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.API.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	return &view{bufio.NewReader(res.Body), func() {
		cancel()
		_ = res.Body.Close()
	}}
}

// next reads one event.
func (v *view) next(t *testing.T) frame {
	t.Helper()
	var f frame
	for {
		line, err := v.lines.ReadString('\n')
		require.NoError(t, err)
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "id:"):
			f.id = strings.TrimSpace(line[3:])
		case strings.HasPrefix(line, "data:"):
			require.NoError(t, json.Unmarshal([]byte(line[5:]), &f.event))
		case line == "" && f.event.Type != "":
			return f
		}
	}
}

// until reads up to and including the first event for which done is true.
func (v *view) until(t *testing.T, done func(frame) bool) []frame {
	t.Helper()
	var out []frame
	for {
		f := v.next(t)
		out = append(out, f)
		if done(f) {
			return out
		}
	}
}

func count(frames []frame, typ event.AgentEventType) int {
	n := 0
	for _, f := range frames {
		if f.event.Type == typ {
			n++
		}
	}
	return n
}

func isFinal(f frame) bool { return f.event.Type == event.EventFinal }

// message is the post of a person's message with a given id.
func message(thread, id, content string) signals.Post {
	p := signals.UserMessage(thread, "ann", content)
	p.ID = id
	return p
}

func listRuns(w *harness.Harness, thread string) *workflowservice.ListWorkflowExecutionsRequest {
	return &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", signals.WorkflowID(w.TaskQueue, thread)),
	}
}

// TestStreamCutAtRandom disconnects a viewer a hundred times while an agent counts to 500, and once
// more at the end: each token arrives exactly once, in order.
func TestStreamCutAtRandom(t *testing.T) {
	t.Parallel()
	const tokens, cuts = 500, 100
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			w := harness.New(t, b.options)
			id := w.Open()
			random := rand.New(rand.NewPCG(1, 2))
			w.Post(id, fmt.Sprintf("count %d every 5ms", tokens))
			var seen []frame
			last := ""
			for cut := 0; ; cut++ {
				v := watch(t, w, id, last)
				take := 1 + random.IntN(2*tokens/cuts)
				for range take {
					f := v.next(t)
					seen, last = append(seen, f), f.id
					if isFinal(f) {
						break
					}
				}
				v.close()
				if isFinal(seen[len(seen)-1]) {
					require.GreaterOrEqual(t, cut, cuts/2)
					break
				}
			}
			var text strings.Builder
			for _, f := range seen {
				if f.event.Type == event.EventStream {
					text.WriteString(f.event.Content)
				}
			}
			want := make([]string, tokens)
			for i := range want {
				want[i] = fmt.Sprint(i + 1)
			}
			require.Equal(t, strings.Join(want, " "), text.String())
			require.Equal(t, tokens, count(seen, event.EventStream), "each token once")
			require.Equal(t, 2, count(seen, event.EventMessage))
			require.Zero(t, count(seen, event.EventGap))
			require.Equal(t, text.String(), w.Messages(id)[1].Content, "S1-24")
		})
	}
}
