package activities_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/shell"
)

// realDir returns a new directory with links resolved.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// ruledAt configures the assistant's working directory and rules.
func ruledAt(dir string, rules ...approval.Rule) func(*activities.Config) {
	return func(c *activities.Config) {
		withOwnTools(c)
		c.ApprovalRules = rules
		c.Agents.(agent.Fixed)[0].WorkingDirectory = dir
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// TestBentPaths: no spelling of a path bypasses a rule.
func TestBentPaths(t *testing.T) {
	parent := realDir(t)
	desk := filepath.Join(parent, "desk")
	require.NoError(t, os.MkdirAll(filepath.Join(desk, "packages/x/src"), 0o755))
	require.NoError(t, os.Symlink("packages/x/src", filepath.Join(desk, "deep")))
	require.NoError(t, os.WriteFile(filepath.Join(desk, "file"), nil, 0o600))
	deny := approval.Rule{Name: "not there", Effect: approval.EffectDeny, When: `has(paths.path) && paths.path.startsWith("` + desk + `/")`}
	allow := approval.Rule{Name: "there only", Effect: approval.EffectAllow, When: `has(paths.path) && paths.path.startsWith("` + desk + `/")`}
	ask := approval.Rule{Name: "all else", Tools: []string{"write"}, Effect: approval.EffectAsk}
	const unclear = "Error: Tool parameter validation failed for write: path: "
	for name, c := range map[string]struct {
		path   string
		rules  []approval.Rule
		status store.ToolStatus
		says   string
	}{
		"denied as it is":                       {desk + "/x", []approval.Rule{deny}, store.ToolDenied, "the policy denies"},
		"denied, below a file and up":           {desk + "/file/x/../../x", []approval.Rule{deny}, store.ToolFailed, unclear + "cannot be followed"},
		"denied, in the directory as it is":     {"x", []approval.Rule{deny}, store.ToolDenied, "the policy denies"},
		"denied, without a name":                {"", []approval.Rule{{Name: "not here", Effect: approval.EffectDeny, When: `paths.path == "` + desk + `"`}}, store.ToolDenied, "the policy denies"},
		"allowed as it is":                      {"x", []approval.Rule{allow, ask}, store.ToolSucceeded, "written"},
		"allowed, up and down":                  {"packages/../x", []approval.Rule{allow, ask}, store.ToolSucceeded, "written"},
		"allowed by its beginning, and is not":  {"deep/../../secret", []approval.Rule{allow, ask}, store.ToolFailed, unclear + "leads to one file by the links"},
		"nobody is asked about such a path":     {"deep/../x", []approval.Rule{ask}, store.ToolFailed, unclear + "leads to one file by the links"},
		"and without rules, none runs, by name": {"deep/../x", nil, store.ToolFailed, `write it without ".." behind a link`},
	} {
		for _, runs := range []string{"write", "task"} {
			t.Run("S4-93 "+name+": "+runs, func(t *testing.T) {
				write := &raw{def: tool.Definition{Name: "write", PathArguments: []string{"path"}}, do: returns("written")}
				w := newFixture(t, ruledAt(desk, c.rules...), write)
				arguments := asText(t, map[string]string{"path": c.path})
				if runs == "task" {
					_, err := w.runTask(w.taskStep(call("c1", "task", `{"tool":"write","arguments":`+arguments+`}`), "write"))
					require.NoError(t, err)
				} else {
					out, err := w.runTool(w.asked(call("c1", "write", arguments)))
					require.NoError(t, err)
					require.Nil(t, out.Approval, "nobody is asked")
				}
				log := w.toolLog("c1")
				require.Equal(t, c.status, log.Status)
				var said string
				require.NoError(t, json.Unmarshal(log.Output, &said))
				require.Contains(t, said, c.says)
				require.Equal(t, c.status == store.ToolSucceeded, write.runs.Load() == 1)

				plan, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{"c1"}})
				require.NoError(t, err)
				require.Equal(t, c.status == store.ToolFailed, plan.Calls[0].Invalid)
			})
		}
	}
}

// TestBentPathOfADecision: edited arguments are checked in the same way.
func TestBentPathOfADecision(t *testing.T) {
	desk := realDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(desk, "file"), nil, 0o600))
	write := &raw{def: tool.Definition{Name: "write", PathArguments: []string{"path"}, NeedsApproval: true}, do: returns("written")}
	w := newFixture(t, ruledAt(desk), write)
	w.asked(call("c1", "write", `{"path":"x"}`))
	check := func(args string) (out step.CheckReply) {
		v, err := w.env.ExecuteActivity(step.ActivityCheckDecision, step.Check{Thread: ref, Agent: "assistant", MessageID: "e1.0.1", ToolCallID: "c1", By: "ann", Args: args})
		require.NoError(t, err)
		require.NoError(t, v.Get(&out))
		return out
	}
	require.NoError(t, check(`{"path":"y"}`).Err())
	require.EqualError(t, check(`{"path":"file/x"}`).Err(), "args: Tool parameter validation failed for write: path: "+
		"cannot be followed (not a directory); write a path that exists, or whose folder exists")
}

// rooted is a world with a shell that works in a folder.
func rooted(t *testing.T, root string) *fixture {
	t.Helper()
	sh, err := shell.New(shell.Config{Root: root})
	require.NoError(t, err)
	return newFixture(t, withOwnTools, sh)
}

