package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/outage"
	"github.com/threadmill/threadmill/internal/registry"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
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

// Threads is what the API needs of a [threadclient.Client]. Each group of operations has an
// interface of its own.
type Threads interface {
	Lifecycle
	Messenger
	Queues
	Publisher
	Approvals
	Tasks
	Schedules
	world.Threads
}

var _ Threads = (*threadclient.Client)(nil)

// Config configures the API. Threads, Store and Stream are required.
type Config struct {
	Threads Threads
	Store   store.Store
	Stream  stream.Stream

	// Namespace of the threads; it must be that of Threads. Default "default".
	Namespace string

	// Authenticator says who sends a request. Default: nobody is asked, and requests say who
	// they are from.
	Authenticator auth.Authenticator

	// AuthCheckInterval is how often a request that lasts is authenticated again. Default 3 s.
	AuthCheckInterval time.Duration

	// Agents knows the agents that a thread can be opened with, but for those that the
	// store keeps. Default: any name will do.
	Agents agent.Source

	// Tools and Models are the names of the tools and of the providers of models that the
	// workers have: those who define agents are warned of others. Nil = not known here.
	Tools, Models []string

	// View is what the viewers of a thread see: see [feed.Config]. Default: all as it is.
	View func(store.Key) feed.View

	// Webhooks are served at /v1/webhooks/, and so are those of WebhookSource. Default: none.
	Webhooks      []webhook.Endpoint
	WebhookSource webhook.Source

	// Ready adds components to /readyz beside store and stream, such as temporal; nil
	// is an answer, an error is none. It gets two seconds.
	Ready func(ctx context.Context) map[string]error

	// Closing ends the event streams when it is done; cancel it when the server shuts
	// down (http.Server.RegisterOnShutdown). Default: they end with their connections.
	Closing context.Context

	// AllowedHosts are names by which requests may call the server, besides those that
	// always may: see [guard.Hosts]. Default: none.
	AllowedHosts []string

	// MaxBody bounds the body of a request, in bytes. Default 1 MiB.
	MaxBody int64

	// MaxViewers bounds the event streams that are open at once: further ones get 503.
	// Default 10,000.
	MaxViewers int

	// Limits bound how slow a client may be.
	Limits guard.Limits

	// Heartbeat is the time between comments on a quiet event stream. Default 15 s.
	Heartbeat time.Duration

	// AnswerWithin is how long a worker may take to answer, before the request fails
	// with 503. Default 10 s.
	AnswerWithin time.Duration

	// WaitLimit is how long ?wait=true waits for a turn, before it is answered with
	// 202. Default 10 minutes.
	WaitLimit time.Duration

	// Version of the API's description. Default "dev".
	Version string

	// Logger gets failures. Default: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Threads == nil:
		return c, errors.New("server: Config.Threads is required")
	case c.Store == nil:
		return c, errors.New("server: Config.Store is required")
	case c.Stream == nil:
		return c, errors.New("server: Config.Stream is required")
	}
	for _, setting := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"MaxBody", c.MaxBody, c.MaxBody < 0},
		{"MaxViewers", c.MaxViewers, c.MaxViewers < 0},
		{"Limits.BodyTimeout", c.Limits.BodyTimeout, c.Limits.BodyTimeout < 0},
		{"Limits.WriteTimeout", c.Limits.WriteTimeout, c.Limits.WriteTimeout < 0},
		{"Heartbeat", c.Heartbeat, c.Heartbeat < 0},
		{"AnswerWithin", c.AnswerWithin, c.AnswerWithin < 0},
		{"AuthCheckInterval", c.AuthCheckInterval, c.AuthCheckInterval < 0},
		{"WaitLimit", c.WaitLimit, c.WaitLimit < 0},
	} {
		if setting.negative {
			return c, fmt.Errorf("server: Config.%s: %v is negative", setting.name, setting.value)
		}
	}
	if err := (guard.Hosts{Allowed: c.AllowedHosts}).Validate(); err != nil {
		return c, fmt.Errorf("server: Config.AllowedHosts: %w", err)
	}
	if c.Closing == nil {
		c.Closing = context.Background()
	}
	c.Namespace = cmp.Or(c.Namespace, signals.DefaultNamespace)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
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

