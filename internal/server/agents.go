package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/store"
)

// AgentPath is the input of operations on one agent.
type AgentPath struct {
	Name string `path:"name" doc:"The agent's name, case-insensitive"`
}

// Edit names the author of a change and the expected version. It consists of query parameters,
// since the body is the definition itself.
type Edit struct {
	IfVersion string `query:"ifVersion" pattern:"^[0-9]{1,9}$" patternDescription:"a whole number" doc:"Only if this is the newest stored version; 0 if none is stored. Default: any version"`
	By        string `query:"by" doc:"Who changes it; it is stored. Default: api"`
}

func (c Edit) change(ctx context.Context) (registry.Change, error) {
	if !store.Storable(c.By) {
		return registry.Change{}, refuse(http.StatusUnprocessableEntity, "query.by", "must be UTF-8 without NUL characters")
	}
	by, err := actor(ctx, "query.by", c.By, byAPI)
	if err != nil {
		return registry.Change{}, err
	}
	out := registry.Change{By: by, After: -1}
	if after, err := strconv.Atoi(c.IfVersion); err == nil {
		out.After = after
	}
	return out, nil
}

type putAgentInput struct {
	AgentPath
	Edit
	Body agent.Definition
}

type deleteAgentInput struct {
	AgentPath
	Edit
}

type agentVersionsInput struct {
	AgentPath
	Before int `query:"before" minimum:"1" doc:"The next of the previous page. Default: the newest"`
	Limit  int `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Of a page"`
}

type agentsInput struct {
	Cursor string `query:"cursor" doc:"The next of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"Of a page"`
}

