package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// hostile starts a raw server, in a directory of its own.
func hostile(t *testing.T, server string, change ...func(*mcp.Server)) (*mcp.Manager, string) {
	t.Helper()
	s := program("raw", server)
	s.Dir = t.TempDir()
	for _, c := range change {
		c(&s)
	}
	return run(t, mcp.Config{Servers: []mcp.Server{s, program("other", "simple")}}), s.Dir
}

func timeout(d time.Duration) func(*mcp.Server) { return func(s *mcp.Server) { s.Timeout = d } }

// requireOther checks that other servers still work.
func requireOther(t *testing.T, m *mcp.Manager) {
	t.Helper()
	ready(t, m, "other")
	out := tooltest.Run(t, find(t, m, "other__greet"), `{"name":"Ann"}`)
	require.NoError(t, out.Err)
	require.Equal(t, "Hello, Ann", out.Result.Output)
}

func TestHostileCalls(t *testing.T) {
	for _, tt := range []struct {
		server  string
		timeout time.Duration
		want    string
		dies    bool
	}{
		{"invalid-json", 300 * time.Millisecond, `raw__do of the MCP server "raw": it did not answer within 300ms, and the call was cancelled. The call may have taken effect.`, false},
		{"broken-envelope", 0, `raw__do of the MCP server "raw": the connection ended during the call: `, true},
		{"not-a-result", 0, `raw__do of the MCP server "raw": the server did not answer correctly: `, false},
		{"large", 0, `raw__do of the MCP server "raw": the connection ended during the call: the server sent a message of more than 10 MiB. The call may have taken effect.`, true},
		{"silent", 300 * time.Millisecond, `raw__do of the MCP server "raw": it did not answer within 300ms, and the call was cancelled. The call may have taken effect.`, false},
		{"crash", 0, `raw__do of the MCP server "raw": the connection ended during the call: its program ended with exit code 7. The call may have taken effect.`, true},
		{"error", 0, `raw__do of the MCP server "raw": the server answered with an error: disk\u001b[2J full (-32603). The call may have taken effect.`, false},
	} {
		t.Run(tt.server, func(t *testing.T) {
			m, _ := hostile(t, tt.server, timeout(tt.timeout))
			ready(t, m, "raw")
			out := tooltest.Run(t, find(t, m, "raw__do"), `{}`)
			require.ErrorContains(t, out.Err, tt.want)
			if tt.dies {
				s := reaches(t, m, "raw", func(s mcp.State) bool { return s.Restarts > 0 && s.Status == tool.ServerReady })
				require.Empty(t, s.Error)
			}
			ready(t, m, "raw")
			requireOther(t, m)
		})
	}
}

