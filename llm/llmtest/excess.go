package llmtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
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

// tooLarge: a reply is read up to its limit, however the excess comes. The limits of what drivers read are multiples of it.
func (f faults) tooLarge(t *testing.T) {
	const limit = 8 << 10
	s, p := f.start(t, Config{})
	kib := strings.Repeat("x", 1<<10)
	for _, tt := range []struct {
		name, script string
		fault        Fault
		streamed     bool
	}{
		{name: "text", fault: Flood(1, kib, 125)},
		{name: "compressed text", fault: Flood(1, kib, 10_000).Compressed()},
		{name: "tiny pieces", fault: Flood(1, "x", limit/llm.MinPieceBytes+1), streamed: true},
		{name: "spaces before the text", fault: Flood(0, " ", limit/llm.MinPieceBytes+1), streamed: true},
		{name: "empty pieces", fault: Flood(1, "", 12_500), streamed: true},
		{name: "one piece", fault: Endless(1, 125), streamed: true},
		{name: "one compressed piece", fault: Endless(1, 10_000).Compressed(), streamed: true},
		{name: "thoughts", script: "think " + strings.Repeat(kib+" ", 12)},
		{name: "arguments", script: `use now {"text":"` + strings.Repeat(kib, 12) + `"}`},
		{name: "calls", script: strings.Repeat("use now\n", 1250)},
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
		req := request("count 500")
		req.MaxReplyBytes = limit
		_, err := p.Generate(t.Context(), req, func(llm.Delta) {})
		require.NoError(t, err)
	})
}

// largeError: of an error's body, only the beginning is read and shown.
func (f faults) largeError(t *testing.T) {
	s, p := f.start(t, Config{})
	long := "out of order " + strings.Repeat("x", 1<<20)
	for _, fault := range []Fault{Status(500, "").WithError("", long), Status(500, "").WithError("", long).Compressed(), StreamError(0, "", long[:128<<10])} {
		both(t, func(t *testing.T, onDelta func(llm.Delta)) {
			s.Reset()
			s.Fail(fault)
			_, err := p.Generate(t.Context(), request("hello"), onDelta)
			e := failure(t, err)
			require.True(t, e.Retryable)
			require.Contains(t, e.Message, "out of order")
			require.Less(t, len(e.Message)+len(e.Code), 1000)
			require.True(t, e.Cause == nil || len(e.Cause.Error()) < 1000)
		})
	}
	// A part of the key is a secret too.
	s.Reset()
	s.Fail(Status(401, "").WithError("", strings.Repeat("x", 490)+key))
	_, err := p.Generate(t.Context(), request("hello"), nil)
	require.NotContains(t, failure(t, err).Message, key[:5])
}

// deepArguments: providers reject what nests too deeply, for as long as it is in the transcript.
func (f faults) deepArguments(t *testing.T) {
	s, p := f.start(t, Config{})
	for _, arguments := range []string{
		`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", strings.Repeat("[", 5000), `{"a":1,"a":2}`,
	} {
		s.Reset()
		req := request("hello")
		req.Messages = append(req.Messages,
			llm.Message{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "call_1", Function: event.Function{Name: "now", Arguments: arguments}}}},
			llm.Message{Role: event.RoleTool, ToolCallID: "call_1", Content: "Error: invalid", IsError: true})
		_, err := p.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		messages := s.Requests()[0].Conversation.Messages
		sent := messages[len(messages)-2].ToolCalls[0].Function.Arguments
		require.NoError(t, event.ValidateJSON("arguments", []byte(sent)))
		var in map[string]string
		require.NoError(t, json.Unmarshal([]byte(sent), &in))
		require.Equal(t, map[string]string{"invalidJson": arguments}, in)
	}
}
