package threadmill

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/nexus-rpc/sdk-go/nexus"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/workflows"
)

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
