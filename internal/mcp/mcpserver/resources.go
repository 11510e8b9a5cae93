package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/internal/api"
)

// The addresses of resources.
const (
	agentsURI  = "threadmill://agents"
	threadsURI = "threadmill://threads"

	agentTemplate  = agentsURI + "/{name}"
	threadTemplate = threadsURI + "/{thread}"
)

const typeJSON = "application/json"

// addResources adds the resources, which only read.
func (s *server) addResources(to *mcp.Server) {
	to.AddResource(&mcp.Resource{URI: agentsURI, Name: "agents", Title: "Agents", Description: "The agents that can be asked.", MIMEType: typeJSON},
		resource(func(ctx context.Context, _ string) (any, error) { return s.agents(ctx) }))
	to.AddResource(&mcp.Resource{URI: threadsURI, Name: "threads", Title: "Threads", Description: "The most recently active threads.", MIMEType: typeJSON},
		resource(func(ctx context.Context, _ string) (any, error) { return s.threads(ctx, listArgs{Limit: 50}) }))
	to.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: agentTemplate, Name: "agent", Title: "Agent", Description: "An agent with its definition.", MIMEType: typeJSON},
		resource(func(ctx context.Context, name string) (any, error) { return s.api.Agent(ctx, name) }))
	to.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: threadTemplate, Name: "thread", Title: "Thread", Description: "A thread and its first messages. The tool read_thread has the others.", MIMEType: typeJSON},
		resource(func(ctx context.Context, id string) (any, error) { return s.read(ctx, readArgs{Thread: id}) }))
}

// resource returns the handler of a resource whose content is JSON. read receives the last element of
// the address.
func resource(read func(ctx context.Context, name string) (any, error)) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := req.Params.URI
		name, err := url.PathUnescape(uri[strings.LastIndex(uri, "/")+1:])
		if err != nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content, err := read(ctx, name)
		if errors.As(err, new(*notFoundError)) || api.IsNotFound(err) {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		if err != nil {
			return nil, problem(err, "id")
		}
		data, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: typeJSON, Text: string(data)}}}, nil
	}
}
