package threadmill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nexus-rpc/sdk-go/nexus"
	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/histories"
	"github.com/threadmill/threadmill/internal/ops/modellimit"
	"github.com/threadmill/threadmill/internal/ops/reconcile"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
	"github.com/threadmill/threadmill/workflows"
)

// check checks the parts of the installation that this process reaches.
func (r *Runtime) check(ctx context.Context, callModels bool) []doctor.Finding {
	temporal := make(chan []doctor.Finding, 1)
	go func() {
		temporal <- doctor.Temporal{
			Client: r.cfg.Temporal, Namespace: r.cfg.TemporalNamespace, TaskQueue: r.cfg.TaskQueue, StepQueues: r.queuesOfSteps, Deployment: r.cfg.Deployment.Name,
			Owner: r.keeper.Check,
		}.Check(ctx)
	}()
	models := r.checkModels(ctx, callModels)
	return slices.Concat(<-temporal, r.checkRetention(ctx), r.checkErasures(ctx), models)
}

func (r *Runtime) checkModels(ctx context.Context, call bool) []doctor.Finding {
	used, err := r.usedModels(ctx)
	if err != nil {
		return []doctor.Finding{doctor.Bad("models", "check the store, and the agents of the configuration", "the agents cannot be listed: %s", err)}
	}
	return doctor.Models{Providers: r.cfg.Models, Used: used, Call: call}.Check(ctx)
}

// usedModels returns the models of all agents, of titles and of knowledge, with those of chains.
func (r *Runtime) usedModels(ctx context.Context) ([]string, error) {
	k := r.cfg.Knowledge
	names := []string{r.cfg.TitleModel, k.ContextModel, k.EntityModel}
	if lister, ok := r.cfg.AgentSource.(agent.Lister); ok {
		agents, err := lister.Agents(ctx, r.client.Namespace())
		if err != nil {
			return nil, err
		}
		for _, a := range agents {
			names = append(names, a.Model)
		}
	}
	var used []string
	for _, name := range names {
		switch chain, isChain := r.cfg.Fallbacks[name]; {
		case isChain:
			used = append(used, chain.Chain...)
		case strings.Contains(name, "/"):
			used = append(used, name)
		}
	}
	return used, nil
}

// Repair compares all threads with Temporal and mends what differs, like "starter repair --apply": after the store or Temporal has lost what the
// other one has, as databases do that do not wait for the disk when the power fails. Call it before [Runtime.Run], while no worker runs. It does
// not take the task queue over, returns the number of threads that differed, and logs them. An error is one of the store or of Temporal; Repair can be called again.
func (r *Runtime) Repair(ctx context.Context) (differed int, err error) {
	reconciler, compared := r.reconciler(), 0
	for req := (repair.RepairRequest{Apply: true}); ; {
		page, err := reconciler.Compare(ctx, req)
		if err != nil {
			return differed, err
		}
		differed, compared = differed+len(page.Threads), compared+page.Compared
		for _, t := range page.Threads {
			for _, d := range t.Differences {
				r.cfg.Logger.WarnContext(ctx, "the store and Temporal differed", "thread", t.ThreadID, "missingIn", d.In, "what", d.Detail, "state", d.State, "error", d.Error)
			}
		}
		r.cfg.Logger.InfoContext(ctx, "comparing the store with Temporal", "threads", compared, "differed", differed)
		if req.Cursor = page.Next; req.Cursor == "" {
			return differed, nil
		}
	}
}

// repair compares the store with Temporal, and mends what differs if the request says so. The task queue is then that of this store.
func (r *Runtime) repair(ctx context.Context, req repair.RepairRequest) (repair.Comparison, error) {
	if req.Apply && req.ThreadID == "" {
		if err := r.keeper.TakeOver(ctx); err != nil {
			return repair.Comparison{}, err
		}
	}
	return r.reconciler().Compare(ctx, req)
}

func (r *Runtime) reconciler() *reconcile.Reconciler {
	replayed := workflows.Workflows{Hooks: r.workflows.Hooks, Rules: r.workflows.Rules, Redact: r.workflows.Redact, StaleAfter: r.workflows.StaleAfter, NameStep: workflows.Unregistered}
	return reconcile.New(reconcile.Config{
		Temporal: r.cfg.Temporal, TemporalNamespace: r.cfg.TemporalNamespace, Threads: r.client, Store: r.cfg.Store, Workflows: &replayed, Replay: r.cfg.Replay,
		Erase: histories.Histories{Temporal: r.cfg.Temporal, Namespace: r.cfg.TemporalNamespace, TaskQueue: r.cfg.TaskQueue}.Erase,
	})
}

