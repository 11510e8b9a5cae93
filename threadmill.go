package threadmill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/observe"
	"github.com/threadmill/threadmill/internal/ops/histories"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
	"github.com/threadmill/threadmill/internal/ops/queueowner"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/redact/redactlog"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
	"github.com/threadmill/threadmill/workflows"
	"github.com/threadmill/threadmill/world"
)

// Config configures a [Runtime]. Store, and Agents or AgentSource are required.
type Config struct {
	// Temporal is a client, and TemporalNamespace its namespace. Default: a client for the address and the namespace of the environment's
	// TEMPORAL_* variables or configuration file, as Temporal's own tools read them, localhost:7233 and "default" without any. It
	// connects when it is first used, and [Runtime.Stop] closes it.
	Temporal          client.Client
	TemporalNamespace string

	// Replay has the DataConverter, the FailureConverter and the ContextPropagators of the Temporal client, if it has any
	// of its own: the repair after a restore (POST /v1/repair) replays histories, and a client does not tell them.
	Replay worker.WorkflowReplayerOptions

	// Store stores threads: use sqlite.Open or postgres.Open.
	Store store.Store

	// Stream carries tokens to viewers. Default: in memory, for one process. If workers and API
	// are separate processes, use stream/nats.
	Stream stream.Stream

	// Agents are the agents of all threads. The first one is the default agent. An agent that is
	// stored in Store under the same name takes precedence, see docs/agents.md.
	Agents []agent.Agent

	// AgentSource provides further agents, which may change at run time. They take precedence over Agents, and
	// its default agent is that of the threads. If it implements [agent.Lister], the API lists the agents of both.
	// New does not check names of its agents; Run logs those that do not exist.
	AgentSource agent.Source

	// Models are the model providers, by the name before the slash in an agent's model.
	Models map[string]llm.Provider

	// Fallbacks are chains of models, by names without a slash that an agent or TitleModel may name
	// instead of a model. If a model of the chain fails, the next one is called: see [llm.Fallback].
	Fallbacks map[string]llm.Fallback

	// Retention says how long threads are kept. Default: for ever.
	Retention Retention

	// Knowledge configures how documents are indexed and found.
	Knowledge Knowledge

	// TitleModel, "provider/model" or the name of a chain, generates titles of 3 to 6 words for idle threads without one.
	// Default: no titles.
	TitleModel string

	// Tools are all tools. An agent uses those that it names. Agents, hooks and approval rules must not
	// name tools that do not exist.
	Tools []tool.Tool

	// ToolSource provides further tools, which exist only at run time, such as a *mcp.Manager of package
	// tool/mcp for the tools of MCP servers. If it has a method Run(context.Context) error, [Runtime.Run]
	// runs it until the last step has ended. If it knows the states of servers, the API of package httpapi serves them
	// at /v1/mcp. Default: none.
	ToolSource tool.Source

	// ToolsElsewhere declares that other processes run the tools and processors, while this one only
	// serves the API. The workers then check their names.
	ToolsElsewhere bool

	// Hooks intercept every event of every thread before it has any effect, in this order.
	Hooks []hook.Hook

	// Processors replace the default processing of event types, after the hooks.
	Processors []hook.Processor

	// Rules handle environment events, before the default rules: see [rule.Defaults]. RuleSource
	// provides further rules that may change at run time.
	Rules      []rule.Rule
	RuleSource rule.Source

	// Redact replaces text that must not be kept, before it reaches Temporal, Store, Stream, Logger or a model, in
	// each process that has it: see docs/redaction.md. Default: nothing is redacted.
	Redact *redact.Redactor

	// Callbacks see, and may replace, what viewers of the API and of Send see.
	Callbacks Callbacks

	// ApprovalRules apply to the tool calls of all agents, before the agents' own rules. A rule
	// that denies always wins.
	ApprovalRules []approval.Rule

	// ApproverGroups knows the members of the groups that ApprovalRules and agents name in their terms, such as
	// [approval.FixedGroups], or a function that asks a directory. Default: there are no groups.
	ApproverGroups approval.Groups

	// UnlistedApprovals disables the search attribute of threads that wait for approval. This
	// saves two history events and two actions for each wait, but neither "starter approvals" nor
	// Temporal's Web UI then finds these threads.
	UnlistedApprovals bool

	// RegisterWith registers the application's own workflows and activities, such as hook
	// workflows, with the runtime's worker. Register calls it.
	RegisterWith func(worker.Registry)

	// Namespace is the namespace of the threads that Client and the API serve. Default "default".
	// Workers serve all namespaces.
	Namespace string

	// TaskQueue is the task queue of the threads, which belongs to one program: see [Runtime.Serve]. Default: the last element of
	// Program.
	TaskQueue string

	// Program is the name by which workers tell whether they are of the same program. Processes that share a task queue have
	// the same. Default: the path of the main package.
	Program string

	// TakeTaskQueue takes TaskQueue from another program or another store, although workflows of it still run there: they
	// continue with the hooks, approvals and records of this one. Default: that is an error.
	TakeTaskQueue bool

	// ToolQueues are further task queues that Run serves, for tools that declare them:
	// [tool.Definition].TaskQueue. Default: none, and such calls wait for a worker that does.
	ToolQueues []string

	// OnlyToolQueues makes Run serve ToolQueues alone: this process runs tools for threads whose
	// workers run elsewhere.
	OnlyToolQueues bool

	// Deployment makes the workers of this process a build of a Worker Deployment. Default: none.
	Deployment Deployment

	// Propose returns what a changed configuration file would make of this configuration and of its webhooks, for POST /v1/config/diff.
	// Agents are those of the file alone, ClientSide tools those of both. Programs of package app have it. Default: files cannot be compared.
	Propose func(file []byte) (Config, []webhook.Endpoint, error)

	// ModelRetries are the retry policies of model calls, by the names of Models. Default: retry
	// for 2 hours, see [llm.Retry].
	ModelRetries map[string]llm.Retry

	// ModelLimits limit the calls of providers, by the names of Models, by all workers together. The
	// calls then run on a task queue of their own, see docs/models.md. Default: no limits.
	ModelLimits map[string]llm.Limits

	// AnswerWithin is the time in which a thread must answer a post or a request of the API. After it, the post or request fails,
	// and can be repeated. Default 10 seconds.
	AnswerWithin time.Duration

	// StopTimeout is the time that a stopping worker waits for running steps. Another worker
	// retries unfinished steps. Default 10 seconds.
	StopTimeout time.Duration

	// StepsAsActivities runs each step of a turn as an activity. Default: model calls, tools and functions of hooks
	// that usually end within a second run as local activities, see docs/operations.md.
	StepsAsActivities bool

	// StaleAfter is the time after which a running step without heartbeats counts as lost with its
	// worker and is retried. Default 12 seconds, at least 10.
	StaleAfter time.Duration

	// Telemetry configures traces and metrics. Default: none.
	Telemetry telemetry.Config

	// DisableStickyCache makes the worker replay the history for every workflow task. It proves
	// determinism in tests, and is slow.
	DisableStickyCache bool

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Runtime runs threads.
type Runtime struct {
	cfg        Config
	store      runtimeStore
	activities *activities.Activities
	library    *library.Library
	limits     *modelLimits

	// queuesOfSteps are the task queues, besides that of the threads, on which their steps run.
	queuesOfSteps []string

	workflows workflows.Workflows
	stepNames *stepNames
	rules     *rule.Set
	known     names.Known
	client    *threadclient.Client
	feed      *feed.Feed
	world     *world.World
	observer  *observe.Observer
	keeper    *queueowner.Keeper

	background background
}

// minStaleAfter is more than running steps are ever silent: they beat every 4 seconds,
// and the worker holds a beat back for at most 6.
const minStaleAfter = 10 * time.Second

func (r *Runtime) ready(ctx context.Context) map[string]error {
	_, err := r.cfg.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return map[string]error{"temporal": err}
}

func (cfg *Config) setDefaults() error {
	cfg.Program = cmp.Or(cfg.Program, queueowner.Program())
	cfg.TaskQueue = cmp.Or(cfg.TaskQueue, queueowner.Name(cfg.Program))
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = activities.DefaultStopTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Logger = redactlog.New(cfg.Redact, cfg.Logger)
	if cfg.Temporal == nil {
		if err := cfg.dial(); err != nil {
			return fmt.Errorf("threadmill: Config.Temporal: %w", err)
		}
	}
	cfg.TemporalNamespace = cmp.Or(cfg.TemporalNamespace, client.DefaultNamespace)
	if cfg.Stream == nil {
		cfg.Stream = memory.New(memory.Config{})
	}
	if len(cfg.Agents) == 0 && cfg.AgentSource == nil {
		return errors.New("threadmill: Config.Agents is required: at least one agent (or set Config.AgentSource)")
	}
	for i, a := range cfg.Agents {
		if err := a.Validate(); err != nil {
			return fmt.Errorf("threadmill: Config.Agents[%d]: %w", i, err)
		}
	}
	if cfg.AgentSource == nil {
		cfg.AgentSource = agent.Fixed(cfg.Agents)
	} else {
		cfg.AgentSource = withAgents(cfg.AgentSource, cfg.Agents)
	}
	return nil
}

// Client returns a client for the threads.
func (r *Runtime) Client() *threadclient.Client { return r.client }

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
// process handles. Register it in all processes with workers: those whose rules differ from the last one's pause, see [Runtime.Serve].
// The error says which field is wrong, or that the name is taken.
func (r *Runtime) RegisterRule(one rule.Rule) error {
	if err := r.known.Rule(one).First(); err != nil {
		return fmt.Errorf("threadmill: %w", err)
	}
	if err := r.rules.Register(one); err != nil {
		return fmt.Errorf("threadmill: %w", err)
	}
	return nil
}

// Register registers the workflows and activities with a worker of your own. Run it by [Runtime.Serve]. Set its
// MaxHeartbeatThrottleInterval to 6 seconds, its WorkerStopTimeout to more than
// [Config].StopTimeout, its Interceptors to those of [Runtime.WorkerInterceptors], its DeploymentOptions to
// [Runtime.WorkerDeployment], and its Identity to [Runtime.WorkerIdentity].
func (r *Runtime) Register(w worker.Registry) {
	r.workflows.Register(w)
	r.activities.Register(w)
	r.stepNames.register(w)
	if r.cfg.RegisterWith != nil {
		r.cfg.RegisterWith(w)
	}
}

// runtimeStore is what a runtime needs of a store.
type runtimeStore interface {
	activities.Store
	store.Agents
}

// New validates the configuration and returns a runtime. It starts nothing.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	changing, dials := cfg.AgentSource != nil, cfg.Temporal == nil
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.checkQueues(), cfg.checkLimits(), cfg.checkDeployment()); err != nil {
		return nil, err
	}
	tools, err := tool.NewSet(cfg.Tools...)
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config.Tools: %w", err)
	}
	hooks, err := hook.NewSet(hook.Config{Hooks: cfg.Hooks, Processors: cfg.Processors, Redact: redaction.Answer(cfg.Redact)})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	rules, err := rule.NewSet(rule.Config{Rules: cfg.Rules, Source: cfg.RuleSource})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	observer, err := observe.New(cfg.Telemetry, cfg.Redact)
	if err != nil {
		return nil, err
	}
	records, agents := cfg.Store, cfg.AgentSource
	observed, err := store.Ask[runtimeStore](observer.Store(records))
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config.Store: %w", err)
	}
	cfg.Store, cfg.Stream, cfg.Models = observed, observer.Stream(cfg.Stream), observer.Models(cfg.Models)
	known := cfg.known(tools, hooks, changing)
	if err := cfg.checkNames(known); err != nil {
		return nil, err
	}
	cfg.AgentSource = registry.New(cfg.AgentSource, observed, known)
	r := &Runtime{
		cfg: cfg, store: observed, rules: rules, known: known, observer: observer, queuesOfSteps: cfg.stepQueues(tools),
		workflows: workflows.Workflows{Hooks: hooks, Rules: rules, Redact: cfg.Redact, StaleAfter: cfg.StaleAfter},
	}
	r.background.ended = make(chan struct{})
	if dials {
		r.background.close = cfg.Temporal.Close
	}
	if observer != nil {
		r.workflows.Observer = observer
	}
	if err := r.work(tools, hooks); err != nil {
		return nil, err
	}
	r.stepNames = &stepNames{functions: r.activities.Functions(), types: map[string]string{}}
	r.workflows.NameStep = r.stepNames.name
	r.keep(records, agents)
	if err := r.serve(); err != nil {
		return nil, err
	}
	return r, nil
}

