// Package backend is what the HTTP API serves of a runtime, beside its client. The root package provides it, so that it needs
// neither the API nor what the API is made of.
package backend

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Of returns that of a *threadmill.Runtime. The root package sets it, so that its own API need not show these types.
var Of func(runtime any) Backend

// Backend is what the API serves. Store, Stream and Library are required.
type Backend struct {
	Store  store.Store
	Stream stream.Stream

	// Namespace of the threads. Default "default".
	Namespace string

	// TemporalNamespace is the namespace of their workflows.
	TemporalNamespace string

	// Library indexes the documents of Store, and finds passages in them.
	Library *library.Library

	// WithoutEntities says why no people and things are found in messages. Empty = they are.
	WithoutEntities string

	// Agents finds the agents with which a thread can be opened, in addition to stored agents.
	// Default: every name is valid.
	Agents agent.Source

	// Known are the names that exist. An agent definition that names an unknown tool or fallback chain is rejected.
	Known names.Known

	// Models are the names of the workers' model providers: an agent definition that names another one gets a warning. Nil =
	// unknown.
	Models []string

	// ApproverGroups knows the groups of approvers. Default: there are none.
	ApproverGroups approval.Groups

	// ToolSource are the MCP servers of the workers, if it knows them. Default: none.
	ToolSource tool.Source

	// Rules are the rules that route environment events. Nil means the default rules.
	Rules *rule.Set

	// Redact redacts what the server itself stores or shows. The client redacts what threads receive. Default: nothing is
	// redacted.
	Redact *redact.Redactor

	// View changes the events for viewers: see [feed.Config]. Default: no change.
	View func(store.Key) feed.View

	// Ready adds components, such as temporal, to the store and the stream in /readyz. A component
	// is ready if it returns nil within two seconds.
	Ready func(ctx context.Context) map[string]error

	// TaskQueue says what is wrong with the task queue of the threads, beside that no worker polls it. Empty = nothing. Default:
	// nobody looks.
	TaskQueue func(ctx context.Context) string

	// Checks checks what Ready does not, and calls models if callModels is set, for /v1/checks. Default: none.
	Checks func(ctx context.Context, callModels bool) []doctor.Finding

	// Repair compares the store with Temporal, for /v1/repair. Default: that is unavailable.
	Repair func(context.Context, repair.RepairRequest) (repair.Comparison, error)

	// Due tells what the retention would delete, for /v1/retention. Default: that is unavailable.
	Due func(context.Context) (retention.Due, error)

	// Deployment returns the builds of the workers, for /v1/server. Default: they have none.
	Deployment func(context.Context) (deployment.Status, error)

	// CompareConfig compares a changed configuration file with what runs, of which these are the webhooks. Default: it cannot be
	// compared.
	CompareConfig func(ctx context.Context, file []byte, running []webhook.Endpoint) (configdiff.Diff, error)

	// Observe wraps the handler; route returns the pattern that a request matches, or "". Default: none.
	Observe func(next http.Handler, route func(*http.Request) string) http.Handler

	// AnswerWithin is the time in which a worker must answer before the request fails with 503.
	// Default 10 s.
	AnswerWithin time.Duration

	// Logger logs failures. Default: none.
	Logger *slog.Logger
}