// NewReplayer returns a replayer with the workflows of a runtime with this configuration, with which a test can replay
// stored histories. Of the configuration, only what workflows use must be set: Hooks, Processors, Rules, RuleSource, Redact, StaleAfter
// and RegisterWith. The options have the data converter and the worker interceptors of the Temporal client, if it has its own. A history is
// replayed as the workflow that it is of, which its first event names, unless the options of the call do.
func NewReplayer(cfg Config, options worker.WorkflowReplayerOptions) (worker.WorkflowReplayer, error) {
	hooks, err := hook.NewSet(hook.Config{Hooks: cfg.Hooks, Processors: cfg.Processors, Redact: redaction.Answer(cfg.Redact)})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	rules, err := rule.NewSet(rule.Config{Rules: cfg.Rules, Source: cfg.RuleSource})
	if err != nil {
		return nil, fmt.Errorf("threadmill: Config: %w", err)
	}
	replayer, err := worker.NewWorkflowReplayerWithOptions(options)
	if err != nil {
		return nil, fmt.Errorf("threadmill: %w", err)
	}
	all := workflows.Workflows{Hooks: hooks, Rules: rules, Redact: cfg.Redact, StaleAfter: cfg.StaleAfter, NameStep: workflows.Unregistered}
	all.Register(replayer)
	if cfg.RegisterWith != nil {
		cfg.RegisterWith(onlyWorkflows{replayer})
	}
	return named{replayer}, nil
}

// named is a replayer that replays a history as the workflow and the run that it is of: threads are what their ids say, and the SDK has
// one id for all.
type named struct{ worker.WorkflowReplayer }

func (n named) ReplayWorkflowHistory(logger sdklog.Logger, h *history.History) error {
	return n.ReplayWorkflowHistoryWithOptions(logger, h, worker.ReplayWorkflowHistoryOptions{})
}

func (n named) ReplayWorkflowHistoryWithOptions(logger sdklog.Logger, h *history.History, options worker.ReplayWorkflowHistoryOptions) error {
	if begun := h.GetEvents(); len(begun) > 0 {
		started, of := begun[0].GetWorkflowExecutionStartedEventAttributes(), &options.OriginalExecution
		of.ID, of.RunID = cmp.Or(of.ID, started.GetWorkflowId()), cmp.Or(of.RunID, started.GetOriginalExecutionRunId())
	}
	return n.WorkflowReplayer.ReplayWorkflowHistoryWithOptions(logger, h, options)
}

func (n named) ReplayWorkflowHistoryFromJSONFile(logger sdklog.Logger, file string) error {
	return n.ReplayPartialWorkflowHistoryFromJSONFile(logger, file, 0)
}

func (n named) ReplayPartialWorkflowHistoryFromJSONFile(logger sdklog.Logger, file string, lastEventID int64) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	h, err := client.HistoryFromJSON(in, client.HistoryJSONOptions{LastEventID: lastEventID})
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return n.ReplayWorkflowHistory(logger, h)
}

// ReplayWorkflowExecution does not use that of the SDK, which in a namespace of a server wants activities to be registered that run as local
// ones.
func (n named) ReplayWorkflowExecution(ctx context.Context, service workflowservice.WorkflowServiceClient, logger sdklog.Logger, namespace string, of workflow.Execution) error {
	whole := &history.History{}
	request := &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: namespace, Execution: &common.WorkflowExecution{WorkflowId: of.ID, RunId: of.RunID},
	}
	for {
		page, err := service.GetWorkflowExecutionHistory(ctx, request)
		if err != nil {
			return fmt.Errorf("reading the history of %s: %w", of.ID, err)
		}
		whole.Events = append(whole.Events, page.GetHistory().GetEvents()...)
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return n.ReplayWorkflowHistoryWithOptions(logger, whole, worker.ReplayWorkflowHistoryOptions{OriginalExecution: of})
		}
	}
}

// onlyWorkflows is a registry for workflows: a replay runs nothing else.
type onlyWorkflows struct{ worker.WorkflowReplayer }

func (onlyWorkflows) RegisterActivity(any)                                         {}
func (onlyWorkflows) RegisterActivityWithOptions(any, activity.RegisterOptions)    {}
func (onlyWorkflows) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {}
func (onlyWorkflows) RegisterNexusService(*nexus.Service)                          {}

// maxThreadsOfAgent is how many threads of a changed agent are counted.
const maxThreadsOfAgent = 1000

