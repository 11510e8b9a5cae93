package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/tool"
)

// MCPServers returns a table of MCP servers. It is empty without servers.
func MCPServers(all []api.MCPServerDetail, opts TableOptions) string {
	t := table{head: []string{"SERVER", "STATUS", "TOOLS", "SOURCE", "ADDRESS", "LOGIN", "PROBLEM"}, rare: []string{"LOGIN", "PROBLEM"}}
	for _, s := range all {
		t.row(visible(s.Name), visible(string(s.Status)), fmt.Sprint(len(s.Tools)), visible(s.Source), visible(s.Address), visible(loginBy(s.Login)), opts.shorten(visible(serverProblem(s)), 60))
	}
	return t.String()
}

// loginBy says who is logged in. It is empty for a server without logins.
func loginBy(l *tool.ServerLogin) string {
	switch {
	case l == nil:
		return ""
	case !l.LoggedIn:
		return "nobody"
	}
	return cmp.Or(oneLine(l.By), "yes")
}

// login describes a login. It is empty for a server without logins.
func login(l *tool.ServerLogin, opts TableOptions) string {
	if l == nil {
		return ""
	}
	whose := "of all threads"
	if l.Per == tool.LoginPerUser {
		whose = "of " + cmp.Or(oneLine(l.User), "each person")
	}
	if !l.LoggedIn {
		return whose + ": not logged in" + suffix(", ", oneLine(l.Lost)) + ", run starter servers login"
	}
	return whose + ": logged in" + suffix(" by ", oneLine(l.By)) + suffix(", ", opts.time(l.At)) + suffix(", at ", oneLine(l.Issuer)) +
		suffix(", for ", oneLine(strings.Join(l.Scopes, ", "))) + suffix("; calls lack ", oneLine(strings.Join(l.Wanted, ", ")))
}

func serverProblem(s api.MCPServerDetail) string {
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

// MCPServer returns an MCP server with its tools.
func MCPServer(s api.MCPServerDetail, opts TableOptions) string {
	var out fields
	out.add("server", s.Name)
	out.add("about", oneLine(s.Description))
	out.add("status", string(s.Status)+suffix(", since ", opts.time(s.Since)))
	out.add("source", s.Source+suffix(", by ", s.By))
	out.add("address", s.Transport+" "+s.Address)
	out.add("login", login(s.Login, opts))
	out.add("itself", strings.TrimSpace(oneLine(s.ServerName+" "+s.ServerVersion))+suffix(", protocol ", s.ProtocolVersion))
	out.add("worker", s.Worker)
	out.add("error", oneLine(s.Error))
	out.add("next", opts.optionalTime(s.NextAttempt))
	out.add("problem", oneLine(s.Problem))
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
