package config

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
)

func TestApprovals(t *testing.T) {
	c, err := Parse("f", []byte(`
agents:
  - name: assistant
    model: demo/demo
    tools: [shell_cmd, current_time, open_page]
    approvals: {shell_cmd: always, open_page: deny, "*": never}
    workingDirectory: work
    autoMention: false
    approvalTerms: {expires: 8h, remind: 90s, onExpiry: interrupt}
    onWaiting: cancel
    approvalRules:
      - name: pushes
        tools: [shell_cmd, "*"]
        when: |
          has(args.command) &&
          args.command.startsWith("git push")
        effect: ask
        reason: |
          Others use that server.
        terms: {approvers: [ann, bob], quorum: 2, expires: 1h, remind: 5m, onExpiry: deny}
      - {name: looks, when: tool == "current_time", effect: allow}
  - name: Poet
    model: demo/demo
    autoMention: true
    workingDirectory: /srv/poems
tools:
  client: {name: open_page}
approvalRules:
  - {name: no root, agents: [poet, ASSISTANT], tools: [shell_cmd, open_page, task], when: 'args.command.contains("sudo")', effect: deny, reason: No.}
  - {name: looks, agents: ["*"], effect: ask}
`), "/etc/threadmill", Env(env()))
	require.NoError(t, err)
	require.Equal(t, agent.Fixed{
		{
			Name: "assistant", Model: "demo/demo", Tools: []string{"shell_cmd", "current_time", "open_page"},
			Approvals:        map[string]agent.Policy{"shell_cmd": agent.PolicyAlways, "open_page": agent.PolicyDeny, "*": agent.PolicyNever},
			WorkingDirectory: "/etc/threadmill/work", NoAutoMention: true, OnWaiting: event.OnWaitingCancel,
			ApprovalTerms: approval.Terms{Expires: 8 * time.Hour, Remind: 90 * time.Second, OnExpiry: approval.OnExpiryInterrupt},
			ApprovalRules: []approval.Rule{
				{
					Name: "pushes", Tools: []string{"shell_cmd", "*"}, When: "has(args.command) &&\nargs.command.startsWith(\"git push\")",
					Effect: approval.EffectAsk, Reason: "Others use that server.",
					Terms: approval.Terms{Approvers: []string{"ann", "bob"}, Quorum: 2, Expires: time.Hour, Remind: 5 * time.Minute, OnExpiry: approval.OnExpiryDeny},
				},
				{Name: "looks", When: `tool == "current_time"`, Effect: approval.EffectAllow},
			},
		},
		{Name: "Poet", Model: "demo/demo", WorkingDirectory: "/srv/poems"},
	}, c.Agents)
	require.Equal(t, []approval.Rule{
		{Name: "no root", Agents: []string{"poet", "ASSISTANT"}, Tools: []string{"shell_cmd", "open_page", "task"}, When: `args.command.contains("sudo")`, Effect: approval.EffectDeny, Reason: "No."},
		{Name: "looks", Agents: []string{"*"}, Effect: approval.EffectAsk},
	}, c.ApprovalRules)
	require.NoError(t, approval.ValidateRules(c.ApprovalRules))
	for _, a := range c.Agents {
		require.NoError(t, a.Validate())
	}
}

func TestApprovalRulesBounds(t *testing.T) {
	rules := strings.Repeat("  - {effect: deny}\n", approval.MaxRules+1)
	_, err := Parse("f", []byte(ruleAgents+"approvalRules:\n"+rules), "", Env(env()))
	require.EqualError(t, err, "f:2:1: approvalRules: has 1001 items, at most 1000 are allowed")
}

func TestClientTools(t *testing.T) {
	c, err := Parse("f", []byte(`
tools:
  client:
    - name: open_page
      description: Opens a page.
      parameters:
        type: object
        properties: {url: {type: string, maxLength: 2048}, file: {type: string}}
        required: [url]
      deadline: 5m
      needsApproval: true
      approvalReason: It is the person's browser.
      pathArguments: [file]
    - {name: beep}
agents: [{name: a, model: demo/demo, tools: [beep, open_page], approvals: {open_page: never}}]
hooks: [{name: h, workflow: {type: W, taskQueue: q}, filter: {types: [tool_call], tools: [beep]}}]
`), "", Env(env()))
	require.NoError(t, err)
	page := tool.Definition{
		Name: "open_page", Description: "Opens a page.", Client: true, Deadline: 5 * time.Minute, NeedsApproval: true,
		ApprovalReason: "It is the person's browser.", PathArguments: []string{"file"},
		Parameters: json.RawMessage(`{"properties":{"file":{"type":"string"},"url":{"maxLength":2048,"type":"string"}},"required":["url"],"type":"object"}`),
	}
	require.Equal(t, []tool.Definition{page, {Name: "beep", Client: true}}, c.Tools.Client)
	set, err := tool.NewSet(tool.ClientSide(c.Tools.Client[0]), tool.ClientSide(c.Tools.Client[1]))
	require.NoError(t, err)
	require.Equal(t, []string{"open_page", "beep"}, set.Names())
	require.Error(t, page.ValidateArguments(`{}`))
	require.NoError(t, page.ValidateArguments(`{"url":"https://example.com"}`))

	t.Run("their bound is that of package tool", func(t *testing.T) {
		require.NoError(t, tool.Definition{Name: "a", Client: true, Deadline: maxClientDeadline}.Validate())
		require.Error(t, tool.Definition{Name: "a", Client: true, Deadline: maxClientDeadline + 1}.Validate())
	})
	t.Run("schemas are bounded", func(t *testing.T) {
		many := "agents: [{name: a, model: demo/demo}]\ntools: {client: {name: a, parameters: {type: object, enum: [" + strings.Repeat("1,", maxValues) + "1]}}}\n"
		_, err := Parse("f", []byte(many), "", Env(env()))
		require.ErrorContains(t, err, "tools.client.parameters: is too much: a file has at most 10000 values in its schemas and conditions, at most 20 deep")
	})
}

