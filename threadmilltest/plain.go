package threadmilltest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// aThread is the thread of calls and events that have none.
const aThread = "t1"

// RunHook runs a hook on an event, without a server, and returns its decision: that the event passed if
// its filter does not select the event. The hook must be a Go function, and gets no store. The test fails
// if the hook does; call hook.Run for one that must fail.
func RunHook(t testing.TB, h hook.Hook, e event.Event) hook.Answer {
	t.Helper()
	set, err := hook.NewSet(hook.Config{Hooks: []hook.Hook{h}})
	if err != nil {
		t.Fatalf("threadmilltest: %v", err)
	}
	if h.Workflow != nil {
		t.Fatalf("hook %q is a workflow: run it with the test environment of Temporal's SDK, or with New", h.Name)
	}
	if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == event.CreatedByTool && len(h.Filter.Tools)+len(h.Filter.Agents) > 0 {
		t.Fatalf("hook %q selects results of tools by tool or agent, which the event does not have: test it with New, or without these filters", h.Name)
	}
	about := hook.SubjectOf(signals.DefaultNamespace, e)
	if len(hook.Matching(set.Specs(), about)) == 0 {
		return hook.Answer{Outcome: event.OutcomePassed}
	}
	out, err := h.Run(t.Context(), e, hook.Deps{Context: hook.Context{
		Namespace: about.Namespace, ThreadID: aThread, EventID: signals.NewEventID(), Agent: about.Agent, Hook: h.Name, Attempt: 1,
	}})
	if err != nil {
		t.Fatalf("hook %q fails on %s: %v", h.Name, e.EventType(), err)
	}
	return out
}

// MatchRule returns the rule that handles an environment event, among the rules of an application and the
// default ones: its Agent, Function or Processor is where the event goes. The test fails if the rules are
// invalid, or none of them matches.
func MatchRule(t testing.TB, rules []rule.Rule, e event.EnvEvent) rule.Spec {
	t.Helper()
	set, err := rule.NewSet(rule.Config{Rules: rules})
	if err != nil {
		t.Fatalf("threadmilltest: %v", err)
	}
	spec, ok := rule.Match(set.Specs(), e)
	if !ok {
		t.Fatalf("no rule matches event %s", e.Type)
	}
	return spec
}

// Policy returns what the configuration says of a call by an agent that nobody has approved before:
// whether it is allowed, needs approval or is denied, by which rule and why. The arguments are any value
// with a JSON form. The test fails if the call could not run whatever the policy: the agent has no such
// tool, or the arguments do not fit.
func Policy(t testing.TB, cfg threadmill.Config, agentName, toolName string, arguments any) approval.Verdict {
	t.Helper()
	i := slices.IndexFunc(cfg.Agents, func(a agent.Agent) bool { return a.Name == agentName })
	if i < 0 {
		t.Fatalf("Config.Agents has no %q", agentName)
	}
	j := slices.IndexFunc(cfg.Tools, func(tl tool.Tool) bool { return tl.Definition().Name == toolName })
	if j < 0 {
		t.Fatalf("Config.Tools has no %q", toolName)
	}
	who := cfg.Agents[i]
	if !slices.ContainsFunc(who.Tools, func(pattern string) bool { return event.MatchTool(pattern, toolName) }) {
		t.Fatalf("agent %q has no tool %q", agentName, toolName)
	}
	namespace := cfg.Namespace
	if namespace == "" {
		namespace = signals.DefaultNamespace
	}
	out, err := activities.Policy(cfg.ApprovalRules, who, cfg.Tools[j].Definition().WithDefaults(), namespace, aThread, marshal(t, arguments))
	if err != nil {
		t.Fatalf("the call of %s cannot run: %v", toolName, err)
	}
	return out
}

// CallTool calls a tool as a thread would: arguments that do not fit its schema are an error, a
// *tool.ArgumentError, and the tool is not called. The arguments are any value with a JSON form; a string
// is sent unchanged.
func CallTool(t testing.TB, tl tool.Tool, arguments any) (tool.Result, error) {
	t.Helper()
	raw := marshal(t, arguments)
	if err := tl.Definition().ValidateArguments(raw); err != nil {
		return tool.Result{}, err
	}
	out := tooltest.Run(t, tl, raw)
	return out.Result, out.Err
}

// marshal returns the JSON of arguments.
func marshal(t testing.TB, arguments any) string {
	t.Helper()
	if raw, ok := arguments.(string); ok {
		return raw
	}
	if arguments == nil {
		return "{}"
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatalf("threadmilltest: the arguments have no JSON form: %v", err)
	}
	return string(raw)
}
