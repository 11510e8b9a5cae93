// Package names checks the names by which the parts of a configuration refer to each other. A name
// that means nothing would otherwise leave a policy, a hook or a rule without effect.
package names

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/rule"
)

// Known are the names that exist. A nil list is not known: names in it are not checked.
type Known struct {
	// Tools are the names of tools, the pattern "server__*" of each MCP server, and [AnyServer] if
	// further servers can be declared at run time.
	Tools      []string
	Agents     []string
	Processors []string

	// Groups are the groups of approvers.
	Groups []string

	// Fallbacks are the fallback chains of models.
	Fallbacks []string
}

// Problems are the wrong names in a part of a configuration, by their fields within it.
type Problems []*event.FieldError

// First returns the first problem as an error, or nil.
func (p Problems) First() error {
	if len(p) == 0 {
		return nil
	}
	return p[0]
}

// Agent reports names in an agent: of its fallback chain, of its tools, and of tools in its policies and rules, which must
// be tools of the agent. A policy for another tool would protect nothing.
func (k Known) Agent(a agent.Agent) Problems {
	out := append(k.model(a.Model), k.tools("tools", a.Tools)...)
	own := k.toolsOf(a)
	for _, name := range slices.Sorted(maps.Keys(a.Approvals)) {
		if name != "*" && !has(own, name) {
			out = append(out, problem("approvals."+name, `%s ("*" is for all others)`, k.notOwn(name, own)))
		}
	}
	out = append(out, k.groups("approvalTerms", a.ApprovalTerms)...)
	for i, r := range a.ApprovalRules {
		at := fmt.Sprintf("approvalRules[%d]", i)
		out = append(out, k.groups(at+".terms", r.Terms)...)
		for j, name := range r.Tools {
			if name != "*" && !has(own, name) {
				out = append(out, problem(fmt.Sprintf("%s.tools[%d]", at, j), "%s", k.notOwn(name, own)))
			}
		}
		for _, name := range approval.ToolsIn(r.When) {
			if !has(own, name) {
				out = append(out, problem(at+".when", "compares tool with %q: %s", name, k.notOwn(name, own)))
			}
		}
		for j, name := range r.Agents {
			if name != "*" && !strings.EqualFold(name, a.Name) {
				out = append(out, problem(fmt.Sprintf("%s.agents[%d]", at, j), "is %q, but the rules of an agent look at its own calls only: omit agents", name))
			}
		}
	}
	return out
}

// model reports the name of an unknown fallback chain.
func (k Known) model(model string) Problems {
	if k.Fallbacks == nil || strings.Contains(model, "/") || slices.Contains(k.Fallbacks, model) {
		return nil
	}
	if len(k.Fallbacks) == 0 {
		return Problems{problem("model", `%q does not say the provider: write it as provider/model, such as openai/%[1]s`, model)}
	}
	return Problems{problem("model", "%s; or write it as provider/model", unknown("fallback chain", model, k.Fallbacks))}
}

// toolsOf returns the tools that an agent may call: a policy for either name of call_agent counts
// for both, and every agent may call get_event_info and read_result. The policy of a misspelt tool is no second
// mistake.
func (k Known) toolsOf(a agent.Agent) []string {
	own := append(slices.Clone(a.Tools), builtin.GetEventInfo, builtin.ReadResult)
	for _, name := range a.Tools {
		if k.Tools != nil && !k.hasTool(name) {
			own = append(own, near.To(name, k.Tools)...)
			if server, ok := event.ToolServer(name); ok {
				own = append(own, patterns(near.To(server, k.servers()))...)
			}
		}
	}
	if slices.Contains(own, builtin.CallAgent) || slices.Contains(own, builtin.CallAgentHyphen) {
		own = append(own, builtin.CallAgent, builtin.CallAgentHyphen)
	}
	return own
}

// notOwn describes the name of a tool that an agent does not have.
func (k Known) notOwn(name string, own []string) string {
	if k.Tools != nil && k.hasTool(name) {
		return fmt.Sprintf("the agent does not have the tool %q: add it to the agent's tools or remove it here", name)
	}
	known := k.Tools
	if known == nil {
		known = own
	}
	return unknownTool(name, known)
}

