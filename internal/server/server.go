package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/chat/chatfeed"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/observe/outage"
	"github.com/threadmill/threadmill/internal/server/presence"
	"github.com/threadmill/threadmill/internal/text/markdown"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
	"github.com/threadmill/threadmill/world"
)

// Defaults of [Config].
const (
	DefaultMaxBody      = 1 << 20
	DefaultAnswerWithin = 10 * time.Second
	DefaultWaitLimit    = 10 * time.Minute

	DefaultAuthCheckInterval = 3 * time.Second
	DefaultMaxViewers        = 10_000
)

// Threads is the part of a [threadclient.Client] that the API needs, with an interface for each
// group of operations.
type Threads interface {
	Lifecycle
	Messenger
	Queues
	Publisher
	Approvals
	Tasks
	Schedules
	Workers
	Eraser
	world.Threads
}

var _ Threads = (*threadclient.Client)(nil)

// Store is what the API serves of a store.
type Store interface {
	store.Store
	store.Agents
	store.APIKeys
	store.Documents
	store.Knowledge
	store.Entities
	store.Erasures
}

// Config configures the API. Threads, and what [backend.Backend] requires, are required.
type Config struct {
	backend.Backend

	// Threads are those of the Backend's Namespace.
	Threads Threads

	// Authenticator authenticates requests. Default: no authentication; requests state who acts.
	Authenticator auth.Authenticator

	// AuthCheckInterval is the interval at which long requests are authenticated again. Default 3
	// s.
	AuthCheckInterval time.Duration

	// Webhooks, and those of WebhookSource, are served at /v1/webhooks/. Default: none.
	Webhooks      []webhook.Endpoint
	WebhookSource webhook.Source

	// Routes are the handlers of the application. They are asked for once, in New. Default: none.
	Routes func() []Route

	// Closing ends the event streams when it is done; cancel it when the server shuts down
	// (http.Server.RegisterOnShutdown). Default: they end with their connections.
	Closing context.Context

	// AllowedHosts are further host names by which requests may reach the server: see
	// [guard.Hosts]. Default: none.
	AllowedHosts []string

	// AllowedOrigins are the origins whose web pages may call the API: see [guard.Origins]. Default:
	// none but the server's own.
	AllowedOrigins []string

	// MaxBody is the maximum size of a request's body, in bytes. Default 1 MiB.
	MaxBody int64

	// MaxUpload is the maximum size of a file that is uploaded as a document, in bytes. Default, and maximum, 32 MiB.
	MaxUpload int64

	// MaxViewers is the maximum number of open event streams; further ones get 503. Default 10,000.
	MaxViewers int

	// Limits are the limits on slow clients.
	Limits guard.Limits

	// Heartbeat is the interval of comments on a quiet event stream. Default 15 s.
	Heartbeat time.Duration

	// WaitLimit is the time that ?wait=true waits for a turn before the response is 202. Default 10
	// minutes.
	WaitLimit time.Duration

	// TemporalUI is the address of Temporal's Web UI, to which the page links. Default: no links.
	TemporalUI string

	// Version is the version in the OpenAPI document. Default "dev".
	Version string
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Threads == nil:
		return c, errors.New("httpapi: Config.Threads is required")
	case c.Store == nil:
		return c, errors.New("httpapi: Config.Store is required")
	case c.Stream == nil:
		return c, errors.New("httpapi: Config.Stream is required")
	case c.Library == nil:
		return c, errors.New("httpapi: Config.Library is required")
	case c.MaxUpload > maxUpload:
		return c, fmt.Errorf("httpapi: Config.MaxUpload: %d is more than %d", c.MaxUpload, maxUpload)
	}
	for _, setting := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"MaxBody", c.MaxBody, c.MaxBody < 0},
		{"MaxUpload", c.MaxUpload, c.MaxUpload < 0},
		{"MaxViewers", c.MaxViewers, c.MaxViewers < 0},
		{"Limits.BodyTimeout", c.Limits.BodyTimeout, c.Limits.BodyTimeout < 0},
		{"Limits.WriteTimeout", c.Limits.WriteTimeout, c.Limits.WriteTimeout < 0},
		{"Heartbeat", c.Heartbeat, c.Heartbeat < 0},
		{"AnswerWithin", c.AnswerWithin, c.AnswerWithin < 0},
		{"AuthCheckInterval", c.AuthCheckInterval, c.AuthCheckInterval < 0},
		{"WaitLimit", c.WaitLimit, c.WaitLimit < 0},
	} {
		if setting.negative {
			return c, fmt.Errorf("httpapi: Config.%s: %v is negative", setting.name, setting.value)
		}
	}
	if err := (guard.Hosts{Allowed: c.AllowedHosts}).Validate(); err != nil {
		return c, fmt.Errorf("httpapi: Config.AllowedHosts: %w", err)
	}
	if err := guard.Origins(c.AllowedOrigins).Validate(); err != nil {
		return c, fmt.Errorf("httpapi: Config.AllowedOrigins: %w", err)
	}
	if c.Closing == nil {
		c.Closing = context.Background()
	}
	c.Namespace = cmp.Or(c.Namespace, signals.DefaultNamespace)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.MaxUpload = cmp.Or(c.MaxUpload, maxUpload)
	c.Heartbeat = cmp.Or(c.Heartbeat, feed.DefaultHeartbeatInterval)
	c.AnswerWithin = cmp.Or(c.AnswerWithin, DefaultAnswerWithin)
	c.AuthCheckInterval = cmp.Or(c.AuthCheckInterval, DefaultAuthCheckInterval)
	c.WaitLimit = cmp.Or(c.WaitLimit, DefaultWaitLimit)
	c.MaxViewers = cmp.Or(c.MaxViewers, DefaultMaxViewers)
	c.Version = cmp.Or(c.Version, "dev")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// webhooks returns those that are configured now.
