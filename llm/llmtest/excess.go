package llmtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
)

// redirect: a request goes to the configured server only.
func (f faults) redirect(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	s, p := f.start(t, Config{})
	for _, status := range []int{301, 302, 303, 307, 308} {
		both(t, func(t *testing.T, onDelta func(llm.Delta)) {
			s.Reset()
			s.Fail(Redirect(status, other.URL+"/v1/secret-path"))
			_, err := p.Generate(t.Context(), request("hello"), onDelta)
			e := failure(t, err)
			require.False(t, e.Retryable)
			require.Equal(t, status, e.StatusCode)
			require.Equal(t, llm.ClassRefused, e.Class())
			require.Contains(t, e.Message, "redirects to "+strings.TrimPrefix(other.URL, "http://")+",")
			require.NotContains(t, e.Message, "secret-path")
			require.Equal(t, 1, s.Calls())
		})
	}
	require.Zero(t, asked.Load())
}

// tooLarge: a reply is read up to its limit, however the excess comes.
func (f faults) tooLarge(t *testing.T) {
	const limit = 64 << 10
	s, p := f.start(t, Config{})
	kib := strings.Repeat("x", 1<<10)
	for _, tt := range []struct {
		name, script string
		fault        Fault
		streamed     bool
	}{
		{name: "text", fault: Flood(1, kib, 1000)},
		{name: "compressed text", fault: Flood(1, kib, 100_000).Compressed()},
		{name: "tiny pieces", fault: Flood(1, "x", limit/llm.MinPieceBytes+1), streamed: true},
		{name: "spaces before the text", fault: Flood(0, " ", limit/llm.MinPieceBytes+1), streamed: true},
		{name: "empty pieces", fault: Flood(1, "", 100_000), streamed: true},
		{name: "one piece", fault: Endless(1, 1000), streamed: true},
		{name: "one compressed piece", fault: Endless(1, 100_000).Compressed(), streamed: true},
		{name: "thoughts", script: "think " + strings.Repeat(kib+" ", 100)},
		{name: "arguments", script: `use now {"text":"` + strings.Repeat(kib, 100) + `"}`},
		{name: "calls", script: strings.Repeat("use now\n", 10_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				if tt.streamed && onDelta == nil {
					return
				}
				s.Reset()
				s.Fail(tt.fault)
				req := request(tt.script + "\none two three")
				req.MaxReplyBytes = limit
				resp, err := p.Generate(t.Context(), req, onDelta)
				e := failure(t, err)
				require.Equal(t, llm.CodeReplyTooLarge, e.Code, e.Message)
				require.Equal(t, llm.ClassReplyTooLarge, e.Class())
				require.False(t, e.Retryable)
				require.Contains(t, e.Message, "limits.maxReplyBytes")
				require.LessOrEqual(t, len(resp.Content)+len(resp.Thought), limit)
				require.Empty(t, resp.ToolCalls)
			})
		})
	}
	t.Run("a reply below the limit", func(t *testing.T) {
		s.Reset()
		req := request("count 1000")
		req.MaxReplyBytes = limit
		_, err := p.Generate(t.Context(), req, func(llm.Delta) {})
		require.NoError(t, err)
	})
}

// largeError: of an error's body, only the beginning is read and shown.
func (f faults) largeError(t *testing.T) {
	s, p := f.start(t, Config{})
	for _, fault := range []Fault{Status(500, ""), Status(500, "").Compressed()} {
		both(t, func(t *testing.T, onDelta func(llm.Delta)) {
			s.Reset()
			s.Fail(fault.WithError("", "out of order "+strings.Repeat("x", 10<<20)))
			_, err := p.Generate(t.Context(), request("hello"), onDelta)
			e := failure(t, err)
			require.Equal(t, 500, e.StatusCode)
			require.True(t, e.Retryable)
			require.Contains(t, e.Message, "out of order")
			require.Less(t, len(e.Message), 1000)
		})
	}
}
