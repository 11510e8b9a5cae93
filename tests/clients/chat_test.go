package clients

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/entities"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

// chats starts a harness for the scenarios of a client, with two agents. Pages of these origins may use it.
func chats(t *testing.T, scenario string, origins ...string) *harness.Harness {
	ask := tool.MustFunc("ask", "Asks.", func(_ context.Context, _ tool.Call, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return "asked: " + in.Text, nil
	})
	locate := tool.Client(tool.Definition{Name: "locate", Description: "Where the person is."})
	exactly := tool.Client(tool.Definition{Name: "locate_exactly", Description: "Where exactly the person is.", NeedsApproval: true})
	hurry := tool.MustFunc("hurry", "Asks, and does not wait long.", func(context.Context, tool.Call, struct{}) (string, error) { return "hurried", nil })
	report := tool.MustFunc("report", "Reports its progress.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		call.Progress("half")
		call.Progress(map[string]bool{"done": true})
		return "reported", nil
	})
	assistant := func(name string) agent.Agent {
		return agent.Agent{
			Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "ask", "locate", "locate_exactly", "hurry", "report", "call_agent", "book"},
			Approvals:     map[string]agent.Policy{"ask": agent.PolicyAlways},
			ApprovalRules: []approval.Rule{{Name: "soon", Tools: []string{"hurry"}, Effect: approval.EffectAsk, Terms: approval.Terms{Expires: time.Second}}},
		}
	}
	attempts := 1
	if scenario == "retried call" {
		attempts = 2
	}
	o := harness.Options{
		Tools: []tool.Tool{ask, locate, exactly, hurry, report, &harness.Booking{}}, Agents: []agent.Agent{assistant("assistant"), assistant("second")}, MaxModelAttempts: attempts,
	}
	switch scenario {
	case "sources", "events once":
		o = withKnowledge(o)
	case "keys and roles":
		o.Configure = func(cfg *threadmill.Config) {
			keys, err := auth.NewKeys(auth.KeysConfig{Store: cfg.Store})
			require.NoError(t, err)
			cfg.Authenticator = keys
		}
	}
	if origins != nil {
		o.Configure = func(cfg *threadmill.Config) { cfg.AllowedOrigins = origins }
	}
	w := harness.New(t, o)
	switch scenario {
	case "sources", "events once":
		teach(w)
	case "error":
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	case "retried call":
		w.Provider.Fail(llmtest.Drop(10))
	}
	return w
}

// withKnowledge gives the agents passages, and facts about people.
func withKnowledge(o harness.Options) harness.Options {
	for i := range o.Agents {
		o.Agents[i].Knowledge = agent.Knowledge{Passages: 5, Entities: true}
	}
	o.Provider.Script = func(req llm.Request) string {
		if strings.HasPrefix(req.Messages[0].Content, entities.FindInstructions) {
			return `{"entities":[]}`
		}
		return ""
	}
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge = threadmill.Knowledge{Embedder: "google/stand-in-embedding", EntityModel: "openai/stand-in"}
	}
	return o
}

// teach adds two documents, and a fact about Sarah.
func teach(w *harness.Harness) {
	documents := w.Runtime.Documents()
	for source, text := range map[string]string{
		"vacation.md": "# Handbook\n\n## Vacation\n\nEverybody has thirty days of vacation.",
		"travel.md":   "# Handbook\n\n## Travel\n\nTrips on vacation are private.",
	} {
		d, err := documents.Add(w.Ctx(), threadmill.NewDocument{Source: source, Content: []byte(text)})
		require.NoError(w.T, err)
		_, err = documents.Await(w.Ctx(), d.ID)
		require.NoError(w.T, err)
	}

	x := store.Extraction{ID: "x", ThreadID: "other", SourceType: "message", SourceID: "m"}
	require.NoError(w.T, w.Store.QueueExtraction(w.Ctx(), w.TaskQueue, x))
	_, err := w.Store.EndExtraction(w.Ctx(), w.TaskQueue, x.ID, store.EntitiesFound{New: []store.NewEntity{{ID: "sarah", Name: "Sarah", Type: "person", Description: "works at Acme"}}})
	require.NoError(w.T, err)
}

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
				w := chats(t, scenario)
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
				w := chats(t, scenario)
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
			proc.Output(t, testenv.Node(t, "eventsource.mjs", chats(t, scenario).API.URL, scenario))
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
	w := chats(t, "cuts")
	proc.Output(t, testenv.Node(t, "client.mjs", w.API.URL))
}
