package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// Config configures [Activities].
type Config struct {
	// Agents, Store, Stream are required.
	Agents agent.Registry
	Store  store.Store
	Stream stream.Stream

	// Models are the providers by the name that stands before the slash of an agent's
	// model.
	Models map[string]llm.Provider

	// Tools are all tools; an agent uses those that it names.
	Tools *tool.Set

	// Hooks and processors of the application.
	Hooks *hook.Set

	// Rules of the application, for their functions.
	Rules *rule.Set

	// TitleModel, "provider/model", gives threads that have no title one when they fall
	// idle. Default: they are given none.
	TitleModel string

	// ApprovalRules are asked about the calls of all agents, before their own.
	ApprovalRules []approval.Rule

	// UnlistedApprovals leaves threads that wait for approval unmarked in Temporal.
	UnlistedApprovals bool

	// ModelRetries say how calls that fail are made again, by the names of Models. Default:
	// as [llm.Retry] says.
	ModelRetries map[string]llm.Retry

	// StopTimeout is how long a step goes on when its worker stops; then it ends, for
	// another worker to retry. The worker has to wait a little longer for that.
	// Default 10 seconds.
	StopTimeout time.Duration

	// Deliver posts what a run of a schedule delivers. Default: nothing is delivered, and
	// runs fail.
	Deliver func(context.Context, signals.Delivery) (signals.PostResult, error)

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// DefaultStopTimeout is the default of [Config].StopTimeout.
const DefaultStopTimeout = 10 * time.Second

// HeartbeatEvery is how often a running activity tells the server that it lives. A
// step that is shorter does not beat at all.
const HeartbeatEvery = 4 * time.Second

// HeartbeatThrottle is how long a worker may hold a heartbeat back: half of the time
// after which it counts as lost. The SDK's default is four fifths of that, and then a
// worker that a busy machine stops for a moment is taken for dead.
const HeartbeatThrottle = 6 * time.Second

// Activities are the activities of a thread.
type Activities struct {
	cfg   Config
	log   *slog.Logger
	grace time.Duration
}

// New makes the activities.
func New(cfg Config) (*Activities, error) {
	switch {
	case cfg.Agents == nil:
		return nil, errors.New("activities: Config.Agents is required")
	case cfg.Store == nil:
		return nil, errors.New("activities: Config.Store is required")
	case cfg.Stream == nil:
		return nil, errors.New("activities: Config.Stream is required")
	case approval.Check(cfg.ApprovalRules) != nil:
		return nil, fmt.Errorf("activities: Config.ApprovalRules: %w", approval.Check(cfg.ApprovalRules))
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
	if cfg.TitleModel != "" {
		if _, _, err := titleModel(cfg.TitleModel, cfg.Models); err != nil {
			return nil, fmt.Errorf("activities: %w", err)
		}
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
	}
	if cfg.Tools == nil {
		cfg.Tools, _ = tool.NewSet()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Activities{cfg: cfg, log: cfg.Logger, grace: stopGrace}, nil
}

// Registrar is what activities register with: a Temporal worker or test environment.
type Registrar interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// Register registers every activity under its published name.
func (a *Activities) Register(r Registrar) {
	for name, f := range map[string]any{
		signals.ActivityCallModel: a.CallModel,
		signals.ActivityRunTool:   a.RunTool,
		signals.ActivityRecord:    a.Record,
		signals.ActivityNotify:    a.Notify,
		signals.ActivityRunHooks:  a.RunHooks,
		signals.ActivityPlanCalls: a.PlanCalls,
		signals.ActivityLoadEvent: a.LoadEvent,

		signals.ActivityCheckDecision: a.CheckDecision,
		signals.ActivityHandleEvent:   a.HandleEvent,
		signals.ActivityTitleThread:   a.TitleThread,
		signals.ActivityEndDelegate:   a.EndDelegate,
		signals.ActivityRunTask:       a.RunTask,
		signals.ActivityDeliver:       a.Deliver,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// Record stores what nothing else will.
func (a *Activities) Record(ctx context.Context, step thread.RecordStep) error {
	_, err := a.append(ctx, step.Thread, store.Batch{}, step.Flush)
	return err
}

// Notify tells the steps that run in a turn to stop.
func (a *Activities) Notify(ctx context.Context, step thread.NotifyStep) error {
	return a.cfg.Stream.Notify(ctx, stream.Key(step.Thread), stream.Notice{TraceID: step.TraceID, Reason: step.Reason})
}

// append stores a batch behind what was handed over, and tells viewers about it.
func (a *Activities) append(ctx context.Context, ref thread.Ref, batch store.Batch, flush thread.Flush) (store.Appended, error) {
	batch.Records = append(append([]event.Record(nil), flush.Records...), batch.Records...)
	if row := flush.Row; row != nil {
		batch.Thread = &store.ThreadUpdate{Number: row.Number, Status: row.Status, Agents: row.Agents, Metadata: row.Metadata}
		if row.Title != "" {
			batch.Thread.Title = &row.Title
		}
	}
	done, err := a.cfg.Store.Append(ctx, store.Key(ref), batch)
	if err != nil {
		return done, temporal.NewApplicationErrorWithCause("The store could not be written; the step is retried.", thread.ErrTypeRetry, err)
	}
	if len(batch.Records) > 0 {
		a.publish(ctx, ref, stream.Entry{Stored: done.Head})
	}
	done.Records = done.Records[len(flush.Records):]
	return done, nil
}

// publish shows an entry to viewers. Its loss costs them time, never a record, so a
// failure is logged and the step goes on. It reports whether pieces before this one
// were lost, and this one with them.
func (a *Activities) publish(ctx context.Context, ref thread.Ref, e stream.Entry) (lost bool) {
	err := a.cfg.Stream.Publish(ctx, stream.Key(ref), e)
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "publishing to the live stream", "thread", ref.ThreadID, "error", err)
	}
	return errors.Is(err, stream.ErrLost)
}

// configError is an error that only a change of the configuration can mend.
func configError(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), thread.ErrTypeConfig, err)
}
