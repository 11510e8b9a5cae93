package threadmill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/registry"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
	"github.com/threadmill/threadmill/workflows"
	"github.com/threadmill/threadmill/world"
)

// Config configures a [Runtime]. Temporal, Store, and Agents or Registry are required.
type Config struct {
	// Temporal is a connected client, and TemporalNamespace the namespace that it is
	// connected to. Default "default".
	Temporal          client.Client
	TemporalNamespace string

	// Store keeps threads: sqlite.Open or postgres.Open.
	Store store.Store

	// Stream carries tokens to viewers. Default: in memory, for one process. When
	// workers and API are separate processes, use stream/nats.
	Stream stream.Stream

	// Agents take part in threads; the first is the default agent. Those that Store keeps,
	// see docs/agents.md, come before them.
	Agents []agent.Agent

	// Registry replaces Agents where they change while the process runs. If it is an
	// [agent.Lister] as well, the API lists them.
	Registry agent.Registry

	// Models are the providers of models, by the name that stands before the slash of
	// an agent's model.
	Models map[string]llm.Provider

	// TitleModel, "provider/model", gives threads that have no title one when they fall
	// idle: 3 to 6 words about what was said first or, when the model fails, the beginning
	// of that. Default: they are given none.
	TitleModel string

	// Tools are all tools; an agent uses those that it names.
	Tools []tool.Tool

	// Hooks see every event of every thread before it has any effect, in this order.
	Hooks []hook.Hook

	// Processors replace the default processing of types of events, after the hooks.
	Processors []hook.Processor

	// Rules say what becomes of environment events, before the default rules: see
	// [rule.Defaults].
	Rules []rule.Rule

	// RuleSource has further rules, which may change while the process runs.
	RuleSource rule.Source

	// Webhooks are what Handler serves at /v1/webhooks/. WebhookSource has further ones,
	// which may change while the process runs.
	Webhooks      []webhook.Source
	WebhookSource func() []webhook.Source

	// Authenticator says who sends a request to Handler, and what they may do. Default: nobody
	// is asked, so that whoever reaches Handler may do everything.
	Authenticator auth.Authenticator

	// Callbacks see, and may replace, what the viewers of this runtime are shown: those
	// of Handler and of Run.
	Callbacks Callbacks

	// ApprovalRules are asked about the tool calls of all agents, before the agents' own.
	// One that denies always wins.
	ApprovalRules []approval.Rule

	// UnlistedApprovals leaves a thread that waits for approval as it is among Temporal's
	// search attributes. It saves two events and two actions for each wait, but then such
	// threads are not found: not by GET /v1/approvals, nor in Temporal's Web UI.
	UnlistedApprovals bool

	// RegisterWith registers what is the application's own, such as hook workflows, with
	// the runtime's worker. Register calls it.
	RegisterWith func(worker.Registry)

	// AllowedHosts are names by which requests may call Handler, such as
	// "threadmill.example", or "*.example" for all names below it. Requests may always use
	// localhost and loopback addresses and, where they do not arrive at a loopback address,
	// any IP address. A request with another Host gets 421, so that no web page can reach
	// the API by DNS rebinding. Default: no other names.
	AllowedHosts []string

	// Namespace of the threads that Client and Handler serve. Default "default".
	// Workers serve all namespaces.
	Namespace string

	// TaskQueue of the threads. Default "threadmill".
	TaskQueue string

	// ModelRetries say how model calls that fail in a way that may pass are made again, by
	// the names of Models. Default: for 2 hours, see [llm.Retry].
	ModelRetries map[string]llm.Retry

	// StopTimeout is how long a worker that stops waits for running steps. What is
	// not done by then is retried by another worker. Default 10 seconds.
	StopTimeout time.Duration

	// StaleAfter is how long a running step may be silent before it counts as lost with
	// its worker, and is run again. Default 12 seconds, at least 10.
	StaleAfter time.Duration

	// DisableStickyCache makes the worker replay every workflow task from its history.
	// It proves determinism in tests and costs much.
	DisableStickyCache bool

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Runtime runs threads.
type Runtime struct {
	cfg        Config
	activities *activities.Activities
	workflows  workflows.Workflows
	rules      *rule.Set
	client     *threadclient.Client
	feed       *feed.Feed
	world      *world.World
	handler    http.Handler

	closeStreams context.CancelFunc
}

// New checks the configuration and makes a runtime. It starts nothing.
func New(cfg Config) (*Runtime, error) {
	if cfg.Temporal == nil {
		return nil, errors.New("threadmill: Config.Temporal is required: a client from client.Dial")
	}
	if cfg.Store == nil {
		return nil, errors.New("threadmill: Config.Store is required: one from sqlite.Open or postgres.Open")
	}
	if cfg.StaleAfter != 0 && cfg.StaleAfter < minStaleAfter {
		return nil, fmt.Errorf("threadmill: Config.StaleAfter is %s, must be at least %s: a busy worker may be silent for a moment", cfg.StaleAfter, minStaleAfter)
	}
	if cfg.StopTimeout < 0 {
		return nil, fmt.Errorf("threadmill: Config.StopTimeout is %s, must not be negative", cfg.StopTimeout)
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Registry = registry.New(cfg.Registry, cfg.Store)
	tools, err := tool.NewSet(cfg.Tools...)
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config.Tools: %w", err)
	}
	hooks, err := hook.NewSet(hook.Config{Hooks: cfg.Hooks, Processors: cfg.Processors})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	if err := webhook.ValidateAll(cfg.Webhooks); err != nil {
		return nil, fmt.Errorf("threadmill: Config.Webhooks: %w", err)
	}
	rules, err := rule.NewSet(rule.Config{Rules: cfg.Rules, Source: cfg.RuleSource})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	r := &Runtime{cfg: cfg, rules: rules, workflows: workflows.Workflows{Hooks: hooks, Rules: rules, StaleAfter: cfg.StaleAfter}}
	r.client, err = threadclient.New(threadclient.Config{Temporal: cfg.Temporal, Namespace: cfg.Namespace, TaskQueue: cfg.TaskQueue})
	if err != nil {
		return nil, err
	}
	r.activities, err = activities.New(activities.Config{
		Agents: cfg.Registry, Store: cfg.Store, Stream: cfg.Stream, Models: cfg.Models, Tools: tools, Hooks: hooks, Rules: rules,
		ApprovalRules: cfg.ApprovalRules, UnlistedApprovals: cfg.UnlistedApprovals,
		TitleModel: cfg.TitleModel, ModelRetries: cfg.ModelRetries, StopTimeout: cfg.StopTimeout, Deliver: r.client.Deliver, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	// A run applies the callbacks itself, to its own events only.
	r.feed, err = feed.New(feed.Config{Store: cfg.Store, Stream: cfg.Stream, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if r.world, err = r.newWorld(); err != nil {
		return nil, err
	}
	closing, closeStreams := context.WithCancel(context.Background())
	r.closeStreams = closeStreams
	r.handler, err = server.New(server.Config{
		Threads: r.client, Store: cfg.Store, Stream: cfg.Stream, Agents: cfg.Registry, Namespace: r.client.Namespace(),
		Authenticator: cfg.Authenticator, Tools: append(builtin.Names(), tools.Names()...), Models: slices.Sorted(maps.Keys(cfg.Models)),
		View: cfg.Callbacks.views(cfg.Logger), Ready: r.ready, Closing: closing, Logger: cfg.Logger, Webhooks: cfg.webhooks,
		AllowedHosts: cfg.AllowedHosts,
	})
	return r, err
}

// minStaleAfter is more than running steps are ever silent: they beat every 4 seconds,
// and the worker holds a beat back for at most 6.
const minStaleAfter = 10 * time.Second

func (r *Runtime) ready(ctx context.Context) map[string]error {
	_, err := r.cfg.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return map[string]error{"temporal": err}
}

func (cfg *Config) setDefaults() error {
	if cfg.TaskQueue == "" {
		cfg.TaskQueue = signals.DefaultTaskQueue
	}
	if cfg.TemporalNamespace == "" {
		cfg.TemporalNamespace = client.DefaultNamespace
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = activities.DefaultStopTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Stream == nil {
		cfg.Stream = memory.New(memory.Config{})
	}
	if cfg.Registry != nil {
		return nil
	}
	if len(cfg.Agents) == 0 {
		return errors.New("threadmill: Config.Agents is required: at least one agent (or set Config.Registry)")
	}
	for i, a := range cfg.Agents {
		if err := a.Validate(); err != nil {
			return fmt.Errorf("threadmill: Config.Agents[%d]: %w", i, err)
		}
	}
	cfg.Registry = agent.Fixed(cfg.Agents)
	return nil
}

// Client is a typed client for the threads.
func (r *Runtime) Client() *threadclient.Client { return r.client }

// Handler serves the HTTP API. It needs no worker in the same process.
func (r *Runtime) Handler() http.Handler { return r.handler }

// webhooks are those that are served at the moment. Config's own come first.
func (cfg *Config) webhooks() []webhook.Source {
	if cfg.WebhookSource == nil {
		return cfg.Webhooks
	}
	return append(slices.Clone(cfg.Webhooks), cfg.WebhookSource()...)
}

// Publish publishes an environment event: to the thread that its metadata names as
// trigger_session_id. See [threadclient.Client.Publish], which can do more.
func (r *Runtime) Publish(ctx context.Context, e event.EnvEvent) (threadclient.PublishResult, error) {
	out, err := r.client.Publish(ctx, "", e, threadclient.PublishOptions{})
	if err == nil && out.Warning != "" {
		r.cfg.Logger.Warn(out.Warning, "event", out.EventID, "type", e.Type)
	}
	return out, err
}

// RegisterRule adds a rule, which applies from the next event on: to those that this
// process handles. The error says which field is wrong, or that the name is taken.
func (r *Runtime) RegisterRule(one rule.Rule) error {
	if err := r.rules.Register(one); err != nil {
		return fmt.Errorf("threadmill: %w", err)
	}
	return nil
}

// CloseStreams ends the event streams of Handler, which otherwise last as long as
// their clients do. Give it to http.Server.RegisterOnShutdown.
func (r *Runtime) CloseStreams() { r.closeStreams() }

// Register adds the thread workflow and its activities to a worker of your own. Its
// MaxHeartbeatThrottleInterval should be 6 seconds, and its WorkerStopTimeout more than
// Config.StopTimeout.
func (r *Runtime) Register(w worker.Registry) {
	r.workflows.Register(w)
	r.activities.Register(w)
	if r.cfg.RegisterWith != nil {
		r.cfg.RegisterWith(w)
	}
}

// reportWithin is how long a step that StopTimeout has ended may take to say so.
const reportWithin = 5 * time.Second

// Work runs a worker until ctx ends, and lets running steps finish for
// Config.StopTimeout. Before that it makes sure that Temporal knows the search
// attributes of threads. The end of ctx is no error.
func (r *Runtime) Work(ctx context.Context) error {
	if err := threadclient.EnsureAttributes(ctx, r.cfg.Temporal, r.cfg.TemporalNamespace); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if r.cfg.DisableStickyCache {
		worker.SetStickyWorkflowCacheSize(0)
	}
	fatal := make(chan error, 1)
	w := worker.New(r.cfg.Temporal, r.cfg.TaskQueue, worker.Options{
		// The default pollers prefer the sticky queue and starve new threads.
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		WorkerStopTimeout:          r.cfg.StopTimeout + reportWithin,

		MaxHeartbeatThrottleInterval: activities.HeartbeatThrottle,
		// A task takes milliseconds. A machine that stops for the SDK's one second is no
		// deadlock, and what it is taken for costs history.
		DeadlockDetectionTimeout: 5 * time.Second,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	r.Register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	defer w.Stop()
	r.cfg.Logger.Info("worker runs", "taskQueue", r.cfg.TaskQueue)
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("the worker stopped: %w", err)
	}
}
