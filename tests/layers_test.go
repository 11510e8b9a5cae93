package tests

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the layers of the root module, from the bottom up: a package imports packages of its
// own line and of those above it.
var layers = [][]string{
	{"internal/strictjson", "internal/text/excerpt", "internal/ops/filelock", "internal/guard", "internal/guard/publicnet", "internal/program/httpserver", "internal/names/near", "internal/observe/outage", "internal/buildinfo", "redact"},
	{"event", "document"},
	{"internal/text/term", "internal/config/strictyaml", "internal/recordid", "internal/process", "internal/observe/traceparent"},
	{"approval"},
	{"agent", "tool", "hook", "rule", "llm"},
	{"store"},
	{"stream"},
	{"auth"},
	{"signals"},
	{"internal/job", "internal/ops/searchattr", "internal/redaction", "internal/erasures/forget", "internal/observe/tracing", "telemetry"},
	{"webhook"},
	{"internal/step", "internal/names/addressing"},
	{"internal/thread", "internal/turn", "internal/transcript", "internal/transcript/modelcontext", "internal/library/knowledge", "internal/names/builtin", "internal/names", "internal/names/registry", "internal/mcp/sealed", "internal/mcp/toolserver", "internal/ops/modellimit"},
	{"internal/library/document", "internal/library/fetch", "internal/library/tokens"},
	{"internal/library", "internal/library/entities"},
	{"internal/ops/deployment", "internal/ops/gate"},
	{"internal/ops/queueowner"},
	{"internal/ops/doctor", "internal/ops/recovery", "internal/ops/repair", "internal/ops/retention"},
	{"signals/threadclient", "internal/erasures", "internal/erasures/export", "internal/ops/scheduleversions"},
	{"internal/ops/histories"},
	{"internal/ops/configdiff"},
	{"activities"},
	{"workflows"},
	{"internal/observe", "internal/ops/reconcile"},
	{"internal/config", "internal/feed", "internal/text/markdown", "internal/page", "internal/server/presence", "internal/api", "clients"},
	{"internal/feed/projection", "internal/chat", "internal/mcp/mcpserver", "internal/mcp/mcplogin"},
	{"world"},
	{"internal/backend"},
	{"internal/server"},
	{".", "document/formats"},
	{"httpapi"},
	{"internal/program"},
	{"app"},
	{"worker", "internal/cli", "starter"},
}

// boundary restricts the packages that the packages of some rooms may reach, directly or
// indirectly. A path without a dot in its first element belongs to the root module or to the
// standard library.
type boundary struct {
	name string

	// rooms are packages with those inside them. None = the whole root module.
	rooms []string

	// only are the permitted packages outside the standard library; nil = all.
	only []string

	// never are forbidden packages, with those inside them. One that ends in /... means only those
	// inside.
	never []string

	// plain forbids reachable packages of the root module to import packages of the standard
	// library with I/O or randomness. Only direct imports count: everything reaches os through fmt.
	plain bool
}

var boundaries = []boundary{
	{
		name:  "the vocabulary needs the standard library and strict JSON only",
		rooms: []string{"event", "internal/strictjson"},
		only:  []string{"event", "internal/strictjson"},
	},
	{
		name:  "what an application declares knows no Temporal",
		rooms: []string{"redact", "agent", "tool", "hook", "rule", "webhook", "llm", "store", "stream", "auth"},
		never: []string{"go.temporal.io"},
	},
	{
		name:  "X10 S4-65 models' drivers run no tools, store nothing and approve nothing",
		rooms: []string{"llm"},
		never: []string{"tool", "store", "stream", "approval", "activities", "workflows", "internal/thread", "internal/step", "signals", "go.temporal.io"},
	},
	{
		name:  "S4-109 decisions are plain Go, without Temporal, I/O or chance",
		rooms: []string{"internal/thread", "internal/turn", "internal/step", "internal/names/addressing", "internal/library/knowledge"},
		only:  []string{"event", "hook", "signals", "internal/recordid", "internal/strictjson", "internal/observe/traceparent", "internal/job", "internal/step", "internal/names/addressing", "internal/thread", "internal/turn", "internal/transcript/modelcontext", "internal/library/knowledge", "document", "rule", "github.com/oklog/ulid/v2", "github.com/google/uuid"},
		plain: true,
	},
	{
		name:  "workflows reach the world through activities only",
		rooms: []string{"workflows"},
		never: []string{"store", "stream", "llm", "tool", "agent", "activities", "signals/threadclient", "internal/server", "internal/config"},
		plain: true,
	},
	{
		name:  "activities know the contract of steps, not a thread's state",
		rooms: []string{"activities"},
		never: []string{"internal/thread", "workflows"},
	},
	{
		name:  "activities and the API know ports, not drivers",
		rooms: []string{"activities", "auth", "internal/server", "internal/feed", "internal/chat", "internal/feed/projection", "world"},
		never: []string{"store/...", "stream/...", "llm/...", "tool/..."},
	},
	{
		name:  "views and the API read records, not a thread's state",
		rooms: []string{"internal/feed", "internal/chat", "internal/feed/projection", "internal/server", "world"},
		never: []string{"internal/thread", "internal/step", "workflows", "activities"},
	},
	{
		name:  "the library chooses no driver but the stream in memory",
		rooms: []string{"."},
		never: []string{"store/...", "stream/nats", "llm/...", "tool/...", "internal/config"},
	},
	{
		name:  "importers of the library compile no HTTP API, no page, no MCP and no parsers of documents",
		rooms: []string{"."},
		never: []string{"internal/server", "internal/page", "internal/text/markdown", "internal/mcp/mcpserver", "internal/library/document", "github.com/modelcontextprotocol"},
	},
	{
		name: "whoever imports the library gets no Temporal server and no tests of ours",
		never: []string{
			"go.temporal.io/server", "github.com/temporalio/ui-server",
			module + "/devserver", module + "/tests", module + "/bench", module + "/threadmilltest", module + "/examples",
		},
	},
}

