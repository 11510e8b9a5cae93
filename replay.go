package threadmill

import (
	"fmt"

	"github.com/nexus-rpc/sdk-go/nexus"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/workflows"
)

// NewReplayer returns a replayer with the workflows of a runtime with this configuration, with which a test can replay
// stored histories. Of the configuration, only what workflows use must be set: Hooks, Processors, Rules, RuleSource, Redact
// and RegisterWith. The options have the data converter and the worker interceptors of the Temporal client, if it has its own.
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
	return replayer, nil
}

// onlyWorkflows is a registry for workflows: a replay runs nothing else.
type onlyWorkflows struct{ worker.WorkflowReplayer }

func (onlyWorkflows) RegisterActivity(any)                                         {}
func (onlyWorkflows) RegisterActivityWithOptions(any, activity.RegisterOptions)    {}
func (onlyWorkflows) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {}
func (onlyWorkflows) RegisterNexusService(*nexus.Service)                          {}
