package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

type extraKey struct{}

// extraTransport adds the extra_content of calls to requests, which the SDK does not know.
type extraTransport struct{ base http.RoundTripper }

func (t *extraTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	extras, _ := req.Context().Value(extraKey{}).(map[string]json.RawMessage)
	if len(extras) == 0 || req.Body == nil {
		return t.base.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err == nil {
		body, err = withExtras(body, extras)
	}
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return t.base.RoundTrip(req)
}

// withExtras returns a request with what goes back with its calls.
func withExtras(body []byte, extras map[string]json.RawMessage) ([]byte, error) {
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var messages []map[string]json.RawMessage
	if err := json.Unmarshal(request["messages"], &messages); err != nil {
		return nil, err
	}
	for _, m := range messages {
		var calls []map[string]json.RawMessage
		if json.Unmarshal(m["tool_calls"], &calls) != nil {
			continue
		}
		for _, call := range calls {
			var id string
			if json.Unmarshal(call["id"], &id) == nil && extras[id] != nil {
				call["extra_content"] = extras[id]
			}
		}
		var err error
		if m["tool_calls"], err = json.Marshal(calls); err != nil {
			return nil, err
		}
	}
	var err error
	if request["messages"], err = json.Marshal(messages); err != nil {
		return nil, err
	}
	return json.Marshal(request)
}
