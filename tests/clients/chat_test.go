// Package clients tests the clients of npm that talk to threads without a browser, and the types of the page and of its client.
package clients

import (
	"path"
	"slices"
	"testing"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/chats"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestAISDK talks to threads with the AI SDK's own clients, and the transport of @ai-sdk/workflow: tests/npm/aisdk.mjs has the scenarios.
func TestAISDK(t *testing.T) {
	more := []string{"agents", "sources", "retried call", "two agents ask", "assumed otherwise", "missed end", "nothing new"}
	for column, version := range []string{"ai6", "ai7", "workflow"} {
		if version == "workflow" {
			more = nil // its transport is in the table
		}
		client(t, version, slices.Concat(scenarios(column), more), "aisdk.mjs", version)
	}
}

// TestAGUI talks to threads with AG-UI's own clients: the newest, and the one that frontends in the field have.
// tests/npm/agui.mjs has the scenarios.
func TestAGUI(t *testing.T) {
	more := []string{"tools", "agents", "sub-agent", "sources", "two agents ask", "order", "events once", "retried call"}
	for i, name := range []string{"@ag-ui/client", "agui-old"} {
		client(t, path.Base(name), slices.Concat(scenarios(columnAGUI+i), more), "agui.mjs", name)
	}
}

// TestEventSource follows threads with nothing but EventSource: tests/npm/eventsource.mjs has the scenarios.
func TestEventSource(t *testing.T) {
	client(t, "eventsource", scenarios(columnEventSource), "eventsource.mjs")
}

// client runs the scenarios of a client, beside those of others.
func client(t *testing.T, name string, scenarios []string, script string, args ...string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		var scripts proc.Scripts
		defer scripts.Stop()
		worlds := chats.Worlds{T: t}
		for _, scenario := range scenarios {
			t.Run(scenario, func(t *testing.T) {
				scripts.Run(t, script, slices.Concat(args, []string{worlds.For(scenario).API.URL, scenario})...)
			})
		}
	})
}

// TestPageClient cuts the connection of the page's client at 100 random points: it shows the same as
// one without cuts.
func TestPageClient(t *testing.T) {
	t.Parallel()
	w := chats.New(t, "cuts")
	proc.Output(t, testenv.Node(t, "client.mjs", w.API.URL))
}
