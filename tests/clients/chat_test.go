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
		for _, scenario := range slices.Concat(scenarios(column), more) {
			t.Run(version+" "+scenario, func(t *testing.T) {
				t.Parallel()
				w := chats.New(t, scenario)
				proc.Output(t, testenv.Node(t, "aisdk.mjs", version, w.API.URL, scenario))
			})
		}
	}
}

// TestAGUI talks to threads with AG-UI's own clients: the newest, and the one that frontends in the field have.
// tests/npm/agui.mjs has the scenarios.
func TestAGUI(t *testing.T) {
	more := []string{"tools", "agents", "sub-agent", "sources", "two agents ask", "order", "events once", "retried call"}
	for i, client := range []string{"@ag-ui/client", "agui-old"} {
		for _, scenario := range slices.Concat(scenarios(columnAGUI+i), more) {
			t.Run(path.Base(client)+" "+scenario, func(t *testing.T) {
				t.Parallel()
				w := chats.New(t, scenario)
				proc.Output(t, testenv.Node(t, "agui.mjs", client, w.API.URL, scenario))
			})
		}
	}
}

// TestEventSource follows threads with nothing but EventSource: tests/npm/eventsource.mjs has the scenarios.
func TestEventSource(t *testing.T) {
	for _, scenario := range scenarios(columnEventSource) {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			proc.Output(t, testenv.Node(t, "eventsource.mjs", chats.New(t, scenario).API.URL, scenario))
		})
	}
}

// TestPageClient cuts the connection of the page's client at 100 random points: it shows the same as
// one without cuts.
func TestPageClient(t *testing.T) {
	t.Parallel()
	w := chats.New(t, "cuts")
	proc.Output(t, testenv.Node(t, "client.mjs", w.API.URL))
}