func TestHostileLists(t *testing.T) {
	t.Run("10,000 tools", func(t *testing.T) {
		m, _ := hostile(t, "many")
		s := ready(t, m, "raw")
		require.Len(t, s.Tools, mcp.DefaultMaxTools)
		require.Contains(t, s.Problems[len(s.Problems)-1].Reason, "more than 128 tools (maxTools)")
		requireOther(t, m)
	})
	t.Run("a list of 50 MB", func(t *testing.T) {
		m, _ := hostile(t, "large-list")
		s := reaches(t, m, "raw", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
		require.Contains(t, s.Error, "the server sent a message of more than 10 MiB")
		require.NotNil(t, s.NextAttempt)
		require.Empty(t, m.Tools(t.Context(), "default", []string{"raw__*"}))
		requireOther(t, m)
	})
	t.Run("no answer at all", func(t *testing.T) {
		m, _ := hostile(t, "mute", func(s *mcp.Server) { s.StartTimeout = 200 * time.Millisecond })
		s := reaches(t, m, "raw", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
		require.Equal(t, "it did not answer within 200ms", s.Error)
		requireOther(t, m)
	})
	t.Run("no such program", func(t *testing.T) {
		m, _ := hostile(t, "", func(s *mcp.Server) { s.Command = []string{"no-such-program-anywhere"} })
		s := reaches(t, m, "raw", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
		require.Contains(t, s.Error, "exit code 127")
		require.Contains(t, s.Log, "no-such-program-anywhere")
	})
	t.Run("death by the new protocol", func(t *testing.T) {
		m, _ := hostile(t, "old")
		require.Equal(t, 1, ready(t, m, "raw").Restarts)
	})
	t.Run("other lines on stdout", func(t *testing.T) {
		m, _ := hostile(t, "chatty")
		s := ready(t, m, "raw")
		require.Equal(t, "Server is starting …\n"+`{"level":"info","msg":"started"}`+"\n"+`{"jsonrpc":2,"id":1}`+"\n"+`{"jsonrpc":"2.0","id":{},"result":{}}`+"\n"+`{"jsonrpc":"2.0","msg":"started"}`+"\n[]\n"+`[{"level":"info"}]`, s.Log)
		require.Zero(t, s.Restarts)
		require.Equal(t, "done", tooltest.Run(t, find(t, m, "raw__do"), `{}`).Result.Output)
	})
	t.Run("a byte order mark on stdout", func(t *testing.T) {
		m, _ := hostile(t, "byte-order-mark")
		require.Zero(t, ready(t, m, "raw").Restarts)
	})
}

// TestOddTools: a tool that cannot be offered is left out with the reason, and the others work.
func TestOddTools(t *testing.T) {
	var log testenv.Buffer
	m := run(t, mcp.Config{Servers: []mcp.Server{program("raw", "odd"), program("other", "simple")}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := ready(t, m, "raw")
	require.Contains(t, log.String(), `level=WARN msg="MCP server has a problem" mcpServer=raw subject=none reason="the tool is left out: it has no schema of its arguments`)
	require.Equal(t, `Use me.\u001b[2J`, s.Instructions)
	names := map[string]mcp.Tool{}
	for _, one := range s.Tools {
		names[one.Name] = one
		require.Equal(t, one.Description, term.Escape(one.Description))
		require.NotZero(t, one.FirstSeen)
	}
	require.Equal(t, "first", names["raw__twice"].Description)
	require.Contains(t, names, "raw__good_"+hashOf("good"), "GOOD comes first, and approvals do not tell case apart")
	require.Equal(t, "GOOD", names["raw__GOOD"].OwnName)
	good := names["raw__good_"+hashOf("good")]
	require.Equal(t, `\u001b[2JIs \u202egood.`, good.Description)
	require.Contains(t, string(good.Parameters), `a\\u0007b`)
	require.Contains(t, names, "raw__with_space_and_dots_"+hashOf("with space/and.dots"))
	long := strings.Repeat("long", 40)
	require.Contains(t, names, ("raw__" + long)[:64-9]+"_"+hashOf(long))
	require.Contains(t, names, "raw__loop")
	require.Contains(t, names, "raw__tree")
	require.Contains(t, names, "raw__fat", "long prose is cut")
	require.Len(t, names, 10, "%v", slices.Sorted(maps.Keys(names)))
	problems := map[string]string{}
	for _, p := range s.Problems {
		problems[p.Subject] = p.Reason
	}
	for subject, want := range map[string]string{
		"twice":      "a second tool has the same name",
		"":           "it has no name",
		`bell\u0007`: "its name has control characters",
		"none":       "it has no schema of its arguments",
		"text":       "its inputSchema is not a JSON Schema",
		"array":      `must have the type "object"`,
		"wrong":      "its inputSchema is not valid",
		"wrongtype":  `has the unknown type "strange"`,
		"deep":       "nested more than 32 levels deep",
		"bomb":       "too complex",
		"remote":     "refers to another document",
		"lost":       "has a reference that leads nowhere",
		"decoy":      "has a reference that leads nowhere",
		"enum":       "has a value with control characters",
		"fatenum":    "must have at most 65536",
	} {
		require.Contains(t, problems[subject], want, "%q in %v", subject, problems)
	}
	for _, name := range []string{"raw__loop", "raw__tree", "raw__hiddenloop", "raw__anchor"} {
		out := tooltest.Run(t, find(t, m, name), `{"left":{"right":{"left":{}}},"default":{"default":{}},"enum":{"enum":1}}`)
		require.NoError(t, out.Err)
		require.Equal(t, "done", out.Result.Output)
	}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "sk-")
	requireOther(t, m)
}

// TestCancel: a cancelled call returns at once, the server is told, and a late answer harms nobody.
func TestCancel(t *testing.T) {
	m, dir := hostile(t, "late")
	ready(t, m, "raw")
	done, _, cancel := tooltest.Start(t, find(t, m, "raw__do"), `{}`)
	appears(t, filepath.Join(dir, "held"))
	cancel()
	out := tooltest.Wait(t, done)
	require.ErrorContains(t, out.Err, "the call was cancelled. The call may have taken effect.")
	require.ErrorIs(t, out.Err, context.Canceled)
	again := tooltest.Run(t, find(t, m, "raw__do"), `{}`)
	require.NoError(t, again.Err)
	require.Equal(t, "second", again.Result.Output)
	require.Zero(t, state(t, m, "raw").Restarts)
}

func TestCancelIsSent(t *testing.T) {
	m, dir := hostile(t, "silent")
	ready(t, m, "raw")
	done, _, cancel := tooltest.Start(t, find(t, m, "raw__do"), `{}`)
	cancel()
	require.Error(t, tooltest.Wait(t, done).Err)
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "notes"))
		return strings.Contains(string(raw), "notifications/cancelled")
	}, testenv.Patience, time.Millisecond)
}

