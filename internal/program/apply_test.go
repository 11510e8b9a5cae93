package program

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// merge loads a file, or none, beside what a program declares.
func merge(t *testing.T, file string, declared threadmill.Config) (threadmill.Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	c := SettingsConfig{Declared: declared, Logger: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" }}
	if file != "" {
		c.File = filepath.Join(t.TempDir(), "threadmill.yaml")
		require.NoError(t, os.WriteFile(c.File, []byte(file), 0o600))
	}
	s, err := Load(c)
	if err != nil {
		return declared, err
	}
	s.Apply(&declared, &httpapi.Config{})
	return declared, nil
}

func toolNames(cfg threadmill.Config) []string {
	var names []string
	for _, t := range cfg.Tools {
		names = append(names, t.Definition().Name)
	}
	return names
}

func TestApplyBesideTheProgram(t *testing.T) {
	refund := tool.ClientSide(tool.Definition{Name: "refund"})
	own := demo.New(demo.Config{})
	declared := threadmill.Config{
		Tools: []tool.Tool{refund}, Agents: []agent.Agent{{Name: "teller", Model: "house/x"}}, TitleModel: "house/titles",
		Models:        map[string]llm.Provider{"house": own, "demo": own},
		Hooks:         []hook.Hook{{Name: "one"}, {Name: "two", MaxAttempts: 7}},
		ApprovalRules: []approval.Rule{{Name: "mine", Effect: approval.EffectAsk}},
	}
	t.Run("with a file", func(t *testing.T) {
		cfg, err := merge(t, `
agents: [{name: clerk, model: house/small, tools: [refund]}]
titleModel: demo/demo
hooks: [{name: audit, workflow: {type: Audit, taskQueue: audits}}, {name: two}]
approvalRules: [{name: theirs, effect: deny, tools: [refund]}]
`, declared)
		require.NoError(t, err)
		require.Equal(t, "demo/demo", cfg.TitleModel, "the operator's choice")
		require.Equal(t, []string{"current_time", "shell_cmd", "refund"}, toolNames(cfg))
		require.Equal(t, declared.Agents, cfg.Agents)
		clerk, err := cfg.AgentSource.Agent(t.Context(), "default", "")
		require.NoError(t, err)
		require.Equal(t, "clerk", clerk.Name)
		require.Same(t, own, cfg.Models["house"])
		require.Same(t, own, cfg.Models["demo"], "the program's precedes a built-in one")
		require.Equal(t, []string{"one", "audit", "two"}, []string{cfg.Hooks[0].Name, cfg.Hooks[1].Name, cfg.Hooks[2].Name})
		require.Equal(t, 7, cfg.Hooks[2].MaxAttempts)
		require.Equal(t, []string{"mine", "theirs"}, []string{cfg.ApprovalRules[0].Name, cfg.ApprovalRules[1].Name})
	})
	t.Run("without a file", func(t *testing.T) {
		cfg, err := merge(t, "", declared)
		require.NoError(t, err)
		require.Nil(t, cfg.AgentSource, "the agents are the program's")
		require.Equal(t, "house/titles", cfg.TitleModel)
		require.Equal(t, []string{"current_time", "refund"}, toolNames(cfg), "nobody names the shell")
		_, err = os.Stat(config.DefaultRoot)
		require.ErrorIs(t, err, os.ErrNotExist, "nor its folder")
	})
	t.Run("without agents", func(t *testing.T) {
		cfg, err := merge(t, "", threadmill.Config{Tools: []tool.Tool{refund}})
		require.NoError(t, err)
		assistant, err := cfg.AgentSource.Agent(t.Context(), "default", "")
		require.NoError(t, err)
		require.Equal(t, []string{"shell_cmd", "current_time", "refund"}, assistant.Tools)
	})
	t.Run("a built-in tool is replaced", func(t *testing.T) {
		cfg, err := merge(t, "agents: [{name: a, model: demo/demo, tools: [shell_cmd]}]\n", threadmill.Config{Tools: []tool.Tool{tool.ClientSide(tool.Definition{Name: "shell_cmd"})}})
		require.NoError(t, err)
		require.Equal(t, []string{"current_time", "shell_cmd"}, toolNames(cfg))
	})
	t.Run("two sources of tools", func(t *testing.T) {
		s := Settings{File: &config.Config{MCPAPI: config.MCPAPI{Servers: true}}}
		err := s.ConnectMCP(&threadmill.Config{ToolSource: &mcp.Manager{}}, nil)
		require.ErrorContains(t, err, "mcp: the program sets Config.ToolSource")
	})
	t.Run("two redactions", func(t *testing.T) {
		own, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
		require.NoError(t, err)
		cfg, err := merge(t, "agents: [{name: a, model: demo/demo}]\n", threadmill.Config{Redact: own})
		require.NoError(t, err)
		require.Same(t, own, cfg.Redact)
		_, err = merge(t, "agents: [{name: a, model: demo/demo}]\nredact: {emails: true}\n", threadmill.Config{Redact: own})
		require.ErrorContains(t, err, "redact: the program sets Config.Redact")
	})
	t.Run("two kinds of groups", func(t *testing.T) {
		const file = "agents: [{name: a, model: demo/demo, approvalTerms: {groups: [finance]}}]\n"
		own := approval.FixedGroups{"finance": {"ann"}}
		cfg, err := merge(t, file, threadmill.Config{ApproverGroups: own})
		require.NoError(t, err)
		require.Equal(t, own, cfg.ApproverGroups)
		_, err = merge(t, file, threadmill.Config{ApproverGroups: approval.FixedGroups{"sales": {"ann"}}})
		require.ErrorContains(t, err, `unknown group "finance"; known are sales`)
		_, err = merge(t, file, threadmill.Config{ApproverGroups: approval.GroupsFunc(nil)})
		require.NoError(t, err, "the program knows")
		cfg, err = merge(t, file+"approverGroups: {finance: [bob]}\n", threadmill.Config{})
		require.NoError(t, err)
		members, err := cfg.ApproverGroups.Members(t.Context(), "default", "finance")
		require.NoError(t, err)
		require.Equal(t, []string{"bob"}, members)
		_, err = merge(t, file+"approverGroups: {finance: [bob]}\n", threadmill.Config{ApproverGroups: own})
		require.ErrorContains(t, err, "approverGroups: the program sets Config.ApproverGroups")
	})
	t.Run("two sources of agents", func(t *testing.T) {
		_, err := merge(t, "agents: [{name: a, model: demo/demo}]\n", threadmill.Config{AgentSource: agent.Fixed{{Name: "b"}}})
		require.ErrorContains(t, err, "--config: the program sets Config.AgentSource")
	})
}