// Rules reports names in approval rules for all agents.
func (k Known) Rules(rules []approval.Rule) Problems {
	var out Problems
	for i, r := range rules {
		at := fmt.Sprintf("approvalRules[%d].", i)
		out = append(out, k.tools(at+"tools", r.Tools, "*")...)
		out = append(out, k.agents(at+"agents", r.Agents, "*")...)
		out = append(out, k.groups(at+"terms", r.Terms)...)
		for _, name := range approval.ToolsIn(r.When) {
			if k.Tools != nil && !k.hasTool(name) {
				out = append(out, problem(at+"when", "compares tool with %q: %s", name, unknownTool(name, k.Tools)))
			}
		}
	}
	return out
}

// Filter reports names in the filter of a hook.
func (k Known) Filter(f hook.Filter) Problems {
	return append(k.tools("filter.tools", f.Tools), k.agents("filter.agents", f.Agents)...)
}

// Rule reports the agent or the processor that a rule names.
func (k Known) Rule(r rule.Rule) Problems {
	var out Problems
	if r.Agent != nil && r.Agent.Name != "" {
		out = k.agent("agent.name", r.Agent.Name)
	}
	if r.Processor != "" && k.Processors != nil && !slices.Contains(k.Processors, r.Processor) {
		out = append(out, problem("processor", "%s", unknown("processor", r.Processor, k.Processors)))
	}
	return out
}

// Webhook reports the agents that an endpoint names.
func (k Known) Webhook(agents []string) Problems { return k.agents("event.agents", agents) }

func (k Known) tools(field string, names []string, also ...string) Problems {
	var out Problems
	for i, name := range names {
		if k.Tools != nil && name != "" && !slices.Contains(also, name) && !k.hasTool(name) {
			out = append(out, problem(fmt.Sprintf("%s[%d]", field, i), "%s", unknownTool(name, k.Tools)))
		}
	}
	return out
}

func (k Known) agents(field string, names []string, also ...string) Problems {
	var out Problems
	for i, name := range names {
		if !slices.Contains(also, name) {
			out = append(out, k.agent(fmt.Sprintf("%s[%d]", field, i), name)...)
		}
	}
	return out
}

// agent reports the name of an unknown agent. Names of agents are case-insensitive.
func (k Known) agent(field, name string) Problems {
	same := func(known string) bool { return strings.EqualFold(known, name) }
	if k.Agents == nil || name == "" || slices.ContainsFunc(k.Agents, same) {
		return nil
	}
	return Problems{problem(field, "%s", unknown("agent", name, k.Agents))}
}

// groups reports groups that do not exist.
func (k Known) groups(at string, t approval.Terms) Problems {
	var out Problems
	for i, name := range t.Groups {
		if k.Groups != nil && !slices.Contains(k.Groups, name) {
			out = append(out, problem(fmt.Sprintf("%s.groups[%d]", at, i), "%s", unknown("group", name, k.Groups)))
		}
	}
	return out
}

func problem(field, format string, args ...any) *event.FieldError {
	return &event.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func unknown(what, name string, known []string) string {
	return fmt.Sprintf("unknown %s %q; %s", what, name, near.Suggest(name, known))
}

// AnyServer among the known tools stands for the tools of all MCP servers, also of those that are not
// declared yet.
const AnyServer = "*__*"

// hasTool reports whether a tool exists, or a tool that a pattern stands for.
func (k Known) hasTool(name string) bool {
	_, ofServer := event.ToolServer(name)
	return has(k.Tools, name) || ofServer && slices.Contains(k.Tools, AnyServer)
}

// has reports whether tools, names and patterns, and a name or a pattern have a tool in common.
func has(tools []string, name string) bool { return len(event.CommonTools(tools, []string{name})) > 0 }

// servers returns the known MCP servers.
func (k Known) servers() []string { return serversIn(k.Tools) }

func serversIn(tools []string) (servers []string) {
	for _, name := range tools {
		if server, ok := event.ToolServer(name); ok && event.IsToolPattern(name) {
			servers = append(servers, server)
		}
	}
	return servers
}

func patterns(servers []string) (patterns []string) {
	for _, server := range servers {
		patterns = append(patterns, event.ToolPattern(server))
	}
	return patterns
}

func unknownTool(name string, known []string) string {
	if server, ok := event.ToolServer(name); ok {
		if servers := serversIn(known); !slices.Contains(servers, server) {
			return fmt.Sprintf("unknown MCP server %q of the tool %q; %s", server, name, near.Suggest(server, servers))
		}
	}
	return unknown("tool", name, known)
}
