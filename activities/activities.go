package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// Store is what activities need of a store.
type Store interface {
	store.Store
	store.Documents
	store.Knowledge
	store.Entities
	store.Erasures
}

// Config configures [Activities].
type Config struct {
	// Agents, Store and Stream are required.
	Agents agent.Source
	Store  Store
	Stream stream.Stream

	// Models maps provider names, the part before the slash in an agent's model, to providers.
	Models map[string]llm.Provider

	// Fallbacks are chains of models, by names that agents use as their model.
	Fallbacks map[string]llm.Fallback

	// Tools are all tools. An agent uses those that it names.
	Tools *tool.Set

	// CallTool calls a tool. Default: its method Call.
	CallTool func(context.Context, tool.Tool, tool.Call) (tool.Result, error)

	// ToolSource provides further tools, which exist only at run time. Default: none. A tool of Tools
	// takes precedence over one of the same name.
	ToolSource tool.Source

	// Hooks are the application's hooks and processors.
	Hooks *hook.Set

	// Rules are the application's rules, for their functions.
	Rules *rule.Set

	// Library indexes documents of Store and finds passages in them. Default: one without a model, which reads none.
	Library *library.Library

	// EntityModel, "provider/model", finds the people and things that messages mention. Empty: none are found.
	EntityModel string

	// Extract wakes the workflow that finds entities in the queued texts of a namespace. Default: nothing does.
	Extract func(ctx context.Context, namespace string) error

	// TitleModel, "provider/model", generates titles for idle threads without one. Default: no
	// titles.
	TitleModel string

	// ApprovalRules apply to the calls of all agents, before the agents' own rules.
	ApprovalRules []approval.Rule

	// ApproverGroups knows the groups that rules and agents name as approvers. Default: there are none.
	ApproverGroups approval.Groups

	// UnlistedApprovals disables the search attribute of threads that wait for approval.
	UnlistedApprovals bool

	// ModelRetries maps the names of Models to the retry policies of failed calls. Default: see
	// [llm.Retry].
	ModelRetries map[string]llm.Retry

	// ModelQueues are the task queues of limited providers, by the names of Models. A call of such a
	// provider returns the queue if it arrives on another one. Used is told the tokens of each
	// successful call. Default: no limits.
	ModelQueues map[string]string
	Used        func(provider string, tokens int)

	// LimitQueue sets the rate limit of a task queue, in tasks per minute. Default: that fails.
	LimitQueue func(ctx context.Context, queue string, perMinute float64, reason string) error

	// NoLocalSteps has each step run as an activity. Default: model calls, tools and functions of hooks that
	// usually end within a second run as local activities, within a workflow task.
	NoLocalSteps bool

	// StopTimeout is how long a step continues when its worker stops; then the step fails, and
	// another worker retries it. The worker must wait slightly longer. Default 10 seconds.
	StopTimeout time.Duration

	// Redact redacts what models are sent and write, and what tools and rules return. Default: nothing is redacted.
	Redact *redact.Redactor

	// Deliver posts the post of a schedule's run. Default: runs fail.
	Deliver func(context.Context, signals.Delivery) (signals.PostResult, error)

	// Histories deletes what Temporal has of threads. Default: threads and people cannot be erased.
	Histories Histories

	// CloseIdle closes a thread if it is idle. Default: retention closes none.
	CloseIdle func(ctx context.Context, threadID string) error

	// Retained is told what a pass of retention has done, once for each pass. Default: nobody is.
	Retained func(ctx context.Context, pass signals.Retained)

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// DefaultStopTimeout is the default of [Config].StopTimeout.
const DefaultStopTimeout = 10 * time.Second

// HeartbeatEvery is the interval of heartbeats. A shorter step sends none.
const HeartbeatEvery = 4 * time.Second

// HeartbeatThrottle is the maximum time for which a worker may hold back a heartbeat: half of the
// heartbeat timeout. The SDK's default is four fifths of it, with which a worker that is paused
// briefly on a busy machine counts as lost.
const HeartbeatThrottle = 6 * time.Second

// Activities are the activities of a thread.
type Activities struct {
	cfg   Config
	log   *slog.Logger
	grace time.Duration

	library  *library.Library
	entities *entities.Entities

	underway underway

	// recent keeps messages and records of the threads that were used last, and prompts are the records of type prompt that are known to be stored.
	recent  *transcript.Recent
	prompts *lru.Cache[prompt, struct{}]

	// contexts are [contexts], or a test's.
	contexts *contextRoom
	turns    *turns

	// windows are the sizes of conversations that fit where models have refused a larger one.
	windows *lru.Cache[window, int]

	// down are the models of fallback chains that have just failed.
	down breaker

	// missing are the tools of agents that were logged as missing, and agents whose entities were.
	missing sync.Map
}

// prompt is a record of type prompt.
type prompt struct {
	step.Ref
	id string
}

// keptWindows is the number of agents whose windows are known.
const keptWindows = 1024

// keptPrompts is the number of the records of type prompt that are known to be stored.
const keptPrompts = 4096

// New returns the activities, or an error that names an invalid field.
func New(cfg Config) (*Activities, error) {
	switch {
	case cfg.Agents == nil:
		return nil, errors.New("activities: Config.Agents is required")
	case cfg.Store == nil:
		return nil, errors.New("activities: Config.Store is required")
	case cfg.Stream == nil:
		return nil, errors.New("activities: Config.Stream is required")
	case approval.ValidateRules(cfg.ApprovalRules) != nil:
		return nil, fmt.Errorf("activities: Config.ApprovalRules: %w", approval.ValidateRules(cfg.ApprovalRules))
	case cfg.StopTimeout < 0:
		return nil, fmt.Errorf("activities: Config.StopTimeout is %s, must be positive", cfg.StopTimeout)
	}
	for name, r := range cfg.ModelRetries {
		if _, ok := cfg.Models[name]; !ok {
			return nil, fmt.Errorf("activities: Config.ModelRetries[%q]: there is no such provider in Config.Models", name)
		}
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("activities: Config.ModelRetries[%q].%w", name, err)
		}
	}
	if err := cfg.checkModels(); err != nil {
		return nil, fmt.Errorf("activities: %w", err)
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
	}
	if cfg.Tools == nil {
		cfg.Tools, _ = tool.NewSet()
	}
	if cfg.CallTool == nil {
		cfg.CallTool = func(ctx context.Context, t tool.Tool, call tool.Call) (tool.Result, error) { return t.Call(ctx, call) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Library == nil {
		cfg.Library = library.New(library.Config{Store: cfg.Store, Redact: cfg.Redact, Logger: cfg.Logger})
	}
	prompts, err := lru.New[prompt, struct{}](keptPrompts)
	if err != nil {
		return nil, err
	}
	windows, err := lru.New[window, int](keptWindows)
	if err != nil {
		return nil, err
	}
	return &Activities{
		cfg: cfg, log: cfg.Logger, grace: stopGrace, library: cfg.Library, entities: cfg.newEntities(cfg.Library),
		underway: underway{holdFor: holdFor, joinWithin: joinWithin}, recent: transcript.NewRecent(), prompts: prompts, contexts: contexts, turns: newTurns(), windows: windows,
	}, nil
}

// Registrar registers activities: a Temporal worker or test environment.
type Registrar interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// Register registers every activity under its published name.
func (a *Activities) Register(r Registrar) {
	for name, f := range a.Functions() {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// Functions returns the activities of threads by their names.
func (a *Activities) Functions() map[string]any {
	return map[string]any{
		step.ActivityCallModel: a.callModel,
		step.ActivityRunTool:   a.runTool,
		step.ActivityRecord:    a.record,
		step.ActivityNotify:    a.notify,
		step.ActivityRunHooks:  a.runHooks,
		step.ActivityPlanCalls: a.planCalls,
		step.ActivityLoadEvent: a.loadEvent,

		step.ActivityCheckDecision: a.checkDecision,
		step.ActivityHandleEvent:   a.handleEvent,
		step.ActivityTitleThread:   a.titleThread,
		step.ActivityEndDelegate:   a.endDelegate,
		step.ActivityRunTask:       a.runTask,
		job.ActivitySetQueueLimit:  a.setQueueLimit,
		job.ActivityDeliver:        a.deliver,
		job.ActivityIngest:         a.ingest,
		job.ActivityExtract:        a.extract,

		job.ActivityEraseFind:    a.eraseFind,
		job.ActivityEraseDelete:  a.eraseDelete,
		job.ActivityEraseFinish:  a.eraseFinish,
		job.ActivityEraseLate:    a.eraseLate,
		job.ActivityPersonFind:   a.personFind,
		job.ActivityPersonForget: a.personForget,
		job.ActivityPersonFinish: a.personFinish,
		job.ActivityRetainFind:   a.retainFind,
		job.ActivityRetainClose:  a.retainClose,
		job.ActivityRetainCheck:  a.retainCheck,
		job.ActivityRetainDone:   a.retainDone,
	}
}

// RegisterKnowledge registers the activities that run on the [job.KnowledgeTaskQueue].
func (a *Activities) RegisterKnowledge(r Registrar) {
	for name, f := range map[string]any{
		job.ActivityFetchDocument:       a.fetchDocument,
		job.ActivitySplitDocument:       a.splitDocument,
		job.ActivityEmbedChunks:         a.embedChunks,
		job.ActivityContextualizeChunks: a.contextualizeChunks,
		job.ActivityFinishDocument:      a.finishDocument,

		job.ActivityExtractEntities: a.extractEntities,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// record stores records that no other activity stores.
func (a *Activities) record(ctx context.Context, input step.Record) error {
	_, err := a.append(ctx, input.Thread, store.Batch{}, input.Flush)
	return err
}

// notify tells the running steps of a turn to stop.
func (a *Activities) notify(ctx context.Context, input step.Notify) error {
	return a.cfg.Stream.Notify(ctx, input.Thread, stream.Notice{TraceID: input.TraceID, Reason: input.Reason})
}

// append stores a batch after the workflow's unstored records, and notifies viewers. The result has
// the workflow's records too.
func (a *Activities) append(ctx context.Context, ref step.Ref, batch store.Batch, flush step.Flush) (store.Appended, error) {
	if err := a.settle(ctx, ref, flush); err != nil {
		return store.Appended{}, err
	}
	batch.Records = append(append([]event.Record(nil), flush.Records...), batch.Records...)
	if row := flush.Row; row != nil {
		batch.Thread = &store.ThreadUpdate{Number: row.Number, Status: row.Status, Agents: row.Agents, Metadata: row.Metadata, Parent: row.Parent}
		if row.Title != "" {
			batch.Thread.Title = &row.Title
		}
	}
	done, err := a.cfg.Store.Append(ctx, ref, batch)
	if errors.Is(err, store.ErrErased) {
		return done, temporal.NewNonRetryableApplicationError(signals.ErrThreadErased.Error(), signals.ErasedType, err)
	}
	if err != nil {
		return done, temporal.NewApplicationErrorWithCause("The store could not be written; the step is retried.", step.ErrTypeRetry, err)
	}
	if a.recent.Appended(ref, done); len(batch.Records) > 0 {
		a.publish(ctx, ref, stream.Entry{Stored: done.Head, Records: done.Records})
	}
	return done, nil
}

// publish shows an entry to viewers. A failure delays viewers but loses no record, so it is only
// logged; outages are logged by the driver. It reports whether this entry and earlier ones were lost.
func (a *Activities) publish(ctx context.Context, ref step.Ref, e stream.Entry) (lost bool) {
	err := a.cfg.Stream.Publish(ctx, ref, e)
	if err != nil && ctx.Err() == nil && !errors.Is(err, stream.ErrUnavailable) {
		a.log.WarnContext(ctx, "publishing to the live stream", "thread", ref.ThreadID, "error", err)
	}
	return errors.Is(err, stream.ErrLost)
}

// configError returns a non-retryable error: only a change of the configuration can help.
func configError(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), step.ErrTypeConfig, err)
}
