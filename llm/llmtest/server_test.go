package llmtest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/llmtest"
)

func start(t *testing.T, config llmtest.Config) *llmtest.Server {
	t.Helper()
	s := llmtest.NewServer(config)
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, s *llmtest.Server, script string, stream bool) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "m", "stream": stream, "messages": []any{map[string]any{"role": "user", "content": script}},
	})
	require.NoError(t, err)
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(string(body)))
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestStream(t *testing.T) {
	s := start(t, llmtest.Config{Delay: time.Millisecond})
	resp := post(t, s, "think hm\none two", true)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.True(t, strings.HasSuffix(string(body), "data: [DONE]\n\n"))
	require.Contains(t, string(body), `"reasoning_content":"hm"`)
	require.Contains(t, string(body), `"finish_reason":"stop"`)
	require.NotContains(t, string(body), "usage", "only if asked for")

	chunks := s.Chunks()
	require.Len(t, chunks, 3)
	require.Equal(t, "hm", chunks[0].Thought)
	require.Equal(t, "one two", chunks[1].Text+chunks[2].Text)
	for i, c := range chunks {
		require.Equal(t, 1, c.Call)
		if i > 0 {
			require.GreaterOrEqual(t, c.At.Sub(chunks[i-1].At), time.Millisecond)
		}
	}
	require.Equal(t, 1, s.Calls())
	require.False(t, s.Requests()[0].At.After(chunks[0].At))
	require.Contains(t, string(s.Requests()[0].Body), "one two")
	s.Reset()
	require.Zero(t, s.Calls())
	require.Empty(t, s.Chunks())
}

func TestBlock(t *testing.T) {
	s := start(t, llmtest.Config{})
	gate := s.Block(2)
	lines := bufio.NewScanner(post(t, s, "count 4", true).Body)
	<-gate.Reached()
	require.Len(t, s.Chunks(), 2)
	for lines.Scan() && !strings.Contains(lines.Text(), `" 2"`) {
	}
	gate.Release()
	gate.Release()
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text())
	}
	require.Contains(t, rest.String(), `" 4"`)
	require.Contains(t, rest.String(), "[DONE]")

	gate = s.Block(0)
	gate.Release()
	body, err := io.ReadAll(post(t, s, "count 4", false).Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "1 2 3 4")
	<-gate.Reached()
}

func TestFaultsComeInOrder(t *testing.T) {
	s := start(t, llmtest.Config{})
	s.Fail(llmtest.Status(503, "2"), llmtest.Fault{}, llmtest.Status(429, "").WithError("slow_down", "too many"))
	first := post(t, s, "hello", true)
	require.Equal(t, 503, first.StatusCode)
	require.Equal(t, "2", first.Header.Get("Retry-After"))
	require.Equal(t, 200, post(t, s, "hello", true).StatusCode)
	third := post(t, s, "hello", false)
	require.Equal(t, 429, third.StatusCode)
	body, err := io.ReadAll(third.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"error": {"message": "too many", "code": "slow_down", "type": "error", "param": null}}`, string(body))
	require.Equal(t, 200, post(t, s, "hello", false).StatusCode)
}

func TestDrop(t *testing.T) {
	s := start(t, llmtest.Config{})
	s.Fail(llmtest.Drop(1))
	body, err := io.ReadAll(post(t, s, "one two", true).Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Contains(t, string(body), `"one"`)
	require.NotContains(t, string(body), "two")
}

func TestCloseEndsWhatHangs(t *testing.T) {
	s := start(t, llmtest.Config{})
	s.Fail(llmtest.Hang(1))
	resp := post(t, s, "one two", true)
	s.Close()
	_, err := io.ReadAll(resp.Body)
	require.Error(t, err)
}

func TestRefusals(t *testing.T) {
	s := start(t, llmtest.Config{APIKey: "right"})
	require.Equal(t, 401, post(t, s, "hello", true).StatusCode)
	s = start(t, llmtest.Config{})
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader("{"))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 400, resp.StatusCode)
	require.Equal(t, 1, s.Calls())
}
