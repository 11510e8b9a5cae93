package openai_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
)

// paced is a transport in the bubble's time, with a pause before each chunk.
type paced struct {
	header time.Duration
	chunks []pacedChunk
}

type pacedChunk struct {
	after time.Duration
	data  string
}

func (p paced) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := pause(req.Context(), p.header); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		for _, c := range p.chunks {
			if err := pause(req.Context(), c.after); err != nil {
				w.CloseWithError(err)
				return
			}
			_, _ = io.WriteString(w, c.data+"\n\n")
		}
		w.Close()
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r, Request: req}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSilence(t *testing.T) {
	const (
		text = `data: {"choices":[{"delta":{"content":"a"}}]}`
		stop = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`
		done = "data: [DONE]"
	)
	short := llm.Timeouts{Start: time.Minute, Idle: time.Second}
	for _, tt := range []struct {
		name     string
		timeouts llm.Timeouts
		server   paced
		viewer   time.Duration // the time that onDelta takes
		content  string
		problem  string
		took     time.Duration
	}{
		{"no answer", llm.Timeouts{}, paced{header: time.Hour}, 0, "", "openai: nothing arrived for 10m0s", 10 * time.Minute},
		{"headers only", short, paced{chunks: []pacedChunk{{time.Hour, text}}}, 0, "", "openai: nothing arrived for 1m0s", time.Minute},
		{"a pause in the reply", llm.Timeouts{}, paced{chunks: []pacedChunk{{0, text}, {time.Hour, text}}}, 0, "a", "openai: nothing arrived for 5m0s", 5 * time.Minute},
		{"just quick enough", short, paced{chunks: []pacedChunk{{59 * time.Second, text}, {900 * time.Millisecond, text}, {900 * time.Millisecond, stop}}}, 0, "aa", "", 60800 * time.Millisecond},
		{"comments are a sign of life", short, paced{chunks: []pacedChunk{{0, text}, {900 * time.Millisecond, ": wait"}, {900 * time.Millisecond, stop}}}, 0, "a", "", 1800 * time.Millisecond},
		{"a finished stream may end, for its connection's sake", short, paced{chunks: []pacedChunk{{0, text}, {0, stop}, {0, done}, {50 * time.Millisecond, ": bye"}}}, 0, "a", "", 50 * time.Millisecond},
		{"but not forever", short, paced{chunks: []pacedChunk{{0, text}, {0, stop}, {0, done}, {time.Hour, ": bye"}}}, 0, "a", "", 100 * time.Millisecond},
		{"a slow viewer is not silence", short, paced{chunks: []pacedChunk{{0, text}, {0, text}, {0, stop}}}, time.Hour, "aa", "", 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := provider(t, openai.Config{HTTPClient: &http.Client{Transport: tt.server}, Timeouts: tt.timeouts})
				begin := time.Now()
				resp, err := p.Generate(t.Context(), request("hello"), func(llm.Delta) { <-time.After(tt.viewer) })
				require.Equal(t, tt.took, time.Since(begin))
				require.Equal(t, tt.content, resp.Content)
				if tt.problem == "" {
					require.NoError(t, err)
					return
				}
				require.EqualError(t, err, tt.problem)
				require.True(t, failure(t, err).Retryable)
			})
		})
	}
}
