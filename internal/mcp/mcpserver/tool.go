package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
)

// tool is a tool and the roles that its requests to the API need.
type tool struct {
	*mcp.Tool
	roles  []auth.Role
	handle mcp.ToolHandler
}

// effect says what a tool does to threads.
type effect int

const (
	reads   effect = iota
	adds           // nothing is lost
	decides        // what is decided may run
)

// define returns a tool whose arguments and result are Go types.
func define[In, Out any](name, title, description string, does effect, idempotent bool, roles []auth.Role, run func(context.Context, *call, In) (Out, error)) tool {
	destructive, open := does == decides, does != reads
	in, out := inputSchema[In](), outputSchema[Out]()
	t := &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: in, OutputSchema: out,
		Annotations: &mcp.ToolAnnotations{
			Title: title, ReadOnlyHint: does == reads, DestructiveHint: &destructive, IdempotentHint: idempotent || does == reads, OpenWorldHint: &open,
		},
	}
	return tool{t, roles, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args In
		err := decode(in, req.Params.Arguments, &args)
		req.Params.Arguments = nil // the call may last, and its arguments may be large
		var result Out
		if err == nil {
			result, err = run(ctx, &call{req: req}, args)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err() // nobody waits for the result
		}
		if err != nil {
			return failure(err), nil
		}
		data, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encoding the result of %s: %w", name, err)
		}
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(data), Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}}, nil
	}}
}

// failure is the result of a call that failed.
func failure(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: cut(explain(err), maxError)}}}
}

// decode reads the arguments of a call. Its error names the argument.
func decode(schema *jsonschema.Schema, raw json.RawMessage, into any) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := event.DecodeKnownJSON("", raw, into); err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	return check(schema, fields)
}

// call is a call of a tool.
type call struct {
	req *mcp.CallToolRequest

	mu    sync.Mutex
	lines float64
}

// progress tells the client what happens, if it wants to know.
func (c *call) progress(ctx context.Context, line string) {
	token := c.req.Params.GetProgressToken()
	if token == nil || line == "" {
		return
	}
	c.mu.Lock() // progress has to increase
	defer c.mu.Unlock()
	c.lines++
	// An error means that the client has gone; it may come back for the result.
	_ = c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: c.lines, Message: cut(line, maxLine)})
}

// explain returns an error for the client's model.
func explain(err error) string {
	if field, ok := errors.AsType[*event.FieldError](err); ok && field.Field == "" {
		return "arguments: " + field.Problem
	}
	return err.Error()
}
