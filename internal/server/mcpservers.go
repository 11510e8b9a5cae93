package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// ToolServers are the MCP servers whose tools agents use, as a *mcp.Manager knows them.
type ToolServers interface {
	// States returns the servers of a namespace, by name, also those that no worker has reported on.
	States(ctx context.Context, namespace string) ([]tool.ServerState, error)

	// Restart asks the workers that run a server to connect to it again.
	Restart(ctx context.Context, namespace, name string) error

	// Prompts, Prompt, Resources and ReadResource ask a server itself. Only a process that runs the server
	// can.
	Prompts(ctx context.Context, namespace, server string) ([]tool.ServerPrompt, error)
	Prompt(ctx context.Context, namespace, server, name string, arguments map[string]string) (tool.ServerPromptText, error)
	Resources(ctx context.Context, namespace, server string) ([]tool.ServerResource, error)
	ReadResource(ctx context.Context, namespace, server, uri string) ([]tool.ServerContent, error)

	// Refresh reads the servers of a namespace, after one was declared.
	Refresh(ctx context.Context, namespace string)
}

// MCPServer is an MCP server without what its tools take.
type MCPServer struct {
	tool.ServerState
	Tools  []MCPTool `json:"tools" nullable:"false" doc:"The tools that it offers, as it listed them last"`
	Source string    `json:"source" enum:"configured,declared" doc:"configured: the operator declares it, for all namespaces. declared: it was declared at run time"`

	Login *tool.ServerLogin `json:"login,omitempty" doc:"The login, if people log in to the server"`
}

// MCPTool is a tool of an MCP server without its parameters.
type MCPTool struct {
	Name        string           `json:"name" doc:"The name for agents and models"`
	Title       string           `json:"title,omitempty" doc:"A title for people"`
	Description string           `json:"description,omitempty" doc:"What models read"`
	Hints       tool.ServerHints `json:"hints" doc:"What the server says about the effects of the tool"`
	ChangedAt   *time.Time       `json:"changedAt,omitempty" doc:"When its description or its parameters changed last"`
}

// The sources of servers.
const (
	sourceConfigured = "configured"
	sourceDeclared   = "declared"
)

// MCPPath is the input of operations on one MCP server.
type MCPPath struct {
	Name string `path:"name" doc:"The name of the server"`
}

type getMCPInput struct {
	MCPPath
	LoginOf
}

// LoginOf says whose login is shown.
type LoginOf struct {
	User string `query:"user" maxLength:"200" doc:"Whose login is shown, of servers to which each person logs in. Default: that of the API key's name"`
}

// user returns whose login is shown.
func (l LoginOf) user(ctx context.Context) string { return cmp.Or(auth.FromContext(ctx).Name, l.User) }

type putMCPInput struct {
	MCPPath
	Edit
	Body tool.ServerDeclaration
}

type deleteMCPInput struct {
	MCPPath
	IfVersion string `query:"ifVersion" pattern:"^[0-9]{1,9}$" patternDescription:"a whole number" doc:"Only if this is the version of the declaration. Default: any version"`
}

type mcpServersOutput struct {
	Body struct {
		Servers     []MCPServer    `json:"servers" nullable:"false" doc:"The servers, by name"`
		Permissions MCPPermissions `json:"permissions" doc:"Which servers may be declared at run time"`
	}
}

// MCPPermissions say which servers may be declared at run time.
type MCPPermissions struct {
	Servers          bool `json:"servers" doc:"Servers at public addresses"`
	Commands         bool `json:"commands" doc:"Servers that are programs"`
	PrivateAddresses bool `json:"privateAddresses" doc:"Servers at private addresses"`
}

type mcpServerOutput struct {
	Status int
	Body   api.MCPServerDetail
}

// mcpServerHandlers serve the MCP servers of the workers.
type mcpServerHandlers struct {
	*core
	servers  ToolServers          // nil = none
	logins   ToolLogins           // nil = none
	declared *toolserver.Registry // nil = none
}