// validate reports the first field that has no valid value, whatever the others have.
func (cfg *Config) validate() error {
	switch {
	case cfg.Store == nil:
		return errors.New("threadmill: Config.Store is required: one from sqlite.Open or postgres.Open")
	case cfg.StaleAfter != 0 && cfg.StaleAfter < minStaleAfter:
		return fmt.Errorf("threadmill: Config.StaleAfter is %s, must be at least %s: a busy worker may be silent for a moment", cfg.StaleAfter, minStaleAfter)
	case cfg.AnswerWithin < 0:
		return fmt.Errorf("threadmill: Config.AnswerWithin is %s, must not be negative", cfg.AnswerWithin)
	case cfg.StopTimeout < 0:
		return fmt.Errorf("threadmill: Config.StopTimeout is %s, must not be negative", cfg.StopTimeout)
	case cfg.Telemetry.CountWaiting != 0 && cfg.Telemetry.CountWaiting < telemetry.MinCountWaiting:
		return fmt.Errorf("threadmill: Config.Telemetry.CountWaiting is %s, must be at least %s", cfg.Telemetry.CountWaiting, telemetry.MinCountWaiting)
	}
	if groups, fixed := cfg.ApproverGroups.(approval.FixedGroups); fixed {
		if err := groups.Validate(); err != nil {
			return fmt.Errorf("threadmill: Config.ApproverGroups: %w", err)
		}
	}
	if err := cfg.Retention.validate(); err != nil {
		return err
	}
	return nil
}

