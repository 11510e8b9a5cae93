package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
)

func TestRequestCheck(t *testing.T) {
	tools := []llm.Tool{{Name: "read"}}
	format := func(schema string) *llm.ResponseFormat { return &llm.ResponseFormat{Schema: json.RawMessage(schema)} }
	for _, tt := range []struct {
		req     llm.Request
		problem string
	}{
		{llm.Request{}, ""},
		{llm.Request{ToolChoice: llm.ToolsNone}, ""},
		{llm.Request{ToolChoice: llm.ToolsRequired, Tools: tools}, ""},
		{llm.Request{ToolChoice: llm.ToolsRequired}, "no tools"},
		{llm.Request{ToolChoice: llm.ChooseTool("read"), Tools: tools}, ""},
		{llm.Request{ToolChoice: llm.ChooseTool("none"), Tools: tools}, "no such tool"},
		{llm.Request{ToolChoice: "read", Tools: tools}, "must be none, required or tool:"},
		{llm.Request{ToolChoice: llm.ChooseTool(""), Tools: tools}, "must be none, required or tool:"},
		{llm.Request{ResponseFormat: format(`{"type":"object"}`)}, ""},
		{llm.Request{ResponseFormat: format(`{"type":"array"}`)}, "ResponseFormat.Schema must be"},
		{llm.Request{ResponseFormat: format("")}, "ResponseFormat.Schema must be"},
	} {
		if err := tt.req.Check(); tt.problem == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.problem)
		}
	}
}

// TestRequestJSON: requests that want nothing of the reply are stored as before.
func TestRequestJSON(t *testing.T) {
	raw, err := json.Marshal(llm.Request{Model: "m", Messages: []llm.Message{}})
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","messages":[]}`, string(raw))
	raw, err = json.Marshal(llm.Request{ToolChoice: llm.ChooseTool("read"), ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage("{}")}})
	require.NoError(t, err)
	require.Equal(t, `{"model":"","messages":null,"toolChoice":"tool:read","responseFormat":{"schema":{}}}`, string(raw))
}

// TestBounded: no part of the tokens written to a cache exceeds the whole.
func TestBounded(t *testing.T) {
	var r llm.Response
	r.Usage.InputTokens, r.Usage.CacheWriteTokens, r.Usage.CacheWriteHourTokens = 10, 20, 30
	got := r.Bounded().Usage
	require.Equal(t, []int{10, 10, 10}, []int{got.InputTokens, got.CacheWriteTokens, got.CacheWriteHourTokens})
	r.Usage.CacheWriteTokens, r.Usage.CacheWriteHourTokens = 5, -1
	got = r.Bounded().Usage
	require.Equal(t, []int{5, 0}, []int{got.CacheWriteTokens, got.CacheWriteHourTokens})
}