type agentsOutput struct {
	Body struct {
		Agents []agent.Summary `json:"agents" nullable:"false" doc:"Configured agents first, then those that are only stored, by name"`
		Next   string          `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

type agentOutput struct {
	Status int
	Body   agent.Detail
}

type agentVersionsOutput struct {
	Body struct {
		Versions []agent.Version `json:"versions" nullable:"false" doc:"The newest first"`
		Next     int             `json:"next,omitempty" doc:"The before of the next page, if there is one"`
	}
}

// agentHandlers serve agent definitions.
type agentHandlers struct {
	*core
	agents  *registry.Registry
	store   store.Agents
	viewers *viewers

	tools, models, fallbacks []string // nil = not known
	groups                   approval.Groups
}

func (h *agentHandlers) registerAgents() {
	tags := []string{"agents"}
	const path, one = "/v1/agents", "/v1/agents/{name}"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listAgents", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the configured and the stored agents",
		Errors:  []int{503},
	}, h.listAgents)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getAgent", Method: http.MethodGet, Path: one, Tags: tags,
		Summary: "Get an agent, with its definition", Errors: []int{404, 503},
	}, h.getAgent)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "putAgent", Method: http.MethodPut, Path: one, Tags: tags,
		Summary: "Store an agent's definition, replacing the previous one",
		Description: "It takes effect with the next model call, also in running threads, and overrides a configured agent of the same name. " +
			"Omitted fields get their defaults. Storing the current definition again makes no new version. " +
			"Its tools must exist, and its policies and rules must name its tools. Warnings say which provider or tool the workers do not have.",
		Errors:    []int{400, 409, 413, 503},
		Responses: map[string]*huma.Response{"201": {Description: "Created: none was stored before"}},
	}, h.putAgent)
	put := h.api.OpenAPI().Paths[one].Put
	put.Responses["201"].Content = put.Responses["200"].Content
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "deleteAgent", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Delete a stored agent", DefaultStatus: http.StatusNoContent,
		Description: "A configured agent of that name takes effect again. The versions stay.",
		Errors:      []int{404, 409, 503},
	}, h.deleteAgent)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listAgentVersions", Method: http.MethodGet, Path: one + "/versions", Tags: tags,
		Summary: "List the versions of a stored agent, deleted agents included", Errors: []int{404, 503},
	}, h.listAgentVersions)
	h.registerAgentChanges()
}

// storedOnly is the part of a cursor that stands behind the configured agents.
const storedOnly = "stored"

func (h *agentHandlers) listAgents(ctx context.Context, in *agentsInput) (*agentsOutput, error) {
	after := registry.Place{}
	if in.Cursor != "" {
		last, ok := parsePageCursor(in.Cursor, 2)
		if !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		after = registry.Place{Name: last[1], Stored: last[0] == storedOnly}
	}
	all, next, err := h.agents.List(ctx, h.namespace, after, in.Limit)
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	out := &agentsOutput{}
	switch {
	case next.Stored:
		out.Body.Next = pageCursor(storedOnly, next.Name)
	case next.Name != "":
		out.Body.Next = pageCursor("", next.Name)
	}
	out.Body.Agents = make([]agent.Summary, 0, len(all))
	first, err := h.agents.Find(ctx, h.namespace, "")
	if err != nil && !errors.Is(err, agent.ErrUnknown) {
		return nil, h.agentProblem(ctx, err)
	}
	for _, e := range all {
		summary := agentSummary(e)
		summary.Default = err == nil && strings.EqualFold(e.Name, first.Name)
		out.Body.Agents = append(out.Body.Agents, summary)
	}
	return out, nil
}

func (h *agentHandlers) getAgent(ctx context.Context, in *AgentPath) (*agentOutput, error) {
	e, err := h.agents.Find(ctx, h.namespace, in.Name)
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	return &agentOutput{Status: http.StatusOK, Body: h.agentDetail(ctx, e)}, nil
}

func (h *agentHandlers) putAgent(ctx context.Context, in *putAgentInput) (*agentOutput, error) {
	change, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	a, err := in.agent()
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	if err := h.access.identities.validateAgent(ctx, a.Name); err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	e, created, err := h.agents.Save(ctx, h.namespace, a, change)
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	out := &agentOutput{Status: http.StatusOK, Body: h.agentDetail(ctx, e)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// changesName is the path element of the changes below /v1/agents. It cannot be an agent's name.
const changesName = "changes"

// agent returns the agent in the body. Its name is that of the path, in the spelling of the body if
// they differ only in case.
func (in *putAgentInput) agent() (agent.Agent, error) {
	switch {
	case strings.EqualFold(in.Name, changesName):
		return agent.Agent{}, refuse(http.StatusUnprocessableEntity, "path.name", "is reserved: choose another name")
	case in.Body.Name == "":
		in.Body.Name = in.Name
	case !strings.EqualFold(in.Body.Name, in.Name):
		return agent.Agent{}, refuse(http.StatusUnprocessableEntity, "body.name", "differs from the path; omit it")
	}
	return in.Body.Agent()
}

func (h *agentHandlers) deleteAgent(ctx context.Context, in *deleteAgentInput) (*struct{}, error) {
	change, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	err = h.agents.Delete(ctx, h.namespace, in.Name, change)
	if errors.Is(err, store.ErrNotFound) {
		return nil, h.notStored(ctx, in.Name)
	}
	return nil, h.agentProblem(ctx, err)
}

// notStored returns the problem of an agent that is not stored; it may be configured.
func (h *agentHandlers) notStored(ctx context.Context, name string) error {
	if _, err := h.agents.Find(ctx, h.namespace, name); err == nil {
		return huma.Error404NotFound(fmt.Sprintf("agent %.128q is configured, not stored: change its configuration", name))
	}
	return huma.Error404NotFound(fmt.Sprintf("no agent %.128q is stored", name))
}

func (h *agentHandlers) listAgentVersions(ctx context.Context, in *agentVersionsInput) (*agentVersionsOutput, error) {
	versions, err := h.store.AgentVersions(ctx, h.namespace, in.Name, in.Before, in.Limit)
	if err != nil {
		return nil, h.agentProblem(ctx, err)
	}
	if len(versions) == 0 && in.Before == 0 {
		return nil, h.notStored(ctx, in.Name)
	}
	out := &agentVersionsOutput{}
	out.Body.Versions = make([]agent.Version, 0, len(versions))
	for _, v := range versions {
		out.Body.Versions = append(out.Body.Versions, agentVersion(v))
	}
	// The first version ends the list, whatever the limit.
	if last := len(versions) - 1; last >= 0 && versions[last].Version > 1 {
		out.Body.Next = versions[last].Version
	}
	return out, nil
}

// agentProblem converts the error of an operation on an agent to a problem document.
func (c *core) agentProblem(ctx context.Context, err error) error {
	var (
		field    *event.FieldError
		large    *registry.TooLargeError
		conflict *store.ConflictError
	)
	switch {
	case errors.As(err, &field) && field.Field == "name":
		return refuse(http.StatusUnprocessableEntity, "path.name", field.Problem)
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "body", large.Error())
	case errors.As(err, &conflict):
		return huma.Error409Conflict(conflict.Error() + "; read the newest version and retry")
	case errors.Is(err, agent.ErrUnknown):
		return huma.Error404NotFound(err.Error())
	}
	return c.problem(ctx, "", err)
}
