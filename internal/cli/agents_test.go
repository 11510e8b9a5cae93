package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
)

// agentsWorld is the program with the real API: stored agents need no threads.
type agentsWorld struct {
	*world
	store teststore.Store
	api   string
}

func newAgentsWorld(t *testing.T) *agentsWorld {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, live.Close()) })
	handler, err := server.New(server.Config{
		Threads: struct{ server.Threads }{}, Backend: backend.Backend{
			Store: db, Stream: live, Library: library.New(library.Config{Store: db}), Known: names.Known{Tools: []string{"current_time"}}, Models: []string{"demo"},
			Agents: agent.Fixed{{Name: "helper", Model: "demo/demo", Description: "repeats what it is told"}},
		},
	})
	require.NoError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return &agentsWorld{world: newWorld(t), store: db, api: srv.URL}
}

func (w *agentsWorld) agents(stdin string, args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.run(stdin, append([]string{"--api", w.api, "agents"}, args...)...)
}

// ok runs a command that succeeds, and returns its output.
func (w *agentsWorld) ok(stdin string, args ...string) string {
	w.t.Helper()
	code, out, errs := w.agents(stdin, args...)
	require.Equal(w.t, exitOK, code, errs)
	require.Empty(w.t, errs)
	return out
}

const clerkYAML = `name: Clerk
description: keeps the books
model: demo/demo
instructions: |
  Be brief.
  <b>Be kind.</b>
tools: [current_time]
approvals: {"*": always}
limits:
  modelTimeout: 90s
`

