package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnnotated is the maximum number of tools with arguments in headers that a session keeps.
const maxAnnotated = 1000

type captureKey struct{}

// captured calls a method of the SDK and returns the server's result. The SDK caches results without a bound,
// so it gets hollow ones.
func captured[R sdk.Result](ctx context.Context, call func(context.Context) error) (R, error) {
	return bounded(ctx, func() (R, error) {
		var result sdk.Result
		err := call(context.WithValue(ctx, captureKey{}, &result))
		r, _ := result.(R)
		return r, err
	})
}

// hollow is the middleware that separates results from the SDK's caches.
func (s *session) hollow(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		into, ok := ctx.Value(captureKey{}).(*sdk.Result)
		if err != nil || !ok {
			return res, err
		}
		*into = res
		switch r := res.(type) {
		case *sdk.ListToolsResult:
			return &sdk.ListToolsResult{Tools: s.annotatedTools(r.Tools)}, nil
		case *sdk.ListResourcesResult:
			return &sdk.ListResourcesResult{}, nil
		case *sdk.ListResourceTemplatesResult:
			return &sdk.ListResourceTemplatesResult{}, nil
		case *sdk.ListPromptsResult:
			return &sdk.ListPromptsResult{}, nil
		case *sdk.ReadResourceResult:
			return &sdk.ReadResourceResult{}, nil
		}
		return res, nil
	}
}

// annotatedTools returns the tools whose schemas the SDK needs to send arguments in headers.
func (s *session) annotatedTools(tools []*sdk.Tool) []*sdk.Tool {
	var out []*sdk.Tool
	for _, t := range tools {
		if annotated(t) && s.annotated.Add(1) <= maxAnnotated {
			out = append(out, &sdk.Tool{Name: t.Name, InputSchema: t.InputSchema})
		}
	}
	return out
}

func annotated(t *sdk.Tool) bool {
	if t == nil || len(t.Name) > maxOwnName {
		return false
	}
	raw, err := json.Marshal(t.InputSchema)
	return err == nil && len(raw) <= maxSchema && strings.Contains(string(raw), `"x-mcp-header"`)
}
