package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/tool"
)

// MCPServers returns a table of MCP servers. It is empty without servers.
func MCPServers(all []api.MCPServer, opts TableOptions) string {
	t := table{head: []string{"SERVER", "STATUS", "TOOLS", "SOURCE", "ADDRESS", "PROBLEM"}, rare: []string{"PROBLEM"}}
	for _, s := range all {
		t.row(visible(s.Name), visible(string(s.Status)), fmt.Sprint(len(s.Tools)), visible(s.Source), visible(s.Address), opts.shorten(visible(serverProblem(s)), 60))
	}
	return t.String()
}

func serverProblem(s api.MCPServer) string {
	switch {
	case s.Problem != "":
		return oneLine(s.Problem)
	case s.Error != "":
		return oneLine(s.Error)
	case len(s.Problems) > 0:
		return oneLine(s.Problems[0].Subject + ": " + s.Problems[0].Reason)
	}
	return ""
}

// loginText tells who is logged in to a server, if people log in to it.
func loginText(l *tool.ServerLogin, opts TableOptions) string {
	switch {
	case l == nil:
		return ""
	case l.LoggedIn:
		return oneLine(l.By + ", since " + opts.time(l.At) + suffix(", for ", strings.Join(l.Scopes, " ")) + suffix(", but calls want ", strings.Join(l.Wanted, " ")))
	case l.Lost != "":
		return oneLine("lost: " + l.Lost)
	}
	return "none: run starter servers login"
}

// MCPServer returns an MCP server with its tools.
func MCPServer(s api.MCPServer, opts TableOptions) string {
	var out fields
	out.add("server", s.Name)
	out.add("about", oneLine(s.Description))
	out.add("status", string(s.Status)+suffix(", since ", opts.time(s.Since)))
	out.add("source", s.Source+suffix(", by ", s.By))
	out.add("address", s.Transport+" "+s.Address)
	out.add("itself", strings.TrimSpace(oneLine(s.ServerName+" "+s.ServerVersion))+suffix(", protocol ", s.ProtocolVersion))
	out.add("worker", s.Worker)
	out.add("error", oneLine(s.Error))
	out.add("next", opts.optionalTime(s.NextAttempt))
	out.add("problem", oneLine(s.Problem))
	out.add("login", loginText(s.Login, opts))
	if s.Trusted {
		out.add("trusted", "yes")
	}
	for _, p := range s.Problems {
		out.add("rejected", oneLine(p.Subject+": "+p.Reason))
	}
	if s.Prompts > 0 {
		out.add("prompts", fmt.Sprint(s.Prompts))
	}
	if s.Resources > 0 {
		out.add("resources", fmt.Sprint(s.Resources))
	}
	if s.Log != "" {
		out.WriteString("its last output\n")
		for line := range strings.SplitSeq(strings.TrimRight(s.Log, "\n"), "\n") {
			fmt.Fprintf(&out, "  %s\n", visible(line))
		}
	}
	if len(s.Tools) == 0 {
		return out.String()
	}
	t := table{head: []string{"TOOL", "EFFECT", "CHANGED", "DESCRIPTION"}, rare: []string{"CHANGED"}}
	for _, one := range s.Tools {
		t.row(visible(one.Name), effect(one.Hints), opts.optionalTime(one.ChangedAt), opts.shorten(visible(oneLine(one.Description)), 60))
	}
	return out.String() + "\n" + t.String()
}

// effect is what a server says about the effect of a tool.
func effect(h tool.ServerHints) string {
	switch {
	case h.ReadOnly:
		return "reads"
	case h.Destructive:
		return "may destroy"
	}
	return "adds"
}
