package event

import (
	"slices"
	"strings"
)

// serverSeparator separates the name of a server from the names of its tools. The names of servers have
// no underscore.
const serverSeparator = "__"

// ToolServer returns the server that a tool's name, or a pattern, belongs to: "files" of
// "files__read_file" and "files__*".
func ToolServer(name string) (server string, ok bool) {
	server, rest, ok := strings.Cut(name, serverSeparator)
	if !ok || server == "" || rest == "" || strings.Contains(server, "_") {
		return "", false
	}
	return server, true
}

// ToolPattern returns the pattern for all tools of a server.
func ToolPattern(server string) string { return server + serverSeparator + "*" }

// IsToolPattern reports whether a name stands for all tools of a server: "files__*".
func IsToolPattern(name string) bool {
	server, ok := ToolServer(name)
	return ok && name == ToolPattern(server)
}

// MatchTool reports whether a pattern, a tool's name or "server__*", stands for a tool.
func MatchTool(pattern, tool string) bool {
	if pattern == tool {
		return true
	}
	if !IsToolPattern(pattern) {
		return false
	}
	rest, ok := strings.CutPrefix(tool, strings.TrimSuffix(pattern, "*"))
	return ok && rest != ""
}

// MatchTools reports whether one of the patterns stands for a tool.
func MatchTools(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return MatchTool(p, tool) })
}

// CommonTools returns patterns for the tools that both lists of patterns stand for, in the order of the
// first.
func CommonTools(a, b []string) []string {
	var out []string
	for _, p := range a {
		for _, q := range b {
			common := ""
			switch {
			case MatchTool(q, p):
				common = p
			case MatchTool(p, q):
				common = q
			}
			if common != "" && !slices.Contains(out, common) {
				out = append(out, common)
			}
		}
	}
	return out
}
