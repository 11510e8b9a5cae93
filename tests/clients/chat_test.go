package clients

import (
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// TestClientsOfKilledServers kills the server while clients talk to it.
func TestClientsOfKilledServers(t *testing.T) {
	for name, command := range map[string][]string{
		"ai6": {"aisdk.mjs", "ai6"}, "ai7": {"aisdk.mjs", "ai7"}, "workflow": {"aisdk.mjs", "workflow"},
		"AG-UI": {"agui.mjs", "@ag-ui/client"}, "agui-old": {"agui.mjs", "agui-old"}, "EventSource": {"eventsource.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := proc.New(t, proc.Options{Binary: proc.Build(t)})
			d.Start()
			client := testenv.Node(t, command[0], append(command[1:], d.URL, killed)...)
			var out []byte
			ended := make(chan error)
			go func() {
				var err error
				out, err = client.CombinedOutput()
				ended <- err
			}()
			thread := killed
			if name == "EventSource" {
				thread = "t"
			}
			// A client whose first message was not taken has to say it again, which these do not.
			require.Eventually(t, func() bool { return len(d.Messages(thread)) > 0 }, proc.Patience, proc.Tick)
			for range 3 {
				time.Sleep(time.Second) // whatever it does then
				d.Kill()
				d.Start()
			}
			err := <-ended
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "resuming")
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
