package approval

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sessionGrant is the grant that an approval of the call with scope session gives.
func sessionGrant(t *testing.T, c Call) Grant {
	t.Helper()
	g, ok := grantOf(approvalOf(t, "call_1", c, event.ScopeSession))
	require.True(t, ok)
	return g
}

func patternGrant(t *testing.T, c Call, pattern map[string]string) Grant {
	t.Helper()
	require.NoError(t, c.Matches(pattern))
	a := approvalOf(t, "call_1", c, event.ScopePattern)
	rest, err := c.Rest(pattern)
	require.NoError(t, err)
	a.Pattern, a.Rest = pattern, rest
	g, ok := grantOf(a)
	require.True(t, ok)
	return g
}

func approvalOf(t *testing.T, id string, c Call, scope event.Scope) event.Approval {
	t.Helper()
	return event.Approval{
		ToolCallID: id, ToolName: c.Tool, Agent: c.Agent, Decision: event.DecisionApprove, Scope: scope, By: "ann", DecidedAt: then,
		Digest: digestOf(t, c), Definition: c.Definition, WorkingDirectory: c.WorkingDirectory,
	}
}

func TestSessionGrant(t *testing.T) {
	g := sessionGrant(t, shellCall())
	for name, change := range map[string]func(*Call){
		"S4-80 the same again":                  func(*Call) {},
		"S4-80 its arguments in another order":  arguments(`{ "timeout":30, "command":"git status" }`),
		"S4-81 the tool's name in another case": func(c *Call) { c.Tool = "Shell_Cmd" },
		"the agent's name in another case":      func(c *Call) { c.Agent = "ASSISTANT" },
	} {
		t.Run(name, func(t *testing.T) { require.True(t, g.Covers(shellCall(change))) })
	}
	for name, change := range map[string]func(*Call){
		"S4-81 other arguments":            arguments(`{"command":"git stash","timeout":30}`),
		"S4-81 an argument more":           arguments(`{"command":"git status","timeout":30,"shell":"/tmp/sh"}`),
		"S4-81 another directory":          func(c *Call) { c.WorkingDirectory = "/etc" },
		"S4-81 a directory by another way": func(c *Call) { c.WorkingDirectory = "/desk/../desk" },
		"S4-81 another tool":               func(c *Call) { c.Tool = "shell" },
		"another agent":                    func(c *Call) { c.Agent = "intern" },
		"no agent":                         func(c *Call) { c.Agent = "" },
		"another definition":               func(c *Call) { c.Definition = "sha256:d2" },
		"a name twice":                     arguments(`{"command":"git status","timeout":30,"timeout":30}`),
		"a name in capitals":               arguments(`{"Command":"git status","timeout":30}`),
		"a look-alike in the arguments":    arguments("{\"command\":\"g\u0456t status\",\"timeout\":30}"),
		"a look-alike of the tool":         func(c *Call) { c.Tool = "\u017fhell_cmd" },
		"a look-alike of the agent":        func(c *Call) { c.Agent = "a\u017fsistant" },
		"a link that leads elsewhere":      func(c *Call) { c.Paths = map[string]string{"command": "/etc"} },
		"arguments that cannot be read":    arguments(`{`),
	} {
		t.Run("not "+name, func(t *testing.T) { require.False(t, g.Covers(shellCall(change))) })
	}
	t.Run("a grant of another form covers nothing", func(t *testing.T) {
		for name, change := range map[string]func(*Grant){
			"revoked":     func(g *Grant) { g.RevokedAt = &then },
			"once":        func(g *Grant) { g.Scope = event.ScopeOnce },
			"no scope":    func(g *Grant) { g.Scope = "" },
			"no digest":   func(g *Grant) { g.Digest = "" },
			"a pattern":   func(g *Grant) { g.Scope = event.ScopePattern },
			"no pattern":  func(g *Grant) { g.Scope, g.Pattern = event.ScopePattern, map[string]string{} },
			"digest swap": func(g *Grant) { g.Digest, g.Rest = "", g.Digest },
		} {
			g := g
			change(&g)
			require.False(t, g.Covers(shellCall()), name)
		}
	})
}

func TestPatternGrant(t *testing.T) {
	t.Run("a command", func(t *testing.T) {
		g := patternGrant(t, shellCall(), map[string]string{"command": "git status*"})
		for _, command := range []string{"git status", "git status -s", "git status --porcelain=v2"} {
			require.True(t, g.Covers(shellCall(arguments(`{"timeout":30,"command":"`+command+`"}`))), command)
		}
		for _, command := range []string{
			"git status; rm -rf /", `git status\nrm`, "git status $(x)", "git status `x`", "git status && x", "git status | sh", "git status > a",
			`git status \"a\"`, "git status 'a'", "GIT status", "git  status", "git stash", "g\u0456t status", "git status src/a", "git\u00a0status", "",
		} {
			require.False(t, g.Covers(shellCall(arguments(`{"timeout":30,"command":"`+command+`"}`))), command)
		}
	})
	g := patternGrant(t, shellCall(), map[string]string{"command": "git *"})
	for name, change := range map[string]func(*Call){
		"other arguments beside it": arguments(`{"command":"git status","timeout":31}`),
		"an argument more":          arguments(`{"command":"git status","timeout":30,"root":"/"}`),
		"an argument less":          arguments(`{"command":"git status"}`),
		"no command":                arguments(`{"timeout":30}`),
		"a command that is a list":  arguments(`{"command":["git status"],"timeout":30}`),
		"a command twice":           arguments(`{"command":"git status","command":"rm","timeout":30}`),
		"a command in capitals":     arguments(`{"command":"git status","COMMAND":"rm","timeout":30}`),
		"another directory":         func(c *Call) { c.WorkingDirectory = "/" },
		"another tool":              func(c *Call) { c.Tool = "ssh_cmd" },
		"another agent":             func(c *Call) { c.Agent = "intern" },
		"another definition":        func(c *Call) { c.Definition = "" },
	} {
		t.Run("not "+name, func(t *testing.T) { require.False(t, g.Covers(shellCall(change))) })
	}
	t.Run("a path goes by where it leads to", func(t *testing.T) {
		read := func(path, real string) Call {
			return Call{Agent: "a", Tool: "read_file", Arguments: `{"path":"` + path + `"}`, Paths: map[string]string{"path": real}, WorkingDirectory: "/desk"}
		}
		g := patternGrant(t, read("docs/a.md", "/desk/docs/a.md"), map[string]string{"path": "/desk/docs/**"})
		require.True(t, g.Covers(read("docs/b/c.md", "/desk/docs/b/c.md")))
		require.True(t, g.Covers(read("../desk/docs/b", "/desk/docs/b")), "however it is written")
		require.False(t, g.Covers(read("docs/link", "/etc/passwd")), "a link")
		require.False(t, g.Covers(read("/desk/docs/../x", "/desk/x")))
		require.False(t, g.Covers(read("/desk/docs/../x", "/desk/docs/../x")), "were it not resolved")
		require.False(t, g.Covers(read("/desk/docs/a", "/desk/Docs/a")))
		unknown := read("/desk/docs/a", "")
		unknown.Paths = nil
		require.False(t, g.Covers(unknown), "where it leads to is not known")
	})
}
