package llmtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
)

func TestScript(t *testing.T) {
	s := start(t, llmtest.Config{Script: func(req llm.Request) string {
		if len(req.Messages) < 2 {
			return ""
		}
		return req.Messages[len(req.Messages)-2].Content
	}})
	for name, tt := range map[string]struct{ messages, says string }{
		"what it is shown before":    {`{"role":"user","content":"the weather is fine"},{"role":"user","content":"what is it like?"}`, "the weather is fine"},
		"in the same language":       {`{"role":"user","content":"count 3"},{"role":"user","content":"how many?"}`, "1 2 3"},
		"the message, if nothing is": {`{"role":"user","content":"hello"}`, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[`+tt.messages+`]}`))
			require.NoError(t, err)
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			var body struct {
				Choices []struct{ Message struct{ Content string } }
			}
			require.NoError(t, json.Unmarshal(raw, &body), string(raw))
			require.Len(t, body.Choices, 1)
			require.Equal(t, tt.says, body.Choices[0].Message.Content)
		})
	}
}