// TestApproverGroups: rules and agents name groups of the file, or of the program.
func TestApproverGroups(t *testing.T) {
	const text = `
agents: [{name: a, model: demo/demo, approvalTerms: {groups: [finance]}}]
approverGroups: {finance: [ann, bob], on call: []}
approvalRules: [{name: r, effect: ask, terms: {approvers: [cleo], groups: [on call], quorum: 2}}]
`
	c, err := Parse("f", []byte(text), "", Env(env()))
	require.NoError(t, err)
	require.Equal(t, approval.FixedGroups{"finance": {"ann", "bob"}, "on call": {}}, c.ApproverGroups)
	require.Equal(t, approval.Terms{Approvers: []string{"cleo"}, Groups: []string{"on call"}, Quorum: 2}, c.ApprovalRules[0].Terms)
	for name, tc := range map[string]struct{ old, is, want string }{
		"of an agent":     {"groups: [finance]", "groups: [fnance]", `f:2:63: agents[0].approvalTerms.groups[0]: unknown group "fnance"; did you mean "finance"?`},
		"of a rule":       {"groups: [on call]", "groups: [offcall]", `approvalRules[0].terms.groups[0]: unknown group "offcall"; did you mean "on call"?`},
		"twice a member":  {"[ann, bob]", "[ann, Ann]", `f:3:33: approverGroups.finance[1]: "Ann" is duplicated`},
		"nobody's name":   {"[ann, bob]", "[human]", `approverGroups.finance[0]: "human" identifies nobody`},
		"an empty member": {"[ann, bob]", `[""]`, `approverGroups.finance[0]: `},
		"an empty list":   {"groups: [finance]", "groups: []", `agents[0].approvalTerms.groups: is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(strings.Replace(text, tc.old, tc.is, 1)), "", Env(env()))
			require.ErrorContains(t, err, tc.want)
		})
	}
	without := strings.Replace(text, "approverGroups: {finance: [ann, bob], on call: []}\n", "", 1)
	_, err = Parse("f", []byte(without), "", Env(env()))
	require.ErrorContains(t, err, `unknown group "finance"; none exists`)
	_, err = Parse("f", []byte(without), "", Env(env()), Declares(Declared{AnyGroup: true}))
	require.NoError(t, err, "the program knows them")
	_, err = Parse("f", []byte(without), "", Env(env()), Declares(Declared{Groups: []string{"finance"}}))
	require.ErrorContains(t, err, `unknown group "on call"; known are finance`)
}

// TestSourceFollowsGroups: who leaves a group may not decide any more, without a restart.
func TestSourceFollowsGroups(t *testing.T) {
	text := func(members, group string) string {
		return "agents: [{name: a, model: demo/demo}]\napproverGroups: {" + group + ": [" + members + "]}\napprovalRules: [{name: r, effect: ask, terms: {groups: [finance]}}]\n"
	}
	f := follow(t, text("ann, bob", "finance"))
	members := func() []string {
		f.later()
		got, err := f.source.Members(t.Context(), "default", "finance")
		require.NoError(t, err)
		return got
	}
	require.Equal(t, []string{"ann", "bob"}, members())
	f.write(f.path, text("bob", "finance"))
	require.Equal(t, []string{"bob"}, members())
	f.write(f.path, text("eve", "sales"))
	require.Equal(t, []string{"bob"}, members(), "a rule names what is gone")
	_, err := f.source.Members(t.Context(), "default", "sales")
	require.ErrorIs(t, err, approval.ErrNoGroup)
}

// TestSourceFollowsApprovals: those of an agent apply at once, those for all agents with a
// restart.
func TestSourceFollowsApprovals(t *testing.T) {
	text := func(own, all string) string {
		return "agents: [{name: a, model: demo/demo, approvalRules: [{name: r, effect: " + own + "}]}]\napprovalRules: [{name: r, effect: " + all + "}]\n"
	}
	f := follow(t, text("ask", "ask"))
	f.write(f.path, text("deny", "ask"))
	require.Equal(t, approval.EffectDeny, f.later().ApprovalRules[0].Effect)
	require.Zero(t, f.logged("restart"), f.log.String())

	f.write(f.path, text("allow", "deny"))
	require.Equal(t, approval.EffectAllow, f.later().ApprovalRules[0].Effect)
	require.Equal(t, approval.EffectAsk, f.source.Config().ApprovalRules[0].Effect)
	require.Equal(t, 1, f.logged("approvalRules have changed: restart to apply that"), f.log.String())

	f.write(f.path, text("nothing", "deny"))
	require.Equal(t, approval.EffectAllow, f.later().ApprovalRules[0].Effect, "a broken file changes nothing")
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	celBlock  = regexp.MustCompile("(?ms)^```cel\n(.*?)^```$")
)

// TestApprovalsOfTheDocs: examples that people copy are right, and do what is said of them.
func TestApprovalsOfTheDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/approvals.md")
	require.NoError(t, err)
	text := string(data)

	block := yamlBlock.FindStringSubmatch(text)
	require.NotNil(t, block)
	c, err := Parse("docs", []byte(block[1]), "", Env(env(EnvAPIKey, "sk-1")))
	require.NoError(t, err)
	run := func(command string) approval.Verdict {
		args, err := json.Marshal(map[string]string{"command": command})
		require.NoError(t, err)
		return approval.Decide(c.Agents[0].ApprovalRules, approval.Call{Tool: "shell_cmd", Agent: "assistant", Arguments: string(args)})
	}
	for command, want := range map[string]string{
		"git status": "looking is free", "git log --oneline -5": "looking is free", "git diff --output=x": "", "git push": "pushing needs two", "git push --force": "no force",
		"git status; rm -rf /": "", "git status\nrm": "", "git log ../x": "", "make": "", "cd x; git push": "pushing needs two",
	} {
		require.Equal(t, want, run(command).Rule, command)
	}
	require.Equal(t, 2, run("git push").Terms.Quorum)

	expressions := 0
	for _, block := range celBlock.FindAllStringSubmatch(text, -1) {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			require.NoError(t, approval.Rule{Name: "r", Effect: approval.EffectAsk, When: line}.Validate(), line)
			expressions++
		}
	}
	require.GreaterOrEqual(t, expressions, 7)

	t.Run("the mistake", func(t *testing.T) {
		_, err := Parse("threadmill.yaml", []byte(ruleAgents+strings.Repeat("\n", 7)+"approvalRules:\n  - name: r\n    effect: deny\n    when:     arg.x\n"), "", Env(env()))
		require.Contains(t, text, "\n"+err.Error()+"\n")
	})
	t.Run("the digest", func(t *testing.T) {
		const object = `{"arguments":{"command":"git status"},"paths":{},"tool":"shell_cmd","workingDirectory":"/srv/project"}`
		require.Contains(t, text, "\n"+object+"\n")
		digest, err := approval.Call{Tool: "Shell_cmd", Arguments: `{ "command": "git status" }`, WorkingDirectory: "/srv/project", Agent: "a"}.Digest()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(object))), digest)
	})
	t.Run("the globs", func(t *testing.T) {
		covers := func(glob, value string) bool {
			args, err := json.Marshal(map[string]string{"x": value})
			require.NoError(t, err)
			return approval.Call{Tool: "t", Arguments: string(args)}.Matches(map[string]string{"x": glob}) == nil
		}
		for _, c := range [][2]string{
			{"git status*", "git status -s"},
			{"git *", "git -c core.pager=evil log"},
			{"git *", "git push --force"},
			{"git **", "git -C /root log"},
			{"https://example.com*", "https://example.com.evil.net"},
			{"https://example.com*", "https://example.com@evil.net"},
			{"x*", "x main..topic"},
		} {
			require.True(t, covers(c[0], c[1]), c)
			require.True(t, strings.Contains(text, "`"+c[0]+"`") || c[0] == "x*", c[0])
		}
		for _, c := range [][2]string{
			{"git status*", "git status; rm -rf /"},
			{"git status*", "git status $(x)"},
			{"git status*", "git status\nls"},
			{"/srv/docs/**", "/srv/docs/../x"},
			{"x*", "x --dir=.."},
			{"x**", "x%2e%2e"},
			{"x**", "x%2Fy"},
			{"https://example.com/*", "https://example.com.evil.net/"},
		} {
			require.False(t, covers(c[0], c[1]), c)
		}
		for _, r := range "\"'\n\t;&|<>$`(){}[]!#~?*^\\" {
			require.False(t, covers("x**", "x"+string(r)), "%q", r)
		}
		for _, r := range "aZ9é漢 -_.=:,+%@/" {
			require.True(t, covers("x**", "x"+string(r)), "%q", r)
		}
	})
	t.Run("and of the configuration", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
		require.NoError(t, err)
		found := 0
		for _, block := range yamlBlock.FindAllStringSubmatch(string(data), -1) {
			if strings.HasPrefix(block[1], "tools:") {
				c, err := Parse("docs", []byte(ruleAgents+block[1]), "", Env(env()))
				require.NoError(t, err)
				found += len(c.Tools.Client)
			}
		}
		require.Positive(t, found)
	})
}