// TestFullPipe: a call returns in time although the server does not read it.
func TestFullPipe(t *testing.T) {
	m, _ := hostile(t, "full", timeout(300*time.Millisecond))
	ready(t, m, "raw")
	do := find(t, m, "raw__do")
	require.Error(t, tooltest.Run(t, do, `{}`).Err)
	out := tooltest.Run(t, do, `{"text":"`+strings.Repeat("x", 1<<20)+`"}`)
	require.ErrorContains(t, out.Err, "did not answer within 300ms")
	requireOther(t, m)
}

// TestFlood: a server that floods stderr, progress and log messages is slowed down, and its answer arrives.
func TestFlood(t *testing.T) {
	m, _ := hostile(t, "flood")
	ready(t, m, "raw")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := tooltest.Run(t, find(t, m, "raw__do"), `{}`)
	require.NoError(t, out.Err)
	require.Equal(t, "after the flood", out.Result.Output)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(20<<20))
	shown := out.Progress.Items()
	require.NotEmpty(t, shown)
	require.Less(t, len(shown), 300)
	require.NotContains(t, shown[0].(mcp.Progress).Message, "\x1b")
}

// TestListChanges: a changed list is offered, and says which tool changed.
func TestListChanges(t *testing.T) {
	m, _ := hostile(t, "changes")
	before := ready(t, m, "raw").Tools[0]
	require.Nil(t, before.ChangedAt)
	require.NoError(t, tooltest.Run(t, find(t, m, "raw__do"), `{}`).Err)
	s := reaches(t, m, "raw", func(s mcp.State) bool { return len(s.Tools) == 2 })
	require.Equal(t, "Does more.", s.Tools[0].Description)
	require.Equal(t, before.FirstSeen, s.Tools[0].FirstSeen)
	require.NotNil(t, s.Tools[0].ChangedAt)
	require.NotEqual(t, before.Digest, s.Tools[0].Digest)
	require.Nil(t, s.Tools[1].ChangedAt)
	require.Equal(t, s.Tools[0].Digest, find(t, m, "raw__do").Definition().Digest(), "approvals compare it")
}

// TestDeathInACall: the next call waits for the restarted server.
func TestDeathInACall(t *testing.T) {
	m, _ := hostile(t, "crash-once")
	ready(t, m, "raw")
	do := find(t, m, "raw__do")
	require.ErrorContains(t, tooltest.Run(t, do, `{}`).Err, "its program ended with exit code 7")
	out := tooltest.Run(t, do, `{}`)
	require.NoError(t, out.Err)
	require.Equal(t, "done", out.Result.Output)
}

func appears(t *testing.T, path string) []byte {
	t.Helper()
	var content []byte
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(path)
		content = raw
		return err == nil
	}, testenv.Patience, time.Millisecond, path)
	return content
}
