package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/tool"
)

type mcpPromptInput struct {
	MCPPath
	Prompt string `path:"prompt" doc:"The name of the prompt"`
	Body   *struct {
		Arguments map[string]string `json:"arguments,omitempty" doc:"The arguments, by name"`
	} `required:"false"`
}

type mcpResourceInput struct {
	MCPPath
	URI string `query:"uri" required:"true" maxLength:"4000" doc:"The URI of the resource"`
}

type mcpPromptsOutput struct {
	Body struct {
		Prompts []tool.ServerPrompt `json:"prompts" nullable:"false" doc:"The prompts, as the server lists them"`
	}
}

type mcpResourcesOutput struct {
	Body struct {
		Resources []tool.ServerResource `json:"resources" nullable:"false" doc:"The resources and the templates of their URIs, as the server lists them"`
	}
}

type mcpContentOutput struct {
	Body struct {
		Contents []tool.ServerContent `json:"contents" nullable:"false" doc:"The parts of the resource"`
	}
}

// registerContent registers the operations that ask a server itself.
func (h *mcpServerHandlers) registerContent(one string, tags []string) {
	const local = "The process that serves the API must run the server: one with the roles api and worker."
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listMCPPrompts", Method: http.MethodGet, Path: one + "/prompts", Tags: tags,
		Summary: "List the prompts of an MCP server", Description: local, Errors: []int{404, 503},
	}, func(ctx context.Context, in *MCPPath) (*mcpPromptsOutput, error) {
		found, err := askServer(ctx, h, in.Name, func(s ToolServers) ([]tool.ServerPrompt, error) { return s.Prompts(ctx, h.namespace, in.Name) })
		out := &mcpPromptsOutput{}
		out.Body.Prompts = nonNil(found)
		return out, err
	})
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "getMCPPrompt", Method: http.MethodPost, Path: one + "/prompts/{prompt}", Tags: tags,
		Summary: "Fill in a prompt of an MCP server", Description: "Post the text as a message to use it. " + local, Errors: []int{400, 404, 413, 503},
	}, func(ctx context.Context, in *mcpPromptInput) (*output[tool.ServerPromptText], error) {
		var arguments map[string]string
		if in.Body != nil {
			arguments = in.Body.Arguments
		}
		text, err := askServer(ctx, h, in.Name, func(s ToolServers) (tool.ServerPromptText, error) {
			return s.Prompt(ctx, h.namespace, in.Name, in.Prompt, arguments)
		})
		return &output[tool.ServerPromptText]{text}, err
	})
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listMCPResources", Method: http.MethodGet, Path: one + "/resources", Tags: tags,
		Summary: "List the resources of an MCP server", Description: local, Errors: []int{404, 503},
	}, func(ctx context.Context, in *MCPPath) (*mcpResourcesOutput, error) {
		found, err := askServer(ctx, h, in.Name, func(s ToolServers) ([]tool.ServerResource, error) { return s.Resources(ctx, h.namespace, in.Name) })
		out := &mcpResourcesOutput{}
		out.Body.Resources = nonNil(found)
		return out, err
	})
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "readMCPResource", Method: http.MethodGet, Path: one + "/resource", Tags: tags,
		Summary: "Read a resource of an MCP server", Description: local, Errors: []int{404, 503},
	}, func(ctx context.Context, in *mcpResourceInput) (*mcpContentOutput, error) {
		found, err := askServer(ctx, h, in.Name, func(s ToolServers) ([]tool.ServerContent, error) {
			return s.ReadResource(ctx, h.namespace, in.Name, in.URI)
		})
		out := &mcpContentOutput{}
		out.Body.Contents = nonNil(found)
		return out, err
	})
}

// askServer asks a server that exists. Its failure is a problem document.
func askServer[T any](ctx context.Context, h *mcpServerHandlers, name string, question func(ToolServers) (T, error)) (T, error) {
	var none T
	if _, err := h.find(ctx, name); err != nil {
		return none, err
	}
	if h.servers == nil {
		return none, noServer(name)
	}
	answer, err := question(h.servers)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return none, clientGone()
	}
	return none, later(http.StatusServiceUnavailable, "5", fmt.Sprintf("MCP server %q: %.1000s", name, err))
}
