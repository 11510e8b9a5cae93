package threadmill

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/observe"
	"github.com/threadmill/threadmill/internal/ops/histories"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/workflows"
)

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