func (c Config) webhooks() []webhook.Endpoint {
	if c.WebhookSource == nil {
		return c.Webhooks
	}
	return slices.Concat(c.Webhooks, c.WebhookSource.Webhooks())
}

// workflowsURL returns the address of the list of workflows in Temporal's Web UI.
func (c Config) workflowsURL() string {
	if c.TemporalUI == "" {
		return ""
	}
	return c.TemporalUI + "/namespaces/" + url.PathEscape(c.TemporalNamespace) + "/workflows"
}

// toolServers returns the MCP servers of a source of tools, the logins to them, and those that are declared at run time.
func toolServers(source tool.Source) (ToolServers, ToolLogins, *toolserver.Registry) {
	servers, _ := source.(ToolServers)
	var logins ToolLogins
	if s, ok := source.(interface{ Logins() ToolLogins }); ok {
		logins = s.Logins()
	}
	var declared *toolserver.Registry
	if s, ok := source.(interface{ Declared() *toolserver.Registry }); ok {
		declared = s.Declared()
	}
	return servers, logins, declared
}

// New returns the handler of the API.
func New(cfg Config) (http.Handler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	records, err := store.Ask[Store](limited(cfg.Store, cfg.AnswerWithin, outage.New(cfg.Logger, "store")))
	if err != nil {
		return nil, fmt.Errorf("httpapi: Config.Store: %w", err)
	}
	cfg.Store = records
	agents := registry.New(cfg.Agents, records, names.Known{Tools: cfg.Known.Tools, Fallbacks: cfg.Known.Fallbacks})
	events, err := feed.New(feed.Config{
		Store: cfg.Store, Stream: cfg.Stream, HeartbeatInterval: cfg.Heartbeat, View: cfg.View, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	chats, err := world.New(world.Config{
		Client: cfg.Threads, Store: cfg.Store, Stream: cfg.Stream, Namespace: cfg.Namespace, Agents: agents, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	mux := http.NewServeMux()
	a := &access{
		authenticator: cfg.Authenticator, namespace: cfg.Namespace, interval: cfg.AuthCheckInterval, logger: cfg.Logger, slots: newSlots(cfg.AnswerWithin), routes: map[string]route{},
	}
	c := &core{
		access: a, api: humago.New(mux, describe(cfg.Version)), namespace: cfg.Namespace,
		answerWithin: cfg.AnswerWithin, maxBody: cfg.MaxBody, logger: cfg.Logger, redact: cfg.Redact,
	}
	l := &lookup{core: c, store: cfg.Store, state: cfg.Threads}
	if cfg.Agents != nil {
		l.registry = agents
	}
	keys := &keyHandlers{c, records}
	a.identities = identities{cfg.Namespace, agents, keys.keys}
	servers, logins, declared := toolServers(cfg.ToolSource)
	v := &viewers{max: cfg.MaxViewers, heartbeat: cfg.Heartbeat, closing: cfg.Closing}

	(&threadHandlers{l, cfg.Threads, v}).registerThreads()
	(&presenceHandlers{l, presence.New(cfg.Stream, time.Now, cfg.Logger)}).registerPresence()
	(&erasureHandlers{c, cfg.Threads, records}).registerErasures()
	(&exportHandlers{l, records}).registerExport()
	(&messageHandlers{l, cfg.Threads, events, cfg.WaitLimit}).registerMessages()
	(&queueHandlers{l, cfg.Threads}).registerQueue()
	eventsOf := &eventHandlers{l, newViews(events, cfg.Store), v, cfg.Threads}
	eventsOf.registerEvents()
	eventsOf.registerFollow()
	eventsOf.registerTickets()
	eventsOf.registerRecords()
	eventsOf.registerModelCalls()
	eventsOf.registerToolCalls()
	(&publishHandlers{c, cfg.Threads}).registerPublish()
	(&promptHandlers{c, cfg.Threads}).registerSessions(mux)
	(&worldHandlers{l, chats}).registerWorld()
	chat := &chatHandlers{l, cfg.Threads, &chatfeed.Feed{
		Namespace: cfg.Namespace, Store: cfg.Store, Events: events, Threads: timedThreads{c, cfg.Threads}, WaitLimit: cfg.WaitLimit,
	}, v}
	chat.registerChat()
	(&aguiHandlers{chat}).registerAGUI()
	approvals := &approvalHandlers{l, cfg.Threads}
	approvals.registerApprovals()
	approvals.registerGrants()
	approvals.registerDecisions()
	approvals.registerToolResults()
	approvals.registerInputs()
	(&agentHandlers{c, agents, records, v, cfg.Known.Tools, cfg.Models, cfg.Known.Fallbacks, cfg.ApproverGroups}).registerAgents()
	(&taskHandlers{c, cfg.Threads, cfg.Store, cfg.Stream}).registerTasks()
	(&scheduleHandlers{l, cfg.Threads, records}).registerSchedules()
	(&webhookHandlers{c, cfg.Threads, cfg.webhooks}).registerWebhooks()
	keys.registerKeys()
	(&mcpServerHandlers{c, servers, logins, declared}).registerMCP()
	(&loginHandlers{c, logins, servers, waitingLists{cfg.Store, c.namespace}, cfg.Threads, cfg.Closing}).registerLogins(mux)
	(&knowledgeHandlers{c, cfg.Library.WithStore(records), cfg.MaxUpload, newUploads(), cfg.WithoutEntities}).registerKnowledge()
	(&entityHandlers{c, records}).registerEntities()
	workers := newWorkerWatch(cfg.Threads, cfg.TaskQueue)
	(&healthHandlers{core: c, store: cfg.Store, stream: cfg.Stream, ready: cfg.Ready, workers: workers}).registerHealth()
	(&configHandlers{c, cfg.CompareConfig, cfg.webhooks}).registerConfig()
	(&infoHandlers{c, workers, cfg.Deployment, cfg.Version, cfg.workflowsURL()}).registerInfo()
	(&checkHandlers{c, cfg.Store, cfg.Stream, cfg.Checks}).registerChecks()
	(&repairHandlers{c, cfg.Repair}).registerRepair()
	(&retentionHandlers{c, cfg.Due}).registerRetention()
	(&ruleHandlers{c, cfg.Rules}).registerRules()
	c.registerMarkdown()
	c.registerDocs(mux)
	c.registerPage(mux)
	if cfg.Routes != nil {
		if err := a.registerRoutes(mux, cfg.Routes()); err != nil {
			return nil, fmt.Errorf("httpapi: %w", err)
		}
	}
	handler := a.protect(a.explainUnmatched(mux), cfg.AllowedHosts, cfg.AllowedOrigins)
	if err := registerMCP(c, mux, handler, v, cfg); err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	if cfg.Observe != nil {
		handler = cfg.Observe(handler, func(r *http.Request) string {
			_, pattern := mux.Handler(r)
			return pattern
		})
	}
	return cfg.Limits.Handler(handler), nil
}

// schemaPrefix begins the references to schemas.
const schemaPrefix = "#/components/schemas/"

func describe(version string) huma.Config {
	cfg := huma.DefaultConfig("Threadmill", version)
	cfg.Info.Description = introduction
	cfg.Info.License = &huma.License{Name: "MIT", Identifier: "MIT"}
	cfg.Info.Contact = &huma.Contact{Name: "Threadmill", URL: "https://github.com/threadmill/threadmill"}
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The server that serves this document"}}
	cfg.Security = []map[string][]string{{securityScheme: {}}}
	cfg.Tags = tags
	// The API has no docs page that loads scripts from elsewhere, and no $schema links in
	// responses.
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{securityScheme: { //nolint:gosec // it has no credentials
		Type: "http", Scheme: "bearer", BearerFormat: "tmk_<id>_<secret>",
		Description: "An API key, if the server requires one. Each operation names the role it needs.",
	}}
	cfg.Transformers = []huma.Transformer{completeProblem}
	cfg.Components.Schemas = schemas()
	strict := huma.DefaultJSONFormat
	strict.Unmarshal = func(data []byte, v any) error { return event.DecodeJSON("", data, v) }
	cfg.Formats = map[string]huma.Format{typeJSON: strict, "json": strict}
	return cfg
}

// schemaNames are the schemas whose names differ from those of their Go types.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[llm.Message]():            "ModelMessage",
	reflect.TypeFor[llm.Request]():            "ModelRequest",
	reflect.TypeFor[llm.Tool]():               "ModelTool",
	reflect.TypeFor[modelCallView]():          "ModelCall",
	reflect.TypeFor[toolCallRunView]():        "ToolCallRun",
	reflect.TypeFor[event.Item]():             "QueueItem",
	reflect.TypeFor[markdown.Node]():          "MarkdownNode",
	reflect.TypeFor[library.Found]():          "KnowledgeSearch",
	reflect.TypeFor[api.Knowledge]():          "Knowledge",
	reflect.TypeFor[api.NewDocument]():        "NewKnowledgeDocument",
	reflect.TypeFor[agent.Definition]():       "AgentDefinition",
	reflect.TypeFor[agent.RuleDefinition]():   "AgentApprovalRule",
	reflect.TypeFor[agent.TermsDefinition]():  "AgentApprovalTerms",
	reflect.TypeFor[agent.LimitsDefinition](): "AgentDefinitionLimit",
	reflect.TypeFor[agent.Summary]():          "AgentSummary",
	reflect.TypeFor[agent.Detail]():           "AgentDetail",
	reflect.TypeFor[agent.Version]():          "AgentVersion",
	reflect.TypeFor[page[event.PagedEvent]](): "EventPage",
	reflect.TypeFor[page[event.EnvEvent]]():   "EnvPage",
	reflect.TypeFor[page[event.WorldEvent]](): "WorldPage",
}

// bodyNames are the schemas of bodies whose names would say less.
var bodyNames = map[string]string{
	"AddBody":                 "NewQueueItem",
	"ListKnowledgeOutputBody": "KnowledgeDocumentPage",
	"ChunksOutputBody":        "ChunkPage",
	"AgentVersionsOutputBody": "AgentVersionPage",
	"AgentsOutputBody":        "AgentList",
	"MarkdownInputBody":       "MarkdownTexts",
	"MarkdownOutputBody":      "MarkdownDocuments",
	"RecordsOutputBody":       "RecordPage",
	"RulesOutputBody":         "RuleList",
	"RuleTestOutputBody":      "RuleTest",
	"CancelInputBody":         "TaskCancellation",
	"CompleteInputBody":       "TaskCompletion",
	"CreateKeyInputBody":      "APIKeyRequest",
	"DecideBody":              "DecisionRequest",
	"DecisionsOutputBody":     "DecisionPage",
	"GrantsOutputBody":        "GrantList",
	"InterruptInputBody":      "Interrupt",
	"KeysOutputBody":          "APIKeyList",
	"MessagesOutputBody":      "MessagePage",
	"NoteInputBody":           "ScheduleNote",
	"OpenBody":                "NewThread",
	"OpenOutputBody":          "OpenedThread",
	"PostBody":                "MessagePost",
	"ProgressInputBody":       "TaskProgressReport",
	"PublishBody":             "EnvEventPost",
	"RetryInputBody":          "QueueRetry",
	"RotateKeyInputBody":      "APIKeyRotation",
	"SchedulesOutputBody":     "ScheduleList",
	"StatusInputBody":         "QueueItemStatus",
	"McpServersOutputBody":    "MCPServerList",
	"ToolDecisionInputBody":   "WorldDecision",
	"ToolResultInputBody":     "ClientResult",
	"AnswerInputInputBody":    "InputAnswers",
	"UpdateInputBody":         "ThreadUpdate",
	"WorldMessageInputBody":   "NewWorldMessage",
	"WorldMessagesOutputBody": "WorldMessagePage",
	"ErrorModel":              "Problem",
	"ErrorDetail":             "ProblemDetail",
}

func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := schemaNames[t]; ok {
		return name
	}
	name := huma.DefaultSchemaNamer(t, hint)
	return cmp.Or(bodyNames[name], name)
}