func TestAgentCommands(t *testing.T) {
	w := newAgentsWorld(t)
	require.Equal(t, "AGENT   MODEL      SOURCE      VERSION  DESCRIPTION\nhelper  demo/demo  configured  -        repeats what it is told\n", w.ok("", "list"))

	file := filepath.Join(t.TempDir(), "clerk.yaml")
	require.NoError(t, os.WriteFile(file, []byte(clerkYAML), 0o600))
	require.Equal(t, "Clerk version 1\n", w.ok("", "set", "-f", file))
	require.Equal(t, "Clerk version 1\n", w.ok("", "set", "-f", file), "what is stored already is no new version")
	stored, err := w.store.Agent(t.Context(), "default", "clerk")
	require.NoError(t, err)
	require.Equal(t, "ann", stored.By)
	require.JSONEq(t, `{"name":"Clerk","description":"keeps the books","instructions":"Be brief.\n<b>Be kind.</b>\n","model":"demo/demo",
		"tools":["current_time"],"approvals":{"*":"always"},"limits":{"modelTimeout":"1m30s"}}`, string(stored.Definition))

	t.Run("what is shown can be set", func(t *testing.T) {
		shown := w.ok("", "show", "clerk")
		require.True(t, strings.HasPrefix(shown, "# Clerk: stored, version 1, by ann, "), shown)
		require.Contains(t, shown, "\ninstructions: |\n  Be brief.\n  <b>Be kind.</b>\nmodel: demo/demo\n")
		require.Equal(t, "Clerk version 1\n", w.ok(shown, "set", "-f", "-"))
		require.Equal(t, "Clerk version 2\n", w.ok(strings.Replace(shown, "brief", "loud", 1), "set", "-f", "-", "--if-version", "1", "--by", "bob"))
		helper := w.ok("", "show", "helper")
		require.Equal(t, "# helper: configured\nname: helper\ndescription: repeats what it is told\nmodel: demo/demo\n", helper)
	})
	t.Run("JSON as well", func(t *testing.T) {
		out := w.ok("{\n\t\"name\": \"clerk\",\n\t\"model\": \"demo/small\"\n}", "set", "-f", "-", "--json")
		var set struct {
			Version    int         `json:"version"`
			Definition agent.Agent `json:"definition"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &set))
		require.Equal(t, 3, set.Version)
		require.Equal(t, agent.Agent{Name: "clerk", Model: "demo/small"}, set.Definition)
		require.Contains(t, w.ok("", "show", "clerk", "--json"), `"model": "demo/small"`)
		require.Contains(t, w.ok("", "list", "--json"), `"source": "configured"`)
	})
	t.Run("warnings", func(t *testing.T) {
		code, out, errs := w.agents(`{"name": "clerk", "model": "dmeo/small"}`, "set", "-f", "-")
		require.Equal(t, exitOK, code)
		require.Equal(t, "clerk version 4\n", out)
		require.Equal(t, "warning: model: there is no provider \"dmeo\", so that the agent cannot answer; there are demo\n", errs)
	})
	t.Run("delete and history", func(t *testing.T) {
		require.Equal(t, "clerk deleted\n", w.ok("", "delete", "clerk", "--if-version", "4"))
		lines := strings.Split(w.ok("", "history", "clerk"), "\n")
		require.Len(t, lines, 7)
		require.Regexp(t, `^VERSION +AT +BY +MODEL +INSTRUCTIONS$`, lines[0])
		require.Regexp(t, `^5 +\S+ \S+ +ann +- +deleted$`, lines[1])
		require.Regexp(t, `^2 +\S+ \S+ +bob +demo/demo +Be loud. <b>Be kind.</b>$`, lines[4])
		require.Len(t, strings.Split(w.ok("", "history", "clerk", "--limit", "1"), "\n"), 3)
		require.Contains(t, w.ok("", "history", "clerk", "--json"), `"deleted": true`)
		require.NotContains(t, w.ok("", "list"), "clerk")
	})
}

func TestAgentCommandMistakes(t *testing.T) {
	w := newAgentsWorld(t)
	w.ok(clerkYAML, "set", "-f", "-")
	for _, c := range []struct {
		name, stdin, args string
		code              int
		problem           string
	}{
		{"unknown", "", "show nobody", exitFailed, `starter: reading agent "nobody": the API answers 404: unknown agent: "nobody"; known are [Clerk helper]`},
		{"not stored", "", "delete helper", exitFailed, `agent "helper" is configured, not stored`},
		{"no history", "", "history nobody", exitFailed, `no agent "nobody" is stored`},
		{"conflict", clerkYAML, "set -f - --if-version 0", exitFailed, `its newest version is 1, not 0`},
		{"a field", "name: x\nmodel: demo/demo\nprompt: y", "set -f -", exitFailed, "body.prompt"},
		{"a tool", "name: x\nmodel: demo/demo\ntools: [rm]", "set -f -", exitFailed, `body.tools[0]: unknown tool "rm"`},
		{"no file", "", "set", exitUsage, "--file is required"},
		{"no such file", "", "set -f /nonexistent", exitUsage, "no such file"},
		{"no YAML", "name: [", "set -f -", exitUsage, "-: "},
		{"a list", "- name: x", "set -f -", exitUsage, "sequence was used where mapping is expected"},
		{"twice", "name: x\nname: y", "set -f -", exitUsage, `"name" already defined`},
		{"two documents", "name: x\n---\nname: y", "set -f -", exitUsage, "a second document begins"},
		{"no name", "model: demo/demo", "set -f -", exitUsage, "-: name is required"},
		{"nothing", "", "set -f -", exitUsage, "-: name is required"},
		{"too large", strings.Repeat(" ", maxAgentFile+1), "set -f -", exitUsage, "is larger than"},
		{"no version", clerkYAML, "set -f - --if-version -2", exitUsage, "--if-version is -2"},
		{"no limit", "", "history clerk --limit 101", exitUsage, "--limit is 101, must be 1 to 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := w.agents(c.stdin, strings.Fields(c.args)...)
			require.Equal(t, c.code, code, errs)
			require.Empty(t, out)
			require.Contains(t, errs, c.problem)
		})
	}
	_, _, errs := w.run("", "--api", "http://127.0.0.1:1", "agents", "list")
	require.Contains(t, errs, "the Threadmill API does not answer at http://127.0.0.1:1")
}