// work makes what a worker needs: the client, which its activities use too, and the activities.
func (r *Runtime) work(tools *tool.Set, hooks *hook.Set) (err error) {
	cfg := &r.cfg
	r.client, err = threadclient.New(threadclient.Config{Temporal: cfg.Temporal, Namespace: cfg.Namespace, TaskQueue: cfg.TaskQueue, StepQueues: r.queuesOfSteps, Redact: cfg.Redact, Erased: cfg.erased, Known: cfg.hasRecord, Urgent: cfg.urgent, AnswerWithin: cfg.AnswerWithin})
	if err != nil {
		return err
	}
	r.limits = &modelLimits{cfg: cfg, used: map[string]modellimit.Usage{}}
	documents, err := r.libraryConfig()
	if err != nil {
		return err
	}
	r.library = library.New(documents)
	r.activities, err = activities.New(activities.Config{
		CallTool: r.observer.CallTool, ModelQueues: cfg.modelQueues(), Used: r.limits.add, LimitQueue: cfg.setQueueLimit,
		Agents: cfg.AgentSource, Store: r.store, Stream: cfg.Stream, Models: cfg.Models, Fallbacks: cfg.Fallbacks, Tools: tools, ToolSource: cfg.ToolSource, Hooks: hooks, Rules: r.rules,
		Library: r.library, EntityModel: cfg.Knowledge.EntityModel, Extract: r.jobs().Extract, ApprovalRules: cfg.ApprovalRules, ApproverGroups: cfg.ApproverGroups, UnlistedApprovals: cfg.UnlistedApprovals,
		TitleModel: cfg.TitleModel, ModelRetries: cfg.ModelRetries, StopTimeout: cfg.StopTimeout, Redact: cfg.Redact, Deliver: r.client.Deliver,
		CloseIdle: r.closeIdle, NoLocalSteps: cfg.StepsAsActivities, Retained: r.observer.Retained,
		Histories: histories.Histories{Temporal: cfg.Temporal, Namespace: cfg.TemporalNamespace, TaskQueue: cfg.TaskQueue}, Logger: cfg.Logger,
	})
	return err
}

