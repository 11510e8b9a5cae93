package erasure

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestFailureOfHookWorkflow: Temporal keeps the failure of the hook's own workflow, and threads keep it redacted.
func TestFailureOfHookWorkflow(t *testing.T) {
	w := newWorld(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.Hooks = []hook.Hook{hook.InWorkflow("broken", hook.Workflow{Type: "broken-hook"})}
		cfg.RegisterWith = func(r worker.Registry) {
			r.RegisterWorkflowWithOptions(func(workflow.Context, hook.Request) (hook.Verdict, error) {
				return hook.Verdict{}, errors.New("no way with " + bySignal)
			}, workflow.RegisterOptions{Name: "broken-hook"})
		}
	}})
	thread := w.Open()
	w.Say(thread, canary)
	w.close(thread, "")
	kept := w.files()
	require.Contains(t, kept, "no way with [card]")
	lacks(t, kept, bySignal, "the store")
}
