package threadmill_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// shop is a configuration with a tool, an agent, and all parts that refer to them.
func shop(t *testing.T) threadmill.Config {
	t.Helper()
	temporal, err := client.NewLazyClient(client.Options{})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	records, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, records.Close()) })
	pass := func(hook.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil }
	audit := hook.Inline("audit", pass)
	audit.Filter = hook.Filter{Tools: []string{"refund"}, Agents: []string{"clerk"}}
	return threadmill.Config{
		Temporal: temporal, Store: records,
		Agents: []agent.Agent{{
			Name: "clerk", Model: "demo/demo", Tools: []string{"refund", "get_event_info", "call_agent"},
			Approvals:     map[string]agent.Policy{"refund": agent.PolicyAlways, "call-agent": agent.PolicyDeny, "read_result": agent.PolicyAlways, "*": agent.PolicyNever},
			ApprovalRules: []approval.Rule{{Name: "own", Tools: []string{"refund", "*"}, Agents: []string{"Clerk"}, Effect: approval.EffectAsk}},
		}},
		Tools: []tool.Tool{
			tool.ClientSide(tool.Definition{Name: "refund"}),
			tool.ClientSide(tool.Definition{Name: "look"}),
		},
		ApprovalRules: []approval.Rule{{Name: "all", Tools: []string{"refund", "task", "*"}, Agents: []string{"CLERK", "*"}, Effect: approval.EffectAsk}},
		Hooks:         []hook.Hook{audit},
		Rules:         []rule.Rule{{Priority: 11, Events: []string{"order.paid"}, Agent: &rule.Agent{Name: "clerk"}}},
	}
}

