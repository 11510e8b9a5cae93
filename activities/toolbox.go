package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/tool"
)

// toolbox contains the tools that an agent may call. A step reads those that exist only at run time once,
// so that it describes and plans the same tools.
type toolbox struct {
	a   *Activities
	who agent.Agent

	// dynamic are the tools of the source, by name.
	dynamic []tool.Tool
}

func (a *Activities) toolbox(ctx context.Context, namespace string, who agent.Agent) toolbox {
	box := toolbox{a: a, who: who}
	if a.cfg.ToolSource == nil {
		return box
	}
	var patterns []string
	for _, name := range who.Tools {
		if _, ofServer := event.ToolServer(name); ofServer {
			patterns = append(patterns, name)
		}
	}
	if len(patterns) == 0 {
		return box
	}
	taken := map[string]bool{}
	for _, t := range a.cfg.ToolSource.Tools(ctx, namespace, patterns) {
		// Approvals compare names without regard to case.
		name := strings.ToLower(t.Definition().Name)
		if _, fixed := a.lookup(t.Definition().Name); fixed || taken[name] || !event.MatchTools(patterns, t.Definition().Name) {
			continue
		}
		taken[name] = true
		box.dynamic = append(box.dynamic, t)
	}
	return box
}

// lookup returns a tool that the agent may call.
func (b toolbox) lookup(name string) (tool.Tool, bool) {
	if !event.MatchTools(b.who.Tools, name) || event.IsToolPattern(name) {
		return b.a.builtIn(name)
	}
	if t, ok := b.a.lookup(name); ok {
		return t, true
	}
	for _, t := range b.dynamic {
		if t.Definition().Name == name {
			return t, true
		}
	}
	return nil, false
}

// tools returns the agent's tools, in the order in which the agent names them.
func (b toolbox) tools() []tool.Tool {
	var out []tool.Tool
	for _, name := range b.who.Tools {
		found := b.named(name)
		if len(found) == 0 {
			b.warn(name)
		}
		for _, t := range found {
			if !slices.ContainsFunc(out, func(o tool.Tool) bool { return o.Definition().Name == t.Definition().Name }) {
				out = append(out, t)
			}
		}
	}
	return out
}

// named returns the tools that a name or a pattern stands for.
func (b toolbox) named(name string) (out []tool.Tool) {
	if !event.IsToolPattern(name) {
		if t, ok := b.lookup(name); ok {
			out = append(out, t)
		}
		return out
	}
	for _, t := range append(b.a.cfg.Tools.Tools(), b.dynamic...) {
		if event.MatchTool(name, t.Definition().Name) {
			out = append(out, t)
		}
	}
	return out
}

// warn logs, once, that an agent names a tool that does not exist.
func (b toolbox) warn(name string) {
	if _, known := b.a.missing.LoadOrStore(b.who.Name+" "+name, true); known {
		return
	}
	if server, ok := event.ToolServer(name); ok && b.a.cfg.ToolSource != nil {
		b.a.log.Warn("the agent names tools of an MCP server that offers none of that name, or has not been reached yet",
			"agent", b.who.Name, "tool", name, "server", server)
		return
	}
	b.a.log.Warn("the agent names a tool that does not exist: calls of it fail", "agent", b.who.Name, "tool", name)
}

// described describes the agent's tools for its model.
func (b toolbox) described() []llm.Tool {
	var out []llm.Tool
	for _, t := range b.tools() {
		out = append(out, described(t))
	}
	return out
}

func described(t tool.Tool) llm.Tool {
	d := t.Definition()
	return llm.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters}
}

// maxNamed is the number of tools that an error lists.
const maxNamed = 50

// names returns the names of the tools for errors. Those of servers are the tools that exist now.
func (b toolbox) names() []string {
	var names []string
	for _, name := range b.who.Tools {
		if _, ofServer := event.ToolServer(name); !ofServer {
			names = append(names, name)
			continue
		}
		for _, t := range b.named(name) {
			if !slices.Contains(names, t.Definition().Name) {
				names = append(names, t.Definition().Name)
			}
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return names
}

// unknown returns the error, for the model, of a call of a tool that the agent does not have. A tool that
// a server does not offer any more may come back.
func (b toolbox) unknown(name string) error {
	if server, ok := event.ToolServer(name); ok && event.MatchTools(b.who.Tools, name) {
		return fmt.Errorf("the tool %q does not exist any more: the MCP server %q does not offer it, or has been removed; the tools are %v", name, server, b.names())
	}
	return fmt.Errorf("unknown tool %q; the tools are %v", name, b.names())
}