// TestChangedSinceAsked: people can edit a call or approve a pattern only for the directory and the
// tool in the request.
func TestChangedSinceAsked(t *testing.T) {
	for name, d := range map[string]step.Check{
		"S4-93 edited":  {Args: `{"command":"touch other"}`},
		"S4-79 widened": {Pattern: map[string]string{"command": "touch *"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, desk, other := call("c1", "shell_cmd", `{"command":"touch file"}`), realDir(t), realDir(t)
			w := rooted(t, desk)
			w.asked(c)
			plan, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{"c1"}})
			require.NoError(t, err)
			d.Thread, d.Agent, d.MessageID, d.ToolCallID, d.By, d.Guard = ref, "assistant", "e1.0.1", "c1", "ann", plan.Calls[0].Guard
			for root, want := range map[string]string{
				desk:  "",
				other: "toolCallId: is a call that has changed since people were asked; approve it as it is, once, and they are asked about what it is now",
			} {
				w := rooted(t, root)
				w.asked(c)
				v, err := w.env.ExecuteActivity(step.ActivityCheckDecision, d)
				require.NoError(t, err)
				var checked step.CheckReply
				require.NoError(t, v.Get(&checked))
				if want == "" {
					require.NoError(t, checked.Err())
				} else {
					require.EqualError(t, checked.Err(), want)
				}
			}
		})
	}
}

// TestLostWorkingDirectory: a rule cannot be evaluated for a call with an unknown directory.
func TestLostWorkingDirectory(t *testing.T) {
	desk := realDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(desk, "file"), nil, 0o600))
	note := &raw{def: tool.Definition{Name: "note"}, do: returns("noted")}
	rule := func(effect approval.Effect, when string) approval.Rule {
		return approval.Rule{Name: "there", Effect: effect, When: when}
	}
	for name, c := range map[string]struct {
		rules  []approval.Rule
		reason string
		denied bool
	}{
		"without rules":          {},
		"a rule that denies":     {rules: []approval.Rule{rule(approval.EffectDeny, `workingDirectory.startsWith("`+desk+`")`)}, reason: `rule "there" cannot be evaluated, so a person decides: the working directory cannot be followed (not a directory)`},
		"a rule that allows":     {rules: []approval.Rule{rule(approval.EffectAllow, `true`)}, reason: "cannot be followed"},
		"a rule for all of them": {rules: []approval.Rule{rule(approval.EffectDeny, "")}, denied: true},
	} {
		t.Run("S4-88 "+name, func(t *testing.T) {
			w := newFixture(t, ruledAt(desk+"/file/x", c.rules...), note)
			w.asked(call("c1", "note", `{}`))
			out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{"c1"}})
			require.NoError(t, err)
			got := out.Calls[0]
			require.Equal(t, c.reason != "", got.NeedsApproval)
			require.Contains(t, got.Reason, c.reason)
			require.Equal(t, c.denied, got.Denied != "")
		})
	}
}

// TestGrantOfAnotherRoot: an approved command runs only in the directory of its approval.
func TestGrantOfAnotherRoot(t *testing.T) {
	seen, other := realDir(t), realDir(t)
	for name, c := range map[string]event.ToolCall{
		"a command":             call("c1", "shell_cmd", `{"command":"touch was-here"}`),
		"a task runs a command": call("c1", "task", `{"tool":"shell_cmd","arguments":{"command":"touch was-here"}}`),
	} {
		for scope, pattern := range map[event.Scope]map[string]string{
			event.ScopeSession: nil, event.ScopeOnce: nil, event.ScopePattern: {"command": "touch *"},
		} {
			if pattern != nil && c.Function.Name == "task" {
				pattern = map[string]string{"tool": "shell*"}
			}
			t.Run("S4-93 "+name+": "+string(scope), func(t *testing.T) {
				w := rooted(t, seen)
				w.asked(c)
				input := step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{"c1"}}
				plan, err := w.planCalls(input)
				require.NoError(t, err)
				require.Equal(t, seen, plan.Calls[0].Guard.WorkingDirectory, "people see where it runs")
				v, err := w.env.ExecuteActivity(step.ActivityCheckDecision, step.Check{
					Thread: ref, Agent: "assistant", MessageID: "e1.0.1", ToolCallID: "c1", By: "ann", Pattern: pattern,
				})
				require.NoError(t, err)
				var checked step.CheckReply
				require.NoError(t, v.Get(&checked))
				require.NoError(t, checked.Err())
				require.Equal(t, plan.Calls[0].Guard, checked.Guard)
				approved := event.NewRecord("c1.decision", event.TypeApproval, "e1", "e1", time.Now(), event.Approval{
					ToolCallID: "c1", ToolName: c.Function.Name, Agent: "assistant", Decision: event.DecisionApprove, Scope: scope, By: "ann",
					Digest: checked.Guard.Digest, Definition: checked.Guard.Definition, Pattern: pattern, Rest: checked.Rest,
				})
				for root, asks := range map[string]bool{seen: false, other: true} {
					w := rooted(t, root)
					w.asked(c)
					w.append(store.Batch{Records: []event.Record{approved}})
					again := input
					again.Again = true
					if scope == event.ScopeOnce {
						again.Decisions = map[string]string{"c1": "c1.decision"}
					}
					plan, err := w.planCalls(again)
					require.NoError(t, err)
					require.Equal(t, asks, plan.Calls[0].NeedsApproval, "in the root that was seen: %v", root == seen)
				}
			})
		}
	}
}