// TestNamesAreChecked: a name that means nothing is an error where it stands, so renaming a tool or an
// agent opens nothing.
func TestNamesAreChecked(t *testing.T) {
	_, err := threadmill.New(shop(t))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*threadmill.Config)
		want   string
	}{
		"a group of a rule": {
			func(c *threadmill.Config) { c.ApprovalRules[0].Terms.Groups = []string{"fnance"} },
			`Config.ApprovalRules: approvalRules[0].terms.groups[0]: unknown group "fnance"; none exists`,
		},
		"a group of an agent": {
			func(c *threadmill.Config) {
				c.ApproverGroups = approval.FixedGroups{"finance": {"ann"}}
				c.Agents[0].ApprovalTerms.Groups = []string{"fnance"}
			},
			`Config.Agents[0] (clerk): approvalTerms.groups[0]: unknown group "fnance"; did you mean "finance"?`,
		},
		"a member without a name": {
			func(c *threadmill.Config) { c.ApproverGroups = approval.FixedGroups{"finance": {"ann", ""}} },
			`Config.ApproverGroups: finance[1]: `,
		},
		"the tool was renamed": {
			func(c *threadmill.Config) { c.Tools[0] = tool.ClientSide(tool.Definition{Name: "pay_back"}) },
			`Config.Agents[0] (clerk): tools[0]: unknown tool "refund"; known are call-agent, call_agent,`,
		},
		"and the agent has its new name": {
			func(c *threadmill.Config) {
				c.Tools[0], c.Agents[0].Tools = tool.ClientSide(tool.Definition{Name: "refund_money"}), []string{"refund_money", "call_agent"}
			},
			`Config.Agents[0] (clerk): approvals.refund: unknown tool "refund"; did you mean "refund_money"? ("*" is for all others)`,
		},
		"and its policy too": {
			func(c *threadmill.Config) {
				c.Tools[0] = tool.ClientSide(tool.Definition{Name: "refund_money"})
				c.Agents[0] = agent.Agent{Name: "clerk", Model: "demo/demo", Tools: []string{"refund_money"}}
			},
			`Config.ApprovalRules: approvalRules[0].tools[0]: unknown tool "refund"; did you mean "refund_money"?`,
		},
		"and the rules too": {
			func(c *threadmill.Config) {
				c.Tools[0], c.ApprovalRules = tool.ClientSide(tool.Definition{Name: "refund_money"}), nil
				c.Agents[0] = agent.Agent{Name: "clerk", Model: "demo/demo", Tools: []string{"refund_money"}}
			},
			`Config.Hooks[0] (audit): filter.tools[0]: unknown tool "refund"; did you mean "refund_money"?`,
		},
		"the agent has another tool now": {
			func(c *threadmill.Config) { c.Agents[0].Tools = []string{"look", "call_agent"} },
			`Config.Agents[0] (clerk): approvals.refund: the agent does not have the tool "refund": add it to the agent's tools or remove it here`,
		},
		"a rule of the agent": {
			func(c *threadmill.Config) { c.Agents[0].ApprovalRules[0].Tools[0] = "look" },
			`Config.Agents[0] (clerk): approvalRules[0].tools[0]: the agent does not have the tool "look"`,
		},
		"a rule of the agent for another one": {
			func(c *threadmill.Config) { c.Agents[0].ApprovalRules[0].Agents[0] = "cashier" },
			`Config.Agents[0] (clerk): approvalRules[0].agents[0]: is "cashier", but the rules of an agent look at its own calls only`,
		},
		"upper and lower case": {
			func(c *threadmill.Config) { c.ApprovalRules[0].Tools[0] = "Refund" },
			`Config.ApprovalRules: approvalRules[0].tools[0]: unknown tool "Refund"; did you mean "refund"? (upper and lower case differ)`,
		},
		"a character that is not visible": {
			func(c *threadmill.Config) { c.Hooks[0].Filter.Tools[0] = "refund\u200b" },
			`Config.Hooks[0] (audit): filter.tools[0]: unknown tool "refund\u200b"; did you mean "refund"? (yours has a character that is not visible)`,
		},
		"an expression": {
			func(c *threadmill.Config) {
				c.ApprovalRules[0].When = `tool in ["refund", "refnd"] && args.amount > 10`
			},
			`Config.ApprovalRules: approvalRules[0].when: compares tool with "refnd": unknown tool "refnd"; did you mean "refund"?`,
		},
		"an expression of the agent": {
			func(c *threadmill.Config) { c.Agents[0].ApprovalRules[0].When = `tool == "look"` },
			`Config.Agents[0] (clerk): approvalRules[0].when: compares tool with "look": the agent does not have the tool "look"`,
		},
		"a filter has no patterns": {
			func(c *threadmill.Config) { c.Hooks[0].Filter.Tools[0] = "ref*" },
			`Config.Hooks[0] (audit): filter.tools[0]: unknown tool "ref*"`,
		},
		"the agent was renamed": {
			func(c *threadmill.Config) { c.Agents[0].Name, c.Agents[0].ApprovalRules = "clark", nil },
			`Config.ApprovalRules: approvalRules[0].agents[0]: unknown agent "CLERK"; did you mean "clark"?`,
		},
		"and the rules know": {
			func(c *threadmill.Config) {
				c.Agents[0].Name, c.Agents[0].ApprovalRules, c.ApprovalRules = "cashier", nil, nil
			},
			`Config.Hooks[0] (audit): filter.agents[0]: unknown agent "clerk"; known are cashier`,
		},
		"the agent of a rule": {
			func(c *threadmill.Config) { c.Rules[0].Agent.Name = "clerc" },
			`Config.Rules[0] (order.paid): agent.name: unknown agent "clerc"; did you mean "clerk"?`,
		},
		"the processor of a rule": {
			func(c *threadmill.Config) {
				c.Rules[0] = rule.Rule{Priority: 11, Events: []string{"order.paid"}, Processor: "pay"}
			},
			`Config.Rules[0] (order.paid): processor: unknown processor "pay"; none exists`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := shop(t)
			c.change(&cfg)
			_, err := threadmill.New(cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestNamesOfWebhooks: webhooks of the API name agents of the runtime.
func TestNamesOfWebhooks(t *testing.T) {
	r, err := threadmill.New(shop(t))
	require.NoError(t, err)
	orders := webhook.Endpoint{Name: "orders", Unsigned: true, Event: webhook.Event{Type: "order.paid", Open: true, Thread: "orders", Agents: []string{"clerk"}}}
	_, err = httpapi.New(r, httpapi.Config{Webhooks: []webhook.Endpoint{orders}})
	require.NoError(t, err)
	orders.Event.Agents[0] = "clerc"
	_, err = httpapi.New(r, httpapi.Config{Webhooks: []webhook.Endpoint{orders}})
	require.EqualError(t, err, `httpapi: Config.Webhooks[0] (orders): event.agents[0]: unknown agent "clerc"; did you mean "clerk"?`)
}

// TestNamesThatOthersKnow: a process without tools cannot check their names, and one whose agents come
// at run time cannot check theirs.
func TestNamesThatOthersKnow(t *testing.T) {
	api := shop(t)
	api.Tools, api.ToolsElsewhere = nil, true
	_, err := threadmill.New(api)
	require.NoError(t, err)
	api.Agents[0].Tools = []string{"pay_back"}
	_, err = threadmill.New(api)
	require.ErrorContains(t, err, `Config.Agents[0] (clerk): approvals.call-agent: unknown tool "call-agent"`, "a policy must be for a tool of the agent")

	dynamic := shop(t)
	dynamic.AgentSource, dynamic.Agents = agent.Fixed(dynamic.Agents), nil
	dynamic.ApprovalRules[0].Agents[0] = "later"
	r, err := threadmill.New(dynamic)
	require.NoError(t, err)
	require.NoError(t, r.RegisterRule(rule.Rule{Name: "late", Priority: 12, Events: []string{"a.b"}, Agent: &rule.Agent{Name: "later"}}))
}

// TestRegisterRuleChecksNames: a rule that is added at run time names agents that exist.
func TestRegisterRuleChecksNames(t *testing.T) {
	r, err := threadmill.New(shop(t))
	require.NoError(t, err)
	err = r.RegisterRule(rule.Rule{Name: "late", Priority: 12, Events: []string{"a.b"}, Agent: &rule.Agent{Name: "clerc"}})
	require.EqualError(t, err, `threadmill: agent.name: unknown agent "clerc"; did you mean "clerk"?`)
}

// TestStoreLacks: what a store of one's own lacks is told when the program starts.
func TestStoreLacks(t *testing.T) {
	cfg := shop(t)
	type records struct{ store.Store }
	cfg.Store = records{cfg.Store}
	_, err := threadmill.New(cfg)
	require.EqualError(t, err, "threadmill: Config.Store: threadmill_test.records does not implement store.Agents")
}