// compare says what a changed configuration file would do.
func (r *Runtime) compare(ctx context.Context, file []byte, webhooks []webhook.Endpoint) (configdiff.Diff, error) {
	if r.cfg.Propose == nil {
		return configdiff.Diff{}, configdiff.ErrNotChecked
	}
	proposed, webhooksThen, err := r.cfg.Propose(file)
	if err != nil {
		return configdiff.Diff{}, err
	}
	rules, err := rule.NewSet(rule.Config{Rules: proposed.Rules})
	if err != nil {
		return configdiff.Diff{}, err
	}
	before, err := r.side(ctx, r.cfg, r.rules, webhooks, r.cfg.AgentSource)
	if err != nil {
		return configdiff.Diff{}, err
	}
	// Agents of the program that the file does not name remain.
	after, err := r.side(ctx, proposed, rules, webhooksThen, registry.New(withAgents(agent.Fixed(proposed.Agents), r.cfg.Agents), r.store, r.known))
	if err != nil {
		return configdiff.Diff{}, err
	}
	waiting, err := r.client.ListApprovals(ctx, threadclient.ApprovalsQuery{Limit: threadclient.MaxApprovalsLimit})
	if err != nil {
		return configdiff.Diff{}, err
	}
	first, err := r.cfg.AgentSource.Agent(ctx, r.client.Namespace(), "")
	if err != nil && !errors.Is(err, agent.ErrUnknown) {
		return configdiff.Diff{}, err
	}
	return configdiff.Compare(ctx, r.client.Namespace(), activities.Policy, before, after, waiting, func(ctx context.Context, name string) (int, error) {
		found, err := r.client.List(ctx, threadclient.ListQuery{Agent: before.Agents[name].Name, Default: strings.EqualFold(first.Name, name), Limit: maxThreadsOfAgent})
		return len(found), err
	})
}

// side is a configuration, with what its rules, webhooks and agents are.
func (r *Runtime) side(ctx context.Context, cfg Config, rules *rule.Set, webhooks []webhook.Endpoint, agents agent.Source) (configdiff.Side, error) {
	out := configdiff.Side{
		ApprovalRules: cfg.ApprovalRules, Groups: cfg.ApproverGroups, Rules: rules.Specs(), Hooks: cfg.Hooks, Webhooks: webhooks,
		Knowledge: cfg.Knowledge, Redact: cfg.Redact,
	}
	for _, t := range cfg.Tools {
		if d := t.Definition(); d.Client {
			out.ClientTools = append(out.ClientTools, d)
		}
	}
	out.Tool = r.definition(out.ClientTools)
	var err error
	if out.Retention, err = r.dueBy(ctx, cfg.Retention); err != nil {
		return out, err
	}
	out.Agents, err = effective(ctx, agents, r.client.Namespace())
	return out, err
}

// definition finds tools: those of connected clients in a list, and others among those that run.
func (r *Runtime) definition(clients []tool.Definition) func(string) (tool.Definition, bool) {
	return func(name string) (tool.Definition, bool) {
		for _, d := range clients {
			if d.Name == name {
				return d, true
			}
		}
		for _, t := range r.cfg.Tools {
			if d := t.Definition(); d.Name == name && !d.Client {
				return d, true
			}
		}
		return tool.Definition{}, false
	}
}

// effective returns the agents of a source, by their names in lower case.
func effective(ctx context.Context, source agent.Source, namespace string) (map[string]agent.Agent, error) {
	out := map[string]agent.Agent{}
	lister, ok := source.(agent.Lister)
	if !ok {
		return out, nil
	}
	list, err := lister.Agents(ctx, namespace)
	for _, a := range list {
		out[strings.ToLower(cmp.Or(a.Name, "-"))] = a
	}
	return out, err
}

const (
	// reportEvery is the interval at which a worker reports the tokens of its calls.
	reportEvery = 5 * time.Second

	// limitWithin bounds the time of a report, and limitAgain is the pause after one that nobody has taken in.
	limitWithin = time.Minute
	limitAgain  = time.Second
)

// errNobody means that no worker has taken in a report in time.
var errNobody = errors.New("no worker runs the workflow that limits it")

// modelLimits are the limits of model providers, and the usage that this process has not reported.
type modelLimits struct {
	cfg *Config

	mu   sync.Mutex
	used map[string]modellimit.Usage
}

// checkLimits reports the first invalid limit.
func (cfg *Config) checkLimits() error {
	for name, l := range cfg.ModelLimits {
		if _, ok := cfg.Models[name]; !ok {
			return fmt.Errorf("threadmill: Config.ModelLimits[%q]: there is no such provider in Config.Models", name)
		}
		if err := l.Validate(); err != nil {
			return fmt.Errorf("threadmill: Config.ModelLimits[%q].%w", name, err)
		}
	}
	return nil
}

