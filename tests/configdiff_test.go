package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const runningConfig = `version: 1
agents:
  - {name: clerk, instructions: You help., model: openai/stand-in, tools: [shell_cmd, mail]}
  - {name: other, instructions: You help., model: openai/stand-in, tools: [shell_cmd]}
tools:
  client:
    - name: mail
      description: Sends mail.
      needsApproval: true
      parameters: {type: object, properties: {to: {type: string}}, required: [to]}
rules:
  - {name: ticks, events: tick, priority: 20, log: true}
`

// TestConfigDiff: "starter config diff" says what a changed file would do to calls that wait, and to agents, rules and hooks, and
// its exit code is that of diff.
func TestConfigDiff(t *testing.T) {
	folder := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(folder, "threadmill.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var served httpapi.Config
	w := harness.New(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.Agents = nil
		settings, err := program.Load(program.SettingsConfig{File: file(runningConfig), TaskQueue: cfg.TaskQueue, Declared: *cfg})
		require.NoError(t, err)
		settings.Apply(cfg, &served)
	}, Serve: func(_ threadmill.Config, api *httpapi.Config) { *api = served }})
	shell, mail := w.Open("clerk"), w.Open("clerk")
	w.Post(shell, `use shell_cmd {"command":"true"}`)
	shellCall := w.AwaitApproval(shell, 1)[0].ToolCallID
	w.Post(mail, `use mail {"to":"ann"}`)
	mailCall := w.AwaitApproval(mail, 1)[0].ToolCallID

	diff := func(code int, text string) (out configdiff.Diff) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "new.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for deadline := w.Ctx(); len(out.Calls) < 2; { // Temporal's list of waiting threads lags
			require.NoError(t, deadline.Err())
			printed, got, problem := w.Starter("config", "diff", "--config", path, "--json")
			require.NoError(t, json.Unmarshal([]byte(printed), &out), problem)
			if len(out.Calls) == 2 {
				require.Equal(t, code, got, problem)
			}
		}
		return out
	}
	effects := func(d configdiff.Diff) map[string][]string {
		out := map[string][]string{}
		for _, c := range d.Calls {
			out[c.ToolCallID] = c.Effects
		}
		return out
	}
	require.Equal(t, map[string][]string{shellCall: {}, mailCall: {}}, effects(diff(0, runningConfig)))

	const head = "version: 1\nagents:\n  - {name: clerk, instructions: You help., model: openai/"
	const schema = `
tools:
  client:
    - name: mail
      description: Sends mail.
      needsApproval: true
      parameters: {type: object, properties: {to: {type: string}, subject: {type: string}}, required: [to, subject]}
`
	d := diff(1, head+"bigger, tools: [mail]}\n"+schema)
	require.Equal(t, []string{"agent clerk continues with openai/bigger instead of openai/stand-in", "agent clerk no longer has the tool shell_cmd: the call cannot run"}, effects(d)[shellCall])
	require.Len(t, effects(d)[mailCall], 2)
	require.Contains(t, effects(d)[mailCall][1], "the call cannot run: ")
	require.Contains(t, effects(d)[mailCall][1], "subject")
	require.Equal(t, []configdiff.Change{
		{Name: "clerk", Changes: []string{"model: openai/bigger instead of openai/stand-in", "tools: without shell_cmd"}, Threads: 2},
		{Name: "other", Changes: []string{"it is gone: its turns fail"}},
	}, d.Agents)
	require.Equal(t, []configdiff.Change{{Name: "ticks", Changes: []string{"it is gone: other rules get its events"}}}, d.Rules)
	require.Equal(t, []configdiff.Change{{Name: "mail", Changes: []string{"it differs"}}}, d.Tools)

	d = diff(1, runningConfig+`
approvalRules:
  - {name: no-shell, tools: [shell_cmd], effect: deny}
  - {name: two, tools: [mail], effect: ask, terms: {approvers: [ann, carol], quorum: 2}}
hooks:
  - {name: guard, workflow: {type: Guard, taskQueue: guards}}
`)
	require.True(t, d.ApprovalRules)
	require.Equal(t, []string{"no-shell denies it: an approval does not help"}, effects(d)[shellCall])
	require.Equal(t, []string{"approvers: ann, carol instead of anybody", "quorum: 2 instead of 1"}, effects(d)[mailCall])
	require.Equal(t, []configdiff.Change{{Name: "guard", Changes: []string{"it is new"}}}, d.Hooks)

	bad := filepath.Join(folder, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("version: 1\nagents: [{name: clerk}]\n"), 0o600))
	_, code, problem := w.Starter("config", "diff", "--config", bad)
	require.Equal(t, 2, code)
	require.Contains(t, problem, "agents[0]")
	_, code, problem = w.Starter("config", "diff", "--config", filepath.Join(folder, "none.yaml"))
	require.Equal(t, 2, code)
	require.Contains(t, problem, "--config: ")
}

// TestConfigDiffOfGroups: people are compared with people, whether a file names them or their group.
func TestConfigDiffOfGroups(t *testing.T) {
	const running = `version: 1
agents:
  - {name: clerk, instructions: You help., model: openai/stand-in, tools: [shell_cmd], approvalTerms: {groups: [finance]}}
approverGroups: {finance: [ann, bob], unused: [eve]}
`
	path := filepath.Join(t.TempDir(), "threadmill.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(running)
	var served httpapi.Config
	w := harness.New(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.Agents = nil
		settings, err := program.Load(program.SettingsConfig{File: path, TaskQueue: cfg.TaskQueue, Declared: *cfg})
		require.NoError(t, err)
		settings.Apply(cfg, &served)
	}, Serve: func(_ threadmill.Config, api *httpapi.Config) { *api = served }})
	id := w.Open() // by the default agent
	w.Post(id, `use shell_cmd {"command":"true"}`)
	w.AwaitApproval(id, 1)
	changed := filepath.Join(t.TempDir(), "new.yaml")
	diff := func(code int, text string) (out configdiff.Diff) {
		t.Helper()
		require.NoError(t, os.WriteFile(changed, []byte(text), 0o600))
		require.Eventually(t, func() bool { // Temporal's list of waiting threads lags
			printed, got, problem := w.Starter("config", "diff", "--config", changed, "--json")
			require.NoError(t, json.Unmarshal([]byte(printed), &out), problem)
			require.True(t, len(out.Calls) == 0 || got == code, printed)
			return len(out.Calls) == 1
		}, testenv.Patience, testenv.Tick)
		return out
	}
	require.True(t, diff(0, running).Same())

	d := diff(1, strings.Replace(running, "[ann, bob], unused: [eve]", "[bob, cleo], unused: []", 1))
	require.Equal(t, []configdiff.Change{{Name: "finance", Changes: []string{"without ann", "with cleo"}}}, d.Groups)
	require.Equal(t, []string{"approvers: bob, cleo instead of ann, bob"}, d.Calls[0].Effects)
	require.Empty(t, d.Agents)

	d = diff(1, strings.Replace(running, "groups: [finance]", "approvers: [ann, bob]", 1))
	require.Empty(t, d.Calls[0].Effects, "the same people")
	require.Equal(t, []configdiff.Change{{Name: "clerk", Changes: []string{"approvalTerms differ"}, Threads: 1}}, d.Agents, "with the threads of the default agent")
}