// New makes the handler of the API.
func New(cfg Config) (http.Handler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Store = &timedStore{Store: cfg.Store, within: cfg.AnswerWithin, log: outage.New(cfg.Logger, "store")}
	agents := registry.New(cfg.Agents, cfg.Store)
	events, err := feed.New(feed.Config{
		Store: cfg.Store, Stream: cfg.Stream, HeartbeatInterval: cfg.Heartbeat, View: cfg.View, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	chats, err := world.New(world.Config{
		Client: cfg.Threads, Store: cfg.Store, Stream: cfg.Stream, Namespace: cfg.Namespace, Agents: agents, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	mux := http.NewServeMux()
	a := &access{
		authenticator: cfg.Authenticator, namespace: cfg.Namespace, interval: cfg.AuthCheckInterval, logger: cfg.Logger, routes: map[string]route{},
	}
	c := &core{
		access: a, api: humago.New(mux, describe(cfg.Version)), namespace: cfg.Namespace,
		answerWithin: cfg.AnswerWithin, maxBody: cfg.MaxBody, logger: cfg.Logger,
	}
	l := &lookup{core: c, store: cfg.Store, state: cfg.Threads}
	if cfg.Agents != nil {
		l.registry = agents
	}
	v := &viewers{max: cfg.MaxViewers, heartbeat: cfg.Heartbeat, closing: cfg.Closing}

	(&threadHandlers{l, cfg.Threads}).registerThreads()
	(&messageHandlers{l, cfg.Threads, cfg.WaitLimit}).registerMessages()
	(&queueHandlers{l, cfg.Threads}).registerQueue()
	(&eventHandlers{l, newViews(events, cfg.Store), v}).registerEvents()
	(&publishHandlers{c, cfg.Threads}).registerPublish()
	(&promptHandlers{c, cfg.Threads}).registerSessions(mux)
	(&worldHandlers{l, chats}).registerWorld()
	approvals := &approvalHandlers{l, cfg.Threads}
	approvals.registerApprovals()
	approvals.registerGrants()
	approvals.registerDecisions()
	approvals.registerToolResults()
	(&agentHandlers{c, agents, cfg.Store, v, cfg.Tools, cfg.Models}).registerAgents()
	(&taskHandlers{c, cfg.Threads, cfg.Store, cfg.Stream}).registerTasks()
	(&scheduleHandlers{l, cfg.Threads}).registerSchedules()
	(&webhookHandlers{c, cfg.Threads, cfg.Webhooks, cfg.WebhookSource}).registerWebhooks()
	(&keyHandlers{c, cfg.Store}).registerKeys()
	(&healthHandlers{core: c, store: cfg.Store, stream: cfg.Stream, ready: cfg.Ready}).registerHealth()
	c.registerDocs(mux)
	return cfg.Limits.Handler(a.protect(a.explainUnmatched(mux), cfg.AllowedHosts)), nil
}

const openAPIPath = "/openapi"

func describe(version string) huma.Config {
	cfg := huma.DefaultConfig("Threadmill", version)
	cfg.Info.Description = "Durable agent threads. Errors are RFC 9457 problem documents."
	// Neither a docs page that loads scripts from elsewhere, nor $schema links in answers.
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = openAPIPath, "", "", nil
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{securityScheme: { //nolint:gosec // it has no credentials
		Type: "http", Scheme: "bearer", BearerFormat: "tmk_<id>_<secret>",
		Description: "An API key, if the server requires one. Each operation names the role it needs.",
	}}
	cfg.Transformers = []huma.Transformer{completeProblem}
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	// Metadata is one object with names of its own.
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[event.EnvMetadata](), reflect.TypeFor[map[string]any]())
	strict := huma.DefaultJSONFormat
	strict.Unmarshal = func(data []byte, v any) error { return event.DecodeJSON("", data, v) }
	cfg.Formats = map[string]huma.Format{typeJSON: strict, "json": strict}
	return cfg
}

// schemaNames are the schemas that are not called as their types are, whose packages say what
// they are of.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[event.Item]():             "QueueItem",
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

func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := schemaNames[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}