// modelQueues returns the task queues of limited providers, by provider.
func (cfg *Config) modelQueues() map[string]string {
	out := map[string]string{}
	for name, l := range cfg.ModelLimits {
		if l != (llm.Limits{}) {
			out[name] = job.ModelTaskQueue(cfg.TaskQueue, name)
		}
	}
	return out
}

// add counts a successful call.
func (m *modelLimits) add(provider string, tokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used[provider]
	m.used[provider] = modellimit.Usage{Requests: u.Requests + 1, Tokens: u.Tokens + tokens}
}

func (m *modelLimits) take(provider string) modellimit.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used[provider]
	delete(m.used, provider)
	return u
}

// serve limits the task queues of model providers, calls start, which serves them, and reports the tokens of calls until stop is
// called. It does not wait: the workflow that limits the queues runs where the deployment says, which may be on this build only
// once it is current.
func (m *modelLimits) serve(ctx context.Context, start func() error, fatal chan<- error) (stop func()) {
	if len(m.cfg.modelQueues()) == 0 || m.cfg.OnlyToolQueues {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		err := m.apply(ctx)
		if err == nil && ctx.Err() == nil {
			err = start()
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			select {
			case fatal <- err:
			default:
			}
		default:
			m.reportAll(ctx)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// apply puts the limits into force, before workers poll the queues. It tries again for as long as no worker runs the workflow
// that does so.
func (m *modelLimits) apply(ctx context.Context) error {
	queues := m.cfg.modelQueues()
	for _, provider := range slices.Sorted(maps.Keys(queues)) {
		for {
			err := m.report(ctx, provider, modellimit.Usage{})
			if err == nil {
				break
			}
			err = fmt.Errorf("limiting the task queue %q (limits of model provider %q): %w", queues[provider], provider, err)
			if !errors.Is(err, errNobody) {
				return err
			}
			m.cfg.Logger.WarnContext(ctx, "calls of a model provider wait until its rate is limited, which a worker of the current build has to do; this worker tries again",
				"provider", provider, "build", m.cfg.Deployment.Build, "error", err)
			select {
			case <-time.After(limitAgain):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// reportAll reports the tokens of calls until ctx ends. A report that fails is lost, and the rate
// stays.
func (m *modelLimits) reportAll(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for provider, l := range m.cfg.ModelLimits {
			used := m.take(provider)
			if l.TokensPerMinute == 0 || used.Requests == 0 {
				continue
			}
			if err := m.report(ctx, provider, used); err != nil && ctx.Err() == nil {
				m.cfg.Logger.WarnContext(ctx, "reporting the tokens of model calls", "provider", provider, "error", err)
			}
		}
	}
}

// report reports to the workflow that owns the limits of a provider, which it starts if necessary. It returns [errNobody] if no
// worker runs that workflow.
func (m *modelLimits) report(ctx context.Context, provider string, used modellimit.Usage) error {
	within, cancel := context.WithTimeout(ctx, limitWithin)
	defer cancel()
	err := m.update(within, provider, used)
	if _, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err); err != nil && (late || within.Err() != nil) {
		return fmt.Errorf("%w: %w", errNobody, err)
	}
	return err
}

func (m *modelLimits) update(ctx context.Context, provider string, used modellimit.Usage) error {
	queue, limits := job.ModelTaskQueue(m.cfg.TaskQueue, provider), modellimit.Limits(m.cfg.ModelLimits[provider])
	id := job.ModelLimitWorkflowID(queue)
	start := m.cfg.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: m.cfg.TaskQueue, StaticSummary: "limits of model provider " + provider,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, job.ModelLimitWorkflow, modellimit.State{Provider: provider, TaskQueue: queue, Limits: limits})
	h, err := m.cfg.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: job.UpdateReportUsage, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{modellimit.Report{Limits: limits, Usage: used}},
		},
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// setQueueLimit sets the rate limit of a task queue of activities.
func (cfg *Config) setQueueLimit(ctx context.Context, queue string, perMinute float64, reason string) error {
	_, err := cfg.Temporal.WorkflowService().UpdateTaskQueueConfig(ctx, &workflowservice.UpdateTaskQueueConfigRequest{
		Namespace: cfg.TemporalNamespace, Identity: "threadmill", TaskQueue: queue, TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY,
		UpdateQueueRateLimit: &workflowservice.UpdateTaskQueueConfigRequest_RateLimitUpdate{
			RateLimit: &taskqueuepb.RateLimit{RequestsPerSecond: float32(perMinute / 60)}, Reason: reason,
		},
	})
	var old *serviceerror.Unimplemented
	if errors.As(err, &old) {
		return temporal.NewNonRetryableApplicationError("Temporal cannot limit the rate of a task queue: limits need version 1.29 or later", "unsupported", err)
	}
	return err
}
