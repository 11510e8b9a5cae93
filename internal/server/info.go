package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// ServerInfo is what a client needs to know of the server and of itself.
type ServerInfo struct {
	Version   string        `json:"version" doc:"The version of Threadmill"`
	Namespace string        `json:"namespace" doc:"The namespace of all threads that the server serves"`
	Workflows string        `json:"workflows,omitempty" doc:"The address of the list of workflows in Temporal's Web UI, if the server knows it. A thread is at this address, a slash and its workflow id, thread/<namespace>/<thread id>, percent-encoded"`
	Worker    *WorkerStatus `json:"worker,omitempty" doc:"Whether a worker runs the threads. Absent if Temporal does not answer"`
	// Deployment is that of the workers.
	Deployment *deployment.Status `json:"deployment,omitempty" doc:"The builds of the workers, if they have build ids, and which of them get threads or drain"`
	Name       string             `json:"name,omitempty" doc:"The name of the client's API key or user"`
	Roles      []string           `json:"roles" nullable:"false" enum:"read,post,approve,operate,send-as,admin" doc:"What the client may do. admin implies all others"`
	Limits     Limits             `json:"limits" doc:"The maximum lengths of what people write"`
}

// Limits are the maximum lengths of what people write, in bytes of UTF-8.
type Limits struct {
	Message int `json:"message" doc:"Of a message, with its thread and sender, as JSON in which <, > and & are escaped: {\"threadId\", \"senderId\", \"senderType\", \"content\"}. In bytes"`
	Reason  int `json:"reason" doc:"Of the reason of a decision, in bytes"`
	Title   int `json:"title" doc:"Of the title of a thread, in bytes"`
	Name    int `json:"name" doc:"Of the name of whoever acts, such as by and sender, in bytes"`
	ID      int `json:"id" doc:"Of the id of a thread or of a schedule, in bytes"`
	Note    int `json:"note" doc:"Of the note of a schedule, in bytes"`
	Body    int `json:"body" doc:"Of the body of a request, such as one that adds the text of a document, in bytes"`

	Agent      int `json:"agent" doc:"Of the definition of an agent, as JSON in which <, > and & are escaped, in bytes"`
	AgentName  int `json:"agentName" doc:"Of the name of an agent, in bytes"`
	AgentModel int `json:"agentModel" doc:"Of the name of an agent's model, in bytes"`
	RuleName   int `json:"ruleName" doc:"Of the name of an approval rule, in bytes"`
	RuleReason int `json:"ruleReason" doc:"Of the reason of an approval rule, in bytes"`
	RuleWhen   int `json:"ruleWhen" doc:"Of the condition of an approval rule, in bytes"`

	DocumentSource     int `json:"documentSource" doc:"Of the address or the name of a document, in bytes"`
	DocumentTitle      int `json:"documentTitle" doc:"Of the title of a document, in bytes"`
	DocumentCollection int `json:"documentCollection" doc:"Of the name of a collection of documents, in bytes"`
}

// infoHandlers serve what a client needs to know of the server.
type infoHandlers struct {
	*core
	workers            *workerWatch
	deployment         func(context.Context) (deployment.Status, error)
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
	info.Limits = Limits{
		Message: signals.MaxPayload, Reason: signals.MaxReason, Title: signals.MaxTitle, Name: event.MaxName,
		ID: signals.MaxID, Note: signals.MaxNote, Body: int(h.maxBody),
		Agent: store.MaxAgentDefinition, AgentName: agent.MaxName, AgentModel: agent.MaxModel,
		RuleName: approval.MaxName, RuleReason: approval.MaxReason, RuleWhen: approval.MaxWhen,
		DocumentSource: store.MaxKnowledgeSource, DocumentTitle: store.MaxKnowledgeTitle, DocumentCollection: store.MaxKnowledgeCollection,
	}
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	builds := make(chan *deployment.Status, 1)
	go func() { builds <- h.builds(within) }()
	info.Worker, info.Deployment = h.workers.find(within), <-builds
	return &output[ServerInfo]{info}, nil
}

// builds returns the builds of the workers. Nil if they have none, or if Temporal does not answer.
func (h *infoHandlers) builds(ctx context.Context) *deployment.Status {
	if h.deployment == nil {
		return nil
	}
	found, err := h.deployment(ctx)
	if err != nil {
		return nil
	}
	return &found
}