func (h *mcpServerHandlers) registerMCP() {
	tags := []string{"mcp"}
	const path, one = "/v1/mcp", "/v1/mcp/{name}"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listMCPServers", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the MCP servers, with their states and tools", Errors: []int{503},
	}, h.list)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getMCPServer", Method: http.MethodGet, Path: one, Tags: tags,
		Summary: "Get an MCP server, with the parameters of its tools", Errors: []int{404, 503},
	}, h.get)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "putMCPServer", Method: http.MethodPut, Path: one, Tags: tags,
		Summary: "Declare an MCP server, replacing its previous declaration",
		Description: "The operator must have permitted it. Workers connect within seconds, and agents that name its tools have them from the next model call on. " +
			"Secrets stay in environment variables of the workers, whose names begin with MCP_. Declaring the same again changes nothing.",
		Errors:    []int{400, 409, 413, 503},
		Responses: map[string]*huma.Response{"201": {Description: "Created: it was not declared before"}},
	}, h.put)
	put := h.api.OpenAPI().Paths[one].Put
	put.Responses["201"].Content = put.Responses["200"].Content
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "deleteMCPServer", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Remove an MCP server that was declared at run time", DefaultStatus: http.StatusNoContent,
		Errors: []int{404, 409, 503},
	}, h.remove)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "restartMCPServer", Method: http.MethodPost, Path: one + "/restart", Tags: tags,
		Summary: "Connect to an MCP server again", DefaultStatus: http.StatusAccepted,
		Description: "The workers that run it end the connection, and its program if it is one, and connect again within seconds. Running calls fail.",
		Errors:      []int{404, 503},
	}, h.restart)
	h.registerContent(one, tags)
}

