package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
)

// httpAPI answers requests by "METHOD /path", and notes them with their bodies.
type httpAPI struct {
	answers map[string]any // an error, a refusal, or what is sent as JSON
	asked   []string
	mu      sync.Mutex // of both

	// events is the body of a stream of events.
	events io.Reader
}

// refused is an error response.
type refused struct {
	code   int
	detail string
}

func (h *httpAPI) do(req *http.Request) (*http.Response, error) {
	path := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/v1")
	body := ""
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		body = " " + string(raw)
	}
	h.mu.Lock()
	h.asked = append(h.asked, path+body)
	answer, ok := h.answers[path]
	h.mu.Unlock()
	respond := func(code int, body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: code, ContentLength: -1, Body: io.NopCloser(body), Header: http.Header{}, Request: req}, nil
	}
	if strings.HasSuffix(path, "/events") && h.events != nil {
		return respond(http.StatusOK, &untilDone{req.Context(), h.events})
	}
	if err, is := answer.(error); is {
		return nil, err
	}
	if no, is := answer.(refused); is || !ok {
		if !ok {
			no = refused{http.StatusNotFound, "there is no " + path}
		}
		raw, err := json.Marshal(map[string]string{"detail": no.detail})
		if err != nil {
			return nil, err
		}
		return respond(no.code, bytes.NewReader(raw))
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return respond(http.StatusOK, bytes.NewReader(raw))
}

// answer sets an answer while requests arrive.
func (h *httpAPI) answer(path string, answer any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

func (h *httpAPI) count(request string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, asked := range h.asked {
		if asked == request {
			n++
		}
	}
	return n
}

// untilDone is a body that ends with its request, and not when all of it is read.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // that of the request, as net/http's bodies have it
	from io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if err == io.EOF {
		<-u.ctx.Done()
		return n, u.ctx.Err()
	}
	return n, err
}

func stream(t *testing.T, events ...event.AgentEvent) io.Reader {
	t.Helper()
	var out strings.Builder
	for i, e := range events {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		fmt.Fprintf(&out, "id: %d\ndata: %s\n\n", i+1, raw)
	}
	return strings.NewReader(out.String())
}

func newServer(t *testing.T, h *httpAPI) *server {
	t.Helper()
	client, err := api.New(api.Config{Do: h.do})
	require.NoError(t, err)
	return &server{api: client, waitLimit: time.Minute, closing: context.Background(), roles: func(context.Context) auth.Roles { return nil }}
}

func newCall() *call { return &call{req: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}} }

// use calls a tool, and returns its text.
func (s *server) use(t *testing.T, name, arguments string) (text string, failed bool) {
	t.Helper()
	for _, one := range s.tools() {
		if one.Name == name {
			got, err := one.handle(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: json.RawMessage(arguments)}})
			require.NoError(t, err)
			return got.Content[0].(*mcp.TextContent).Text, got.IsError
		}
	}
	require.Fail(t, "no such tool", name)
	return "", false
}
