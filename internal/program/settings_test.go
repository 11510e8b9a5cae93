package program

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/workflows"
)

// load reads a configuration with one agent and these lines.
func load(t *testing.T, more, taskQueue string) (Settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "threadmill.yaml")
	require.NoError(t, os.WriteFile(path, []byte("agents: [{name: assistant, model: demo/demo}]\n"+more), 0o600))
	return Load(SettingsConfig{
		File: path, TaskQueue: taskQueue, Logger: slog.New(slog.DiscardHandler),
		Getenv: func(string) string { return "" },
	})
}

const hooksYAML = `
hooks:
  - {name: guard, workflow: {type: BlockPrompt, taskQueue: guards}, timeout: 1h}
  - {name: audit, workflow: {type: Audit, taskQueue: audits}, onFailure: open}
temporal: {staleAfter: 10s, stepsAsActivities: true}
`

func TestSettingsApply(t *testing.T) {
	s, err := load(t, hooksYAML, "")
	require.NoError(t, err)
	require.Equal(t, "guard (BlockPrompt on task queue guards), audit (Audit on task queue audits)", s.WhichHooks())
	cfg := threadmill.Config{}
	s.Apply(&cfg, &httpapi.Config{})
	require.Equal(t, []hook.Hook{
		{Name: "guard", Workflow: &hook.Workflow{Type: "BlockPrompt", TaskQueue: "guards"}, Timeout: time.Hour},
		{Name: "audit", Workflow: &hook.Workflow{Type: "Audit", TaskQueue: "audits"}, OnFailure: hook.FailOpen},
	}, cfg.Hooks)
	require.Equal(t, 10*time.Second, cfg.StaleAfter)
	require.True(t, cfg.StepsAsActivities)

	s, err = load(t, "", "")
	require.NoError(t, err)
	cfg = threadmill.Config{}
	s.Apply(&cfg, &httpapi.Config{})
	require.Empty(t, cfg.Hooks)
	require.Zero(t, cfg.StaleAfter, "the runtime's default")
	require.False(t, cfg.StepsAsActivities)
}

// TestApprovalsApply: approval rules for the calls of all agents, and tools of connected clients.
func TestApprovalsApply(t *testing.T) {
	s, err := load(t, "approvalRules: [{name: r, effect: deny}]\ntools: {client: {name: open_page, deadline: 1m}}\n", "")
	require.NoError(t, err)
	cfg := threadmill.Config{}
	s.Apply(&cfg, &httpapi.Config{})
	require.Equal(t, []approval.Rule{{Name: "r", Effect: approval.EffectDeny}}, cfg.ApprovalRules)
	set, err := tool.NewSet(cfg.Tools...)
	require.NoError(t, err)
	page, ok := set.Lookup("open_page")
	require.True(t, ok)
	require.Equal(t, tool.Definition{Name: "open_page", Client: true, Deadline: time.Minute}, page.Definition())
}

// TestTitlesApply: the runtime has the title model.
func TestTitlesApply(t *testing.T) {
	temporal, err := client.NewLazyClient(client.Options{})
	require.NoError(t, err)
	defer temporal.Close()
	records, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	defer records.Close()
	s, err := load(t, "titleModel: demo/small\n", "")
	require.NoError(t, err)
	cfg := threadmill.Config{Temporal: temporal, Store: records}
	s.Apply(&cfg, &httpapi.Config{})
	require.Equal(t, "demo/small", cfg.TitleModel)
	_, err = threadmill.New(cfg)
	require.NoError(t, err)
	cfg.TitleModel = "gone/small"
	_, err = threadmill.New(cfg)
	require.ErrorContains(t, err, `Config.TitleModel: model "gone/small" needs a provider "gone"`)
}

// TestBoundsAreThoseOfTheRuntime: the runtime accepts all values that the file allows.
func TestBoundsAreThoseOfTheRuntime(t *testing.T) {
	temporal, err := client.NewLazyClient(client.Options{})
	require.NoError(t, err)
	defer temporal.Close()
	records, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	defer records.Close()
	s, err := load(t, hooksYAML, "")
	require.NoError(t, err)
	cfg := threadmill.Config{Temporal: temporal, Store: records}
	s.Apply(&cfg, &httpapi.Config{})
	_, err = threadmill.New(cfg)
	require.NoError(t, err)
	cfg.StaleAfter--
	_, err = threadmill.New(cfg)
	require.ErrorContains(t, err, "Config.StaleAfter is 9.999999999s")

	_, err = load(t, "temporal: {staleAfter: 9999ms}\n", "")
	require.ErrorContains(t, err, "temporal.staleAfter: is 9999ms, must be 10s to 1h; omit it for the default, "+workflows.DefaultStaleAfter.String())
}

// TestHooksOnTheThreadsQueue: no worker there has their workflow.
func TestHooksOnTheThreadsQueue(t *testing.T) {
	onQueue := func(name string) string {
		return "hooks: [{name: guard, workflow: {type: Guard, taskQueue: " + name + "}}]\n"
	}
	var mistake *config.Error
	_, err := load(t, onQueue("threadmill"), "")
	require.ErrorAs(t, err, &mistake)
	require.Equal(t, "hooks[0].workflow.taskQueue", mistake.Path)
	_, err = load(t, onQueue("mine"), "mine")
	require.ErrorAs(t, err, &mistake)
	_, err = load(t, onQueue("threadmill"), "mine")
	require.NoError(t, err)
}