// serve makes what viewers need.
func (r *Runtime) serve() (err error) {
	// A follower applies the callbacks itself, only to the events of its turn.
	r.feed, err = feed.New(feed.Config{Store: r.cfg.Store, Stream: r.cfg.Stream, Logger: r.cfg.Logger})
	if err != nil {
		return err
	}
	r.world, err = r.newWorld()
	return err
}

func init() { backend.Of = func(runtime any) backend.Backend { return runtime.(*Runtime).backend() } }

// backend is what package httpapi serves.
func (r *Runtime) backend() backend.Backend {
	cfg := &r.cfg
	return backend.Backend{
		Store: cfg.Store, Stream: cfg.Stream, Namespace: r.client.Namespace(), TemporalNamespace: cfg.TemporalNamespace, Library: r.library,
		WithoutEntities: r.activities.WithoutEntities(), Agents: cfg.AgentSource, Known: r.known, Models: slices.Sorted(maps.Keys(cfg.Models)),
		ApproverGroups: cfg.ApproverGroups, ToolSource: cfg.ToolSource, Rules: r.rules, Redact: cfg.Redact, View: cfg.Callbacks.views(cfg.Logger),
		Ready: r.ready, TaskQueue: r.keeper.Problem, Checks: r.check, Repair: r.repair, Due: r.due, Deployment: cfg.deployment().Inspect,
		CompareConfig: r.compare, Observe: r.observer.HTTP, AnswerWithin: cfg.AnswerWithin, Logger: cfg.Logger,
	}
}

// World presents the runtime's namespace as a world of agents: programs publish messages to chats
// and subscribe to their events. See package world. [Config].Callbacks apply to subscribers as to
// all viewers.
func (r *Runtime) World() *world.World { return r.world }

func (r *Runtime) newWorld() (*world.World, error) {
	namespace := r.client.Namespace()
	views := r.cfg.Callbacks.views(r.cfg.Logger)
	return world.New(world.Config{
		Client: r.client, Store: r.cfg.Store, Stream: r.cfg.Stream, Namespace: namespace, Agents: r.cfg.AgentSource, Logger: r.cfg.Logger,
		View: func(chatID string) func(context.Context, event.AgentEvent) event.AgentEvent {
			return views(store.Key{Namespace: namespace, ThreadID: chatID})
		},
	})
}
