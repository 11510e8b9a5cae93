package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
)

// ServerInfo is what a client needs to know of the server and of itself.
type ServerInfo struct {
	Version   string        `json:"version" doc:"The version of Threadmill"`
	Namespace string        `json:"namespace" doc:"The namespace of all threads that the server serves"`
	Workflows string        `json:"workflows,omitempty" doc:"The address of the list of workflows in Temporal's Web UI, if the server knows it. A thread is at this address, a slash and its workflow id, thread/<namespace>/<thread id>, percent-encoded"`
	Worker    *WorkerStatus `json:"worker,omitempty" doc:"Whether a worker runs the threads. Absent if Temporal does not answer"`
	Name      string        `json:"name,omitempty" doc:"The name of the client's API key or user"`
	Roles     []string      `json:"roles" nullable:"false" enum:"read,post,approve,operate,send-as,admin" doc:"What the client may do. admin implies all others"`
}

// infoHandlers serve what a client needs to know of the server.
type infoHandlers struct {
	*core
	workers            *workerWatch
	version, workflows string
}

func (h *infoHandlers) registerInfo() {
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getServer", Method: http.MethodGet, Path: "/v1/server", Tags: []string{"server"},
		Summary: "Get the server's version, and what the client may do",
	}, h.getServer)
}

func (h *infoHandlers) getServer(ctx context.Context, _ *struct{}) (*output[ServerInfo], error) {
	p := auth.FromContext(ctx)
	roles := p.Roles
	if roles.Has(auth.RoleAdmin) {
		roles = auth.AllRoles()
	}
	info := ServerInfo{Version: h.version, Namespace: h.namespace, Workflows: h.workflows, Name: p.Name, Roles: roles.Strings()}
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	info.Worker = h.workers.find(within)
	return &output[ServerInfo]{info}, nil
}