// impure are the packages that plain packages must not import.
var impure = []string{
	"bufio", "crypto/rand", "database/sql", "io/fs", "log", "math/rand", "net", "os", "syscall",
}

func TestLayers(t *testing.T) {
	g := importsOf(t, "./...")
	for _, b := range boundaries {
		t.Run(b.name, func(t *testing.T) { require.Empty(t, g.breaches(b)) })
	}
	t.Run("the SDKs of clouds reach only those who ask for a cloud", func(t *testing.T) {
		for sdk, importers := range map[string]string{
			"github.com/aws": "llm/anthropic/bedrock", "github.com/anthropics/anthropic-sdk-go/bedrock": "llm/anthropic/bedrock", "golang.org/x/oauth2": "internal/mcp/mcplogin llm/anthropic/vertex",
			"llm/anthropic/bedrock": "internal/program", "llm/anthropic/vertex": "internal/program",
		} {
			require.Equal(t, strings.Fields(importers), g.importers(sdk), sdk)
		}
	})
	t.Run("S4-109 imports go one way", func(t *testing.T) { require.Empty(t, g.upward(layers)) })
}

// TestLayersAreWatched: breaches are found, even through other packages.
func TestLayersAreWatched(t *testing.T) {
	g := graph{
		"event":           {"fmt", "os"},
		"signals":         {"event", "go.temporal.io/sdk/client"},
		"internal/thread": {"signals", "strings"},
		"store":           {"event"},
		"store/sqlite":    {"store", "modernc.org/sqlite"},
		"store/storetest": {"store", "testing"},
		"workflows":       {"internal/thread", "activities"},
		"activities":      {"store", "store/sqlite", "store/storetest"},
		"lost":            {"event"},
		".":               {"workflows"},

		"go.temporal.io/sdk/client": {"net"},
		"modernc.org/sqlite":        {"go.temporal.io/server/common"},
	}
	tests := map[string]struct {
		boundary
		want []string
	}{
		"own import":      {boundary{rooms: []string{"event"}, plain: true}, []string{"event → os"}},
		"through others":  {boundary{rooms: []string{"workflows"}, never: []string{"store"}}, []string{"workflows → activities → store", "workflows → activities → store/sqlite", "workflows → activities → store/storetest"}},
		"inside only":     {boundary{rooms: []string{"activities"}, never: []string{"store/..."}}, []string{"activities → store/sqlite", "activities → store/storetest"}},
		"all rooms":       {boundary{never: []string{"go.temporal.io/server"}}, []string{"store/sqlite → modernc.org/sqlite → go.temporal.io/server/common"}},
		"beyond":          {boundary{rooms: []string{"internal/thread"}, never: []string{"go.temporal.io"}}, []string{"internal/thread → signals → go.temporal.io/sdk/client"}},
		"not on the list": {boundary{rooms: []string{"signals"}, only: []string{"event"}}, []string{"signals → go.temporal.io/sdk/client"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, g.breaches(tt.boundary)) })
	}
	t.Run("upward", func(t *testing.T) {
		require.Equal(t, []string{
			"activities → store/storetest: for tests only",
			"lost: in no layer",
			"workflows → activities: upward",
		}, g.upward([][]string{{"event"}, {"store"}, {"signals"}, {"internal/thread"}, {"workflows"}, {"activities"}, {"."}}))
	})
}

// maxThirdParty bounds the packages that a program with one agent compiles beside those of the project and of Go: 215 are Temporal's
// SDK and what it needs, 37 SQLite, 29 the expressions of rules, and 27 OpenTelemetry.
const maxThirdParty = 325

func TestWeight(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./hello")
	cmd.Dir = "../examples"
	out, err := cmd.Output()
	require.NoError(t, err)
	third := slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool { return strings.HasPrefix(path, module) })
	require.Greater(t, len(third), 200)
	require.LessOrEqual(t, len(third), maxThirdParty)
}

// TestModelsOnly: whoever calls a model by itself neither runs, stores nor announces anything.
func TestModelsOnly(t *testing.T) {
	t.Run("X10 S4-65 a package of models knows neither tools, store nor stream", func(t *testing.T) {
		for pkg := range importsOf(t, "./llm/...") {
			require.NotContains(t, []string{"tool", "store", "stream", "activities", "workflows", "signals", "agent", "internal/thread", "internal/step"}, pkg)
		}
	})
}