// states returns the servers, with those that are declared and that the workers do not know yet, or cannot
// use.
func (h *mcpServerHandlers) states(ctx context.Context) ([]api.MCPServerDetail, error) {
	var out []api.MCPServerDetail
	if h.servers != nil {
		states, err := h.servers.States(ctx, h.namespace)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			out = append(out, api.MCPServerDetail{ServerState: s, Source: sourceConfigured})
		}
	}
	if h.declared == nil {
		return out, nil
	}
	declared, err := h.declared.List(ctx, h.namespace)
	if err != nil {
		return nil, err
	}
	for _, d := range declared {
		if h.declared.Configured(d.Name) {
			continue
		}
		at := slices.IndexFunc(out, func(s api.MCPServerDetail) bool { return s.Name == d.Name })
		if at < 0 {
			at = len(out)
			out = append(out, api.MCPServerDetail{ServerState: tool.ServerState{
				Name: d.Name, Namespace: h.namespace, Description: d.Description, Status: tool.ServerUnknown, Transport: transport(d), Since: d.At,
			}})
		}
		declaration := d.ServerDeclaration
		s := &out[at]
		s.Source, s.Declaration, s.Version, s.By, s.At = sourceDeclared, &declaration, d.Version, d.By, d.At
		if err := h.declared.Check(d); err != nil {
			s.Problem = err.Error()
		}
	}
	slices.SortFunc(out, func(a, b api.MCPServerDetail) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func transport(d toolserver.Declared) string {
	if len(d.Command) > 0 {
		return "stdio"
	}
	return "http"
}

// addLogin adds what is known about the login to a server.
func (h *mcpServerHandlers) addLogin(ctx context.Context, s *api.MCPServerDetail, user string) error {
	if h.logins == nil {
		return nil
	}
	known, err := h.logins.Login(ctx, h.namespace, s.Name, user)
	switch {
	case errors.Is(err, toolserver.ErrNoLogin) || errors.Is(err, toolserver.ErrNoServer):
		return nil
	case err != nil:
		return h.problem(ctx, "", err)
	}
	s.Login = &known
	return nil
}

func (h *mcpServerHandlers) list(ctx context.Context, in *LoginOf) (*mcpServersOutput, error) {
	all, err := h.states(ctx)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	out := &mcpServersOutput{}
	out.Body.Servers = make([]MCPServer, 0, len(all))
	for _, s := range all {
		if err := h.addLogin(ctx, &s, in.user(ctx)); err != nil {
			return nil, err
		}
		one := MCPServer{ServerState: s.ServerState, Source: s.Source, Login: s.Login, Tools: make([]MCPTool, 0, len(s.Tools))}
		for _, t := range s.Tools {
			one.Tools = append(one.Tools, MCPTool{t.Name, t.Title, t.Description, t.Hints, t.ChangedAt})
		}
		out.Body.Servers = append(out.Body.Servers, one)
	}
	if h.declared != nil {
		out.Body.Permissions = MCPPermissions(h.declared.Permitted())
	}
	return out, nil
}

func (h *mcpServerHandlers) find(ctx context.Context, name string) (api.MCPServerDetail, error) {
	all, err := h.states(ctx)
	if err != nil {
		return api.MCPServerDetail{}, h.problem(ctx, "", err)
	}
	for _, s := range all {
		if s.Name == name {
			s.Tools = nonNil(s.Tools)
			return s, nil
		}
	}
	return api.MCPServerDetail{}, noServer(name)
}

func noServer(name string) error {
	return huma.Error404NotFound(fmt.Sprintf("there is no MCP server %.64q", name))
}

func (h *mcpServerHandlers) get(ctx context.Context, in *getMCPInput) (*mcpServerOutput, error) {
	s, err := h.find(ctx, in.Name)
	if err == nil {
		err = h.addLogin(ctx, &s, in.user(ctx))
	}
	if err != nil {
		return nil, err
	}
	return &mcpServerOutput{http.StatusOK, s}, nil
}

func (h *mcpServerHandlers) put(ctx context.Context, in *putMCPInput) (*mcpServerOutput, error) {
	change, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	if h.declared == nil {
		return nil, huma.Error409Conflict("this server connects to no MCP servers")
	}
	d, created, err := h.declared.Put(ctx, h.namespace, in.Name, in.Body, change.By, change.After)
	if err != nil {
		return nil, h.mcpProblem(ctx, in.Name, err)
	}
	h.logger.Info("MCP server declared", "server", d.Name, "version", d.Version, "by", d.By)
	h.refresh(ctx)
	s, err := h.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &mcpServerOutput{http.StatusOK, s}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (h *mcpServerHandlers) refresh(ctx context.Context) {
	if h.servers != nil {
		h.servers.Refresh(ctx, h.namespace)
	}
}

func (h *mcpServerHandlers) remove(ctx context.Context, in *deleteMCPInput) (*struct{}, error) {
	s, err := h.find(ctx, in.Name)
	switch {
	case err != nil:
		return nil, err
	case s.Source == sourceConfigured:
		return nil, huma.Error404NotFound(fmt.Sprintf("MCP server %.64q is configured, not declared at run time: change the configuration", in.Name))
	}
	after, err := strconv.Atoi(in.IfVersion)
	if err != nil {
		after = -1
	}
	if err := h.declared.Delete(ctx, h.namespace, in.Name, after); err != nil {
		return nil, h.mcpProblem(ctx, in.Name, err)
	}
	h.logger.Info("MCP server removed", "server", in.Name, "by", auth.FromContext(ctx).Name)
	h.refresh(ctx)
	return nil, nil
}

func (h *mcpServerHandlers) restart(ctx context.Context, in *MCPPath) (*struct{}, error) {
	if _, err := h.find(ctx, in.Name); err != nil {
		return nil, err
	}
	if h.servers == nil {
		return nil, noServer(in.Name)
	}
	if err := h.servers.Restart(ctx, h.namespace, in.Name); err != nil {
		return nil, h.mcpProblem(ctx, in.Name, err)
	}
	h.logger.Info("MCP server is restarted", "server", in.Name, "by", auth.FromContext(ctx).Name)
	return nil, nil
}

// mcpProblem converts the error of an operation on an MCP server to a problem document.
func (h *mcpServerHandlers) mcpProblem(ctx context.Context, name string, err error) error {
	field, ofField := errors.AsType[*event.FieldError](err)
	conflict, conflicts := errors.AsType[*store.ConflictError](err)
	switch {
	case errors.Is(err, toolserver.ErrNotPermitted):
		return huma.Error409Conflict(err.Error())
	case ofField && field.Field == "name":
		return refuse(http.StatusUnprocessableEntity, "path.name", field.Problem)
	case conflicts:
		return huma.Error409Conflict(fmt.Sprintf("MCP server %q has been changed meanwhile: the version of its declaration is %d, not %d; read it and retry", name, conflict.Newest, conflict.After))
	case errors.Is(err, store.ErrNotFound):
		return noServer(name)
	}
	return h.problem(ctx, "", err)
}
